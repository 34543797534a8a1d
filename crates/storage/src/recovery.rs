//! Opening a log: what a crash left behind is put in order, and nothing valid is thrown away.
//!
//! After a clean shutdown only the end of the active segment is looked at. Otherwise everything from the recovery point
//! on is read and its CRCs are checked. What is torn behind the last valid batch is cut; a bad batch in front of a
//! valid one stays and is reported. Unlike Kafka, which truncates at the first bad batch (`LogSegment.recover`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wire::Uuid;
use wire::batch::BatchHeader;

use crate::config::{LogConfig, Now};
use crate::disk::Disk;
use crate::epochs::Epochs;
use crate::error::LogError;
use crate::log::{Log, aborted_by, remove_if_there};
use crate::names::{self, Kind, Stage, TRUNCATION_CHECKPOINT};
use crate::part::Part;
use crate::producers::{ProducerState, Producers};
use crate::scan::{BadRange, Item, Walk};
use crate::segment::{LocatedBatch, Segment};
use crate::truncations::Truncations;
use crate::view::{LogView, Published};
use crate::{failed_sync, markers, partition_metadata, snapshot};

/// How far in front of a snapshot batches are looked for that a producer may send again: so many offsets, and more
/// where these are in less than so many batches, up to the greater.
const RECALLED_OFFSETS: i64 = 5000;
const RECALLED_OFFSETS_MAX: i64 = 64 * RECALLED_OFFSETS;
const RECALLED_BATCHES: usize = 500;

/// What the owner of the log remembers of it.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Everything below was on disk: from the checkpoint, 0 if unknown. Too low costs time. Too high (from another log
    /// of the same name) can make a torn end look like damage: checkpoint it again when [`LogView::synced_offset`] is
    /// lower after opening. One from before a truncation is recognised.
    pub recovery_point: i64,
    /// From the checkpoint, 0 if unknown. One that lies behind the end of the log is ignored.
    pub log_start_offset: i64,
    /// [`Log::close`] was the last thing that happened.
    pub clean_shutdown: bool,
    pub now: Now,
}

/// What recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    pub log_start_offset: i64,
    pub log_end_offset: i64,
    /// As far as the given one is believed. A log that ends before it has lost what was on disk.
    pub recovery_point: i64,
    /// Bytes whose CRCs were checked.
    pub verified_bytes: u64,
    /// What was torn at the end, and cut.
    pub cut: Option<Cut>,
    /// What stays in the log and cannot be read.
    pub bad_ranges: Vec<BadRange>,
    /// Segments whose indexes did not fit and were made anew.
    pub indexes_rebuilt: u32,
    pub epochs_rebuilt: bool,
    /// From where on the log was read for the producers' states.
    pub producers_from: i64,
    /// Leftovers of deletions and compactions.
    pub files_removed: u32,
    /// Compactions that were completed.
    pub swaps_completed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log ends here now.
    pub offset: i64,
    pub segment: i64,
    pub position: u64,
    pub bytes: u64,
}

/// A segment being opened.
struct Found {
    segment: Arc<Segment>,
    upper_offset: i64,
    /// Where the last valid batch ends; the whole size if nobody looked.
    valid_size: u64,
    /// The offset behind the last valid batch; the next segment's base offset if nobody looked.
    next_offset: i64,
    has_valid: bool,
}

struct Opening {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    config: LogConfig,
    options: OpenOptions,
    retired: Arc<AtomicBool>,
    /// Base offsets of segments that a compaction was about to swap in: whether their transaction indexes are the old
    /// or the new ones, or were lost on the way, the names of the files do not say.
    half_swapped: BTreeSet<i64>,
    report: RecoveryReport,
}

