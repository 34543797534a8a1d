//! CreateTopics, DeleteTopics, CreatePartitions.

use wire::api::create_partitions::{CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic};
use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicResult, CreateTopicsRequest};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};
use wire::{ErrorCode, Uuid};

use crate::common::{TestBroker, TestClient};
use crate::{batch, create, produce, topic, with_config};

fn validate(client: &mut TestClient, topics: Vec<CreatableTopic>) -> Vec<CreatableTopicResult> {
    client.ask(&CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: true }).topics
}

/// The refusal of one topic.
fn refusal(client: &mut TestClient, topic: CreatableTopic) -> (ErrorCode, String) {
    let mut results = validate(client, vec![topic]);
    assert_eq!(results.len(), 1);
    let result = results.remove(0);
    if !result.error_code.is_none() {
        assert_eq!((result.topic_id, result.num_partitions, result.replication_factor), (Uuid::ZERO, -1, -1));
        assert_eq!(result.configs, Some(Vec::new()));
    }
    (result.error_code, result.error_message.unwrap_or_default())
}

/// How many partitions a topic has, `None` for a topic that does not exist.
fn partition_count(client: &mut TestClient, name: &str) -> Option<usize> {
    let topics = Some(vec![MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() }]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let found = client.ask(&request).topics.remove(0);
    found.error_code.is_none().then_some(found.partitions.len())
}

#[test]
fn a_topic_is_created_with_what_was_said_and_defaults_for_the_rest() {
    let broker = TestBroker::start_with(&[("num.partitions", "3"), ("log.retention.hours", "24")]);
    let mut client = broker.connect();
    let mut asked = with_config(topic("t", -1), "cleanup.policy", Some("compact"));
    asked.replication_factor = -1;
    let request = CreateTopicsRequest { topics: vec![asked], timeout_ms: 10_000, validate_only: false };
    let result = client.ask(&request).topics.remove(0);
    assert_eq!((result.error_code, result.error_message), (ErrorCode::NONE, None));
    assert_eq!((result.num_partitions, result.replication_factor), (3, 1));
    assert!(!result.topic_id.is_zero());
    let configs = result.configs.unwrap_or_default();
    let config = |name: &str| {
        let config = configs.iter().find(|config| config.name == name).unwrap_or_else(|| panic!("{name}"));
        (config.value.as_deref().unwrap_or("-"), config.config_source, config.read_only, config.is_sensitive)
    };
    assert_eq!(config("cleanup.policy"), ("compact", 1, false, false));
    assert_eq!(config("segment.bytes"), ("1073741824", 5, false, false));
    assert_eq!(config("retention.ms").0, "86400000");
    assert_eq!(partition_count(&mut client, "t"), Some(3));

    for version in 2..=7 {
        let name = format!("v{version}");
        let request = CreateTopicsRequest { topics: vec![topic(&name, 2)], timeout_ms: 10_000, validate_only: false };
        let result = client.call(version, &request).topics.remove(0);
        assert_eq!(result.error_code, ErrorCode::NONE);
        assert_eq!(result.num_partitions, if version >= 5 { 2 } else { -1 });
        assert_eq!(partition_count(&mut client, &name), Some(2));
    }
}

#[test]
fn topics_survive_a_restart_with_their_ids_records_and_settings() {
    let mut broker = TestBroker::start();
    let mut client = broker.connect();
    let id = create(&mut client, &[with_config(topic("t", 2), "max.message.bytes", Some("100"))])[0];
    assert_eq!(produce(&mut client, "t", 1, &batch(&[1])).0, ErrorCode::NONE);
    broker.restart();
    let mut client = broker.connect();
    let topics = client.ask(&MetadataRequest { topics: None, ..Default::default() }).topics;
    assert_eq!(topics.iter().map(|t| (t.topic_id, t.partitions.len())).collect::<Vec<_>>(), [(id, 2)]);
    assert_eq!(produce(&mut client, "t", 1, &batch(&[1])), (ErrorCode::NONE, 1));
    assert_eq!(produce(&mut client, "t", 1, &batch(&[1; 20])).0, ErrorCode::MESSAGE_TOO_LARGE);
}

