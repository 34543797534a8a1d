//! What the fields of the requests say, and what they find: a topic with records, a group with large members, and one
//! with offsets that have much metadata.

use bytes::Bytes;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::api::{self, Request};
use wire::batch::BatchBuilder;
use wire::sample::Values;
use wire::{ErrorCode, Records, Uuid};

use crate::common::{TestBroker, TestClient};

const TOPIC: &str = "a-topic-of-usual-length";
const MEMBERS: &str = "a-group-with-members";
const OFFSETS: &str = "a-group-with-offsets";
/// Of a member's metadata, and of its assignment.
const MEMBER_BYTES: usize = 200_000;
/// As much as `offset.metadata.max.bytes` allows.
const OFFSET_METADATA_BYTES: usize = 4_096;
/// Small enough to be copied into a Fetch's answer.
const RECORD_BYTES: usize = 3_000;

/// What the requests are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Topics,
    Brokers,
    /// Names are as long as they get, and of nothing that exists.
    LongNames,
}

impl Variant {
    pub(crate) const ALL: [Self; 3] = [Self::Topics, Self::Brokers, Self::LongNames];
}

pub(crate) struct Fixture {
    topic_id: Uuid,
}

impl Fixture {
    pub(crate) fn make(broker: &TestBroker) -> Self {
        let mut client = broker.connect();
        let topic =
            CreatableTopic { name: TOPIC.to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
        let created =
            client.ask(&CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() });
        let topic_id = created.topics[0].topic_id;
        produce(&mut client);
        make_group(&mut client);
        commit(&mut client);
        Self { topic_id }
    }

    pub(crate) fn values(&self, key: i16, variant: Variant) -> Fields {
        Fields { key, variant, topic_id: self.topic_id }
    }
}

fn produce(client: &mut TestClient) {
    let mut batch = BatchBuilder::new();
    batch.push(1, None, Some(&[7; RECORD_BYTES]), &[]);
    let partition = PartitionProduceData { index: 0, records: Some(Records::Inline(batch.build().bytes)) };
    let topic = TopicProduceData { name: TOPIC.to_owned(), partition_data: vec![partition], ..Default::default() };
    let request = ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() };
    let answer = client.call(9, &request);
    assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
}

fn make_group(client: &mut TestClient) {
    let coordinator = FindCoordinatorRequest { key: MEMBERS.to_owned(), ..Default::default() };
    while !client.call(1, &coordinator).error_code.is_none() {}
    let protocol = JoinGroupRequestProtocol { name: "range".to_owned(), metadata: vec![0; MEMBER_BYTES].into() };
    let request = JoinGroupRequest {
        group_id: MEMBERS.to_owned(),
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..Default::default()
    };
    let joined = loop {
        let joined: JoinGroupResponse = client.call(3, &request);
        if joined.error_code.is_none() {
            break joined;
        }
        assert!(joined.error_code.is_retriable(), "{}", joined.error_code);
    };
    let assignment =
        SyncGroupRequestAssignment { member_id: joined.member_id.clone(), assignment: vec![0; MEMBER_BYTES].into() };
    let request = SyncGroupRequest {
        group_id: MEMBERS.to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id,
        assignments: vec![assignment],
        ..Default::default()
    };
    assert_eq!(client.call(3, &request).error_code, ErrorCode::NONE);
}

fn commit(client: &mut TestClient) {
    let partition = OffsetCommitRequestPartition {
        committed_offset: 1,
        committed_metadata: Some("m".repeat(OFFSET_METADATA_BYTES)),
        ..Default::default()
    };
    let topic = OffsetCommitRequestTopic { name: TOPIC.to_owned(), partitions: vec![partition], ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: OFFSETS.to_owned(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    };
    loop {
        let error_code = client.call(7, &request).topics[0].partitions[0].error_code;
        if error_code.is_none() {
            return;
        }
        assert!(error_code.is_retriable(), "{error_code}");
    }
}

/// The fields of the requests of one API.
pub(crate) struct Fields {
    key: i16,
    variant: Variant,
    topic_id: Uuid,
}

impl Fields {
    fn is<R: Request>(&self) -> bool {
        self.key == R::API.key
    }

    /// Of what is not there: the request must leave things as they are for those that follow.
    fn is_about_nothing(&self) -> bool {
        self.is::<CreateTopicsRequest>()
            || self.is::<api::delete_topics::DeleteTopicsRequest>()
            || self.is::<api::delete_groups::DeleteGroupsRequest>()
            || self.is::<api::offset_delete::OffsetDeleteRequest>()
    }
}

impl Values for Fields {
    fn text(&self, field: &'static str) -> String {
        match field {
            _ if self.variant == Variant::LongNames && field != "protocol_type" => "x".repeat(20_000),
            "protocol_type" => "consumer".to_owned(),
            "client_software_name" | "client_software_version" => "test".to_owned(),
            _ if self.is_about_nothing() => "absent".to_owned(),
            "resource_name" if self.variant == Variant::Brokers => "1".to_owned(),
            "configuration_keys" => "retention.ms".to_owned(),
            "key" | "coordinator_keys" | "groups" => MEMBERS.to_owned(),
            "group_id" if self.is::<api::offset_fetch::OffsetFetchRequest>() => OFFSETS.to_owned(),
            "group_id" if self.is::<OffsetCommitRequest>() => OFFSETS.to_owned(),
            "group_id" if self.is::<JoinGroupRequest>() => "a-group-to-join".to_owned(),
            "group_id" => MEMBERS.to_owned(),
            "member_id" if self.is::<JoinGroupRequest>() => String::new(),
            "member_id" => "a-member-that-is-not-there".to_owned(),
            _ => TOPIC.to_owned(),
        }
    }

    fn number(&self, field: &'static str) -> i64 {
        match field {
            "acks" | "min_bytes" | "committed_offset" | "num_partitions" | "replication_factor" | "count" => 1,
            "validate_only" | "include_synonyms" | "include_documentation" | "port" => 1,
            "timeout_ms" => 500,
            "session_timeout_ms" => 6_000,
            "rebalance_timeout_ms" => 100,
            "max_bytes" | "partition_max_bytes" | "response_partition_limit" => 1 << 26,
            "replica_id" | "replica_epoch" | "session_epoch" | "timestamp" | "retention_time_ms" => -1,
            "generation_id_or_member_epoch" | "generation_id" => -1,
            _ if field.ends_with("leader_epoch") => -1,
            "broker_id" | "voter_id" | "broker_ids" => 99,
            "resource_type" | "resource_types" => match self.variant {
                Variant::Brokers => 4,
                Variant::Topics | Variant::LongNames => 2,
            },
            _ => 0,
        }
    }

    fn bytes(&self, field: &'static str) -> Bytes {
        match field {
            "records" => Bytes::new(),
            _ => Bytes::from_static(b"bytes"),
        }
    }

    fn id(&self, _: &'static str) -> Uuid {
        let names_by_id = self.is::<ProduceRequest>()
            || self.is::<api::fetch::FetchRequest>()
            || self.is::<OffsetCommitRequest>()
            || self.is::<api::offset_fetch::OffsetFetchRequest>();
        if names_by_id { self.topic_id } else { Uuid::ZERO }
    }
}
