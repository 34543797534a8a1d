//! From time to offset: ListOffsets by timestamp, and the greatest timestamp of a log.

use std::io;

use wire::batch::BatchHeader;

use crate::error::ReadError;
use crate::scan::Item;
use crate::view::LogView;

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

impl LogView {
    /// The first batch with a record of `timestamp` or later, at or behind the log start offset and below `end_offset`.
    pub fn batch_for_timestamp(&self, timestamp: i64, end_offset: i64) -> Result<Option<BatchHeader>, ReadError> {
        let (segments, log_start_offset) = {
            let published = self.published();
            (published.with_sizes(), published.log_start_offset)
        };
        for part in segments {
            if part.upper_offset <= log_start_offset || part.segment.base_offset() >= end_offset {
                continue;
            }
            if part.segment.max_timestamp(part.size, part.upper_offset)?.timestamp < timestamp {
                continue;
            }
            let (position, next_offset) =
                part.segment.start_before_timestamp(timestamp, part.size, part.upper_offset)?;
            let mut walk = part
                .segment
                .headers(part.segment.log_file()?, part.size, part.upper_offset)
                .from(position, next_offset);
            while let Some(item) = walk.step()? {
                match item {
                    Item::Batch(_, header) if header.base_offset >= end_offset => return Ok(None),
                    Item::Batch(_, header)
                        if header.max_timestamp >= timestamp && header.last_offset() >= log_start_offset =>
                    {
                        return Ok(Some(header));
                    }
                    Item::Batch(..) => {}
                    Item::Bad { range, .. } => {
                        part.segment.mark_bad(range);
                    }
                }
            }
        }
        Ok(None)
    }

    /// The greatest timestamp of the log's batches and the last offset of the first batch that has it.
    pub fn max_timestamp(&self) -> io::Result<TimestampOffset> {
        let segments = self.published().with_sizes();
        let mut max = TimestampOffset::NONE;
        for part in segments {
            let of_segment = part.segment.max_timestamp(part.size, part.upper_offset)?;
            if of_segment.timestamp > max.timestamp {
                max = of_segment;
            }
        }
        Ok(max)
    }
}
