//! What groups there are, who is in them, and where they stand.

use std::collections::{BTreeMap, BTreeSet};

use wire::ErrorCode;
use wire::api::consumer_group_describe::{self, ConsumerGroupDescribeRequest};
use wire::api::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use wire::api::describe_groups::{DescribeGroupsRequest, DescribedGroup, DescribedGroupMember};
use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse};
use wire::api::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic, OffsetDeleteResponse,
};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

use super::{ByPartition, at_once, by_topic};
use crate::client::{ByKey, Coordinated, Coordinator};
use crate::{Broker, Client, ClientError, CommittedOffset, Connection, Group, TopicPartition, assigned_partitions};

/// Since this version OffsetFetch takes many groups (KIP-709).
const OFFSET_FETCH_BATCHED: i16 = 8;
/// From this version on OffsetFetch names topics by id only.
const OFFSETS_BY_TOPIC_ID: i16 = 10;
/// The protocol type of groups of the consumer protocol, which have no other.
const CONSUMER_PROTOCOL_TYPE: &str = "consumer";
/// The state of a group that does not exist, before version 6 of DescribeGroups.
const DEAD: &str = "Dead";

/// The groups of a cluster, as far as its brokers tell of them.
#[derive(Clone, Debug, Default)]
pub struct ListedGroups {
    /// By their names.
    pub groups: BTreeMap<String, ListedGroup>,
    /// The brokers that do not tell of theirs, and why.
    pub errors: BTreeMap<i32, ClientError>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    pub protocol_type: String,
    /// Empty from brokers that do not tell (KIP-518).
    pub state: String,
    /// Empty from brokers that do not tell (KIP-848).
    pub group_type: String,
    /// The broker that told of it.
    pub coordinator: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    pub group_id: String,
    pub state: String,
    pub protocol_type: String,
    /// How partitions are assigned: `range` and the like. Empty while the group has no members.
    pub protocol: String,
    pub coordinator: Broker,
    pub members: Vec<GroupMember>,
    /// Of a group of the consumer protocol (KIP-848).
    pub epochs: Option<GroupEpochs>,
}

/// How far a group of the consumer protocol has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpochs {
    /// Advances with each change of its subscriptions and their topics.
    pub group: i32,
    /// That of the change which the members are assigned for.
    pub assignment: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    pub member_id: String,
    pub group_instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    /// Sorted. `None` in groups that assign something else than partitions (Kafka Connect).
    pub assigned: Option<Vec<TopicPartition>>,
    /// In a group of the consumer protocol.
    pub progress: Option<MemberProgress>,
}

/// How far a member of a group of the consumer protocol has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberProgress {
    /// That of the assignment which it has reached.
    pub epoch: i32,
    /// What it is to have. Sorted.
    pub target: Vec<TopicPartition>,
    /// Whether it has come from the classic protocol, and uses that. None from brokers that do not tell.
    pub is_classic: Option<bool>,
    /// The topics that it asks for by name.
    pub topics: Vec<String>,
    /// The pattern of further topics.
    pub regex: Option<String>,
}

impl Client {
    /// The groups of all brokers: each knows only those that it coordinates.
    pub async fn list_groups(&self) -> Result<ListedGroups, ClientError> {
        let asked = self.brokers().await?.into_keys().map(|id| {
            let client = self.clone();
            (id, async move { client.groups_of(id).await })
        });
        let mut listed = ListedGroups::default();
        for (coordinator, answered) in at_once(asked).await {
            match answered {
                Ok(response) => listed.groups.extend(response.groups.into_iter().map(|group| {
                    let of_it = ListedGroup {
                        protocol_type: group.protocol_type,
                        state: group.group_state,
                        group_type: group.group_type,
                        coordinator,
                    };
                    (group.group_id, of_it)
                })),
                Err(error) => {
                    listed.errors.insert(coordinator, error);
                }
            }
        }
        Ok(listed)
    }

