//! The requests, as far as the tests of the pure core do not cover them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::api::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::{ErrorCode, Uuid};

use super::fake::{World, topic_id};
use crate::group::core::CommittedOffset;
use crate::group::records::Stored;
use crate::group::{Caller, GroupConfig};

pub(super) const CALLER: Caller<'static> = Caller {
    api_version: 9,
    client_id: Some("client"),
    client_host: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
};

pub(super) fn join_request(group_id: &str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group_id.to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id: member_id.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), metadata: Bytes::from_static(b"meta") }],
        ..Default::default()
    }
}

pub(super) fn commit_request(group_id: &str, offsets: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topics = offsets.iter().map(|(topic, partition, offset)| OffsetCommitRequestTopic {
        name: (*topic).to_owned(),
        partitions: vec![OffsetCommitRequestPartition {
            partition_index: *partition,
            committed_offset: *offset,
            committed_leader_epoch: 4,
            committed_metadata: Some("note".to_owned()),
        }],
        ..Default::default()
    });
    OffsetCommitRequest { group_id: group_id.to_owned(), topics: topics.collect(), ..Default::default() }
}

pub(super) fn errors(response: &OffsetCommitResponse) -> Vec<ErrorCode> {
    response.topics.iter().flat_map(|topic| topic.partitions.iter().map(|p| p.error_code)).collect()
}

impl World {
    pub(super) async fn commit(&self, group_id: &str, offsets: &[(&str, i32, i64)]) -> Vec<ErrorCode> {
        errors(&self.groups.offset_commit(9, CALLER.client_host, commit_request(group_id, offsets)).await)
    }

    pub(super) fn spawn_commit(
        &self,
        group_id: &str,
        offsets: &[(&str, i32, i64)],
    ) -> JoinHandle<OffsetCommitResponse> {
        let (groups, request) = (self.groups.clone(), commit_request(group_id, offsets));
        tokio::spawn(async move { groups.offset_commit(9, CALLER.client_host, request).await })
    }

    pub(super) async fn fetch_request(
        &self,
        group_id: &str,
        require_stable: bool,
    ) -> Result<Vec<(String, i32, i64)>, ErrorCode> {
        let group = OffsetFetchRequestGroup { group_id: group_id.to_owned(), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], require_stable, ..Default::default() };
        let fetched = self.groups.offset_fetch(9, request).await.groups.remove(0);
        if !fetched.error_code.is_none() {
            return Err(fetched.error_code);
        }
        let offsets = fetched.topics.into_iter().flat_map(|topic| {
            let name = topic.name;
            topic.partitions.into_iter().map(move |p| (name.clone(), p.partition_index, p.committed_offset))
        });
        Ok(offsets.collect())
    }

    pub(super) async fn fetch(&self, group_id: &str) -> Vec<(String, i32, i64)> {
        self.fetch_request(group_id, false).await.unwrap()
    }

    pub(super) fn spawn_join(&self, group_id: &str, member_id: &str) -> JoinHandle<JoinGroupResponse> {
        let (groups, request) = (self.groups.clone(), join_request(group_id, member_id));
        tokio::spawn(async move { groups.join_group(CALLER, request).await })
    }

    /// Admits a new member and makes the group stable with it.
    pub(super) async fn admit(&self, group_id: &str) -> JoinGroupResponse {
        let required = self.groups.join_group(CALLER, join_request(group_id, "")).await;
        assert_eq!(required.error_code, ErrorCode::MEMBER_ID_REQUIRED);
        let joined = self.groups.join_group(CALLER, join_request(group_id, &required.member_id)).await;
        assert_eq!(joined.error_code, ErrorCode::NONE);
        let synced = self.groups.sync_group(5, sync_request(group_id, &joined)).await;
        assert_eq!((synced.error_code, &synced.assignment[..]), (ErrorCode::NONE, &b"all"[..]));
        joined
    }

    pub(super) fn heartbeat(&self, group_id: &str, joined: &JoinGroupResponse) -> ErrorCode {
        self.groups.heartbeat(&HeartbeatRequest {
            group_id: group_id.to_owned(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            group_instance_id: None,
        })
    }

    pub(super) async fn delete(&self, group_id: &str) -> ErrorCode {
        self.groups.delete_groups(vec![group_id.to_owned()]).await[0].error_code
    }

    pub(super) fn list(&self) -> Vec<(String, String)> {
        let listed = self.groups.list_groups(&[], &[]).unwrap();
        listed.into_iter().map(|group| (group.group_id, group.group_state)).collect()
    }

    pub(super) fn memory_is_counted(&self) {
        let shard = self.groups.shard("").unwrap();
        assert_eq!(shard.state.lock().counted_bytes(), self.groups.memory_bytes());
    }
}

