//! What can go wrong between us and one broker.

use wire::{ErrorCode, WireError};

/// Why a connection, or a request on it, failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: String, reason: String },
    #[error("no TLS with {address}: {reason}")]
    Tls { address: String, reason: String },
    #[error("{address} speaks TLS; set security.protocol to SSL or SASL_SSL")]
    SpeaksTls { address: String },
    #[error("{address} does not let {user} in with {mechanism}: {reason}")]
    Authentication { address: String, user: String, mechanism: &'static str, reason: String },
    #[error("{address} does not speak Kafka: its answer claims to be {claimed} bytes long")]
    NotKafka { address: String, claimed: i32 },
    #[error("{address} did not answer in time")]
    Timeout { address: String },
    #[error("the connection to {address} was closed by the other side")]
    Closed { address: String },
    #[error("the connection to {address} failed: {reason}")]
    Io { address: String, reason: String },
    #[error("{address} answered request {received} where {expected} was due")]
    OutOfOrder { address: String, expected: i32, received: i32 },
    #[error("{address} sent a response that cannot be read: {reason}")]
    Response { address: String, reason: WireError },
    #[error("{address} does not serve {api} in a version that this client speaks")]
    Unsupported { address: String, api: &'static str },
    #[error("{address} refused the API version negotiation: {code}")]
    Refused { address: String, code: ErrorCode },
    #[error("too many requests wait for {address} to answer")]
    Busy { address: String },
}

impl ConnectionError {
    /// Whether another try, on a new connection, may help.
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Closed { .. } | Self::Io { .. } | Self::Busy { .. }
        )
    }

    /// Whether it is about who we are or how we speak, which only other settings can mend.
    pub fn is_about_security(&self) -> bool {
        matches!(self, Self::Tls { .. } | Self::SpeaksTls { .. } | Self::Authentication { .. })
    }
}
