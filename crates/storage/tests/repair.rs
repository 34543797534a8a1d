//! Bytes that went bad while nobody looked: nobody is served them, and a replica's batches take their place.

mod common;

use bytes::Bytes;
use common::*;
use rustix::io::Errno;
use storage::simdisk::SimOp;
use storage::{BadRange, Log, LogConfig, Origin, ReadError, RepairError, SimDisk};
use wire::batch::Batch;

const BATCHES: i64 = 40;

/// A log that was closed cleanly, its batches, and its disk.
fn closed() -> (SimDisk, Vec<Bytes>, i64) {
    let disk = SimDisk::new(1);
    let mut rng = Rng::new(1);
    let (mut log, _) = open(&disk, &LogConfig::default(), options(0, false));
    for n in 0..BATCHES {
        log.append(&[batch(2, 300, &mut rng, at(n)).build()], Origin::Client, EPOCH, at(n)).unwrap();
    }
    let batches = read_all(&log.view(), &mut rng).batches.into_iter().map(|(_, bytes)| bytes).collect();
    let recovery_point = log.close().unwrap();
    disk.kill();
    (disk, batches, recovery_point)
}

/// The same log, opened again after a bit in the payload of each of these batches flipped.
fn damaged(numbers: &[usize]) -> (SimDisk, Vec<Bytes>, Log) {
    let (disk, batches, recovery_point) = closed();
    let path = &segment_paths(&disk)[0];
    for &number in numbers {
        let start: usize = batches[..number].iter().map(Bytes::len).sum();
        assert!(disk.flip_bit(path, start as u64 + 100, 3));
    }
    let (log, _) = open(&disk, &LogConfig::default(), options(recovery_point, true));
    (disk, batches, log)
}

fn first_offset(number: usize) -> i64 {
    2 * number as i64
}

/// What a reader is told to be bad at the offset.
fn bad_at(log: &Log, offset: i64) -> BadRange {
    let error = log.view().span(offset, i64::MAX, 100).unwrap_err();
    assert!(matches!(error, ReadError::Corrupt { .. }), "{error}");
    *log.view().bad_ranges().iter().find(|range| range.next_offset > offset).unwrap()
}

#[test]
fn what_was_damaged_before_the_start_is_not_served() {
    let (_, batches, log) = damaged(&[7]);
    let view = log.view();
    let span = view.span(0, i64::MAX, u32::MAX).unwrap().unwrap();
    assert_eq!(span.length as usize, batches[..7].iter().map(Bytes::len).sum::<usize>(), "all in front of it");
    let range = bad_at(&log, first_offset(7));
    assert_eq!((range.first_offset, range.next_offset), (first_offset(7), first_offset(8)));
    let behind = view.span(first_offset(8), i64::MAX, u32::MAX).unwrap().unwrap();
    assert_eq!(behind.length as usize, batches[8..].iter().map(Bytes::len).sum::<usize>(), "all behind it");
}

#[test]
fn what_was_checked_is_not_checked_again() {
    let (disk, batches, log) = damaged(&[]);
    let view = log.view();
    let whole = view.span(0, i64::MAX, u32::MAX).unwrap().unwrap().length as usize;
    assert_eq!(whole, batches.iter().map(Bytes::len).sum::<usize>());
    disk.flip_bit(&segment_paths(&disk)[0], 1000, 0);
    assert_eq!(view.span(0, i64::MAX, u32::MAX).unwrap().unwrap().length as usize, whole, "scrubbing finds that");
}

#[test]
fn the_batches_of_a_replica_take_the_place_of_bad_ones() {
    let (disk, batches, mut log) = damaged(&[7, 8, 20]);
    let range = bad_at(&log, first_offset(7));
    assert_eq!(range.next_offset, first_offset(9), "two bad ones in a row are one range");
    // A piece at a time; what follows the range, or is cut, is left out.
    let next = log.repair(&range, batches[7].clone()).unwrap();
    assert_eq!(next, first_offset(8));
    let rest = bad_at(&log, first_offset(8));
    let more = [&batches[8][..], &batches[9], &batches[10][..80]].concat();
    assert_eq!(log.repair(&rest, more.into()).unwrap(), first_offset(9));
    let range = bad_at(&log, first_offset(20));
    assert_eq!(log.repair(&range, batches[20].clone()).unwrap(), first_offset(21));

    assert_eq!(log.view().bad_ranges(), []);
    assert_eq!(disk.get(&segment_paths(&disk)[0]).unwrap(), batches.concat(), "byte for byte");
    let span = log.view().span(0, i64::MAX, u32::MAX).unwrap().unwrap();
    assert_eq!(span.length as usize, batches.concat().len());
    // On disk too.
    disk.crash();
    let (log, _) = open(&disk, &LogConfig::default(), options(log.log_end_offset(), false));
    let found = read_all(&log.view(), &mut Rng::new(2));
    assert_eq!((found.corrupt, found.batches.len()), (vec![], batches.len()));
}

#[test]
fn only_what_belongs_there_is_put_there() {
    let (disk, batches, mut log) = damaged(&[7]);
    let range = bad_at(&log, first_offset(7));
    let before = disk.get(&segment_paths(&disk)[0]).unwrap();
    let good = Batch::parse(&batches[7]).unwrap();
    let mut flipped = batches[7].to_vec();
    flipped[100] ^= 8;
    let other = |bytes: usize| {
        let other = batch(2, bytes, &mut Rng::new(9), at(7)).build();
        stored(&other, first_offset(7), EPOCH)
    };
    type Expected = fn(&RepairError) -> bool;
    let cases: [(&str, Bytes, Expected); 7] = [
        ("nothing", Bytes::new(), |e| matches!(e, RepairError::Nothing)),
        ("a cut batch", batches[7].slice(..80), |e| matches!(e, RepairError::Nothing)),
        ("a bad one", flipped.into(), |e| matches!(e, RepairError::Bad(_))),
        ("what comes before", batches[6].clone(), |e| matches!(e, RepairError::OtherHistory { .. })),
        ("another epoch", stored(&good, first_offset(7), EPOCH + 1), |e| matches!(e, RepairError::OtherHistory { .. })),
        ("a shorter one", other(299), |e| matches!(e, RepairError::OtherSize { .. })),
        ("a longer one", other(301), |e| matches!(e, RepairError::OtherSize { .. })),
    ];
    for (what, bytes, is_expected) in cases {
        let error = log.repair(&range, bytes).expect_err(what);
        assert!(is_expected(&error), "{what}: {error}");
        assert_eq!(disk.get(&segment_paths(&disk)[0]).unwrap(), before, "{what}");
    }
    let elsewhere = BadRange { position: range.position + 1, ..range };
    assert!(matches!(log.repair(&elsewhere, batches[7].clone()), Err(RepairError::NotDamaged)));
    log.repair(&range, batches[7].clone()).unwrap();
    assert!(matches!(log.repair(&range, batches[7].clone()), Err(RepairError::NotDamaged)), "once is enough");
}

#[test]
fn a_log_whose_mending_is_not_on_disk_goes_no_further() {
    let (disk, batches, mut log) = damaged(&[7]);
    let range = bad_at(&log, first_offset(7));
    disk.fail(SimOp::Sync, 0, Errno::IO);
    assert!(matches!(log.repair(&range, batches[7].clone()), Err(RepairError::Log(_))));
    assert!(log.view().failure().is_some());
}