impl Log {
    /// Makes the directory of a new log, durably. If there is one already it is opened.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        config: LogConfig,
        topic_id: Uuid,
        now: Now,
    ) -> Result<(Self, RecoveryReport), LogError> {
        disk.create_dir_all(&dir)?;
        partition_metadata::write_topic_id(&*disk, &dir, topic_id)?;
        let options = OpenOptions { recovery_point: 0, log_start_offset: 0, clean_shutdown: false, now };
        let (log, report) = Self::open(disk, dir, config, options)?;
        log.view.sync()?;
        Ok((log, report))
    }

    /// Opens the log in `dir`, which must exist. See the module's documentation.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        config: LogConfig,
        options: OpenOptions,
    ) -> Result<(Self, RecoveryReport), LogError> {
        let opening = Opening {
            disk,
            dir: dir.into(),
            config,
            options,
            retired: Arc::new(AtomicBool::new(false)),
            half_swapped: BTreeSet::new(),
            report: RecoveryReport::default(),
        };
        opening.run()
    }

    /// Reads the producers' states from the newest snapshot that holds, and from the batches behind it. What lies
    /// behind `trusted_up_to` was verified by the caller, and is newer than any snapshot that may be believed.
    pub(crate) fn reload_producers(&mut self, trusted_up_to: i64, now: Now) -> Result<i64, LogError> {
        let log_end_offset = self.view.log_end_offset();
        let mut snapshots = snapshot::offsets(&*self.disk, &self.dir)?;
        self.remove_snapshots(|offset| offset > trusted_up_to.min(log_end_offset))?;
        snapshots.retain(|&offset| offset <= trusted_up_to.min(log_end_offset));
        self.producers.clear();
        let mut transactions = self.view.transactions().clone();
        transactions.restart_at(log_end_offset);
        let (mut from, mut last_snapshot) = (self.view.published().segments[0].base_offset(), -1);
        while let Some(offset) = snapshots.pop() {
            if let Some(states) = snapshot::read(&*self.disk, &self.dir, offset)? {
                self.producers.load(states, now.monotonic_ms);
                (from, last_snapshot) = (from.max(offset), offset);
                break;
            }
            tracing::warn!(dir = %self.dir.display(), offset, "producer snapshot is garbage, removing it");
            remove_if_there(&*self.disk, &names::path(&self.dir, offset, Kind::Snapshot, Stage::Live))?;
        }
        self.last_snapshot = last_snapshot;
        self.previous_snapshot = -1;
        self.remove_snapshots(|offset| offset < last_snapshot && !self.is_base_offset(offset))?;
        self.producers.open_transactions().for_each(|first_offset| transactions.begin(first_offset));
        if self.producers.len() > 0 {
            self.recall_producers(from);
        }
        let parts = self.view.published().with_sizes();
        let indexed_to = trusted_up_to.min(log_end_offset);
        let is_active = |part: &Part| Arc::ptr_eq(&part.segment, &self.active);
        for part in parts.iter().filter(|part| part.upper_offset > from.min(indexed_to) || is_active(part)) {
            self.view.ensure_txn_index(part)?;
            // What lies behind was not on disk for certain; it is noted again below.
            part.segment.truncate_txn_index(indexed_to)?;
        }
        for part in parts.iter().filter(|part| part.upper_offset > from && part.size > 0) {
            let (start, lowest) = match part.segment.locate(from, part.size, part.upper_offset) {
                Ok(Some(position)) => position,
                Ok(None) => continue,
                // A bad batch is in the way; its segment is walked through from the start.
                Err(_) => (0, part.segment.base_offset()),
            };
            let file = part.segment.log_file()?;
            // With their CRCs, where that was not done just now: a damaged header must not fence a producer.
            let walk = part.segment.verified(file.clone(), part.size, part.upper_offset);
            let mut walk = walk.with_known_bad(part.segment.bad_ranges()).from(start, lowest);
            let mut is_verifying = true;
            loop {
                if is_verifying && walk.next_offset() >= trusted_up_to {
                    let headers = part.segment.headers(file.clone(), part.size, part.upper_offset);
                    walk = headers.from(walk.position(), walk.next_offset());
                    is_verifying = false;
                }
                let Some(item) = walk.step()? else { break };
                let (position, header) = match item {
                    Item::Batch(position, header) => (position, header),
                    Item::Bad { range, .. } => {
                        part.segment.mark_bad(range);
                        continue;
                    }
                };
                if header.base_offset < from || !header.has_producer_id() {
                    continue;
                }
                if header.attributes.is_control() {
                    let marker = markers::read_at(&*file, position, &header)?;
                    if let Some(first_offset) = self.producers.note_marker(&header, marker, now.monotonic_ms) {
                        let last_stable_offset = transactions.end(first_offset, header.base_offset);
                        let aborted = aborted_by(&header, marker, first_offset, last_stable_offset);
                        if let Some(aborted) = aborted
                            && !crate::injected_fault!(RecoveryLosesAborted)
                        {
                            let written = part.segment.push_aborted(&[aborted]);
                            self.index_result(written.map(|is_new| self.view.note_dir_changed_if(is_new)))?;
                        }
                    }
                } else if self.producers.note_batch(&header, now.monotonic_ms).transaction {
                    transactions.begin(header.base_offset);
                }
            }
            self.producers.enforce_limit(self.config.producers_max);
        }
        self.view.change_transactions(|known| *known = transactions);
        Ok(from)
    }
}

