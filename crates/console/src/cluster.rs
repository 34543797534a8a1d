//! A cluster that is watched: its newest snapshot, and how it got there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use client::Client;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::embedded_broker::Local;
use crate::history::History;
use crate::snapshot::{self, Snapshot};

/// How often a cluster is looked at while somebody looks at its pages, and while nobody does.
const INTERVAL: Duration = Duration::from_secs(2);
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// Since the last page, nobody looks after this time.
const ATTENTION: Duration = Duration::from_secs(15);
/// A page does not wait longer for a snapshot.
const PATIENCE: Duration = Duration::from_secs(10);
/// A snapshot does not take longer.
const TAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// What came of the last look, and when it began.
pub(crate) type Seen = Option<(Instant, Result<Arc<Snapshot>, String>)>;

pub(crate) struct Cluster {
    pub name: String,
    pub client: Client,
    pub local: Option<Arc<dyn Local>>,
    /// With connections of its own: where the quorum has no leader, its answer is long in coming.
    quorum_client: Client,
    seen: watch::Sender<Seen>,
    history: Mutex<History>,
    /// Wakes who looks at the cluster.
    wanted: Notify,
    began: Instant,
    /// When a page was asked for last, in milliseconds since `began`.
    asked_ms: AtomicU64,
}

impl Cluster {
    /// Looks at the cluster until it is dropped.
    pub(crate) fn watch(name: String, client: Client, local: Option<Arc<dyn Local>>) -> Arc<Self> {
        let cluster = Arc::new(Self {
            name,
            quorum_client: Client::new(client.config().clone()),
            client,
            local,
            seen: watch::Sender::new(None),
            history: Mutex::default(),
            wanted: Notify::new(),
            began: Instant::now(),
            asked_ms: AtomicU64::new(0),
        });
        tokio::spawn(watch(Arc::downgrade(&cluster)));
        cluster
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    /// The cluster as it was moments ago.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, String> {
        if self.attend() > ATTENTION {
            return self.fresh().await;
        }
        if let Some((_, outcome)) = &*self.seen.borrow() {
            return outcome.clone();
        }
        self.fresh().await
    }

    /// The cluster as it is from now on. Trouble that was there before may be over.
    pub(crate) async fn fresh(&self) -> Result<Arc<Snapshot>, String> {
        let mut seen = self.seen.subscribe();
        let since = Instant::now();
        self.wanted.notify_one();
        let is_new = |seen: &Seen| seen.as_ref().is_some_and(|(at, _)| *at >= since);
        let waited = match timeout(PATIENCE, seen.wait_for(is_new)).await {
            Ok(Ok(seen)) => seen.clone(),
            Ok(Err(_)) | Err(_) => self.seen.borrow().clone(),
        };
        waited.map_or_else(|| Err("the cluster has not answered yet".to_owned()), |(_, outcome)| outcome)
    }

    pub(crate) fn news(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// Somebody looks: at a page, or listens for news. Returns for how long nobody did.
    pub(crate) fn attend(&self) -> Duration {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before_ms = self.asked_ms.swap(now_ms, Ordering::Relaxed);
        Duration::from_millis(now_ms.saturating_sub(before_ms))
    }

    fn interval(&self) -> Duration {
        let asked = Duration::from_millis(self.asked_ms.load(Ordering::Relaxed));
        match self.began.elapsed().saturating_sub(asked) < ATTENTION {
            true => INTERVAL,
            false => IDLE_INTERVAL,
        }
    }
}

async fn watch(cluster: Weak<Cluster>) {
    loop {
        let Some(watched) = cluster.upgrade() else { return };
        let began = Instant::now();
        let taken = snapshot::take(&watched.client, &watched.quorum_client, watched.local.as_deref());
        let outcome = match timeout(TAKE_TIMEOUT, taken).await {
            Ok(Ok(mut snapshot)) => {
                watched.history().note(&mut snapshot);
                Ok(Arc::new(snapshot))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the cluster has not answered within {} s", TAKE_TIMEOUT.as_secs())),
        };
        watched.seen.send_replace(Some((began, outcome)));
        // Who asks meanwhile for a fresh one gets it at once.
        let _ = timeout(watched.interval(), watched.wanted.notified()).await;
    }
}

#[cfg(test)]
mod tests {
    use client::ClientConfig;

    use super::*;

    #[tokio::test]
    async fn trouble_is_looked_at_again_and_not_told_from_memory() {
        // Nobody listens there.
        let mut config = ClientConfig::new(vec!["127.0.0.1:1".to_owned()]);
        config.deadline = Duration::from_millis(20);
        let cluster = Cluster::watch("c".to_owned(), Client::new(config), None);
        cluster.fresh().await.unwrap_err();
        let since = Instant::now();
        cluster.fresh().await.unwrap_err();
        let (at, _) = cluster.seen.borrow().clone().unwrap();
        assert!(at >= since);
    }
}
