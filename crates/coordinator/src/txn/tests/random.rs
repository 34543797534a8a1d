//! Producers that begin, write, end, stall, retry and take over from each other, on a log that stalls, fails and lies
//! about it, brokers that lose markers and answers, and coordinators that come and go, all from one seed on paused
//! time. A ledger and naive partitions know what must hold whatever happens:
//!
//! - a transaction is decided the same way in each partition, once, and as its producer was told;
//! - one whose end nobody has asked for is never committed;
//! - it is complete only when each of its partitions has its marker, and none begins before that;
//! - epochs of a producer id never go back, in the log of the coordinator and in partitions;
//! - what a coordinator knows is what another one reads in its log;
//! - when the trouble is over, nothing is open for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use wire::batch::Batch;

use super::fake::{CLIENT, FakeLog, Fate, stored};
use super::producer::{END_V1, END_V2, Producer, init_request};
use crate::test_support::{Rng, TestClock};
use crate::topic_log::{BoxFuture, TopicLog};
use crate::txn::core::{Metadata, State, TransactionVersion};
use crate::txn::{Cluster, Leader, MarkerTransport, ProducerIds, TransactionConfig, TransactionCoordinator};

const SEEDS: u64 = 40;
const STEPS: u64 = 60;
const IDS: u64 = 3;
/// Two for each id, that take it from each other.
const CLIENTS: u64 = 6;
const TIMEOUT_MS: i32 = 5_000;

/// What a transaction has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Commit,
    Abort,
    /// Its producer was not told.
    Either,
}

/// The partitions, and what their producers were promised.
struct Model {
    state: Mutex<ModelState>,
    log: Arc<FakeLog>,
    version: TransactionVersion,
}

struct ModelState {
    rng: Rng,
    in_trouble: bool,
    partitions: BTreeMap<(String, i32), BTreeMap<i64, PartitionProducer>>,
    last_producer_id: i64,
    last_transaction: u64,
    /// The last decision of each id.
    prepared: BTreeMap<String, Metadata>,
    expected: BTreeMap<u64, Expected>,
    /// How transactions were decided where they were first.
    decided: BTreeMap<u64, bool>,
    told: Vec<String>,
}

/// What a partition knows of a producer.
#[derive(Default)]
struct PartitionProducer {
    epoch: i16,
    coordinator_epoch: i32,
    /// The transaction that is open.
    open: Option<u64>,
    markers: Vec<(i16, bool)>,
}

impl ModelState {
    /// A producer writes. Nothing may be open but its own transaction.
    fn write(&mut self, partition: &(String, i32), producer: &Producer, transaction: u64) -> Result<(), ErrorCode> {
        let known = self.partitions.entry(partition.clone()).or_default().entry(producer.producer_id).or_default();
        if producer.epoch < known.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        assert!(known.open.is_none_or(|open| open == transaction), "{transaction} begins while {known:?} is open");
        known.epoch = producer.epoch;
        known.open = Some(transaction);
        Ok(())
    }

    fn marker(&mut self, partition: (String, i32), marker: &WritableTxnMarker) -> ErrorCode {
        let producers = self.partitions.entry(partition).or_default();
        let known = producers.entry(marker.producer_id).or_default();
        if marker.coordinator_epoch < known.coordinator_epoch {
            return ErrorCode::TRANSACTION_COORDINATOR_FENCED;
        }
        let is_valid = match marker.transaction_version {
            2.. => {
                marker.producer_epoch > known.epoch || (marker.producer_epoch == known.epoch && known.open.is_none())
            }
            _ => marker.producer_epoch >= known.epoch,
        };
        if !is_valid {
            return ErrorCode::INVALID_PRODUCER_EPOCH;
        }
        known.epoch = marker.producer_epoch;
        known.coordinator_epoch = marker.coordinator_epoch;
        known.markers.push((marker.producer_epoch, marker.transaction_result));
        if let Some(transaction) = known.open.take() {
            let decided = *self.decided.entry(transaction).or_insert(marker.transaction_result);
            assert_eq!(decided, marker.transaction_result, "transaction {transaction} is torn");
            let expected = if decided { Expected::Commit } else { Expected::Abort };
            match self.expected[&transaction] {
                Expected::Either => {}
                promised => assert_eq!(expected, promised, "transaction {transaction}"),
            }
            self.told.push(format!("{transaction} {decided}"));
        }
        ErrorCode::NONE
    }

