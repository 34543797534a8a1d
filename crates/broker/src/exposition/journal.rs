//! The journal: whether it is in use, what went into it and past it, and what it alone has.

use std::fmt;

use storage::journal::Journal;

use super::page::Page;
use crate::stats::{DIRECT_REASONS, JournalCounts};

pub(super) fn write(page: &mut Page<'_>, counts: &JournalCounts, journal: Option<&Journal>) -> fmt::Result {
    let has_failed = journal.is_some_and(Journal::is_over);
    page.gauge("parshall_journal_enabled", "1 if there is a journal", u64::from(journal.is_some()))?;
    page.gauge(
        "parshall_journal_failed",
        "1 if it could not be written: logs are synced one by one until a restart",
        u64::from(has_failed),
    )?;
    page.gauge("parshall_journal_files", "Files of the journal", journal.map_or(0, Journal::file_count) as u64)?;
    page.gauge(
        "parshall_journal_needed_bytes",
        "What of the journal may not be in synced segments yet",
        journal.map_or(0, Journal::needed_bytes),
    )?;
    page.gauge(
        "parshall_journal_replayed_bytes",
        "What the start of this broker wrote into segments from the journal",
        counts.replayed_bytes.get(),
    )?;
    page.counter("parshall_journal_bytes", "Batches that were made durable in the journal", counts.bytes.get())?;
    page.histogram("parshall_journal_commit_seconds", "Commits of all partitions that wait", &counts.commits)?;
    let direct = DIRECT_REASONS.iter().zip(&counts.direct_syncs);
    let direct = direct.map(|((_, reason), count)| ([("reason", *reason)], count.get()));
    page.counters("parshall_journal_direct_syncs", "Syncs of logs in their segments instead, by the reason", direct)
}