pub(super) fn sync_request(group_id: &str, joined: &JoinGroupResponse) -> SyncGroupRequest {
    let assignment =
        SyncGroupRequestAssignment { member_id: joined.member_id.clone(), assignment: Bytes::from_static(b"all") };
    SyncGroupRequest {
        group_id: group_id.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some("consumer".to_owned()),
        protocol_name: Some("range".to_owned()),
        assignments: vec![assignment],
        ..Default::default()
    }
}

pub(super) fn offset(topic: &str, partition: i32, offset: i64) -> (String, i32, i64) {
    (topic.to_owned(), partition, offset)
}

pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_comes_stays_and_goes() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    assert!(joined.member_id.starts_with("client-"), "{}", joined.member_id);
    assert_eq!(joined.member_id.len(), "client-".len() + 36, "as Java's UUIDs are printed");
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE);
    assert_eq!(world.list(), [("g".to_owned(), "Stable".to_owned())]);
    let described = world.groups.describe_group(5, "g");
    assert_eq!(described.members[0].client_host, "/127.0.0.1");

    let request = LeaveGroupRequest {
        group_id: "g".to_owned(),
        members: vec![MemberIdentity { member_id: joined.member_id.clone(), ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(world.groups.leave_group(5, request.clone()).await.members[0].error_code, ErrorCode::NONE);
    assert_eq!(world.groups.leave_group(5, request).await.members[0].error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    let old = LeaveGroupRequest { group_id: "g".to_owned(), member_id: joined.member_id.clone(), ..Default::default() };
    assert_eq!(world.groups.leave_group(2, old).await.error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(world.list(), [("g".to_owned(), "Empty".to_owned())]);

    let records = world.log.records(0);
    let generations: Vec<_> = records
        .iter()
        .map(|record| match record {
            Stored::Group { value: Some(value), .. } => (value.generation, value.members.len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(generations, [(1, 1), (2, 0)]);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn sessions_end_by_the_timer() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    // The wall clock's jumps do not matter.
    world.clock.wall_offset_ms.fetch_add(1 << 40, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(9_990)).await;
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE);
    tokio::time::sleep(Duration::from_millis(9_990)).await;
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE);
    tokio::time::sleep(Duration::from_millis(10_001)).await;
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[tokio::test(start_paused = true)]
async fn requests_are_checked_before_they_reach_a_group() {
    let world = World::new(GroupConfig::default()).await;
    let with = |change: &dyn Fn(&mut JoinGroupRequest)| {
        let mut request = join_request("g", "");
        change(&mut request);
        request
    };
    let huge = JoinGroupRequestProtocol { name: "range".to_owned(), metadata: vec![0; 1 << 20].into() };
    for (request, error) in [
        (with(&|r| r.group_id.clear()), ErrorCode::INVALID_GROUP_ID),
        (with(&|r| r.group_id = "g".repeat(5_000)), ErrorCode::INVALID_GROUP_ID),
        (with(&|r| r.session_timeout_ms = 0), ErrorCode::INVALID_SESSION_TIMEOUT),
        (with(&|r| r.session_timeout_ms = 5_999), ErrorCode::INVALID_SESSION_TIMEOUT),
        (with(&|r| r.session_timeout_ms = 1_800_001), ErrorCode::INVALID_SESSION_TIMEOUT),
        (with(&|r| r.session_timeout_ms = i32::MAX), ErrorCode::INVALID_SESSION_TIMEOUT),
        (with(&|r| r.protocols = vec![huge.clone()]), ErrorCode::MESSAGE_TOO_LARGE),
        (with(&|r| r.member_id = "stranger".to_owned()), ErrorCode::UNKNOWN_MEMBER_ID),
        (with(&|r| r.protocol_type.clear()), ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
    ] {
        let response = world.groups.join_group(CALLER, request.clone()).await;
        assert_eq!(response.error_code, error, "{:?} {}", request.group_id.get(..9), request.session_timeout_ms);
    }
    assert!(world.list().is_empty(), "nothing was left behind");
    let missing = SyncGroupRequest { protocol_name: None, ..sync_request("g", &JoinGroupResponse::default()) };
    assert_eq!(world.groups.sync_group(5, missing.clone()).await.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(world.groups.sync_group(4, missing).await.error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn an_assignment_waits_for_the_log() {
    let world = World::new(GroupConfig::default()).await;
    let required = world.groups.join_group(CALLER, join_request("g", "")).await;
    let joined = world.groups.join_group(CALLER, join_request("g", &required.member_id)).await;
    world.log.hold();
    let (groups, request) = (world.groups.clone(), sync_request("g", &joined));
    let synced = tokio::spawn(async move { groups.sync_group(5, request).await });
    settle().await;
    assert!(!synced.is_finished());
    world.log.release(1);
    assert_eq!(synced.await.unwrap().assignment, &b"all"[..]);

    // A write that never becomes durable is given up, and the member has to retry.
    let joined = world.groups.join_group(CALLER, join_request("g", &required.member_id)).await;
    let synced = world.groups.sync_group(5, sync_request("g", &joined)).await;
    assert_eq!(synced.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::REBALANCE_IN_PROGRESS);
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_stored_as_kafka_does_and_comes_back() {
    let world = World::new(GroupConfig::default()).await;
    assert_eq!(world.commit("g", &[("t1", 0, 7), ("t2", 2, 8)]).await, [ErrorCode::NONE; 2]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 7), offset("t2", 2, 8)]);
    let wall_ms = world.clock.wall_offset_ms.load(Ordering::Relaxed);
    let committed = CommittedOffset {
        offset: 7,
        leader_epoch: 4,
        metadata: "note".to_owned(),
        commit_timestamp_ms: wall_ms,
        expire_timestamp_ms: -1,
        topic_id: topic_id(1),
        known_ms: 0,
    };
    assert_eq!(
        world.log.records(0)[0],
        Stored::Offset { group_id: "g".into(), topic: "t1".into(), partition: 0, value: Some(committed) }
    );
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 7), offset("t2", 2, 8)]);
    assert_eq!(world.list(), [("g".to_owned(), "Empty".to_owned())]);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn each_partition_of_a_commit_has_its_own_error() {
    let world = World::new(GroupConfig::default()).await;
    let mut request = commit_request("g", &[("t1", 0, 1), ("t1", 3, 1), ("t1", -1, 1), ("zz", 0, 1), ("t1", 1, -9)]);
    request.topics[4].partitions[0].committed_metadata = None;
    request.topics.push(request.topics[0].clone());
    request.topics[5].partitions[0].committed_metadata = Some("x".repeat(4_097));
    request.topics.push(request.topics[0].clone());
    request.topics[6].partitions[0].committed_offset = 2;
    let response = world.groups.offset_commit(9, CALLER.client_host, request).await;
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let none = ErrorCode::NONE;
    let too_large = ErrorCode::OFFSET_METADATA_TOO_LARGE;
    assert_eq!(errors(&response), [none, unknown, unknown, unknown, none, too_large, none]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 2), offset("t1", 1, -9)], "the later of two counts");

    let nothing = world.groups.offset_commit(9, CALLER.client_host, commit_request("other", &[])).await;
    assert!(nothing.topics.is_empty());
    assert_eq!(world.commit("other", &[("zz", 0, 1)]).await, [unknown]);
    assert_eq!(world.list().len(), 1, "no group comes of nothing");
}

#[tokio::test(start_paused = true)]
async fn commits_of_strangers() {
    let world = World::new(GroupConfig::default()).await;
    let mut request = commit_request("g", &[("t1", 0, 1)]);
    request.generation_id_or_member_epoch = 3;
    request.member_id = "m".to_owned();
    let response = world.groups.offset_commit(9, CALLER.client_host, request.clone()).await;
    assert_eq!(errors(&response), [ErrorCode::GROUP_ID_NOT_FOUND]);
    let response = world.groups.offset_commit(8, CALLER.client_host, request.clone()).await;
    assert_eq!(errors(&response), [ErrorCode::ILLEGAL_GENERATION]);
    let joined = world.admit("g").await;
    assert_eq!(
        errors(&world.groups.offset_commit(9, CALLER.client_host, request.clone()).await),
        [ErrorCode::UNKNOWN_MEMBER_ID]
    );
    request.member_id = joined.member_id;
    assert_eq!(
        errors(&world.groups.offset_commit(9, CALLER.client_host, request.clone()).await),
        [ErrorCode::ILLEGAL_GENERATION]
    );
    request.generation_id_or_member_epoch = joined.generation_id;
    assert_eq!(errors(&world.groups.offset_commit(9, CALLER.client_host, request).await), [ErrorCode::NONE]);
    assert_eq!(world.commit("g", &[("t1", 0, 1)]).await, [ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(world.commit("", &[("t1", 0, 1)]).await, [ErrorCode::NONE], "offsets may be kept without a group id");
}

#[tokio::test(start_paused = true)]
async fn topics_by_id() {
    let world = World::new(GroupConfig::default()).await;
    let by_id = |id: Uuid| {
        let mut request = commit_request("g", &[("", 0, 5)]);
        request.topics[0].topic_id = id;
        request
    };
    let response = world.groups.offset_commit(10, CALLER.client_host, by_id(topic_id(3))).await;
    assert_eq!((errors(&response), response.topics[0].topic_id), (vec![ErrorCode::NONE], topic_id(3)));
    let response = world.groups.offset_commit(10, CALLER.client_host, by_id(Uuid([99; 16]))).await;
    assert_eq!(errors(&response), [ErrorCode::UNKNOWN_TOPIC_ID]);

    let requested = |id| OffsetFetchRequestTopics { topic_id: id, partition_indexes: vec![0, 1], ..Default::default() };
    let group = OffsetFetchRequestGroup {
        group_id: "g".to_owned(),
        topics: Some(vec![requested(Uuid([99; 16])), requested(topic_id(3))]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let response = world.groups.offset_fetch(10, request).await;
    let partitions: Vec<_> = response.groups[0]
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|p| (p.committed_offset, p.error_code)))
        .collect();
    let (none, unknown) = (ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(partitions, [(5, none), (-1, none), (-1, unknown), (-1, unknown)]);
}

#[tokio::test(start_paused = true)]
async fn fetching_in_the_old_form() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 7)]).await;
    let topic = OffsetFetchRequestTopic { name: "t1".to_owned(), partition_indexes: vec![0, 2] };
    let request =
        OffsetFetchRequest { group_id: "g".to_owned(), topics: Some(vec![topic.clone()]), ..Default::default() };
    let response = world.groups.offset_fetch(5, request.clone()).await;
    let partitions = &response.topics[0].partitions;
    assert_eq!((partitions[0].committed_offset, partitions[0].metadata.as_deref()), (7, Some("note")));
    assert_eq!(partitions[0].committed_leader_epoch, 4);
    assert_eq!((partitions[1].committed_offset, partitions[1].metadata.as_deref()), (-1, Some("")));

    let unknown = OffsetFetchRequest { group_id: "nobody".to_owned(), ..request.clone() };
    let response = world.groups.offset_fetch(5, unknown).await;
    assert_eq!((response.error_code, response.topics[0].partitions[0].committed_offset), (ErrorCode::NONE, -1));

    world.groups.unload(0);
    assert_eq!(world.groups.offset_fetch(2, request.clone()).await.error_code, ErrorCode::NOT_COORDINATOR);
    let response = world.groups.offset_fetch(1, request).await;
    let errors: Vec<_> = response.topics[0].partitions.iter().map(|p| p.error_code).collect();
    assert_eq!(errors, [ErrorCode::NOT_COORDINATOR; 2], "version 1 has no other place for it");
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_visible_when_it_is_durable() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1)]).await;
    world.log.hold();
    let commit = world.spawn_commit("g", &[("t1", 0, 2)]);
    settle().await;
    assert!(!commit.is_finished());
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 1)]);
    let stable = {
        let groups = world.groups.clone();
        let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], require_stable: true, ..Default::default() };
        tokio::spawn(async move { groups.offset_fetch(9, request).await })
    };
    settle().await;
    assert!(!stable.is_finished(), "it waits for the commit");
    world.log.release(1);
    assert_eq!(errors(&commit.await.unwrap()), [ErrorCode::NONE]);
    assert_eq!(stable.await.unwrap().groups[0].topics[0].partitions[0].committed_offset, 2);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_waits_until_the_records_before_it_are_durable() {
    let world = World::new(GroupConfig::default()).await;
    world.topics.unsynced_from("t1", 5);
    assert_eq!(world.commit("g", &[("t1", 0, 5), ("t2", 0, 9)]).await, [ErrorCode::NONE; 2]);
    let appends = world.log.appends();
    let commit = world.spawn_commit("g", &[("t1", 0, 6), ("t1", 1, 7), ("t2", 0, 10)]);
    settle().await;
    assert!(!commit.is_finished());
    assert_eq!(world.log.appends(), appends, "power loss could leave the commit and take the records");
    assert_eq!(world.topics.end_syncs(Ok(())), 2);
    assert_eq!(errors(&commit.await.unwrap()), [ErrorCode::NONE; 3]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 6), offset("t1", 1, 7), offset("t2", 0, 10)]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_records_do_not_become_durable_is_refused() {
    let world = World::new(GroupConfig::default()).await;
    world.topics.unsynced_from("t1", 5);
    let refused = [ErrorCode::COORDINATOR_NOT_AVAILABLE, ErrorCode::NONE];
    assert_eq!(world.commit("g", &[("t1", 0, 6), ("t2", 0, 10)]).await, refused, "after its timeout");
    let commit = world.spawn_commit("g", &[("t1", 0, 6), ("t2", 0, 11)]);
    settle().await;
    world.topics.end_syncs(Err(ErrorCode::KAFKA_STORAGE_ERROR));
    assert_eq!(errors(&commit.await.unwrap()), refused);
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 11)]);
}

