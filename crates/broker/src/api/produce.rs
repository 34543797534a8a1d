//! Produce (key 0), versions 3-13: append batches.
//!
//! Behaviour:
//! - Each batch is checked before anything is queued; a bad one fails its partition only.
//! - Only the leader takes batches; a client that comes to another broker is told the leader (KIP-951).
//! - acks=0 and 1 are answered when the batch is in the page cache, acks=all when all replicas in sync have it: on disk
//!   (`ack.durability=disk`), or in the page cache (`os`).
//! - acks=0 has no answer; when it fails the connection is closed, which makes the client refresh its metadata.
//! - The batches of one request, and of requests that follow on the same connection, are appended in order.
//! - Only the admin client writes to internal topics.
//!
//! Skipped: transactional batches are refused until there are transactions.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use metadata::{is_internal, validate_name};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::api::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::batch::{self, Batch, BatchHeader};
use wire::{ErrorCode, Records, Uuid};

use super::{Call, RequestContext, leaders};
use crate::Broker;
use crate::close_reason::CloseReason;
use crate::frame::Frame;
use crate::partition::{Acks, Partition, PendingCommits, ProduceCompletion, ProduceOutcome, ProduceTimings, Refusal};

/// The client that may write to internal topics (`AdminUtils.ADMIN_CLIENT_ID`).
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Requests of more bytes are checked by a thread of their own, and what comes on their connection behind them waits: a
/// checksum over 100 MB takes as long as thousands of small requests. What is compressed counts for more.
const INLINE_BYTES_MAX: usize = 1 << 20;
const COMPRESSED_WEIGHT: usize = 4;

/// Who has the wrong leader is told the right one since.
const LEADER_HINTS_SINCE: i16 = 10;

/// A Produce whose batches are queued, or are being checked before.
pub struct PendingProduce {
    broker: Arc<Broker>,
    call: Call,
    acks: Acks,
    /// The topics of the request, in its order; the completion has a place for each of their partitions.
    topics: Vec<Topic>,
    completion: Arc<ProduceCompletion>,
    deadline: Option<Instant>,
    /// Checks and queues the batches of a large request.
    checking: Option<JoinHandle<Option<Vec<Topic>>>>,
}

struct Topic {
    name: String,
    id: Uuid,
    partitions: Vec<i32>,
}

pub(super) fn start(
    broker: &Arc<Broker>,
    call: Call,
    request: ProduceRequest,
    commits: &mut PendingCommits,
) -> PendingProduce {
    let places = request.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
    let completion = Arc::new(ProduceCompletion::new(places));
    let acks = match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::All),
        _ => Err(ErrorCode::INVALID_REQUIRED_ACKS),
    };
    let deadline = (acks.unwrap_or(Acks::Leader) == Acks::All)
        .then(|| Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64));
    let is_large = is_large(&request);
    let mut pending = PendingProduce {
        broker: Arc::clone(broker),
        call,
        acks: acks.unwrap_or(Acks::Leader),
        topics: Vec::new(),
        completion,
        deadline,
        checking: None,
    };
    if is_large {
        let (broker, context, completion) =
            (Arc::clone(broker), pending.call.context.clone(), Arc::clone(&pending.completion));
        let check = move || queue(&broker, &context, acks, request, &completion, &mut PendingCommits::default());
        pending.checking = Some(tokio::spawn(pending.broker.partitions.large_requests().clone().run(check)));
    } else {
        pending.topics = queue(broker, &pending.call.context, acks, request, &pending.completion, commits);
    }
    pending
}

/// Whether many bytes have to be gone through to check a request. The headers of few bytes are not looked at for that.
fn is_large(request: &ProduceRequest) -> bool {
    let records = || {
        let data = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
        data.filter_map(|data| match &data.records {
            Some(Records::Inline(bytes)) => Some(bytes),
            _ => None,
        })
    };
    let size: usize = records().map(Bytes::len).sum();
    let weight = |bytes: &Bytes| {
        let header = bytes.first_chunk().map(BatchHeader::parse);
        let is_compressed = header.is_some_and(|header| header.attributes.compression() != 0);
        if is_compressed { bytes.len().saturating_mul(COMPRESSED_WEIGHT) } else { bytes.len() }
    };
    size > INLINE_BYTES_MAX / COMPRESSED_WEIGHT && records().map(weight).sum::<usize>() > INLINE_BYTES_MAX
}

/// Queues the batches that are in order, and refuses the others. Returns what was asked for.
fn queue(
    broker: &Arc<Broker>,
    context: &RequestContext,
    acks: Result<Acks, ErrorCode>,
    request: ProduceRequest,
    completion: &Arc<ProduceCompletion>,
    commits: &mut PendingCommits,
) -> Vec<Topic> {
    let transactional = request.transactional_id.is_some();
    let from_admin_client = context.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
    let mut place = 0;
    let mut topics = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        for data in topic.partition_data {
            partitions.push(data.index);
            let checked = acks.map_err(Refusal::from).and_then(|acks| {
                if transactional {
                    return Err(ErrorCode::INVALID_TXN_STATE.into());
                }
                let partition = find(broker, context.api_version, &topic.name, topic.topic_id, data.index)?;
                if is_internal(&partition.topic) && !from_admin_client {
                    return Err(ErrorCode::INVALID_TOPIC_EXCEPTION.into());
                }
                let batch = check(broker, &partition, context, data)?;
                Ok((partition, batch, acks))
            });
            match checked {
                Ok((partition, batch, acks)) => partition.enqueue(batch, acks, completion, place, commits),
                Err(refusal) => completion.fill(place, ProduceOutcome::Refused(refusal)),
            }
            place += 1;
        }
        topics.push(Topic { name: topic.name, id: topic.topic_id, partitions });
    }
    topics
}

