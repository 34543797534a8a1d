//! FindCoordinator (key 10), versions 0-6: which broker coordinates a group, from version 4 on several.
//!
//! Behaviour:
//! - The coordinator of a group is the leader of the partition of `__consumer_offsets` that holds it. The topic is
//!   created when it is first asked for.
//! - Transactions (key type 1) have no coordinator yet: INVALID_REQUEST. Clients ask again after any error that a Kafka
//!   gives for a while, and with this one they tell their user.
//! - Share groups (key type 2) are not served: INVALID_REQUEST, as by a Kafka that has them turned off. Other key types
//!   are INVALID_REQUEST too.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use wire::ErrorCode;
use wire::api::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

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
    // Once, however many groups are looked for.
    let has_topic = key_type != GROUP || broker.groups.ensure_offsets_topic().await.is_ok();
    if context.api_version >= MANY_SINCE {
        let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
        let mut pace = Pace::default();
        for key in request.coordinator_keys {
            coordinators.push(find(broker, context, key_type, has_topic, key));
            pace.step(1).await;
        }
        return FindCoordinatorResponse { coordinators, ..Default::default() };
    }
    let found = find(broker, context, key_type, has_topic, request.key);
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

fn find(broker: &Broker, context: &RequestContext, key_type: i8, has_topic: bool, key: String) -> Coordinator {
    let result = match key_type {
        GROUP if !has_topic => {
            Err((ErrorCode::COORDINATOR_NOT_AVAILABLE, "The topic of group offsets could not be created."))
        }
        GROUP => find_group(broker, context, &key),
        TRANSACTION => Err((ErrorCode::INVALID_REQUEST, "This broker does not serve transactions.")),
        SHARE => Err((ErrorCode::INVALID_REQUEST, "This broker does not serve share groups.")),
        _ => Err((ErrorCode::INVALID_REQUEST, "The coordinator's key type is unknown.")),
    };
    let (error_code, message) = match result {
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

fn find_group(
    broker: &Broker,
    context: &RequestContext,
    group_id: &str,
) -> Result<Coordinator, (ErrorCode, &'static str)> {
    let unavailable = |message| (ErrorCode::COORDINATOR_NOT_AVAILABLE, message);
    let partition = broker.groups.partition_for(group_id);
    let image = broker.metadata.load();
    let leader = image.partition(OFFSETS_TOPIC, partition).map(|partition| partition.leader);
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
