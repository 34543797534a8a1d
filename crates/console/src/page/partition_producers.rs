//! The producers of one partition, and how far consumers of committed records get in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use client::{Client, ClientError, IsolationLevel, LATEST, PartitionProducer, TopicPartition};
use tokio::time::timeout;

use super::hanging_transactions::is_too_old;
use crate::format::{count, counted, duration, moment};

/// A page does not wait longer for a leader.
const PATIENCE: Duration = Duration::from_secs(2);
/// Nothing was written for as long as a transaction may be open by default (`transaction.max.timeout.ms`).
const LONG_MS: i64 = 900_000;

/// What the leader of a partition tells.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    /// Those with an open transaction first, in the order of these, and then those that wrote last.
    pub producers: Vec<PartitionProducer>,
    pub last_stable_offset: Option<i64>,
    pub high_watermark: Option<i64>,
}

pub(super) struct Row {
    /// As it is shown, and its page; of those that the last snapshot knows.
    pub transactional_id: Option<(String, String)>,
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub last_sequence: String,
    pub last_write: String,
    pub coordinator_epoch: String,
    pub start_offset: Option<i64>,
}

impl Row {
    pub(super) fn new(producer: &PartitionProducer, transactional_id: Option<(String, String)>) -> Self {
        let dash = || "–".to_owned();
        Self {
            transactional_id,
            producer_id: producer.producer_id,
            producer_epoch: producer.producer_epoch,
            last_sequence: Some(producer.last_sequence).filter(|of| *of >= 0).map_or_else(dash, |of| of.to_string()),
            last_write: moment(producer.last_timestamp_ms),
            coordinator_epoch: producer.coordinator_epoch.map_or_else(dash, |epoch| epoch.to_string()),
            start_offset: producer.transaction_start_offset,
        }
    }
}

impl Producers {
    /// Asks the leader, or says why that is in vain.
    pub(crate) async fn ask(client: &Client, of: &TopicPartition) -> Result<Self, String> {
        let wanted = BTreeSet::from([of.clone()]);
        let ends = BTreeMap::from([(of.clone(), LATEST)]);
        let asked = async {
            // Both ends grow: the one that is asked for first is not beyond the other.
            let offset = async |isolation| {
                let listed = client.list_offsets_as(&ends, isolation).await.ok()?;
                listed.get(of).map(|listed| listed.offset)
            };
            let last_stable_offset = offset(IsolationLevel::ReadCommitted).await;
            let high_watermark = offset(IsolationLevel::ReadUncommitted).await;
            let described = client.describe_producers(&wanted, None).await.into_values().next();
            let missing = || ClientError::Missing { address: "the leader".to_owned(), subject: of.to_string() };
            let producers = described.unwrap_or_else(|| Err(missing()))?;
            Ok::<_, ClientError>(Self::new(producers, last_stable_offset, high_watermark))
        };
        match timeout(PATIENCE, asked).await {
            Ok(Ok(producers)) => Ok(producers),
            Ok(Err(error)) if is_too_old(&error) => {
                Err("the broker cannot tell of producers, as Kafka before 3.0".to_owned())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the leader has not answered yet".to_owned()),
        }
    }

    fn new(
        mut producers: Vec<PartitionProducer>,
        last_stable_offset: Option<i64>,
        high_watermark: Option<i64>,
    ) -> Self {
        producers.sort_by_key(|one| {
            let start = one.transaction_start_offset;
            (start.is_none(), start, Reverse(one.last_timestamp_ms))
        });
        Self { producers, last_stable_offset, high_watermark }
    }

    pub(super) fn has_open_transaction(&self) -> bool {
        self.producers.iter().any(|one| one.transaction_start_offset.is_some())
    }

    /// What consumers of committed records wait for, in words, and how bad it is.
    pub(crate) fn finding(&self, now_ms: i64) -> Option<(&'static str, String)> {
        let (stable, end) = (self.last_stable_offset?, self.high_watermark?);
        if stable >= end {
            return None;
        }
        let waits = format!(
            "Consumers of committed records (read_committed) get to offset {}: {} before the end at {} wait for",
            count(stable),
            counted((end - stable) as usize, "offset"),
            count(end)
        );
        let Some(first) = self.producers.first().filter(|one| one.transaction_start_offset.is_some()) else {
            return Some(("", format!("{waits} a transaction that has ended meanwhile.")));
        };
        let idle_ms = (now_ms - first.last_timestamp_ms).max(0);
        let class = if idle_ms > LONG_MS { "warn" } else { "" };
        Some((
            class,
            format!(
                "{waits} the transaction of producer {}, which last wrote {} ago.",
                first.producer_id,
                duration(idle_ms as f64 / 1000.0)
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(producer_id: i64, last_timestamp_ms: i64, transaction_start_offset: Option<i64>) -> PartitionProducer {
        PartitionProducer {
            producer_id,
            producer_epoch: 0,
            last_sequence: 0,
            last_timestamp_ms,
            coordinator_epoch: None,
            transaction_start_offset,
        }
    }

    #[test]
    fn open_transactions_come_first_and_the_first_of_them_holds_consumers_up() {
        let all = vec![
            producer(1, 90_000, None),
            producer(2, 40_000, Some(70)),
            producer(3, 99_000, None),
            producer(4, 50_000, Some(30)),
        ];
        let producers = Producers::new(all, Some(30), Some(1230));
        let ids: Vec<_> = producers.producers.iter().map(|one| one.producer_id).collect();
        assert_eq!(ids, [4, 2, 3, 1]);
        let (class, text) = producers.finding(60_000).unwrap();
        assert_eq!(class, "");
        assert_eq!(
            text,
            "Consumers of committed records (read_committed) get to offset 30: 1,200 offsets before the end at 1,230 \
             wait for the transaction of producer 4, which last wrote 10 s ago."
        );
        assert_eq!(producers.finding(60_000 + LONG_MS).unwrap().0, "warn");
    }

    #[test]
    fn nobody_waits_where_all_is_stable_or_nothing_is_known() {
        assert_eq!(Producers::new(vec![producer(1, 0, Some(3))], Some(9), Some(9)).finding(0), None);
        assert_eq!(Producers::new(Vec::new(), None, Some(9)).finding(0), None);
    }
}
