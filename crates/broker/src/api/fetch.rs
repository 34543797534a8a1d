//! Fetch (key 1), versions 4-18: read batches.
//!
//! Behaviour:
//! - The answer names ranges of log files; the connection sends them from the file. A partition's limit may cut a batch
//!   at the end, which clients expect; the first batch of an answer is whole, however large (KIP-74).
//! - With less than `min_bytes` at hand the request is parked, at most `max_wait_ms` and never more than five minutes:
//!   appends count down what is missing. More than `fetch.max.bytes` is not waited for, nor sent.
//! - Of a partition that is named twice, the last mention counts, as in Kafka.
//! - Fetch sessions as of KIP-227: see [`sessions`].
//! - Leader epochs are checked (KIP-320); a `last_fetched_epoch` that diverges is answered with where it does
//!   (KIP-595). A client at the wrong broker is told the leader (KIP-951).
//! - Consumers of version 11 on may read from a follower, up to what it knows to be replicated, and are sent to one of
//!   their own rack (KIP-392). Older ones read from the leader.
//! - Followers, whose requests come to the inter-broker listener, read to the end of the log: see [`followers`].
//! - A consumer of committed records reads to the last stable offset, and is told with them which of their transactions
//!   were aborted (KIP-98). Others are told of none.
//! - A consumer with a `consumer_byte_rate` is sent no more at a time than that allows at once, and nothing while it is
//!   beyond: see [`quota`].

mod cold;
mod copies;
mod followers;
mod quota;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use metadata::MetadataCache;
use metadata::acl::AclOperation;
use platform::Clock;
use storage::{AbortedTransaction, ReadError, Span};
use tokio::time::Instant;
use wire::api::Request;
use wire::api::fetch::{
    AbortedTransaction as Aborted, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse,
    LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use wire::{ErrorCode, Records};

use self::copies::Answered;
use self::followers::Follower;
use self::quota::ConsumerQuota;
use super::{Call, Pace, RequestContext, leaders};
use crate::Broker;
use crate::close_reason::CloseReason;
use crate::fetch_sessions::{FetchSessions, Opened, Sent, Target, Targets};
use crate::frame::Frame;
use crate::memory::Memory;
use crate::partition::{FetchWait, Isolation, Partition, PartitionTable, Reader, Registration};

/// Followers are no preferred replicas before.
const FOLLOWER_READS_SINCE: i16 = 11;
/// The longest that a request is parked, whatever its `max_wait_ms`. A client whose connection is gone has asked again
/// long before.
const WAIT_MAX: Duration = Duration::from_secs(5 * 60);

/// A client at the wrong broker is told the leader since.
const LEADER_HINTS_SINCE: i16 = 16;

/// What fetches are served from: the part of the broker that replication needs.
pub(crate) struct Service<'a> {
    pub(crate) partitions: &'a PartitionTable,
    pub(crate) sessions: &'a FetchSessions,
    pub(crate) metadata: &'a MetadataCache,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) node_id: i32,
    pub(crate) max_bytes: i32,
    /// `replica.selector.class` is the one that knows racks.
    pub(crate) selects_by_rack: bool,
}

/// What is known of a request besides its body.
pub(crate) struct FetchContext<'a> {
    pub(crate) version: i16,
    pub(crate) listener: &'a str,
    pub(crate) is_inter_broker: bool,
    /// What copied records are charged to, and the address of the client.
    pub(crate) memory: Option<(&'a Memory, IpAddr)>,
    /// Who asks, where that matters: whose rights are looked at anew for each answer.
    pub(crate) reader: Option<(&'a Broker, &'a RequestContext)>,
}

/// Answers the request: its frame, records not copied.
pub(super) async fn answer(broker: Arc<Broker>, call: Call, request: FetchRequest) -> Result<Frame, CloseReason> {
    let service = Service {
        partitions: &broker.partitions,
        sessions: &broker.fetch_sessions,
        metadata: &broker.metadata,
        clock: &*broker.env.clock,
        node_id: broker.node_id,
        max_bytes: broker.config().fetch_max_bytes,
        selects_by_rack: broker.config().replica_selector_class.is_some(),
    };
    let Call { correlation_id, context } = &call;
    let asked = FetchContext {
        version: context.api_version,
        listener: &context.listener,
        is_inter_broker: context.is_inter_broker,
        memory: Some((&broker.memory, context.client_address.ip())),
        reader: Some((&broker, context)),
    };
    let (response, spans) = serve(&service, &asked, request).await;
    Ok(Frame::encode_with_spans(&FetchRequest::API, context.api_version, *correlation_id, &response, spans)?)
}

