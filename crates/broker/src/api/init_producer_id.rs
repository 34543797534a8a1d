//! InitProducerId (key 22), versions 0-5: an id for an idempotent producer, or for one with transactions.
//!
//! Behaviour:
//! - Needs: WRITE on the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). Without one IDEMPOTENT_WRITE on the
//!   cluster, or WRITE on any topic there could be (CLUSTER_AUTHORIZATION_FAILED).
//! - Without a transactional id each answer has an id that was never given before, also for a producer that sends the
//!   id and epoch it has (KIP-360). An id without an epoch, or the other way round, is INVALID_REQUEST.
//! - A transactional id keeps its producer id, and gets a new epoch, which fences who had the one before. A transaction
//!   that is open is aborted first; until then the answer is CONCURRENT_TRANSACTIONS.

use std::sync::Arc;

use metadata::acl::{AclOperation, CLUSTER_NAME, ResourceType};
use wire::ErrorCode;
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::RequestContext;
use super::access::Access;
use crate::Broker;

/// In place of the epoch, where there is no producer id.
const NO_EPOCH: i16 = -1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if let Err(error_code) = check(&context.access(broker), request.transactional_id.as_deref()) {
        return InitProducerIdResponse { error_code, producer_epoch: NO_EPOCH, ..Default::default() };
    }
    broker.transactions.init_producer_id(context.api_version, context.client_address.ip(), request).await
}

/// Whether the client may have an id.
fn check(access: &Access<'_>, transactional_id: Option<&str>) -> Result<(), ErrorCode> {
    if let Some(transactional_id) = transactional_id {
        return access.check_transactional_id(AclOperation::Write, transactional_id);
    }
    let may_write = access.shows(AclOperation::IdempotentWrite, ResourceType::Cluster, CLUSTER_NAME)
        || access.any(AclOperation::Write, ResourceType::Topic);
    may_write.then_some(()).ok_or(ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
}
