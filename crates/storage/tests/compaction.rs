//! Compaction: what is kept and what goes, and crashes in the middle of it.

mod common;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use common::*;
use rustix::io::Errno;
use storage::seeds::seeds;
use storage::simdisk::SimOp;
use storage::{CleanupPolicy, CompactionLimits, Log, LogConfig, LogError, Now, Origin, SimDisk};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::record::RecordReader;
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

const LIMITS: CompactionLimits =
    CompactionLimits { keys_max: 10_000, decompressed_bytes_max: 1 << 20, hash_key: [1, 2] };

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 4096,
        index_interval_bytes: 256,
        cleanup_policy: CleanupPolicy::COMPACT,
        delete_retention_ms: 1000,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    }
}

/// One record.
fn put(log: &mut Log, key: &str, value: Option<&str>, now: Now) -> i64 {
    let mut builder = BatchBuilder::new();
    builder.push(now.wall_ms, Some(key.as_bytes()), value.map(str::as_bytes), &[]);
    append(log, builder.build(), Origin::Client, now)
}

fn append(log: &mut Log, batch: Batch, origin: Origin, now: Now) -> i64 {
    append_agreed(log, batch, origin, 0, now).unwrap().base_offset
}

/// Compacts everything but the active segment. Returns where the next one has to start.
fn compact(log: &mut Log, first_dirty_offset: i64, limits: CompactionLimits, now: Now) -> Result<i64, LogError> {
    let cleanable = log.cleanable(first_dirty_offset, log.log_end_offset(), now)?;
    let mut compaction = log.begin_compaction(&cleanable, limits, now);
    let moved = Cell::new(0);
    while let Some(cleaned) = compaction.clean_next(&AtomicBool::new(false), &|bytes| moved.set(moved.get() + bytes))? {
        assert!(log.swap_in(cleaned, now)?);
    }
    // Whoever bounds the cleaner's rate is told of all that it reads and writes.
    let stats = compaction.stats();
    assert!(moved.get() >= stats.bytes_read + stats.bytes_written, "{} of {stats:?}", moved.get());
    Ok(compaction.next_dirty_offset())
}

type Records = Vec<(i64, String, Option<String>)>;

fn records(log: &Log) -> Records {
    let mut found = Vec::new();
    for (header, bytes) in read_all(&log.view(), &mut Rng::new(1)).batches {
        if header.attributes.is_control() {
            continue;
        }
        let batch = Batch { header, bytes };
        for record in RecordReader::new(&header, &batch.records(1 << 20).unwrap()) {
            let record = record.unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            found.push((record.offset, text(record.key.unwrap()), record.value.map(text)));
        }
    }
    found
}

fn latest(records: &Records) -> BTreeMap<String, (i64, Option<String>)> {
    records.iter().map(|(offset, key, value)| (key.clone(), (*offset, value.clone()))).collect()
}

#[test]
fn the_latest_value_of_each_key_stays_at_its_offset() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    let mut rng = Rng::new(7);
    for n in 0..500 {
        put(&mut log, &format!("key-{}", rng.below(20)), Some(&format!("value-{n}")), at(n));
    }
    log.roll(at(500)).unwrap();
    let (before, segments) = (records(&log), log.view().segment_count());
    let next = compact(&mut log, 0, LIMITS, at(600)).unwrap();
    let after = records(&log);
    assert_eq!(next, 500);
    assert_eq!(latest(&before), latest(&after));
    assert_eq!(after.len(), latest(&before).len());
    assert!(log.view().segment_count() < segments);
    assert_eq!(log.view().log_end_offset(), 500);
    // Again: nothing is dirty. The result is what a restart finds, clean or not.
    assert_eq!(log.cleanable(next, 500, at(600)).unwrap().cleanable_bytes, 0);
    for clean in [true, false] {
        let recovery_point = log.close().unwrap();
        disk.crash();
        let (reopened, report) = open(&disk, &config(), options(if clean { recovery_point } else { 0 }, clean));
        assert_eq!(report.bad_ranges, []);
        assert_eq!((records(&reopened), reopened.log_end_offset()), (after.clone(), 500));
        log = reopened;
    }
    let offset = log.view().batch_for_timestamp(at(0).wall_ms, 500).unwrap().unwrap().base_offset;
    assert_eq!(offset, after[0].0);
}

