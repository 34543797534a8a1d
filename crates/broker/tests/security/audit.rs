//! What is written down of who may do what.

use tracing::Level;
use wire::api::alter_client_quotas::{AlterClientQuotasRequest, AlterationEntry, EntityData, OpData};
use wire::api::create_acls::{AclCreation, CreateAclsRequest};
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};

use super::log::Log;
use super::*;

#[test]
fn what_is_changed_and_what_is_denied_is_a_line_with_who_and_why() {
    let log = Log::capture(Level::INFO, "::audit");
    let broker = broker(&[
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:alice"),
    ]);
    let [mut alice, mut bob] = [ALICE, b"\0bob\0bob-secret"].map(|token| {
        let mut client = broker.connect_to(1);
        assert_eq!(log_in(&mut client, token).error_code, ErrorCode::NONE);
        client
    });
    let topic =
        CreatableTopic { name: "audited".into(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    alice.call(7, &CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, validate_only: false });
    let creation = AclCreation {
        resource_type: 2,
        resource_name: "audited".into(),
        resource_pattern_type: 3,
        principal: "User:bob\n".into(),
        host: "*".into(),
        operation: 3,
        permission_type: 3,
    };
    alice.call(3, &CreateAclsRequest { creations: vec![creation] });
    let filter = DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: Some("audited".into()),
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    alice.call(3, &DeleteAclsRequest { filters: vec![filter] });
    let entity = EntityData { entity_type: "user".into(), entity_name: Some("bob".into()) };
    let op = OpData { key: "producer_byte_rate".into(), value: 1024.0, remove: false };
    let entries = vec![AlterationEntry { entity: vec![entity], ops: vec![op] }];
    alice.call(1, &AlterClientQuotasRequest { entries, validate_only: false });
    let topics = vec![DeleteTopicState { name: Some("audited".into()), ..Default::default() }];
    bob.call(6, &DeleteTopicsRequest { topics, timeout_ms: 60_000, ..Default::default() });

    let lines = log.lines();
    for parts in [
        &["allowed", r#"principal="User:alice""#, r#"TOPIC:"audited""#, "CREATE", r#""CreateTopics""#, "SuperUser"][..],
        &["allowed", r#"principal="User:alice""#, "CLUSTER", "ALTER", r#""CreateAcls""#],
        &["changed", "change=created StandardAcl", r"principal=User:bob\n"],
        &["changed", "change=deleted StandardAcl", "host=127.0.0.1"],
        &["changed", r#"change=user="bob": producer_byte_rate=1024"#],
        &["denied", r#"principal="User:bob""#, r#"TOPIC:"audited""#, "DELETE", r#""DeleteTopics""#, "DefaultDeny"],
    ] {
        let is_there = lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(is_there, "{parts:?} is not in {lines:#?}");
    }
}
