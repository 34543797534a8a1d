//! EndTxn (key 26), versions 0-5: commit or abort (KIP-98, KIP-890).
//!
//! Behaviour:
//! - Answered when the decision is durable. The markers follow: until they are written, what would begin the next
//!   transaction is CONCURRENT_TRANSACTIONS.
//! - From version 5 on each transaction has its own epoch; the answer has the next one.

use std::sync::Arc;

use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(broker: &Arc<Broker>, context: &RequestContext, request: EndTxnRequest) -> EndTxnResponse {
    broker.transactions.end_txn(context.api_version, request).await
}
