//! What a log does, one behaviour at a time.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use rustix::io::Errno;
use storage::disk::read_exact_at;
use storage::simdisk::SimOp;
use storage::{
    AppendError, Appended, Disk, Log, LogConfig, LogError, Now, OpenOptions, Origin, ReadError, RealDisk, SimDisk,
    TimestampOffset, TimestampType,
};
use wire::Uuid;
use wire::batch::{Batch, BatchBuilder};

fn new_log(config: &LogConfig) -> (SimDisk, Log) {
    let disk = SimDisk::new(1);
    let (log, _) = open(&disk, config, options(0, false));
    (disk, log)
}

fn records(count: usize) -> BatchBuilder {
    batch(count, 100, &mut Rng::new(count as u64), at(0))
}

fn append(log: &mut Log, batch: Batch, now: Now) -> Result<Appended, AppendError> {
    log.append(&[batch], Origin::Client, 0, now).unwrap().remove(0)
}

fn of_producer(epoch: i16, sequence: i32, count: usize) -> Batch {
    records(count).producer(9, epoch, sequence).build()
}

fn segments(disk: &SimDisk) -> Vec<i64> {
    segment_paths(disk).iter().map(|path| file_name(path).trim_end_matches(".log").parse().unwrap()).collect()
}

#[test]
fn batches_are_stored_as_they_came_but_for_offset_and_epoch() {
    let (_, mut log) = new_log(&small_config());
    let batches = [records(3).build(), records(1).build(), records(2).build()];
    let results = log.append(&batches, Origin::Client, 5, at(0)).unwrap();
    let bases: Vec<i64> = results.into_iter().map(|result| result.unwrap().base_offset).collect();
    assert_eq!(bases, [0, 3, 4]);
    let content = read_all(&log.view(), &mut Rng::new(1));
    let expected: Vec<_> = batches.iter().zip(bases).map(|(batch, base)| stored(batch, base, 5)).collect();
    assert_eq!(content.batches.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), expected);
    assert_eq!(log.view().epoch_for_offset(4), Some(5));
}

#[test]
fn an_append_is_one_write_per_segment() {
    let (disk, mut log) = new_log(&LogConfig::default());
    append(&mut log, records(1).build(), at(0)).unwrap();
    let batches: Vec<Batch> = (0..100).map(|_| records(1).build()).collect();
    let before = disk.operations();
    log.append(&batches, Origin::Client, 0, at(0)).unwrap();
    assert_eq!(disk.operations(), before + 1);
}

#[test]
fn a_batch_that_is_refused_does_not_touch_the_others() {
    let config = LogConfig { segment_bytes: 2000, max_message_bytes: 1500, ..LogConfig::default() };
    let (_, mut log) = new_log(&config);
    let sized = |bytes: usize| batch(1, bytes, &mut Rng::new(1), at(0)).build();
    let batches = [sized(10), sized(1900), sized(10), of_producer(3, 0, 1), of_producer(2, 0, 1), sized(2500)];
    let results = log.append(&batches, Origin::Client, 0, at(0)).unwrap();
    assert_eq!(results[0].as_ref().unwrap().base_offset, 0);
    assert!(matches!(results[1], Err(AppendError::MessageTooLarge { .. })));
    assert_eq!(results[2].as_ref().unwrap().base_offset, 1);
    assert_eq!(results[3].as_ref().unwrap().base_offset, 2);
    assert!(matches!(results[4], Err(AppendError::InvalidProducerEpoch { current_epoch: 3, .. })));
    assert!(matches!(results[5], Err(AppendError::RecordListTooLarge { .. })));
    assert_eq!(log.log_end_offset(), 3);
}

