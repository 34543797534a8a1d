//! What went into the journal, and past it.

use std::time::Duration;

use platform::Count;
use storage::journal::{Committed, DirectReason};

use super::Histogram;

/// Why logs are synced in their segments instead, by the names of the exposition.
pub const DIRECT_REASONS: [(DirectReason, &str); 4] = [
    (DirectReason::Large, "large"),
    (DirectReason::NoRoom, "no_room"),
    (DirectReason::Unknown, "unknown"),
    (DirectReason::Failed, "failed"),
];

#[derive(Default)]
pub struct JournalCounts {
    /// Those that had anything for the journal.
    pub commits: Histogram,
    pub bytes: Count,
    /// By row of [`DIRECT_REASONS`].
    pub direct_syncs: [Count; DIRECT_REASONS.len()],
    /// What the start wrote into segments.
    pub replayed_bytes: Count,
}

impl JournalCounts {
    /// Takes note of what became of the logs of a commit, which took so long.
    pub fn record(&self, committed: &[Committed], took: Duration) {
        let mut bytes = 0;
        for one in committed {
            match one {
                Committed::Durable { bytes: of_log } => bytes += of_log,
                Committed::Direct(reason) => {
                    let row = DIRECT_REASONS.iter().position(|(known, _)| known == reason);
                    row.into_iter().for_each(|row| self.direct_syncs[row].add(1));
                }
            }
        }
        if bytes > 0 {
            self.bytes.add(bytes);
            self.commits.observe(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_what_went_into_the_journal_and_why_the_rest_did_not() {
        let counts = JournalCounts::default();
        let direct = DIRECT_REASONS.map(|(reason, _)| Committed::Direct(reason));
        let took = Duration::from_micros(100);
        counts.record(&[Committed::Durable { bytes: 70 }, Committed::Durable { bytes: 7 }, direct[1]], took);
        counts.record(&[Committed::Durable { bytes: 0 }, direct[0], direct[1]], took);
        counts.record(&direct, took);
        assert_eq!((counts.bytes.get(), counts.commits.snapshot().count), (77, 1), "the others wrote nothing");
        assert_eq!(counts.direct_syncs.each_ref().map(Count::get), [2, 3, 1, 1]);
    }
}
