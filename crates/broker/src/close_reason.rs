//! Why a connection is not served, or not any more.

use std::io;
use std::time::Duration;

use wire::WireError;
use wire::frame::ResponseTooLarge;

/// How long an answer waits for the disk.
pub const DISK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a frame that has begun waits for memory.
pub const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    #[error("max.connections is reached")]
    Total,
    #[error("max.connections of its listener is reached")]
    Listener,
    #[error("max.connections.per.ip is reached")]
    PerIp,
    #[error("its address connects more often than its quota (connection_creation_rate) allows")]
    CreationRate,
    #[error("the process may open no more files (ulimit -n)")]
    Descriptors,
}

impl Limit {
    pub const ALL: [Self; 5] = [Self::Total, Self::Listener, Self::PerIp, Self::CreationRate, Self::Descriptors];

    /// The setting that is the limit, or what it stands for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Total => "max.connections",
            Self::Listener => "listener.max.connections",
            Self::PerIp => "max.connections.per.ip",
            Self::CreationRate => "connection_creation_rate",
            Self::Descriptors => "descriptors",
        }
    }
}

/// Why a connection was closed by the broker.
#[derive(Debug, thiserror::Error)]
pub enum CloseReason {
    #[error("the peer closed it")]
    Closed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it was idle for too long")]
    Idle,
    #[error("a request did not arrive in time")]
    SlowFrame,
    #[error("it did not read its answers")]
    SlowReader,
    #[error("the disk did not give in {} s what it asked for", DISK_TIMEOUT.as_secs())]
    SlowDisk,
    #[error("no memory for a request in {} s; queued.max.request.bytes and its share for one address bound it", MEMORY_TIMEOUT.as_secs())]
    NoMemory,
    #[error("{0}")]
    NotKafka(&'static str),
    #[error(
        "a request of {0} bytes; socket.request.max.bytes, the limit of its API, or a quarter of the memory where queued.max.request.bytes is not set, allows less"
    )]
    FrameSize(i32),
    #[error("a malformed request: {0}")]
    Malformed(#[from] WireError),
    #[error("API key {key} version {version} is not served")]
    UnsupportedApi { key: i16, version: i16 },
    #[error("a Produce with acks=0 failed")]
    SilentProduceFailed,
    #[error("{0}")]
    ResponseTooLarge(#[from] ResponseTooLarge),
    #[error("a request met a mistake in this program")]
    Panicked,
    #[error("TLS: {0}")]
    Tls(String),
    #[error("it has not said in time who it is")]
    SlowAuthentication,
    #[error("a request with API key {key} of a client that has not said who it is")]
    NotAuthenticated { key: i16 },
    #[error("authentication failed: {0}")]
    Authentication(String),
    #[error("it was to say again who it is (connections.max.reauth.ms, or the end of its token)")]
    SessionExpired,
}

impl CloseReason {
    /// Short names of all reasons, which [`Self::index`] points into.
    pub const NAMES: [&str; 19] = [
        "closed",
        "io",
        "idle",
        "slow_frame",
        "not_kafka",
        "frame_size",
        "malformed",
        "unsupported_api",
        "silent_produce_failed",
        "response_too_large",
        "slow_reader",
        "no_memory",
        "panicked",
        "slow_disk",
        "tls",
        "slow_authentication",
        "not_authenticated",
        "authentication",
        "session_expired",
    ];

    pub fn index(&self) -> usize {
        match self {
            Self::Closed => 0,
            Self::Io(_) => 1,
            Self::Idle => 2,
            Self::SlowFrame => 3,
            Self::NotKafka(_) => 4,
            Self::FrameSize(_) => 5,
            Self::Malformed(_) => 6,
            Self::UnsupportedApi { .. } => 7,
            Self::SilentProduceFailed => 8,
            Self::ResponseTooLarge(_) => 9,
            Self::SlowReader => 10,
            Self::NoMemory => 11,
            Self::Panicked => 12,
            Self::SlowDisk => 13,
            Self::Tls(_) => 14,
            Self::SlowAuthentication => 15,
            Self::NotAuthenticated { .. } => 16,
            Self::Authentication(_) => 17,
            Self::SessionExpired => 18,
        }
    }

    /// Why nothing more can be read.
    pub fn of_read(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => Self::Tls(tls.to_string()),
            None => error.into(),
        }
    }

    /// Whether the peer has been told, and is to have the time to read it.
    pub fn is_told(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::NotAuthenticated { .. } | Self::Authentication(_))
    }
}
