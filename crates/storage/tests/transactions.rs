//! Transactions in one log: what readers of committed records may see, over failovers, truncations and restarts.
//!
//! A leader and a follower take random transactions; what they answer is compared with what a walk over all of their
//! batches says.

mod common;

use std::collections::BTreeMap;

use bytes::Bytes;
use common::*;
use storage::seeds::{run_seeds, seeds};
use storage::{
    AbortedTransaction, AppendError, Log, LogConfig, LogView, OpenOptions, Origin, ProducerState, ReadError, SimDisk,
};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

const PRODUCERS: i64 = 4;

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1500, index_interval_bytes: 256, ..LogConfig::default() }
}

fn new_log(seed: u64) -> (SimDisk, Log) {
    let disk = SimDisk::new(seed);
    let (log, _) = open(&disk, &config(), options(0, false));
    (disk, log)
}

fn record(builder: BatchBuilder) -> Batch {
    let mut builder = builder;
    builder.push(at(0).wall_ms, Some(b"key"), Some(b"value"), &[]);
    builder.build()
}

fn in_transaction(id: i64, sequence: i32) -> Batch {
    record(BatchBuilder::new().producer(id, 0, sequence).transactional())
}

fn marker(id: i64, kind: ControlType) -> Batch {
    let mut builder = BatchBuilder::new().producer(id, 0, -1).transactional().control();
    let value = EndTxnMarker { coordinator_epoch: 7 }.write_versioned(0);
    builder.push(at(0).wall_ms, Some(&kind.write()), Some(&value), &[]);
    builder.build()
}

fn append(log: &mut Log, batch: Batch, origin: Origin) -> i64 {
    append_agreed(log, batch, origin, EPOCH, at(0)).unwrap().base_offset
}

/// Appends a record of a transaction.
fn write(log: &mut Log, id: i64) -> i64 {
    let known = log.producer(id).map(ProducerState::last_sequence);
    append(log, in_transaction(id, known.map_or(0, |last| last + 1)), Origin::Client)
}

fn end(log: &mut Log, id: i64, kind: ControlType) -> i64 {
    append(log, marker(id, kind), Origin::Coordinator)
}

/// A transaction as a walk over all batches finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ended {
    producer_id: i64,
    first_offset: i64,
    last_offset: i64,
    is_abort: bool,
}

/// The transactions that have ended, in the order of their markers, and the first offsets of those that have not.
fn transactions(view: &LogView) -> (Vec<Ended>, Vec<i64>) {
    let (mut ended, mut open) = (Vec::new(), BTreeMap::new());
    for (header, bytes) in read_all(view, &mut Rng::new(1)).batches {
        if header.attributes.is_control() {
            let batch = Batch { header, bytes };
            let record = RecordReader::new(&header, batch.section()).next().unwrap().unwrap();
            let kind = ControlType::read(&Bytes::copy_from_slice(record.key.unwrap())).unwrap();
            if let Some(first_offset) = open.remove(&header.producer_id) {
                ended.push(Ended {
                    producer_id: header.producer_id,
                    first_offset,
                    last_offset: header.base_offset,
                    is_abort: kind == ControlType::Abort,
                });
            }
        } else if header.attributes.is_transactional() {
            open.entry(header.producer_id).or_insert(header.base_offset);
        }
    }
    (ended, open.into_values().collect())
}

fn last_stable_offset(view: &LogView, high_watermark: i64) -> i64 {
    let (ended, open) = transactions(view);
    let unreplicated = ended.iter().filter(|ended| ended.last_offset >= high_watermark).map(|ended| ended.first_offset);
    unreplicated.chain(open).min().map_or(high_watermark, |first| first.min(high_watermark))
}

/// The list that a read from `fetch_offset` of batches below `upper_offset` comes with.
fn aborted(view: &LogView, fetch_offset: i64, upper_offset: i64) -> Vec<(i64, i64)> {
    let (ended, _) = transactions(view);
    let overlaps = |ended: &&Ended| ended.last_offset >= fetch_offset && ended.first_offset < upper_offset;
    ended
        .iter()
        .filter(|ended| ended.is_abort)
        .filter(overlaps)
        .map(|ended| (ended.producer_id, ended.first_offset))
        .collect()
}

fn pairs(found: &[AbortedTransaction]) -> Vec<(i64, i64)> {
    found.iter().map(|found| (found.producer_id, found.first_offset)).collect()
}

