//! A consumer group (KIP-848) as a pure state machine: no IO, no clock, no randomness.
//!
//! Members only send heartbeats. The group has an epoch, which every change of its subscriptions or their topics
//! advances; a target assignment with the epoch that it is for; and of each member what it has now and its own epoch,
//! which follows the target's as the member gives up what it is no longer to have. Behaviour follows Kafka's
//! `GroupMetadataManager`, `ConsumerGroup` and `CurrentAssignmentBuilder`.
//!
//! The coordinator calls it with the group's lock held and passes the time in. A change takes effect at once and comes
//! back as a [`Change`]: records to write, and those that take it back if they could not be written.
//!
//! What always holds: the group is what the last record of each key says, in whatever order they came, so that it
//! survives a compacted log; a partition is given to a member only when no other member has it or has still to give it
//! up; `wake_ms` is no later than any deadline.

mod classic;
mod describe;
mod hash;
mod heartbeat;
mod hidden;
mod leave;
mod member;
mod offsets;
mod reconcile;
mod record;
mod target;
mod timers;

use std::collections::BTreeMap;

pub use classic::{ClassicJoin, SUBSCRIBED_TOPICS_MAX, distinct, encode_assignment};
pub use describe::State;
pub use heartbeat::{Answer, Heartbeat, Resolution};
use hidden::Hidden;
pub use member::{Assigned, ClassicProtocol, ClassicSettings, Current, MEMBER_BYTES_MIN, MemberMetadata, MemberState};
pub use record::{GroupEpoch, Record, ResolvedRegex, TargetEpoch};
use timers::Timers;
use wire::{ErrorCode, Uuid};

use super::Now;
use super::assignor::{Assignor, Partitions};
use super::interfaces::TopicSnapshot;

/// The epoch of a heartbeat that joins or rejoins.
pub const JOIN_EPOCH: i32 = 0;
/// The epoch of a heartbeat that leaves.
pub const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member's heartbeat that leaves and comes back.
pub const STATIC_LEAVE_EPOCH: i32 = -2;

/// The epoch before any member has come.
const FIRST_EPOCH: i32 = 1;
/// The epoch of a target assignment that there is not.
const NO_EPOCH: i32 = -1;

/// What a group is told by its settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub max_size: usize,
    pub session_timeout_ms: i32,
    pub heartbeat_interval_ms: i32,
    /// How long a target assignment stays at least (KIP-1263).
    pub assignment_interval_ms: i32,
    /// Those that members may ask for. The first is the default.
    pub assignors: Vec<Assignor>,
}

/// What surrounds a change.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub settings: &'a Settings,
    pub topics: &'a dyn TopicSnapshot,
    pub now: Now,
}

/// Why a heartbeat is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// A change that has been made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// To be written.
    pub records: Vec<Record>,
    /// What takes it back, from the end to the start.
    undo: Vec<Record>,
}

impl Change {
    /// Adds a change that followed this one.
    pub fn extend(&mut self, later: Self) {
        self.records.extend(later.records);
        self.undo.extend(later.undo);
    }
}

/// A consumer group. By default one that has never had a member.
#[derive(Clone, Debug, Default)]
pub struct ConsumerGroup {
    epoch: Option<GroupEpoch>,
    target_epoch: Option<TargetEpoch>,
    /// Kafka before 4.1 wrote a record that has no use any more.
    has_partition_metadata: bool,
    members: BTreeMap<String, MemberMetadata>,
    current: BTreeMap<String, Current>,
    targets: BTreeMap<String, Partitions>,
    regexes: BTreeMap<String, ResolvedRegex>,

    // All of the following comes from the records.
    /// Instance id to member id.
    static_members: BTreeMap<String, String>,
    /// How many members name a topic.
    topic_subscribers: BTreeMap<String, usize>,
    /// How many members have subscribed with a pattern.
    regex_subscribers: BTreeMap<String, usize>,
    /// How many members have a partition, or have still to give it up. More than one has it only after another
    /// coordinator's mistake.
    owners: BTreeMap<(Uuid, i32), usize>,
    member_bytes: usize,
    /// The change of members' memory since the last call, by their clients' hosts.
    member_growth: BTreeMap<String, isize>,

    // The rest is not stored.
    hidden: Hidden,
    timers: BTreeMap<String, Timers>,
    wake_ms: Option<i64>,
    /// Whether the topics are known to be those that `epoch` knows of.
    has_current_topics: bool,
    /// The version of the metadata that last changed them.
    changed_version: i64,
    /// When the target assignment was made, if that was in this process.
    assigned_ms: Option<i64>,
    /// When patterns were last resolved, if that was in this process, and whether topics have come since.
    resolved_ms: Option<i64>,
    has_new_topics: bool,
    is_resolving: bool,
}

