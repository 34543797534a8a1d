//! What the controller decides: requests in, records and answers out. Pure: each function looks at one image and
//! changes nothing (`ReplicationControlManager`, `ConfigurationControlManager`, `FeatureControlManager`,
//! `ProducerIdControlManager`, `AclControlManager`, `ScramControlManager`, `ClientQuotaControlManager`).

pub mod acls;
pub mod alter_partition;
mod bound;
pub mod brokers;
pub mod configs;
pub mod elections;
pub mod features;
pub mod heartbeats;
mod leadership;
pub mod partitions;
pub mod quotas;
#[cfg(test)]
mod random;
mod reassigning;
pub mod reassignments;
pub mod scram;
pub mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use configuration::BrokerConfig;
use configuration::alter::AlterError;
use platform::Random;
use wire::state::metadata::MetadataRecord;
use wire::{ErrorCode, Uuid};

use super::image::{MetadataImage, Partition, RegisteredBroker};
use super::placement::{PlacementError, Shuffler};

/// Most records of one operation, and most partitions of one request (`QuorumController.MAX_RECORDS_PER_USER_OP`).
pub const RECORDS_MAX: usize = 10_000;

/// How many results of a topic's partitions have an error message. Messages quote names: with every partition they
/// would be many times the size of the request.
const ERROR_MESSAGES_MAX: usize = 100;
/// The longest error message, in characters: names from a client may be 32 KiB long.
const WORD_CHARACTERS_MAX: usize = 1_000;

/// The setting for the minimum size of an ISR.
const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// The state that decisions are made on.
pub struct Context<'a> {
    pub image: &'a MetadataImage,
    pub config: &'a BrokerConfig,
    pub random: &'a dyn Random,
}

impl<'a> Context<'a> {
    /// The same on another image.
    fn on(&self, image: &'a MetadataImage) -> Self {
        Self { image, config: self.config, random: self.random }
    }

    fn new_id(&self) -> Uuid {
        Uuid::from_random(self.random.bytes())
    }

    fn shuffler(&self) -> Shuffler {
        Shuffler::new(u64::from_be_bytes(*self.random.bytes().first_chunk().expect("16 bytes have 8")))
    }
}

/// The partitions that a request has named so far. Topics have a number each, so that a name, however long, is not
/// looked at again for each of its partitions.
#[derive(Default)]
struct RequestPartitions<'a> {
    topics: BTreeMap<&'a str, usize>,
    partitions: BTreeSet<(usize, i32)>,
}

impl<'a> RequestPartitions<'a> {
    fn number(&mut self, topic: &'a str) -> usize {
        let next = self.topics.len();
        *self.topics.entry(topic).or_insert(next)
    }

    fn is_new(&mut self, topic: usize, partition: i32) -> bool {
        self.partitions.insert((topic, partition))
    }
}

/// The result of a request: records to commit all together, and the answer to send then.
#[derive(Debug, PartialEq)]
pub struct Decision<T> {
    pub records: Vec<MetadataRecord>,
    pub answer: T,
}

/// Why one item of a request is refused: Kafka's code and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: Option<String>,
}

impl Refusal {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(WORD_CHARACTERS_MAX) {
            message.truncate(end);
        }
        Self { code, message: Some(message) }
    }

    fn plain(code: ErrorCode) -> Self {
        Self { code, message: None }
    }

    /// The operation is more than the metadata log takes at once.
    fn too_large() -> Self {
        Self::new(ErrorCode::POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    }
}

/// The outcome of one item of a request, as an answer has it.
pub(super) fn code_and_message(outcome: Result<(), Refusal>) -> (ErrorCode, Option<String>) {
    match outcome {
        Ok(()) => (ErrorCode::NONE, None),
        Err(refusal) => (refusal.code, refusal.message),
    }
}

impl From<AlterError> for Refusal {
    fn from(error: AlterError) -> Self {
        Self::new(error.code, error.message)
    }
}

/// New partitions for these replicas, led by the first that is active with free disk space; `all_inactive` words the
/// refusal when none is active.
fn new_partition(
    image: &MetadataImage,
    replicas: &[i32],
    all_inactive: impl FnOnce() -> Refusal,
) -> Result<Partition, Refusal> {
    let active = replicas.iter().filter_map(|id| image.broker(*id).filter(|broker| broker.is_active()));
    let active: Vec<&RegisteredBroker> = active.collect();
    let has_room = active.iter().any(|broker| broker.has_room());
    let in_sync = active.iter().filter(|broker| !has_room || broker.has_room());
    let isr: Vec<i32> = in_sync.map(|broker| broker.id).collect();
    let leader = *isr.first().ok_or_else(all_inactive)?;
    let directories = replicas.iter().map(|id| default_directory(image, *id)).collect();
    Ok(Partition { replicas: replicas.to_vec(), directories, isr, leader, ..Partition::default() })
}

