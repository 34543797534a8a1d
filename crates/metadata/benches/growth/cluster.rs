//! A cluster's metadata of any size, and what is measured of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use configuration::BrokerConfig;
use metadata::changes::{Context, RECORDS_MAX, alter_partition, heartbeats, topics};
use metadata::{MetadataImage, NO_LEADER, Partition};
use platform::Random;
use wire::api::alter_partition::{AlterPartitionRequest, BrokerState, PartitionRequest, TopicRequest};
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::api::confirm_sender::NodeIdentity;
use wire::api::create_topics::CreatableTopic;
use wire::api::forward::{ForwardRequest, ForwardResponse};
use wire::api::quorum_messages::{QuorumMessage, QuorumMessagesRequest, QuorumMessagesResponse};
use wire::api::{Api, Request};
use wire::batch::{BatchBuilder, Batches};
use wire::record::RecordReader;
use wire::state::metadata::{MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};
use wire::{Uuid, Wire, Writer, frame};

pub const REPLICAS: usize = 3;
/// The size of a snapshot's batches, as the quorum writes them.
const BATCH_BYTES: usize = 1 << 20;
/// A figure is the median of so many measurements, of fewer where they take longer than this.
const REPEATS: usize = 21;
const REPEATS_MAX: Duration = Duration::from_secs(2);

/// The median of several times that something takes, with what it made.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn median<T>(mut work: impl FnMut() -> T) -> (T, Duration) {
    let begun = Instant::now();
    let mut times = Vec::new();
    loop {
        let started = Instant::now();
        let made = work();
        times.push(started.elapsed());
        if times.len() == REPEATS || begun.elapsed() > REPEATS_MAX {
            times.sort_unstable();
            return (made, times[times.len() / 2]);
        }
    }
}

/// A line of what the system says about this process, which is in KiB.
pub fn memory_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}

/// Numbers that differ, are the same in every run, and come in no order, as random ids do.
struct Spread(AtomicU64);

impl Random for Spread {
    fn bytes(&self) -> [u8; 16] {
        let number = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let [high, low] = [number ^ number >> 29, number.wrapping_mul(0xbf58_476d_1ce4_e5b9)];
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}

/// A change: what was decided, how long that took, and how long it takes to make the next image.
pub struct Changed {
    pub records: Vec<MetadataRecord>,
    pub decide: Duration,
    pub apply: Duration,
}

pub struct Cluster {
    image: MetadataImage,
    config: BrokerConfig,
    random: Spread,
    pub replay: Duration,
    pub image_bytes: u64,
}

impl Cluster {
    /// From the records of a metadata log, in entries of the size that the controller writes at most.
    pub fn build(partitions: usize, brokers: usize, per_topic: usize) -> Self {
        let before = memory_bytes("VmRSS:");
        let random = Spread(AtomicU64::new(1));
        let mut image = MetadataImage::default();
        let mut replay = Duration::ZERO;
        let mut entry = Vec::new();
        let mut commit = |entry: &mut Vec<MetadataRecord>, image: &mut MetadataImage| {
            #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
            let started = Instant::now();
            *image = applied(image, entry);
            replay += started.elapsed();
            entry.clear();
        };
        entry.extend((1..=brokers).map(registration));
        for (number, first) in (0..partitions).step_by(per_topic).enumerate() {
            if entry.len() + per_topic >= RECORDS_MAX {
                commit(&mut entry, &mut image);
            }
            let topic_id = Uuid::from_random(random.bytes());
            entry.push(TopicRecord { name: format!("topic-{number}"), topic_id }.into());
            let indexes = 0..per_topic.min(partitions - first);
            entry.extend(indexes.map(|index| partition(topic_id, index, replicas(first + index, brokers)).into()));
        }
        commit(&mut entry, &mut image);
        drop(entry);
        assert_eq!(image.partition_count(), partitions);
        let image_bytes = memory_bytes("VmRSS:").saturating_sub(before);
        let settings = [("max.partitions.per.broker".to_owned(), i32::MAX.to_string())];
        let config = BrokerConfig::new(settings.into()).expect("the bound has no bound");
        Self { image, config, random, replay, image_bytes }
    }

