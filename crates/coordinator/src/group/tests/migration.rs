//! Groups that change between the classic protocol and that of consumer groups while their members stay: what members
//! of either protocol have and hear of it, and what is durable.

use std::time::Duration;

use bytes::Bytes;
use configuration::MigrationPolicy;
use tokio::task::JoinHandle;
use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupResponse};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition};

use super::api::{CALLER, commit_request, errors, join_request, offset, settle};
use super::fake::World;
use crate::group::{Caller, GroupConfig};

fn of_t1(partitions: &[i32]) -> Vec<TopicPartition> {
    let of_topic = TopicPartition { topic: "t1".into(), partitions: partitions.to_vec() };
    if partitions.is_empty() { Vec::new() } else { vec![of_topic] }
}

/// A JoinGroup of a client that has these partitions.
fn join(member_id: &str, owned: &[i32]) -> JoinGroupRequest {
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["t1".into()],
        owned_partitions: of_t1(owned),
        ..Default::default()
    };
    let mut request = join_request("g", member_id);
    request.protocols[0].metadata = subscription.to_bytes();
    request
}

fn assignment(partitions: &[i32]) -> Bytes {
    ConsumerProtocolAssignment { assigned_partitions: of_t1(partitions), user_data: None }.to_bytes()
}

fn heartbeat(member_id: &str, member_epoch: i32) -> ConsumerGroupHeartbeatRequest {
    let is_first = member_epoch == 0;
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: member_id.into(),
        member_epoch,
        rebalance_timeout_ms: if is_first { 60_000 } else { -1 },
        subscribed_topic_names: is_first.then(|| vec!["t1".into()]),
        topic_partitions: is_first.then(Vec::new),
        ..Default::default()
    }
}

impl World {
    async fn consumer(&self, member_id: &str, epoch: i32) -> (ErrorCode, i32, Option<Vec<i32>>) {
        let caller = Caller { api_version: 1, ..CALLER };
        let response = self.groups.consumer_group_heartbeat(caller, heartbeat(member_id, epoch), None).await;
        let topics = response.assignment.map(|assignment| assignment.topic_partitions);
        let partitions = topics.map(|topics| topics.into_iter().flat_map(|topic| topic.partitions).collect());
        (response.error_code, response.member_epoch, partitions)
    }

    async fn join(&self, member_id: &str, owned: &[i32]) -> JoinGroupResponse {
        self.groups.join_group(CALLER, join(member_id, owned)).await
    }

    /// What a member of the classic protocol gets. As the leader it hands these out.
    async fn sync(&self, joined: &JoinGroupResponse, of_all: &[(&str, &[i32])]) -> Result<Vec<i32>, ErrorCode> {
        let assign = |(member_id, partitions): &(&str, &[i32])| SyncGroupRequestAssignment {
            member_id: (*member_id).to_owned(),
            assignment: assignment(partitions),
        };
        let request = SyncGroupRequest {
            group_id: "g".into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id.clone(),
            protocol_type: Some("consumer".into()),
            protocol_name: joined.protocol_name.clone(),
            assignments: of_all.iter().map(assign).collect(),
            ..Default::default()
        };
        let response = self.groups.sync_group(5, request).await;
        if !response.error_code.is_none() {
            return Err(response.error_code);
        }
        let assigned = ConsumerProtocolAssignment::from_bytes(&response.assignment).unwrap().assigned_partitions;
        Ok(assigned.into_iter().flat_map(|topic| topic.partitions).collect())
    }

    /// A group of the classic protocol whose only member has all three partitions.
    async fn with_classic_member(config: GroupConfig) -> (Self, JoinGroupResponse) {
        let world = Self::new(config).await;
        let member_id = world.join("", &[]).await.member_id;
        let joined = world.join(&member_id, &[]).await;
        assert_eq!(world.sync(&joined, &[(&member_id, &[0, 1, 2])]).await, Ok(vec![0, 1, 2]));
        (world, joined)
    }

    fn listed(&self) -> (String, String) {
        let group = self.groups.list_groups(&[], &[]).unwrap().remove(0);
        (group.group_type, group.group_state)
    }

    async fn leave(&self, member_id: &str) -> ErrorCode {
        let identity = MemberIdentity { member_id: member_id.into(), ..Default::default() };
        let request = LeaveGroupRequest { group_id: "g".into(), members: vec![identity], ..Default::default() };
        self.groups.leave_group(5, request).await.members[0].error_code
    }
}

