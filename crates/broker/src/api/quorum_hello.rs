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
    let status = broker.quorum.status();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_support::{CLUSTER_ID, DIRECTORY_ID, NODE_ID, TestBroker, context, voter};

    #[tokio::test]
    async fn a_member_tells_who_it_is_and_who_the_others_are() {
        let broker = TestBroker::start().await;
        broker.quorum.join(voter(2), false).await.expect("the quorum takes an observer");
        let response = handle(&broker, &context(1), QuorumHelloRequest::default()).await;
        assert_eq!((response.node_id, response.directory_id), (NODE_ID, DIRECTORY_ID));
        assert_eq!((response.cluster_id.as_deref(), response.leader_id), (Some(CLUSTER_ID), NODE_ID));
        assert_eq!(response.voters, [node(&voter(1))]);
        assert_eq!(response.observers, [node(&voter(2))]);
        assert_eq!(response.own_epoch, -1, "it was not asked to confirm that it leads");
    }

    #[tokio::test]
    async fn a_leader_confirms_what_is_committed_when_asked() {
        let broker = TestBroker::start().await;
        let request = QuorumHelloRequest { wants_confirmation: true, ..Default::default() };
        let response = handle(&broker, &context(1), request).await;
        assert_eq!(response.own_epoch, response.leader_epoch);
        assert!(response.high_watermark > broker.metadata.load().offset(), "{response:?}");
    }

    #[tokio::test]
    async fn a_node_that_does_not_lead_confirms_nothing() {
        let broker = TestBroker::without_quorum();
        let request = QuorumHelloRequest { wants_confirmation: true, ..Default::default() };
        let response = handle(&broker, &context(1), request).await;
        assert_eq!((response.own_epoch, response.leader_id), (-1, -1));
        assert_eq!(response.voters, [node(&voter(1)), node(&voter(2))]);
    }
}
