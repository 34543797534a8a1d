//! The controller, the publisher and the quorum together, on a simulated disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use log::simdisk::{Rng, SimOp};
use log::{Disk, SimDisk};
use parking_lot::Mutex;
use wire::api::create_partitions::CreatePartitionsTopic;
use wire::api::create_topics::CreatableTopic;
use wire::api::delete_topics::DeleteTopicState;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest};
use wire::{ErrorCode, Uuid};

use super::*;
use crate::config::BrokerConfig;
use crate::quorum::tests::TestClock;
use crate::quorum::{NoPeers, Node, Options, Quorum, QuorumError};

struct World {
    controller: Controller,
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
    thread: JoinHandle<Result<(), QuorumError>>,
}

impl World {
    async fn start(disk: &SimDisk, incarnation: u8) -> Result<Self, String> {
        let cache: Arc<MetadataCache> = Arc::default();
        let config = Arc::new(ArcSwap::from_pointee(BrokerConfig::default()));
        let options = Options {
            disk: Arc::new(disk.clone()) as Arc<dyn Disk>,
            clock: Arc::new(TestClock::default()),
            dir: "/data/__cluster_metadata-0".into(),
            node_id: 1,
            voters: vec![1],
            segment_bytes: 1 << 20,
            snapshot_bytes: 4000,
        };
        let publisher = Publisher::new(cache.clone(), config.clone());
        let node = Node::open(&options, publisher, Box::new(NoPeers)).map_err(|error| error.to_string())?;
        let (quorum, thread) = Quorum::start(node).map_err(|error| error.to_string())?;
        let random = Arc::new(SeededRandom(Mutex::new(Rng::new(u64::from(incarnation)))));
        let controller = Controller::start(quorum, cache.clone(), config.clone(), random);
        let registration = BrokerRegistration {
            id: 1,
            incarnation_id: Uuid([incarnation; 16]),
            endpoints: BrokerConfig::default().advertised_endpoints().map_err(|error| error.to_string())?,
            rack: None,
            log_dirs: vec![Uuid([9; 16])],
            is_clean: true,
        };
        controller.register_broker(registration).await.map_err(|error| error.to_string())?;
        Ok(Self { controller, cache, config, thread })
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
        match self.controller.create_topics(vec![topic], false).await {
            Ok(results) => results[0].error_code,
            Err(error) => error.code(),
        }
    }

    async fn delete(&self, name: &str) -> ErrorCode {
        let topic = DeleteTopicState { name: Some(name.to_owned()), topic_id: Uuid::ZERO };
        match self.controller.delete_topics(vec![topic]).await {
            Ok(results) => results[0].error_code,
            Err(error) => error.code(),
        }
    }

    async fn grow(&self, name: &str, count: i32) -> ErrorCode {
        let topic = CreatePartitionsTopic { name: name.to_owned(), count, assignments: None };
        match self.controller.create_partitions(vec![topic], false).await {
            Ok(results) => results[0].error_code,
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
        match self.controller.incremental_alter_configs(request).await {
            Ok(results) => results[0].error_code,
            Err(error) => error.code(),
        }
    }
}

/// Ids that differ, from a seed.
struct SeededRandom(Mutex<Rng>);

impl crate::env::Random for SeededRandom {
    fn bytes(&self) -> [u8; 16] {
        let mut rng = self.0.lock();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
        bytes[8..].copy_from_slice(&rng.next_u64().to_be_bytes());
        bytes
    }
}

/// What a listener was told.
#[derive(Default)]
struct Told {
    cache: Mutex<Option<Arc<MetadataCache>>>,
    created: Mutex<Vec<String>>,
    settings: Mutex<Vec<ConfigResource>>,
}

impl Applied for Told {
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
    let told = Arc::new(Told::default());
    *told.cache.lock() = Some(world.cache.clone());
    assert_eq!(world.cache.subscribe(told.clone()).topic_count(), 0);

    assert_eq!(world.create("a", 3).await, ErrorCode::NONE);
    assert_eq!(world.cache.load().topic("a").unwrap().partitions.len(), 3);
    assert_eq!(*told.created.lock(), ["a"]);
    assert_eq!(world.create("a", 3).await, ErrorCode::TOPIC_ALREADY_EXISTS);
    assert_eq!(world.grow("a", 5).await, ErrorCode::NONE);
    assert_eq!(world.set(ResourceKind::Topic, "a", "retention.ms", "5").await, ErrorCode::NONE);
    assert_eq!(*told.settings.lock(), [ConfigResource::topic("a")]);
    let first = world.controller.allocate_producer_ids(1).await.unwrap();
    let second = world.controller.allocate_producer_ids(1).await.unwrap();
    assert_eq!((first.first, second.first), (0, 1000));

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
async fn a_failing_disk_is_an_error_for_changes_and_none_for_readers() {
    let disk = SimDisk::new(4);
    let world = World::start(&disk, 1).await.unwrap();
    assert_eq!(world.create("a", 1).await, ErrorCode::NONE);
    disk.set_free_bytes(1000);
    assert_eq!(world.create("b", 1).await, ErrorCode::KAFKA_STORAGE_ERROR);
    disk.set_free_bytes(1 << 30);
    assert_eq!(world.create("b", 1).await, ErrorCode::NONE);
    // Full in the middle of a write: what was asked comes about when there is room again.
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
