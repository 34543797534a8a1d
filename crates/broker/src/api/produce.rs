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
//! - Needs: WRITE on each topic (TOPIC_AUTHORIZATION_FAILED), and on the transactional id of transactional batches
//!   (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for all of the request).
//! - Where a transaction is not open yet, its coordinator is asked first whether the partition belongs to it; from
//!   version 12 on it is added (KIP-890). What comes behind on the connection waits for that.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use metadata::acl::AclOperation;
use metadata::{is_internal, validate_name};
use storage::{Verification, VerificationGuard};
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
use crate::coordination::{TransactionSupport, TransactionalProducer};
use crate::frame::Frame;
use crate::partition::{
    Acks, Partition, PendingCommits, ProduceCompletion, ProduceOutcome, ProduceTimings, Refusal, Terms,
};

/// The client that may write to internal topics (`AdminUtils.ADMIN_CLIENT_ID`).
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// Requests of more bytes are checked by a thread of their own, and what comes on their connection behind them waits: a
/// checksum over 100 MB takes as long as thousands of small requests. What is compressed counts for more.
const INLINE_BYTES_MAX: usize = 1 << 20;
const COMPRESSED_WEIGHT: usize = 4;

/// A client at the wrong broker is told the leader since.
const LEADER_HINTS_SINCE: i16 = 10;

/// Topics are named by id since.
const TOPIC_IDS_SINCE: i16 = 13;

/// The versions of [`TransactionSupport::of_version`].
const ABORTABLE_SINCE: i16 = 11;
const ADDS_PARTITIONS_SINCE: i16 = 12;

/// A Produce whose batches are queued, or are being checked before.
pub struct PendingProduce {
    broker: Arc<Broker>,
    call: Call,
    acks: Acks,
    /// The topics of the request, in its order; the completion has a slot for each of their partitions.
    topics: Vec<Topic>,
    completion: Arc<ProduceCompletion>,
    deadline: Option<Instant>,
    /// Checks and queues the batches of a large request, and those that begin a transaction.
    checking: Option<JoinHandle<Option<Vec<Topic>>>>,
}

/// What became of the batches of a request at once.
struct Checked {
    topics: Vec<Topic>,
    /// Not queued yet. All are of one producer.
    unverified: Option<(TransactionalProducer, Vec<Unverified>)>,
}

