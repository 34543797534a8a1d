//! `/api/v1`: what the pages show, as JSON. docs/console.md lists the fields; new ones may come, none goes.

mod access;
mod connect;
mod transactions;

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use client::TopicPartition;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::health_findings::groups::falls_behind;
use crate::health_findings::{findings, verdict};
use crate::history::History;
use crate::page::messages;
use crate::page::moves::Progress;
use crate::page::partitions::Filter;
use crate::page::quorum::health_name;
use crate::reconciliation::{self, Holder, Standing, Step};
use crate::request_context::RequestContext;
use crate::snapshot::{Broker, Group, Member, Partition, Topic};
use crate::{Console, page};

pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/clusters", get(clusters))
        .route("/clusters/{cluster}", get(cluster))
        .route("/clusters/{cluster}/status", get(status))
        .route("/clusters/{cluster}/alerts", get(alerts))
        .route("/clusters/{cluster}/brokers", get(brokers))
        .route("/clusters/{cluster}/topics", get(topics))
        .route("/clusters/{cluster}/topics/{topic}", get(topic))
        .route("/clusters/{cluster}/topics/{topic}/messages", get(messages))
        .route("/clusters/{cluster}/partitions", get(partitions))
        .route("/clusters/{cluster}/partitions/{topic}/{partition}", get(partition))
        .route("/clusters/{cluster}/reassignments", get(reassignments))
        .route("/clusters/{cluster}/quorum", get(quorum))
        .route("/clusters/{cluster}/connect", get(connect::connects))
        .route("/clusters/{cluster}/connect/{connect}/{connector}", get(connect::connector))
        .route("/clusters/{cluster}/partitions/{topic}/{partition}/producers", get(transactions::producers))
        .route("/clusters/{cluster}/transactions", get(transactions::transactions))
        .route("/clusters/{cluster}/transactions/{transactional_id}", get(transactions::transaction))
        .route("/clusters/{cluster}/aborted-transactions", get(transactions::aborted))
        .route("/clusters/{cluster}/hanging-transactions", get(transactions::hanging))
        .route("/clusters/{cluster}/users", get(access::users))
        .route("/clusters/{cluster}/users/{user}", get(access::user))
        .route("/clusters/{cluster}/acls", get(access::acls))
        .route("/clusters/{cluster}/quotas", get(access::quotas))
        .route("/clusters/{cluster}/topics/{topic}/access", get(access::of_topic))
        .route("/clusters/{cluster}/groups", get(groups))
        .route("/clusters/{cluster}/groups/{group}", get(group))
}

/// An error, as JSON.
struct Refused(Failure);

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0.status(), Json(json!({ "error": self.0.what() }))).into_response()
    }
}

type Answer = Result<Json<Value>, Refused>;
type ContextResult = Result<RequestContext, Failure>;

async fn clusters(State(console): State<Arc<Console>>) -> Json<Value> {
    let names: Vec<_> = console.clusters().iter().map(|cluster| cluster.name.clone()).collect();
    Json(json!({ "clusters": names }))
}

async fn cluster(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let under_replicated = snapshot.partitions().filter(|(_, partition)| partition.is_under_replicated()).count();
    let quorum = snapshot.quorum.as_ref().map(|quorum| {
        json!({
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": quorum.voters.iter().map(|voter| voter.replica_id).collect::<Vec<_>>(),
            "observers": quorum.observers.iter().map(|observer| observer.replica_id).collect::<Vec<_>>(),
        })
    });
    Ok(Json(json!({
        "name": context.cluster.name,
        "cluster_id": snapshot.cluster_id,
        "taken_ms": snapshot.at_ms,
        "controller_id": snapshot.controller_id,
        "brokers": snapshot.brokers.len(),
        "brokers_alive": snapshot.alive(),
        "topics": snapshot.topics.len(),
        "partitions": snapshot.partitions().count(),
        "partitions_under_replicated": under_replicated,
        "partitions_offline": snapshot.partitions().filter(|(_, partition)| partition.is_offline()).count(),
        "groups": snapshot.groups.len(),
        "records_in_per_second": context.cluster.history().total_rate(),
        "quorum": quorum,
    })))
}