    /// Its producer is told, or has given up. What was decided must be that.
    fn expect(&mut self, transaction: u64, expected: Expected) {
        self.expected.insert(transaction, expected);
        let decided = self.decided.get(&transaction).copied();
        let contradicts = match expected {
            Expected::Commit => decided == Some(false),
            Expected::Abort => decided == Some(true),
            Expected::Either => false,
        };
        assert!(!contradicts, "transaction {transaction} was promised as {expected:?}");
    }
}

impl std::fmt::Debug for PartitionProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} in epoch {} after {:?}", self.open, self.epoch, self.markers)
    }
}

impl Cluster for Model {
    fn state_partition_count(&self) -> Option<i32> {
        Some(1)
    }

    fn create_state_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn transaction_version(&self) -> TransactionVersion {
        self.version
    }

    fn offsets_partition_for(&self, _: &str) -> i32 {
        0
    }
}

impl ProducerIds for Model {
    fn next(&self) -> BoxFuture<Result<i64, ErrorCode>> {
        let mut state = self.state.lock();
        state.last_producer_id += 1;
        Box::pin(std::future::ready(Ok(state.last_producer_id)))
    }
}

impl MarkerTransport for Model {
    fn leader(&self, _: &str, partition: i32) -> Leader {
        let mut state = self.state.lock();
        if state.in_trouble && state.rng.one_in(8) { Leader::Unknown } else { Leader::Node(partition) }
    }

    fn write_markers(
        &self,
        _: i32,
        request: WriteTxnMarkersRequest,
    ) -> BoxFuture<Result<WriteTxnMarkersResponse, ErrorCode>> {
        let mut state = self.state.lock();
        let in_trouble = state.in_trouble;
        if in_trouble && state.rng.one_in(4) {
            return Box::pin(std::future::ready(Err(ErrorCode::NETWORK_EXCEPTION)));
        }
        let mut markers = Vec::new();
        for marker in request.markers {
            let mut topics = Vec::new();
            for topic in &marker.topics {
                let mut partitions = Vec::new();
                for partition_index in topic.partition_indexes.iter().copied() {
                    let error_code = match in_trouble && state.rng.one_in(4) {
                        true => ErrorCode::NOT_ENOUGH_REPLICAS,
                        false => state.marker((topic.name.clone(), partition_index), &marker),
                    };
                    partitions.push(WritableTxnMarkerPartitionResult { partition_index, error_code });
                }
                topics.push(WritableTxnMarkerTopicResult { name: topic.name.clone(), partitions });
            }
            markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics });
        }
        // The answer is late, or lost.
        let delay_ms = if in_trouble { state.rng.below(500) } else { 0 };
        let is_lost = in_trouble && state.rng.one_in(4);
        Box::pin(async move {
            sleep(Duration::from_millis(delay_ms)).await;
            if is_lost { Err(ErrorCode::REQUEST_TIMED_OUT) } else { Ok(WriteTxnMarkersResponse { markers }) }
        })
    }
}

/// The log as the leader of an epoch sees it.
struct LedLog {
    model: Arc<Model>,
    /// In which epoch its owner believes to lead, and which it is.
    led: AtomicI32,
    leader_epoch: Arc<AtomicI32>,
}

impl TopicLog for LedLog {
    fn may_have_moved(&self) -> bool {
        false
    }

    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        if self.led.load(Ordering::Relaxed) != self.leader_epoch.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)));
        }
        for record in stored(batch.bytes.clone()) {
            let Some(metadata) = record.value else { continue };
            if metadata.state.is_prepared() {
                self.model.state.lock().prepared.insert(record.transactional_id, metadata);
            } else if metadata.state.is_complete() {
                self.check_complete(&record.transactional_id, &metadata);
            }
        }
        self.model.log.append(partition, batch)
    }

    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        self.model.log.offsets(partition)
    }

    fn committed(&self, partition: i32, end_offset: i64) -> BoxFuture<Result<(), ErrorCode>> {
        self.model.log.committed(partition, end_offset)
    }

    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        self.model.log.read(partition, from_offset, max_bytes)
    }

    fn max_batch_bytes(&self) -> usize {
        self.model.log.max_batch_bytes()
    }
}

