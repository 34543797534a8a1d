//! What a broker tells of itself, of its page of metrics. [`Figures::read`] knows the pages of ours, `kafka_metrics`
//! those of Apache Kafka.

use std::collections::HashMap;

use client::TopicPartition;

use openmetrics::Exposition;

use crate::journal_figures::JournalFigures;

#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub uptime_seconds: Option<f64>,
    pub memory_bytes: Option<f64>,
    pub open_fds: f64,
    pub max_fds: f64,
    pub counters: Counters,
    /// What only nodes of ours tell.
    pub own: Option<OwnFigures>,
}

#[derive(Clone, Debug)]
pub(crate) struct OwnFigures {
    pub version: String,
    pub connections: f64,
    pub unsynced_bytes: f64,
    pub disk: Option<Disk>,
    pub journal: Option<JournalFigures>,
    /// Behind the page of a broker.
    pub page: Exposition,
}

/// What only grows until the node begins anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// When it told this: where it does not say since when it runs, by the clock.
    pub uptime_seconds: f64,
    pub cpu_seconds: f64,
    pub network_received_bytes: f64,
    pub network_sent_bytes: f64,
    pub received_records: f64,
    pub received_bytes: f64,
    pub sent_bytes: f64,
    pub requests: Option<f64>,
}

impl Counters {
    /// Whether a node has told both at the same time.
    pub(crate) fn is_same_moment(&self, other: &Self) -> bool {
        self.uptime_seconds.to_bits() == other.uptime_seconds.to_bits()
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    pub is_full: bool,
    /// Until it is full, if it goes on like this.
    pub forecast_seconds: f64,
}

impl Figures {
    /// `None` if the page is not a node's of ours, or it has only begun.
    pub(crate) fn read(text: String) -> Option<Self> {
        let page = Exposition::new(text);
        let value = |name| page.sum(name).unwrap_or(0.0);
        let uptime_seconds = page.sum("parshall_uptime_seconds")?;
        let ([version], _) = page.labelled("parshall_build", ["version"]).next()?;
        let disk = page.sum("parshall_disk_free_bytes").map(|_| Disk {
            is_full: value("parshall_disk_full") > 0.0,
            forecast_seconds: page.sum("parshall_disk_forecast_seconds").unwrap_or(f64::INFINITY),
        });
        let counters = Counters {
            uptime_seconds,
            cpu_seconds: page.process_cpu_seconds().unwrap_or(0.0),
            network_received_bytes: value("parshall_network_received_bytes_total"),
            network_sent_bytes: value("parshall_network_sent_bytes_total"),
            received_records: value("parshall_topic_received_records_total"),
            received_bytes: value("parshall_topic_received_bytes_total"),
            sent_bytes: value("parshall_topic_sent_bytes_total"),
            requests: page.sum("parshall_request_seconds_count"),
        };
        Some(Self {
            uptime_seconds: Some(uptime_seconds),
            memory_bytes: page.process_memory_bytes(),
            open_fds: value("process_open_fds"),
            max_fds: value("process_max_fds"),
            counters,
            own: Some(OwnFigures {
                version,
                connections: value("parshall_connections"),
                unsynced_bytes: value("parshall_unsynced_bytes"),
                disk,
                journal: JournalFigures::read(&page),
                page,
            }),
        })
    }
}

impl OwnFigures {
    /// How old the first record is that a group has not committed, for each of its partitions.
    pub(crate) fn lag_seconds(&self) -> HashMap<(String, TopicPartition), f64> {
        let lags = self.page.labelled("parshall_group_lag_seconds", ["group", "topic", "partition"]);
        lags.filter_map(|([group, topic, partition], seconds)| {
            Some(((group, TopicPartition::new(topic, partition.parse().ok()?)), seconds))
        })
        .collect()
    }