#[tokio::test(start_paused = true)]
async fn a_commit_survives_the_connection_that_sent_it() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    let commit = world.spawn_commit("g", &[("t1", 0, 2)]);
    settle().await;
    commit.abort();
    settle().await;
    world.log.release(1);
    settle().await;
    assert_eq!(world.fetch_request("g", true).await, Ok(vec![offset("t1", 0, 2)]));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_takes_too_long_is_given_up_but_not_lost() {
    let world = World::new(GroupConfig::default()).await;
    world.log.hold();
    assert_eq!(world.commit("g", &[("t1", 0, 2)]).await, [ErrorCode::COORDINATOR_NOT_AVAILABLE]);
    assert_eq!(world.fetch_request("g", true).await, Err(ErrorCode::NOT_COORDINATOR));
    world.log.release(1);
    settle().await;
    assert_eq!(world.fetch_request("g", true).await, Ok(vec![offset("t1", 0, 2)]));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_leaves_nothing() {
    let world = World::new(GroupConfig::default()).await;
    for (cause, error) in [
        (ErrorCode::NOT_ENOUGH_REPLICAS, ErrorCode::COORDINATOR_NOT_AVAILABLE),
        (ErrorCode::KAFKA_STORAGE_ERROR, ErrorCode::NOT_COORDINATOR),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, ErrorCode::NOT_COORDINATOR),
        (ErrorCode::MESSAGE_TOO_LARGE, ErrorCode::UNKNOWN_SERVER_ERROR),
    ] {
        world.log.refuse(Some(cause));
        assert_eq!(world.commit("g", &[("t1", 0, 2)]).await, [error]);
        assert!(world.list().is_empty());
    }
    world.log.refuse(None);
    assert_eq!(world.commit("g", &[("t1", 0, 2)]).await, [ErrorCode::NONE]);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn large_commits_are_split_into_batches_that_the_topic_takes() {
    let world = World::new(GroupConfig::default()).await;
    let names: Vec<_> = (0..10).map(|number| format!("t{number}")).collect();
    let offsets: Vec<_> = names.iter().flat_map(|name| (0..3).map(|p| (name.as_str(), p, 5))).collect();
    assert_eq!(world.commit("g", &offsets).await, [ErrorCode::NONE; 30]);
    assert!(world.log.appends() > 1);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_positions_and_members_that_another_coordinator_may_know_better() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    world.log.may_have_moved(true);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.fetch_request("g", false).await, Err(ErrorCode::NOT_COORDINATOR));
    world.log.may_have_moved(false);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE);
    assert_eq!(world.fetch_request("g", false).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_loading_and_end_with_unloading() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    let required = world.groups.join_group(CALLER, join_request("g", "")).await;
    let waiting = world.spawn_join("g", &required.member_id);
    settle().await;
    assert!(!waiting.is_finished(), "the other member has not rejoined");
    world.groups.unload(0);
    assert_eq!(waiting.await.unwrap().error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.commit("g", &[("t1", 0, 1)]).await, [ErrorCode::NOT_COORDINATOR]);
    assert_eq!(world.delete("g").await, ErrorCode::NOT_COORDINATOR);
    assert_eq!(world.list(), []);
    assert_eq!(world.groups.memory_bytes(), 0);

    world.groups.begin_load(0);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE, "not worth a rebalance");
    assert_eq!(world.commit("g", &[("t1", 0, 1)]).await, [ErrorCode::COORDINATOR_LOAD_IN_PROGRESS]);
    assert_eq!(world.fetch_request("g", true).await, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(world.groups.list_groups(&[], &[]), Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    world.groups.load(0).await.unwrap();
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE, "the member is still in");
}