#[test]
fn idempotence_follows_kafka() {
    let (_, mut log) = new_log(&small_config());
    // Nothing is known of the producer: any sequence starts.
    assert_eq!(append(&mut log, of_producer(1, 40, 2), at(0)).unwrap().base_offset, 0);
    for n in 0..5 {
        assert!(!append(&mut log, of_producer(1, 42 + n, 1), at(0)).unwrap().is_duplicate);
    }
    // The last five are known, the one before is not.
    for n in 0..5i32 {
        let again = append(&mut log, of_producer(1, 42 + n, 1), at(0)).unwrap();
        assert_eq!((again.base_offset, again.is_duplicate), (2 + i64::from(n), true));
    }
    let error = append(&mut log, of_producer(1, 40, 2), at(0)).unwrap_err();
    assert!(matches!(error, AppendError::OutOfOrderSequence { sequence: 40, last_sequence: 46, .. }));
    assert!(append(&mut log, of_producer(1, 48, 1), at(0)).is_err(), "a gap");
    assert!(append(&mut log, of_producer(2, 1, 1), at(0)).is_err(), "a new epoch starts at 0");
    append(&mut log, of_producer(2, 0, 1), at(0)).unwrap();
    assert!(matches!(append(&mut log, of_producer(1, 47, 1), at(0)), Err(AppendError::InvalidProducerEpoch { .. })));
    assert_eq!(log.log_end_offset(), 8);
    assert_eq!(log.producer(9).unwrap().batches().len(), 1);
}

#[test]
fn large_batches_that_come_again_are_known_after_a_restart() {
    let config = LogConfig::default();
    let (disk, mut log) = new_log(&config);
    let count = 20_000;
    let sent: Vec<Batch> =
        (0..5).map(|n| batch(count as usize, 1, &mut Rng::new(1), at(0)).producer(9, 1, n * count).build()).collect();
    for batch in &sent {
        append(&mut log, batch.clone(), at(0)).unwrap();
    }
    log.close().unwrap();
    let (mut log, _) = open(&disk, &config, options(log.log_end_offset(), true));
    for (batch, base_offset) in sent.iter().zip((0..).step_by(count as usize)) {
        let again = append(&mut log, batch.clone(), at(0)).unwrap();
        assert_eq!((again.base_offset, again.is_duplicate), (base_offset, true));
    }
}

#[test]
fn sequences_wrap_to_zero() {
    let (_, mut log) = new_log(&small_config());
    append(&mut log, of_producer(0, i32::MAX - 1, 4), at(0)).unwrap();
    assert_eq!(log.producer(9).unwrap().last_sequence(), 1);
    assert!(append(&mut log, of_producer(0, i32::MAX - 1, 4), at(0)).unwrap().is_duplicate);
    append(&mut log, of_producer(0, 2, 1), at(0)).unwrap();
}

#[test]
fn producers_are_bounded_and_expire_by_both_clocks() {
    let config = LogConfig { producers_max: 16, producer_id_expiration_ms: 1000, ..small_config() };
    let (_, mut log) = new_log(&config);
    for id in 0..40 {
        append(&mut log, records(1).producer(id, 0, 0).build(), at(id)).unwrap();
        assert!(log.producer_count() <= 16);
    }
    assert!(log.producer(39).is_some() && log.producer(0).is_none());
    let jumped = Now { wall_ms: at(0).wall_ms + 1_000_000, monotonic_ms: 500 };
    assert_eq!(log.remove_expired_producers(jumped), 0, "the wall clock jumped");
    let back = Now { wall_ms: 0, monotonic_ms: 5000 };
    assert_eq!(log.remove_expired_producers(back), 0);
    let count = log.producer_count();
    assert_eq!(log.remove_expired_producers(at(1039)), count);
}

#[test]
fn the_brokers_time_is_stamped_and_the_crc_fits() {
    let config = LogConfig { message_timestamp_type: TimestampType::LogAppendTime, ..small_config() };
    let (_, mut log) = new_log(&config);
    let appended = append(&mut log, records(2).build(), at(77)).unwrap();
    assert_eq!(appended.log_append_time_ms, at(77).wall_ms);
    let (header, _) = read_all(&log.view(), &mut Rng::new(1)).batches[0];
    assert!(header.attributes.is_log_append_time());
    assert_eq!(header.max_timestamp, at(77).wall_ms);
}

