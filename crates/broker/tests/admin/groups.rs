//! Groups of the consumer protocol (KIP-848): what they take from the rest of the broker.

use std::time::Duration;

use wire::ErrorCode;
use wire::api::consumer_group_describe::{ConsumerGroupDescribeRequest, DescribedGroup};
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::api::list_groups::ListGroupsRequest;

use crate::common::{TestBroker, TestClient};
use crate::features::{SAFE_DOWNGRADE, UPGRADE, update};
use crate::{create, topic};

const GROUP: i8 = 32;
const SETTINGS: [(&str, &str); 1] = [("group.consumer.assignment.interval.ms", "0")];

/// A broker with the topic `t`, and its group coordinator.
fn start(partitions: i32) -> (TestBroker, TestClient) {
    let broker = TestBroker::start_with(&SETTINGS);
    let mut client = broker.connect();
    create(&mut client, &[topic("t", partitions)]);
    let request = FindCoordinatorRequest { coordinator_keys: vec!["g".to_owned()], ..Default::default() };
    assert_eq!(client.ask(&request).coordinators[0].error_code, ErrorCode::NONE);
    (broker, client)
}

/// A heartbeat of the group's only member, again while the group is being loaded.
fn beat(client: &mut TestClient, member_epoch: i32) -> ConsumerGroupHeartbeatResponse {
    let is_first = member_epoch == 0;
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g".to_owned(),
        member_id: "m".to_owned(),
        member_epoch,
        rebalance_timeout_ms: if is_first { 60_000 } else { -1 },
        subscribed_topic_names: is_first.then(|| vec!["t".to_owned()]),
        topic_partitions: is_first.then(Vec::new),
        ..Default::default()
    };
    for _ in 0..3000 {
        let response = client.ask(&request);
        match response.error_code {
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS | ErrorCode::NOT_COORDINATOR => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return response,
        }
    }
    panic!("the group is not loaded");
}

fn assigned(response: &ConsumerGroupHeartbeatResponse) -> Option<usize> {
    let topics = &response.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().map(|topic| topic.partitions.len()).sum())
}

fn describe(client: &mut TestClient) -> DescribedGroup {
    let request = ConsumerGroupDescribeRequest { group_ids: vec!["g".to_owned()], ..Default::default() };
    client.ask(&request).groups.remove(0)
}

#[test]
fn groups_of_the_consumer_protocol_are_served_from_group_version_1_on() {
    let (_broker, mut client) = start(2);
    let joined = beat(&mut client, 0);
    assert_eq!((joined.error_code, assigned(&joined)), (ErrorCode::NONE, Some(2)));
    let described = describe(&mut client);
    assert_eq!((described.group_state.as_str(), described.members.len()), ("Stable", 1));
    let listed = client.ask(&ListGroupsRequest::default()).groups;
    assert_eq!((listed.len(), listed[0].group_type.as_str()), (1, "consumer"));

    assert_eq!(update(&mut client, "group.version", 0, SAFE_DOWNGRADE), ErrorCode::NONE);
    assert_eq!(beat(&mut client, joined.member_epoch).error_code, ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(describe(&mut client).error_code, ErrorCode::UNSUPPORTED_VERSION);
    assert_eq!(update(&mut client, "group.version", 1, UPGRADE), ErrorCode::NONE);
    assert_eq!(beat(&mut client, joined.member_epoch).error_code, ErrorCode::NONE);
}

#[test]
fn a_broker_need_not_serve_the_consumer_protocol() {
    let broker = TestBroker::start_with(&[("group.coordinator.rebalance.protocols", "classic")]);
    let mut client = broker.connect();
    assert_eq!(beat(&mut client, 0).error_code, ErrorCode::UNSUPPORTED_VERSION);
}

#[test]
fn members_go_on_after_a_restart() {
    let (mut broker, mut client) = start(2);
    let joined = beat(&mut client, 0);
    broker.restart();
    let mut client = broker.connect();
    let response = beat(&mut client, joined.member_epoch);
    assert_eq!((response.error_code, response.member_epoch), (ErrorCode::NONE, joined.member_epoch));
    assert_eq!(describe(&mut client).group_state, "Stable");
}

#[test]
fn partitions_that_are_added_are_assigned() {
    let (_broker, mut client) = start(1);
    let joined = beat(&mut client, 0);
    assert_eq!(assigned(&joined), Some(1));
    let more = CreatePartitionsTopic { name: "t".to_owned(), count: 4, ..Default::default() };
    let request = CreatePartitionsRequest { topics: vec![more], timeout_ms: 10_000, ..Default::default() };
    assert_eq!(client.ask(&request).results[0].error_code, ErrorCode::NONE);
    let response = beat(&mut client, joined.member_epoch);
    assert_eq!((response.member_epoch, assigned(&response)), (joined.member_epoch + 1, Some(4)));
}

#[test]
fn a_groups_own_settings_reach_its_members() {
    let (_broker, mut client) = start(1);
    let joined = beat(&mut client, 0);
    assert_eq!(joined.heartbeat_interval_ms, 5000);
    let mut set = |value: &str| {
        let config = AlterableConfig {
            name: "consumer.heartbeat.interval.ms".to_owned(),
            value: Some(value.to_owned()),
            ..Default::default()
        };
        let resource =
            AlterConfigsResource { resource_type: GROUP, resource_name: "g".to_owned(), configs: vec![config] };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        client.ask(&request).responses[0].error_code
    };
    assert_eq!((set("1"), set("7000")), (ErrorCode::INVALID_CONFIG, ErrorCode::NONE));
    assert_eq!(beat(&mut client, joined.member_epoch).heartbeat_interval_ms, 7000);
}
