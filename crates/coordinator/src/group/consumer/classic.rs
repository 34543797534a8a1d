//! Members of the classic protocol in the group, while it changes from one protocol to the other (KIP-848).
//!
//! Such a member's generation is its epoch. It takes a step towards its target with each JoinGroup, gets what it has
//! with SyncGroup, and is told by Heartbeat that there is another step to take.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::TopicPartitions;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupResponse};
use wire::api::leave_group::{MemberIdentity, MemberResponse};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition};

use super::member::{ClassicProtocol, ClassicSettings, MemberMetadata, MemberState};
use super::{Assigned, Change, ConsumerGroup, Context, Refusal, Resolution};
use crate::group::core::{CONSUMER_PROTOCOL_TYPE, join_error};
use crate::group::interfaces::TopicSnapshot;

/// Topics that one member may name.
pub const SUBSCRIBED_TOPICS_MAX: usize = 50_000;

/// A JoinGroup whose form has been checked.
#[derive(Clone, Debug)]
pub struct ClassicJoin {
    pub api_version: i16,
    pub client_id: String,
    /// As Java prints an address without a name.
    pub client_host: String,
    /// A fresh id, in case the member has none.
    pub new_member_id: String,
    pub request: JoinGroupRequest,
}

impl ConsumerGroup {
    /// A JoinGroup. A refused one has changed nothing.
    pub fn join_classic(
        &mut self,
        context: Context<'_>,
        join: ClassicJoin,
    ) -> (JoinGroupResponse, Change, Option<Resolution>) {
        let (member_id, mut change) = (join.request.member_id.clone(), Change::default());
        match self.try_join_classic(context, join, &mut change) {
            Ok((response, resolve)) => (response, change, resolve),
            Err(refusal) => {
                self.take_back(change);
                (join_error(&member_id, refusal.code), Change::default(), None)
            }
        }
    }

    fn try_join_classic(
        &mut self,
        context: Context<'_>,
        join: ClassicJoin,
        change: &mut Change,
    ) -> Result<(JoinGroupResponse, Option<Resolution>), Refusal> {
        /// First version in which a new dynamic member gets an id before it is admitted (KIP-394).
        const MEMBER_ID_REQUIRED_SINCE: i16 = 4;
        let ClassicJoin { api_version, client_id, client_host, new_member_id, request } = join;
        let is_unknown = request.member_id.is_empty();
        let member_id = if is_unknown { new_member_id } else { request.member_id };
        if self.members.len() >= context.settings.max_size && !self.has_member(&member_id) {
            return Err(refused(ErrorCode::GROUP_MAX_SIZE_REACHED));
        }
        let protocols = distinct(request.protocols.into_iter().map(|protocol| (protocol.name, protocol.metadata)));
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE || !self.supports_any(&protocols) {
            return Err(refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
        }
        match &request.group_instance_id {
            None if is_unknown && api_version >= MEMBER_ID_REQUIRED_SINCE => {
                return Ok((join_error(&member_id, ErrorCode::MEMBER_ID_REQUIRED), None));
            }
            None => {}
            Some(instance_id) if is_unknown => {
                if let Some(holder) = self.static_members.get(instance_id).cloned() {
                    self.replace_static_member(&holder, member_id.clone(), change);
                }
            }
            Some(instance_id) => self.check_instance(&member_id, instance_id)?,
        }
        // All of a member's protocols have the same subscription.
        let protocol_name = protocols.first().map(|protocol| protocol.name.clone());
        let subscription = subscription(protocols.first().map(|protocol| &protocol.metadata))?;
        let former = self.members.get(&member_id).cloned().unwrap_or_default();
        let session_timeout_ms = request.session_timeout_ms;
        let metadata = MemberMetadata {
            instance_id: request.group_instance_id.or(former.instance_id),
            rack_id: subscription.rack_id.or(former.rack_id),
            client_id,
            client_host,
            topics: subscription.topics.into_iter().collect(),
            // There is none in that protocol: the client looks for the topics.
            regex: Some(String::new()),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            assignor: former.assignor,
            classic: Some(ClassicSettings { session_timeout_ms, protocols }),
        };
        let owned = owned(context.topics, subscription.owned_partitions);
        let updated = self.update_member(context, &member_id, metadata, Some(&owned), None, change)?;
        self.start_session(context.now, &member_id, session_timeout_ms);
        self.expect_sync(context.now, &member_id, request.rebalance_timeout_ms);
        let response = JoinGroupResponse {
            generation_id: self.current.get(&member_id).map_or(0, |current| current.epoch),
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.to_owned()),
            protocol_name,
            member_id,
            ..Default::default()
        };
        Ok((response, updated.resolve))
    }

