//! Transactions that are open for much longer than they may be.

use super::{Finding, Severity};
use crate::format::{counted, duration, group_part, name_shown};
use crate::snapshot::{Snapshot, Transaction, is_overdue};

/// Coordinators look for what has timed out every ten seconds, and clocks differ.
const GRACE_MS: i64 = 60_000;
/// Of several transactions with the same trouble so many are named.
const NAMED: usize = 3;

pub(super) fn find(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    let mut found = snapshot.transactions.ids.iter().filter_map(|(id, known)| {
        let (what, advice) = trouble(snapshot, id, known)?;
        let (advice, href) = (advice.to_owned(), format!("/transactions/{}", group_part(id)).into());
        Some(Finding { severity: Severity::Warn, what, advice, href })
    });
    findings.extend(found.by_ref().take(NAMED));
    let more = found.count();
    if more > 0 {
        let what = format!("{} open for longer than allowed, too.", have(more));
        findings.push(Finding::new(Severity::Warn, what, "Look first at the oldest.", "/transactions?sort=duration"));
    }
}

fn have(transactions: usize) -> String {
    match transactions {
        1 => "1 more transaction is".to_owned(),
        _ => format!("{} are", counted(transactions, "more transaction")),
    }
}

/// How long a transaction has been open, where that is much too long, and what to do.
fn trouble(snapshot: &Snapshot, id: &str, known: &Transaction) -> Option<(String, &'static str)> {
    let described = known.described.as_ref()?;
    let open_ms = known.duration_ms(snapshot.at_ms)?;
    let timeout_ms = i64::from(described.timeout_ms);
    let max_ms = snapshot.transactions.max_timeout_ms.unwrap_or(i64::MAX);
    let text = |ms: i64| duration(ms as f64 / 1000.0);
    let (id, open) = (name_shown(id), text(open_ms));
    if is_overdue(described, snapshot.at_ms - GRACE_MS) {
        return Some((
            format!(
                "The transaction of {id} has been open for {open}, and its timeout is {}: its coordinator, broker {}, \
                 should have aborted it.",
                text(timeout_ms),
                known.coordinator
            ),
            "Consumers of committed records cannot pass it. Look whether the partitions of __transaction_state are in \
             sync; Terminate, on its page, aborts it now.",
        ));
    }
    let is_longer = known.state == "Ongoing" && timeout_ms > max_ms && open_ms - GRACE_MS > max_ms;
    is_longer.then(|| {
        (
            format!(
                "The transaction of {id} has been open for {open}, and transaction.max.timeout.ms allows new ones {}.",
                text(max_ms)
            ),
            "Its producer began when a longer timeout was allowed. Consumers of committed records cannot pass it; \
             Terminate, on its page, aborts it now.",
        )
    })
}

#[cfg(test)]
mod tests {
    use client::{Broker, TransactionDescription};

    use super::*;

    const START_MS: i64 = 1_000_000;

    fn known(state: &str, timeout_ms: i32) -> Transaction {
        let described = TransactionDescription {
            coordinator: Broker { id: 2, host: "kafka".to_owned(), port: 9092, rack: None },
            producer_id: 4000,
            producer_epoch: 3,
            state: state.to_owned(),
            timeout_ms,
            start_ms: Some(START_MS),
            partitions: Vec::new(),
        };
        Transaction { state: state.to_owned(), producer_id: 4000, coordinator: 2, described: Some(described) }
    }

    fn found(known: &Transaction, open_ms: i64, max_timeout_ms: Option<i64>, times: usize) -> Vec<String> {
        let mut snapshot = Snapshot { at_ms: START_MS + open_ms, ..Snapshot::empty() };
        snapshot.transactions.max_timeout_ms = max_timeout_ms;
        snapshot.transactions.ids = (0..times).map(|number| (format!("t {number}"), known.clone())).collect();
        let mut findings = Vec::new();
        find(&snapshot, &mut findings);
        findings.into_iter().map(|finding| format!("{} {}", finding.href, finding.what)).collect()
    }

    #[test]
    fn a_transaction_that_outlives_its_timeout_by_far_is_told() {
        let ongoing = known("Ongoing", 60_000);
        assert_eq!(found(&ongoing, 119_000, Some(900_000), 1), [""; 0]);
        let what = "/transactions/t%200 The transaction of t 0 has been open for 2 min 5 s, and its timeout is 1 min: its \
                    coordinator, broker 2, should have aborted it.";
        assert_eq!(found(&ongoing, 125_000, Some(900_000), 1), [what]);
        // It is being ended.
        assert_eq!(found(&known("PrepareAbort", 60_000), 125_000, Some(900_000), 1), [""; 0]);
    }

    #[test]
    fn a_transaction_that_is_open_for_longer_than_the_brokers_allow_is_told() {
        let ongoing = known("Ongoing", 3_600_000);
        assert_eq!(found(&ongoing, 950_000, Some(900_000), 1), [""; 0]);
        assert_eq!(found(&ongoing, 965_000, None, 1), [""; 0]);
        let [what] = &found(&ongoing, 965_000, Some(900_000), 1)[..] else { panic!("one finding") };
        assert!(
            what.ends_with("open for 16 min 5 s, and transaction.max.timeout.ms allows new ones 15 min."),
            "{what}"
        );
    }

    #[test]
    fn of_many_overdue_transactions_some_are_named() {
        let all = found(&known("Ongoing", 1), 125_000, None, 9);
        assert_eq!(all.len(), 4);
        assert_eq!(all[3], "/transactions?sort=duration 6 more transactions are open for longer than allowed, too.");
    }
}
