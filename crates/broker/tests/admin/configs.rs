//! DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.

use std::io::Write;

use wire::api::alter_configs::{self, AlterConfigsRequest};
use wire::api::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult,
};
use wire::api::incremental_alter_configs::{self as incremental, IncrementalAlterConfigsRequest};
use wire::api::list_config_resources::ListConfigResourcesRequest;
use wire::{ErrorCode, ErrorCode as Code};

use crate::common::{TestBroker, TestClient};
use crate::{batch, create, produce, topic, with_config};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn resource(resource_type: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsResource {
    DescribeConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
    }
}

fn describe(client: &mut TestClient, resources: Vec<DescribeConfigsResource>) -> Vec<DescribeConfigsResult> {
    client.ask(&DescribeConfigsRequest { resources, include_synonyms: true, include_documentation: false }).results
}

/// One setting of one resource.
fn setting(client: &mut TestClient, resource_type: i8, name: &str, key: &str) -> DescribeConfigsResourceResult {
    let mut results = describe(client, vec![resource(resource_type, name, Some(&[key]))]);
    assert_eq!(results[0].error_code, Code::NONE, "{:?}", results[0].error_message);
    assert_eq!(results[0].configs.len(), 1, "{key}");
    results.remove(0).configs.remove(0)
}

