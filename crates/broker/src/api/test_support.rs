//! A broker for tests of the handlers: node 1, with a metadata quorum, a controller, partitions and groups of its own
//! on a simulated disk, and without sockets. Other brokers and topics are what a test writes to the metadata log.

use std::net::SocketAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::load::{Sources, load};
use coordinator::group::OFFSETS_TOPIC;
use metadata::MetadataCache;
use metadata::acl::Authorizer;
use platform::{DiskWatch, Env, LogLimit};
use quorum::{NoPeers, Node, Options, Quorum, Voter, VoterSet};
use storage::SimDisk;
use tokio::runtime::Handle;
use tokio::task::yield_now;
use wire::api::confirm_sender::NodeIdentity;
use wire::batch::{Batch, BatchBuilder};
use wire::state::metadata::{BrokerEndpoint, MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};
use wire::{ErrorCode, Uuid};

use super::RequestContext;
use crate::Broker;
use crate::cluster::{Liveness, Members, Peers, Senders};
use crate::controller::{Controller, Publisher};
use crate::coordination::{self, Coordinators};
use crate::fetch_sessions::FetchSessions;
use crate::memory::Memory;
use crate::partition::replica::Promised;
use crate::partition::{Acks, PartitionTable, PendingCommits, ProduceCompletion, Shared, Syncer};
use crate::quotas::Quotas;
use crate::security::audit::Audit;
use crate::security::{Certificates, Principal};
use crate::session::Session;
use crate::stream::Dialer;

pub(crate) const NODE_ID: i32 = 1;
pub(super) const CLUSTER_ID: &str = "test-cluster";
/// The listener that [`context`] says a request came to.
pub(super) const LISTENER: &str = "PLAINTEXT";
pub(super) const DIRECTORY_ID: Uuid = Uuid([11; 16]);
const INCARNATION_ID: Uuid = Uuid([12; 16]);

pub(crate) struct TestBroker {
    broker: Arc<Broker>,
}

