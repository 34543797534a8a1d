//! SyncGroup, Heartbeat and LeaveGroup: the second phase of a rebalance, staying in the group, and leaving it.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::ErrorCode;
use wire::api::leave_group::{MemberIdentity, MemberResponse};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::member::NEVER;
use super::{Group, Output, RebalanceCause, RequestId, State, Then, Trigger, sync_error};
use crate::group::{GroupConfig, Now};

impl Group {
    /// A SyncGroup: the leader brings the assignment, the others ask for their part. Answered through `out`, at once or
    /// when the assignment is stored.
    pub fn sync(&mut self, request_id: RequestId, request: SyncGroupRequest, out: &mut Vec<Output>) {
        if let Err(error) = self.check_sync(&request) {
            return out.push(Output::Synced(request_id, sync_error(error)));
        }
        let member_id = request.member_id.as_str();
        match self.state {
            State::CompletingRebalance => {
                self.remove_pending_sync(member_id);
                let Some(member) = self.members.get_mut(member_id) else { return };
                if let Some(former) = member.syncing.replace(request_id) {
                    out.push(Output::Synced(former, sync_error(ErrorCode::REBALANCE_IN_PROGRESS)));
                }
                // A leader that sends it again gets its first assignment: that is what is being stored.
                if self.is_leader(member_id) && !self.storing_assignment {
                    self.store_assignment(request, out);
                }
            }
            State::Stable => {
                self.remove_pending_sync(member_id);
                let assignment = self.members.get(member_id).map(|m| m.assignment.clone()).unwrap_or_default();
                out.push(Output::Synced(request_id, self.sync_response(assignment)));
            }
            State::PreparingRebalance | State::Empty | State::Dead => {
                out.push(Output::Synced(request_id, sync_error(ErrorCode::REBALANCE_IN_PROGRESS)));
            }
        }
    }

