//! The steps of a start. [`Server::start`](super::Server::start) has their order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::{BrokerConfig, Endpoint, Membership};
use metadata::acl::Authorizer;
use metadata::{BrokerRegistration, MetadataCache};
use platform::panics::essential;
use platform::{DiskWatch, Env, LogLimit, OpenFiles};
use quorum::{METADATA_DIR, Node, Options, Quorum, Voter};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use wire::api::alter_scram_keys::{AlterScramKeysRequest, ScramKeysUpsertion};
use wire::api::confirm_sender::NodeIdentity;
use wire::{ErrorCode, Uuid};

use super::StartError;
use super::threads::{QuorumThread, start_publisher, start_quorum, start_syncer};
use crate::Broker;
use crate::cluster::links::{self, LinkEvent, Links};
use crate::cluster::{Liveness, Members, Peers, Senders, membership};
use crate::controller::{Controller, ControllerError};
use crate::coordination::{self, Coordinators};
use crate::fetch_sessions::FetchSessions;
use crate::lifecycle::Lifecycle;
use crate::memory::Memory;
use crate::partition::{InlineAppends, PartitionTable, Shared};
use crate::quotas::Quotas;
use crate::replication::{Repair, Replication, isr};
use crate::security::Certificates;
use crate::security::audit::Audit;
use crate::session::Session;
use crate::stream::Dialer;
use crate::threads::{Thread, keep_awake, spawn_blocking};

/// Events of links that were not handled yet.
const LINK_EVENTS_MAX: usize = 256;
/// How soon first users are tried again while there is no controller.
const FIRST_USERS_INTERVAL: Duration = Duration::from_millis(50);

/// What all steps need.
pub(super) struct Starting<'a> {
    pub(super) env: Env,
    pub(super) data_dir: PathBuf,
    pub(super) own: Voter,
    pub(super) cluster_id: String,
    /// Of this start.
    pub(super) incarnation_id: Uuid,
    pub(super) dialer: Dialer,
    pub(super) disk_watch: Arc<DiskWatch>,
    pub(super) open_files: Arc<OpenFiles>,
    pub(super) control: &'a Handle,
    pub(super) data: &'a Handle,
}

/// The metadata quorum, and what it is applied to.
pub(super) struct OpenQuorum {
    pub(super) quorum: Quorum,
    pub(super) thread: QuorumThread,
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) config: Arc<ArcSwap<BrokerConfig>>,
    pub(super) link_events: mpsc::Receiver<LinkEvent>,
}

/// All parts, and nothing of them open yet.
pub(super) struct Assembled {
    pub(super) broker: Arc<Broker>,
    pub(super) members: Arc<Members>,
    pub(super) coordinators: Coordinators,
    pub(super) syncers: Vec<Thread<()>>,
}

