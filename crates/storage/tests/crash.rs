//! Random work on a simulated disk that fails and loses power, against a model of what was promised.
//!
//! After every restart: nothing that was synced is lost, nothing is served that was not appended, offsets are
//! contiguous but for what is reported, the producers' states are those of the batches that are there. After a mere
//! kill nothing is lost at all.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use common::*;
use rustix::io::Errno;
use storage::seeds::{run_seeds, seeds};
use storage::simdisk::SimOp;
use storage::{AppendError, Log, LogConfig, LogError, OpenOptions, Origin, SimDisk};
use wire::batch::{Batch, BatchHeader, add_sequence};

#[derive(Clone, Debug, PartialEq)]
struct Written {
    bytes: Bytes,
    header: BatchHeader,
    /// The append succeeded. If not, the batch may be there or not.
    acked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Producer {
    epoch: i16,
    last_sequence: i32,
    base_offset: i64,
    last_offset: i64,
}

struct World {
    rng: Rng,
    disk: SimDisk,
    config: LogConfig,
    log: Log,
    now_ms: i64,
    /// By base offset; what was deleted stays in here.
    written: BTreeMap<i64, Written>,
    /// What is known to be gone: torn away in a crash, cut.
    synced: i64,
    end: i64,
    log_start: i64,
    /// As checkpointed by the owner.
    recovery_point: i64,
    checkpointed_log_start: i64,
    producers: BTreeMap<i64, Producer>,
    leader_epoch: i32,
    has_failed: bool,
    /// Producer, last sequence and last offset of all batches ever written.
    history: BTreeSet<(i64, i32, i64)>,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let config = LogConfig { file_delete_delay_ms: 50, ..small_config() };
        let (log, _) = open(&disk, &config, options(0, false));
        Self {
            rng: Rng::new(seed ^ 0xabcd),
            disk,
            config,
            log,
            now_ms: 0,
            written: BTreeMap::new(),
            synced: 0,
            end: 0,
            log_start: 0,
            recovery_point: 0,
            checkpointed_log_start: 0,
            producers: BTreeMap::new(),
            leader_epoch: 0,
            has_failed: false,
            history: BTreeSet::new(),
        }
    }

    fn step(&mut self) {
        self.now_ms += self.rng.below(20) as i64;
        match self.rng.below(100) {
            0..50 => self.append(),
            50..62 => self.sync(),
            62..66 => self.checkpoint(),
            66..69 => self.roll(),
            69..71 => self.delete_records(),
            71..73 => self.retain(),
            73..75 => self.truncate(),
            75..78 => self.fault(),
            78..81 => self.disk.clear_faults(),
            81..84 => self.leader_epoch += 1,
            84..86 => {
                self.check_content(false);
            }
            86..89 => self.restart(Restart::Clean),
            89..94 => self.restart(Restart::Kill),
            _ => self.restart(Restart::Crash),
        }
    }

    fn fault(&mut self) {
        let after = self.rng.below(3);
        match self.rng.below(6) {
            0 | 1 => {
                let bytes = self.rng.below(20_000);
                self.disk.set_free_bytes(bytes);
            }
            2 => {
                let bytes = self.rng.below(16_000);
                self.disk.set_file_bytes_max(bytes);
            }
            3 => self.disk.fail(SimOp::Sync, after, Errno::IO),
            4 => self.disk.fail(SimOp::Write, after, Errno::IO),
            _ => self.disk.fail(SimOp::Open, 0, Errno::MFILE),
        }
    }

