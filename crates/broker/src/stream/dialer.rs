//! How this node connects to the inter-broker listeners of others: by which name, and with which certificate.

use std::time::Duration;

use client::{Connection, ConnectionConfig, ConnectionError};
use wire::api::Request;

use crate::security::NodeSecurity;

/// Connects to other nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Dialer {
    client_id: String,
    security: NodeSecurity,
}

impl Dialer {
    pub fn new(node_id: i32, security: impl Into<NodeSecurity>) -> Self {
        Self { client_id: format!("node-{node_id}"), security: security.into() }
    }

    /// The same under another name, by which the other node's log and metrics know it.
    pub fn named(&self, client_id: String) -> Self {
        Self { client_id, ..self.clone() }
    }

    pub async fn connect(
        &self,
        address: &str,
        connect_timeout: Duration,
        request_timeout: Duration,
    ) -> Result<Connection, ConnectionError> {
        let config = ConnectionConfig {
            client_id: self.client_id.clone(),
            connect_timeout,
            request_timeout,
            security: self.security.current(),
            ..ConnectionConfig::default()
        };
        super::connect(address, &config).await
    }

    /// Sends one request over a connection of its own. To connect and to be answered may take so long each.
    pub async fn ask<R: Request>(
        &self,
        address: &str,
        timeout: Duration,
        request: &R,
    ) -> Result<R::Response, ConnectionError> {
        self.connect(address, timeout, timeout).await?.send(request).await
    }
}
