//! A record of consumer groups (KIP-848): what their members were answered, what the log of groups says.
//!
//! - A partition is never in what two members have, or have still to give up. A member's epoch does not decrease while
//!   it is in the group, the group's never does.
//! - What a member is answered is in the log: its epoch, and what it has in it.
//! - Who commits an offset is in the group where the offset is in the log, in the epoch that it names, or has had the
//!   partition since then.
//! - In the end, what a coordinator has in memory is what the log makes of it.

use std::collections::{BTreeMap, BTreeSet};

use coordinator::group::assignor::Partitions;
use coordinator::group::consumer::{Current, Record};
use coordinator::group::records::{Stored, read};
use wire::Uuid;
use wire::api::consumer_group_describe::{Assignment, DescribedGroup};
use wire::batch::Batch;
use wire::record::RecordReader;

use super::replica::batches;
use crate::partition::Partition;

/// Partitions, by the id of their topic.
pub(super) type Owned = BTreeSet<(Uuid, i32)>;

/// The answer to a heartbeat: the epoch of the member, and what it has now if it was told.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    pub(super) group: String,
    pub(super) member: String,
    pub(super) epoch: i32,
    pub(super) assigned: Option<Owned>,
}

/// An offset that a member is about to commit.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) group: String,
    pub(super) member: String,
    pub(super) epoch: i32,
    pub(super) partition: (Uuid, i32),
}

/// What members were answered, and do.
pub(super) enum GroupEvent {
    Answered(Answered),
    Commits { number: u64, attempt: Attempt },
}

#[derive(Default)]
pub(super) struct GroupLedger {
    /// Everything below has been walked over.
    end_offset: i64,
    groups: BTreeMap<String, Group>,
    /// By the number of the commit.
    attempts: BTreeMap<u64, Attempt>,
    /// What is to be found below an offset.
    answered: Vec<(i64, Answered)>,
    pub(super) epochs: usize,
    pub(super) commits: usize,
}

/// What the log says of a group.
#[derive(Default)]
struct Group {
    epoch: i32,
    target_epoch: i32,
    members: BTreeSet<String>,
    current: BTreeMap<String, Current>,
    targets: BTreeMap<String, Partitions>,
    /// What members had, by their epochs.
    given: BTreeMap<(String, i32), BTreeSet<Owned>>,
}

impl GroupLedger {
    /// A heartbeat was answered when the log ended here.
    pub(super) fn answers(&mut self, answered: Answered, end_offset: i64) {
        self.answered.push((end_offset, answered));
    }

    pub(super) fn commits(&mut self, number: u64, attempt: Attempt) {
        self.attempts.insert(number, attempt);
    }

    /// Walks over the log of a leader, up to its high watermark.
    pub(super) fn walk(&mut self, leader: &Partition) {
        for batch in batches(leader, self.end_offset, leader.high_watermark()) {
            self.take(&batch);
        }
        let end_offset = self.end_offset;
        for (_, answered) in self.answered.extract_if(.., |(below, _)| *below <= end_offset) {
            self.groups.entry(answered.group.clone()).or_default().check_answered(&answered);
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.end_offset = batch.header.next_offset();
        if batch.header.attributes.is_control() {
            return;
        }
        let section = batch.records(1 << 20).expect("the records are readable");
        let mut changed = BTreeSet::new();
        for record in RecordReader::new(&batch.header, &section) {
            let record = record.expect("the records are readable");
            match read(record.key.expect("they have keys"), record.value).expect("the records are readable") {
                Stored::Consumer { group_id, record } => {
                    self.epochs += usize::from(matches!(record, Record::Epoch(Some(_))));
                    self.groups.entry(group_id.clone()).or_default().take(record);
                    changed.insert(group_id);
                }
                Stored::Offset { value: Some(value), .. } => {
                    let attempt = value.metadata.parse().ok().and_then(|number| self.attempts.get(&number));
                    if let Some(attempt) = attempt {
                        self.groups.entry(attempt.group.clone()).or_default().check_commit(attempt);
                        self.commits += 1;
                    }
                }
                Stored::Offset { .. } | Stored::Group { .. } => {}
            }
        }
        for group in changed {
            self.groups[&group].check(&group);
        }
    }

    /// Checks what a coordinator says of a group when all has come to rest.
    pub(super) fn check_described(&self, described: &DescribedGroup) {
        assert!(self.answered.is_empty(), "members were answered what is in no log: {:?}", self.answered);
        self.groups[&described.group_id].check_described(described);
    }
}

impl Group {
    fn take(&mut self, record: Record) {
        match record {
            Record::Epoch(epoch) => {
                let epoch = epoch.map_or(0, |epoch| epoch.epoch);
                assert!(epoch >= self.epoch, "the group's epoch is {epoch} after {}", self.epoch);
                self.epoch = epoch;
            }
            Record::TargetEpoch(target) => self.target_epoch = target.map_or(0, |target| target.epoch),
            Record::Member { member_id, metadata: Some(_) } => _ = self.members.insert(member_id),
            Record::Member { member_id, metadata: None } => _ = self.members.remove(&member_id),
            Record::Target { member_id, partitions: Some(partitions) } => {
                self.targets.insert(member_id, partitions);
            }
            Record::Target { member_id, partitions: None } => _ = self.targets.remove(&member_id),
            Record::Current { member_id, current: Some(current) } => self.take_current(member_id, current),
            Record::Current { member_id, current: None } => _ = self.current.remove(&member_id),
            Record::PartitionMetadata { .. } | Record::Regex { .. } => {}
        }
    }

