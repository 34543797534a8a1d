//! A node with a small disk, whose topics fill it.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use configuration::{BrokerConfig, ConfigMap};
use metadata::{Applied, CONSUMER_OFFSETS, MetadataImage};
use platform::Env;
use platform::simulation::SimClock;
use storage::SimDisk;
use wire::batch::BatchBuilder;
use wire::state::metadata::{
    ConfigRecord, MetadataRecord, PartitionRecord, RegisterBrokerRecord, RemoveTopicRecord, TopicRecord,
};
use wire::{ErrorCode, Uuid};

use super::*;
use crate::partition::{Acks, Partition, PendingCommits, ProduceCompletion, ProduceOutcome, Shared, Syncer};

/// One record of this size makes a segment.
const RECORD_BYTES: usize = 600_000;
const DISK_BYTES: u64 = 40_000_000;
/// What `disk.capacity.threshold.percent=90` keeps free.
const THRESHOLD_BYTES: u64 = DISK_BYTES / 10;
const INCARNATION_ID: Uuid = Uuid([9; 16]);

const GIVES_WAY: &[(&str, &str)] = &[("disk.capacity.policy", "delete-oldest"), ("segment.bytes", "1048576")];
const STAYS: &[(&str, &str)] = &[("disk.capacity.policy", "stop-produce"), ("segment.bytes", "1048576")];
const HAS_NO_POLICY: &[(&str, &str)] = &[("segment.bytes", "1048576")];

struct Node {
    disk: SimDisk,
    clock: SimClock,
    table: PartitionTable,
    image: Arc<MetadataImage>,
}

impl Node {
    /// With topics of one partition each, which it leads, and `replicas`.
    fn new(replicas: &[i32], topics: &[(&str, &[(&str, &str)])]) -> Self {
        let (disk, clock) = (SimDisk::new(1), SimClock::default());
        let env = Env { disk: Arc::new(disk.clone()), clock: Arc::new(clock.clone()), ..Env::real() };
        let settings = [("disk.capacity.threshold.percent", "90"), ("disk.reserve.bytes", "400000")];
        let settings: ConfigMap = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = Arc::new(ArcSwap::from_pointee(BrokerConfig::new(settings).expect("the settings are in order")));
        let shared = Shared::new(env, 1, 30_000, Syncer::idle());
        disk.create_dir_all(&PathBuf::from("/data")).expect("the disk works");
        let table = PartitionTable::new(shared, "/data".into(), config, INCARNATION_ID).expect("nothing was noted");
        let mut node = Self { disk, clock, table, image: Arc::default() };
        let own = RegisterBrokerRecord { broker_id: 1, incarnation_id: INCARNATION_ID, ..Default::default() };
        let mut records: Vec<MetadataRecord> = vec![own.into()];
        for (index, (name, settings)) in topics.iter().enumerate() {
            let topic_id = topic_id(index);
            records.push(TopicRecord { name: (*name).to_owned(), topic_id }.into());
            let partition = PartitionRecord {
                partition_id: 0,
                partition_epoch: 0,
                leader_epoch: 0,
                topic_id,
                replicas: replicas.to_vec(),
                isr: replicas.to_vec(),
                leader: 1,
                directories: vec![Uuid([7; 16]); replicas.len()],
                ..PartitionRecord::default()
            };
            records.push(partition.into());
            records.extend(settings.iter().map(|(setting, value)| altered(name, setting, value)));
        }
        node.commit(&records);
        node.disk.set_free_bytes(DISK_BYTES);
        node
    }

    fn commit(&mut self, records: &[MetadataRecord]) {
        let (image, delta) = self.image.apply(records, self.image.offset() + 1, 1).expect("the records fit");
        self.image = Arc::new(image);
        self.table.apply(&self.image, &delta);
    }

    fn partition(&self, topic: &str) -> Arc<Partition> {
        self.table.find_by_name(topic, 0).expect("the partition is here")
    }