/// The answer, and the ranges of files that belong into it.
pub(crate) async fn serve(
    service: &Service<'_>,
    asked: &FetchContext<'_>,
    request: FetchRequest,
) -> (FetchResponse, Vec<Span>) {
    let refuse = |error_code| (FetchResponse { error_code, ..Default::default() }, Vec::new());
    let version = asked.version;
    let deadline = Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64).min(WAIT_MAX);
    let sender = match Sender::of(&request, version) {
        Sender::Follower(_) if !asked.is_inter_broker => return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
        Sender::Follower(follower) if !follower.is_registered(&service.metadata.load()) => {
            return refuse(ErrorCode::STALE_BROKER_EPOCH);
        }
        Sender::Follower(follower) if !follower.may_be_from(asked, &service.metadata.load()) => {
            return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
        }
        sender => sender,
    };
    let quota = match sender {
        Sender::Follower(_) => None,
        Sender::Consumer { .. } => ConsumerQuota::of(asked, service.clock),
    };
    let max_bytes = quota.as_ref().map_or(service.max_bytes, |quota| quota.bytes_max().min(service.max_bytes));
    let limits = Limits {
        min_bytes: i64::from(request.min_bytes.min(max_bytes)),
        max_bytes: request.max_bytes.clamp(0, max_bytes) as u32,
    };
    let mut session = match service.sessions.open(request, version) {
        Ok(session) => session,
        Err(code) => return refuse(code),
    };
    find_partitions(service, asked, &sender, &mut session.targets).await;
    // A follower says what it has once; the reads below tell nothing new of it.
    let fetched_ms = Some(service.clock.now().monotonic_ms);
    let mut reads = read(service, &sender, &limits, &session.targets, fetched_ms).await;
    if !reads.answer_now(&limits) && Instant::now() < deadline {
        let wait = FetchWait::new(sender.reader(), limits.min_bytes - reads.bytes);
        let registration = Registration::new(&wait, session.targets.partitions());
        // What was appended between the first read and the registration was not counted.
        reads = read(service, &sender, &limits, &session.targets, None).await;
        if !reads.answer_now(&limits) {
            if reads.has_news {
                wait.notify_news();
            }
            // Whether bytes came or time ran out, the answer is what is there.
            let _ = tokio::time::timeout_at(deadline, wait.wait()).await;
            drop(registration);
            find_partitions(service, asked, &sender, &mut session.targets).await;
            reads = read(service, &sender, &limits, &session.targets, None).await;
        }
    }
    if let Sender::Follower(_) = sender {
        let quota = service.partitions.leader_quota();
        followers::note_sent(quota, &session.targets, &reads, service.clock.now().monotonic_ms);
    }
    let Some(quota) = quota else { return respond(service, asked, session, reads).await };
    match quota.admit(reads.bytes) {
        Ok(throttle_time_ms) => {
            let (response, spans) = respond(service, asked, session, reads).await;
            (FetchResponse { throttle_time_ms, ..response }, spans)
        }
        Err(throttle_time_ms) => {
            let session_id = service.sessions.close_untold(session.session_kind, session.targets, version);
            (FetchResponse { throttle_time_ms, session_id, ..Default::default() }, Vec::new())
        }
    }
}

/// Looks up the partitions that the sender may read, by what it may do now: rights end at once.
async fn find_partitions(service: &Service<'_>, asked: &FetchContext<'_>, sender: &Sender, targets: &mut Targets) {
    targets.find_partitions(service.partitions, asked.version).await;
    // It is known already that a follower is the node that it says.
    if let (Sender::Consumer { .. }, Some((broker, context))) = (sender, asked.reader)
        && broker.authorizer.is_some()
    {
        let access = context.access(broker);
        targets.deny(|topic| access.topic(AclOperation::Read, topic));
    }
}

