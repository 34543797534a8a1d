//! The transaction coordinator: which transactional ids this broker has, and what their producers ask.
//!
//! Handlers call it, and the broker calls [`TransactionCoordinator::load`] and [`TransactionCoordinator::unload`] as it
//! becomes or ceases to be the leader of partitions of `__transaction_state`. One task runs
//! [`TransactionCoordinator::run`].
//!
//! A request changes its id under the lock of the id's partition. Records are enqueued under the same lock, so that the
//! log has them in the order of the changes; waiting for the disk happens without it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::RwLock;
use platform::Clock;
use tokio::sync::oneshot;
use wire::ErrorCode;
use wire::api::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
};
use wire::api::end_txn::{EndTxnRequest, EndTxnResponse};
use wire::api::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use super::core::{
    EndTxn, InitProducerId, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, ProducerIdAndEpoch, Step, Transaction,
    TransactionResult, TransactionVersion,
};
use super::decisions::Decisions;
use super::interfaces::{Cluster, Leader, MarkerTransport, ProducerIds};
use super::marker_queues::Markers;
use super::memory::Memory;
use super::records::size_bytes_max;
use super::shard::{Shard, ShardState};
use super::{Now, TransactionConfig};
use crate::group::OFFSETS_TOPIC;
use crate::group::coordinator::partition_of;
use crate::phase::Phase;
use crate::topic_log::TopicLog;

/// What a request is answered with.
pub(super) type Answer = Result<ProducerIdAndEpoch, ErrorCode>;

/// Longest transactional id. Kafka has no bound but that of its strings.
const MAX_TRANSACTIONAL_ID_BYTES: usize = 4096;

pub struct TransactionCoordinator {
    pub(super) config: TransactionConfig,
    clock: Arc<dyn Clock>,
    pub(super) log: Arc<dyn TopicLog>,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) transport: Arc<dyn MarkerTransport>,
    pub(super) producer_ids: Arc<dyn ProducerIds>,
    shards: RwLock<BTreeMap<i32, Arc<Shard>>>,
    pub(super) memory: Memory,
    pub(super) markers: Markers,
    pub(super) decisions: Decisions,
}

/// A request that has begun.
pub(super) enum Begun {
    Answered(ProducerIdAndEpoch),
    NeedsProducerId,
    Waiting(oneshot::Receiver<Answer>),
}

impl Begun {
    /// The end of a request that needs no producer id.
    pub(super) async fn answer(self) -> Answer {
        match self {
            Self::Answered(producer) => Ok(producer),
            Self::Waiting(answer) => answer.await.unwrap_or(Err(ErrorCode::NOT_COORDINATOR)),
            Self::NeedsProducerId => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
        }
    }
}

impl TransactionCoordinator {
    pub fn new(
        config: TransactionConfig,
        clock: Arc<dyn Clock>,
        log: Arc<dyn TopicLog>,
        cluster: Arc<dyn Cluster>,
        transport: Arc<dyn MarkerTransport>,
        producer_ids: Arc<dyn ProducerIds>,
    ) -> Arc<Self> {
        Arc::new(Self {
            memory: Memory::new(config.max_memory_bytes),
            config,
            clock,
            log,
            cluster,
            transport,
            producer_ids,
            shards: RwLock::default(),
            markers: Markers::default(),
            decisions: Decisions::default(),
        })
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// The partition of `__transaction_state` that holds a transactional id (`TransactionStateManager.partitionFor`).
    pub fn partition_for(&self, transactional_id: &str) -> i32 {
        let count = self.cluster.state_partition_count().unwrap_or(self.config.state_topic_num_partitions);
        partition_of(transactional_id, count)
    }

    /// Creates `__transaction_state` unless it exists.
    pub async fn ensure_topic(&self) -> Result<(), ErrorCode> {
        match self.cluster.state_partition_count() {
            Some(_) => Ok(()),
            None => self.cluster.create_state_topic().await,
        }
    }

    /// Estimate of the memory of all ids.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Takes over a partition in a leader epoch: reads its ids and serves them, and goes on with the transactions that
    /// were decided. From this call on, not only from the first poll, requests for them fail with
    /// COORDINATOR_LOAD_IN_PROGRESS meanwhile. An error means that the partition cannot be served.
    ///
    /// Nothing that was appended before a former [`Self::unload`] may still be on its way to the log.
    pub fn load(
        self: &Arc<Self>,
        partition: i32,
        leader_epoch: i32,
    ) -> impl Future<Output = Result<(), ErrorCode>> + Send + 'static + use<> {
        let coordinator = Arc::clone(self);
        let state = ShardState::loading().into();
        let shard = Arc::new(Shard { partition, coordinator_epoch: leader_epoch, state });
        let former = self.shards.write().insert(partition, Arc::clone(&shard));
        if let Some(former) = former {
            self.unload_shard(&former);
        }
        async move {
            let loaded =
                super::load::load(&*coordinator.log, partition, &coordinator.config, || coordinator.now()).await;
            coordinator.finish_load(&shard, loaded)
        }
    }

