//! The controller, the publisher and the quorum together, on a simulated disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use metadata::acl::{AclOperation, PatternType, PermissionType, ResourceType};
use metadata::{Applied, BrokerRegistration, ConfigResource, MetadataDelta, MetadataImage, ResourceKind};
use parking_lot::Mutex;
use platform::DiskWatch;
use platform::simulation::{SeededRandom, TickingClock};
use quorum::{NoPeers, Node, Options, Quorum, QuorumError, Voter, VoterSet};
use storage::simdisk::{Rng, SimOp};
use storage::{Disk, SimDisk};
use tokio::runtime::Handle;
use wire::api::allocate_producer_ids::AllocateProducerIdsRequest;
use wire::api::alter_partition::{AlterPartitionRequest, BrokerState, PartitionRequest, TopicRequest};
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::api::confirm_sender::NodeIdentity;
use wire::api::create_acls::{AclCreation, CreateAclsRequest};
use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsTopic};
use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest};
use wire::api::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use wire::api::elect_leaders::ElectLeadersRequest;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::api::list_partition_reassignments::ListPartitionReassignmentsRequest;
use wire::api::unregister_broker::UnregisterBrokerRequest;
use wire::{ErrorCode, Uuid};

use super::*;
use crate::cluster::{Liveness, Peers};
use crate::stream::Dialer;

/// Writes what a cluster of this one node begins with, if it has nothing yet.
fn bootstrap(options: &Options) -> Result<(), QuorumError> {
    let Options { node_id, directory_id, .. } = *options;
    let voter = Voter { node_id, directory_id, host: "localhost".to_owned(), port: 9093 };
    match Node::is_blank(&*options.disk, &options.dir)? {
        true => Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &VoterSet::new(vec![voter])),
        false => Ok(()),
    }
}

struct World {
    controller: Controller,
    cache: Arc<MetadataCache>,
    liveness: Arc<Liveness>,
    config: Arc<ArcSwap<BrokerConfig>>,
    thread: JoinHandle<Result<(), QuorumError>>,
}

impl World {
    async fn start(disk: &SimDisk, incarnation: u8) -> Result<Self, String> {
        Self::start_with(disk, incarnation, BrokerConfig::default()).await
    }

    async fn start_with(disk: &SimDisk, incarnation: u8, config: BrokerConfig) -> Result<Self, String> {
        let cache: Arc<MetadataCache> = Arc::default();
        let config = Arc::new(ArcSwap::from_pointee(config));
        let options = Options {
            disk: Arc::new(disk.clone()) as Arc<dyn Disk>,
            clock: Arc::new(TickingClock::default()),
            random: Arc::new(SeededRandom::new(u64::from(incarnation))),
            dir: "/data/__cluster_metadata-0".into(),
            node_id: 1,
            directory_id: Uuid([9; 16]),
            segment_bytes: 1 << 20,
            snapshot_bytes: 4000,
            disk_watch: Arc::new(DiskWatch::new(Arc::new(TickingClock::default()), Duration::from_secs(2))),
        };
        let publisher = Publisher::start(cache.clone(), config.clone()).unwrap();
        bootstrap(&options).map_err(|error| error.to_string())?;
        let node = Node::open(&options, publisher, Box::new(NoPeers)).map_err(|error| error.to_string())?;
        let (quorum, thread) = Quorum::start(node).map_err(|error| error.to_string())?;
        let random = Arc::new(SeededRandom::new(u64::from(incarnation)));
        cache.wait_for(cache.committed().offset()).await;
        let listener = config.load().inter_broker_listener();
        let peers = Peers::new(
            NodeIdentity { node_id: 1, ..NodeIdentity::default() },
            listener,
            Duration::from_secs(1),
            cache.clone(),
            quorum.watch_status(),
            Handle::current(),
            Dialer::new(1, client::Security::default()),
        );
        let liveness = Arc::new(Liveness::new(Arc::new(TickingClock::default())));
        let controller = Controller::start(
            quorum,
            cache.clone(),
            config.clone(),
            random,
            Arc::new(peers),
            liveness.clone(),
            &Handle::current(),
        );
        let registration = BrokerRegistration {
            id: 1,
            incarnation_id: Uuid([incarnation; 16]),
            endpoints: BrokerConfig::default().advertised_endpoints().map_err(|error| error.to_string())?,
            rack: None,
            log_dirs: vec![Uuid([9; 16])],
            is_clean: true,
            lost_replicas: Vec::new(),
        };
        let previous_epoch = cache.load().broker(1).map(|broker| broker.epoch);
        let answer =
            controller.ask(registration.to_request(previous_epoch)).await.map_err(|error| error.to_string())?;
        assert_eq!(answer.error_code, ErrorCode::NONE);
        // It is answered when it is committed.
        cache.wait_for(answer.broker_epoch).await;
        Ok(Self { controller, cache, liveness, config, thread })
    }

