//! Starting and stopping a broker.
//!
//! The order of the start: settings, the data directory and its lock, listening sockets (so that a taken port is known
//! at once), who this node is, the metadata quorum, connections of other brokers; then, when the metadata is known, the
//! logs, groups, registration; then clients are accepted. A stop goes the other way: leaderships first, then
//! connections, then the logs are closed, and at last the quorum.

mod start;
mod threads;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use configuration::{BrokerConfig, ConfigError, Endpoint, Membership};
use metadata::properties::{self, PropertiesError};
use platform::panics::essential;
use platform::{DiskWatch, Env, OpenFiles, Random, WatchedDisk};
use quorum::{METADATA_DIR, Node, QuorumError, Voter};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use storage::disk::FILE_MODE;
use storage::journal::JournalError;
use storage::{Disk, LogError, partition_metadata};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use wire::api::alter_scram_keys::ScramKeysUpsertion;

use self::start::{Assembled, OpenQuorum, Starting, add_first_users, open_logs};
use crate::cluster::first_start::{Contact, FirstStart, FirstStartError, Past, first_start};
use crate::cluster::membership::{self, MembershipError};
use crate::controller::watch_brokers;
use crate::exposition::Metrics;
use crate::journal::OfflineJournalError;
use crate::lifecycle::{Lifecycle, RegistrationError};
use crate::replication::Replication;
use crate::security::{Certificates, CertifiedListener, ListenerSecurity, NodeSecurity, SecurityError};
use crate::stream::{Dialer, Socket};
use crate::threads::{ControlPlane, Thread, spawn_blocking};
use crate::{Broker, journal, maintenance, net};