#[test]
fn validation_creates_nothing() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let result = validate(&mut client, vec![topic("t", 2)]).remove(0);
    assert_eq!((result.error_code, result.num_partitions), (ErrorCode::NONE, 2));
    assert!(result.configs.is_some_and(|configs| configs.len() > 20));
    assert_eq!(partition_count(&mut client, "t"), None);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let invalid = ErrorCode::INVALID_TOPIC_EXCEPTION;
    let chars = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'";
    for (name, reason) in [
        ("", "the empty string is not allowed".to_owned()),
        (".", "'.' is not allowed".to_owned()),
        ("..", "'..' is not allowed".to_owned()),
        ("../x", format!("'../x' {chars}")),
        ("a/b", format!("'a/b' {chars}")),
        ("ä", format!("'ä' {chars}")),
        ("nul\0", format!("'nul\0' {chars}")),
        ("<script>", format!("'<script>' {chars}")),
    ] {
        assert_eq!(refusal(&mut client, topic(name, 1)), (invalid, format!("Topic name is invalid: {reason}")));
    }
    assert_eq!(refusal(&mut client, topic(&"x".repeat(250), 1)).0, invalid);
    assert_eq!(refusal(&mut client, topic(&"x".repeat(249), 1)).0, ErrorCode::NONE);
    assert_eq!(refusal(&mut client, topic("__cluster_metadata", 1)).0, ErrorCode::INVALID_REQUEST);

    create(&mut client, &[topic("dotted.name", 1)]);
    let collides = "Topic 'dotted_name' collides with existing topic: dotted.name".to_owned();
    assert_eq!(refusal(&mut client, topic("dotted_name", 1)), (invalid, collides));
    let exists = "Topic 'dotted.name' already exists.".to_owned();
    assert_eq!(refusal(&mut client, topic("dotted.name", 1)), (ErrorCode::TOPIC_ALREADY_EXISTS, exists));
}

#[test]
fn partition_counts_and_replication_factors_have_bounds() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    for (partitions, factor, code) in [
        (0, 1, ErrorCode::INVALID_PARTITIONS),
        (-2, 1, ErrorCode::INVALID_PARTITIONS),
        (10_001, 1, ErrorCode::POLICY_VIOLATION),
        (10_000, 1, ErrorCode::POLICY_VIOLATION),
        (1_000_000_000, 1, ErrorCode::POLICY_VIOLATION),
        (i32::MAX, 1, ErrorCode::POLICY_VIOLATION),
        (1, 0, ErrorCode::INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode::INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode::INVALID_REPLICATION_FACTOR),
        (1, 30_000, ErrorCode::INVALID_REPLICATION_FACTOR),
        (-5, -5, ErrorCode::INVALID_REPLICATION_FACTOR),
        (-1, -1, ErrorCode::NONE),
    ] {
        let asked = CreatableTopic { replication_factor: factor, ..topic("t", partitions) };
        assert_eq!(refusal(&mut client, asked).0, code, "{partitions} {factor}");
    }
    let results = validate(&mut client, vec![topic("a", 6000), topic("b", 6000)]);
    assert!(results.iter().all(|result| result.error_code == ErrorCode::POLICY_VIOLATION));
}

#[test]
fn settings_are_checked_at_creation() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    for (name, value, message) in [
        ("bogus", Some("1"), "Unknown topic config name: bogus"),
        ("retention.ms", Some("abc"), "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", Some("-5"), "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        (
            "cleanup.policy",
            Some("shred"),
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("segment.bytes", Some("1"), "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "remote.storage.enable",
            Some("true"),
            "Tiered Storage functionality is disabled in the broker. \
             Topic cannot be configured with remote log storage.",
        ),
    ] {
        let refused = refusal(&mut client, with_config(topic("t", 1), name, value));
        assert_eq!(refused, (ErrorCode::INVALID_CONFIG, message.to_owned()));
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused_and_the_others_are_created() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("old", 1)]);
    let topics = vec![topic("twice", 1), topic("new", 1), topic("twice", 2), topic("old", 1)];
    let response = client.ask(&CreateTopicsRequest { topics, timeout_ms: 10_000, validate_only: false });
    let mut results: Vec<_> = response.topics.iter().map(|result| (&*result.name, result.error_code)).collect();
    results.sort_unstable_by_key(|result| result.0);
    let expected =
        [("new", ErrorCode::NONE), ("old", ErrorCode::TOPIC_ALREADY_EXISTS), ("twice", ErrorCode::INVALID_REQUEST)];
    assert_eq!(results, expected);
    assert_eq!(partition_count(&mut client, "new"), Some(1));
    assert_eq!(partition_count(&mut client, "twice"), None);
}