    fn start(&self, topic: &str) -> i64 {
        self.partition(topic).log_start_offset()
    }

    fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(&PathBuf::from("/")).expect("the disk works")
    }

    fn send(&self, topic: &str, timestamp: i64, value_bytes: usize) -> ProduceOutcome {
        let mut builder = BatchBuilder::new();
        builder.push(timestamp, Some(b"key"), Some(&vec![0; value_bytes]), &[]);
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        self.partition(topic).enqueue(builder.build(), Acks::Leader, &completion, 0, &mut commits);
        commits.commit();
        match completion.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(mut outcomes) => outcomes.remove(0),
            Poll::Pending => panic!("acks=1 is answered at once"),
        }
    }

    #[track_caller]
    fn produce(&self, topic: &str, timestamps: impl IntoIterator<Item = i64>) {
        for timestamp in timestamps {
            let outcome = self.send(topic, timestamp, RECORD_BYTES);
            assert!(matches!(outcome, ProduceOutcome::Appended { .. }), "{outcome:?}");
        }
    }

    /// What else there is on the disk grows until so much is free.
    fn fill_up_to(&self, free_bytes: u64) {
        let file = self.disk.open(&PathBuf::from("/other"), OpenMode::Create).expect("the disk works");
        file.set_len(file.len().expect("it is open") + self.free_bytes() - free_bytes).expect("there is room");
    }

    fn remove_other(&self) {
        self.disk.remove_file(&PathBuf::from("/other")).expect("it is there");
    }

    fn deleted_segments(&self) -> u64 {
        self.table.shared.stats.disk.deleted_segments.get()
    }
}

fn topic_id(index: usize) -> Uuid {
    Uuid([index as u8 + 1; 16])
}

fn altered(topic: &str, setting: &str, value: &str) -> MetadataRecord {
    let (name, value) = (setting.to_owned(), Some(value.to_owned()));
    ConfigRecord { resource_type: 2, resource_name: topic.to_owned(), name, value }.into()
}

/// The code and the message with which it was refused.
fn refusal(outcome: ProduceOutcome) -> (ErrorCode, String) {
    match outcome {
        ProduceOutcome::Refused(refusal) => (refusal.code, refusal.message.unwrap_or_default()),
        ProduceOutcome::Appended { .. } => panic!("{outcome:?}"),
    }
}

