//! An interval log of HdrHistogram (`HistogramLogWriter`), which its own tools read and draw: a compressed histogram
//! for each interval. Latencies are in microseconds; `HistogramLogProcessor -outputValueUnitRatio 1000` shows
//! milliseconds.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError};

use crate::stats::Tally;

/// A log that is being written.
pub struct HdrLog {
    file: File,
    serializer: V2DeflateSerializer,
    /// Since the start.
    elapsed: Duration,
}

impl HdrLog {
    /// Begins the log of a run that starts now, which is so long after 1970.
    pub fn create(path: &Path, started_wall_ms: i64) -> io::Result<Self> {
        let mut log =
            Self { file: File::create(path)?, serializer: V2DeflateSerializer::new(), elapsed: Duration::ZERO };
        let started = UNIX_EPOCH + Duration::from_millis(started_wall_ms.max(0) as u64);
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("Latencies in microseconds")
            .with_start_time(started)
            .begin_log_with(&mut log.file, &mut log.serializer)?;
        log.file.write_all(
            b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        )?;
        Ok(log)
    }

    /// Adds the interval that follows.
    pub fn write(&mut self, tally: &Tally, length: Duration) -> io::Result<()> {
        // A writer without a head: that stands in the file already.
        let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut self.file, &mut self.serializer)?;
        let written = writer.write_histogram(&tally.latency, self.elapsed, length, None);
        self.elapsed += length;
        written.map_err(|error| match error {
            IntervalLogWriterError::IoError(error) => error,
            IntervalLogWriterError::SerializeError(error) => io::Error::other(format!("{error:?}")),
        })
    }

    /// Adds what is left of a run that has taken so long.
    pub fn finish(&mut self, tally: &Tally, elapsed: Duration) -> io::Result<()> {
        if tally.records == 0 {
            return Ok(());
        }
        self.write(tally, elapsed.saturating_sub(self.elapsed))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = HdrLog::create(file.path(), 1_700_000_000_123).unwrap();
        for n in 1..=2 {
            let mut tally = Tally::default();
            (1..=100 * n).for_each(|us| tally.record(us, 1));
            log.write(&tally, Duration::from_millis(500)).unwrap();
        }
        let bytes = std::fs::read(file.path()).unwrap();
        let entries: Vec<_> = IntervalLogIterator::new(&bytes).map(Result::unwrap).collect();
        assert!(matches!(entries[0], LogEntry::StartTime(at) if at.as_millis() == 1_700_000_000_123), "{entries:?}");
        let counts = entries.iter().filter_map(|entry| match entry {
            LogEntry::Interval(interval) => {
                let bytes = BASE64_STANDARD.decode(interval.encoded_histogram()).unwrap();
                let histogram = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice()).unwrap();
                Some((interval.start_timestamp().as_millis(), histogram.len(), histogram.max()))
            }
            _ => None,
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(0, 100, 100), (500, 200, 200)]);
    }
}
