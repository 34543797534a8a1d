//! Whom a client asks, how often, and what it makes of answers of which a part is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::timeout;
use wire::ErrorCode;
use wire::api::consumer_group_describe::{self, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
use wire::api::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse, DescribeConfigsResult};
use wire::api::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use wire::api::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use wire::api::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use wire::api::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use wire::api::metadata::{MetadataRequest, MetadataResponsePartition, MetadataResponseTopic};
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::api::update_features::{UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse};

use crate::fake_cluster::{FakeCluster, Question};
use crate::{
    Client, ClientConfig, ClientError, ConnectionError, GroupEpochs, LATEST, ListedOffset, MemberProgress, Resource,
    TopicPartition,
};

const BROKERS: i32 = 3;
const LIST_OFFSETS: (i16, i16) = (2, 5);
const OFFSET_FETCH: i16 = 9;
const FIND_COORDINATOR: i16 = 10;
const DESCRIBE_GROUPS: (i16, i16) = (15, 4);
const LIST_GROUPS: (i16, i16) = (16, 4);
const DELETE_RECORDS: (i16, i16) = (21, 1);
const DESCRIBE_CONFIGS: (i16, i16) = (32, 3);

/// `t0`, `t1` and so on; the leaders of their partitions take turns, and one has none where they say -1.
fn topics(count: usize, leaders: &[i32]) -> Vec<MetadataResponseTopic> {
    let partition = |(partition_index, leader_id): (i32, &i32)| MetadataResponsePartition {
        partition_index,
        leader_id: *leader_id,
        ..Default::default()
    };
    let topic = |number| MetadataResponseTopic {
        name: Some(format!("t{number}")),
        partitions: (0..).zip(leaders).map(partition).collect(),
        ..Default::default()
    };
    (0..count).map(topic).collect()
}

fn every_partition(topics: usize, partitions: i32, value: i64) -> BTreeMap<TopicPartition, i64> {
    let partition = |topic| (0..partitions).map(move |p| (TopicPartition::new(format!("t{topic}"), p), value));
    (0..topics).flat_map(partition).collect()
}

/// The offsets of a partition are its number, but for those of which `code` says something else.
fn offsets(question: &Question, code: impl Fn(&str, i32) -> ErrorCode) -> Option<BytesMut> {
    let request = question.read::<ListOffsetsRequest>()?;
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| ListOffsetsPartitionResponse {
            partition_index: p.partition_index,
            error_code: code(&topic.name, p.partition_index),
            offset: i64::from(p.partition_index),
            ..Default::default()
        });
        ListOffsetsTopicResponse { partitions: partitions.collect(), name: topic.name }
    });
    question.answer::<ListOffsetsRequest>(&ListOffsetsResponse { topics: topics.collect(), ..Default::default() })
}

#[tokio::test]
async fn every_leader_is_asked_once_for_the_offsets_of_all_its_partitions() {
    let cluster =
        FakeCluster::start(BROKERS, topics(1000, &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0]), &[LIST_OFFSETS], |question| {
            offsets(question, |_, _| ErrorCode::NONE)
        });
    let cluster = cluster.await;
    let found = cluster.client().list_offsets_each(&every_partition(1000, 10, LATEST)).await;
    assert_eq!(found.len(), 10_000);
    let is_right = |(partition, found): (&TopicPartition, &Result<ListedOffset, ClientError>)| {
        found.as_ref().is_ok_and(|found| found.offset == i64::from(partition.partition))
    };
    assert!(found.iter().all(is_right));
    assert_eq!(cluster.asked::<ListOffsetsRequest>(), [0, 1, 2]);
}