#[test]
fn the_oldest_of_all_who_give_way_go_first_and_no_more_than_is_needed() {
    let node = Node::new(&[1], &[("a", GIVES_WAY), ("b", GIVES_WAY), ("kept", STAYS)]);
    node.produce("kept", 0..8);
    node.produce("a", [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
    node.produce("b", [35, 36, 37, 200, 210, 220, 230, 240, 250, 260, 270]);
    node.table.watch_disk();
    assert_eq!(node.deleted_segments(), 0, "there is enough");
    node.fill_up_to(THRESHOLD_BYTES - 2 * RECORD_BYTES as u64 - 1000);
    node.table.watch_disk();
    assert_eq!((node.start("a"), node.start("b"), node.start("kept")), (3, 0, 0));
    assert!(node.free_bytes() >= THRESHOLD_BYTES);
    node.fill_up_to(THRESHOLD_BYTES - RECORD_BYTES as u64 - 1000);
    node.table.watch_disk();
    assert_eq!((node.start("a"), node.start("b"), node.start("kept")), (3, 2, 0));
    assert_eq!(node.deleted_segments(), 5);
    node.produce("a", [300]);
    node.produce("kept", [300]);
}

#[test]
fn a_timestamp_from_the_future_costs_nobody_more_than_its_place_in_the_order() {
    let node = Node::new(&[1], &[("future", GIVES_WAY), ("a", GIVES_WAY)]);
    node.produce("future", [i64::MAX / 2, 1, 2, 3]);
    node.produce("a", 10..14);
    node.clock.set_wall_shift_ms(1000 * 365 * 24 * 3600 * 1000);
    node.fill_up_to(THRESHOLD_BYTES - 1000);
    node.table.watch_disk();
    assert_eq!((node.start("future"), node.start("a")), (0, 1));
    node.fill_up_to(THRESHOLD_BYTES - 4 * RECORD_BYTES as u64);
    node.table.watch_disk();
    assert_eq!((node.start("future"), node.start("a")), (2, 3), "what lies behind it goes with it");
}

#[test]
fn where_nothing_may_go_records_are_refused_until_there_is_room() {
    let compacted = [("disk.capacity.policy", "delete-oldest"), ("cleanup.policy", "compact")];
    let topics = [("a", GIVES_WAY), ("kept", STAYS), ("keyed", &compacted), (CONSUMER_OFFSETS, GIVES_WAY)];
    let node = Node::new(&[1], &topics);
    node.clock.pass(1);
    for (topic, _) in topics {
        node.produce(topic, 0..3);
    }
    node.fill_up_to(1_000_000);
    node.table.watch_disk();
    node.fill_up_to(1_000_000);
    node.table.watch_disk();
    assert_eq!(topics.map(|(topic, _)| node.start(topic)), [2, 0, 0, 0]);
    let (code, message) = refusal(node.send("kept", 9, 1));
    assert_eq!(code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(message.ends_with("disk.capacity.threshold.percent"), "{message}");
    // Topics without the policy go on until the reserve.
    node.produce("a", [9]);
    node.table.watch_disk();
    assert_eq!(node.start("a"), 3);
    node.fill_up_to(300_000);
    node.table.watch_disk();
    let (code, message) = refusal(node.send("a", 9, 1));
    assert_eq!(code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(message.ends_with("only disk.reserve.bytes are left"), "{message}");
    assert!(matches!(node.send(CONSUMER_OFFSETS, 9, 1), ProduceOutcome::Appended { .. }));
    node.remove_other();
    node.table.watch_disk();
    node.produce("a", [10]);
    node.produce("kept", [10]);
}

#[test]
fn without_a_policy_all_but_the_reserve_is_used() {
    let node = Node::new(&[1], &[("a", HAS_NO_POLICY), ("b", HAS_NO_POLICY)]);
    node.produce("a", 0..3);
    node.fill_up_to(1_000_000);
    node.table.watch_disk();
    node.produce("a", [3]);
    assert_eq!((node.start("a"), node.deleted_segments()), (0, 0));
    node.fill_up_to(300_000);
    node.table.watch_disk();
    let (_, message) = refusal(node.send("a", 9, 1));
    assert!(message.ends_with("only disk.reserve.bytes are left"), "{message}");
}

#[test]
fn what_is_not_replicated_stays() {
    let node = Node::new(&[1, 2], &[("a", GIVES_WAY)]);
    node.produce("a", 0..5);
    node.fill_up_to(1_000_000);
    node.table.watch_disk();
    assert_eq!((node.start("a"), node.deleted_segments()), (0, 0));
}

#[test]
fn a_topic_gives_way_as_soon_as_it_is_told_to() {
    let mut node = Node::new(&[1], &[("a", STAYS)]);
    node.produce("a", 0..5);
    node.fill_up_to(THRESHOLD_BYTES - 1000);
    node.table.watch_disk();
    refusal(node.send("a", 9, 1));
    node.commit(&[altered("a", "disk.capacity.policy", "delete-oldest")]);
    node.produce("a", [9]);
    node.table.watch_disk();
    assert_eq!(node.start("a"), 2);
}

#[test]
fn what_was_to_go_anyway_goes_first_and_without_delay() {
    let retained = [("retention.bytes", "700000"), ("segment.bytes", "1048576")];
    let mut node = Node::new(&[1], &[("a", GIVES_WAY), ("ended", STAYS), ("retained", &retained)]);
    for topic in ["a", "ended", "retained"] {
        node.produce(topic, 0..5);
    }
    node.commit(&[RemoveTopicRecord { topic_id: topic_id(1) }.into()]);
    node.fill_up_to(THRESHOLD_BYTES - 4 * RECORD_BYTES as u64);
    node.table.watch_disk();
    assert!(node.free_bytes() >= THRESHOLD_BYTES + RECORD_BYTES as u64, "its files are gone");
    assert_eq!((node.start("a"), node.start("retained")), (0, 0));
    node.fill_up_to(THRESHOLD_BYTES - 2 * RECORD_BYTES as u64);
    node.table.watch_disk();
    assert!(node.free_bytes() >= THRESHOLD_BYTES);
    assert_eq!((node.start("a"), node.start("retained")), (0, 3));
}

#[test]
fn nothing_goes_in_place_of_what_is_on_its_way() {
    let node = Node::new(&[1], &[("a", GIVES_WAY), ("kept", STAYS)]);
    node.produce("a", 0..9);
    node.fill_up_to(THRESHOLD_BYTES - RECORD_BYTES as u64 - 1000);
    node.disk.set_holds_removed(true);
    for _ in 0..3 {
        node.table.watch_disk();
        assert_eq!(node.start("a"), 2);
        node.clock.pass(500);
    }
    node.produce("kept", [1]);
    // As much more is needed now.
    node.table.watch_disk();
    assert_eq!(node.start("a"), 3);
    // It does not come.
    node.clock.pass(PENDING_FREE_MAX.as_millis() as i64);
    node.table.watch_disk();
    assert_eq!(node.start("a"), 6);
    node.disk.set_holds_removed(false);
    node.table.watch_disk();
    assert!(node.free_bytes() >= THRESHOLD_BYTES);
    node.clock.pass(PENDING_FREE_MAX.as_millis() as i64);
    node.table.watch_disk();
    assert_eq!(node.start("a"), 6);
}

#[test]
fn what_came_back_is_known_although_it_was_written_to_at_once() {
    let (mut pending_free, at) = (PendingFree::default(), Duration::from_secs);
    pending_free.look(at(0), 1000, 0);
    pending_free.record_removed(at(0), 500);
    assert_eq!(pending_free.available_bytes(), 1500);
    pending_free.look(at(1), 1000, 300);
    assert_eq!(pending_free.available_bytes(), 1200, "300 came, and are in use");
    pending_free.look(at(2), 900, 300);
    assert_eq!(pending_free.available_bytes(), 1100, "somebody else took 100");
    pending_free.look(at(3), 1600, 300);
    assert_eq!(pending_free.available_bytes(), 1600, "more than was removed came");
    pending_free.record_removed(at(3), 500);
    pending_free.look(at(3) + PENDING_FREE_MAX, 1600, 300);
    assert_eq!(pending_free.available_bytes(), 1600, "it does not come any more");
}

#[test]
fn a_node_without_room_is_cordoned_until_there_is_some_beside_the_reserve() {
    let node = Node::new(&[1], &[("a", HAS_NO_POLICY)]);
    let is_cordoned = || {
        node.table.watch_disk();
        node.table.shared.disk_pressure.is_cordoned()
    };
    node.fill_up_to(400_001);
    assert!(!is_cordoned());
    node.fill_up_to(399_999);
    assert!(is_cordoned());
    node.remove_other();
    node.fill_up_to(450_000);
    assert!(is_cordoned(), "the next segment would have it come back");
    node.remove_other();
    node.fill_up_to(500_000);
    assert!(!is_cordoned());

    // A quota: the disk shows free space, and takes nothing.
    node.disk.set_file_bytes_max(1000);
    let (code, _) = refusal(node.send("a", 1, 2000));
    assert_eq!(code, ErrorCode::KAFKA_STORAGE_ERROR);
    assert!(is_cordoned());
    node.disk.set_file_bytes_max(u64::MAX);
    node.clock.pass(4999);
    assert!(is_cordoned());
    node.clock.pass(1);
    assert!(!is_cordoned());
}
