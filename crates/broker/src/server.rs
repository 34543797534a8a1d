//! Starting and stopping a broker.
//!
//! The order of the start: settings, the data directory and its lock, listening sockets (so that a taken port is known
//! at once), the metadata quorum, the logs, registration, groups; then connections are accepted. A stop goes the other
//! way: connections first, then groups, then the logs are closed, and at last the quorum.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use log::LogError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, spawn_blocking};

use crate::api::{FetchSessions, ProducerIds};
use crate::config::{BrokerConfig, ConfigError, Endpoint};
use crate::group::GroupCoordinator;
use crate::meta::properties::{self, PropertiesError};
use crate::meta::{BrokerRegistration, Controller, ControllerError, MetadataCache, Publisher};
use crate::offsets_topic::{GroupFollower, OffsetsTopic, group_config};
use crate::partition::{PartitionTable, Shared, Syncer};
use crate::quorum::{METADATA_DIR, NoPeers, Node, Options, Quorum, QuorumError};
use crate::{Broker, Env, maintenance, net};

/// How long a start waits for another process to leave the data directory, and how often it looks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Why a broker does not start. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot listen on {address}: {error}; another process may have the port, --listen chooses a different one")]
    Listen { address: String, error: io::Error },
    #[error("cannot use the data directory {}: {error}", .dir.display())]
    DataDir { dir: PathBuf, error: io::Error },
    #[error("the data directory {} is in use by another broker", .dir.display())]
    Locked { dir: PathBuf },
    #[error(transparent)]
    Properties(#[from] PropertiesError),
    #[error("the metadata cannot be read: {0}")]
    Quorum(#[from] QuorumError),
    #[error("the logs cannot be opened: {0}")]
    Log(#[from] LogError),
    #[error("the broker cannot register: {0}")]
    Controller(#[from] ControllerError),
}

/// A running broker.
pub struct Server {
    broker: Arc<Broker>,
    addresses: Vec<SocketAddr>,
    connections: JoinSet<()>,
    background: JoinSet<()>,
    quorum: JoinHandle<Result<(), QuorumError>>,
    syncers: Vec<JoinHandle<()>>,
    /// Held as long as the data directory is in use.
    _lock: std::fs::File,
}

impl Server {
    pub async fn start(config: BrokerConfig, env: Env) -> Result<Self, StartError> {
        raise_descriptor_limit();
        survive_file_size_limit();
        let data_dir = data_dir(&config);
        let in_dir = |error| StartError::DataDir { dir: data_dir.clone(), error };
        env.disk.create_dir_all(&data_dir).map_err(in_dir)?;
        let lock = lock(&data_dir).await?;
        let (listeners, endpoints) = listen(&config)?;
        let listener_names: Vec<Arc<str>> = endpoints.iter().map(|endpoint| endpoint.name.as_str().into()).collect();
        let addresses = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<_>>().map_err(in_dir)?;

        let properties =
            properties::open(&*env.disk, &data_dir, config.node_id, config.cluster_id.as_deref(), &*env.random)?;
        let node_id = config.node_id;
        let voters = vec![node_id];
        let options = Options {
            disk: Arc::clone(&env.disk),
            clock: Arc::clone(&env.clock),
            dir: data_dir.join(METADATA_DIR),
            node_id,
            voters,
            segment_bytes: config.metadata_log_segment_bytes.unsigned_abs(),
            snapshot_bytes: config.metadata_log_max_record_bytes_between_snapshots.unsigned_abs(),
        };
        let config = Arc::new(ArcSwap::from_pointee(config));
        let metadata = Arc::new(MetadataCache::default());
        let publisher = Publisher::new(Arc::clone(&metadata), Arc::clone(&config));
        let node = spawn_blocking(move || Node::open(&options, publisher, Box::new(NoPeers)))
            .await
            .expect("opening does not panic")?;
        let (quorum, quorum_thread) = Quorum::start(node)?;
        let (syncer, syncers) = Syncer::start();
        let shared =
            Shared { env: env.clone(), syncer, dirty: Arc::default(), disk_full: Arc::new(AtomicBool::new(false)) };
        let partitions = {
            let (shared, config, image) = (shared.clone(), Arc::clone(&config), metadata.load_full());
            let open = move || PartitionTable::open(shared, data_dir, config, &image);
            Arc::new(spawn_blocking(open).await.expect("opening does not panic")?)
        };
        metadata.subscribe(Arc::clone(&partitions) as _);
        let controller = Controller::start(quorum, Arc::clone(&metadata), Arc::clone(&config), Arc::clone(&env.random));
        controller
            .register_broker(BrokerRegistration {
                id: node_id,
                incarnation_id: env.new_id(),
                endpoints,
                rack: config.load().broker_rack.clone(),
                log_dirs: vec![properties.directory_id],
                is_clean: partitions.was_clean(),
            })
            .await?;

        let offsets_topic = Arc::new(OffsetsTopic {
            partitions: Arc::clone(&partitions),
            metadata: Arc::clone(&metadata),
            controller: controller.clone(),
            config: Arc::clone(&config),
        });
        let groups = GroupCoordinator::new(
            group_config(&config.load()),
            Arc::clone(&env.clock),
            Arc::clone(&env.random),
            Arc::clone(&offsets_topic) as _,
            offsets_topic as _,
        );
        let follower = Arc::new(GroupFollower { groups: Arc::clone(&groups), runtime: Handle::current() });
        let image = metadata.subscribe(Arc::clone(&follower) as _);
        if let Some(topic) = image.topic(crate::group::OFFSETS_TOPIC) {
            follower.load(0..topic.partitions.len());
        }
        let fetch_sessions = config.load().max_incremental_fetch_session_cache_slots.unsigned_abs() as usize;
        let broker = Arc::new(Broker {
            env,
            node_id,
            cluster_id: properties.cluster_id,
            metadata,
            controller,
            partitions,
            groups: Arc::clone(&groups),
            fetch_sessions: FetchSessions::new(fetch_sessions),
            producer_ids: ProducerIds::default(),
            config,
            shared,
        });
        let mut background = maintenance::start(&broker);
        background.spawn(groups.run());
        let mut connections = JoinSet::new();
        for (listener, name) in listeners.into_iter().zip(listener_names) {
            connections.spawn(net::serve(Arc::clone(&broker), listener, name));
        }
        Ok(Self { broker, addresses, connections, background, quorum: quorum_thread, syncers, _lock: lock })
    }

    /// Where it listens, in the order of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn data_dir(&self) -> &Path {
        self.broker.partitions.data_dir()
    }

    /// Stops cleanly: whatever was acknowledged is on disk afterwards, and the next start has nothing to check.
    pub async fn stop(mut self) {
        self.connections.shutdown().await;
        self.background.shutdown().await;
        let partitions = Arc::clone(&self.broker.partitions);
        let closed = spawn_blocking(move || partitions.close()).await;
        match closed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the logs did not close cleanly; the next start checks them"),
            Err(error) => tracing::error!(%error, "the logs did not close cleanly; the next start checks them"),
        }
        self.broker.shared.syncer.close();
        let (quorum, syncers) = (self.quorum, self.syncers);
        // The last handle of the controller goes with these, and the quorum's thread with it.
        self.broker.metadata.unsubscribe_all();
        drop(self.broker);
        let joined = spawn_blocking(move || {
            for thread in syncers {
                thread.join().ok();
            }
            quorum.join()
        });
        if let Ok(Ok(Err(error))) = joined.await {
            tracing::error!(%error, "the metadata did not close cleanly");
        }
    }
}

fn data_dir(config: &BrokerConfig) -> PathBuf {
    config.data_dirs().first().map_or_else(PathBuf::new, PathBuf::from)
}

/// As many open files as the system lets this process have.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// A limit on the size of files makes writes fail, as a full disk does, and does not end the process.
fn survive_file_size_limit() {
    let kind = SignalKind::from_raw(Signal::XFSZ.as_raw());
    // The handler stays when the stream of signals is dropped.
    if let Err(error) = signal(kind) {
        tracing::warn!(%error, "a limit on the size of files (ulimit -f) would end the process");
    }
}

/// Keeps a second process out of the data directory. A broker that was killed may take a moment to be gone, while its
/// last writes finish.
#[allow(clippy::disallowed_methods)]
async fn lock(data_dir: &Path) -> Result<std::fs::File, StartError> {
    let in_dir = |error| StartError::DataDir { dir: data_dir.to_owned(), error };
    let file = std::fs::File::create(data_dir.join(".lock")).map_err(in_dir)?;
    let give_up = tokio::time::Instant::now() + LOCK_TIMEOUT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if tokio::time::Instant::now() < give_up => {
                tokio::time::sleep(LOCK_INTERVAL).await;
            }
            Err(Errno::WOULDBLOCK) => return Err(StartError::Locked { dir: data_dir.to_owned() }),
            Err(error) => return Err(in_dir(error.into())),
        }
    }
}

/// Opens the listening sockets. The endpoints are what clients are told: where a port was left to the system, the one
/// that it gave.
fn listen(config: &BrokerConfig) -> Result<(Vec<TcpListener>, Vec<Endpoint>), StartError> {
    let mut endpoints = config.advertised_endpoints()?;
    let mut listeners = Vec::new();
    for (place, endpoint) in config.client_endpoints()?.iter().enumerate() {
        let host = if endpoint.host.is_empty() { "0.0.0.0" } else { &endpoint.host };
        let failed = |error| StartError::Listen { address: format!("{host}:{}", endpoint.port), error };
        let address = (host, endpoint.port).to_socket_addrs().map_err(failed)?.next();
        let address = address.ok_or_else(|| failed(io::Error::from(io::ErrorKind::AddrNotAvailable)))?;
        let listener = net::bind(address).map_err(failed)?;
        if let Some(advertised) = endpoints.get_mut(place).filter(|advertised| advertised.port == 0) {
            advertised.port = listener.local_addr().map_err(failed)?.port();
        }
        listeners.push(listener);
    }
    Ok((listeners, endpoints))
}
