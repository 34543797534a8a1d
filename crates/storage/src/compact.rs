//! Log compaction, as Kafka's cleaner does it (`LogCleaner`, `Cleaner`): of each key the latest value is kept.
//!
//! The active segment is never touched, offsets stay as they are. Tombstones and transaction markers go
//! `delete.retention.ms` after the first cleaning that saw them (KIP-534). The last batch of each known producer stays,
//! if need be without its records, so that the producer's sequence survives.
//!
//! The work is done beside the log, without its owner's lock: [`Log::begin_compaction`] takes stock,
//! [`Compaction::clean_next`] writes one new segment (`.cleaned`) after the other, [`Log::swap_in`] puts it in the
//! place of the old ones. Once the new files are called `.swap` and the directory is synced, recovery completes the
//! replacement; before that, it drops them.

use std::collections::{HashMap, HashSet};
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::batch::{Batch, BatchHeader, DeleteHorizon, Retained, retain};
use wire::record::{Record, RecordReader};

use crate::config::{LogConfig, Now};
use crate::disk::{Disk, OpenMode, read_exact_at, write_all_at};
use crate::error::LogError;
use crate::keymap::KeyMap;
use crate::log::{Log, SEGMENT_BYTES_MAX, remove_if_there};
use crate::names::{self, Kind, Stage};
use crate::part::Part;
use crate::scan::Item;
use crate::segment::{LocatedBatch, Segment};
use crate::txn_index::AbortedTransaction;
use crate::view::LogView;

/// So much is gathered before it is written.
const WRITE_BUFFER_BYTES: usize = 1 << 20;
const FILES: [Kind; 4] = [Kind::TxnIndex, Kind::TimeIndex, Kind::Index, Kind::Log];

/// What a compaction would have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleanable {
    pub first_dirty_offset: i64,
    /// Compaction stops before this.
    pub first_uncleanable_offset: i64,
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    /// Something is older than `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

impl Cleanable {
    /// The part of the bytes that was never compacted.
    pub fn dirty_per_mille(&self) -> u32 {
        let total = self.clean_bytes + self.cleanable_bytes;
        (self.cleanable_bytes * 1000).checked_div(total).unwrap_or(0) as u32
    }

    /// Whether it is worth while (`min.cleanable.dirty.ratio`) or necessary.
    pub fn is_due(&self, config: &LogConfig) -> bool {
        self.cleanable_bytes > 0 && (self.is_overdue || self.dirty_per_mille() >= config.min_cleanable_dirty_per_mille)
    }
}

/// What a compaction may use.
#[derive(Clone, Copy, Debug)]
pub struct CompactionLimits {
    /// Keys in memory, about 64 bytes each. If there are more, the rest of the log is left for the next time.
    pub keys_max: usize,
    /// Of one batch.
    pub decompressed_bytes_max: usize,
    /// Keys the hash of the records' keys. Random, so that nobody can make keys with the same hash.
    pub hash_key: [u64; 2],
}

/// One compaction of one log.
pub struct Compaction {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    view: Arc<LogView>,
    config: LogConfig,
    limits: CompactionLimits,
    now: Now,
    first_dirty_offset: i64,
    first_uncleanable_offset: i64,
    parts: Vec<Part>,
    /// What is not compacted, up to the end of the log.
    later_parts: Vec<Part>,
    /// The last batch of each producer: its last offset (-1 if a marker is the last that is known of it), its epoch.
    last_batches: HashMap<i64, (i64, i16)>,
    /// The aborted transactions of each producer, in their order.
    aborted: HashMap<i64, Vec<AbortedTransaction>>,
    /// Those that end in the segment being written, and have batches left.
    retained_aborted: Vec<AbortedTransaction>,
    map: KeyMap,
    /// The map knows the latest offsets below this.
    mapped_to: i64,
    is_mapped: bool,
    next_part: usize,
    /// Producers of whose current transaction a batch was read in this pass.
    observed: HashSet<i64>,
    stats: CompactionStats,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    pub keys: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub records_read: u64,
    pub records_kept: u64,
}