impl Log {
    /// A snapshot does not say which transactions ended before it, and it may lie behind the high watermark, of which
    /// nothing is known yet. Kafka takes all of them for replicated; here nothing is stable until they are.
    fn hold_unknown_transactions(&self) {
        let has_ended = |state: &ProducerState| state.coordinator_epoch >= 0;
        if self.last_snapshot > 0 && self.producers.any(has_ended) {
            let log_start_offset = self.view.log_start_offset();
            self.view.change_transactions(|transactions| transactions.hold(log_start_offset, self.last_snapshot));
        }
    }

    /// Completes what a snapshot at `offset` says of producers with the batches in front of it.
    fn recall_producers(&mut self, offset: i64) {
        let (view, mut offsets) = (self.view.clone(), RECALLED_OFFSETS);
        loop {
            let start = offset.saturating_sub(offsets).max(view.log_start_offset());
            let headers: Vec<_> = view.headers(start, offset).filter_map(Result::ok).collect();
            let is_all = start == view.log_start_offset() || offsets >= RECALLED_OFFSETS_MAX;
            if is_all || headers.len() >= RECALLED_BATCHES {
                return self.producers.recall(headers.into_iter());
            }
            offsets *= 8;
        }
    }
}

impl Opening {
    fn run(mut self) -> Result<(Log, RecoveryReport), LogError> {
        let truncations = self.load_truncations()?;
        self.complete_swaps()?;
        let bases = self.sort_out_files()?;
        let mut epochs = Epochs::load(&*self.disk, &self.dir)?;
        if let Some(epochs) = epochs.as_mut().filter(|_| !self.options.clean_shutdown) {
            // Entries of what is read anyway may speak of batches that are gone, and would hide those that came
            // instead.
            epochs.truncate_from_end(self.options.recovery_point);
        }
        let mut found = self.open_segments(&bases)?;
        self.look_at(&mut found, &mut epochs)?;
        let log_end_offset = self.settle_end(&mut found)?;
        if !self.options.clean_shutdown || self.report.files_removed > 0 {
            // What is removed, now or by a process that died before it could sync, must not come back beside new data.
            self.disk.sync_dir(&self.dir)?;
        }
        let is_new = found.is_empty();
        if is_new {
            let segment = Arc::new(self.segment(log_end_offset, 0));
            segment.create()?;
            found.push(Found {
                segment,
                upper_offset: i64::MAX,
                valid_size: 0,
                next_offset: log_end_offset,
                has_valid: false,
            });
        }
        let first_base = found[0].segment.base_offset();
        let mut log_start_offset = first_base.max(self.options.log_start_offset);
        if log_start_offset > log_end_offset {
            // Whoever raises it syncs the log first, so this one was not written by us.
            tracing::warn!(dir = %self.dir.display(), log_start_offset, log_end_offset, "log start offset is behind the end");
            log_start_offset = first_base;
        }
        let clean = self.options.clean_shutdown;
        let synced_offset =
            if clean { log_end_offset } else { self.options.recovery_point.clamp(log_start_offset, log_end_offset) };
        let segments: Vec<_> = found.into_iter().map(|found| found.segment).collect();
        let active = segments[segments.len() - 1].clone();
        if !clean {
            active.suspect_allocated();
        }
        let durable_offset = synced_offset;
        let published = Published { segments, log_start_offset, log_end_offset, synced_offset, durable_offset };
        let epochs = match epochs {
            // The log start may be an older one than when the file was written.
            Some(epochs) if epochs.entries().first().is_some_and(|first| first.start_offset <= log_start_offset) => {
                epochs
            }
            _ => self.rebuild_epochs(&published)?,
        };
        let view = LogView::new(self.disk.clone(), self.dir.clone(), published, self.retired.clone(), epochs);
        if is_new {
            view.note_dir_changed();
        }
        view.epochs().truncate_from_end(log_end_offset);
        view.epochs().truncate_from_start(log_start_offset);
        let parts = view.published().with_sizes();
        let synced_count = parts.partition_point(|part| part.upper_offset <= synced_offset);
        // Those that a sync takes: indexes of segments that were rolled since may not be synced.
        failed_sync::write_again(&*self.disk, &self.dir, &parts[synced_count.saturating_sub(2)..])?;
        let view = Arc::new(view);
        let now = self.options.now;
        let mut log = Log::assemble(
            self.disk.clone(),
            self.dir.clone(),
            self.config,
            view,
            active,
            Producers::default(),
            -1,
            now,
        );
        log.truncations = truncations;
        for part in log.view.published().with_sizes() {
            if self.half_swapped.contains(&part.segment.base_offset()) {
                log.view.rebuild_txn_index(&part)?;
            }
        }
        let trusted = if clean { i64::MAX } else { self.options.recovery_point };
        self.report.producers_from = log.reload_producers(trusted, now)?;
        log.hold_unknown_transactions();
        log.active_first_timestamp =
            log.active.first_header(log.active.size(), log_end_offset)?.map(|header| header.max_timestamp);
        log.release_files();
        self.report.bad_ranges = log.view.bad_ranges();
        self.report.log_start_offset = log_start_offset;
        self.report.log_end_offset = log_end_offset;
        self.report.recovery_point = self.options.recovery_point;
        Ok((log, self.report))
    }

