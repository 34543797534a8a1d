//! Transactional ids and their transactions, as coordinators tell of them (KIP-664).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use client::{Client, ClientError, ConnectionError, ListedTransactions, Resource, TransactionDescription};
use tokio::time::timeout;

use crate::format::now_ms;

/// Transactional ids that a snapshot keeps, and those of them whose coordinators are asked for more. Open transactions
/// come first.
const KEPT_MAX: usize = 10_000;
const DESCRIBED_MAX: usize = 1000;
const ONGOING: &str = "Ongoing";
const MAX_TIMEOUT: &str = "transaction.max.timeout.ms";
/// What is open for less than this is within any bound, so that nobody has to be asked for it.
const SURELY_ALLOWED_MS: i64 = 60_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions {
    /// By transactional id.
    pub ids: BTreeMap<String, Transaction>,
    /// How many more there are than a snapshot keeps.
    pub left_out: usize,
    /// Brokers that cannot tell of theirs, as Apache Kafka before 3.0.
    pub too_old: BTreeSet<i32>,
    /// Whether all brokers have told of theirs that can.
    pub is_complete: bool,
    /// `transaction.max.timeout.ms` of the brokers; it is asked for when a transaction may have been open for longer.
    pub max_timeout_ms: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Transaction {
    pub state: String,
    pub producer_id: i64,
    pub coordinator: i32,
    /// What its coordinator tells beyond that, if it was asked and has answered.
    pub described: Option<TransactionDescription>,
}

impl Transaction {
    /// Whether a transaction has begun that has not ended.
    pub(crate) fn is_open(&self) -> bool {
        is_open(&self.state)
    }

    /// For how long its transaction is open.
    pub(crate) fn duration_ms(&self, now_ms: i64) -> Option<i64> {
        duration_ms(self.described.as_ref()?, now_ms)
    }

    pub(crate) fn is_overdue(&self, now_ms: i64) -> bool {
        self.described.as_ref().is_some_and(|described| is_overdue(described, now_ms))
    }
}

fn is_open(state: &str) -> bool {
    !matches!(state, "Empty" | "CompleteCommit" | "CompleteAbort" | "Dead")
}

pub(crate) fn duration_ms(described: &TransactionDescription, now_ms: i64) -> Option<i64> {
    described.start_ms.filter(|_| is_open(&described.state)).map(|start_ms| (now_ms - start_ms).max(0))
}

/// Whether its producer has had a transaction open for longer than it may. One that is being ended is not waited for.
pub(crate) fn is_overdue(described: &TransactionDescription, now_ms: i64) -> bool {
    let timeout_ms = i64::from(described.timeout_ms);
    described.state == ONGOING && duration_ms(described, now_ms).is_some_and(|open_ms| open_ms > timeout_ms)
}

/// All that can be asked for, and what could not.
pub(super) async fn take(client: &Client, gaps: &mut Vec<String>) -> Transactions {
    let mut transactions = match client.list_transactions(&Default::default()).await {
        Ok(listed) => Transactions::new(listed, gaps),
        Err(error) => {
            gaps.push(format!("transactions ({error})"));
            return Transactions::default();
        }
    };
    let wanted = transactions.first(DESCRIBED_MAX);
    // A coordinator that is slow to answer leaves them as they are listed.
    let described = timeout(client.config().patience, client.describe_transactions(&wanted)).await;
    for (id, described) in described.unwrap_or_default() {
        if let (Ok(described), Some(known)) = (described, transactions.ids.get_mut(&id)) {
            known.state.clone_from(&described.state);
            known.described = Some(described);
        }
    }
    let now_ms = now_ms();
    let is_long = |known: &&Transaction| known.duration_ms(now_ms).is_some_and(|open_ms| open_ms > SURELY_ALLOWED_MS);
    if let Some(known) = transactions.ids.values().find(is_long) {
        let coordinator = known.coordinator;
        let asked = timeout(client.config().patience, max_timeout_ms(client, coordinator));
        transactions.max_timeout_ms = asked.await.ok().flatten();
    }
    transactions
}

/// `transaction.max.timeout.ms` of a broker, if it tells.
pub(crate) async fn max_timeout_ms(client: &Client, broker: i32) -> Option<i64> {
    let names = [MAX_TIMEOUT.to_owned()];
    let described = client.describe_configs_named(&[Resource::broker(broker)], &names).await;
    let entries = described.into_values().filter_map(Result::ok).flatten();
    entries.into_iter().find(|entry| entry.name == MAX_TIMEOUT)?.value?.parse().ok()
}

impl Transactions {
    fn new(listed: ListedTransactions, gaps: &mut Vec<String>) -> Self {
        let mut transactions = Self { is_complete: true, ..Self::default() };
        for (broker, error) in listed.errors {
            if matches!(error, ClientError::Connection(ConnectionError::Unsupported { .. })) {
                transactions.too_old.insert(broker);
            } else {
                transactions.is_complete = false;
                gaps.push(format!("transactions of broker {broker} ({error})"));
            }
        }
        transactions.ids = listed
            .transactions
            .into_iter()
            .map(|(id, listed)| {
                let (state, producer_id, coordinator) = (listed.state, listed.producer_id, listed.coordinator);
                (id, Transaction { state, producer_id, coordinator, described: None })
            })
            .collect();
        if transactions.ids.len() > KEPT_MAX {
            transactions.left_out = transactions.ids.len() - KEPT_MAX;
            let kept: BTreeSet<_> = transactions.first(KEPT_MAX).into_iter().collect();
            transactions.ids.retain(|id, _| kept.contains(id));
        }
        transactions
    }

    /// So many of them, those with an open transaction before others.
    fn first(&self, count: usize) -> Vec<String> {
        let mut ids: Vec<_> = self.ids.iter().collect();
        ids.sort_by_key(|(_, known)| Reverse(known.is_open()));
        ids.into_iter().take(count).map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use client::ListedTransaction;

    use super::*;

    #[test]
    fn open_transactions_are_kept_where_there_are_too_many() {
        let mut listed = ListedTransactions::default();
        for number in 0..KEPT_MAX + 5 {
            let state = if number >= KEPT_MAX { "Ongoing" } else { "CompleteCommit" }.to_owned();
            listed
                .transactions
                .insert(format!("{number:06}"), ListedTransaction { producer_id: 1, state, coordinator: 1 });
        }
        let transactions = Transactions::new(listed, &mut Vec::new());
        assert_eq!((transactions.ids.len(), transactions.left_out), (KEPT_MAX, 5));
        assert_eq!(transactions.ids.values().filter(|known| known.is_open()).count(), 5);
    }

    #[test]
    fn brokers_that_are_too_old_to_tell_are_no_gap_and_others_are() {
        let api = "ListTransactions";
        let too_old = ConnectionError::Unsupported { address: "kafka:9092".to_owned(), api };
        let late = ConnectionError::Timeout { address: "kafka:9093".to_owned() };
        let listed =
            ListedTransactions { errors: [(1, too_old.into()), (2, late.into())].into(), ..Default::default() };
        let mut gaps = Vec::new();
        let transactions = Transactions::new(listed, &mut gaps);
        assert_eq!((transactions.too_old, transactions.is_complete), (BTreeSet::from([1]), false));
        assert!(gaps.len() == 1 && gaps[0].starts_with("transactions of broker 2"), "{gaps:?}");
    }
}
