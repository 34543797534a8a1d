//! The alerts as they would fire: the rules for Prometheus, evaluated with the metrics that the brokers of a cluster
//! tell. Nobody is notified of anything.

mod evaluation;
mod rules;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use self::evaluation::{Counters, Labels, evaluate};
pub(crate) use self::rules::{RULES, Rule, prometheus_rules};
use crate::format::{bytes, count, duration, percent};
use crate::snapshot::Snapshot;

/// What is known of the rules since the console began.
#[derive(Default)]
pub(crate) struct Alerts {
    /// When it was looked first, by the wall clock.
    began_ms: Option<i64>,
    counters: Counters,
    /// By rule and whom its condition is true of.
    active: BTreeMap<(usize, Labels), Active>,
    at: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Active {
    since: Instant,
    since_ms: i64,
    value: f64,
}

/// As Prometheus calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AlertState {
    Firing,
    Pending,
    Inactive,
}

/// Somebody or something that the condition of a rule is true of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alert {
    pub state: AlertState,
    pub summary: String,
    pub since_ms: i64,
    /// For how long it has been so.
    pub active: Duration,
}

impl AlertState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Pending => "pending",
            Self::Inactive => "inactive",
        }
    }
}

impl Alerts {
    /// Looks at the metrics in a snapshot. One without any says nothing of the rules.
    pub(crate) fn note(&mut self, snapshot: &Snapshot) {
        if snapshot.brokers.values().all(|broker| broker.own_figures().is_none()) {
            return;
        }
        self.began_ms.get_or_insert(snapshot.at_ms);
        self.at = Some(snapshot.at);
        let mut active = BTreeMap::new();
        for (index, rule) in RULES.iter().enumerate() {
            for (labels, value) in evaluate(&rule.condition, snapshot, &self.counters) {
                let key = (index, labels);
                let new = Active { since: snapshot.at, since_ms: snapshot.at_ms, value };
                let now = self.active.get(&key).map_or(new, |before| Active { value, ..*before });
                active.insert(key, now);
            }
        }
        self.active = active;
        self.counters.note(snapshot);
    }

    /// Since when the rules are looked at: what was before is not known.
    pub(crate) fn began_ms(&self) -> Option<i64> {
        self.began_ms
    }

    /// All rules with the state of each and whom they are true of, what is worst first.
    pub(crate) fn rules(&self) -> Vec<(&'static Rule, AlertState, Vec<Alert>)> {
        let rules = RULES.iter().enumerate().map(|(index, rule)| {
            let active = self.active.iter().filter(|((of, _), _)| *of == index);
            let mut alerts: Vec<_> = active.map(|((_, labels), active)| self.alert(rule, labels, active)).collect();
            alerts.sort_by_key(|alert| (alert.state, alert.since_ms));
            (rule, alerts.first().map_or(AlertState::Inactive, |first| first.state), alerts)
        });
        let mut rules: Vec<_> = rules.collect();
        rules.sort_by_key(|(rule, state, _)| (*state, !rule.is_critical));
        rules
    }

    fn alert(&self, rule: &Rule, labels: &Labels, active: &Active) -> Alert {
        let so_far = self.at.map_or(Duration::ZERO, |at| at - active.since);
        Alert {
            state: if so_far >= rule.hold { AlertState::Firing } else { AlertState::Pending },
            summary: filled_in(rule.summary, labels, active.value),
            since_ms: active.since_ms,
            active: so_far,
        }
    }
}

/// A summary with what stands for its placeholders, in the console's own figures.
fn filled_in(summary: &str, labels: &Labels, value: f64) -> String {
    let mut text = String::new();
    let mut parts = summary.split("{{ ");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (placeholder, rest) = part.split_once(" }}").unwrap_or((part, ""));
        text.push_str(&match placeholder {
            "$value" => count(value as i64),
            "$value | humanizeDuration" => duration(value),
            "$value | humanizePercentage" => percent(value),
            // The unit follows it.
            "$value | humanize1024" => bytes(value as i64).trim_end_matches('B').to_owned(),
            label => {
                let name = label.trim_start_matches("$labels.");
                labels.iter().find(|(label, _)| *label == name).map_or_else(String::new, |(_, value)| value.clone())
            }
        });
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_metrics::Figures;
    use crate::snapshot::Broker;

    fn snapshot(at: Instant, at_ms: i64, under_min_isr: u32) -> Snapshot {
        let text = format!(
            "parshall_build{{version=\"1\"}} 1\nparshall_uptime_seconds 1\nparshall_controller_active 1\n\
             parshall_under_min_isr_partitions {under_min_isr}\n"
        );
        let broker = Broker { id: 1, figures: Figures::read(text), ..Broker::default() };
        Snapshot { at, at_ms, brokers: [(1, broker)].into(), ..Snapshot::empty() }
    }

    #[test]
    fn an_alert_is_pending_until_it_was_so_for_long_enough() {
        let began = Instant::now();
        let mut alerts = Alerts::default();
        let mut look = |seconds: u64, under_min_isr| {
            alerts.note(&snapshot(began + Duration::from_secs(seconds), seconds as i64 * 1000, under_min_isr));
            let (rule, state, found) = alerts.rules().remove(0);
            let summaries = found.into_iter().map(|alert| (alert.summary, alert.since_ms)).collect::<Vec<_>>();
            (rule.name, state, summaries)
        };
        assert_eq!(look(0, 0), ("BrokerDown", AlertState::Inactive, Vec::new()));
        let text = |partitions: u32| format!("broker 1 refuses acks=all for {partitions} partitions");
        assert_eq!(look(10, 2), ("UnderMinIsr", AlertState::Pending, vec![(text(2), 10_000)]));
        assert_eq!(look(69, 3), ("UnderMinIsr", AlertState::Pending, vec![(text(3), 10_000)]));
        assert_eq!(look(70, 3), ("UnderMinIsr", AlertState::Firing, vec![(text(3), 10_000)]));
        // It is over, and begins anew.
        assert_eq!(look(80, 0).1, AlertState::Inactive);
        assert_eq!(look(90, 1), ("UnderMinIsr", AlertState::Pending, vec![(text(1), 90_000)]));
    }

    #[test]
    fn without_metrics_nothing_is_known() {
        let mut alerts = Alerts::default();
        let broker = Broker { id: 1, ..Broker::default() };
        alerts.note(&Snapshot { brokers: [(1, broker)].into(), ..Snapshot::empty() });
        assert!(alerts.began_ms().is_none() && alerts.rules()[0].1 == AlertState::Inactive);
    }

    #[test]
    fn every_summary_can_be_filled_in() {
        let labels = vec![("instance", "broker 1".to_owned()), ("group", "g".to_owned()), ("topic", "t".to_owned())];
        for rule in RULES {
            let text = filled_in(rule.summary, &labels, 0.9);
            assert!(!text.contains("{{") && !text.contains('$') && !text.contains("  "), "{text}");
        }
        let group = "group {{ $labels.group }} is {{ $value | humanizeDuration }} behind";
        assert_eq!(filled_in(group, &labels, 400.0), "group g is 6 min 40 s behind");
        assert_eq!(filled_in("{{ $value | humanize1024 }}B in {{ $value }}", &labels, 2048.0), "2.00 KiB in 2,048");
    }
}
