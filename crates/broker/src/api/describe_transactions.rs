//! DescribeTransactions (key 65), version 0: transactions of which this broker is the coordinator (KIP-664).
//!
//! Behaviour:
//! - With the partitions that the transaction has written to so far. An id that is named twice is described once.
//! - An id that nobody has used is TRANSACTIONAL_ID_NOT_FOUND.

use std::sync::Arc;

use wire::api::describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    broker.transactions.describe(request)
}
