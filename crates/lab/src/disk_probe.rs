//! Measures the disk under a directory, as operators do with dd before a benchmark.
//!
//! Everything is written to one file that has no name any more once it is open, so that nothing is left behind however
//! this ends. The bytes are random: a disk that compresses or folds equal blocks gains nothing.

use std::io::{self, IoSlice};
use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fdatasync, ftruncate, open, unlink};
use rustix::io::{Errno, pwritev};
use tokio::time::Instant;

use crate::stats::Tally;

/// A larger block is written from the same bytes again and again, so that it does not take as much memory.
const NOISE_BYTES: usize = 1024 * 1024;
const ALIGNMENT_BYTES: usize = 4096;
/// What is appended before each sync whose latency is taken.
const APPEND_BYTES: u64 = 4096;

/// How much to write; whatever comes first ends each part.
#[derive(Clone, Copy, Debug)]
pub struct DiskProbe {
    /// By each sequential write.
    pub bytes: u64,
    pub syncs: u64,
    pub part_max: Duration,
}

/// Sequential writes in bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct WriteRates {
    /// Through the page cache, with one sync at the end that counts.
    pub cached_bytes_per_s: f64,
    /// Past the page cache; `None` where the file system cannot.
    pub direct_bytes_per_s: Option<f64>,
    /// With a sync after each block.
    pub synced_bytes_per_s: f64,
}

impl DiskProbe {
    /// What one call may write: dd's sizes. Writes past the page cache need multiples of the smallest.
    pub const BLOCK_BYTES_MIN: u64 = ALIGNMENT_BYTES as u64;
    pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

    /// Writes blocks of so many bytes, one at least. Takes its time, as all of it: not for a thread that runs tasks.
    pub fn write_rates(&self, dir: &Path, block_bytes: u64) -> io::Result<WriteRates> {
        let scratch = Scratch::open(dir)?;
        let noise = noise();
        let block = block(&noise, block_bytes);
        let cached_bytes_per_s = self.sequential(&scratch.file, &block, false)?;
        let direct_bytes_per_s = match &scratch.direct {
            Some(direct) => match self.sequential(direct, &block, false) {
                Ok(rate) => Some(rate),
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let synced_bytes_per_s = self.sequential(&scratch.file, &block, true)?;
        Ok(WriteRates { cached_bytes_per_s, direct_bytes_per_s, synced_bytes_per_s })
    }

    /// The latency of an append of 4 KiB with its sync.
    pub fn sync_latency(&self, dir: &Path) -> io::Result<Tally> {
        let file = Scratch::open(dir)?.file;
        let noise = noise();
        let append = block(&noise, APPEND_BYTES);
        let started = Instant::now();
        let mut tally = Tally::default();
        while tally.records < self.syncs && (tally.records == 0 || started.elapsed() < self.part_max) {
            let before = Instant::now();
            write_all(&file, &append, tally.bytes)?;
            fdatasync(&file)?;
            tally.record(before.elapsed().as_micros() as u64, APPEND_BYTES);
        }
        Ok(tally)
    }

    /// Bytes per second from an empty file on, the last sync included.
    fn sequential(&self, file: &OwnedFd, block: &[IoSlice<'_>], sync_each: bool) -> io::Result<f64> {
        ftruncate(file, 0)?;
        fdatasync(file)?;
        let block_bytes: u64 = block.iter().map(|part| part.len() as u64).sum();
        let started = Instant::now();
        let mut position = 0;
        while position < self.bytes.max(1) && started.elapsed() < self.part_max {
            write_all(file, block, position)?;
            position += block_bytes;
            if sync_each {
                fdatasync(file)?;
            }
        }
        fdatasync(file)?;
        Ok(position as f64 / started.elapsed().as_secs_f64())
    }
}

/// A file without a name.
struct Scratch {
    file: OwnedFd,
    /// The same file past the page cache, where the file system can.
    direct: Option<OwnedFd>,
}

impl Scratch {
    fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(format!(".parshall-disk-probe-{}", std::process::id()));
        let mode = Mode::RUSR | Mode::WUSR;
        let file = open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC, mode)?;
        let direct = open(&path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, mode);
        unlink(&path)?;
        match direct {
            Ok(direct) => Ok(Self { file, direct: Some(direct) }),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Self { file, direct: None }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Random bytes, and as many more as it takes to align them.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..(NOISE_BYTES + ALIGNMENT_BYTES) / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_ne_bytes()
    });
    words.collect()
}

/// What one call writes. The largest block has as many parts as a call may have.
fn block(noise: &[u8], bytes: u64) -> Vec<IoSlice<'_>> {
    let start = noise.as_ptr().align_offset(ALIGNMENT_BYTES);
    let parts = (0..bytes).step_by(NOISE_BYTES);
    parts.map(|at| IoSlice::new(&noise[start..][..(bytes - at).min(NOISE_BYTES as u64) as usize])).collect()
}

fn write_all(file: &OwnedFd, block: &[IoSlice<'_>], mut position: u64) -> io::Result<()> {
    let mut parts = block.to_vec();
    let mut left = parts.as_mut_slice();
    while !left.is_empty() {
        match pwritev(file, left, position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                IoSlice::advance_slices(&mut left, written);
                position += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_measures_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let probe = DiskProbe { bytes: 2 << 20, syncs: 5, part_max: Duration::from_secs(60) };
        for block_bytes in [DiskProbe::BLOCK_BYTES_MIN, 1 << 20, 3 << 20] {
            let rates = probe.write_rates(dir.path(), block_bytes).unwrap();
            assert!(rates.cached_bytes_per_s > 0.0 && rates.synced_bytes_per_s > 0.0, "{rates:?}");
        }
        let sync_latency = probe.sync_latency(dir.path()).unwrap();
        assert_eq!((sync_latency.records, sync_latency.bytes), (5, 5 * 4096));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let missing = dir.path().join("missing");
        assert!(probe.write_rates(&missing, 4096).is_err(), "there is no such directory");
    }

    #[test]
    fn a_block_is_written_whole() {
        let noise = noise();
        let file = Scratch::open(tempfile::tempdir().unwrap().path()).unwrap().file;
        let mut position = 0;
        for bytes in [4096, 12 << 10, 1 << 20, (2 << 20) + 4096] {
            let block = block(&noise, bytes);
            write_all(&file, &block, position).unwrap();
            position += bytes;
            assert_eq!(rustix::fs::fstat(&file).unwrap().st_size as u64, position);
        }
        // What a call takes at most: IOV_MAX.
        assert_eq!(block(&noise, DiskProbe::BLOCK_BYTES_MAX).len(), 1024);
    }
}
