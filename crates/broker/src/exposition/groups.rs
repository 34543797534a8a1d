//! Consumer groups: their states, their rebalances, and how far each is behind.
//!
//! This node knows the groups that it coordinates, and of the partitions that they read those with a replica here.

use std::collections::BTreeMap;
use std::fmt;

use coordinator::group::RebalanceCause;

use super::page::Page;
use crate::Broker;
use crate::partition::{Partition, PartitionTable};

/// Partitions of groups with series of their own. Those beyond are summed up.
const SERIES_MAX: usize = 10_000;
/// Longer ids of groups have no series of their own: all of them together have to stay small.
const GROUP_ID_BYTES_MAX: usize = 255;
/// The label of what is summed up. No topic can be called like that.
const REST: &str = "(other)";

/// How far a group is behind in a partition.
#[derive(Debug, PartialEq)]
struct Lag {
    group: String,
    topic: String,
    partition: String,
    committed: i64,
    records: i64,
    seconds: f64,
}

impl Lag {
    fn labels(&self) -> [(&'static str, &str); 3] {
        [("group", &self.group), ("topic", &self.topic), ("partition", &self.partition)]
    }
}

#[derive(Debug, Default)]
struct Lags {
    named: Vec<Lag>,
    /// Records of those without series of their own, and how many these are.
    left_out_records: i64,
    left_out: u64,
    /// Partitions without a replica here.
    unknown: u64,
}

/// How many groups there are in each state, and what they have committed.
#[derive(Default)]
struct Groups {
    states: BTreeMap<&'static str, u64>,
    members: u64,
    lags: Lags,
}

impl Groups {
    fn of(broker: &Broker, series_max: usize) -> Self {
        let mut groups = Self::default();
        broker.groups.visit(|group_id, group| {
            *groups.states.entry(group.state).or_default() += 1;
            groups.members += group.member_count as u64;
            for (topic, committed) in group.offsets.topics() {
                for (partition, committed) in committed {
                    let replica = broker.partitions.find_by_name(topic, partition).ok();
                    let end = replica.map(|replica| replica.high_watermark());
                    groups.lags.record((group_id, topic, partition), committed.offset, end, series_max);
                }
            }
        });
        groups
    }
}

impl Lags {
    /// Records the committed offset of a group in a partition, and the end of that partition if it is here.
    fn record(&mut self, of: (&str, &str, i32), committed: i64, end: Option<i64>, series_max: usize) {
        let (group, topic, index) = of;
        let Some(end) = end else {
            self.unknown += 1;
            return;
        };
        let records = (end - committed).max(0);
        if self.named.len() >= series_max || group.len() > GROUP_ID_BYTES_MAX {
            self.left_out += 1;
            self.left_out_records += records;
            return;
        }
        let (group, topic, partition) = (group.to_owned(), topic.to_owned(), index.to_string());
        self.named.push(Lag { group, topic, partition, committed, records, seconds: 0.0 });
    }

    /// Looks when the first record that was not read was appended. It reads from the disk, so no lock is held here.
    fn find_seconds(&mut self, table: &PartitionTable, now_ms: i64) {
        for lag in self.named.iter_mut().filter(|lag| lag.records > 0) {
            let index = lag.partition.parse().unwrap_or(-1);
            if let Ok(partition) = table.find_by_name(&lag.topic, index) {
                lag.seconds = seconds_behind(&partition, lag.committed, now_ms);
            }
        }
    }

    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let rest = ([("group", REST), ("topic", REST), ("partition", "")], self.left_out_records);
        let rest = (self.left_out > 0).then_some(rest);
        page.gauges(
            "parshall_group_lag_records",
            "Records that a group has not committed yet",
            self.named.iter().map(|lag| (lag.labels(), lag.records)).chain(rest),
        )?;
        page.gauges(
            "parshall_group_lag_seconds",
            "Age of the first record that a group has not committed yet; 0 if there is none",
            self.named.iter().map(|lag| (lag.labels(), lag.seconds)),
        )?;
        page.gauges(
            "parshall_group_committed_offset",
            "The offset that a group goes on at",
            self.named.iter().map(|lag| (lag.labels(), lag.committed)),
        )?;
        page.gauge("parshall_group_lags_left_out", "Partitions of groups without series of their own", self.left_out)?;
        page.gauge(
            "parshall_group_lags_unknown",
            "Partitions of groups without a replica on the node that coordinates them: their lag is not known here",
            self.unknown,
        )
    }
}

/// The age of the first record from an offset on, by the time that its batch says.
fn seconds_behind(partition: &Partition, committed: i64, now_ms: i64) -> f64 {
    // What was deleted before it was read is not waited for.
    let offset = committed.max(partition.log_start_offset());
    let mut batches = partition.view().headers(offset, partition.high_watermark());
    let Some(Ok(batch)) = batches.find(Result::is_ok) else { return 0.0 };
    let appended_ms = if batch.attributes.is_log_append_time() { batch.max_timestamp } else { batch.base_timestamp };
    if appended_ms < 0 {
        return 0.0;
    }
    (now_ms - appended_ms).max(0) as f64 / 1000.0
}

pub(super) fn write(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let mut groups = Groups::of(broker, SERIES_MAX);
    groups.lags.find_seconds(&broker.partitions, broker.env.clock.now_ms());
    let states = groups.states.iter().map(|(state, count)| ([("state", *state)], *count));
    page.gauges("parshall_groups", "Groups that this node coordinates, by their state", states)?;
    page.gauge("parshall_group_members", "Members of the groups that this node coordinates", groups.members)?;
    let rebalances = RebalanceCause::ALL.map(|cause| ([("cause", cause.name())], broker.groups.rebalances(cause)));
    page.counters("parshall_group_rebalances", "Rebalances that have begun, by what made them necessary", rebalances)?;
    groups.lags.write(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_beyond_the_bound_are_summed_up() {
        let mut lags = Lags::default();
        for (partition, (committed, end)) in
            [(3, Some(10)), (10, Some(10)), (0, None), (1, Some(6)), (2, Some(9))].into_iter().enumerate()
        {
            lags.record(("g", "t", partition as i32), committed, end, 2);
        }
        lags.record((&"long".repeat(64), "t", 0), 0, Some(100), 10);
        let named: Vec<_> = lags.named.iter().map(|lag| (lag.partition.as_str(), lag.records)).collect();
        assert_eq!(named, [("0", 7), ("1", 0)]);
        assert_eq!((lags.left_out, lags.left_out_records, lags.unknown), (3, 112, 1));
    }

    #[test]
    fn a_group_that_is_ahead_does_not_lag() {
        let mut lags = Lags::default();
        lags.record(("g", "t", 0), 12, Some(10), 1);
        assert_eq!(lags.named[0].records, 0);
    }
}
