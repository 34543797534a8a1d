//! A broker that starts on what its data directory holds, with an image of the metadata that may be an old one.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use metadata::{Applied, MetadataImage};
use platform::Env;
use platform::simulation::SimClock;
use storage::{Disk, SimDisk};
use wire::batch::BatchBuilder;
use wire::state::metadata::{
    BrokerRegistrationChangeRecord, MetadataRecord, PartitionRecord, RegisterBrokerRecord, RemoveTopicRecord,
    TopicRecord,
};
use wire::{ErrorCode, Uuid};

use super::PartitionTable;
use crate::partition::{Acks, PendingCommits, ProduceCompletion, Shared, Syncer};

const DATA_DIR: &str = "/data";
const METADATA_FILE: &str = "/data/t-0/partition.metadata";
const RECORDS: i64 = 5;

/// A broker, one start after the other.
struct Node {
    disk: SimDisk,
    /// What all brokers know, and what this one does not know yet when it starts.
    image: Arc<MetadataImage>,
    starts: u8,
    table: Option<PartitionTable>,
}

impl Node {
    /// With a topic of one partition that has records.
    fn new() -> Self {
        let mut node = Self { disk: SimDisk::new(1), image: Arc::default(), starts: 0, table: None };
        node.disk.create_dir_all(Path::new(DATA_DIR)).unwrap();
        let image = Arc::clone(&node.image);
        node.start(&image);
        node.register();
        node.commit(&created(1));
        node.produce();
        assert_eq!(node.records(), Ok(RECORDS));
        node
    }

    fn table(&self) -> &PartitionTable {
        self.table.as_ref().expect("it runs")
    }

    fn stop(&mut self) {
        self.table().close().unwrap();
        self.table = None;
    }

    /// Starts with an image that may be older than the newest.
    fn start(&mut self, image: &MetadataImage) {
        self.starts += 1;
        let env = Env { disk: Arc::new(self.disk.clone()), clock: Arc::new(SimClock::default()), ..Env::real() };
        let shared = Shared::new(env, 1, 30_000, Syncer::idle());
        let config = Arc::new(ArcSwap::from_pointee(BrokerConfig::default()));
        let table = PartitionTable::new(shared, DATA_DIR.into(), config, self.incarnation_id()).unwrap();
        table.load(image);
        self.table = Some(table);
    }

    fn incarnation_id(&self) -> Uuid {
        Uuid([self.starts; 16])
    }

    /// Commits metadata to this broker, if it runs.
    fn commit(&mut self, records: &[MetadataRecord]) {
        let (image, delta) = self.image.apply(records, self.image.offset() + 1, 1).unwrap();
        self.image = Arc::new(image);
        if let Some(table) = &self.table {
            table.apply(&self.image, &delta);
        }
    }

    /// Gets all images since one, at once.
    fn hear_since(&self, image: &MetadataImage, records: &[MetadataRecord]) {
        let (after, delta) = image.apply(records, self.image.offset(), 1).unwrap();
        self.table().apply(&Arc::new(after), &delta);
    }

    fn register(&mut self) {
        let own = registered(self.incarnation_id());
        self.commit(&[own]);
    }

    fn restart(&mut self) {
        self.stop();
        let image = Arc::clone(&self.image);
        self.start(&image);
        self.register();
    }

    fn produce(&self) {
        let partition = self.table().find_by_name("t", 0).unwrap();
        for value in 0..RECORDS {
            let mut builder = BatchBuilder::new();
            builder.push(value, None, Some(b"value"), &[]);
            let mut commits = PendingCommits::default();
            partition.enqueue(builder.build(), Acks::Leader, &Arc::new(ProduceCompletion::new(1)), 0, &mut commits);
            commits.commit();
        }
    }

    /// How many records the partition has, where it is served.
    fn records(&self) -> Result<i64, ErrorCode> {
        let partition = self.table().find_by_name("t", 0)?;
        partition.check_leader()?;
        Ok(partition.view().log_end_offset())
    }

    /// The directories of partitions, by the beginning of their names and what comes behind it.
    fn directories(&self) -> Vec<(String, String)> {
        let entries = self.table().shared.env.disk.read_dir(Path::new(DATA_DIR)).unwrap();
        let names = entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name);
        let ends = |name: String| {
            let suffix = name.rsplit_once('.').map_or("", |(_, rest)| rest.rsplit_once('-').map_or("", |(_, end)| end));
            (name.split('.').next().unwrap_or_default().to_owned(), suffix.to_owned())
        };
        names.map(ends).collect()
    }
}

