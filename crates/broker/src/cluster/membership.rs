//! How a node joins an existing quorum, and waits until it has all committed metadata.

use std::collections::BTreeSet;
use std::time::Duration;

use configuration::address;
use metadata::MetadataCache;
use quorum::{QuorumStatus, Voter};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use wire::ErrorCode;
use wire::api::quorum_hello::QuorumHelloRequest;
use wire::api::quorum_join::{QuorumJoinRequest, QuorumJoinResponse, VoterNode};

use super::members::{ASK_TIMEOUT, Members};
use super::peers::{Lane, Peers};

/// The interval between requests to other members.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Why the node does not join the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    #[error("the metadata quorum does not answer; see whether most of its nodes run and can reach each other")]
    NoQuorum,
    #[error("the cluster does not take this node in: {0}")]
    Refused(String),
}

/// Asks the cluster to add this node, whenever the voter set lacks it at its present address: at first, and after it
/// was removed.
pub async fn join(members: &Members, peers: &Peers, own: &Voter) {
    let wants_to_vote = members.wants_to_vote();
    let node =
        VoterNode { node_id: own.node_id, directory_id: own.directory_id, host: own.host.clone(), port: own.port };
    let incarnation_id = peers.own().incarnation_id;
    let request = QuorumJoinRequest { cluster_id: members.cluster_id.clone(), node, incarnation_id, wants_to_vote };
    let mut is_logged = false;
    let mut status = members.quorum.watch_status();
    loop {
        let is_stranger = |status: &QuorumStatus| !status.voters.members().any(|member| member == own);
        if status.wait_for(is_stranger).await.is_err() {
            return;
        }
        // A member of the cluster knows its voters, and one of them leads.
        let mut addresses = members.addresses();
        addresses.extend(members.ask_all(ASK_TIMEOUT).await.iter().map(|voter| address(&voter.host, voter.port)));
        let mut requested = BTreeSet::new();
        for address in addresses.into_iter().filter(|address| requested.insert(address.clone())) {
            match members.dialer.ask(&address, ASK_TIMEOUT, &request).await {
                Ok(QuorumJoinResponse { error_code: ErrorCode::NONE, .. }) => break,
                Ok(QuorumJoinResponse { error_code: ErrorCode::NOT_CONTROLLER, .. }) => {}
                Ok(refused) if !is_logged => {
                    is_logged = true;
                    let reason = refused.error_message.unwrap_or_else(|| refused.error_code.to_string());
                    tracing::warn!(address, reason, "the cluster does not take this node in yet");
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(address, %error, "nobody takes this node in there"),
            }
        }
        sleep(ASK_INTERVAL).await;
    }
}

/// Waits until this node has all the metadata that was committed when it began to wait.
///
/// Its own metadata is as old as its last stop, and so may be that of a leader that was just elected or replaced: only
/// a leader that most voters have confirmed knows all that was committed. Whatever becomes of that leader afterwards,
/// the offset that it has named is committed and arrives.
pub async fn catch_up(
    members: &Members,
    peers: &Peers,
    metadata: &MetadataCache,
    max_wait: Duration,
) -> Result<(), MembershipError> {
    let give_up = Instant::now() + max_wait;
    loop {
        if let Some(high_watermark) = confirmed_high_watermark(members, peers).await {
            let mut status = members.quorum.watch_status();
            let caught_up = status.wait_for(|status| status.high_watermark >= high_watermark);
            if timeout_at(give_up, caught_up).await.is_ok_and(|caught_up| caught_up.is_ok()) {
                metadata.wait_for(metadata.committed().offset()).await;
                return Ok(());
            }
        }
        if Instant::now() >= give_up {
            return Err(MembershipError::NoQuorum);
        }
        sleep(ASK_INTERVAL).await;
    }
}

/// What a leader of the quorum has committed that was confirmed to lead after the request.
async fn confirmed_high_watermark(members: &Members, peers: &Peers) -> Option<i64> {
    let leader = members.quorum.status().leader?;
    if leader == members.own.node_id {
        let confirmed = timeout(ASK_TIMEOUT, members.quorum.confirm()).await.ok()?.ok()?;
        return Some(confirmed.high_watermark);
    }
    let request = QuorumHelloRequest { wants_confirmation: true, ..members.hello_request() };
    let connection = peers.connection(leader, Lane::Heartbeats).await.ok()??;
    let answer = timeout(ASK_TIMEOUT, connection.send(&request)).await.ok()?.ok()?;
    let is_confirmed = answer.own_epoch >= 0 && answer.cluster_id.as_ref() == Some(&members.cluster_id);
    is_confirmed.then_some(answer.high_watermark)
}
