//! Faults that would break a promise, each injected by one line at the place where the right decision is taken, so that
//! tests can show that they would be found. There are none without the feature `injected-faults`, which no release has.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

#[cfg(not(debug_assertions))]
compile_error!("injected-faults is for tests: it breaks what the broker promises, and no release may have it");

/// The environment variable that injects a fault into a process.
const VARIABLE: &str = "PARSHALL_INJECTED_FAULT";
/// Seeds after which a fault counts as one that is not found.
const SEEDS_MAX: u64 = 2000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// A leader acknowledges what is on no disk yet.
    AckBeforeSync,
    /// A leader shows consumers what its producer waits for, before that is on the disks.
    ReadBeforeSync,
    /// A leader acknowledges what no follower has.
    AckBeforeInSyncReplicas,
    /// A follower cuts its log to the high watermark that it knows of, and not where its leader's epochs end.
    TruncateToHighWatermark,
    /// A controller decides before an entry of its own epoch is committed.
    DecideBeforeFirstCommit,
    /// A leader that has stood still, or is cut off, does without followers before the controller agrees.
    StaleLeaderAcknowledges,
    /// A node with an empty disk is the voter that it was before, and votes.
    EmptyDiskVotes,
    /// A starting node takes what a leader knows to be committed for all there is, before that leader has committed
    /// anything itself and without anybody's word that it leads.
    CatchUpBeforeFirstCommit,
    /// A controller lets a replica lead whose broker has said that records of it are gone.
    LostReplicaLeads,
    /// Retention goes by the wall clock alone.
    RetentionByWallClock,
    /// A checkpoint says that segments are on disk as far as the journal is.
    RecoveryPointFromJournal,
    /// A file of the journal is written anew although segments lack what is in it.
    JournalFreedBeforeSync,
    /// What is in the journal is promised although the write has failed.
    JournalPromisesFailedWrite,
    /// The journal goes on behind what is neither in it nor in synced segments.
    JournalLeavesGap,
    /// What the journal has of a log is replayed although the log was truncated.
    JournalNotVoided,
    /// Frames of an earlier lap are replayed.
    JournalReplaysEarlierLap,
    /// Replay does not make the names of new segments durable.
    JournalLosesNames,
    /// A transaction is stable as soon as its marker is in the leader's log.
    UnreplicatedIsStable,
    /// Recovery does not bring back what a transaction index lacks.
    RecoveryLosesAborted,
    /// A leader appends to a transaction without asking its coordinator.
    VerificationSkipped,
    /// EndTxn is answered before the decision is written.
    EndAnsweredBeforeWritten,
    /// A transaction is called complete before its markers are written.
    CompleteBeforeMarkers,
    /// A coordinator that takes over does not go on with what was decided.
    PreparedForgottenAtLoad,
    /// The offsets of an aborted transaction become visible.
    AbortedOffsetsVisible,
    /// A reader of stable offsets is told one that an open transaction may replace.
    PendingOffsetIsStable,
    /// Who has been put out of a group commits offsets.
    FencedMemberCommits,
    /// A partition is given to a member before another one has given it up.
    AssignBeforeRelease,
    /// A member is answered before what it is given is written.
    MemberAnsweredBeforeWritten,
    /// A coordinator that takes over reads that members have partitions, and not that they have gone.
    GoneMembersLoaded,
    /// Compaction takes records for committed whose transaction is aborted behind what it cleans.
    AbortBehindCleanedMissed,
}

impl InjectedFault {
    /// Those of the journal, which are found by its own tests.
    pub fn is_of_journal(self) -> bool {
        use InjectedFault::*;
        matches!(
            self,
            JournalFreedBeforeSync
                | JournalPromisesFailedWrite
                | JournalLeavesGap
                | JournalNotVoided
                | JournalReplaysEarlierLap
                | JournalLosesNames
        )
    }

    /// Those of transactions in one log, which are found by its own tests.
    pub fn is_of_transactions_in_log(self) -> bool {
        matches!(self, Self::UnreplicatedIsStable | Self::RecoveryLosesAborted)
    }