/// A recovery point that could be from before a truncation is taken back at the next start, and the journal is replayed
/// from there.
#[test]
fn a_recovery_point_is_believed_when_it_is_beyond_what_was_cut() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    let put_up_to = |log: &mut Log, end: i64| {
        while log.log_end_offset() < end {
            put(log, "a", Some("1"), at(0));
        }
        log.view().sync().unwrap();
        log.view().synced_offset()
    };
    let before = put_up_to(&mut log, 10);
    assert_eq!(log.believed_recovery_point(before), 10);
    log.truncate_to(4, at(1)).unwrap();
    for (end, believed) in [(4, 4), (5, 4), (10, 4), (11, 11)] {
        let noted = put_up_to(&mut log, end);
        assert_eq!((noted, log.believed_recovery_point(noted)), (end, believed));
        disk.kill();
        let (reopened, report) = open(&disk, &config(), options(noted, false));
        assert_eq!(report.recovery_point, believed, "as it is after a restart");
        log = reopened;
    }
}

#[test]
fn the_active_segment_and_what_is_too_young_stay() {
    let disk = SimDisk::new(1);
    let config = LogConfig { min_compaction_lag_ms: 100, ..config() };
    let (mut log, _) = open(&disk, &config, options(0, false));
    put(&mut log, "a", Some("1"), at(0));
    put(&mut log, "a", Some("2"), at(0));
    log.roll(at(0)).unwrap();
    put(&mut log, "a", Some("3"), at(50));
    log.roll(at(50)).unwrap();
    put(&mut log, "a", Some("4"), at(50));
    assert_eq!(compact(&mut log, 0, LIMITS, at(120)).unwrap(), 2);
    let offsets = |log: &Log| records(log).iter().map(|record| record.0).collect::<Vec<_>>();
    assert_eq!(offsets(&log), [1, 2, 3]);
    assert_eq!(compact(&mut log, 0, LIMITS, at(300)).unwrap(), 3);
    assert_eq!(offsets(&log), [2, 3]);
}

#[test]
fn tombstones_live_until_their_horizon() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    put(&mut log, "a", Some("1"), at(0));
    put(&mut log, "a", None, at(0));
    put(&mut log, "b", Some("1"), at(0));
    log.roll(at(0)).unwrap();
    let offsets = |log: &Log| records(log).iter().map(|record| record.0).collect::<Vec<_>>();
    compact(&mut log, 0, LIMITS, at(10)).unwrap();
    assert_eq!(offsets(&log), [1, 2]);
    compact(&mut log, 0, LIMITS, at(1009)).unwrap();
    assert_eq!(offsets(&log), [1, 2]);
    compact(&mut log, 0, LIMITS, at(1010)).unwrap();
    assert_eq!(offsets(&log), [2]);
}

#[test]
fn more_keys_than_the_map_takes_need_more_than_one_pass() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    for round in 0..2 {
        for n in 0..100 {
            put(&mut log, &format!("key-{n}"), Some(&format!("{round}")), at(n));
        }
    }
    log.roll(at(200)).unwrap();
    let before = latest(&records(&log));
    let (mut next, mut passes) = (0, 0);
    while next < 200 {
        let after = compact(&mut log, next, CompactionLimits { keys_max: 30, ..LIMITS }, at(300)).unwrap();
        assert!(after > next);
        (next, passes) = (after, passes + 1);
        assert_eq!(latest(&records(&log)), before);
    }
    assert!(passes > 1);
    compact(&mut log, 0, LIMITS, at(300)).unwrap();
    assert_eq!(records(&log).len(), 100);
}

