//! Who sends a request between nodes. Each names itself: the member of the quorum that it is, and its process. That it
//! is so is seen from the metadata, where brokers have registered, or asked at the address where the quorum knows the
//! member: only the process that listens there knows the number that it drew at its start. What comes from anybody else
//! is refused, and the log says where from.
//!
//! This is no authentication: docs/security.md says what it does not hold off. What replaces it answers the same
//! question, [`Senders::check`], from what a connection has proved.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use client::{ConnectionConfig, ConnectionError};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use wire::api::confirm_sender::{ConfirmSenderRequest, ConfirmSenderResponse, NodeIdentity};
use wire::{ErrorCode, Uuid};

use super::membership;
use crate::config::address;
use crate::quorum::{Voter, VoterKey};
use crate::{Broker, net};

/// How long it may take to find out whether a request is its sender's. The sender tries again.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// After so long without an answer a member is gone from where it was.
const GONE_TIMEOUT: Duration = Duration::from_millis(400);

/// Members are asked at the same time that differ in their node ids by less than this, and each one thing at a time.
const LANES: usize = 16;

/// How often other members are asked about one that this node does not know, and how long each may take to answer.
const MEET_TIMEOUT: Duration = Duration::from_millis(300);
const MEET_INTERVAL: Duration = Duration::from_millis(500);

/// Members that are remembered: more than a quorum has.
const KNOWN_MAX: usize = 512;

/// What is known of those who send requests.
#[derive(Default)]
pub struct Senders {
    /// The process of each member that has confirmed a request.
    confirmed: Mutex<HashMap<VoterKey, Uuid>>,
    /// Members that others have told of, and that the voter set of this node does not have yet.
    introduced: Mutex<HashMap<VoterKey, Voter>>,
    asking: [tokio::sync::Mutex<()>; LANES],
    met: Mutex<Option<Instant>>,
}

impl Senders {
    /// Whether a member of the cluster has sent a request that came from an address.
    pub async fn check(&self, broker: &Broker, sender: &NodeIdentity, from: SocketAddr) -> Result<(), ErrorCode> {
        if self.is_known(broker, sender) {
            return Ok(());
        }
        let is_confirmed = timeout(CONFIRM_TIMEOUT, self.find_out(broker, sender)).await;
        self.tell(broker, sender, from, is_confirmed == Ok(true))
    }

    /// Whether a node that wants to be a member, or to be reached elsewhere, is where it says.
    pub async fn check_address(
        &self,
        broker: &Broker,
        sender: &NodeIdentity,
        member: &Voter,
        from: SocketAddr,
    ) -> Result<(), ErrorCode> {
        let is_confirmed = timeout(CONFIRM_TIMEOUT, async {
            let _one_at_a_time = self.lane(sender).lock().await;
            self.is_still_elsewhere(broker, member).await.is_none() && self.ask(broker, sender, member).await
        });
        let is_confirmed = is_confirmed.await;
        self.tell(broker, sender, from, is_confirmed == Ok(true))
    }

    /// Members that others have told of.
    pub fn introduce(&self, members: &[Voter]) {
        let mut introduced = self.introduced.lock();
        if introduced.len() + members.len() > KNOWN_MAX {
            introduced.clear();
        }
        introduced.extend(members.iter().take(KNOWN_MAX).map(|member| (member.key(), member.clone())));
    }

    fn tell(
        &self,
        broker: &Broker,
        sender: &NodeIdentity,
        from: SocketAddr,
        is_confirmed: bool,
    ) -> Result<(), ErrorCode> {
        if is_confirmed {
            return Ok(());
        }
        let reason = format_args!("node {} does not say that it has sent it", sender.node_id);
        broker.log_limit.warn(from, &reason, "a request between nodes is refused");
        Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
    }

    fn is_known(&self, broker: &Broker, sender: &NodeIdentity) -> bool {
        let image = broker.metadata.load();
        let is_registered = image.broker(sender.node_id).is_some_and(|registered| {
            registered.incarnation_id == sender.incarnation_id && registered.log_dirs.contains(&sender.directory_id)
        });
        is_registered || self.confirmed.lock().get(&key(sender)) == Some(&sender.incarnation_id)
    }

    fn lane(&self, sender: &NodeIdentity) -> &tokio::sync::Mutex<()> {
        &self.asking[sender.node_id.unsigned_abs() as usize % LANES]
    }

    async fn find_out(&self, broker: &Broker, sender: &NodeIdentity) -> bool {
        let _one_at_a_time = self.lane(sender).lock().await;
        if self.is_known(broker, sender) {
            return true;
        }
        let Some(member) = self.member(broker, key(sender)).await else { return false };
        let is_confirmed = self.ask(broker, sender, &member).await;
        if is_confirmed {
            let mut confirmed = self.confirmed.lock();
            if confirmed.len() >= KNOWN_MAX {
                confirmed.clear();
            }
            confirmed.insert(key(sender), sender.incarnation_id);
        }
        is_confirmed
    }

    /// A member, from the set of this node or from what others say who are in it.
    async fn member(&self, broker: &Broker, key: VoterKey) -> Option<Voter> {
        let known = || {
            let status = broker.quorum.status();
            let member = status.borrow().voters.member(key).cloned();
            member.or_else(|| self.introduced.lock().get(&key).cloned())
        };
        if let Some(member) = known() {
            return Some(member);
        }
        let now = Instant::now();
        {
            let mut met = self.met.lock();
            if met.is_some_and(|last| now - last < MEET_INTERVAL) {
                return None;
            }
            *met = Some(now);
        }
        membership::meet_all(broker, MEET_TIMEOUT).await;
        known()
    }

    /// Asks a member, where it is, whether it is the process that has sent a request.
    async fn ask(&self, broker: &Broker, sender: &NodeIdentity, member: &Voter) -> bool {
        let request = ConfirmSenderRequest { cluster_id: broker.cluster_id.clone(), sender: sender.clone() };
        let answer: Result<ConfirmSenderResponse, ConnectionError> = async {
            let connection = net::connect(&address(&member.host, member.port), &self.config(broker)).await?;
            connection.send(&request).await
        }
        .await;
        match answer {
            Ok(answer) => answer.error_code.is_none(),
            Err(error) => {
                tracing::debug!(node_id = sender.node_id, %error, "a sender cannot be asked whether it is one");
                false
            }
        }
    }

    /// Where a member is that somebody wants to be reached in the place of, if its process is still there.
    async fn is_still_elsewhere(&self, broker: &Broker, member: &Voter) -> Option<Voter> {
        let status = broker.quorum.status();
        let known = status.borrow().voters.member(member.key()).cloned();
        let known = known.filter(|known| known != member)?;
        let at = address(&known.host, known.port);
        let met = timeout(GONE_TIMEOUT, membership::hello(broker, &at)).await.ok().flatten();
        met.is_some_and(|met| met.directory_id == known.directory_id).then_some(known)
    }

    fn config(&self, broker: &Broker) -> ConnectionConfig {
        ConnectionConfig {
            client_id: format!("node-{}", broker.node_id),
            connect_timeout: CONFIRM_TIMEOUT,
            request_timeout: CONFIRM_TIMEOUT,
            ..ConnectionConfig::default()
        }
    }
}

fn key(sender: &NodeIdentity) -> VoterKey {
    VoterKey { node_id: sender.node_id, directory_id: sender.directory_id }
}