    /// Those that clusters with transactions show.
    pub fn is_of_transactions(self) -> bool {
        use InjectedFault::*;
        matches!(
            self,
            UnreplicatedIsStable
                | VerificationSkipped
                | EndAnsweredBeforeWritten
                | CompleteBeforeMarkers
                | PreparedForgottenAtLoad
                | AbortedOffsetsVisible
                | PendingOffsetIsStable
                | FencedMemberCommits
                | AssignBeforeRelease
                | MemberAnsweredBeforeWritten
                | GoneMembersLoaded
                | AbortBehindCleanedMissed
        )
    }

    pub const ALL: [(Self, &str); 30] = [
        (Self::AckBeforeSync, "ack-before-sync"),
        (Self::ReadBeforeSync, "read-before-sync"),
        (Self::AckBeforeInSyncReplicas, "ack-before-in-sync-replicas"),
        (Self::TruncateToHighWatermark, "truncate-to-high-watermark"),
        (Self::DecideBeforeFirstCommit, "decide-before-first-commit"),
        (Self::StaleLeaderAcknowledges, "stale-leader-acknowledges"),
        (Self::EmptyDiskVotes, "empty-disk-votes"),
        (Self::CatchUpBeforeFirstCommit, "catch-up-before-first-commit"),
        (Self::LostReplicaLeads, "lost-replica-leads"),
        (Self::RetentionByWallClock, "retention-by-wall-clock"),
        (Self::RecoveryPointFromJournal, "recovery-point-from-journal"),
        (Self::JournalFreedBeforeSync, "journal-freed-before-sync"),
        (Self::JournalPromisesFailedWrite, "journal-promises-failed-write"),
        (Self::JournalLeavesGap, "journal-leaves-gap"),
        (Self::JournalNotVoided, "journal-not-voided"),
        (Self::JournalReplaysEarlierLap, "journal-replays-earlier-lap"),
        (Self::JournalLosesNames, "journal-loses-names"),
        (Self::UnreplicatedIsStable, "unreplicated-is-stable"),
        (Self::RecoveryLosesAborted, "recovery-loses-aborted"),
        (Self::VerificationSkipped, "verification-skipped"),
        (Self::EndAnsweredBeforeWritten, "end-answered-before-written"),
        (Self::CompleteBeforeMarkers, "complete-before-markers"),
        (Self::PreparedForgottenAtLoad, "prepared-forgotten-at-load"),
        (Self::AbortedOffsetsVisible, "aborted-offsets-visible"),
        (Self::PendingOffsetIsStable, "pending-offset-is-stable"),
        (Self::FencedMemberCommits, "fenced-member-commits"),
        (Self::AssignBeforeRelease, "assign-before-release"),
        (Self::MemberAnsweredBeforeWritten, "member-answered-before-written"),
        (Self::GoneMembersLoaded, "gone-members-loaded"),
        (Self::AbortBehindCleanedMissed, "abort-behind-cleaned-missed"),
    ];
}

thread_local! {
    static INJECTED: Cell<Option<InjectedFault>> = const { Cell::new(None) };
}

static OF_PROCESS: LazyLock<Option<InjectedFault>> = LazyLock::new(|| {
    let name = std::env::var(VARIABLE).ok()?;
    let known = InjectedFault::ALL.iter().find(|(_, known)| *known == name);
    Some(known.unwrap_or_else(|| panic!("{VARIABLE}={name}: there is no such fault")).0)
});

/// Injects a fault into what this thread does from now on, or none.
pub fn inject(fault: Option<InjectedFault>) {
    INJECTED.set(fault);
}

/// Runs seeds with a fault until one shows it, and says which and how.
///
/// # Panics
/// If none of many does.
pub fn find(name: &str, fault: InjectedFault, run: impl Fn(u64)) {
    let found = (0..SEEDS_MAX).find_map(|seed| {
        inject(Some(fault));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        inject(None);
        let panic = outcome.err()?;
        let said = panic.downcast_ref::<String>().cloned();
        Some((seed + 1, said.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned())).unwrap_or_default()))
    });
    let (seeds, said) = found.unwrap_or_else(|| panic!("{name} is not found in {SEEDS_MAX} seeds"));
    eprintln!("{name}: found after {seeds} seeds: {}", said.lines().next().unwrap_or_default());
}

/// Whether a fault is to be injected here and now.
pub fn is_injected(fault: InjectedFault) -> bool {
    INJECTED.get().or(*OF_PROCESS) == Some(fault)
}