impl ConsumerGroup {
    pub fn epoch(&self) -> i32 {
        self.epoch.map_or(FIRST_EPOCH, |epoch| epoch.epoch)
    }

    /// The epoch that the target assignment is for.
    pub fn assignment_epoch(&self) -> i32 {
        self.target_epoch.map_or(NO_EPOCH, |target| target.epoch)
    }

    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether there are members, and all of them use the classic protocol.
    pub fn is_all_classic(&self) -> bool {
        !self.is_empty() && self.members.values().all(|member| member.classic.is_some())
    }

    /// The members with what they say of themselves and are to have.
    pub fn members_with_targets(&self) -> impl Iterator<Item = (&str, &MemberMetadata, &Partitions)> {
        static NOTHING: Partitions = Partitions::new();
        self.members.iter().map(|(member_id, metadata)| {
            (member_id.as_str(), metadata, self.targets.get(member_id).unwrap_or(&NOTHING))
        })
    }

    /// Has members who have come from the classic protocol, by the records of [`super::migration::upgrade`].
    pub fn take_over(&mut self, context: Context<'_>, records: Vec<Record>) -> Change {
        let mut change = Change::default();
        for record in records {
            self.make(&mut change, record);
        }
        let epoch = GroupEpoch { epoch: self.assignment_epoch(), metadata_hash: self.metadata_hash(context) };
        self.make(&mut change, Record::Epoch(Some(epoch)));
        self.resume(context);
        change
    }

    /// What a member takes, if there is such a member.
    pub fn member_bytes(&self, member_id: &str) -> Option<usize> {
        self.has_member(member_id).then(|| self.member_size(member_id).1)
    }

    pub fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// Whether the log has records of the group.
    pub fn is_stored(&self) -> bool {
        self.epoch.is_some()
            || self.target_epoch.is_some()
            || self.has_partition_metadata
            || !(self.members.is_empty() && self.current.is_empty() && self.targets.is_empty())
            || !self.regexes.is_empty()
    }

