//! Transactions: the states of the transactional ids that this node coordinates, and how many it has decided.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use coordinator::txn::TransactionCoordinator;

use super::page::Page;

pub(super) fn write(page: &mut Page<'_>, coordinator: &TransactionCoordinator) -> fmt::Result {
    let mut states = BTreeMap::<_, u64>::new();
    let mut oldest_ms = 0;
    coordinator.visit(|transaction| {
        *states.entry(transaction.state).or_default() += 1;
        oldest_ms = oldest_ms.max(transaction.open_ms.unwrap_or(0));
    });
    page.gauges(
        "parshall_transactional_ids",
        "Transactional ids that this node coordinates, by the state of their last transaction",
        states.iter().map(|(state, count)| ([("state", *state)], *count)),
    )?;
    page.gauge(
        "parshall_transaction_oldest_open_seconds",
        "For how long the oldest open transaction that this node coordinates has been open; 0 if there is none",
        Duration::from_millis(oldest_ms.max(0) as u64).as_secs_f64(),
    )?;
    let decisions = coordinator.decisions();
    page.counters(
        "parshall_transactions",
        "Transactions that this node has decided, by the decision",
        [("commit", &decisions.committed), ("abort", &decisions.aborted)]
            .map(|(result, count)| ([("result", result)], count.get())),
    )
}
