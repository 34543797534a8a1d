//! Which path leads where.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};

use crate::page::{
    aborted_transactions, acls, alerts, broker, cluster_new, clusters, configs, connector, connector_changes,
    connector_configs, connector_new, connectors, delete_records, elections, follow, group, group_changes, group_reset,
    groups, hanging_transactions, lab, lab_capacity, lab_history, lab_progress, lab_scenario, message, messages, moves,
    overview, partition, partitions, produce, produce_many, quorum, quotas, reassign, replicas, schema, schemas,
    selected_topics, topic, topic_access, topic_changes, topics, transaction, transaction_changes, transactions, user,
    users,
};
use crate::{Console, api, assets, auth, bodies, csrf, events, failure, health, host_check, metrics, request_context};

/// Of forms: a record that is produced is the largest.
const BODY_BYTES_MAX: usize = 2 << 20;

fn plan_route(route: MethodRouter<Arc<Console>>) -> MethodRouter<Arc<Console>> {
    route.layer(DefaultBodyLimit::max(bodies::BODY_BYTES_MAX))
}

pub(crate) fn routes(console: Arc<Console>) -> Router {
    let cluster = Router::new()
        .route("/", get(overview::show))
        .route("/events", get(events::show))
        .route("/remove", get(cluster_new::remove_form).post(cluster_new::remove))
        .route("/charts/{chart}", get(overview::chart))
        .route("/alerts", get(alerts::show))
        .route("/alerts/alerts.yml", get(alerts::download))
        .route("/brokers/{broker}", get(broker::show))
        .route("/brokers/{broker}/charts/{chart}", get(broker::chart))
        .route("/brokers/{broker}/configs/{config}", get(configs::edit_of_broker).post(configs::change_of_broker))
        .route("/lab", get(lab::show).post(lab::start))
        .route("/lab/history/{suite}", get(lab_history::show))
        .route("/lab/capacity", get(lab_capacity::form).post(lab_capacity::start))
        .route("/lab/new-scenario", get(lab_scenario::new_form).post(lab_scenario::keep))
        .route("/lab/scenarios/{scenario}", get(lab_scenario::edit_form).post(lab_scenario::keep))
        .route("/lab/scenarios/{scenario}/delete", get(lab_scenario::delete_form).post(lab_scenario::delete))
        .route("/lab/runs/{run}", get(lab::run))
        .route("/lab/runs/{run}/charts/{chart}", get(lab_progress::chart))
        .route("/lab/runs/{run}/stop", post(lab::stop))
        .route("/lab/runs/{run}/report", get(lab::report))
        .route("/lab/runs/{run}/compare", get(lab::compare))
        .route("/partitions", get(partitions::show))
        .route("/partitions/elect", post(elections::elect_preferred))
        .route("/partitions/moves", get(moves::show))
        .route("/partitions/moves/cancel", get(moves::cancel_form).post(moves::cancel_all))
        .route("/partitions/moves/throttle", post(moves::throttle))
        .route("/partitions/reassign", get(reassign::form))
        .route("/partitions/reassign/review", plan_route(post(reassign::review)))
        .route("/partitions/reassign/json", plan_route(post(reassign::download)))
        .route("/partitions/reassign/run", plan_route(post(reassign::run)))
        .route("/partitions/{topic}/{partition}", get(partition::show))
        .route("/partitions/{topic}/{partition}/compare", get(replicas::compare))
        .route("/partitions/{topic}/{partition}/cancel", post(moves::cancel_one))
        .route("/partitions/{topic}/{partition}/elect", get(elections::unclean_form).post(elections::elect_unclean))
        .route(
            "/partitions/{topic}/{partition}/transactions/{start_offset}/abort",
            get(transaction_changes::abort_form).post(transaction_changes::abort),
        )
        .route("/quorum", get(quorum::show))
        .route("/aborted-transactions", get(aborted_transactions::show))
        .route("/hanging-transactions", get(hanging_transactions::show))
        .route("/transactions", get(transactions::show))
        .route("/transactions/{transactional_id}", get(transaction::show))
        .route(
            "/transactions/{transactional_id}/terminate",
            get(transaction_changes::terminate_form).post(transaction_changes::terminate),
        )
        .route("/topics", get(topics::show))
        .route("/topics/new", get(topic_changes::create_form).post(topic_changes::create))
        .route("/topics/{topic}", get(topic::show))
        .route("/topics/{topic}/chart", get(topic::chart))
        .route("/topics/{topic}/messages", get(messages::show))
        .route("/topics/{topic}/messages/download", get(messages::download))
        .route("/topics/{topic}/messages/follow", get(follow::show))
        .route("/topics/{topic}/messages/new", get(produce::form).post(produce::produce))
        .route("/topics/{topic}/messages/many", get(produce_many::form).post(produce_many::start))
        .route("/topics/{topic}/messages/many/{run}", get(produce_many::show))
        .route("/topics/{topic}/messages/many/{run}/stop", post(produce_many::stop))
        .route("/topics/{topic}/messages/{partition}/{offset}", get(message::show))
        .route("/topics/{topic}/messages/{partition}/{offset}/{field}", get(message::field))
        .route("/topics/{topic}/access", get(topic_access::show))
        .route("/topics/{topic}/configs", get(configs::of_topic))
        .route("/topics/{topic}/configs/{config}", get(configs::edit_of_topic).post(configs::change_of_topic))
        .route("/topics/{topic}/partitions", get(topic_changes::partitions_form).post(topic_changes::add_partitions))
        .route("/topics/{topic}/delete-records", get(delete_records::form).post(delete_records::delete))
        .route("/topics/{topic}/delete-records/preview", get(delete_records::preview))
        .route("/topics/{topic}/delete", get(topic_changes::delete_form).post(topic_changes::delete))
        .route("/selected-topics/config", get(selected_topics::configs::form).post(selected_topics::configs::change))
        .route("/selected-topics/delete", get(selected_topics::delete_form).post(selected_topics::delete))
        .route(
            "/selected-topics/delete-records",
            get(selected_topics::delete_records_form).post(selected_topics::delete_records),
        )
        .route("/connect", get(connectors::show))
        .route("/connect/new", get(connector_new::form).post(connector_new::create))
        .route("/connect/{connect}/{connector}", get(connector::show))
        .route("/connect/{connect}/{connector}/act", post(connector_changes::act))
        .route("/connect/{connect}/{connector}/tasks/{task}/restart", post(connector_changes::restart_task))
        .route("/connect/{connect}/{connector}/configs", get(connector_configs::form).post(connector_configs::change))
        .route(
            "/connect/{connect}/{connector}/delete",
            get(connector_changes::delete_form).post(connector_changes::delete),
        )
        .route("/schemas", get(schemas::show))
        .route("/schemas/{subject}", get(schema::show))
        .route("/users", get(users::show))
        .route("/users/new", get(users::create_form).post(users::create))
        .route("/users/of", get(user::find))
        .route("/users/{user}", get(user::show))
        .route("/users/{user}/password", get(users::password_form).post(users::set_password))
        .route("/users/{user}/delete", get(users::delete_form).post(users::delete))
        .route("/acls", get(acls::show))
        .route("/acls/new", get(acls::new_form).post(acls::add))
        .route("/acls/remove", get(acls::remove_form).post(acls::remove))
        .route("/quotas", get(quotas::show))
        .route("/quotas/edit", get(quotas::edit_form).post(quotas::change))
        .route("/groups", get(groups::show))
        .route("/groups/{group}", get(group::show))
        .route("/groups/{group}/charts/{chart}", get(group::chart))
        .route("/groups/{group}/reset", get(group_reset::form))
        .route("/groups/{group}/reset/preview", get(group_reset::preview).post(group_reset::reset))
        .route("/groups/{group}/offsets", get(group_changes::offsets_form).post(group_changes::delete_offsets))
        .route("/groups/{group}/delete", get(group_changes::delete_form).post(group_changes::delete))
        .layer(from_fn_with_state(Arc::clone(&console), request_context::with_navigation));
    Router::new()
        .route("/", get(clusters::show_first))
        .route("/clusters", get(clusters::show))
        .route("/add-cluster", get(cluster_new::form).post(cluster_new::add))
        .nest("/clusters/{cluster}", cluster)
        .nest("/api/v1", api::routes())
        .route("/assets/{name}", get(assets::show))
        .route("/login", get(auth::show).post(auth::log_in))
        .route("/logout", post(auth::log_out))
        .route("/metrics", get(metrics::show))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .fallback(failure::no_page)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&console), bodies::read))
        .layer(from_fn_with_state(Arc::clone(&console), auth::check))
        .layer(from_fn(csrf::check))
        .layer(from_fn(csrf::protect))
        .layer(from_fn_with_state(Arc::clone(&console), host_check::check))
        .with_state(console)
}