/// 200 where the cluster is healthy, 503 where something is wrong for clients.
async fn status(context: ContextResult) -> Result<Response, Refused> {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let findings = findings(&snapshot, &context.cluster.history());
    let (verdict, class) = verdict(&findings);
    let status = if class == "bad" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    Ok((status, Json(json!({ "status": verdict, "findings": findings }))).into_response())
}

/// The rules for Prometheus, and what each is true of.
async fn alerts(context: ContextResult) -> Answer {
    let context = context?;
    context.snapshot().await?;
    let alerts = context.cluster.alerts();
    let rules = alerts.rules().into_iter().map(|(rule, state, alerts)| {
        let alerts = alerts.iter().map(|alert| {
            json!({
                "state": alert.state.name(),
                "summary": alert.summary,
                "since_ms": alert.since_ms,
                "active_seconds": alert.active.as_secs(),
            })
        });
        json!({
            "name": rule.name,
            "severity": rule.severity(),
            "state": state.name(),
            "expr": rule.condition.promql(),
            "for_seconds": rule.hold.as_secs(),
            "alerts": alerts.collect::<Vec<_>>(),
        })
    });
    Ok(Json(json!({ "began_ms": alerts.began_ms(), "rules": rules.collect::<Vec<_>>() })))
}

async fn brokers(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let brokers = snapshot.brokers.values().map(|broker| broker_json(&context, broker));
    Ok(Json(json!({ "brokers": brokers.collect::<Vec<_>>() })))
}

fn broker_json(context: &RequestContext, broker: &Broker) -> Value {
    let rates = context.cluster.history().node_rates(broker.id);
    let dirs = broker.dirs.iter().map(|dir| {
        json!({
            "path": dir.path,
            "error": dir.error,
            "replicas": dir.replicas,
            "size_bytes": dir.size_bytes,
            "total_bytes": dir.total_bytes,
            "usable_bytes": dir.usable_bytes,
        })
    });
    let journal = broker.journal().map(|journal| {
        json!({
            "needed_bytes": journal.needed_bytes,
            "oldest_needed_seconds": journal.oldest_seconds,
            "state": journal.state.name(),
        })
    });
    json!({
        "id": broker.id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "alive": broker.is_alive,
        "controller": broker.is_controller,
        "leaders": broker.leaders,
        "replicas": broker.replicas,
        "replicas_out_of_sync": broker.out_of_sync,
        "size_bytes": broker.size_bytes,
        "log_dirs": dirs.collect::<Vec<_>>(),
        "version": broker.own_figures().map(|figures| &figures.version),
        "journal": journal,
        "memory_bytes": broker.figures.as_ref().and_then(|figures| figures.memory_bytes),
        "cpu_cores": rates.map(|rates| rates.cpu),
        "network_received_bytes_per_second": rates.map(|rates| rates.network_received_bytes),
        "network_sent_bytes_per_second": rates.map(|rates| rates.network_sent_bytes),
    })
}

async fn topics(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let topics = snapshot.topics.iter().map(|(name, topic)| topic_json(&context, name, topic));
    Ok(Json(json!({ "topics": topics.collect::<Vec<_>>() })))
}

fn topic_json(context: &RequestContext, name: &str, topic: &Topic) -> Value {
    json!({
        "name": name,
        "id": topic.id,
        "internal": topic.is_internal,
        "partitions": topic.partitions.len(),
        "replication_factor": topic.replication_factor(),
        "partitions_under_replicated": topic.under_replicated(),
        "partitions_offline": topic.offline(),
        "records": topic.records(),
        "size_bytes": topic.size_bytes(),
        "records_in_per_second": context.cluster.history().topic_rate(name),
    })
}

