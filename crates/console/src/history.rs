//! How a cluster got where it is: offsets, lags and counters of the last minutes, and the rates in them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::TopicPartition;
use serde::Serialize;

use crate::figures::Counters;
use crate::snapshot::{Ends, Snapshot};

/// With one look every two seconds, five minutes; an hour and more while nobody looks.
const POINTS_MAX: usize = 150;
/// Beyond them partitions and groups have no history: it has to stay small.
const PARTITIONS_MAX: usize = 20_000;
const GROUPS_MAX: usize = 2_000;
/// Rates are means over at least this time, so that a single look at an odd moment does not show.
const RATE_WINDOW: Duration = Duration::from_secs(8);

#[derive(Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
}

struct Point {
    at: Instant,
    at_ms: i64,
    ends: Ends,
    /// By group: lag in records, and the sum of what is committed.
    groups: HashMap<Arc<str>, (i64, i64)>,
    nodes: BTreeMap<i32, Counters>,
}

/// A chart's data, as the pages' script reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub unit: &'static str,
    /// In seconds since 1970.
    pub times: Vec<f64>,
    pub series: Vec<Series>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Series {
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// Of a node, per second of the last moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeRates {
    /// Of one processor.
    pub cpu: f64,
    pub network_received_bytes: f64,
    pub network_sent_bytes: f64,
    pub received_records: f64,
    pub received_bytes: f64,
    pub sent_bytes: f64,
}

impl History {
    pub(crate) fn note(&mut self, snapshot: &Snapshot) {
        let mut left = PARTITIONS_MAX;
        let mut ends = Ends::default();
        for (name, topic) in &snapshot.topics {
            if topic.partitions.len() > left {
                break;
            }
            left -= topic.partitions.len();
            let of_topic = topic.partitions.iter().map(|partition| partition.end.unwrap_or(-1)).collect();
            // The name is shared with the point before.
            let known = self.points.back().and_then(|point| point.ends.get_key_value(name.as_str()));
            ends.insert(known.map_or_else(|| Arc::from(name.as_str()), |(known, _)| Arc::clone(known)), of_topic);
        }
        let groups = snapshot.groups.iter().take(GROUPS_MAX).map(|(id, group)| {
            let committed = group.positions.values().filter_map(|position| position.committed).sum();
            (Arc::from(id.as_str()), (group.lag_records().unwrap_or(0), committed))
        });
        let nodes = snapshot.brokers.iter().filter_map(|(id, broker)| Some((*id, broker.figures.as_ref()?.counters)));
        let (at, at_ms) = (snapshot.at, snapshot.at_ms);
        let point = Point { at, at_ms, ends, groups: groups.collect(), nodes: nodes.collect() };
        self.points.push_back(point);
        while self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
    }

    /// The newest point, and one that is old enough for a rate.
    fn window(&self) -> Option<(&Point, &Point)> {
        let newest = self.points.back()?;
        let older = self.points.iter().rev().skip(1);
        let old_enough = older.clone().find(|point| newest.at.duration_since(point.at) >= RATE_WINDOW);
        Some((old_enough.or_else(|| older.last())?, newest))
    }

    /// Records that come into a topic, per second.
    pub(crate) fn topic_rate(&self, topic: &str) -> Option<f64> {
        let (before, now) = self.window()?;
        records_between(before, now, topic)
    }

    /// Records that come into all topics, per second.
    pub(crate) fn total_rate(&self) -> Option<f64> {
        let (before, now) = self.window()?;
        Some(total_between(before, now))
    }

    /// Records that a group commits, per second.
    pub(crate) fn group_rate(&self, group: &str) -> Option<f64> {
        let (before, now) = self.window()?;
        let (of_before, of_now) = (before.groups.get(group)?.1, now.groups.get(group)?.1);
        Some((of_now - of_before).max(0) as f64 / seconds(before, now))
    }

    /// Until a group has caught up if it goes on as it does now: `None` if it does not come nearer.
    pub(crate) fn group_catches_up_seconds(&self, group: &str) -> Option<f64> {
        let (before, now) = self.window()?;
        let (of_before, of_now) = (before.groups.get(group)?.0, now.groups.get(group)?.0);
        let nearer = (of_before - of_now) as f64 / seconds(before, now);
        (nearer > 0.0).then(|| of_now as f64 / nearer)
    }

