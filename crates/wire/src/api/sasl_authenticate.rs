//! SaslAuthenticate (key 36), versions 0-2, flexible since 2.

use bytes::Bytes;

use crate::ErrorCode;

crate::message! {
    pub struct SaslAuthenticateRequest {
        auth_bytes: Bytes, 0..;
    }

    pub struct SaslAuthenticateResponse {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        auth_bytes: Bytes, 0..;
        session_lifetime_ms: i64, 1..;
    }
}