    async fn groups_of(&self, broker: i32) -> Result<ListGroupsResponse, ClientError> {
        let mut retry = self.retry();
        loop {
            let response = self.send_to(broker, &ListGroupsRequest::default()).await?;
            match ClientError::check(|| format!("the groups of broker {broker}"), response.error_code, None) {
                Ok(()) => return Ok(response),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Groups as their coordinators see them. One that does not exist is an error ([`ErrorCode::GROUP_ID_NOT_FOUND`]).
    pub async fn describe_groups(&self, groups: &[String]) -> BTreeMap<String, Result<GroupDescription, ClientError>> {
        let mut described = self.ask_coordinators(Coordinated::Group, groups, describe).await;
        // Before version 6 a group that does not exist is a dead one. It may have offsets all the same (a group whose
        // consumers assign their partitions themselves, on an old broker).
        let is_dead = |group: &GroupDescription| group.state == DEAD;
        let dead = described.iter().filter(|(_, described)| described.as_ref().is_ok_and(is_dead));
        let dead: Vec<_> = dead.map(|(group, _)| group.clone()).collect();
        for (group, committed) in self.committed_offsets(&dead).await {
            let error = match committed {
                Ok(offsets) if offsets.is_empty() => not_found(&group),
                Ok(_) => continue,
                Err(error) => error,
            };
            described.insert(group, Err(error));
        }
        described
    }

    /// All offsets that each of these groups has committed. One that does not exist has none.
    pub async fn committed_offsets(&self, groups: &[String]) -> BTreeMap<String, CommittedOffsets> {
        self.ask_coordinators(Coordinated::Group, groups, fetch_offsets).await
    }

    /// Commits offsets for a group that has no members.
    pub async fn alter_committed_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, i64>,
    ) -> Result<(), ClientError> {
        Group::new(self.clone(), group).commit(offsets).await
    }

    /// Makes a group forget where it stands in these partitions. Those of topics to which it is subscribed are refused
    /// ([`ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC`]).
    pub async fn delete_offsets(
        &self,
        group: &str,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<ByPartition<()>, ClientError> {
        let topics = by_topic(partitions.iter().map(|partition| (partition, ())));
        let topics = topics.into_iter().map(|(name, partitions)| OffsetDeleteRequestTopic {
            name: name.to_owned(),
            partitions: partitions
                .into_iter()
                .map(|(partition_index, ())| OffsetDeleteRequestPartition { partition_index })
                .collect(),
        });
        let request = OffsetDeleteRequest { group_id: group.to_owned(), topics: topics.collect() };
        let code = |response: &OffsetDeleteResponse| response.error_code;
        let response = self.send_to_coordinator(group, &request, code).await?;
        let subject = || format!("cannot delete offsets of group {group}");
        ClientError::check(subject, response.error_code, because(response.error_code))?;
        let mut deleted = BTreeMap::new();
        for topic in response.topics {
            deleted.extend(topic.partitions.into_iter().map(|answer| {
                let partition = TopicPartition::new(topic.name.clone(), answer.partition_index);
                let subject = || format!("cannot delete the offset of group {group} in {partition}");
                let result = ClientError::check(subject, answer.error_code, because(answer.error_code));
                (partition, result)
            }));
        }
        Ok(deleted)
    }

    /// Deletes a group that has no members, with its offsets.
    pub async fn delete_group(&self, group: &str) -> Result<(), ClientError> {
        let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()] };
        let code = |response: &DeleteGroupsResponse| response.results.first().map_or(ErrorCode::NONE, |r| r.error_code);
        for result in self.send_to_coordinator(group, &request, code).await?.results {
            let subject = || format!("cannot delete group {group}");
            ClientError::check(subject, result.error_code, because(result.error_code))?;
        }
        Ok(())
    }
}

/// What a code says of a group, where its name is not all that there is to say.
fn because(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::NON_EMPTY_GROUP => Some("it has members; stop them first"),
        ErrorCode::GROUP_ID_NOT_FOUND => Some("it does not exist"),
        ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC => Some("its members read this topic; stop them first"),
        _ => None,
    }
}

fn not_found(group: &str) -> ClientError {
    let code = ErrorCode::GROUP_ID_NOT_FOUND;
    let message = because(code).map(str::to_owned);
    ClientError::Refused { subject: format!("group {group}"), code, message }
}