impl LedLog {
    fn check_complete(&self, transactional_id: &str, complete: &Metadata) {
        let state = self.model.state.lock();
        let prepared = state.prepared.get(transactional_id).expect("it was decided");
        assert_eq!(prepared.state == State::PrepareCommit, complete.state == State::CompleteCommit);
        for (topic, partition) in prepared.partitions.iter() {
            let producers = state.partitions.get(&(topic.to_owned(), partition));
            let known = producers.and_then(|producers| producers.get(&prepared.producer_id)).expect("it has a marker");
            let marker = (prepared.producer_epoch, prepared.state == State::PrepareCommit);
            assert!(known.markers.contains(&marker), "{transactional_id} is complete without {topic}-{partition}");
            assert_eq!(known.open, None);
        }
    }
}

/// Who coordinates at the moment.
struct Shared {
    model: Arc<Model>,
    txn: Mutex<Arc<TransactionCoordinator>>,
    over: Mutex<bool>,
}

impl Shared {
    fn txn(&self) -> Arc<TransactionCoordinator> {
        self.txn.lock().clone()
    }

    fn is_over(&self) -> bool {
        *self.over.lock()
    }
}

fn is_retriable(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::CONCURRENT_TRANSACTIONS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::NOT_COORDINATOR
    )
}

struct Client {
    shared: Arc<Shared>,
    rng: Rng,
    transactional_id: String,
    is_v2: bool,
}

impl Client {
    async fn run(mut self) {
        while !self.shared.is_over() {
            let Some(mut producer) = self.init().await else { continue };
            for _ in 0..self.rng.below(6) {
                if !self.transaction(&mut producer).await {
                    break;
                }
            }
            self.rng.pause(5_000).await;
        }
    }

    async fn init(&mut self) -> Option<Producer> {
        let request =
            InitProducerIdRequest { transaction_timeout_ms: TIMEOUT_MS, ..init_request(&self.transactional_id, None) };
        let answer = self.shared.txn().init_producer_id(5, CLIENT, request).await;
        if answer.error_code == ErrorCode::NONE {
            let (producer_id, epoch) = (answer.producer_id, answer.producer_epoch);
            return Some(Producer { transactional_id: self.transactional_id.clone(), producer_id, epoch });
        }
        assert!(is_retriable(answer.error_code) || self.is_refused(answer.error_code), "{}", answer.error_code);
        self.rng.pause(200).await;
        None
    }

    /// A zombie's markers were refused, and it says so.
    fn is_refused(&self, error: ErrorCode) -> bool {
        error == ErrorCode::PRODUCER_FENCED
    }

    /// Returns whether the producer can go on.
    async fn transaction(&mut self, producer: &mut Producer) -> bool {
        let transaction = {
            let mut state = self.shared.model.state.lock();
            state.last_transaction += 1;
            let transaction = state.last_transaction;
            state.expect(transaction, Expected::Abort);
            transaction
        };
        for _ in 0..1 + self.rng.below(3) {
            let partition = (format!("t{}", self.rng.below(2)), self.rng.below(3) as i32);
            if !self.write(producer, &partition, transaction).await {
                return false;
            }
        }
        if self.rng.one_in(15) {
            // It comes too late then.
            sleep(Duration::from_millis(TIMEOUT_MS as u64 + 1_000)).await;
        }
        self.end(producer, transaction).await
    }