    /// Whether a call succeeded; a failure must be one that a fault explains.
    fn survived<T>(&mut self, result: Result<T, LogError>) -> Option<T> {
        match result {
            Ok(value) => {
                assert!(!self.has_failed, "a log that failed does nothing any more");
                Some(value)
            }
            Err(LogError::Failed(_)) => {
                self.has_failed = true;
                None
            }
            Err(error) if error.is_retriable() => None,
            Err(LogError::Io(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// What the model says of a batch, and what becomes of it.
    fn expected(&self, header: &BatchHeader) -> Expected {
        let Some(known) = self.producers.get(&header.producer_id).filter(|_| header.has_producer_id()) else {
            return Expected::Appended;
        };
        let same_length = i64::from(header.last_offset_delta) == known.last_offset - known.base_offset;
        if header.producer_epoch == known.epoch && header.last_sequence() == known.last_sequence && same_length {
            return Expected::Duplicate(known.base_offset);
        }
        if header.producer_epoch < known.epoch {
            return Expected::InvalidEpoch;
        }
        let next = if header.producer_epoch > known.epoch { 0 } else { add_sequence(known.last_sequence, 1) };
        if header.base_sequence == next { Expected::Appended } else { Expected::OutOfOrder }
    }

    fn append(&mut self) {
        let now = at(self.now_ms);
        let mut batches: Vec<Batch> = Vec::new();
        let mut planned = self.producers.clone();
        for _ in 0..1 + self.rng.below(6) {
            let records = 1 + self.rng.below(4) as usize;
            let bytes = if self.rng.percent(10) { 4000 } else { 200 };
            let value_bytes = self.rng.below(bytes) as usize;
            let mut builder = batch(records, value_bytes, &mut self.rng, now);
            if self.rng.percent(60) {
                let id = self.rng.below(4) as i64;
                let known = planned.get(&id).copied();
                let (mut epoch, mut sequence) =
                    known.map_or((0, 0), |known| (known.epoch, add_sequence(known.last_sequence, 1)));
                match self.rng.below(20) {
                    0 => (epoch, sequence) = (epoch + 1, 0),
                    1 => sequence = add_sequence(sequence, 1),
                    2 => epoch -= 1,
                    3 if known.is_none() => sequence = i32::MAX - 1,
                    _ => {}
                }
                builder = builder.producer(id, epoch.max(0), sequence);
                let last_sequence = add_sequence(sequence, records as i32 - 1);
                planned.insert(id, Producer { epoch: epoch.max(0), last_sequence, base_offset: 0, last_offset: 0 });
            }
            let built = builder.build();
            batches.push(built.clone());
            if self.rng.percent(10) {
                batches.push(built);
            }
        }
        let mut result = self.log.append(&batches, Origin::Client, self.leader_epoch, now);
        if let Err(LogError::Failed(_)) = result {
            assert!(self.log.view().failure().is_some());
            self.has_failed = true;
            // Any of it may be in the file.
            result = Ok(Vec::new());
        } else {
            assert!(!self.has_failed);
        }
        let results = result.unwrap();
        for (index, built) in batches.iter().enumerate() {
            let expected = self.expected(&built.header);
            match results.get(index) {
                None => {
                    if expected == Expected::Appended {
                        self.write(built, false);
                    }
                }
                Some(Ok(appended)) if appended.is_duplicate => {
                    // One of the last five; the model knows only the last.
                    let is_of_same = self.written.get(&appended.base_offset).is_some_and(|written| {
                        let (one, other) = (&written.header, &built.header);
                        (one.producer_id, one.producer_epoch, one.base_sequence, one.last_offset_delta)
                            == (other.producer_id, other.producer_epoch, other.base_sequence, other.last_offset_delta)
                    });
                    let is_last = expected == Expected::Duplicate(appended.base_offset);
                    assert!(is_last || (is_of_same && expected == Expected::OutOfOrder), "{expected:?} {appended:?}");
                }
                Some(Ok(appended)) => {
                    assert_eq!(expected, Expected::Appended, "{:?} {:?}", built.header, self.producers);
                    assert_eq!(appended.base_offset, self.end);
                    self.write(built, true);
                }
                Some(Err(AppendError::OutOfOrderSequence { .. })) => assert_eq!(expected, Expected::OutOfOrder),
                Some(Err(AppendError::InvalidProducerEpoch { .. })) => assert_eq!(expected, Expected::InvalidEpoch),
                Some(Err(AppendError::DiskFull | AppendError::Exhausted)) => break,
                Some(Err(error)) => panic!("{error}"),
            }
        }
        if !self.has_failed {
            assert_eq!(self.log.view().log_end_offset(), self.end);
        }
    }

    fn write(&mut self, batch: &Batch, acked: bool) {
        let bytes = stored(batch, self.end, self.leader_epoch);
        let header = BatchHeader::parse(bytes.first_chunk().unwrap());
        self.written.insert(self.end, Written { bytes, header, acked });
        self.note_producer(&header);
        self.end = header.next_offset();
    }

    fn note_producer(&mut self, header: &BatchHeader) {
        if header.has_producer_id() {
            self.history.insert((header.producer_id, header.last_sequence(), header.last_offset()));
            self.producers.insert(
                header.producer_id,
                Producer {
                    epoch: header.producer_epoch,
                    last_sequence: header.last_sequence(),
                    base_offset: header.base_offset,
                    last_offset: header.last_offset(),
                },
            );
        }
    }

    fn sync(&mut self) {
        let result = self.log.view().sync();
        if let Some(synced) = self.survived(result) {
            assert_eq!(synced, self.end);
            self.synced = synced;
        }
    }

    /// As the owner does it from time to time.
    fn checkpoint(&mut self) {
        let result = self.log.write_snapshot(true);
        self.survived(result);
        self.sync();
        if !self.has_failed {
            self.recovery_point = self.log.view().synced_offset();
            self.checkpointed_log_start = self.log.view().log_start_offset();
        }
    }

    fn roll(&mut self) {
        let result = self.log.roll(at(self.now_ms));
        self.survived(result);
    }

    fn delete_records(&mut self) {
        let before = self.log_start + self.rng.below((self.end - self.log_start) as u64 / 3 + 1) as i64;
        let result = self.log.delete_records(before);
        if self.survived(result).is_some() {
            self.log_start = self.log_start.max(before);
            self.synced = self.log.view().synced_offset();
        }
    }

    fn retain(&mut self) {
        let config = LogConfig { retention_bytes: self.rng.below(100_000) as i64, ..self.config.clone() };
        self.log.set_config(config);
        let high_watermark = self.log_start + self.rng.below((self.end - self.log_start) as u64 + 1) as i64;
        let result = self.log.delete_old_segments(high_watermark, at(self.now_ms));
        self.survived(result);
        self.log_start = self.log_start.max(self.log.view().log_start_offset());
        let result = self.log.remove_deleted_files(at(self.now_ms));
        self.survived(result);
        self.log.set_config(self.config.clone());
    }

    fn truncate(&mut self) {
        if self.rng.percent(70) {
            return;
        }
        let offset = self.log_start + self.rng.below((self.end - self.log_start) as u64 + 1) as i64;
        let result = self.log.truncate_to(offset, at(self.now_ms));
        if let Some(end) = self.survived(result) {
            assert!(end <= offset && (end == offset || !self.written.contains_key(&offset)));
            self.end = end;
            self.log_start = self.log.view().log_start_offset();
            self.written.split_off(&end);
            self.synced = self.synced.min(end);
            // The owner may be too late to checkpoint that.
            if self.rng.percent(30) {
                self.recovery_point = self.recovery_point.min(end);
            }
            self.adopt_producers();
            self.check_content(false);
        } else {
            // Somewhere in between. A restart tells.
            self.has_failed = true;
            let cut_at = self.written.range(..=offset).next_back().map_or(offset, |(&base, _)| base);
            self.synced = self.synced.min(cut_at);
            let after = self.written.split_off(&self.synced);
            self.written.extend(after.into_iter().map(|(base, batch)| (base, Written { acked: false, ..batch })));
        }
    }

    /// The log has the states of producers whose batches are long gone only if a snapshot had them.
    fn adopt_producers(&mut self) {
        let mut of_batches = BTreeMap::new();
        std::mem::swap(&mut self.producers, &mut of_batches);
        let all: Vec<_> = self.written.values().map(|batch| batch.header).collect();
        for header in &all {
            self.note_producer(header);
        }
        let first_base = self.log.view().headers(self.log_start, self.end).find_map(Result::ok);
        let first_base = first_base.map_or(self.end, |header| header.base_offset);
        self.producers.retain(|&id, producer| match self.log.producer(id) {
            // Its batch went with retention, and the snapshot that knew of it was not on disk yet.
            Some(state) if producer.base_offset < first_base && state.last_sequence() != producer.last_sequence => {
                false
            }
            Some(state) => {
                assert_eq!(state.producer_epoch, producer.epoch, "{producer:?} {state:?}");
                assert_eq!(state.last_sequence(), producer.last_sequence, "{producer:?} {state:?}");
                assert_eq!(state.last_batch().unwrap().last_offset, producer.last_offset);
                true
            }
            None => {
                assert!(producer.base_offset < first_base, "{id} {producer:?} is forgotten");
                false
            }
        });
        for state in self.log.describe_producers() {
            let last = state.last_batch().unwrap();
            let known = Producer {
                epoch: state.producer_epoch,
                last_sequence: last.last_sequence,
                base_offset: last.first_offset(),
                last_offset: last.last_offset,
            };
            let model = self.producers.entry(state.producer_id).or_insert(known);
            assert_eq!(*model, known);
            assert!(self.history.contains(&(state.producer_id, last.last_sequence, last.last_offset)), "{state:?}");
        }
    }

    fn restart(&mut self, how: Restart) {
        let mut clean = false;
        let mut how = how;
        if how == Restart::Clean {
            self.disk.clear_faults();
            let result = self.log.close();
            match self.survived(result) {
                Some(recovery_point) => {
                    self.recovery_point = recovery_point;
                    self.checkpointed_log_start = self.log_start;
                    clean = true;
                }
                None => how = Restart::Crash,
            }
        }
        if self.has_failed && how == Restart::Kill {
            // What a failed sync left in the page cache looks clean and is not on disk; only power loss shows it.
            how = Restart::Crash;
        }
        let before = self.end;
        match how {
            Restart::Crash => self.disk.crash(),
            _ => self.disk.kill(),
        }
        let options = OpenOptions {
            recovery_point: self.recovery_point,
            log_start_offset: self.checkpointed_log_start,
            clean_shutdown: clean,
            now: at(self.now_ms),
        };
        let (log, report) = open(&self.disk, &self.config, options);
        self.log = log;
        self.has_failed = false;
        let view = self.log.view();
        let end = view.log_end_offset();
        let synced_batches = self.written.range(..self.synced);
        let synced = synced_batches.map(|(_, batch)| batch.header.next_offset()).next_back().unwrap_or(0);
        assert!(end >= synced, "synced up to {synced}, recovered up to {end}: {report:?}");
        assert!(end <= before, "appended up to {before}, recovered up to {end}: {report:?}");
        if how != Restart::Crash {
            // Offsets at the end that have no batches any more, after an earlier crash, may be given out again.
            let last = self.written.values().next_back().map_or(0, |batch| batch.header.next_offset());
            assert!(end >= last, "{last} {end} {report:?}");
            assert!(report.cut.is_none_or(|cut| self.was_lost(cut.offset)), "{report:?}");
            assert!(report.bad_ranges.iter().all(|range| self.was_lost(range.first_offset)), "{report:?}");
        }
        if clean {
            assert_eq!(report.verified_bytes, 0);
        }
        self.log_start = view.log_start_offset();
        // The owner checkpoints that the recovery point is lower now.
        self.recovery_point = self.recovery_point.min(view.synced_offset());
        self.end = end;
        // Of what lies behind, everything was lost before.
        self.synced = self.synced.min(end);
        self.written.split_off(&end);
        let content = self.check_content(how == Restart::Crash);
        // What lies below the log start may come back if that was not checkpointed.
        self.written.retain(|base, _| !content.corrupt.iter().any(|&(first, next)| (first..next).contains(base)));
        self.adopt_producers();
        let epochs = self.log.view().epoch_entries();
        for (header, _) in &content.batches {
            let epoch = self.log.view().epoch_for_offset(header.last_offset());
            assert_eq!(epoch, Some(header.partition_leader_epoch), "{epochs:?} {header:?}");
        }
        for batch in self.written.values_mut() {
            batch.acked = true;
        }
    }

    /// Reads everything and compares.
    fn check_content(&mut self, after_crash: bool) -> Content {
        if self.has_failed {
            return Content::default();
        }
        self.disk.clear_faults();
        let view = self.log.view();
        let content = read_all(&view, &mut self.rng);
        for (header, bytes) in &content.batches {
            let written = self.written.get(&header.base_offset);
            let written = written.unwrap_or_else(|| panic!("nobody appended {header:?}"));
            assert!(written.bytes == *bytes, "{header:?} is not what was appended: {:?}", written.header);
        }
        for &(first, _) in &content.corrupt {
            assert!(
                after_crash && first >= self.synced || self.was_lost(first),
                "{first} is corrupt, synced {}",
                self.synced
            );
        }
        // Nothing is missing: what is not served is reported, or was reported after an earlier crash.
        let mut next = content.batches.first().map_or(self.end, |(header, _)| header.base_offset);
        for (header, _) in &content.batches {
            while let Some(gap) = content.corrupt.iter().find(|gap| gap.0 == next) {
                next = gap.1;
            }
            assert!(
                next == header.base_offset || self.was_lost(next),
                "{next} is missing: {:?} {:?} {:?}",
                content.offsets(),
                content.corrupt,
                view.bad_ranges()
            );
            next = header.next_offset();
        }
        let headers: Vec<_> = view.headers(self.log_start, self.end).filter_map(Result::ok).collect();
        assert_eq!(headers, content.batches.iter().map(|(header, _)| *header).collect::<Vec<_>>());
        content
    }

    /// Whether an offset went in an earlier crash.
    fn was_lost(&self, offset: i64) -> bool {
        self.written.range(..=offset).next_back().is_none_or(|(_, batch)| batch.header.last_offset() < offset)
    }

    fn digest(&self) -> (u64, i64, i64, usize) {
        (self.disk.trace(), self.end, self.synced, self.written.len())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    Clean,
    Kill,
    Crash,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Appended,
    Duplicate(i64),
    OutOfOrder,
    InvalidEpoch,
}

fn run(seed: u64) -> (u64, i64, i64, usize) {
    let mut world = World::new(seed);
    for _ in 0..120 {
        world.step();
        if world.has_failed {
            world.restart(Restart::Crash);
        }
    }
    world.restart(Restart::Crash);
    world.digest()
}

#[test]
fn nothing_synced_is_ever_lost() {
    run_seeds(seeds(300), run);
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}