/// A new segment, written and synced, and those that it replaces.
pub struct Cleaned {
    sources: Vec<Arc<Segment>>,
    /// `None` if nothing is left.
    segment: Option<Arc<Segment>>,
    base_offset: i64,
}

impl Log {
    /// What there is to compact (`LogCleanerManager.cleanableOffsets`). `first_dirty_offset` is where the last
    /// compaction ended; `end_offset`, at most the last stable offset, bounds this one, and so does the oldest open
    /// transaction.
    pub fn cleanable(&self, first_dirty_offset: i64, end_offset: i64, now: Now) -> Result<Cleanable, LogError> {
        let (parts, log_start_offset, log_end_offset) = {
            let published = self.view.published();
            (published.with_sizes(), published.log_start_offset, published.log_end_offset)
        };
        let is_valid = (log_start_offset..=log_end_offset).contains(&first_dirty_offset);
        let first_dirty_offset = if is_valid { first_dirty_offset } else { log_start_offset };
        let mut uncleanable = end_offset.min(self.active.base_offset());
        if let Some(first_undecided_offset) = self.view.first_undecided_offset() {
            uncleanable = uncleanable.min(first_undecided_offset);
        }
        let mut is_overdue = false;
        let (min_lag_ms, max_lag_ms) = (self.config.min_compaction_lag_ms, self.config.max_compaction_lag_ms);
        for part in parts.iter().filter(|part| part.upper_offset > first_dirty_offset) {
            if part.segment.base_offset() >= uncleanable {
                break;
            }
            if min_lag_ms > 0 {
                let newest = part.segment.max_timestamp(part.size, part.upper_offset)?.timestamp;
                if newest > now.wall_ms.saturating_sub(min_lag_ms) {
                    uncleanable = part.segment.base_offset();
                    break;
                }
            }
            let first = part.segment.first_header(part.size, part.upper_offset)?;
            is_overdue |= first.is_some_and(|header| {
                header.max_timestamp > 0 && header.max_timestamp < now.wall_ms.saturating_sub(max_lag_ms)
            });
        }
        // Whole segments only.
        let (mut clean_bytes, mut cleanable_bytes) = (0, 0);
        for part in &parts {
            if part.upper_offset <= first_dirty_offset {
                clean_bytes += part.size;
            } else if part.upper_offset <= uncleanable {
                cleanable_bytes += part.size;
            } else {
                uncleanable = uncleanable.min(part.segment.base_offset().max(first_dirty_offset));
                break;
            }
        }
        let first_uncleanable_offset = uncleanable.max(first_dirty_offset);
        Ok(Cleanable { first_dirty_offset, first_uncleanable_offset, clean_bytes, cleanable_bytes, is_overdue })
    }

    /// Takes stock for a compaction. There must be only one of a log at a time.
    pub fn begin_compaction(&self, cleanable: &Cleanable, limits: CompactionLimits, now: Now) -> Compaction {
        let end = cleanable.first_uncleanable_offset;
        let is_cleaned =
            |part: &Part| part.upper_offset <= end && part.segment.base_offset() < self.active.base_offset();
        let (parts, later_parts) = self.view.published().with_sizes().into_iter().partition(is_cleaned);
        let last_batches = self.producers.sorted().into_iter().map(|state| {
            let last_offset = state.last_batch().map_or(-1, |batch| batch.last_offset);
            (state.producer_id, (last_offset, state.producer_epoch))
        });
        Compaction {
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            view: self.view.clone(),
            config: self.config.clone(),
            limits,
            now,
            first_dirty_offset: cleanable.first_dirty_offset,
            first_uncleanable_offset: end,
            parts,
            later_parts,
            last_batches: last_batches.collect(),
            aborted: HashMap::new(),
            retained_aborted: Vec::new(),
            map: KeyMap::new(limits.keys_max, limits.hash_key),
            mapped_to: cleanable.first_dirty_offset,
            is_mapped: false,
            next_part: 0,
            observed: HashSet::new(),
            stats: CompactionStats::default(),
        }
    }