#[tokio::test]
async fn a_partition_without_an_offset_does_not_hide_the_others() {
    let cluster = FakeCluster::start(BROKERS, topics(1, &[0, -1, 1]), &[LIST_OFFSETS], |question| {
        let refused = |partition| if partition == 2 { ErrorCode::TOPIC_AUTHORIZATION_FAILED } else { ErrorCode::NONE };
        offsets(question, |_, partition| refused(partition))
    });
    let cluster = cluster.await;
    let mut wanted = every_partition(1, 4, LATEST);
    wanted.insert(TopicPartition::new("gone", 0), LATEST);
    let found = cluster.client().list_offsets_each(&wanted).await;
    let found: Vec<_> = found.into_iter().map(|(p, found)| (p.to_string(), found.map(|found| found.offset))).collect();
    let partition = |index| TopicPartition::new("t0", index);
    let refused = ClientError::Refused {
        subject: "the offsets of t0-2".to_owned(),
        code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        message: None,
    };
    let expected = [
        ("gone-0".to_owned(), Err(ClientError::UnknownTopic { topic: "gone".to_owned() })),
        ("t0-0".to_owned(), Ok(0)),
        ("t0-1".to_owned(), Err(ClientError::NoLeader(partition(1)))),
        ("t0-2".to_owned(), Err(refused)),
        ("t0-3".to_owned(), Err(ClientError::UnknownPartition(partition(3)))),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn who_is_not_the_leader_any_more_is_asked_once_more() {
    let cluster = FakeCluster::start(BROKERS, topics(1, &[0, 1]), &[LIST_OFFSETS], |question| {
        let has_moved = question.broker == 1 && question.before == 0;
        offsets(question, |_, _| if has_moved { ErrorCode::NOT_LEADER_OR_FOLLOWER } else { ErrorCode::NONE })
    });
    let cluster = cluster.await;
    let found = cluster.client().list_offsets_each(&every_partition(1, 2, LATEST)).await;
    assert!(found.values().all(Result::is_ok), "{found:?}");
    assert_eq!(cluster.asked::<ListOffsetsRequest>(), [0, 1, 1]);
}

#[tokio::test]
async fn who_leads_is_asked_again_after_a_leader_was_silent() {
    let cluster = FakeCluster::start(BROKERS, topics(1, &[0, 1]), &[LIST_OFFSETS], |question| {
        if question.broker == 1 { None } else { offsets(question, |_, _| ErrorCode::NONE) }
    });
    let cluster = cluster.await;
    let client = Client::new(ClientConfig { patience: Duration::from_millis(300), ..cluster.config() });
    client.cluster().await.unwrap();
    let wanted = every_partition(1, 2, LATEST);
    for asked_in_all in [1, 2] {
        let found = client.list_offsets_each(&wanted).await;
        assert!(found[&TopicPartition::new("t0", 1)].is_err(), "{found:?}");
        assert_eq!(cluster.asked::<MetadataRequest>().len(), asked_in_all);
    }
}

#[tokio::test]
async fn all_offsets_are_waited_for_where_all_are_wanted() {
    let cluster = FakeCluster::start(BROKERS, topics(1, &[0, 1]), &[LIST_OFFSETS], |question| {
        let is_new = question.broker == 1 && question.before < 4;
        offsets(question, |_, _| if is_new { ErrorCode::OFFSET_NOT_AVAILABLE } else { ErrorCode::NONE })
    });
    let cluster = cluster.await;
    let found = cluster.client().list_offsets(&every_partition(1, 2, LATEST)).await.unwrap();
    assert_eq!(found.into_values().map(|found| found.offset).collect::<Vec<_>>(), [0, 1]);
    // Only what was missing.
    assert_eq!(cluster.asked::<ListOffsetsRequest>(), [0, 1, 1, 1, 1, 1]);
}

#[tokio::test]
async fn records_are_deleted_by_the_leaders() {
    let cluster = FakeCluster::start(BROKERS, topics(2, &[0, 2]), &[DELETE_RECORDS], |question| {
        let topics = question.read::<DeleteRecordsRequest>()?.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.into_iter().map(|p| DeleteRecordsPartitionResult {
                partition_index: p.partition_index,
                low_watermark: p.offset,
                error_code: if p.offset > 9 { ErrorCode::OFFSET_OUT_OF_RANGE } else { ErrorCode::NONE },
            });
            DeleteRecordsTopicResult { name: topic.name, partitions: partitions.collect() }
        });
        let response = DeleteRecordsResponse { topics: topics.collect(), ..Default::default() };
        question.answer::<DeleteRecordsRequest>(&response)
    });
    let cluster = cluster.await;
    let mut offsets = every_partition(2, 2, 7);
    offsets.insert(TopicPartition::new("t1", 1), 10);
    let deleted = cluster.client().delete_records(&offsets).await;
    let deleted: Vec<_> = deleted.into_values().map(|deleted| deleted.map_err(|error| error.code())).collect();
    assert_eq!(deleted, [Ok(7), Ok(7), Ok(7), Err(Some(ErrorCode::OFFSET_OUT_OF_RANGE))]);
    assert_eq!(cluster.asked::<DeleteRecordsRequest>(), [0, 2]);
}

fn names(count: i32) -> Vec<String> {
    (0..count).map(|number| format!("g{number}")).collect()
}

