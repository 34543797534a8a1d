//! The names of the files in a log's directory, which are Kafka's (`LogFileUtils`).

use std::path::{Path, PathBuf};

pub(crate) const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
pub(crate) const TRUNCATION_CHECKPOINT: &str = "truncation-checkpoint";
/// See [`crate::journal`].
pub(crate) const JOURNAL_CHECKPOINT: &str = "journal-checkpoint";
/// See [`crate::failed_sync`].
pub(crate) const SYNC_FAILED: &str = "sync-failed";
pub(crate) const PARTITION_METADATA: &str = "partition.metadata";

/// A file that belongs to a segment, by its suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Log,
    Index,
    TimeIndex,
    TxnIndex,
    Snapshot,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Log, Self::Index, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];
    /// What is renamed and removed together with a segment's log file. The snapshot stands for the state before it.
    pub(crate) const OF_SEGMENT: [Self; 4] = [Self::Log, Self::Index, Self::TimeIndex, Self::TxnIndex];

    fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::Index => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// How far a file is on its way into or out of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Live,
    Deleted,
    Cleaned,
    Swap,
}

impl Stage {
    fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

pub(crate) fn path(dir: &Path, offset: i64, kind: Kind, stage: Stage) -> PathBuf {
    dir.join(format!("{offset:020}{}{}", kind.suffix(), stage.suffix()))
}

/// Takes a file name apart; `None` for files that are not ours.
pub(crate) fn parse(name: &str) -> Option<(i64, Kind, Stage)> {
    let (stage, rest) = [Stage::Deleted, Stage::Cleaned, Stage::Swap]
        .into_iter()
        .find_map(|stage| name.strip_suffix(stage.suffix()).map(|rest| (stage, rest)))
        .unwrap_or((Stage::Live, name));
    let (digits, suffix) = rest.split_at_checked(20)?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.suffix() == suffix)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, kind, stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_refused() {
        for kind in Kind::ALL {
            for stage in [Stage::Live, Stage::Deleted, Stage::Cleaned, Stage::Swap] {
                let path = path(Path::new(""), 4711, kind, stage);
                assert_eq!(parse(path.to_str().unwrap()), Some((4711, kind, stage)));
            }
        }
        for name in [
            "",
            "log",
            "0.log",
            "0000000000000000000x.log",
            "+0000000000000000001.log",
            "99999999999999999999.log",
            "0000000000000000000é.log",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