/// Reads with any lengths from any offset on, and holds the lists against a walk over all batches.
fn check_aborted(view: &LogView, last_stable_offset: i64, rng: &mut Rng) {
    let range = (last_stable_offset - view.log_start_offset()).max(0) as u64;
    for _ in 0..10 {
        let offset = view.log_start_offset() + rng.below(range + 1) as i64;
        let end_offset = offset + rng.below((last_stable_offset - offset).max(0) as u64 + 1) as i64;
        let max_bytes = rng.below(1500) as u32;
        let Some((span, found)) = view.committed_span(offset, end_offset, max_bytes).unwrap() else { continue };
        let bytes = Bytes::from(span.read_cached().unwrap());
        let whole = Batches::new(bytes).map_while(Result::ok).last().unwrap();
        let upper_offset = whole.header.next_offset();
        assert_eq!(pairs(&found), aborted(view, offset, upper_offset), "{offset} to {upper_offset}");
        match view.committed_span_at_once(offset, end_offset, max_bytes) {
            Ok(at_once) => assert_eq!(at_once.unwrap().1, found),
            Err(error) => assert!(matches!(error, ReadError::Cold), "{error}"),
        }
    }
}

#[test]
fn committed_records_are_stable_when_their_marker_is_replicated() {
    let (_, mut log) = new_log(1);
    append(&mut log, record(BatchBuilder::new()), Origin::Client);
    let view = log.view();
    assert_eq!(view.last_stable_offset(1), 1);
    write(&mut log, 1);
    write(&mut log, 2);
    assert_eq!(view.last_stable_offset(3), 1);
    end(&mut log, 1, ControlType::Commit);
    assert_eq!(view.last_stable_offset(3), 1, "the marker is not replicated");
    assert_eq!(view.last_stable_offset(4), 2, "the other one is still open");
    end(&mut log, 2, ControlType::Abort);
    assert_eq!(view.last_stable_offset(4), 2);
    assert_eq!(view.last_stable_offset(5), 5);
    // A marker that ends nothing holds nothing back.
    end(&mut log, 2, ControlType::Abort);
    assert_eq!(view.last_stable_offset(5), 5);
}

#[test]
fn what_a_full_disk_refuses_leaves_transactions_as_they_were() {
    let (disk, mut log) = new_log(1);
    let view = log.view();
    write(&mut log, 1);
    disk.set_free_bytes(0);
    for batch in [marker(1, ControlType::Commit), in_transaction(2, 0)] {
        assert_eq!(append_agreed(&mut log, batch, Origin::Coordinator, EPOCH, at(0)), Err(AppendError::DiskFull));
    }
    disk.clear_faults();
    assert_eq!(view.first_undecided_offset(), Some(0));
    end(&mut log, 1, ControlType::Commit);
    assert_eq!((view.first_undecided_offset(), view.last_stable_offset(2)), (None, 2));
}

#[test]
fn a_truncation_opens_transactions_again_and_forgets_those_that_it_cuts() {
    let (_, mut log) = new_log(1);
    let view = log.view();
    write(&mut log, 1);
    write(&mut log, 2);
    end(&mut log, 2, ControlType::Commit);
    log.roll(at(0)).unwrap();
    let marker = end(&mut log, 1, ControlType::Commit);
    log.truncate_to(marker, at(0)).unwrap();
    assert_eq!((view.first_undecided_offset(), view.last_stable_offset(2)), (Some(0), 0));
    end(&mut log, 1, ControlType::Commit);
    // The other one's end is known although it lies before the snapshot that the truncation has read.
    assert_eq!(view.last_stable_offset(2), 0);
    assert_eq!(view.last_stable_offset(4), 4);
    log.truncate_to(0, at(0)).unwrap();
    assert_eq!((view.first_undecided_offset(), view.last_stable_offset(0)), (None, 0));
}

#[test]
fn what_ended_before_a_restart_is_stable_when_it_is_replicated() {
    for is_clean in [true, false] {
        let (disk, mut log) = new_log(1);
        write(&mut log, 1);
        end(&mut log, 1, ControlType::Commit);
        write(&mut log, 2);
        let mut recovery_point = 0;
        if is_clean {
            recovery_point = log.close().unwrap();
        }
        disk.kill();
        let (log, _) = open(&disk, &config(), options(recovery_point, is_clean));
        let view = log.view();
        assert_eq!(view.last_stable_offset(1), 0, "the marker may be lost by a failover, clean {is_clean}");
        assert_eq!(view.last_stable_offset(3), 2, "clean {is_clean}");
    }
}

