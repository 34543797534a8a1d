//! A user of a cluster who has logged in at the console: with connections of its own, which authenticate as that user,
//! and what it may see.
//!
//! The secret is in memory only, as part of how to connect. Connections that nobody has used for a while are closed,
//! and made anew by the next page.

use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientConfig, ClientError, ConnectionConfig, ConnectionError};
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turns, watch};
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;
use crate::visibility::Visibility;

/// A log-in does not take longer.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// For so long it is known what a user may see.
const VISIBILITY_MAX_AGE: Duration = Duration::from_secs(2);
/// Unused connections are closed after this time.
const IDLE_MAX: Duration = Duration::from_secs(60);

pub(crate) struct UserSession {
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the user.
    pub user: String,
    config: ClientConfig,
    open: Mutex<Open>,
    visibility: Turns<Option<(Instant, Arc<Visibility>)>>,
    /// Nothing is sent there: that it is dropped says that the session has ended.
    ended: watch::Sender<()>,
}

struct Open {
    client: Option<Client>,
    used: Instant,
}

/// Why somebody is not let in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoginError {
    #[error("That is not a user of the cluster, or not the password.")]
    Wrong,
    #[error("{0}.")]
    Malformed(String),
    #[error("The cluster cannot be asked: {0}.")]
    Unreachable(String),
}

impl UserSession {
    /// Logs in, with the mechanism that the console itself uses where none is named.
    pub(crate) async fn begin(
        cluster: &Cluster,
        mechanism: &str,
        user: &str,
        password: &str,
    ) -> Result<Self, LoginError> {
        let config = cluster.config().clone();
        let own = config.connection.security.mechanism().unwrap_or_default();
        let mechanism = if mechanism.is_empty() { own } else { mechanism };
        let security = config.connection.security.for_user(mechanism, user, password);
        let security = security.map_err(|error| LoginError::Malformed(error.to_string()))?;
        let config = ClientConfig { connection: ConnectionConfig { security, ..config.connection.clone() }, ..config };
        let client = Client::new(config.clone());
        match timeout(LOGIN_TIMEOUT, client.any_broker()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if is_refused(&error) => return Err(LoginError::Wrong),
            Ok(Err(error)) => return Err(LoginError::Unreachable(error.to_string())),
            Err(_) => return Err(LoginError::Unreachable(format!("no answer within {} s", LOGIN_TIMEOUT.as_secs()))),
        }
        Ok(Self {
            cluster: cluster.name.clone(),
            user: user.to_owned(),
            config,
            open: Mutex::new(Open { client: Some(client), used: Instant::now() }),
            visibility: Turns::default(),
            ended: watch::Sender::default(),
        })
    }

    pub(crate) fn client(&self) -> Client {
        let mut open = self.open.lock();
        open.used = Instant::now();
        open.client.get_or_insert_with(|| Client::new(self.config.clone())).clone()
    }

    /// Closes connections that nobody uses.
    pub(crate) fn close_idle(&self) {
        let mut open = self.open.lock();
        if open.used.elapsed() > IDLE_MAX {
            open.client = None;
        }
    }

    /// What the user may see: as it was moments ago, or as it is from now on.
    pub(crate) async fn visibility(&self, is_fresh: bool) -> Result<Arc<Visibility>, ClientError> {
        let asked = Instant::now();
        // Who asks at the same time has the same answer.
        let mut known = self.visibility.lock().await;
        if let Some((at, visibility)) = &*known
            && (*at >= asked || !is_fresh && at.elapsed() < VISIBILITY_MAX_AGE)
        {
            return Ok(Arc::clone(visibility));
        }
        let at = Instant::now();
        let visibility = Arc::new(Visibility::ask(&self.client()).await?);
        *known = Some((at, Arc::clone(&visibility)));
        Ok(visibility)
    }

    /// Closed when the session has ended, for what goes on without further requests.
    pub(crate) fn end(&self) -> watch::Receiver<()> {
        self.ended.subscribe()
    }
}

/// Whether it is the user or the password that is wrong.
fn is_refused(error: &ClientError) -> bool {
    let (ClientError::Connection(error) | ClientError::Unreachable { reason: error }) = error else { return false };
    matches!(error, ConnectionError::Authentication { .. })
}

#[cfg(test)]
impl UserSession {
    /// One that nobody has asked a broker for.
    pub(crate) fn for_test(cluster: &str, user: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            user: user.to_owned(),
            config: ClientConfig::new(Vec::new()),
            open: Mutex::new(Open { client: None, used: Instant::now() }),
            visibility: Turns::default(),
            ended: watch::Sender::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unused_connections_are_closed() {
        let session = UserSession::for_test("a", "alice");
        let _ = session.client();
        tokio::time::advance(IDLE_MAX).await;
        session.close_idle();
        assert!(session.open.lock().client.is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        session.close_idle();
        assert!(session.open.lock().client.is_none());
    }
}