#[test]
fn producers_keep_their_last_sequence() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    let of_producer = |sequence| {
        let mut builder = BatchBuilder::new().producer(5, 0, sequence);
        builder.push(at(0).wall_ms, Some(b"k"), Some(b"v"), &[]);
        builder.build()
    };
    append(&mut log, of_producer(0), Origin::Client, at(0));
    append(&mut log, of_producer(1), Origin::Client, at(0));
    put(&mut log, "k", Some("later"), at(0));
    log.roll(at(0)).unwrap();
    compact(&mut log, 0, LIMITS, at(1)).unwrap();
    assert_eq!(records(&log), [(2, "k".to_owned(), Some("later".to_owned()))]);
    for path in disk.paths().iter().filter(|path| file_name(path).ends_with(".snapshot")) {
        disk.put(path, b"garbage");
    }
    disk.kill();
    let (mut log, _) = open(&disk, &config(), options(0, false));
    assert_eq!(log.producer(5).unwrap().last_sequence(), 1);
    append(&mut log, of_producer(2), Origin::Client, at(2));
}

fn in_transaction(id: i64, sequence: i32, value: &str) -> Batch {
    let mut builder = BatchBuilder::new().producer(id, 0, sequence).transactional();
    builder.push(at(0).wall_ms, Some(b"k"), Some(value.as_bytes()), &[]);
    builder.build()
}

fn marker(id: i64, kind: ControlType) -> Batch {
    let mut builder = BatchBuilder::new().producer(id, 0, -1).transactional().control();
    let value = EndTxnMarker { coordinator_epoch: 7 }.write_versioned(0);
    builder.push(at(0).wall_ms, Some(&kind.write()), Some(&value), &[]);
    builder.build()
}

#[test]
fn aborted_records_are_no_values_and_markers_outlive_their_records() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    append(&mut log, in_transaction(1, 0, "committed"), Origin::Client, at(0));
    append(&mut log, marker(1, ControlType::Commit), Origin::Coordinator, at(0));
    append(&mut log, in_transaction(2, 0, "aborted"), Origin::Client, at(0));
    assert_eq!(log.view().first_undecided_offset(), Some(2));
    append(&mut log, marker(2, ControlType::Abort), Origin::Coordinator, at(0));
    assert_eq!(log.view().first_undecided_offset(), None);
    assert_eq!(log.producer(2).unwrap().coordinator_epoch, 7);
    put(&mut log, "other", Some("x"), at(0));
    log.roll(at(0)).unwrap();
    let headers = |log: &Log| {
        let content = read_all(&log.view(), &mut Rng::new(1));
        let of = |(header, _): &(wire::batch::BatchHeader, _)| (header.base_offset, header.record_count);
        content.batches.iter().map(of).collect::<Vec<_>>()
    };
    compact(&mut log, 0, LIMITS, at(10)).unwrap();
    assert_eq!(records(&log)[0], (0, "k".to_owned(), Some("committed".to_owned())));
    // The aborted batch stays empty as the last one of its producer.
    assert_eq!(headers(&log), [(0, 1), (1, 1), (2, 0), (3, 1), (4, 1)]);
}

#[test]
fn aborted_records_are_no_values_wherever_their_marker_is() {
    for rolls in 0..3 {
        let disk = SimDisk::new(1);
        let (mut log, _) = open(&disk, &config(), options(0, false));
        put(&mut log, "k", Some("before"), at(0));
        append(&mut log, in_transaction(2, 0, "aborted"), Origin::Client, at(0));
        log.roll(at(0)).unwrap();
        for n in 0..rolls {
            put(&mut log, "other", Some(&format!("{n}")), at(0));
            log.roll(at(0)).unwrap();
        }
        append(&mut log, marker(2, ControlType::Abort), Origin::Coordinator, at(0));
        append(&mut log, in_transaction(2, 1, "after"), Origin::Client, at(0));
        append(&mut log, marker(2, ControlType::Commit), Origin::Coordinator, at(0));
        compact(&mut log, 0, LIMITS, at(10)).unwrap();
        assert_eq!(records(&log)[0], (0, "k".to_owned(), Some("before".to_owned())), "{rolls}");
    }
}

