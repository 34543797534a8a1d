//! What APIs of groups and transactions answer to who may do nothing, to who may do part of what they need, and to who
//! may do exactly that; and that what is denied changes nothing and tells nothing.

use std::collections::BTreeSet;

use metadata::acl::{AclOperation, CLUSTER_NAME, PatternType, PermissionType, ResourceType, WILDCARD};
use tokio::task::yield_now;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::api::consumer_group_describe::{self as described, ConsumerGroupDescribeRequest};
use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use wire::api::delete_groups::DeleteGroupsRequest;
use wire::api::describe_groups::DescribeGroupsRequest;
use wire::api::describe_producers::{DescribeProducersRequest, TopicRequest};
use wire::api::describe_transactions::DescribeTransactionsRequest;
use wire::api::end_txn::EndTxnRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::list_groups::ListGroupsRequest;
use wire::api::list_transactions::ListTransactionsRequest;
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::offset_delete::{OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic};
use wire::api::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::api::sync_group::SyncGroupRequest;
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use wire::api::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest};
use wire::state::metadata::{AccessControlEntryRecord, FeatureLevelRecord, RemoveAccessControlEntryRecord};
use wire::{ErrorCode, Uuid};

use super::test_producer::{GROUP, TOPIC, TestProducer, V1, start_with};
use super::test_support::{NODE_ID, TestBroker, context, led_by};
use super::{
    RequestContext, add_offsets_to_txn, add_partitions_to_txn, consumer_group_describe, consumer_group_heartbeat,
    delete_groups, describe_groups, describe_producers, describe_transactions, end_txn, find_coordinator, heartbeat,
    init_producer_id, join_group, leave_group, list_groups, list_transactions, offset_commit, offset_delete,
    offset_fetch, sync_group, txn_offset_commit, write_txn_markers,
};
use crate::security::Principal;

const USER: &str = "User:alice";
/// A topic that the user has no rights to, and its id.
const HIDDEN: &str = "hidden";
const HIDDEN_ID: Uuid = Uuid([9; 16]);
const TOPIC_ID: Uuid = Uuid([7; 16]);
const ID: &str = "id";

const NONE: ErrorCode = ErrorCode::NONE;
const TOPIC_DENIED: ErrorCode = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
const GROUP_DENIED: ErrorCode = ErrorCode::GROUP_AUTHORIZATION_FAILED;
const CLUSTER_DENIED: ErrorCode = ErrorCode::CLUSTER_AUTHORIZATION_FAILED;
const ID_DENIED: ErrorCode = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;

/// A right, and the error without it.
type Needed = (AclOperation, ResourceType, &'static str, ErrorCode);

const READ_GROUP: Needed = (AclOperation::Read, ResourceType::Group, GROUP, GROUP_DENIED);
const DESCRIBE_GROUP: Needed = (AclOperation::Describe, ResourceType::Group, GROUP, GROUP_DENIED);
const DELETE_GROUP: Needed = (AclOperation::Delete, ResourceType::Group, GROUP, GROUP_DENIED);
const READ_TOPIC: Needed = (AclOperation::Read, ResourceType::Topic, TOPIC, TOPIC_DENIED);
const WRITE_TOPIC: Needed = (AclOperation::Write, ResourceType::Topic, TOPIC, TOPIC_DENIED);
const DESCRIBE_TOPIC: Needed = (AclOperation::Describe, ResourceType::Topic, TOPIC, TOPIC_DENIED);
const WRITE_ID: Needed = (AclOperation::Write, ResourceType::TransactionalId, ID, ID_DENIED);
const DESCRIBE_ID: Needed = (AclOperation::Describe, ResourceType::TransactionalId, ID, ID_DENIED);
const CLUSTER_ACTION: Needed = (AclOperation::ClusterAction, ResourceType::Cluster, CLUSTER_NAME, CLUSTER_DENIED);

/// A broker with an authorizer, whose super user is who has not said who they are: [`context`] is theirs, [`alice`]
/// that of a user without rights. The group has offsets of both topics.
async fn start() -> TestBroker {
    let settings = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:ANONYMOUS"),
        ("group.consumer.min.assignment.interval.ms", "0"),
        ("group.consumer.assignment.interval.ms", "0"),
    ];
    let broker = start_with(0, &settings).await;
    broker.commit([FeatureLevelRecord { name: "group.version".to_owned(), feature_level: 1 }.into()]).await;
    broker.create(HIDDEN, HIDDEN_ID, &[led_by(NODE_ID, &[NODE_ID])]).await;
    let topics = vec![committed(TOPIC, TOPIC_ID), committed(HIDDEN, HIDDEN_ID)];
    assert_eq!(commit(&broker, &context(9), topics).await, [NONE; 2]);
    broker
}

fn alice(api_version: i16) -> RequestContext {
    RequestContext { principal: Principal::user("alice"), ..context(api_version) }
}

