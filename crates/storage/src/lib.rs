//! One partition's log on one disk, in Kafka's format: `kafka-dump-log.sh` reads it.
//!
//! Sync, no async, no network, no clock. A [`Log`] is the writer's side; its owner serialises the calls. A [`LogView`]
//! is shared by the readers and by whoever syncs, at the same time as appends.
//!
//! What is promised:
//! - After [`LogView::sync`] returned an offset, all records below it survive power loss, and so do the names of the
//!   files that hold them. So they do when [`journal::Journal::commit`] has called them durable, once the journal of
//!   the data directory has been opened again.
//! - After a failed write or sync the log takes and promises nothing any more. A full disk is no failure: what was
//!   being appended is taken back, and the log goes on.
//! - Recovery cuts only what was torn behind the last valid batch. A bad batch in front of valid ones stays where it
//!   is, is reported ([`RecoveryReport`]), and reading it is a [`ReadError::Corrupt`] that says where to go on.
//! - Indexes, snapshots and checkpoints can be garbage or missing at any time: they are rebuilt.

/// Whether one of the faults in `injected_faults.rs` is injected here: `false` without the feature.
#[cfg(feature = "injected-faults")]
#[macro_export]
macro_rules! injected_fault {
    ($fault:ident) => {
        $crate::injected_faults::is_injected($crate::injected_faults::InjectedFault::$fault)
    };
}
#[cfg(not(feature = "injected-faults"))]
#[macro_export]
macro_rules! injected_fault {
    ($fault:ident) => {
        false
    };
}

pub mod checkpoint;
mod committed;
mod compact;
mod config;
pub mod disk;
mod epochs;
mod error;
mod failed_sync;
mod fetched;
mod index;
#[cfg(feature = "injected-faults")]
pub mod injected_faults;
pub mod journal;
mod journaled;
mod keymap;
mod log;
mod markers;
mod names;
mod part;
pub mod partition_metadata;
mod producers;
mod recovery;
mod repair;
mod retention;
mod scan;
mod scrub;
pub mod seeds;
mod segment;
pub mod set_aside;
pub mod simdisk;
mod snapshot;
mod timestamps;
mod transactions;
mod truncate;
mod truncations;
mod txn_index;
mod verification;
mod verified_ranges;
mod view;

pub use compact::{Cleanable, Cleaned, Compaction, CompactionLimits, CompactionStats};
pub use config::{CleanupPolicy, LogConfig, Now};
pub use disk::{Disk, File, OpenMode, RealDisk};
pub use epochs::{EpochEndOffset, EpochEntry};
pub use error::{AppendError, LogError, ReadError};
pub use fetched::{Fetched, FetchedError};
pub use log::{Appended, Log};
pub use producers::{BatchMetadata, Origin, ProducerState};
pub use recovery::{Cut, OpenOptions, RecoveryReport};
pub use repair::RepairError;
pub use scan::BadRange;
pub use scrub::{ScrubCursor, Scrubbed};
pub use segment::TimestampOffset;
pub use simdisk::SimDisk;
pub use txn_index::AbortedTransaction;
pub use verification::{Verification, VerificationGuard};
pub use view::{HeaderIterator, LogView, Span};
pub use wire::batch::TimestampType;