    async fn stop(self) -> Result<(), QuorumError> {
        drop(self.controller);
        // The task has the last handle of the quorum; it ends by itself.
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }

    async fn create(&self, name: &str, partitions: i32) -> ErrorCode {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        };
        match self.controller.ask(CreateTopicsRequest { topics: vec![topic], ..Default::default() }).await {
            Ok(answer) => answer.topics[0].error_code,
            Err(error) => error.code(),
        }
    }

    async fn delete(&self, name: &str) -> ErrorCode {
        let topic = DeleteTopicState { name: Some(name.to_owned()), topic_id: Uuid::ZERO };
        match self.controller.ask(DeleteTopicsRequest { topics: vec![topic], ..Default::default() }).await {
            Ok(answer) => answer.responses[0].error_code,
            Err(error) => error.code(),
        }
    }

    async fn grow(&self, name: &str, count: i32) -> ErrorCode {
        let topic = CreatePartitionsTopic { name: name.to_owned(), count, assignments: None };
        match self.controller.ask(CreatePartitionsRequest { topics: vec![topic], ..Default::default() }).await {
            Ok(answer) => answer.results[0].error_code,
            Err(error) => error.code(),
        }
    }

    async fn set(&self, kind: ResourceKind, resource: &str, name: &str, value: &str) -> ErrorCode {
        let config = AlterableConfig { name: name.to_owned(), config_operation: 0, value: Some(value.to_owned()) };
        let resource = AlterConfigsResource {
            resource_type: kind as i8,
            resource_name: resource.to_owned(),
            configs: vec![config],
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
        match self.controller.ask(request).await {
            Ok(answer) => answer.responses[0].error_code,
            Err(error) => error.code(),
        }
    }
}

/// What a listener has received.
#[derive(Default)]
struct Recorder {
    cache: Mutex<Option<Arc<MetadataCache>>>,
    created: Mutex<Vec<String>>,
    settings: Mutex<Vec<ConfigResource>>,
}

impl Applied for Recorder {
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        let cache = self.cache.lock();
        let published = cache.as_ref().unwrap().load().generation();
        assert_eq!(image.generation(), published + 1, "listeners come before readers");
        self.created.lock().extend(delta.created.iter().map(|topic| topic.name.to_string()));
        self.settings.lock().extend(delta.configs.iter().cloned());
    }
}