    /// How long ago a partition ended at an offset, as far as that was seen.
    pub(crate) fn age_seconds(&self, of: &TopicPartition, offset: i64) -> Option<f64> {
        let index = usize::try_from(of.partition).ok()?;
        let end = |point: &Point| Some(*point.ends.get(of.topic.as_str())?.get(index)?);
        let newest = self.points.back()?;
        let passed = self.points.iter().find(|point| end(point).is_some_and(|end| end > offset))?;
        // It was passed before the first look: it is older than that.
        (end(self.points.front()?)? <= offset).then(|| newest.at.duration_since(passed.at).as_secs_f64())
    }

    pub(crate) fn node_rates(&self, node: i32) -> Option<NodeRates> {
        let (before, now) = self.window()?;
        node_rates(before, now, node)
    }

    /// Records per second that came in, by what `of` picks.
    fn chart(&self, unit: &'static str, series: &[(String, &dyn Fn(&Point, &Point) -> Option<f64>)]) -> Chart {
        let pairs: Vec<_> = self.points.iter().zip(self.points.iter().skip(1)).collect();
        let series = series.iter().map(|(name, value)| Series {
            name: name.clone(),
            values: pairs.iter().map(|(before, now)| value(before, now)).collect(),
        });
        let times = pairs.iter().map(|(_, now)| now.at_ms as f64 / 1000.0).collect();
        Chart { unit, times, series: series.collect() }
    }

    pub(crate) fn records_chart(&self) -> Chart {
        self.chart("/s", &[("records in".to_owned(), &|before, now| Some(total_between(before, now)))])
    }

    pub(crate) fn bytes_chart(&self) -> Chart {
        let sum = |of: fn(&NodeRates) -> f64| {
            move |before: &Point, now: &Point| {
                let rates = now.nodes.keys().filter_map(|node| node_rates(before, now, *node));
                rates.map(|rates| of(&rates)).reduce(|sum, rate| sum + rate)
            }
        };
        let (received, sent) = (sum(|rates| rates.received_bytes), sum(|rates| rates.sent_bytes));
        self.chart("B/s", &[("from producers".to_owned(), &received), ("to consumers".to_owned(), &sent)])
    }

    pub(crate) fn cpu_chart(&self) -> Chart {
        let nodes: Vec<_> = self.points.back().into_iter().flat_map(|point| point.nodes.keys().copied()).collect();
        let of_node =
            |node: i32| move |before: &Point, now: &Point| node_rates(before, now, node).map(|rates| rates.cpu * 100.0);
        let values: Vec<_> = nodes.iter().map(|node| of_node(*node)).collect();
        let series = nodes.iter().zip(&values);
        let series: Vec<_> = series.map(|(node, value)| (format!("broker {node}"), value as _)).collect();
        self.chart("%", &series)
    }

    pub(crate) fn topic_chart(&self, topic: &str) -> Chart {
        self.chart("/s", &[("records in".to_owned(), &|before, now| records_between(before, now, topic))])
    }

    pub(crate) fn lag_chart(&self, group: &str) -> Chart {
        let lag = |_: &Point, now: &Point| Some(now.groups.get(group)?.0 as f64);
        self.chart("", &[("records behind".to_owned(), &lag)])
    }
}

fn seconds(before: &Point, now: &Point) -> f64 {
    now.at.duration_since(before.at).as_secs_f64().max(0.001)
}

fn records_between(before: &Point, now: &Point, topic: &str) -> Option<f64> {
    Some(grown(before, topic, now.ends.get(topic)?) as f64 / seconds(before, now))
}

fn total_between(before: &Point, now: &Point) -> f64 {
    now.ends.iter().map(|(topic, ends)| grown(before, topic, ends)).sum::<i64>() as f64 / seconds(before, now)
}

/// Records that came into a topic since. One that is new has begun at 0, and so has one that was made anew; an end of
/// -1 was not known.
fn grown(before: &Point, topic: &str, ends: &[i64]) -> i64 {
    let of_before = before.ends.get(topic).map_or(&[][..], |ends| ends);
    let pairs = ends.iter().enumerate().map(|(at, end)| (of_before.get(at).copied().unwrap_or(0), *end));
    pairs.filter(|(before, now)| *before >= 0 && *now >= 0).map(|(before, now)| (now - before).max(0)).sum()
}

