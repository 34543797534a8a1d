//! One group of the classic protocol as a pure state machine: no IO, no clock, no randomness.
//!
//! The coordinator calls it with the group's lock held and passes the time in. What has to happen outside comes back as
//! [`Output`]: answers to requests that waited, and records to write. A group that has requested a write gets its
//! result by [`Group::written`]; only then does it go on. Behaviour follows Kafka's `ClassicGroup` and
//! `GroupMetadataManager`.
//!
//! Invariants: the group has a leader exactly if it has members, and the leader is one of them; the generation never
//! goes back; `wake_ms` is no later than any deadline; every request id that came in is answered exactly once.

mod cause;
mod join;
mod member;
mod migration;
mod offsets;
mod pending;
mod sync;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
pub use cause::{RebalanceCause, Trigger};
pub use join::Join;
use member::{Member, NEVER, protocols_bytes};
pub use migration::MigratingMember;
pub use offsets::{CommittedOffset, OffsetWrite, Offsets};
use timers::JoinTimer;
use wire::api::describe_groups::{DescribedGroup, DescribedGroupMember};
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::state::group::{GroupMetadataValue, MemberMetadata};
use wire::{ErrorCode, Reader, Wire};

use super::Now;

/// The coordinator's name for a request that may have to wait.
pub type RequestId = u64;

/// The protocol type of consumers, as opposed to `connect` and others.
pub const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// Topics that the members of a group subscribe to, as far as the group looks at them.
const SUBSCRIBED_TOPICS_MAX: usize = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No members; may hold offsets.
    Empty,
    /// Waits until all members have joined.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    Stable,
    /// Deleted or unloaded.
    Dead,
}

impl State {
    /// Kafka's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// What the coordinator has to do for a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    Joined(RequestId, JoinGroupResponse),
    Synced(RequestId, SyncGroupResponse),
    Write(Write),
    /// A rebalance has begun. Nothing has to be done.
    Rebalance(Trigger),
    /// The rebalance that had begun is over: the group is stable, or empty. Nothing has to be done.
    Rebalanced,
}

/// A group metadata record to append. [`Group::written`] takes `then` when it is durable or has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub value: GroupMetadataValue,
    pub then: Then,
}

/// What a write was for.
#[derive(Clone, Debug, PartialEq)]
pub enum Then {
    /// The group became empty: no member waits.
    Nothing,
    /// The leader's assignment: members get it once it is stored.
    Assignment { generation: i32, assignment: BTreeMap<String, Bytes> },
    /// A static member got a new id without a rebalance (KIP-345).
    StaticMember(StaticReplacement),
}

/// A static member's change of id, with what it takes to undo it.
#[derive(Clone, Debug, PartialEq)]
pub struct StaticReplacement {
    request_id: RequestId,
    api_version: i16,
    generation: i32,
    instance_id: String,
    old_member_id: String,
    new_member_id: String,
    old_leader: Option<String>,
    old_protocols: Vec<JoinGroupRequestProtocol>,
    old_rebalance_timeout_ms: i32,
    old_session_timeout_ms: i32,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    state: State,
    previous_state: State,
    /// Wall clock time of the last change of state; -1 if an old record does not have it.
    state_timestamp_ms: i64,
    /// Monotonic time of it.
    state_known_ms: i64,
    protocol_type: Option<String>,
    protocol_name: Option<String>,
    generation: i32,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Instance id to member id.
    static_members: BTreeMap<String, String>,
    /// Member ids handed out (KIP-394) and not used yet, with the monotonic time until which they are good.
    pending_joins: BTreeMap<String, i64>,
    /// Members whose JoinGroup waits.
    joining: usize,
    /// How many members know a protocol.
    protocol_support: BTreeMap<String, usize>,
    /// Members that have not sent SyncGroup in this generation.
    pending_syncs: BTreeSet<String>,
    /// Whether the leader's assignment for this generation is being stored.
    storing_assignment: bool,
    /// What all members subscribe to, if this is a group of consumers that says so.
    subscribed_topics: Option<BTreeSet<String>>,
    /// Whether a member joined since the initial rebalance delay was last extended.
    new_member_added: bool,
    join_timer: Option<JoinTimer>,
    sync_deadline_ms: i64,
    wake_ms: i64,
    /// Whether the log has a record of this group.
    stored: bool,
    member_bytes: usize,
    /// The change of members' memory since the last call, by their clients' hosts.
    member_growth: BTreeMap<String, isize>,
    pub offsets: Offsets,
}

