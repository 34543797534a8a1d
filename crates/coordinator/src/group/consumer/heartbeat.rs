//! ConsumerGroupHeartbeat of a member that is in the group or joins it.

use std::collections::BTreeSet;

use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::member::{Assigned, Current, MemberMetadata, MemberState};
use super::record::{GroupEpoch, Record, ResolvedRegex};
use super::{Change, ConsumerGroup, Context, JOIN_EPOCH, Refusal, STATIC_LEAVE_EPOCH, hash};
use crate::group::interfaces::MayDescribe;
use crate::group::regex::Pattern;

/// A heartbeat whose form has been checked.
#[derive(Clone)]
pub struct Heartbeat {
    pub client_id: String,
    /// As Java prints an address without a name.
    pub client_host: String,
    pub request: ConsumerGroupHeartbeatRequest,
    /// Which topics the member may know of; all, if there is none.
    pub may_describe: Option<MayDescribe>,
}

/// What a heartbeat has brought about.
#[derive(Clone, Debug)]
pub struct Answer {
    pub response: ConsumerGroupHeartbeatResponse,
    pub change: Change,
    /// Patterns that are to be resolved; [`ConsumerGroup::resolved`] takes the result.
    pub resolve: Option<Resolution>,
    /// Whether the group has a new epoch.
    pub has_new_epoch: bool,
}

/// What has come of a member's description of itself.
pub(super) struct Updated {
    pub(super) resolve: Option<Resolution>,
    pub(super) has_new_epoch: bool,
}

/// Patterns whose topics are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    pub patterns: Vec<String>,
}

/// How a change of a member's pattern concerns its subscription.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PatternChange {
    None,
    /// Its topics are not known yet.
    Unresolved,
    Resolved,
}

/// Shortest time between two looks for topics that patterns match.
const REGEX_INTERVAL_MS: i64 = 10_000;
/// Time after which patterns are resolved again in any case.
const REGEX_REFRESH_INTERVAL_MS: i64 = 10 * 60 * 1000;

impl ConsumerGroup {
    /// A heartbeat with an epoch of 0 or more. A refused one has changed nothing.
    pub fn heartbeat(&mut self, context: Context<'_>, heartbeat: Heartbeat) -> Result<Answer, Refusal> {
        match self.answer_sign_of_life(context, &heartbeat) {
            Some(answer) => Ok(answer),
            None => self.heartbeat_with_news(context, heartbeat),
        }
    }

