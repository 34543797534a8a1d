//! A classic consumer group: its offsets, and membership in it.
//!
//! [`Group`] reads and commits offsets. [`Membership`] is one member: it joins, takes part in the assignment (and makes
//! it, with the range assignor, when it is the leader), and beats its heart in a task of its own, so that a slow reader
//! at the end of a pipe does not cost it its place. The heart's finding is in [`Membership::needs_rejoin`].

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::{ErrorCode, Uuid};

use crate::protocol::{assign_ranges, assigned_partitions, assignment, subscribed, subscription};
use crate::{Client, ClientError, TopicPartition};

const PROTOCOL_TYPE: &str = "consumer";
const RANGE: &str = "range";
/// From this version on OffsetCommit names topics by id only.
const OFFSETS_BY_TOPIC_ID: i16 = 10;
/// Since this version LeaveGroup takes many members (KIP-345).
const LEAVE_GROUP_BATCHED: i16 = 3;

/// The offsets of a group.
#[derive(Clone)]
pub struct Group {
    client: Client,
    id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    pub metadata: Option<String>,
}

impl Group {
    pub fn new(client: Client, id: impl Into<String>) -> Self {
        Self { client, id: id.into() }
    }

    /// All offsets that the group has committed.
    pub async fn committed(&self) -> Result<BTreeMap<TopicPartition, CommittedOffset>, ClientError> {
        let subject = || format!("the offsets of group {}", self.id);
        let missing = || ClientError::Missing { address: "the coordinator".to_owned(), subject: subject() };
        let mut offsets = self.client.committed_offsets(std::slice::from_ref(&self.id)).await;
        offsets.remove(&self.id).unwrap_or_else(|| Err(missing()))
    }

    /// Commits offsets from outside of the group, which must be empty.
    pub async fn commit(&self, offsets: &BTreeMap<TopicPartition, i64>) -> Result<(), ClientError> {
        self.commit_as(offsets, -1, "").await
    }