fn acl_id(operation: AclOperation, resource_type: ResourceType, name: &str) -> Uuid {
    let mut id = [0; 16];
    (id[0], id[1]) = (operation as u8, resource_type as u8);
    id[2..].iter_mut().zip(name.bytes()).for_each(|(byte, of_name)| *byte = of_name);
    Uuid(id)
}

async fn grant(broker: &TestBroker, operation: AclOperation, resource_type: ResourceType, name: &str) {
    let record = AccessControlEntryRecord {
        id: acl_id(operation, resource_type, name),
        resource_type: resource_type as i8,
        resource_name: name.to_owned(),
        pattern_type: PatternType::Literal as i8,
        principal: USER.to_owned(),
        host: WILDCARD.to_owned(),
        operation: operation as i8,
        permission_type: PermissionType::Allow as i8,
    };
    broker.commit([record.into()]).await;
}

async fn revoke(broker: &TestBroker, operation: AclOperation, resource_type: ResourceType, name: &str) {
    let id = acl_id(operation, resource_type, name);
    broker.commit([RemoveAccessControlEntryRecord { id }.into()]).await;
}

/// What there is of groups, their offsets and transactions.
async fn state(broker: &TestBroker) -> String {
    let groups = list_groups::handle(broker, &context(5), ListGroupsRequest::default()).await;
    let transactions = list_transactions::handle(broker, &context(2), ListTransactionsRequest::default()).await;
    let offsets = fetch(broker, &context(9), None).await;
    format!("{:?} {:?} {offsets:?}", groups.groups, transactions.transaction_states)
}

/// Asks without rights, and again with one more of them, until the user has all. What is denied changes nothing, and
/// every code of an answer says why. Returns what is answered then.
async fn denied_until(broker: &TestBroker, needed: &[Needed], ask: impl AsyncFn() -> Vec<ErrorCode>) -> BTreeSet<i16> {
    let before = state(broker).await;
    for (operation, resource_type, name, denial) in needed {
        let codes = ask().await;
        let is_denied = !codes.is_empty() && codes.iter().all(|code| code == denial);
        assert!(is_denied, "{codes:?} without {operation} on {name}");
        assert_eq!(state(broker).await, before, "without {operation} on {name}");
        grant(broker, *operation, *resource_type, name).await;
    }
    ask().await.into_iter().map(|code| code.0).collect()
}

fn codes<const N: usize>(codes: [ErrorCode; N]) -> BTreeSet<i16> {
    codes.map(|code| code.0).into()
}

fn committed(name: &str, topic_id: Uuid) -> OffsetCommitRequestTopic {
    let partition = OffsetCommitRequestPartition { committed_offset: 3, ..Default::default() };
    OffsetCommitRequestTopic { name: name.to_owned(), topic_id, partitions: vec![partition] }
}

async fn commit(
    broker: &TestBroker,
    context: &RequestContext,
    topics: Vec<OffsetCommitRequestTopic>,
) -> Vec<ErrorCode> {
    let request = OffsetCommitRequest { group_id: GROUP.to_owned(), topics, ..Default::default() };
    let answer = offset_commit::handle(broker, context, request).await;
    answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
}

fn fetched(name: &str, topic_id: Uuid) -> OffsetFetchRequestTopics {
    OffsetFetchRequestTopics { name: name.to_owned(), topic_id, partition_indexes: vec![0] }
}

async fn fetch(
    broker: &TestBroker,
    context: &RequestContext,
    topics: Option<Vec<OffsetFetchRequestTopics>>,
) -> OffsetFetchResponse {
    let request = match context.api_version {
        8.. => {
            let group = OffsetFetchRequestGroup { group_id: GROUP.to_owned(), topics, ..Default::default() };
            OffsetFetchRequest { groups: vec![group], ..Default::default() }
        }
        _ => {
            let by_name = |topic: OffsetFetchRequestTopics| OffsetFetchRequestTopic {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
            };
            let topics = topics.map(|topics| topics.into_iter().map(by_name).collect());
            OffsetFetchRequest { group_id: GROUP.to_owned(), topics, ..Default::default() }
        }
    };
    offset_fetch::handle(broker, context, request).await
}

/// The errors of an answer of any version: of the group, or else of its partitions.
fn errors_of(answer: &OffsetFetchResponse) -> Vec<ErrorCode> {
    let of_groups = answer.groups.iter().map(|group| group.error_code).chain([answer.error_code]);
    let of_groups: Vec<_> = of_groups.filter(|code| !code.is_none()).collect();
    if !of_groups.is_empty() {
        assert!(answer.topics.is_empty() && answer.groups.iter().all(|group| group.topics.is_empty()));
        return of_groups;
    }
    let of_partitions = answer.topics.iter().flat_map(|topic| &topic.partitions).map(|found| found.error_code);
    let of_groups = answer.groups.iter().flat_map(|group| &group.topics).flat_map(|topic| &topic.partitions);
    of_partitions.chain(of_groups.map(|found| found.error_code)).collect()
}

