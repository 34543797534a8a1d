//! Reading a partition of `__transaction_state` back into transactional ids, when this broker starts or becomes its
//! leader.
//!
//! The last record of an id counts. Records of a version that is not known are left out, as Kafka does.
//!
//! The age of an id is that by the log's own time ([`LogTime`]), whose steps are at most an eighth of the expiration.
//! What has no later record is as new as the load.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::batch::Batch;

use super::core::{Metadata, Transaction};
use super::records;
use super::{Now, TransactionConfig};
use crate::replay::{LogTime, read_batches, read_records};
use crate::topic_log::TopicLog;

/// Reads a whole partition.
pub(super) async fn load(
    log: &dyn TopicLog,
    partition: i32,
    config: &TransactionConfig,
    now: impl Fn() -> Now,
) -> Result<BTreeMap<String, Transaction>, ErrorCode> {
    let mut replay = Replay { ids: BTreeMap::new(), log_time: LogTime::new(config.id_expiration_ms / 8) };
    read_batches(log, partition, config.load_buffer_bytes, |batch| {
        if let Ok(batch) = batch {
            replay.batch(partition, batch);
        }
    })
    .await?;
    Ok(replay.finish(now()))
}

/// The state of the replay.
struct Replay {
    /// The last record of each id, and the log's time of it.
    ids: BTreeMap<String, (Metadata, i64)>,
    log_time: LogTime,
}

impl Replay {
    fn batch(&mut self, partition: i32, batch: &Batch) {
        let header = &batch.header;
        self.log_time.advance(header);
        // Somebody may have added this topic to a transaction.
        if header.attributes.is_control() {
            return;
        }
        read_records(partition, batch, |record| {
            let Some(key) = record.key else { return };
            match records::read(key, record.value) {
                Ok(stored) => match stored.value {
                    Some(metadata) => _ = self.ids.insert(stored.transactional_id, (metadata, self.log_time.ms())),
                    None => _ = self.ids.remove(&stored.transactional_id),
                },
                Err(error) => {
                    tracing::warn!(partition, offset = record.offset, %error, "skipping a transaction's record");
                }
            }
        });
    }

    fn finish(self, now: Now) -> BTreeMap<String, Transaction> {
        let shift_ms = now.monotonic_ms - self.log_time.ms();
        let restore = |(metadata, log_time_ms)| Transaction::restore(now, log_time_ms + shift_ms, metadata);
        self.ids.into_iter().map(|(id, stored)| (id, restore(stored))).collect()
    }
}