    /// Puts a cleaned segment in the place of the old ones. Returns false, and drops it, if those are not all there any
    /// more because retention or a truncation took some.
    pub fn swap_in(&mut self, cleaned: Cleaned, now: Now) -> Result<bool, LogError> {
        self.view.check()?;
        let view: Arc<LogView> = self.view.clone();
        let _no_sync = view.sync_lock();
        let first = {
            let published = view.published();
            let first = published.segments.iter().position(|segment| Arc::ptr_eq(segment, &cleaned.sources[0]));
            first.filter(|&first| {
                let there = published.segments[first..].iter().zip(&cleaned.sources);
                there.filter(|(one, other)| Arc::ptr_eq(one, other)).count() == cleaned.sources.len()
            })
        };
        let Some(first) = first else {
            remove_stage(&*self.disk, &self.dir, cleaned.base_offset, Stage::Cleaned)?;
            return Ok(false);
        };
        for source in &cleaned.sources {
            source.pin()?;
        }
        if cleaned.segment.is_some() {
            let renamed = self.rename_stage(cleaned.base_offset, Stage::Cleaned, Stage::Swap);
            if let Err(error) = renamed.and_then(|()| self.disk.sync_dir(&self.dir)) {
                return Err(view.fail("swapping in a compacted segment failed", &error));
            }
        }
        let replace = |log: &mut Self| {
            for source in &cleaned.sources {
                log.rename_to_deleted(source, now)?;
            }
            log.disk.sync_dir(&log.dir)?;
            if cleaned.segment.is_some() {
                log.rename_stage(cleaned.base_offset, Stage::Swap, Stage::Live)?;
                log.disk.sync_dir(&log.dir)?;
            }
            Ok(())
        };
        replace(self).map_err(|error| view.fail("swapping in a compacted segment failed", &error))?;
        view.publish(|published| {
            published.segments.splice(first..first + cleaned.sources.len(), cleaned.segment.clone());
        });
        let replaced: Vec<i64> = cleaned.sources.iter().map(|source| source.base_offset()).collect();
        let kept = [self.last_snapshot, self.previous_snapshot];
        self.remove_snapshots(|offset| {
            offset != cleaned.base_offset && !kept.contains(&offset) && replaced.contains(&offset)
        })?;
        Ok(true)
    }

    fn rename_stage(&self, base_offset: i64, from: Stage, to: Stage) -> std::io::Result<()> {
        for kind in FILES {
            let path = |stage| names::path(&self.dir, base_offset, kind, stage);
            if kind != Kind::TxnIndex || self.disk.exists(&path(from))? {
                self.disk.rename(&path(from), &path(to))?;
            }
        }
        Ok(())
    }
}

fn remove_stage(disk: &dyn Disk, dir: &Path, base_offset: i64, stage: Stage) -> std::io::Result<()> {
    for kind in FILES {
        remove_if_there(disk, &names::path(dir, base_offset, kind, stage))?;
    }
    Ok(())
}

/// The segment being written.
struct Output {
    segment: Segment,
    buffer: Vec<u8>,
    size: u64,
    /// Something is different from the source.
    has_changed: bool,
}

impl Compaction {
    /// Where the next compaction has to start, once all that [`Compaction::clean_next`] gave is swapped in. Known after
    /// its first call.
    pub fn next_dirty_offset(&self) -> i64 {
        self.mapped_to
    }

    pub fn stats(&self) -> CompactionStats {
        self.stats
    }