#[tokio::test(start_paused = true)]
async fn deleting_groups() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1), ("t2", 1, 2)]).await;
    world.admit("busy").await;
    let names = ["g", "nobody", "busy", "g"].map(str::to_owned);
    let results = world.groups.delete_groups(names.to_vec()).await;
    let results: Vec<_> = results.iter().map(|r| (r.group_id.as_str(), r.error_code)).collect();
    let (unknown, busy) = (ErrorCode::GROUP_ID_NOT_FOUND, ErrorCode::NON_EMPTY_GROUP);
    assert_eq!(results, [("g", ErrorCode::NONE), ("nobody", unknown), ("busy", busy)]);
    assert_eq!(world.list().len(), 1);
    let world = world.restart(0).await;
    assert_eq!(world.list(), [("busy".to_owned(), "Stable".to_owned())]);
    assert!(world.fetch("g").await.is_empty());
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_seen_when_it_is_durable() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1)]).await;
    world.log.hold();
    let deletion = {
        let groups = world.groups.clone();
        tokio::spawn(async move { groups.delete_groups(vec!["g".to_owned()]).await })
    };
    settle().await;
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 1)], "a crash now would bring it back");
    assert_eq!(world.commit("g", &[("t1", 0, 2)]).await, [ErrorCode::COORDINATOR_NOT_AVAILABLE]);
    let joining = world.groups.join_group(CALLER, join_request("g", "")).await;
    assert_eq!(joining.error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    world.log.release_all();
    assert_eq!(deletion.await.unwrap()[0].error_code, ErrorCode::NONE);
    assert!(world.fetch("g").await.is_empty());
    assert_eq!(world.commit("g", &[("t1", 0, 3)]).await, [ErrorCode::NONE], "a new group of that name");

    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.delete("g").await, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 3)]);
    world.log.refuse(None);
    assert_eq!(world.commit("g", &[("t1", 0, 4)]).await, [ErrorCode::NONE], "it lives on");
}

