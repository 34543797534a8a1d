//! Consumer groups (KIP-848): what is durable when they are answered, what comes back, and how they get on with the
//! other protocol and the other APIs. What the heartbeats do is tested with the pure core.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};

use super::api::{CALLER, commit_request, errors, join_request, offset, settle};
use super::fake::{World, topic_id};
use crate::group::records::Stored;
use crate::group::{Caller, GroupConfig};

fn joining(member_id: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        member_id: member_id.into(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["t1".into()]),
        topic_partitions: Some(Vec::new()),
        ..silent(member_id, 0)
    }
}

fn silent(member_id: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: member_id.into(),
        member_epoch,
        ..Default::default()
    }
}

/// The partitions that an answer assigns, if it assigns any.
fn assigned(response: &ConsumerGroupHeartbeatResponse) -> Option<Vec<i32>> {
    let topics = &response.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

impl World {
    async fn beat(&self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse {
        self.beat_as(Caller { api_version: 1, ..CALLER }, request).await
    }

    async fn beat_as(
        &self,
        caller: Caller<'_>,
        request: ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        self.groups.consumer_group_heartbeat(caller, request, None).await
    }

    fn spawn_beat(&self, request: ConsumerGroupHeartbeatRequest) -> JoinHandle<ConsumerGroupHeartbeatResponse> {
        let groups = self.groups.clone();
        let caller = Caller { api_version: 1, ..CALLER };
        tokio::spawn(async move { groups.consumer_group_heartbeat(caller, request, None).await })
    }

    fn states(&self) -> Vec<(String, String, String)> {
        let listed = self.groups.list_groups(&[], &[]).unwrap().into_iter();
        listed.map(|group| (group.group_id, group.group_type, group.group_state)).collect()
    }

    fn is_consumer(&self, state: &str) {
        assert_eq!(self.states(), [("g".to_owned(), "consumer".to_owned(), state.to_owned())]);
    }

    async fn commit_as(&self, member_id: &str, epoch: i32) -> Vec<ErrorCode> {
        let mut request = commit_request("g", &[("t1", 0, 5)]);
        (request.member_id, request.generation_id_or_member_epoch) = (member_id.to_owned(), epoch);
        errors(&self.groups.offset_commit(9, CALLER.client_host, request).await)
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_answered_when_what_it_changed_is_durable() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let joined = world.spawn_beat(joining("a"));
    settle().await;
    assert!(!joined.is_finished() && world.log.appends() == 1);
    // What comes meanwhile is written with one batch more.
    let others = ["b", "c", "d"].map(|member_id| world.spawn_beat(joining(member_id)));
    settle().await;
    assert_eq!(world.log.appends(), 1);
    world.log.release(1);
    settle().await;
    let joined = joined.await.unwrap();
    assert_eq!((joined.error_code, joined.member_epoch, assigned(&joined)), (ErrorCode::NONE, 2, Some(vec![0, 1, 2])));
    assert_eq!(world.log.appends(), 2);
    world.log.release_all();
    for other in others {
        assert_eq!(other.await.unwrap().error_code, ErrorCode::NONE);
    }
    // Nothing changes: nothing is written.
    world.beat(silent("a", 2)).await;
    let appends = world.log.appends();
    assert_eq!(world.beat(silent("a", 2)).await.error_code, ErrorCode::NONE);
    assert_eq!(world.log.appends(), appends);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_written_has_not_happened() {
    let world = World::new(GroupConfig::default()).await;
    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.beat(joining("a")).await.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(world.states(), []);
    world.log.refuse(None);
    assert_eq!(world.beat(joining("a")).await.member_epoch, 2);
    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.beat(silent("a", -1)).await.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.is_consumer("Stable");
    assert_eq!(world.beat(silent("a", 2)).await.error_code, ErrorCode::NONE);

    // What all replicas have stays, though they are too few.
    world.log.refuse(None);
    world.log.hold();
    let left = world.spawn_beat(silent("a", -1));
    settle().await;
    world.log.fail_waiting(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND);
    assert_eq!(left.await.unwrap().error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.is_consumer("Empty");
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn a_silent_member_goes_when_its_end_can_be_written() {
    let world = World::new(GroupConfig::default()).await;
    let timers = tokio::spawn(world.groups.clone().run());
    assert_eq!(world.beat(joining("a")).await.member_epoch, 2);
    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    sleep(Duration::from_secs(60)).await;
    world.is_consumer("Stable");
    world.log.refuse(None);
    sleep(Duration::from_secs(1)).await;
    world.is_consumer("Empty");
    timers.abort();
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_whose_write_takes_too_long_is_told_so_and_may_have_happened() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let joined = world.spawn_beat(joining("a"));
    assert_eq!(joined.await.unwrap().error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.log.release_all();
    settle().await;
    assert_eq!(world.beat(joining("a")).await.member_epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_coordinator_goes_on_where_the_last_one_was() {
    let world = World::new(GroupConfig::default()).await;
    world.beat(joining("a")).await;
    sleep(Duration::from_secs(1)).await;
    let second = world.beat(joining("b")).await;
    assert_eq!(second.member_epoch, 3);
    assert_eq!(world.commit_as("a", 2).await, [ErrorCode::NONE]);
    let before = world.groups.consumer_group_describe("g");
    let world = world.restart(0).await;
    assert_eq!(world.groups.consumer_group_describe("g"), before);
    assert_eq!((before.group_state.as_str(), before.group_epoch, before.members.len()), ("Reconciling", 3, 2));
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 5)]);
    assert_eq!(world.beat(silent("b", 3)).await.error_code, ErrorCode::NONE);
    world.memory_is_counted();

    // Sessions have begun anew, and end.
    sleep(Duration::from_secs(46)).await;
    world.is_consumer("Empty");
    assert_eq!(world.beat(silent("b", 3)).await.error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_partition_that_is_given_up_are_sent_away() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let (first, second) = (world.spawn_beat(joining("a")), world.spawn_beat(joining("b")));
    settle().await;
    world.groups.unload(0);
    world.log.release_all();
    assert_eq!(first.await.unwrap().error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(second.await.unwrap().error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.groups.memory_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused() {
    let world = World::new(GroupConfig::default()).await;
    let code =
        async |version, request| world.beat_as(Caller { api_version: version, ..CALLER }, request).await.error_code;
    assert_eq!(code(1, joining("")).await, ErrorCode::INVALID_REQUEST);
    assert_eq!(code(0, silent("", 1)).await, ErrorCode::INVALID_REQUEST);
    assert_eq!(
        code(1, ConsumerGroupHeartbeatRequest { group_id: " ".into(), ..joining("a") }).await,
        ErrorCode::INVALID_REQUEST
    );
    let without = |change: fn(&mut ConsumerGroupHeartbeatRequest)| {
        let mut request = joining("a");
        change(&mut request);
        request
    };
    for request in [
        without(|request| request.rebalance_timeout_ms = -1),
        without(|request| request.topic_partitions = None),
        without(|request| request.subscribed_topic_names = None),
        without(|request| request.instance_id = Some(String::new())),
        without(|request| request.rack_id = Some(String::new())),
        without(|request| request.subscribed_topic_regex = Some("x".repeat(2 << 20))),
        silent("a", -2),
        silent("a", -3),
    ] {
        assert_eq!(code(1, request).await, ErrorCode::INVALID_REQUEST);
    }
    let unknown = without(|request| request.server_assignor = Some("best".into()));
    assert_eq!(code(1, unknown).await, ErrorCode::UNSUPPORTED_ASSIGNOR);
    assert_eq!(code(1, silent("a", 1)).await, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(code(1, silent("a", -1)).await, ErrorCode::GROUP_ID_NOT_FOUND);
    assert_eq!(
        code(1, ConsumerGroupHeartbeatRequest { group_id: "x".repeat(5000), ..joining("a") }).await,
        ErrorCode::INVALID_GROUP_ID
    );
    assert_eq!(world.states(), []);
    // Version 0 has its ids made here.
    let joined = world.beat_as(Caller { api_version: 0, ..CALLER }, joining("")).await;
    assert_eq!((joined.error_code, joined.member_id.unwrap().len()), (ErrorCode::NONE, 22));
}

#[tokio::test(start_paused = true)]
async fn a_group_without_members_changes_its_protocol_and_keeps_its_offsets() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    world.commit("g", &[("t1", 0, 1)]).await;
    let refused = world.beat(joining("a")).await;
    assert_eq!(refused.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let left = MemberIdentity { member_id: joined.member_id.clone(), ..Default::default() };
    world
        .groups
        .leave_group(3, LeaveGroupRequest { group_id: "g".into(), members: vec![left], ..Default::default() })
        .await;
    settle().await;
    assert_eq!(world.commit("g", &[("t1", 0, 7)]).await, [ErrorCode::NONE]);

    assert_eq!(world.beat(joining("a")).await.error_code, ErrorCode::NONE);
    world.is_consumer("Stable");
    let records = world.log.records(0);
    let of_classic = |stored: &&Stored| matches!(stored, Stored::Group { .. });
    assert!(matches!(records.iter().rfind(of_classic), Some(Stored::Group { value: None, .. })));
    let described = world.groups.describe_group(6, "g");
    assert_eq!(described.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let join = world.groups.join_group(CALLER, join_request("g", "no consumer")).await;
    assert_eq!(join.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::UNKNOWN_MEMBER_ID);
    let world = world.restart(0).await;
    world.is_consumer("Stable");
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 7)]);

    world.beat(silent("a", -1)).await;
    world.admit("g").await;
    assert_eq!(world.states(), [("g".to_owned(), "classic".to_owned(), "Stable".to_owned())]);
    assert_eq!(world.groups.consumer_group_describe("g").error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let world = world.restart(0).await;
    assert_eq!(world.states(), [("g".to_owned(), "classic".to_owned(), "Stable".to_owned())]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 7)]);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn offsets_are_committed_and_fetched_with_the_members_epoch() {
    let world = World::new(GroupConfig { offsets_retention_ms: 3_600_000, ..GroupConfig::default() }).await;
    world.beat(joining("a")).await;
    assert_eq!(world.commit_as("a", 2).await, [ErrorCode::NONE]);
    assert_eq!(world.commit_as("a", 3).await, [ErrorCode::STALE_MEMBER_EPOCH]);
    assert_eq!(world.commit_as("a", 1).await, [ErrorCode::STALE_MEMBER_EPOCH]);
    assert_eq!(world.commit_as("b", 2).await, [ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(world.commit_as("", -1).await, [ErrorCode::UNKNOWN_MEMBER_ID]);
    let fetch = async |member_id: Option<&str>, member_epoch| {
        let member_id = member_id.map(str::to_owned);
        let group = OffsetFetchRequestGroup { group_id: "g".into(), member_id, member_epoch, ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
        world.groups.offset_fetch(9, request).await.groups[0].error_code
    };
    assert_eq!(fetch(None, -1).await, ErrorCode::NONE);
    assert_eq!(fetch(Some("a"), 2).await, ErrorCode::NONE);
    assert_eq!(fetch(Some("a"), 1).await, ErrorCode::STALE_MEMBER_EPOCH);
    assert_eq!(fetch(Some("b"), 2).await, ErrorCode::UNKNOWN_MEMBER_ID);

    let delete = async |topic: &str| {
        let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
        let topics = vec![OffsetDeleteRequestTopic { name: topic.into(), partitions }];
        let deleted = world.groups.offset_delete(OffsetDeleteRequest { group_id: "g".into(), topics }).await;
        deleted.topics[0].partitions[0].error_code
    };
    assert_eq!(delete("t1").await, ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
    assert_eq!(delete("t2").await, ErrorCode::NONE);

    // What is consumed does not expire, and neither does the group.
    sleep(Duration::from_secs(1)).await;
    world.commit_as("a", 2).await;
    for _ in 0..2 * 120 {
        sleep(Duration::from_secs(30)).await;
        world.beat(silent("a", 2)).await;
    }
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 5)]);
    world.is_consumer("Stable");
    world.beat(silent("a", -1)).await;
    world.groups.expire_offsets();
    settle().await;
    assert_eq!(world.states(), []);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_group_leaves_tombstones_only() {
    let world = World::new(GroupConfig::default()).await;
    world.beat(joining("a")).await;
    world.commit_as("a", 2).await;
    assert_eq!(world.delete("g").await, ErrorCode::NON_EMPTY_GROUP);
    world.beat(silent("a", -1)).await;
    assert_eq!(world.delete("g").await, ErrorCode::NONE);
    assert_eq!(world.states(), []);
    let mut last = std::collections::BTreeMap::new();
    for stored in world.log.records(0) {
        let (key, is_tombstone) = match &stored {
            Stored::Offset { topic, partition, value, .. } => (format!("{topic}{partition}"), value.is_none()),
            Stored::Group { value, .. } => ("group".to_owned(), value.is_none()),
            Stored::Consumer { record, .. } => {
                let name = format!("{record:?}");
                let of_member = record.member_id().unwrap_or_default();
                let kind = name.split([' ', '(']).next().unwrap_or_default();
                let is_tombstone = name.contains("None") || name.contains("exists: false");
                (format!("{kind} {of_member}"), is_tombstone)
            }
        };
        last.insert(key, is_tombstone);
    }
    assert!(last.len() == 7 && last.values().all(|is_tombstone| *is_tombstone), "{last:?}");
    let world = world.restart(0).await;
    assert_eq!((world.states(), world.groups.memory_bytes()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn patterns_find_topics_and_new_ones() {
    let world = World::new(GroupConfig::default()).await;
    world.topics.gone.lock().push("t4".into());
    let request = ConsumerGroupHeartbeatRequest {
        subscribed_topic_names: None,
        subscribed_topic_regex: Some("t[24]".into()),
        ..joining("a")
    };
    let joined = world.beat(request).await;
    assert_eq!(assigned(&joined), Some(vec![]));
    settle().await;
    sleep(Duration::from_secs(1)).await;
    let told = world.beat(silent("a", joined.member_epoch)).await;
    assert_eq!(told.assignment.unwrap().topic_partitions[0].topic_id, topic_id(2));
    let describe = || world.groups.consumer_group_describe("g").members.remove(0);
    assert_eq!(describe().subscribed_topic_regex.as_deref(), Some("t[24]"));

    world.topics.gone.lock().clear();
    world.groups.topics_changed(1, &["t4".to_owned()], true);
    sleep(Duration::from_secs(11)).await;
    world.beat(silent("a", told.member_epoch)).await;
    settle().await;
    sleep(Duration::from_secs(1)).await;
    world.beat(silent("a", told.member_epoch)).await;
    assert_eq!(describe().target_assignment.topic_partitions.len(), 2);
    let world = world.restart(0).await;
    assert_eq!(world.groups.consumer_group_describe("g").members[0].target_assignment.topic_partitions.len(), 2);
}