    /// Takes back the recovery point if it is from before a truncation.
    fn load_truncations(&mut self) -> Result<Truncations, LogError> {
        let mut truncations = Truncations::load(&*self.disk, &self.dir)?;
        if self.options.clean_shutdown {
            // A clean close is checkpointed.
            remove_if_there(&*self.disk, &self.dir.join(TRUNCATION_CHECKPOINT))?;
            return Ok(Truncations::default());
        }
        self.options.recovery_point = truncations.believe(self.options.recovery_point);
        Ok(truncations)
    }

    fn segment(&self, base_offset: i64, size: u64) -> Segment {
        let (disk, dir, retired) = (self.disk.clone(), self.dir.clone(), self.retired.clone());
        Segment::new(disk, dir, retired, base_offset, self.config.index_interval_bytes, size)
    }

    fn files(&self) -> Result<Vec<(String, i64, Kind, Stage)>, LogError> {
        let entries = self.disk.read_dir(&self.dir)?;
        let files = entries.into_iter().filter(|entry| !entry.is_dir);
        Ok(files.filter_map(|file| names::parse(&file.name).map(|(o, k, s)| (file.name, o, k, s))).collect())
    }

    /// Completes a compaction that was past the point of no return: its result is durable under the name `.swap`, and
    /// replaces the segments whose offsets it covers (`LogLoader`).
    fn complete_swaps(&mut self) -> Result<(), LogError> {
        let files = self.files()?;
        let is_swap = |(_, _, kind, stage): &&(String, i64, Kind, Stage)| {
            matches!(kind, Kind::Log | Kind::TxnIndex) && *stage == Stage::Swap
        };
        self.half_swapped = files.iter().filter(is_swap).map(|&(_, base, ..)| base).collect();
        let swaps = files.iter().filter(|(_, _, kind, stage)| (*kind, *stage) == (Kind::Log, Stage::Swap));
        for &(ref name, base, ..) in swaps {
            let file = self.disk.open(&self.dir.join(name), crate::disk::OpenMode::Read)?;
            let mut walk = Walk::new(file.clone(), base, file.len()?, i64::MAX, false);
            let mut end = base;
            while let Some(item) = walk.step()? {
                if let Item::Batch(_, header) = item {
                    end = header.next_offset();
                }
            }
            tracing::info!(dir = %self.dir.display(), base, end, "completing an interrupted compaction");
            for (name, offset, kind, stage) in &files {
                let is_replaced =
                    *stage == Stage::Live && Kind::OF_SEGMENT.contains(kind) && (base..end).contains(offset);
                if is_replaced {
                    remove_if_there(&*self.disk, &self.dir.join(name))?;
                }
            }
            self.disk.sync_dir(&self.dir)?;
            for (name, ..) in files.iter().filter(|(_, o, _, stage)| (*o, *stage) == (base, Stage::Swap)) {
                let live = name.strip_suffix(".swap").unwrap_or(name);
                self.disk.rename(&self.dir.join(name), &self.dir.join(live))?;
            }
            self.disk.sync_dir(&self.dir)?;
            self.report.swaps_completed += 1;
        }
        Ok(())
    }