    /// The answer to a member that says nothing but that it is alive, and that has nothing to learn, as most heartbeats
    /// are. They would be answered the same as any others, at several times the cost.
    fn answer_sign_of_life(&mut self, context: Context<'_>, heartbeat: &Heartbeat) -> Option<Answer> {
        let Heartbeat { client_id, client_host, request, .. } = heartbeat;
        let has_news = request.rebalance_timeout_ms != -1
            || request.subscribed_topic_names.is_some()
            || request.subscribed_topic_regex.is_some()
            || request.server_assignor.is_some()
            || request.rack_id.is_some()
            || request.topic_partitions.is_some();
        let epoch = self.assignment_epoch();
        let is_settled = epoch == self.epoch() && self.has_current_topics && self.regex_subscribers.is_empty();
        if has_news || !is_settled || request.member_epoch != epoch {
            return None;
        }
        let (member_id, instance_id) = (&request.member_id, &request.instance_id);
        let (metadata, current) = (self.members.get(member_id)?, self.current.get(member_id)?);
        let is_as_before = metadata.client_id == *client_id
            && metadata.client_host == *client_host
            && metadata.instance_id == *instance_id
            && metadata.regex.is_some()
            && metadata.classic.is_none();
        let may_speak = instance_id.as_ref().is_none_or(|id| self.check_instance(member_id, id).is_ok());
        let has_all =
            current.is_reconciled_to(epoch) && self.wants_all(context, member_id, metadata, &current.assigned);
        if !(is_as_before && may_speak && has_all) {
            return None;
        }
        self.start_session(context.now, member_id, context.settings.session_timeout_ms);
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id.clone()),
            member_epoch: epoch,
            heartbeat_interval_ms: context.settings.heartbeat_interval_ms,
            ..Default::default()
        };
        Some(Answer { response, change: Change::default(), resolve: None, has_new_epoch: false })
    }

    pub(super) fn heartbeat_with_news(
        &mut self,
        context: Context<'_>,
        heartbeat: Heartbeat,
    ) -> Result<Answer, Refusal> {
        let mut change = Change::default();
        match self.try_heartbeat(context, heartbeat, &mut change) {
            Ok(answer) => Ok(Answer { change, ..answer }),
            Err(refusal) => {
                self.take_back(change);
                Err(refusal)
            }
        }
    }

    fn try_heartbeat(
        &mut self,
        context: Context<'_>,
        heartbeat: Heartbeat,
        change: &mut Change,
    ) -> Result<Answer, Refusal> {
        let Heartbeat { client_id, client_host, request, may_describe } = heartbeat;
        let member_id = request.member_id.clone();
        if self.members.len() >= context.settings.max_size && !self.has_member(&member_id) {
            let message =
                format!("The consumer group has reached its maximum capacity of {} members.", self.members.len());
            return Err(Refusal::new(ErrorCode::GROUP_MAX_SIZE_REACHED, message));
        }
        match &request.instance_id {
            Some(instance_id) => self.find_static_member(&request, instance_id, change)?,
            None if request.member_epoch == JOIN_EPOCH => {}
            None => self.check_known(&member_id)?,
        }
        self.check_epoch(&request)?;

        let assigned = self.current.get(&member_id).map(|current| current.assigned.clone()).unwrap_or_default();
        let is_full = request.rebalance_timeout_ms != -1
            && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
            && request.topic_partitions.is_some();
        let former = self.members.get(&member_id).cloned().unwrap_or_default();
        let metadata = updated(former, &request, client_id, client_host);
        let owned = request.topic_partitions.as_deref();
        let Updated { resolve, has_new_epoch } =
            self.update_member(context, &member_id, metadata, owned, may_describe.as_ref(), change)?;
        self.start_session(context.now, &member_id, context.settings.session_timeout_ms);

        let current = self.current.get(&member_id).cloned().unwrap_or_default();
        let sends_assignment = request.member_epoch == JOIN_EPOCH || is_full || current.assigned != assigned;
        let response = ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id),
            member_epoch: current.epoch,
            heartbeat_interval_ms: context.settings.heartbeat_interval_ms,
            assignment: sends_assignment.then(|| Assignment { topic_partitions: topic_partitions(&current.assigned) }),
            ..Default::default()
        };
        Ok(Answer { response, change: Change::default(), resolve, has_new_epoch })
    }

    /// Takes over what a member says of itself, and leads it a step further.
    pub(super) fn update_member(
        &mut self,
        context: Context<'_>,
        member_id: &str,
        metadata: MemberMetadata,
        owned: Option<&[TopicPartitions]>,
        may_describe: Option<&MayDescribe>,
        change: &mut Change,
    ) -> Result<Updated, Refusal> {
        let former = self.members.get(member_id).cloned();
        let rebalance_timeout_ms = metadata.rebalance_timeout_ms;
        let has_new_topics = metadata.topics != former.as_ref().map(|former| former.topics.clone()).unwrap_or_default();
        let former_pattern = former.as_ref().and_then(MemberMetadata::pattern).map(str::to_owned);
        let pattern = metadata.pattern().map(str::to_owned);
        if former.as_ref() != Some(&metadata) {
            self.make(change, Record::Member { member_id: member_id.to_owned(), metadata: Some(metadata) });
        }
        let pattern_change = self.change_pattern(former_pattern, pattern, change)?;
        let resolve = self.begin_resolving(context);
        let has_new_rights = self.hide_topics(context, member_id, may_describe);
        let is_changed = has_new_topics || has_new_rights || pattern_change == PatternChange::Resolved;
        let has_new_epoch = self.advance_epoch(context, is_changed, change);
        self.update_target(context, change);
        self.reconcile(context, member_id, rebalance_timeout_ms, owned, change)?;
        Ok(Updated { resolve, has_new_epoch })
    }

    pub(super) fn check_known(&self, member_id: &str) -> Result<(), Refusal> {
        if self.has_member(member_id) {
            return Ok(());
        }
        let message = format!("Member {member_id} is not a member of the group.");
        Err(Refusal::new(ErrorCode::UNKNOWN_MEMBER_ID, message))
    }

    /// The holder of an instance id, if the sender is that one.
    pub(super) fn check_instance(&self, member_id: &str, instance_id: &str) -> Result<(), Refusal> {
        match self.static_members.get(instance_id) {
            None => Err(Refusal::new(ErrorCode::UNKNOWN_MEMBER_ID, format!("Instance id {instance_id} is unknown."))),
            Some(holder) if holder != member_id => {
                let message =
                    format!("Static member {member_id} with instance id {instance_id} was fenced by {holder}.");
                Err(Refusal::new(ErrorCode::FENCED_INSTANCE_ID, message))
            }
            Some(_) => Ok(()),
        }
    }

    /// Looks up the static member, or has it take the place of the one that left its instance id to it.
    fn find_static_member(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
        instance_id: &str,
        change: &mut Change,
    ) -> Result<(), Refusal> {
        let member_id = &request.member_id;
        if request.member_epoch != JOIN_EPOCH {
            return self.check_instance(member_id, instance_id);
        }
        let Some(holder) = self.static_members.get(instance_id).filter(|holder| *holder != member_id).cloned() else {
            return Ok(());
        };
        // One of the classic protocol does not say that it leaves.
        let is_classic = self.members.get(&holder).is_some_and(|holder| holder.classic.is_some());
        let has_left = self.current.get(&holder).is_some_and(|current| current.epoch == STATIC_LEAVE_EPOCH);
        if !has_left && !is_classic {
            let message = format!(
                "Static member {member_id} with instance id {instance_id} cannot join the group because the instance id \
                 is owned by {holder}."
            );
            return Err(Refusal::new(ErrorCode::UNRELEASED_INSTANCE_ID, message));
        }
        self.replace_static_member(&holder, member_id.clone(), change);
        Ok(())
    }

    /// Has a member take the place of another one with all that it has.
    pub(super) fn replace_static_member(&mut self, holder: &str, member_id: String, change: &mut Change) {
        let metadata = self.members.get(holder).cloned();
        let partitions = Some(self.targets.get(holder).cloned().unwrap_or_default());
        let current = self.current.get(holder).cloned().unwrap_or_default();
        let current = Some(Current { epoch: JOIN_EPOCH, previous_epoch: JOIN_EPOCH, ..current });
        self.remove_member(holder, change);
        self.make(change, Record::Member { member_id: member_id.clone(), metadata });
        self.make(change, Record::Target { member_id: member_id.clone(), partitions });
        self.make(change, Record::Current { member_id, current });
    }

    /// Whether the sender may be the member in its present epoch. It may also be one that has not got the last answer,
    /// as long as it has nothing that it is not to have. Joining is always allowed (KAFKA-19233).
    fn check_epoch(&self, request: &ConsumerGroupHeartbeatRequest) -> Result<(), Refusal> {
        if request.member_epoch == JOIN_EPOCH {
            return Ok(());
        }
        let current = self.current.get(&request.member_id).cloned().unwrap_or_default();
        let which = match request.member_epoch {
            epoch if epoch == current.epoch => return Ok(()),
            epoch if epoch > current.epoch => "greater",
            epoch
                if epoch == current.previous_epoch
                    && has_all(&current.assigned, request.topic_partitions.as_deref()) =>
            {
                return Ok(());
            }
            _ => "smaller",
        };
        let message = format!(
            "The consumer group member has a {which} member epoch ({}) than the one known by the group coordinator ({}). \
             The member must abandon all its partitions and rejoin.",
            request.member_epoch, current.epoch
        );
        Err(Refusal::new(ErrorCode::FENCED_MEMBER_EPOCH, message))
    }

    /// Follows a member's change of its pattern. The member counts for the new one already.
    fn change_pattern(
        &mut self,
        former: Option<String>,
        pattern: Option<String>,
        change: &mut Change,
    ) -> Result<PatternChange, Refusal> {
        if former == pattern {
            return Ok(PatternChange::None);
        }
        if let Some(former) = &former {
            self.forget_unused_regex(former, change);
        }
        let Some(pattern) = pattern else { return Ok(PatternChange::Resolved) };
        if self.regex_subscribers.get(&pattern).is_none_or(|&subscribers| subscribers <= 1) {
            Pattern::new(&pattern)
                .map_err(|error| Refusal::new(ErrorCode::INVALID_REGULAR_EXPRESSION, error.to_string()))?;
        }
        if self.regexes.contains_key(&pattern) { Ok(PatternChange::Resolved) } else { Ok(PatternChange::Unresolved) }
    }

    /// Forgets the topics of a pattern that no member has any more.
    pub(super) fn forget_unused_regex(&mut self, pattern: &str, change: &mut Change) {
        if !self.regex_subscribers.contains_key(pattern) && self.regexes.contains_key(pattern) {
            self.make(change, Record::Regex { pattern: pattern.to_owned(), resolved: None });
        }
    }

    /// The patterns that are to be resolved now, if it is time.
    fn begin_resolving(&mut self, context: Context<'_>) -> Option<Resolution> {
        if self.regex_subscribers.is_empty() || self.is_resolving {
            return None;
        }
        let is_past = |interval_ms: i64| {
            self.resolved_ms.is_none_or(|resolved_ms| context.now.monotonic_ms > resolved_ms + interval_ms)
        };
        let is_new = |pattern: &String| !self.regexes.contains_key(pattern);
        let is_due =
            self.regex_subscribers.keys().any(is_new) || self.has_new_topics || is_past(REGEX_REFRESH_INTERVAL_MS);
        if !is_due || !is_past(REGEX_INTERVAL_MS) {
            return None;
        }
        self.is_resolving = true;
        self.has_new_topics = false;
        self.resolved_ms = Some(context.now.monotonic_ms);
        Some(Resolution { patterns: self.regex_subscribers.keys().cloned().collect() })
    }

    /// Takes over which topics patterns have matched. An attempt that failed has none, and is repeated.
    pub fn resolved(&mut self, context: Context<'_>, resolved: Option<Vec<(String, ResolvedRegex)>>) -> Change {
        self.is_resolving = false;
        let mut change = Change::default();
        let Some(resolved) = resolved else {
            self.has_new_topics = true;
            return change;
        };
        let mut has_changed = false;
        for (pattern, resolved) in resolved {
            if !self.regex_subscribers.contains_key(&pattern) {
                continue;
            }
            let former = self.regexes.get(&pattern);
            has_changed |= former.map(|former| &former.topics).unwrap_or(&BTreeSet::new()) != &resolved.topics;
            self.make(&mut change, Record::Regex { pattern, resolved: Some(resolved) });
        }
        self.has_current_topics = false;
        self.advance_epoch(context, has_changed, &mut change);
        change
    }

    /// Advances the group's epoch if subscriptions have changed, or their topics.
    fn advance_epoch(&mut self, context: Context<'_>, mut has_changed: bool, change: &mut Change) -> bool {
        if !has_changed && self.has_current_topics {
            return false;
        }
        let metadata_hash = self.metadata_hash(context);
        has_changed |= metadata_hash != self.epoch.map_or(0, |epoch| epoch.metadata_hash);
        if has_changed {
            let epoch = self.epoch() + 1;
            self.make(change, Record::Epoch(Some(GroupEpoch { epoch, metadata_hash })));
        }
        if self.has_partition_metadata {
            self.make(change, Record::PartitionMetadata { exists: false });
        }
        self.has_current_topics = context.topics.version() >= self.changed_version;
        has_changed
    }

    pub(super) fn metadata_hash(&self, context: Context<'_>) -> i64 {
        let named = self.topic_subscribers.keys().map(String::as_str);
        let matched = self.regexes.values().flat_map(|regex| regex.topics.iter().map(String::as_str));
        hash::of_topics(named.chain(matched), context.topics)
    }

    /// Takes a member a step further to its target.
    pub(super) fn reconcile(
        &mut self,
        context: Context<'_>,
        member_id: &str,
        rebalance_timeout_ms: i32,
        owned: Option<&[TopicPartitions]>,
        change: &mut Change,
    ) -> Result<(), Refusal> {
        let Some(metadata) = self.members.get(member_id) else { return Ok(()) };
        let current = self.current.get(member_id).cloned().unwrap_or_default();
        let epoch = self.assignment_epoch();
        if current.is_reconciled_to(epoch) && self.wants_all(context, member_id, metadata, &current.assigned) {
            return Ok(());
        }
        if current.state == MemberState::Unknown && owned.is_none_or(|owned| !owned.is_empty()) {
            let message = "The consumer group member is in a unknown state. The member must abandon all its partitions \
                           and rejoin.";
            return Err(Refusal::new(ErrorCode::FENCED_MEMBER_EPOCH, message));
        }
        let nothing = Default::default();
        let destination = super::reconcile::Destination {
            epoch,
            target: self.targets.get(member_id).unwrap_or(&nothing),
            subscribed: &self.subscribed_topics(context, member_id, metadata),
            owned,
            owners: &self.owners,
        };
        let next = destination.next(&current);
        if next == current && self.current.contains_key(member_id) {
            return Ok(());
        }
        let is_revoking = next.state == MemberState::UnrevokedPartitions;
        let deadline = is_revoking.then_some((next.epoch, rebalance_timeout_ms));
        self.make(change, Record::Current { member_id: member_id.to_owned(), current: Some(next) });
        self.set_rebalance_deadline(context.now, member_id, deadline);
        Ok(())
    }

    /// Whether a member is subscribed to all topics that it has.
    fn wants_all(&self, context: Context<'_>, member_id: &str, metadata: &MemberMetadata, assigned: &Assigned) -> bool {
        let regex = metadata.pattern().and_then(|pattern| self.regexes.get(pattern));
        assigned.keys().all(|topic| {
            let name = context.topics.name(*topic);
            name.is_some_and(|name| {
                let is_matched = || regex.is_some_and(|regex| regex.topics.contains(&name));
                metadata.topics.contains(&name) || is_matched() && !self.hidden.contains(member_id, &name)
            })
        })
    }
}

