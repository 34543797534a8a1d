//! The journal: whether it is in use, what went into it and past it, and what it alone has.

use std::fmt;

use storage::journal::{BypassReason, Journal};

use super::page::Page;
use crate::stats::{DIRECT_REASONS, JournalCounts};

/// Why the journal is bypassed, by the names of the exposition.
const BYPASS_REASONS: [&str; 4] = ["filling_up", "no_space", "failed", "disabled"];

/// `is_wanted` says whether there is to be a journal.
pub(super) fn write(
    page: &mut Page<'_>,
    counts: &JournalCounts,
    journal: Option<&Journal>,
    is_wanted: bool,
) -> fmt::Result {
    let has_failed = journal.is_some_and(Journal::is_over);
    let figures = journal.map(Journal::figures);
    page.gauge("parshall_journal_enabled", "1 if there is a journal", u64::from(journal.is_some()))?;
    page.gauge(
        "parshall_journal_failed",
        "1 if it could not be written: logs are synced one by one until a restart",
        u64::from(has_failed),
    )?;
    let bypassed = match &figures {
        Some(figures) => figures.bypassed.map(name_of),
        None => Some(if is_wanted { "no_space" } else { "disabled" }),
    };
    page.gauges(
        "parshall_journal_bypassed",
        "1 while logs are synced one by one in their segments instead, for this reason",
        BYPASS_REASONS.map(|reason| ([("reason", reason)], u64::from(bypassed == Some(reason)))),
    )?;
    let figures = figures.unwrap_or_default();
    page.gauge("parshall_journal_files", "Files of the journal", figures.files as u64)?;
    page.gauge(
        "parshall_journal_needed_bytes",
        "What of the journal may not be in synced segments yet",
        figures.needed_bytes,
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

fn name_of(reason: BypassReason) -> &'static str {
    match reason {
        BypassReason::FillingUp => "filling_up",
        BypassReason::NoSpace => "no_space",
        BypassReason::Failed => "failed",
    }
}