/// Its value and where that comes from.
fn value(client: &mut TestClient, resource_type: i8, name: &str, key: &str) -> (Option<String>, i8) {
    let setting = setting(client, resource_type, name, key);
    (setting.value, setting.config_source)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn synonyms(setting: &DescribeConfigsResourceResult) -> Vec<(&str, Option<&str>, i8)> {
    setting.synonyms.iter().map(|s| (s.name.as_str(), s.value.as_deref(), s.source)).collect()
}

type Alterations<'a> = &'a [(&'a str, i8, Option<&'a str>)];

fn alter_all(
    client: &mut TestClient,
    resources: &[(i8, &str, Alterations<'_>)],
    validate_only: bool,
) -> Vec<(ErrorCode, String)> {
    let resources = resources
        .iter()
        .map(|(resource_type, name, alterations)| incremental::AlterConfigsResource {
            resource_type: *resource_type,
            resource_name: (*name).to_owned(),
            configs: alterations
                .iter()
                .map(|(name, config_operation, value)| incremental::AlterableConfig {
                    name: (*name).to_owned(),
                    config_operation: *config_operation,
                    value: value.map(str::to_owned),
                })
                .collect(),
        })
        .collect();
    let response = client.ask(&IncrementalAlterConfigsRequest { resources, validate_only });
    response.responses.into_iter().map(|r| (r.error_code, r.error_message.unwrap_or_default())).collect()
}

fn alter(client: &mut TestClient, kind: i8, name: &str, alterations: Alterations<'_>) -> (ErrorCode, String) {
    let mut answers = alter_all(client, &[(kind, name, alterations)], false);
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

const OK: (ErrorCode, String) = (Code::NONE, String::new());

fn start() -> (TestBroker, TestClient) {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    create(&mut client, &[with_config(topic("t", 1), "retention.ms", Some("5000"))]);
    (broker, client)
}

#[test]
fn a_topics_settings_say_where_they_come_from() {
    let (_broker, mut client) = start();
    let own = setting(&mut client, TOPIC, "t", "retention.ms");
    assert_eq!((own.value.as_deref(), own.config_source, own.config_type), (Some("5000"), 1, 5));
    assert_eq!((own.read_only, own.is_sensitive, own.documentation.as_deref()), (false, false, None));
    assert_eq!(synonyms(&own), [("retention.ms", Some("5000"), 1)]);

    let default = setting(&mut client, TOPIC, "t", "cleanup.policy");
    assert_eq!((default.value.as_deref(), default.config_source, default.config_type), (Some("delete"), 5, 7));
    assert_eq!(synonyms(&default), [("log.cleanup.policy", Some("delete"), 5)]);
}

#[test]
fn which_settings_and_how_much_of_them_is_the_clients_choice() {
    let (_broker, mut client) = start();
    // An empty list of keys is all, as null is; a key that does not exist is left out; none is answered twice.
    let resources = vec![
        resource(TOPIC, "t", None),
        resource(TOPIC, "t", Some(&[])),
        resource(TOPIC, "t", Some(&["segment.ms", "bogus", "segment.ms"])),
    ];
    let counts: Vec<_> = describe(&mut client, resources.clone()).iter().map(|r| r.configs.len()).collect();
    assert!(counts[0] >= 30 && counts[1] == counts[0] && counts[2] == 1, "{counts:?}");

    let request = DescribeConfigsRequest { resources, include_synonyms: false, include_documentation: true };
    for version in 1..=4 {
        let response = client.call(version, &request);
        let config = &response.results[2].configs[0];
        assert!(config.synonyms.is_empty());
        assert_eq!(config.documentation.as_ref().is_some_and(|text| !text.is_empty()), version >= 3);
        assert_eq!(config.config_type, if version >= 3 { 5 } else { 0 });
    }
}

#[test]
fn resources_that_do_not_exist_fail_alone() {
    let (_broker, mut client) = start();
    let results = describe(
        &mut client,
        vec![
            resource(TOPIC, "nope", None),
            resource(TOPIC, "a/b", None),
            resource(TOPIC, "", None),
            resource(BROKER, "2", None),
            resource(BROKER, "x", None),
            resource(0, "x", None),
            resource(99, "x", None),
            resource(GROUP, "", None),
            resource(CLIENT_METRICS, "", None),
            resource(LOGGER, "", None),
            resource(LOGGER, "2", None),
            resource(TOPIC, "t", Some(&["retention.ms"])),
        ],
    );
    let codes: Vec<_> = results.iter().map(|result| result.error_code).collect();
    let bad = Code::INVALID_REQUEST;
    let invalid = Code::INVALID_TOPIC_EXCEPTION;
    let unknown = Code::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(codes, [unknown, invalid, invalid, bad, bad, bad, bad, bad, bad, bad, bad, Code::NONE]);
    let message = |at: usize| results[at].error_message.as_deref().unwrap_or_default();
    assert_eq!(message(2), "Topic name is invalid: the empty string is not allowed");
    assert_eq!(message(3), "Unexpected broker id, expected 1 or empty string, but received 2");
    assert_eq!(message(4), "Broker id must be an integer, but it is: x");
    assert_eq!(message(7), "Group name must not be empty");
    assert_eq!(message(9), "Broker id must not be empty");
    assert_eq!(message(10), "Unexpected broker id, expected 1 but received 2");
}

#[test]
fn the_loggers_of_a_broker_have_levels() {
    let (broker, mut client) = start();
    let level = |client: &mut TestClient, name: &str| value(client, LOGGER, "1", name);
    assert_eq!(level(&mut client, "root"), (some("INFO"), 6));
    let of_broker = setting(&mut client, LOGGER, "1", "broker.api");
    assert_eq!((of_broker.read_only, of_broker.is_sensitive, of_broker.config_type), (false, false, 0));
    assert_eq!((synonyms(&of_broker), of_broker.documentation.as_deref()), (vec![], Some("")));
    assert!(describe(&mut client, vec![resource(LOGGER, "1", None)])[0].configs.len() > 10);
    let nothing = describe(&mut client, vec![resource(LOGGER, "1", Some(&["nope"]))]);
    assert_eq!((nothing[0].error_code, nothing[0].configs.len()), (Code::NONE, 0));

    let all = &[("broker", SET, Some("DEBUG")), ("broker.net", SET, Some("FATAL"))];
    assert_eq!(alter_all(&mut client, &[(LOGGER, "1", all)], true), [OK]);
    assert_eq!(level(&mut client, "broker"), (some("INFO"), 6), "that was only a question");
    assert_eq!(alter(&mut client, LOGGER, "1", all), OK);
    let names = ["root", "broker", "broker.api", "broker.net"];
    assert_eq!(names.map(|name| level(&mut client, name).0.unwrap()), ["INFO", "DEBUG", "DEBUG", "FATAL"]);
    assert_eq!(alter(&mut client, LOGGER, "1", &[("broker::net", DELETE, Some("x"))]), OK);
    assert_eq!(level(&mut client, "broker.net"), (some("DEBUG"), 6));

    let unsupported = |level: &str| {
        format!(
            "Cannot set the log level of broker to {level} as it is not a supported log level. Valid log levels are \
             DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
        )
    };
    for (name, logger, operation, level, code, message) in [
        ("1", "broker", SET, Some("debug"), Code::INVALID_CONFIG, unsupported("debug")),
        ("1", "broker", SET, Some("OFF"), Code::INVALID_CONFIG, unsupported("OFF")),
        ("1", "broker", SET, None, Code::INVALID_REQUEST, "Null value not supported for : broker".to_owned()),
        ("1", "nope", SET, Some("INFO"), Code::INVALID_CONFIG, "Logger nope does not exist!".to_owned()),
        ("1", "nope", DELETE, None, Code::INVALID_CONFIG, "Logger nope does not exist!".to_owned()),
        (
            "1",
            "root",
            DELETE,
            None,
            Code::INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed".to_owned(),
        ),
        (
            "1",
            "broker",
            APPEND,
            Some("INFO"),
            Code::INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource".to_owned(),
        ),
        (
            "2",
            "broker",
            SET,
            Some("INFO"),
            Code::INVALID_REQUEST,
            "Unexpected node id. Expected 1, but received 2".to_owned(),
        ),
        ("", "broker", SET, Some("INFO"), Code::INVALID_REQUEST, "Node id must be an integer, but it is: ".to_owned()),
    ] {
        let both = &[("storage", SET, Some("TRACE")), (logger, operation, level)];
        assert_eq!(alter(&mut client, LOGGER, name, both), (code, message));
    }
    assert_eq!(level(&mut client, "storage"), (some("INFO"), 6), "a resource is altered as a whole");
    let loggers = alter_configs::AlterConfigsResource {
        resource_type: LOGGER,
        resource_name: "1".to_owned(),
        configs: Vec::new(),
    };
    let answer = client.ask(&AlterConfigsRequest { resources: vec![loggers], validate_only: false });
    assert_eq!(answer.responses[0].error_message.as_deref(), Some("Unknown resource type 8"));
    drop(broker);
}

#[test]
fn a_brokers_settings_are_those_it_runs_with() {
    let broker = TestBroker::start_with(&[("log.retention.hours", "24")]);
    let mut client = broker.connect();
    assert_eq!(value(&mut client, BROKER, "1", "num.partitions"), (some("1"), 5));
    let hours = setting(&mut client, BROKER, "1", "log.retention.hours");
    assert_eq!((hours.value.as_deref(), hours.config_source, hours.read_only), (Some("24"), 4, true));
    assert_eq!(synonyms(&hours), [("log.retention.hours", Some("24"), 4), ("log.retention.hours", Some("168"), 5)]);
    let bytes = setting(&mut client, BROKER, "1", "message.max.bytes");
    assert_eq!((bytes.value.as_deref(), bytes.config_source, bytes.read_only), (Some("1048588"), 5, false));
    // Nothing was set for all brokers.
    let all = describe(&mut client, vec![resource(BROKER, "", None)]);
    assert_eq!((all[0].error_code, all[0].configs.len()), (Code::NONE, 0));
    // A topic takes its default from the broker.
    create(&mut client, &[topic("t", 1)]);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").0, some("86400000"));
}

#[test]
fn a_topics_settings_are_set_and_deleted() {
    let (_broker, mut client) = start();
    assert_eq!(alter(&mut client, TOPIC, "t", &[("retention.ms", SET, Some("7000"))]), OK);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms"), (some("7000"), 1));
    let validated = alter_all(&mut client, &[(TOPIC, "t", &[("retention.ms", SET, Some("8000"))])], true);
    assert_eq!(validated, [OK]);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").0, some("7000"));
    assert_eq!(alter(&mut client, TOPIC, "t", &[("retention.ms", DELETE, None)]), OK);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms"), (some("604800000"), 5));
    // What is not there, or does not exist at all, can be deleted too.
    assert_eq!(alter(&mut client, TOPIC, "t", &[("segment.ms", DELETE, Some("5")), ("bogus", DELETE, None)]), OK);
    assert_eq!(alter(&mut client, TOPIC, "t", &[]), OK);
}

#[test]
fn lists_are_appended_to_and_subtracted_from() {
    let (_broker, mut client) = start();
    let policy = |client: &mut TestClient| value(client, TOPIC, "t", "cleanup.policy").0.unwrap_or_default();
    for (operation, element, after) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
    ] {
        assert_eq!(alter(&mut client, TOPIC, "t", &[("cleanup.policy", operation, Some(element))]), OK);
        assert_eq!(policy(&mut client), after);
    }
    let no_list = "Can't APPEND to key retention.ms because its type is not LIST.";
    let refused = alter(&mut client, TOPIC, "t", &[("retention.ms", APPEND, Some("1"))]);
    assert_eq!(refused, (Code::INVALID_CONFIG, no_list.to_owned()));
}

#[test]
fn bad_alterations_change_nothing() {
    let (_broker, mut client) = start();
    let bad = Code::INVALID_REQUEST;
    for (alterations, code, message) in [
        (&[("bogus", SET, Some("1"))][..], Code::INVALID_CONFIG, "Unknown topic config name: bogus"),
        (
            &[("retention.ms", SET, Some("4444")), ("bogus", SET, Some("1"))],
            Code::INVALID_CONFIG,
            "Unknown topic config name: bogus",
        ),
        (&[("retention.ms", SET, None)], bad, "Null value not supported for : retention.ms"),
        (
            &[("retention.ms", SET, Some("x"))],
            Code::INVALID_CONFIG,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            &[("retention.ms", SET, Some("1")), ("retention.ms", SET, Some("2"))],
            bad,
            "Error due to duplicate config keys",
        ),
        // Kafka answers UNKNOWN_SERVER_ERROR here.
        (&[("retention.ms", 9, Some("1"))], bad, "Unknown operation 9 for : retention.ms"),
        (
            &[("cleanup.policy", APPEND, Some("shred"))],
            Code::INVALID_CONFIG,
            "Invalid value delete,shred for configuration cleanup.policy: String must be one of: compact, delete",
        ),
    ] {
        assert_eq!(alter(&mut client, TOPIC, "t", alterations), (code, message.to_owned()));
        assert_eq!(value(&mut client, TOPIC, "t", "retention.ms"), (some("5000"), 1));
    }
}

#[test]
fn each_resource_is_altered_or_refused_by_itself() {
    let (_broker, mut client) = start();
    let set: Alterations<'_> = &[("retention.ms", SET, Some("1"))];
    let good: Alterations<'_> = &[("retention.ms", SET, Some("6000"))];
    let answers = alter_all(
        &mut client,
        &[
            (TOPIC, "nope", set),
            (TOPIC, "", set),
            (TOPIC, "a/b", set),
            (0, "x", set),
            (99, "x", set),
            (BROKER, "2", set),
            (BROKER, "x", set),
            (GROUP, "", set),
            (TOPIC, "t", good),
        ],
        false,
    );
    let bad = Code::INVALID_REQUEST;
    let codes: Vec<_> = answers.iter().map(|answer| answer.0).collect();
    let expected =
        [Code::UNKNOWN_TOPIC_OR_PARTITION, bad, Code::INVALID_TOPIC_EXCEPTION, bad, bad, bad, bad, bad, Code::NONE];
    assert_eq!(codes, expected, "{answers:?}");
    assert_eq!(answers[0].1, "The topic 'nope' does not exist.");
    assert_eq!(answers[3].1, "Unknown resource type 0");
    assert_eq!(answers[5].1, "Unexpected broker id, expected 1, but received 2");
    assert_eq!(answers[6].1, "Node id must be an integer, but it is: x");
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").0, some("6000"));

    let twice = alter_all(&mut client, &[(TOPIC, "t", set), (TOPIC, "t", &[])], false);
    let message = "Each resource must appear at most once.".to_owned();
    assert_eq!(twice, [(bad, message.clone()), (bad, message)]);
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms").0, some("6000"));
}

#[test]
fn a_changed_topic_setting_works_at_once_and_after_a_restart() {
    let (mut broker, mut client) = start();
    let large = batch(&[1; 100]);
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::NONE);
    assert_eq!(alter(&mut client, TOPIC, "t", &[("max.message.bytes", SET, Some("200"))]), OK);
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::MESSAGE_TOO_LARGE);
    broker.restart();
    let mut client = broker.connect();
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::MESSAGE_TOO_LARGE);
    assert_eq!(alter(&mut client, TOPIC, "t", &[("max.message.bytes", DELETE, None)]), OK);
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::NONE);
}