#[test]
fn segments_roll_by_size_by_time_and_when_an_index_is_full() {
    let (disk, mut log) = new_log(&LogConfig { segment_bytes: 1000, ..LogConfig::default() });
    for _ in 0..6 {
        append(&mut log, batch(1, 300, &mut Rng::new(1), at(0)).build(), at(0)).unwrap();
    }
    assert_eq!(segments(&disk), [0, 2, 4]);

    let (disk, mut log) = new_log(&LogConfig { segment_ms: 100, ..LogConfig::default() });
    for ms in [0, 50, 100, 101, 102, 202] {
        // The batches' time counts, not the clock's.
        append(&mut log, batch(1, 10, &mut Rng::new(1), at(ms)).build(), at(0)).unwrap();
    }
    assert_eq!(segments(&disk), [0, 3, 5]);

    let (disk, mut log) =
        new_log(&LogConfig { segment_index_bytes: 64, index_interval_bytes: 0, ..LogConfig::default() });
    for ms in 0..20 {
        append(&mut log, batch(1, 10, &mut Rng::new(1), at(ms)).build(), at(ms)).unwrap();
    }
    assert!(segments(&disk).len() > 2);
}

#[test]
fn a_span_has_a_whole_batch_and_ends_where_it_should() {
    let (_, mut log) = new_log(&LogConfig { segment_bytes: 2000, ..small_config() });
    let mut sizes = Vec::new();
    for _ in 0..12 {
        let batch = records(2).build();
        sizes.push(batch.bytes.len() as u32);
        append(&mut log, batch, at(0)).unwrap();
    }
    let view = log.view();
    let size = sizes[0];
    let per_segment = 2000 / size;
    for (offset, end, max_bytes, position, length) in [
        (0, i64::MAX, 1, 0, size),
        (0, i64::MAX, u32::MAX, 0, per_segment * size),
        (1, i64::MAX, u32::MAX, 0, per_segment * size),
        (2, i64::MAX, size + 5, size, size + 5),
        (0, 4, u32::MAX, 0, 2 * size),
        (0, 5, u32::MAX, 0, 2 * size),
        (2, 4, 1, size, size),
        (3, 2, 1, 0, 0),
        (24, i64::MAX, 10, 0, 0),
    ] {
        let span = view.span(offset, end, max_bytes).unwrap();
        let found = span.map(|span| (span.position, span.length));
        let expected = (length > 0).then_some((u64::from(position), length));
        assert_eq!(found, expected, "{offset} {end} {max_bytes}");
    }
    for offset in [-1, 25] {
        assert!(matches!(view.span(offset, i64::MAX, 1), Err(ReadError::OffsetOutOfRange { .. })));
    }
}