#[tokio::test]
async fn a_change_is_there_when_it_is_answered() {
    let disk = SimDisk::new(1);
    let world = World::start(&disk, 1).await.unwrap();
    let recorder = Arc::new(Recorder::default());
    *recorder.cache.lock() = Some(world.cache.clone());
    assert_eq!(world.cache.subscribe(recorder.clone()).topic_count(), 0);

    assert_eq!(world.create("a", 3).await, ErrorCode::NONE);
    assert_eq!(world.cache.load().topic("a").unwrap().partitions.len(), 3);
    assert_eq!(*recorder.created.lock(), ["a"]);
    assert_eq!(world.create("a", 3).await, ErrorCode::TOPIC_ALREADY_EXISTS);
    assert_eq!(world.grow("a", 5).await, ErrorCode::NONE);
    assert_eq!(world.set(ResourceKind::Topic, "a", "retention.ms", "5").await, ErrorCode::NONE);
    assert_eq!(*recorder.settings.lock(), [ConfigResource::topic("a")]);
    let broker_epoch = world.cache.load().broker(1).unwrap().epoch;
    let block = AllocateProducerIdsRequest { broker_id: 1, broker_epoch };
    let first = world.controller.ask(block.clone()).await.unwrap();
    let second = world.controller.ask(block).await.unwrap();
    assert_eq!((first.producer_id_start, second.producer_id_start), (0, 1000));

    let image = world.cache.load_full();
    world.stop().await.unwrap();
    let world = World::start(&disk, 2).await.unwrap();
    let again = world.cache.load_full();
    assert!(again.topics().eq(image.topics()) && again.configs().eq(image.configs()));
    assert_eq!(again.next_producer_id(), 2000);
    assert_eq!(again.broker(1).unwrap().incarnation_id, Uuid([2; 16]));
    assert_eq!(world.delete("a").await, ErrorCode::NONE);
    assert_eq!(world.delete("a").await, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert_eq!(world.cache.load().configs().count(), 0);
}

#[tokio::test]
async fn dynamic_settings_of_the_broker_are_in_force_when_they_are_answered() {
    let disk = SimDisk::new(2);
    let world = World::start(&disk, 1).await.unwrap();
    assert_eq!(world.set(ResourceKind::Broker, "", "min.insync.replicas", "2").await, ErrorCode::NONE);
    assert_eq!(world.config.load().min_insync_replicas, 2);
    assert_eq!(world.set(ResourceKind::Broker, "1", "min.insync.replicas", "3").await, ErrorCode::NONE);
    assert_eq!(world.config.load().min_insync_replicas, 3);
    assert_eq!(
        world.set(ResourceKind::Broker, "7", "min.insync.replicas", "3").await,
        ErrorCode::BROKER_ID_NOT_REGISTERED
    );
    world.stop().await.unwrap();
    assert_eq!(World::start(&disk, 2).await.unwrap().config.load().min_insync_replicas, 3);
}

#[tokio::test]
async fn requests_that_arrive_together_are_written_together() {
    let disk = SimDisk::new(3);
    let world = Arc::new(World::start(&disk, 1).await.unwrap());
    let before = world.cache.load().generation();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            let world = world.clone();
            tokio::spawn(async move { world.create(&format!("topic-{}", n / 2), 1).await })
        })
        .collect();
    let mut codes: BTreeMap<i16, usize> = BTreeMap::new();
    for task in tasks {
        *codes.entry(task.await.unwrap().0).or_default() += 1;
    }
    assert_eq!(codes, BTreeMap::from([(0, 50), (36, 50)]));
    let image = world.cache.load();
    assert_eq!(image.topic_count(), 50);
    assert!(image.generation() - before < 50, "{} images", image.generation() - before);
}

#[tokio::test]
async fn a_sign_of_life_does_not_stand_behind_what_clients_ask_for() {
    let world = Arc::new(World::start(&SimDisk::new(6), 1).await.unwrap());
    let (of_client, mut created) = mpsc::unbounded_channel();
    // More than go to the quorum together, and wait already when the broker asks.
    let requests = Arc::new(AtomicUsize::new(0));
    for n in 0..1000 {
        let (world, of_client, requests) = (world.clone(), of_client.clone(), requests.clone());
        tokio::spawn(async move {
            requests.fetch_add(1, Ordering::Relaxed);
            of_client.send(world.create(&format!("topic-{n}"), 1).await)
        });
    }
    while requests.load(Ordering::Relaxed) < 1000 {
        tokio::task::yield_now().await;
    }
    let broker_epoch = world.cache.load().broker(1).unwrap().epoch;
    let heartbeat = BrokerHeartbeatRequest { broker_id: 1, broker_epoch, ..Default::default() };
    assert_eq!(world.controller.ask(heartbeat).await.unwrap().error_code, ErrorCode::NONE);
    let before = created.len();
    assert!(before < 500, "{before} requests of clients were answered before it");
    for _ in 0..1000 {
        assert_eq!(created.recv().await, Some(ErrorCode::NONE));
    }
}