#[tokio::test(start_paused = true)]
async fn a_commit_to_a_deleted_group_does_not_touch_its_successor() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1)]).await;
    world.log.hold();
    let former = world.spawn_commit("g", &[("t1", 0, 2)]);
    settle().await;
    let deletion = {
        let groups = world.groups.clone();
        tokio::spawn(async move { groups.delete_groups(vec!["g".to_owned()]).await })
    };
    settle().await;
    world.log.release_youngest();
    assert_eq!(deletion.await.unwrap()[0].error_code, ErrorCode::NONE);
    let successor = world.spawn_commit("g", &[("t1", 0, 3)]);
    settle().await;
    world.log.release_youngest();
    assert_eq!(errors(&successor.await.unwrap()), [ErrorCode::NONE]);
    world.log.release_all();
    assert_eq!(errors(&former.await.unwrap()), [ErrorCode::NONE], "it was stored, and then deleted");
    assert_eq!(world.fetch_request("g", true).await, Ok(vec![offset("t1", 0, 3)]));
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 3)]);
}

#[tokio::test(start_paused = true)]
async fn deleting_offsets() {
    let world = World::new(GroupConfig::default()).await;
    let request = |group_id: &str, offsets: &[(&str, i32)]| OffsetDeleteRequest {
        group_id: group_id.to_owned(),
        topics: offsets
            .iter()
            .map(|(name, partition_index)| OffsetDeleteRequestTopic {
                name: (*name).to_owned(),
                partitions: vec![OffsetDeleteRequestPartition { partition_index: *partition_index }],
            })
            .collect(),
    };
    let answer = world.groups.offset_delete(request("g", &[("t1", 0)])).await;
    assert_eq!(answer.error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let answer = world.groups.offset_delete(request("", &[("t1", 0)])).await;
    assert_eq!(answer.error_code, ErrorCode::INVALID_GROUP_ID);
    world.commit("g", &[("t1", 0, 1), ("t2", 0, 2)]).await;
    let answer = world.groups.offset_delete(request("g", &[("t1", 0), ("t1", 2), ("t1", 7), ("zz", 0)])).await;
    let errors: Vec<_> = answer.topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(errors, [ErrorCode::NONE, ErrorCode::NONE, unknown, unknown]);
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
    // A group whose members do not say what they consume keeps everything.
    world.admit("h").await;
    let answer = world.groups.offset_delete(request("h", &[("t1", 0)])).await;
    assert_eq!(answer.topics[0].partitions[0].error_code, ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
}

#[tokio::test(start_paused = true)]
async fn offsets_go_with_their_topic() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1), ("t2", 0, 2)]).await;
    world.commit("only", &[("t1", 1, 1)]).await;
    world.groups.topics_deleted(&[("t1".to_owned(), Uuid([77; 16]))]);
    settle().await;
    assert_eq!(world.fetch("g").await.len(), 2, "another topic had that name");
    world.groups.topics_deleted(&[("t1".to_owned(), topic_id(1))]);
    settle().await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
    assert_eq!(world.list(), [("g".to_owned(), "Empty".to_owned())]);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn expiry_runs_by_itself_and_takes_the_group_with_it() {
    let config = GroupConfig { offsets_retention_ms: 3_600_000, ..GroupConfig::default() };
    let world = World::new(config).await;
    world.commit("old", &[("t1", 0, 1), ("t2", 0, 1)]).await;
    world.clock.wall_offset_ms.fetch_add(1 << 40, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    assert_eq!(world.fetch("old").await.len(), 2, "the wall clock's jump expires nothing");
    world.commit("new", &[("t1", 0, 1)]).await;
    tokio::time::sleep(Duration::from_secs(1_300)).await;
    assert_eq!(world.list(), [("new".to_owned(), "Empty".to_owned())]);
    let world = world.restart(0).await;
    assert_eq!(world.list(), [("new".to_owned(), "Empty".to_owned())]);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn a_group_outlives_some_of_its_offsets() {
    let config = GroupConfig { offsets_retention_ms: 3_600_000, ..GroupConfig::default() };
    let world = World::new(config).await;
    world.admit("g").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    world.commit("g", &[("t1", 0, 1), ("t2", 0, 1)]).await;
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    world.commit("g", &[("t2", 0, 2)]).await;
    tokio::time::sleep(Duration::from_secs(2_500)).await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
    let world = world.restart(0).await;
    assert_eq!(world.fetch("g").await, [offset("t2", 0, 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_group_without_members_or_offsets_is_removed() {
    let world = World::new(GroupConfig::default()).await;
    world.admit("g").await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.list(), [("g".to_owned(), "Empty".to_owned())]);
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(world.list(), []);
    let world = world.restart(0).await;
    assert_eq!(world.list(), []);
}

#[tokio::test(start_paused = true)]
async fn listing_with_filters() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("empty", &[("t1", 0, 1)]).await;
    world.admit("stable").await;
    let list = |states: &[&str], types: &[&str]| {
        let owned = |filter: &[&str]| filter.iter().map(|f| (*f).to_owned()).collect::<Vec<_>>();
        let listed = world.groups.list_groups(&owned(states), &owned(types)).unwrap();
        listed.into_iter().map(|group| group.group_id).collect::<Vec<_>>()
    };
    assert_eq!(list(&[], &[]), ["empty", "stable"]);
    assert_eq!(list(&["sTaBle "], &[]), ["stable"]);
    assert_eq!(list(&["Empty", "Stable"], &["Classic"]), ["empty", "stable"]);
    assert_eq!(list(&[], &["consumer"]), Vec::<String>::new());
    assert_eq!(list(&["bogus"], &[]), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn describing_a_group_that_does_not_exist() {
    let world = World::new(GroupConfig::default()).await;
    let old = world.groups.describe_group(5, "nope");
    assert_eq!((old.error_code, old.group_state.as_str()), (ErrorCode::NONE, "Dead"));
    let new = world.groups.describe_group(6, "nope");
    assert_eq!((new.error_code, new.group_state.as_str()), (ErrorCode::GROUP_ID_NOT_FOUND, "Dead"));
    assert_eq!(new.error_message.as_deref(), Some("Group nope not found."));
}

#[tokio::test(start_paused = true)]
async fn groups_are_spread_as_kafka_does() {
    let world = World::new(GroupConfig::default()).await;
    // With one partition there is no choice; Kafka 4.3.1 put "g1" of fifty into 42.
    assert_eq!(world.groups.partition_for("g1"), 0);
    assert_eq!(crate::group::coordinator::partition_of("g1", 50), 42);
    assert_eq!(crate::group::coordinator::partition_of("", 50), 0);
    // Its hash is i32::MIN, which has no absolute value.
    assert_eq!(crate::group::coordinator::partition_of("polygenelubricants", 50), 0);
}

#[tokio::test(start_paused = true)]
async fn rebalances_are_remembered_with_their_outcome() {
    let world = World::new(GroupConfig::default()).await;
    let joined = world.admit("g").await;
    let left = MemberIdentity { member_id: joined.member_id.clone(), ..Default::default() };
    let request = LeaveGroupRequest { group_id: "g".to_owned(), members: vec![left], ..Default::default() };
    world.groups.leave_group(5, request).await;
    let rebalances = world.groups.recent_rebalances();
    let brief: Vec<_> = rebalances.iter().map(|r| (r.cause.as_str(), r.generation, r.members, r.duration_ms)).collect();
    assert_eq!(brief, [("member_left", 2, 0, 0), ("member_joined", 1, 1, 3_000)], "the initial delay was waited for");
    assert!(rebalances.iter().all(|r| r.group_id == "g" && r.member_id == joined.member_id && r.client_id == "client"));

    let world = world.restart(0).await;
    assert_eq!(world.groups.recent_rebalances(), []);
}