    /// Removes leftovers and orphans. Returns the base offsets of the segments, ascending. Files that are not ours
    /// stay.
    fn sort_out_files(&mut self) -> Result<Vec<i64>, LogError> {
        let files = self.files()?;
        let bases: BTreeMap<i64, ()> = files
            .iter()
            .filter(|(_, _, kind, stage)| (*kind, *stage) == (Kind::Log, Stage::Live))
            .map(|&(_, offset, ..)| (offset, ()))
            .collect();
        for (name, offset, kind, stage) in &files {
            let is_orphan =
                matches!(kind, Kind::Index | Kind::TimeIndex | Kind::TxnIndex) && !bases.contains_key(offset);
            if *stage != Stage::Live || is_orphan {
                remove_if_there(&*self.disk, &self.dir.join(name))?;
                self.report.files_removed += 1;
            }
        }
        Ok(bases.into_keys().collect())
    }

    fn open_segments(&self, bases: &[i64]) -> Result<Vec<Found>, LogError> {
        let mut found = Vec::with_capacity(bases.len());
        for (index, &base) in bases.iter().enumerate() {
            let segment = Arc::new(self.segment(base, 0));
            // Sizes beyond what an index can say are not ours; the rest is garbage that nothing points to.
            let size = segment.log_file()?.len()?.min(u64::from(u32::MAX));
            segment.set_size(size);
            let upper_offset = bases.get(index + 1).copied().unwrap_or(i64::MAX);
            found.push(Found { segment, upper_offset, valid_size: size, next_offset: upper_offset, has_valid: true });
        }
        Ok(found)
    }