#[test]
fn who_must_not_wait_reads_only_what_is_in_the_page_cache() {
    let (disk, mut log) = new_log(&LogConfig { segment_bytes: 100_000, ..small_config() });
    for _ in 0..20 {
        append(&mut log, records(2).build(), at(0)).unwrap();
    }
    log.view().sync().unwrap();
    let view = log.view();
    let is_cold = |offset| matches!(view.span_at_once(offset, i64::MAX, 1), Err(ReadError::Cold));
    assert!(!is_cold(0) && !is_cold(39));
    disk.evict();
    // The first is found by the index, the second is remembered; whether all of it is a batch is in its header.
    assert!(is_cold(0) && is_cold(38));
    let span = view.span(0, i64::MAX, 1).unwrap().unwrap();
    assert!(!is_cold(0));
    disk.evict();
    assert!(!span.is_cached(span.length, u32::MAX));
    assert_eq!(span.read_cached().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    span.read_in(span.length).unwrap();
    assert!(span.is_cached(span.length, 1));
    assert_eq!(span.read_cached().unwrap(), view.read(0, 2, 1).unwrap());
    // Files that were given up have to be opened first.
    view.give_up_files(true);
    assert!(is_cold(0) && matches!(view.span(0, i64::MAX, 1), Ok(Some(_))) && !is_cold(0));
}

#[test]
fn looks_at_a_span_find_a_page_that_is_gone_in_the_middle_of_it() {
    let (disk, mut log) = new_log(&LogConfig { segment_bytes: 100_000, ..small_config() });
    for _ in 0..20 {
        append(&mut log, records(20).build(), at(0)).unwrap();
    }
    log.view().sync().unwrap();
    let span = log.view().span(0, i64::MAX, u32::MAX).unwrap().unwrap();
    assert!(span.length > 3 * 4096);
    disk.evict();
    span.file.read_at(&mut [0; 4096], 0).unwrap();
    let mut rest = vec![0; span.length as usize - 8192];
    read_exact_at(&*span.file, &mut rest, 8192).unwrap();
    assert!(span.is_cached(span.length, u32::MAX) && !span.is_cached(span.length, 4096));
    assert!(span.is_cached(4096, 4096) && !span.is_cached(4097, u32::MAX));
}

#[test]
fn a_deleted_segment_stays_readable_for_those_who_have_it() {
    let config = LogConfig { segment_bytes: 1000, retention_bytes: 0, ..LogConfig::default() };
    let (disk, mut log) = new_log(&config);
    for _ in 0..9 {
        append(&mut log, batch(1, 300, &mut Rng::new(1), at(0)).build(), at(0)).unwrap();
    }
    let span = log.view().span(0, i64::MAX, 100).unwrap().unwrap();
    assert_eq!(log.delete_old_segments(5, at(0)).unwrap(), 2, "not above the high watermark");
    assert_eq!(log.view().log_start_offset(), 4);
    assert_eq!(segments(&disk), [4, 6, 8]);
    assert!(matches!(log.view().span(3, i64::MAX, 1), Err(ReadError::OffsetOutOfRange { .. })));
    assert!(log.remove_deleted_files(at(59_999)).unwrap() > 0);
    assert_eq!(log.remove_deleted_files(at(60_000)).unwrap(), 0);
    assert!(!disk.paths().iter().any(|path| file_name(path).ends_with(".deleted")));
    let mut bytes = vec![0; span.length as usize];
    read_exact_at(&*span.file, &mut bytes, span.position).unwrap();
    assert!(Batch::parse(&bytes.into()).unwrap().verify_crc().is_ok());
    // All that is left may go too.
    assert_eq!(log.delete_old_segments(9, at(0)).unwrap(), 3);
    assert_eq!((log.view().log_start_offset(), log.log_end_offset()), (9, 9));
    append(&mut log, records(1).build(), at(0)).unwrap();
}

#[test]
fn where_the_disk_is_needed_the_oldest_segment_goes_but_never_the_active_one() {
    let config = LogConfig { segment_bytes: 1000, retention_bytes: -1, retention_ms: -1, ..LogConfig::default() };
    let (disk, mut log) = new_log(&config);
    for ms in 0..6 {
        append(&mut log, batch(1, 300, &mut Rng::new(1), at(ms)).build(), at(ms)).unwrap();
    }
    assert_eq!(segments(&disk), [0, 2, 4]);
    assert_eq!(log.delete_oldest_segment(1, at(0)).unwrap(), None, "not above the high watermark");
    assert_eq!(log.view().oldest_deletable_timestamp(1).unwrap(), None);
    assert_eq!(log.view().oldest_deletable_timestamp(2).unwrap(), Some(at(1).wall_ms));
    let size_bytes = log.view().size_bytes();
    let deleted = log.delete_oldest_segment(2, at(0)).unwrap().expect("there is one");
    assert_eq!((log.view().size_bytes(), log.view().log_start_offset()), (size_bytes - deleted, 2));
    assert_eq!(log.delete_oldest_segment(6, at(0)).unwrap(), Some(deleted));
    assert_eq!(log.delete_oldest_segment(6, at(0)).unwrap(), None, "the active one stays");
    assert_eq!((segments(&disk), log.view().oldest_deletable_timestamp(6).unwrap()), (vec![4], None));
    assert_eq!(log.remove_deleted_files_now().unwrap(), 2 * deleted);
    assert!(!disk.paths().iter().any(|path| file_name(path).ends_with(".deleted")));
    append(&mut log, records(1).build(), at(0)).unwrap();
}

#[test]
fn no_jump_of_the_clock_deletes_fresh_data() {
    const HOUR: i64 = 3_600_000;
    let config = LogConfig { retention_ms: HOUR, segment_bytes: 1000, ..LogConfig::default() };
    let (disk, mut log) = new_log(&config);
    for ms in 0..6 {
        append(&mut log, batch(1, 300, &mut Rng::new(1), at(ms)).build(), at(ms)).unwrap();
    }
    let wall = |wall_ms: i64, monotonic_ms| Now { wall_ms: at(wall_ms).wall_ms, monotonic_ms };
    let deleted = |log: &mut Log, now| log.delete_old_segments(i64::MAX, now).unwrap();
    assert_eq!(deleted(&mut log, wall(2 * HOUR, 1000)), 0, "the clock jumped forward");
    assert_eq!(deleted(&mut log, wall(-HOUR * 50_000, 2 * HOUR)), 0, "to 2018");
    // The same after a restart, of which the process knows nothing but its own time.
    log.close().unwrap();
    disk.kill();
    let (mut log, _) = open(&disk, &config, OpenOptions { now: at(1000), ..options(6, true) });
    assert_eq!(deleted(&mut log, wall(2 * HOUR, 2000)), 0);
    assert_eq!(deleted(&mut log, wall(HOUR + 1000, HOUR + 1000)), 3, "time really passed");
    // What is left of a log that was cut is as fresh as it was.
    for _ in 0..2 {
        append(&mut log, records(1).build(), at(2 * HOUR)).unwrap();
    }
    log.truncate_to(log.log_end_offset() - 1, at(2 * HOUR)).unwrap();
    assert_eq!(deleted(&mut log, wall(9 * HOUR, 2 * HOUR + 1)), 0, "the clock jumped forward again");
}

#[test]
fn records_with_old_timestamps_stay_for_the_retention_time() {
    let config = LogConfig { retention_ms: 1000, segment_bytes: 1000, ..LogConfig::default() };
    let (_, mut log) = new_log(&config);
    for _ in 0..6 {
        append(&mut log, batch(1, 300, &mut Rng::new(1), at(-1_000_000)).build(), at(0)).unwrap();
    }
    assert_eq!(log.delete_old_segments(i64::MAX, at(999)).unwrap(), 0);
    assert_eq!(log.delete_old_segments(i64::MAX, at(1000)).unwrap(), 3);
}

#[test]
fn delete_records_survives_as_far_as_its_owner_checkpoints_it() {
    let (disk, mut log) = new_log(&small_config());
    for _ in 0..5 {
        append(&mut log, records(2).build(), at(0)).unwrap();
    }
    assert!(log.delete_records(11).is_err());
    assert_eq!(log.delete_records(7).unwrap(), 7);
    assert_eq!(log.delete_records(3).unwrap(), 7);
    assert_eq!(log.view().synced_offset(), 10, "or the offsets below might be given out again");
    assert!(matches!(log.view().span(6, i64::MAX, 1), Err(ReadError::OffsetOutOfRange { .. })));
    // In the middle of a batch: the batch is served whole, as in Kafka.
    let first = log.view().read(7, i64::MAX, 1).unwrap();
    assert_eq!(Batch::parse(&first).unwrap().header.base_offset, 6);
    disk.crash();
    let (log, _) = open(&disk, &small_config(), OpenOptions { log_start_offset: 7, ..options(0, false) });
    assert_eq!(log.view().log_start_offset(), 7);
    drop(log);
    let (log, _) = open(&disk, &small_config(), OpenOptions { log_start_offset: 700, ..options(0, false) });
    assert_eq!(log.view().log_start_offset(), 0, "a checkpoint that cannot be right");
}

#[test]
fn a_full_disk_refuses_and_the_log_goes_on() {
    for (limit, errno) in [(true, Errno::NOSPC), (false, Errno::FBIG)] {
        let (disk, mut log) = new_log(&LogConfig { segment_bytes: 3000, ..small_config() });
        append(&mut log, of_producer(0, 0, 1), at(0)).unwrap();
        let size = log.view().size_bytes();
        if limit {
            disk.set_free_bytes(500);
        } else {
            disk.set_file_bytes_max(size + 500);
        }
        let batches: Vec<Batch> = (0..4).map(|n| of_producer(0, 1 + n, 4)).collect();
        let results = log.append(&batches[..1], Origin::Client, 0, at(0)).unwrap();
        assert_eq!(results, [Err(AppendError::DiskFull)], "{errno:?}");
        assert_eq!((log.log_end_offset(), log.view().size_bytes()), (1, size));
        assert_eq!(disk.get(&segment_paths(&disk)[0]).unwrap().len() as u64, size, "nothing is left in the file");
        assert_eq!(log.producer(9).unwrap().last_sequence(), 0, "the producer may try again");
        assert_eq!(log.view().sync().unwrap(), 1);
        disk.clear_faults();
        assert_eq!(append(&mut log, of_producer(0, 1, 4), at(0)).unwrap().base_offset, 1);
    }
}

#[test]
fn what_fits_is_kept_when_the_disk_fills_up_between_two_segments() {
    let (disk, mut log) = new_log(&LogConfig { segment_bytes: 1000, ..LogConfig::default() });
    disk.set_free_bytes(1000);
    let batches: Vec<Batch> = (0..6).map(|_| batch(1, 300, &mut Rng::new(1), at(0)).build()).collect();
    let results = log.append(&batches, Origin::Client, 0, at(0)).unwrap();
    let fate: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(fate, [true, true, false, false, false, false]);
    assert_eq!(log.log_end_offset(), 2);
    disk.clear_faults();
    assert_eq!(append(&mut log, batches[0].clone(), at(0)).unwrap().base_offset, 2);
}

#[test]
fn what_a_failed_sync_left_out_is_written_again_by_the_next_process() {
    let (disk, mut log) = new_log(&small_config());
    append(&mut log, records(1).build(), at(0)).unwrap();
    log.view().sync().unwrap();
    append(&mut log, records(1).build(), at(0)).unwrap();
    disk.fail(SimOp::Sync, 0, Errno::IO);
    assert!(log.view().sync().is_err());
    drop(log);
    disk.kill();
    // The kernel still has it, and calls it clean.
    let (log, _) = open(&disk, &small_config(), options(1, false));
    assert_eq!(log.view().sync().unwrap(), 2);
    drop(log);
    disk.crash();
    let (log, _) = open(&disk, &small_config(), options(1, false));
    assert_eq!(log.log_end_offset(), 2, "what a sync has promised is there");
    assert!(!disk.paths().iter().any(|path| file_name(path) == "sync-failed"));
}

/// Files in a directory that this process has open.
fn open_files_in(dir: &Path) -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    files.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).filter(|path| path.starts_with(dir)).count()
}