/// The group `g4` is coordinated by broker 4 % 3.
fn number(group: &str) -> i32 {
    group[1..].parse().unwrap()
}

fn coordinators(question: &Question) -> Option<BytesMut> {
    let request = question.read::<FindCoordinatorRequest>()?;
    let of_group = |group: &str| question.brokers[(number(group) % BROKERS) as usize].clone();
    let response = if request.coordinator_keys.is_empty() {
        let broker = of_group(&request.key);
        FindCoordinatorResponse { node_id: broker.node_id, host: broker.host, port: broker.port, ..Default::default() }
    } else {
        let coordinators = request.coordinator_keys.into_iter().map(|key| {
            let broker = of_group(&key);
            let (node_id, host, port) = (broker.node_id, broker.host, broker.port);
            Coordinator { key, node_id, host, port, ..Default::default() }
        });
        FindCoordinatorResponse { coordinators: coordinators.collect(), ..Default::default() }
    };
    question.answer::<FindCoordinatorRequest>(&response)
}

fn described(question: &Question, code: impl Fn(&str) -> ErrorCode) -> Option<BytesMut> {
    let groups = question.read::<DescribeGroupsRequest>()?.groups.into_iter().map(|group_id| DescribedGroup {
        error_code: code(&group_id),
        group_state: if number(&group_id) == 7 { "Dead".to_owned() } else { "Empty".to_owned() },
        group_id,
        ..Default::default()
    });
    let response = DescribeGroupsResponse { groups: groups.collect(), ..Default::default() };
    question.answer::<DescribeGroupsRequest>(&response)
}

#[tokio::test]
async fn every_coordinator_is_asked_once_for_all_its_groups() {
    for (version, searches) in [(4, 1), (3, 6)] {
        let versions = [(FIND_COORDINATOR, version), DESCRIBE_GROUPS];
        let cluster = FakeCluster::start(BROKERS, Vec::new(), &versions, |question| {
            coordinators(question).or_else(|| described(question, |_| ErrorCode::NONE))
        });
        let cluster = cluster.await;
        let client = cluster.client();
        let groups = client.describe_groups(&names(6)).await;
        assert_eq!(groups.keys().cloned().collect::<Vec<_>>(), names(6));
        for (group, described) in &groups {
            assert_eq!(described.as_ref().map(|group| group.coordinator.id), Ok(number(group) % BROKERS));
        }
        assert_eq!(cluster.asked::<FindCoordinatorRequest>(), vec![0; searches]);
        assert_eq!(cluster.asked::<DescribeGroupsRequest>(), [0, 1, 2]);
        // Now it knows them.
        client.describe_groups(&names(6)).await;
        assert_eq!(cluster.asked::<FindCoordinatorRequest>(), vec![0; searches]);
    }
}

/// Of the consumer protocol: those with an even number. The first of them may not be described.
fn described_consumers(question: &Question) -> Option<BytesMut> {
    use consumer_group_describe::{Assignment, DescribedGroup, Member, TopicPartitions};
    let assignment = |partitions: &[i32]| Assignment {
        topic_partitions: vec![TopicPartitions {
            topic_name: "t".to_owned(),
            partitions: partitions.to_vec(),
            ..Default::default()
        }],
    };
    let member = Member {
        member_id: "m".to_owned(),
        instance_id: Some("i".to_owned()),
        member_epoch: 3,
        subscribed_topic_names: vec!["t".to_owned()],
        subscribed_topic_regex: Some(String::new()),
        assignment: assignment(&[1, 0]),
        target_assignment: assignment(&[0]),
        member_type: 0,
        ..Default::default()
    };
    let groups =
        question.read::<ConsumerGroupDescribeRequest>()?.group_ids.into_iter().map(|group_id| DescribedGroup {
            error_code: match number(&group_id) {
                0 => ErrorCode::GROUP_AUTHORIZATION_FAILED,
                number if number % 2 == 0 => ErrorCode::NONE,
                _ => ErrorCode::GROUP_ID_NOT_FOUND,
            },
            group_state: "Reconciling".to_owned(),
            group_epoch: 5,
            assignment_epoch: 4,
            assignor_name: "uniform".to_owned(),
            members: vec![member.clone()],
            group_id,
            ..Default::default()
        });
    let response = ConsumerGroupDescribeResponse { groups: groups.collect(), ..Default::default() };
    question.answer::<ConsumerGroupDescribeRequest>(&response)
}

