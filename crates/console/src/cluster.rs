//! A cluster that is watched: its newest snapshot, and how it got there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use client::{Client, ClientConfig, ConnectionConfig, Liveness, TopicPartition};
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::Sources;
use crate::alerts::Alerts;
use crate::broker_metrics::BrokerMetrics;
use crate::connect::{Connect, Connectors};
use crate::decoding::Schemas;
use crate::embedded_broker::{Local, PartitionChange};
use crate::history::History;
use crate::schema_registry::SchemaRegistry;
use crate::seen_aborts::{SeenAbort, SeenAborts};
use crate::seen_changes::SeenChanges;
use crate::snapshot::{self, Snapshot};

/// How often a cluster is looked at while somebody looks at its pages, and while nobody does.
const INTERVAL: Duration = Duration::from_secs(2);
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// The same of a Connect cluster.
const CONNECT_INTERVAL: Duration = Duration::from_secs(3);
/// Since the last page, nobody looks after this time.
const ATTENTION: Duration = Duration::from_secs(15);
/// A page does not wait longer for a snapshot: then it shows the last one, and how old that is.
const PAGE_PATIENCE: Duration = Duration::from_secs(2);
/// Who is about to change or delete something, or has done so, waits longer to see it.
const FRESH_PATIENCE: Duration = Duration::from_secs(10);
/// A look does without a broker that has not answered for so long where it can, and else fails after this time.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);
const LOOK_DEADLINE: Duration = Duration::from_secs(5);
/// A snapshot does not take longer.
const TAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often brokers are asked whether they answer while somebody looks, and how long each may take where there is a
/// connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// What is known of a cluster.
#[derive(Default)]
pub(crate) struct Seen {
    /// When the last look that has ended began, and whether it has failed.
    last: Option<(Instant, Result<(), String>)>,
    taken: Option<Arc<Snapshot>>,
    /// Brokers that do not answer, and since when.
    silent: BTreeMap<i32, Instant>,
    /// What was taken, with what is known since then.
    shown: Option<Arc<Snapshot>>,
}

impl Seen {
    fn show(&mut self) {
        let trouble = self.last.as_ref().and_then(|(_, outcome)| outcome.as_ref().err());
        self.shown = self.taken.as_ref().map(|taken| match (trouble, self.silent.is_empty()) {
            (None, true) => Arc::clone(taken),
            (trouble, _) => Arc::new(Snapshot { trouble: trouble.cloned(), ..taken.with_silent(&self.silent) }),
        });
    }

    /// The cluster as far as it is known, or why it is not.
    fn current(&self) -> Result<Arc<Snapshot>, String> {
        if let Some(shown) = &self.shown {
            return Ok(Arc::clone(shown));
        }
        match &self.last {
            Some((_, Err(reason))) => Err(reason.clone()),
            _ => Err("the cluster has not answered yet".to_owned()),
        }
    }
}

/// What is known of a cluster besides where its brokers are.
#[derive(Default)]
pub(crate) struct Belongings {
    pub local: Option<Arc<dyn Local>>,
    pub connects: Vec<Arc<Connect>>,
    pub registry: Option<Arc<SchemaRegistry>>,
    /// Pages of metrics of brokers that are not ours.
    pub metrics: Vec<BrokerMetrics>,
    /// Whether it was added in the page, and not when the console was started.
    pub is_saved: bool,
}

impl From<Sources> for Belongings {
    fn from(sources: Sources) -> Self {
        Self {
            connects: sources.connects.into_iter().map(Connect::new).collect(),
            registry: sources.schema_registry.map(|url| Arc::new(SchemaRegistry::new(url))),
            metrics: sources.metrics.into_iter().map(BrokerMetrics::new).collect(),
            ..Self::default()
        }
    }
}

pub(crate) struct Cluster {
    pub name: String,
    /// The console's own: for what is sampled, and for pages where nobody logs in.
    client: Client,
    pub local: Option<Arc<dyn Local>>,
    pub connects: Vec<Arc<Connect>>,
    pub registry: Option<Arc<SchemaRegistry>>,
    /// What records are decoded by.
    pub schemas: Option<Arc<Schemas>>,
    metrics: Vec<BrokerMetrics>,
    pub is_saved: bool,
    look_client: Client,
    /// With connections of its own: where the quorum has no leader, its answer is long in coming.
    quorum_client: Client,
    liveness: Liveness,
    seen: watch::Sender<Seen>,
    history: Mutex<History>,
    alerts: Mutex<Alerts>,
    seen_changes: Mutex<SeenChanges>,
    seen_aborts: Mutex<SeenAborts>,
    /// Wakes who looks at the cluster.
    wanted: Notify,
    began: Instant,
    /// When a page was asked for last, in milliseconds since `began`.
    asked_ms: AtomicU64,
}