impl TestBroker {
    /// A broker that is registered, and alone.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let broker = Self::assemble(settings, &[NODE_ID]);
        broker.commit([registration(NODE_ID).into()]).await;
        broker
    }

    /// One of two voters, the other of which never answers: there is no leader of the quorum.
    pub(super) fn without_quorum() -> Self {
        Self::assemble(&[], &[NODE_ID, NODE_ID + 1])
    }

    fn assemble(settings: &[(&str, &str)], voters: &[i32]) -> Self {
        let flags = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let config = load(Sources { flags, ..Sources::default() }).expect("the settings are good").config;
        let env = Env { disk: Arc::new(SimDisk::new(1)), ..Env::real() };
        let memory = Memory::new(&config, &*env.disk);
        let (listener, lag_max_ms) = (config.inter_broker_listener(), config.replica_lag_time_max_ms);
        let config = Arc::new(ArcSwap::from_pointee(config));
        let metadata: Arc<MetadataCache> = Arc::default();
        let quorum = open_quorum(&env, &metadata, &config, voters);
        let (syncer, _) = Syncer::start();
        let shared = Shared::new(env.clone(), NODE_ID, lag_max_ms, syncer);
        let table = PartitionTable::new(shared.clone(), PathBuf::from("/data"), Arc::clone(&config), INCARNATION_ID);
        let partitions = Arc::new(table.expect("an empty disk"));
        let own = NodeIdentity { node_id: NODE_ID, directory_id: DIRECTORY_ID, incarnation_id: INCARNATION_ID };
        let peers = Arc::new(Peers::new(
            own,
            listener,
            Duration::from_secs(1),
            Arc::clone(&metadata),
            quorum.watch_status(),
            Handle::current(),
            dialer(),
        ));
        let liveness = Arc::new(Liveness::new(Arc::clone(&env.clock)));
        let controller = Controller::start(
            quorum.clone(),
            Arc::clone(&metadata),
            Arc::clone(&config),
            Arc::clone(&env.random),
            Arc::clone(&peers),
            Arc::clone(&liveness),
            &Handle::current(),
        );
        let key = voter(NODE_ID).key();
        let members = Arc::new(Members::new(key, CLUSTER_ID.to_owned(), quorum.clone(), Arc::clone(&config), dialer()));
        let log_limit = Arc::<LogLimit>::default();
        let session = Arc::new(Session::new(&config));
        let coordinators = Coordinators::new(&coordination::Ground {
            env: env.clone(),
            node_id: NODE_ID,
            config: Arc::clone(&config),
            metadata: Arc::clone(&metadata),
            controller: controller.clone(),
            peers: Arc::clone(&peers),
            partitions: Arc::clone(&partitions),
            log_limit: Arc::clone(&log_limit),
            session: Arc::clone(&session),
        });
        metadata.subscribe(Arc::clone(&partitions) as _);
        coordinators.follow(&metadata, &Handle::current());
        let broker = Broker {
            env,
            node_id: NODE_ID,
            directory_id: DIRECTORY_ID,
            cluster_id: CLUSTER_ID.to_owned(),
            quorum,
            controller,
            peers,
            senders: Senders::new(members, Arc::clone(&metadata), Arc::clone(&log_limit)),
            metadata,
            liveness,
            partitions,
            groups: coordinators.groups,
            transactions: coordinators.transactions,
            marker_writer: coordinators.marker_writer,
            verifier: coordinators.verifier,
            fetch_sessions: FetchSessions::new(10),
            memory,
            quotas: Quotas::new(&config.load()),
            log_limit,
            session,
            handshake_turns: Broker::new_handshake_turns(&Handle::current()),
            audit: Audit::default(),
            authorizer: Authorizer::new(&config.load()),
            certificates: Certificates::new(Vec::new(), client::Security::default().into()),
            config,
            shared,
        };
        Self { broker: Arc::new(broker) }
    }

    /// Writes to the metadata log. Handlers see it when this returns.
    pub(crate) async fn commit(&self, records: impl IntoIterator<Item = MetadataRecord>) {
        let values = records.into_iter().map(|record| record.write()).collect();
        let epoch = self.quorum.leader_epoch().expect("this node leads its quorum");
        let after = self.metadata.committed().offset();
        let offset = self.quorum.propose(epoch, after, values).await.expect("the disk takes it");
        self.metadata.wait_for(offset).await;
    }

    /// A topic with these partitions, from 0 on.
    pub(crate) async fn create(&self, name: &str, id: Uuid, partitions: &[PartitionRecord]) {
        let topic = TopicRecord { name: name.to_owned(), topic_id: id };
        let numbered = (0..).zip(partitions).map(|(partition_id, partition)| {
            PartitionRecord { partition_id, topic_id: id, ..partition.clone() }.into()
        });
        self.commit(std::iter::once(topic.into()).chain(numbered)).await;
    }

    /// The topic of group offsets, with one partition that is led here and loaded.
    pub(crate) async fn serve_groups(&self) {
        self.create(OFFSETS_TOPIC, Uuid([13; 16]), &[led_by(NODE_ID, &[NODE_ID])]).await;
        while self.groups.list_groups(&[], &[]) == Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            yield_now().await;
        }
    }

    /// Appends a record to a partition that is led here.
    pub(crate) fn append(&self, topic: &str, index: i32) {
        let partition = self.partitions.find_by_name(topic, index).expect("the partition is here");
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        partition.enqueue(batch(), Acks::Leader, &completion, 0, &mut commits);
        commits.commit();
    }

    /// Appends a record to a partition that is followed here, as if its leader had sent it, with this high watermark.
    pub(crate) fn follow(&self, topic: &str, index: i32, high_watermark: i64) {
        let partition = self.partitions.find_by_name(topic, index).expect("the partition is here");
        let (end, epoch) = (partition.view().log_end_offset(), partition.leader_epoch());
        let mut bytes = batch().bytes.to_vec();
        bytes[..8].copy_from_slice(&end.to_be_bytes());
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        let promises = Promised { high_watermark, durable_offset: 0 };
        partition.append_from_leader(epoch, end, &bytes.into(), promises, 0).expect("it follows");
    }
}

