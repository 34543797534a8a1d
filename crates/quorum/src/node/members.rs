//! The leader's changes of the voter set, one at a time.
//!
//! The next change follows from the voter set and from what nodes have requested of this leader, and is computed again
//! after each step. So a replacement that one leader began is finished by the next: of two members with one node id the
//! first is the replaced one.

use std::collections::BTreeMap;

use raft::StateRole;

use super::{ELECTION_TICKS, Node, ProposalId};
use crate::{QuorumError, Replica, StateMachine, Voter, VoterKey, VoterSet};

/// More members than any cluster has, and nodes that may wait to become one.
const MEMBERS_MAX: usize = 256;
const WISHES_MAX: usize = 64;

/// Ticks without a message after which a voter can be replaced by one with its node id.
const GONE_TICKS: u64 = 2 * ELECTION_TICKS as u64;

/// What a node has requested to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    Observer,
    Voter,
}

/// What nodes have requested of this leader.
#[derive(Default)]
pub(crate) struct PendingMembership {
    /// By raft's ids.
    members: BTreeMap<u64, (Voter, Joined)>,
}

impl<M: StateMachine> Node<M> {
    /// Requests that a node becomes a member, or a voter, or has another address. It is done as soon as possible;
    /// [`Self::has_joined`] says when.
    pub fn join(&mut self, member: Voter, wants_to_vote: bool) -> Result<(), QuorumError> {
        self.check()?;
        self.resume()?;
        if self.leader_epoch().is_none() {
            return Err(QuorumError::NotLeader);
        }
        let id = member.raft_id();
        let is_known = self.voters.by_raft_id(id).map(Voter::key);
        if is_known.is_some_and(|known| known != member.key())
            || self.voters.members().count() >= MEMBERS_MAX && is_known.is_none()
            || self.pending_membership.members.len() >= WISHES_MAX && !self.pending_membership.members.contains_key(&id)
        {
            return Err(QuorumError::TooManyMembers);
        }
        let joined = if wants_to_vote { Joined::Voter } else { Joined::Observer };
        self.pending_membership.members.insert(id, (member, joined));
        Ok(())
    }

    pub(crate) fn has_joined(&self, key: VoterKey, joined: Joined) -> bool {
        // A change of address is still pending.
        !self.pending_membership.members.contains_key(&key.raft_id())
            && (self.voters.voter(key).is_some() || joined == Joined::Observer && self.voters.observer(key).is_some())
    }

    /// Removes a voter or an observer. It is done when the entry is applied.
    pub fn remove(&mut self, key: VoterKey) -> Result<ProposalId, QuorumError> {
        self.check()?;
        self.resume()?;
        if self.leader_epoch().is_none() {
            return Err(QuorumError::NotLeader);
        }
        if self.voters.member(key).is_none() {
            return Err(QuorumError::UnknownMember(key));
        }
        let set = self.voters.without(key);
        if set.voters.is_empty() {
            return Err(QuorumError::LastVoter);
        }
        self.pending_membership.members.remove(&key.raft_id());
        self.propose_change(&set)
    }

    /// Whether a change of the members is on its way, which others must wait for.
    pub(crate) fn is_change_under_way(&self) -> bool {
        self.leader_epoch().is_some() && self.raft.raft.has_pending_conf()
    }

    fn propose_change(&mut self, set: &VoterSet) -> Result<ProposalId, QuorumError> {
        let epoch = self.leader_epoch().ok_or(QuorumError::NotLeader)?;
        if self.raft.raft.has_pending_conf() {
            return Err(QuorumError::ChangeUnderWay);
        }
        let change = set.change_from(&self.voters);
        let batch = set.to_batch(false, self.clock.now_ms()).build();
        self.raft.propose_conf_change(batch.bytes.to_vec(), change)?;
        Ok(ProposalId { index: self.raft.raft.raft_log.last_index(), epoch })
    }