#[test]
fn broker_settings_are_changed_live_in_layers() {
    let (mut broker, mut client) = start();
    let large = batch(&[1; 100]);
    assert_eq!(alter(&mut client, BROKER, "", &[("message.max.bytes", SET, Some("300"))]), OK);
    assert_eq!(value(&mut client, BROKER, "1", "message.max.bytes"), (some("300"), 3));
    assert_eq!(value(&mut client, BROKER, "", "message.max.bytes"), (some("300"), 3));
    assert_eq!(value(&mut client, TOPIC, "t", "max.message.bytes"), (some("300"), 3));
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::MESSAGE_TOO_LARGE);

    assert_eq!(alter(&mut client, BROKER, "1", &[("message.max.bytes", SET, Some("2000000"))]), OK);
    let own = setting(&mut client, BROKER, "1", "message.max.bytes");
    assert_eq!(
        synonyms(&own),
        [
            ("message.max.bytes", Some("2000000"), 2),
            ("message.max.bytes", Some("300"), 3),
            ("message.max.bytes", Some("1048588"), 5),
        ]
    );
    assert_eq!(produce(&mut client, "t", 0, &large).0, Code::NONE);

    broker.restart();
    let mut client = broker.connect();
    assert_eq!(value(&mut client, BROKER, "1", "message.max.bytes"), (some("2000000"), 2));
    let delete: Alterations<'_> = &[("message.max.bytes", DELETE, None)];
    assert_eq!(alter_all(&mut client, &[(BROKER, "1", delete), (BROKER, "", delete)], false), [OK, OK]);
    assert_eq!(value(&mut client, BROKER, "1", "message.max.bytes"), (some("1048588"), 5));
}