    /// Whether one of the protocols is known to all members of the classic protocol.
    fn supports_any(&self, protocols: &[ClassicProtocol]) -> bool {
        let is_known_to =
            |others: &ClassicSettings, name: &str| others.protocols.iter().any(|protocol| protocol.name == name);
        protocols.iter().any(|protocol| {
            let mut others = self.members.values().filter_map(|member| member.classic.as_ref());
            others.all(|others| is_known_to(others, &protocol.name))
        })
    }

    /// A SyncGroup: what the member has.
    pub fn sync_classic(
        &mut self,
        context: Context<'_>,
        request: SyncGroupRequest,
    ) -> Result<SyncGroupResponse, ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        let classic = self.check_classic(&request.member_id, instance_id, request.generation_id)?;
        let (session_timeout_ms, protocol) = (classic.session_timeout_ms, classic.protocols.first().cloned());
        let protocol = protocol.ok_or(ErrorCode::INCONSISTENT_GROUP_PROTOCOL)?;
        if request.protocol_type.as_ref().is_some_and(|protocol_type| protocol_type != CONSUMER_PROTOCOL_TYPE)
            || request.protocol_name.as_ref().is_some_and(|name| *name != protocol.name)
        {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let current = self.current.get(&request.member_id).cloned().unwrap_or_default();
        // One that has to give something up first is told so by what it gets.
        if self.assignment_epoch() > current.epoch && current.state != MemberState::UnrevokedPartitions {
            self.expect_rejoin(context, &request.member_id);
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        self.end_sync(&request.member_id);
        self.start_session(context.now, &request.member_id, session_timeout_ms);
        let version = ConsumerProtocolSubscription::version(&protocol.metadata);
        Ok(SyncGroupResponse {
            protocol_type: request.protocol_type,
            protocol_name: request.protocol_name,
            assignment: encode_assignment(context.topics, of_assigned(&current.assigned), version.unwrap_or_default()),
            ..Default::default()
        })
    }

    /// A Heartbeat.
    pub fn heartbeat_classic(&mut self, context: Context<'_>, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        let classic = self.check_classic(&request.member_id, instance_id, request.generation_id)?;
        let session_timeout_ms = classic.session_timeout_ms;
        self.start_session(context.now, &request.member_id, session_timeout_ms);
        if !self.has_step_to_take(&request.member_id) {
            return Ok(());
        }
        self.expect_rejoin(context, &request.member_id);
        Err(ErrorCode::REBALANCE_IN_PROGRESS)
    }

    /// Whether a member has something to gain or to give up by joining again.
    fn has_step_to_take(&self, member_id: &str) -> bool {
        let current = self.current.get(member_id).cloned().unwrap_or_default();
        let is_free = |topic: wire::Uuid, partition: i32| {
            let has = current.assigned.get(&topic).is_some_and(|assigned| assigned.contains_key(&partition));
            has || !self.owners.contains_key(&(topic, partition))
        };
        let mut targets = self.targets.get(member_id).into_iter().flatten();
        current.epoch < self.assignment_epoch()
            || current.state == MemberState::UnrevokedPartitions
            || current.state == MemberState::UnreleasedPartitions
                && targets.all(|(topic, partitions)| partitions.iter().all(|partition| is_free(*topic, *partition)))
            // Without members of the consumer group protocol nobody else has a new target made.
            || self.epoch() > self.assignment_epoch() && self.is_all_classic()
    }

    /// Members of either protocol leave, or are removed by an administrator.
    pub fn leave_classic(
        &mut self,
        context: Context<'_>,
        members: Vec<MemberIdentity>,
    ) -> (Vec<MemberResponse>, Change) {
        let mut leaving = Vec::new();
        let mut respond = |identity: MemberIdentity| {
            let found = match &identity.group_instance_id {
                None => self.check_known(&identity.member_id).map(|()| identity.member_id.clone()),
                // An administrator knows no member id.
                Some(instance_id) if identity.member_id.is_empty() => {
                    self.static_members.get(instance_id).cloned().ok_or_else(|| refused(ErrorCode::UNKNOWN_MEMBER_ID))
                }
                Some(instance_id) => {
                    self.check_instance(&identity.member_id, instance_id).map(|()| identity.member_id.clone())
                }
            };
            let error_code = found.map_or_else(
                |refusal| refusal.code,
                |member_id| {
                    leaving.push(member_id);
                    ErrorCode::NONE
                },
            );
            let MemberIdentity { member_id, group_instance_id, .. } = identity;
            MemberResponse { member_id, group_instance_id, error_code }
        };
        let responses = members.into_iter().map(&mut respond).collect();
        (responses, self.fence(context, &leaving))
    }

    /// What a member of the classic protocol has said, if the sender is one in its present epoch.
    fn check_classic(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        generation_id: i32,
    ) -> Result<&ClassicSettings, ErrorCode> {
        match instance_id {
            Some(instance_id) => self.check_instance(member_id, instance_id),
            None => self.check_known(member_id),
        }
        .map_err(|refusal| refusal.code)?;
        let metadata = self.members.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        let classic = metadata.classic.as_ref().ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        match self.current.get(member_id) {
            Some(current) if current.epoch == generation_id => Ok(classic),
            _ => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    fn expect_rejoin(&mut self, context: Context<'_>, member_id: &str) {
        let timeout_ms = self.members.get(member_id).map_or(0, |member| member.rebalance_timeout_ms);
        self.expect_join(context.now, member_id, timeout_ms);
    }
}

fn refused(code: ErrorCode) -> Refusal {
    Refusal { code, message: String::new() }
}

/// Protocols without names that come twice, as copies: a slice of the request would keep all of it.
pub fn distinct(protocols: impl Iterator<Item = (String, Bytes)>) -> Vec<ClassicProtocol> {
    let mut names = BTreeSet::new();
    let protocols = protocols.filter(|(name, _)| names.insert(name.clone()));
    protocols.map(|(name, metadata)| ClassicProtocol { name, metadata: Bytes::copy_from_slice(&metadata) }).collect()
}

/// What a member subscribes to. Kafka fails with UNKNOWN_SERVER_ERROR where it cannot be read.
fn subscription(metadata: Option<&Bytes>) -> Result<ConsumerProtocolSubscription, Refusal> {
    let read = metadata.and_then(|metadata| ConsumerProtocolSubscription::from_bytes(metadata).ok());
    read.filter(|subscription| subscription.topics.len() <= SUBSCRIBED_TOPICS_MAX)
        .ok_or_else(|| refused(ErrorCode::INCONSISTENT_GROUP_PROTOCOL))
}

/// Partitions of topics that exist, by their ids.
fn owned(topics: &dyn TopicSnapshot, partitions: Vec<TopicPartition>) -> Vec<TopicPartitions> {
    let with_id = |TopicPartition { topic, partitions }| {
        topics.topic(&topic).map(|topic| TopicPartitions { topic_id: topic.id, partitions })
    };
    partitions.into_iter().filter_map(with_id).collect()
}

fn of_assigned(assigned: &Assigned) -> impl Iterator<Item = (wire::Uuid, Vec<i32>)> {
    assigned.iter().map(|(topic, partitions)| (*topic, partitions.keys().copied().collect()))
}

/// Partitions of topics that exist, as members of the classic protocol are told of them.
pub fn encode_assignment(
    topics: &dyn TopicSnapshot,
    partitions: impl Iterator<Item = (wire::Uuid, Vec<i32>)>,
    version: i16,
) -> Bytes {
    let mut by_name: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for (topic, partitions) in partitions {
        if let Some(name) = topics.name(topic) {
            by_name.entry(name).or_default().extend(partitions);
        }
    }
    let assigned_partitions = by_name.into_iter().map(|(topic, partitions)| TopicPartition { topic, partitions });
    let assignment = ConsumerProtocolAssignment { assigned_partitions: assigned_partitions.collect(), user_data: None };
    assignment.to_bytes_in(version)
}
