//! What a log knows about its idempotent and transactional producers (`ProducerStateManager`, `ProducerAppendInfo`).
//!
//! Of each producer the last five batches are remembered (KIP-679 allows five requests in flight): a batch that comes
//! again is answered with its first offset. The writer owns this. An append that fails takes its changes back
//! ([`Producers::begin`], [`Producers::roll_back`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use wire::batch::{BatchHeader, add_sequence};

use crate::config::Now;
use crate::error::AppendError;
use crate::markers::Marker;
use crate::verification::{self, Verification, VerificationGuard, Verifications};

/// Who wrote a batch, which decides how much of it is checked (`AppendOrigin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A producer: epoch and sequences are checked.
    Client,
    /// A coordinator of this cluster, whose transactional batches have no sequences: the epoch is checked.
    Coordinator,
    /// A transaction coordinator that ends a transaction, with the `transaction.version` that it has (KIP-1228).
    Marker { transaction_version: i8 },
    /// The leader, which has checked everything.
    Replication,
}

/// How many batches of a producer are remembered (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`).
pub(crate) const BATCHES_KEPT: usize = 5;
const NO_EPOCH: i16 = -1;
const NO_SEQUENCE: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMetadata {
    pub last_sequence: i32,
    pub last_offset: i64,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    pub timestamp: i64,
}

impl BatchMetadata {
    const NONE: Self = Self { last_sequence: NO_SEQUENCE, last_offset: -1, offset_delta: 0, timestamp: -1 };

    fn of(header: &BatchHeader) -> Self {
        Self {
            last_sequence: if header.base_sequence < 0 { NO_SEQUENCE } else { header.last_sequence() },
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        }
    }

    pub fn first_offset(&self) -> i64 {
        self.last_offset - i64::from(self.offset_delta)
    }

