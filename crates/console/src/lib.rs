//! What a cluster is and does, over HTTP: pages for people, JSON and metrics for programs.
//!
//! It listens on loopback by default, and answers only those who ask for this machine by an address or a name that it
//! goes by: a page in a browser that reaches it under a name of its own (DNS rebinding) is refused. No answer allows
//! other origins to read it, and nothing is changed on behalf of another origin's page.
//!
//! What it shows of a cluster it asks for as any client of Kafka does, so it shows any Kafka. What only a broker of
//! ours knows comes from the one in the same process, as [`Local`].

mod access_control;
mod address;
mod alerts;
mod api;
mod assets;
mod auth;
mod benchmark_runner;
mod bodies;
mod broker_metrics;
mod cluster;
mod connect;
mod connections;
mod csrf;
mod decoding;
mod embedded_broker;
mod events;
mod expression;
mod failure;
mod format;
mod health;
mod health_findings;
mod history;
mod host_check;
mod http_source;
mod journal_figures;
mod kafka_metrics;
mod layout;
mod metrics;
mod node_metrics;
mod page;
mod production;
mod reading;
mod reassignment;
mod rebalances;
mod reconciliation;
mod record_template;
mod request_context;
mod router;
mod saved_clusters;
mod schema_registry;
mod seen_aborts;
mod seen_changes;
mod snapshot;
mod text;
mod throttled_clients;
mod user_session;
mod visibility;

use std::sync::Arc;
use std::time::Duration;

pub use address::{Address, AddressError};
pub use auth::Password;
use auth::{Guard, Sessions};
pub use benchmark_runner::{
    Capacity, CapacityOrder, CapacityStep, CasePoint, Compared, HistoryCase, HistoryChange, HistoryFinding, HistoryRun,
    Laboratory, Order, Progress, Run, RunState, RunningCase, ScenarioMistake, Suite, SuiteHistory, Work,
};
pub use broker_metrics::MetricsUrl;
use client::Client;
use cluster::{Belongings, Cluster};
pub use embedded_broker::{Local, NodeReport, PartitionChange, PartitionState, Rebalance};
pub use host_check::Hosts;
pub use http_source::{HttpUrl, HttpUrlError};
use metrics::Scrape;
use parking_lot::RwLock;
use production::Productions;
pub use saved_clusters::{
    SavedCluster, SavedClusterError, SavedClusters, SavedClustersError, SourceError, client_config,
};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::sleep;
pub use tokio_rustls::rustls::ServerConfig as TlsConfig;

/// Looks at records that are under way at a time: each may take some memory.
const LOOKS_MAX: usize = 4;
/// Pages that follow new records.
const FOLLOWERS_MAX: usize = 32;
/// Pages that listen for news. They take half of the connections, so that there is room for others.
const LISTENERS_MAX: usize = 128;

/// How often it is looked for sessions that are over, and for connections that nobody uses.
const TIDY_INTERVAL: Duration = Duration::from_secs(10);

/// Other servers that know something of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The REST interfaces of its Connect clusters.
    pub connects: Vec<HttpUrl>,
    /// Its schema registry.
    pub schema_registry: Option<HttpUrl>,
    /// Where the metrics of its brokers are, if those are not ours.
    pub metrics: Vec<MetricsUrl>,
}

/// How the console meets those who ask.
#[derive(Debug, Default)]
pub struct Options {
    pub hosts: Hosts,
    /// Without one everybody who reaches the console may use it.
    pub password: Option<Password>,
    /// Whether others than this machine reach it without a password, which every page then says.
    pub is_insecure: bool,
    /// Without a password, only clusters whose connections log in are shown, and those to their users.
    pub is_closed: bool,
    /// Whether it speaks HTTPS: what a browser keeps is then for HTTPS only.
    pub has_tls: bool,
    /// Nothing can be changed.
    pub is_read_only: bool,
    /// Where clusters that are added in the page are kept; without, none can be added.
    pub saved_clusters: Option<Arc<SavedClusters>>,
}

/// What all requests share.
pub struct Console {
    options: Options,
    local: Option<Arc<dyn Local>>,
    laboratory: Option<Arc<dyn Laboratory>>,
    clusters: RwLock<Vec<Arc<Cluster>>>,
    sessions: Sessions,
    guard: Guard,
    productions: Productions,
    /// The last page of metrics, held while the next is made: one at a time is enough.
    scrape: Mutex<Option<Scrape>>,
    looks: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    listeners: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
}

impl Console {
    /// With the broker in this process, if there is one, and who runs suites.
    pub fn new(options: Options, local: Option<Arc<dyn Local>>, laboratory: Option<Arc<dyn Laboratory>>) -> Arc<Self> {
        Arc::new(Self {
            options,
            local,
            laboratory,
            clusters: RwLock::default(),
            sessions: Sessions::default(),
            guard: Guard::default(),
            productions: Productions::default(),
            scrape: Mutex::default(),
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
            listeners: Arc::new(Semaphore::new(LISTENERS_MAX)),
            large_bodies: Arc::new(Semaphore::new(bodies::LARGE_MAX)),
        })
    }

    /// Shows one more cluster, by a name that no other has. `is_own` is the one that the local broker belongs to.
    pub fn add_cluster(&self, name: impl Into<String>, client: Client, is_own: bool, sources: Sources) {
        let local = self.local.clone().filter(|_| is_own);
        let belongings = Belongings { local, ..Belongings::from(sources) };
        self.clusters.write().push(Cluster::watch(name.into(), client, belongings));
    }

    /// Shows one that was added in the page, unless another has its name.
    pub fn add_saved_cluster(&self, saved: &SavedCluster) -> Result<(), SavedClusterError> {
        if self.has_cluster(&saved.name) {
            return Err(SavedClusterError::TakenName);
        }
        self.show_saved(&saved.name, saved.client()?, saved.sources()?);
        Ok(())
    }

    fn has_cluster(&self, name: &str) -> bool {
        self.clusters.read().iter().any(|cluster| cluster.name == name)
    }

    /// Whether there will be a cluster in a moment, of the broker in this process.
    fn is_starting(&self) -> bool {
        self.clusters.read().is_empty() && self.options.saved_clusters.is_none()
    }

    fn show_saved(&self, name: &str, client: Client, sources: Sources) {
        let belongings = Belongings { is_saved: true, ..Belongings::from(sources) };
        self.clusters.write().push(Cluster::watch(name.to_owned(), client, belongings));
    }

    fn hide_saved(&self, name: &str) {
        self.clusters.write().retain(|cluster| !(cluster.is_saved && cluster.name == name));
        self.sessions.forget(name);
    }

    fn clusters(&self) -> Vec<Arc<Cluster>> {
        self.clusters.read().clone()
    }
}

/// Answers until it is dropped, over TLS if there is a configuration of it: each connection by the newest.
pub async fn serve(listener: TcpListener, tls: Option<watch::Receiver<Arc<TlsConfig>>>, console: Arc<Console>) {
    let tidying = async {
        loop {
            sleep(TIDY_INTERVAL).await;
            console.sessions.tidy();
        }
    };
    tokio::select! {
        () = connections::serve(listener, tls, router::routes(Arc::clone(&console))) => {}
        () = tidying => {}
    }
}