/// Looks at all targets. What takes long is left to other threads, and looked at again.
async fn read(
    service: &Service<'_>,
    sender: &Sender,
    limits: &Limits,
    targets: &Targets,
    fetched_ms: Option<i64>,
) -> Reads {
    let reading = FetchPass { service, sender, limits, fetched_ms, is_urgent: true };
    let reads = reading.all(targets).await;
    if !reads.parts.iter().any(|read| read.is_cold) {
        return reads;
    }
    let is_warm = cold::warm(service.partitions.cold_reads(), targets, &reads, limits.max_bytes).await;
    FetchPass { fetched_ms: None, is_urgent: !is_warm, ..reading }.all(targets).await
}

/// The sender of a fetch.
enum Sender {
    Follower(Follower),
    Consumer {
        isolation: Isolation,
        /// `None` for one that knows of no followers.
        rack: Option<String>,
    },
}

impl Sender {
    fn of(request: &FetchRequest, version: i16) -> Self {
        if let Some(follower) = Follower::of(request, version) {
            return Self::Follower(follower);
        }
        let isolation =
            if request.isolation_level == 1 { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        Self::Consumer { isolation, rack: (version >= FOLLOWER_READS_SINCE).then(|| request.rack_id.clone()) }
    }

    fn reader(&self) -> Reader {
        match self {
            Self::Follower(_) => Reader::Follower,
            Self::Consumer { isolation: Isolation::ReadUncommitted, .. } => Reader::Consumer,
            Self::Consumer { isolation: Isolation::ReadCommitted, .. } => Reader::CommittedConsumer,
        }
    }
}

struct Limits {
    min_bytes: i64,
    max_bytes: u32,
}

/// What was found for each target, in the targets' order.
struct Reads {
    parts: Vec<Read>,
    bytes: i64,
    /// Something the client should know at once: an error, a diverging epoch, another replica to read from.
    urgent: bool,
    /// Something that a follower should know soon.
    has_news: bool,
}

impl Reads {
    fn answer_now(&self, limits: &Limits) -> bool {
        self.urgent || self.parts.is_empty() || self.bytes >= limits.min_bytes
    }
}

/// What was found for one partition.
struct Read {
    error: ErrorCode,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    diverging: Option<storage::EpochEndOffset>,
    preferred_read_replica: Option<i32>,
    /// Up to where a follower has to sync, and does not have yet.
    sync_wanted: Option<i64>,
    /// What a follower is told of the durable offset; -1 for a consumer.
    durable_offset: i64,
    span: Option<Span>,
    /// Those that end in the span or behind; for consumers of committed records only.
    aborted: Option<Vec<AbortedTransaction>>,
    /// There may be something, but it has to be checked first.
    is_cold: bool,
    urgent: bool,
}

impl Read {
    fn of(partition: &Partition) -> Self {
        Self {
            error: ErrorCode::NONE,
            high_watermark: partition.high_watermark(),
            last_stable_offset: partition.last_stable_offset(),
            log_start_offset: partition.log_start_offset(),
            diverging: None,
            preferred_read_replica: None,
            sync_wanted: None,
            durable_offset: -1,
            span: None,
            aborted: None,
            is_cold: false,
            urgent: false,
        }
    }

    fn error(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging: None,
            preferred_read_replica: None,
            sync_wanted: None,
            durable_offset: -1,
            span: None,
            aborted: None,
            is_cold: false,
            urgent: true,
        }
    }

    fn bytes(&self) -> i64 {
        self.span.as_ref().map_or(0, |span| i64::from(span.length))
    }
}

/// One look at all targets.
#[derive(Clone, Copy)]
struct FetchPass<'a> {
    service: &'a Service<'a>,
    sender: &'a Sender,
    limits: &'a Limits,
    /// When a follower told what it has, if it is to be noted.
    fetched_ms: Option<i64>,
    /// What would take long is left out.
    is_urgent: bool,
}

/// What may be read of one partition.
#[derive(Clone, Copy)]
struct ReadBudget {
    bytes_max: i64,
    /// Only the first batch of an answer may exceed the limits.
    is_first: bool,
    /// Throttled followers that are not in sync have to wait.
    is_quota_exceeded: bool,
    is_urgent: bool,
}