    fn context(&self) -> Context<'_> {
        Context { image: &self.image, config: &self.config, random: &self.random }
    }

    fn change(&self, decide: impl Fn(&Context<'_>) -> Vec<MetadataRecord>) -> Changed {
        let (records, decided) = median(|| decide(&self.context()));
        assert!(!records.is_empty(), "there is something to change");
        let (_, apply) = median(|| drop(applied(&self.image, &records)));
        Changed { records, decide: decided, apply }
    }

    pub fn create_topic(&self, partitions: usize) -> Changed {
        let topic = CreatableTopic {
            name: "topic-new".to_owned(),
            num_partitions: partitions as i32,
            replication_factor: REPLICAS as i16,
            ..CreatableTopic::default()
        };
        self.change(|context| topics::create(context, std::slice::from_ref(&topic), false).records)
    }

    /// A leader takes a replica of one partition out of its ISR.
    pub fn shrink_isr(&self) -> Changed {
        let topics = self.image.topic_count();
        let topic = self.image.topics().nth(topics / 2).expect("there is a topic");
        let before: &Partition = &topic.partitions[0];
        let broker_epoch = |id: i32| self.image.broker(id).map_or(-1, |broker| broker.epoch);
        let left = before.isr.iter().take(REPLICAS - 1);
        let request = AlterPartitionRequest {
            broker_id: before.leader,
            broker_epoch: broker_epoch(before.leader),
            topics: vec![TopicRequest {
                topic_id: topic.id,
                partitions: vec![PartitionRequest {
                    partition_index: 0,
                    leader_epoch: before.leader_epoch,
                    partition_epoch: before.partition_epoch,
                    new_isr_with_epochs: left
                        .map(|id| BrokerState { broker_id: *id, broker_epoch: broker_epoch(*id) })
                        .collect(),
                    ..PartitionRequest::default()
                }],
            }],
        };
        self.change(|context| alter_partition::alter(context, &request).records)
    }

    /// A broker's session is over.
    pub fn fail_broker(&self) -> Changed {
        let gone = self.image.brokers().next().map(|broker| (broker.id, broker.epoch)).expect("there is a broker");
        self.change(|context| heartbeats::fence(context, &[gone]))
    }

    pub fn write_snapshot(&self) -> (Vec<Bytes>, Duration) {
        median(|| {
            let mut batches = Vec::new();
            let mut batch = BatchBuilder::new();
            for record in self.image.to_records() {
                batch.push(0, None, Some(&record.write()), &[]);
                if batch.size_bytes() >= BATCH_BYTES {
                    batches.push(std::mem::take(&mut batch).build().bytes);
                }
            }
            batches.push(batch.build().bytes);
            batches
        })
    }

    /// By a node that has other metadata: it compares them.
    pub fn load_snapshot(&self, snapshot: &[Bytes]) -> Duration {
        let (image, load) = median(|| {
            let records: Vec<MetadataRecord> = snapshot.iter().flat_map(read_batch).collect();
            let loaded = MetadataImage::default().apply(&records, self.image.offset(), self.image.epoch());
            let (mut image, mut delta) = loaded.expect("a snapshot is whole");
            image.continue_after(&self.image, &mut delta);
            assert!(delta.is_empty(), "a snapshot is the image that it was made of");
            image
        });
        assert_eq!(image.partition_count(), self.image.partition_count());
        load
    }

    /// What a broker sends and receives in a heartbeat interval when nothing changes: its heartbeat, and the quorum's,
    /// with their answers. The controller has as much for each broker.
    pub fn heartbeat_bytes(&self) -> usize {
        let sender = NodeIdentity { node_id: 1, ..NodeIdentity::default() };
        let cluster_id = "0123456789012345678901".to_owned();
        let request = BrokerHeartbeatRequest {
            broker_id: 1,
            current_metadata_offset: self.image.offset(),
            cordoned_log_dirs: Some(Vec::new()),
            ..BrokerHeartbeatRequest::default()
        };
        let decision = heartbeats::heartbeat(&self.context(), &request);
        assert!(decision.records.is_empty(), "a heartbeat changes nothing");
        let forward = ForwardRequest {
            sender: sender.clone(),
            api_key: BrokerHeartbeatRequest::API.key,
            api_version: *BrokerHeartbeatRequest::API.versions.end(),
            body: body(&BrokerHeartbeatRequest::API, &request),
            client: None,
        };
        let answer = ForwardResponse {
            body: body(&BrokerHeartbeatRequest::API, &decision.answer),
            ..ForwardResponse::default()
        };
        let message = || vec![QuorumMessage::default()];
        let quorum = |sender: &NodeIdentity| QuorumMessagesRequest {
            cluster_id: cluster_id.clone(),
            sender: sender.clone(),
            messages: message(),
        };
        // The answer to the quorum's heartbeat is a message of its own, in a request of its own.
        sent_and_received(&forward, &answer)
            + 2 * sent_and_received(&quorum(&sender), &QuorumMessagesResponse::default())
    }
}

/// How many of these records give a partition another leader.
pub fn new_leaders(records: &[MetadataRecord]) -> usize {
    let is_led = |record: &&MetadataRecord| matches!(record, MetadataRecord::PartitionChange(change) if change.leader > NO_LEADER);
    records.iter().filter(is_led).count()
}

fn applied(image: &MetadataImage, records: &[MetadataRecord]) -> MetadataImage {
    let offset = image.offset() + records.len() as i64;
    image.apply(records, offset, 1).expect("the records fit the image").0
}

/// The log directory of a broker.
fn directory(id: i32) -> Uuid {
    Uuid::from_random((u128::from(id.unsigned_abs()) << 64).to_be_bytes())
}

fn registration(id: usize) -> MetadataRecord {
    RegisterBrokerRecord {
        broker_id: id as i32,
        broker_epoch: id as i64,
        fenced: false,
        log_dirs: vec![directory(id as i32)],
        ..RegisterBrokerRecord::default()
    }
    .into()
}

/// Brokers lead in turn, and the others follow in every order.
fn replicas(partition: usize, brokers: usize) -> Vec<i32> {
    let (leader, shift) = (partition % brokers, partition / brokers);
    let follower = |n: usize| (leader + 1 + (shift + n) % (brokers - 1)) % brokers;
    [leader, follower(0), follower(1)].map(|index| index as i32 + 1).to_vec()
}

fn partition(topic_id: Uuid, index: usize, replicas: Vec<i32>) -> PartitionRecord {
    PartitionRecord {
        partition_id: index as i32,
        topic_id,
        isr: replicas.clone(),
        leader: replicas[0],
        leader_epoch: 0,
        partition_epoch: 0,
        directories: replicas.iter().map(|id| directory(*id)).collect(),
        replicas,
        ..PartitionRecord::default()
    }
}

/// An entry of the metadata log.
pub fn batch_of(records: &[MetadataRecord]) -> Bytes {
    let mut batch = BatchBuilder::new();
    for record in records {
        batch.push(0, None, Some(&record.write()), &[]);
    }
    batch.build().bytes
}

fn read_batch(bytes: &Bytes) -> Vec<MetadataRecord> {
    let mut records = Vec::new();
    for batch in Batches::new(bytes.clone()) {
        let batch = batch.expect("a batch is whole");
        let section = batch.records(batch.bytes.len()).expect("nothing is compressed");
        for record in RecordReader::new(&batch.header, &section) {
            let value = record.expect("a record is whole").value.map(Bytes::copy_from_slice).unwrap_or_default();
            records.push(MetadataRecord::read(&value).expect("it is a record of metadata"));
        }
    }
    records
}

fn body(api: &Api, value: &impl Wire) -> Bytes {
    let version = *api.versions.end();
    let mut out = BytesMut::new();
    value.write(&mut Writer::new(&mut out, version, api.flexible(version)));
    out.freeze()
}

/// The bytes of two frames, without the network's own.
fn sent_and_received<R: Request>(request: &R, response: &R::Response) -> usize {
    let version = *R::API.versions.end();
    let (mut sent, mut received) = (BytesMut::new(), BytesMut::new());
    frame::write_request(&mut sent, version, 0, "node-1", request);
    frame::write_response(&mut received, &R::API, version, 0, response).expect("an answer fits a frame");
    sent.len() + received.len()
}