/// A broker with one directory has its replicas there; one with several assigns them later (KIP-858).
fn default_directory(image: &MetadataImage, id: i32) -> Uuid {
    match image.broker(id).map(|broker| broker.log_dirs.as_slice()) {
        Some([only]) => *only,
        _ => Uuid::ZERO,
    }
}

/// The image with its brokers changed and everything else as it is: what partitions are to follow.
fn with_brokers(image: &MetadataImage, change: impl FnOnce(&mut BTreeMap<i32, RegisteredBroker>)) -> MetadataImage {
    let mut image = image.clone();
    change(Arc::make_mut(&mut image.brokers));
    image
}

/// `ReplicationControlManager.validateManualPartitionAssignment`.
fn check_assignment(image: &MetadataImage, replicas: &[i32], replication_factor: Option<usize>) -> Result<(), Refusal> {
    let bad = |message: String| Err(Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
    if replicas.is_empty() {
        return bad("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    for (index, id) in sorted.iter().enumerate() {
        if image.broker(*id).is_none() {
            return bad(format!(
                "The manual partition assignment includes broker {id}, but no such broker is registered."
            ));
        }
        if index > 0 && sorted[index - 1] == *id {
            return bad(format!("The manual partition assignment includes the broker {id} more than once."));
        }
    }
    match replication_factor {
        Some(factor) if factor != replicas.len() => bad(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent with \
             previous partitions, which have {factor} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

/// Places replicas, and words the refusal as for a request that says a replication factor.
fn place(context: &Context<'_>, partitions: usize, replication_factor: i16) -> Result<Vec<Vec<i32>>, PlacementError> {
    super::placement::place(context.image, partitions, replication_factor, &mut context.shuffler())
}

fn all_inactive(replication_factor: usize) -> Refusal {
    Refusal::new(
        ErrorCode::INVALID_REPLICATION_FACTOR,
        format!(
            "Unable to replicate the partition {replication_factor} time(s): \
             All brokers are currently fenced or in controlled shutdown."
        ),
    )
}

#[cfg(test)]
pub mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};

    use wire::state::metadata::{RegisterBrokerRecord, TopicRecord};

    use super::*;
    use crate::image::ConfigResource;

    /// Ids that differ and are the same in every run.
    #[derive(Default)]
    pub struct Counter(AtomicU8);

    impl Random for Counter {
        fn bytes(&self) -> [u8; 16] {
            [self.0.fetch_add(1, Ordering::Relaxed) + 1; 16]
        }
    }

    /// An image with these brokers, all active.
    pub fn brokers(ids: &[i32]) -> MetadataImage {
        let records: Vec<MetadataRecord> = ids
            .iter()
            .map(|id| {
                let record = RegisterBrokerRecord {
                    broker_id: *id,
                    fenced: false,
                    log_dirs: vec![Uuid([100 + *id as u8; 16])],
                    ..RegisterBrokerRecord::default()
                };
                record.into()
            })
            .collect();
        MetadataImage::default().apply(&records, 0, 1).unwrap().0
    }

    pub fn applied(image: &MetadataImage, records: &[MetadataRecord]) -> MetadataImage {
        image.apply(records, image.offset() + records.len() as i64, 1).unwrap().0
    }

    /// A partition on brokers of [`brokers`].
    pub fn partition(replicas: &[i32], isr: &[i32], leader: i32) -> Partition {
        Partition {
            replicas: replicas.to_vec(),
            directories: replicas.iter().map(|id| Uuid([100 + *id as u8; 16])).collect(),
            isr: isr.to_vec(),
            leader,
            ..Partition::default()
        }
    }

    /// With a topic `t` of these partitions.
    pub fn with_topic(image: &MetadataImage, partitions: &[Partition]) -> MetadataImage {
        let id = Uuid([1; 16]);
        let mut records: Vec<MetadataRecord> = vec![TopicRecord { name: "t".into(), topic_id: id }.into()];
        let numbered = partitions.iter().enumerate();
        records.extend(numbered.map(|(index, partition)| partition.to_record(id, index as i32).into()));
        applied(image, &records)
    }

    /// With a setting of topic `t`.
    pub fn with_setting(image: &MetadataImage, name: &str, value: &str) -> MetadataImage {
        applied(image, &[ConfigResource::topic("t").to_record(name, Some(&value.to_owned())).into()])
    }

    /// With brokers fenced, and nothing else.
    pub fn with_fenced(image: &MetadataImage, ids: &[i32]) -> MetadataImage {
        with_brokers(image, |brokers| ids.iter().for_each(|id| brokers.get_mut(id).unwrap().fenced = true))
    }

    pub fn on<T>(image: &MetadataImage, decide: impl FnOnce(&Context<'_>) -> T) -> T {
        decide(&Context { image, config: &BrokerConfig::default(), random: &Counter::default() })
    }

    /// Leader, ISR and ELR of a partition of topic `t`.
    pub fn state(image: &MetadataImage, index: i32) -> (i32, Vec<i32>, Vec<i32>) {
        let partition = image.partition("t", index).unwrap();
        (partition.leader, partition.isr.clone(), partition.eligible_leader_replicas.clone())
    }
}