/// A member's description of itself, with what it has left out since it is as before.
fn updated(
    former: MemberMetadata,
    request: &ConsumerGroupHeartbeatRequest,
    client_id: String,
    client_host: String,
) -> MemberMetadata {
    let rebalance_timeout_ms = match request.rebalance_timeout_ms {
        -1 => former.rebalance_timeout_ms,
        timeout_ms => timeout_ms,
    };
    let topics = request.subscribed_topic_names.as_ref().map(|names| names.iter().cloned().collect());
    MemberMetadata {
        instance_id: request.instance_id.clone().or(former.instance_id),
        rack_id: request.rack_id.clone().or(former.rack_id),
        client_id,
        client_host,
        topics: topics.unwrap_or(former.topics),
        regex: request.subscribed_topic_regex.clone().or(former.regex).or(Some(String::new())),
        rebalance_timeout_ms,
        assignor: request.server_assignor.clone().or(former.assignor),
        classic: None,
    }
}

/// Whether partitions are among those that are assigned.
fn has_all(assigned: &Assigned, partitions: Option<&[TopicPartitions]>) -> bool {
    partitions.is_some_and(|owned| {
        owned.iter().all(|owned| {
            let assigned = assigned.get(&owned.topic_id);
            assigned.is_some_and(|assigned| owned.partitions.iter().all(|partition| assigned.contains_key(partition)))
        })
    })
}

/// Partitions as members are told of them.
fn topic_partitions(assigned: &Assigned) -> Vec<TopicPartitions> {
    let of_topic = |(topic_id, partitions): (&wire::Uuid, &std::collections::BTreeMap<i32, i32>)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.keys().copied().collect(),
    };
    assigned.iter().map(of_topic).collect()
}
