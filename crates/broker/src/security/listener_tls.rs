//! The TLS of a listener: its key and certificate, which may be others while it serves.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use platform::Count;
use rustls::ServerConfig;
use security::tls::{AllowedChanges, ServerTls, ServerTlsConfig, SuccessorError, TlsError};

use super::file::read_file;

/// Why a listener keeps the certificate that it has.
#[derive(Debug, thiserror::Error)]
pub enum RenewalError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Successor(#[from] SuccessorError),
    #[error("{0}")]
    Nodes(#[from] client::SecurityError),
}

pub struct ListenerTls {
    config: ServerTlsConfig,
    allowed: AllowedChanges,
    current: ArcSwap<ServerTls>,
    /// What was last said against a certificate that did not get its place.
    refused: Mutex<Option<String>>,
    pub renewals: Count,
    pub refusals: Count,
}

impl ListenerTls {
    pub fn load(config: ServerTlsConfig, allowed: AllowedChanges) -> Result<Self, TlsError> {
        let current = ArcSwap::from_pointee(config.load(&read_file)?);
        Ok(Self { config, allowed, current, refused: Mutex::default(), renewals: Count::new(), refusals: Count::new() })
    }

    /// With what new connections are made.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// When its certificate ends, in milliseconds since 1970.
    pub fn not_after_ms(&self) -> i64 {
        self.current.load().not_after_ms
    }

    /// The file that a setting names, without a listener's prefix.
    pub fn location(&self, setting: &str) -> Option<&str> {
        self.config.stores.location(setting)
    }

    /// What is in the files now, if it is something else and may take the place of what there is. It waits for the
    /// disk.
    pub fn successor(&self, is_inter_broker: bool, now_ms: i64) -> Result<Option<ServerTls>, RenewalError> {
        let current = self.current.load();
        let next = self.config.load(&read_file)?;
        if current.is_of_same_files(&next) {
            return Ok(None);
        }
        current.check_successor(&next, self.allowed, now_ms)?;
        if is_inter_broker {
            current.check_successor_among_nodes(&next, now_ms)?;
        }
        Ok(Some(next))
    }

    pub fn take(&self, next: ServerTls) {
        self.current.store(Arc::new(next));
        self.renewals.add(1);
    }

    /// Whether what is said against a certificate has not been said of the last one.
    pub fn is_news(&self, outcome: Result<(), &RenewalError>) -> bool {
        let said = outcome.err().map(ToString::to_string);
        let mut refused = self.refused.lock();
        let is_news = *refused != said;
        *refused = said;
        is_news
    }
}
