//! JoinGroup: how members join, and how a rebalance begins and ends its first phase.

use std::collections::BTreeSet;

use bytes::Bytes;
use wire::ErrorCode;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};

use super::member::{Member, protocols_bytes};
use super::timers::JoinTimer;
use super::{
    Group, Output, RebalanceCause, RequestId, State, StaticReplacement, Then, Trigger, join_error, sync_error,
};
use crate::group::{GroupConfig, Now};

/// A JoinGroup whose settings have been checked.
#[derive(Clone, Debug)]
pub struct Join {
    pub request_id: RequestId,
    pub api_version: i16,
    pub client_id: String,
    pub client_host: String,
    /// A fresh id, in case the member has none.
    pub new_member_id: String,
    pub request: JoinGroupRequest,
}

impl Join {
    /// First version in which a new dynamic member gets an id before it is admitted (KIP-394).
    const MEMBER_ID_REQUIRED_SINCE: i16 = 4;
    /// First version in which the leader can be told not to assign anything (KIP-814).
    const SKIP_ASSIGNMENT_SINCE: i16 = 9;

    /// Takes the protocols, without names that come twice, as copies: a slice of the request would keep all of it.
    fn take_protocols(&mut self) -> Vec<JoinGroupRequestProtocol> {
        let mut protocols = Vec::<JoinGroupRequestProtocol>::new();
        let mut names = BTreeSet::new();
        for protocol in std::mem::take(&mut self.request.protocols) {
            if names.insert(protocol.name.clone()) {
                let metadata = Bytes::copy_from_slice(&protocol.metadata);
                protocols.push(JoinGroupRequestProtocol { name: protocol.name, metadata });
            }
        }
        protocols
    }
}

impl Group {
    /// A JoinGroup. Answered through `out`, at once or when the rebalance is over.
    pub fn join(&mut self, config: &GroupConfig, now: Now, join: Join, out: &mut Vec<Output>) {
        if self.state == State::Dead {
            // The group is being removed; the member has to look for its coordinator again.
            self.refuse(&join, ErrorCode::COORDINATOR_NOT_AVAILABLE, out);
        } else if !self.accepts(config, &join.request.member_id) {
            self.remove(&join.request.member_id, out);
            out.push(Output::Joined(join.request_id, join_error("", ErrorCode::GROUP_MAX_SIZE_REACHED)));
        } else if !self.supports_protocols(&join.request.protocol_type, &join.request.protocols) {
            self.refuse(&join, ErrorCode::INCONSISTENT_GROUP_PROTOCOL, out);
        } else if join.request.member_id.is_empty() {
            self.join_new(config, now, join, out);
        } else {
            self.join_known(config, now, join, out);
        }
    }

    fn refuse(&self, join: &Join, error: ErrorCode, out: &mut Vec<Output>) {
        out.push(Output::Joined(join.request_id, join_error(&join.request.member_id, error)));
    }

