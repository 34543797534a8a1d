//! How a cluster got where it is: offsets, lags and counters of the last minutes, and the rates in them.

mod broker_charts;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use client::TopicPartition;
use serde::Serialize;

use crate::node_metrics::Counters;
use crate::snapshot::{Age, Broker, Ends, Snapshot};

/// With one look every two seconds, five minutes; an hour and more while nobody looks.
const POINTS_MAX: usize = 150;
/// Beyond them partitions and groups have no history: it has to stay small.
const PARTITIONS_MAX: usize = 20_000;
const GROUPS_MAX: usize = 2_000;
/// Rates are means over at least this time, so that a single look at an odd moment does not show.
const RATE_WINDOW: Duration = Duration::from_secs(8);
/// That a group falls behind is said of what was seen over this time, and over most of it at least.
const GROWTH_WINDOW: Duration = Duration::from_secs(4 * 60);
const GROWTH_WINDOW_MIN: Duration = Duration::from_secs(3 * 60);

#[derive(Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
    /// All that ever told of themselves, in the order of their first time: so that each keeps its colour.
    nodes: Vec<i32>,
}

struct Point {
    at: Instant,
    at_ms: i64,
    ends: Ends,
    groups: HashMap<Arc<str>, GroupPoint>,
    nodes: BTreeMap<i32, NodePoint>,
    /// By partition that moves: bytes that its new replicas have.
    copied: HashMap<TopicPartition, i64>,
}

#[derive(Clone, Copy)]
struct NodePoint {
    /// What the node itself tells, and what it told before that.
    counters: Option<Counters>,
    counters_before: Option<Counters>,
    memory_bytes: Option<f64>,
    /// What the cluster tells of it.
    under_replicated: usize,
    log_size_bytes: Option<i64>,
}

#[derive(Clone, Copy)]
struct GroupPoint {
    lag_records: i64,
    lag_age: Option<Age>,
    /// The sum over its partitions.
    committed: i64,
}

/// How a group has fallen behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    pub seconds: f64,
    pub from_records: i64,
    pub to_records: i64,
    /// Whether it has committed something meanwhile.
    pub has_committed: bool,
}

/// What a chart shows of two points that follow one another.
type Value<'a> = &'a dyn Fn(&Point, &Point) -> Option<f64>;

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
    /// Which of the charts' colours.
    pub color: usize,
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
    pub requests: Option<f64>,
}

impl NodePoint {
    /// `last` is the node at the point before.
    fn of(broker: &Broker, last: Option<&Self>) -> Self {
        let figures = broker.figures.as_ref();
        let counters = figures.map(|figures| figures.counters);
        let told_last = last.and_then(|last| last.counters);
        // One that is slow to tell is seen several times as it was.
        let is_same = counters.zip(told_last).is_some_and(|(now, last)| now.is_same_moment(&last));
        Self {
            counters,
            counters_before: if is_same { last.and_then(|last| last.counters_before) } else { told_last },
            memory_bytes: figures.and_then(|figures| figures.memory_bytes),
            under_replicated: broker.under_replicated,
            log_size_bytes: (!broker.dirs.is_empty()).then_some(broker.size_bytes),
        }
    }

    /// Since it told something else.
    fn rates(&self) -> Option<NodeRates> {
        rates(&self.counters_before?, &self.counters?)
    }
}

impl History {
    /// Remembers what a snapshot shows, and fills in what only the time before it tells.
    pub(crate) fn note(&mut self, snapshot: &mut Snapshot) {
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
        let last = |id| self.points.back().and_then(|point| point.nodes.get(id));
        let nodes = snapshot.brokers.iter().map(|(id, broker)| (*id, NodePoint::of(broker, last(id))));
        let nodes: BTreeMap<_, _> = nodes.collect();
        let telling = nodes.iter().filter(|(_, node)| node.counters.is_some()).map(|(id, _)| *id);
        self.nodes.extend(telling.filter(|node| !self.nodes.contains(node)).collect::<Vec<_>>());
        let (at, at_ms) = (snapshot.at, snapshot.at_ms);
        let copied = snapshot.reassignments.iter().take(PARTITIONS_MAX);
        let copied = copied.map(|(of, reassignment)| (of.clone(), snapshot.copied_bytes(of, reassignment)));
        let point = Point { at, at_ms, ends, groups: HashMap::new(), nodes, copied: copied.collect() };
        self.points.push_back(point);
        while self.points.len() > POINTS_MAX {
            self.points.pop_front();
        }
        self.fill_in_ages(snapshot);
        let groups = snapshot.groups.iter().take(GROUPS_MAX).map(|(id, group)| {
            let lag_records = group.lag_records().unwrap_or(0);
            let committed = group.positions.values().filter_map(|position| position.committed).sum();
            (Arc::from(id.as_str()), GroupPoint { lag_records, lag_age: group.lag_age(), committed })
        });
        if let Some(point) = self.points.back_mut() {
            point.groups = groups.collect();
        }
    }