    /// Begins the next change that is due, if this node leads. Returns whether there was one.
    pub(crate) fn change_members(&mut self) -> Result<bool, QuorumError> {
        if self.leader_epoch().is_none() {
            self.pending_membership = PendingMembership::default();
            return Ok(false);
        }
        let is_fulfilled = |(member, joined): &(Voter, Joined)| {
            self.voters.voter(member.key()) == Some(member)
                || *joined == Joined::Observer && self.voters.observer(member.key()) == Some(member)
        };
        let fulfilled: Vec<u64> = self
            .pending_membership
            .members
            .iter()
            .filter(|(_, wanted)| is_fulfilled(wanted))
            .map(|(id, _)| *id)
            .collect();
        for id in fulfilled {
            self.pending_membership.members.remove(&id);
        }
        if self.raft.raft.has_pending_conf() || self.raft.raft.lead_transferee.is_some() {
            return Ok(false);
        }
        let Some(set) = self.replacement().or_else(|| self.next_membership_change()) else { return Ok(false) };
        match self.propose_change(&set) {
            Ok(_) => Ok(true),
            // Too much is in flight already.
            Err(QuorumError::NotLeader) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next step by which a member with a new disk replaces the one with the old disk.
    fn replacement(&self) -> Option<VoterSet> {
        let has_later =
            |members: &[Voter], index: usize| members[index + 1..].iter().any(|m| m.node_id == members[index].node_id);
        let VoterSet { voters, observers } = &*self.voters;
        for (index, voter) in voters.iter().enumerate() {
            if has_later(voters, index) && self.is_gone(voter) {
                return Some(self.voters.without(voter.key()));
            }
        }
        for (index, observer) in observers.iter().enumerate() {
            if has_later(observers, index) {
                return Some(self.voters.without(observer.key()));
            }
            let mut replaced = voters.iter().filter(|voter| voter.node_id == observer.node_id).peekable();
            if replaced.peek().is_some() && replaced.all(|voter| self.is_gone(voter)) && self.is_caught_up(observer) {
                return Some(self.voters.with_voter(observer.clone()));
            }
        }
        None
    }

    /// The next step to what nodes have requested.
    fn next_membership_change(&self) -> Option<VoterSet> {
        self.pending_membership.members.values().find_map(|(member, joined)| self.step_to(member, *joined))
    }

    fn step_to(&self, member: &Voter, joined: Joined) -> Option<VoterSet> {
        let key = member.key();
        let is_same_node = |other: &&Voter| other.node_id == key.node_id && other.key() != key;
        if let Some(other) = self.voters.observers.iter().find(is_same_node) {
            return Some(self.voters.without(other.key()));
        }
        if let Some(voter) = self.voters.voter(key) {
            return (voter != member).then(|| self.voters.with_voter(member.clone()));
        }
        if self.voters.observer(key) != Some(member) {
            return Some(self.voters.with_observer(member.clone()));
        }
        // An observer that is to replace a voter waits until that voter is silent for long enough.
        let is_second = self.voters.voters.iter().any(|voter| is_same_node(&voter));
        (joined == Joined::Voter && !is_second && self.is_caught_up(member))
            .then(|| self.voters.with_voter(member.clone()))
    }

    fn is_gone(&self, voter: &Voter) -> bool {
        voter.key() != self.key && self.ticks_since_contact(voter) >= GONE_TICKS
    }

    fn is_caught_up(&self, member: &Voter) -> bool {
        let raft = &self.raft.raft;
        let has_all = raft.prs().get(member.raft_id()).is_some_and(|pr| pr.matched >= raft.raft_log.committed);
        has_all && self.ticks_since_contact(member) < ELECTION_TICKS as u64
    }

    /// Raft's id of the voter that can lead best after this one.
    pub(crate) fn transfer_target(&self) -> Option<u64> {
        let others = self.voters.voters.iter().filter(|voter| voter.key() != self.key);
        let alive = others.filter(|voter| self.ticks_since_contact(voter) < ELECTION_TICKS as u64);
        let matched = |id: u64| self.raft.raft.prs().get(id).map_or(0, |progress| progress.matched);
        alive.map(Voter::raft_id).max_by_key(|id| (matched(*id), *id))
    }

    /// Begins to hand the leadership to another voter. Returns whether there is one.
    pub fn transfer_leadership(&mut self) -> Result<bool, QuorumError> {
        self.check()?;
        self.resume()?;
        let transfer_target = if self.leads() { self.transfer_target() } else { None };
        if let Some(transfer_target) = transfer_target {
            self.raft.transfer_leader(transfer_target);
        }
        Ok(transfer_target.is_some())
    }

    /// How far the members are.
    pub fn replicas(&self) -> Result<Vec<Replica>, QuorumError> {
        self.check()?;
        if self.raft.raft.state != StateRole::Leader {
            return Err(QuorumError::NotLeader);
        }
        let now = self.clock.now();
        let since_1970 = |ms: Option<i64>| ms.map_or(-1, |ms| now.wall_ms - (now.monotonic_ms - ms));
        let storage = self.raft.store();
        let replica = |member: &Voter, is_voter| {
            let id = member.raft_id();
            let is_own = member.key() == self.key;
            let matched = self.raft.raft.prs().get(id).map_or(0, |progress| progress.matched);
            let matched = if is_own { storage.last_index() } else { matched };
            let contact = self.contacts.get(&id).copied().unwrap_or_default();
            let own_ms = is_own.then_some(now.monotonic_ms);
            Replica {
                key: member.key(),
                is_voter,
                log_end_offset: storage.offset_of(matched).map_or(-1, |offset| offset + 1),
                last_heard_ms: since_1970(own_ms.or(contact.last_ms)),
                last_caught_up_ms: since_1970(own_ms.or(contact.caught_up_ms)),
            }
        };
        let voters = self.voters.voters.iter().map(|voter| replica(voter, true));
        let observers = self.voters.observers.iter().map(|observer| replica(observer, false));
        Ok(voters.chain(observers).collect())
    }
}
