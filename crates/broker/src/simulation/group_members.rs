//! Members of consumer groups (KIP-848), which do what Java's do (`ConsumerMembershipManager`): they join, give up what
//! they are told to and say so, and join again when they are fenced. What they do with their partitions is up to
//! others.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use coordinator::group::consumer::{JOIN_EPOCH, LEAVE_EPOCH};
use parking_lot::Mutex;
use wire::ErrorCode;
use wire::api::Request;
use wire::api::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

use super::clients::{ClientEvent, Connections, World};
use super::group_ledger::{Answered, GroupEvent, Owned};

/// How long a member may take to give up what it is told to.
const REBALANCE_TIMEOUT_MS: i32 = 4000;

pub(super) struct Member {
    world: Arc<Mutex<World>>,
    connections: Connections,
    group: &'static str,
    topics: &'static [&'static str],
    pub(super) id: String,
    pub(super) epoch: i32,
    pub(super) owned: Owned,
    /// What the coordinator knows that it has.
    told: Option<Owned>,
}

impl Member {
    pub(super) fn new(world: &Arc<Mutex<World>>, group: &'static str, topics: &'static [&'static str]) -> Self {
        let number = world.lock().next_value();
        Self {
            world: Arc::clone(world),
            connections: Connections::default(),
            group,
            topics,
            id: format!("member-{number}"),
            epoch: JOIN_EPOCH,
            owned: Owned::new(),
            told: None,
        }
    }

    async fn ask(&mut self, request: ConsumerGroupHeartbeatRequest) -> Option<ConsumerGroupHeartbeatResponse> {
        let node = self.world.lock().leader(&(OFFSETS_TOPIC.into(), 0))?;
        let version = *ConsumerGroupHeartbeatRequest::API.versions.end();
        self.connections.ask(node, &request, version).await.ok()
    }

    /// Says that it is there, and follows the answer.
    pub(super) async fn heartbeat(&mut self) {
        // Everything is said again where it is not sure what has arrived: only then the answer has all that it has.
        let is_full = self.epoch == JOIN_EPOCH || self.told.is_none();
        let names = || self.topics.iter().map(|topic| (*topic).to_owned()).collect();
        let is_known = self.told.as_ref() == Some(&self.owned);
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.to_owned(),
            member_id: self.id.clone(),
            member_epoch: self.epoch,
            rebalance_timeout_ms: if is_full { REBALANCE_TIMEOUT_MS } else { -1 },
            subscribed_topic_names: is_full.then(names),
            topic_partitions: (is_full || !is_known).then(|| by_topic(&self.owned)),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        self.told = None;
        let Some(answer) = self.ask(request).await else { return };
        match answer.error_code {
            ErrorCode::NONE => self.follow(answer),
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH | ErrorCode::GROUP_ID_NOT_FOUND => {
                self.epoch = JOIN_EPOCH;
                self.owned.clear();
                self.world.lock().members.remove(&self.id);
            }
            _ => {}
        }
    }

    fn follow(&mut self, answer: ConsumerGroupHeartbeatResponse) {
        let assigned: Option<Owned> = answer.assignment.map(|assignment| {
            let topics = assignment.topic_partitions.into_iter();
            topics.flat_map(|topic| topic.partitions.into_iter().map(move |index| (topic.topic_id, index))).collect()
        });
        self.epoch = answer.member_epoch;
        self.told = Some(self.owned.clone());
        self.owned = assigned.clone().unwrap_or_else(|| std::mem::take(&mut self.owned));
        let (group, member, epoch) = (self.group.to_owned(), self.id.clone(), self.epoch);
        let mut world = self.world.lock();
        world.members.insert(member.clone(), (epoch, self.owned.clone()));
        world.client_events.push(ClientEvent::Group(GroupEvent::Answered(Answered { group, member, epoch, assigned })));
    }

    /// Leaves, and may come again.
    pub(super) async fn leave(&mut self) {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.group.to_owned(),
            member_id: self.id.clone(),
            member_epoch: LEAVE_EPOCH,
            ..ConsumerGroupHeartbeatRequest::default()
        };
        self.owned.clear();
        self.world.lock().members.remove(&self.id);
        _ = self.ask(request).await;
        (self.epoch, self.told) = (JOIN_EPOCH, None);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.world.lock().members.remove(&self.id);
    }
}

fn by_topic(owned: &Owned) -> Vec<TopicPartitions> {
    let mut topics: Vec<TopicPartitions> = Vec::new();
    for (topic_id, index) in owned {
        match topics.last_mut().filter(|last| last.topic_id == *topic_id) {
            Some(last) => last.partitions.push(*index),
            None => topics.push(TopicPartitions { topic_id: *topic_id, partitions: vec![*index] }),
        }
    }
    topics
}