#[test]
fn an_open_transaction_is_not_compacted() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    put(&mut log, "k", Some("first"), at(0));
    put(&mut log, "k", Some("before"), at(0));
    log.roll(at(0)).unwrap();
    append(&mut log, in_transaction(2, 0, "aborted"), Origin::Client, at(0));
    log.roll(at(0)).unwrap();
    assert_eq!(log.cleanable(0, log.log_end_offset(), at(10)).unwrap().first_uncleanable_offset, 2);
    let next_dirty_offset = compact(&mut log, 0, LIMITS, at(10)).unwrap();
    append(&mut log, marker(2, ControlType::Abort), Origin::Coordinator, at(20));
    compact(&mut log, next_dirty_offset, LIMITS, at(30)).unwrap();
    assert_eq!(records(&log)[0], (1, "k".to_owned(), Some("before".to_owned())));
}

#[test]
fn a_bad_batch_stops_the_compaction_and_nothing_is_lost() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    for n in 0..100 {
        put(&mut log, &format!("key-{}", n % 5), Some(&format!("value-{n}")), at(n));
    }
    log.roll(at(100)).unwrap();
    let path = segment_paths(&disk)[1].clone();
    assert!(disk.flip_bit(&path, 70, 3));
    let before = records(&log);
    assert!(matches!(compact(&mut log, 0, LIMITS, at(200)), Err(LogError::Corrupt { .. })));
    assert_eq!(records(&log), before);
    assert!(!disk.paths().iter().any(|path| file_name(path).ends_with(".cleaned")));
}

/// What consumers of committed records have in the end of each key. They go by the list of aborted transactions as
/// Kafka's do (`CompletedFetch`): a producer's batches are skipped from where such a transaction starts to its marker.
fn committed(log: &Log, end_offset: i64, rng: &mut Rng) -> Values {
    let (view, mut latest) = (log.view(), BTreeMap::new());
    let mut offset = view.log_start_offset();
    while let Some((span, mut aborted)) = view.committed_span(offset, end_offset, rng.below(3000) as u32).unwrap() {
        aborted.sort_by_key(|aborted| std::cmp::Reverse(aborted.first_offset));
        let mut skipped = BTreeSet::new();
        for batch in Batches::new(span.read_cached().unwrap().into()).map_while(Result::ok) {
            let header = batch.header;
            offset = header.next_offset();
            while let Some(begun) = aborted.pop_if(|aborted| aborted.first_offset <= header.last_offset()) {
                skipped.insert(begun.producer_id);
            }
            let records = batch.records(1 << 20).unwrap();
            for record in RecordReader::new(&header, &records).map(Result::unwrap) {
                let key = record.key.unwrap();
                if header.attributes.is_control() {
                    if ControlType::read(&Bytes::copy_from_slice(key)) == Ok(ControlType::Abort) {
                        skipped.remove(&header.producer_id);
                    }
                } else if !header.attributes.is_transactional() || !skipped.contains(&header.producer_id) {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    latest.insert(text(key), (record.offset, text(record.value.unwrap())));
                }
            }
        }
    }
    latest
}

