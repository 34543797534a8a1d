//! WriteTxnMarkers (key 27), versions 1-2, flexible since 1.

use crate::ErrorCode;

crate::message! {
    pub struct WriteTxnMarkersRequest {
        markers: Vec<WritableTxnMarker>, 0..;
    }

    pub struct WritableTxnMarker {
        producer_id: i64, 0..;
        producer_epoch: i16, 0..;
        /// Whether the transaction commits.
        transaction_result: bool, 0..;
        topics: Vec<WritableTxnMarkerTopic>, 0..;
        coordinator_epoch: i32, 0..;
        transaction_version: i8, 2..;
    }

    pub struct WritableTxnMarkerTopic {
        name: String, 0..;
        partition_indexes: Vec<i32>, 0..;
    }

    pub struct WriteTxnMarkersResponse {
        markers: Vec<WritableTxnMarkerResult>, 0..;
    }

    pub struct WritableTxnMarkerResult {
        producer_id: i64, 0..;
        topics: Vec<WritableTxnMarkerTopicResult>, 0..;
    }

    pub struct WritableTxnMarkerTopicResult {
        name: String, 0..;
        partitions: Vec<WritableTxnMarkerPartitionResult>, 0..;
    }

    pub struct WritableTxnMarkerPartitionResult {
        partition_index: i32, 0..;
        error_code: ErrorCode, 0..;
    }
}