#[test]
fn files_that_were_not_used_lately_are_given_up_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
    let one = || batch(1, 600, &mut Rng::new(1), at(0)).build();
    let (mut log, _) = Log::create(disk, dir.path().join("t-0"), config, Uuid([1; 16]), at(0)).unwrap();
    let view = log.view();
    for _ in 0..3 {
        append(&mut log, one(), at(0)).unwrap();
    }
    assert!(open_files_in(dir.path()) > 3);
    view.give_up_files(true);
    assert_eq!(open_files_in(dir.path()), 3, "what is not on disk yet stays");
    view.sync().unwrap();
    view.give_up_files(false);
    assert!(open_files_in(dir.path()) >= 3, "they were used");
    view.give_up_files(false);
    assert_eq!(open_files_in(dir.path()), 0);
    // It goes on as if nothing had been.
    assert_eq!(append(&mut log, one(), at(0)).unwrap().base_offset, 3);
    assert_eq!(read_all(&view, &mut Rng::new(1)).batches.len(), 4);
    // What is deleted is read to its end by who has begun.
    let span = view.span(0, i64::MAX, 10_000).unwrap().unwrap();
    log.delete_records(2).unwrap();
    log.remove_deleted_files_now().unwrap();
    view.give_up_files(true);
    let mut bytes = vec![0; span.length as usize];
    read_exact_at(&*span.file, &mut bytes, span.position).unwrap();
    assert!(bytes.starts_with(&0i64.to_be_bytes()));
    log.close().unwrap();
    assert_eq!(open_files_in(dir.path()), 1, "the span's");
}