/// A batch that begins a transaction in its partition, or may begin one.
struct Unverified {
    partition: Arc<Partition>,
    batch: Batch,
    /// `None` if the log is busy. It may be with a disk that does not answer, so that no thread of the runtime waits
    /// for it.
    guard: Option<VerificationGuard>,
    slot: usize,
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
    let slots = request.topic_data.iter().map(|topic| topic.partition_data.len()).sum();
    let completion = Arc::new(ProduceCompletion::new(slots));
    let acks = match request.acks {
        0 => Ok(Acks::None),
        1 => Ok(Acks::Leader),
        -1 => Ok(Acks::All),
        _ => Err(ErrorCode::INVALID_REQUIRED_ACKS),
    };
    let pending_acks = acks.unwrap_or(Acks::Leader);
    let deadline =
        (pending_acks == Acks::All).then(|| Instant::now() + Duration::from_millis(request.timeout_ms.max(0) as u64));
    let is_large = is_large(&request);
    let support = TransactionSupport::of_version(call.context.api_version, ABORTABLE_SINCE, ADDS_PARTITIONS_SINCE);
    let mut pending = PendingProduce {
        broker: Arc::clone(broker),
        call,
        acks: pending_acks,
        topics: Vec::new(),
        completion,
        deadline,
        checking: None,
    };
    let completion = Arc::clone(&pending.completion);
    if is_large {
        let (broker, context) = (Arc::clone(broker), pending.call.context.clone());
        let large_requests = broker.partitions.large_requests().clone();
        let (checking, slots) = (Arc::clone(&broker), Arc::clone(&completion));
        let check = move || queue(&checking, &context, acks, support, request, &slots, &mut PendingCommits::default());
        pending.checking = Some(tokio::spawn(async move {
            let checked = large_requests.run(check).await?;
            verify(&broker, pending_acks, support, checked, &completion).await
        }));
        return pending;
    }
    let checked = queue(broker, &pending.call.context, acks, support, request, &completion, commits);
    if checked.unverified.is_none() {
        pending.topics = checked.topics;
    } else {
        let broker = Arc::clone(broker);
        pending.checking =
            Some(tokio::spawn(async move { verify(&broker, pending_acks, support, checked, &completion).await }));
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

/// Queues the batches that are in order, and refuses the others. Those that begin a transaction are left over.
fn queue(
    broker: &Arc<Broker>,
    context: &RequestContext,
    acks: Result<Acks, ErrorCode>,
    support: TransactionSupport,
    request: ProduceRequest,
    completion: &Arc<ProduceCompletion>,
    commits: &mut PendingCommits,
) -> Checked {
    let from_admin_client = context.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
    let access = context.access(broker);
    let producer = acks.and_then(|acks| {
        let producer = transactional_producer(&request)?;
        if let Some(producer) = &producer {
            access.check_transactional_id(AclOperation::Write, &producer.transactional_id)?;
        }
        Ok((acks, producer))
    });
    let mut unverified = Vec::new();
    let mut slot = 0;
    let mut topics = Vec::with_capacity(request.topic_data.len());
    for topic in request.topic_data {
        let mut partitions = Vec::with_capacity(topic.partition_data.len());
        let granted = match context.api_version >= TOPIC_IDS_SINCE {
            true => access.check_topic_by_id(AclOperation::Write, topic.topic_id),
            false => access.check_topic(AclOperation::Write, &topic.name),
        };
        for data in topic.partition_data {
            partitions.push(data.index);
            let granted = granted.and(producer.as_ref().map_err(|code| *code));
            let checked = granted.map_err(Refusal::from).and_then(|(acks, producer)| {
                let partition = find(broker, context.api_version, &topic.name, topic.topic_id, data.index)?;
                if is_internal(&partition.topic) && !from_admin_client {
                    return Err(ErrorCode::INVALID_TOPIC_EXCEPTION.into());
                }
                let batch = check(broker, &partition, context, data)?;
                let verification = match producer {
                    Some(producer) if batch.header.attributes.is_transactional() => partition.try_start_verification(
                        producer.producer_id,
                        producer.producer_epoch,
                        batch.header.base_sequence,
                        support.transaction_version(),
                    )?,
                    _ => Some(Verification::NotNeeded),
                };
                Ok((partition, batch, *acks, verification))
            });
            match checked {
                Ok((partition, batch, acks, Some(Verification::NotNeeded))) => {
                    partition.enqueue(batch, acks, completion, slot, commits);
                }
                Ok((partition, batch, _, Some(Verification::Needed(guard)))) => {
                    unverified.push(Unverified { partition, batch, guard: Some(guard), slot });
                }
                Ok((partition, batch, _, None)) => unverified.push(Unverified { partition, batch, guard: None, slot }),
                Err(refusal) => completion.fill(slot, ProduceOutcome::Refused(refusal)),
            }
            slot += 1;
        }
        topics.push(Topic { name: topic.name, id: topic.topic_id, partitions });
    }
    let producer = producer.ok().and_then(|(_, producer)| producer).filter(|_| !unverified.is_empty());
    Checked { topics, unverified: producer.map(|producer| (producer, unverified)) }
}

/// The producer of the transactional batches of a request, if it has some
/// (`KafkaApis.handleProduceRequest`, `ReplicaManager.handleProduceAppend`).
fn transactional_producer(request: &ProduceRequest) -> Result<Option<TransactionalProducer>, ErrorCode> {
    let data = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let mut producer = None;
    for data in data {
        let Some(Records::Inline(bytes)) = &data.records else { continue };
        let Some(header) = bytes.first_chunk().map(BatchHeader::parse) else { continue };
        // What is no batch at all is told so.
        if header.magic != batch::MAGIC || !header.attributes.is_transactional() {
            continue;
        }
        let Some(transactional_id) = &request.transactional_id else {
            return Err(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        };
        let found = producer.get_or_insert_with(|| TransactionalProducer {
            transactional_id: transactional_id.clone(),
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
        });
        if (found.producer_id, found.producer_epoch) != (header.producer_id, header.producer_epoch) {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
    }
    Ok(producer)
}

/// Queues the batches that were left over and belong to the transaction. `None` if that panicked.
async fn verify(
    broker: &Arc<Broker>,
    acks: Acks,
    support: TransactionSupport,
    checked: Checked,
    completion: &Arc<ProduceCompletion>,
) -> Option<Vec<Topic>> {
    let Checked { topics, unverified } = checked;
    let Some((producer, mut unverified)) = unverified else { return Some(topics) };
    if unverified.iter().any(|batch| batch.guard.is_none()) {
        let (sender, completion) = (producer.clone(), Arc::clone(completion));
        let start = move || start_verifications(&sender, acks, support, unverified, &completion);
        unverified = broker.partitions.large_requests().clone().run(start).await?;
    }
    if unverified.is_empty() {
        return Some(topics);
    }
    let place = |batch: &Unverified| (Arc::clone(&batch.partition.topic), batch.partition.index);
    let partitions: Vec<_> = unverified.iter().map(place).collect();
    let errors = broker.verifier.verify(&producer, &partitions, support).await;
    let mut commits = PendingCommits::default();
    for Unverified { partition, batch, guard, slot } in unverified {
        match errors.get(&(partition.topic.to_string(), partition.index)) {
            Some(error) => completion.fill(slot, ProduceOutcome::Refused(unverified_refusal(*error, support))),
            None => {
                let terms = Terms { guard, ..Terms::CLIENT };
                partition.enqueue_on(terms, batch, acks, completion, slot, &mut commits);
            }
        }
    }
    commits.commit();
    Some(topics)
}

/// Waits for logs that were busy. Queues the batches whose transaction is open, and returns those that begin one.
fn start_verifications(
    producer: &TransactionalProducer,
    acks: Acks,
    support: TransactionSupport,
    unverified: Vec<Unverified>,
    completion: &Arc<ProduceCompletion>,
) -> Vec<Unverified> {
    let mut commits = PendingCommits::default();
    let mut beginning = Vec::with_capacity(unverified.len());
    for Unverified { partition, batch, guard, slot } in unverified {
        let started = guard.map_or_else(
            || {
                let (id, epoch, sequence) = (producer.producer_id, producer.producer_epoch, batch.header.base_sequence);
                partition.start_verification(id, epoch, sequence, support.transaction_version())
            },
            |guard| Ok(Verification::Needed(guard)),
        );
        match started {
            Ok(Verification::Needed(guard)) => {
                beginning.push(Unverified { partition, batch, guard: Some(guard), slot });
            }
            Ok(Verification::NotNeeded) => partition.enqueue(batch, acks, completion, slot, &mut commits),
            Err(refusal) => completion.fill(slot, ProduceOutcome::Refused(refusal)),
        }
    }
    beginning
}

/// Why a batch is not appended whose partition could not be verified. Producers try again on NOT_ENOUGH_REPLICAS, and
/// ask for no metadata first.
fn unverified_refusal(error: ErrorCode, support: TransactionSupport) -> Refusal {
    let adds = support == TransactionSupport::AddsPartitions;
    match error {
        ErrorCode::INVALID_TXN_STATE => {
            Refusal { message: Some("Partition was not added to the transaction".to_owned()), ..error.into() }
        }
        ErrorCode::CONCURRENT_TRANSACTIONS if adds => error.into(),
        ErrorCode::CONCURRENT_TRANSACTIONS
        | ErrorCode::NETWORK_EXCEPTION
        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        | ErrorCode::COORDINATOR_NOT_AVAILABLE
        | ErrorCode::NOT_COORDINATOR => {
            let message =
                format!("Unable to verify the partition has been added to the transaction. Underlying error: {error}");
            Refusal { message: Some(message), ..ErrorCode::NOT_ENOUGH_REPLICAS.into() }
        }
        error => error.into(),
    }
}

fn find(broker: &Broker, version: i16, name: &str, id: Uuid, index: i32) -> Result<Arc<Partition>, ErrorCode> {
    if version >= TOPIC_IDS_SINCE {
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
        records: error.rejected().iter().map(|record| (record.index, record.reason.to_string())).collect(),
        message: Some(error.to_string()),
        ..error.code().into()
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

    /// Whether there was a partition that did not know its producer.
    pub fn is_of_new_producer(&self) -> bool {
        self.completion.is_of_new_producer()
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
        ProduceOutcome::Appended { base_offset, log_append_time_ms, log_start_offset, .. } => {
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

#[cfg(test)]
mod transactions_tests;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use metadata::CONSUMER_OFFSETS;
    use wire::api::produce::TopicProduceData;
    use wire::batch::BatchBuilder;
    use wire::frame;

    use super::*;
    use crate::api::test_support::{TestBroker, batch, context, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    /// A record for each of some partitions of a topic.
    fn request(acks: i16, name: &str, topic_id: Uuid, partitions: &[i32]) -> ProduceRequest {
        let records = Some(Records::Inline(batch().bytes));
        let partition_data =
            partitions.iter().map(|&index| PartitionProduceData { index, records: records.clone() }).collect();
        let topic_data = vec![TopicProduceData { name: name.to_owned(), topic_id, partition_data }];
        ProduceRequest { acks, timeout_ms: 60_000, topic_data, ..Default::default() }
    }

    fn send(broker: &TestBroker, context: RequestContext, request: ProduceRequest) -> PendingProduce {
        let mut commits = PendingCommits::default();
        let pending = start(broker, Call { correlation_id: 1, context }, request, &mut commits);
        commits.commit();
        pending
    }

    async fn answer(pending: &mut PendingProduce) -> ProduceResponse {
        let version = pending.call.context.api_version;
        let frame = poll_fn(|cx| pending.poll(cx)).await.expect("it is answered").into_bytes();
        frame::read_response::<ProduceRequest>(&frame.slice(4..), version).expect("it is of its version").1
    }

    async fn codes(broker: &TestBroker, context: RequestContext, request: ProduceRequest) -> Vec<ErrorCode> {
        let response = answer(&mut send(broker, context, request)).await;
        let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        partitions.map(|partition| partition.error_code).collect()
    }

    #[tokio::test]
    async fn a_client_at_the_wrong_broker_is_told_the_leader_since_version_10() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1]), led_by(2, &[1, 2])]).await;
        for (version, is_told) in [(9, false), (10, true), (13, true)] {
            let request = request(1, "t", TOPIC_ID, &[0, 1]);
            let response = answer(&mut send(&broker, context(version), request)).await;
            let [own, other] = &response.responses[0].partition_responses[..] else { panic!("{response:?}") };
            assert_eq!((own.error_code, own.current_leader.leader_id), (ErrorCode::NONE, -1));
            assert_eq!((other.error_code, other.base_offset), (ErrorCode::NOT_LEADER_OR_FOLLOWER, -1));
            let leader = (other.current_leader.leader_id, other.current_leader.leader_epoch);
            assert_eq!(leader, if is_told { (2, 0) } else { (-1, -1) }, "{version}");
            let nodes: Vec<_> = response.node_endpoints.iter().map(|node| (node.node_id, &*node.host)).collect();
            assert_eq!(nodes, if is_told { vec![(2, "broker-2")] } else { vec![] }, "{version}");
        }
    }

    #[tokio::test]
    async fn topics_are_named_by_id_since_version_13() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        let (none, unknown) = (ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(codes(&broker, context(13), request(1, "", TOPIC_ID, &[0, 1])).await, [none, unknown]);
        assert_eq!(
            codes(&broker, context(13), request(1, "t", Uuid([8; 16]), &[0])).await,
            [ErrorCode::UNKNOWN_TOPIC_ID]
        );
        assert_eq!(codes(&broker, context(12), request(1, "t", Uuid([8; 16]), &[0, 1])).await, [none, unknown]);
        assert_eq!(codes(&broker, context(12), request(1, "nope", TOPIC_ID, &[0])).await, [unknown]);
    }

    #[tokio::test]
    async fn only_the_admin_client_writes_to_internal_topics() {
        let broker = TestBroker::start().await;
        broker.create(CONSUMER_OFFSETS, TOPIC_ID, &[led_by(1, &[1])]).await;
        for (client_id, code) in [
            (Some("__admin_client"), ErrorCode::NONE),
            (Some("admin"), ErrorCode::INVALID_TOPIC_EXCEPTION),
            (None, ErrorCode::INVALID_TOPIC_EXCEPTION),
        ] {
            let context = RequestContext { client_id: client_id.map(str::to_owned), ..context(12) };
            assert_eq!(codes(&broker, context, request(1, CONSUMER_OFFSETS, TOPIC_ID, &[0])).await, [code]);
        }
    }

    #[tokio::test]
    async fn a_batch_that_is_not_replicated_in_time_is_not_acknowledged() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1, 2]), led_by(1, &[1])]).await;
        assert_eq!(send(&broker, context(12), request(1, "t", TOPIC_ID, &[0])).deadline(), None, "it does not wait");
        let mut pending = send(&broker, context(12), request(-1, "t", TOPIC_ID, &[0]));
        let deadline = pending.deadline().expect("it waits for a follower");
        pending.expire(deadline - Duration::from_millis(1));
        assert!(poll_fn(|cx| Poll::Ready(pending.poll(cx).is_pending())).await);
        pending.expire(deadline);
        let response = answer(&mut pending).await;
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (ErrorCode::REQUEST_TIMED_OUT, -1));
        assert_eq!(codes(&broker, context(12), request(-1, "t", TOPIC_ID, &[1])).await, [ErrorCode::NONE]);
    }

    #[test]
    fn why_a_partition_is_not_verified_is_told_as_kafka_does() {
        use ErrorCode as E;
        use TransactionSupport::{AddsPartitions, Verifies, VerifiesAbortable};
        for error in
            [E::NETWORK_EXCEPTION, E::COORDINATOR_LOAD_IN_PROGRESS, E::COORDINATOR_NOT_AVAILABLE, E::NOT_COORDINATOR]
        {
            for support in [Verifies, VerifiesAbortable, AddsPartitions] {
                let refusal = unverified_refusal(error, support);
                assert_eq!(refusal.code, E::NOT_ENOUGH_REPLICAS, "{error}");
                assert!(refusal.message.is_some_and(|message| message.ends_with(&error.to_string())), "{error}");
            }
        }
        for (support, code) in [
            (Verifies, E::NOT_ENOUGH_REPLICAS),
            (VerifiesAbortable, E::NOT_ENOUGH_REPLICAS),
            (AddsPartitions, E::CONCURRENT_TRANSACTIONS),
        ] {
            assert_eq!(unverified_refusal(E::CONCURRENT_TRANSACTIONS, support).code, code);
        }
        assert!(unverified_refusal(E::INVALID_TXN_STATE, Verifies).message.is_some());
        for error in [E::INVALID_PRODUCER_ID_MAPPING, E::INVALID_PRODUCER_EPOCH, E::TRANSACTION_ABORTABLE] {
            assert_eq!(unverified_refusal(error, AddsPartitions), error.into());
        }
    }

    #[tokio::test]
    async fn no_connection_waits_for_a_busy_log_to_begin_a_transaction() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        let partition = broker.partitions.find_by_name("t", 0).unwrap();
        let mut builder = BatchBuilder::new().producer(7, 0, 0).transactional();
        builder.push(0, None, Some(b"value"), &[]);
        let records = Some(Records::Inline(builder.build().bytes));
        let mut request = request(1, "t", TOPIC_ID, &[0]);
        request.transactional_id = Some("a".to_owned());
        request.topic_data[0].partition_data[0].records = records;
        let mut pending = partition.with_log(|_| send(&broker, context(12), request));
        assert!(!pending.is_queued(), "what comes behind it waits");
        // There is no coordinator that could be asked.
        let response = answer(&mut pending).await;
        assert_eq!(response.responses[0].partition_responses[0].error_code, ErrorCode::NOT_ENOUGH_REPLICAS);
    }

    #[tokio::test]
    async fn a_request_without_acknowledgement_has_no_answer_if_it_succeeds() {
        let broker = TestBroker::start().await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1])]).await;
        let mut pending = send(&broker, context(12), request(0, "t", TOPIC_ID, &[0]));
        let frame = poll_fn(|cx| pending.poll(cx)).await.expect("the connection stays");
        assert!(frame.into_bytes().is_empty());
        let mut pending = send(&broker, context(12), request(0, "t", TOPIC_ID, &[0, 1]));
        let closed = poll_fn(|cx| pending.poll(cx)).await.err();
        assert!(matches!(closed, Some(CloseReason::SilentProduceFailed)));
    }
}