    /// Where the cluster does not tell how old the first record is that a group has not read.
    fn fill_in_ages(&self, snapshot: &mut Snapshot) {
        for (of, position) in snapshot.groups.values_mut().flat_map(|group| &mut group.positions) {
            if position.lag_age.is_some() {
                continue;
            }
            position.lag_age = match position.lag_records {
                Some(0) => Some(Age::exactly(0.0)),
                // What was deleted before it was read is not waited for.
                Some(lag) => position.end.and_then(|end| self.age(of, end - lag)),
                None => None,
            };
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
        let (of_before, of_now) = (before.groups.get(group)?.committed, now.groups.get(group)?.committed);
        Some((of_now - of_before).max(0) as f64 / seconds(before, now))
    }

    /// Until a group has caught up if it goes on as it does now: `None` if it does not come nearer.
    pub(crate) fn group_catches_up_seconds(&self, group: &str) -> Option<f64> {
        let (before, now) = self.window()?;
        let (of_before, of_now) = (before.groups.get(group)?.lag_records, now.groups.get(group)?.lag_records);
        let nearer = (of_before - of_now) as f64 / seconds(before, now);
        (nearer > 0.0).then(|| of_now as f64 / nearer)
    }

    /// How a group has fallen behind for minutes, if it has. Between two commits every lag grows, so what counts is the
    /// least of each quarter of the time: it has to be more than in the one before.
    pub(crate) fn falls_behind(&self, group: &str) -> Option<Growth> {
        let newest = self.points.back()?;
        let recent = self.points.iter().filter(|point| newest.at.duration_since(point.at) <= GROWTH_WINDOW);
        let seen: Vec<_> = recent.filter_map(|point| Some((point.at, point.groups.get(group)?))).collect();
        let ((began, first), (ended, last)) = (seen.first()?, seen.last()?);
        let span = ended.duration_since(*began);
        if span < GROWTH_WINDOW_MIN {
            return None;
        }
        let mut least = [i64::MAX; 4];
        for (at, of_group) in &seen {
            let part = at.duration_since(*began).as_secs_f64() / span.as_secs_f64();
            let of_quarter = &mut least[((part * 4.0) as usize).min(3)];
            *of_quarter = of_group.lag_records.min(*of_quarter);
        }
        let has_grown = least[3] < i64::MAX && least.is_sorted_by(|before, now| before < now);
        has_grown.then_some(Growth {
            seconds: span.as_secs_f64(),
            from_records: first.lag_records,
            to_records: last.lag_records,
            has_committed: last.committed != first.committed,
        })
    }

    /// How long ago a partition ended at an offset. `None` where it still does, or is not known.
    pub(crate) fn age(&self, of: &TopicPartition, offset: i64) -> Option<Age> {
        let index = usize::try_from(of.partition).ok()?;
        let end = |point: &Point| point.ends.get(of.topic.as_str())?.get(index).copied();
        let (oldest, newest) = (self.points.front()?, self.points.back()?);
        if end(newest)? <= offset {
            return None;
        }
        // An end that was not known is between the others.
        let is_passed = |point: &&Point| end(point).is_some_and(|end| end > offset || end < 0);
        let passed = match is_passed(&oldest) {
            true => oldest,
            false => self.points.iter().rev().take_while(is_passed).last()?,
        };
        Some(Age { seconds: newest.at.duration_since(passed.at).as_secs_f64(), is_more: is_passed(&oldest) })
    }

    /// Where a partition ended when that was last seen.
    pub(crate) fn last_end(&self, of: &TopicPartition) -> Option<i64> {
        let index = usize::try_from(of.partition).ok()?;
        let ends = self.points.iter().rev().filter_map(|point| point.ends.get(of.topic.as_str())?.get(index));
        ends.copied().find(|end| *end >= 0)
    }

    /// Bytes per second that come to the new replicas of a partition that moves.
    pub(crate) fn copy_rate(&self, of: &TopicPartition) -> Option<f64> {
        let (before, now) = self.window()?;
        Some((now.copied.get(of)? - before.copied.get(of)?).max(0) as f64 / seconds(before, now))
    }

    /// Bytes per second that come to the new replicas of all partitions that move.
    pub(crate) fn total_copy_rate(&self) -> Option<f64> {
        let (before, now) = self.window()?;
        let grown = now.copied.iter().filter_map(|(of, bytes)| Some((bytes - before.copied.get(of)?).max(0)));
        grown.reduce(|sum, bytes| sum + bytes).map(|sum| sum as f64 / seconds(before, now))
    }

    pub(crate) fn node_rates(&self, node: i32) -> Option<NodeRates> {
        let (before, now) = self.window()?;
        node_rates(before, now, node)
    }

    /// Records per second that came in, by what `of` picks.
    fn chart(&self, unit: &'static str, series: &[(String, Value<'_>)]) -> Chart {
        let pairs: Vec<_> = self.points.iter().zip(self.points.iter().skip(1)).collect();
        let series = series.iter().enumerate().map(|(color, (name, value))| Series {
            name: name.clone(),
            color,
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
        // Also those that are gone: their past is not.
        let telling = |point: &'_ Point| {
            let nodes = point.nodes.iter().filter(|(_, node)| node.counters.is_some());
            nodes.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let nodes: BTreeSet<_> = self.points.iter().flat_map(telling).collect();
        let of_node =
            |node: i32| move |before: &Point, now: &Point| node_rates(before, now, node).map(|rates| rates.cpu * 100.0);
        let values: Vec<_> = nodes.iter().map(|node| of_node(*node)).collect();
        let series = nodes.iter().zip(&values);
        let series: Vec<_> = series.map(|(node, value)| (format!("broker {node}"), value as _)).collect();
        let mut chart = self.chart("%", &series);
        for (series, node) in chart.series.iter_mut().zip(&nodes) {
            series.color = self.nodes.iter().position(|known| known == node).unwrap_or(0);
        }
        chart
    }

    pub(crate) fn topic_chart(&self, topic: &str) -> Chart {
        self.chart("/s", &[("records in".to_owned(), &|before, now| records_between(before, now, topic))])
    }

    pub(crate) fn lag_chart(&self, group: &str) -> Chart {
        let lag = |_: &Point, now: &Point| Some(now.groups.get(group)?.lag_records as f64);
        self.chart("", &[("records behind".to_owned(), &lag)])
    }

    /// How far a group is behind in time. What is only known to be more is left out.
    pub(crate) fn lag_seconds_chart(&self, group: &str) -> Chart {
        let lag = |_: &Point, now: &Point| {
            let age = now.groups.get(group)?.lag_age.filter(|age| !age.is_more);
            age.map(|age| age.seconds)
        };
        self.chart("s", &[("time behind".to_owned(), &lag)])
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
    rates(&of_before.counters?, &of_now.counters?).or_else(|| of_now.rates())
}

/// By the time of the node itself: it may have told this some time before it was looked at.
fn rates(before: &Counters, now: &Counters) -> Option<NodeRates> {
    // Its counters began anew with it, or it has told nothing new.
    if now.uptime_seconds < before.uptime_seconds || now.is_same_moment(before) {
        return None;
    }
    let seconds = (now.uptime_seconds - before.uptime_seconds).max(0.001);
    let rate = |of: fn(&Counters) -> f64| (of(now) - of(before)).max(0.0) / seconds;
    let requests = now.requests.zip(before.requests);
    Some(NodeRates {
        cpu: rate(|of| of.cpu_seconds),
        network_received_bytes: rate(|of| of.network_received_bytes),
        network_sent_bytes: rate(|of| of.network_sent_bytes),
        received_records: rate(|of| of.received_records),
        received_bytes: rate(|of| of.received_bytes),
        sent_bytes: rate(|of| of.sent_bytes),
        requests: requests.map(|(now, before)| (now - before).max(0.0) / seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_metrics::Figures;
    use crate::snapshot::{Group, Partition, Position, Topic};

    fn snapshot(began: Instant, second: u64, ends: &[(&str, &[i64])], committed: i64) -> Snapshot {
        let partition = |end: &i64| Partition { end: Some(*end), ..Partition::default() };
        let topic = |ends: &[i64]| Topic { partitions: ends.iter().map(partition).collect(), ..Topic::default() };
        let end = ends[0].1[0];
        let lag_records = Some(end - committed);
        let position = Position { committed: Some(committed), end: Some(end), lag_records, lag_age: None };
        let group = Group { positions: [(TopicPartition::new(ends[0].0, 0), position)].into(), ..Group::default() };
        Snapshot {
            at: began + Duration::from_secs(second),
            at_ms: second as i64 * 1000,
            topics: ends.iter().map(|(name, ends)| ((*name).to_owned(), topic(ends))).collect(),
            groups: [("g".to_owned(), group)].into(),
            ..Snapshot::empty()
        }
    }

    #[test]
    fn rates_are_means_over_the_last_moments() {
        let (mut history, began) = (History::default(), Instant::now());
        history.note(&mut snapshot(began, 0, &[("a", &[0, 100])], 0));
        assert_eq!(history.topic_rate("a"), None);
        history.note(&mut snapshot(began, 10, &[("a", &[500, 100])], 100));
        history.note(&mut snapshot(began, 20, &[("a", &[600, 200]), ("b", &[50])], 200));
        assert_eq!((history.topic_rate("a"), history.topic_rate("c")), (Some(20.0), None));
        // A topic that is new counts from 0.
        assert_eq!((history.topic_rate("b"), history.total_rate()), (Some(5.0), Some(25.0)));
        assert_eq!(history.group_rate("g"), Some(10.0));
        assert_eq!(history.topic_chart("a").series[0].values, [Some(50.0), Some(20.0)]);
        // Made anew, it does not count backwards.
        history.note(&mut snapshot(began, 30, &[("a", &[10, 10])], 0));
        assert_eq!(history.topic_rate("a"), Some(0.0));
    }

    #[test]
    fn a_group_catches_up_or_does_not() {
        let (mut history, began) = (History::default(), Instant::now());
        history.note(&mut snapshot(began, 0, &[("a", &[1000])], 0));
        history.note(&mut snapshot(began, 10, &[("a", &[1100])], 600));
        assert_eq!(history.group_catches_up_seconds("g"), Some(10.0));
        history.note(&mut snapshot(began, 20, &[("a", &[1700])], 600));
        assert_eq!(history.group_catches_up_seconds("g"), None);
    }

    #[test]
    fn copies_have_a_rate_and_lost_ends_are_remembered() {
        let (mut history, began) = (History::default(), Instant::now());
        let of = TopicPartition::new("a", 0);
        for (second, bytes) in [(0, 1000), (10, 6000)] {
            let mut snapshot = snapshot(began, second, &[("a", &[7])], 0);
            let reassignment = client::Reassignment { adding: vec![2, 3], ..Default::default() };
            snapshot.reassignments.insert(of.clone(), reassignment);
            let partition = &mut snapshot.topics.get_mut("a").unwrap().partitions[0];
            let replica = client::LogDirReplica { size_bytes: bytes, offset_lag: 0, is_future: false };
            partition.sizes = [(1, replica), (2, replica)].into();
            history.note(&mut snapshot);
        }
        assert_eq!((history.copy_rate(&of), history.total_copy_rate()), (Some(500.0), Some(500.0)));
        assert_eq!(history.copy_rate(&TopicPartition::new("a", 1)), None);
        history.note(&mut snapshot(began, 20, &[("a", &[-1])], 0));
        assert_eq!((history.last_end(&of), history.total_copy_rate()), (Some(7), None));
    }

    #[test]
    fn a_broker_that_is_gone_keeps_its_line_and_the_others_their_colors() {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, nodes) in [(0, &[1, 2][..]), (10, &[1, 2]), (20, &[2]), (30, &[2])] {
            let mut snapshot = snapshot(began, second, &[("a", &[0])], 0);
            for id in nodes {
                let page = format!(
                    "parshall_uptime_seconds {second}\nparshall_build{{version=\"1\"}} 1\n\
                     process_cpu_seconds_total {second}\n# EOF\n"
                );
                let figures = Some(Figures::read(page).unwrap());
                snapshot.brokers.insert(*id, Broker { id: *id, figures, ..Broker::default() });
            }
            history.note(&mut snapshot);
        }
        let lines = history.cpu_chart().series.into_iter().map(|line| (line.name, line.color, line.values));
        let (full, gone) = (vec![Some(100.0); 3], vec![Some(100.0), None, None]);
        let expected = [("broker 1".to_owned(), 0, gone), ("broker 2".to_owned(), 1, full)];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_offset_is_as_old_as_the_look_that_first_saw_it_passed() {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, end) in [(0, 10), (10, 20), (20, 30)] {
            history.note(&mut snapshot(began, second, &[("a", &[end])], 0));
        }
        let age = |offset| history.age(&TopicPartition::new("a", 0), offset);
        assert_eq!([age(25), age(15)], [0.0, 10.0].map(|seconds| Some(Age::exactly(seconds))));
        // It was passed before the first look.
        assert_eq!(age(5), Some(Age { seconds: 20.0, is_more: true }));
        assert_eq!(age(30), None);
        assert_eq!(history.age(&TopicPartition::new("a", 1), 0), None);
        assert_eq!([age(25), age(5)].map(|age| age.unwrap().to_string()), ["0 s", "more than 20 s"]);
    }

    #[test]
    fn ends_that_were_not_known_make_nothing_younger() {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, end) in [(0, Some(10)), (10, Some(20)), (20, None), (30, Some(30))] {
            let mut snapshot = snapshot(began, second, &[("a", &[0])], 0);
            snapshot.topics.get_mut("a").unwrap().partitions[0].end = end;
            history.note(&mut snapshot);
        }
        assert_eq!(history.age(&TopicPartition::new("a", 0), 15), Some(Age::exactly(20.0)));
    }

    #[test]
    fn the_age_of_a_lag_is_filled_in_where_the_cluster_does_not_tell_it() {
        let (mut history, began) = (History::default(), Instant::now());
        let mut first = snapshot(began, 0, &[("a", &[10])], 10);
        history.note(&mut first);
        assert_eq!(first.groups["g"].lag_age(), Some(Age::exactly(0.0)));
        let mut now = snapshot(began, 10, &[("a", &[20])], 10);
        history.note(&mut now);
        assert_eq!(now.groups["g"].lag_age(), Some(Age::exactly(0.0)));
        let mut later = snapshot(began, 20, &[("a", &[30])], 10);
        history.note(&mut later);
        assert_eq!(later.groups["g"].lag_age(), Some(Age::exactly(10.0)));
        assert_eq!(history.lag_seconds_chart("g").series[0].values, [Some(0.0), Some(10.0)]);
        // What it tells stays.
        let mut told = snapshot(began, 30, &[("a", &[40])], 10);
        told.groups.get_mut("g").unwrap().positions.values_mut().for_each(|at| at.lag_age = Some(Age::exactly(99.0)));
        history.note(&mut told);
        assert_eq!(told.groups["g"].lag_age(), Some(Age::exactly(99.0)));
    }

    /// Of a look every ten seconds, with these lags.
    fn growth(lags: impl Iterator<Item = i64>) -> Option<Growth> {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, lag) in (0..).step_by(10).zip(lags) {
            history.note(&mut snapshot(
                began,
                second,
                &[("a", &[10_000 + second as i64])],
                10_000 + second as i64 - lag,
            ));
        }
        history.falls_behind("g")
    }

    #[test]
    fn a_group_falls_behind_when_its_lag_grew_for_minutes() {
        let growing = growth((0..25).map(|at| 100 + at * 20)).unwrap();
        let expected = Growth { seconds: 240.0, from_records: 100, to_records: 580, has_committed: true };
        assert_eq!(growing, expected);
        // Too little was seen.
        assert_eq!(growth((0..15).map(|at| 100 + at * 20)), None);
        // Up and down, as between commits.
        assert_eq!(growth((0..25).map(|at| 100 + at % 3 * 50)), None);
        // It has caught up in between.
        assert_eq!(growth((0..25).map(|at| if at == 15 { 0 } else { 100 + at * 20 })), None);
        assert_eq!(growth((0..25).map(|_| 100)), None);
        // What is long ago does not count.
        assert!(growth((0..40).map(|at| if at < 10 { 5000 } else { at * 20 })).is_some());
    }
}