async fn topic(context: ContextResult) -> Answer {
    let context = context?;
    let name = context.param("topic");
    let snapshot = context.snapshot_with(|snapshot| snapshot.topics.contains_key(name)).await?;
    let Some(topic) = snapshot.topics.get(name) else {
        return Err(Failure::not_found(format!("there is no topic {name:?}")).into());
    };
    let mut answer = topic_json(&context, name, topic);
    answer["partitions"] = topic.partitions.iter().map(partition_json).collect();
    Ok(Json(answer))
}

fn partition_json(partition: &Partition) -> Value {
    json!({
        "partition": partition.index,
        "leader": (!partition.is_offline()).then_some(partition.leader),
        "leader_epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "log_start_offset": partition.start,
        "log_end_offset": partition.end,
        "size_bytes": partition.size_bytes(),
    })
}

/// Takes the query of the page, and gives the queries of what comes before and behind.
async fn messages(context: ContextResult, Query(asked): Query<messages::MessagesQuery>) -> Answer {
    let context = context?;
    let watched = messages::watched(&context).await?;
    let plan = asked.plan(watched.partitions.len()).map_err(Failure::wrong)?;
    let look = messages::look(&context, &watched, &plan).await?;
    let (topic, decoder) = (context.param("topic"), context.decoder(plan.show));
    messages::prepare(&decoder, &look.messages).await;
    let partitions = look.bounds.iter().map(|(partition, log)| {
        let read = look.spans.get(partition);
        json!({
            "partition": partition,
            "log_start_offset": log.start,
            "log_end_offset": log.end,
            "read_from_offset": read.map(|read| read.start),
            "read_to_offset": read.map(|read| read.end),
        })
    });
    let problems = look.problems.iter().map(|(of, problem)| json!({ "partition": of, "problem": problem }));
    Ok(Json(json!({
        "messages": look.messages.iter().map(|message| message.json(topic, &decoder)).collect::<Vec<_>>(),
        "older": look.older.as_ref().map(|before| asked.link(None, Some(before))),
        "newer": look.newer.as_ref().map(|after| asked.link(Some(after), None)),
        "is_cut": look.is_cut,
        "records_read": look.records,
        "bytes_read": look.bytes,
        "not_evaluated": look.unknown.count,
        "not_evaluated_reason": look.unknown.first.as_ref().map(|(.., reason)| reason),
        "partitions": partitions.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })))
}

/// Partitions of an answer; there may be many times as many.
const PARTITIONS_AT_ONCE: usize = 1000;

#[derive(Deserialize)]
struct PartitionsPage {
    /// From 1.
    #[serde(default)]
    page: usize,
}

async fn partitions(
    context: ContextResult,
    Query(filter): Query<Filter>,
    Query(PartitionsPage { page }): Query<PartitionsPage>,
) -> Answer {
    let snapshot = context?.snapshot().await?;
    let found = filter.found(&snapshot)?;
    let pages = found.len().div_ceil(PARTITIONS_AT_ONCE).max(1);
    let page = page.clamp(1, pages);
    let shown = found.iter().skip((page - 1) * PARTITIONS_AT_ONCE).take(PARTITIONS_AT_ONCE).map(|(of, partition)| {
        let mut answer = partition_json(partition);
        answer["topic"] = json!(of.topic);
        answer["moving"] = json!(snapshot.reassignments.contains_key(of));
        answer
    });
    let shown: Vec<_> = shown.collect();
    Ok(Json(json!({ "total": found.len(), "page": page, "pages": pages, "partitions": shown })))
}