impl Cluster {
    /// Looks at the cluster until it is dropped.
    pub(crate) fn watch(name: String, client: Client, belongings: Belongings) -> Arc<Self> {
        let Belongings { local, connects, registry, metrics, is_saved } = belongings;
        let config = client.config();
        let connection = ConnectionConfig {
            connect_timeout: LOOK_DEADLINE,
            request_timeout: LOOK_DEADLINE,
            ..config.connection.clone()
        };
        let look_config = ClientConfig {
            patience: LOOK_PATIENCE,
            deadline: config.deadline.min(LOOK_DEADLINE),
            connection,
            ..config.clone()
        };
        let cluster = Arc::new(Self {
            name,
            look_client: Client::new(look_config.clone()),
            quorum_client: Client::new(look_config),
            liveness: Liveness::new(&config.connection, LOOK_DEADLINE, PROBE_TIMEOUT),
            client,
            local,
            connects,
            schemas: registry.clone().map(|registry| Arc::new(Schemas::new(registry))),
            registry,
            metrics,
            is_saved,
            seen: watch::Sender::default(),
            history: Mutex::default(),
            alerts: Mutex::default(),
            seen_changes: Mutex::default(),
            seen_aborts: Mutex::default(),
            wanted: Notify::new(),
            began: Instant::now(),
            asked_ms: AtomicU64::new(0),
        });
        tokio::spawn(watch(Arc::downgrade(&cluster)));
        tokio::spawn(probe(Arc::downgrade(&cluster)));
        for connect in &cluster.connects {
            tokio::spawn(watch_connect(Arc::clone(connect), Arc::downgrade(&cluster)));
        }
        cluster
    }

    /// How the console itself connects.
    pub(crate) fn config(&self) -> &ClientConfig {
        self.client.config()
    }

    /// Whether its connections log in, and pages are for its users.
    pub(crate) fn has_users(&self) -> bool {
        self.config().connection.security.mechanism().is_some()
    }

    /// For pages of a cluster without users.
    pub(crate) fn own_client(&self) -> Option<Client> {
        (!self.has_users()).then(|| self.client.clone())
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock()
    }