    fn finish_load(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        loaded: Result<BTreeMap<String, Transaction>, ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let mut shards = self.shards.write();
        let mut state = shard.state.lock();
        // It may have been unloaded meanwhile.
        if state.phase != Phase::Loading {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let loaded = loaded.inspect_err(|_| {
            shards.remove(&shard.partition);
            state.phase = Phase::Unloaded;
        })?;
        drop(shards);
        if !loaded.is_empty() {
            tracing::info!(partition = shard.partition, ids = loaded.len(), "loaded the transactions of a partition");
        }
        state.phase = Phase::Active;
        for (transactional_id, transaction) in loaded {
            let is_forgotten = storage::injected_fault!(PreparedForgottenAtLoad);
            let is_prepared = transaction.current().state.is_prepared() && !is_forgotten;
            state.insert(transactional_id.clone(), transaction, None);
            state.settle(&transactional_id, &self.memory);
            if is_prepared {
                self.send_markers(shard, &mut state, &transactional_id);
            }
        }
        Ok(())
    }

    /// Gives up a partition: its markers are dropped, and requests for its ids fail with NOT_COORDINATOR.
    pub fn unload(&self, partition: i32) {
        let shard = self.shards.write().remove(&partition);
        if let Some(shard) = shard {
            self.unload_shard(&shard);
        }
    }

    fn unload_shard(&self, shard: &Arc<Shard>) {
        let mut state = shard.state.lock();
        state.phase = Phase::Unloaded;
        state.clear(&self.memory);
        drop(state);
        self.markers.forget(shard);
    }

    pub(super) fn shards(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    /// The partition of an id. Its clients are sent away as long as another broker may have it by now: to some of them
    /// an answer from old state would be fatal.
    pub(super) fn shard(&self, transactional_id: &str) -> Result<Arc<Shard>, ErrorCode> {
        if self.log.may_have_moved() {
            return Err(ErrorCode::NOT_COORDINATOR);
        }
        let partition = self.partition_for(transactional_id);
        self.shards.read().get(&partition).cloned().ok_or(ErrorCode::NOT_COORDINATOR)
    }

    /// Changes an id, and enqueues what is to be written of it.
    pub(super) fn begin(
        self: &Arc<Self>,
        transactional_id: &str,
        change: impl FnOnce(&mut ShardState, Now) -> Result<Step, ErrorCode>,
    ) -> Result<Begun, ErrorCode> {
        let shard = self.shard(transactional_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        Ok(match change(&mut state, self.now())? {
            Step::Answer(producer) => Begun::Answered(producer),
            Step::NeedsProducerId => Begun::NeedsProducerId,
            Step::Write(answer) => {
                let (sender, receiver) = oneshot::channel();
                self.write(&shard, &state, vec![transactional_id.to_owned()], Some((sender, answer)));
                state.settle(transactional_id, &self.memory);
                Begun::Waiting(receiver)
            }
        })
    }

    /// The same for a change that may take a new producer id.
    async fn change(
        self: &Arc<Self>,
        transactional_id: &str,
        mut change: impl FnMut(&mut ShardState, Now, Option<i64>) -> Result<Step, ErrorCode>,
    ) -> Answer {
        check_transactional_id(transactional_id)?;
        match self.begin(transactional_id, |state, now| change(state, now, None))? {
            Begun::NeedsProducerId => {
                let producer_id = self.producer_ids.next().await?;
                let begun = self.begin(transactional_id, |state, now| change(state, now, Some(producer_id)))?;
                begun.answer().await
            }
            begun => begun.answer().await,
        }
    }

    /// InitProducerId, also without a transactional id.
    pub async fn init_producer_id(
        self: &Arc<Self>,
        api_version: i16,
        client_host: IpAddr,
        request: InitProducerIdRequest,
    ) -> InitProducerIdResponse {
        const PRODUCER_FENCED_SINCE: i16 = 4;
        match self.try_init_producer_id(client_host, request).await {
            Ok(ProducerIdAndEpoch { producer_id, epoch }) => {
                InitProducerIdResponse { producer_id, producer_epoch: epoch, ..Default::default() }
            }
            Err(error) => InitProducerIdResponse {
                error_code: fenced_error(error, api_version >= PRODUCER_FENCED_SINCE),
                producer_id: NO_PRODUCER_ID,
                producer_epoch: NO_PRODUCER_EPOCH,
                ..Default::default()
            },
        }
    }

    async fn try_init_producer_id(self: &Arc<Self>, client_host: IpAddr, request: InitProducerIdRequest) -> Answer {
        let (producer_id, epoch) = (request.producer_id, request.producer_epoch);
        let expected = (producer_id != NO_PRODUCER_ID).then_some(ProducerIdAndEpoch { producer_id, epoch });
        let is_half = (producer_id == NO_PRODUCER_ID) != (epoch == NO_PRODUCER_EPOCH);
        let Some(transactional_id) = request.transactional_id else {
            if is_half {
                return Err(ErrorCode::INVALID_REQUEST);
            }
            let producer_id = self.producer_ids.next().await?;
            return Ok(ProducerIdAndEpoch { producer_id, epoch: 0 });
        };
        check_transactional_id(&transactional_id)?;
        let timeout_ms = request.transaction_timeout_ms;
        if is_half {
            return Err(ErrorCode::INVALID_REQUEST);
        }
        if timeout_ms <= 0 || timeout_ms > self.config.max_timeout_ms {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let init = InitProducerId { timeout_ms, expected };
        let server_version = self.cluster.transaction_version();
        self.change(&transactional_id, |state, now, new_producer_id| {
            if state.get(&transactional_id).is_none() {
                let Some(producer_id) = new_producer_id else { return Ok(Step::NeedsProducerId) };
                let transaction = Transaction::new(now, producer_id, timeout_ms);
                if !self.memory.has_room(Some(client_host), transaction.size_bytes() + 2 * transactional_id.len()) {
                    // There may be memory later, when the client tries again.
                    return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
                }
                state.insert(transactional_id.clone(), transaction, Some(client_host));
            }
            let transaction = state.get_mut(&transactional_id).ok_or(ErrorCode::UNKNOWN_SERVER_ERROR)?;
            transaction.init_producer_id(now, init, server_version, new_producer_id)
        })
        .await
    }

    /// AddPartitionsToTxn of a client, up to version 3.
    pub async fn add_partitions(
        self: &Arc<Self>,
        api_version: i16,
        request: AddPartitionsToTxnRequest,
    ) -> AddPartitionsToTxnResponse {
        const PRODUCER_FENCED_SINCE: i16 = 2;
        let AddPartitionsToTxnRequest { transactional_id, producer_id, producer_epoch, topics, .. } = request;
        let producer = ProducerIdAndEpoch { producer_id, epoch: producer_epoch };
        let results_by_topic = match self.existing(&topics) {
            Err(results) => results,
            Ok(partitions) => {
                let added = match self.begin_add(&transactional_id, producer, &partitions, TransactionVersion::V1) {
                    Ok(begun) => begun.answer().await,
                    Err(error) => Err(error),
                };
                let error = added.err().unwrap_or(ErrorCode::NONE);
                all_results(&topics, fenced_error(error, api_version >= PRODUCER_FENCED_SINCE))
            }
        };
        AddPartitionsToTxnResponse { results_by_topic, ..Default::default() }
    }

    /// The partitions, if all of them exist. Otherwise none is added, and this is the answer.
    pub(super) fn existing(
        &self,
        topics: &[AddPartitionsToTxnTopic],
    ) -> Result<Partitions, Vec<AddPartitionsToTxnTopicResult>> {
        let exists = |topic: &str, partition| self.transport.leader(topic, partition) != Leader::Deleted;
        let named = topics.iter().flat_map(|topic| topic.partitions.iter().map(|partition| (&*topic.name, *partition)));
        if named.clone().all(|(topic, partition)| exists(topic, partition)) {
            return Ok(named.collect());
        }
        Err(results(topics, |topic, partition| {
            if exists(topic, partition) {
                ErrorCode::OPERATION_NOT_ATTEMPTED
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            }
        }))
    }

    pub(super) fn begin_add(
        self: &Arc<Self>,
        transactional_id: &str,
        producer: ProducerIdAndEpoch,
        partitions: &Partitions,
        version: TransactionVersion,
    ) -> Result<Begun, ErrorCode> {
        check_transactional_id(transactional_id)?;
        self.begin(transactional_id, |state, now| {
            let creator = state.creator(transactional_id);
            let transaction = state.get_mut(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
            let bytes_before = transaction.size_bytes();
            let step = transaction.add_partitions(now, producer, partitions, version)?;
            self.check_size(transactional_id, creator, bytes_before, transaction)
                .inspect_err(|_| transaction.cancel())?;
            Ok(step)
        })
    }

    /// Whether there is room in memory for a transaction that grows, and in a record.
    fn check_size(
        &self,
        transactional_id: &str,
        creator: Option<IpAddr>,
        bytes_before: usize,
        transaction: &Transaction,
    ) -> Result<(), ErrorCode> {
        let next = transaction.pending().and_then(|pending| pending.next.as_ref());
        if next.is_some_and(|next| size_bytes_max(transactional_id, &next.partitions) > self.log.max_batch_bytes()) {
            return Err(ErrorCode::UNKNOWN_SERVER_ERROR);
        }
        let grown = transaction.size_bytes().saturating_sub(bytes_before);
        if grown > 0 && !self.memory.has_room(creator, grown) {
            return Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        }
        Ok(())
    }

    /// AddOffsetsToTxn: the transaction writes to the partition of `__consumer_offsets` that has the group.
    pub async fn add_offsets(
        self: &Arc<Self>,
        api_version: i16,
        request: AddOffsetsToTxnRequest,
    ) -> AddOffsetsToTxnResponse {
        const PRODUCER_FENCED_SINCE: i16 = 2;
        let producer = ProducerIdAndEpoch { producer_id: request.producer_id, epoch: request.producer_epoch };
        let partition = self.cluster.offsets_partition_for(&request.group_id);
        let partitions = [(OFFSETS_TOPIC, partition)].into_iter().collect();
        let added = match self.begin_add(&request.transactional_id, producer, &partitions, TransactionVersion::V1) {
            Ok(begun) => begun.answer().await,
            Err(error) => Err(error),
        };
        let error = added.err().unwrap_or(ErrorCode::NONE);
        let error_code = fenced_error(error, api_version >= PRODUCER_FENCED_SINCE);
        AddOffsetsToTxnResponse { error_code, ..Default::default() }
    }

    /// EndTxn. Answered when the decision is durable; the markers follow.
    pub async fn end_txn(self: &Arc<Self>, api_version: i16, request: EndTxnRequest) -> EndTxnResponse {
        const PRODUCER_FENCED_SINCE: i16 = 2;
        const EPOCH_BUMP_SINCE: i16 = 5;
        let version = if api_version >= EPOCH_BUMP_SINCE { TransactionVersion::V2 } else { TransactionVersion::V1 };
        let end = EndTxn {
            producer: ProducerIdAndEpoch { producer_id: request.producer_id, epoch: request.producer_epoch },
            result: if request.committed { TransactionResult::Commit } else { TransactionResult::Abort },
        };
        let transactional_id = &request.transactional_id;
        let ended = self.change(transactional_id, |state, now, new_producer_id| {
            let transaction = state.get_mut(transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
            transaction.end(now, end, version, new_producer_id)
        });
        match ended.await {
            Ok(ProducerIdAndEpoch { producer_id, epoch }) => {
                EndTxnResponse { producer_id, producer_epoch: epoch, ..Default::default() }
            }
            Err(error) => EndTxnResponse {
                error_code: fenced_error(error, api_version >= PRODUCER_FENCED_SINCE),
                producer_id: NO_PRODUCER_ID,
                producer_epoch: NO_PRODUCER_EPOCH,
                ..Default::default()
            },
        }
    }
}

pub(super) fn check_transactional_id(transactional_id: &str) -> Result<(), ErrorCode> {
    let is_valid = (1..=MAX_TRANSACTIONAL_ID_BYTES).contains(&transactional_id.len());
    if is_valid { Ok(()) } else { Err(ErrorCode::INVALID_REQUEST) }
}

/// A fenced producer, as versions say it that do not know PRODUCER_FENCED (KIP-588).
fn fenced_error(error: ErrorCode, knows_producer_fenced: bool) -> ErrorCode {
    match error {
        ErrorCode::PRODUCER_FENCED if !knows_producer_fenced => ErrorCode::INVALID_PRODUCER_EPOCH,
        error => error,
    }
}

/// The answer to AddPartitionsToTxn, in the order of the request.
pub(super) fn results(
    topics: &[AddPartitionsToTxnTopic],
    error: impl Fn(&str, i32) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = topics.iter().map(|topic| AddPartitionsToTxnTopicResult {
        name: topic.name.clone(),
        results_by_partition: topic
            .partitions
            .iter()
            .map(|partition| AddPartitionsToTxnPartitionResult {
                partition_index: *partition,
                partition_error_code: error(&topic.name, *partition),
            })
            .collect(),
    });
    topics.collect()
}

/// The same error for all of them.
pub(super) fn all_results(topics: &[AddPartitionsToTxnTopic], error: ErrorCode) -> Vec<AddPartitionsToTxnTopicResult> {
    results(topics, |_, _| error)
}