    /// Writes the next segment; `None` if there is no more to do, or if `stop` was set. A bad batch is an error:
    /// without knowing what is in it nothing can be dropped safely. `moved` is told how many bytes were just read or
    /// written, and holds up what comes next for as long as it takes.
    pub fn clean_next(&mut self, stop: &AtomicBool, moved: &dyn Fn(u64)) -> Result<Option<Cleaned>, LogError> {
        if !self.is_mapped {
            self.find_aborted()?;
            self.fill_map(stop, moved)?;
            self.is_mapped = true;
            self.stats.keys = self.map.len() as u64;
        }
        loop {
            let group = self.next_group();
            if group.is_empty() || stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let base_offset = group[0].segment.base_offset();
            match self.clean(&group, stop, moved) {
                Ok(Some(cleaned)) => return Ok(Some(cleaned)),
                // Nothing changed, or stopped.
                Ok(None) => remove_stage(&*self.disk, &self.dir, base_offset, Stage::Cleaned)?,
                Err(error) => {
                    let _ = remove_stage(&*self.disk, &self.dir, base_offset, Stage::Cleaned);
                    return Err(error);
                }
            }
        }
    }

    /// The segments that become one: as many as fit (`Cleaner.groupSegmentsBySize`).
    fn next_group(&mut self) -> Vec<Part> {
        let bytes_max = u64::from(self.config.segment_bytes.min(SEGMENT_BYTES_MAX));
        let mut group: Vec<Part> = Vec::new();
        let mut bytes = 0;
        while let Some(part) = self.parts.get(self.next_part) {
            if part.segment.base_offset() >= self.mapped_to {
                break;
            }
            bytes += part.size;
            let fits = group.first().is_none_or(|first| {
                let offsets = part.upper_offset - first.segment.base_offset();
                bytes <= bytes_max && offsets <= i64::from(i32::MAX)
            });
            if !fits {
                break;
            }
            group.push(part.clone());
            self.next_part += 1;
        }
        group
    }

    /// Finds the aborted transactions that have batches in what is compacted: these are nobody's latest values. All of
    /// them have ended, but their markers may be in what is not compacted.
    fn find_aborted(&mut self) -> Result<(), LogError> {
        let mut later_parts = std::mem::take(&mut self.later_parts);
        if crate::injected_fault!(AbortBehindCleanedMissed) {
            later_parts.clear();
        }
        let mut found = Vec::new();
        for part in self.parts.iter().chain(&later_parts) {
            self.view.ensure_txn_index(part)?;
            if part.segment.collect_aborted(0, self.first_uncleanable_offset, false, &mut found)? {
                break;
            }
        }
        for aborted in found {
            self.aborted.entry(aborted.producer_id).or_default().push(aborted);
        }
        Ok(())
    }

    /// The aborted transaction that a batch or marker belongs to.
    fn aborted_with(&self, header: &BatchHeader) -> Option<AbortedTransaction> {
        let all = self.aborted.get(&header.producer_id).filter(|_| header.attributes.is_transactional())?;
        let next = all.partition_point(|aborted| aborted.last_offset < header.base_offset);
        all.get(next).filter(|aborted| aborted.first_offset <= header.base_offset).copied()
    }

    /// Notes the latest offset of each key in the dirty part (`Cleaner.buildOffsetMap`).
    fn fill_map(&mut self, stop: &AtomicBool, moved: &dyn Fn(u64)) -> Result<(), LogError> {
        for part in self.parts.clone() {
            if part.upper_offset <= self.first_dirty_offset {
                continue;
            }
            let mut walk = part.headers()?;
            while let Some(item) = walk.step()? {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let (position, header) = expect_batch(item)?;
                if header.last_offset() < self.first_dirty_offset {
                    continue;
                }
                if !header.attributes.is_control() && self.aborted_with(&header).is_none() {
                    let batch = read_batch(&part, position, &header)?;
                    moved(header.size() as u64);
                    let section = self.records(&batch)?;
                    for record in RecordReader::new(&header, &section) {
                        let record = record.map_err(|_| corrupt(&header))?;
                        let Some(key) = record.key else { continue };
                        if record.offset >= self.first_dirty_offset && !self.map.put(key, record.offset) {
                            // Full: what comes from this batch on is for the next time.
                            return Ok(());
                        }
                    }
                }
                self.mapped_to = header.next_offset();
            }
            self.mapped_to = part.upper_offset;
        }
        Ok(())
    }

