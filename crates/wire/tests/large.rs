//! What a large cluster really says is read: the bound on memory is for what nobody says.

use bytes::{Bytes, BytesMut};
use wire::api::Request;
use wire::api::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::api::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
};
use wire::api::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use wire::api::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::api::produce::{PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse};
use wire::{Reader, Records, Wire, Writer};

const TOPICS: usize = 5000;

fn check<R: Request>(message: &(impl Wire + PartialEq)) {
    for version in R::API.versions {
        let mut out = BytesMut::new();
        message.write(&mut Writer::new(&mut out, version, R::API.flexible(version)));
        let bytes: Bytes = out.freeze();
        let read = read_as(message, &bytes, version, R::API.flexible(version));
        assert!(read.is_ok(), "{} {version}: {:?}", R::API.name, read.err());
    }
}

fn read_as<T: Wire>(_: &T, bytes: &Bytes, version: i16, flexible: bool) -> wire::codec::Result<T> {
    T::read(&mut Reader::new(bytes, version, flexible))
}

fn each<T>(mut make: impl FnMut(String) -> T) -> Vec<T> {
    (0..TOPICS).map(|i| make(format!("topic-{i}"))).collect()
}

#[test]
fn metadata() {
    let partition = MetadataResponsePartition { replica_nodes: vec![1], isr_nodes: vec![1], ..Default::default() };
    check::<MetadataRequest>(&MetadataRequest {
        topics: Some(each(|name| MetadataRequestTopic { name: Some(name), ..Default::default() })),
        ..Default::default()
    });
    check::<MetadataRequest>(&MetadataResponse {
        topics: each(|name| MetadataResponseTopic {
            name: Some(name),
            partitions: vec![partition.clone()],
            ..Default::default()
        }),
        ..Default::default()
    });
}

#[test]
fn fetch() {
    check::<FetchRequest>(&FetchRequest {
        topics: each(|topic| FetchTopic {
            topic,
            partitions: vec![FetchPartition::default(); 3],
            ..Default::default()
        }),
        ..Default::default()
    });
    let partition = PartitionData { records: Some(Records::Inline(Bytes::new())), ..Default::default() };
    check::<FetchRequest>(&FetchResponse {
        responses: each(|topic| FetchableTopicResponse {
            topic,
            partitions: vec![partition.clone(); 3],
            ..Default::default()
        }),
        ..Default::default()
    });
}

#[test]
fn produce() {
    check::<ProduceRequest>(&ProduceResponse {
        responses: each(|name| TopicProduceResponse {
            name,
            partition_responses: vec![PartitionProduceResponse::default(); 3],
            ..Default::default()
        }),
        ..Default::default()
    });
}

#[test]
fn administration() {
    check::<DeleteTopicsRequest>(&DeleteTopicsResponse {
        responses: each(|name| DeletableTopicResult { name: Some(name), ..Default::default() }),
        ..Default::default()
    });
    let config =
        DescribeConfigsResourceResult { name: "a.setting".into(), value: Some("7".into()), ..Default::default() };
    check::<DescribeConfigsRequest>(&DescribeConfigsResponse {
        results: each(|resource_name| DescribeConfigsResult {
            resource_name,
            configs: vec![config.clone(); 3],
            ..Default::default()
        }),
        ..Default::default()
    });
    check::<ListGroupsRequest>(&ListGroupsResponse {
        groups: each(|group_id| ListedGroup { group_id, ..Default::default() }),
        ..Default::default()
    });
    check::<OffsetFetchRequest>(&OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            topics: Some(each(|name| OffsetFetchRequestTopics {
                name,
                partition_indexes: vec![0],
                ..Default::default()
            })),
            ..Default::default()
        }],
        ..Default::default()
    });
}
