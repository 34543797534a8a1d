//! Reading a partition of an internal topic from its beginning to its end, when its coordinator is loaded.

use wire::ErrorCode;
use wire::batch::{Batch, BatchError, Batches};
use wire::record::{Record, RecordReader};

use crate::topic_log::TopicLog;

/// Decompressed size that a batch may have.
const MAX_SECTION_BYTES: usize = 64 * 1024 * 1024;

/// Shows every batch of a partition. What is damaged is left out and logged: it is lost, but not what follows it.
pub(crate) async fn read_batches(
    log: &dyn TopicLog,
    partition: i32,
    buffer_bytes: u32,
    mut batch_read: impl FnMut(&Batch),
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
                    batches = Batches::new(rest.slice(lost.header.size()..));
                    next_offset = last + 1;
                    continue;
                }
            };
            next_offset = batch.header.next_offset();
            if next_offset > offset {
                batch_read(&batch);
            }
        }
        if next_offset <= offset {
            // Compaction may have left nothing up to the end.
            break;
        }
        offset = next_offset;
    }
    Ok(())
}

fn unreadable(partition: i32, offset: i64, error: &BatchError) -> ErrorCode {
    tracing::error!(partition, offset, %error, "the records of a coordinator cannot be read");
    ErrorCode::KAFKA_STORAGE_ERROR
}

/// Shows every record of a batch up to the first that cannot be read.
pub(crate) fn read_records(partition: i32, batch: &Batch, mut record_read: impl FnMut(Record<'_>)) {
    let offset = batch.header.base_offset;
    let section = match batch.records(MAX_SECTION_BYTES) {
        Ok(section) => section,
        Err(error) => {
            tracing::error!(partition, offset, %error, "skipping unreadable records of a coordinator");
            return;
        }
    };
    for record in RecordReader::new(&batch.header, &section) {
        match record {
            Ok(record) => record_read(record),
            Err(error) => {
                tracing::error!(partition, offset, %error, "skipping unreadable records of a coordinator");
                return;
            }
        }
    }
}