#[tokio::test]
async fn offsets_are_committed_with_read_on_group_and_topic() {
    for version in [2, 9, 10] {
        let broker = start().await;
        let ask = async || commit(&broker, &alice(version), vec![committed(TOPIC, TOPIC_ID)]).await;
        assert_eq!(denied_until(&broker, &[READ_GROUP, READ_TOPIC], ask).await, codes([NONE]), "{version}");
        // The others are committed.
        let topics = vec![committed(HIDDEN, HIDDEN_ID), committed(TOPIC, TOPIC_ID)];
        assert_eq!(commit(&broker, &alice(version), topics).await, [NONE, TOPIC_DENIED], "{version}");
    }
}

/// What a connection was allowed is remembered: for nobody else, and no longer than it is so.
#[tokio::test]
async fn who_may_no_more_is_denied_on_the_connection_that_was_allowed() {
    let broker = start().await;
    let context = alice(9);
    let ask = async |context: &RequestContext| commit(&broker, context, vec![committed(TOPIC, TOPIC_ID)]).await;
    let (topic, group) = ((AclOperation::Read, ResourceType::Topic), (AclOperation::Read, ResourceType::Group));
    grant(&broker, group.0, group.1, GROUP).await;
    for _ in 0..3 {
        assert_eq!(ask(&context).await, [TOPIC_DENIED]);
        grant(&broker, topic.0, topic.1, TOPIC).await;
        assert_eq!([ask(&context).await, ask(&context).await], [[NONE]; 2]);
        let bob = RequestContext { principal: Principal::user("bob"), ..context.clone() };
        assert_eq!(ask(&bob).await, [GROUP_DENIED]);
        assert_eq!(ask(&context).await, [NONE]);
        revoke(&broker, topic.0, topic.1, TOPIC).await;
    }
    revoke(&broker, group.0, group.1, GROUP).await;
    assert_eq!(ask(&context).await, [GROUP_DENIED]);
}

#[tokio::test]
async fn offsets_are_fetched_with_describe_on_group_and_topic() {
    for version in [1, 2, 7, 8, 9, 10] {
        let broker = start().await;
        let ask = async || errors_of(&fetch(&broker, &alice(version), Some(vec![fetched(TOPIC, TOPIC_ID)])).await);
        assert_eq!(denied_until(&broker, &[DESCRIBE_GROUP, DESCRIBE_TOPIC], ask).await, codes([NONE]), "{version}");
        let topics = vec![fetched(HIDDEN, HIDDEN_ID), fetched(TOPIC, TOPIC_ID)];
        let answer = fetch(&broker, &alice(version), Some(topics)).await;
        assert_eq!(errors_of(&answer), [NONE, TOPIC_DENIED], "{version}");
        if version == 1 {
            continue;
        }
        // Of all that the group has, what is hidden is left out.
        let answer = fetch(&broker, &alice(version), None).await;
        assert_eq!(errors_of(&answer), [NONE], "{version}");
        revoke(&broker, AclOperation::Describe, ResourceType::Topic, TOPIC).await;
        assert!(errors_of(&fetch(&broker, &alice(version), None).await).is_empty(), "{version}");
    }
}

#[tokio::test]
async fn a_group_that_is_denied_does_not_keep_another_from_being_fetched() {
    let broker = start().await;
    grant(&broker, AclOperation::Describe, ResourceType::Group, GROUP).await;
    grant(&broker, AclOperation::Describe, ResourceType::Topic, TOPIC).await;
    let group = |id: &str, topics: Option<Vec<OffsetFetchRequestTopics>>| OffsetFetchRequestGroup {
        group_id: id.to_owned(),
        topics,
        ..Default::default()
    };
    let named = vec![fetched(HIDDEN, HIDDEN_ID), fetched(TOPIC, TOPIC_ID)];
    let groups = vec![group("other", Some(named)), group(GROUP, None), group("other", None)];
    let request = OffsetFetchRequest { groups, ..Default::default() };
    let answer = offset_fetch::handle(&broker, &alice(9), request).await;
    let told = answer.groups.iter().map(|group| {
        let topics: Vec<_> = group.topics.iter().map(|topic| &*topic.name).collect();
        (&*group.group_id, group.error_code, topics)
    });
    let denied = ("other", GROUP_DENIED, vec![]);
    assert_eq!(told.collect::<Vec<_>>(), [(GROUP, NONE, vec![TOPIC]), denied.clone(), denied]);
}