#[tokio::test]
async fn a_failing_disk_is_an_error_for_changes_and_none_for_readers() {
    let disk = SimDisk::new(4);
    let world = World::start(&disk, 1).await.unwrap();
    assert_eq!(world.create("a", 1).await, ErrorCode::NONE);
    disk.set_free_bytes(1000);
    assert_eq!(world.create("b", 1).await, ErrorCode::KAFKA_STORAGE_ERROR);
    disk.set_free_bytes(1 << 30);
    assert_eq!(world.create("b", 1).await, ErrorCode::NONE);
    // Full in the middle of a write: the request is applied when there is free space again.
    disk.fail(SimOp::Write, 0, rustix::io::Errno::NOSPC);
    assert_eq!(world.create("full", 1).await, ErrorCode::KAFKA_STORAGE_ERROR);
    assert_eq!(world.create("full", 1).await, ErrorCode::TOPIC_ALREADY_EXISTS);
    disk.fail(SimOp::Sync, 0, rustix::io::Errno::IO);
    assert_eq!(world.create("c", 1).await, ErrorCode::KAFKA_STORAGE_ERROR);
    disk.clear_faults();
    for _ in 0..3 {
        assert_eq!(world.create("d", 1).await, ErrorCode::NOT_CONTROLLER);
    }
    assert_eq!(world.cache.load().topic_count(), 3);
    assert!(world.stop().await.is_err());
}

/// A second broker comes, takes over, and goes.
#[tokio::test]
async fn a_cluster_of_two_goes_on_with_one() {
    let disk = SimDisk::new(5);
    let World { controller, cache, liveness, .. } = World::start(&disk, 1).await.unwrap();
    let second = BrokerRegistration {
        id: 2,
        incarnation_id: Uuid([2; 16]),
        endpoints: Vec::new(),
        rack: None,
        log_dirs: vec![Uuid([8; 16])],
        is_clean: true,
        lost_replicas: Vec::new(),
    };
    // What brokers ask for is answered when it is committed.
    let answer = controller.ask(second.to_request(None)).await.unwrap();
    let epochs = [1, 2].map(|id| cache.committed().broker(id).unwrap().epoch);
    assert_eq!((answer.error_code, answer.broker_epoch), (ErrorCode::NONE, epochs[1]));
    let other = BrokerRegistration { incarnation_id: Uuid([3; 16]), ..second };
    liveness.touch(2);
    let answer = controller.ask(other.to_request(None)).await.unwrap();
    assert_eq!(answer.error_code, ErrorCode::DUPLICATE_BROKER_REGISTRATION);

    let assignment = CreatableReplicaAssignment { partition_index: 0, broker_ids: vec![2, 1] };
    let topic = CreatableTopic {
        name: "a".into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![assignment],
        ..CreatableTopic::default()
    };
    let create = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
    assert_eq!(controller.ask(create).await.unwrap().topics[0].error_code, ErrorCode::NONE);
    let leader = || cache.committed().partition("a", 0).unwrap().leader;
    controller.fence_brokers(vec![(2, epochs[1])]).await.unwrap();
    assert_eq!(leader(), 1);
    let beat = BrokerHeartbeatRequest {
        broker_id: 2,
        broker_epoch: epochs[1],
        current_metadata_offset: cache.committed().offset(),
        ..BrokerHeartbeatRequest::default()
    };
    let answer = controller.ask(beat).await.unwrap();
    assert_eq!((answer.error_code, answer.is_fenced), (ErrorCode::NONE, false));

    let members = [1, 2].map(|id| BrokerState { broker_id: id, broker_epoch: epochs[id as usize - 1] });
    let partition = cache.committed().partition("a", 0).unwrap().clone();
    let requested = PartitionRequest {
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        new_isr_with_epochs: members.to_vec(),
        ..PartitionRequest::default()
    };
    let topic_id = cache.committed().topic("a").unwrap().id;
    let request = AlterPartitionRequest {
        broker_id: 1,
        broker_epoch: epochs[0],
        topics: vec![TopicRequest { topic_id, partitions: vec![requested] }],
    };
    let answer = controller.ask(request).await.unwrap();
    assert_eq!(answer.topics[0].partitions[0].isr, [1, 2]);
    assert_eq!((controller.balance_leaders(9).await, leader()), (Ok(false), 2));

    let to = |replicas: &[i32]| AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic {
            name: "a".into(),
            partitions: vec![ReassignablePartition { partition_index: 0, replicas: Some(replicas.to_vec()) }],
        }],
        ..AlterPartitionReassignmentsRequest::default()
    };
    let answer = controller.ask(to(&[1])).await.unwrap();
    assert_eq!((answer.responses[0].partitions[0].error_code, leader()), (ErrorCode::NONE, 1));
    controller.ask(to(&[2])).await.unwrap();
    let moving = controller.ask(ListPartitionReassignmentsRequest::default()).await.unwrap();
    assert_eq!(moving.topics[0].partitions[0].adding_replicas, [2]);
    let answer = controller.ask(ElectLeadersRequest::default()).await.unwrap();
    let result = &answer.replica_election_results[0].partition_result[0];
    assert_eq!(result.error_code, ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE);
    assert_eq!(controller.elect_unclean_leaders(9).await, Ok(false));

    let gone = UnregisterBrokerRequest { broker_id: 2 };
    assert_eq!(controller.ask(gone.clone()).await.unwrap().error_code, ErrorCode::NONE);
    let answer = controller.ask(gone).await.unwrap();
    assert_eq!(answer.error_code, ErrorCode::BROKER_ID_NOT_REGISTERED);
}