fn is(listed: (String, String), group_type: &str, state: &str) {
    assert_eq!(listed, (group_type.to_owned(), state.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn members_stay_when_their_group_becomes_a_consumer_group_and_back() {
    let (world, joined) = World::with_classic_member(GroupConfig::default()).await;
    world.commit("g", &[]).await;
    let generation = joined.generation_id;
    // The new member waits for what the other has.
    assert_eq!(world.consumer("new", 0).await, (ErrorCode::NONE, generation + 1, Some(vec![])));
    is(world.listed(), "consumer", "Reconciling");
    assert_eq!(world.groups.describe_group(6, "g").error_code, ErrorCode::GROUP_ID_NOT_FOUND);
    let described = world.groups.consumer_group_describe("g");
    let types: Vec<i8> = described.members.iter().map(|member| member.member_type).collect();
    assert_eq!((types.len(), types.iter().sum::<i8>()), (2, 1));

    // The other goes on, is told to rejoin, gives something up, and takes the next step.
    let old = &joined.member_id;
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::REBALANCE_IN_PROGRESS);
    let mut commit = commit_request("g", &[("t1", 0, 5)]);
    (commit.member_id, commit.generation_id_or_member_epoch) = (old.clone(), generation);
    assert_eq!(errors(&world.groups.offset_commit(8, CALLER.client_host, commit).await), [ErrorCode::NONE]);
    let rejoined = world.join(old, &[0, 1, 2]).await;
    assert_eq!((rejoined.error_code, rejoined.generation_id), (ErrorCode::NONE, generation));
    let kept = world.sync(&rejoined, &[]).await.unwrap();
    assert!(kept.len() < 3 && !kept.is_empty());
    assert_eq!(world.heartbeat("g", &rejoined), ErrorCode::REBALANCE_IN_PROGRESS);
    let rejoined = world.join(old, &kept).await;
    assert_eq!(rejoined.generation_id, generation + 1);
    assert_eq!(world.sync(&rejoined, &[]).await, Ok(kept.clone()));
    assert_eq!(world.heartbeat("g", &rejoined), ErrorCode::NONE);
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::ILLEGAL_GENERATION);
    let (_, epoch, got) = world.consumer("new", generation + 1).await;
    assert_eq!((epoch, got.unwrap().len()), (generation + 1, 3 - kept.len()));
    is(world.listed(), "consumer", "Stable");
    world.memory_is_counted();

    // All of it is stored.
    let world = world.restart(0).await;
    is(world.listed(), "consumer", "Stable");
    assert_eq!(world.heartbeat("g", &rejoined), ErrorCode::NONE);

    // The last consumer goes, and the other shares as before.
    assert_eq!(world.consumer("new", -1).await.0, ErrorCode::NONE);
    settle().await;
    is(world.listed(), "classic", "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &rejoined), ErrorCode::REBALANCE_IN_PROGRESS);
    let mut commit = commit_request("g", &[("t1", 0, 6)]);
    (commit.member_id, commit.generation_id_or_member_epoch) = (old.clone(), generation + 1);
    assert_eq!(errors(&world.groups.offset_commit(8, CALLER.client_host, commit).await), [ErrorCode::NONE]);
    let again = world.join(old, &kept).await;
    assert_eq!((again.error_code, &again.leader), (ErrorCode::NONE, old));
    assert!(again.generation_id > generation + 1);
    assert_eq!(world.sync(&again, &[(old, &[0, 1, 2])]).await, Ok(vec![0, 1, 2]));
    is(world.listed(), "classic", "Stable");
    assert_eq!(world.fetch("g").await, [offset("t1", 0, 6)]);
    world.memory_is_counted();
    let world = world.restart(0).await;
    is(world.listed(), "classic", "Stable");
    assert_eq!(world.heartbeat("g", &again), ErrorCode::NONE);
    assert_eq!(world.groups.consumer_group_describe("g").error_code, ErrorCode::GROUP_ID_NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_protocol_that_cannot_be_written_has_not_happened() {
    let (world, joined) = World::with_classic_member(GroupConfig::default()).await;
    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.consumer("new", 0).await.0, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    is(world.listed(), "classic", "Stable");
    assert_eq!(world.heartbeat("g", &joined), ErrorCode::NONE);
    world.memory_is_counted();
    world.log.refuse(None);
    assert_eq!(world.consumer("new", 0).await.0, ErrorCode::NONE);

    world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.consumer("new", -1).await.0, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    is(world.listed(), "consumer", "Reconciling");
    world.log.refuse(None);
    assert_eq!(world.consumer("new", -1).await.0, ErrorCode::NONE);
    settle().await;
    is(world.listed(), "classic", "PreparingRebalance");
    world.memory_is_counted();
    let world = world.restart(0).await;
    is(world.listed(), "classic", "Stable");
}

#[tokio::test(start_paused = true)]
async fn the_next_coordinator_has_those_share_who_are_left() {
    let (world, joined) = World::with_classic_member(GroupConfig::default()).await;
    let old = &joined.member_id;
    world.consumer("new", 0).await;
    world.join(old, &[0, 1, 2]).await;
    let rejoined = world.join(old, &[0, 1]).await;
    world.consumer("new", -1).await;
    settle().await;
    is(world.listed(), "classic", "PreparingRebalance");
    let world = world.restart(0).await;
    is(world.listed(), "classic", "Stable");
    assert_eq!(world.heartbeat("g", &rejoined), ErrorCode::ILLEGAL_GENERATION);
    let again = world.join(old, &[]).await;
    assert_eq!((again.error_code, &again.leader), (ErrorCode::NONE, old));
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_the_protocol_changes_comes_again() {
    let (world, joined) = World::with_classic_member(GroupConfig::default()).await;
    world.consumer("new", 0).await;
    world.log.hold();
    let (groups, caller) = (world.groups.clone(), Caller { api_version: 1, ..CALLER });
    let leaving =
        tokio::spawn(async move { groups.consumer_group_heartbeat(caller, heartbeat("new", -1), None).await });
    settle().await;
    let groups = world.groups.clone();
    let late: JoinHandle<_> =
        tokio::spawn(async move { groups.consumer_group_heartbeat(caller, heartbeat("late", 0), None).await });
    let (groups, request) = (world.groups.clone(), join(&joined.member_id, &[]));
    let rejoining = tokio::spawn(async move { groups.join_group(CALLER, request).await });
    settle().await;
    assert!(!leaving.is_finished() && !late.is_finished() && !rejoining.is_finished());
    world.log.release_all();
    assert_eq!(leaving.await.unwrap().error_code, ErrorCode::NONE);
    assert_eq!(late.await.unwrap().error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    assert_eq!(rejoining.await.unwrap().error_code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
    is(world.listed(), "classic", "PreparingRebalance");
    // It is a consumer group again at once, and who waits for its rebalance hears of it.
    let (groups, mut request) = (world.groups.clone(), join("", &[]));
    request.group_instance_id = Some("static".into());
    let waiting = tokio::spawn(async move { groups.join_group(CALLER, request).await });
    settle().await;
    assert_eq!(world.consumer("late", 0).await.0, ErrorCode::NONE);
    assert_eq!(waiting.await.unwrap().error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    is(world.listed(), "consumer", "Reconciling");
    world.memory_is_counted();
}

#[tokio::test(start_paused = true)]
async fn the_policy_says_which_way_a_group_may_change() {
    for policy in [
        MigrationPolicy::Bidirectional,
        MigrationPolicy::Upgrade,
        MigrationPolicy::Downgrade,
        MigrationPolicy::Disabled,
    ] {
        let config = GroupConfig { migration_policy: policy, ..GroupConfig::default() };
        let (world, _) = World::with_classic_member(config.clone()).await;
        let upgraded = world.consumer("new", 0).await.0;
        let expected = if policy.allows_upgrade() { ErrorCode::NONE } else { ErrorCode::GROUP_ID_NOT_FOUND };
        assert_eq!(upgraded, expected, "{policy:?}");

        let world = World::new(config).await;
        assert_eq!(world.consumer("new", 0).await.0, ErrorCode::NONE);
        let old = world.join("", &[]).await;
        if policy == MigrationPolicy::Disabled {
            assert_eq!(old.error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
            continue;
        }
        assert_eq!(old.error_code, ErrorCode::MEMBER_ID_REQUIRED);
        let old = world.join(&old.member_id, &[]).await;
        assert_eq!(world.consumer("new", -1).await.0, ErrorCode::NONE);
        settle().await;
        if policy.allows_downgrade() {
            is(world.listed(), "classic", "PreparingRebalance");
            continue;
        }
        // Whoever is left gets what the last consumer had.
        assert_eq!(world.listed().0, "consumer");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(world.heartbeat("g", &old), ErrorCode::REBALANCE_IN_PROGRESS);
        let old = world.join(&old.member_id, &[]).await;
        assert_eq!(world.sync(&old, &[]).await, Ok(vec![0, 1, 2]));
        assert_eq!(world.leave(&old.member_id).await, ErrorCode::NONE);
        is(world.listed(), "consumer", "Empty");
    }
}

#[tokio::test(start_paused = true)]
async fn groups_that_would_lose_something_do_not_change() {
    let refused = |world: World| async move {
        let former = world.listed();
        assert_eq!(world.consumer("new", 0).await.0, ErrorCode::GROUP_ID_NOT_FOUND);
        assert_eq!(world.listed(), former);
        world.memory_is_counted();
    };
    // Not consumers; not what consumers say.
    let (world, mut request) = (World::new(GroupConfig::default()).await, join("", &[]));
    (request.protocol_type, request.group_instance_id) = ("connect".into(), Some("i".into()));
    assert_eq!(world.groups.join_group(CALLER, request).await.error_code, ErrorCode::NONE);
    refused(world).await;
    let world = World::new(GroupConfig::default()).await;
    world.admit("g").await;
    refused(world).await;
    // Too many.
    let config = GroupConfig { consumer_max_size: 0, ..GroupConfig::default() };
    refused(World::with_classic_member(config).await.0).await;
    // An assignor of the client's that remembers something.
    let world = World::new(GroupConfig::default()).await;
    let member_id = world.join("", &[]).await.member_id;
    let joined = world.join(&member_id, &[]).await;
    let own =
        ConsumerProtocolAssignment { assigned_partitions: of_t1(&[0]), user_data: Some(Bytes::from_static(b"own")) };
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: joined.generation_id,
        member_id: member_id.clone(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![SyncGroupRequestAssignment { member_id, assignment: own.to_bytes() }],
        ..Default::default()
    };
    assert_eq!(world.groups.sync_group(5, request).await.error_code, ErrorCode::NONE);
    refused(world).await;
}