async fn delete_offsets(broker: &TestBroker, context: &RequestContext, topics: &[&str]) -> Vec<ErrorCode> {
    let topics = topics.iter().map(|name| OffsetDeleteRequestTopic {
        name: (*name).to_owned(),
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
    });
    let request = OffsetDeleteRequest { group_id: GROUP.to_owned(), topics: topics.collect() };
    let answer = offset_delete::handle(broker, context, request).await;
    match answer.error_code {
        NONE => answer.topics.iter().flat_map(|topic| &topic.partitions).map(|found| found.error_code).collect(),
        code => vec![code],
    }
}

#[tokio::test]
async fn offsets_are_deleted_with_delete_on_the_group_and_read_on_the_topic() {
    let broker = start().await;
    let ask = async || delete_offsets(&broker, &alice(0), &[TOPIC]).await;
    assert_eq!(denied_until(&broker, &[DELETE_GROUP, READ_TOPIC], ask).await, codes([NONE]));
    assert_eq!(delete_offsets(&broker, &alice(0), &[HIDDEN, TOPIC]).await, [NONE, TOPIC_DENIED]);
    let left = fetch(&broker, &context(9), None).await;
    assert_eq!(left.groups[0].topics.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), [HIDDEN]);
}

async fn find(broker: &TestBroker, version: i16, key: &str, key_type: i8) -> Vec<ErrorCode> {
    let coordinator_keys = vec![key.to_owned(); 2];
    let request = FindCoordinatorRequest { key: key.to_owned(), key_type, coordinator_keys };
    let answer = find_coordinator::handle(broker, &alice(version), request).await;
    match version {
        4.. => answer.coordinators.iter().map(|found| found.error_code).collect(),
        _ => vec![answer.error_code],
    }
}

#[tokio::test]
async fn coordinators_are_found_with_describe() {
    for version in [0, 3, 4, 6] {
        let broker = start().await;
        let ask = async || find(&broker, version, GROUP, 0).await;
        assert_eq!(denied_until(&broker, &[DESCRIBE_GROUP], ask).await, codes([NONE]), "{version}");
        let ask = async || find(&broker, version, ID, 1).await;
        assert_eq!(denied_until(&broker, &[DESCRIBE_ID], ask).await, codes([NONE]), "{version}");
        let ask = async || find(&broker, version, ID, 2).await;
        let refused = codes([ErrorCode::INVALID_REQUEST]);
        assert_eq!(denied_until(&broker, &[CLUSTER_ACTION], ask).await, refused, "{version}");
    }
}

#[tokio::test]
async fn no_topic_is_created_for_who_may_not_find_a_coordinator() {
    let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let broker = TestBroker::start_with(&[("authorizer.class.name", class)]).await;
    for key_type in [0, 1] {
        assert!(!find(&broker, 6, "a", key_type).await.contains(&NONE));
    }
    assert_eq!(broker.metadata.load().topics().count(), 0);
    grant(&broker, AclOperation::Describe, ResourceType::Group, "a").await;
    find(&broker, 6, "a", 0).await;
    assert_eq!(broker.metadata.load().topics().count(), 1);
}

