//! EndTxn (key 26), versions 0-5: commit or abort (KIP-98, KIP-890).
//!
//! Behaviour:
//! - Needs: WRITE on the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED).
//! - Answered when the decision is durable. The markers follow: until they are written, what would begin the next
//!   transaction is CONCURRENT_TRANSACTIONS.
//! - From version 5 on each transaction has its own epoch; the answer has the next one.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(broker: &Arc<Broker>, context: &RequestContext, request: EndTxnRequest) -> EndTxnResponse {
    let granted = context.access(broker).check_transactional_id(AclOperation::Write, &request.transactional_id);
    if let Err(error_code) = granted {
        return EndTxnResponse { error_code, ..Default::default() };
    }
    broker.transactions.end_txn(context.api_version, request).await
}
