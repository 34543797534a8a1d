//! Who sends a request between nodes. Each request names the member of the quorum and its process. The claim is checked
//! against the certificate of the connection, where the inter-broker listener asks for one, and against the metadata,
//! where brokers have registered, or by a request to the member's address in the quorum: only the process that listens
//! there knows its incarnation id. Requests of other senders are refused and logged with their address.
//!
//! Without certificates this is no authentication: docs/security.md says what it does not prevent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use configuration::address;
use metadata::MetadataCache;
use parking_lot::Mutex;
use platform::{Allowed, LogLimit};
use quorum::{Voter, VoterKey};
use tokio::time::{Instant, timeout};
use wire::api::confirm_sender::{ConfirmSenderRequest, NodeIdentity};
use wire::{ErrorCode, Uuid};

use super::members::{KNOWN_MAX, Members};
use crate::security::nodes::Origin;

/// How long the check of a sender may take. The sender tries again.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// After so long without an answer a member is no longer at its address.
const GONE_TIMEOUT: Duration = Duration::from_millis(400);

/// Members are asked in parallel if their node ids differ by less than this, and each has one request at a time.
const LANES: usize = 16;

/// How often other members are asked about one that this node does not know, and how long each may take to answer.
const MEMBERS_TIMEOUT: Duration = Duration::from_millis(300);
const MEMBERS_INTERVAL: Duration = Duration::from_millis(500);

/// What is known of the senders of requests.
pub struct Senders {
    members: Arc<Members>,
    metadata: Arc<MetadataCache>,
    log_limit: Arc<LogLimit>,
    /// The process of each member that has confirmed a request.
    confirmed: Mutex<HashMap<VoterKey, Uuid>>,
    asking: [tokio::sync::Mutex<()>; LANES],
    /// When other members were last asked for members that this node does not know.
    last_asked: Mutex<Option<Instant>>,
}

impl Senders {
    pub fn new(members: Arc<Members>, metadata: Arc<MetadataCache>, log_limit: Arc<LogLimit>) -> Self {
        Self {
            members,
            metadata,
            log_limit,
            confirmed: Mutex::default(),
            asking: Default::default(),
            last_asked: Mutex::default(),
        }
    }

    /// Whether a member of the cluster has sent a request.
    pub async fn check(&self, sender: &NodeIdentity, from: Origin<'_>) -> Result<(), ErrorCode> {
        let host = from.certificate.and_then(|_| self.members.find(key(sender))).map(|member| member.host);
        if !from.may_be(sender.node_id, host.as_deref().into_iter()) {
            return self.tell(sender, from, false);
        }
        if self.is_known(sender) {
            return Ok(());
        }
        let is_confirmed = timeout(CONFIRM_TIMEOUT, self.find_out(sender)).await;
        self.tell(sender, from, is_confirmed == Ok(true))
    }

    /// Whether a node that wants to be a member, or to change its address, is at the address that it says.
    pub async fn check_address(
        &self,
        sender: &NodeIdentity,
        member: &Voter,
        from: Origin<'_>,
    ) -> Result<(), ErrorCode> {
        if !from.may_be(member.node_id, [member.host.as_str()].into_iter()) {
            return self.tell(sender, from, false);
        }
        let is_confirmed = timeout(CONFIRM_TIMEOUT, async {
            let _one_at_a_time = self.lane(sender).lock().await;
            self.is_still_elsewhere(member).await.is_none() && self.ask(sender, member).await
        });
        let is_confirmed = is_confirmed.await;
        self.tell(sender, from, is_confirmed == Ok(true))
    }

    fn tell(&self, sender: &NodeIdentity, from: Origin<'_>, is_confirmed: bool) -> Result<(), ErrorCode> {
        if is_confirmed {
            return Ok(());
        }
        if let Some(Allowed { left_out }) = self.log_limit.allow(from.address) {
            tracing::warn!(
                address = %from.address, node = sender.node_id, left_out,
                "a request between nodes is refused: this node does not say that it has sent it"
            );
        }
        Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
    }

    fn is_known(&self, sender: &NodeIdentity) -> bool {
        let image = self.metadata.load();
        let is_registered = image.broker(sender.node_id).is_some_and(|registered| {
            registered.incarnation_id == sender.incarnation_id && registered.log_dirs.contains(&sender.directory_id)
        });
        is_registered || self.confirmed.lock().get(&key(sender)) == Some(&sender.incarnation_id)
    }

    fn lane(&self, sender: &NodeIdentity) -> &tokio::sync::Mutex<()> {
        &self.asking[sender.node_id.unsigned_abs() as usize % LANES]
    }

    async fn find_out(&self, sender: &NodeIdentity) -> bool {
        let _one_at_a_time = self.lane(sender).lock().await;
        if self.is_known(sender) {
            return true;
        }
        let Some(member) = self.member(key(sender)).await else { return false };
        let is_confirmed = self.ask(sender, &member).await;
        if is_confirmed {
            let mut confirmed = self.confirmed.lock();
            if confirmed.len() >= KNOWN_MAX {
                confirmed.clear();
            }
            confirmed.insert(key(sender), sender.incarnation_id);
        }
        is_confirmed
    }

    /// A member, from the voter set of this node or from answers of other members.
    async fn member(&self, key: VoterKey) -> Option<Voter> {
        if let Some(member) = self.members.find(key) {
            return Some(member);
        }
        let now = Instant::now();
        {
            let mut last_asked = self.last_asked.lock();
            if last_asked.is_some_and(|last| now - last < MEMBERS_INTERVAL) {
                return None;
            }
            *last_asked = Some(now);
        }
        self.members.ask_all(MEMBERS_TIMEOUT).await;
        self.members.find(key)
    }

    /// Asks a member at its address whether it is the process that has sent a request.
    async fn ask(&self, sender: &NodeIdentity, member: &Voter) -> bool {
        let request = ConfirmSenderRequest { cluster_id: self.members.cluster_id.clone(), sender: sender.clone() };
        match self.members.dialer.ask(&address(&member.host, member.port), CONFIRM_TIMEOUT, &request).await {
            Ok(answer) => answer.error_code.is_none(),
            Err(error) => {
                tracing::debug!(node_id = sender.node_id, %error, "a sender cannot be asked whether it is one");
                false
            }
        }
    }

    /// The address of a member that a sender claims to replace, if its process still runs there.
    async fn is_still_elsewhere(&self, member: &Voter) -> Option<Voter> {
        let known = self.members.of_set(member.key()).filter(|known| known != member)?;
        let at = address(&known.host, known.port);
        let met = timeout(GONE_TIMEOUT, self.members.hello(&at)).await.ok().flatten();
        met.is_some_and(|met| met.directory_id == known.directory_id).then_some(known)
    }
}

fn key(sender: &NodeIdentity) -> VoterKey {
    VoterKey { node_id: sender.node_id, directory_id: sender.directory_id }
}