#[tokio::test]
async fn groups_of_either_protocol_are_described() {
    let versions = [(FIND_COORDINATOR, 4), DESCRIBE_GROUPS, (69, 1)];
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &versions, |question| {
        coordinators(question)
            .or_else(|| described_consumers(question))
            .or_else(|| described(question, |_| ErrorCode::NONE))
    });
    let cluster = cluster.await;
    let groups = cluster.client().describe_groups(&names(6)).await;
    let states: Vec<_> = groups.values().map(|group| group.as_ref().map_or("", |group| group.state.as_str())).collect();
    assert_eq!(states, ["", "Empty", "Reconciling", "Empty", "Reconciling", "Empty"]);
    let group = groups["g2"].as_ref().unwrap();
    let protocol = (group.protocol_type.as_str(), group.protocol.as_str(), group.coordinator.id);
    assert_eq!(protocol, ("consumer", "uniform", 2));
    assert_eq!(group.epochs, Some(GroupEpochs { group: 5, assignment: 4 }));
    let of_t = |partitions: &[i32]| partitions.iter().map(|p| TopicPartition::new("t", *p)).collect::<Vec<_>>();
    let topics = vec!["t".to_owned()];
    let progress = MemberProgress { epoch: 3, target: of_t(&[0]), is_classic: Some(true), topics, regex: None };
    let member = &group.members[0];
    assert_eq!((member.assigned.as_deref(), &member.progress), (Some(&*of_t(&[0, 1])), &Some(progress)));
    assert_eq!(groups["g3"].as_ref().unwrap().epochs, None);
}

#[tokio::test]
async fn a_group_whose_coordinator_has_moved_is_looked_for_again() {
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &[(FIND_COORDINATOR, 4), DESCRIBE_GROUPS], |question| {
        coordinators(question).or_else(|| {
            described(question, |group| match number(group) {
                1 if question.before == 0 => ErrorCode::NOT_COORDINATOR,
                5 => ErrorCode::GROUP_AUTHORIZATION_FAILED,
                _ => ErrorCode::NONE,
            })
        })
    });
    let cluster = cluster.await;
    let groups = cluster.client().describe_groups(&names(6)).await;
    let failed: Vec<_> =
        groups.iter().filter_map(|(group, d)| Some((group.as_str(), d.as_ref().err()?.code()))).collect();
    assert_eq!(failed, [("g5", Some(ErrorCode::GROUP_AUTHORIZATION_FAILED))]);
    // Once for all, and once for the one; any broker can tell.
    assert_eq!(cluster.asked::<FindCoordinatorRequest>().len(), 2);
    assert_eq!(cluster.asked::<DescribeGroupsRequest>(), [0, 1, 1, 2]);
}

/// The group has committed its number in `t-0`, and nothing in `t-1`; `g2` may not be read.
fn committed(question: &Question) -> Option<BytesMut> {
    let request = question.read::<OffsetFetchRequest>()?;
    let name = || "t".to_owned();
    let offsets = |group: &str| if group == "g7" { [-1, -1] } else { [i64::from(number(group)), -1] };
    let code = |group: &str| if group == "g2" { ErrorCode::GROUP_AUTHORIZATION_FAILED } else { ErrorCode::NONE };
    let response = if request.groups.is_empty() {
        let partition = |(partition_index, committed_offset)| OffsetFetchResponsePartition {
            partition_index,
            committed_offset,
            ..Default::default()
        };
        let partitions = (0..).zip(offsets(&request.group_id)).map(partition).collect();
        let topics = vec![OffsetFetchResponseTopic { name: name(), partitions }];
        OffsetFetchResponse { topics, error_code: code(&request.group_id), ..Default::default() }
    } else {
        let groups = request.groups.into_iter().map(|group| {
            let partition = |(partition_index, committed_offset)| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                ..Default::default()
            };
            let partitions = (0..).zip(offsets(&group.group_id)).map(partition).collect();
            let topics = vec![OffsetFetchResponseTopics { name: name(), partitions, ..Default::default() }];
            OffsetFetchResponseGroup { error_code: code(&group.group_id), group_id: group.group_id, topics }
        });
        OffsetFetchResponse { groups: groups.collect(), ..Default::default() }
    };
    question.answer::<OffsetFetchRequest>(&response)
}

