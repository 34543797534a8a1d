//! What a log and the journal know of each other: how far the log is durable, and which frames have something of it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checkpoint::{CheckpointError, read_lines, write_lines};
use crate::disk::Disk;
use crate::names::JOURNAL_CHECKPOINT;

/// Frames of an epoch, as those see them who void what the journal has of a log.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) epoch: u64,
    /// Of the frame that is written next.
    next: AtomicU64,
    /// The first one that would be replayed now.
    needed_from: AtomicU64,
}

/// Between two batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogPosition {
    pub(crate) offset: i64,
    /// Base offset of the segment, and where in its log file.
    pub(crate) segment: i64,
    pub(crate) position: u64,
}

/// What the journal knows of a log; locked by whoever adds to it while that is not durable yet.
#[derive(Default)]
pub(crate) struct Journaled {
    /// Where the durable part ends, if that is known.
    pub(crate) end: Option<LogPosition>,
    /// The last frame that has something of the log.
    pub(crate) last: Option<(Arc<Frames>, u64)>,
}

impl Frames {
    pub(crate) fn new(epoch: u64) -> Self {
        Self { epoch, next: AtomicU64::new(0), needed_from: AtomicU64::new(0) }
    }

    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub(crate) fn needed_from(&self) -> u64 {
        self.needed_from.load(Ordering::Acquire)
    }

    /// The next frame has been written.
    pub(crate) fn written(&self, needed_from: u64) {
        self.next.fetch_add(1, Ordering::AcqRel);
        self.needed_from.store(needed_from, Ordering::Release);
    }
}

/// Notes, durably, that frames of an epoch below a sequence have nothing that belongs into a log.
pub(crate) fn void(disk: &dyn Disk, dir: &Path, epoch: u64, below: u64) -> io::Result<()> {
    write_lines(disk, &dir.join(JOURNAL_CHECKPOINT), std::iter::once(format!("{epoch} {below}")))
}

/// Below which frame of an epoch nothing belongs into a log.
pub(crate) fn voided(disk: &dyn Disk, dir: &Path, epoch: u64) -> io::Result<u64> {
    let parse = |line: &str| {
        let (epoch, below) = line.trim().split_once(' ')?;
        Some((epoch.parse::<u64>().ok()?, below.parse::<u64>().ok()?))
    };
    match read_lines(disk, &dir.join(JOURNAL_CHECKPOINT), parse) {
        Ok(lines) => {
            Ok(lines.unwrap_or_default().iter().filter(|line| line.0 == epoch).map(|line| line.1).max().unwrap_or(0))
        }
        Err(CheckpointError::Garbage { .. }) => {
            tracing::error!(
                dir = %dir.display(),
                "{JOURNAL_CHECKPOINT} is garbage; the journal is replayed as if this log was never truncated"
            );
            Ok(0)
        }
        Err(CheckpointError::Io(error)) => Err(error),
    }
}
