//! What the conditions of the rules are true of, as Prometheus would find it in the metrics of the brokers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::rules::{Condition, RULES, Value};
use crate::snapshot::{Broker, Snapshot};

/// Counters are kept so often.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(15);
/// Groups and topics, and brokers, that a condition is said of. More would be no news.
const FOUND_MAX: usize = 1000;

/// Whom something is said of: names and values, in their order.
pub(crate) type Labels = Vec<(&'static str, String)>;
pub(crate) type Found = BTreeMap<Labels, f64>;

/// Of a histogram: how many were up to each bound. A counter has one.
type Buckets = Vec<(f64, f64)>;

/// The counters of the brokers, as far back as a rule looks.
#[derive(Default)]
pub(super) struct Counters {
    /// By broker and metric.
    series: HashMap<(i32, &'static str), VecDeque<(Instant, Buckets)>>,
}

impl Counters {
    /// Remembers what the rules will want to know.
    pub(super) fn note(&mut self, snapshot: &Snapshot) {
        let mut windows = HashMap::<&'static str, Duration>::new();
        for value in RULES.iter().flat_map(|rule| rule.condition.values()) {
            if let Value::Increase(metric, window) | Value::Quantile(_, metric, window) = value {
                let longest = windows.entry(metric).or_default();
                *longest = window.max(*longest);
            }
        }
        for broker in snapshot.brokers.values() {
            for metric in windows.keys() {
                let series = self.series.entry((broker.id, metric)).or_default();
                let is_due = series.back().is_none_or(|(at, _)| snapshot.at - *at >= SAMPLE_INTERVAL);
                if let (true, Some(buckets)) = (is_due, buckets(broker, metric)) {
                    series.push_back((snapshot.at, buckets));
                }
            }
        }
        self.series.retain(|(_, metric), series| {
            while series.front().is_some_and(|(at, _)| snapshot.at - *at > windows[metric]) {
                series.pop_front();
            }
            !series.is_empty()
        });
    }

    /// By how much each bucket has grown until now; `None` where there is nothing to compare with.
    fn increase(&self, broker: &Broker, metric: &'static str, window: Duration, now: Instant) -> Option<Buckets> {
        let latest = buckets(broker, metric)?;
        let series = self.series.get(&(broker.id, metric))?;
        let within = series.iter().filter(|(at, _)| now - *at <= window && *at < now);
        let seen: Vec<&Buckets> = within.map(|(_, buckets)| buckets).chain([&latest]).collect();
        if seen.len() < 2 {
            return None;
        }
        let grown = latest.iter().enumerate().map(|(index, (bound, _))| {
            let values = seen.iter().filter_map(|buckets| buckets.get(index)).map(|(_, value)| *value);
            let values: Vec<f64> = values.collect();
            // A counter that is less than before began anew.
            let steps = values.windows(2).map(|pair| if pair[1] < pair[0] { pair[1] } else { pair[1] - pair[0] });
            (*bound, steps.sum())
        });
        Some(grown.collect())
    }
}

fn buckets(broker: &Broker, metric: &str) -> Option<Buckets> {
    let page = &broker.own_figures()?.page;
    if let Some(value) = page.sum(metric) {
        return Some(vec![(f64::INFINITY, value)]);
    }
    let name = format!("{metric}_bucket");
    let buckets = page.labelled(&name, ["le"]);
    let mut buckets: Buckets = buckets.filter_map(|([bound], value)| Some((bound.parse().ok()?, value))).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    (!buckets.is_empty()).then_some(buckets)
}

/// As Prometheus' `histogram_quantile`: within a bucket the values are taken to be spread evenly.
fn quantile(quantile: f64, buckets: &Buckets) -> Option<f64> {
    let all = buckets.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let rank = quantile * all;
    let at = buckets.iter().position(|(_, count)| *count >= rank)?;
    let (bound, count) = buckets[at];
    let (lower, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    match bound.is_finite() {
        true => Some(lower + (bound - lower) * (rank - below) / (count - below)),
        false => Some(lower),
    }
}

pub(super) fn evaluate(condition: &Condition, snapshot: &Snapshot, counters: &Counters) -> Found {
    match condition {
        Condition::Is(value, comparison, threshold) => {
            let mut found = values(*value, snapshot, counters);
            found.retain(|_, value| comparison.is_so(*value, *threshold));
            found.into_iter().take(FOUND_MAX).collect()
        }
        Condition::Either(one, other) => {
            let mut found = evaluate(other, snapshot, counters);
            found.extend(evaluate(one, snapshot, counters));
            found
        }
        Condition::Unless(one, other) => {
            let excluded = evaluate(other, snapshot, counters);
            let mut found = evaluate(one, snapshot, counters);
            found.retain(|labels, _| !excluded.contains_key(labels));
            found
        }
    }
}

fn values(value: Value, snapshot: &Snapshot, counters: &Counters) -> Found {
    let brokers = snapshot.brokers.values();
    let pages = brokers.clone().filter_map(|broker| Some((broker, &broker.own_figures()?.page)));
    let of_all = |values: Option<f64>| values.map(|value| (Labels::new(), value)).into_iter().collect();
    let of_brokers = |value: &dyn Fn(&Broker) -> Option<f64>| {
        let values = brokers.clone().filter_map(|broker| Some((vec![("instance", instance(broker))], value(broker)?)));
        values.collect()
    };
    let gauge = |broker: &Broker, metric: &str| broker.own_figures()?.page.first(metric);
    match value {
        Value::Up => of_brokers(&|broker| Some(if broker.own_figures().is_some() { 1.0 } else { 0.0 })),
        Value::Gauge(metric) => of_brokers(&|broker| gauge(broker, metric)),
        Value::SumOfAll(metric) => of_all(pages.filter_map(|(_, page)| page.sum(metric)).reduce(|sum, of| sum + of)),
        Value::MaxOfAll(metric) => of_all(pages.filter_map(|(_, page)| page.max(metric)).reduce(f64::max)),
        Value::MaxOfGroups(metric) => {
            let mut found = Found::new();
            for ([group, topic], value) in pages.flat_map(|(_, page)| page.labelled(metric, ["group", "topic"])) {
                let greatest = found.entry(vec![("group", group), ("topic", topic)]).or_insert(value);
                *greatest = greatest.max(value);
            }
            found
        }
        Value::Increase(metric, window) => of_brokers(&|broker| {
            let grown = counters.increase(broker, metric, window, snapshot.at)?;
            grown.last().map(|(_, value)| *value)
        }),
        Value::Quantile(of, metric, window) => {
            of_brokers(&|broker| quantile(of, &counters.increase(broker, metric, window, snapshot.at)?))
        }
        Value::Ratio(part, whole) => of_brokers(&|broker| Some(gauge(broker, part)? / gauge(broker, whole)?)),
    }
}

fn instance(broker: &Broker) -> String {
    format!("broker {}", broker.id)
}

#[cfg(test)]
mod tests {
    use super::super::rules::Comparison;
    use super::*;
    use crate::node_metrics::Figures;

    /// What each broker's page has besides what makes it one.
    fn snapshot(at: Instant, pages: &[(i32, Option<&str>)]) -> Snapshot {
        let brokers = pages.iter().map(|(id, page)| {
            let text = |page| format!("parshall_build{{version=\"1\"}} 1\nparshall_uptime_seconds 1\n{page}\n");
            let figures = page.and_then(|page| Figures::read(text(page)));
            (*id, Broker { id: *id, figures, ..Broker::default() })
        });
        Snapshot { at, brokers: brokers.collect(), ..Snapshot::empty() }
    }

    fn found(condition: Condition, snapshot: &Snapshot, counters: &Counters) -> Vec<(String, f64)> {
        let names = |labels: Labels| labels.into_iter().map(|(_, value)| value).collect::<Vec<_>>().join("/");
        evaluate(&condition, snapshot, counters).into_iter().map(|(labels, value)| (names(labels), value)).collect()
    }

    #[test]
    fn gauges_are_compared_of_each_broker_or_of_all() {
        const FULL: Condition = Condition::Is(Value::Gauge("full"), Comparison::Above, 0.0);
        const FAILED: Condition = Condition::Is(Value::Gauge("failed"), Comparison::Above, 0.0);
        let now = Instant::now();
        let pages = [
            (1, Some("full 1\nfailed 0\nactive 1\nlag{group=\"g\",topic=\"t\",partition=\"0\"} 3\nused 9\nmost 10")),
            (2, Some("full 0\nfailed 2\nactive 1\nlag{group=\"g\",topic=\"t\",partition=\"1\"} 7\nused 1\nmost 10")),
            (3, None),
        ];
        let snapshot = snapshot(now, &pages);
        let found = |condition| found(condition, &snapshot, &Counters::default());
        let one = |name: &str, value| vec![(name.to_owned(), value)];
        assert_eq!(found(Condition::Is(Value::Up, Comparison::Equal, 0.0)), one("broker 3", 0.0));
        assert_eq!(found(FULL), one("broker 1", 1.0));
        assert_eq!(found(Condition::Either(&FULL, &FAILED)), [one("broker 1", 1.0), one("broker 2", 2.0)].concat());
        assert_eq!(found(Condition::Unless(&FULL, &FAILED)), one("broker 1", 1.0));
        assert_eq!(found(Condition::Unless(&FULL, &FULL)), []);
        assert_eq!(found(Condition::Is(Value::SumOfAll("active"), Comparison::NotEqual, 1.0)), one("", 2.0));
        assert_eq!(found(Condition::Is(Value::MaxOfAll("failed"), Comparison::Above, 0.0)), one("", 2.0));
        assert_eq!(found(Condition::Is(Value::MaxOfGroups("lag"), Comparison::Above, 5.0)), one("g/t", 7.0));
        assert_eq!(found(Condition::Is(Value::Ratio("used", "most"), Comparison::Above, 0.8)), one("broker 1", 0.9));
        assert_eq!(found(Condition::Is(Value::SumOfAll("none"), Comparison::NotEqual, 1.0)), []);
    }

    #[test]
    fn counters_are_compared_with_what_they_were() {
        let metric = "parshall_panics_total";
        let grown =
            |seconds| Condition::Is(Value::Increase(metric, Duration::from_secs(seconds)), Comparison::Above, 0.0);
        let began = Instant::now();
        let mut counters = Counters::default();
        let mut look = |seconds: u64, value: u64, condition| {
            let text = format!("{metric} {value}");
            let snapshot = snapshot(began + Duration::from_secs(seconds), &[(1, Some(&text))]);
            let found = found(condition, &snapshot, &counters);
            counters.note(&snapshot);
            found.first().map(|(_, value)| *value as u64)
        };
        assert_eq!(look(0, 5, grown(600)), None, "it may have been so long before");
        assert_eq!(look(20, 5, grown(600)), None);
        assert_eq!(look(40, 7, grown(600)), Some(2));
        // The process began anew.
        assert_eq!(look(60, 1, grown(600)), Some(3));
        assert_eq!(look(400, 1, grown(370)), Some(1), "what came before is too long ago");
        assert_eq!(look(2000, 1, grown(600)), None);
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let buckets = vec![(0.1, 90.0), (0.5, 98.0), (1.0, 100.0), (f64::INFINITY, 100.0)];
        let of = |rank: f64, buckets: &Buckets| (quantile(rank, buckets).unwrap() * 1000.0).round();
        assert_eq!([of(0.45, &buckets), of(0.94, &buckets), of(0.99, &buckets)], [50.0, 300.0, 750.0]);
        assert_eq!(of(0.99, &vec![(0.1, 1.0), (f64::INFINITY, 5.0)]), 100.0);
        assert_eq!(quantile(0.99, &vec![(0.1, 0.0), (f64::INFINITY, 0.0)]), None);
    }
}