    pub fn first_sequence(&self) -> i32 {
        add_sequence(self.last_sequence, -self.offset_delta)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ProducerState {
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// Of the last transaction marker; -1 for none.
    pub coordinator_epoch: i32,
    /// Greatest timestamp of the last batch.
    pub last_timestamp: i64,
    pub current_txn_first_offset: Option<i64>,
    batches: [BatchMetadata; BATCHES_KEPT],
    batch_count: u8,
    /// By the monotonic clock; when the log was opened for those read from a snapshot.
    pub(crate) last_seen_ms: i64,
    /// The append that last changed this, see [`Producers::begin`].
    changed_by: u64,
}

impl PartialEq for ProducerState {
    /// Compares what is in the log, not when this process saw it.
    fn eq(&self, other: &Self) -> bool {
        self.producer_id == other.producer_id
            && self.producer_epoch == other.producer_epoch
            && self.coordinator_epoch == other.coordinator_epoch
            && self.last_timestamp == other.last_timestamp
            && self.current_txn_first_offset == other.current_txn_first_offset
            && self.batches() == other.batches()
    }
}

impl ProducerState {
    pub(crate) fn new(producer_id: i64) -> Self {
        Self {
            producer_id,
            producer_epoch: NO_EPOCH,
            coordinator_epoch: -1,
            last_timestamp: -1,
            current_txn_first_offset: None,
            batches: [BatchMetadata::NONE; BATCHES_KEPT],
            batch_count: 0,
            last_seen_ms: i64::MIN,
            changed_by: 0,
        }
    }

    /// The last batches, oldest first.
    pub fn batches(&self) -> &[BatchMetadata] {
        &self.batches[..usize::from(self.batch_count)]
    }

    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        self.batches().last()
    }

    /// -1 if no batch of the current epoch is known.
    pub fn last_sequence(&self) -> i32 {
        self.last_batch().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// Whether a transaction of this epoch is open.
    fn is_open(&self, producer_epoch: i16) -> bool {
        self.current_txn_first_offset.is_some() && self.producer_epoch == producer_epoch
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.producer_epoch != epoch {
            self.producer_epoch = epoch;
            self.batch_count = 0;
        }
    }

    pub(crate) fn push(&mut self, batch: BatchMetadata) {
        if usize::from(self.batch_count) == BATCHES_KEPT {
            self.batches.rotate_left(1);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
    }

    fn find_duplicate(&self, header: &BatchHeader) -> Option<BatchMetadata> {
        if header.producer_epoch != self.producer_epoch {
            return None;
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        self.batches().iter().find(|batch| batch.first_sequence() == first && batch.last_sequence == last).copied()
    }
}

/// What is to be done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Append,
    /// It is in the log already.
    Duplicate(BatchMetadata),
}

/// What begins with a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    /// Nothing is known of its producer so far.
    pub(crate) producer: bool,
    pub(crate) transaction: bool,
}

#[derive(Default)]
pub(crate) struct Producers {
    states: HashMap<i64, ProducerState>,
    verifications: Verifications,
    append: u64,
    /// The states that the current append changed, as they were.
    undo: Vec<(i64, Option<ProducerState>)>,
}

impl Producers {
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    /// In the order of their ids.
    pub(crate) fn sorted(&self) -> Vec<ProducerState> {
        let mut states: Vec<_> = self.states.values().copied().collect();
        states.sort_unstable_by_key(|state| state.producer_id);
        states
    }

    pub(crate) fn get(&self, producer_id: i64) -> Option<&ProducerState> {
        self.states.get(&producer_id)
    }

    pub(crate) fn any(&self, is: impl FnMut(&ProducerState) -> bool) -> bool {
        self.states.values().any(is)
    }

    pub(crate) fn clear(&mut self) {
        self.states = HashMap::new();
        self.verifications.clear();
        self.undo.clear();
    }

    /// Takes over what a snapshot says.
    pub(crate) fn load(&mut self, states: Vec<ProducerState>, monotonic_ms: i64) {
        self.clear();
        for mut state in states {
            state.last_seen_ms = monotonic_ms;
            self.states.insert(state.producer_id, state);
        }
    }

    /// Completes what a snapshot says: it has the last batch of each producer, but those before may be sent again as
    /// well. `headers` are what is in the log in front of the snapshot, oldest first.
    pub(crate) fn recall(&mut self, headers: impl Iterator<Item = BatchHeader>) {
        let mut recalled: HashMap<i64, ProducerState> = HashMap::new();
        for header in headers {
            let is_sequenced = header.base_sequence >= 0 && !header.attributes.is_control();
            let is_known = |state: &ProducerState| state.producer_epoch == header.producer_epoch;
            if !is_sequenced || !self.states.get(&header.producer_id).is_some_and(is_known) {
                continue;
            }
            let state = recalled.entry(header.producer_id).or_insert_with(|| ProducerState::new(header.producer_id));
            let follows = |last: &BatchMetadata| add_sequence(last.last_sequence, 1) == header.base_sequence;
            if !state.last_batch().is_none_or(follows) {
                state.batch_count = 0;
            }
            state.push(BatchMetadata::of(&header));
        }
        for (producer_id, found) in recalled {
            let end = |batch: &BatchMetadata| (batch.last_sequence, batch.last_offset);
            let state = self.states.get_mut(&producer_id);
            if let Some(state) = state.filter(|state| state.last_batch().map(end) == found.last_batch().map(end)) {
                (state.batches, state.batch_count) = (found.batches, found.batch_count);
            }
        }
    }

    /// The first offsets of the transactions that are open.
    pub(crate) fn open_transactions(&self) -> impl Iterator<Item = i64> {
        self.states.values().filter_map(|state| state.current_txn_first_offset)
    }

    /// From here on changes can be taken back.
    pub(crate) fn begin(&mut self) {
        self.append += 1;
        self.undo.clear();
    }

    /// Returns the first offsets of the transactions that are open again.
    pub(crate) fn roll_back(&mut self) -> Vec<i64> {
        let mut open = Vec::new();
        for (producer_id, state) in self.undo.drain(..) {
            open.extend(state.and_then(|state| state.current_txn_first_offset));
            match state {
                Some(state) => self.states.insert(producer_id, state),
                None => self.states.remove(&producer_id),
            };
        }
        open
    }

    /// Whether a batch of records may be appended (`UnifiedLog.analyzeAndValidateProducerState`,
    /// `ProducerAppendInfo.maybeValidateDataBatch`). `guard` is that of a transactional one that was verified.
    pub(crate) fn check(
        &self,
        header: &BatchHeader,
        origin: Origin,
        guard: Option<VerificationGuard>,
    ) -> Result<Verdict, AppendError> {
        if !header.has_producer_id() || header.attributes.is_control() || origin == Origin::Replication {
            return Ok(Verdict::Append);
        }
        let (producer_id, producer_epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
        let state = self.states.get(&producer_id);
        if origin == Origin::Client
            && let Some(batch) = state.and_then(|state| state.find_duplicate(header))
        {
            return Ok(Verdict::Duplicate(batch));
        }
        if let Some(state) = state.filter(|state| producer_epoch < state.producer_epoch) {
            // Before the guard: it is the epoch that a client can do something about (KAFKA-19690).
            let current_epoch = state.producer_epoch;
            return Err(AppendError::InvalidProducerEpoch { producer_id, producer_epoch, current_epoch });
        }
        let mut verified = None;
        if header.attributes.is_transactional() && !state.is_some_and(|state| state.is_open(producer_epoch)) {
            verified = self.verifications.get(producer_id).filter(|entry| Some(entry.guard) == guard);
            if verified.is_none() {
                return Err(AppendError::InvalidTxnState { producer_id });
            }
        }
        if origin == Origin::Client {
            let known = state.filter(|state| state.producer_epoch == producer_epoch);
            let last_sequence = known.map_or(NO_SEQUENCE, ProducerState::last_sequence);
            let follows = match state {
                Some(_) => sequence == following(last_sequence),
                // Nothing is known, perhaps because all of its records are deleted: any sequence starts (KAFKA-5793).
                // But where each transaction has its own epoch, nothing of this one can have been deleted.
                None => sequence == 0 || !verified.is_some_and(|entry| entry.bumps_epoch),
            };
            // One behind the first that waits for the same answer has overtaken it (KIP-890).
            let has_overtaken = verified.is_some_and(|entry| sequence > entry.lowest_sequence);
            if !follows || has_overtaken {
                return Err(AppendError::OutOfOrderSequence { producer_id, producer_epoch, sequence, last_sequence });
            }
        }
        let is_open = state.is_some_and(|state| state.current_txn_first_offset.is_some());
        if is_open && !header.attributes.is_transactional() {
            return Err(AppendError::InvalidTxnState { producer_id });
        }
        Ok(Verdict::Append)
    }

    /// Whether the coordinator has to be asked before the first batch of a transaction is appended
    /// (`UnifiedLog.maybeStartTransactionVerification`).
    pub(crate) fn start_verification(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transaction_version: i8,
        now: Now,
    ) -> Result<Verification, AppendError> {
        let state = self.states.get(&producer_id);
        let known_epoch = state.map_or(NO_EPOCH, |state| state.producer_epoch);
        if state.is_some_and(|state| state.is_open(producer_epoch)) {
            return Ok(Verification::NotNeeded);
        }
        let bumps_epoch = verification::bumps_epoch(transaction_version);
        let started = || self.verifications.start(producer_id, producer_epoch, base_sequence, bumps_epoch, now);
        match (producer_epoch >= known_epoch).then(started).flatten() {
            Some(guard) => Ok(Verification::Needed(guard)),
            None => {
                let waiting_epoch = self.verifications.get(producer_id).map_or(NO_EPOCH, |entry| entry.producer_epoch);
                let current_epoch = known_epoch.max(waiting_epoch);
                Err(AppendError::InvalidProducerEpoch { producer_id, producer_epoch, current_epoch })
            }
        }
    }

    /// See [`Producers::enforce_limit`].
    pub(crate) fn enforce_verification_limit(&mut self, verifications_max: usize) {
        self.verifications.enforce_limit(verifications_max);
    }

    /// What was asked before answers nothing any more.
    pub(crate) fn forget_verifications(&mut self) {
        self.verifications.clear();
    }

    /// Whether a transaction marker may be appended (`ProducerAppendInfo.appendEndTxnMarker`).
    pub(crate) fn check_marker(
        &self,
        header: &BatchHeader,
        marker: Option<Marker>,
        origin: Origin,
    ) -> Result<(), AppendError> {
        let Some(state) = self.states.get(&header.producer_id) else { return Ok(()) };
        let (producer_id, producer_epoch) = (header.producer_id, header.producer_epoch);
        let current_epoch = state.producer_epoch;
        let bumps_epoch = match origin {
            Origin::Marker { transaction_version } => verification::bumps_epoch(transaction_version),
            _ => false,
        };
        // A marker with the epoch of an open transaction is the one that ended the transaction before, and is late.
        // Where that one has ended nothing since, it is a retry, and appended again (KAFKA-19999).
        let is_late = bumps_epoch
            && producer_epoch == current_epoch
            && producer_epoch != i16::MAX
            && state.current_txn_first_offset.is_some();
        if producer_epoch < current_epoch || is_late {
            return Err(AppendError::InvalidProducerEpoch { producer_id, producer_epoch, current_epoch });
        }
        if let Some(Marker { coordinator_epoch, .. }) = marker
            && coordinator_epoch < state.coordinator_epoch
        {
            let current_epoch = state.coordinator_epoch;
            return Err(AppendError::TransactionCoordinatorFenced { producer_id, coordinator_epoch, current_epoch });
        }
        Ok(())
    }

    fn change(&mut self, producer_id: i64, monotonic_ms: i64) -> &mut ProducerState {
        let state = match self.states.entry(producer_id) {
            Entry::Occupied(entry) => {
                if entry.get().changed_by != self.append {
                    self.undo.push((producer_id, Some(*entry.get())));
                }
                entry.into_mut()
            }
            Entry::Vacant(entry) => {
                self.undo.push((producer_id, None));
                entry.insert(ProducerState::new(producer_id))
            }
        };
        state.changed_by = self.append;
        state.last_seen_ms = monotonic_ms;
        state
    }

    /// Takes note of a batch of records with its final offsets.
    pub(crate) fn note_batch(&mut self, header: &BatchHeader, monotonic_ms: i64) -> Begins {
        if !header.has_producer_id() || header.attributes.is_control() {
            return Begins::default();
        }
        let known = self.states.len();
        let state = self.change(header.producer_id, monotonic_ms);
        state.set_epoch(header.producer_epoch);
        state.push(BatchMetadata::of(header));
        state.last_timestamp = header.max_timestamp;
        let transaction = header.attributes.is_transactional() && state.current_txn_first_offset.is_none();
        if transaction {
            state.current_txn_first_offset = Some(header.base_offset);
            self.verifications.note_batch(header.producer_id);
        }
        Begins { producer: self.states.len() > known, transaction }
    }

    /// Takes note of a transaction marker. Returns the first offset of the transaction that it ends, if there is one.
    /// Of a marker without a record only the epoch counts: compaction took it, after all of its transaction.
    pub(crate) fn note_marker(
        &mut self,
        header: &BatchHeader,
        marker: Option<Marker>,
        monotonic_ms: i64,
    ) -> Option<i64> {
        let state = self.change(header.producer_id, monotonic_ms);
        let Some(marker) = marker else {
            if state.producer_epoch < header.producer_epoch && state.current_txn_first_offset.is_none() {
                state.set_epoch(header.producer_epoch);
                state.last_timestamp = header.max_timestamp;
            }
            return None;
        };
        state.set_epoch(header.producer_epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        state.last_timestamp = header.max_timestamp;
        let ended = state.current_txn_first_offset.take();
        self.verifications.note_marker(header.producer_id, header.producer_epoch);
        ended
    }

    /// Forgets producers that were silent for too long by both clocks: a wall clock that jumps makes nobody's retries
    /// into duplicates. After a restart the silence counts from the opening of the log.
    pub(crate) fn remove_expired(&mut self, now: Now, expiration_ms: i64) -> usize {
        self.verifications.remove_expired(now, expiration_ms);
        let before = self.states.len();
        self.states.retain(|_, state| {
            state.current_txn_first_offset.is_some()
                || now.wall_ms.saturating_sub(state.last_timestamp) < expiration_ms
                || now.monotonic_ms.saturating_sub(state.last_seen_ms) < expiration_ms
        });
        before - self.states.len()
    }

    /// Forgets those that were silent for longest if there are more than `producers_max`, an eighth of them at once
    /// so that the search for them is rare. Not during an append.
    pub(crate) fn enforce_limit(&mut self, producers_max: usize) {
        if self.states.len() <= producers_max {
            return;
        }
        let mut idle: Vec<_> = self
            .states
            .values()
            .filter(|state| state.current_txn_first_offset.is_none())
            .map(|state| (state.last_seen_ms, state.last_timestamp, state.producer_id))
            .collect();
        idle.sort_unstable();
        let excess = self.states.len() - producers_max + producers_max / 8;
        for (_, _, producer_id) in idle.into_iter().take(excess) {
            self.states.remove(&producer_id);
        }
    }
}

/// The sequence that has to follow: 0 after none and after the greatest.
fn following(last_sequence: i32) -> i32 {
    last_sequence.checked_add(1).unwrap_or(0)
}