impl Group {
    /// An empty group that has never had a member.
    pub fn new(now: Now) -> Self {
        Self {
            state: State::Empty,
            previous_state: State::Dead,
            state_timestamp_ms: now.wall_ms,
            state_known_ms: now.monotonic_ms,
            protocol_type: None,
            protocol_name: None,
            generation: 0,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_joins: BTreeMap::new(),
            joining: 0,
            protocol_support: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            storing_assignment: false,
            subscribed_topics: None,
            new_member_added: false,
            join_timer: None,
            sync_deadline_ms: NEVER,
            wake_ms: NEVER,
            stored: false,
            member_bytes: 0,
            member_growth: BTreeMap::new(),
            offsets: Offsets::default(),
        }
    }

    /// Takes over a stored state. `known_ms` is the monotonic time that stands for the record's.
    pub fn restore(&mut self, value: GroupMetadataValue, known_ms: i64) {
        let offsets = std::mem::take(&mut self.offsets);
        *self = Self::new(Now { monotonic_ms: known_ms, wall_ms: value.current_state_timestamp });
        self.offsets = offsets;
        self.stored = true;
        self.generation = value.generation;
        self.protocol_type = Some(value.protocol_type).filter(|protocol_type| !protocol_type.is_empty());
        let protocol = value.protocol;
        for stored in value.members {
            let rebalance_timeout_ms = match stored.rebalance_timeout {
                -1 => stored.session_timeout,
                timeout_ms => timeout_ms,
            };
            let member = Member {
                instance_id: stored.group_instance_id,
                client_id: stored.client_id,
                client_host: stored.client_host,
                rebalance_timeout_ms,
                session_timeout_ms: stored.session_timeout,
                protocols: vec![JoinGroupRequestProtocol {
                    name: protocol.clone().unwrap_or_default(),
                    metadata: stored.subscription,
                }],
                assignment: stored.assignment,
                joining: None,
                syncing: None,
                is_new: false,
                session_deadline_ms: NEVER,
            };
            self.insert_member(stored.member_id, member);
        }
        self.protocol_name = protocol;
        if !self.members.is_empty() {
            self.state = State::Stable;
            // A record whose leader is not among its members (only foreign ones are like that) keeps the first member.
            self.leader = value.leader.filter(|leader| self.members.contains_key(leader)).or(self.leader.take());
        }
        self.subscribed_topics = self.compute_subscribed_topics();
    }

