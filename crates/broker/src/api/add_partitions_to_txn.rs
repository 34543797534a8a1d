//! AddPartitionsToTxn (key 24), versions 0-5: the partitions that a transaction writes to (KIP-98, KIP-890).
//!
//! Behaviour:
//! - Up to version 3 a producer adds them before it writes. If one of them does not exist it is refused, and the
//!   others are OPERATION_NOT_ATTEMPTED. The same with those of internal topics, which producers do not write to:
//!   TOPIC_AUTHORIZATION_FAILED.
//! - From version 4 on the brokers that are written to add partitions for producers, or ask whether they were added,
//!   for many transactions at once.
//! - Needs: up to version 3 WRITE on the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, of all partitions)
//!   and on each topic (TOPIC_AUTHORIZATION_FAILED, and none is added). From version 4 on CLUSTER_ACTION
//!   (CLUSTER_AUTHORIZATION_FAILED, of the whole request). Without an authorizer anybody may: version 3 lets a client
//!   do as much.

use std::sync::Arc;

use metadata::acl::AclOperation;
use metadata::is_internal;
use wire::ErrorCode;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
};

use super::RequestContext;
use crate::Broker;

const OF_BROKERS_SINCE: i16 = 4;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let access = context.access(broker);
    if context.api_version >= OF_BROKERS_SINCE {
        if let Err(error_code) = access.check_cluster(AclOperation::ClusterAction) {
            return AddPartitionsToTxnResponse { error_code, ..Default::default() };
        }
        return broker.transactions.add_partitions_batch(request).await;
    }
    if let Err(error_code) = access.check_transactional_id(AclOperation::Write, &request.transactional_id) {
        let results_by_topic = request.topics.into_iter().map(|topic| refuse(topic, |_, _| error_code)).collect();
        return AddPartitionsToTxnResponse { results_by_topic, ..Default::default() };
    }
    let may_write =
        |topic: &AddPartitionsToTxnTopic| !is_internal(&topic.name) && access.topic(AclOperation::Write, &topic.name);
    let granted: Vec<bool> = request.topics.iter().map(may_write).collect();
    if granted.iter().all(|is_granted| *is_granted) {
        return broker.transactions.add_partitions(context.api_version, request).await;
    }
    let image = broker.metadata.load();
    let refuse_one = |(topic, is_granted): (AddPartitionsToTxnTopic, bool)| {
        refuse(topic, |name, partition| match image.partition(name, partition) {
            _ if !is_granted => ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Some(_) => ErrorCode::OPERATION_NOT_ATTEMPTED,
        })
    };
    let results_by_topic = request.topics.into_iter().zip(granted).map(refuse_one).collect();
    AddPartitionsToTxnResponse { results_by_topic, ..Default::default() }
}

/// Adds none of a topic's partitions (`KafkaApis.handleAddPartitionsToTxnRequest`).
fn refuse(topic: AddPartitionsToTxnTopic, error: impl Fn(&str, i32) -> ErrorCode) -> AddPartitionsToTxnTopicResult {
    let results = topic.partitions.iter().map(|&partition_index| AddPartitionsToTxnPartitionResult {
        partition_index,
        partition_error_code: error(&topic.name, partition_index),
    });
    let results_by_partition = results.collect();
    AddPartitionsToTxnTopicResult { name: topic.name, results_by_partition }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_producer::{TOPIC, TestProducer, V1, start};
    use crate::api::test_support::context;

    const INVALID: ErrorCode = ErrorCode::INVALID_REQUEST;

    /// The error of each partition, in the order of the request.
    async fn codes(broker: &Arc<Broker>, version: i16, request: AddPartitionsToTxnRequest) -> Vec<ErrorCode> {
        let answer = handle(broker, &context(version), request).await;
        let results = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
        results.map(|result| result.partition_error_code).collect()
    }

    fn topic(name: &str, partitions: &[i32]) -> AddPartitionsToTxnTopic {
        AddPartitionsToTxnTopic { name: name.to_owned(), partitions: partitions.to_vec() }
    }

    #[tokio::test]
    async fn all_partitions_are_added_or_none() {
        let broker = start(0).await;
        let producer = TestProducer::init(&broker, "id", V1).await;
        let ask = async |topics| {
            codes(&broker, 3, AddPartitionsToTxnRequest { topics, ..producer.add_request(TOPIC, &[]) }).await
        };
        let (unknown, forbidden, left) = (
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            ErrorCode::OPERATION_NOT_ATTEMPTED,
        );
        assert_eq!(ask(vec![topic(TOPIC, &[0, 2, -1]), topic("", &[0])]).await, [left, unknown, unknown, unknown]);
        for internal in ["__transaction_state", "__consumer_offsets"] {
            let topics = vec![topic(TOPIC, &[0, 5]), topic(internal, &[0, 9])];
            assert_eq!(ask(topics).await, [left, unknown, forbidden, forbidden], "{internal}");
        }
        assert_eq!(producer.end_in(4, true).await.error_code, ErrorCode::INVALID_TXN_STATE, "none has begun");
        let none = ErrorCode::NONE;
        assert_eq!(ask(vec![topic(TOPIC, &[0, 0]), topic(TOPIC, &[1, 0])]).await, [none; 4]);
        assert_eq!(ask(vec![]).await, []);
    }

    #[tokio::test]
    async fn a_producer_that_does_not_have_the_id_adds_nothing() {
        let broker = start(0).await;
        let older = TestProducer::init(&broker, "id", V1).await;
        let newer = TestProducer::init(&broker, "id", V1).await;
        let request = newer.add_request(TOPIC, &[0]);
        let (mapping, fenced) = (ErrorCode::INVALID_PRODUCER_ID_MAPPING, ErrorCode::PRODUCER_FENCED);
        for (request, version, code) in [
            (older.add_request(TOPIC, &[0]), 1, ErrorCode::INVALID_PRODUCER_EPOCH),
            (older.add_request(TOPIC, &[0]), 2, fenced),
            (AddPartitionsToTxnRequest { producer_epoch: i16::MAX, ..request.clone() }, 3, fenced),
            (AddPartitionsToTxnRequest { producer_epoch: -1, ..request.clone() }, 3, fenced),
            (AddPartitionsToTxnRequest { producer_id: -1, ..request.clone() }, 3, mapping),
            (AddPartitionsToTxnRequest { producer_id: i64::MIN, ..request.clone() }, 3, mapping),
            (AddPartitionsToTxnRequest { transactional_id: "new".to_owned(), ..request.clone() }, 3, mapping),
            (AddPartitionsToTxnRequest { transactional_id: String::new(), ..request.clone() }, 3, INVALID),
            (AddPartitionsToTxnRequest { transactional_id: "x".repeat(30_000), ..request.clone() }, 3, INVALID),
            (request, 3, ErrorCode::NONE),
        ] {
            let asked = format!("{version} {} {}", request.producer_id, request.producer_epoch);
            assert_eq!(codes(&broker, version, request).await, [code], "{asked}");
        }
    }
}
