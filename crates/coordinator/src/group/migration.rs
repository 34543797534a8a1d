//! Groups that change from the classic protocol to the consumer group protocol and back while their members stay
//! (KIP-848): what one becomes in the other. Both ways keep what the members have.

use wire::api::join_group::JoinGroupRequestProtocol;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

use super::Now;
use super::assignor::Partitions;
use super::consumer::{
    Assigned, ClassicProtocol, ClassicSettings, ConsumerGroup, Current, MemberMetadata, MemberState, Record,
    SUBSCRIBED_TOPICS_MAX, TargetEpoch, distinct, encode_assignment,
};
use super::core::{CONSUMER_PROTOCOL_TYPE, Group, MigratingMember};
use super::interfaces::TopicSnapshot;

/// What a group is as one of the consumer group protocol: the generation is the epoch, and what the members have is
/// their target. [`ConsumerGroup::take_over`] makes the change. The error says why it cannot be one
/// (`GroupMetadataManager.convertToConsumerGroup`).
pub fn upgrade(group_id: &str, group: &Group, topics: &dyn TopicSnapshot) -> Result<Vec<Record>, String> {
    let refused = |reason: &str| format!("Cannot upgrade classic group {group_id} to consumer group because {reason}");
    if group.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) {
        return Err(refused("the group does not use the consumer embedded protocol."));
    }
    let epoch = group.generation();
    let mut records = Vec::new();
    for member in group.migrating_members() {
        let malformed = || refused("the embedded consumer protocol is malformed.");
        let subscription = group.subscription(&member).ok_or_else(malformed)?;
        let subscription = ConsumerProtocolSubscription::from_bytes(&subscription).map_err(|_| malformed())?;
        if subscription.topics.len() > SUBSCRIBED_TOPICS_MAX {
            return Err(malformed());
        }
        let assignment = match member.assignment.is_empty() {
            true => ConsumerProtocolAssignment::default(),
            false => ConsumerProtocolAssignment::from_bytes(&member.assignment).map_err(|_| malformed())?,
        };
        // What an assignor of the client's keeps there would be lost.
        if assignment.user_data.as_ref().is_some_and(|user_data| !user_data.is_empty()) {
            return Err(refused(
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default \
                 assignor before re-attempting the upgrade.",
            ));
        }
        let mut partitions = Partitions::new();
        for assigned in assignment.assigned_partitions.into_iter().filter(|assigned| !assigned.partitions.is_empty()) {
            if let Some(topic) = topics.topic(&assigned.topic) {
                partitions.entry(topic.id).or_default().extend(assigned.partitions);
            }
        }
        records.extend(of_member(epoch, member, subscription, partitions));
    }
    // A time of 0 has the next target made at once.
    records.push(Record::TargetEpoch(Some(TargetEpoch { epoch, timestamp_ms: 0 })));
    Ok(records)
}

fn of_member(
    epoch: i32,
    member: MigratingMember,
    subscription: ConsumerProtocolSubscription,
    partitions: Partitions,
) -> [Record; 3] {
    let assigned: Assigned = partitions
        .iter()
        .map(|(topic, partitions)| (*topic, partitions.iter().map(|partition| (*partition, epoch)).collect()))
        .collect();
    let current = Current {
        epoch,
        previous_epoch: epoch,
        state: MemberState::Stable,
        assigned,
        pending_revocation: Assigned::new(),
    };
    let protocols = distinct(member.protocols.into_iter().map(|protocol| (protocol.name, protocol.metadata)));
    let metadata = MemberMetadata {
        instance_id: member.instance_id,
        rack_id: subscription.rack_id,
        client_id: member.client_id,
        client_host: member.client_host,
        topics: subscription.topics.into_iter().collect(),
        regex: Some(String::new()),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        assignor: None,
        classic: Some(ClassicSettings { session_timeout_ms: member.session_timeout_ms, protocols }),
    };
    let member_id = member.member_id;
    [
        Record::Member { member_id: member_id.clone(), metadata: Some(metadata) },
        Record::Target { member_id: member_id.clone(), partitions: Some(partitions) },
        Record::Current { member_id, current: Some(current) },
    ]
}

/// What a group is as one of the classic protocol, if all members use that. The members have their targets, and the
/// epoch of these is the generation, so that those who have come that far go on in it. None if they have no protocol in
/// common (`ClassicGroup.fromConsumerGroup`).
pub fn downgrade(group: &ConsumerGroup, topics: &dyn TopicSnapshot, now: Now) -> Option<Group> {
    let mut members = Vec::with_capacity(group.member_count());
    for (member_id, metadata, target) in group.members_with_targets() {
        let classic = metadata.classic.clone()?;
        let version = classic.protocols.first().map(|first| ConsumerProtocolSubscription::version(&first.metadata));
        let version = version.and_then(Result::ok).unwrap_or_default();
        let assigned = target.iter().map(|(topic, partitions)| (*topic, partitions.iter().copied().collect()));
        let of_protocol = |ClassicProtocol { name, metadata }| JoinGroupRequestProtocol { name, metadata };
        members.push(MigratingMember {
            member_id: member_id.to_owned(),
            instance_id: metadata.instance_id.clone(),
            client_id: metadata.client_id.clone(),
            client_host: metadata.client_host.clone(),
            rebalance_timeout_ms: metadata.rebalance_timeout_ms,
            session_timeout_ms: classic.session_timeout_ms,
            protocols: classic.protocols.into_iter().map(of_protocol).collect(),
            assignment: encode_assignment(topics, assigned, version),
        });
    }
    Group::of_migrated(group.assignment_epoch().max(0), members, now)
}