    /// What quotas have held back; nothing from brokers that do not tell.
    pub(crate) fn throttles(&self) -> Vec<Throttles> {
        let seconds = self.page.labelled("parshall_quota_throttle_seconds_total", ["quota"]);
        let seconds: HashMap<_, _> = seconds.map(|([quota], value)| (quota, value)).collect();
        let counts = self.page.labelled("parshall_quota_throttles_total", ["quota"]);
        let throttles =
            counts.map(|([key], count)| Throttles { count, seconds: seconds.get(&key).copied().unwrap_or(0.0), key });
        throttles.collect()
    }

    /// How long requests took.
    pub(crate) fn requests(&self) -> Vec<Requests> {
        let named = |name| self.page.labelled(name, ["api"]).map(|([api], value)| (api, value));
        let sums: HashMap<_, _> = named("parshall_request_seconds_sum").collect();
        let mut errors = HashMap::<String, f64>::new();
        for (api, value) in named("parshall_request_errors_total") {
            *errors.entry(api).or_default() += value;
        }
        let mut stages = HashMap::<String, Vec<(String, f64)>>::new();
        for ([api, stage], sum) in self.page.labelled("parshall_request_stage_seconds_sum", ["api", "stage"]) {
            stages.entry(api).or_default().push((stage, sum));
        }
        let counts = named("parshall_request_seconds_count");
        let mut requests: Vec<_> = counts
            .map(|(api, count)| Requests {
                count,
                seconds: sums.get(&api).copied().unwrap_or(0.0),
                errors: errors.get(&api).copied().unwrap_or(0.0),
                stages: stages.remove(&api).unwrap_or_default(),
                api,
            })
            .collect();
        requests.sort_by(|a, b| b.count.total_cmp(&a.count));
        requests
    }
}

/// Clients that a quota has held back since the node began.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Throttles {
    /// Of the quota.
    pub key: String,
    pub count: f64,
    pub seconds: f64,
}

/// Requests of an API since the node began.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    pub api: String,
    pub count: f64,
    pub seconds: f64,
    pub errors: f64,
    /// Seconds that were spent in each stage.
    pub stages: Vec<(String, f64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_metrics_becomes_figures() {
        let text = "\
parshall_build{version=\"0.1.0\",node_id=\"1\"} 1
parshall_uptime_seconds 12.5
parshall_topic_received_bytes_total{topic=\"a\"} 5
parshall_topic_received_bytes_total{topic=\"b\"} 7
parshall_disk_free_bytes 40
parshall_group_lag_seconds{group=\"g\",topic=\"a\",partition=\"3\"} 1.5
parshall_request_seconds_count{api=\"Fetch\"} 1
parshall_request_seconds_count{api=\"Produce\"} 4
parshall_request_seconds_sum{api=\"Produce\"} 2
parshall_request_stage_seconds_sum{api=\"Produce\",stage=\"append\"} 1.5
parshall_request_errors_total{api=\"Produce\",error=\"X\"} 3
parshall_quota_throttles_total{quota=\"producer_byte_rate\"} 4
parshall_quota_throttle_seconds_total{quota=\"producer_byte_rate\"} 6
";
        let figures = Figures::read(text.to_owned()).unwrap();
        assert_eq!((figures.counters.received_bytes, figures.counters.requests), (12.0, Some(5.0)));
        let figures = figures.own.unwrap();
        assert_eq!(figures.version, "0.1.0");
        let disk = figures.disk.unwrap();
        assert_eq!((disk.is_full, disk.forecast_seconds), (false, f64::INFINITY));
        let lag = figures.lag_seconds()[&("g".to_owned(), TopicPartition::new("a", 3))];
        assert!((lag - 1.5).abs() < 1e-9);
        let requests = figures.requests();
        assert_eq!(requests.iter().map(|of| of.api.as_str()).collect::<Vec<_>>(), ["Produce", "Fetch"]);
        assert_eq!((requests[0].seconds, requests[0].errors), (2.0, 3.0));
        assert_eq!(requests[0].stages, [("append".to_owned(), 1.5)]);
        let throttles = Throttles { key: "producer_byte_rate".to_owned(), count: 4.0, seconds: 6.0 };
        assert_eq!(figures.throttles(), [throttles]);
        assert!(Figures::read("# EOF\n".to_owned()).is_none());
    }
}