    /// Reads what has to be read of each segment, fills their indexes, and notes where the valid part ends.
    fn look_at(&mut self, found: &mut [Found], epochs: &mut Option<Epochs>) -> Result<(), LogError> {
        let (clean, recovery_point) = (self.options.clean_shutdown, self.options.recovery_point);
        let last = found.len().saturating_sub(1);
        for (index, found) in found.iter_mut().enumerate() {
            let is_last = index == last;
            if !is_last && (clean || found.upper_offset <= recovery_point) {
                continue;
            }
            let from = if clean { i64::MAX } else { recovery_point };
            let (position, next_offset, rebuilt) = found.segment.trim_indexes(from, found.upper_offset)?;
            self.report.indexes_rebuilt += u32::from(rebuilt);
            let (file, size, upper_offset) = (found.segment.log_file()?, found.segment.size(), found.upper_offset);
            let walk = if clean {
                found.segment.headers(file, size, upper_offset)
            } else {
                self.report.verified_bytes += size - position.min(size);
                found.segment.verified(file, size, upper_offset)
            };
            let epoch = epochs.as_ref().and_then(|epochs| epochs.epoch_for_offset(next_offset - 1));
            self.walk_to_end(found, walk.from(position, next_offset).after_epoch(epoch), epochs)?;
            if !is_last {
                found.segment.complete_indexes()?;
            }
        }
        Ok(())
    }

    fn walk_to_end(&self, found: &mut Found, mut walk: Walk, epochs: &mut Option<Epochs>) -> Result<(), LogError> {
        found.valid_size = walk.position();
        found.next_offset = walk.next_offset();
        found.has_valid = found.valid_size > 0;
        loop {
            let expected = walk.next_offset();
            let Some(item) = walk.step()? else { break };
            match item {
                Item::Batch(_, header)
                    if walk.position() >= found.segment.size() && self.is_misplaced(&header, expected, found) =>
                {
                    break;
                }
                Item::Batch(position, header) => {
                    if found.segment.note_appended(&[LocatedBatch { position, header }]) {
                        found.segment.write_indexes()?;
                    }
                    if let Some(epochs) = epochs {
                        epochs.observe(header.partition_leader_epoch, header.base_offset);
                    }
                    found.valid_size = walk.position();
                    found.next_offset = header.next_offset();
                    found.has_valid = true;
                }
                Item::Bad { range, is_tail: false } => {
                    found.segment.mark_bad(range);
                }
                // Whether it is cut depends on what comes behind: settle_end.
                Item::Bad { is_tail: true, .. } => break,
            }
        }
        Ok(())
    }

    /// Whether the base offset of a log's last batch, which its CRC does not cover, has a flipped bit: no batch behind
    /// it can tell. Only logs that are compacted have gaps.
    fn is_misplaced(&self, header: &BatchHeader, expected: i64, found: &Found) -> bool {
        let is_last = found.upper_offset == i64::MAX;
        let is_end = self.options.clean_shutdown && header.next_offset() == self.options.recovery_point;
        let differs_by_a_bit = (header.base_offset ^ expected).count_ones() == 1;
        is_last && !is_end && differs_by_a_bit && !self.config.cleanup_policy.compact
    }

    /// Decides where the log ends: cuts what is torn, keeps what is damaged. Returns the log end offset.
    fn settle_end(&mut self, found: &mut Vec<Found>) -> Result<i64, LogError> {
        let mut last = found.iter().rposition(|found| found.has_valid).unwrap_or(0);
        let Some(at) = found.get(last) else { return Ok(self.options.log_start_offset.max(0)) };
        // A file that was just made for the offset at which the valid part ends is the active segment.
        let mut rolled_at = Some(at.next_offset).filter(|_| at.has_valid && at.valid_size == at.segment.size());
        while let Some(next) = found.get(last + 1) {
            let base_offset = next.segment.base_offset();
            // What was on disk by the recovery point is damaged and not torn.
            let was_synced = next.segment.size() > 0 && base_offset < self.options.recovery_point;
            if rolled_at.take() != Some(base_offset) && !was_synced {
                break;
            }
            last += 1;
        }
        let mut bytes = 0;
        for removed in found.drain(last + 1..) {
            bytes += removed.segment.size();
            self.remove_segment(&removed.segment)?;
        }
        self.mark_bad_tails(&found[..last]);
        let active = &found[last];
        let (cut_at, next_offset) = match active.has_valid {
            true => (active.valid_size, active.next_offset),
            false => (0, active.segment.base_offset()),
        };
        let damaged_end = self.damaged_end(&active.segment, cut_at, next_offset);
        if damaged_end > next_offset {
            // Its offsets are not given out again.
            active.segment.mark_bad(BadRange {
                segment: active.segment.base_offset(),
                position: cut_at,
                end_position: active.segment.size(),
                first_offset: next_offset,
                next_offset: damaged_end,
            });
            return Ok(damaged_end);
        }
        self.cut(&active.segment, cut_at, next_offset, active.segment.size() - cut_at + bytes)?;
        Ok(next_offset)
    }

