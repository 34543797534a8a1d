//! ConsumerGroupHeartbeat (key 68), versions 0-1: how members of consumer groups join, stay, and leave (KIP-848).
//!
//! Behaviour: see [`coordinator::group::GroupCoordinator::consumer_group_heartbeat`]. What it changes is durable
//! when it is answered.
//!
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED) and DESCRIBE on each topic that the member names
//!   (TOPIC_AUTHORIZATION_FAILED, and nothing is changed). Of the topics that its pattern matches, a member gets none
//!   that it may not DESCRIBE. Kafka resolves a pattern with what one of the members may describe, for all of them.
//! - Without group.version 1, or the protocol in `group.coordinator.rebalance.protocols`, it is UNSUPPORTED_VERSION.

use std::sync::Arc;

use coordinator::group::{Caller, MayDescribe};
use metadata::Feature;
use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::RequestContext;
use super::access::Access;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    if !is_served(broker) {
        return ConsumerGroupHeartbeatResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, ..Default::default() };
    }
    if let Err(error_code) = check(&context.access(broker), &request) {
        return ConsumerGroupHeartbeatResponse { error_code, ..Default::default() };
    }
    let caller = Caller {
        api_version: context.api_version,
        client_id: context.client_id.as_deref(),
        client_host: context.client_address.ip(),
    };
    broker.groups.consumer_group_heartbeat(caller, request, may_describe(broker, context)).await
}

/// Whether a member may be in the group, with the topics that it names.
fn check(access: &Access<'_>, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    access.check_group(AclOperation::Read, &request.group_id)?;
    let named = request.subscribed_topic_names.iter().flatten();
    named.into_iter().try_for_each(|name| access.check_topic(AclOperation::Describe, name))
}

/// What is asked about the topics that the member's pattern matches, whenever that is.
fn may_describe(broker: &Arc<Broker>, context: &RequestContext) -> Option<MayDescribe> {
    if !context.access(broker).is_restricted() {
        return None;
    }
    let (broker, context) = (Arc::clone(broker), context.clone());
    Some(Arc::new(move |topic| context.access(&broker).shows(AclOperation::Describe, ResourceType::Topic, topic)))
}

/// Whether there are consumer groups in this cluster.
pub(super) fn is_served(broker: &Broker) -> bool {
    const CONSUMER_GROUPS_SINCE: i16 = 1;
    let level = broker.metadata.load().feature_level(Feature::GroupVersion);
    let protocols = &broker.config().group_coordinator_rebalance_protocols;
    level >= CONSUMER_GROUPS_SINCE && protocols.iter().any(|protocol| protocol == "consumer")
}