impl Starting<'_> {
    fn sender(&self) -> NodeIdentity {
        let Voter { node_id, directory_id, .. } = self.own;
        NodeIdentity { node_id, directory_id, incarnation_id: self.incarnation_id }
    }

    pub(super) async fn open_quorum(&self, config: BrokerConfig) -> Result<OpenQuorum, StartError> {
        let (events, link_events) = mpsc::channel(LINK_EVENTS_MAX);
        let transport =
            Links::new(self.cluster_id.clone(), self.sender(), self.control.clone(), events, self.dialer.clone());
        let options = Options {
            disk: Arc::clone(&self.env.disk),
            clock: Arc::clone(&self.env.clock),
            dir: self.data_dir.join(METADATA_DIR),
            random: Arc::clone(&self.env.random),
            node_id: self.own.node_id,
            directory_id: self.own.directory_id,
            segment_bytes: config.metadata_log_segment_bytes.unsigned_abs(),
            snapshot_bytes: config.metadata_log_max_record_bytes_between_snapshots.unsigned_abs(),
            disk_watch: Arc::clone(&self.disk_watch),
        };
        let config = Arc::new(ArcSwap::from_pointee(config));
        let metadata = Arc::new(MetadataCache::default());
        let in_dir = |error| StartError::DataDir { dir: self.data_dir.clone(), error };
        let publisher = start_publisher(Arc::clone(&metadata), Arc::clone(&config)).map_err(in_dir)?;
        let node = spawn_blocking(move || Node::open(&options, publisher, Box::new(transport)))
            .await
            .expect("opening does not panic")?;
        let (quorum, thread) = start_quorum(node)?;
        Ok(OpenQuorum { quorum, thread, metadata, config, link_events })
    }

    pub(super) fn assemble(
        &self,
        quorum: Quorum,
        metadata: Arc<MetadataCache>,
        config: Arc<ArcSwap<BrokerConfig>>,
        certificates: Certificates,
    ) -> Result<Assembled, StartError> {
        let settings = config.load_full();
        let (syncer, syncers) = start_syncer();
        let shared = Shared {
            inline_appends: Arc::new(InlineAppends::new(self.data.metrics().num_workers())),
            ..Shared::new(self.env.clone(), self.own.node_id, settings.replica_lag_time_max_ms, syncer)
        };
        let table =
            PartitionTable::new(shared.clone(), self.data_dir.clone(), Arc::clone(&config), self.incarnation_id)?;
        table.open_journal(self.own.directory_id)?;
        let partitions = Arc::new(table);
        let giving_up = Arc::downgrade(&partitions);
        self.open_files.set_give_up(move |even_used| {
            giving_up.upgrade().map_or(0, |partitions| partitions.give_up_files(even_used))
        });
        let request_timeout = Duration::from_millis(u64::from(settings.request_timeout_ms.unsigned_abs()));
        let peers = Arc::new(Peers::new(
            self.sender(),
            settings.inter_broker_listener(),
            request_timeout,
            Arc::clone(&metadata),
            quorum.watch_status(),
            self.control.clone(),
            self.dialer.clone(),
        ));
        let liveness = Arc::new(Liveness::new(Arc::clone(&self.env.clock)));
        let controller = Controller::start(
            quorum.clone(),
            Arc::clone(&metadata),
            Arc::clone(&config),
            Arc::clone(&self.env.random),
            Arc::clone(&peers),
            Arc::clone(&liveness),
            self.control,
        );
        let members = Arc::new(Members::new(
            self.own.key(),
            self.cluster_id.clone(),
            quorum.clone(),
            Arc::clone(&config),
            self.dialer.clone(),
        ));
        let log_limit = Arc::<LogLimit>::default();
        let session = Arc::new(Session::new(&config));
        let coordinators = Coordinators::new(&coordination::Ground {
            env: self.env.clone(),
            node_id: self.own.node_id,
            config: Arc::clone(&config),
            metadata: Arc::clone(&metadata),
            controller: controller.clone(),
            peers: Arc::clone(&peers),
            partitions: Arc::clone(&partitions),
            log_limit: Arc::clone(&log_limit),
            session: Arc::clone(&session),
        });
        let broker = Arc::new(Broker {
            env: self.env.clone(),
            node_id: self.own.node_id,
            directory_id: self.own.directory_id,
            cluster_id: self.cluster_id.clone(),
            metadata: Arc::clone(&metadata),
            quorum,
            controller,
            peers,
            senders: Senders::new(Arc::clone(&members), metadata, Arc::clone(&log_limit)),
            liveness,
            partitions,
            groups: Arc::clone(&coordinators.groups),
            transactions: Arc::clone(&coordinators.transactions),
            marker_writer: Arc::clone(&coordinators.marker_writer),
            verifier: Arc::clone(&coordinators.verifier),
            fetch_sessions: FetchSessions::new(
                settings.max_incremental_fetch_session_cache_slots.unsigned_abs() as usize
            ),
            memory: Memory::new(&settings, &*self.env.disk),
            quotas: Quotas::new(&settings),
            log_limit,
            session,
            handshake_turns: Broker::new_handshake_turns(self.data),
            audit: Audit::default(),
            authorizer: Authorizer::new(&settings),
            certificates,
            config,
            shared,
        });
        Ok(Assembled { broker, members, coordinators, syncers })
    }

    /// Begins the connections to the other nodes.
    pub(super) fn join_cluster(
        &self,
        broker: &Arc<Broker>,
        members: &Arc<Members>,
        is_alone: bool,
        link_events: mpsc::Receiver<LinkEvent>,
        background: &mut JoinSet<()>,
    ) {
        let waking = keep_awake(self.data.clone());
        background.spawn_on(essential("what keeps the data plane awake", waking), self.control);
        let following = links::follow(broker.quorum.clone(), Arc::clone(&broker.liveness), link_events);
        background.spawn_on(essential("what follows the links", following), self.control);
        if !is_alone {
            let (members, peers, own) = (Arc::clone(members), Arc::clone(&broker.peers), self.own.clone());
            let joining = async move { membership::join(&members, &peers, &own).await };
            background.spawn_on(essential("what keeps this node a member", joining), self.control);
        }
    }

    /// Has replication, repair and coordinators follow what the metadata says.
    pub(super) fn follow_metadata(
        &self,
        broker: &Arc<Broker>,
        coordinators: &Coordinators,
        background: &mut JoinSet<()>,
    ) -> Arc<Replication> {
        let Broker { metadata, partitions, shared, .. } = &**broker;
        let replication = Replication::new(
            self.env.clone(),
            self.dialer.clone(),
            Arc::clone(&broker.config),
            Arc::clone(metadata),
            Arc::clone(partitions),
            self.data.clone(),
        );
        metadata.subscribe_after(Arc::clone(&replication) as _, |image| replication.follow_all(image));
        let asking = Arc::new(broker.controller.clone());
        let changing = isr::run(broker.node_id, Arc::clone(&shared.isr_changes), Arc::clone(metadata), asking);
        background.spawn_on(essential("what changes in-sync replicas", changing), self.control);
        let config = broker.config();
        let repair = Repair {
            node_id: broker.node_id,
            dialer: self.dialer.clone(),
            listener: config.inter_broker_listener(),
            metadata: Arc::clone(metadata),
            damaged: Arc::clone(&shared.damaged),
        };
        background.spawn(essential("what repairs logs", repair.run()));
        // Where their fetches are served: followers that are kept waiting here do not lag.
        let lag_max = Duration::from_millis(config.replica_lag_time_max_ms.unsigned_abs());
        let watching = isr::watch_lag(Arc::clone(partitions), lag_max);
        background.spawn(essential("what watches followers", watching));
        coordinators.follow(metadata, self.data);
        let timers = Arc::clone(&coordinators.transactions).run();
        background.spawn(essential("what ends transactions that take too long", timers));
        replication
    }

    /// Registers, and sends heartbeats from then on.
    pub(super) async fn register(
        &self,
        broker: &Arc<Broker>,
        members: &Arc<Members>,
        endpoints: Vec<Endpoint>,
        max_wait: Duration,
        background: &mut JoinSet<()>,
    ) -> Result<Arc<Lifecycle>, StartError> {
        let registration = BrokerRegistration {
            id: broker.node_id,
            incarnation_id: self.incarnation_id,
            endpoints,
            rack: broker.config().broker_rack.clone(),
            log_dirs: vec![broker.directory_id],
            is_clean: broker.partitions.was_clean(),
            lost_replicas: broker.partitions.lost_replicas(),
        };
        let previous_epoch = broker.metadata.load().broker(broker.node_id).map(|broker| broker.epoch);
        let lifecycle =
            Arc::new(Lifecycle::new(Arc::clone(broker), Arc::clone(members), registration.to_request(previous_epoch)));
        let epoch = lifecycle.register(max_wait).await?;
        background.spawn_on(essential("what gives signs of life", Arc::clone(&lifecycle).run(epoch)), self.control);
        let watching = Arc::clone(&lifecycle).watch_session();
        background.spawn_on(essential("what watches this broker's session", watching), self.control);
        Ok(lifecycle)
    }
}