#[test]
fn replicas_can_be_placed_by_hand() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let assigned = |replicas: &[(i32, &[i32])], partitions, factor| {
        let assignments = replicas.iter().map(|(partition_index, broker_ids)| CreatableReplicaAssignment {
            partition_index: *partition_index,
            broker_ids: broker_ids.to_vec(),
        });
        CreatableTopic { assignments: assignments.collect(), replication_factor: factor, ..topic("t", partitions) }
    };
    let bad = ErrorCode::INVALID_REPLICA_ASSIGNMENT;
    for (replicas, partitions, factor, code) in [
        (&[(0, &[1][..]), (1, &[1])][..], -1, -1, ErrorCode::NONE),
        (&[(0, &[1])], 1, 1, ErrorCode::INVALID_REQUEST),
        (&[(0, &[1])], 1, -1, ErrorCode::INVALID_REQUEST),
        (&[(0, &[2])], -1, -1, bad),
        (&[(0, &[1, 1])], -1, -1, bad),
        (&[(0, &[])], -1, -1, bad),
        (&[(1, &[1])], -1, -1, bad),
        (&[(0, &[1]), (0, &[1])], -1, -1, bad),
        (&[(-1, &[1])], -1, -1, bad),
    ] {
        assert_eq!(refusal(&mut client, assigned(replicas, partitions, factor)).0, code, "{replicas:?}");
    }
}

#[test]
fn no_time_means_no_change() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("old", 1)]);
    for timeout_ms in [0, -1] {
        let request = CreateTopicsRequest { topics: vec![topic("t", 1)], timeout_ms, validate_only: false };
        assert_eq!(client.ask(&request).topics[0].error_code, ErrorCode::REQUEST_TIMED_OUT);
        let topics = vec![DeleteTopicState { name: Some("old".into()), ..Default::default() }];
        let request = DeleteTopicsRequest { topics, timeout_ms, ..Default::default() };
        assert_eq!(client.ask(&request).responses[0].error_code, ErrorCode::REQUEST_TIMED_OUT);
        assert_eq!(add(&mut client, vec![more("old", 2)], timeout_ms)[0].1, ErrorCode::REQUEST_TIMED_OUT);
    }
    assert_eq!(partition_count(&mut client, "t"), None);
    assert_eq!(partition_count(&mut client, "old"), Some(1));
}

type Deleted = (Option<String>, Uuid, ErrorCode, Option<String>);

fn delete(client: &mut TestClient, topics: &[(Option<&str>, Uuid)]) -> Vec<Deleted> {
    let topics = topics
        .iter()
        .map(|(name, topic_id)| DeleteTopicState { name: name.map(str::to_owned), topic_id: *topic_id })
        .collect();
    let response = client.ask(&DeleteTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() });
    response.responses.into_iter().map(|r| (r.name, r.topic_id, r.error_code, r.error_message)).collect()
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let ids = create(&mut client, &[topic("a", 1), topic("b", 1), topic("c", 1)]);
    let unknown = Uuid([7; 16]);
    let asked = [(Some("a"), Uuid::ZERO), (None, ids[1]), (Some("nope"), Uuid::ZERO), (None, unknown)];
    let none = ErrorCode::NONE;
    assert_eq!(
        delete(&mut client, &asked),
        [
            (Some("a".into()), ids[0], none, None),
            (Some("b".into()), ids[1], none, None),
            (
                Some("nope".into()),
                Uuid::ZERO,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some("This server does not host this topic-partition.".into()),
            ),
            (None, unknown, ErrorCode::UNKNOWN_TOPIC_ID, Some("This server does not host this topic ID.".into()),),
        ]
    );
    assert_eq!(partition_count(&mut client, "a"), None);
    assert_eq!(partition_count(&mut client, "c"), Some(1));
    for version in 1..=5 {
        let name = format!("v{version}");
        create(&mut client, &[topic(&name, 1)]);
        let request = DeleteTopicsRequest { topic_names: vec![name.clone()], timeout_ms: 10_000, ..Default::default() };
        assert_eq!(client.call(version, &request).responses[0].error_code, none);
        assert_eq!(partition_count(&mut client, &name), None);
    }
}

#[test]
fn a_topic_that_is_made_again_is_another_and_empty() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let first = create(&mut client, &[topic("t", 1)])[0];
    assert_eq!(produce(&mut client, "t", 0, &batch(&[1, 2])), (ErrorCode::NONE, 0));
    delete(&mut client, &[(Some("t"), Uuid::ZERO)]);
    assert_eq!(produce(&mut client, "t", 0, &batch(&[1])).0, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let second = create(&mut client, &[topic("t", 1)])[0];
    assert_ne!(first, second);
    assert_eq!(produce(&mut client, "t", 0, &batch(&[1])), (ErrorCode::NONE, 0));
}

