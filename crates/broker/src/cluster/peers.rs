//! Connections to the inter-broker listeners of the other nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Connection, ConnectionError};
use configuration::address;
use metadata::MetadataCache;
use parking_lot::Mutex;
use quorum::StatusWatch;
use tokio::runtime::Handle;
use wire::ErrorCode;
use wire::api::Request;
use wire::api::confirm_sender::NodeIdentity;

use crate::stream::Dialer;

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// What a connection is for. A node answers the requests of one connection in turn, so that what must not wait has
/// one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Registration and heartbeats, and the request before them for the current metadata offset.
    Heartbeats,
    InSyncReplicas,
    Requests,
    /// What ends transactions in the partitions of another broker, and waits for their replicas.
    Markers,
    /// Questions about transactions, for which producers wait.
    Verifications,
    /// The metrics of a node, which may be megabytes.
    Metrics,
}

/// The connections of this node. Cheap to share.
pub struct Peers {
    own: NodeIdentity,
    listener: String,
    dialer: Dialer,
    request_timeout: Duration,
    metadata: Arc<MetadataCache>,
    quorum: StatusWatch,
    open: Mutex<HashMap<(String, Lane), Connection>>,
    /// The runtime that they run on, whichever task opens them.
    control: Handle,
}

impl Peers {
    pub fn new(
        own: NodeIdentity,
        listener: String,
        request_timeout: Duration,
        metadata: Arc<MetadataCache>,
        quorum: StatusWatch,
        control: Handle,
        dialer: Dialer,
    ) -> Self {
        Self { own, listener, dialer, request_timeout, metadata, quorum, open: Mutex::default(), control }
    }

    /// The identity of this node in requests to others.
    pub fn own(&self) -> &NodeIdentity {
        &self.own
    }

    /// The address of a node for brokers: as it registered, or as the quorum knows it.
    pub fn address(&self, node_id: i32) -> Option<String> {
        let image = self.metadata.load();
        if let Some(endpoint) = image.broker(node_id).and_then(|broker| broker.endpoint(&self.listener)) {
            return Some(address(&endpoint.host, endpoint.port));
        }
        let status = self.quorum.status();
        // Of two with one node id, the second has replaced the first.
        let member = status.voters.members().filter(|member| member.node_id == node_id).last()?;
        Some(address(&member.host, member.port))
    }

    /// An open connection to a node, `None` if its address is not known.
    pub async fn connection(&self, node_id: i32, lane: Lane) -> Result<Option<Connection>, ConnectionError> {
        let Some(address) = self.address(node_id) else { return Ok(None) };
        let key = (address, lane);
        let open = self.open.lock().get(&key).filter(|connection| connection.is_open()).cloned();
        if open.is_some() {
            return Ok(open);
        }
        let (address, dialer, request_timeout) = (key.0.clone(), self.dialer.clone(), self.request_timeout);
        let connecting =
            self.control.spawn(async move { dialer.connect(&address, CONNECT_TIMEOUT, request_timeout).await });
        // Without a result the runtime has ended.
        let ended = |_| ConnectionError::Connect { address: key.0.clone(), reason: "this node stops".to_owned() };
        let connection = connecting.await.map_err(ended)??;
        let mut open = self.open.lock();
        open.retain(|_, connection| connection.is_open());
        open.insert(key, connection.clone());
        Ok(Some(connection))
    }

    /// Sends a request to a node. NETWORK_EXCEPTION if there is no answer: it may have been served all the same.
    pub async fn ask<R: Request>(&self, node_id: i32, lane: Lane, request: &R) -> Result<R::Response, ErrorCode> {
        let answer = async {
            match self.connection(node_id, lane).await? {
                Some(connection) => connection.send(request).await.map(Some),
                None => Ok(None),
            }
        };
        match answer.await {
            Ok(answer) => answer.ok_or(ErrorCode::NETWORK_EXCEPTION),
            Err(error) => {
                tracing::debug!(node_id, ?lane, %error, "a node does not answer");
                Err(ErrorCode::NETWORK_EXCEPTION)
            }
        }
    }
}