    /// Segments in front of valid ones whose ends are missing or bad.
    fn mark_bad_tails(&self, found: &[Found]) {
        let is_compacted = self.config.cleanup_policy.compact;
        for found in found {
            let (size, base) = (found.segment.size(), found.segment.base_offset());
            let is_short = found.next_offset < found.upper_offset && !is_compacted;
            if found.valid_size < size || is_short {
                found.segment.mark_bad(BadRange {
                    segment: base,
                    position: found.valid_size,
                    end_position: size,
                    first_offset: found.next_offset,
                    next_offset: found.upper_offset,
                });
            }
        }
    }

    /// Up to which offset the bytes from `position` on, which hold no valid batch, had records that were on disk by the
    /// recovery point; `next_offset` if none. What the bytes say themselves is not believed: their checksum does not
    /// fit. The recovery point may be another log's, of a topic with the same name, so it is believed only as far as
    /// there are bytes for it.
    fn damaged_end(&self, segment: &Segment, position: u64, next_offset: i64) -> i64 {
        let bytes = segment.size() - position;
        let at_most = next_offset.saturating_add_unsigned(bytes);
        self.options.recovery_point.min(at_most).max(next_offset)
    }

    fn cut(&mut self, segment: &Segment, position: u64, offset: i64, bytes: u64) -> Result<(), LogError> {
        if bytes == 0 {
            return Ok(());
        }
        let cut = Cut { offset, segment: segment.base_offset(), position, bytes };
        tracing::warn!(
            dir = %self.dir.display(), offset, segment = cut.segment, position, bytes,
            "cut what was torn behind the last valid batch"
        );
        let file = segment.log_file()?;
        file.set_len(position)?;
        file.sync_data()?;
        segment.set_size(position);
        self.report.cut = Some(cut);
        Ok(())
    }

    fn remove_segment(&self, segment: &Segment) -> Result<(), LogError> {
        for kind in Kind::OF_SEGMENT {
            remove_if_there(&*self.disk, &segment.path(kind))?;
        }
        Ok(())
    }

    /// Reads the leader epochs off the batches. A segment that starts with the same epoch as the next one has no other.
    fn rebuild_epochs(&mut self, published: &Published) -> Result<Epochs, LogError> {
        let mut epochs = Epochs::default();
        let parts = published.with_sizes();
        let mut first_epochs = Vec::with_capacity(parts.len());
        for part in &parts {
            let first = part.segment.first_header(part.size, part.upper_offset)?;
            first_epochs.push(first.map(|header| (header.partition_leader_epoch, header.base_offset)));
        }
        for (index, part) in parts.iter().enumerate() {
            let Some((epoch, base_offset)) = first_epochs[index] else { continue };
            self.report.epochs_rebuilt = true;
            epochs.observe(epoch, base_offset);
            let next = first_epochs.get(index + 1).copied().flatten();
            if next.is_some_and(|(next, _)| next == epoch) {
                continue;
            }
            let mut walk = part.headers()?;
            while let Some(item) = walk.step()? {
                if let Item::Batch(_, header) = item {
                    epochs.observe(header.partition_leader_epoch, header.base_offset);
                }
            }
        }
        Ok(epochs)
    }
}