impl Deref for TestBroker {
    type Target = Arc<Broker>;

    fn deref(&self) -> &Arc<Broker> {
        &self.broker
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        self.broker.quorum.stop();
        self.broker.metadata.unsubscribe_all();
        self.broker.shared.syncer.close();
    }
}

fn open_quorum(
    env: &Env,
    metadata: &Arc<MetadataCache>,
    config: &Arc<ArcSwap<configuration::BrokerConfig>>,
    voters: &[i32],
) -> Quorum {
    let options = Options {
        disk: Arc::clone(&env.disk),
        clock: Arc::clone(&env.clock),
        random: Arc::clone(&env.random),
        dir: "/data/__cluster_metadata-0".into(),
        node_id: NODE_ID,
        directory_id: DIRECTORY_ID,
        segment_bytes: 1 << 20,
        snapshot_bytes: 1 << 20,
        disk_watch: Arc::new(DiskWatch::new(Arc::clone(&env.clock), Duration::from_secs(60))),
    };
    let voters = VoterSet::new(voters.iter().copied().map(voter).collect());
    Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &voters).expect("an empty disk");
    let publisher = Publisher::start(Arc::clone(metadata), Arc::clone(config)).expect("a thread starts");
    let node = Node::open(&options, publisher, Box::new(NoPeers)).expect("the disk works");
    Quorum::start(node).expect("a thread starts").0
}

/// A member of the quorum. Node 1 is this broker.
pub(super) fn voter(node_id: i32) -> Voter {
    let directory_id = if node_id == NODE_ID { DIRECTORY_ID } else { Uuid([node_id as u8; 16]) };
    Voter { node_id, directory_id, host: format!("node-{node_id}"), port: 9093 }
}

fn dialer() -> Dialer {
    Dialer::new(NODE_ID, client::Security::default())
}

/// A request of a client of this host.
pub(super) fn context(api_version: i16) -> RequestContext {
    RequestContext {
        api_version,
        client_id: Some("test".to_owned()),
        client_address: SocketAddr::from(([127, 0, 0, 1], 5000)),
        listener: LISTENER.into(),
        is_inter_broker: false,
        principal: Principal::anonymous(),
        grants: Arc::default(),
        certificate: None,
        api_key: 0,
    }
}

/// A broker that serves clients at [`LISTENER`].
pub(crate) fn registration(broker_id: i32) -> RegisterBrokerRecord {
    RegisterBrokerRecord {
        broker_id,
        broker_epoch: 1,
        incarnation_id: if broker_id == NODE_ID { INCARNATION_ID } else { Uuid([broker_id as u8; 16]) },
        end_points: vec![endpoint(LISTENER, broker_id)],
        rack: Some(format!("rack-{broker_id}")),
        fenced: false,
        log_dirs: vec![voter(broker_id).directory_id],
        ..Default::default()
    }
}

pub(super) fn endpoint(listener: &str, broker_id: i32) -> BrokerEndpoint {
    let port = 9000 + broker_id as u16;
    BrokerEndpoint { name: listener.to_owned(), host: format!("broker-{broker_id}"), port, security_protocol: 0 }
}

/// A partition of which all replicas are in sync.
pub(crate) fn led_by(leader: i32, replicas: &[i32]) -> PartitionRecord {
    PartitionRecord {
        replicas: replicas.to_vec(),
        isr: replicas.to_vec(),
        leader,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: replicas.iter().map(|id| voter(*id).directory_id).collect(),
        ..Default::default()
    }
}

/// A batch of one record.
pub(crate) fn batch() -> Batch {
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(b"value"), &[]);
    builder.build()
}