impl FetchPass<'_> {
    async fn all(&self, targets: &Targets) -> Reads {
        let mut reads = Reads { parts: Vec::with_capacity(targets.len()), bytes: 0, urgent: false, has_news: false };
        let is_quota_exceeded = match self.sender {
            Sender::Follower(_) => self.service.partitions.leader_quota().is_exceeded(self.now_ms()),
            Sender::Consumer { .. } => false,
        };
        let mut pace = Pace::default();
        for target in targets.iter() {
            pace.step(1).await;
            let left = i64::from(self.limits.max_bytes) - reads.bytes;
            let bytes_max = i64::from(target.max_bytes).min(left).max(0);
            let budget =
                ReadBudget { bytes_max, is_first: reads.bytes == 0, is_quota_exceeded, is_urgent: self.is_urgent };
            let read = match (&target.partition, self.sender) {
                (Err(code), _) => Err(*code),
                (Ok(partition), Sender::Follower(follower)) => {
                    follower.read(partition, target, budget, self.fetched_ms)
                }
                (Ok(partition), Sender::Consumer { isolation, rack }) => {
                    self.for_consumer(partition, target, budget, *isolation, rack.as_deref())
                }
            };
            let read = read.unwrap_or_else(Read::error);
            reads.urgent |= read.urgent;
            reads.has_news |= followers::is_news(target, &read);
            reads.bytes += read.bytes();
            reads.parts.push(read);
        }
        reads
    }

    fn now_ms(&self) -> i64 {
        self.service.clock.now().monotonic_ms
    }

    fn for_consumer(
        &self,
        partition: &Arc<Partition>,
        target: &Target,
        budget: ReadBudget,
        isolation: Isolation,
        rack: Option<&str>,
    ) -> Result<Read, ErrorCode> {
        partition.check_leader_epoch(target.current_leader_epoch)?;
        match rack {
            None => partition.check_leader()?,
            Some(_) => partition.check_has_role()?,
        }
        let mut read = Read::of(partition);
        let end_offset = partition.high_watermark();
        if find_divergence(partition, target, end_offset, &mut read)? {
            return Ok(read);
        }
        if let Some(rack) = rack.filter(|rack| self.service.selects_by_rack && !rack.is_empty())
            && let Some(replica) = self.preferred_replica(partition, target.fetch_offset, rack)
        {
            read.preferred_read_replica = Some(replica);
            read.urgent = true;
            return Ok(read);
        }
        read_span(partition, target, budget, Some(isolation), &mut read)?;
        Ok(read)
    }

    /// The replica of the consumer's rack that has most, unless that is where the leader is
    /// (`RackAwareReplicaSelector`).
    fn preferred_replica(&self, partition: &Partition, offset: i64, rack: &str) -> Option<i32> {
        let image = self.service.metadata.load();
        let is_there = |id| {
            let broker = image.broker(id).filter(|broker| !broker.fenced);
            broker.is_some_and(|broker| broker.rack.as_deref() == Some(rack))
        };
        if partition.is_alone() || is_there(self.service.node_id) {
            return None;
        }
        let followers = partition.readable_followers(offset);
        followers.into_iter().filter(|(id, _)| is_there(*id)).max_by_key(|(_, end)| *end).map(|(id, _)| id)
    }
}

