//! Partitions that are offline, under-replicated, or move.

use super::{Finding, Severity};
use crate::snapshot::Snapshot;

pub(super) fn find(snapshot: &Snapshot) -> impl Iterator<Item = Finding> {
    [offline(snapshot), under_min_isr(snapshot), under_replicated(snapshot), moving(snapshot)].into_iter().flatten()
}

fn offline(snapshot: &Snapshot) -> Option<Finding> {
    let offline = snapshot.partitions().filter(|(_, partition)| partition.is_offline()).count();
    (offline > 0).then(|| {
        Finding::new(
            Severity::Bad,
            format!("{} without a leader: nobody can write to them or read them.", have(offline)),
            "Start the brokers with their replicas. If those in sync are lost for good, an unclean election takes \
             another and loses records.",
            "/partitions?show=offline",
        )
    })
}

fn under_min_isr(snapshot: &Snapshot) -> Option<Finding> {
    let under = snapshot.partitions().filter(|(_, partition)| !partition.is_offline() && partition.is_under_min_isr());
    let under = under.count();
    (under > 0).then(|| {
        Finding::new(
            Severity::Bad,
            format!("{} under min.insync.replicas: producers with acks=all are refused.", have(under)),
            "Start the brokers with their other replicas. Lower min.insync.replicas of the topic only if its records \
             may be lost.",
            "/partitions?show=under-min-isr",
        )
    })
}

fn under_replicated(snapshot: &Snapshot) -> Option<Finding> {
    let under_replicated =
        snapshot.partitions().filter(|(_, partition)| !partition.is_offline() && partition.is_under_replicated());
    let under_replicated = under_replicated.count();
    (under_replicated > 0).then(|| {
        Finding::new(
            Severity::Warn,
            format!("{} under-replicated.", have(under_replicated)),
            "A replica catches up by itself when its broker is back. If all brokers are up, look at the disk and the \
             network of the one that is behind.",
            "/partitions?show=under-replicated",
        )
    })
}

fn moving(snapshot: &Snapshot) -> Option<Finding> {
    let what = match snapshot.reassignments.len() {
        0 => return None,
        1 => "1 partition is moving.".to_owned(),
        moving => format!("{moving} partitions are moving."),
    };
    Some(Finding::new(Severity::Note, what, "Clients can go on meanwhile.", "/partitions/moves"))
}

fn have(partitions: usize) -> String {
    match partitions {
        1 => "1 partition is".to_owned(),
        _ => format!("{partitions} partitions are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Partition, Topic};

    #[test]
    fn a_lost_replica_is_a_warning_until_producers_are_refused() {
        let partition = |min_in_sync| Partition {
            leader: 1,
            replicas: vec![1, 2],
            isr: vec![1],
            min_in_sync,
            ..Partition::default()
        };
        for (min_in_sync, severities) in [(1, &[Severity::Warn][..]), (2, &[Severity::Bad, Severity::Warn])] {
            let topic = Topic { partitions: vec![partition(min_in_sync)], ..Topic::default() };
            let snapshot = Snapshot { topics: [("t".to_owned(), topic)].into(), ..Snapshot::empty() };
            let found: Vec<_> = find(&snapshot).map(|finding| finding.severity).collect();
            assert_eq!(found, severities);
        }
    }
}
