//! Forward (key 124), versions 0-1, ours: a request that another broker sends to the active controller.
//!
//! Behaviour:
//! - A node that is not the active controller answers NOT_CONTROLLER, and the sender looks for the active one.
//! - Only members of the cluster may send one, and what a broker asks for itself comes from that broker alone: else
//!   CLUSTER_AUTHORIZATION_FAILED.
//! - What a client asks for is decided by its ACLs as the controller knows them; `is_client_denied` says that they have
//!   refused it. An authorizer takes no version 0, which does not name the client (UNSUPPORTED_VERSION), and no client
//!   without a name and an address (PRINCIPAL_DESERIALIZATION_FAILURE).
//! - A Forward is a sign of life of the broker that sends it. Before the broker has registered it is none, as another
//!   process may have its id.

use std::sync::Arc;

use wire::api::forward::{ForwardRequest, ForwardResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(broker: &Arc<Broker>, context: &RequestContext, request: ForwardRequest) -> ForwardResponse {
    match broker.senders.check(&request.sender, context.origin()).await {
        Ok(()) => broker.controller.answer(context.api_version, request).await,
        Err(error_code) => ForwardResponse { error_code, ..Default::default() },
    }
}