/// Looks whether what the client read last is in this log, and notes where it is not (KIP-595).
fn find_divergence(
    partition: &Partition,
    target: &Target,
    end_offset: i64,
    read: &mut Read,
) -> Result<bool, ErrorCode> {
    if target.last_fetched_epoch < 0 {
        return Ok(false);
    }
    let found = partition.view().end_offset_for_epoch(target.last_fetched_epoch, end_offset);
    if found.end_offset < 0 {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    // What this log has deleted can be neither compared nor sent.
    let is_deleted = target.fetch_offset < partition.log_start_offset();
    if !is_deleted && (found.epoch < target.last_fetched_epoch || found.end_offset < target.fetch_offset) {
        read.diverging = Some(found);
        read.urgent = true;
        return Ok(true);
    }
    Ok(false)
}

/// Reads what a consumer may see, or a follower.
fn read_span(
    partition: &Arc<Partition>,
    target: &Target,
    budget: ReadBudget,
    isolation: Option<Isolation>,
    read: &mut Read,
) -> Result<(), ErrorCode> {
    if isolation == Some(Isolation::ReadCommitted) {
        read.aborted = Some(Vec::new());
    }
    if budget.bytes_max == 0 && !budget.is_first {
        return Ok(());
    }
    let (view, offset, bytes_max) = (partition.view(), target.fetch_offset, budget.bytes_max as u32);
    let end_offset = match isolation {
        None => view.log_end_offset(),
        Some(Isolation::ReadUncommitted) => read.high_watermark,
        Some(Isolation::ReadCommitted) => read.last_stable_offset,
    };
    let found = match (isolation, budget.is_urgent) {
        (Some(Isolation::ReadCommitted), true) => view.committed_span_at_once(offset, end_offset, bytes_max),
        (Some(Isolation::ReadCommitted), false) => view.committed_span(offset, end_offset, bytes_max),
        (_, true) => view.span_at_once(offset, end_offset, bytes_max).map(with_none_aborted),
        (_, false) => view.span(offset, end_offset, bytes_max).map(with_none_aborted),
    };
    match found {
        Err(ReadError::Cold) => read.is_cold = true,
        // Only the first batch of an answer may exceed the limits.
        Ok(Some((span, aborted))) if i64::from(span.length) <= budget.bytes_max || budget.is_first => {
            read.span = Some(span);
            if let Some(told) = &mut read.aborted {
                *told = aborted;
            }
        }
        Ok(_) => {}
        Err(error) => {
            read.error = error_code(partition, &error);
            read.urgent = true;
        }
    }
    Ok(())
}

fn with_none_aborted(span: Option<Span>) -> Option<(Span, Vec<AbortedTransaction>)> {
    span.map(|span| (span, Vec::new()))
}

fn error_code(partition: &Arc<Partition>, error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OffsetOutOfRange { .. } => ErrorCode::OFFSET_OUT_OF_RANGE,
        ReadError::Corrupt { .. } => {
            partition.tell_unreadable(error);
            partition.report_damage();
            partition.damage_error()
        }
        _ => {
            partition.tell_unreadable(error);
            ErrorCode::KAFKA_STORAGE_ERROR
        }
    }
}

/// Builds the answer: everything for a full fetch, only what has changed for an incremental one.
async fn respond(
    service: &Service<'_>,
    asked: &FetchContext<'_>,
    session: Opened,
    reads: Reads,
) -> (FetchResponse, Vec<Span>) {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut hints = leaders::Hints::new(service.metadata, asked.listener);
    let mut records = Answered::new(asked.memory, asked.is_inter_broker);
    let mut pace = Pace::default();
    let targets = session.targets;
    let mut sent = Vec::with_capacity(targets.len());
    for (target, read) in targets.iter().zip(reads.parts) {
        pace.step(1).await;
        let has_records = read.span.is_some();
        let changed = session.is_full
            || has_records
            || !read.error.is_none()
            || read.diverging.is_some()
            || read.preferred_read_replica.is_some()
            || read.sync_wanted.is_some()
            || target.sent_high_watermark != read.high_watermark
            || target.sent_log_start_offset != read.log_start_offset
            || target.sent_durable_offset != read.durable_offset;
        sent.push(Sent {
            high_watermark: read.high_watermark,
            log_start_offset: read.log_start_offset,
            durable_offset: read.durable_offset,
            has_records,
        });
        if !changed {
            continue;
        }
        count_bytes(target, &read, asked);
        let mut data = partition_data(target, read, &mut records);
        if asked.version >= LEADER_HINTS_SINCE
            && let Some((leader_id, leader_epoch)) =
                hints.find(data.error_code, &target.topic, target.topic_id, target.index)
        {
            data.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
        }
        match responses.last_mut() {
            Some(last) if last.topic_id == target.topic_id && *last.topic == *target.topic => {
                last.partitions.push(data);
            }
            _ => responses.push(FetchableTopicResponse {
                topic: target.topic.to_string(),
                topic_id: target.topic_id,
                partitions: vec![data],
            }),
        }
    }
    let session_id = service.sessions.close(session.session_kind, targets, &sent, asked.version);
    let nodes = hints.into_nodes().into_iter();
    let node_endpoints =
        nodes.map(|node| NodeEndpoint { node_id: node.id, host: node.host, port: node.port, rack: node.rack });
    let response =
        FetchResponse { session_id, responses, node_endpoints: node_endpoints.collect(), ..Default::default() };
    (response, records.spans)
}