/// Each batch that is left of an aborted transaction is read together with the name of that transaction.
fn check_aborted(log: &Log, seed: u64) {
    let (mut left, view) = (BTreeMap::<i64, Vec<i64>>::new(), log.view());
    for (header, bytes) in read_all(&view, &mut Rng::new(1)).batches {
        if !header.attributes.is_control() {
            if header.attributes.is_transactional() {
                left.entry(header.producer_id).or_default().push(header.base_offset);
            }
            continue;
        }
        let batch = Batch { header, bytes };
        let record = RecordReader::new(&header, batch.section()).next().transpose().unwrap();
        let kind = record.map(|record| ControlType::read(&Bytes::copy_from_slice(record.key.unwrap())).unwrap());
        for offset in left.remove(&header.producer_id).unwrap_or_default() {
            let (_, found) = view.committed_span(offset, offset + 1, 1).unwrap().unwrap();
            let is_named = found
                .iter()
                .any(|found| (found.producer_id, found.last_offset) == (header.producer_id, header.base_offset));
            assert_eq!(is_named, kind == Some(ControlType::Abort), "PARSHALL_SEED={seed} {offset} {found:?}");
        }
    }
}

/// Latest offset and value of each key.
type Values = BTreeMap<String, (i64, String)>;

fn commit(values: &mut Values, written: Vec<(i64, String, String)>) {
    for (offset, key, value) in written {
        let latest = values.entry(key).or_insert((offset, value.clone()));
        if latest.0 <= offset {
            *latest = (offset, value);
        }
    }
}

/// Random transactions, compactions and crashes.
#[test]
fn compaction_keeps_what_readers_of_committed_records_see_of_each_key() {
    let config = LogConfig { segment_bytes: 1200, ..config() };
    for seed in seeds(150) {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let (mut log, _) = open(&disk, &config, options(0, false));
        let (mut expected, mut open_transactions) = (Values::new(), BTreeMap::<i64, Vec<_>>::new());
        let (mut next_dirty, mut recovery_point) = (0, 0);
        for round in 0..20i64 {
            let now = at(700 * round);
            for n in 0..rng.below(30) {
                let id = rng.below(5) as i64;
                let (key, value) = (format!("key-{}", rng.below(8)), format!("{round}-{n}"));
                if id == 0 {
                    let offset = put(&mut log, &key, Some(&value), now);
                    commit(&mut expected, vec![(offset, key, value)]);
                } else if rng.percent(70) {
                    let sequence = log.producer(id).map_or(0, |known| known.last_sequence() + 1);
                    let mut builder = BatchBuilder::new().producer(id, 0, sequence).transactional();
                    builder.push(now.wall_ms, Some(key.as_bytes()), Some(value.as_bytes()), &[]);
                    let offset = append(&mut log, builder.build(), Origin::Client, now);
                    open_transactions.entry(id).or_default().push((offset, key, value));
                } else {
                    let written = open_transactions.remove(&id).unwrap_or_default();
                    let kind = if rng.percent(60) { ControlType::Abort } else { ControlType::Commit };
                    append(&mut log, marker(id, kind), Origin::Coordinator, now);
                    if kind == ControlType::Commit {
                        commit(&mut expected, written);
                    }
                }
            }
            recovery_point = log.view().sync().unwrap().max(recovery_point);
            if rng.percent(60) {
                log.roll(now).unwrap();
            }
            let op = [SimOp::Rename, SimOp::SyncDir, SimOp::Write, SimOp::Sync, SimOp::Open][rng.below(5) as usize];
            if rng.percent(50) {
                disk.fail(op, rng.below(12), Errno::IO);
            }
            let keys_max = if rng.percent(20) { 3 } else { LIMITS.keys_max };
            next_dirty =
                compact(&mut log, next_dirty, CompactionLimits { keys_max, ..LIMITS }, now).unwrap_or(next_dirty);
            disk.clear_faults();
            if log.view().failure().is_some() || rng.percent(30) {
                match rng.percent(50) {
                    true => disk.crash(),
                    false => disk.kill(),
                }
                log = open(&disk, &config, options(recovery_point, false)).0;
            }
            check_aborted(&log, seed);
            // What is not decided is not visible yet, and what is behind it neither.
            let last_stable_offset = log.view().last_stable_offset(log.log_end_offset());
            let mut stable = expected.clone();
            stable.retain(|_, (offset, _)| *offset < last_stable_offset);
            let found = committed(&log, last_stable_offset, &mut rng);
            for (key, value) in stable {
                assert_eq!(found.get(&key), Some(&value), "PARSHALL_SEED={seed} round {round} {key}");
            }
        }
        for id in 1..5 {
            open_transactions.remove(&id);
            append(&mut log, marker(id, ControlType::Abort), Origin::Coordinator, at(90_000));
        }
        assert_eq!(committed(&log, log.log_end_offset(), &mut rng), expected, "PARSHALL_SEED={seed}");
    }
}