/// What the broker has to say of the partition when it registers.
fn lost(node: &Node) -> Vec<(Uuid, i32)> {
    node.table().lost_replicas()
}

fn registered(incarnation_id: Uuid) -> MetadataRecord {
    RegisterBrokerRecord { broker_id: 1, incarnation_id, ..Default::default() }.into()
}

fn topic_id(id: u8) -> Uuid {
    Uuid([id; 16])
}

fn created(id: u8) -> Vec<MetadataRecord> {
    let partition = PartitionRecord {
        partition_id: 0,
        topic_id: topic_id(id),
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec![Uuid([7; 16])],
        ..PartitionRecord::default()
    };
    vec![TopicRecord { name: "t".into(), topic_id: topic_id(id) }.into(), partition.into()]
}

fn recreated(old: u8, new: u8) -> Vec<MetadataRecord> {
    let mut records: Vec<MetadataRecord> = vec![RemoveTopicRecord { topic_id: topic_id(old) }.into()];
    records.extend(created(new));
    records
}

fn kafkas(id: Uuid) -> Vec<u8> {
    format!("version: 0\ntopic_id: {id}\n").into_bytes()
}

#[test]
fn an_old_image_takes_no_directory_away() {
    let mut node = Node::new();
    node.stop();
    let none = MetadataImage::default();
    node.start(&none);
    assert_eq!(node.records(), Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    // It gets its topic before it registers, or with that.
    let mut records = created(1);
    records.push(registered(node.incarnation_id()));
    node.hear_since(&none, &records);
    assert_eq!(node.records(), Ok(RECORDS));
}

#[test]
fn an_old_image_does_not_take_a_new_topic_for_the_old_one() {
    let mut node = Node::new();
    let old = Arc::clone(&node.image);
    node.commit(&recreated(1, 2));
    node.produce();
    node.stop();
    node.start(&old);
    assert_eq!(node.records(), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER), "the directory is not the old topic's");
    let mut records = recreated(1, 2);
    records.push(registered(node.incarnation_id()));
    node.hear_since(&old, &records);
    assert_eq!(node.records(), Ok(RECORDS));
}

#[test]
fn who_found_a_partition_just_before_its_topic_was_deleted_looks_elsewhere() {
    let mut node = Node::new();
    let partition = node.table().find_by_name("t", 0).unwrap();
    node.commit(&[RemoveTopicRecord { topic_id: topic_id(1) }.into()]);
    let elsewhere = Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!([partition.check_leader_epoch(-1), partition.low_watermark().map(|_| ())], [elsewhere; 2]);
}