#[test]
fn a_read_names_the_aborted_transactions_of_its_records_and_no_others() {
    let (_, mut log) = new_log(1);
    write(&mut log, 1);
    end(&mut log, 1, ControlType::Abort);
    write(&mut log, 2);
    write(&mut log, 1);
    end(&mut log, 1, ControlType::Commit);
    log.roll(at(0)).unwrap();
    append(&mut log, record(BatchBuilder::new()), Origin::Client);
    end(&mut log, 2, ControlType::Abort);
    let read = |offset, end_offset| pairs(&log.view().committed_span(offset, end_offset, 9999).unwrap().unwrap().1);
    assert_eq!(read(0, 2), [(1, 0)]);
    assert_eq!(read(0, 5), [(1, 0), (2, 2)], "the marker is in a later segment");
    assert_eq!(read(1, 3), [(1, 0), (2, 2)], "the marker at 1 is read");
    // A consumer would drop the producer from its set at the next abort only, and lose what was committed.
    assert_eq!(read(2, 5), [(2, 2)]);
    assert_eq!(read(5, 7), [(2, 2)]);
}

#[test]
fn the_index_is_kafkas_and_only_segments_with_aborts_have_one() {
    let (disk, mut log) = new_log(1);
    write(&mut log, 1);
    end(&mut log, 1, ControlType::Commit);
    log.roll(at(0)).unwrap();
    write(&mut log, 1);
    write(&mut log, 2);
    end(&mut log, 1, ControlType::Abort);
    // Ends nothing.
    end(&mut log, 1, ControlType::Abort);
    let indexes: Vec<_> = disk.paths().into_iter().filter(|path| file_name(path).ends_with(".txnindex")).collect();
    assert_eq!(indexes, [dir().join("00000000000000000002.txnindex")]);
    let fields = [1i64, 2, 4, 3].map(i64::to_be_bytes).concat();
    assert_eq!(disk.get(&indexes[0]).unwrap(), [&[0, 0], &fields[..]].concat());
}

#[test]
fn an_index_that_cannot_be_right_is_made_anew() {
    for garbage in [&b"garbage"[..], &[0; 34], &[0xff; 340]] {
        let (disk, mut log) = new_log(1);
        write(&mut log, 1);
        write(&mut log, 2);
        log.roll(at(0)).unwrap();
        end(&mut log, 1, ControlType::Abort);
        log.roll(at(0)).unwrap();
        end(&mut log, 2, ControlType::Abort);
        let recovery_point = log.close().unwrap();
        let expected = log.view().committed_span(1, 4, 9999).unwrap().unwrap().1;
        assert_eq!(pairs(&expected), [(1, 0), (2, 1)]);
        for path in disk.paths().iter().filter(|path| file_name(path).ends_with(".txnindex")) {
            disk.put(path, garbage);
        }
        disk.kill();
        let (log, _) = open(&disk, &config(), options(recovery_point, true));
        assert!(matches!(log.view().committed_span_at_once(1, 4, 9999), Err(ReadError::Cold)));
        assert_eq!(log.view().committed_span(1, 4, 9999).unwrap().unwrap().1, expected);
        assert_eq!(log.view().committed_span_at_once(1, 4, 9999).unwrap().unwrap().1, expected);
    }
}

#[test]
fn an_index_that_a_full_disk_refuses_is_written_with_the_next_sync() {
    let (disk, mut log) = new_log(1);
    write(&mut log, 1);
    disk.set_free_bytes(marker(1, ControlType::Abort).bytes.len() as u64 + 10);
    end(&mut log, 1, ControlType::Abort);
    let aborted = |log: &Log| pairs(&log.view().committed_span(0, 2, 9999).unwrap().unwrap().1);
    assert_eq!(aborted(&log), [(1, 0)]);
    assert!(log.view().sync().is_err_and(|error| error.is_retriable()));
    disk.clear_faults();
    log.view().sync().unwrap();
    disk.crash();
    let (log, _) = open(&disk, &config(), options(2, false));
    assert_eq!(aborted(&log), [(1, 0)]);
}

/// A leader and a follower, and what is checkpointed of them.
struct World {
    rng: Rng,
    replicas: [Replica; 2],
    leader: usize,
    high_watermark: i64,
}