fn count_bytes(target: &Target, read: &Read, asked: &FetchContext<'_>) {
    if let (Ok(partition), Some(span)) = (&target.partition, &read.span) {
        let out =
            if asked.is_inter_broker { &partition.traffic.replication_bytes_out } else { &partition.traffic.bytes_out };
        out.add(u64::from(span.length));
    }
}

fn partition_data(target: &Target, read: Read, answered: &mut Answered<'_>) -> PartitionData {
    let records = match read.span {
        None => Records::Inline(bytes::Bytes::new()),
        Some(span) if answered.copies(&span) => match span.read_cached() {
            Ok(bytes) => Records::Inline(bytes.into()),
            // The connection reads it in before it sends it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => answered.send_from_file(span),
            Err(error) => {
                tracing::error!(topic = %target.topic, partition = target.index, %error, "a read failed");
                return PartitionData {
                    partition_index: target.index,
                    error_code: ErrorCode::KAFKA_STORAGE_ERROR,
                    high_watermark: -1,
                    records: Some(Records::Inline(bytes::Bytes::new())),
                    ..Default::default()
                };
            }
        },
        Some(span) => answered.send_from_file(span),
    };
    PartitionData {
        partition_index: target.index,
        error_code: read.error,
        high_watermark: read.high_watermark,
        last_stable_offset: read.last_stable_offset,
        log_start_offset: read.log_start_offset,
        diverging_epoch: read
            .diverging
            .map_or_else(EpochEndOffset::default, |at| EpochEndOffset { epoch: at.epoch, end_offset: at.end_offset }),
        current_leader: LeaderIdAndEpoch::default(),
        aborted_transactions: read.aborted.map(|aborted| aborted.iter().map(told).collect()),
        preferred_read_replica: read.preferred_read_replica.unwrap_or(-1),
        sync_wanted_offset: read.sync_wanted.unwrap_or(-1),
        durable_offset: read.durable_offset,
        records: Some(records),
        ..Default::default()
    }
}

fn told(aborted: &AbortedTransaction) -> Aborted {
    Aborted { producer_id: aborted.producer_id, first_offset: aborted.first_offset }
}

#[cfg(test)]
mod tests {
    use wire::api::fetch::{FetchPartition, FetchTopic};
    use wire::state::metadata::PartitionChangeRecord;
    use wire::{Uuid, frame};

    use super::*;
    use crate::api::test_support::{TestBroker, batch, context, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    fn asked(partition: i32, fetch_offset: i64) -> FetchPartition {
        FetchPartition { partition, fetch_offset, partition_max_bytes: 1 << 20, ..Default::default() }
    }

    fn request(partitions: Vec<FetchPartition>) -> FetchRequest {
        let topics = vec![FetchTopic { topic: "t".to_owned(), topic_id: TOPIC_ID, partitions }];
        FetchRequest { topics, max_bytes: 1 << 20, ..Default::default() }
    }

    async fn fetch(broker: &TestBroker, version: i16, request: FetchRequest) -> FetchResponse {
        let call = Call { correlation_id: 1, context: context(version) };
        let frame = answer(Arc::clone(broker), call, request).await.expect("it is answered").into_bytes();
        frame::read_response::<FetchRequest>(&frame.slice(4..), version).expect("it is of its version").1
    }

    fn bytes(partition: &PartitionData) -> usize {
        partition.records.as_ref().map_or(0, Records::len)
    }

    /// Partition 0 is led here, and partition 1 by broker 2, which has told of one of its two records that all have it.
    async fn start(settings: &[(&str, &str)]) -> TestBroker {
        let broker = TestBroker::start_with(settings).await;
        broker.commit([registration(2).into()]).await;
        broker.create("t", TOPIC_ID, &[led_by(1, &[1]), led_by(2, &[1, 2])]).await;
        broker.append("t", 0);
        broker.append("t", 0);
        broker.follow("t", 1, 0);
        broker.follow("t", 1, 1);
        broker
    }

    #[tokio::test]
    async fn a_follower_is_read_since_version_11_up_to_what_all_have() {
        let broker = start(&[]).await;
        for version in [4, 10] {
            let response = fetch(&broker, version, request(vec![asked(1, 0)])).await;
            assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER, "{version}");
        }
        for version in [11, 18] {
            let response = fetch(&broker, version, request(vec![asked(1, 0)])).await;
            let partition = &response.responses[0].partitions[0];
            assert_eq!((partition.error_code, partition.high_watermark), (ErrorCode::NONE, 1), "{version}");
            assert_eq!(bytes(partition), batch().bytes.len(), "{version}");
        }
    }

