//! SaslHandshake (key 17), versions 0-1. Since version 1 tokens follow in SaslAuthenticate (KIP-152).

use crate::ErrorCode;

crate::message! {
    pub struct SaslHandshakeRequest {
        mechanism: String, 0..;
    }

    pub struct SaslHandshakeResponse {
        error_code: ErrorCode, 0..;
        mechanisms: Vec<String>, 0..;
    }
}