#[test]
fn broker_settings_that_need_a_restart_are_refused() {
    let (_broker, mut client) = start();
    let bad = Code::INVALID_REQUEST;
    for (name, key, value, code, message) in [
        ("1", "node.id", "7", bad, "Cannot update these configs dynamically: [node.id]"),
        ("", "num.partitions", "7", bad, "Cannot update these configs dynamically: [num.partitions]"),
        (
            "1",
            "message.max.bytes",
            "-5",
            bad,
            "Invalid value -5 for configuration message.max.bytes: Value must be at least 0",
        ),
        // Kafka takes any name here.
        ("1", "bogus", "7", Code::INVALID_CONFIG, "Unknown broker config name: bogus"),
    ] {
        let refused = alter(&mut client, BROKER, name, &[(key, SET, Some(value))]);
        assert_eq!(refused, (code, message.to_owned()));
    }
}

/// Whether one more connection is served.
fn is_let_in(broker: &TestBroker) -> bool {
    let mut client = broker.connect();
    let mut request = bytes::BytesMut::new();
    wire::frame::write_request(&mut request, 1, 1, "test", &DescribeConfigsRequest::default());
    // One that is refused finds the connection closed or reset, before or behind this.
    client.stream.write_all(&request).is_ok() && !client.is_closed()
}

