//! UnregisterBroker (key 64), version 0: remove the registration of a broker.
//!
//! Behaviour:
//! - Needs: ALTER on the cluster (CLUSTER_AUTHORIZATION_FAILED).

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse {
    context.ask_controller(broker, request).await.unwrap_or_else(|error| UnregisterBrokerResponse {
        error_code: error.code(),
        error_message: Some(error.to_string()),
        ..Default::default()
    })
}

/// The answer to who may not.
pub(super) fn refused(_: &UnregisterBrokerRequest, error_code: ErrorCode) -> UnregisterBrokerResponse {
    UnregisterBrokerResponse { error_code, ..Default::default() }
}
