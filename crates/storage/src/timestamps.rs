//! From time to offset: ListOffsets by timestamp, and the greatest timestamp of a log.

use std::io;

use wire::batch::BatchHeader;

use crate::error::ReadError;
use crate::scan::Item;
use crate::segment::TimestampOffset;
use crate::view::LogView;

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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use wire::Uuid;
    use wire::batch::{Batch, BatchBuilder};

    use crate::{Log, LogConfig, Now, OpenOptions, Origin, SimDisk, TimestampOffset};

    fn of_time(timestamp: i64) -> Batch {
        let mut builder = BatchBuilder::new();
        builder.push(timestamp, None, Some(&[0; 64 << 10]), &[]);
        builder.build()
    }

    /// A restart leaves the greatest timestamp to whoever asks first; an append may come between the question and the
    /// answer.
    #[test]
    fn the_greatest_timestamp_is_not_missed_when_it_is_appended_during_the_search() {
        let (disk, dir, now) = (Arc::new(SimDisk::new(1)), PathBuf::from("/log"), Now { wall_ms: 0, monotonic_ms: 0 });
        let (mut log, _) = Log::create(disk.clone(), dir.clone(), LogConfig::default(), Uuid::default(), now).unwrap();
        let append = |log: &mut Log, timestamp| {
            log.append(&[of_time(timestamp)], Origin::Client, 0, now).unwrap().remove(0).unwrap();
        };
        (0..4).for_each(|_| append(&mut log, 5));
        let recovery_point = log.close().unwrap();
        disk.kill();
        let options = OpenOptions { recovery_point, log_start_offset: 0, clean_shutdown: false, now };
        let (mut log, _) = Log::open(disk, dir, LogConfig::default(), options).unwrap();
        let view = log.view();
        let parts = view.published().with_sizes();
        append(&mut log, 9);
        for part in parts {
            part.segment.max_timestamp(part.size, part.upper_offset).unwrap();
        }
        assert_eq!(view.max_timestamp().unwrap(), TimestampOffset { timestamp: 9, offset: 4 });
    }
}