struct Replica {
    disk: SimDisk,
    log: Log,
    recovery_point: i64,
    /// What the log was told of the high watermark is exact from here on.
    held_until: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let replica = |index| {
            let (disk, log) = new_log(2 * seed + index);
            Replica { disk, log, recovery_point: 0, held_until: 0 }
        };
        Self { rng: Rng::new(seed), replicas: [replica(0), replica(1)], leader: 0, high_watermark: 0 }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..45 => self.write(),
            45..60 => self.end(),
            60..75 => self.replicate(),
            75..80 => self.replicas[self.leader].log.roll(at(0)).unwrap(),
            80..85 => self.checkpoint(),
            85..90 => self.fail_over(),
            90..95 => self.restart(),
            _ => self.check(),
        }
    }

    fn log(&mut self) -> &mut Log {
        &mut self.replicas[self.leader].log
    }

    fn write(&mut self) {
        for _ in 0..=self.rng.below(3) {
            let id = self.rng.below(PRODUCERS as u64 + 1) as i64;
            match id {
                0 => append(self.log(), record(BatchBuilder::new()), Origin::Client),
                id => write(self.log(), id),
            };
        }
    }

    fn end(&mut self) {
        let id = 1 + self.rng.below(PRODUCERS as u64) as i64;
        let kind = if self.rng.percent(60) { ControlType::Abort } else { ControlType::Commit };
        end(self.log(), id, kind);
    }

    /// The follower fetches, and the high watermark moves to where both are, or not quite.
    fn replicate(&mut self) {
        let leader = self.replicas[self.leader].log.view();
        let follower = &mut self.replicas[1 - self.leader];
        let from = follower.log.log_end_offset();
        let bytes = leader.read(from, i64::MAX, self.rng.below(1000) as u32).unwrap();
        follower.log.append_fetched(from, &bytes, i32::MAX, at(0)).unwrap();
        for replica in &self.replicas {
            replica.log.view().sync().unwrap();
        }
        let end = self.replicas.iter().map(|replica| replica.log.log_end_offset()).min().unwrap();
        let more = end - self.high_watermark;
        self.high_watermark += if self.rng.percent(50) { more } else { self.rng.below(more as u64 + 1) as i64 };
    }

    fn checkpoint(&mut self) {
        for replica in &mut self.replicas {
            if self.rng.percent(50) {
                replica.log.write_snapshot(false).unwrap();
            }
            replica.recovery_point = replica.log.view().synced_offset();
        }
    }

    /// The follower leads, and the leader cuts what the other does not have.
    fn fail_over(&mut self) {
        self.leader = 1 - self.leader;
        let end = self.log().log_end_offset();
        let follower = &mut self.replicas[1 - self.leader];
        follower.log.truncate_to(end, at(0)).unwrap();
    }

    fn restart(&mut self) {
        let index = self.rng.below(2) as usize;
        let is_clean = self.rng.percent(30);
        let replica = &mut self.replicas[index];
        if is_clean {
            replica.recovery_point = replica.log.close().unwrap();
        }
        match self.rng.percent(50) {
            true => replica.disk.crash(),
            false => replica.disk.kill(),
        }
        let options = OpenOptions { recovery_point: replica.recovery_point, ..options(0, is_clean) };
        replica.log = open(&replica.disk, &config(), options).0;
        replica.held_until = replica.log.log_end_offset();
        if index == self.leader {
            self.fail_over();
        } else {
            let end = self.log().log_end_offset();
            self.replicas[index].log.truncate_to(end, at(0)).unwrap();
        }
    }

    fn check(&mut self) {
        for replica in &self.replicas {
            let view = replica.log.view();
            let high_watermark = self.high_watermark.min(view.log_end_offset());
            let (expected, found) =
                (last_stable_offset(&view, high_watermark), view.last_stable_offset(high_watermark));
            if high_watermark >= replica.held_until {
                assert_eq!(found, expected, "high watermark {high_watermark}");
            }
            check_aborted(&view, expected, &mut self.rng);
            assert!(found <= expected, "{found} instead of {expected}, high watermark {high_watermark}");
        }
    }
}

fn live(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..150 {
        world.step();
    }
    world.check();
}

#[test]
fn readers_of_committed_records_see_what_a_walk_over_all_batches_says() {
    run_seeds(seeds(150), live);
}

#[cfg(feature = "injected-faults")]
#[test]
fn every_injected_fault_is_found() {
    use storage::injected_faults::{InjectedFault, find};
    for (fault, name) in InjectedFault::ALL.into_iter().filter(|(fault, _)| fault.is_of_transactions_in_log()) {
        find(name, fault, live);
    }
}
