//! SaslAuthenticate (key 36), versions 0-2: a token of the mechanism that a client has chosen (KIP-152).
//!
//! Behaviour:
//! - Where one was chosen, the connection takes the request (`security/exchange.rs`). What comes here came where it may
//!   not: ILLEGAL_SASL_STATE, and the connection stays open.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};

use super::RequestContext;
use crate::Broker;

/// The text of Kafka (`KafkaApis.handleSaslAuthenticateRequest`).
const MESSAGE: &str = "SaslAuthenticate request received after successful authentication";

pub(super) async fn handle(
    _: &Arc<Broker>,
    _: &RequestContext,
    _: SaslAuthenticateRequest,
) -> SaslAuthenticateResponse {
    SaslAuthenticateResponse {
        error_code: ErrorCode::ILLEGAL_SASL_STATE,
        error_message: Some(MESSAGE.to_owned()),
        ..Default::default()
    }
}