    /// Whether the group may have one more member. While a rebalance is prepared, waiting members count, so that the
    /// last to rejoin are left out if the bound was lowered.
    fn accepts(&self, config: &GroupConfig, member_id: &str) -> bool {
        match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                let waits = self.members.get(member_id).is_some_and(|member| member.joining.is_some());
                waits || self.joining < config.max_size
            }
            State::CompletingRebalance | State::Stable => {
                self.members.contains_key(member_id) || self.members.len() < config.max_size
            }
        }
    }

    fn join_new(&mut self, config: &GroupConfig, now: Now, join: Join, out: &mut Vec<Output>) {
        if let Some(instance_id) = &join.request.group_instance_id {
            match self.static_members.get(instance_id).cloned() {
                Some(old_member_id) => self.replace_static_member(config, now, join, old_member_id, out),
                None => self.add_member(config, now, join, out),
            }
        } else if join.api_version >= Join::MEMBER_ID_REQUIRED_SINCE {
            let deadline_ms = now.monotonic_ms + i64::from(join.request.session_timeout_ms);
            self.pending_joins.insert(join.new_member_id.clone(), deadline_ms);
            self.wake_by(deadline_ms);
            out.push(Output::Joined(join.request_id, join_error(&join.new_member_id, ErrorCode::MEMBER_ID_REQUIRED)));
        } else {
            self.add_member(config, now, join, out);
        }
    }

    fn join_known(&mut self, config: &GroupConfig, now: Now, mut join: Join, out: &mut Vec<Output>) {
        let instance_id = join.request.group_instance_id.as_deref();
        // Only dynamic members get an id ahead of their admission.
        if instance_id.is_none() && self.pending_joins.contains_key(&join.request.member_id) {
            join.new_member_id = std::mem::take(&mut join.request.member_id);
            return self.add_member(config, now, join, out);
        }
        let member_id = join.request.member_id.clone();
        if let Err(error) = self.validate_member(&member_id, instance_id) {
            out.push(Output::Joined(
                join.request_id,
                JoinGroupResponse { protocol_name: None, ..join_error(&member_id, error) },
            ));
            return;
        }
        let unchanged = self.members.get(&member_id).is_some_and(|m| m.protocols == join.request.protocols);
        let rebalance = match self.state {
            State::PreparingRebalance => true,
            // The answer to its first JoinGroup may have been lost: it gets it again.
            State::CompletingRebalance => !unchanged,
            // The leader rejoins when something changed that its metadata does not show, such as a topic's partitions.
            State::Stable => !unchanged || self.is_leader(&member_id),
            State::Empty | State::Dead => return self.refuse(&join, ErrorCode::UNKNOWN_MEMBER_ID, out),
        };
        if rebalance {
            self.update_member(&member_id, &mut join, out);
            let trigger = self.trigger(RebalanceCause::MemberRejoined, &member_id);
            self.prepare_rebalance_or_complete_join(trigger, config, now, out);
        } else {
            let mut response = self.join_response(&member_id);
            if self.state == State::Stable {
                response.members.clear();
            }
            out.push(Output::Joined(join.request_id, response));
        }
    }

    /// Admits a member under `join.new_member_id`.
    fn add_member(&mut self, config: &GroupConfig, now: Now, mut join: Join, out: &mut Vec<Output>) {
        if self.members.is_empty() {
            self.protocol_type = Some(std::mem::take(&mut join.request.protocol_type));
        }
        // The initial delay goes on as long as members come.
        if self.state == State::PreparingRebalance && self.previous_state == State::Empty {
            self.new_member_added = true;
        }
        let member = Member {
            protocols: join.take_protocols(),
            instance_id: join.request.group_instance_id.take(),
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.request.rebalance_timeout_ms,
            session_timeout_ms: join.request.session_timeout_ms,
            assignment: Bytes::new(),
            joining: Some(join.request_id),
            syncing: None,
            is_new: true,
            session_deadline_ms: now.monotonic_ms + GroupConfig::NEW_MEMBER_JOIN_TIMEOUT_MS,
        };
        self.wake_by(member.session_deadline_ms);
        let trigger = Trigger {
            cause: RebalanceCause::MemberJoined,
            member_id: join.new_member_id.clone(),
            client_id: member.client_id.clone(),
        };
        self.insert_member(join.new_member_id, member);
        self.prepare_rebalance_or_complete_join(trigger, config, now, out);
    }

    /// Takes over a member's new metadata and lets its JoinGroup wait. An earlier JoinGroup of it gets an answer that
    /// makes it rejoin (Kafka never answers it, which would block our connection's later answers).
    fn update_member(&mut self, member_id: &str, join: &mut Join, out: &mut Vec<Output>) {
        let protocols = join.take_protocols();
        self.set_protocols(member_id, protocols);
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.rebalance_timeout_ms = join.request.rebalance_timeout_ms;
        member.session_timeout_ms = join.request.session_timeout_ms;
        match member.joining.replace(join.request_id) {
            Some(former) => {
                out.push(Output::Joined(former, join_error(member_id, ErrorCode::REBALANCE_IN_PROGRESS)));
            }
            None => self.joining += 1,
        }
    }

    fn set_protocols(&mut self, member_id: &str, protocols: Vec<JoinGroupRequestProtocol>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        for protocol in &member.protocols {
            if let Some(count) = self.protocol_support.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.protocol_support.remove(&protocol.name);
                }
            }
        }
        for protocol in &protocols {
            *self.protocol_support.entry(protocol.name.clone()).or_default() += 1;
        }
        let grown = protocols_bytes(&protocols) as isize - protocols_bytes(&member.protocols) as isize;
        member.protocols = protocols;
        let client_host = member.client_host.clone();
        self.count_member_bytes(&client_host, grown);
    }

    /// Gives a static member another id, without its leaving. The former holder of the id is fenced.
    fn rename_static_member(&mut self, old_member_id: &str, new_member_id: &str, out: &mut Vec<Output>) {
        let was_leader = self.is_leader(old_member_id);
        let Some(mut member) = self.take_member(old_member_id) else { return };
        if let Some(request) = member.joining.take() {
            let response =
                JoinGroupResponse { protocol_name: None, ..join_error(old_member_id, ErrorCode::FENCED_INSTANCE_ID) };
            out.push(Output::Joined(request, response));
        }
        if let Some(request) = member.syncing.take() {
            out.push(Output::Synced(request, sync_error(ErrorCode::FENCED_INSTANCE_ID)));
        }
        member.is_new = false;
        if self.pending_syncs.remove(old_member_id) {
            self.pending_syncs.insert(new_member_id.to_owned());
        }
        self.insert_member(new_member_id.to_owned(), member);
        if was_leader {
            self.leader = Some(new_member_id.to_owned());
        }
    }

    /// A static member comes back under its instance id, and gets a new member id (KIP-345).
    fn replace_static_member(
        &mut self,
        config: &GroupConfig,
        now: Now,
        mut join: Join,
        old_member_id: String,
        out: &mut Vec<Output>,
    ) {
        let Some(old) = self.members.get(&old_member_id) else { return };
        let mut replacement = StaticReplacement {
            request_id: join.request_id,
            api_version: join.api_version,
            generation: self.generation,
            instance_id: join.request.group_instance_id.clone().unwrap_or_default(),
            old_leader: self.leader.clone(),
            old_protocols: old.protocols.clone(),
            old_rebalance_timeout_ms: old.rebalance_timeout_ms,
            old_session_timeout_ms: old.session_timeout_ms,
            new_member_id: std::mem::take(&mut join.new_member_id),
            old_member_id,
        };
        self.rename_static_member(&replacement.old_member_id, &replacement.new_member_id, out);
        self.update_member(&replacement.new_member_id, &mut join, out);
        self.touch(now, &replacement.new_member_id);
        match self.state {
            // As long as the same protocol would be chosen, the assignment stays good and no other member need know.
            // The new id has to be stored, though, before the member may use it.
            State::Stable if self.select_protocol() == self.protocol_name => {
                replacement.generation = self.generation;
                let value = self.to_value(|_, member| member.assignment.clone());
                self.write(value, Then::StaticMember(replacement), out);
            }
            // While others are being assigned to, the leader may be assigning to the old id.
            State::Stable | State::CompletingRebalance => {
                let trigger = self.trigger(RebalanceCause::StaticMemberReplaced, &replacement.new_member_id);
                self.prepare_rebalance(trigger, config, now, out);
            }
            _ => self.complete_join_if_all_joined(now, out),
        }
    }

    /// The end of a static member's change of id.
    pub(super) fn static_member_stored(
        &mut self,
        now: Now,
        replacement: StaticReplacement,
        result: Result<(), ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let new_member_id = &replacement.new_member_id;
        let waits = |m: &Member| m.joining == Some(replacement.request_id);
        let goes_on = self.state == State::Stable && self.generation == replacement.generation;
        // If a rebalance has begun meanwhile, the member waits for that like the others.
        if !goes_on || !self.members.get(new_member_id).is_some_and(waits) {
            return;
        }
        let Some(member) = self.members.get_mut(new_member_id) else { return };
        member.joining = None;
        self.joining -= 1;
        match result {
            Ok(()) => {
                self.touch(now, new_member_id);
                let is_leader = self.is_leader(new_member_id);
                let mut response = self.join_response(new_member_id);
                if replacement.api_version >= Join::SKIP_ASSIGNMENT_SINCE {
                    response.skip_assignment = is_leader;
                } else {
                    // A leader that cannot be told to skip the assignment must not know that it leads.
                    response.leader = replacement.old_leader.unwrap_or_default();
                    response.members.clear();
                }
                out.push(Output::Joined(replacement.request_id, response));
            }
            Err(error) => {
                self.rename_static_member(new_member_id, &replacement.old_member_id, out);
                self.set_protocols(&replacement.old_member_id, replacement.old_protocols);
                if let Some(member) = self.members.get_mut(&replacement.old_member_id) {
                    member.rebalance_timeout_ms = replacement.old_rebalance_timeout_ms;
                    member.session_timeout_ms = replacement.old_session_timeout_ms;
                }
                self.touch(now, &replacement.old_member_id);
                out.push(Output::Joined(replacement.request_id, join_error("", error)));
            }
        }
    }

    fn prepare_rebalance_or_complete_join(
        &mut self,
        trigger: Trigger,
        config: &GroupConfig,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        match self.state {
            State::Empty | State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(trigger, config, now, out);
            }
            State::PreparingRebalance | State::Dead => self.complete_join_if_all_joined(now, out),
        }
    }

    /// Begins a rebalance: members learn of it by their heartbeats and have until the rebalance timeout to join.
    pub(super) fn prepare_rebalance(
        &mut self,
        trigger: Trigger,
        config: &GroupConfig,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        out.push(Output::Rebalance(trigger));
        if self.state == State::CompletingRebalance {
            self.reset_assignment(ErrorCode::REBALANCE_IN_PROGRESS, now, out);
        }
        self.clear_pending_syncs();
        self.storing_assignment = false;
        let is_initial = self.state == State::Empty;
        self.transition_to(State::PreparingRebalance, now);
        if is_initial {
            // Others will want to join a new group too: one rebalance for all is cheaper.
            let delay_ms = i64::from(config.initial_rebalance_delay_ms);
            let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
            self.new_member_added = false;
            self.set_join_timer(JoinTimer::Initial {
                deadline_ms: now.monotonic_ms + delay_ms,
                delay_ms,
                remaining_ms,
            });
        } else if self.all_members_joined() {
            self.complete_join(now, out);
        } else {
            let deadline_ms = now.monotonic_ms + self.rebalance_timeout_ms();
            self.set_join_timer(JoinTimer::Rebalance { deadline_ms });
        }
    }

    fn all_members_joined(&self) -> bool {
        self.members.len() == self.joining && self.pending_joins.is_empty()
    }

    /// Ends the first phase as soon as no member is missing. The initial rebalance has its delay instead.
    pub(super) fn complete_join_if_all_joined(&mut self, now: Now, out: &mut Vec<Output>) {
        let initial = self.previous_state == State::Empty;
        if self.state == State::PreparingRebalance && !initial && self.all_members_joined() {
            self.complete_join(now, out);
        }
    }

    /// The same after a session has expired, where the initial rebalance is no exception (as in Kafka).
    pub(super) fn complete_join_after_expiry(&mut self, now: Now, out: &mut Vec<Output>) {
        if self.state == State::PreparingRebalance && self.all_members_joined() {
            self.complete_join(now, out);
        }
    }

    /// Ends the first phase: dynamic members that are missing are removed, and the next generation begins.
    pub(super) fn complete_join(&mut self, now: Now, out: &mut Vec<Output>) {
        self.join_timer = None;
        let missing = self.members.iter().filter(|(_, m)| m.joining.is_none() && m.instance_id.is_none());
        for member_id in missing.map(|(member_id, _)| member_id.clone()).collect::<Vec<_>>() {
            self.remove(&member_id, out);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            /// A member may have set its rebalance timeout to nothing.
            const MIN_WAIT_MS: i64 = 1_000;
            // Only static members are left and none has joined. Their sessions decide.
            let deadline_ms = now.monotonic_ms + self.rebalance_timeout_ms().max(MIN_WAIT_MS);
            self.set_join_timer(JoinTimer::Rebalance { deadline_ms });
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.clear_pending_syncs();
        self.storing_assignment = false;
        if self.members.is_empty() {
            self.protocol_name = None;
            self.subscribed_topics = self.compute_subscribed_topics();
            self.transition_to(State::Empty, now);
            let value = self.to_value(|_, _| Bytes::new());
            self.write(value, Then::Nothing, out);
            out.push(Output::Rebalanced);
            return;
        }
        self.protocol_name = self.select_protocol();
        self.subscribed_topics = self.compute_subscribed_topics();
        self.transition_to(State::CompletingRebalance, now);
        self.sync_deadline_ms = now.monotonic_ms + self.rebalance_timeout_ms();
        self.wake_by(self.sync_deadline_ms);
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            let response = self.join_response(&member_id);
            let Some(member) = self.members.get_mut(&member_id) else { continue };
            member.is_new = false;
            if let Some(request) = member.joining.take() {
                self.joining -= 1;
                out.push(Output::Joined(request, response));
            }
            self.touch(now, &member_id);
            self.pending_syncs.insert(member_id);
        }
    }

    /// Makes sure that the leader is a member that has joined. False if none has.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |m: &Member| m.joining.is_some();
        if self.leader.as_ref().and_then(|leader| self.members.get(leader)).is_some_and(joined) {
            return true;
        }
        match self.members.iter().find(|(_, m)| joined(m)).map(|(member_id, _)| member_id.clone()) {
            Some(member_id) => {
                self.leader = Some(member_id);
                true
            }
            None => false,
        }
    }
}
