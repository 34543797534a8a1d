//! AddPartitionsToTxn (key 24), versions 0-5: the partitions that a transaction writes to (KIP-98, KIP-890).
//!
//! Behaviour:
//! - Up to version 3 a producer adds them before it writes. If one of them does not exist it is refused, and the
//!   others are OPERATION_NOT_ATTEMPTED.
//! - From version 4 on the brokers that are written to add partitions for producers, or ask whether they were added,
//!   for many transactions at once. Anybody may: version 3 lets a client do as much.

use std::sync::Arc;

use wire::api::add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use super::RequestContext;
use crate::Broker;

const OF_BROKERS_SINCE: i16 = 4;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    if context.api_version < OF_BROKERS_SINCE {
        return broker.transactions.add_partitions(context.api_version, request).await;
    }
    broker.transactions.add_partitions_batch(request).await
}
