//! Measures the disk under a directory, as operators do with dd before a benchmark.
//!
//! Everything is written to one file that has no name any more once it is open, so that nothing is left behind however
//! this ends. The bytes are random: a disk that compresses or folds equal blocks gains nothing.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fdatasync, ftruncate, open, unlink};
use rustix::io::{Errno, pwrite};
use tokio::time::Instant;

use crate::stats::Tally;

/// What sequential writes write at once, and the alignment that writes past the page cache need.
const BLOCK_BYTES: usize = 1024 * 1024;
const ALIGNMENT_BYTES: usize = 4096;
/// What is appended before each sync whose latency is taken.
const APPEND_BYTES: usize = 4096;

/// How much to write; whatever comes first ends each part.
#[derive(Clone, Copy, Debug)]
pub struct DiskProbe {
    /// By each sequential write.
    pub bytes: u64,
    pub syncs: u64,
    pub part_max: Duration,
}

/// The results. Rates are in bytes per second.
#[derive(Clone)]
pub struct DiskResult {
    /// Through the page cache, with one sync at the end that counts.
    pub write_bytes_per_s: f64,
    /// Past the page cache; `None` where the file system cannot.
    pub direct_bytes_per_s: Option<f64>,
    /// With a sync after each MiB.
    pub synced_bytes_per_s: f64,
    /// Of an append of 4 KiB with its sync.
    pub sync_latency: Tally,
}

/// Measures the disk under `dir`. Takes its time: not for a thread that runs tasks.
pub fn probe_disk(dir: &Path, probe: DiskProbe) -> io::Result<DiskResult> {
    let path = dir.join(format!(".parshall-disk-probe-{}", std::process::id()));
    let mode = Mode::RUSR | Mode::WUSR;
    let file = open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode)?;
    let direct = open(&path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, mode);
    unlink(&path)?;
    let direct = match direct {
        Ok(direct) => Some(direct),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => None,
        Err(error) => return Err(error.into()),
    };
    let noise = noise();
    let start = noise.as_ptr().align_offset(ALIGNMENT_BYTES);
    let block = &noise[start..start + BLOCK_BYTES];
    let write_bytes_per_s = sequential(&file, block, probe, false)?;
    let direct_bytes_per_s = match direct {
        Some(direct) => match sequential(&direct, block, probe, false) {
            Ok(rate) => Some(rate),
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let synced_bytes_per_s = sequential(&file, block, probe, true)?;
    let sync_latency = syncs(&file, &block[..APPEND_BYTES], probe)?;
    Ok(DiskResult { write_bytes_per_s, direct_bytes_per_s, synced_bytes_per_s, sync_latency })
}

fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..(BLOCK_BYTES + ALIGNMENT_BYTES) / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    words.collect()
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                position += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Bytes per second from an empty file on, the last sync included.
fn sequential(file: &OwnedFd, block: &[u8], probe: DiskProbe, sync_each: bool) -> io::Result<f64> {
    ftruncate(file, 0)?;
    fdatasync(file)?;
    let started = Instant::now();
    let mut position = 0;
    while position < probe.bytes.max(1) && started.elapsed() < probe.part_max {
        write_all(file, block, position)?;
        position += block.len() as u64;
        if sync_each {
            fdatasync(file)?;
        }
    }
    fdatasync(file)?;
    Ok(position as f64 / started.elapsed().as_secs_f64())
}

fn syncs(file: &OwnedFd, append: &[u8], probe: DiskProbe) -> io::Result<Tally> {
    ftruncate(file, 0)?;
    fdatasync(file)?;
    let started = Instant::now();
    let mut tally = Tally::default();
    while tally.records < probe.syncs && (tally.records == 0 || started.elapsed() < probe.part_max) {
        let before = Instant::now();
        write_all(file, append, tally.bytes)?;
        fdatasync(file)?;
        tally.record(before.elapsed().as_micros() as u64, append.len() as u64);
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_measures_and_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("parshall-probe-test-{}", std::process::id()));
        rustix::fs::mkdir(&dir, Mode::RWXU).unwrap();
        let probe = DiskProbe { bytes: 2 << 20, syncs: 5, part_max: Duration::from_secs(60) };
        let result = probe_disk(&dir, probe).unwrap();
        assert!(result.write_bytes_per_s > 0.0 && result.synced_bytes_per_s > 0.0);
        assert_eq!((result.sync_latency.records, result.sync_latency.bytes), (5, 5 * 4096));
        // Only an empty directory can be removed.
        rustix::fs::rmdir(&dir).unwrap();
        assert!(probe_disk(&dir, probe).is_err(), "there is no such directory");
    }
}