/// Each protocol has its API. Groups that are not found by the one are looked for by the other.
async fn describe(coordinator: Coordinator, groups: Vec<String>) -> Result<ByKey<GroupDescription>, ClientError> {
    let mut described = describe_consumers(&coordinator, &groups).await?;
    let others: Vec<_> = groups.into_iter().filter(|group| !described.contains_key(group)).collect();
    if !others.is_empty() {
        described.extend(describe_classic(&coordinator, others).await?);
    }
    Ok(described)
}

/// Those that use the consumer protocol. None where brokers or the cluster do not.
async fn describe_consumers(
    coordinator: &Coordinator,
    groups: &[String],
) -> Result<ByKey<GroupDescription>, ClientError> {
    if coordinator.connection.version::<ConsumerGroupDescribeRequest>().is_err() {
        return Ok(BTreeMap::new());
    }
    let request = ConsumerGroupDescribeRequest { group_ids: groups.to_vec(), ..Default::default() };
    let response = coordinator.connection.send(&request).await?;
    let is_other = |code| matches!(code, ErrorCode::GROUP_ID_NOT_FOUND | ErrorCode::UNSUPPORTED_VERSION);
    let consumers = response.groups.into_iter().filter(|group| !is_other(group.error_code));
    let described = consumers.map(|group| {
        let subject = || format!("group {}", group.group_id);
        let checked = ClientError::check(subject, group.error_code, group.error_message.as_deref());
        (group.group_id.clone(), checked.map(|()| GroupDescription::of_consumers(group, coordinator.broker.clone())))
    });
    Ok(described.collect())
}

async fn describe_classic(
    coordinator: &Coordinator,
    groups: Vec<String>,
) -> Result<ByKey<GroupDescription>, ClientError> {
    let request = DescribeGroupsRequest { groups, ..Default::default() };
    let response = coordinator.connection.send(&request).await?;
    let described = response.groups.into_iter().map(|group| {
        let subject = || format!("group {}", group.group_id);
        let checked = ClientError::check(subject, group.error_code, group.error_message.as_deref());
        (group.group_id.clone(), checked.map(|()| GroupDescription::new(group, coordinator.broker.clone())))
    });
    Ok(described.collect())
}

impl GroupDescription {
    fn new(group: DescribedGroup, coordinator: Broker) -> Self {
        Self {
            group_id: group.group_id,
            state: group.group_state,
            protocol_type: group.protocol_type,
            protocol: group.protocol_data,
            coordinator,
            members: group.members.into_iter().map(GroupMember::new).collect(),
            epochs: None,
        }
    }

    fn of_consumers(group: consumer_group_describe::DescribedGroup, coordinator: Broker) -> Self {
        Self {
            group_id: group.group_id,
            state: group.group_state,
            protocol_type: CONSUMER_PROTOCOL_TYPE.to_owned(),
            protocol: group.assignor_name,
            coordinator,
            members: group.members.into_iter().map(GroupMember::of_consumers).collect(),
            epochs: Some(GroupEpochs { group: group.group_epoch, assignment: group.assignment_epoch }),
        }
    }
}

impl GroupMember {
    fn new(member: DescribedGroupMember) -> Self {
        Self {
            assigned: assigned_partitions(&member.member_assignment),
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            progress: None,
        }
    }

    fn of_consumers(member: consumer_group_describe::Member) -> Self {
        const CLASSIC: i8 = 0;
        let is_classic = (member.member_type >= CLASSIC).then_some(member.member_type == CLASSIC);
        let target = partitions(member.target_assignment);
        Self {
            member_id: member.member_id,
            group_instance_id: member.instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            assigned: Some(partitions(member.assignment)),
            progress: Some(MemberProgress {
                epoch: member.member_epoch,
                target,
                is_classic,
                topics: member.subscribed_topic_names,
                regex: member.subscribed_topic_regex.filter(|regex| !regex.is_empty()),
            }),
        }
    }
}

