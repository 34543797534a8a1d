//! ListOffsets (key 2), versions 1-11: offsets by time, or by position in the log.
//!
//! Behaviour:
//! - A timestamp of 0 or above finds the first record at or after it, with that record's timestamp.
//! - -1 is the end that the isolation level may read to, -2 and -4 (v8) the start, -3 (v7) the record with the greatest
//!   timestamp. -5 (v9) and -6 (v11) ask for what is in tiered storage: nothing. Any other, or one that is newer than
//!   the request's version, is UNSUPPORTED_VERSION.
//! - Nothing found is offset -1, without an error.
//! - A partition that is asked for twice is INVALID_REQUEST once.
//! - The client's leader epoch is checked (KIP-320); the answer has the epoch of what was found.
//! - Only the leader answers. As long as its high watermark is not that of its own epoch, it may lie below what
//!   consumers were told before: what needs it is OFFSET_NOT_AVAILABLE (KIP-207).
//! - Needs: DESCRIBE on each topic (TOPIC_AUTHORIZATION_FAILED).
//! - A debugger (replica id -2) may ask any replica, for what its log has.

use std::collections::HashMap;
use std::sync::Arc;

use metadata::acl::AclOperation;
use platform::ELEMENTS_PER_TURN;
use storage::ReadError;
use wire::ErrorCode;
use wire::api::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
    ListOffsetsTopicResponse,
};
use wire::batch::{Batch, BatchHeader};
use wire::record::RecordReader;

use super::RequestContext;
use crate::Broker;
use crate::partition::{Isolation, Partition};
use crate::threads::spawn_blocking;

/// `ListOffsetsRequest.DEBUGGING_REPLICA_ID`.
const DEBUGGING_REPLICA_ID: i32 = -2;
/// Of a stored batch. All that is stored was checked against less when it came.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let version = context.api_version;
    let timestamps = request.topics.iter().flat_map(|topic| &topic.partitions).map(|asked| asked.timestamp);
    let is_small = timestamps.clone().count() <= ELEMENTS_PER_TURN;
    let reads = timestamps.clone().any(|timestamp| Question::new(timestamp, version).is_ok_and(Question::reads));
    if is_small && !reads {
        return answer(broker, context, &request);
    }
    let cold_reads = broker.partitions.cold_reads().clone();
    let (broker, context) = (Arc::clone(broker), context.clone());
    let search = move || answer(&broker, &context, &request);
    let answered = if reads { cold_reads.run(search).await } else { spawn_blocking(search).await.ok() };
    answered.unwrap_or_else(|| {
        tracing::error!("a search for offsets ended");
        ListOffsetsResponse::default()
    })
}

fn answer(broker: &Broker, context: &RequestContext, request: &ListOffsetsRequest) -> ListOffsetsResponse {
    let version = context.api_version;
    let access = context.access(broker);
    let reader = match (request.replica_id, request.isolation_level) {
        (DEBUGGING_REPLICA_ID, _) => Ok(Reader::Debugger),
        (_, 0) => Ok(Reader::Consumer(Isolation::ReadUncommitted)),
        (_, 1) => Ok(Reader::Consumer(Isolation::ReadCommitted)),
        _ => Err(ErrorCode::INVALID_REQUEST),
    };
    // By a number for each name, which is not looked at again for each partition.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut number = |name| {
        let next = numbers.len();
        *numbers.entry(name).or_insert(next)
    };
    let numbered: Vec<(usize, &ListOffsetsTopic)> =
        request.topics.iter().map(|topic| (number(topic.name.as_str()), topic)).collect();
    let mut times_asked: HashMap<(usize, i32), u32> = HashMap::new();
    for (number, topic) in &numbered {
        for partition in &topic.partitions {
            *times_asked.entry((*number, partition.partition_index)).or_default() += 1;
        }
    }
    let mut topics = Vec::with_capacity(request.topics.len());
    for (number, topic) in numbered {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        let granted = access.check_topic(AclOperation::Describe, &topic.name);
        for asked in &topic.partitions {
            let times = times_asked.entry((number, asked.partition_index)).or_default();
            let found = match *times {
                // A repetition that has been answered.
                0 => continue,
                1 => granted.and(reader).and_then(|reader| {
                    let partition = broker.partitions.find_by_name(&topic.name, asked.partition_index)?;
                    find(&partition, version, asked, reader).map_err(|code| as_known(code, version))
                }),
                _ => {
                    *times = 0;
                    Err(ErrorCode::INVALID_REQUEST)
                }
            };
            partitions.push(response(asked.partition_index, found));
        }
        if !partitions.is_empty() || topic.partitions.is_empty() {
            topics.push(ListOffsetsTopicResponse { name: topic.name.clone(), partitions });
        }
    }
    ListOffsetsResponse { topics, ..Default::default() }
}