    async fn write(&mut self, producer: &Producer, partition: &(String, i32), transaction: u64) -> bool {
        let (topic, index) = (partition.0.as_str(), partition.1);
        loop {
            if self.shared.is_over() {
                return false;
            }
            let txn = self.shared.txn();
            let guard = self.markers_of(producer, partition);
            let added = match self.is_v2 {
                true => producer.ask(&txn, false, (topic, index)).await,
                false => producer.add(&txn, &[(topic, index)]).await.err().unwrap_or(ErrorCode::NONE),
            };
            let added = match added {
                ErrorCode::NONE if !self.is_v2 => producer.ask(&self.shared.txn(), true, (topic, index)).await,
                added => added,
            };
            match added {
                // A marker that came since then ends the verification.
                ErrorCode::NONE if self.markers_of(producer, partition) != guard => {}
                ErrorCode::NONE => {
                    let mut state = self.shared.model.state.lock();
                    return state.write(partition, producer, transaction).is_ok();
                }
                error if is_retriable(error) => {}
                ErrorCode::PRODUCER_FENCED
                | ErrorCode::INVALID_PRODUCER_ID_MAPPING
                | ErrorCode::TRANSACTION_ABORTABLE => return false,
                error => panic!("adding: {error}"),
            }
            self.rng.pause(200).await;
        }
    }

    fn markers_of(&self, producer: &Producer, partition: &(String, i32)) -> usize {
        let state = self.shared.model.state.lock();
        let producers = state.partitions.get(partition);
        producers.and_then(|producers| producers.get(&producer.producer_id)).map_or(0, |known| known.markers.len())
    }

    async fn end(&mut self, producer: &mut Producer, transaction: u64) -> bool {
        let committed = !self.rng.one_in(3);
        let version = if self.is_v2 { END_V2 } else { END_V1 };
        let expect = |expected| self.shared.model.state.lock().expect(transaction, expected);
        if committed {
            expect(Expected::Either);
        }
        let mut is_first = true;
        loop {
            let ended = producer.end(&self.shared.txn(), version, committed).await;
            match ended {
                Ok(()) => {
                    self.shared
                        .model
                        .state
                        .lock()
                        .expect(transaction, if committed { Expected::Commit } else { Expected::Abort });
                    return true;
                }
                Err(error) if is_retriable(error) => {}
                Err(
                    ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_ID_MAPPING | ErrorCode::INVALID_TXN_STATE,
                ) => {
                    if is_first {
                        self.shared.model.state.lock().expect(transaction, Expected::Abort);
                    }
                    return false;
                }
                Err(error) => panic!("ending: {error}"),
            }
            is_first = false;
            self.rng.pause(200).await;
        }
    }
}

fn coordinator(model: &Arc<Model>, clock: &Arc<TestClock>, log: Arc<LedLog>) -> Arc<TransactionCoordinator> {
    let config = TransactionConfig {
        abort_timed_out_interval_ms: 1_000,
        append_timeout_ms: 2_000,
        ..TransactionConfig::default()
    };
    TransactionCoordinator::new(config, clock.clone(), log, model.clone(), model.clone(), model.clone())
}

/// What a coordinator knows, as far as it is stored.
fn known(txn: &TransactionCoordinator) -> BTreeMap<String, Metadata> {
    let shard = txn.shard("").unwrap();
    let state = shard.state.lock();
    let stored = |metadata: &Metadata| match metadata.state {
        State::Empty => Metadata { last_producer_epoch: -1, ..metadata.clone() },
        _ => metadata.clone(),
    };
    state.iter().map(|(id, transaction)| (id.to_owned(), stored(transaction.current()))).collect()
}

fn check_epochs(log: &FakeLog) {
    let mut epochs = BTreeMap::new();
    for record in log.records() {
        let Some(metadata) = record.value else { continue };
        let last = epochs.insert((record.transactional_id, metadata.producer_id), metadata.producer_epoch);
        assert!(last.is_none_or(|last| last <= metadata.producer_epoch), "an epoch went back");
    }
}