/// Random changes, crashes in between: what was answered is there, and nothing else but what was under way.
#[tokio::test]
async fn the_image_is_what_was_answered() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let mut model: BTreeMap<String, (usize, Option<String>)> = BTreeMap::new();
        for life in 1..5 {
            let world = World::start(&disk, life).await.unwrap();
            check(&world.cache.load(), &model, seed);
            for _ in 0..rng.below(40) {
                let name = format!("t{}", rng.below(12));
                let known = model.get(&name).cloned();
                match rng.below(4) {
                    0 => {
                        let partitions = 1 + rng.below(4) as usize;
                        let code = world.create(&name, partitions as i32).await;
                        assert_eq!(code.0, if known.is_some() { 36 } else { 0 });
                        model.entry(name).or_insert((partitions, None));
                    }
                    1 => {
                        let code = world.delete(&name).await;
                        assert_eq!(code.0, if known.is_some() { 0 } else { 3 });
                        model.remove(&name);
                    }
                    2 => {
                        let count = 1 + rng.below(8) as usize;
                        let code = world.grow(&name, count as i32).await;
                        let expected = match known {
                            None => 3,
                            Some((partitions, _)) if count <= partitions => 37,
                            Some(_) => 0,
                        };
                        assert_eq!(code.0, expected);
                        if let Some(topic) = model.get_mut(&name).filter(|_| expected == 0) {
                            topic.0 = count;
                        }
                    }
                    _ => {
                        let value = rng.below(1000).to_string();
                        let code = world.set(ResourceKind::Topic, &name, "retention.ms", &value).await;
                        assert_eq!(code.0, if known.is_some() { 0 } else { 3 });
                        if let Some(topic) = model.get_mut(&name) {
                            topic.1 = Some(value);
                        }
                    }
                }
            }
            check(&world.cache.load(), &model, seed);
            if rng.percent(50) {
                disk.crash();
            } else {
                world.stop().await.unwrap();
            }
        }
    }
}

fn check(image: &MetadataImage, model: &BTreeMap<String, (usize, Option<String>)>, seed: u64) {
    let found: BTreeMap<String, (usize, Option<String>)> = image
        .topics()
        .map(|topic| {
            let retention = image.topic_config(&topic.name).get("retention.ms").cloned();
            (topic.name.to_string(), (topic.partitions.len(), retention))
        })
        .collect();
    assert_eq!(&found, model, "seed {seed}");
    assert_eq!(image.partition_count(), model.values().map(|(partitions, _)| partitions).sum::<usize>());
}

fn client(name: &str) -> Client {
    Client { principal: Principal::user(name), address: std::net::Ipv4Addr::LOCALHOST.into() }
}