/// Who asks.
#[derive(Clone, Copy)]
enum Reader {
    Consumer(Isolation),
    Debugger,
}

/// A position in a log, as it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundOffset {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

fn response(partition_index: i32, found: Result<Option<FoundOffset>, ErrorCode>) -> ListOffsetsPartitionResponse {
    let response = ListOffsetsPartitionResponse { partition_index, ..Default::default() };
    match found {
        Ok(Some(FoundOffset { offset, timestamp, leader_epoch })) => {
            ListOffsetsPartitionResponse { offset, timestamp, leader_epoch, ..response }
        }
        Ok(None) => response,
        Err(error_code) => ListOffsetsPartitionResponse { error_code, ..response },
    }
}

/// What a timestamp of a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Latest,
    Earliest,
    MaxTimestamp,
    Tiered,
    Time(i64),
}

impl Question {
    /// Special timestamps are as old as the version that brought them (KIP-734, KIP-405, KIP-1005, KIP-1023).
    fn new(timestamp: i64, version: i16) -> Result<Self, ErrorCode> {
        match timestamp {
            0.. => Ok(Self::Time(timestamp)),
            -1 => Ok(Self::Latest),
            -2 => Ok(Self::Earliest),
            -3 if version >= 7 => Ok(Self::MaxTimestamp),
            -4 if version >= 8 => Ok(Self::Earliest),
            -5 if version >= 9 => Ok(Self::Tiered),
            -6 if version >= 11 => Ok(Self::Tiered),
            _ => Err(ErrorCode::UNSUPPORTED_VERSION),
        }
    }

    /// Whether the answer is in files.
    fn reads(self) -> bool {
        matches!(self, Self::MaxTimestamp | Self::Time(_))
    }
}

/// Older clients know another error to try again on (`ReplicaManager.fetchOffset`, KIP-207).
fn as_known(code: ErrorCode, version: i16) -> ErrorCode {
    const OFFSET_NOT_AVAILABLE_SINCE: i16 = 5;
    match code {
        ErrorCode::OFFSET_NOT_AVAILABLE if version < OFFSET_NOT_AVAILABLE_SINCE => ErrorCode::LEADER_NOT_AVAILABLE,
        code => code,
    }
}

fn find(
    partition: &Partition,
    version: i16,
    asked: &ListOffsetsPartition,
    reader: Reader,
) -> Result<Option<FoundOffset>, ErrorCode> {
    let question = Question::new(asked.timestamp, version)?;
    partition.check_leader_epoch(asked.current_leader_epoch)?;
    let (end_offset, is_behind) = match reader {
        Reader::Consumer(isolation) => {
            partition.check_leader()?;
            let end_offset = partition.end_offset(isolation);
            (end_offset, partition.epoch_start_offset()? > end_offset)
        }
        Reader::Debugger => {
            partition.check_has_role()?;
            (partition.view().log_end_offset(), false)
        }
    };
    let found = match question {
        Question::Latest if is_behind => return Err(ErrorCode::OFFSET_NOT_AVAILABLE),
        Question::Latest => {
            Ok(Some(FoundOffset { offset: end_offset, timestamp: -1, leader_epoch: partition.leader_epoch() }))
        }
        Question::Earliest => Ok(Some(earliest(partition))),
        Question::MaxTimestamp => max_timestamp(partition, end_offset),
        Question::Tiered => Ok(None),
        Question::Time(timestamp) => first_at(partition, timestamp, end_offset),
    };
    // It may be there, above what may be read yet.
    if is_behind && matches!(found, Ok(None)) && question.reads() {
        return Err(ErrorCode::OFFSET_NOT_AVAILABLE);
    }
    found.map_err(|error| {
        tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "cannot look up an offset");
        error.code()
    })
}

fn earliest(partition: &Partition) -> FoundOffset {
    let offset = partition.log_start_offset();
    // A log that has never held a record begins with the epoch of its leader.
    let leader_epoch = partition.view().epoch_for_offset(offset).unwrap_or_else(|| partition.leader_epoch());
    FoundOffset { offset, timestamp: -1, leader_epoch }
}

/// The first record with the greatest timestamp of the log (KIP-734).
fn max_timestamp(partition: &Partition, end_offset: i64) -> Result<Option<FoundOffset>, LookupError> {
    let max = partition.view().max_timestamp()?;
    // The log knows the batch. One that is below the log's start, or that the reader may not see yet, is not found.
    let batch = partition.view().headers(max.offset, end_offset).find_map(Result::ok);
    match batch.filter(|batch| max.timestamp >= 0 && batch.max_timestamp == max.timestamp) {
        Some(batch) => first_in(partition, &batch, max.timestamp, end_offset),
        None => Ok(None),
    }
}