    fn records(&self, batch: &Batch) -> Result<bytes::Bytes, LogError> {
        batch.records(self.limits.decompressed_bytes_max).map_err(|_| corrupt(&batch.header))
    }

    fn clean(&mut self, group: &[Part], stop: &AtomicBool, moved: &dyn Fn(u64)) -> Result<Option<Cleaned>, LogError> {
        let base_offset = group[0].segment.base_offset();
        let mut output = self.output(base_offset)?;
        output.has_changed = group.len() > 1;
        self.retained_aborted.clear();
        for part in group {
            let mut walk = part.headers()?;
            while let Some(item) = walk.step()? {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let (position, header) = expect_batch(item)?;
                let batch = read_batch(part, position, &header)?;
                self.stats.bytes_read += header.size() as u64;
                let size_before = output.size;
                match self.keep(&batch)? {
                    Kept::Whole => output.push(&batch)?,
                    Kept::Less(batch) => {
                        output.has_changed = true;
                        output.push(&batch)?;
                    }
                    Kept::Nothing => output.has_changed = true,
                }
                moved(header.size() as u64 + output.size - size_before);
            }
        }
        if !output.has_changed {
            return Ok(None);
        }
        self.stats.bytes_written += output.size;
        let sources: Vec<_> = group.iter().map(|part| part.segment.clone()).collect();
        let last_append_ms = sources.iter().filter_map(|source| source.last_append_ms()).max();
        output.segment.note_write(0, self.now.monotonic_ms);
        if !self.retained_aborted.is_empty() {
            let path = names::path(&self.dir, base_offset, Kind::TxnIndex, Stage::Cleaned);
            output.segment.adopt_txn_index(self.disk.open(&path, OpenMode::CreateEmpty)?, &self.retained_aborted)?;
        }
        let segment = output.finish(last_append_ms)?;
        if segment.is_none() {
            remove_stage(&*self.disk, &self.dir, base_offset, Stage::Cleaned)?;
        }
        Ok(Some(Cleaned { sources, segment: segment.map(Arc::new), base_offset }))
    }

    fn output(&self, base_offset: i64) -> Result<Output, LogError> {
        remove_stage(&*self.disk, &self.dir, base_offset, Stage::Cleaned)?;
        let open =
            |kind| self.disk.open(&names::path(&self.dir, base_offset, kind, Stage::Cleaned), OpenMode::CreateEmpty);
        let (disk, dir, retired) = (self.disk.clone(), self.dir.clone(), self.view.retired().clone());
        let segment = Segment::new(disk, dir, retired, base_offset, self.config.index_interval_bytes, 0);
        segment.adopt(open(Kind::Log)?, open(Kind::Index)?, open(Kind::TimeIndex)?);
        Ok(Output { segment, buffer: Vec::new(), size: 0, has_changed: false })
    }

