//! What the tests of this directory share: making batches, reading a whole log.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
pub use storage::simdisk::Rng;
use storage::{
    AppendError, Appended, Disk, Log, LogConfig, LogView, Now, OpenOptions, Origin, ReadError, RecoveryReport, SimDisk,
    Verification,
};
use wire::batch::{Batch, BatchBuilder, BatchHeader, HEADER_BYTES};

pub const EPOCH: i32 = 3;

pub fn dir() -> PathBuf {
    PathBuf::from("/data/topic-0")
}

/// Small segments and dense indexes, so that little data has many of both.
pub fn small_config() -> LogConfig {
    LogConfig { segment_bytes: 16 * 1024, index_interval_bytes: 512, ..LogConfig::default() }
}

pub fn at(ms: i64) -> Now {
    Now { wall_ms: 1_700_000_000_000 + ms, monotonic_ms: ms }
}

pub fn batch(records: usize, value_bytes: usize, rng: &mut Rng, now: Now) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for _ in 0..records {
        let key = rng.below(20).to_be_bytes();
        let value: Vec<u8> = (0..value_bytes).map(|_| rng.next_u64() as u8).collect();
        builder.push(now.wall_ms, Some(&key), Some(&value), &[]);
    }
    builder
}

/// The bytes that the log has to store for a batch.
pub fn stored(batch: &Batch, base_offset: i64, leader_epoch: i32) -> Bytes {
    let mut header = batch.header;
    (header.base_offset, header.partition_leader_epoch) = (base_offset, leader_epoch);
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(&batch.bytes[HEADER_BYTES..]);
    bytes.into()
}

pub fn open(disk: &SimDisk, config: &LogConfig, options: OpenOptions) -> (Log, RecoveryReport) {
    disk.create_dir_all(&dir()).unwrap();
    Log::open(Arc::new(disk.clone()), dir(), config.clone(), options).unwrap()
}

pub fn options(recovery_point: i64, clean_shutdown: bool) -> OpenOptions {
    OpenOptions { recovery_point, log_start_offset: 0, clean_shutdown, now: at(0) }
}

/// Appends as the leader does when the coordinator has agreed to all that begins a transaction.
pub fn append_agreed(
    log: &mut Log,
    batch: Batch,
    origin: Origin,
    leader_epoch: i32,
    now: Now,
) -> Result<Appended, AppendError> {
    let header = batch.header;
    let mut guard = None;
    if header.attributes.is_transactional() && !header.attributes.is_control() {
        let asked = log.start_verification(header.producer_id, header.producer_epoch, header.base_sequence, 1, now)?;
        guard = match asked {
            Verification::NotNeeded => None,
            Verification::Needed(guard) => Some(guard),
        };
    }
    log.append_verified(&[batch], &[guard], origin, leader_epoch, now).unwrap().remove(0)
}

/// What a reader gets from a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub batches: Vec<(BatchHeader, Bytes)>,
    /// First and next offset of what cannot be read.
    pub corrupt: Vec<(i64, i64)>,
}

impl Content {
    pub fn offsets(&self) -> Vec<i64> {
        self.batches.iter().map(|(header, _)| header.base_offset).collect()
    }
}

/// Reads everything from the log start on, with spans of different sizes, as a consumer does that skips what it cannot
/// get.
pub fn read_all(view: &LogView, rng: &mut Rng) -> Content {
    let mut content = Content::default();
    let mut offset = view.log_start_offset();
    let end = view.log_end_offset();
    while offset < end {
        match view.read(offset, end, rng.below(8192) as u32) {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(mut bytes) => {
                while !bytes.is_empty() {
                    let batch = Batch::parse(&bytes).unwrap();
                    batch.verify_crc().unwrap();
                    bytes = bytes.slice(batch.header.size()..);
                    assert!(batch.header.last_offset() >= offset, "{offset} asked, {:?} given", batch.header);
                    offset = batch.header.next_offset();
                    content.batches.push((batch.header, batch.bytes));
                }
            }
            Err(ReadError::Corrupt { first_offset, next_offset }) => {
                assert!(next_offset > offset, "{offset} {first_offset} {next_offset}");
                content.corrupt.push((first_offset, next_offset));
                offset = next_offset;
            }
            Err(error) => panic!("{error}"),
        }
    }
    content
}

pub fn segment_paths(disk: &SimDisk) -> Vec<PathBuf> {
    disk.paths().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

pub fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}
