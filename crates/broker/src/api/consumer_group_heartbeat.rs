//! ConsumerGroupHeartbeat (key 68), versions 0-1: how members of consumer groups join, stay, and leave (KIP-848).
//!
//! Behaviour: see [`coordinator::group::GroupCoordinator::consumer_group_heartbeat`]. What it changes is durable
//! when it is answered.
//!
//! - Without group.version 1, or the protocol in `group.coordinator.rebalance.protocols`, it is UNSUPPORTED_VERSION.

use std::sync::Arc;

use coordinator::group::Caller;
use metadata::Feature;
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    if !is_served(broker) {
        return ConsumerGroupHeartbeatResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, ..Default::default() };
    }
    let caller = Caller {
        api_version: context.api_version,
        client_id: context.client_id.as_deref(),
        client_host: context.client_address.ip(),
    };
    broker.groups.consumer_group_heartbeat(caller, request).await
}

/// Whether there are consumer groups in this cluster.
pub(super) fn is_served(broker: &Broker) -> bool {
    const CONSUMER_GROUPS_SINCE: i16 = 1;
    let level = broker.metadata.load().feature_level(Feature::GroupVersion);
    let protocols = &broker.config().group_coordinator_rebalance_protocols;
    level >= CONSUMER_GROUPS_SINCE && protocols.iter().any(|protocol| protocol == "consumer")
}