async fn partition(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let of = TopicPartition::new(context.param("topic"), context.number("partition")?);
    let Some(partition) = snapshot.partition(&of) else {
        return Err(Failure::not_found(format!("there is no partition {of}")).into());
    };
    let replicas = partition.replicas.iter().map(|id| {
        let replica = partition.sizes.get(id);
        let path = |dir: usize| Some(&snapshot.brokers.get(id)?.dirs.get(dir)?.path);
        json!({
            "broker_id": id,
            "alive": snapshot.is_alive(*id),
            "leader": partition.leader == *id,
            "in_sync": partition.isr.contains(id),
            "size_bytes": replica.map(|replica| replica.size_bytes),
            "offset_lag": replica.map(|replica| replica.offset_lag),
            "log_dir": partition.dirs.get(id).and_then(|dir| path(*dir)),
            "future_log_dir": partition.futures.get(id).and_then(|(dir, _)| path(*dir)),
            "future_size_bytes": partition.futures.get(id).map(|(_, replica)| replica.size_bytes),
        })
    });
    let mut answer = partition_json(partition);
    answer["topic"] = json!(of.topic);
    answer["moving"] = json!(snapshot.reassignments.contains_key(&of));
    answer["replicas"] = replicas.collect();
    let findings = page::partition::findings(&snapshot, &of, partition);
    answer["findings"] = findings.into_iter().map(|(_, finding)| finding).collect();
    answer["changes"] = json!(context.cluster.partition_changes(&of).1);
    Ok(Json(answer))
}

async fn reassignments(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let history = context.cluster.history();
    let moves = snapshot.reassignments.iter().map(|(of, reassignment)| {
        let progress = Progress::of(&snapshot, &history, of, reassignment);
        json!({
            "topic": of.topic,
            "partition": of.partition,
            "replicas": reassignment.replicas,
            "adding": reassignment.adding,
            "removing": reassignment.removing,
            "copied_bytes": progress.copied_bytes,
            "total_bytes": progress.total_bytes,
            "bytes_per_second": progress.bytes_per_second,
            "left_seconds": progress.left_seconds(),
        })
    });
    Ok(Json(json!({ "reassignments": moves.collect::<Vec<_>>() })))
}

async fn quorum(context: ContextResult) -> Answer {
    let snapshot = context?.snapshot().await?;
    let members = snapshot.quorum.as_ref().map(|quorum| {
        let member = |replica: &client::QuorumReplica| {
            json!({
                "node_id": replica.replica_id,
                "directory_id": (!replica.directory_id.is_zero()).then(|| replica.directory_id.to_string()),
                "log_end_offset": replica.log_end_offset,
                "lag_records": replica.lag,
                "last_fetch_ms": replica.last_fetch_timestamp_ms,
                "last_caught_up_ms": replica.last_caught_up_timestamp_ms,
                "health": health_name(quorum.health(replica)),
            })
        };
        json!({
            "leader_id": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": quorum.voters.iter().map(member).collect::<Vec<_>>(),
            "observers": quorum.observers.iter().map(member).collect::<Vec<_>>(),
        })
    });
    let findings: Vec<_> = page::quorum::findings(&snapshot).into_iter().map(|(_, finding)| finding).collect();
    Ok(Json(json!({ "quorum": members, "findings": findings })))
}

#[derive(Serialize)]
struct GroupJson<'a> {
    id: &'a str,
    state: &'a str,
    /// None from brokers that do not tell.
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    protocol_type: &'a str,
    protocol: &'a str,
    /// These are of groups of the consumer protocol (KIP-848).
    group_epoch: Option<i32>,
    assignment_epoch: Option<i32>,
    coordinator: i32,
    members: usize,
    topics: usize,
    lag_records: Option<i64>,
    lag_seconds: Option<f64>,
    /// That it is older than `lag_seconds`.
    lag_is_older: bool,
    records_read_per_second: Option<f64>,
    catches_up_seconds: Option<f64>,
    falls_behind: bool,
}

