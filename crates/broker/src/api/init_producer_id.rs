//! InitProducerId (key 22), versions 0-5: an id for an idempotent producer, or for one with transactions.
//!
//! Behaviour:
//! - Without a transactional id each answer has an id that was never given before, also for a producer that sends the
//!   id and epoch it has (KIP-360). An id without an epoch, or the other way round, is INVALID_REQUEST.
//! - A transactional id keeps its producer id, and gets a new epoch, which fences who had the one before. A transaction
//!   that is open is aborted first; until then the answer is CONCURRENT_TRANSACTIONS.

use std::sync::Arc;

use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    broker.transactions.init_producer_id(context.api_version, context.client_address.ip(), request).await
}
