//! QuorumHello (key 127), versions 0-1, ours: which cluster a node belongs to, who votes there, and what is committed.

use std::sync::Arc;

use quorum::Voter;
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::api::quorum_join::VoterNode;

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: QuorumHelloRequest,
) -> QuorumHelloResponse {
    let confirmed = match request.wants_confirmation {
        true => broker.quorum.confirm().await.ok(),
        false => None,
    };
    let status = broker.quorum.status().borrow().clone();
    let nodes = |members: &[Voter]| members.iter().map(node).collect();
    QuorumHelloResponse {
        node_id: broker.node_id,
        directory_id: broker.directory_id,
        cluster_id: Some(broker.cluster_id.clone()),
        voters: nodes(&status.voters.voters),
        observers: nodes(&status.voters.observers),
        leader_id: status.leader.unwrap_or(-1),
        leader_epoch: status.epoch,
        high_watermark: confirmed.map_or(status.high_watermark, |confirmed| confirmed.high_watermark),
        own_epoch: confirmed.map_or(-1, |confirmed| confirmed.epoch),
        ..Default::default()
    }
}

fn node(member: &Voter) -> VoterNode {
    let Voter { node_id, directory_id, host, port } = member.clone();
    VoterNode { node_id, directory_id, host, port }
}