#[tokio::test]
async fn the_offsets_of_many_groups_come_together_where_the_broker_can() {
    for (version, questions) in [(8, vec![0, 1, 2]), (7, vec![0, 0, 1, 1, 2, 2])] {
        let versions = [(FIND_COORDINATOR, 4), (OFFSET_FETCH, version)];
        let cluster = FakeCluster::start(BROKERS, Vec::new(), &versions, |question| {
            coordinators(question).or_else(|| committed(question))
        });
        let cluster = cluster.await;
        let offsets = cluster.client().committed_offsets(&names(6)).await;
        assert_eq!(offsets.len(), 6);
        for (group, offsets) in offsets {
            let offsets = offsets.map_err(|error| error.code());
            let offsets = offsets.map(|offsets| offsets.into_iter().map(|(p, c)| (p, c.offset)).collect::<Vec<_>>());
            let expected = match number(&group) {
                2 => Err(Some(ErrorCode::GROUP_AUTHORIZATION_FAILED)),
                number => Ok(vec![(TopicPartition::new("t", 0), i64::from(number))]),
            };
            assert_eq!(offsets, expected, "{group}");
        }
        assert_eq!(cluster.asked::<OffsetFetchRequest>(), questions);
    }
}

#[tokio::test]
async fn a_dead_group_without_offsets_does_not_exist() {
    let versions = [(FIND_COORDINATOR, 4), (OFFSET_FETCH, 8), DESCRIBE_GROUPS];
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &versions, |question| {
        coordinators(question).or_else(|| described(question, |_| ErrorCode::NONE)).or_else(|| committed(question))
    });
    let groups = cluster.await.client().describe_groups(&names(8)).await;
    let missing: Vec<_> =
        groups.iter().filter_map(|(group, described)| Some((group, described.as_ref().err()?))).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(
        (missing[0].0.as_str(), missing[0].1.to_string()),
        ("g7", "group g7: it does not exist (GROUP_ID_NOT_FOUND)".to_owned())
    );
}

#[tokio::test]
async fn groups_of_one_broker_are_told_without_those_of_another() {
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &[LIST_GROUPS], |question| {
        question.read::<ListGroupsRequest>()?;
        let group = ListedGroup { group_id: format!("g{}", question.broker), ..Default::default() };
        let refused = question.broker == 1;
        question.answer::<ListGroupsRequest>(&ListGroupsResponse {
            error_code: if refused { ErrorCode::CLUSTER_AUTHORIZATION_FAILED } else { ErrorCode::NONE },
            groups: if refused { Vec::new() } else { vec![group] },
            ..Default::default()
        })
    });
    let listed = cluster.await.client().list_groups().await.unwrap();
    let coordinators: Vec<_> = listed.groups.iter().map(|(name, group)| (name.as_str(), group.coordinator)).collect();
    assert_eq!(coordinators, [("g0", 0), ("g2", 2)]);
    let errors: Vec<_> = listed.errors.iter().map(|(broker, error)| (*broker, error.code())).collect();
    assert_eq!(errors, [(1, Some(ErrorCode::CLUSTER_AUTHORIZATION_FAILED))]);
}

fn log_dirs(question: &Question) -> Option<BytesMut> {
    question.read::<DescribeLogDirsRequest>()?;
    let partition =
        DescribeLogDirsPartition { partition_size: 17, offset_lag: 3, is_future_key: true, ..Default::default() };
    let topics = vec![DescribeLogDirsTopic { name: "t".to_owned(), partitions: vec![partition] }];
    let used = DescribeLogDirsResult {
        log_dir: "/a".to_owned(),
        topics,
        total_bytes: 100,
        usable_bytes: 40,
        ..Default::default()
    };
    let error_code = ErrorCode::KAFKA_STORAGE_ERROR;
    let broken = DescribeLogDirsResult { log_dir: "/b".to_owned(), error_code, ..Default::default() };
    let response = DescribeLogDirsResponse { results: vec![used, broken], ..Default::default() };
    question.answer::<DescribeLogDirsRequest>(&response)
}

#[tokio::test]
async fn a_broker_that_does_not_answer_is_an_error_of_its_own() {
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &[(35, 4)], |question| match question.broker {
        2 => None,
        _ => log_dirs(question),
    });
    let cluster = cluster.await;
    // Much longer than the others take, and much shorter than the connection would wait.
    let mut config = ClientConfig { patience: Duration::from_secs(2), ..cluster.config() };
    config.connection.request_timeout = Duration::from_secs(600);
    let client = Client::new(config);
    let found = timeout(Duration::from_secs(60), client.describe_log_dirs()).await.expect("it is soon").unwrap();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert!(matches!(found[&2], Err(ClientError::Connection(ConnectionError::Timeout { .. }))), "{:?}", found[&2]);
    let dirs = found[&0].as_ref().unwrap();
    let [used, broken] = &dirs[..] else { panic!("{dirs:?}") };
    assert_eq!((used.path.as_str(), used.total_bytes, used.usable_bytes), ("/a", Some(100), Some(40)));
    let replica = used.replicas[&TopicPartition::new("t", 0)];
    assert_eq!((replica.size_bytes, replica.offset_lag, replica.is_future), (17, 3, true));
    assert_eq!(broken.error.as_ref().and_then(ClientError::code), Some(ErrorCode::KAFKA_STORAGE_ERROR));
}

