//! The charts of one broker.

use super::{Chart, History, NodePoint, NodeRates, Point, Value, node_rates};

impl History {
    /// `None` if there is no chart of this name.
    pub(crate) fn broker_chart(&self, id: i32, chart: &str) -> Option<Chart> {
        let rate = |of: fn(&NodeRates) -> Option<f64>| {
            move |before: &Point, now: &Point| node_rates(before, now, id).and_then(|rates| of(&rates))
        };
        let gauge = |of: fn(&NodePoint) -> Option<f64>| move |_: &Point, now: &Point| of(now.nodes.get(&id)?);
        let one = |unit, name: &str, value: Value<'_>| self.chart(unit, &[(name.to_owned(), value)]);
        let chart = match chart {
            "records" => one("/s", "records in", &rate(|rates| Some(rates.received_records))),
            "bytes" => {
                let (received, sent) = (rate(|rates| Some(rates.received_bytes)), rate(|rates| Some(rates.sent_bytes)));
                self.chart("B/s", &[("from producers".to_owned(), &received), ("to consumers".to_owned(), &sent)])
            }
            "requests" => one("/s", "requests", &rate(|rates| rates.requests)),
            "cpu" => one("%", "CPU", &rate(|rates| Some(rates.cpu * 100.0))),
            "memory" => one("B", "memory", &gauge(|node| node.memory_bytes)),
            "under-replicated" => one("", "partitions", &gauge(|node| Some(node.under_replicated as f64))),
            "log-size" => one("B", "log size", &gauge(|node| node.log_size_bytes.map(|bytes| bytes as f64))),
            _ => return None,
        };
        Some(chart)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openmetrics::Exposition;
    use tokio::time::Instant;

    use super::*;
    use crate::kafka_metrics;
    use crate::snapshot::{Broker, Directory, Snapshot};

    /// Of a broker of Apache Kafka that is this many seconds old.
    fn page(seconds: u32) -> String {
        let [tens, hundreds] = [seconds * 10, seconds * 100];
        format!(
            "kafka_server_brokertopicmetrics_bytesin_total {hundreds}\n\
             kafka_server_brokertopicmetrics_bytesout_total {tens}\n\
             kafka_server_brokertopicmetrics_messagesin_total {seconds}\n\
             kafka_network_requestmetrics_requests_total{{request=\"Produce\"}} {tens}\n\
             process_cpu_seconds_total {seconds}\nprocess_resident_memory_bytes {hundreds}\n"
        )
    }

    #[test]
    fn a_broker_has_charts_of_what_it_and_what_the_cluster_tells() {
        let (mut history, began) = (History::default(), Instant::now());
        // It is slow to tell, and then tells nothing.
        for (seconds, told) in [(10, Some(10)), (20, Some(20)), (25, Some(20)), (30, None)] {
            let figures = told
                .map(|told: u32| kafka_metrics::figures(&Exposition::new(page(told)), i64::from(told) * 1000).unwrap());
            let directory = Directory {
                path: String::new(),
                error: None,
                total_bytes: None,
                usable_bytes: None,
                size_bytes: 0,
                replicas: 0,
            };
            let broker = Broker {
                figures,
                under_replicated: seconds,
                dirs: told.map(|_| directory).into_iter().collect(),
                size_bytes: 7,
                ..Broker::default()
            };
            let at = began + Duration::from_secs(seconds as u64);
            history.note(&mut Snapshot { at, brokers: [(1, broker)].into(), ..Snapshot::empty() });
        }
        let values = |chart: &str| {
            let series = history.broker_chart(1, chart).unwrap().series;
            series.into_iter().map(|series| series.values).collect::<Vec<_>>()
        };
        assert_eq!(values("records"), [[Some(1.0), Some(1.0), None]]);
        assert_eq!(values("bytes"), [[Some(100.0), Some(100.0), None], [Some(10.0), Some(10.0), None]]);
        assert_eq!(values("requests"), [[Some(10.0), Some(10.0), None]]);
        assert_eq!(values("cpu"), [[Some(100.0), Some(100.0), None]]);
        assert_eq!(values("memory"), [[Some(2000.0), Some(2000.0), None]]);
        assert_eq!(values("under-replicated"), [[Some(20.0), Some(25.0), Some(30.0)]]);
        assert_eq!(values("log-size"), [[Some(7.0), Some(7.0), None]]);
        assert!(history.broker_chart(1, "x").is_none() && history.broker_chart(9, "cpu").is_some());
    }
}