    fn take_current(&mut self, member: String, current: Current) {
        let assigned: Owned = all(&current.assigned).collect();
        self.given.entry((member.clone(), current.epoch)).or_default().insert(assigned);
        if let Some(before) = self.current.insert(member.clone(), current.clone()) {
            assert!(current.epoch >= before.epoch, "{member} is {current:?} after {before:?}");
        }
    }

    fn check(&self, name: &str) {
        assert!(self.target_epoch <= self.epoch, "{name}: the target of {} is for {}", self.epoch, self.target_epoch);
        let mut owners: BTreeMap<(Uuid, i32), &String> = BTreeMap::new();
        for (member, current) in &self.current {
            assert!(self.members.contains(member), "{name}: {member} is no member, and has {current:?}");
            assert!(current.epoch <= self.target_epoch, "{name}: {member} is ahead of the target: {current:?}");
            for partition in all(&current.assigned).chain(all(&current.pending_revocation)) {
                if let Some(other) = owners.insert(partition, member) {
                    panic!("{name}: {member} and {other} have {partition:?}: {:?}", self.current);
                }
            }
        }
    }

    fn check_answered(&self, answered: &Answered) {
        let given = self.given.get(&(answered.member.clone(), answered.epoch));
        let is_given = given.is_some_and(|given| answered.assigned.as_ref().is_none_or(|owned| given.contains(owned)));
        assert!(is_given, "{answered:?}, and in the log there is {given:?}");
    }

    fn check_commit(&self, attempt: &Attempt) {
        let current = self.current.get(&attempt.member);
        let (topic, index) = attempt.partition;
        let may_commit = current.is_some_and(|current| {
            current.epoch == attempt.epoch
                || current.assignment_epoch(topic, index).is_some_and(|since| since <= attempt.epoch)
        });
        assert!(may_commit, "an offset is committed where its member is fenced: {attempt:?}, and it is {current:?}");
    }

    fn check_described(&self, described: &DescribedGroup) {
        let epochs = (described.group_epoch, described.assignment_epoch);
        assert_eq!(epochs, (self.epoch, self.target_epoch), "the epochs in memory, and those of the log");
        let members = described.members.iter();
        let in_memory: BTreeMap<&String, (i32, Owned, Owned)> = members
            .map(|member| {
                let (assignment, target) = (owned(&member.assignment), owned(&member.target_assignment));
                (&member.member_id, (member.member_epoch, assignment, target))
            })
            .collect();
        let from_log: BTreeMap<&String, (i32, Owned, Owned)> = self
            .members
            .iter()
            .map(|member| {
                let current = self.current.get(member).cloned().unwrap_or_default();
                let assigned = all(&current.assigned).chain(all(&current.pending_revocation)).collect();
                let target = self.targets.get(member).into_iter().flatten();
                let target = target.flat_map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index)));
                (member, (current.epoch, assigned, target.collect()))
            })
            .collect();
        assert_eq!(in_memory, from_log, "the members that the coordinator has in memory, and those of the log");
    }
}

fn all(assigned: &BTreeMap<Uuid, BTreeMap<i32, i32>>) -> impl Iterator<Item = (Uuid, i32)> {
    assigned.iter().flat_map(|(topic, partitions)| partitions.keys().map(|index| (*topic, *index)))
}

/// The partitions that an administrator is told.
pub(super) fn owned(assignment: &Assignment) -> Owned {
    let topics = assignment.topic_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|index| (topic.topic_id, *index))).collect()
}

#[cfg(test)]
mod tests;
