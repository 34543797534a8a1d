//! AddOffsetsToTxn (key 25), versions 0-4: a transaction commits offsets of a group (KIP-447).
//!
//! Behaviour:
//! - Needs: WRITE on the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED) and READ on the group
//!   (GROUP_AUTHORIZATION_FAILED).

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::api::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let access = context.access(broker);
    let granted = access.check_transactional_id(AclOperation::Write, &request.transactional_id);
    let granted = granted.and_then(|()| access.check_group(AclOperation::Read, &request.group_id));
    if let Err(error_code) = granted {
        return AddOffsetsToTxnResponse { error_code, ..Default::default() };
    }
    broker.transactions.add_offsets(context.api_version, request).await
}
