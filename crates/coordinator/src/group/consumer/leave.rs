//! How members go: they leave, or are fenced because nothing is heard of them or they do not give up what they should.

use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::member::Current;
use super::record::{GroupEpoch, Record};
use super::{Change, ConsumerGroup, Context, Refusal, STATIC_LEAVE_EPOCH};

impl ConsumerGroup {
    /// A heartbeat that leaves, for good or, of a static member, for a while.
    pub fn leave(
        &mut self,
        context: Context<'_>,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<(ConsumerGroupHeartbeatResponse, Change), Refusal> {
        match &request.instance_id {
            Some(instance_id) => self.check_instance(&request.member_id, instance_id)?,
            None => self.check_known(&request.member_id)?,
        }
        let change = if request.member_epoch == STATIC_LEAVE_EPOCH {
            self.leave_for_a_while(&request.member_id)
        } else {
            self.fence(context, std::slice::from_ref(&request.member_id))
        };
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Some(request.member_id.clone()),
            member_epoch: request.member_epoch,
            ..Default::default()
        };
        Ok((response, change))
    }

    /// The member keeps its target, and what it has, for the one that comes back under its instance id. Its session
    /// goes on.
    fn leave_for_a_while(&mut self, member_id: &str) -> Change {
        let mut change = Change::default();
        let mut current = self.current.get(member_id).cloned().unwrap_or_default();
        current.assigned.values_mut().flat_map(|partitions| partitions.values_mut()).for_each(|epoch| *epoch = 0);
        let current = Current { epoch: STATIC_LEAVE_EPOCH, pending_revocation: Default::default(), ..current };
        self.make(&mut change, Record::Current { member_id: member_id.to_owned(), current: Some(current) });
        change
    }

    /// Puts members out of the group. The others share what they had.
    pub fn fence(&mut self, context: Context<'_>, member_ids: &[String]) -> Change {
        let mut change = Change::default();
        let mut patterns = Vec::new();
        for member_id in member_ids {
            patterns.extend(self.members.get(member_id).and_then(|member| member.pattern()).map(str::to_owned));
            self.remove_member(member_id, &mut change);
        }
        if change.records.is_empty() {
            return change;
        }
        for pattern in patterns {
            self.forget_unused_regex(&pattern, &mut change);
        }
        let epoch = GroupEpoch { epoch: self.epoch() + 1, metadata_hash: self.metadata_hash(context) };
        self.make(&mut change, Record::Epoch(Some(epoch)));
        change
    }

    /// Removes what there is of a member.
    pub(super) fn remove_member(&mut self, member_id: &str, change: &mut Change) {
        if !self.has_member(member_id) {
            return;
        }
        let member_id = member_id.to_owned();
        self.make(change, Record::Current { member_id: member_id.clone(), current: None });
        self.make(change, Record::Target { member_id: member_id.clone(), partitions: None });
        self.make(change, Record::Member { member_id: member_id.clone(), metadata: None });
    }

    /// The end of all that is stored of the group.
    pub fn delete(&mut self) -> Change {
        let mut change = Change::default();
        for member_id in self.current.keys().cloned().collect::<Vec<_>>() {
            self.make(&mut change, Record::Current { member_id, current: None });
        }
        for member_id in self.targets.keys().cloned().collect::<Vec<_>>() {
            self.make(&mut change, Record::Target { member_id, partitions: None });
        }
        self.make(&mut change, Record::TargetEpoch(None));
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.make(&mut change, Record::Member { member_id, metadata: None });
        }
        for pattern in self.regexes.keys().cloned().collect::<Vec<_>>() {
            self.make(&mut change, Record::Regex { pattern, resolved: None });
        }
        self.make(&mut change, Record::PartitionMetadata { exists: false });
        self.make(&mut change, Record::Epoch(None));
        change
    }
}
