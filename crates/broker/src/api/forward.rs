//! Forward (key 124), version 0, ours: a request that another broker sends to the active controller.
//!
//! Behaviour:
//! - Whoever is not the active controller answers NOT_CONTROLLER, and the sender looks for the one that is.
//! - Only members of the cluster may, and on their own behalf only in their own name: the others are told
//!   CLUSTER_AUTHORIZATION_FAILED.
//! - A Forward is a sign of life of the broker that sends it, unless that is still about to register: then another
//!   process may be the broker of its number.

use std::sync::Arc;

use wire::api::forward::{ForwardRequest, ForwardResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(broker: &Arc<Broker>, context: &RequestContext, request: ForwardRequest) -> ForwardResponse {
    match broker.senders.check(&request.sender, context.client_address).await {
        Ok(()) => broker.controller.answer(request).await,
        Err(error_code) => ForwardResponse { error_code, ..Default::default() },
    }
}
