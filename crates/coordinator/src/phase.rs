//! Whether a coordinator serves a partition of its topic.

use wire::ErrorCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Loading,
    Active,
    Unloaded,
}

impl Phase {
    /// Refuses what needs a partition that is served.
    pub(crate) fn check(self) -> Result<(), ErrorCode> {
        match self {
            Self::Active => Ok(()),
            Self::Loading => Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
            Self::Unloaded => Err(ErrorCode::NOT_COORDINATOR),
        }
    }
}