async fn run(seed: u64) -> Vec<String> {
    let version = if seed.is_multiple_of(3) { TransactionVersion(1) } else { TransactionVersion::V2 };
    let state = ModelState {
        rng: Rng::new(seed, 100),
        in_trouble: true,
        partitions: BTreeMap::new(),
        last_producer_id: 0,
        last_transaction: 0,
        prepared: BTreeMap::new(),
        expected: BTreeMap::new(),
        decided: BTreeMap::new(),
        told: Vec::new(),
    };
    let model = Arc::new(Model { state: state.into(), log: FakeLog::new(), version });
    let clock = TestClock::new();
    let leader_epoch = Arc::new(AtomicI32::new(1));
    let led_log =
        |epoch: i32| Arc::new(LedLog { model: model.clone(), led: epoch.into(), leader_epoch: leader_epoch.clone() });
    let mut led = led_log(1);
    let mut txn = coordinator(&model, &clock, led.clone());
    txn.load(0, 1).await.unwrap();
    let mut running = vec![tokio::spawn(txn.clone().run())];
    let mut zombie: Option<Arc<TransactionCoordinator>> = None;
    let shared = Arc::new(Shared { model: model.clone(), txn: txn.clone().into(), over: false.into() });
    let mut rng = Rng::new(seed, 101);
    let clients: Vec<JoinHandle<()>> = (0..CLIENTS)
        .map(|number| {
            let client = Client {
                shared: shared.clone(),
                rng: Rng::new(seed, number),
                transactional_id: format!("id{}", number % IDS),
                is_v2: version == TransactionVersion::V2 && (seed % 3 == 1 || number % 2 == 0),
            };
            tokio::spawn(client.run())
        })
        .collect();

    for _ in 0..STEPS {
        rng.pause(3_000).await;
        match rng.below(12) {
            0 | 1 => model.log.set(Fate::Held),
            2 => model.log.release(rng.below(4) as usize),
            3 => model.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS)),
            4 => model.log.set(Fate::Lost(ErrorCode::REQUEST_TIMED_OUT)),
            5 => model.log.set(Fate::Refused(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND)),
            6 => {
                // Another broker leads. The one that led has not heard of it, until it happens again.
                let epoch = leader_epoch.fetch_add(1, Ordering::Relaxed) + 1;
                model.log.move_leadership(rng.below(3) as usize);
                model.log.set(Fate::Durable);
                led = led_log(epoch);
                let next = coordinator(&model, &clock, led.clone());
                next.load(0, epoch).await.unwrap();
                running.push(tokio::spawn(next.clone().run()));
                if let Some(zombie) = zombie.replace(std::mem::replace(&mut txn, next)) {
                    zombie.unload(0);
                }
                *shared.txn.lock() = txn.clone();
            }
            7 => {
                // The same broker leads again.
                let epoch = leader_epoch.fetch_add(1, Ordering::Relaxed) + 1;
                model.log.move_leadership(rng.below(3) as usize);
                model.log.set(Fate::Durable);
                let loading = txn.load(0, epoch);
                led.led.store(epoch, Ordering::Relaxed);
                loading.await.unwrap();
            }
            _ => model.log.heal(),
        }
    }
    model.state.lock().in_trouble = false;
    model.log.heal();
    *shared.over.lock() = true;
    for client in clients {
        client.await.unwrap();
    }
    sleep(Duration::from_secs(60)).await;
    check_epochs(&model.log);
    let known_now = known(&txn);
    for (id, metadata) in &known_now {
        assert!(metadata.state.is_expiration_allowed(), "{id}: {metadata:?}");
    }
    assert!(txn.markers.is_empty());
    let reader = coordinator(&model, &clock, led);
    reader.load(0, leader_epoch.load(Ordering::Relaxed)).await.unwrap();
    assert_eq!(known(&reader), known_now);
    running.iter().for_each(JoinHandle::abort);
    let state = model.state.lock();
    for producers in state.partitions.values() {
        assert!(producers.values().all(|known| known.open.is_none()), "{producers:?}");
    }
    let outcomes: BTreeSet<_> = state.decided.values().collect();
    assert!(outcomes.len() == 2 && state.decided.len() > 10, "the test must do something");
    state.told.clone()
}

#[test]
fn invariants_hold_whatever_happens() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(|| runtime().block_on(run(seed)));
        assert!(result.is_ok(), "seed {seed}");
    }
    let twice = [runtime().block_on(run(7)), runtime().block_on(run(7))];
    assert_eq!(twice[0], twice[1], "a seed tells all");
}
