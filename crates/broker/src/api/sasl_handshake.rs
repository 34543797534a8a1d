//! SaslHandshake (key 17), versions 0-1: a client chooses how to say who it is.
//!
//! Behaviour:
//! - Where it has to, and where it has to again (KIP-368), the connection takes the request (`security/exchange.rs`).
//!   What comes here came where it may not: ILLEGAL_SASL_STATE, and the connection stays open.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(_: &Arc<Broker>, _: &RequestContext, _: SaslHandshakeRequest) -> SaslHandshakeResponse {
    SaslHandshakeResponse { error_code: ErrorCode::ILLEGAL_SASL_STATE, ..Default::default() }
}
