//! What a replica does to its log: take what the leader sends, cut what the leader does not have, lead.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use common::*;
use rustix::io::Errno;
use storage::seeds::seeds;
use storage::simdisk::SimOp;
use storage::{
    AppendError, EpochEndOffset, Fetched, FetchedError, Log, LogConfig, LogView, OpenOptions, Origin, ReadError,
    RealDisk, SimDisk,
};
use wire::batch::{Batch, BatchBuilder, BatchError, BatchHeader, Batches, HEADER_BYTES, crc};
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

fn new_log(seed: u64, config: &LogConfig) -> (SimDisk, Log) {
    let disk = SimDisk::new(seed);
    let (log, _) = open(&disk, config, options(0, false));
    (disk, log)
}

fn append(log: &mut Log, epoch: i32, batches: &[Batch]) {
    let results = log.append(batches, Origin::Coordinator, epoch, at(0)).unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

fn records(count: usize) -> BatchBuilder {
    batch(count, 100, &mut Rng::new(count as u64), at(0))
}

fn marker(control: ControlType) -> Batch {
    let value = EndTxnMarker { coordinator_epoch: 1 }.write_versioned(0);
    let mut builder = BatchBuilder::new().producer(9, 0, -1).transactional().control();
    builder.push(at(0).wall_ms, Some(&control.write()), Some(&value), &[]);
    builder.build()
}

/// A log with three leader epochs, a producer with sequences, and a transaction that was aborted.
fn leader(config: &LogConfig) -> (SimDisk, Log) {
    let (disk, mut log) = new_log(1, config);
    for epoch in 0..3 {
        append(&mut log, epoch, &[records(3).build(), records(2).producer(7, 0, epoch * 2).build()]);
    }
    append_agreed(&mut log, records(1).producer(9, 0, 0).transactional().build(), Origin::Client, 2, at(0)).unwrap();
    append(&mut log, 2, &[marker(ControlType::Abort)]);
    (disk, log)
}

fn all(log: &Log) -> Bytes {
    let mut bytes = BytesMut::new();
    for (_, batch) in read_all(&log.view(), &mut Rng::new(1)).batches {
        bytes.extend_from_slice(&batch);
    }
    bytes.freeze()
}

/// The batches of a chunk, joined again after they were changed. Those whose bytes changed keep their CRCs.
fn changed(chunk: &Bytes, change: impl Fn(usize, &mut BatchHeader)) -> Bytes {
    let mut bytes = BytesMut::new();
    let mut rest = chunk.clone();
    for index in 0.. {
        let Ok(batch) = Batch::parse(&rest) else { break };
        rest = rest.slice(batch.header.size()..);
        let mut header = batch.header;
        change(index, &mut header);
        bytes.extend_from_slice(&header.to_bytes());
        bytes.extend_from_slice(batch.section());
    }
    bytes.freeze()
}

fn fetch(follower: &mut Log, chunk: &Bytes) -> Result<Fetched, FetchedError> {
    follower.append_fetched(follower.log_end_offset(), chunk, 2, at(0))
}

#[test]
fn a_marker_that_was_emptied_tells_nothing_of_its_coordinator() {
    let (_, leader) = leader(&LogConfig::default());
    let (_, mut follower) = new_log(2, &LogConfig::default());
    fetch(&mut follower, &all(&leader)).unwrap();
    let before = follower.producer(9).unwrap().coordinator_epoch;
    assert!(before > -1);
    let emptied = stored(&marker(ControlType::Commit).emptied(), follower.log_end_offset(), 2);
    fetch(&mut follower, &emptied).unwrap();
    assert_eq!(follower.producer(9).unwrap().coordinator_epoch, before);
}

#[test]
fn a_chunk_is_taken_over_as_it_is_in_one_write() {
    let (_, leader) = leader(&LogConfig::default());
    let (disk, mut follower) = new_log(2, &LogConfig::default());
    let chunk = all(&leader);
    let before = disk.operations();
    let fetched = fetch(&mut follower, &chunk).unwrap();
    assert_eq!(fetched, Fetched { batches: 8, bytes: chunk.len() });
    assert_eq!(disk.operations(), before + 4, "both files are opened first, the transaction index has an abort");
    assert_eq!(all(&follower), chunk);
    assert_eq!(follower.view().epoch_entries(), leader.view().epoch_entries());
    assert_eq!(follower.describe_producers(), leader.describe_producers());
    assert_eq!(follower.view().synced_offset(), 0, "it is on disk after a sync");
}

#[test]
fn a_chunk_may_end_anywhere() {
    let (_, leader) = leader(&LogConfig::default());
    let chunk = all(&leader);
    for length in (0..chunk.len()).step_by(7) {
        let (_, mut follower) = new_log(2, &LogConfig::default());
        let fetched = fetch(&mut follower, &chunk.slice(..length)).unwrap();
        assert!(fetched.bytes <= length && all(&follower) == chunk[..fetched.bytes]);
        fetch(&mut follower, &chunk.slice(fetched.bytes..)).unwrap();
        assert_eq!(all(&follower), chunk);
    }
}

#[test]
fn a_chunk_may_be_larger_than_segments_and_a_batch_too() {
    let (_, mut leader) = new_log(1, &LogConfig::default());
    let sized = |bytes| batch(1, bytes, &mut Rng::new(1), at(0)).build();
    append(&mut leader, 0, &[sized(300), sized(300), sized(300), sized(5000), sized(300)]);
    let config = LogConfig { segment_bytes: 1000, max_message_bytes: 100, ..LogConfig::default() };
    let (_, mut follower) = new_log(2, &config);
    assert_eq!(fetch(&mut follower, &all(&leader)).unwrap().batches, 5);
    assert_eq!(all(&follower), all(&leader));
    assert_eq!(follower.view().segment_count(), 4);
}

#[test]
fn what_a_compacted_log_lacks_is_no_trouble() {
    let (_, leader) = leader(&LogConfig::default());
    let tail = all(&leader).slice(Batch::parse(&all(&leader)).unwrap().header.size()..);
    let (_, mut follower) = new_log(2, &LogConfig::default());
    fetch(&mut follower, &tail).unwrap();
    assert_eq!(follower.log_end_offset(), leader.log_end_offset());
    assert_eq!(all(&follower), tail);
}

#[test]
fn a_response_for_another_place_is_refused() {
    let (_, leader) = leader(&LogConfig::default());
    let (_, mut follower) = new_log(2, &LogConfig::default());
    let chunk = all(&leader);
    let not_at_end = |result: Result<Fetched, FetchedError>| {
        assert!(matches!(result, Err(FetchedError::Append(AppendError::OffsetsOutOfOrder { .. }))), "{result:?}");
    };
    // Cut since it was asked for: without the fetch offset this would look like a gap of compaction.
    not_at_end(follower.append_fetched(5, &chunk.slice(Batch::parse(&chunk).unwrap().header.size()..), 2, at(0)));
    fetch(&mut follower, &chunk).unwrap();
    not_at_end(fetch(&mut follower, &chunk));
    // Offsets that go back within the chunk.
    follower.truncate_to(0, at(0)).unwrap();
    let back = changed(&chunk, |index, header| header.base_offset -= i64::from(index == 2));
    assert_eq!(fetch(&mut follower, &back).unwrap().batches, 2);
    let rest = back.slice(all(&follower).len()..);
    not_at_end(fetch(&mut follower, &rest));
}

#[test]
fn an_empty_log_that_begins_within_a_batch_starts_anew_at_its_base_offset() {
    let (_, leader) = leader(&LogConfig::default());
    let (_, mut follower) = new_log(2, &LogConfig::default());
    follower.truncate_fully_and_start_at(1, at(0)).unwrap();
    let expected = AppendError::OffsetsOutOfOrder { base_offset: 0, log_end_offset: 1 };
    assert!(matches!(fetch(&mut follower, &all(&leader)), Err(FetchedError::Append(error)) if error == expected));
    follower.truncate_fully_and_start_at(0, at(0)).unwrap();
    fetch(&mut follower, &all(&leader)).unwrap();
    assert_eq!(all(&follower), all(&leader));
}

#[test]
fn a_refused_batch_refuses_those_behind_it() {
    let (_, leader) = leader(&LogConfig::default());
    let batches: Vec<Batch> = Batches::new(all(&leader)).map(Result::unwrap).collect();
    let (_, mut follower) = new_log(2, &LogConfig::default());
    let again = [batches[0].clone(), batches[0].clone(), batches[1].clone()];
    let results = follower.append_as_follower(&again, at(0)).unwrap();
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(follower.log_end_offset(), 3);
}

#[test]
fn damage_is_not_stored_and_what_is_in_front_of_it_is() {
    let (_, leader) = leader(&LogConfig::default());
    let chunk = all(&leader);
    let first = Batch::parse(&chunk).unwrap().header.size();
    for position in first + 16..first + 80 {
        let mut bytes = BytesMut::from(&chunk[..]);
        bytes[position] ^= 4;
        let bytes = bytes.freeze();
        let (_, mut follower) = new_log(2, &LogConfig::default());
        assert_eq!(fetch(&mut follower, &bytes).unwrap(), Fetched { batches: 1, bytes: first }, "{position}");
        let damaged = fetch(&mut follower, &bytes.slice(first..));
        assert!(matches!(damaged, Err(FetchedError::Corrupt { offset: 3, .. })), "{damaged:?}");
        assert_eq!(all(&follower), chunk[..first]);
    }
    // With a CRC that fits.
    let (_, mut follower) = new_log(2, &LogConfig::default());
    let negative = changed(&chunk, |_, header| header.last_offset_delta = -1);
    let mut negative = BytesMut::from(&negative[..]);
    let crc = crc(&negative[..first]);
    negative[17..21].copy_from_slice(&crc.to_be_bytes());
    let result = fetch(&mut follower, &negative.freeze());
    assert!(matches!(result, Err(FetchedError::Corrupt { error: BatchError::Count { .. }, .. })), "{result:?}");
    assert_eq!(follower.log_end_offset(), 0);
}

#[test]
fn batches_of_a_later_epoch_than_the_fetch_stay_out() {
    let (_, leader) = leader(&LogConfig::default());
    let (_, mut follower) = new_log(2, &LogConfig::default());
    let fetched = follower.append_fetched(0, &all(&leader), 1, at(0)).unwrap();
    assert_eq!((fetched.batches, follower.log_end_offset()), (4, 10));
    let rest = all(&leader).slice(fetched.bytes..);
    let of_the_next = follower.append_fetched(10, &rest, 1, at(0));
    assert!(matches!(of_the_next, Err(FetchedError::FromTheFuture(2))), "{of_the_next:?}");
    assert_eq!(follower.append_fetched(10, &rest, 2, at(0)).unwrap().batches, 4);
}

#[test]
fn a_full_disk_takes_what_fits_and_then_nothing() {
    let (_, leader) = leader(&LogConfig::default());
    let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
    let (disk, mut follower) = new_log(2, &config);
    disk.set_free_bytes(1500);
    let chunk = all(&leader);
    let fetched = fetch(&mut follower, &chunk).unwrap();
    assert!((1..8).contains(&fetched.batches));
    assert_eq!(all(&follower), chunk[..fetched.bytes]);
    let rest = chunk.slice(fetched.bytes..);
    assert!(matches!(fetch(&mut follower, &rest), Err(FetchedError::Append(AppendError::DiskFull))));
    disk.clear_faults();
    fetch(&mut follower, &rest).unwrap();
    assert_eq!(all(&follower), chunk);
    assert_eq!(follower.describe_producers(), leader.describe_producers());
}

// --- Leader epochs

#[test]
fn an_epoch_begins_at_the_log_end_before_it_has_records() {
    let (_, mut log) = leader(&LogConfig::default());
    let end = log.log_end_offset();
    log.assign_epoch(6).unwrap();
    let view = log.view();
    let end_of = |view: &LogView, epoch| view.end_offset_for_epoch(epoch, view.log_end_offset());
    assert_eq!(end_of(&view, 2), EpochEndOffset { epoch: 2, end_offset: end });
    assert_eq!(end_of(&view, 5), EpochEndOffset { epoch: 2, end_offset: end });
    append(&mut log, 6, &[records(4).build()]);
    log.assign_epoch(6).unwrap();
    assert_eq!(end_of(&view, 6), EpochEndOffset { epoch: 6, end_offset: end + 4 });
    assert_eq!(end_of(&view, 2).end_offset, end, "a second leadership in the same epoch changes nothing");
    log.assign_epoch(7).unwrap();
    log.assign_epoch(8).unwrap();
    assert_eq!(view.epoch_entries().last().map(|last| (last.epoch, last.start_offset)), Some((8, end + 4)));
    assert_eq!(end_of(&view, 7), EpochEndOffset { epoch: 6, end_offset: end + 4 }, "it had no records");
}

#[test]
fn an_epoch_without_records_goes_with_a_truncation_to_the_log_end() {
    let (_, mut log) = leader(&LogConfig::default());
    let end = log.log_end_offset();
    log.assign_epoch(6).unwrap();
    assert_eq!(log.truncate_to(end, at(0)).unwrap(), end);
    assert_eq!(log.view().latest_epoch().unwrap().epoch, 2);
    // Nor does it hide the epoch of what is fetched.
    log.assign_epoch(6).unwrap();
    let (_, mut other) = new_log(2, &LogConfig::default());
    fetch(&mut other, &all(&log)).unwrap();
    append(&mut other, 5, &[records(1).build()]);
    let chunk = other.view().read(end, end + 1, 1).unwrap();
    log.append_fetched(end, &chunk, 7, at(0)).unwrap();
    assert_eq!(log.view().latest_epoch().map(|latest| (latest.epoch, latest.start_offset)), Some((5, end)));
}

#[test]
fn an_assigned_epoch_is_on_disk_with_the_next_sync() {
    let (disk, mut log) = leader(&LogConfig::default());
    log.view().sync().unwrap();
    log.assign_epoch(6).unwrap();
    log.view().sync().unwrap();
    let written = String::from_utf8(disk.get(&dir().join("leader-epoch-checkpoint")).unwrap()).unwrap();
    assert!(written.ends_with(&format!("6 {}\n", log.log_end_offset())), "{written}");
}

// --- Truncating

#[test]
fn a_truncation_takes_back_what_was_known_of_producers() {
    let (_, mut log) = leader(&small_config());
    let end = log.log_end_offset();
    assert_eq!(log.view().first_undecided_offset(), None);
    log.truncate_to(end - 1, at(0)).unwrap();
    assert_eq!(log.view().first_undecided_offset(), Some(end - 2), "the marker is gone, the transaction open again");
    log.truncate_to(end - 2, at(0)).unwrap();
    assert!(log.producer(9).is_none() && log.view().first_undecided_offset().is_none());
    log.truncate_to(9, at(0)).unwrap();
    assert_eq!(log.producer(7).unwrap().last_sequence(), 1);
    let mut again = |sequence| {
        let batch = records(2).producer(7, 0, sequence).build();
        log.append(&[batch], Origin::Client, 3, at(0)).unwrap().remove(0)
    };
    assert!(matches!(again(4), Err(AppendError::OutOfOrderSequence { last_sequence: 1, .. })));
    assert!(!again(2).unwrap().is_duplicate);
}

#[test]
fn a_truncation_leaves_indexes_that_find_everything() {
    let config = small_config();
    let (disk, mut log) = new_log(1, &config);
    let mut rng = Rng::new(1);
    let batches: Vec<Batch> = (0..200).map(|n| batch(2, 150, &mut rng, at(n)).build()).collect();
    append(&mut log, 0, &batches);
    for offset in [397, 222, 180, 41, 3] {
        log.truncate_to(offset, at(0)).unwrap();
        let end = log.log_end_offset();
        assert_eq!(end, offset / 2 * 2);
        for at_offset in 0..end {
            let bytes = log.view().read(at_offset, end, 1).unwrap();
            assert_eq!(Batch::parse(&bytes).unwrap().header.base_offset, at_offset / 2 * 2);
        }
        let last = log.view().batch_for_timestamp(at(end / 2 - 1).wall_ms, end).unwrap();
        assert_eq!(last.map(|header| header.base_offset), Some(end - 2));
        assert!(log.view().batch_for_timestamp(at(end / 2).wall_ms, end).unwrap().is_none());
    }
    drop(log);
    disk.kill();
    let (log, report) = open(&disk, &config, options(0, false));
    assert_eq!((log.log_end_offset(), report.cut, report.bad_ranges.len()), (2, None, 0));
}

#[test]
fn the_age_of_a_segment_outlives_a_truncation() {
    let config = LogConfig { segment_ms: 1000, ..LogConfig::default() };
    let (_, mut log) = new_log(1, &config);
    let sent = |ms| batch(1, 10, &mut Rng::new(1), at(ms)).build();
    append(&mut log, 0, &[sent(0), sent(900)]);
    log.truncate_to(1, at(900)).unwrap();
    append(&mut log, 0, &[sent(950), sent(1100)]);
    assert_eq!(log.view().segment_count(), 2);
}

#[test]
fn a_truncation_succeeds_on_a_full_disk_or_changes_nothing() {
    for free_bytes in [0, 40, 10_000] {
        let (disk, mut log) = leader(&small_config());
        log.view().sync().unwrap();
        let (end, content) = (log.log_end_offset(), all(&log));
        disk.set_free_bytes(free_bytes);
        match log.truncate_to(5, at(0)) {
            Ok(new_end) => assert_eq!((new_end, log.producer(7).unwrap().last_sequence()), (5, 1)),
            Err(error) => {
                assert!(error.is_retriable(), "{error}");
                assert_eq!((log.log_end_offset(), all(&log)), (end, content));
                disk.clear_faults();
                assert_eq!(log.truncate_to(5, at(0)).unwrap(), 5);
            }
        }
        assert_eq!(log.view().latest_epoch().unwrap().epoch, 0);
        disk.clear_faults();
        append(&mut log, 4, &[records(2).producer(7, 0, 2).build()]);
        assert_eq!(log.view().sync().unwrap(), 7);
    }
}

#[test]
fn without_descriptors_a_truncation_changes_nothing_or_is_through() {
    let mut refused = 0;
    for after in 0.. {
        let (disk, log) = leader(&small_config());
        let recovery_point = log.view().sync().unwrap();
        drop(log);
        disk.kill();
        let (mut log, _) = open(&disk, &small_config(), options(recovery_point, false));
        let (end, content) = (log.log_end_offset(), all(&log));
        let before = disk.operations();
        disk.fail(SimOp::Open, after, Errno::MFILE);
        match log.truncate_to(5, at(0)) {
            Ok(new_end) => {
                assert_eq!((new_end, log.describe_producers().len()), (5, 1));
                assert_eq!(log.view().latest_epoch().unwrap().epoch, 0);
                if after > disk.operations() - before {
                    break;
                }
            }
            Err(error) => {
                assert!(error.is_retriable(), "{error}");
                disk.clear_faults();
                assert_eq!((log.log_end_offset(), all(&log)), (end, content));
                assert_eq!(log.describe_producers().len(), 2);
                refused += 1;
            }
        }
    }
    assert!(refused > 2, "only {refused}");
}

/// A snapshot of a history that was cut must not come back beside the one that took its place.
#[test]
fn a_producer_snapshot_behind_a_truncation_is_gone_for_good() {
    for seed in 0..40 {
        for starts_anew in [false, true] {
            let (disk, mut log) = new_log(seed, &LogConfig::default());
            append(&mut log, 0, &[records(2).producer(7, 0, 0).build()]);
            log.view().sync().unwrap();
            append(&mut log, 0, &[records(2).producer(7, 0, 2).build(), records(2).producer(8, 0, 0).build()]);
            log.write_snapshot(true).unwrap();
            log.view().sync().unwrap();
            if starts_anew {
                log.truncate_fully_and_start_at(2, at(0)).unwrap();
            } else {
                log.truncate_to(2, at(0)).unwrap();
            }
            append(&mut log, 0, &[records(5).build()]);
            let recovery_point = log.view().sync().unwrap();
            let expected = log.describe_producers();
            drop(log);
            disk.crash();
            let (log, _) = open(&disk, &LogConfig::default(), options(recovery_point, false));
            assert_eq!(log.describe_producers(), expected, "seed {seed}");
        }
    }
}

/// Power goes between any two steps of a truncation, and again after other batches took the place of those that were
/// cut. The owner's recovery point stays that of before the truncation.
#[test]
fn a_truncation_that_is_cut_short_mixes_nothing() {
    for seed in seeds(60) {
        for starts_anew in [false, true] {
            let mut steps = 0;
            while !cut_short(seed, starts_anew, steps) {
                steps += 1;
            }
            assert!(steps > 1, "only {steps} steps");
        }
    }
}

/// Returns whether the truncation was through before it could be cut short.
fn cut_short(seed: u64, starts_anew: bool, steps: u64) -> bool {
    let mut rng = Rng::new(seed);
    let config = LogConfig { segment_bytes: 6000, ..small_config() };
    let (disk, mut log) = new_log(seed, &config);
    let mut written = BTreeMap::new();
    let mut synced = 0;
    for epoch in 0..6 {
        grow(&mut log, epoch, &mut written, &mut rng);
        if rng.percent(60) {
            log.write_snapshot(true).unwrap();
            synced = log.view().sync().unwrap();
        }
    }
    if rng.percent(50) {
        synced = log.view().sync().unwrap();
    }
    let is_all_synced = synced == log.log_end_offset();
    let recovery_point = synced;
    let offset = rng.below(log.log_end_offset() as u64) as i64;
    disk.stop_after(steps);
    let is_through = match starts_anew {
        false => log.truncate_to(offset, at(0)).is_ok(),
        true => log.truncate_fully_and_start_at(offset, at(0)).is_ok(),
    };
    if is_through && starts_anew {
        written.clear();
    } else if is_through {
        written.split_off(&log.log_end_offset());
    }
    let kept = if is_through { log.log_end_offset() } else { 0 };
    // What the owner does meanwhile: nothing, or it goes on.
    disk.clear_faults();
    if is_through {
        synced = synced.min(kept);
        for epoch in 6..9 {
            grow(&mut log, epoch, &mut written, &mut rng);
            if rng.percent(30) {
                synced = log.view().sync().unwrap();
            }
        }
    } else if !starts_anew {
        // The batch at the offset goes whole.
        synced = synced.min(written.range(..=offset).next_back().map_or(0, |(&base, _)| base));
    } else {
        synced = 0;
    }
    let end = log.log_end_offset();
    drop(log);
    disk.crash();
    let options = OpenOptions { recovery_point, ..options(0, false) };
    let (log, report) = open(&disk, &config, options);
    let context = format!("seed {seed} steps {steps} {starts_anew} {report:?}");
    check(&log, &written, synced, &context);
    if is_through {
        assert!(log.log_end_offset() <= end, "it ended at {end}: {context}");
    } else if is_all_synced {
        assert!(report.bad_ranges.is_empty(), "{context}");
    }
    is_through
}

fn grow(log: &mut Log, epoch: i32, written: &mut BTreeMap<i64, Bytes>, rng: &mut Rng) {
    let count = 1 + rng.below(12);
    let producer_id = rng.below(3) as i64;
    let batches: Vec<Batch> = (0..count)
        .map(|n| batch(2, 200, rng, at(0)).producer(producer_id, epoch as i16, n as i32 * 2).build())
        .collect();
    for (batch, result) in batches.iter().zip(log.append(&batches, Origin::Client, epoch, at(0)).unwrap()) {
        let base_offset = result.unwrap().base_offset;
        written.insert(base_offset, stored(batch, base_offset, epoch));
    }
}

/// The log has what was written and nothing else, all that was synced, and what is known of it fits its batches.
fn check(log: &Log, written: &BTreeMap<i64, Bytes>, synced: i64, context: &str) {
    let view = log.view();
    let content = read_all(&view, &mut Rng::new(1));
    let mut next = view.log_start_offset();
    for (header, bytes) in &content.batches {
        while let Some(gap) = content.corrupt.iter().find(|gap| gap.0 == next) {
            next = gap.1;
        }
        assert_eq!(header.base_offset, next, "{context}");
        assert!(written.get(&next) == Some(bytes), "{next} was not written there: {context}");
        assert_eq!(view.epoch_for_offset(next), Some(header.partition_leader_epoch), "{context}");
        next = header.next_offset();
    }
    assert!(next >= synced, "it ends at {next}, synced to {synced}: {context}");
    assert!(content.corrupt.iter().all(|gap| gap.0 >= synced), "{:?}, synced to {synced}: {context}", content.corrupt);
    for state in log.describe_producers() {
        let last = content.batches.iter().rev().find(|(header, _)| header.producer_id == state.producer_id);
        let Some((header, _)) = last else { panic!("{state:?} is of no batch: {context}") };
        assert_eq!(state.producer_epoch, header.producer_epoch, "{context}");
        assert_eq!(state.last_batch().unwrap().last_offset, header.last_offset(), "{context}");
    }
}

/// Readers see batches that were written at their offsets, whatever is cut and written anew meanwhile.
#[test]
fn readers_run_beside_truncations() {
    let directory = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 8 * 1024, ..small_config() };
    let (mut log, _) = Log::open(Arc::new(RealDisk), directory.path().to_owned(), config, options(0, false)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (view, is_done) = (log.view(), &is_done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while !is_done.load(Ordering::Acquire) {
                    let offset = rng.below(view.log_end_offset() as u64 + 1) as i64;
                    match view.read(offset, i64::MAX, rng.below(4000) as u32) {
                        Ok(bytes) => check_read(&bytes, offset),
                        // The end moved, or the bytes went while they were read.
                        Err(ReadError::OffsetOutOfRange { .. } | ReadError::Io(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                    view.headers(offset, offset + 50).for_each(drop);
                }
            });
        }
        let mut rng = Rng::new(9);
        let truncated = (0..300).try_for_each(|epoch| {
            let batches: Vec<Batch> = (0..10).map(|_| batch(2, 150, &mut rng, at(0)).build()).collect();
            log.append(&batches, Origin::Coordinator, epoch, at(0))?;
            let offset = rng.below(log.log_end_offset() as u64 + 1) as i64;
            if rng.percent(40) { log.truncate_to(offset, at(0)).map(drop) } else { Ok(()) }
        });
        is_done.store(true, Ordering::Release);
        truncated.unwrap();
    });
    assert_eq!(log.view().bad_ranges(), []);
    let content = read_all(&log.view(), &mut Rng::new(1));
    assert_eq!(content.corrupt, []);
    assert!(content.offsets().iter().copied().eq((0..log.log_end_offset()).step_by(2)));
}

fn check_read(bytes: &Bytes, offset: i64) {
    let mut next = offset / 2 * 2;
    let mut rest = bytes.clone();
    while !rest.is_empty() {
        let batch = Batch::parse(&rest).unwrap();
        batch.verify_crc().unwrap();
        assert_eq!(batch.header.base_offset, next);
        next = batch.header.next_offset();
        rest = rest.slice(batch.header.size()..);
    }
    assert!(bytes.is_empty() || bytes.len() > HEADER_BYTES);
}