fn node_rates(before: &Point, now: &Point, node: i32) -> Option<NodeRates> {
    let (of_before, of_now) = (before.nodes.get(&node)?, now.nodes.get(&node)?);
    // Its counters began anew with it.
    if of_now.uptime_seconds < of_before.uptime_seconds {
        return None;
    }
    let seconds = seconds(before, now);
    let rate = |of: fn(&Counters) -> f64| (of(of_now) - of(of_before)).max(0.0) / seconds;
    Some(NodeRates {
        cpu: rate(|of| of.cpu_seconds),
        network_received_bytes: rate(|of| of.network_received_bytes),
        network_sent_bytes: rate(|of| of.network_sent_bytes),
        received_records: rate(|of| of.received_records),
        received_bytes: rate(|of| of.received_bytes),
        sent_bytes: rate(|of| of.sent_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Group, Partition, Position, Topic};

    fn snapshot(began: Instant, second: u64, ends: &[(&str, &[i64])], committed: i64) -> Snapshot {
        let partition = |end: &i64| Partition { end: Some(*end), ..Partition::default() };
        let topic = |ends: &[i64]| Topic { partitions: ends.iter().map(partition).collect(), ..Topic::default() };
        let end = ends[0].1[0];
        let lag_records = Some(end - committed);
        let position = Position { committed: Some(committed), end: Some(end), lag_records, lag_seconds: None };
        let group = Group { positions: [(TopicPartition::new(ends[0].0, 0), position)].into(), ..Group::default() };
        Snapshot {
            at: began + Duration::from_secs(second),
            at_ms: second as i64 * 1000,
            cluster_id: None,
            controller_id: 1,
            brokers: BTreeMap::new(),
            topics: ends.iter().map(|(name, ends)| ((*name).to_owned(), topic(ends))).collect(),
            groups: [("g".to_owned(), group)].into(),
            quorum: None,
            rebalances: Vec::new(),
            gaps: Vec::new(),
        }
    }

    #[test]
    fn rates_are_means_over_the_last_moments() {
        let (mut history, began) = (History::default(), Instant::now());
        history.note(&snapshot(began, 0, &[("a", &[0, 100])], 0));
        assert_eq!(history.topic_rate("a"), None);
        history.note(&snapshot(began, 10, &[("a", &[500, 100])], 100));
        history.note(&snapshot(began, 20, &[("a", &[600, 200]), ("b", &[50])], 200));
        assert_eq!((history.topic_rate("a"), history.topic_rate("c")), (Some(20.0), None));
        // A topic that is new counts from 0.
        assert_eq!((history.topic_rate("b"), history.total_rate()), (Some(5.0), Some(25.0)));
        assert_eq!(history.group_rate("g"), Some(10.0));
        assert_eq!(history.topic_chart("a").series[0].values, [Some(50.0), Some(20.0)]);
        // Made anew, it does not count backwards.
        history.note(&snapshot(began, 30, &[("a", &[10, 10])], 0));
        assert_eq!(history.topic_rate("a"), Some(0.0));
    }

    #[test]
    fn a_group_catches_up_or_does_not() {
        let (mut history, began) = (History::default(), Instant::now());
        history.note(&snapshot(began, 0, &[("a", &[1000])], 0));
        history.note(&snapshot(began, 10, &[("a", &[1100])], 600));
        assert_eq!(history.group_catches_up_seconds("g"), Some(10.0));
        history.note(&snapshot(began, 20, &[("a", &[1700])], 600));
        assert_eq!(history.group_catches_up_seconds("g"), None);
    }

    #[test]
    fn an_offset_is_as_old_as_the_look_that_first_saw_it_passed() {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, end) in [(0, 10), (10, 20), (20, 30)] {
            history.note(&snapshot(began, second, &[("a", &[end])], 0));
        }
        let age = |offset| history.age_seconds(&TopicPartition::new("a", 0), offset);
        assert_eq!([age(25), age(15), age(5), age(30)], [Some(0.0), Some(10.0), None, None]);
    }
}