#[test]
fn what_belongs_to_no_partition_stays_where_it_is() {
    let mut node = Node::new();
    node.stop();
    node.commit(&[RemoveTopicRecord { topic_id: topic_id(1) }.into()]);
    let image = Arc::clone(&node.image);
    node.start(&image);
    node.register();
    assert_eq!(node.directories(), [("t-0".to_owned(), String::new())]);
    // Until another topic has its name: then it is out of the way, and not lost.
    node.commit(&created(2));
    assert_eq!(node.records(), Ok(0));
    assert_eq!(node.directories(), [("t-0", ""), ("t-0", "stray")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn a_topic_that_was_made_anew_meanwhile_begins_empty() {
    let mut node = Node::new();
    node.stop();
    node.commit(&recreated(1, 2));
    let image = Arc::clone(&node.image);
    node.start(&image);
    assert_eq!(node.directories(), [("t-0".to_owned(), String::new())], "the image may be an old one");
    node.register();
    assert_eq!(node.records(), Ok(0));
    assert_eq!(node.directories(), [("t-0", ""), ("t-0", "stray")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn nothing_that_a_deleted_topic_had_is_missed_in_its_namesake() {
    let mut node = Node::new();
    node.restart();
    node.commit(&recreated(1, 2));
    assert_eq!(node.records(), Ok(0));
    node.table = None;
    node.disk.kill();
    let image = Arc::clone(&node.image);
    node.start(&image);
    assert_eq!(lost(&node), []);
}

#[test]
fn no_flipped_bit_makes_an_empty_partition_of_a_full_one() {
    let mut node = Node::new();
    let whole = node.disk.get(Path::new(METADATA_FILE)).unwrap();
    for position in 0..whole.len() as u64 {
        node.stop();
        assert!(node.disk.flip_bit(Path::new(METADATA_FILE), position, (position % 8) as u32));
        let image = Arc::clone(&node.image);
        node.start(&image);
        node.register();
        assert_eq!(node.records(), Ok(RECORDS), "byte {position}");
        assert_eq!(node.disk.get(Path::new(METADATA_FILE)).unwrap(), whole, "it is made whole");
    }
    for garbage in [&b""[..], &[0xff; 90], &[0; 90]] {
        node.disk.put(Path::new(METADATA_FILE), garbage);
        node.restart();
        assert_eq!(node.records(), Ok(RECORDS));
    }
    node.stop();
    node.disk.remove_file(Path::new(METADATA_FILE)).unwrap();
    let image = Arc::clone(&node.image);
    node.start(&image);
    node.register();
    assert_eq!(node.records(), Ok(RECORDS));
}

#[test]
fn the_log_of_another_id_is_refused_until_somebody_says_whose_it_is() {
    let mut node = Node::new();
    node.disk.put(Path::new(METADATA_FILE), &kafkas(topic_id(1)));
    node.restart();
    assert_eq!(node.records(), Ok(RECORDS), "nothing confirms it, and nothing speaks against it");
    node.disk.put(Path::new(METADATA_FILE), &kafkas(topic_id(9)));
    node.restart();
    assert_eq!(node.records(), Err(ErrorCode::KAFKA_STORAGE_ERROR));
    assert_eq!(node.directories(), [("t-0".to_owned(), String::new())]);
    // Not even when the topic goes.
    let records = [RemoveTopicRecord { topic_id: topic_id(1) }.into()];
    node.hear_since(&Arc::clone(&node.image), &records);
    assert_eq!(node.directories(), [("t-0".to_owned(), String::new())]);
    node.disk.remove_file(Path::new(METADATA_FILE)).unwrap();
    node.restart();
    assert_eq!(node.records(), Ok(RECORDS));
}

#[test]
fn a_log_that_is_gone_or_shorter_than_it_was_on_disk_is_told() {
    let is_lost = vec![(topic_id(1), 0)];
    let mut node = Node::new();
    node.restart();
    assert_eq!(lost(&node), []);
    // A missing directory, whether or not there are checkpoints of it.
    for checkpoints in [&[][..], &["recovery-point-offset-checkpoint", "replication-offset-checkpoint"]] {
        node.stop();
        node.disk.remove_dir_all(Path::new("/data/t-0")).unwrap();
        for name in checkpoints {
            node.disk.put(&Path::new(DATA_DIR).join(name), b"");
        }
        let image = Arc::clone(&node.image);
        node.start(&image);
        assert_eq!(lost(&node), is_lost);
        node.register();
        node.produce();
    }
    // An empty directory, and another topic's.
    node.stop();
    node.disk.put(Path::new("/data/t-0/00000000000000000000.log"), b"");
    let image = Arc::clone(&node.image);
    node.start(&image);
    assert_eq!(lost(&node), is_lost);
    node.register();
    node.produce();
    node.restart();
    assert_eq!(lost(&node), []);
    node.stop();
    node.disk.put(Path::new(METADATA_FILE), &kafkas(topic_id(9)));
    node.start(&image);
    assert_eq!(lost(&node), is_lost);
}

/// A log without disk space for what its start has to write is opened when there is some, with its checkpoints.
#[test]
fn a_log_that_had_no_room_is_opened_when_there_is_some() {
    let mut node = Node::new();
    node.table().find_by_name("t", 0).unwrap().delete_records(2).unwrap();
    node.table().write_checkpoints().unwrap();
    node.table = None;
    node.disk.kill();
    node.disk.set_free_bytes(0);
    let image = Arc::clone(&node.image);
    node.start(&image);
    node.register();
    assert_eq!(node.records(), Err(ErrorCode::KAFKA_STORAGE_ERROR));
    assert_eq!(lost(&node), [(topic_id(1), 0)]);
    assert!(node.table().shared.disk_pressure.take_refused(), "this broker is to say that it has no room");
    node.disk.set_free_bytes(1 << 30);
    node.commit(&[BrokerRegistrationChangeRecord { broker_id: 1, fenced: -1, ..Default::default() }.into()]);
    assert_eq!(node.records(), Ok(RECORDS));
    assert_eq!(node.table().find_by_name("t", 0).unwrap().log_start_offset(), 2);
}