#[test]
fn logs_without_anything_to_do_need_no_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let config = LogConfig::default();
    let open_files = || open_files_in(dir.path());
    let path = dir.path().join("t-0");
    let (mut log, _) = Log::create(disk.clone(), path.clone(), config.clone(), Uuid([1; 16]), at(0)).unwrap();
    assert!(log.view().span(0, i64::MAX, 100).unwrap().is_none());
    assert_eq!(open_files(), 0, "new");
    append(&mut log, records(1).build(), at(0)).unwrap();
    assert_eq!(open_files(), 1);
    let recovery_point = log.close().unwrap();
    assert_eq!(open_files(), 0, "closed");
    for (recovery_point, clean) in [(recovery_point, true), (0, false)] {
        let (log, _) = Log::open(disk.clone(), path.clone(), config.clone(), options(recovery_point, clean)).unwrap();
        assert!(log.view().span(1, i64::MAX, 100).unwrap().is_none());
        assert_eq!(open_files(), 0, "opened, after a clean stop: {clean}");
        assert!(log.view().span(0, i64::MAX, 100).unwrap().is_some());
        assert_eq!(open_files(), 1);
    }
}

#[test]
fn a_failed_sync_ends_the_log_for_ever() {
    let (disk, mut log) = new_log(&small_config());
    append(&mut log, records(1).build(), at(0)).unwrap();
    let view = log.view();
    disk.fail(SimOp::Sync, 0, Errno::IO);
    assert!(matches!(view.sync(), Err(LogError::Failed(_))));
    // The disk says that all is clean now. It is not.
    assert!(matches!(view.sync(), Err(LogError::Failed(_))));
    assert!(log.append(&[records(1).build()], Origin::Client, 0, at(0)).is_err());
    assert!(log.close().is_err());
    assert_eq!(view.synced_offset(), 0);
    assert!(!view.read(0, 1, 1000).unwrap().is_empty(), "what is there can be read");
    assert!(view.failure().is_some());
}

