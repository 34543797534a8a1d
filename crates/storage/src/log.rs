//! The writer's side of a log: appending, rolling, truncating.
//!
//! Its owner calls one method at a time. Readers go through [`LogView`], which this publishes to after each write.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::batch::{Batch, BatchHeader, CRC_COVERS_FROM, HEADER_BYTES, TimestampType};

use crate::config::{LogConfig, Now};
use crate::disk::{self, Disk, write_all_at};
use crate::error::{AppendError, LogError};
use crate::markers::{self, Marker};
use crate::names::{self, Kind, Stage};
use crate::producers::{Origin, ProducerState, Producers, Verdict};
use crate::segment::{LocatedBatch, Segment};
use crate::snapshot;
use crate::truncations::Truncations;
use crate::txn_index::AbortedTransaction;
use crate::verification::{Verification, VerificationGuard};
use crate::view::LogView;

/// No segment grows beyond what a position in an index can say.
pub(crate) const SEGMENT_BYTES_MAX: u32 = i32::MAX as u32;

/// Where a batch is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: i64,
    pub last_offset: i64,
    /// -1 unless the topic has `message.timestamp.type=LogAppendTime`.
    pub log_append_time_ms: i64,
    /// It was there already: a producer sent it again.
    pub is_duplicate: bool,
    /// It is the first that the log has of its producer, or the first since that was forgotten.
    pub is_of_new_producer: bool,
}

pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: Arc<Path>,
    pub(crate) config: LogConfig,
    pub(crate) view: Arc<LogView>,
    pub(crate) active: Arc<Segment>,
    pub(crate) producers: Producers,
    pub(crate) opened: Now,
    /// By the wall clock, for rolling a segment without timestamps.
    pub(crate) active_created_ms: i64,
    /// The greatest timestamp of the active segment's first batch, from which `segment.ms` counts.
    pub(crate) active_first_timestamp: Option<i64>,
    /// Offset of the newest producer snapshot.
    pub(crate) last_snapshot: i64,
    /// Offset of the one before: the newest may lie behind the recovery point that a restart finds.
    pub(crate) previous_snapshot: i64,
    pub(crate) deleted: Vec<DeletedFile>,
    pub(crate) truncations: Truncations,
    /// The batches of the current write; kept for its memory.
    run: Vec<LocatedBatch>,
    stamped: Vec<[u8; HEADER_BYTES]>,
    /// The transactions that it aborts.
    aborted: Vec<AbortedTransaction>,
}

/// A file that was renamed and waits for its end.
pub(crate) struct DeletedFile {
    pub(crate) path: PathBuf,
    /// Of batches.
    pub(crate) size_bytes: u64,
    pub(crate) since_ms: i64,
}

/// What [`Log::append`] is doing: one write to one segment.
struct Run<'a> {
    batches: &'a [Batch],
    guards: &'a [Option<VerificationGuard>],
    /// The batches in one piece, if they are written as they are: what the current write begins with.
    chunk: Option<&'a [u8]>,
    results: Vec<Result<Appended, AppendError>>,
    /// The batches of the current write, by their place in `batches`.
    members: Vec<usize>,
    /// How many results stood when the current write began.
    results_before: usize,
    next_offset: i64,
    position: u64,
    now: Now,
}

impl Log {
    #[expect(clippy::too_many_arguments, reason = "called once, by recovery")]
    pub(crate) fn assemble(
        disk: Arc<dyn Disk>,
        dir: Arc<Path>,
        config: LogConfig,
        view: Arc<LogView>,
        active: Arc<Segment>,
        producers: Producers,
        last_snapshot: i64,
        now: Now,
    ) -> Self {
        Self {
            disk,
            dir,
            config,
            view,
            active,
            producers,
            opened: now,
            active_created_ms: now.wall_ms,
            active_first_timestamp: None,
            last_snapshot,
            previous_snapshot: -1,
            deleted: Vec::new(),
            truncations: Truncations::default(),
            run: Vec::new(),
            stamped: Vec::new(),
            aborted: Vec::new(),
        }
    }