/// Opens the logs of what the metadata says is here.
pub(super) async fn open_logs(broker: &Arc<Broker>) {
    let (metadata, table) = (Arc::clone(&broker.metadata), Arc::clone(&broker.partitions));
    let open = move || {
        metadata.subscribe_after(Arc::clone(&table) as _, |image| {
            #[cfg(test)]
            crate::simulation::machine::opens(image);
            table.load(image);
        });
    };
    spawn_blocking(open).await.expect("opening does not panic");
}

/// Makes the first users of a cluster (KIP-900): while it has neither users nor ACLs nor topics, and before this
/// broker, one of those who begin it, has registered for the first time. So after a crash on the way the next start
/// makes them, and a user that is deleted later stays deleted. Nodes that do so at the same time make the same users.
pub(super) async fn add_first_users(
    broker: &Broker,
    users: Vec<ScramKeysUpsertion>,
    membership: &Membership,
    max_wait: Duration,
) -> Result<(), StartError> {
    if users.is_empty() {
        return Ok(());
    }
    let image = broker.metadata.load_full();
    let is_blank = image.scram().user_count() == 0 && image.acls().is_empty() && image.topics().next().is_none();
    let is_registered = image.broker(broker.node_id).is_some();
    if !is_blank || is_registered || matches!(membership, Membership::Join(_)) {
        tracing::info!("the cluster is not a new one: its users stay as they are");
        return Ok(());
    }
    let give_up = Instant::now() + max_wait;
    for user in users {
        // One may have a credential of each mechanism, and a request alters one.
        let request = AlterScramKeysRequest { deletions: Vec::new(), upsertions: vec![user] };
        let answer = loop {
            match broker.controller.ask(request.clone()).await {
                Err(ControllerError::NotController) if Instant::now() < give_up => sleep(FIRST_USERS_INTERVAL).await,
                answer => break answer.map_err(|error| StartError::FirstUsers { reason: error.to_string() })?,
            }
        };
        if let Some(result) = answer.results.into_iter().find(|result| result.error_code != ErrorCode::NONE) {
            let reason = result.error_message.unwrap_or_else(|| result.error_code.to_string());
            return Err(StartError::FirstUsers { reason: format!("{:?}: {reason}", result.user) });
        }
    }
    tracing::info!("the cluster begins with its first users");
    Ok(())
}