impl<'a> GroupJson<'a> {
    fn new(history: &History, id: &'a str, group: &'a Group) -> Self {
        let age = group.lag_age();
        Self {
            id,
            state: &group.state,
            kind: Some(group.kind.as_str()).filter(|kind| !kind.is_empty()),
            protocol_type: &group.protocol_type,
            protocol: &group.protocol,
            group_epoch: group.epochs.map(|epochs| epochs.group),
            assignment_epoch: group.epochs.map(|epochs| epochs.assignment),
            coordinator: group.coordinator,
            members: group.members.len(),
            lag_records: group.lag_records(),
            topics: group.topics().len(),
            lag_seconds: age.map(|age| age.seconds),
            lag_is_older: age.is_some_and(|age| age.is_more),
            records_read_per_second: history.group_rate(id),
            catches_up_seconds: history.group_catches_up_seconds(id),
            falls_behind: falls_behind(history, id, group).is_some(),
        }
    }
}

async fn groups(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let history = context.cluster.history();
    let groups: Vec<_> = snapshot.groups.iter().map(|(id, group)| GroupJson::new(&history, id, group)).collect();
    Ok(Json(json!({ "groups": groups })))
}

async fn group(context: ContextResult) -> Answer {
    let context = context?;
    let id = context.group();
    let snapshot = context.snapshot_with(|snapshot| snapshot.groups.contains_key(id)).await?;
    let Some((id, group)) = snapshot.groups.get_key_value(id) else {
        return Err(Failure::not_found(format!("there is no group {id:?}")).into());
    };
    let readers = group.readers();
    let positions = group.positions.iter().map(|(partition, position)| {
        json!({
            "topic": partition.topic,
            "partition": partition.partition,
            "committed_offset": position.committed,
            "log_end_offset": position.end,
            "lag_records": position.lag_records,
            "lag_seconds": position.lag_age.map(|age| age.seconds),
            "lag_is_older": position.lag_age.is_some_and(|age| age.is_more),
            "member_id": readers.get(partition).map(|member| &member.id),
        })
    });
    let members = group.members.iter().map(|member| member_json(group, member));
    let holders = reconciliation::holders(group);
    let rebalances: Vec<_> = snapshot.rebalances.iter().rev().filter(|of| of.group == *id).collect();
    Ok(Json(json!({
        "group": GroupJson::new(&context.cluster.history(), id, group),
        "members": members.collect::<Vec<_>>(),
        "held_up_by": holders.iter().map(holder_json).collect::<Vec<_>>(),
        "note": reconciliation::note(group),
        "partitions": positions.collect::<Vec<_>>(),
        "rebalances": rebalances,
    })))
}

/// As `topic-0` each.
fn names<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Vec<String> {
    partitions.into_iter().map(ToString::to_string).collect()
}

fn member_json(group: &Group, member: &Member) -> Value {
    let progress = member.progress.as_ref();
    let standing = group.epochs.and_then(|epochs| Standing::of(member, epochs));
    json!({
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "partitions": names(&member.assigned),
        "is_classic": progress.and_then(|progress| progress.is_classic),
        "member_epoch": progress.map(|progress| progress.epoch),
        "subscribed_topics": progress.map(|progress| &progress.topics),
        "subscribed_regex": progress.and_then(|progress| progress.regex.as_ref()),
        "target_partitions": progress.map(|progress| names(&progress.target)),
        "step": standing.as_ref().map(|standing| standing.step.name()),
        "is_reconciling": standing.as_ref().map(|standing| standing.step != Step::Stable),
        "to_release": standing.as_ref().map(|standing| names(standing.to_release.iter().copied())),
        "awaited": standing.as_ref().map(|standing| names(standing.awaited.iter().copied())),
    })
}

fn holder_json(holder: &Holder<'_>) -> Value {
    json!({
        "member_id": holder.member.id,
        "step": holder.step.name(),
        "partitions": names(holder.partitions.iter().copied()),
        "is_presumed": holder.is_presumed,
        "waiting": holder.waiting.iter().map(|member| &member.id).collect::<Vec<_>>(),
        "what": holder.text(),
        "advice": holder.advice(),
    })
}
