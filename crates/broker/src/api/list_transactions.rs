//! ListTransactions (key 66), versions 0-2: the transactional ids of which this broker is the coordinator (KIP-664,
//! KIP-994, KIP-1152).
//!
//! Behaviour:
//! - By state, producer, age and a regular expression that the whole id has to match. States that are unknown are named
//!   in the answer; an expression that is none is INVALID_REGULAR_EXPRESSION.

use std::sync::Arc;

use wire::api::list_transactions::{ListTransactionsRequest, ListTransactionsResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    const DURATION_SINCE: i16 = 1;
    if context.api_version < DURATION_SINCE {
        request.duration_filter = -1;
    }
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    broker.transactions.list(&request)
}
