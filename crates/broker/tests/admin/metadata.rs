//! Metadata and DescribeTopicPartitions.

use wire::api::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicRequest,
};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use wire::{ErrorCode, Uuid};

use crate::common::{TestBroker, TestClient};
use crate::{create, topic};

fn named(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }
}

fn with_id(topic_id: Uuid) -> MetadataRequestTopic {
    MetadataRequestTopic { topic_id, name: None }
}

/// Asks without creating anything.
fn ask(client: &mut TestClient, version: i16, topics: Option<Vec<MetadataRequestTopic>>) -> MetadataResponse {
    client.call(version, &MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() })
}

fn names(response: &MetadataResponse) -> Vec<(&str, ErrorCode, usize)> {
    let topics = response.topics.iter();
    topics.map(|t| (t.name.as_deref().unwrap_or("-"), t.error_code, t.partitions.len())).collect()
}

#[test]
fn all_topics_are_null_or_in_version_0_an_empty_list() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("b", 2), topic("a", 1)]);
    let all = [("a", ErrorCode::NONE, 1), ("b", ErrorCode::NONE, 2)];
    assert_eq!(names(&ask(&mut client, 0, Some(Vec::new()))), all);
    for version in 1..=13 {
        assert_eq!(names(&ask(&mut client, version, None)), all, "{version}");
        assert_eq!(names(&ask(&mut client, version, Some(Vec::new()))), [], "{version}");
    }
}

#[test]
fn the_answer_says_who_leads_and_where() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let id = create(&mut client, &[topic("t", 2)])[0];
    let response = ask(&mut client, 12, Some(vec![named("t")]));
    assert_eq!((response.controller_id, response.brokers.len()), (1, 1));
    let node = &response.brokers[0];
    assert_eq!((node.node_id, node.host.as_str()), (1, "127.0.0.1"));
    assert_eq!(node.port, i32::from(broker.address().port()));
    assert_eq!(response.cluster_id.as_ref().map(String::len), Some(22));
    let found = &response.topics[0];
    assert_eq!((found.topic_id, found.is_internal), (id, false));
    for (index, partition) in (0..).zip(&found.partitions) {
        assert_eq!((partition.partition_index, partition.leader_id, partition.leader_epoch), (index, 1, 0));
        assert_eq!((&partition.replica_nodes, &partition.isr_nodes), (&vec![1], &vec![1]));
        assert!(partition.offline_replicas.is_empty());
    }
}