fn find(broker: &Broker, version: i16, name: &str, id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
    if version >= 13 {
        return broker.partitions.find_by_id(id, index);
    }
    broker.partitions.find_by_name(name, index).map_err(|code| match validate_name(name) {
        Ok(()) => code,
        Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
    })
}

/// Validates the one batch that a producer sends for a partition.
fn check(
    broker: &Broker,
    partition: &Partition,
    context: &RequestContext,
    data: PartitionProduceData,
) -> Result<Batch, Refusal> {
    let records = match data.records {
        Some(Records::Inline(bytes)) => bytes,
        _ => Bytes::new(),
    };
    let rules = &partition.settings().rules;
    let batch = batch::validate(&records, rules, context.api_version, broker.env.clock.now_ms());
    let batch = batch.map_err(|error| Refusal {
        code: error.code(),
        records: error.rejected().iter().map(|record| (record.index, record.reason.to_string())).collect(),
        message: Some(error.to_string()),
    })?;
    if records.as_ptr_range().contains(&batch.bytes.as_ptr()) {
        return Ok(batch);
    }
    // It was compressed anew, and is no part of the frame, which is charged.
    let bytes = broker.memory.charge(batch.bytes, context.client_address.ip(), context.is_inter_broker);
    Ok(Batch { bytes, ..batch })
}

impl PendingProduce {
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether what comes behind it may be queued.
    pub fn is_queued(&self) -> bool {
        self.checking.is_none()
    }

    pub fn timings(&self) -> ProduceTimings {
        self.completion.timings()
    }

    /// Gives up waiting for what is not acknowledged by its deadline. It may still be appended.
    pub fn expire(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.completion.fill_open(ErrorCode::REQUEST_TIMED_OUT);
        }
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, CloseReason>> {
        if let Some(checking) = &mut self.checking {
            let Ok(Some(topics)) = ready!(Pin::new(checking).poll(cx)) else {
                return Poll::Ready(Err(CloseReason::Panicked));
            };
            (self.topics, self.checking) = (topics, None);
        }
        let outcomes = ready!(self.completion.poll(cx));
        if self.acks == Acks::None {
            return Poll::Ready(if outcomes.iter().any(|outcome| matches!(outcome, ProduceOutcome::Refused(_))) {
                Err(CloseReason::SilentProduceFailed)
            } else {
                Ok(Frame::default())
            });
        }
        let mut outcomes = outcomes.into_iter();
        let mut hints = leaders::Hints::new(&self.broker.metadata, &self.call.context.listener);
        let gives_hints = self.call.context.api_version >= LEADER_HINTS_SINCE;
        let mut respond = |topic: &Topic, index: i32, outcome: ProduceOutcome| {
            let mut response = response(index, outcome);
            if gives_hints
                && let Some((leader_id, leader_epoch)) = hints.find(response.error_code, &topic.name, topic.id, index)
            {
                response.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            }
            response
        };
        let responses: Vec<TopicProduceResponse> = std::mem::take(&mut self.topics)
            .into_iter()
            .map(|topic| TopicProduceResponse {
                partition_responses: topic
                    .partitions
                    .iter()
                    .zip(&mut outcomes)
                    .map(|(&index, outcome)| respond(&topic, index, outcome))
                    .collect(),
                name: topic.name,
                topic_id: topic.id,
            })
            .collect();
        let nodes = hints.into_nodes().into_iter();
        let node_endpoints =
            nodes.map(|node| NodeEndpoint { node_id: node.id, host: node.host, port: node.port, rack: node.rack });
        let response = ProduceResponse { responses, node_endpoints: node_endpoints.collect(), ..Default::default() };
        Poll::Ready(self.call.encode::<ProduceRequest>(&response))
    }
}

fn response(index: i32, outcome: ProduceOutcome) -> PartitionProduceResponse {
    match outcome {
        ProduceOutcome::Appended { base_offset, log_append_time_ms, log_start_offset } => {
            PartitionProduceResponse { index, base_offset, log_append_time_ms, log_start_offset, ..Default::default() }
        }
        ProduceOutcome::Refused(refusal) => PartitionProduceResponse {
            index,
            error_code: refusal.code,
            base_offset: -1,
            error_message: refusal.message,
            record_errors: refusal
                .records
                .into_iter()
                .map(|(batch_index, message)| BatchIndexAndErrorMessage {
                    batch_index,
                    batch_index_error_message: Some(message),
                })
                .collect(),
            ..Default::default()
        },
    }
}