/// The first record of a time or later.
fn first_at(partition: &Partition, timestamp: i64, end_offset: i64) -> Result<Option<FoundOffset>, LookupError> {
    let mut batch = partition.view().batch_for_timestamp(timestamp, end_offset)?;
    while let Some(header) = batch {
        if let Some(found) = first_in(partition, &header, timestamp, end_offset)? {
            return Ok(Some(found));
        }
        // The record that made the batch match lies below the log's start, which is within the batch.
        let later = partition.view().headers(header.next_offset(), end_offset);
        batch = later.filter_map(Result::ok).find(|header| header.max_timestamp >= timestamp);
    }
    Ok(None)
}

/// The first record of a batch that is of the time or later and that a reader may see.
fn first_in(
    partition: &Partition,
    header: &BatchHeader,
    timestamp: i64,
    end_offset: i64,
) -> Result<Option<FoundOffset>, LookupError> {
    let start = header.base_offset.max(partition.log_start_offset());
    if start >= header.next_offset() {
        return Ok(None);
    }
    let bytes = partition.view().read(start, header.next_offset(), header.size() as u32)?;
    let batch = Batch::parse(&bytes).map_err(|_| LookupError::Unreadable)?;
    let records = batch.records(DECOMPRESSED_BYTES_MAX).map_err(|_| LookupError::Unreadable)?;
    for record in RecordReader::new(&batch.header, &records) {
        let record = record.map_err(|_| LookupError::Unreadable)?;
        if record.timestamp >= timestamp && record.offset >= start {
            return Ok((record.offset < end_offset).then_some(FoundOffset {
                offset: record.offset,
                timestamp: record.timestamp,
                leader_epoch: header.partition_leader_epoch,
            }));
        }
    }
    Ok(None)
}

/// Why the log could not be searched.
#[derive(Debug, thiserror::Error)]
enum LookupError {
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the records of a batch are unreadable")]
    Unreadable,
}

impl LookupError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Read(ReadError::OffsetOutOfRange { .. }) => ErrorCode::OFFSET_OUT_OF_RANGE,
            Self::Read(ReadError::Corrupt { .. }) | Self::Unreadable => ErrorCode::CORRUPT_MESSAGE,
            Self::Read(_) | Self::Io(_) => ErrorCode::KAFKA_STORAGE_ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;

    use super::*;
    use crate::api::test_support::{NODE_ID, TestBroker, context, led_by};

    #[tokio::test]
    async fn a_follower_answers_a_debugger() {
        let broker = TestBroker::start().await;
        broker.create("t", Uuid([7; 16]), &[led_by(NODE_ID, &[NODE_ID]), led_by(2, &[2, NODE_ID])]).await;
        broker.append("t", 0);
        let ask = async |replica_id, partition_index| {
            let asked = ListOffsetsPartition { partition_index, timestamp: -1, ..Default::default() };
            let topics = vec![ListOffsetsTopic { name: "t".to_owned(), partitions: vec![asked] }];
            let request = ListOffsetsRequest { replica_id, topics, ..Default::default() };
            let answer = handle(&broker, &context(5), request).await.topics.remove(0).partitions.remove(0);
            (answer.error_code, answer.offset)
        };
        let is_not_leader = ErrorCode::NOT_LEADER_OR_FOLLOWER;
        assert_eq!([ask(-1, 0).await, ask(-1, 1).await], [(ErrorCode::NONE, 1), (is_not_leader, -1)]);
        assert_eq!([ask(-2, 0).await, ask(-2, 1).await], [(ErrorCode::NONE, 1), (ErrorCode::NONE, 0)]);
    }

    #[test]
    fn clients_get_an_error_that_they_know() {
        assert_eq!(as_known(ErrorCode::OFFSET_NOT_AVAILABLE, 4), ErrorCode::LEADER_NOT_AVAILABLE);
        assert_eq!(as_known(ErrorCode::OFFSET_NOT_AVAILABLE, 5), ErrorCode::OFFSET_NOT_AVAILABLE);
        assert_eq!(as_known(ErrorCode::FENCED_LEADER_EPOCH, 4), ErrorCode::FENCED_LEADER_EPOCH);
    }

    /// As Kafka 4.3.1 answers each version.
    #[test]
    fn special_timestamps_need_their_version() {
        for (timestamp, since, question) in [
            (-1, 1, Question::Latest),
            (-2, 1, Question::Earliest),
            (-3, 7, Question::MaxTimestamp),
            (-4, 8, Question::Earliest),
            (-5, 9, Question::Tiered),
            (-6, 11, Question::Tiered),
            (0, 1, Question::Time(0)),
        ] {
            assert_eq!(Question::new(timestamp, since), Ok(question));
            if since > 1 {
                assert_eq!(Question::new(timestamp, since - 1), Err(ErrorCode::UNSUPPORTED_VERSION));
            }
        }
        assert_eq!(Question::new(-7, 11), Err(ErrorCode::UNSUPPORTED_VERSION));
    }
}
