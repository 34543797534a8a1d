//! The members of the metadata quorum, and how they are written to its log: as Kafka's VotersRecord (KIP-853), each
//! with the whole set after a change.

use std::collections::BTreeSet;

use bytes::BytesMut;
use raft::eraftpb::{ConfChange, ConfChangeType, ConfState};
use wire::Uuid;
use wire::batch::{Batch, BatchBuilder};
use wire::state::Stored;
use wire::state::control::{
    ControlType, Endpoint, KRaftVersionFeature, KRaftVersionRecord, RegisteredVoter, VotersRecord,
};

use super::{QuorumError, batches};

/// The version of Kafka's voter sets that are in the log.
const KRAFT_VERSION: i16 = 1;

/// Name of the endpoint in VotersRecord, which holds one for each listener.
const LISTENER: &str = "CONTROLLER";

/// One disk of one node. A node that comes back with a new disk is another member: its promises were on the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterKey {
    pub node_id: i32,
    /// Of `meta.properties`.
    pub directory_id: Uuid,
}

impl VoterKey {
    /// What raft calls it: half of it is the directory. 0 is none.
    pub(super) fn raft_id(self) -> u64 {
        let [a, b, c, d, ..] = if storage::injected_fault!(EmptyDiskVotes) { [0; 16] } else { self.directory_id.0 };
        u64::from(u32::from_be_bytes([a, b, c, d])) << 32 | u64::from((self.node_id as u32).wrapping_add(1))
    }
}

/// The node of a raft id.
pub(super) fn node_id(raft_id: u64) -> Option<i32> {
    i32::try_from((raft_id as u32).checked_sub(1)?).ok()
}

/// A member of the quorum, and where it listens to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voter {
    pub node_id: i32,
    pub directory_id: Uuid,
    pub host: String,
    pub port: u16,
}

impl Voter {
    pub fn key(&self) -> VoterKey {
        VoterKey { node_id: self.node_id, directory_id: self.directory_id }
    }

    pub(super) fn raft_id(&self) -> u64 {
        self.key().raft_id()
    }
}

/// All members, sorted by node id. Of two with one node id, the second came later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoterSet {
    pub voters: Vec<Voter>,
    /// They follow the log and have no vote.
    pub observers: Vec<Voter>,
}

impl VoterSet {
    /// The set of these voters and no observers.
    pub fn new(mut voters: Vec<Voter>) -> Self {
        voters.sort_by_key(|voter| voter.node_id);
        Self { voters, observers: Vec::new() }
    }

    pub fn members(&self) -> impl Iterator<Item = &Voter> {
        self.voters.iter().chain(&self.observers)
    }

    pub fn voter(&self, key: VoterKey) -> Option<&Voter> {
        self.voters.iter().find(|voter| voter.key() == key)
    }

    pub fn observer(&self, key: VoterKey) -> Option<&Voter> {
        self.observers.iter().find(|observer| observer.key() == key)
    }

    pub fn member(&self, key: VoterKey) -> Option<&Voter> {
        self.members().find(|member| member.key() == key)
    }

    pub(super) fn by_raft_id(&self, raft_id: u64) -> Option<&Voter> {
        self.members().find(|member| member.raft_id() == raft_id)
    }

    /// The set with a voter added, or with its new address.
    pub(super) fn with_voter(&self, voter: Voter) -> Self {
        let mut set = self.clone();
        set.observers.retain(|observer| observer.key() != voter.key());
        put(&mut set.voters, voter);
        set
    }

    /// The set with an observer added, or with its new address.
    pub(super) fn with_observer(&self, observer: Voter) -> Self {
        let mut set = self.clone();
        put(&mut set.observers, observer);
        set
    }

    pub(super) fn without(&self, key: VoterKey) -> Self {
        let mut set = self.clone();
        set.voters.retain(|voter| voter.key() != key);
        set.observers.retain(|observer| observer.key() != key);
        set
    }

    pub(super) fn conf_state(&self) -> ConfState {
        let ids = |members: &[Voter]| members.iter().map(Voter::raft_id).collect::<Vec<_>>();
        ConfState::from((ids(&self.voters), ids(&self.observers)))
    }

    /// Raft's type for the change from `before` to this set. A change that adds and removes no member is none to raft.
    pub(super) fn change_from(&self, before: &Self) -> ConfChange {
        let is_new = |members: &[Voter], member: &Voter| !members.iter().any(|other| other.key() == member.key());
        let voter = self.voters.iter().find(|voter| is_new(&before.voters, voter));
        let observer = self.observers.iter().find(|observer| is_new(&before.observers, observer));
        let gone = before.members().find(|member| self.member(member.key()).is_none());
        let (kind, member) = match (voter, observer, gone) {
            (Some(voter), _, _) => (ConfChangeType::AddNode, Some(voter)),
            (_, Some(observer), _) => (ConfChangeType::AddLearnerNode, Some(observer)),
            (_, _, Some(gone)) => (ConfChangeType::RemoveNode, Some(gone)),
            _ => (ConfChangeType::AddNode, self.voters.first()),
        };
        let mut change = ConfChange::default();
        change.set_change_type(kind);
        change.node_id = member.map_or(0, Voter::raft_id);
        change
    }

    /// Raft's ids of the voters and of the observers.
    pub(super) fn ids(&self) -> [BTreeSet<u64>; 2] {
        [&self.voters, &self.observers].map(|members| members.iter().map(Voter::raft_id).collect())
    }

