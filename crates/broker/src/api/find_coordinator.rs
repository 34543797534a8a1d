//! FindCoordinator (key 10), versions 0-6: which broker coordinates a group or a transactional id,
//! from version 4 on several.
//!
//! Behaviour:
//! - Needs: DESCRIBE on the group (GROUP_AUTHORIZATION_FAILED) or the transactional id
//!   (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). No topic is created for who may not. For share groups CLUSTER_ACTION
//!   (CLUSTER_AUTHORIZATION_FAILED).
//! - The coordinator of a group is the leader of the partition of `__consumer_offsets` that holds it, that of a
//!   transactional id (key type 1) the leader of its partition of `__transaction_state`. Each topic is created when it
//!   is first asked for.
//! - Share groups (key type 2) are not served: INVALID_REQUEST, as by a Kafka that has them turned off. Other key types
//!   are INVALID_REQUEST too.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;
use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use super::access::Access;
use super::{Pace, RequestContext, nodes};
use crate::Broker;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

const MANY_SINCE: i16 = 4;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    let key_type = request.key_type;
    let access = context.access(broker);
    // Once, however many keys are looked for.
    let mut has_topic = None;
    if context.api_version >= MANY_SINCE {
        let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
        let mut pace = Pace::default();
        for key in request.coordinator_keys {
            coordinators.push(find(broker, context, &access, key_type, &mut has_topic, key).await);
            pace.step(1).await;
        }
        return FindCoordinatorResponse { coordinators, ..Default::default() };
    }
    let found = find(broker, context, &access, key_type, &mut has_topic, request.key).await;
    // These versions name the absence of an error.
    let message = match found.error_code {
        ErrorCode::NONE => Some("NONE".to_owned()),
        _ => found.error_message,
    };
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    }
}

/// The coordinator of a key, or why the client is not told of it. `has_topic` is whether the coordinators' topic is
/// there, once that is known.
async fn find(
    broker: &Broker,
    context: &RequestContext,
    access: &Access<'_>,
    key_type: i8,
    has_topic: &mut Option<bool>,
    key: String,
) -> Coordinator {
    let found = match check(access, key_type, &key) {
        Ok(()) => {
            if has_topic.is_none() {
                *has_topic = Some(ensure_topic(broker, key_type).await);
            }
            look_up(broker, context, key_type, *has_topic == Some(true), &key)
        }
        Err(denied) => Err(denied),
    };
    let (error_code, message) = match found {
        Ok(found) => return Coordinator { key, ..found },
        Err(error) => error,
    };
    Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code,
        error_message: Some(message.to_owned()),
        ..Default::default()
    }
}

/// Whether the client may know of a key.
fn check(access: &Access<'_>, key_type: i8, key: &str) -> Result<(), (ErrorCode, &'static str)> {
    let (granted, message) = match key_type {
        GROUP => (access.check_group(AclOperation::Describe, key), "Group authorization failed."),
        TRANSACTION => {
            let granted = access.check_transactional_id(AclOperation::Describe, key);
            (granted, "Transactional Id authorization failed.")
        }
        SHARE => (access.check_cluster(AclOperation::ClusterAction), "Cluster authorization failed."),
        _ => return Ok(()),
    };
    granted.map_err(|error_code| (error_code, message))
}

async fn ensure_topic(broker: &Broker, key_type: i8) -> bool {
    match key_type {
        GROUP => broker.groups.ensure_offsets_topic().await.is_ok(),
        TRANSACTION => broker.transactions.ensure_topic().await.is_ok(),
        _ => true,
    }
}

fn look_up(
    broker: &Broker,
    context: &RequestContext,
    key_type: i8,
    has_topic: bool,
    key: &str,
) -> Result<Coordinator, (ErrorCode, &'static str)> {
    match key_type {
        GROUP | TRANSACTION if !has_topic => {
            Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, "The topic of the coordinator could not be created."))
        }
        GROUP => leader(broker, context, OFFSETS_TOPIC, broker.groups.partition_for(key)),
        TRANSACTION => leader(broker, context, TRANSACTION_STATE_TOPIC, broker.transactions.partition_for(key)),
        SHARE => Err((ErrorCode::INVALID_REQUEST, "This broker does not serve share groups.")),
        _ => Err((ErrorCode::INVALID_REQUEST, "The coordinator's key type is unknown.")),
    }
}

