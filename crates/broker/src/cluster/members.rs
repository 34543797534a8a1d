//! The addresses of the quorum's members: from its voter set, and from nodes that have a newer one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::{BrokerConfig, Membership, VoterAddress, address};
use parking_lot::Mutex;
use quorum::{Quorum, Voter, VoterKey};
use tokio::time::timeout;
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::api::quorum_join::VoterNode;

use crate::stream::Dialer;

/// How long others may take to answer.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Members that are remembered: more than a quorum has.
pub(super) const KNOWN_MAX: usize = 512;

pub struct Members {
    pub(super) own: VoterKey,
    pub(super) cluster_id: String,
    pub(super) quorum: Quorum,
    pub(super) dialer: Dialer,
    config: Arc<ArcSwap<BrokerConfig>>,
    /// Members learned from others, which the voter set of this node may not have yet.
    learned: Mutex<HashMap<VoterKey, Voter>>,
}

impl Members {
    pub fn new(
        own: VoterKey,
        cluster_id: String,
        quorum: Quorum,
        config: Arc<ArcSwap<BrokerConfig>>,
        dialer: Dialer,
    ) -> Self {
        Self { own, cluster_id, quorum, dialer, config, learned: Mutex::default() }
    }

    /// A member, from the voter set of this node or from answers of other members.
    pub fn find(&self, key: VoterKey) -> Option<Voter> {
        self.of_set(key).or_else(|| self.learned.lock().get(&key).cloned())
    }

    pub(super) fn of_set(&self, key: VoterKey) -> Option<Voter> {
        self.quorum.status().voters.member(key).cloned()
    }

    /// Asks all known addresses for the members, so that this node can answer them, and returns the voters. Each may
    /// take so long to answer.
    pub(super) async fn ask_all(&self, max_wait: Duration) -> Vec<Voter> {
        let mut voters = Vec::new();
        for address in self.addresses() {
            voters.extend(timeout(max_wait, self.ask_for_members(&address)).await.unwrap_or_default());
        }
        voters
    }

    async fn ask_for_members(&self, address: &str) -> Vec<Voter> {
        let Some(answer) = self.hello(address).await else { return Vec::new() };
        let voters: Vec<Voter> = answer.voters.into_iter().map(member).collect();
        let observers = answer.observers.into_iter().map(member);
        let members: Vec<Voter> = voters.iter().cloned().chain(observers).collect();
        self.learn(&members);
        self.quorum.add_peer_addresses(members);
        voters
    }

    fn learn(&self, members: &[Voter]) {
        let mut learned = self.learned.lock();
        if learned.len() + members.len() > KNOWN_MAX {
            learned.clear();
        }
        learned.extend(members.iter().take(KNOWN_MAX).map(|member| (member.key(), member.clone())));
    }

    /// Sends QuorumHello to an address. `None` if the node there is not of this cluster.
    pub(super) async fn hello(&self, address: &str) -> Option<QuorumHelloResponse> {
        let answer = self.dialer.ask(address, ASK_TIMEOUT, &self.hello_request()).await.ok()?;
        (answer.cluster_id.as_ref() == Some(&self.cluster_id)).then_some(answer)
    }

    pub(super) fn hello_request(&self) -> QuorumHelloRequest {
        QuorumHelloRequest {
            node_id: self.own.node_id,
            directory_id: self.own.directory_id,
            cluster_id: Some(self.cluster_id.clone()),
            ..QuorumHelloRequest::default()
        }
    }

    /// Addresses of nodes that may know the leader.
    pub(super) fn addresses(&self) -> Vec<String> {
        let status = self.quorum.status();
        let known = status.voters.voters.iter().map(|voter| address(&voter.host, voter.port));
        let configured: Vec<String> = match self.config.load().membership() {
            Ok(Membership::Voters(voters)) => voters.iter().map(VoterAddress::address).collect(),
            Ok(Membership::Join(addresses)) => addresses,
            Ok(Membership::Alone) | Err(_) => Vec::new(),
        };
        known.chain(configured).collect()
    }

    /// Whether this node is to vote when it has caught up.
    pub(super) fn wants_to_vote(&self) -> bool {
        self.config.load().controller_quorum_auto_join_enable
    }
}

fn member(node: VoterNode) -> Voter {
    Voter { node_id: node.node_id, directory_id: node.directory_id, host: node.host, port: node.port }
}
