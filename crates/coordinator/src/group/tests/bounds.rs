//! What one client can make the groups hold, and what it can get in a response.

use std::time::Duration;

use wire::ErrorCode;
use wire::api::join_group::JoinGroupResponse;
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseTopics,
};

use super::api::{CALLER, commit_request, errors, join_request, offset, sync_request};
use super::fake::World;
use crate::group::{Caller, GroupConfig};

#[tokio::test(start_paused = true)]
async fn member_ids_that_nobody_uses_are_bounded() {
    let world = World::new(GroupConfig { max_pending_member_bytes: 50_000, ..GroupConfig::default() }).await;
    let early = world.groups.join_group(CALLER, join_request("g", "")).await;
    let mut late = JoinGroupResponse::default();
    for number in 0..1_000 {
        late = world.groups.join_group(CALLER, join_request(&format!("flood{number}"), "")).await;
        assert_eq!(late.error_code, ErrorCode::MEMBER_ID_REQUIRED);
    }
    assert!(world.list().len() < 60, "{}", world.list().len());
    let early = world.groups.join_group(CALLER, join_request("g", &early.member_id)).await;
    assert_eq!(early.error_code, ErrorCode::UNKNOWN_MEMBER_ID, "it may start anew");
    let late = world.groups.join_group(CALLER, join_request("flood999", &late.member_id)).await;
    assert_eq!(late.error_code, ErrorCode::NONE);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(world.list().len(), 1, "and they expire");
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let world = World::new(GroupConfig { max_memory_bytes: 20_000, ..GroupConfig::default() }).await;
    assert_eq!(world.commit("first", &[("t1", 0, 1)]).await, [ErrorCode::NONE]);
    let mut refused = 0;
    for number in 0..100 {
        let errors = world.commit(&format!("flood{number}"), &[("t1", 0, 1)]).await;
        refused += usize::from(errors == [ErrorCode::INVALID_COMMIT_OFFSET_SIZE]);
    }
    assert!(refused > 50, "{refused}");
    assert!(world.groups.memory_bytes() < 22_000);
    assert_eq!(world.commit("first", &[("t1", 0, 2)]).await, [ErrorCode::NONE], "what is there may change");
    let joining = world.groups.join_group(CALLER, join_request("g", "")).await;
    assert_eq!(joining.error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn who_fills_the_memory_leaves_room_for_others_and_for_what_is_small() {
    let world = World::new(GroupConfig { max_memory_bytes: 32 << 20, ..GroupConfig::default() }).await;
    let join = |host: u8, group_id: &str, bytes: usize| {
        let caller = Caller { api_version: 3, client_host: std::net::IpAddr::from([127, 0, 0, host]), ..CALLER };
        let mut request = join_request(group_id, "");
        request.session_timeout_ms = 1_800_000;
        request.protocols[0].metadata = vec![0; bytes].into();
        let groups = world.groups.clone();
        tokio::spawn(async move { groups.join_group(caller, request).await.error_code })
    };
    for number in 0..300 {
        join(1, &format!("fat{number}"), 1_000_000);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let count = world.list().len();
    assert!((3..=4).contains(&count), "{count} members of 1 MB take an eighth of 32 MiB");
    assert_eq!(join(1, "small", 1_000).await.unwrap(), ErrorCode::NONE);
    assert_eq!(world.commit("simple", &[("t1", 0, 1)]).await, [ErrorCode::NONE]);
    assert_eq!(join(2, "of another", 1_000_000).await.unwrap(), ErrorCode::NONE);
    world.memory_is_counted();
    world.groups.unload(0);
    assert_eq!(world.groups.memory_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_group_is_bounded() {
    let world = World::new(GroupConfig { max_memory_bytes: 1 << 20, ..GroupConfig::default() }).await;
    let mut request = join_request("g", "");
    request.protocols[0].metadata = vec![0; 140_000].into();
    let refused = world.groups.join_group(CALLER, request).await;
    assert_eq!(refused.error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    let joined = world.admit("g").await;
    let mut grown = join_request("g", &joined.member_id);
    grown.protocols[0].metadata = vec![0; 140_000].into();
    assert_eq!(world.groups.join_group(CALLER, grown).await.error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    let mut sync = sync_request("g", &joined);
    sync.assignments[0].assignment = vec![0; 140_000].into();
    assert_eq!(world.groups.sync_group(5, sync).await.error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE, "its members stay");
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn metadata_of_offsets_that_are_there_is_bounded() {
    let world = World::new(GroupConfig { max_memory_bytes: 100_000, ..GroupConfig::default() }).await;
    let mut full = Vec::new();
    for number in 0..20 {
        let group_id = format!("g{number}");
        let mut request = commit_request(&group_id, &[("t1", 0, 1)]);
        request.topics[0].partitions[0].committed_metadata = Some("x".repeat(3_700));
        if world.commit(&group_id, &[("t1", 0, 1)]).await == [ErrorCode::NONE]
            && errors(&world.groups.offset_commit(9, CALLER.client_host, request).await)
                == [ErrorCode::INVALID_COMMIT_OFFSET_SIZE]
        {
            full.push(group_id);
        }
    }
    let bytes = world.groups.memory_bytes();
    assert!(!full.is_empty() && bytes < 30_000, "{full:?} {bytes}");
    assert_eq!(world.commit(&full[0], &[("t1", 0, 2)]).await, [ErrorCode::NONE], "what takes no more may change");
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_is_committed_twice_in_a_request_is_written_once() {
    let world = World::new(GroupConfig::default()).await;
    assert_eq!(world.commit("g", &[("t1", 0, 1), ("t1", 1, 5), ("t1", 0, 2)]).await, [ErrorCode::NONE; 3]);
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 2), offset("t1", 1, 5)]);
    assert_eq!(world.log.records(0).len(), 2);
    assert_eq!(world.restart(0).await.fetch("g").await, [offset("t1", 0, 2), offset("t1", 1, 5)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_twice_is_told_once() {
    let world = World::new(GroupConfig::default()).await;
    world.commit("g", &[("t1", 0, 1), ("t2", 2, 2)]).await;
    let topic = |name: &str, partitions: &[i32]| OffsetFetchRequestTopics {
        name: name.to_owned(),
        partition_indexes: partitions.to_vec(),
        ..Default::default()
    };
    let ask = async |topics| {
        let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), topics: Some(topics), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group.clone(), group], ..Default::default() };
        let answer = world.groups.offset_fetch(9, request).await.groups;
        assert_eq!(answer[1].error_code, ErrorCode::INVALID_REQUEST, "a group is named once");
        let offsets = |topic: &OffsetFetchResponseTopics| {
            let partitions = topic.partitions.iter().map(|p| (p.partition_index, p.committed_offset));
            (topic.name.clone(), partitions.collect::<Vec<_>>())
        };
        answer[0].topics.iter().map(offsets).collect::<Vec<_>>()
    };
    let answered = ask(vec![topic("t1", &[0, 1, 0]), topic("t2", &[2]), topic("t1", &[0, 2]), topic("t3", &[])]).await;
    let t = |name: &str, partitions: &[(i32, i64)]| (name.to_owned(), partitions.to_vec());
    assert_eq!(answered, [t("t1", &[(0, 1), (1, -1)]), t("t2", &[(2, 2)]), t("t1", &[(2, -1)]), t("t3", &[])]);
    // More than is looked up at once is answered too, in order.
    let many: Vec<i32> = (0..2_500).rev().collect();
    let answered = ask(vec![topic("t2", &many), topic("t1", &[0])]).await;
    assert_eq!((answered.len(), answered[0].1.len(), answered[0].1[2_497]), (2, 2_500, (2, 2)));
    assert!(answered[0].1.iter().map(|(partition, _)| *partition).eq(many));
}
