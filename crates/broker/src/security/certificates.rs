//! The certificates of this broker's listeners, renewed while they serve (KIP-226, `DynamicBrokerConfig`).
//!
//! Behaviour:
//! - The files of keys, certificates and truststores are read anew each minute, upon SIGHUP, and when
//!   IncrementalAlterConfigs sets their location once more. Settings stay what they were at the start: Kafka would take
//!   other locations and passwords, and keep them in its metadata.
//! - What is there counts when key, certificate and truststore fit together, and the certificate may take the place of
//!   the one before ([`AllowedChanges`](security::tls::AllowedChanges)). New connections get it, others go on.
//! - Otherwise all stays as it was, which is counted, and logged once.
//! - The nodes' listener and what this node shows as it connects to others change together.

use std::sync::Arc;

use client::Security;
use configuration::listener_settings;
use security::tls::{KEY_LOCATION, ServerTls, TRUST_LOCATION};

use super::ListenerSecurity;
use super::listener_tls::{ListenerTls, RenewalError};
use super::nodes::NodeSecurity;

/// A listener with a certificate.
pub struct CertifiedListener {
    pub name: Arc<str>,
    pub is_inter_broker: bool,
    pub security: Arc<ListenerSecurity>,
}

impl CertifiedListener {
    /// `None` if it has no certificate.
    pub fn tls(&self) -> Option<&ListenerTls> {
        self.security.listener_tls()
    }
}

pub struct Certificates {
    listeners: Vec<CertifiedListener>,
    of_nodes: NodeSecurity,
}

impl Certificates {
    pub fn new(listeners: Vec<CertifiedListener>, of_nodes: NodeSecurity) -> Self {
        let listeners = listeners.into_iter().filter(|listener| listener.tls().is_some()).collect();
        Self { listeners, of_nodes }
    }

    pub fn listeners(&self) -> &[CertifiedListener] {
        &self.listeners
    }

    /// The listener of a setting that names one of its files, and the file that it names.
    pub fn location(&self, setting: &str) -> Option<(&CertifiedListener, Option<&str>)> {
        let rest = setting.strip_prefix(listener_settings::PREFIX)?;
        self.listeners.iter().find_map(|listener| {
            let setting = rest.strip_prefix(&listener.name.to_ascii_lowercase())?.strip_prefix('.')?;
            let is_location = [KEY_LOCATION, TRUST_LOCATION].contains(&setting);
            is_location.then(|| (listener, listener.tls().and_then(|tls| tls.location(setting))))
        })
    }

    /// Reads the files of all listeners. It waits for the disk.
    pub fn renew_all(&self, now_ms: i64) {
        for listener in &self.listeners {
            _ = self.renew(listener, now_ms, false);
        }
    }

    /// Reads the files of a listener, and with `validate_only` no more than that. It waits for the disk.
    pub fn renew(&self, listener: &CertifiedListener, now_ms: i64, validate_only: bool) -> Result<(), RenewalError> {
        let Some(tls) = listener.tls() else { return Ok(()) };
        let next = self.successor(listener, tls, now_ms);
        if validate_only {
            return next.map(|_| ());
        }
        let is_news = tls.is_news(next.as_ref().map(|_| ()));
        match next {
            Ok(Some((next, of_nodes))) => {
                let (listener, subject) = (&*listener.name, next.subject.clone());
                tls.take(next);
                if let Some(of_nodes) = of_nodes {
                    self.of_nodes.replace(of_nodes);
                }
                tracing::info!(listener, subject, "the listener has another certificate or truststore");
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                if is_news {
                    tls.refusals.add(1);
                    tracing::warn!(listener = &*listener.name, %error, "the listener keeps the certificate it has");
                }
                Err(error)
            }
        }
    }

    fn successor(
        &self,
        listener: &CertifiedListener,
        tls: &ListenerTls,
        now_ms: i64,
    ) -> Result<Option<(ServerTls, Option<Security>)>, RenewalError> {
        let Some(next) = tls.successor(listener.is_inter_broker, now_ms)? else { return Ok(None) };
        let of_nodes = listener.is_inter_broker.then(|| self.of_nodes.read_again());
        Ok(Some((next, of_nodes.transpose()?)))
    }
}
