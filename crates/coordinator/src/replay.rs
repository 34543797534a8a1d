//! Reading a partition of an internal topic from its beginning to its end, when its coordinator is loaded.

use wire::ErrorCode;
use wire::batch::{Batch, BatchError, BatchHeader, Batches};
use wire::record::{Record, RecordReader};

use crate::topic_log::TopicLog;

/// Decompressed size that a batch may have.
const MAX_SECTION_BYTES: usize = 64 * 1024 * 1024;

/// Shows every batch of a partition, and returns when they are committed. Of one that is damaged there is only the
/// header, and it is logged: it is lost, but not what follows it, as long as the start of that is known.
pub(crate) async fn read_batches(
    log: &dyn TopicLog,
    partition: i32,
    buffer_bytes: u32,
    mut batch_read: impl FnMut(Result<&Batch, &BatchHeader>),
) -> Result<(), ErrorCode> {
    let (mut offset, end_offset) = log.offsets(partition)?;
    while offset < end_offset {
        let bytes = log.read(partition, offset, buffer_bytes).await?;
        let mut batches = Batches::new(bytes);
        let mut next_offset = offset;
        loop {
            let rest = batches.rest().clone();
            let batch = match batches.next() {
                None => break,
                Some(Ok(batch)) => batch,
                Some(Err(error)) => {
                    let lost = Batch::parse(&rest).map_err(|error| unreadable(partition, next_offset, &error))?;
                    let (first, last) = (lost.header.base_offset, lost.header.last_offset());
                    tracing::error!(partition, first, last, %error, "skipping an unreadable batch of a coordinator");
                    batch_read(Err(&lost.header));
                    batches = Batches::new(rest.slice(lost.header.size()..));
                    next_offset = last + 1;
                    continue;
                }
            };
            next_offset = batch.header.next_offset();
            if next_offset > offset {
                batch_read(Ok(&batch));
            }
        }
        if next_offset <= offset {
            // Compaction may have left nothing up to the end.
            break;
        }
        offset = next_offset;
    }
    log.committed(partition, end_offset).await
}

fn unreadable(partition: i32, offset: i64, error: &BatchError) -> ErrorCode {
    tracing::error!(partition, offset, %error, "the records of a coordinator cannot be read");
    ErrorCode::KAFKA_STORAGE_ERROR
}

/// Shows every record of a batch up to the first that cannot be read. Returns whether all could be.
pub(crate) fn read_records(partition: i32, batch: &Batch, mut record_read: impl FnMut(Record<'_>)) -> bool {
    let offset = batch.header.base_offset;
    let section = match batch.records(MAX_SECTION_BYTES) {
        Ok(section) => section,
        Err(error) => {
            tracing::error!(partition, offset, %error, "skipping unreadable records of a coordinator");
            return false;
        }
    };
    for record in RecordReader::new(&batch.header, &section) {
        match record {
            Ok(record) => record_read(record),
            Err(error) => {
                tracing::error!(partition, offset, %error, "skipping unreadable records of a coordinator");
                return false;
            }
        }
    }
    true
}

/// The log's own time. The age of what is stored must not depend on the wall clock alone (it may have been wrong when a
/// record was written, or be wrong now). So the steps between the timestamps of batches are added up, where a step back
/// counts as nothing and a step ahead as at most so much. A single jump of the clock never expires anything, and time
/// while the broker was down counts little.
pub(crate) struct LogTime {
    max_step_ms: i64,
    last_timestamp_ms: Option<i64>,
    ms: i64,
}

impl LogTime {
    pub(crate) fn new(max_step_ms: i64) -> Self {
        Self { max_step_ms, last_timestamp_ms: None, ms: 0 }
    }

    pub(crate) fn advance(&mut self, header: &BatchHeader) {
        if let Some(last_ms) = self.last_timestamp_ms.replace(header.max_timestamp) {
            self.ms += header.max_timestamp.saturating_sub(last_ms).clamp(0, self.max_step_ms);
        }
    }

    pub(crate) fn ms(&self) -> i64 {
        self.ms
    }
}