    #[tokio::test]
    async fn a_client_with_an_old_epoch_is_told_the_leader_since_version_16() {
        let broker = start(&[]).await;
        let change = PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader: 1, ..Default::default() };
        broker.commit([change.into()]).await;
        let request = request(vec![FetchPartition { current_leader_epoch: 0, ..asked(0, 0) }]);
        for (version, is_told) in [(9, false), (15, false), (16, true), (18, true)] {
            let response = fetch(&broker, version, request.clone()).await;
            let partition = &response.responses[0].partitions[0];
            assert_eq!(partition.error_code, ErrorCode::FENCED_LEADER_EPOCH, "{version}");
            let leader = (partition.current_leader.leader_id, partition.current_leader.leader_epoch);
            assert_eq!(leader, if is_told { (1, 1) } else { (-1, -1) }, "{version}");
            let nodes: Vec<_> = response.node_endpoints.iter().map(|node| (node.node_id, node.port)).collect();
            assert_eq!(nodes, if is_told { vec![(1, 9001)] } else { vec![] }, "{version}");
        }
    }

    #[tokio::test]
    async fn a_client_that_read_what_this_log_never_had_is_told_where_they_part() {
        let broker = start(&[]).await;
        let change = PartitionChangeRecord { partition_id: 0, topic_id: TOPIC_ID, leader: 1, ..Default::default() };
        broker.commit([change.clone().into()]).await;
        broker.commit([change.into()]).await;
        broker.append("t", 0);
        // The log has two records of epoch 0, and one of epoch 2.
        for (last_fetched_epoch, fetch_offset, diverging) in
            [(0, 2, (-1, -1)), (0, 3, (0, 2)), (1, 2, (0, 2)), (2, 3, (-1, -1)), (-1, 3, (-1, -1))]
        {
            let asked = FetchPartition { last_fetched_epoch, ..asked(0, fetch_offset) };
            let response = fetch(&broker, 12, request(vec![asked])).await;
            let partition = &response.responses[0].partitions[0];
            assert_eq!(partition.error_code, ErrorCode::NONE);
            let told = (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset);
            assert_eq!(told, diverging, "{last_fetched_epoch} {fetch_offset}");
            assert!(diverging == (-1, -1) || bytes(partition) == 0);
        }
        let unknown = FetchPartition { last_fetched_epoch: 3, ..asked(0, 3) };
        let response = fetch(&broker, 12, request(vec![unknown])).await;
        assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::OFFSET_OUT_OF_RANGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_waits_for_no_more_than_may_be_sent_and_no_longer_than_five_minutes() {
        let broker = start(&[("fetch.max.bytes", "1024")]).await;
        let waits = FetchRequest { min_bytes: i32::MAX, max_wait_ms: i32::MAX, ..request(vec![asked(0, 0)]) };
        let began = Instant::now();
        fetch(&broker, 12, waits.clone()).await;
        assert_eq!(began.elapsed().as_secs(), WAIT_MAX.as_secs(), "there are two small records");
        while broker.partitions.find_by_name("t", 0).expect("it is here").view().size_bytes() < 1024 {
            broker.append("t", 0);
        }
        let began = Instant::now();
        let response = fetch(&broker, 12, waits).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!((1..=1024).contains(&bytes(&response.responses[0].partitions[0])));
    }
}