    /// The readers' side.
    pub fn view(&self) -> Arc<LogView> {
        self.view.clone()
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Takes effect with the next append, roll or cleaning.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    pub fn log_end_offset(&self) -> i64 {
        self.view.log_end_offset()
    }

    // --- Appending

    /// Appends as the leader: checks producers, assigns offsets, stamps base offset and leader epoch. The batches must
    /// have been validated. There is one result per batch; one that is refused does not touch the others, but a full
    /// disk refuses all that follow. `Err` means that the log is closed for good.
    ///
    /// One write per segment touched. Readers see the batches afterwards, power loss spares them after the next
    /// [`LogView::sync`].
    pub fn append(
        &mut self,
        batches: &[Batch],
        origin: Origin,
        leader_epoch: i32,
        now: Now,
    ) -> Result<Vec<Result<Appended, AppendError>>, LogError> {
        self.append_verified(batches, &[], origin, leader_epoch, now)
    }

    /// The same with batches that may begin transactions: each with the guard that [`Log::start_verification`] gave for
    /// it, if it did; what lacks in `guards` is none.
    pub fn append_verified(
        &mut self,
        batches: &[Batch],
        guards: &[Option<VerificationGuard>],
        origin: Origin,
        leader_epoch: i32,
        now: Now,
    ) -> Result<Vec<Result<Appended, AppendError>>, LogError> {
        self.append_run(batches, guards, origin, Some(leader_epoch), None, now)
    }

    /// Whether the coordinator has to be asked before a batch of a transaction is appended as the leader (KIP-890).
    /// `transaction_version` is the producer's: from 2 on each transaction has its own epoch.
    pub fn start_verification(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transaction_version: i8,
        now: Now,
    ) -> Result<Verification, AppendError> {
        let started =
            self.producers.start_verification(producer_id, producer_epoch, base_sequence, transaction_version, now);
        self.producers.enforce_verification_limit(self.config.producers_max);
        started
    }

    /// Appends as a follower: the batches keep their offsets and leader epochs, and must continue the log. One that is
    /// refused refuses all that follow. [`Log::append_fetched`] takes the bytes of a Fetch response.
    pub fn append_as_follower(
        &mut self,
        batches: &[Batch],
        now: Now,
    ) -> Result<Vec<Result<Appended, AppendError>>, LogError> {
        self.append_run(batches, &[], Origin::Replication, None, None, now)
    }

    /// `leader_epoch` is a leader's. A follower's `chunk` has the bytes of all batches, one behind the other.
    pub(crate) fn append_run(
        &mut self,
        batches: &[Batch],
        guards: &[Option<VerificationGuard>],
        origin: Origin,
        leader_epoch: Option<i32>,
        chunk: Option<&[u8]>,
        now: Now,
    ) -> Result<Vec<Result<Appended, AppendError>>, LogError> {
        self.view.check()?;
        let mut run = Run {
            batches,
            guards,
            chunk,
            results: Vec::with_capacity(batches.len()),
            members: Vec::with_capacity(batches.len()),
            results_before: 0,
            next_offset: self.view.log_end_offset(),
            position: self.active.size(),
            now,
        };
        self.producers.begin();
        for (index, batch) in batches.iter().enumerate() {
            let result = self.validate_and_position(&mut run, index, batch, origin, leader_epoch);
            match result {
                Ok(Ok(appended)) => run.results.push(Ok(appended)),
                Ok(Err(error)) => {
                    // Without one of its batches a follower's log would have a hole.
                    let is_last =
                        leader_epoch.is_none() || matches!(error, AppendError::DiskFull | AppendError::Exhausted);
                    let count = if is_last { batches.len() } else { index + 1 };
                    run.results.resize_with(count, || Err(error.clone()));
                    if is_last {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        if let Err(error) = self.write_run(&mut run)? {
            run.results.resize_with(batches.len(), || Err(error.clone()));
        }
        self.producers.enforce_limit(self.config.producers_max);
        Ok(run.results)
    }

    /// Checks one batch and assigns its offsets and position in the current write. The outer error ends the log.
    fn validate_and_position(
        &mut self,
        run: &mut Run<'_>,
        index: usize,
        batch: &Batch,
        origin: Origin,
        leader_epoch: Option<i32>,
    ) -> Result<Result<Appended, AppendError>, LogError> {
        let size_bytes = batch.bytes.len();
        // What the leader has, a follower takes, though segments may have become smaller since.
        let is_leader = leader_epoch.is_some();
        let segment_bytes =
            if is_leader { self.config.segment_bytes.min(SEGMENT_BYTES_MAX) } else { SEGMENT_BYTES_MAX };
        if size_bytes > segment_bytes as usize {
            return Ok(Err(AppendError::RecordListTooLarge { size_bytes, segment_bytes }));
        }
        let max_message_bytes = self.config.max_message_bytes;
        if origin == Origin::Client && size_bytes > max_message_bytes as usize {
            return Ok(Err(AppendError::MessageTooLarge { size_bytes, max_message_bytes }));
        }
        let mut header = batch.header;
        let marker = markers::is_marker(&header).then(|| markers::read(&header, batch.section()));
        let verdict = match marker {
            Some(marker) if origin != Origin::Replication => {
                self.producers.check_marker(&header, marker, origin).map(|()| Verdict::Append)
            }
            _ => self.producers.check(&header, origin, run.guards.get(index).copied().flatten()),
        };
        match verdict {
            Ok(Verdict::Append) => {}
            Ok(Verdict::Duplicate(known)) => {
                let is_log_append_time = self.config.message_timestamp_type == TimestampType::LogAppendTime;
                return Ok(Ok(Appended {
                    base_offset: known.first_offset(),
                    last_offset: known.last_offset,
                    log_append_time_ms: if is_log_append_time { known.timestamp } else { -1 },
                    is_duplicate: true,
                    is_of_new_producer: false,
                }));
            }
            Err(error) => return Ok(Err(error)),
        }
        let log_end_offset = run.next_offset;
        match leader_epoch {
            Some(epoch) => {
                header.base_offset = log_end_offset;
                header.partition_leader_epoch = epoch;
                self.stamp_time(&mut header, batch, run.now);
            }
            None if header.base_offset < log_end_offset => {
                return Ok(Err(AppendError::OffsetsOutOfOrder { base_offset: header.base_offset, log_end_offset }));
            }
            None => {}
        }
        if header.base_offset.checked_add(i64::from(header.last_offset_delta) + 1).is_none() {
            return Ok(Err(AppendError::OffsetsOutOfOrder { base_offset: header.base_offset, log_end_offset }));
        }
        if self.must_roll(run, &header, size_bytes) {
            if let Err(error) = self.write_run(run)? {
                return Ok(Err(error));
            }
            if let Err(error) = self.roll_to(header.base_offset, run.now) {
                return as_append_error(error).map(Err);
            }
            run.position = 0;
        }
        let is_of_new_producer = self.note_producer(&header, marker, run.now);
        self.run.push(LocatedBatch { position: run.position, header });
        run.members.push(index);
        run.position += size_bytes as u64;
        run.next_offset = header.next_offset();
        let is_log_append_time = is_leader && header.attributes.is_log_append_time();
        Ok(Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time_ms: if is_log_append_time { header.max_timestamp } else { -1 },
            is_duplicate: false,
            is_of_new_producer,
        }))
    }

    /// Takes note of what a batch says of its producer and its transaction, before readers can see it. Returns whether
    /// records of the producer are new here.
    fn note_producer(&mut self, header: &BatchHeader, marker: Option<Option<Marker>>, now: Now) -> bool {
        match marker {
            Some(marker) => {
                if let Some(first_offset) = self.producers.note_marker(header, marker, now.monotonic_ms) {
                    let end = header.base_offset;
                    let last_stable_offset =
                        self.view.change_transactions(|transactions| transactions.end(first_offset, end));
                    self.aborted.extend(aborted_by(header, marker, first_offset, last_stable_offset));
                }
                false
            }
            None => {
                let begins = self.producers.note_batch(header, now.monotonic_ms);
                if begins.transaction {
                    self.view.change_transactions(|transactions| transactions.begin(header.base_offset));
                }
                begins.producer
            }
        }
    }

    /// Gives the batch the broker's time if the topic wants that and validation has not done it yet
    /// (`DefaultRecordBatch.setMaxTimestamp`).
    fn stamp_time(&self, header: &mut BatchHeader, batch: &Batch, now: Now) {
        let wanted = self.config.message_timestamp_type == TimestampType::LogAppendTime;
        if wanted && !header.attributes.is_log_append_time() {
            header.attributes = header.attributes.with_log_append_time();
            header.max_timestamp = now.wall_ms;
            let crc = crc32c::crc32c(&header.to_bytes()[CRC_COVERS_FROM..]);
            header.crc = crc32c::crc32c_append(crc, batch.section());
        }
    }

    /// `LogSegment.shouldRoll`.
    fn must_roll(&self, run: &Run<'_>, header: &BatchHeader, size_bytes: usize) -> bool {
        if run.position == 0 {
            // A follower's first batch may lie too far from the segment's base offset.
            return header.last_offset() - self.active.base_offset() > i64::from(i32::MAX);
        }
        let segment_bytes = u64::from(self.config.segment_bytes.min(SEGMENT_BYTES_MAX));
        let first_timestamp = self.active_first_timestamp.or_else(|| self.run.first().map(|b| b.header.max_timestamp));
        let waited_ms = match first_timestamp {
            Some(first) if first >= 0 => header.max_timestamp.saturating_sub(first),
            _ => run.now.wall_ms.saturating_sub(self.active_created_ms),
        };
        run.position + size_bytes as u64 > segment_bytes
            || waited_ms > self.config.segment_ms.saturating_sub(self.roll_jitter_ms())
            || header.last_offset() - self.active.base_offset() > i64::from(i32::MAX)
            || self.active.indexes_full(self.config.segment_index_bytes, self.run.len())
    }

    /// Different for each segment of each log, the same after a restart.
    fn roll_jitter_ms(&self) -> i64 {
        let bound = self.config.segment_jitter_ms.min(self.config.segment_ms);
        if bound <= 0 {
            return 0;
        }
        let name = self.dir.as_os_str().as_encoded_bytes();
        let hash = crc32c::crc32c_append(crc32c::crc32c(name), &self.active.base_offset().to_be_bytes());
        i64::from(hash) % bound
    }

    /// Writes what has gathered, and lets the readers see it. If the disk is full, all of it is taken back.
    fn write_run(&mut self, run: &mut Run<'_>) -> Result<Result<(), AppendError>, LogError> {
        if self.run.is_empty() {
            run.results_before = run.results.len();
            return Ok(Ok(()));
        }
        let old_size = self.active.size();
        let mut slices = Vec::new();
        let mut chunk_rest = run.chunk;
        if let Some(chunk) = run.chunk {
            let (written, rest) = chunk.split_at((run.position - old_size) as usize);
            slices.push(IoSlice::new(written));
            chunk_rest = Some(rest);
        } else {
            self.stamped.clear();
            self.stamped.extend(self.run.iter().map(|placed| placed.header.to_bytes()));
            slices.reserve(2 * self.run.len());
            for (stamped, &member) in self.stamped.iter().zip(&run.members) {
                slices.push(IoSlice::new(stamped));
                slices.push(IoSlice::new(run.batches[member].section()));
            }
        }
        self.active.allocate_ahead(run.position, u64::from(self.config.segment_bytes));
        let written = self.active.log_file().and_then(|file| write_all_at(&*file, &mut slices, old_size));
        drop(slices);
        if let Err(error) = written {
            let result = self.take_back(old_size, &error);
            run.results.truncate(run.results_before);
            return result.map(Err);
        }
        let write_indexes = self.active.note_appended(&self.run);
        self.active.note_checked(old_size..run.position);
        self.active.set_last_append_ms(run.now.monotonic_ms);
        self.active.note_write(old_size, run.now.monotonic_ms);
        if self.active_first_timestamp.is_none() {
            self.active_first_timestamp = self.run.first().map(|first| first.header.max_timestamp);
        }
        {
            let log_end_offset = self.view.log_end_offset();
            let mut epochs = self.view.epochs();
            // What an entry from here on speaks of was assigned, and never got a record.
            epochs.truncate_from_end(log_end_offset);
            for placed in &self.run {
                epochs.observe(placed.header.partition_leader_epoch, placed.header.base_offset);
            }
        }
        if !self.aborted.is_empty() {
            let written = self.active.push_aborted(&self.aborted);
            self.aborted.clear();
            self.index_result(written.map(|is_new| self.view.note_dir_changed_if(is_new)))?;
        }
        self.view.publish(|published| {
            self.active.set_size(run.position);
            published.log_end_offset = run.next_offset;
        });
        self.run.clear();
        run.members.clear();
        run.chunk = chunk_rest;
        run.results_before = run.results.len();
        self.producers.begin();
        if write_indexes {
            self.index_result(self.active.write_indexes())?;
        }
        Ok(Ok(()))
    }

    /// An index that cannot be written for want of room is written later; all else is a broken disk.
    pub(crate) fn index_result(&self, result: io::Result<()>) -> Result<(), LogError> {
        later_if_retriable(result.map_err(|error| self.view.write_error("writing an index failed", error)))
    }

    /// After a failed write: the file gets its old length, the producers their old state, or the log ends.
    fn take_back(&mut self, old_size: u64, error: &io::Error) -> Result<AppendError, LogError> {
        self.run.clear();
        self.aborted.clear();
        let (log_end_offset, open) = (self.view.log_end_offset(), self.producers.roll_back());
        self.view.change_transactions(|transactions| {
            transactions.truncate_to(log_end_offset);
            open.into_iter().for_each(|first_offset| transactions.begin(first_offset));
        });
        let refusal = if disk::is_disk_full(error) {
            AppendError::DiskFull
        } else if disk::is_exhausted(error) {
            AppendError::Exhausted
        } else {
            return Err(self.view.fail("append failed", error));
        };
        match self.active.log_file().and_then(|file| file.set_len(old_size)) {
            Ok(()) => {
                tracing::warn!(dir = %self.dir.display(), "append refused: {error}");
                Ok(refusal)
            }
            // The file was not even opened, so there is nothing to undo.
            Err(error) if disk::is_exhausted(&error) => Ok(refusal),
            Err(error) => Err(self.view.fail("taking back an append failed", &error)),
        }
    }

    // --- Rolling

    /// Starts a new segment, if the active one has anything in it.
    pub fn roll(&mut self, now: Now) -> Result<(), LogError> {
        self.view.check()?;
        if self.active.size() == 0 { Ok(()) } else { self.roll_to(self.view.log_end_offset(), now) }
    }

    /// Starts a new segment at `base_offset`. A retriable error leaves everything as it was.
    pub(crate) fn roll_to(&mut self, base_offset: i64, now: Now) -> Result<(), LogError> {
        let segment = Arc::new(self.new_segment(base_offset));
        segment.create().map_err(|error| self.view.write_error("making a segment failed", error))?;
        self.view.note_dir_changed();
        let old = std::mem::replace(&mut self.active, segment.clone());
        self.active_created_ms = now.wall_ms;
        self.active_first_timestamp = None;
        let was_empty = old.size() == 0;
        self.view.publish(|published| {
            if was_empty {
                published.segments.pop();
            }
            published.segments.push(segment);
        });
        if was_empty {
            // Durably: if the empty file came back, it would seem to end the segment before it.
            let removed = self.remove_files(&old).and_then(|()| self.disk.sync_dir(&self.dir));
            removed.map_err(|error| self.view.fail("removing an empty segment failed", &error))?;
        } else {
            old.release_allocated();
            self.index_result(old.complete_indexes())?;
        }
        later_if_retriable(self.write_snapshot(false))
    }

    pub(crate) fn new_segment(&self, base_offset: i64) -> Segment {
        let retired = self.view.retired().clone();
        Segment::new(self.disk.clone(), self.dir.clone(), retired, base_offset, self.config.index_interval_bytes, 0)
    }

    /// Removes the files of a segment that nobody reads any more.
    pub(crate) fn remove_files(&self, segment: &Segment) -> io::Result<()> {
        for kind in Kind::OF_SEGMENT {
            remove_if_there(&*self.disk, &segment.path(kind))?;
        }
        self.view.note_dir_changed();
        Ok(())
    }

    // --- Producers

    /// For DescribeProducers, in the order of their ids.
    pub fn describe_producers(&self) -> Vec<ProducerState> {
        self.producers.sorted()
    }

    pub fn producer(&self, producer_id: i64) -> Option<&ProducerState> {
        self.producers.get(producer_id)
    }

    pub fn producer_count(&self) -> usize {
        self.producers.len()
    }

    /// Forgets producers that were silent for `producer.id.expiration.ms`; to be called now and then.
    pub fn remove_expired_producers(&mut self, now: Now) -> usize {
        self.producers.remove_expired(now, self.config.producer_id_expiration_ms)
    }

    /// Writes the producers' state at the log's end, so that a recovery from here on need not look further back. To be
    /// called before the recovery point is checkpointed, and done by rolls and by a clean close.
    pub fn write_snapshot(&mut self, sync: bool) -> Result<(), LogError> {
        let offset = self.view.log_end_offset();
        if offset <= self.last_snapshot {
            return Ok(());
        }
        snapshot::write(&*self.disk, &self.dir, offset, &self.producers.sorted(), sync)
            .map_err(|error| self.view.write_error("writing a producer snapshot failed", error))?;
        self.view.note_dir_changed();
        // Kafka keeps one per segment; those in between were for recovery points that have passed.
        let previous = std::mem::replace(&mut self.last_snapshot, offset);
        let superseded = std::mem::replace(&mut self.previous_snapshot, previous);
        if superseded >= 0 && !self.is_base_offset(superseded) {
            remove_if_there(&*self.disk, &names::path(&self.dir, superseded, Kind::Snapshot, Stage::Live))?;
        }
        Ok(())
    }

    /// Whether a segment starts at this offset.
    pub(crate) fn is_base_offset(&self, offset: i64) -> bool {
        self.view.published().segments.iter().any(|segment| segment.base_offset() == offset)
    }

    // --- Leader epochs

    /// Notes that a leader epoch begins at the log's end, before there is a record of it.
    pub fn assign_epoch(&mut self, epoch: i32) -> Result<(), LogError> {
        self.view.check()?;
        self.producers.forget_verifications();
        let log_end_offset = self.view.log_end_offset();
        self.view.epochs().assign(epoch, log_end_offset);
        Ok(())
    }

    // --- Closing

    /// Writes and syncs everything, so that the next opening has nothing to recover. Returns the recovery point.
    pub fn close(&mut self) -> Result<i64, LogError> {
        self.view.check()?;
        self.active.release_allocated();
        let is_empty = self.active.size() == 0;
        if !is_empty {
            self.index_result(self.active.complete_indexes())?;
        }
        self.write_snapshot(true)?;
        let end = self.view.sync()?;
        if !is_empty {
            self.active.sync_indexes().map_err(|error| self.view.fail("sync failed", &error))?;
        }
        self.release_files();
        Ok(end)
    }

    /// Lets go of all files: there may be more logs than the process may have descriptors.
    pub(crate) fn release_files(&self) {
        self.view.published().segments.iter().for_each(|segment| segment.release());
    }

    /// Ends all use of the directory, before it is renamed or removed because its topic was deleted. Reads that are
    /// under way finish, new ones are refused.
    pub fn retire(&mut self) {
        self.view.retired().store(true, Ordering::SeqCst);
    }
}

/// What the transaction index gets for a marker.
pub(crate) fn aborted_by(
    header: &BatchHeader,
    marker: Option<Marker>,
    first_offset: i64,
    last_stable_offset: i64,
) -> Option<AbortedTransaction> {
    let (producer_id, last_offset) = (header.producer_id, header.base_offset);
    let aborted = AbortedTransaction { producer_id, first_offset, last_offset, last_stable_offset };
    marker.is_some_and(|marker| marker.is_abort).then_some(aborted)
}

/// What cannot be done for want of room or descriptors is done with the next sync or roll.
pub(crate) fn later_if_retriable(result: Result<(), LogError>) -> Result<(), LogError> {
    match result {
        Err(error) if error.is_retriable() => Ok(()),
        result => result,
    }
}

/// The retriable ones concern the batch, the others end the log's use.
fn as_append_error(error: LogError) -> Result<AppendError, LogError> {
    match error {
        LogError::DiskFull(_) => Ok(AppendError::DiskFull),
        LogError::Exhausted(_) => Ok(AppendError::Exhausted),
        error => Err(error),
    }
}

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