#[test]
fn bounds_of_connections_change_while_it_runs() {
    let (broker, mut client) = start();
    assert!(is_let_in(&broker));
    for (key, value) in [
        ("max.connections", "0"),
        ("max.connections.per.ip", "0"),
        ("max.connections.per.ip.overrides", "10.0.0.1:5,127.0.0.1:0"),
    ] {
        for resource in ["", "1"] {
            assert_eq!(alter(&mut client, BROKER, resource, &[(key, SET, Some(value))]), OK);
            assert!(!is_let_in(&broker), "{key}");
            assert_eq!(alter(&mut client, BROKER, resource, &[(key, DELETE, None)]), OK);
            assert!(is_let_in(&broker), "{key}");
        }
    }
    // An exception lets in where the rule does not.
    assert_eq!(alter(&mut client, BROKER, "", &[("max.connections.per.ip", SET, Some("0"))]), OK);
    assert_eq!(alter(&mut client, BROKER, "", &[("max.connections.per.ip.overrides", SET, Some("127.0.0.1:50"))]), OK);
    assert!(is_let_in(&broker));
}

#[test]
fn a_group_has_settings_before_it_exists() {
    let (_broker, mut client) = start();
    let key = "consumer.session.timeout.ms";
    let default = setting(&mut client, GROUP, "g", key);
    assert_eq!((default.value.as_deref(), default.config_source), (Some("45000"), 5));
    assert_eq!(synonyms(&default), [("group.consumer.session.timeout.ms", Some("45000"), 5)]);
    assert_eq!(alter(&mut client, GROUP, "g", &[(key, SET, Some("50000"))]), OK);
    assert_eq!(value(&mut client, GROUP, "g", key), (some("50000"), 8));
    assert_eq!(value(&mut client, GROUP, "other", key), (some("45000"), 5));
    assert_eq!(alter(&mut client, GROUP, "g", &[(key, SET, Some("5"))]).0, Code::INVALID_CONFIG);
    let unknown = (Code::INVALID_CONFIG, "Unknown group config name: bogus".to_owned());
    assert_eq!(alter(&mut client, GROUP, "g", &[("bogus", SET, Some("5"))]), unknown);
}

