//! WriteTxnMarkers (key 27), versions 1-2: the ends of transactions in partitions that this broker leads (KIP-98).
//!
//! Behaviour:
//! - Sent by the coordinators of transactions, and by administrators to end a transaction that no coordinator knows
//!   (`kafka-transactions.sh abort`, KIP-664).
//! - Each partition is answered for itself, when its marker is replicated; in `__consumer_offsets` when the offsets of
//!   the transaction are those of their groups, too.

use std::sync::Arc;

use wire::api::write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _: &RequestContext,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    broker.marker_writer.write(request).await
}