    /// The ids that raft has after a change.
    pub(super) fn ids_after(&self, change: &ConfChange) -> [BTreeSet<u64>; 2] {
        let [mut voters, mut observers] = self.ids();
        voters.remove(&change.node_id);
        observers.remove(&change.node_id);
        match change.get_change_type() {
            ConfChangeType::AddNode => _ = voters.insert(change.node_id),
            ConfChangeType::AddLearnerNode => _ = observers.insert(change.node_id),
            ConfChangeType::RemoveNode => {}
        }
        [voters, observers]
    }

    /// The control batch of this set. In a snapshot it follows the version of its format.
    pub(super) fn to_batch(&self, is_snapshot: bool, now_ms: i64) -> BatchBuilder {
        let mut body = BytesMut::new();
        let mut builder = BatchBuilder::new().control();
        if is_snapshot {
            KRaftVersionRecord { version: 0, kraft_version: KRAFT_VERSION }.write_body(&mut body, 0);
            builder.push(now_ms, Some(&ControlType::KRaftVersion.write()), Some(&body), &[]);
            body.clear();
        }
        let registered = |members: &[Voter]| members.iter().map(registered).collect();
        let record =
            VotersRecord { version: 0, voters: registered(&self.voters), observers: registered(&self.observers) };
        record.write_body(&mut body, 0);
        builder.push(now_ms, Some(&ControlType::KRaftVoters.write()), Some(&body), &[]);
        builder
    }

    /// The set that a batch holds; `None` if it holds none.
    pub(super) fn from_batch(batch: &Batch) -> Result<Option<Self>, QuorumError> {
        if !batch.header.attributes.is_control() {
            return Ok(None);
        }
        for (key, value) in batches::records(batch)? {
            if ControlType::read(&key) == Ok(ControlType::KRaftVoters) {
                let record = VotersRecord::read_body(&value, 0).map_err(QuorumError::corrupt)?;
                let members = |members: Vec<RegisteredVoter>| members.into_iter().map(member).collect();
                return Ok(Some(Self { voters: members(record.voters), observers: members(record.observers) }));
            }
        }
        Ok(None)
    }
}

fn put(members: &mut Vec<Voter>, member: Voter) {
    match members.iter_mut().find(|other| other.key() == member.key()) {
        Some(known) => *known = member,
        None => members.insert(members.partition_point(|other| other.node_id <= member.node_id), member),
    }
}

fn registered(member: &Voter) -> RegisteredVoter {
    let endpoint = Endpoint { name: LISTENER.to_owned(), host: member.host.clone(), port: member.port };
    RegisteredVoter {
        voter_id: member.node_id,
        voter_directory_id: member.directory_id,
        endpoints: vec![endpoint],
        kraft_version_feature: KRaftVersionFeature { min_supported_version: 0, max_supported_version: KRAFT_VERSION },
    }
}

fn member(registered: RegisteredVoter) -> Voter {
    let (host, port) = registered
        .endpoints
        .into_iter()
        .next()
        .map_or_else(Default::default, |endpoint| (endpoint.host, endpoint.port));
    Voter { node_id: registered.voter_id, directory_id: registered.voter_directory_id, host, port }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(node_id: i32, directory: u8) -> Voter {
        Voter { node_id, directory_id: Uuid([directory; 16]), host: format!("h{directory}"), port: 9093 }
    }

    #[test]
    fn raft_ids_differ_by_disk_and_lead_back_to_the_node() {
        for id in [0, 1, i32::MAX] {
            assert_eq!(node_id(voter(id, 7).raft_id()), Some(id));
            assert_eq!(node_id(voter(id, 0xff).raft_id()), Some(id));
            assert_ne!(voter(id, 7).raft_id(), voter(id, 8).raft_id());
        }
        assert_eq!(node_id(0), None);
    }

    #[test]
    fn each_change_is_read_back_from_the_sets_around_it() {
        let start = VoterSet::new(vec![voter(3, 3), voter(1, 1), voter(2, 2)]);
        assert_eq!(start.voters[0].node_id, 1);
        let joined = start.with_observer(voter(2, 9));
        let promoted = joined.with_voter(voter(2, 9));
        assert_eq!(promoted.voters[2], voter(2, 9), "whoever comes later is behind");
        let replaced = promoted.without(voter(2, 2).key());
        let moved = replaced.with_voter(Voter { host: "elsewhere".to_owned(), ..voter(2, 9) });
        use ConfChangeType::{AddLearnerNode, AddNode, RemoveNode};
        let steps = [
            (&start, &joined, AddLearnerNode, voter(2, 9)),
            (&joined, &promoted, AddNode, voter(2, 9)),
            (&promoted, &replaced, RemoveNode, voter(2, 2)),
            (&replaced, &moved, AddNode, voter(1, 1)),
        ];
        for (before, after, kind, member) in steps {
            let change = after.change_from(before);
            assert_eq!((change.get_change_type(), change.node_id), (kind, member.raft_id()));
            for is_snapshot in [false, true] {
                let batch = after.to_batch(is_snapshot, 5).build();
                assert_eq!(VoterSet::from_batch(&batch).unwrap().as_ref(), Some(after));
            }
        }
        assert_eq!(moved.without(voter(2, 9).key()).change_from(&moved).get_change_type(), RemoveNode);
    }
}