    /// Whether a member has subscribed to the topic, by name or by a pattern that it matched.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.topic_subscribers.contains_key(topic) || self.regexes.values().any(|regex| regex.topics.contains(topic))
    }

    /// Topics have changed with a version of the metadata: the next heartbeat that sees it looks whether they are the
    /// group's.
    pub fn topics_changed(&mut self, version: i64, has_new_topics: bool) {
        self.has_current_topics = false;
        self.changed_version = self.changed_version.max(version);
        self.has_new_topics |= has_new_topics;
    }

    /// Makes a change, whose record is to be written.
    fn make(&mut self, change: &mut Change, record: Record) {
        let former = self.apply(record.clone());
        change.records.push(record);
        change.undo.push(former);
    }

    /// Takes a change back that could not be written. Nothing may have changed since.
    pub fn take_back(&mut self, change: Change) {
        for former in change.undo.into_iter().rev() {
            self.apply(former);
        }
        self.has_current_topics = false;
        self.hidden.clear();
        self.assigned_ms = None;
    }

    /// Takes over what a record says, whatever was there before. Returns what was there.
    pub fn apply(&mut self, record: Record) -> Record {
        let Some(member_id) = record.member_id().map(str::to_owned) else { return self.apply_to_group(record) };
        let (former_host, former_bytes) = self.member_size(&member_id);
        let former = self.apply_to_member(&member_id, record);
        let (host, bytes) = self.member_size(&member_id);
        self.count_member_bytes(former_host, -(former_bytes as isize));
        self.count_member_bytes(host, bytes as isize);
        former
    }

    fn apply_to_group(&mut self, record: Record) -> Record {
        match record {
            Record::Epoch(epoch) => Record::Epoch(std::mem::replace(&mut self.epoch, epoch)),
            Record::TargetEpoch(epoch) => Record::TargetEpoch(std::mem::replace(&mut self.target_epoch, epoch)),
            Record::PartitionMetadata { exists } => {
                Record::PartitionMetadata { exists: std::mem::replace(&mut self.has_partition_metadata, exists) }
            }
            Record::Regex { pattern, resolved } => {
                let former = match resolved {
                    Some(resolved) => self.regexes.insert(pattern.clone(), resolved),
                    None => self.regexes.remove(&pattern),
                };
                Record::Regex { pattern, resolved: former }
            }
            of_member @ (Record::Member { .. } | Record::Target { .. } | Record::Current { .. }) => of_member,
        }
    }

    fn apply_to_member(&mut self, member_id: &str, record: Record) -> Record {
        match record {
            Record::Member { member_id, metadata } => {
                let former = match metadata {
                    Some(metadata) => {
                        self.count_subscriptions(&metadata, true);
                        if let Some(instance_id) = &metadata.instance_id {
                            self.static_members.insert(instance_id.clone(), member_id.clone());
                        }
                        self.members.insert(member_id.clone(), metadata)
                    }
                    None => self.members.remove(&member_id),
                };
                if let Some(former) = &former {
                    self.count_subscriptions(former, false);
                    self.forget_instance(&member_id, former);
                }
                Record::Member { member_id, metadata: former }
            }
            Record::Target { member_id, partitions } => {
                let former = match partitions {
                    Some(partitions) => self.targets.insert(member_id.clone(), partitions),
                    None => self.targets.remove(&member_id),
                };
                Record::Target { member_id, partitions: former }
            }
            Record::Current { member_id, current } => {
                let former = match current {
                    Some(current) => {
                        count_owned(&mut self.owners, &current, true);
                        self.current.insert(member_id.clone(), current)
                    }
                    None => self.current.remove(&member_id),
                };
                if let Some(former) = &former {
                    count_owned(&mut self.owners, former, false);
                }
                Record::Current { member_id, current: former }
            }
            of_group => {
                debug_assert!(of_group.member_id().is_none(), "{member_id} has a record of another kind");
                self.apply_to_group(of_group)
            }
        }
    }

    /// Forgets which member an instance id belongs to, unless that is another one by now.
    fn forget_instance(&mut self, member_id: &str, former: &MemberMetadata) {
        let Some(instance_id) = &former.instance_id else { return };
        let is_kept = self.members.get(member_id).is_some_and(|now| now.instance_id.as_ref() == Some(instance_id));
        if !is_kept && self.static_members.get(instance_id).is_some_and(|holder| holder == member_id) {
            self.static_members.remove(instance_id);
        }
    }

    fn count_subscriptions(&mut self, metadata: &MemberMetadata, is_new: bool) {
        for topic in &metadata.topics {
            count(&mut self.topic_subscribers, topic, is_new);
        }
        if let Some(pattern) = metadata.pattern() {
            count(&mut self.regex_subscribers, pattern, is_new);
        }
    }

    /// The host of a member's client, and about what the member takes.
    fn member_size(&self, member_id: &str) -> (String, usize) {
        let metadata = self.members.get(member_id);
        let bytes = metadata.map_or(0, |metadata| metadata.size_bytes(member_id))
            + self.current.get(member_id).map_or(0, Current::size_bytes)
            + self.targets.get(member_id).map_or(0, member::partitions_bytes);
        (metadata.map_or_else(String::new, |metadata| metadata.client_host.clone()), bytes)
    }

    fn count_member_bytes(&mut self, client_host: String, bytes: isize) {
        if bytes != 0 {
            self.member_bytes = self.member_bytes.saturating_add_signed(bytes);
            *self.member_growth.entry(client_host).or_default() += bytes;
        }
    }

    /// The change of members' memory since the last call, by their clients' hosts.
    pub fn take_member_growth(&mut self) -> BTreeMap<String, isize> {
        std::mem::take(&mut self.member_growth)
    }

    /// What the members take, by their clients' hosts.
    pub fn member_sizes(&self) -> impl Iterator<Item = (String, usize)> {
        let mut ids: Vec<&String> = self.members.keys().chain(self.current.keys()).chain(self.targets.keys()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().map(|member_id| self.member_size(member_id))
    }

    /// Estimate of the memory that the group takes.
    pub fn size_bytes(&self) -> usize {
        const GROUP_BYTES: usize = 500;
        let regexes = self.regexes.iter().map(|(pattern, regex)| pattern.len() + regex.size_bytes());
        GROUP_BYTES + self.member_bytes + regexes.sum::<usize>()
    }

    /// The part of it that is not its members'.
    pub fn own_bytes(&self) -> usize {
        self.size_bytes() - self.member_bytes
    }
}

/// Counts one more or one less of a key.
fn count(counts: &mut BTreeMap<String, usize>, key: &str, is_new: bool) {
    if is_new {
        *counts.entry(key.to_owned()).or_default() += 1;
    } else if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn count_owned(owners: &mut BTreeMap<(Uuid, i32), usize>, current: &Current, is_new: bool) {
    for (topic, partition) in member::all(&current.assigned).chain(member::all(&current.pending_revocation)) {
        if is_new {
            *owners.entry((topic, partition)).or_default() += 1;
        } else if let Some(count) = owners.get_mut(&(topic, partition)) {
            *count -= 1;
            if *count == 0 {
                owners.remove(&(topic, partition));
            }
        }
    }
}

#[cfg(test)]
mod tests;