    async fn commit_as(
        &self,
        offsets: &BTreeMap<TopicPartition, i64>,
        generation: i32,
        member: &str,
    ) -> Result<(), ClientError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut retry = self.client.retry();
        loop {
            let error = match self.try_commit(offsets, generation, member).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            self.client.forget_coordinator(&self.id);
            retry.wait(error).await?;
        }
    }

    async fn try_commit(
        &self,
        offsets: &BTreeMap<TopicPartition, i64>,
        generation: i32,
        member: &str,
    ) -> Result<(), ClientError> {
        let connection = self.client.coordinator(&self.id).await?;
        let version = connection.version::<OffsetCommitRequest>()?.min(OFFSETS_BY_TOPIC_ID - 1);
        let mut topics = Vec::<OffsetCommitRequestTopic>::new();
        for (partition, offset) in offsets {
            if topics.last().is_none_or(|topic| topic.name != partition.topic) {
                let name = partition.topic.clone();
                topics.push(OffsetCommitRequestTopic { name, topic_id: Uuid::ZERO, partitions: Vec::new() });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push(OffsetCommitRequestPartition {
                    partition_index: partition.partition,
                    committed_offset: *offset,
                    committed_metadata: Some(String::new()),
                    ..Default::default()
                });
            }
        }
        let request = OffsetCommitRequest {
            group_id: self.id.clone(),
            generation_id_or_member_epoch: generation,
            member_id: member.to_owned(),
            topics,
            ..Default::default()
        };
        let timeout = self.client.config().connection.request_timeout;
        let response = connection.start_as(&request, version, timeout)?.await?;
        for topic in response.topics {
            for p in topic.partitions {
                let subject = || format!("committing {}-{} in group {}", topic.name, p.partition_index, self.id);
                ClientError::check(subject, p.error_code, None)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct GroupConfig {
    pub session_timeout: Duration,
    pub rebalance_timeout: Duration,
    pub heartbeat_interval: Duration,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(45),
            rebalance_timeout: Duration::from_secs(60),
            heartbeat_interval: Duration::from_secs(3),
        }
    }
}

/// One member of a group.
pub struct Membership {
    client: Client,
    group: Group,
    config: GroupConfig,
    topics: Vec<String>,
    /// Empty until the coordinator has given one.
    member_id: String,
    generation: i32,
    assigned: Vec<TopicPartition>,
    heart: Option<Heart>,
}

struct Heart {
    task: JoinHandle<()>,
    /// The first thing that is wrong.
    finding: watch::Receiver<ErrorCode>,
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Membership {
    pub fn new(client: Client, group_id: &str, topics: Vec<String>, config: GroupConfig) -> Self {
        let group = Group::new(client.clone(), group_id);
        Self {
            client,
            group,
            config,
            topics,
            member_id: String::new(),
            generation: -1,
            assigned: Vec::new(),
            heart: None,
        }
    }

    /// What the group has given to this member.
    pub fn assigned(&self) -> &[TopicPartition] {
        &self.assigned
    }

    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Joins, or joins again, and returns when every member has its assignment.
    pub async fn join(&mut self) -> Result<(), ClientError> {
        self.heart = None;
        self.assigned.clear();
        let mut retry = self.client.retry();
        loop {
            let error = match self.try_join().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.code() {
                // The coordinator gave an id and wants to see it again (KIP-394), or somebody else came or left.
                Some(ErrorCode::MEMBER_ID_REQUIRED | ErrorCode::REBALANCE_IN_PROGRESS) => retry.again(error).await?,
                Some(ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION) => {
                    self.member_id.clear();
                    self.generation = -1;
                    retry.again(error).await?;
                }
                _ => {
                    self.client.forget_coordinator(&self.group.id);
                    retry.wait(error).await?;
                }
            }
        }
    }

    async fn try_join(&mut self) -> Result<(), ClientError> {
        let connection = self.client.coordinator(&self.group.id).await?;
        let metadata = subscription(&self.topics, self.generation);
        let request = JoinGroupRequest {
            group_id: self.group.id.clone(),
            session_timeout_ms: milliseconds(self.config.session_timeout),
            rebalance_timeout_ms: milliseconds(self.config.rebalance_timeout),
            member_id: self.member_id.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: vec![JoinGroupRequestProtocol { name: RANGE.to_owned(), metadata }],
            ..Default::default()
        };
        // The coordinator answers when all members have joined, which may take a whole rebalance.
        let patience = self.config.rebalance_timeout + self.client.config().connection.request_timeout;
        let version = connection.version::<JoinGroupRequest>()?;
        let joined = connection.start_as(&request, version, patience)?.await?;
        if joined.error_code == ErrorCode::MEMBER_ID_REQUIRED {
            self.member_id.clone_from(&joined.member_id);
        }
        ClientError::check(|| format!("joining group {}", self.group.id), joined.error_code, None)?;
        self.member_id.clone_from(&joined.member_id);
        self.generation = joined.generation_id;
        let is_leader = joined.leader == joined.member_id && !joined.skip_assignment;
        let assignments = if is_leader { self.assign(&joined).await? } else { Vec::new() };
        let request = SyncGroupRequest {
            group_id: self.group.id.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: Some(RANGE.to_owned()),
            assignments,
            ..Default::default()
        };
        let version = connection.version::<SyncGroupRequest>()?;
        let synced = connection.start_as(&request, version, patience)?.await?;
        ClientError::check(|| format!("joining group {}", self.group.id), synced.error_code, None)?;
        self.assigned = assigned_partitions(&synced.assignment).ok_or_else(|| ClientError::Refused {
            subject: format!("the assignment of group {}", self.group.id),
            code: ErrorCode::INCONSISTENT_GROUP_PROTOCOL,
            message: Some("it cannot be read".to_owned()),
        })?;
        self.heart = Some(self.start_heart());
        Ok(())
    }

    /// What the leader does: divides the partitions among all members.
    async fn assign(&self, joined: &JoinGroupResponse) -> Result<Vec<SyncGroupRequestAssignment>, ClientError> {
        let member = |member: &JoinGroupResponseMember| (member.member_id.clone(), subscribed(&member.metadata));
        let members: Vec<_> = joined.members.iter().map(member).collect();
        let mut topics: Vec<_> = members.iter().flat_map(|(_, topics)| topics).map(String::as_str).collect();
        topics.sort_unstable();
        topics.dedup();
        for topic in &topics {
            self.client.forget(topic);
        }
        let metadata = self.client.describe(&topics).await?;
        let exists = |name: &&str| metadata.topic(name).ok().map(|topic| ((*name).to_owned(), topic.partitions.len()));
        let counts = topics.iter().filter_map(exists).collect();
        let assignments = assign_ranges(&members, &counts).into_iter().map(|(member_id, partitions)| {
            SyncGroupRequestAssignment { member_id, assignment: assignment(&partitions) }
        });
        Ok(assignments.collect())
    }

    fn start_heart(&self) -> Heart {
        let (sender, finding) = watch::channel(ErrorCode::NONE);
        let (client, group) = (self.client.clone(), self.group.id.clone());
        let request = HeartbeatRequest {
            group_id: group.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            ..Default::default()
        };
        let mut beat = interval(self.config.heartbeat_interval);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let task = tokio::spawn(async move {
            loop {
                beat.tick().await;
                let code = match client.coordinator(&group).await {
                    Ok(connection) => match connection.send(&request).await {
                        Ok(response) => response.error_code,
                        Err(_) => ErrorCode::NETWORK_EXCEPTION,
                    },
                    Err(_) => ErrorCode::NETWORK_EXCEPTION,
                };
                match code {
                    ErrorCode::NONE => {}
                    // The next beat goes to whoever coordinates by then.
                    code if code.is_retriable() => client.forget_coordinator(&group),
                    code => {
                        sender.send_replace(code);
                        return;
                    }
                }
            }
        });
        Heart { task, finding }
    }

    /// Whether the group wants this member to join again.
    pub fn needs_rejoin(&self) -> bool {
        self.heart.as_ref().is_none_or(|heart| !heart.finding.borrow().is_none())
    }

    /// Returns when the group wants this member to join again.
    pub async fn rejoin_needed(&self) {
        if let Some(heart) = &self.heart {
            let _ = heart.finding.clone().wait_for(|code| !code.is_none()).await;
        }
    }

    /// Commits for this member. That the group has moved on is no error: the partitions belong to somebody else now.
    pub async fn commit(&self, offsets: &BTreeMap<TopicPartition, i64>) -> Result<(), ClientError> {
        match self.group.commit_as(offsets, self.generation, &self.member_id).await {
            Err(ClientError::Refused {
                code: ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID,
                ..
            }) => {
                tracing::debug!(group = self.group.id, "the group has moved on before a commit");
                Ok(())
            }
            other => other,
        }
    }

    /// Leaves, so that the others need not wait for the session to end.
    pub async fn leave(mut self) -> Result<(), ClientError> {
        self.heart = None;
        if self.member_id.is_empty() {
            return Ok(());
        }
        let connection = self.client.coordinator(&self.group.id).await?;
        let version = connection.version::<LeaveGroupRequest>()?;
        let mut request = LeaveGroupRequest { group_id: self.group.id.clone(), ..Default::default() };
        if version >= LEAVE_GROUP_BATCHED {
            let reason = Some("the consumer is being closed".to_owned());
            request.members = vec![MemberIdentity { member_id: self.member_id.clone(), reason, ..Default::default() }];
        } else {
            request.member_id.clone_from(&self.member_id);
        }
        let response = connection.send(&request).await?;
        ClientError::check(|| format!("leaving group {}", self.group.id), response.error_code, None)
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