    pub(crate) fn alerts(&self) -> MutexGuard<'_, Alerts> {
        self.alerts.lock()
    }

    /// How a partition changed, the newest change first: as the metadata log has it, or as it was seen since then.
    pub(crate) fn partition_changes(&self, of: &TopicPartition) -> (Option<i64>, Vec<PartitionChange>) {
        match &self.local {
            Some(local) => (None, local.partition_changes(&of.topic, of.partition)),
            None => self.seen_changes.lock().of(of),
        }
    }

    /// Since when aborts of transactions were looked for, and those that were seen, the newest first.
    pub(crate) fn seen_aborts(&self) -> (Option<i64>, Vec<SeenAbort>) {
        self.seen_aborts.lock().all()
    }

    /// The cluster as it was moments ago, or as it was seen last where it is slow to answer.
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>, String> {
        let is_watched = self.attend() <= ATTENTION && self.seen.borrow().last.is_some();
        if !is_watched {
            self.connects.iter().for_each(|connect| connect.want());
            self.wait_for_look(PAGE_PATIENCE).await;
        }
        self.seen.borrow().current()
    }

    /// The Connect clusters as they were moments ago. Those that do not answer are not waited for.
    pub(crate) async fn connectors(&self) -> Vec<Connectors> {
        let is_watched = self.attend() <= ATTENTION;
        if !is_watched {
            // Pages of the cluster itself, that come next, take it for watched.
            self.wanted.notify_one();
        }
        let looks = self.connects.iter().filter(|connect| connect.is_waited_for(is_watched));
        join_all(looks.map(|connect| connect.refresh(PAGE_PATIENCE))).await;
        self.connects.iter().map(|connect| connect.known()).collect()
    }

    /// The cluster as it is from now on. Trouble that was there before may be over.
    pub(crate) async fn fresh(&self) -> Result<Arc<Snapshot>, String> {
        match self.wait_for_look(FRESH_PATIENCE).await {
            Some(Err(reason)) => Err(reason),
            Some(Ok(())) | None => self.seen.borrow().current(),
        }
    }

    /// What comes of a look that begins from now on, unless that takes too long.
    async fn wait_for_look(&self, patience: Duration) -> Option<Result<(), String>> {
        let mut seen = self.seen.subscribe();
        let since = Instant::now();
        self.wanted.notify_one();
        let is_new = |seen: &Seen| seen.last.as_ref().is_some_and(|(at, _)| *at >= since);
        let seen = timeout(patience, seen.wait_for(is_new)).await.ok()?.ok()?;
        seen.last.as_ref().map(|(_, outcome)| outcome.clone())
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

    /// How long ago the cluster was as its pages show it.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.seen.borrow().taken.as_ref().map(|taken| taken.at.elapsed())
    }

    fn is_attended(&self) -> bool {
        let asked = Duration::from_millis(self.asked_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(asked) < ATTENTION
    }

    async fn look(&self) {
        let began = Instant::now();
        let before = self.seen.borrow().taken.clone();
        let (local, before) = (self.local.as_deref(), before.as_deref());
        let taken = snapshot::take(&self.client, &self.look_client, &self.quorum_client, local, &self.metrics, before);
        let taken = match timeout(TAKE_TIMEOUT, taken).await {
            Ok(Ok(mut snapshot)) => {
                snapshot.connects = self.connects.iter().map(|connect| connect.known()).collect();
                self.history().note(&mut snapshot);
                self.alerts().note(&snapshot);
                self.seen_aborts.lock().note(before, &snapshot);
                if let (None, Some(before)) = (&self.local, &self.seen.borrow().taken) {
                    self.seen_changes.lock().note(before, &snapshot);
                }
                Ok(Arc::new(snapshot))
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the cluster has not answered within {} s", TAKE_TIMEOUT.as_secs())),
        };
        self.seen.send_modify(|seen| {
            let outcome = taken.map(|snapshot| seen.taken = Some(snapshot));
            seen.last = Some((began, outcome));
            seen.show();
        });
    }

    /// Asks brokers whether they answer. That is known long before a snapshot to which a silent one belongs.
    async fn probe(&self) {
        let Some(taken) = self.seen.borrow().taken.clone() else { return };
        let alive = taken.brokers.values().filter(|broker| broker.is_alive);
        let addresses: BTreeMap<i32, String> = alive.map(|broker| (broker.id, broker.address())).collect();
        let silent = self.liveness.find_silent(addresses.clone()).await;
        for id in &silent {
            // What waits for it has others asked, or does without.
            for client in [&self.client, &self.look_client, &self.quorum_client] {
                client.abandon(&addresses[id]);
            }
        }
        let since = Instant::now();
        self.seen.send_if_modified(|seen| {
            let known: BTreeSet<i32> = seen.silent.keys().copied().collect();
            seen.silent.retain(|id, _| silent.contains(id));
            for id in &silent {
                seen.silent.entry(*id).or_insert(since);
            }
            let has_changed = known != silent;
            if has_changed {
                seen.show();
            }
            has_changed
        });
    }
}

async fn watch(cluster: Weak<Cluster>) {
    while let Some(cluster) = cluster.upgrade() {
        cluster.look().await;
        let interval = if cluster.is_attended() { INTERVAL } else { IDLE_INTERVAL };
        // Who asks meanwhile for a fresh one gets it at once.
        let _ = timeout(interval, cluster.wanted.notified()).await;
    }
}

async fn watch_connect(connect: Arc<Connect>, cluster: Weak<Cluster>) {
    loop {
        connect.look().await;
        let Some(is_attended) = cluster.upgrade().map(|cluster| cluster.is_attended()) else { return };
        connect.wait(if is_attended { CONNECT_INTERVAL } else { IDLE_INTERVAL }).await;
    }
}

async fn probe(cluster: Weak<Cluster>) {
    loop {
        sleep(PROBE_INTERVAL).await;
        let Some(cluster) = cluster.upgrade() else { return };
        if cluster.is_attended() {
            cluster.probe().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health_findings::findings;
    use crate::snapshot::Broker;

    #[tokio::test]
    async fn trouble_is_looked_at_again_and_not_told_from_memory() {
        // Nobody listens there.
        let mut config = ClientConfig::new(vec!["127.0.0.1:1".to_owned()]);
        config.deadline = Duration::from_millis(20);
        let cluster = Cluster::watch("c".to_owned(), Client::new(config), Belongings::default());
        cluster.fresh().await.unwrap_err();
        let since = Instant::now();
        cluster.fresh().await.unwrap_err();
        let at = cluster.seen.borrow().last.as_ref().unwrap().0;
        assert!(at >= since);
    }

    #[test]
    fn who_is_silent_is_shown_before_the_next_look_and_what_was_seen_stays() {
        let broker = |id| (id, Broker { id, is_alive: true, ..Broker::default() });
        let taken = Snapshot { brokers: [broker(1), broker(2)].into(), ..Snapshot::empty() };
        let mut seen = Seen { taken: Some(Arc::new(taken)), ..Seen::default() };
        let shown = |seen: &mut Seen| {
            seen.show();
            let shown = seen.current().unwrap();
            let whats = findings(&shown, &History::default()).into_iter().map(|finding| finding.what);
            (shown.alive(), whats.collect::<Vec<_>>())
        };
        assert_eq!(shown(&mut seen), (2, Vec::new()));
        seen.silent.insert(2, Instant::now());
        assert_eq!(shown(&mut seen), (1, vec!["Broker 2 has not answered for 0 s; it has 0 replicas.".to_owned()]));
        seen.silent.clear();
        seen.last = Some((Instant::now(), Err("nobody answers".to_owned())));
        assert_eq!(shown(&mut seen), (2, vec!["The cluster was last seen 0 s ago: nobody answers.".to_owned()]));
        seen.last = Some((Instant::now(), Ok(())));
        assert_eq!(shown(&mut seen), (2, Vec::new()));
    }
}
