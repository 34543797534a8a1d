//! Looking offsets up in an index: how many reads that takes, and that it is right whatever is remembered.

mod common;

use common::*;
use rustix::io::Errno;
use storage::seeds::seeds;
use storage::simdisk::SimOp;
use storage::{Log, LogConfig, Origin, SimDisk};

const BATCHES: usize = 6000;
const RECORDS_PER_BATCH: i64 = 2;

/// A log of one segment with an index entry for nearly every batch.
fn indexed(disk: &SimDisk, rng: &mut Rng) -> Log {
    let config = LogConfig { index_interval_bytes: 1, ..LogConfig::default() };
    let (mut log, _) = open(disk, &config, options(0, false));
    append(&mut log, BATCHES, rng);
    log
}

fn append(log: &mut Log, batches: usize, rng: &mut Rng) {
    for _ in 0..batches.div_ceil(100) {
        let bytes = rng.below(40) as usize;
        let batches: Vec<_> = (0..100).map(|_| batch(RECORDS_PER_BATCH as usize, bytes, rng, at(0)).build()).collect();
        assert!(log.append(&batches, Origin::Client, EPOCH, at(0)).unwrap().iter().all(Result::is_ok));
    }
}

/// Where the batches of the only segment start.
fn positions(disk: &SimDisk) -> Vec<u64> {
    let bytes = disk.get(&segment_paths(disk)[0]).unwrap();
    let (mut positions, mut position) = (Vec::new(), 0);
    while position < bytes.len() {
        positions.push(position as u64);
        let length = u32::from_be_bytes(bytes[position + 8..position + 12].try_into().unwrap());
        position += 12 + length as usize;
    }
    positions
}

fn position_of(log: &Log, offset: i64) -> u64 {
    log.view().span(offset, i64::MAX, 1).unwrap().unwrap().position
}

#[test]
fn who_reads_on_needs_no_search() {
    let disk = SimDisk::new(1);
    let log = indexed(&disk, &mut Rng::new(1));
    let positions = positions(&disk);
    let view = log.view();
    let mut readers = [10, 1000, 1001, 1600, 3000, 5000].map(|batch| (batch, RECORDS_PER_BATCH * batch as i64));
    for (batch, offset) in readers {
        assert_eq!(position_of(&log, offset), positions[batch]);
    }
    for _ in 0..8 {
        for (batch, offset) in &mut readers {
            *batch += 100;
            *offset += 100 * RECORDS_PER_BATCH;
            // The index, the batch, and its header once more.
            disk.fail(SimOp::Read, 3, Errno::IO);
            let span = view.span_at_once(*offset, i64::MAX, 1).expect("three reads are enough");
            disk.clear_faults();
            assert_eq!(span.unwrap().position, positions[*batch]);
        }
    }
}

#[test]
fn what_is_remembered_of_an_index_need_not_be_true() {
    for seed in seeds(30) {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let mut log = indexed(&disk, &mut rng);
        let mut positions = positions(&disk);
        let mut readers = [0usize; 4];
        for _ in 0..200 {
            match rng.below(30) {
                0 => {
                    let kept = 1 + rng.below(positions.len() as u64 - 1) as usize;
                    log.truncate_to(RECORDS_PER_BATCH * kept as i64, at(0)).unwrap();
                    append(&mut log, (BATCHES - kept).max(1), &mut rng);
                    positions = self::positions(&disk);
                }
                1 => {
                    log.close().unwrap();
                    let index = segment_paths(&disk)[0].with_extension("index");
                    let mut bytes = disk.get(&index).unwrap();
                    let from = rng.below(bytes.len() as u64) as usize;
                    let garbage = bytes[from..].iter_mut().take(rng.below(9000) as usize);
                    garbage.for_each(|byte| *byte = rng.next_u64() as u8);
                    disk.put(&index, &bytes);
                }
                _ => {}
            }
            let reader = rng.below(readers.len() as u64) as usize;
            let step = if rng.percent(80) { rng.below(300) } else { rng.below(BATCHES as u64) };
            readers[reader] = (readers[reader] + step as usize) % positions.len();
            let batch = readers[reader];
            let offset = RECORDS_PER_BATCH * batch as i64 + rng.below(RECORDS_PER_BATCH as u64) as i64;
            assert_eq!(position_of(&log, offset), positions[batch], "PARSHALL_SEED={seed}");
        }
    }
}
