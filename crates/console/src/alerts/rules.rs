//! The alerts: each rule once, from which come the file for Prometheus (docs/examples/alerts.yml), its words on the
//! page, and what is evaluated here.

use std::fmt::Write;
use std::time::Duration;

use crate::format::{count, duration, percent};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Rule {
    pub name: &'static str,
    pub condition: Condition,
    /// How long it has to be so.
    pub hold: Duration,
    pub is_critical: bool,
    /// With Prometheus' placeholders.
    pub summary: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Condition {
    Is(Value, Comparison, f64),
    Either(&'static Self, &'static Self),
    /// The first, of those that the second is not said of.
    Unless(&'static Self, &'static Self),
}

/// What is compared, of each broker where nothing else is said.
#[derive(Clone, Copy)]
pub(crate) enum Value {
    /// 1 if its metrics can be read, and 0 if not.
    Up,
    Gauge(&'static str),
    SumOfAll(&'static str),
    MaxOfAll(&'static str),
    /// For each group and topic.
    MaxOfGroups(&'static str),
    /// Of a counter, within a time.
    Increase(&'static str, Duration),
    /// Of a histogram, within a time.
    Quantile(f64, &'static str, Duration),
    Ratio(&'static str, &'static str),
}

#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    Above,
    Below,
    Equal,
    NotEqual,
}

use Comparison::{Above, Below, Equal, NotEqual};
use Condition::{Either, Is, Unless};
use Value::{Gauge, Increase, MaxOfAll, MaxOfGroups, Quantile, Ratio, SumOfAll, Up};

pub(crate) const RULES: &[Rule] = &[
    Rule {
        name: "BrokerDown",
        condition: Is(Up, Equal, 0.0),
        hold: MINUTE,
        is_critical: true,
        summary: "{{ $labels.instance }} does not answer",
    },
    Rule {
        name: "NoController",
        condition: Is(SumOfAll("parshall_controller_active"), NotEqual, 1.0),
        hold: Duration::from_secs(30),
        is_critical: true,
        summary: "{{ $value }} brokers say that they are the active controller",
    },
    Rule {
        name: "OfflinePartitions",
        condition: Is(MaxOfAll("parshall_cluster_offline_partitions"), Above, 0.0),
        hold: Duration::from_secs(30),
        is_critical: true,
        summary: "{{ $value }} partitions have no leader",
    },
    Rule {
        name: "UnderMinIsr",
        condition: Is(Gauge("parshall_under_min_isr_partitions"), Above, 0.0),
        hold: MINUTE,
        is_critical: true,
        summary: "{{ $labels.instance }} refuses acks=all for {{ $value }} partitions",
    },
    Rule {
        name: "UnderReplicated",
        condition: Is(Gauge("parshall_under_replicated_partitions"), Above, 0.0),
        hold: Duration::from_secs(5 * 60),
        is_critical: false,
        summary: "{{ $labels.instance }} leads {{ $value }} partitions with a replica that is not in sync",
    },
    Rule {
        name: "LogFailed",
        condition: Either(
            &Is(Gauge("parshall_offline_replicas"), Above, 0.0),
            &Is(Gauge("parshall_quorum_failed"), Above, 0.0),
        ),
        hold: Duration::ZERO,
        is_critical: true,
        summary: "a log of {{ $labels.instance }} has failed: look at its disk",
    },
    Rule {
        name: "JournalFailed",
        condition: Is(Gauge("parshall_journal_failed"), Above, 0.0),
        hold: MINUTE,
        is_critical: false,
        summary: "the journal of {{ $labels.instance }} could not be written: look at its disk, then restart it",
    },
    Rule {
        name: "DiskFull",
        condition: Is(Gauge("parshall_disk_full"), Above, 0.0),
        hold: Duration::ZERO,
        is_critical: true,
        summary: "{{ $labels.instance }} refuses records: its disk is full",
    },
    Rule {
        name: "OldestDeleted",
        condition: Is(Increase("parshall_disk_policy_deleted_bytes_total", Duration::from_secs(15 * 60)), Above, 0.0),
        hold: Duration::ZERO,
        is_critical: false,
        summary: "the disk of {{ $labels.instance }} deletes what is oldest: {{ $value | humanize1024 }}B in 15 minutes",
    },
    Rule {
        name: "DiskFullSoon",
        // Where the oldest are deleted, the disk stays at its threshold.
        condition: Unless(
            &Is(Gauge("parshall_disk_forecast_seconds"), Below, 24.0 * 3600.0),
            &Is(Increase("parshall_disk_policy_deleted_bytes_total", HOUR), Above, 0.0),
        ),
        hold: Duration::from_secs(15 * 60),
        is_critical: false,
        summary: "the disk of {{ $labels.instance }} reaches its threshold in {{ $value | humanizeDuration }}",
    },
    Rule {
        name: "SyncsSlow",
        condition: Is(Quantile(0.99, "parshall_log_sync_seconds", Duration::from_secs(5 * 60)), Above, 0.25),
        hold: Duration::from_secs(10 * 60),
        is_critical: false,
        summary: "one sync in a hundred takes {{ $value | humanizeDuration }} on {{ $labels.instance }}",
    },
    Rule {
        name: "GroupBehind",
        condition: Is(MaxOfGroups("parshall_group_lag_seconds"), Above, 300.0),
        hold: Duration::from_secs(5 * 60),
        is_critical: false,
        summary: "group {{ $labels.group }} is {{ $value | humanizeDuration }} behind in {{ $labels.topic }}",
    },
    Rule {
        name: "Panicked",
        condition: Is(Increase("parshall_panics_total", Duration::from_secs(10 * 60)), Above, 0.0),
        hold: Duration::ZERO,
        is_critical: true,
        summary: "{{ $labels.instance }} met a mistake in its program; its log says which",
    },
    Rule {
        name: "RequestMemoryShort",
        condition: Is(Ratio("parshall_request_memory_bytes", "parshall_request_memory_limit_bytes"), Above, 0.8),
        hold: Duration::from_secs(5 * 60),
        is_critical: false,
        summary: "requests take {{ $value | humanizePercentage }} of the memory that {{ $labels.instance }} has for them",
    },
    Rule {
        name: "FewDescriptorsLeft",
        condition: Is(Ratio("process_open_fds", "process_max_fds"), Above, 0.8),
        hold: Duration::from_secs(5 * 60),
        is_critical: false,
        summary: "{{ $labels.instance }} has few file descriptors left",
    },
];

/// The rules as Prometheus reads them.
pub(crate) fn prometheus_rules() -> String {
    let mut file = "# Alerts on what an operator of Parshall has to know, for Prometheus (rule_files).\n\
                    groups:\n  - name: parshall\n    rules:\n"
        .to_owned();
    for rule in RULES {
        let _ = write!(file, "      - alert: {}\n        expr: {}\n", rule.name, rule.condition.promql());
        if !rule.hold.is_zero() {
            let _ = writeln!(file, "        for: {}", promql_duration(rule.hold));
        }
        let _ = write!(
            file,
            "        labels: {{severity: {}}}\n        annotations:\n          summary: \"{}\"\n",
            rule.severity(),
            rule.summary
        );
    }
    file
}

impl Rule {
    pub(crate) fn severity(&self) -> &'static str {
        if self.is_critical { "critical" } else { "warning" }
    }
}

impl Condition {
    pub(crate) fn promql(&self) -> String {
        match self {
            Is(value, comparison, threshold) => format!("{} {} {threshold}", value.promql(), comparison.promql()),
            Either(one, other) => format!("{} or {}", one.promql(), other.promql()),
            Unless(one, other) => format!("{} unless {}", one.promql(), other.promql()),
        }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            Is(value, comparison, threshold) => {
                format!("{} {} {}", value.words(), comparison.words(), value.shown(*threshold))
            }
            Either(one, other) => format!("{}, or {}", one.words(), other.words()),
            Unless(one, other) => format!("{}, unless {}", one.words(), other.words()),
        }
    }

    /// All that is compared in it.
    pub(crate) fn values(&self) -> Vec<Value> {
        match self {
            Is(value, ..) => vec![*value],
            Either(one, other) | Unless(one, other) => [one.values(), other.values()].concat(),
        }
    }
}

impl Value {
    fn promql(&self) -> String {
        match self {
            Up => "up{job=\"parshall\"}".to_owned(),
            Gauge(metric) => (*metric).to_owned(),
            SumOfAll(metric) => format!("sum by (job) ({metric})"),
            MaxOfAll(metric) => format!("max by (job) ({metric})"),
            MaxOfGroups(metric) => format!("max by (group, topic) ({metric})"),
            Increase(metric, window) => format!("increase({metric}[{}])", promql_duration(*window)),
            Quantile(quantile, metric, window) => format!(
                "histogram_quantile({quantile}, sum by (instance, le) (rate({metric}_bucket[{}])))",
                promql_duration(*window)
            ),
            Ratio(part, whole) => format!("{part} / {whole}"),
        }
    }

    fn words(&self) -> String {
        let within = |window: &Duration| duration(window.as_secs_f64());
        match self {
            Up => "whether a broker answers (1 or 0)".to_owned(),
            Gauge(metric) => format!("{metric} of a broker"),
            SumOfAll(metric) => format!("the sum of {metric} of all brokers"),
            MaxOfAll(metric) => format!("the greatest {metric} of all brokers"),
            MaxOfGroups(metric) => format!("the greatest {metric} of a group in a topic"),
            Increase(metric, window) => format!("the increase of {metric} of a broker within {}", within(window)),
            Quantile(quantile, metric, window) => {
                format!("{metric} of a broker, for the fastest {} within {},", percent(*quantile), within(window))
            }
            Ratio(part, whole) => format!("the part that {part} of a broker is of {whole}"),
        }
    }

    /// A number of this kind.
    fn shown(&self, number: f64) -> String {
        match self {
            Ratio(..) => percent(number),
            Quantile(..) => format!("{number} s"),
            Gauge(metric) | MaxOfGroups(metric) if metric.ends_with("_seconds") => duration(number),
            _ => count(number as i64),
        }
    }
}

impl Comparison {
    fn promql(self) -> &'static str {
        match self {
            Above => ">",
            Below => "<",
            Equal => "==",
            NotEqual => "!=",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Above => "is above",
            Below => "is below",
            Equal => "is",
            NotEqual => "is not",
        }
    }

    pub(crate) fn is_so(self, value: f64, threshold: f64) -> bool {
        match self {
            Above => value > threshold,
            Below => value < threshold,
            Equal => value == threshold,
            NotEqual => value != threshold,
        }
    }
}

fn promql_duration(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_for_prometheus_has_these_rules() {
        let file = include_str!("../../../../docs/examples/alerts.yml");
        assert_eq!(prometheus_rules(), file, "docs/examples/alerts.yml has to be what this test made");
    }

    #[test]
    fn conditions_are_said_in_words() {
        let words = |name: &str| RULES.iter().find(|rule| rule.name == name).unwrap().condition.words();
        assert_eq!(words("NoController"), "the sum of parshall_controller_active of all brokers is not 1");
        assert_eq!(
            words("DiskFullSoon"),
            "parshall_disk_forecast_seconds of a broker is below 1 d, unless the increase of \
             parshall_disk_policy_deleted_bytes_total of a broker within 1 h is above 0"
        );
        assert_eq!(
            words("SyncsSlow"),
            "parshall_log_sync_seconds of a broker, for the fastest 99 % within 5 min, is above 0.25 s"
        );
        assert_eq!(
            words("FewDescriptorsLeft"),
            "the part that process_open_fds of a broker is of process_max_fds is above 80 %"
        );
    }
}
