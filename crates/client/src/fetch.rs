//! One look at the records of many partitions, for whoever shows records and follows none: no positions are kept, and
//! no group hears of it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::batch::{Batch, BatchError, Batches};
use wire::{Records, Uuid};

use crate::by_partition::{ByPartition, by_topic};
use crate::consumer::FETCH_BY_TOPIC_ID;
use crate::{Client, ClientError, Connection, TopicPartition};

/// Of one broker's answer, if its first batch is not larger.
const ANSWER_BYTES_MAX: i32 = 4 * 1024 * 1024;
/// What one of many partitions gets of it.
const PARTITION_BYTES_MIN: i32 = 16 * 1024;
const PARTITION_BYTES_MAX: i32 = 1024 * 1024;
/// A leader that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a partition has from an offset on, as far as one answer goes. There may be nothing yet.
#[derive(Clone, Debug)]
pub struct FetchedBatches {
    /// The first may begin before the offset.
    pub batches: Vec<Batch>,
    /// Why the batch behind these cannot be read.
    pub damage: Option<BatchError>,
    pub high_watermark: i64,
}

/// Where to begin.
#[derive(Clone, Copy, Debug)]
struct Start {
    topic_id: Uuid,
    offset: i64,
}

impl Client {
    /// What there is from these offsets on, at once and partition by partition: one without a leader, or whose leader
    /// does not answer, is an error of its own. Not every partition has a part in an answer when there are many.
    pub async fn fetch_each(&self, offsets: &BTreeMap<TopicPartition, i64>) -> ByPartition<FetchedBatches> {
        let mut topics: Vec<_> = offsets.keys().map(|partition| partition.topic.as_str()).collect();
        topics.dedup();
        let metadata = match self.describe(&topics).await {
            Ok(metadata) => metadata,
            Err(error) => return offsets.keys().map(|partition| (partition.clone(), Err(error.clone()))).collect(),
        };
        let wanted = offsets.iter().map(|(partition, offset)| {
            let topic_id = metadata.topics.get(&partition.topic).map_or(Uuid::ZERO, |topic| topic.id);
            (partition.clone(), Start { topic_id, offset: *offset })
        });
        self.ask_leaders(&wanted.collect(), PATIENCE, ask).await
    }

    /// What the replica on this broker has from an offset on, as far as one answer goes. Followers answer consumers up
    /// to their high watermark (KIP-392).
    pub async fn fetch_from(
        &self,
        broker: i32,
        partition: &TopicPartition,
        offset: i64,
    ) -> Result<FetchedBatches, ClientError> {
        let topic_id = self.describe(&[&partition.topic]).await?.topic(&partition.topic)?.id;
        let connection = self.broker(broker).await?;
        let address = connection.address().to_owned();
        let wanted = BTreeMap::from([(partition.clone(), Start { topic_id, offset })]);
        let missing = || ClientError::Missing { address, subject: partition.to_string() };
        ask(connection, wanted).await?.remove(partition).unwrap_or_else(|| Err(missing()))
    }
}

async fn ask(
    leader: Connection,
    wanted: BTreeMap<TopicPartition, Start>,
) -> Result<ByPartition<FetchedBatches>, ClientError> {
    let mut version = leader.version::<FetchRequest>()?;
    if wanted.values().any(|from| from.topic_id.is_zero()) {
        version = version.min(FETCH_BY_TOPIC_ID - 1);
    }
    let names: HashMap<_, _> = wanted.iter().map(|(of, from)| (from.topic_id, of.topic.clone())).collect();
    let response = leader.start_as(&request(&wanted), version, leader.request_timeout())?.await?;
    ClientError::check(|| "fetching".to_owned(), response.error_code, None)?;
    let mut found = BTreeMap::new();
    for topic in response.responses {
        let name = match topic.topic.is_empty() {
            true => names.get(&topic.topic_id).cloned().unwrap_or_default(),
            false => topic.topic,
        };
        for data in topic.partitions {
            let partition = TopicPartition::new(name.clone(), data.partition_index);
            let offset = wanted.get(&partition).map_or(-1, |from| from.offset);
            let subject = || format!("fetching {partition} at offset {offset}");
            let result = ClientError::check(subject, data.error_code, None).map(|()| fetched(data, offset));
            found.insert(partition, result);
        }
    }
    Ok(found)
}

fn request(wanted: &BTreeMap<TopicPartition, Start>) -> FetchRequest {
    let count = i32::try_from(wanted.len().max(1)).unwrap_or(i32::MAX);
    let partition_max_bytes = (ANSWER_BYTES_MAX / count).clamp(PARTITION_BYTES_MIN, PARTITION_BYTES_MAX);
    let topics = by_topic(wanted.iter().map(|(partition, from)| (partition, *from)));
    let topics = topics.into_iter().map(|(topic, partitions)| FetchTopic {
        topic: topic.to_owned(),
        topic_id: partitions.first().map_or(Uuid::ZERO, |(_, from)| from.topic_id),
        partitions: partitions
            .into_iter()
            .map(|(partition, from)| FetchPartition {
                partition,
                fetch_offset: from.offset,
                partition_max_bytes,
                ..Default::default()
            })
            .collect(),
    });
    FetchRequest {
        // Whoever looks at records asks again. A connection on which an answer is waited for is held up by it.
        max_wait_ms: 0,
        min_bytes: 0,
        max_bytes: ANSWER_BYTES_MAX,
        topics: topics.collect(),
        ..Default::default()
    }
}

fn fetched(data: PartitionData, offset: i64) -> FetchedBatches {
    let bytes = match data.records {
        Some(Records::Inline(bytes)) => bytes,
        _ => Default::default(),
    };
    let (mut batches, mut damage) = (Vec::new(), None);
    for batch in Batches::new(bytes) {
        match batch {
            Ok(batch) if batch.header.next_offset() <= offset => {}
            Ok(batch) => batches.push(batch),
            Err(error) => damage = Some(error),
        }
    }
    FetchedBatches { batches, damage, high_watermark: data.high_watermark }
}
