//! The states of a transactional id, and which of them follows which.

use super::TransactionVersion;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No transaction since the last InitProducerId.
    Empty,
    Ongoing,
    /// Decided: markers are being written.
    PrepareCommit,
    PrepareAbort,
    /// The last transaction's markers are written.
    CompleteCommit,
    CompleteAbort,
}

impl State {
    pub const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// Names of states that Kafka has between two records. No id is ever seen in them.
    pub const TRANSIENT_NAMES: [&str; 2] = ["Dead", "PrepareEpochFence"];

    /// Kafka's number of the state, as records have it.
    pub fn id(self) -> i8 {
        self as i8
    }

    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.id() == id)
    }

    /// Kafka's name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// Decided, and not yet complete.
    pub fn is_prepared(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }

    pub fn is_complete(self) -> bool {
        matches!(self, Self::CompleteCommit | Self::CompleteAbort)
    }

    /// Whether an id in this state may be forgotten.
    pub fn is_expiration_allowed(self) -> bool {
        matches!(self, Self::Empty | Self::CompleteCommit | Self::CompleteAbort)
    }

    /// Whether this state may follow another (`TransactionState.validPreviousStates`).
    pub fn may_follow(self, previous: Self, version: TransactionVersion) -> bool {
        use State::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
        match self {
            Empty => matches!(previous, Empty | CompleteCommit | CompleteAbort),
            Ongoing => matches!(previous, Ongoing | Empty | CompleteCommit | CompleteAbort),
            PrepareCommit => previous == Ongoing,
            // Since KIP-890 an abort bumps the epoch also if there is nothing to abort.
            PrepareAbort if version.supports_epoch_bump() => {
                matches!(previous, Ongoing | Empty | CompleteCommit | CompleteAbort)
            }
            PrepareAbort => previous == Ongoing,
            CompleteCommit => previous == PrepareCommit,
            CompleteAbort => previous == PrepareAbort,
        }
    }
}
