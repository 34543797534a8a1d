//! WriteTxnMarkers (key 27), versions 1-2: the ends of transactions in partitions that this broker leads (KIP-98).
//!
//! Behaviour:
//! - Needs: ALTER or CLUSTER_ACTION on the cluster (CLUSTER_AUTHORIZATION_FAILED, of all partitions).
//! - Sent by the coordinators of transactions, and by administrators to end a transaction that no coordinator knows
//!   (`kafka-transactions.sh abort`, KIP-664).
//! - Each partition is answered for itself, when its marker is replicated; in `__consumer_offsets` when the offsets of
//!   the transaction are those of their groups, too.
//! - A request with a marker of no producer, which has a negative id or epoch, is INVALID_REQUEST as a whole.

use std::sync::Arc;

use metadata::acl::{AclOperation, CLUSTER_NAME, ResourceType};
use wire::ErrorCode;
use wire::api::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let access = context.access(broker);
    if !access.shows(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
        && let Err(error_code) = access.check_cluster(AclOperation::ClusterAction)
    {
        return refuse_all(request, error_code);
    }
    if request.markers.iter().any(|marker| marker.producer_id < 0 || marker.producer_epoch < 0) {
        return refuse_all(request, ErrorCode::INVALID_REQUEST);
    }
    broker.marker_writer.write(request).await
}

fn refuse_all(request: WriteTxnMarkersRequest, error_code: ErrorCode) -> WriteTxnMarkersResponse {
    let markers = request.markers.into_iter().map(|marker| refuse(marker, error_code)).collect();
    WriteTxnMarkersResponse { markers }
}

fn refuse(marker: WritableTxnMarker, error_code: ErrorCode) -> WritableTxnMarkerResult {
    let refuse_all = |partition_indexes: Vec<i32>| {
        let indexes = partition_indexes.into_iter();
        indexes.map(|partition_index| WritableTxnMarkerPartitionResult { partition_index, error_code }).collect()
    };
    let topics = marker.topics.into_iter().map(|topic| WritableTxnMarkerTopicResult {
        name: topic.name,
        partitions: refuse_all(topic.partition_indexes),
    });
    WritableTxnMarkerResult { producer_id: marker.producer_id, topics: topics.collect() }
}

#[cfg(test)]
mod tests {
    use wire::api::fetch::AbortedTransaction;
    use wire::api::write_txn_markers::WritableTxnMarkerTopic;

    use super::*;
    use crate::api::test_producer::{TOPIC, TestProducer, V1, consume, headers, start};
    use crate::api::test_support::context;

    fn marker(producer_id: i64, producer_epoch: i16, topics: &[(&str, &[i32])]) -> WritableTxnMarker {
        let topics = topics.iter().map(|(name, partitions)| WritableTxnMarkerTopic {
            name: (*name).to_owned(),
            partition_indexes: partitions.to_vec(),
        });
        WritableTxnMarker { producer_id, producer_epoch, topics: topics.collect(), ..Default::default() }
    }

    /// The errors of each marker's partitions.
    async fn write(broker: &Arc<Broker>, markers: Vec<WritableTxnMarker>) -> Vec<Vec<ErrorCode>> {
        let answer = handle(broker, &context(1), WriteTxnMarkersRequest { markers }).await;
        let errors = |result: WritableTxnMarkerResult| {
            let partitions = result.topics.into_iter().flat_map(|topic| topic.partitions);
            partitions.map(|partition| partition.error_code).collect()
        };
        answer.markers.into_iter().map(errors).collect()
    }

    #[tokio::test]
    async fn an_administrator_ends_a_transaction_that_hangs() {
        let broker = start(0).await;
        let mut producer = TestProducer::init(&broker, "id", V1).await;
        assert_eq!((producer.add(&[0]).await, producer.produce(0).await), (ErrorCode::NONE, ErrorCode::NONE));
        let (id, epoch) = (producer.producer_id, producer.producer_epoch);
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let markers = vec![
            marker(id, epoch, &[(TOPIC, &[2, 0]), ("nope", &[0])]),
            marker(id + 1, 0, &[("__consumer_offsets", &[0, 1])]),
        ];
        assert_eq!(
            write(&broker, markers).await,
            [vec![unknown, ErrorCode::NONE, unknown], vec![ErrorCode::NONE, unknown]]
        );
        let told = consume(&broker, 1, 0, 0, false).await;
        assert_eq!((headers(&told).len(), told.last_stable_offset), (2, 2));
        let aborted = AbortedTransaction { producer_id: id, first_offset: 0 };
        assert_eq!(told.aborted_transactions, Some(vec![aborted]));
        assert_eq!(producer.produce(0).await, ErrorCode::NONE, "the coordinator still has the transaction");
    }

    #[tokio::test]
    async fn markers_of_no_producer_are_not_written() {
        let broker = start(0).await;
        for (producer_id, producer_epoch) in [(-1, -1), (-1, 0), (i64::MIN, 0), (5, -1), (5, i16::MIN)] {
            let places: [(&str, &[i32]); 2] = [(TOPIC, &[0]), ("__consumer_offsets", &[0])];
            let markers = vec![marker(5, 0, &places), marker(producer_id, producer_epoch, &places)];
            let invalid = vec![ErrorCode::INVALID_REQUEST; 2];
            assert_eq!(write(&broker, markers).await, [invalid.clone(), invalid], "{producer_id} {producer_epoch}");
        }
        assert_eq!(consume(&broker, 0, 0, 0, false).await.high_watermark, 0);
    }

    #[tokio::test]
    async fn a_marker_of_an_older_producer_is_refused() {
        let broker = start(0).await;
        TestProducer::init(&broker, "id", V1).await;
        let mut producer = TestProducer::init(&broker, "id", V1).await;
        assert_eq!((producer.add(&[0]).await, producer.produce(0).await), (ErrorCode::NONE, ErrorCode::NONE));
        let late = marker(producer.producer_id, producer.producer_epoch - 1, &[(TOPIC, &[0])]);
        assert_eq!(write(&broker, vec![late]).await, [[ErrorCode::INVALID_PRODUCER_EPOCH]]);
        assert_eq!(consume(&broker, 1, 0, 0, false).await.last_stable_offset, 0);
    }
}
