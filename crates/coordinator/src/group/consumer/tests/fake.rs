//! Topics in memory, and a group with the heartbeats of its members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::api::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use wire::{ErrorCode, Uuid};

use crate::group::Now;
use crate::group::assignor::Assignor;
use crate::group::consumer::{Answer, Change, ConsumerGroup, Context, Heartbeat, Record, Refusal, Settings};
use crate::group::interfaces::{MayDescribe, Topic, TopicSnapshot};

pub(super) const SESSION_MS: i64 = 45_000;
pub(super) const REBALANCE_MS: i32 = 60_000;

/// Topics by name, with the racks of their partitions.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeTopics {
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) racks: BTreeMap<String, Vec<Vec<String>>>,
}

impl FakeTopics {
    pub(super) fn set(&mut self, name: &str, id: u8, partition_count: i32) {
        self.topics.insert(name.to_owned(), Topic { id: topic_id(id), partition_count });
    }
}

impl TopicSnapshot for FakeTopics {
    fn topic(&self, name: &str) -> Option<Topic> {
        self.topics.get(name).copied()
    }

    fn name(&self, id: Uuid) -> Option<String> {
        self.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.clone())
    }

    fn names(&self) -> Vec<String> {
        self.topics.keys().cloned().collect()
    }

    fn racks(&self, name: &str) -> Vec<Vec<String>> {
        self.racks.get(name).cloned().unwrap_or_default()
    }

    fn version(&self) -> i64 {
        7
    }
}

pub(super) fn topic_id(number: u8) -> Uuid {
    Uuid([number; 16])
}

pub(super) fn settings() -> Settings {
    Settings {
        max_size: 100,
        session_timeout_ms: SESSION_MS as i32,
        heartbeat_interval_ms: 5_000,
        assignment_interval_ms: 0,
        assignors: Assignor::ALL.to_vec(),
    }
}

/// A group, its topics, the time, and what it has written.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) group: ConsumerGroup,
    pub(super) topics: FakeTopics,
    pub(super) settings: Settings,
    /// The topics that a member may not know of.
    pub(super) hidden: BTreeMap<String, BTreeSet<String>>,
    pub(super) now_ms: i64,
    pub(super) log: Vec<Record>,
}

impl World {
    /// A group without members, and a topic `t` with four partitions.
    pub(super) fn new() -> Self {
        let mut topics = FakeTopics::default();
        topics.set("t", 1, 4);
        Self {
            group: ConsumerGroup::default(),
            topics,
            settings: settings(),
            hidden: BTreeMap::new(),
            now_ms: 1_000,
            log: Vec::new(),
        }
    }

    /// Does something to the group, and appends what it writes.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut ConsumerGroup, Context<'_>) -> (R, Change)) -> R {
        let now = Now { monotonic_ms: self.now_ms, wall_ms: self.now_ms + 1_000_000 };
        let context = Context { settings: &self.settings, topics: &self.topics, now };
        let (result, change) = change(&mut self.group, context);
        self.log.extend(change.records);
        result
    }

    pub(super) fn heartbeat(&self, request: ConsumerGroupHeartbeatRequest) -> Heartbeat {
        let (client_id, client_host) = ("client".to_owned(), "/127.0.0.1".to_owned());
        let hidden = self.hidden.get(&request.member_id).cloned();
        let may_describe = hidden.map(|hidden| Arc::new(move |topic: &str| !hidden.contains(topic)) as MayDescribe);
        Heartbeat { client_id, client_host, request, may_describe }
    }

    /// An answer has no topic that its member may not know of, unless the member has named it.
    pub(super) fn check_hidden(&self, named: &[String], response: &ConsumerGroupHeartbeatResponse) {
        let hidden = response.member_id.as_ref().and_then(|member_id| self.hidden.get(member_id));
        let assigned = response.assignment.iter().flat_map(|assignment| &assignment.topic_partitions);
        for topic in assigned.filter_map(|topic| self.topics.name(topic.topic_id)) {
            let is_hidden = hidden.is_some_and(|hidden| hidden.contains(&topic));
            assert!(!is_hidden || named.contains(&topic), "{topic} is shown to {:?}", response.member_id);
        }
    }

    pub(super) fn answer(&mut self, request: ConsumerGroupHeartbeatRequest) -> Result<Answer, Refusal> {
        let heartbeat = self.heartbeat(request);
        self.change(|group, context| {
            let mut other = group.clone();
            let thorough = other.heartbeat_with_news(context, heartbeat.clone());
            let answer = group.heartbeat(context, heartbeat);
            assert_eq!(format!("{answer:?} {group:?}"), format!("{thorough:?} {other:?}"), "a shortcut only");
            match answer {
                Ok(answer) => (Ok(answer.clone()), answer.change),
                Err(refusal) => (Err(refusal), Change::default()),
            }
        })
    }

    pub(super) fn send(
        &mut self,
        request: ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, ErrorCode> {
        self.answer(request).map(|answer| answer.response).map_err(|refusal| refusal.code)
    }

    /// A member joins with a subscription to `t`.
    pub(super) fn join(&mut self, member_id: &str) -> ConsumerGroupHeartbeatResponse {
        self.send(joining(member_id, &["t"])).unwrap()
    }

    /// A member tells what it has of `t`.
    pub(super) fn report(
        &mut self,
        member_id: &str,
        epoch: i32,
        partitions: &[i32],
    ) -> Result<ConsumerGroupHeartbeatResponse, ErrorCode> {
        self.send(ConsumerGroupHeartbeatRequest {
            topic_partitions: Some(of_t(partitions)),
            ..silent(member_id, epoch)
        })
    }

    pub(super) fn leave(&mut self, member_id: &str, instance_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let request =
            ConsumerGroupHeartbeatRequest { instance_id: instance_id.map(str::to_owned), ..silent(member_id, epoch) };
        self.change(|group, context| match group.leave(context, &request) {
            Ok((_, change)) => (Ok(()), change),
            Err(refusal) => (Err(refusal.code), Change::default()),
        })
    }

    /// Lets time pass, until members fall out.
    pub(super) fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        self.change(|group, context| ((), group.tick(context)));
    }
}

pub(super) fn of_t(partitions: &[i32]) -> Vec<TopicPartitions> {
    if partitions.is_empty() {
        return Vec::new();
    }
    vec![TopicPartitions { topic_id: topic_id(1), partitions: partitions.to_vec() }]
}

/// A heartbeat with nothing new.
pub(super) fn silent(member_id: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: member_id.into(),
        member_epoch,
        ..Default::default()
    }
}

/// The first heartbeat.
pub(super) fn joining(member_id: &str, topics: &[&str]) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        rebalance_timeout_ms: REBALANCE_MS,
        subscribed_topic_names: Some(topics.iter().map(|&topic| topic.to_owned()).collect()),
        topic_partitions: Some(Vec::new()),
        ..silent(member_id, 0)
    }
}

/// The partitions of `t` that an answer assigns, if it assigns any.
pub(super) fn assigned(response: &ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let topics = &response.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}
