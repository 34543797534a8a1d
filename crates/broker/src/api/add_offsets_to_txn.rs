//! AddOffsetsToTxn (key 25), versions 0-4: a transaction commits offsets of a group (KIP-447).

use std::sync::Arc;

use wire::api::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    broker.transactions.add_offsets(context.api_version, request).await
}
