//! OAUTHBEARER (RFC 7628, KIP-255, KIP-768): a client shows a token that an authorization server has signed.
//! [`message`] has what the two sides say, [`jwk`] the keys of those who sign, [`token`] what a token has to be.
//!
//! No IO and no clock: keys and the time come from the caller.

pub mod jwk;
pub mod message;
pub mod token;

pub use jwk::{JWKS_BYTES_MAX, JwksError, KeySet};
pub use message::{ACKNOWLEDGEMENT, ClientFirst, FAILURE, MessageError, client_first};
pub use token::{Expected, Token, TokenError};