    fn check_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        fn differ(requested: &Option<String>, is: &Option<String>) -> bool {
            requested.is_some() && is.is_some() && requested != is
        }
        match self.state {
            State::Dead => return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            State::Empty => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
            _ => {}
        }
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        if differ(&request.protocol_type, &self.protocol_type) || differ(&request.protocol_name, &self.protocol_name) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        Ok(())
    }

    fn store_assignment(&mut self, request: SyncGroupRequest, out: &mut Vec<Output>) {
        let mut assignment = BTreeMap::<String, Bytes>::new();
        for assigned in request.assignments {
            if self.members.contains_key(&assigned.member_id) {
                // A copy: a slice would keep the whole request.
                assignment.insert(assigned.member_id, Bytes::copy_from_slice(&assigned.assignment));
            }
        }
        let value = self.to_value(|member_id, _| assignment.get(member_id).cloned().unwrap_or_default());
        self.storing_assignment = true;
        let then = Then::Assignment { generation: self.generation, assignment };
        self.write(value, then, out);
    }

    /// A record of [`Output::Write`] is durable, or could not be written.
    pub fn written(
        &mut self,
        config: &GroupConfig,
        now: Now,
        then: Then,
        result: Result<(), ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        match then {
            Then::Nothing => {}
            Then::StaticMember(replacement) => self.static_member_stored(now, replacement, result, out),
            Then::Assignment { generation, assignment } => {
                // If another rebalance has begun meanwhile, this assignment is dropped.
                if self.state != State::CompletingRebalance || self.generation != generation {
                    return;
                }
                self.storing_assignment = false;
                match result {
                    Ok(()) => self.stabilize(assignment, now, out),
                    Err(error) => {
                        self.reset_assignment(error, now, out);
                        self.prepare_rebalance(Trigger::of_none(RebalanceCause::AssignmentNotStored), config, now, out);
                    }
                }
            }
        }
    }

    fn stabilize(&mut self, mut assignment: BTreeMap<String, Bytes>, now: Now, out: &mut Vec<Output>) {
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            let assigned = assignment.remove(&member_id).unwrap_or_default();
            self.set_assignment(&member_id, assigned.clone());
            if let Some(request) = self.take_syncing(&member_id, now) {
                out.push(Output::Synced(request, self.sync_response(assigned)));
            }
        }
        self.transition_to(State::Stable, now);
        out.push(Output::Rebalanced);
    }

    /// Takes all assignments back and answers members that wait for one.
    pub(super) fn reset_assignment(&mut self, error: ErrorCode, now: Now, out: &mut Vec<Output>) {
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.set_assignment(&member_id, Bytes::new());
            if let Some(request) = self.take_syncing(&member_id, now) {
                out.push(Output::Synced(request, sync_error(error)));
            }
        }
    }

    /// The SyncGroup of a member that is now answered. Its session, which did not run meanwhile, starts.
    fn take_syncing(&mut self, member_id: &str, now: Now) -> Option<RequestId> {
        let member = self.members.get_mut(member_id)?;
        let request = member.syncing.take()?;
        self.touch(now, member_id);
        Some(request)
    }

    fn sync_response(&self, assignment: Bytes) -> SyncGroupResponse {
        SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
            ..Default::default()
        }
    }

    fn remove_pending_sync(&mut self, member_id: &str) {
        self.pending_syncs.remove(member_id);
        if self.pending_syncs.is_empty() {
            self.sync_deadline_ms = NEVER;
        }
    }

    pub(super) fn clear_pending_syncs(&mut self) {
        self.pending_syncs.clear();
        self.sync_deadline_ms = NEVER;
    }

    /// A heartbeat. Copies and allocates nothing.
    pub fn heartbeat(&mut self, now: Now, member_id: &str, instance_id: Option<&str>, generation: i32) -> ErrorCode {
        if self.state == State::Dead {
            return ErrorCode::COORDINATOR_NOT_AVAILABLE;
        }
        if let Err(error) = self.validate_member(member_id, instance_id) {
            return error;
        }
        if generation != self.generation {
            return ErrorCode::ILLEGAL_GENERATION;
        }
        self.touch(now, member_id);
        match self.state {
            State::PreparingRebalance => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => ErrorCode::NONE,
        }
    }

    /// A LeaveGroup: each member by its id, or a static one by its instance id alone, as administrators do (KIP-345).
    pub fn leave(
        &mut self,
        config: &GroupConfig,
        now: Now,
        members: Vec<MemberIdentity>,
        out: &mut Vec<Output>,
    ) -> Result<Vec<MemberResponse>, ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        let mut first_left = None;
        let mut responses = Vec::with_capacity(members.len());
        for identity in members {
            let result = self.leave_one(&identity, out);
            responses.push(MemberResponse {
                member_id: identity.member_id,
                group_instance_id: identity.group_instance_id,
                error_code: result.as_ref().err().copied().unwrap_or(ErrorCode::NONE),
            });
            first_left = first_left.or(result.ok());
        }
        if let Some(trigger) = first_left {
            match self.state {
                State::Stable | State::CompletingRebalance => {
                    self.prepare_rebalance(trigger, config, now, out);
                }
                _ => self.complete_join_if_all_joined(now, out),
            }
        }
        Ok(responses)
    }

    fn leave_one(&mut self, identity: &MemberIdentity, out: &mut Vec<Output>) -> Result<Trigger, ErrorCode> {
        let instance_id = identity.group_instance_id.as_deref();
        let member_id = if identity.member_id.is_empty() {
            let by_instance = instance_id.and_then(|instance_id| self.static_members.get(instance_id));
            by_instance.cloned().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?
        } else {
            if !self.pending_joins.contains_key(&identity.member_id) {
                self.validate_member(&identity.member_id, instance_id)?;
            }
            identity.member_id.clone()
        };
        let trigger = self.trigger(RebalanceCause::MemberLeft, &member_id);
        self.remove(&member_id, out);
        Ok(trigger)
    }
}