fn topic_request(name: &str) -> CreateTopicsRequest {
    let topic =
        CreatableTopic { name: name.to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
    CreateTopicsRequest { topics: vec![topic], ..Default::default() }
}

fn acl(name: &str, permission: PermissionType) -> CreateAclsRequest {
    let creation = AclCreation {
        resource_type: ResourceType::Topic as i8,
        resource_name: name.to_owned(),
        resource_pattern_type: PatternType::Literal as i8,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: AclOperation::Create as i8,
        permission_type: permission as i8,
    };
    CreateAclsRequest { creations: vec![creation] }
}

/// Settings of a broker with an authorizer.
fn guarded() -> BrokerConfig {
    let set = [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
    ];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    BrokerConfig::new(set).expect("the settings are valid")
}

#[tokio::test]
async fn what_a_client_asks_for_is_decided_by_the_newest_acls() {
    let world = World::start_with(&SimDisk::new(1), 1, guarded()).await.unwrap();
    let controller = &world.controller;
    let create = async |name: &str, client: &Client| {
        let answer = controller.ask_for(Some(client.clone()), topic_request(name)).await?;
        Ok(answer.topics[0].error_code)
    };
    let alice = client("alice");
    assert_eq!(create("a", &alice).await, Err(ControllerError::Denied));
    assert_eq!(create("a", &client("admin")).await, Ok(ErrorCode::NONE));
    // A node asks for itself.
    assert_eq!(world.create("b", 1).await, ErrorCode::NONE);
    let answer = controller.ask_for(Some(alice.clone()), acl("c", PermissionType::Allow)).await;
    assert_eq!(answer.err(), Some(ControllerError::Denied));
    controller.ask(acl("c", PermissionType::Allow)).await.unwrap();
    assert_eq!(create("c", &alice).await, Ok(ErrorCode::NONE));
    // Of what arrives together the first is what the second is decided by.
    let (denied, refused) = tokio::join!(controller.ask(acl("d", PermissionType::Deny)), create("d", &alice));
    assert_eq!((denied.unwrap().results[0].error_code, refused), (ErrorCode::NONE, Err(ControllerError::Denied)));
    let broker_request = AllocateProducerIdsRequest { broker_id: 1, broker_epoch: 0 };
    let answer = controller.ask_for(Some(client("alice")), broker_request).await;
    assert_eq!(answer.err(), Some(ControllerError::Denied));
}

#[tokio::test]
async fn a_request_is_forwarded_with_its_client() {
    let world = World::start_with(&SimDisk::new(1), 1, guarded()).await.unwrap();
    let forward = |client: Option<(&str, &str)>| {
        let mut body = BytesMut::new();
        let version = *CreateTopicsRequest::API.versions.end();
        topic_request("a").write(&mut Writer::new(&mut body, version, true));
        ForwardRequest {
            sender: NodeIdentity { node_id: 2, ..NodeIdentity::default() },
            api_key: CreateTopicsRequest::API.key,
            api_version: version,
            body: body.freeze(),
            client: client.map(|(principal, address)| ForwardedClient {
                principal: principal.to_owned(),
                address: address.to_owned(),
            }),
        }
    };
    let ask = async |version, client| {
        let answer = world.controller.answer(version, forward(client)).await;
        (answer.error_code, answer.is_client_denied)
    };
    let denied = (ErrorCode::CLUSTER_AUTHORIZATION_FAILED, true);
    assert_eq!(ask(1, Some(("User:alice", "127.0.0.1"))).await, denied);
    for odd in [("alice", "127.0.0.1"), ("User:", "127.0.0.1"), ("User:admin", "somewhere")] {
        assert_eq!(ask(1, Some(odd)).await, (ErrorCode::PRINCIPAL_DESERIALIZATION_FAILURE, false), "{odd:?}");
    }
    assert_eq!(ask(0, None).await, (ErrorCode::UNSUPPORTED_VERSION, false));
    assert!(world.cache.load().topic("a").is_none());
    assert_eq!(ask(1, Some(("User:admin", "127.0.0.1"))).await, (ErrorCode::NONE, false));
    assert!(world.cache.load().topic("a").is_some());
}
