//! Space that is allocated ahead of appends: when, how much, and that it is given back.

mod common;

use common::*;
use rustix::io::Errno;
use storage::simdisk::SimOp;
use storage::{AppendError, Disk, Log, LogConfig, Origin, SimDisk};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const BATCH_BYTES: usize = 512 * 1024;

struct Allocating {
    disk: SimDisk,
    log: Log,
}

impl Allocating {
    fn new(free_bytes: u64, config: &LogConfig) -> Self {
        let disk = SimDisk::new(1);
        disk.set_free_bytes(free_bytes);
        let (log, _) = open(&disk, config, options(0, true));
        Self { disk, log }
    }

    fn append(&mut self, ms: i64) -> Result<(), AppendError> {
        let mut rng = Rng::new(7);
        let batches = [batch(1, BATCH_BYTES, &mut rng, at(0)).build()];
        self.log.append(&batches, Origin::Client, EPOCH, at(ms)).unwrap().remove(0).map(drop)
    }

    fn append_mib(&mut self, mib: u64) {
        (0..2 * mib).for_each(|_| self.append(0).unwrap());
    }

    fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(&dir()).unwrap()
    }

    /// What is taken of the disk beside the files' bytes.
    fn allocated_bytes(&self) -> u64 {
        let bytes: usize = self.disk.paths().iter().map(|path| self.disk.get(path).unwrap().len()).sum();
        self.disk.total_bytes(&dir()).unwrap() - self.free_bytes() - bytes as u64
    }

    /// Appends as much, and returns the most that was allocated meanwhile.
    fn most_allocated(&mut self, mib: u64) -> u64 {
        let each = (0..2 * mib).map(|_| {
            self.append(0).unwrap();
            self.allocated_bytes()
        });
        each.max().unwrap()
    }
}

#[test]
fn a_large_segment_is_allocated_ahead_and_a_small_one_is_not() {
    let mut log = Allocating::new(GIB, &LogConfig::default());
    assert_eq!(log.most_allocated(7), 0);
    let most = log.most_allocated(32);
    assert!((2 * MIB..5 * MIB).contains(&most), "an eighth of what it has: {most}");
    assert!(log.most_allocated(1) > 0);
    let size_bytes = log.log.view().size_bytes();
    assert!((40 * MIB..41 * MIB).contains(&size_bytes), "the log's size is that of its batches");
}

#[test]
fn a_segment_that_is_full_or_closed_gives_back_what_it_has_not_used() {
    let config = LogConfig { segment_bytes: 20 << 20, ..LogConfig::default() };
    let mut log = Allocating::new(GIB, &config);
    log.append_mib(16);
    assert!(log.allocated_bytes() > 0);
    log.append_mib(5);
    assert_eq!((log.log.view().segment_count(), log.allocated_bytes()), (2, 0));
    log.append_mib(11);
    assert!(log.allocated_bytes() > 0);
    log.log.close().unwrap();
    assert_eq!(log.allocated_bytes(), 0);
}

#[test]
fn a_truncation_gives_back_what_was_allocated_and_the_log_goes_on() {
    let mut log = Allocating::new(GIB, &LogConfig::default());
    log.append_mib(16);
    log.log.truncate_to(20, at(0)).unwrap();
    assert_eq!(log.allocated_bytes(), 0);
    log.append_mib(2);
    assert!(log.allocated_bytes() > 0);
}

#[test]
fn an_idle_log_gives_back_what_was_allocated() {
    let mut log = Allocating::new(GIB, &LogConfig::default());
    log.append_mib(16);
    log.append(1000).unwrap();
    log.log.delete_old_segments(0, at(60_999)).unwrap();
    assert!(log.allocated_bytes() > 0, "it may go on");
    log.log.delete_old_segments(0, at(61_000)).unwrap();
    assert_eq!(log.allocated_bytes(), 0);
    log.append_mib(1);
    assert!(log.allocated_bytes() > 0);
}

#[test]
fn what_a_killed_process_had_allocated_is_given_back() {
    for is_crash in [false, true] {
        let mut log = Allocating::new(GIB, &LogConfig::default());
        log.append_mib(16);
        let end = log.log.view().sync().unwrap();
        if is_crash {
            log.disk.crash();
        } else {
            log.disk.kill();
        }
        assert!(log.allocated_bytes() > 0);
        (log.log, _) = open(&log.disk, &LogConfig::default(), options(end, false));
        assert_eq!(log.log.log_end_offset(), end);
        log.log.delete_old_segments(0, at(0)).unwrap();
        assert_eq!(log.allocated_bytes(), 0);
    }
}

#[test]
fn nothing_is_allocated_where_it_is_refused() {
    for error in [Errno::NOSPC, Errno::OPNOTSUPP, Errno::IO] {
        let mut log = Allocating::new(GIB, &LogConfig::default());
        log.append_mib(8);
        log.disk.fail(SimOp::Allocate, 0, error);
        assert_eq!(log.most_allocated(1), 0, "{error}");
        assert!(log.most_allocated(4) > 0, "it is tried again with the next step");
        assert_eq!(log.log.view().failure(), None);
    }
}

#[test]
fn space_that_is_scarce_is_left_to_all() {
    let mut log = Allocating::new(64 * MIB, &LogConfig::default());
    assert!(log.most_allocated(32) > 0);
    let before = log.allocated_bytes();
    log.append_mib(22);
    assert!(log.allocated_bytes() <= before, "less than an eighth is free");
    let mut appended = 0;
    while log.append(0).is_ok() {
        appended += 1;
        assert!(appended < 32);
    }
    assert!(log.free_bytes() < MIB, "all of the disk was used for batches");
    assert_eq!(log.allocated_bytes(), 0);
}
