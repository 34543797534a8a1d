//! The journal of the data directory: opened before any log, closed behind the last.

use std::path::Path;
use std::sync::Arc;

use storage::LogError;
use storage::checkpoint::Offsets;
use storage::journal::{Journal, JournalError, JournalLimits, Known};
use wire::Uuid;

use super::{CheckpointedOffsets, PartitionTable};

/// The journal takes so much of the disk at most: one in so many bytes.
const PART_OF_DISK: u64 = 20;
/// On a disk on which it would be smaller there is none.
const BYTES_MIN: u64 = 128 << 10;

impl PartitionTable {
    /// Writes into the segments what a crash left in the journal only, and takes the journal into use if it is
    /// configured. To be called before any log is opened.
    pub fn open_journal(&self, directory_id: Uuid) -> Result<(), JournalError> {
        let config = self.config.load();
        let disk = &self.shared.env.disk;
        let bytes = u64::try_from(config.log_journal_bytes).unwrap_or(0);
        let bytes = bytes.min(disk.total_bytes(&self.data_dir)? / PART_OF_DISK);
        let limits = JournalLimits { bytes, bypass_bytes: u64::from(config.log_journal_bypass_bytes.unsigned_abs()) };
        let remembered = self.remembered.lock();
        let CheckpointedOffsets { recovery_points, log_start_offsets, .. } = &remembered.checkpointed;
        let known = |directory: &str| Known::of(directory, recovery_points, log_start_offsets);
        let epoch = self.shared.env.random.bytes();
        let epoch = u64::from_be_bytes(*epoch.first_chunk().expect("16 bytes have 8"));
        let (journal, replayed) =
            Journal::open(Arc::clone(disk), self.data_dir.clone(), directory_id, epoch, limits, &known)?;
        self.shared.stats.journal.replayed_bytes.add(replayed.written_bytes);
        if replayed.frames > 0 {
            tracing::info!(
                frames = replayed.frames,
                entries = replayed.entries,
                written_bytes = replayed.written_bytes,
                "replayed the journal"
            );
        }
        if replayed.lost_frames > 0 {
            tracing::error!(
                frames = replayed.lost_frames,
                "a part of the journal is damaged or missing: records that were acknowledged may be gone from this node"
            );
        }
        if config.log_journal_enable && bytes >= BYTES_MIN {
            self.shared.syncer.set_journal(Arc::new(journal));
        } else {
            journal.close()?;
        }
        Ok(())
    }

    fn journal(&self) -> Option<&Arc<Journal>> {
        self.shared.syncer.journal()
    }

    /// Has nothing replayed into a log that is about to be made under a name that was known before.
    pub(super) fn void_journal(&self, log_dir: &Path) -> Result<(), LogError> {
        let disk = &*self.shared.env.disk;
        let name = log_dir.file_name().unwrap_or_default().to_string_lossy();
        if let Some(journal) = self.journal().filter(|journal| journal.holds(&name)) {
            disk.create_dir_all(log_dir)?;
            journal.void(disk, log_dir)?;
        }
        Ok(())
    }

    /// Up to where logs may be compacted: what a replay would write has to find its place. `None` without a journal.
    pub(super) fn noted_recovery_points(&self) -> Option<Offsets> {
        self.journal()?;
        for partition in self.all().iter().filter(|partition| partition.settings().is_compacted) {
            // What is wrong with a log it says itself.
            let _ = partition.view().sync();
        }
        if let Err(error) = self.write_checkpoints() {
            tracing::warn!(%error, "the checkpoints cannot be written; logs are compacted up to what they had");
        }
        Some(self.checkpointed.lock().recovery_points.clone())
    }

    /// All logs are closed.
    pub(super) fn close_journal(&self) -> Result<(), LogError> {
        self.journal().map_or(Ok(()), |journal| Ok(journal.close()?))
    }
}
