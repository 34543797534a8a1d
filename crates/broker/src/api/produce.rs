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

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use wire::api::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::batch::{self, Batch};
use wire::{ErrorCode, Records, Uuid};

use super::{Call, RequestContext, leaders};
use crate::Broker;
use crate::meta::{is_internal, validate_name};
use crate::net::{CloseReason, Frame};
use crate::partition::{Acks, Outcome, Partition, Passed, Refusal, Ticket, Touched};

/// The client that may write to internal topics (`AdminUtils.ADMIN_CLIENT_ID`).
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Who has the wrong leader is told the right one since.
const LEADER_HINTS_SINCE: i16 = 10;

/// A Produce whose batches are queued.
pub struct Pending {
    broker: Arc<Broker>,
    call: Call,
    acks: Acks,
    /// The topics of the request, in its order; the ticket has a place for each of their partitions.
    topics: Vec<Topic>,
    ticket: Arc<Ticket>,
    deadline: Option<Instant>,
}

struct Topic {
    name: String,
    id: Uuid,
    partitions: Vec<i32>,
}

pub(super) fn start(broker: &Arc<Broker>, call: Call, request: ProduceRequest, touched: &mut Touched) -> Pending {
    let places = request.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
    let ticket = Arc::new(Ticket::new(places));
    let acks = match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::All),
        _ => Err(ErrorCode::INVALID_REQUIRED_ACKS),
    };
    let transactional = request.transactional_id.is_some();
    let from_admin_client = call.context.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
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
                let partition = find(broker, call.context.api_version, &topic.name, topic.topic_id, data.index)?;
                if is_internal(&partition.topic) && !from_admin_client {
                    return Err(ErrorCode::INVALID_TOPIC_EXCEPTION.into());
                }
                let batch = check(broker, &partition, &call.context, data)?;
                Ok((partition, batch, acks))
            });
            match checked {
                Ok((partition, batch, acks)) => partition.enqueue(batch, acks, &ticket, place, touched),
                Err(refusal) => ticket.fill(place, Outcome::Refused(refusal)),
            }
            place += 1;
        }
        topics.push(Topic { name: topic.name, id: topic.topic_id, partitions });
    }
    let acks = acks.unwrap_or(Acks::Leader);
    let deadline =
        (acks == Acks::All).then(|| Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64));
    Pending { broker: Arc::clone(broker), call, acks, topics, ticket, deadline }
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

impl Pending {
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub fn passed(&self) -> Passed {
        self.ticket.passed()
    }

    /// Gives up waiting for what is not acknowledged by its deadline. It may still be appended.
    pub fn expire(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            self.ticket.fill_open(ErrorCode::REQUEST_TIMED_OUT);
        }
    }

    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, CloseReason>> {
        let outcomes = ready!(self.ticket.poll(cx));
        if self.acks == Acks::None {
            return Poll::Ready(if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_))) {
                Err(CloseReason::SilentProduceFailed)
            } else {
                Ok(Frame::default())
            });
        }
        let mut outcomes = outcomes.into_iter();
        let mut hints = leaders::Hints::new(&self.broker.metadata, &self.call.context.listener);
        let gives_hints = self.call.context.api_version >= LEADER_HINTS_SINCE;
        let mut respond = |topic: &Topic, index: i32, outcome: Outcome| {
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

fn response(index: i32, outcome: Outcome) -> PartitionProduceResponse {
    match outcome {
        Outcome::Appended { base_offset, log_append_time_ms, log_start_offset } => {
            PartitionProduceResponse { index, base_offset, log_append_time_ms, log_start_offset, ..Default::default() }
        }
        Outcome::Refused(refusal) => PartitionProduceResponse {
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