fn partitions(assignment: consumer_group_describe::Assignment) -> Vec<TopicPartition> {
    let of_topic = |topic: consumer_group_describe::TopicPartitions| {
        let partitions = topic.partitions.into_iter();
        partitions.map(move |partition| TopicPartition::new(topic.topic_name.clone(), partition))
    };
    let mut partitions: Vec<_> = assignment.topic_partitions.into_iter().flat_map(of_topic).collect();
    partitions.sort();
    partitions
}

type Offsets = BTreeMap<TopicPartition, CommittedOffset>;
/// The offsets of one of several groups.
pub type CommittedOffsets = Result<Offsets, ClientError>;

async fn fetch_offsets(coordinator: Coordinator, groups: Vec<String>) -> Result<ByKey<Offsets>, ClientError> {
    // By id the answer would not tell the names of topics that have been deleted since.
    let version = coordinator.connection.version::<OffsetFetchRequest>()?.min(OFFSETS_BY_TOPIC_ID - 1);
    match version < OFFSET_FETCH_BATCHED {
        true => fetch_offsets_one_by_one(&coordinator.connection, groups, version).await,
        false => fetch_offsets_together(&coordinator.connection, groups, version).await,
    }
}

async fn fetch_offsets_together(
    connection: &Connection,
    groups: Vec<String>,
    version: i16,
) -> Result<ByKey<Offsets>, ClientError> {
    let group = |group_id| OffsetFetchRequestGroup { group_id, topics: None, ..Default::default() };
    let request = OffsetFetchRequest { groups: groups.into_iter().map(group).collect(), ..Default::default() };
    let mut found = BTreeMap::new();
    for group in connection.start_as(&request, version, connection.request_timeout())?.await?.groups {
        let mut offsets = GroupAnswer::new(&group.group_id, group.error_code);
        for topic in group.topics {
            for p in topic.partitions {
                let partition = TopicPartition::new(topic.name.clone(), p.partition_index);
                offsets.take(partition, p.error_code, p.committed_offset, p.metadata);
            }
        }
        let offsets = offsets.offsets;
        found.insert(group.group_id, offsets);
    }
    Ok(found)
}

/// For brokers that take one group per request: without waiting in between.
async fn fetch_offsets_one_by_one(
    connection: &Connection,
    groups: Vec<String>,
    version: i16,
) -> Result<ByKey<Offsets>, ClientError> {
    let mut pending = Vec::new();
    for group in groups {
        let request = OffsetFetchRequest { group_id: group.clone(), topics: None, ..Default::default() };
        pending.push((group, connection.start_as(&request, version, connection.request_timeout())?));
    }
    let mut found = BTreeMap::new();
    for (group, response) in pending {
        let response = response.await?;
        let mut offsets = GroupAnswer::new(&group, response.error_code);
        for topic in response.topics {
            for p in topic.partitions {
                let partition = TopicPartition::new(topic.name.clone(), p.partition_index);
                offsets.take(partition, p.error_code, p.committed_offset, p.metadata);
            }
        }
        let offsets = offsets.offsets;
        found.insert(group, offsets);
    }
    Ok(found)
}

/// What an answer says of one group: its offsets, or the first thing that is wrong.
struct GroupAnswer<'a> {
    group: &'a str,
    offsets: CommittedOffsets,
}

impl<'a> GroupAnswer<'a> {
    fn new(group: &'a str, code: ErrorCode) -> Self {
        let mut taken = Self { group, offsets: Ok(BTreeMap::new()) };
        taken.check(code);
        taken
    }

    fn check(&mut self, code: ErrorCode) {
        let checked = ClientError::check(|| format!("the offsets of group {}", self.group), code, None);
        if let (Err(error), Ok(_)) = (checked, &self.offsets) {
            self.offsets = Err(error);
        }
    }

    fn take(&mut self, partition: TopicPartition, code: ErrorCode, offset: i64, metadata: Option<String>) {
        self.check(code);
        // A negative one is none.
        if let (Ok(offsets), 0..) = (&mut self.offsets, offset) {
            offsets.insert(partition, CommittedOffset { offset, metadata });
        }
    }
}
