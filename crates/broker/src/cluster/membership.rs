//! How a node becomes part of a quorum that has begun, and how it finds out that it knows what the others know.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use client::{ConnectionConfig, ConnectionError};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use wire::ErrorCode;
use wire::api::Request;
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::api::quorum_join::{QuorumJoinRequest, QuorumJoinResponse, VoterNode};

use super::peers::Lane;
use crate::config::{Membership, VoterAddress, address};
use crate::quorum::{QuorumStatus, Voter};
use crate::{Broker, net};

/// How long others are given to answer, and how long it takes until they are asked again.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// The node does not become part of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    #[error("the metadata quorum does not answer; see whether most of its nodes run and can reach each other")]
    NoQuorum,
    #[error("the cluster does not take this node in: {0}")]
    Refused(String),
}

/// Asks the cluster to take this node in, whenever it does not know it at its present address: at first, and after
/// its vote was taken away.
pub async fn join(broker: &Broker, own: &Voter, membership: &Membership) {
    let config = broker.config();
    let wants_to_vote = config.controller_quorum_auto_join_enable;
    drop(config);
    let node =
        VoterNode { node_id: own.node_id, directory_id: own.directory_id, host: own.host.clone(), port: own.port };
    let incarnation_id = broker.peers.own().incarnation_id;
    let request = QuorumJoinRequest { cluster_id: broker.cluster_id.clone(), node, incarnation_id, wants_to_vote };
    let mut is_told = false;
    let mut status = broker.quorum.status();
    loop {
        let is_stranger = |status: &QuorumStatus| !status.voters.members().any(|member| member == own);
        if status.wait_for(is_stranger).await.is_err() {
            return;
        }
        // Whoever knows the cluster knows its voters, and one of them leads.
        let mut places = addresses(broker, membership);
        places.extend(meet_all(broker, ASK_TIMEOUT).await.iter().map(|voter| address(&voter.host, voter.port)));
        let mut asked = BTreeSet::new();
        for address in places.into_iter().filter(|address| asked.insert(address.clone())) {
            match ask(&address, own.node_id, &request).await {
                Ok(QuorumJoinResponse { error_code: ErrorCode::NONE, .. }) => break,
                Ok(QuorumJoinResponse { error_code: ErrorCode::NOT_CONTROLLER, .. }) => {}
                Ok(refused) if !is_told => {
                    is_told = true;
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

/// Finds out who the members are from all who may know, so that this node can answer them, and who of them votes. Each
/// of them is given so long to answer.
pub(super) async fn meet_all(broker: &Broker, patience: Duration) -> Vec<Voter> {
    let Ok(membership) = broker.config().membership() else { return Vec::new() };
    let mut voters = Vec::new();
    for address in addresses(broker, &membership) {
        voters.extend(timeout(patience, meet(broker, &address)).await.unwrap_or_default());
    }
    voters
}

async fn meet(broker: &Broker, address: &str) -> Vec<Voter> {
    let Some(answer) = hello(broker, address).await else { return Vec::new() };
    let voters: Vec<Voter> = answer.voters.into_iter().map(member).collect();
    let observers = answer.observers.into_iter().map(member);
    let members: Vec<Voter> = voters.iter().cloned().chain(observers).collect();
    broker.senders.introduce(&members);
    broker.quorum.introduce(members);
    voters
}

/// Says hello to whoever is at an address. Nobody of this cluster is nobody.
pub(super) async fn hello(broker: &Broker, address: &str) -> Option<QuorumHelloResponse> {
    let answer = ask(address, broker.node_id, &hello_request(broker)).await.ok()?;
    (answer.cluster_id.as_ref() == Some(&broker.cluster_id)).then_some(answer)
}

fn hello_request(broker: &Broker) -> QuorumHelloRequest {
    QuorumHelloRequest {
        node_id: broker.node_id,
        directory_id: broker.directory_id,
        cluster_id: Some(broker.cluster_id.clone()),
        ..QuorumHelloRequest::default()
    }
}

fn member(node: VoterNode) -> Voter {
    Voter { node_id: node.node_id, directory_id: node.directory_id, host: node.host, port: node.port }
}

/// Where somebody may be who knows the leader.
fn addresses(broker: &Broker, membership: &Membership) -> Vec<String> {
    let status = broker.quorum.status().borrow().clone();
    let known = status.voters.voters.iter().map(|voter| address(&voter.host, voter.port));
    let told: Vec<String> = match membership {
        Membership::Alone => Vec::new(),
        Membership::Voters(voters) => voters.iter().map(VoterAddress::address).collect(),
        Membership::Join(addresses) => addresses.clone(),
    };
    known.chain(told).collect()
}

async fn ask<R: Request>(address: &str, node_id: i32, request: &R) -> Result<R::Response, ConnectionError> {
    let config = ConnectionConfig {
        client_id: format!("node-{node_id}"),
        connect_timeout: ASK_TIMEOUT,
        request_timeout: ASK_TIMEOUT,
        ..ConnectionConfig::default()
    };
    net::connect(address, &config).await?.send(request).await
}

/// Waits until this node has all the metadata that was committed when it began to wait.
///
/// What it knows itself is as old as its last stop, and so may be what a leader says that has been elected since or
/// replaced: only a leader that most voters have confirmed knows all that was committed. Whatever becomes of that
/// leader afterwards, what it has named is committed and arrives.
pub async fn catch_up(broker: &Arc<Broker>, own: &Voter, patience: Duration) -> Result<(), MembershipError> {
    let give_up = Instant::now() + patience;
    loop {
        if let Some(high_watermark) = confirmed_high_watermark(broker, own).await {
            let mut status = broker.quorum.status();
            let caught_up = status.wait_for(|status| status.high_watermark >= high_watermark);
            if timeout_at(give_up, caught_up).await.is_ok_and(|caught_up| caught_up.is_ok()) {
                broker.metadata.wait_for(broker.metadata.committed().offset()).await;
                return Ok(());
            }
        }
        if Instant::now() >= give_up {
            return Err(MembershipError::NoQuorum);
        }
        sleep(ASK_INTERVAL).await;
    }
}

/// What a leader of the quorum has committed that was confirmed to lead after it was asked.
async fn confirmed_high_watermark(broker: &Broker, own: &Voter) -> Option<i64> {
    let leader = broker.quorum.status().borrow().leader?;
    if leader == broker.node_id {
        let confirmed = timeout(ASK_TIMEOUT, broker.quorum.confirm()).await.ok()?.ok()?;
        return Some(confirmed.high_watermark);
    }
    let request = QuorumHelloRequest {
        node_id: own.node_id,
        directory_id: own.directory_id,
        cluster_id: Some(broker.cluster_id.clone()),
        wants_confirmation: true,
    };
    let connection = broker.peers.connection(leader, Lane::Heartbeats).await.ok()??;
    let answer = timeout(ASK_TIMEOUT, connection.send(&request)).await.ok()?.ok()?;
    let is_confirmed = answer.own_epoch >= 0 && answer.cluster_id.as_ref() == Some(&broker.cluster_id);
    is_confirmed.then_some(answer.high_watermark)
}