#[test]
fn bad_deletions_delete_nothing() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    let id = create(&mut client, &[topic("t", 1)])[0];
    let name = Some("t");
    for asked in [
        &[(name, id)][..],
        &[(None, Uuid::ZERO)],
        &[(None, id), (None, id)],
        &[(name, Uuid::ZERO), (name, Uuid::ZERO)],
        &[(name, Uuid::ZERO), (None, id)],
    ] {
        let deleted = delete(&mut client, asked);
        assert!(deleted.iter().all(|result| result.2 == ErrorCode::INVALID_REQUEST), "{asked:?}: {deleted:?}");
        assert_eq!(deleted.len(), 1, "{asked:?}");
        assert_eq!(partition_count(&mut client, "t"), Some(1), "{asked:?}");
    }
    assert_eq!(delete(&mut client, &[]), []);
}

#[test]
fn topics_stay_where_deletion_is_switched_off() {
    let broker = TestBroker::start_with(&[("delete.topic.enable", "false")]);
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 1)]);
    assert_eq!(delete(&mut client, &[(Some("t"), Uuid::ZERO)])[0].2, ErrorCode::TOPIC_DELETION_DISABLED);
    assert_eq!(partition_count(&mut client, "t"), Some(1));
}

fn more(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic { name: name.to_owned(), count, assignments: None }
}

fn add(
    client: &mut TestClient,
    topics: Vec<CreatePartitionsTopic>,
    timeout_ms: i32,
) -> Vec<(String, ErrorCode, Option<String>)> {
    let response = client.ask(&CreatePartitionsRequest { topics, timeout_ms, validate_only: false });
    response.results.into_iter().map(|r| (r.name, r.error_code, r.error_message)).collect()
}

#[test]
fn partitions_are_added_and_can_be_written_at_once() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 3)]);
    assert_eq!(add(&mut client, vec![more("t", 5)], 10_000), [("t".to_owned(), ErrorCode::NONE, None)]);
    assert_eq!(partition_count(&mut client, "t"), Some(5));
    assert_eq!(produce(&mut client, "t", 4, &batch(&[1])), (ErrorCode::NONE, 0));

    let request = CreatePartitionsRequest { topics: vec![more("t", 9)], timeout_ms: 10_000, validate_only: true };
    assert_eq!(client.ask(&request).results[0].error_code, ErrorCode::NONE);
    assert_eq!(partition_count(&mut client, "t"), Some(5));
}

#[test]
fn partitions_only_grow_and_are_placed_well() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[topic("t", 3)]);
    let invalid = ErrorCode::INVALID_PARTITIONS;
    for (count, code, message) in [
        (3, invalid, "Topic already has 3 partition(s)."),
        (2, invalid, "The topic t currently has 3 partition(s); 2 would not be an increase."),
        (0, invalid, "The topic t currently has 3 partition(s); 0 would not be an increase."),
        (-1, invalid, "The topic t currently has 3 partition(s); -1 would not be an increase."),
    ] {
        let refused = add(&mut client, vec![more("t", count)], 10_000);
        assert_eq!(refused, [("t".to_owned(), code, Some(message.to_owned()))]);
    }
    // Kafka answers UNKNOWN_SERVER_ERROR here.
    for count in [10_004, i32::MAX] {
        assert_eq!(add(&mut client, vec![more("t", count)], 10_000)[0].1, ErrorCode::POLICY_VIOLATION);
    }
    for name in ["nope", "", "a/b"] {
        assert_eq!(add(&mut client, vec![more(name, 2)], 10_000)[0].1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    let placed = |count, replicas: &[&[i32]]| {
        let assignments = replicas.iter().map(|ids| CreatePartitionsAssignment { broker_ids: ids.to_vec() });
        CreatePartitionsTopic { assignments: Some(assignments.collect()), ..more("t", count) }
    };
    let bad = ErrorCode::INVALID_REPLICA_ASSIGNMENT;
    for (count, replicas) in [(5, &[&[1][..]][..]), (4, &[&[2]]), (4, &[&[1], &[1]]), (4, &[&[]]), (4, &[&[1, 1]])] {
        assert_eq!(add(&mut client, vec![placed(count, replicas)], 10_000)[0].1, bad, "{count} {replicas:?}");
    }
    let twice = add(&mut client, vec![more("t", 4), more("t", 5)], 10_000);
    assert_eq!(twice, [("t".to_owned(), ErrorCode::INVALID_REQUEST, Some("Duplicate topic name.".to_owned()))]);
    assert_eq!(partition_count(&mut client, "t"), Some(3));
    assert_eq!(add(&mut client, vec![placed(4, &[&[1]])], 10_000)[0].1, ErrorCode::NONE);
    assert_eq!(partition_count(&mut client, "t"), Some(4));
}