#[tokio::test]
async fn members_of_the_classic_protocol_need_read_on_the_group() {
    let broker = start().await;
    let group_id = || GROUP.to_owned();
    let member_id = || "m".to_owned();
    let join = async || {
        let protocol = JoinGroupRequestProtocol { name: "p".to_owned(), ..Default::default() };
        let request = JoinGroupRequest {
            group_id: group_id(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            ..Default::default()
        };
        let answer = join_group::handle(&broker, &alice(9), request).await;
        assert_eq!(answer.generation_id, -1);
        answer.error_code
    };
    let sync = async || {
        let name = || Some("consumer".to_owned());
        let (protocol_type, protocol_name) = (name(), name());
        let request = SyncGroupRequest {
            group_id: group_id(),
            member_id: member_id(),
            protocol_type,
            protocol_name,
            ..Default::default()
        };
        sync_group::handle(&broker, &alice(5), request).await.error_code
    };
    let beat = async || {
        let request = HeartbeatRequest { group_id: group_id(), member_id: member_id(), ..Default::default() };
        heartbeat::handle(&broker, &alice(4), request).await.error_code
    };
    let leave = async |version| {
        let members = vec![MemberIdentity { member_id: member_id(), ..Default::default() }];
        let request = LeaveGroupRequest { group_id: group_id(), member_id: member_id(), members };
        let answer = leave_group::handle(&broker, &alice(version), request).await;
        answer.members.first().map_or(answer.error_code, |member| member.error_code)
    };
    let ask = async || vec![join().await, sync().await, beat().await, leave(2).await, leave(5).await];
    let answered = codes([ErrorCode::MEMBER_ID_REQUIRED, ErrorCode::UNKNOWN_MEMBER_ID]);
    assert_eq!(denied_until(&broker, &[READ_GROUP], ask).await, answered);
}

async fn describe(broker: &TestBroker, context: &RequestContext, groups: &[&str]) -> Vec<(String, ErrorCode, i32)> {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let request = DescribeGroupsRequest { groups, include_authorized_operations: true };
    let answer = describe_groups::handle(broker, context, request).await;
    let told = answer.groups.into_iter().map(|group| (group.group_id, group.error_code, group.authorized_operations));
    told.collect()
}

#[tokio::test]
async fn groups_are_described_with_describe_and_what_else_may_be_done_to_them() {
    let broker = start().await;
    for version in [0, 5, 6] {
        let ask = async || vec![describe(&broker, &alice(version), &[GROUP]).await[0].1];
        assert_eq!(denied_until(&broker, &[DESCRIBE_GROUP], ask).await, codes([NONE]), "{version}");
        revoke(&broker, AclOperation::Describe, ResourceType::Group, GROUP).await;
    }
    grant(&broker, AclOperation::Delete, ResourceType::Group, GROUP).await;
    let told = describe(&broker, &alice(6), &["there is none", GROUP]).await;
    // To delete implies to describe.
    let operations = (1 << AclOperation::Delete as i32) | (1 << AclOperation::Describe as i32);
    let unknown = ("there is none".to_owned(), GROUP_DENIED, i32::MIN);
    assert_eq!(told, [unknown, (GROUP.to_owned(), NONE, operations)]);
    assert_eq!(describe(&broker, &context(6), &[GROUP]).await[0].2, 3400);
}

#[tokio::test]
async fn groups_are_deleted_with_delete() {
    let broker = start().await;
    let delete = async |names: &[&str]| -> Vec<(String, ErrorCode)> {
        let groups_names = names.iter().map(|name| (*name).to_owned()).collect();
        let answer = delete_groups::handle(&broker, &alice(2), DeleteGroupsRequest { groups_names }).await;
        answer.results.into_iter().map(|result| (result.group_id, result.error_code)).collect()
    };
    let ask = async || vec![delete(&[GROUP]).await[0].1];
    assert_eq!(denied_until(&broker, &[DELETE_GROUP], ask).await, codes([NONE]));
    let results = delete(&["other", GROUP, "other"]).await;
    let expected = [(GROUP.to_owned(), ErrorCode::GROUP_ID_NOT_FOUND), ("other".to_owned(), GROUP_DENIED)];
    assert_eq!(results, expected);
}

#[tokio::test]
async fn groups_are_listed_that_may_be_described() {
    let broker = start().await;
    let list = async || {
        let answer = list_groups::handle(&broker, &alice(5), ListGroupsRequest::default()).await;
        assert_eq!(answer.error_code, NONE);
        answer.groups.len()
    };
    assert_eq!(list().await, 0);
    grant(&broker, AclOperation::Read, ResourceType::Group, GROUP).await;
    assert_eq!(list().await, 1);
    revoke(&broker, AclOperation::Read, ResourceType::Group, GROUP).await;
    assert_eq!(list().await, 0);
    grant(&broker, AclOperation::Describe, ResourceType::Cluster, CLUSTER_NAME).await;
    assert_eq!(list().await, 1);
}

/// A heartbeat with which a member joins a group of its own.
fn joining(topics: Option<&[&str]>, pattern: Option<&str>) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "consumers".to_owned(),
        member_id: "m".to_owned(),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: topics.map(|topics| topics.iter().map(|&topic| topic.to_owned()).collect()),
        subscribed_topic_regex: pattern.map(str::to_owned),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

async fn beat(
    broker: &TestBroker,
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeatResponse {
    consumer_group_heartbeat::handle(broker, context, request).await
}

#[tokio::test]
async fn members_of_the_consumer_protocol_need_read_on_the_group_and_describe_on_the_topics_that_they_name() {
    let broker = start().await;
    let read_group = (AclOperation::Read, ResourceType::Group, "consumers", GROUP_DENIED);
    let ask = async || {
        let answer = beat(&broker, &alice(1), joining(Some(&[TOPIC]), None)).await;
        assert_eq!(answer.assignment.is_some(), answer.error_code.is_none());
        vec![answer.error_code]
    };
    assert_eq!(denied_until(&broker, &[read_group, DESCRIBE_TOPIC], ask).await, codes([NONE]));
    let before = state(&broker).await;
    for hidden in [HIDDEN, "missing"] {
        let answer = beat(&broker, &alice(1), joining(Some(&[TOPIC, hidden]), None)).await;
        assert_eq!((answer.error_code, answer.error_message), (TOPIC_DENIED, None), "{hidden}");
    }
    assert_eq!(state(&broker).await, before);
}

/// The topics that a member with a pattern for all topics has in the end.
async fn matched(broker: &TestBroker, context: &RequestContext) -> BTreeSet<Uuid> {
    let mut answer = beat(broker, context, joining(None, Some("[a-z]+"))).await;
    assert_eq!(answer.error_code, NONE);
    loop {
        let assigned = answer.assignment.iter().flat_map(|assignment| &assignment.topic_partitions);
        let topics: BTreeSet<Uuid> = assigned.map(|topic| topic.topic_id).collect();
        if !topics.is_empty() {
            return topics;
        }
        yield_now().await;
        let epoch = answer.member_epoch;
        let request = ConsumerGroupHeartbeatRequest { member_epoch: epoch, ..joining(None, Some("[a-z]+")) };
        answer = beat(broker, context, request).await;
        assert_eq!(answer.error_code, NONE);
    }
}

#[tokio::test]
async fn a_pattern_finds_what_the_member_may_describe() {
    let broker = start().await;
    grant(&broker, AclOperation::Read, ResourceType::Group, "consumers").await;
    grant(&broker, AclOperation::Read, ResourceType::Topic, TOPIC).await;
    assert_eq!(matched(&broker, &alice(1)).await, BTreeSet::from([TOPIC_ID]));
    // As a member whose rights are others, and then with more of them.
    assert_eq!(matched(&broker, &context(1)).await, BTreeSet::from([TOPIC_ID, HIDDEN_ID]));
    assert_eq!(matched(&broker, &alice(1)).await, BTreeSet::from([TOPIC_ID]));
    grant(&broker, AclOperation::Read, ResourceType::Topic, HIDDEN).await;
    assert_eq!(matched(&broker, &alice(1)).await, BTreeSet::from([TOPIC_ID, HIDDEN_ID]));
}

async fn describe_consumers(broker: &TestBroker, context: &RequestContext) -> described::DescribedGroup {
    let group_ids = vec!["consumers".to_owned()];
    let request = ConsumerGroupDescribeRequest { group_ids, include_authorized_operations: true };
    consumer_group_describe::handle(broker, context, request).await.groups.remove(0)
}

#[tokio::test]
async fn consumer_groups_are_described_with_describe_on_them_and_on_their_topics() {
    let broker = start().await;
    let answer = beat(&broker, &context(1), joining(Some(&[TOPIC]), None)).await;
    assert_eq!(answer.error_code, NONE);
    let describe_group = (AclOperation::Describe, ResourceType::Group, "consumers", GROUP_DENIED);
    let ask = async || {
        let group = describe_consumers(&broker, &alice(1)).await;
        assert_eq!(group.members.is_empty(), !group.error_code.is_none());
        assert_eq!(group.group_state.is_empty(), !group.error_code.is_none());
        vec![group.error_code]
    };
    assert_eq!(denied_until(&broker, &[describe_group, DESCRIBE_TOPIC], ask).await, codes([NONE]));
    let operations = describe_consumers(&broker, &alice(1)).await.authorized_operations;
    assert_eq!(operations, 1 << AclOperation::Describe as i32);
    assert_eq!(describe_consumers(&broker, &context(1)).await.authorized_operations, 3400);
}

#[tokio::test]
async fn a_topic_that_is_hidden_is_as_one_that_is_missing() {
    let broker = start().await;
    for (operation, resource_type, name) in [
        (AclOperation::All, ResourceType::Group, GROUP),
        (AclOperation::All, ResourceType::TransactionalId, ID),
        (AclOperation::All, ResourceType::Topic, TOPIC),
    ] {
        grant(&broker, operation, resource_type, name).await;
    }
    let producer = TestProducer::init(&broker, ID, V1).await;
    let ask = async |name: &str| {
        let mut answers = Vec::new();
        answers.extend(commit(&broker, &alice(9), vec![committed(name, Uuid::ZERO)]).await);
        answers.extend(errors_of(&fetch(&broker, &alice(9), Some(vec![fetched(name, Uuid::ZERO)])).await));
        answers.extend(delete_offsets(&broker, &alice(0), &[name]).await);
        let topics = vec![name, TOPIC];
        answers.extend(add_partitions(&broker, &alice(3), &producer, &topics).await);
        answers.extend(commit_in_transaction(&broker, &alice(3), &producer, &[name]).await);
        answers.extend(producers_of(&broker, &alice(0), name).await);
        answers
    };
    let hidden = ask(HIDDEN).await;
    let left = ErrorCode::OPERATION_NOT_ATTEMPTED;
    let denied = TOPIC_DENIED;
    assert_eq!(hidden, [denied, denied, denied, denied, left, denied, denied]);
    assert_eq!(ask("missing").await, hidden);
}

#[tokio::test]
async fn producers_get_a_transactional_id_with_write_on_it() {
    for version in [0, 3, 5] {
        let broker = start().await;
        TestProducer::init(&broker, "other", V1).await;
        let ask = async || {
            let request = InitProducerIdRequest {
                transactional_id: Some(ID.to_owned()),
                transaction_timeout_ms: 60_000,
                ..Default::default()
            };
            let answer = init_producer_id::handle(&broker, &alice(version), request).await;
            assert_eq!((answer.producer_id, answer.producer_epoch) == (-1, -1), !answer.error_code.is_none());
            vec![answer.error_code]
        };
        assert_eq!(denied_until(&broker, &[WRITE_ID], ask).await, codes([NONE]), "{version}");
    }
}

#[tokio::test]
async fn producers_get_an_id_who_may_write_anywhere() {
    let idempotent = (AclOperation::IdempotentWrite, ResourceType::Cluster, CLUSTER_NAME, CLUSTER_DENIED);
    let write = (AclOperation::Write, ResourceType::Topic, "some other", CLUSTER_DENIED);
    for needed in [idempotent, write] {
        let broker = start().await;
        // To read is not enough.
        grant(&broker, AclOperation::Read, ResourceType::Topic, TOPIC).await;
        let ask = async || {
            let request = InitProducerIdRequest::default();
            vec![init_producer_id::handle(&broker, &alice(5), request).await.error_code]
        };
        assert_eq!(denied_until(&broker, &[needed], ask).await, codes([NONE]));
    }
}

async fn add_partitions(
    broker: &TestBroker,
    context: &RequestContext,
    producer: &TestProducer<'_>,
    topics: &[&str],
) -> Vec<ErrorCode> {
    let topics = topics.iter().map(|topic| AddPartitionsToTxnTopic { name: (*topic).to_owned(), partitions: vec![0] });
    let request = AddPartitionsToTxnRequest { topics: topics.collect(), ..producer.add_request(TOPIC, &[]) };
    let answer = add_partitions_to_txn::handle(broker, context, request).await;
    let results = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
    results.map(|result| result.partition_error_code).collect()
}

#[tokio::test]
async fn partitions_are_added_with_write_on_the_id_and_the_topics() {
    for version in [0, 3] {
        let broker = start().await;
        let producer = TestProducer::init(&broker, ID, V1).await;
        let ask = async || add_partitions(&broker, &alice(version), &producer, &[TOPIC]).await;
        assert_eq!(denied_until(&broker, &[WRITE_ID, WRITE_TOPIC], ask).await, codes([NONE]), "{version}");
        let internal = add_partitions(&broker, &alice(version), &producer, &["__consumer_offsets"]).await;
        assert_eq!(internal, [TOPIC_DENIED]);
    }
}

#[tokio::test]
async fn brokers_add_partitions_with_cluster_action_or_as_such() {
    for version in [4, 5] {
        let broker = start().await;
        let producer = TestProducer::init(&broker, ID, V1).await;
        let ask = async |context: RequestContext| {
            let topics = producer.add_request(TOPIC, &[0]).topics;
            let transaction = AddPartitionsToTxnTransaction {
                transactional_id: ID.to_owned(),
                producer_id: producer.producer_id,
                producer_epoch: producer.producer_epoch,
                verify_only: false,
                topics,
            };
            let request = AddPartitionsToTxnRequest { transactions: vec![transaction], ..Default::default() };
            let answer = add_partitions_to_txn::handle(&broker, &context, request).await;
            assert_eq!(answer.results_by_transaction.is_empty(), !answer.error_code.is_none());
            vec![answer.error_code]
        };
        let denied = async || ask(alice(version)).await;
        assert_eq!(denied_until(&broker, &[CLUSTER_ACTION], denied).await, codes([NONE]), "{version}");
        revoke(&broker, AclOperation::ClusterAction, ResourceType::Cluster, CLUSTER_NAME).await;
        assert_eq!(ask(RequestContext { is_inter_broker: true, ..alice(version) }).await, [NONE], "{version}");
    }
}

async fn commit_in_transaction(
    broker: &TestBroker,
    context: &RequestContext,
    producer: &TestProducer<'_>,
    topics: &[&str],
) -> Vec<ErrorCode> {
    let topics = topics.iter().map(|topic| TxnOffsetCommitRequestTopic {
        name: (*topic).to_owned(),
        partitions: vec![TxnOffsetCommitRequestPartition { committed_offset: 8, ..Default::default() }],
    });
    let request = TxnOffsetCommitRequest {
        transactional_id: ID.to_owned(),
        group_id: GROUP.to_owned(),
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        topics: topics.collect(),
        ..Default::default()
    };
    let answer = txn_offset_commit::handle(broker, context, request).await;
    answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
}

#[tokio::test]
async fn transactions_take_offsets_with_write_on_the_id_and_read_on_group_and_topic() {
    let broker = start().await;
    let producer = TestProducer::init(&broker, ID, V1).await;
    let add = async || {
        let request = AddOffsetsToTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            group_id: GROUP.to_owned(),
        };
        vec![add_offsets_to_txn::handle(&broker, &alice(4), request).await.error_code]
    };
    assert_eq!(denied_until(&broker, &[WRITE_ID, READ_GROUP], add).await, codes([NONE]));
    for (operation, resource_type, name, _) in [WRITE_ID, READ_GROUP] {
        revoke(&broker, operation, resource_type, name).await;
    }
    let ask = async || commit_in_transaction(&broker, &alice(3), &producer, &[TOPIC]).await;
    assert_eq!(denied_until(&broker, &[WRITE_ID, READ_GROUP, READ_TOPIC], ask).await, codes([NONE]));
    let mixed = commit_in_transaction(&broker, &alice(3), &producer, &[HIDDEN, TOPIC]).await;
    assert_eq!(mixed, [NONE, TOPIC_DENIED]);
    revoke(&broker, AclOperation::Write, ResourceType::TransactionalId, ID).await;

    let end = async || {
        let request = EndTxnRequest {
            transactional_id: ID.to_owned(),
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            committed: true,
        };
        vec![end_txn::handle(&broker, &alice(4), request).await.error_code]
    };
    assert_eq!(denied_until(&broker, &[WRITE_ID], end).await, codes([NONE]));
}

#[tokio::test]
async fn markers_are_written_with_alter_or_cluster_action() {
    let alter = (AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME, CLUSTER_DENIED);
    for needed in [alter, CLUSTER_ACTION] {
        let broker = start().await;
        let ask = async || -> Vec<ErrorCode> {
            let topic = WritableTxnMarkerTopic { name: TOPIC.to_owned(), partition_indexes: vec![0, 1] };
            let marker = WritableTxnMarker { producer_id: 5, topics: vec![topic], ..Default::default() };
            let request = WriteTxnMarkersRequest { markers: vec![marker.clone(), marker] };
            let answer = write_txn_markers::handle(&broker, &alice(1), request).await;
            let topics = answer.markers.iter().flat_map(|marker| &marker.topics);
            topics.flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
        };
        let end = || broker.partitions.find_by_name(TOPIC, 0).map(|partition| partition.view().log_end_offset());
        assert_eq!(ask().await, [CLUSTER_DENIED; 4]);
        assert_eq!(end(), Ok(0));
        assert_eq!(denied_until(&broker, &[needed], ask).await, codes([NONE]));
        assert_eq!(end(), Ok(2));
    }
}

#[tokio::test]
async fn transactions_are_described_with_describe_without_hidden_topics() {
    let broker = start().await;
    let producer = TestProducer::init(&broker, ID, V1).await;
    assert_eq!(add_partitions(&broker, &context(3), &producer, &[TOPIC, HIDDEN]).await, [NONE; 2]);
    let describe = async |ids: &[&str]| {
        let transactional_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let request = DescribeTransactionsRequest { transactional_ids };
        describe_transactions::handle(&broker, &alice(0), request).await.transaction_states
    };
    let ask = async || vec![describe(&[ID]).await[0].error_code];
    assert_eq!(denied_until(&broker, &[DESCRIBE_ID], ask).await, codes([NONE]));
    let described = describe(&["missing", ID, "missing"]).await;
    let told: Vec<_> = described.iter().map(|state| (&*state.transactional_id, state.error_code)).collect();
    assert_eq!(told, [(ID, NONE), ("missing", ID_DENIED)]);
    assert!(described[0].topics.is_empty());
    grant(&broker, AclOperation::Describe, ResourceType::Topic, TOPIC).await;
    let described = describe(&[ID]).await;
    assert_eq!(described[0].topics.iter().map(|topic| &*topic.topic).collect::<Vec<_>>(), [TOPIC]);
}

#[tokio::test]
async fn transactions_are_listed_that_may_be_described() {
    let broker = start().await;
    TestProducer::init(&broker, ID, V1).await;
    TestProducer::init(&broker, "other", V1).await;
    let list = async || {
        let answer = list_transactions::handle(&broker, &alice(2), ListTransactionsRequest::default()).await;
        assert_eq!(answer.error_code, NONE);
        answer.transaction_states.into_iter().map(|state| state.transactional_id).collect::<Vec<_>>()
    };
    assert_eq!(list().await, [""; 0]);
    grant(&broker, AclOperation::Write, ResourceType::TransactionalId, ID).await;
    assert_eq!(list().await, [ID]);
}

async fn producers_of(broker: &TestBroker, context: &RequestContext, name: &str) -> Vec<ErrorCode> {
    let topic = TopicRequest { name: name.to_owned(), partition_indexes: vec![0] };
    let answer = describe_producers::handle(broker, context, DescribeProducersRequest { topics: vec![topic] }).await;
    answer.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| partition.error_code).collect()
}

#[tokio::test]
async fn producers_are_described_with_read_on_the_topic() {
    let broker = start().await;
    let ask = async || producers_of(&broker, &alice(0), TOPIC).await;
    assert_eq!(denied_until(&broker, &[READ_TOPIC], ask).await, codes([NONE]));
    // What is no name is said to everybody.
    assert_eq!(producers_of(&broker, &alice(0), "a/b").await, [ErrorCode::INVALID_TOPIC_EXCEPTION]);
}