#[tokio::test]
async fn volumes_are_unknown_to_older_brokers() {
    let cluster = FakeCluster::start(1, Vec::new(), &[(35, 3)], log_dirs).await;
    let found = cluster.client().describe_log_dirs().await.unwrap();
    let used = &found[&0].as_ref().unwrap()[0];
    assert_eq!((used.total_bytes, used.usable_bytes, used.replicas.len()), (None, None, 1));
}

#[tokio::test]
async fn brokers_tell_their_own_settings_and_one_of_them_those_of_all_topics() {
    let cluster = FakeCluster::start(BROKERS, Vec::new(), &[DESCRIBE_CONFIGS], |question| {
        let results = question.read::<DescribeConfigsRequest>()?.resources.into_iter().map(|resource| {
            let is_gone = resource.resource_name == "t3";
            DescribeConfigsResult {
                error_code: if is_gone { ErrorCode::UNKNOWN_TOPIC_OR_PARTITION } else { ErrorCode::NONE },
                resource_type: resource.resource_type,
                resource_name: resource.resource_name,
                ..Default::default()
            }
        });
        let response = DescribeConfigsResponse { results: results.collect(), ..Default::default() };
        question.answer::<DescribeConfigsRequest>(&response)
    });
    let cluster = cluster.await;
    let topics = (0..1000).map(|number| Resource::topic(&format!("t{number}")));
    let resources: Vec<_> = topics.chain([2, 1].map(Resource::broker)).collect();
    let described = cluster.client().describe_configs(&resources, false).await;
    assert_eq!(described.keys().collect::<BTreeSet<_>>(), resources.iter().collect());
    let failed: Vec<_> = described.iter().filter_map(|(resource, d)| Some((resource, d.clone().err()?))).collect();
    assert_eq!(failed, [(&Resource::topic("t3"), ClientError::UnknownTopic { topic: "t3".to_owned() })]);
    let asked = cluster.asked::<DescribeConfigsRequest>();
    assert_eq!((asked.len(), asked.contains(&2), asked.contains(&1)), (4, true, true));
}

#[tokio::test]
async fn a_level_that_a_feature_cannot_have_is_an_error() {
    let refused = |version| async move {
        let versions = [(57, version)];
        let cluster = FakeCluster::start(BROKERS, Vec::new(), &versions, move |question| {
            let (error_code, message) = (ErrorCode::INVALID_UPDATE_VERSION, Some("no".to_owned()));
            let update = question.read::<UpdateFeaturesRequest>()?.feature_updates.remove(0);
            assert_eq!((update.max_version_level, update.upgrade_type), (2, 1));
            let of_feature =
                UpdatableFeatureResult { feature: update.feature, error_code, error_message: message.clone() };
            question.answer::<UpdateFeaturesRequest>(&match version {
                2 => UpdateFeaturesResponse { error_code, error_message: message, ..Default::default() },
                _ => UpdateFeaturesResponse { results: vec![of_feature], ..Default::default() },
            })
        });
        let levels = BTreeMap::from([("transaction.version".to_owned(), 2)]);
        cluster.await.client().upgrade_features(&levels, false).await.unwrap_err().to_string()
    };
    assert!(refused(2).await.contains("the features of the cluster"));
    assert!(refused(1).await.contains("transaction.version"));
}

#[tokio::test]
async fn brokers_that_cannot_validate_levels_are_not_asked_to() {
    for (version, asked) in [(0, 0), (1, 1)] {
        let versions = [(57, version)];
        let cluster = FakeCluster::start(1, Vec::new(), &versions, |question| {
            question.answer::<UpdateFeaturesRequest>(&UpdateFeaturesResponse::default())
        });
        let cluster = cluster.await;
        let levels = BTreeMap::from([("transaction.version".to_owned(), 2)]);
        let validated = cluster.client().upgrade_features(&levels, true).await;
        assert_eq!((validated.is_ok(), cluster.asked::<UpdateFeaturesRequest>().len()), (asked == 1, asked));
    }
}