fn leader(
    broker: &Broker,
    context: &RequestContext,
    topic: &str,
    partition: i32,
) -> Result<Coordinator, (ErrorCode, &'static str)> {
    let unavailable = |message| (ErrorCode::COORDINATOR_NOT_AVAILABLE, message);
    let image = broker.metadata.load();
    let leader = image.partition(topic, partition).map(|partition| partition.leader);
    let node = leader.and_then(|leader| nodes::active(&image, &context.listener).find(|(node, _)| node.id == leader));
    let (node, endpoint) = node.ok_or(unavailable("The coordinator is not available."))?;
    Ok(Coordinator {
        node_id: node.id,
        host: endpoint.host.clone(),
        port: i32::from(endpoint.port),
        error_message: Some(String::new()),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use metadata::NO_LEADER;
    use wire::Uuid;
    use wire::state::metadata::{PartitionChangeRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context, endpoint, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    /// All groups are on one partition, which a broker leads; all transactional ids on one that this broker leads.
    async fn start(leader: i32) -> TestBroker {
        let broker = TestBroker::start().await;
        let elsewhere = RegisterBrokerRecord { end_points: vec![endpoint("OTHER", 3)], ..registration(3) };
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(4) };
        broker.commit([registration(2).into(), elsewhere.into(), fenced.into()]).await;
        broker.create(OFFSETS_TOPIC, TOPIC_ID, &[led_by(leader, &[leader])]).await;
        broker.create(TRANSACTION_STATE_TOPIC, Uuid([8; 16]), &[led_by(1, &[1])]).await;
        broker
    }

    fn keys(keys: &[&str], key_type: i8) -> FindCoordinatorRequest {
        let coordinator_keys = keys.iter().map(|key| (*key).to_owned()).collect();
        FindCoordinatorRequest { coordinator_keys, key_type, ..Default::default() }
    }

    #[tokio::test]
    async fn each_key_is_answered_in_the_order_of_the_request() {
        let broker = start(2).await;
        let response = handle(&broker, &context(4), keys(&["b", "a", "b"], GROUP)).await;
        let found = |key: &str| Coordinator {
            key: key.to_owned(),
            node_id: 2,
            host: "broker-2".to_owned(),
            port: 9002,
            error_message: Some(String::new()),
            ..Default::default()
        };
        assert_eq!(response.coordinators, [found("b"), found("a"), found("b")]);

        let response = handle(&broker, &context(4), keys(&["a", "b"], TRANSACTION)).await;
        let of_transactions: Vec<_> = response.coordinators.iter().map(|found| (&*found.key, found.node_id)).collect();
        assert_eq!(of_transactions, [("a", 1), ("b", 1)]);
        for key_type in [SHARE, 3, -1] {
            let response = handle(&broker, &context(6), keys(&["a"], key_type)).await;
            assert_eq!(response.coordinators[0].error_code, ErrorCode::INVALID_REQUEST, "{key_type}");
        }
    }

    #[tokio::test]
    async fn older_versions_have_one_key_and_name_the_absence_of_an_error() {
        let broker = start(2).await;
        let ask = async |key_type| {
            let request = FindCoordinatorRequest { key: "a".to_owned(), key_type, ..Default::default() };
            handle(&broker, &context(3), request).await
        };
        let found = ask(GROUP).await;
        assert_eq!((found.error_code, found.error_message.as_deref()), (ErrorCode::NONE, Some("NONE")));
        assert_eq!((found.node_id, &*found.host, found.port), (2, "broker-2", 9002));
        assert!(found.coordinators.is_empty());
        assert_eq!(ask(TRANSACTION).await.node_id, 1);
        let refused = ask(SHARE).await;
        assert_eq!((refused.error_code, refused.node_id, refused.port), (ErrorCode::INVALID_REQUEST, -1, -1));
        assert!(refused.error_message.is_some_and(|message| message != "NONE"));
    }

    #[tokio::test]
    async fn a_coordinator_that_the_client_cannot_reach_is_not_available() {
        let broker = start(3).await;
        for leader in [3, 4, NO_LEADER, 9] {
            let change = PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader, ..Default::default() };
            broker.commit([change.into()]).await;
            let response = handle(&broker, &context(4), keys(&["a"], GROUP)).await;
            let found = &response.coordinators[0];
            assert_eq!(found.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE, "{leader}");
            assert_eq!((found.node_id, &*found.host, found.port), (-1, "", -1), "{leader}");
        }
        let at_other = RequestContext { listener: "OTHER".into(), ..context(4) };
        let change = PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader: 3, ..Default::default() };
        broker.commit([change.into()]).await;
        assert_eq!(handle(&broker, &at_other, keys(&["a"], GROUP)).await.coordinators[0].node_id, 3);
    }

    #[tokio::test]
    async fn each_kind_of_coordinator_brings_its_own_topic_into_being() {
        let settings = [("offsets.topic.num.partitions", "1"), ("transaction.state.log.num.partitions", "2")];
        let broker = TestBroker::start_with(&settings).await;
        let partitions = |name| broker.metadata.load().topic(name).map(|topic| topic.partitions.len());
        for (key_type, offsets, transactions) in [(SHARE, None, None), (TRANSACTION, None, Some(2))] {
            handle(&broker, &context(6), keys(&["a"], key_type)).await;
            assert_eq!((partitions(OFFSETS_TOPIC), partitions(TRANSACTION_STATE_TOPIC)), (offsets, transactions));
        }
        handle(&broker, &context(6), keys(&["a"], GROUP)).await;
        assert_eq!(partitions(OFFSETS_TOPIC), Some(1));
    }
}