#[test]
fn a_failed_write_ends_the_log_and_a_failed_read_does_not() {
    let (disk, mut log) = new_log(&small_config());
    append(&mut log, records(1).build(), at(0)).unwrap();
    disk.fail(SimOp::Read, 0, Errno::IO);
    assert!(matches!(log.view().read(0, 1, 1000), Err(ReadError::Io(_))));
    assert!(!log.view().read(0, 1, 1000).unwrap().is_empty());
    disk.fail(SimOp::Write, 0, Errno::IO);
    assert!(matches!(log.append(&[records(1).build()], Origin::Client, 0, at(0)), Err(LogError::Failed(_))));
    assert!(matches!(log.append(&[records(1).build()], Origin::Client, 0, at(0)), Err(LogError::Failed(_))));
}

#[test]
fn without_descriptors_nothing_is_lost_but_time() {
    let (disk, mut log) = new_log(&LogConfig { segment_bytes: 1000, ..LogConfig::default() });
    let one = || batch(1, 600, &mut Rng::new(1), at(0)).build();
    append(&mut log, one(), at(0)).unwrap();
    disk.fail(SimOp::Open, 0, Errno::MFILE);
    assert_eq!(append(&mut log, one(), at(0)), Err(AppendError::Exhausted));
    assert_eq!(append(&mut log, one(), at(0)).unwrap().base_offset, 1);
}

#[test]
fn a_follower_keeps_offsets_and_epochs() {
    let (_, mut leader) = new_log(&small_config());
    for epoch in 0..3 {
        leader.append(&[records(2).build()], Origin::Client, epoch, at(0)).unwrap();
    }
    let content = read_all(&leader.view(), &mut Rng::new(1));
    let batches: Vec<Batch> =
        content.batches.iter().map(|(header, bytes)| Batch { header: *header, bytes: bytes.clone() }).collect();
    let (_, mut follower) = new_log(&small_config());
    assert!(follower.append_as_follower(&batches, at(0)).unwrap().iter().all(Result::is_ok));
    assert_eq!(read_all(&follower.view(), &mut Rng::new(1)), content);
    assert_eq!(follower.view().epoch_entries(), leader.view().epoch_entries());
    let again = follower.append_as_follower(&batches[..1], at(0)).unwrap();
    assert!(matches!(again[0], Err(AppendError::OffsetsOutOfOrder { .. })));
    assert_eq!(follower.truncate_to(3, at(0)).unwrap(), 2, "the whole batch goes");
    assert_eq!(follower.view().latest_epoch().unwrap().epoch, 0);
    assert!(follower.append_as_follower(&batches[1..], at(0)).unwrap().iter().all(Result::is_ok));
    assert_eq!(read_all(&follower.view(), &mut Rng::new(1)), content);
    follower.truncate_fully_and_start_at(100, at(0)).unwrap();
    assert_eq!((follower.view().log_start_offset(), follower.log_end_offset()), (100, 100));
    assert_eq!(append(&mut follower, records(1).build(), at(0)).unwrap().base_offset, 100);
}

#[test]
fn a_retired_log_opens_no_file_of_its_successor() {
    let (disk, mut log) = new_log(&small_config());
    append(&mut log, records(1).build(), at(0)).unwrap();
    log.close().unwrap();
    let (mut log, _) = open(&disk, &small_config(), options(1, true));
    let view = log.view();
    log.retire();
    assert!(matches!(view.span(0, 1, 1), Err(ReadError::Closed)));
    assert!(log.append(&[records(1).build()], Origin::Client, 0, at(0)).is_err());
}