/// How long a start waits for another process to leave the data directory, and how often it looks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// Why a broker does not start. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error("cannot listen on {address}: {error}; another process may have the port, --listen chooses a different one")]
    Listen { address: String, error: io::Error },
    #[error("cannot use the data directory {}: {error}", .dir.display())]
    DataDir { dir: PathBuf, error: io::Error },
    #[error("the data directory {} is in use by another broker", .dir.display())]
    Locked { dir: PathBuf },
    #[error(transparent)]
    Properties(#[from] PropertiesError),
    #[error(
        "the metadata of this node is gone ({} is missing or empty) and partitions are there, so it does not begin \
         anew; all files are left as they are, and 'parshall recover' shows how to go on", .dir.display()
    )]
    MetadataMissing { dir: PathBuf },
    #[error(
        "{} is missing and there is metadata, so it is not known whose it is: put the file back, with node.id, \
         directory.id, cluster.id and version=1", .path.display()
    )]
    PropertiesMissing { path: PathBuf },
    #[error("the metadata cannot be read: {0}")]
    Quorum(#[from] QuorumError),
    #[error("the logs cannot be opened: {0}")]
    Log(#[from] LogError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    OfflineJournal(#[from] OfflineJournalError),
    #[error(transparent)]
    FirstStart(#[from] FirstStartError),
    #[error(transparent)]
    Membership(#[from] MembershipError),
    #[error("the broker cannot register: {0}")]
    Registration(#[from] RegistrationError),
    #[error("the first users of the cluster cannot be made: {reason}")]
    FirstUsers { reason: String },
    #[error("cannot start the threads of the control plane: {0}; see the limits of processes and memory (ulimit -u)")]
    Threads(io::Error),
}

/// A running broker.
pub struct Server {
    broker: Arc<Broker>,
    lifecycle: Arc<Lifecycle>,
    replication: Arc<Replication>,
    addresses: Vec<SocketAddr>,
    /// Where other brokers reach it, if others can than those on this machine.
    open_inter_broker_address: Option<SocketAddr>,
    connections: JoinSet<()>,
    background: JoinSet<()>,
    quorum: Thread<Result<(), QuorumError>>,
    syncers: Vec<Thread<()>>,
    /// Held as long as the data directory is in use.
    _lock: Option<std::fs::File>,
    /// Ends last: what others wait for may run there.
    _control_plane: ControlPlane,
}

impl Server {
    /// Starts a broker that serves its clients on the runtime of the caller.
    pub async fn start(config: BrokerConfig, env: Env) -> Result<Self, StartError> {
        Self::start_with_users(config, env, Vec::new()).await
    }

    /// The same. If the cluster is a new one, these are its first users (KIP-900).
    pub async fn start_with_users(
        config: BrokerConfig,
        env: Env,
        first_users: Vec<ScramKeysUpsertion>,
    ) -> Result<Self, StartError> {
        let control_plane = ControlPlane::start().map_err(StartError::Threads)?;
        let ground = Ground::take(&config, &env, control_plane.handle()).await?;
        Self::start_on(ground, control_plane, config, env, first_users).await
    }

    pub(crate) async fn start_on(
        ground: Ground,
        control_plane: ControlPlane,
        config: BrokerConfig,
        env: Env,
        first_users: Vec<ScramKeysUpsertion>,
    ) -> Result<Self, StartError> {
        let (control, data) = (control_plane.handle(), Handle::current());
        let Ground { descriptors, lock, listeners, endpoints } = ground;
        let stall_timeout = Duration::from_millis(u64::from(config.disk_stall_timeout_ms.unsigned_abs()));
        let disk_watch = Arc::new(DiskWatch::new(Arc::clone(&env.clock), stall_timeout));
        #[cfg(test)]
        if let Some(machine) = crate::simulation::machine::current() {
            machine.has_its_disk_watched_by(&disk_watch);
        }
        let open_files = Arc::new(OpenFiles::new(descriptors));
        let disk = WatchedDisk::new(env.disk, Arc::clone(&disk_watch), Arc::clone(&open_files));
        let env = Env { disk: Arc::new(disk), ..env };
        let data_dir = data_dir(&config);
        let in_dir = |error| StartError::DataDir { dir: data_dir.clone(), error };
        let addresses = listeners.iter().filter(|listener| !listener.is_inter_broker);
        let addresses = addresses.map(|listener| listener.socket.local_addr()).collect::<io::Result<_>>();
        let inter_broker = listeners.iter().find(|listener| listener.is_inter_broker);
        let is_open = inter_broker.is_some_and(|listener| listener.security.tls().is_none());
        let inter_broker_address = inter_broker.map(|listener| listener.socket.local_addr()).transpose();
        let (addresses, inter_broker_address) = (addresses.map_err(in_dir)?, inter_broker_address.map_err(in_dir)?);

        let membership = config.membership()?;
        let max_wait = Duration::from_millis(u64::from(config.initial_broker_registration_timeout_ms.unsigned_abs()));
        let of_nodes = NodeSecurity::load(&config)?;
        let dialer = Dialer::new(config.node_id, of_nodes.clone());
        let certified = listeners.iter().map(|listener| CertifiedListener {
            name: Arc::clone(&listener.name),
            is_inter_broker: listener.is_inter_broker,
            security: Arc::clone(&listener.security),
        });
        let certificates = Certificates::new(certified.collect(), of_nodes);
        let identity = Identity::establish(&config, &env, &data_dir, &membership, &listeners, &endpoints, &dialer);
        let identity = identity.await?;
        let incarnation_id = env.new_id();
        let Identity { own, cluster_id } = identity;
        let starting = Starting {
            env,
            data_dir,
            own,
            cluster_id,
            incarnation_id,
            dialer,
            disk_watch,
            open_files,
            control,
            data: &data,
        };
        let OpenQuorum { quorum, thread, metadata, config, link_events } = starting.open_quorum(config).await?;
        let Assembled { broker, members, coordinators, syncers } =
            starting.assemble(quorum, metadata, config, certificates)?;
        #[cfg(test)]
        crate::simulation::machine::has_broker(&broker);

        let (inter_broker, for_clients): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| listener.is_inter_broker);
        let (mut connections, mut background) = (JoinSet::new(), JoinSet::new());
        for keys in for_clients.iter().filter_map(|listener| listener.security.token_keys()) {
            background.spawn_on(essential("what fetches keys of tokens", Arc::clone(keys).run()), control);
        }
        // From here on the other nodes are answered; without them there may be no quorum.
        for listener in inter_broker {
            let serving = net::serve(Arc::clone(&broker), listener, data.clone());
            connections.spawn_on(essential("a listener", serving), control);
        }
        starting.join_cluster(&broker, &members, membership == Membership::Alone, link_events, &mut background);
        membership::catch_up(&members, &broker.peers, &broker.metadata, max_wait).await?;
        open_logs(&broker).await;
        add_first_users(&broker, first_users, &membership, max_wait).await?;
        let replication = starting.follow_metadata(&broker, &coordinators, &mut background);
        let lifecycle = starting.register(&broker, &members, endpoints, max_wait, &mut background).await?;
        background.spawn_on(essential("what watches the brokers", watch_brokers(broker.controller.clone())), control);
        background.spawn(essential("the groups' clock", Arc::clone(&broker.groups).run()));
        maintenance::start(&broker, &mut background, control);
        for listener in for_clients {
            let serving = net::serve(Arc::clone(&broker), listener, data.clone());
            connections.spawn(essential("a listener", serving));
        }
        Ok(Self {
            broker,
            lifecycle,
            replication,
            addresses,
            open_inter_broker_address: inter_broker_address.filter(|address| is_open && !address.ip().is_loopback()),
            connections,
            background,
            quorum: thread,
            syncers,
            _lock: lock,
            _control_plane: control_plane,
        })
    }

    /// Where it listens, in the order of the listeners.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The listener of brokers among themselves, if not only this machine reaches it and it asks for no certificates.
    pub fn open_inter_broker_address(&self) -> Option<SocketAddr> {
        self.open_inter_broker_address
    }

    pub fn data_dir(&self) -> &Path {
        self.broker.partitions.data_dir()
    }

    /// Its metrics, for the console.
    pub fn metrics(&self) -> Metrics {
        Metrics::new(&self.broker)
    }

    /// Whether there are certificates that [`Self::renew_certificates`] would read.
    pub fn has_certificates(&self) -> bool {
        !self.broker.certificates.listeners().is_empty()
    }

    /// Reads the certificates of all listeners anew: new connections get what is in their files now, if it is good.
    pub async fn renew_certificates(&self) {
        let broker = Arc::clone(&self.broker);
        _ = spawn_blocking(move || broker.certificates.renew_all(broker.env.clock.now_ms())).await;
    }

    /// Until a log of this node has failed, if there are others to take over what it leads: a disk that lost something
    /// once is not to be trusted with more (as Kafka halts when its last log directory fails). A node alone goes on
    /// with what still works.
    pub async fn disk_failed(&self) {
        let mut status = self.broker.quorum.watch_status();
        let is_alone = || self.broker.metadata.load().brokers().count() <= 1;
        loop {
            let quorum_failed = status.see().has_failed;
            if quorum_failed && !is_alone() {
                return;
            }
            tokio::select! {
                biased;
                () = self.broker.shared.failed.notified() => {
                    if !is_alone() {
                        return;
                    }
                }
                changed = status.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                }
            }
        }
    }

    /// Stops cleanly: others take over what this broker leads, whatever was acknowledged is on disk afterwards, and the
    /// next start has nothing to check.
    pub async fn stop(mut self) {
        self.lifecycle.leave().await;
        self.broker.quorum.transfer_leadership().await;
        self.connections.shutdown().await;
        self.background.shutdown().await;
        self.replication.stop();
        let partitions = Arc::clone(&self.broker.partitions);
        let closed = spawn_blocking(move || partitions.close()).await;
        match closed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the logs did not close cleanly; the next start checks them"),
            Err(error) => tracing::error!(%error, "the logs did not close cleanly; the next start checks them"),
        }
        self.broker.shared.syncer.close();
        self.broker.quorum.stop();
        self.broker.metadata.unsubscribe_all();
        drop((self.lifecycle, self.replication, self.broker));
        for thread in self.syncers {
            thread.join().await;
        }
        if let Some(Err(error)) = self.quorum.join().await {
            tracing::error!(%error, "the metadata did not close cleanly");
        }
    }
}

/// What a process takes from its machine before anything else.
pub(crate) struct Ground {
    /// How many files it may have open.
    pub(crate) descriptors: u64,
    /// Of the data directory.
    pub(crate) lock: Option<std::fs::File>,
    pub(crate) listeners: Vec<net::Listener>,
    /// The addresses that clients and brokers get.
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Ground {
    async fn take(config: &BrokerConfig, env: &Env, control: &Handle) -> Result<Self, StartError> {
        raise_descriptor_limit();
        survive_file_size_limit();
        let data_dir = data_dir(config);
        let in_dir = |error| StartError::DataDir { dir: data_dir.clone(), error };
        env.disk.create_dir_all(&data_dir).map_err(in_dir)?;
        let lock = Some(lock(&data_dir).await?);
        let (listeners, endpoints) = listen(config, &*env.random, control)?;
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Ok(Self { descriptors, lock, listeners, endpoints })
    }
}

/// The identity of this node.
struct Identity {
    own: Voter,
    cluster_id: String,
}

impl Identity {
    /// Reads who this node is, or finds out at its first start.
    async fn establish(
        config: &BrokerConfig,
        env: &Env,
        data_dir: &Path,
        membership: &Membership,
        listeners: &[net::Listener],
        endpoints: &[Endpoint],
        dialer: &Dialer,
    ) -> Result<Self, StartError> {
        let disk = &*env.disk;
        let given = config.cluster_id.as_deref();
        let metadata_dir = data_dir.join(METADATA_DIR);
        let is_blank = Node::is_blank(disk, &metadata_dir)?;
        if !is_blank && properties::look_at(disk, data_dir)?.is_none() {
            return Err(StartError::PropertiesMissing { path: data_dir.join("meta.properties") });
        }
        let mut properties = properties::open(disk, data_dir, config.node_id, given, &*env.random)?;
        // One of several is sent the metadata by the others.
        let past = if is_blank && has_partitions(disk, data_dir)? { Past::LostMetadata } else { Past::Blank };
        if past == Past::LostMetadata && *membership == Membership::Alone {
            return Err(StartError::MetadataMissing { dir: metadata_dir });
        }
        if is_blank && properties.cluster_id.is_some() {
            // It may have voted, and has forgotten how.
            let replayed = journal::dissolve(env, data_dir)?;
            tracing::info!(?replayed, "the journal is in the segments; the data directory gets another id");
            properties.directory_id = env.new_id();
            properties.write(disk, data_dir)?;
        }
        let at = endpoints.iter().find(|endpoint| endpoint.name == config.inter_broker_listener());
        let (host, port) = at.map_or_else(Default::default, |endpoint| (endpoint.host.clone(), endpoint.port));
        let own = Voter { node_id: config.node_id, directory_id: properties.directory_id, host, port };
        if let Some(cluster_id) = properties.cluster_id.clone().filter(|_| !is_blank) {
            return Ok(Self { own, cluster_id });
        }
        let listener = listeners.iter().find(|listener| listener.is_inter_broker);
        let none = ListenerSecurity::none().into();
        let security = listener.map_or(&none, |listener| &listener.security);
        let contact = Contact { listener: listener.map(|listener| &listener.socket), security, dialer };
        let known = properties.cluster_id.clone();
        let known = given.or(known.as_deref());
        let max_wait = Duration::from_millis(u64::from(config.initial_broker_registration_timeout_ms.unsigned_abs()));
        let found = first_start(membership, &own, past, known, contact, env, max_wait).await?;
        let (cluster_id, voters) = match found {
            FirstStart::Voter { cluster_id, voters } => (cluster_id, Some(voters)),
            FirstStart::Join { cluster_id } => (cluster_id, None),
        };
        properties.cluster_id = Some(cluster_id.clone());
        properties.write(disk, data_dir)?;
        if let Some(voters) = voters {
            Node::bootstrap(disk, &metadata_dir, &*env.clock, &voters)?;
        }
        Ok(Self { own, cluster_id })
    }
}

/// Whether some topic's partitions are in a data directory.
fn has_partitions(disk: &dyn Disk, data_dir: &Path) -> Result<bool, StartError> {
    let in_dir = |error| StartError::DataDir { dir: data_dir.to_owned(), error };
    for entry in disk.read_dir(data_dir).map_err(in_dir)? {
        let is_partition = entry.name.rsplit_once('-').is_some_and(|(_, index)| index.parse::<u32>().is_ok());
        if entry.is_dir
            && is_partition
            && entry.name != METADATA_DIR
            && partition_metadata::read_topic_id(disk, &data_dir.join(&entry.name)).map_err(in_dir)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
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

/// Keeps a second process out of the data directory. A broker that was killed may take a moment to end, while its last
/// writes finish.
#[allow(clippy::disallowed_methods)]
pub(crate) async fn lock(data_dir: &Path) -> Result<std::fs::File, StartError> {
    let in_dir = |error| StartError::DataDir { dir: data_dir.to_owned(), error };
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(FILE_MODE);
    let file = options.open(data_dir.join(".lock")).map_err(in_dir)?;
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

/// Opens the listening sockets. The endpoints are what clients and brokers get: with port 0, the port that the system
/// chose. A socket belongs to the runtime that it is opened on.
fn listen(
    config: &BrokerConfig,
    random: &dyn Random,
    control: &Handle,
) -> Result<(Vec<net::Listener>, Vec<Endpoint>), StartError> {
    let inter_broker = config.inter_broker_endpoint()?;
    let clients = config.client_endpoints()?;
    let mut endpoints = config.advertised_endpoints()?;
    endpoints.extend(config.advertised_inter_broker_endpoint()?);
    let [for_clients, for_brokers] = [(); 2].map(|()| Arc::new(net::Admission::new(config)));
    let mut listeners = Vec::new();
    for (index, endpoint) in clients.iter().chain(&inter_broker).enumerate() {
        let host = if endpoint.host.is_empty() { "0.0.0.0" } else { &endpoint.host };
        let failed = |error| StartError::Listen { address: format!("{host}:{}", endpoint.port), error };
        let address = (host, endpoint.port).to_socket_addrs().map_err(failed)?.next();
        let address = address.ok_or_else(|| failed(io::Error::from(io::ErrorKind::AddrNotAvailable)))?;
        let is_inter_broker = index >= clients.len();
        let _entered = is_inter_broker.then(|| control.enter());
        let socket = net::bind(address, config).map_err(failed)?;
        if let Some(advertised) = endpoints.get_mut(index).filter(|advertised| advertised.port == 0) {
            advertised.port = socket.local_addr().map_err(failed)?.port();
        }
        let name = endpoint.name.as_str().into();
        let admission = Arc::clone(if is_inter_broker { &for_brokers } else { &for_clients });
        let socket = Socket::Tcp(socket);
        let security = Arc::new(ListenerSecurity::load(config, endpoint, random)?);
        listeners.push(net::Listener { socket, name, is_inter_broker, security, admission });
    }
    Ok((listeners, endpoints))
}