fn replace(client: &mut TestClient, name: &str, configs: &[(&str, Option<&str>)]) -> (ErrorCode, String) {
    let configs = configs.iter().map(|(name, value)| alter_configs::AlterableConfig {
        name: (*name).to_owned(),
        value: value.map(str::to_owned),
    });
    let resource = alter_configs::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: name.to_owned(),
        configs: configs.collect(),
    };
    let request = AlterConfigsRequest { resources: vec![resource], validate_only: false };
    let mut response = client.ask(&request);
    let answer = response.responses.remove(0);
    (answer.error_code, answer.error_message.unwrap_or_default())
}

#[test]
fn the_older_alteration_replaces_all_settings() {
    let (_broker, mut client) = start();
    assert_eq!(replace(&mut client, "t", &[("segment.ms", Some("8000"))]), OK);
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms"), (some("8000"), 1));
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms"), (some("604800000"), 5));
    assert_eq!(replace(&mut client, "t", &[("segment.ms", None)]).0, Code::INVALID_REQUEST);
    assert_eq!(replace(&mut client, "t", &[("bogus", Some("1"))]).0, Code::INVALID_CONFIG);
    let twice = replace(&mut client, "t", &[("segment.ms", Some("1")), ("segment.ms", Some("2"))]);
    assert_eq!(twice, (Code::INVALID_REQUEST, "Error due to duplicate config keys".to_owned()));
    assert_eq!(replace(&mut client, "nope", &[]).0, Code::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms").0, some("8000"));
    assert_eq!(replace(&mut client, "t", &[]), OK);
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms").1, 5);

    // Kafka 4.3.1 never answers a resource that is there twice.
    let resource = alter_configs::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: "t".to_owned(),
        configs: Vec::new(),
    };
    let request = AlterConfigsRequest { resources: vec![resource.clone(), resource], validate_only: false };
    let codes: Vec<_> = client.ask(&request).responses.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [Code::INVALID_REQUEST; 2]);
}

fn list(client: &mut TestClient, types: &[i8]) -> (ErrorCode, Vec<(i8, String)>) {
    let response = client.ask(&ListConfigResourcesRequest { resource_types: types.to_vec() });
    let resources = response.config_resources.into_iter().map(|r| (r.resource_type, r.resource_name)).collect();
    (response.error_code, resources)
}

#[test]
fn resources_with_settings_are_listed() {
    let (_broker, mut client) = start();
    alter(&mut client, GROUP, "g", &[("consumer.session.timeout.ms", SET, Some("50000"))]);
    let entry = |kind: i8, name: &str| (kind, name.to_owned());
    assert_eq!(list(&mut client, &[TOPIC, TOPIC]), (Code::NONE, vec![entry(TOPIC, "t")]));
    assert_eq!(list(&mut client, &[BROKER]), (Code::NONE, vec![entry(BROKER, "1")]));
    assert_eq!(list(&mut client, &[GROUP]), (Code::NONE, vec![entry(GROUP, "g")]));
    assert_eq!(list(&mut client, &[CLIENT_METRICS]), (Code::NONE, vec![]));
    let (code, mut all) = list(&mut client, &[]);
    all.retain(|(kind, _)| *kind != LOGGER);
    all.sort();
    assert_eq!((code, all), (Code::NONE, vec![entry(TOPIC, "t"), entry(BROKER, "1"), entry(GROUP, "g")]));
    for bad in [99, 0, -1] {
        assert_eq!(list(&mut client, &[TOPIC, bad]), (Code::UNSUPPORTED_VERSION, vec![]));
    }
    let response = client.call(0, &ListConfigResourcesRequest::default());
    assert_eq!((response.error_code, response.config_resources), (Code::NONE, vec![]));
}
