//! The greatest timestamp of a part of a log.

use wire::batch::BatchHeader;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    pub timestamp: i64,
    pub offset: i64,
}

impl TimestampOffset {
    pub const NONE: Self = Self { timestamp: -1, offset: -1 };

    /// The greater timestamp; the earlier offset if they are equal.
    pub(crate) fn max_with(self, header: &BatchHeader) -> Self {
        if header.max_timestamp > self.timestamp {
            Self { timestamp: header.max_timestamp, offset: header.last_offset() }
        } else {
            self
        }
    }
}