#[test]
fn each_topic_is_answered_once_and_names_are_checked() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    let long = "x".repeat(300);
    let asked = ["t", "a/b", "", "..", "nope", "t", &long, "__consumer_offsets"].map(named).to_vec();
    let response = ask(&mut client, 9, Some(asked));
    assert_eq!(
        names(&response),
        [
            ("t", ErrorCode::NONE, 1),
            ("a/b", ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("", ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("..", ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("nope", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0),
            (&long, ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("__consumer_offsets", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0),
        ]
    );
    assert!(response.topics[6].is_internal);
    assert_eq!(ask(&mut client, 9, None).topics.len(), 1);
}

#[test]
fn topics_are_named_by_id_since_version_12() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let ids = create(&mut client, &[topic("a", 1), topic("b", 2)]);
    let unknown = Uuid([7; 16]);
    let response = ask(&mut client, 12, Some(vec![with_id(ids[1]), with_id(unknown), with_id(ids[1])]));
    assert_eq!(names(&response), [("b", ErrorCode::NONE, 2), ("-", ErrorCode::UNKNOWN_TOPIC_ID, 0)]);
    assert_eq!(response.topics[1].topic_id, unknown);

    // Where one is named by id, names are not looked at.
    let both = MetadataRequestTopic { topic_id: ids[1], name: Some("a".into()) };
    let response = ask(&mut client, 12, Some(vec![named("a"), both]));
    assert_eq!(names(&response), [("b", ErrorCode::NONE, 2)]);

    for version in [10, 11] {
        let old = MetadataRequestTopic { topic_id: ids[1], name: Some("b".into()) };
        let response = ask(&mut client, version, Some(vec![old]));
        assert_eq!(names(&response), [("b", ErrorCode::INVALID_REQUEST, 0)]);
        assert_eq!((response.brokers.len(), response.controller_id), (0, -1));
    }
    // Kafka fails with UNKNOWN_SERVER_ERROR here.
    let response = ask(&mut client, 12, Some(vec![with_id(Uuid::ZERO)]));
    assert_eq!(names(&response), [("", ErrorCode::INVALID_REQUEST, 0)]);
}

#[test]
fn operations_are_all_of_them_when_asked_for() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    let mut request =
        MetadataRequest { topics: Some(vec![named("t")]), allow_auto_topic_creation: false, ..Default::default() };
    let response = client.call(8, &request);
    assert_eq!(response.cluster_authorized_operations, i32::MIN);
    assert_eq!(response.topics[0].topic_authorized_operations, i32::MIN);
    request.include_cluster_authorized_operations = true;
    request.include_topic_authorized_operations = true;
    let response = client.call(8, &request);
    assert_eq!(response.cluster_authorized_operations, 8096);
    assert_eq!(response.topics[0].topic_authorized_operations, 3576);
}

#[test]
fn a_topic_comes_into_being_when_it_is_asked_for() {
    let broker = TestBroker::start_with(&[("num.partitions", "3")]);
    let mut client = broker.connect();
    let request = |names: &[&str]| MetadataRequest {
        topics: Some(names.iter().map(|name| named(name)).collect()),
        ..Default::default()
    };
    let response = client.call(12, &request(&["new", "a/b", "__consumer_offsets", "dotted.name"]));
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(
        names(&response),
        [
            ("new", unknown, 0),
            ("a/b", ErrorCode::INVALID_TOPIC_EXCEPTION, 0),
            ("__consumer_offsets", unknown, 0),
            ("dotted.name", unknown, 0),
        ]
    );
    let response = client.call(12, &request(&["new", "__consumer_offsets"]));
    assert_eq!(names(&response), [("new", ErrorCode::NONE, 3), ("__consumer_offsets", ErrorCode::NONE, 4)]);
    // The name collides with one that exists: nothing comes into being.
    for _ in 0..2 {
        assert_eq!(names(&client.call(12, &request(&["dotted_name"]))), [("dotted_name", unknown, 0)]);
    }
}

#[test]
fn no_topic_comes_into_being_where_that_is_switched_off() {
    let broker = TestBroker::start_with(&[("auto.create.topics.enable", "false")]);
    let mut client = broker.connect();
    for _ in 0..2 {
        let response = client.call(12, &MetadataRequest { topics: Some(vec![named("new")]), ..Default::default() });
        assert_eq!(names(&response), [("new", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, 0)]);
    }
    assert_eq!(ask(&mut client, 12, None).topics.len(), 0);
}

fn pages(
    client: &mut TestClient,
    names: &[&str],
    response_partition_limit: i32,
    cursor: Option<(&str, i32)>,
) -> DescribeTopicPartitionsResponse {
    client.ask(&DescribeTopicPartitionsRequest {
        topics: names.iter().map(|name| TopicRequest { name: (*name).to_owned() }).collect(),
        response_partition_limit,
        cursor: cursor.map(|(name, partition_index)| Cursor { topic_name: name.to_owned(), partition_index }),
    })
}

fn parts(response: &DescribeTopicPartitionsResponse) -> Vec<(&str, ErrorCode, Vec<i32>)> {
    let indexes = |t: &wire::api::describe_topic_partitions::DescribeTopicPartitionsResponseTopic| {
        t.partitions.iter().map(|p| p.partition_index).collect()
    };
    response.topics.iter().map(|t| (t.name.as_deref().unwrap_or("-"), t.error_code, indexes(t))).collect()
}

fn next(response: &DescribeTopicPartitionsResponse) -> Option<(&str, i32)> {
    response.next_cursor.as_ref().map(|cursor| (cursor.topic_name.as_str(), cursor.partition_index))
}

#[test]
fn topics_are_described_in_pages() {
    let broker = TestBroker::start_with(&[("max.request.partition.size.limit", "12")]);
    let mut client = broker.connect();
    let ids = create(&mut client, &[topic("m1", 5), topic("m2", 5), topic("m3", 5)]);
    let none = ErrorCode::NONE;

    let response = pages(&mut client, &["m3", "m1", "nope", "m2", "m1"], 6, None);
    assert_eq!(parts(&response), [("m1", none, vec![0, 1, 2, 3, 4]), ("m2", none, vec![0])]);
    assert_eq!(next(&response), Some(("m2", 1)));
    let first = &response.topics[0];
    assert_eq!((first.topic_id, first.topic_authorized_operations), (ids[0], 3576));
    let partition = &first.partitions[0];
    assert_eq!((partition.leader_id, &partition.isr_nodes, &partition.replica_nodes), (1, &vec![1], &vec![1]));
    assert_eq!((&partition.eligible_leader_replicas, &partition.last_known_elr), (&Some(vec![]), &Some(vec![])));

    let response = pages(&mut client, &["m3", "m1", "nope", "m2"], 6, Some(("m3", 4)));
    assert_eq!(parts(&response), [("m3", none, vec![4]), ("nope", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, vec![])]);
    assert_eq!(next(&response), None);

    // All topics, and a cursor at one that is gone.
    let response = pages(&mut client, &[], 100, Some(("m25", 3)));
    assert_eq!(parts(&response), [("m3", none, vec![0, 1, 2, 3, 4])]);
    // The broker's limit is lower than the client's, and a page is never empty.
    let response = pages(&mut client, &[], 100, None);
    assert_eq!((response.topics.len(), next(&response)), (3, Some(("m3", 2))));
    for limit in [1, 0, -1] {
        let response = pages(&mut client, &[], limit, None);
        assert_eq!((parts(&response), next(&response)), (vec![("m1", none, vec![0])], Some(("m1", 1))));
    }
}

#[test]
fn a_bad_cursor_fails_every_topic() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("m1", 1)]);
    let bad = ErrorCode::INVALID_REQUEST;
    for cursor in [("m25", 0), ("m1", -1), ("", 0)] {
        let response = pages(&mut client, &["m3", "m1"], 6, Some(cursor));
        assert_eq!(parts(&response), [("m1", bad, vec![]), ("m3", bad, vec![])], "{cursor:?}");
        assert_eq!(response.topics[0].topic_authorized_operations, i32::MIN);
    }
    // One bad name costs the others nothing. Kafka fails the request.
    let response = pages(&mut client, &["m1", "a/b"], 6, None);
    let expected = [("a/b", ErrorCode::INVALID_TOPIC_EXCEPTION, vec![]), ("m1", ErrorCode::NONE, vec![0])];
    assert_eq!(parts(&response), expected);
}