    /// Forgets the membership, as the tombstone of a group says; offsets have tombstones of their own.
    pub fn forget_membership(&mut self, now: Now) {
        for (client_host, bytes) in
            self.member_sizes().map(|(host, bytes)| (host.to_owned(), bytes)).collect::<Vec<_>>()
        {
            self.count_member_bytes(&client_host, -(bytes as isize));
        }
        let (offsets, member_growth) = (std::mem::take(&mut self.offsets), std::mem::take(&mut self.member_growth));
        *self = Self { offsets, member_growth, ..Self::new(now) };
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn generation(&self) -> i32 {
        self.generation
    }

    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    pub fn member_ids(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Whether this member id was handed out and not used yet.
    pub fn is_pending(&self, member_id: &str) -> bool {
        self.pending_joins.contains_key(member_id)
    }

    pub fn assignment(&self, member_id: &str) -> Option<&Bytes> {
        self.members.get(member_id).map(|member| &member.assignment)
    }

    /// Whether the log has a record of the group's membership.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Whether nothing is lost if the group is forgotten: no member joins, nothing is stored.
    pub fn is_vacant(&self) -> bool {
        self.is_obsolete() && !self.stored
    }

    /// Estimate of the memory that the group takes.
    pub fn size_bytes(&self) -> usize {
        self.own_bytes() + self.member_bytes
    }

    /// The part of it that is not its members'.
    pub fn own_bytes(&self) -> usize {
        const GROUP_BYTES: usize = 700;
        GROUP_BYTES + self.offsets.size_bytes()
    }

    /// The change of members' memory since the last call, by their clients' hosts.
    pub fn take_member_growth(&mut self) -> BTreeMap<String, isize> {
        std::mem::take(&mut self.member_growth)
    }

    /// What the members take, by their clients' hosts.
    pub fn member_sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.members.iter().map(|(member_id, member)| (member.client_host.as_str(), member.size_bytes(member_id)))
    }

    /// How much more a member would take with these protocols, whether it is there or new.
    pub fn growth_by_join(&self, request: &JoinGroupRequest) -> usize {
        /// The approximate memory of a member beside its protocols.
        const MEMBER_BYTES: usize = 1_000;
        let requested = protocols_bytes(&request.protocols);
        match self.members.get(&request.member_id) {
            Some(member) => requested.saturating_sub(protocols_bytes(&member.protocols)),
            None => requested + MEMBER_BYTES,
        }
    }

    /// How much more the group would take with these assignments.
    pub fn growth_by_sync(&self, request: &SyncGroupRequest) -> usize {
        let assigned: usize = request.assignments.iter().map(|assigned| assigned.assignment.len()).sum();
        assigned.saturating_sub(self.members.values().map(|member| member.assignment.len()).sum())
    }

    fn count_member_bytes(&mut self, client_host: &str, bytes: isize) {
        self.member_bytes = self.member_bytes.saturating_add_signed(bytes);
        match self.member_growth.get_mut(client_host) {
            Some(growth) => *growth += bytes,
            None => _ = self.member_growth.insert(client_host.to_owned(), bytes),
        }
    }

    /// Whether the group's members consume the topic, as far as that is known (KIP-496).
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether the group may be deleted. A dead one is being deleted already.
    pub fn check_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Empty => Ok(()),
            State::Dead => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            _ => Err(ErrorCode::NON_EMPTY_GROUP),
        }
    }

    /// Marks the group as dead while its tombstones are being written: joining it is refused as in Kafka's state Dead.
    /// Its offsets can be read until [`Group::revive`] or the end.
    pub fn begin_delete(&mut self, now: Now) {
        self.pending_joins.clear();
        self.transition_to(State::Dead, now);
    }

    /// Takes the deletion back, because the tombstones could not be written.
    pub fn revive(&mut self) {
        if self.state == State::Dead {
            self.state = State::Empty;
        }
    }

    /// Ends all waiting because the broker no longer coordinates the group.
    pub fn unload(&mut self, out: &mut Vec<Output>) {
        for (member_id, member) in &mut self.members {
            if let Some(request) = member.joining.take() {
                out.push(Output::Joined(request, join_error(member_id, ErrorCode::NOT_COORDINATOR)));
            }
            if let Some(request) = member.syncing.take() {
                out.push(Output::Synced(request, sync_error(ErrorCode::NOT_COORDINATOR)));
            }
        }
        self.joining = 0;
        self.state = State::Dead;
        self.wake_ms = NEVER;
    }

    pub fn describe(&self, group_id: &str) -> DescribedGroup {
        let protocol = if self.state == State::Stable { self.protocol_name.as_deref() } else { None };
        let members = self.members.iter().map(|(member_id, member)| DescribedGroupMember {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: protocol.map(|protocol| member.metadata(protocol)).unwrap_or_default(),
            member_assignment: member.assignment.clone(),
        });
        DescribedGroup {
            group_id: group_id.to_owned(),
            group_state: self.state.name().to_owned(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: protocol.unwrap_or_default().to_owned(),
            members: members.collect(),
            ..Default::default()
        }
    }

    /// Whether the sender is the member it says it is.
    fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(existing) if existing != member_id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UNKNOWN_MEMBER_ID) }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    fn transition_to(&mut self, state: State, now: Now) {
        self.previous_state = self.state;
        self.state = state;
        self.state_timestamp_ms = now.wall_ms;
        self.state_known_ms = now.monotonic_ms;
    }

    fn insert_member(&mut self, member_id: String, member: Member) {
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        self.pending_joins.remove(&member_id);
        self.joining += usize::from(member.joining.is_some());
        self.count_member_bytes(&member.client_host, member.size_bytes(&member_id) as isize);
        for protocol in &member.protocols {
            *self.protocol_support.entry(protocol.name.clone()).or_default() += 1;
        }
        self.members.insert(member_id, member);
    }

    /// Removes a member from the group's maps, leaving the leader as it is.
    fn take_member(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        self.joining -= usize::from(member.joining.is_some());
        self.count_member_bytes(&member.client_host, -(member.size_bytes(member_id) as isize));
        for protocol in &member.protocols {
            if let Some(count) = self.protocol_support.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.protocol_support.remove(&protocol.name);
                }
            }
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.remove(instance_id);
        }
        Some(member)
    }

    /// Removes a member or a pending one. Requests of it that wait are answered: it may come back as a new member.
    fn remove(&mut self, member_id: &str, out: &mut Vec<Output>) {
        if let Some(member) = self.take_member(member_id) {
            if let Some(request) = member.joining {
                out.push(Output::Joined(request, join_error("", ErrorCode::UNKNOWN_MEMBER_ID)));
            }
            if let Some(request) = member.syncing {
                out.push(Output::Synced(request, sync_error(ErrorCode::UNKNOWN_MEMBER_ID)));
            }
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.pending_joins.remove(member_id);
        self.pending_syncs.remove(member_id);
    }

    /// Sets what the leader has assigned.
    fn set_assignment(&mut self, member_id: &str, assignment: Bytes) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        let grown = assignment.len() as isize - member.assignment.len() as isize;
        member.assignment = assignment;
        let client_host = member.client_host.clone();
        self.count_member_bytes(&client_host, grown);
    }

    fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0)
    }

    /// The protocols that all members know.
    fn candidate_protocols(&self) -> BTreeSet<&str> {
        let all = self.members.len();
        self.protocol_support.iter().filter(|&(_, &count)| count == all).map(|(name, _)| name.as_str()).collect()
    }

    /// The protocol with the most votes of the members; of equal ones, that of which the leader thinks most.
    fn select_protocol(&self) -> Option<String> {
        let candidates = self.candidate_protocols();
        let mut votes = BTreeMap::<&str, usize>::new();
        for vote in self.members.values().filter_map(|member| member.vote(&candidates)) {
            *votes.entry(vote).or_default() += 1;
        }
        let most = votes.values().max()?;
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader))?;
        let of_most = |name: &&str| votes.get(name) == Some(most);
        let elected = leader.protocols.iter().map(|p| p.name.as_str()).find(of_most);
        elected.or_else(|| votes.keys().copied().find(of_most)).map(str::to_owned)
    }

    /// Whether a member with these protocols can be in the group with the others.
    fn supports_protocols(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let all = self.members.len();
        let known_to_all =
            |p: &JoinGroupRequestProtocol| self.protocol_support.get(&p.name).copied().unwrap_or(0) == all;
        self.protocol_type() == Some(protocol_type) && protocols.iter().any(known_to_all)
    }

    /// What the members' subscriptions name, read as version 0, which all later ones begin with (KIP-496). Of very many
    /// topics it is not known: the names are nowhere counted.
    fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        fn topics(metadata: &Bytes) -> wire::codec::Result<Vec<String>> {
            let mut reader = Reader::new(metadata, 0, false);
            reader.limit_elements(SUBSCRIBED_TOPICS_MAX);
            i16::read(&mut reader)?;
            Vec::read(&mut reader)
        }
        if !self.uses_consumer_protocol() {
            return None;
        }
        let mut all = BTreeSet::new();
        for member in self.members.values() {
            all.extend(topics(&member.metadata(self.protocol_name.as_deref()?)).ok()?);
            if all.len() > SUBSCRIBED_TOPICS_MAX {
                return None;
            }
        }
        Some(all)
    }

    /// The members as the leader gets them.
    fn joined_members(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let members = self.members.iter().map(|(member_id, member)| JoinGroupResponseMember {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        members.collect()
    }

    /// The answer to a member's JoinGroup in the current generation.
    fn join_response(&self, member_id: &str) -> JoinGroupResponse {
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.to_owned(),
            members: if self.is_leader(member_id) { self.joined_members() } else { Vec::new() },
            ..Default::default()
        }
    }

    /// The group's record, with an assignment that may not be the members' yet.
    fn to_value(&self, assignment: impl Fn(&str, &Member) -> Bytes) -> GroupMetadataValue {
        let protocol = self.protocol_name.as_deref();
        let members = self.members.iter().map(|(member_id, member)| MemberMetadata {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: protocol.map(|protocol| member.metadata(protocol)).unwrap_or_default(),
            assignment: assignment(member_id, member),
        });
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol_name.clone(),
            leader: self.leader.clone(),
            current_state_timestamp: self.state_timestamp_ms,
            members: members.collect(),
        }
    }

    fn write(&mut self, value: GroupMetadataValue, then: Then, out: &mut Vec<Output>) {
        self.stored = true;
        out.push(Output::Write(Write { value, then }));
    }
}

/// A JoinGroup that failed. `member_id` is empty if the member has to join as a new one.
pub fn join_error(member_id: &str, error_code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code,
        protocol_name: Some(String::new()),
        member_id: member_id.to_owned(),
        ..Default::default()
    }
}

/// A SyncGroup that failed.
pub fn sync_error(error_code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests;