#[test]
fn opening_after_a_clean_close_reads_almost_nothing() {
    let (disk, mut log) = new_log(&LogConfig::default());
    for n in 0..200 {
        append(&mut log, of_producer(0, 4 * n, 4), at(0)).unwrap();
    }
    let end = log.close().unwrap();
    disk.kill();
    let (log, report) = open(&disk, &LogConfig::default(), options(end, true));
    assert_eq!((report.verified_bytes, report.producers_from, report.indexes_rebuilt), (0, end, 0));
    assert_eq!(log.producer(9).unwrap().last_sequence(), 799);
    assert_eq!(log.view().synced_offset(), end);
}

/// The time index has a single entry then, and does not tell the greatest timestamp of what follows it.
#[test]
fn a_restart_does_not_walk_through_records_of_one_timestamp() {
    let (disk, mut log) = new_log(&LogConfig::default());
    for _ in 0..200 {
        append(&mut log, batch(1, 16 << 10, &mut Rng::new(1), at(5)).build(), at(0)).unwrap();
    }
    let end = log.close().unwrap();
    disk.kill();
    let before = disk.read_bytes();
    let (mut log, _) = open(&disk, &LogConfig::default(), options(end, false));
    assert!(disk.read_bytes() - before < 128 << 10, "{} bytes read", disk.read_bytes() - before);
    for n in 6..20 {
        append(&mut log, batch(1, 16 << 10, &mut Rng::new(1), at(n)).build(), at(0)).unwrap();
    }
    for _ in 0..2 {
        let view = log.view();
        assert_eq!(view.max_timestamp().unwrap(), TimestampOffset { timestamp: at(19).wall_ms, offset: 213 });
        let found = |n| view.batch_for_timestamp(at(n).wall_ms, i64::MAX).unwrap().map(|header| header.base_offset);
        assert_eq!(
            [found(5), found(6), found(12), found(19), found(20)],
            [Some(0), Some(200), Some(206), Some(213), None]
        );
        // And once more, as a restart finds it.
        let end = log.close().unwrap();
        disk.kill();
        log = open(&disk, &LogConfig::default(), options(end, false)).0;
    }
}

/// Appends, syncs and reads at the same time, on a real disk.
#[test]
fn readers_and_syncs_run_beside_appends() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig { segment_bytes: 64 * 1024, ..small_config() };
    let now = at(0);
    let options = OpenOptions { now, ..options(0, false) };
    let (mut log, _) = Log::open(Arc::new(RealDisk), dir.path().to_owned(), config.clone(), options).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let view = log.view();
        let (reading, syncing) = (view.clone(), view.clone());
        let is_done = &is_done;
        let reader = scope.spawn(move || {
            let mut next = 0;
            let mut seen = BTreeSet::new();
            loop {
                let finished = is_done.load(Ordering::Acquire);
                let mut bytes = reading.read(next, i64::MAX, 10_000).unwrap();
                if bytes.is_empty() && finished {
                    return seen.len();
                }
                while !bytes.is_empty() {
                    let batch = Batch::parse(&bytes).unwrap();
                    assert_eq!(batch.header.base_offset, next);
                    seen.insert(next);
                    next = batch.header.next_offset();
                    bytes = bytes.slice(batch.header.size()..);
                }
            }
        });
        scope.spawn(move || {
            let mut last = 0;
            while !is_done.load(Ordering::Acquire) {
                let synced = syncing.sync().unwrap();
                assert!(synced >= last && syncing.synced_offset() >= synced);
                last = synced;
            }
        });
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let batches: Vec<Batch> = (0..5).map(|_| batch(2, 100, &mut rng, now).build()).collect();
            log.append(&batches, Origin::Client, 0, now).unwrap();
        }
        is_done.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), 1500);
    });
    let before = read_all(&log.view(), &mut Rng::new(1));
    drop(log);
    let (log, report) = Log::open(Arc::new(RealDisk), dir.path().to_owned(), config, options).unwrap();
    assert_eq!((report.cut, report.bad_ranges.len()), (None, 0));
    assert_eq!(read_all(&log.view(), &mut Rng::new(1)), before);
}