#[test]
fn an_aborted_transaction_leaves_the_index_with_its_last_batch_and_its_marker_later() {
    let disk = SimDisk::new(1);
    let (mut log, _) = open(&disk, &config(), options(0, false));
    append(&mut log, in_transaction(1, 0, "aborted"), Origin::Client, at(0));
    append(&mut log, marker(1, ControlType::Abort), Origin::Coordinator, at(0));
    append(&mut log, in_transaction(1, 1, "committed"), Origin::Client, at(0));
    append(&mut log, marker(1, ControlType::Commit), Origin::Coordinator, at(0));
    log.roll(at(0)).unwrap();
    let mut after = |now| {
        compact(&mut log, 0, LIMITS, now).unwrap();
        let markers = read_all(&log.view(), &mut Rng::new(1)).batches;
        let has_marker = markers.iter().any(|(header, _)| header.base_offset == 1);
        (has_marker, disk.get(&dir().join("00000000000000000000.txnindex")).map_or(0, |bytes| bytes.len()))
    };
    assert_eq!(after(at(10)), (true, 34), "its batch was still there when it was read");
    assert_eq!(after(at(20)), (true, 0), "the delete horizon begins");
    assert_eq!(after(at(1019)), (true, 0));
    assert_eq!(after(at(1020)), (false, 0));
}

/// Random records and compactions; power fails, the process dies or the disk fails at any moment.
#[test]
fn crashes_lose_no_latest_value() {
    for seed in seeds(100) {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let (mut log, _) = open(&disk, &config(), options(0, false));
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        let (mut next_dirty, mut recovery_point) = (0, 0);
        for round in 0..12i64 {
            for n in 0..rng.below(80) {
                let key = format!("key-{}", rng.below(15));
                let offset = put(&mut log, &key, Some(&format!("{round}-{n}")), at(100 * round));
                model.insert(key, offset);
            }
            recovery_point = log.view().sync().unwrap().max(recovery_point);
            if rng.percent(30) {
                log.roll(at(100 * round)).unwrap();
            }
            let op = [SimOp::Rename, SimOp::SyncDir, SimOp::Write, SimOp::Sync, SimOp::Open][rng.below(5) as usize];
            if rng.percent(60) {
                disk.fail(op, rng.below(8), Errno::IO);
            }
            let now = at(100 * round + 50);
            match compact(&mut log, next_dirty, LIMITS, now) {
                Ok(next) => next_dirty = next,
                Err(error) => assert!(matches!(error, LogError::Failed(_) | LogError::Io(_)), "{seed}: {error}"),
            }
            disk.clear_faults();
            let has_failed = log.view().failure().is_some();
            if !has_failed {
                log.remove_deleted_files(now).unwrap();
            }
            if has_failed || rng.percent(50) {
                if rng.percent(50) {
                    disk.crash();
                } else {
                    disk.kill();
                }
                let reopened = open(&disk, &config(), options(recovery_point, false));
                log = reopened.0;
                assert_eq!(reopened.1.bad_ranges, [], "seed {seed}");
            }
            let found: BTreeMap<String, i64> =
                latest(&records(&log)).into_iter().map(|(key, (offset, _))| (key, offset)).collect();
            assert_eq!(found, model, "PARSHALL_SEED={seed} round {round}");
        }
    }
}