    /// What is kept of a batch (`Cleaner.cleanInto`, `MemoryRecords.filterTo`).
    fn keep(&mut self, batch: &Batch) -> Result<Kept, LogError> {
        let header = batch.header;
        let is_control = header.attributes.is_control();
        let now_ms = self.now.wall_ms;
        let horizon = header.attributes.has_delete_horizon().then_some(header.base_timestamp);
        let is_past_horizon = horizon.is_some_and(|horizon| horizon <= now_ms);
        // A marker can go when nothing of its transaction is left; an aborted batch goes at once.
        let can_discard = if is_control {
            let was_observed = self.observed.remove(&header.producer_id);
            self.retained_aborted.extend(self.aborted_with(&header).filter(|_| was_observed));
            header.has_producer_id() && !was_observed
        } else {
            if header.attributes.is_transactional() {
                self.observed.insert(header.producer_id);
            }
            self.aborted_with(&header).is_some()
        };
        let discards = can_discard && (!is_control || is_past_horizon);
        let last = self.last_batches.get(&header.producer_id).filter(|_| header.has_producer_id());
        let is_producers_last = last.is_some_and(|&(last_offset, epoch)| match last_offset {
            -1 => is_control && header.producer_epoch == epoch,
            last_offset => header.last_offset() == last_offset,
        });
        // The end of the cleaned part must not be forgotten either.
        let must_stay = is_producers_last || header.next_offset() == self.first_uncleanable_offset;
        self.stats.records_read += u64::try_from(header.record_count).unwrap_or(0);
        let retained = if discards {
            Retained::Nothing
        } else {
            let new_horizon = now_ms.saturating_add(self.config.delete_retention_ms);
            let new_horizon = match can_discard && is_control {
                true => DeleteHorizon::Always(new_horizon),
                false => DeleteHorizon::ForTombstones(new_horizon),
            };
            let section = self.records(batch)?;
            let keeps = |record: &Record<'_>| is_control || self.keeps(record, is_past_horizon);
            retain(batch, &section, new_horizon, keeps).map_err(|_| corrupt(&header))?
        };
        Ok(match retained {
            Retained::All => {
                self.stats.records_kept += u64::try_from(header.record_count).unwrap_or(0);
                Kept::Whole
            }
            Retained::Some(batch) => {
                self.stats.records_kept += u64::try_from(batch.header.record_count).unwrap_or(0);
                Kept::Less(batch)
            }
            Retained::Nothing if !must_stay => Kept::Nothing,
            Retained::Nothing if header.record_count == 0 => Kept::Whole,
            Retained::Nothing => Kept::Less(batch.emptied()),
        })
    }

    fn keeps(&self, record: &Record<'_>, is_past_horizon: bool) -> bool {
        if record.offset >= self.mapped_to {
            return true;
        }
        // A compacted log has no records without a key.
        let Some(key) = record.key else { return false };
        let is_latest = self.map.get(key).is_none_or(|latest| record.offset >= latest);
        is_latest && (record.value.is_some() || !is_past_horizon)
    }
}

enum Kept {
    Whole,
    Less(Batch),
    Nothing,
}

impl Output {
    fn push(&mut self, batch: &Batch) -> Result<(), LogError> {
        self.segment.note_appended(&[LocatedBatch { position: self.size, header: batch.header }]);
        self.buffer.extend_from_slice(&batch.bytes);
        self.size += batch.bytes.len() as u64;
        if self.buffer.len() >= WRITE_BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), LogError> {
        let position = self.size - self.buffer.len() as u64;
        write_all_at(&*self.segment.log_file()?, &mut [IoSlice::new(&self.buffer)], position)?;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the segment durable, but for its name.
    fn finish(mut self, last_append_ms: Option<i64>) -> Result<Option<Segment>, LogError> {
        if self.size == 0 {
            return Ok(None);
        }
        self.write()?;
        self.segment.set_size(self.size);
        if let Some(last_append_ms) = last_append_ms {
            self.segment.set_last_append_ms(last_append_ms);
        }
        self.segment.complete_indexes()?;
        self.segment.sync_log(self.size)?;
        self.segment.sync_indexes()?;
        Ok(Some(self.segment))
    }
}

fn expect_batch(item: Item) -> Result<(u64, BatchHeader), LogError> {
    match item {
        Item::Batch(position, header) => Ok((position, header)),
        Item::Bad { range, .. } => {
            Err(LogError::Corrupt { first_offset: range.first_offset, next_offset: range.next_offset })
        }
    }
}

fn corrupt(header: &BatchHeader) -> LogError {
    LogError::Corrupt { first_offset: header.base_offset, next_offset: header.next_offset() }
}

/// Reads a batch whose header was read, and checks its CRC.
fn read_batch(part: &Part, position: u64, header: &BatchHeader) -> Result<Batch, LogError> {
    let mut bytes = vec![0; header.size()];
    read_exact_at(&*part.segment.log_file()?, &mut bytes, position)?;
    if wire::batch::crc(&bytes) != header.crc {
        return Err(corrupt(header));
    }
    Ok(Batch { header: *header, bytes: bytes.into() })
}
