//! What `--print-metrics` prints: figures under the names of the metrics of Kafka's clients, in the form of Kafka's
//! tools. Those that we have, that is; totals are of the whole run and not of its last half minute.

use std::collections::BTreeMap;
use std::time::Duration;

use client::FetchTotals;
use lab::{Consumed, ProducerMetrics};
use serde_json::{Map, Value};

const PRODUCER: &str = "producer-metrics";
const FETCHER: &str = "consumer-fetch-manager-metrics";

/// Figures by the names that Kafka's tools print: group, name and tags.
#[derive(Default)]
pub(super) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn put(&mut self, group: &str, client_id: &str, name: &str, value: f64) {
        self.0.insert(format!("{group}:{name}:{{client-id={client_id}}}"), value);
    }

    /// Of the producers (`SenderMetricsRegistry`).
    pub(super) fn add_producers(&mut self, client_id: &str, metrics: &ProducerMetrics, failed: u64, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let mut put = |name: &str, value: f64| self.put(PRODUCER, client_id, name, value);
        for (name, total) in [
            ("record-send", metrics.requests.total),
            ("record-error", failed),
            ("record-retry", metrics.retried_records),
            ("batch-split", metrics.split_batches),
            ("request", metrics.requests.count),
            ("response", metrics.latency_us.count),
            ("byte", metrics.batches.total),
        ] {
            put(&format!("{name}-total"), total as f64);
            put(&format!("{name}-rate"), total as f64 / seconds);
        }
        for (name, sum, unit) in [
            ("batch-size", metrics.batches, 1.0),
            ("record-queue-time", metrics.queue_us, 1000.0),
            ("request-latency", metrics.latency_us, 1000.0),
            ("produce-throttle-time", metrics.throttle_ms, 1.0),
        ] {
            put(&format!("{name}-avg"), sum.mean() / unit);
            put(&format!("{name}-max"), sum.max as f64 / unit);
        }
        put("records-per-request-avg", metrics.requests.mean());
        put("compression-rate-avg", metrics.batches.total as f64 / metrics.plain_bytes.max(1) as f64);
        put("txn-commit-time-ns-total", metrics.commit_us.total as f64 * 1000.0);
    }

    /// Of the consumers (`FetchMetricsRegistry`).
    pub(super) fn add_consumers(
        &mut self,
        client_id: &str,
        fetches: FetchTotals,
        consumed: Consumed,
        elapsed: Duration,
    ) {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let requests = fetches.fetches.max(1) as f64;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let mut put = |name: &str, value: f64| self.put(FETCHER, client_id, name, value);
        put("records-consumed-total", consumed.records as f64);
        put("records-consumed-rate", consumed.records as f64 / seconds);
        put("bytes-consumed-total", consumed.bytes as f64);
        put("bytes-consumed-rate", consumed.bytes as f64 / seconds);
        put("records-per-request-avg", consumed.records as f64 / requests);
        put("fetch-total", fetches.fetches as f64);
        put("fetch-rate", fetches.fetches as f64 / seconds);
        put("fetch-size-avg", fetches.bytes as f64 / requests);
        put("fetch-size-max", fetches.bytes_max as f64);
        put("fetch-latency-avg", ms(fetches.latency) / requests);
        put("fetch-latency-max", ms(fetches.latency_max));
        put("fetch-throttle-time-avg", ms(fetches.throttled) / requests);
        put("fetch-throttle-time-max", ms(fetches.throttled_max));
    }

    /// As `ToolsUtils.printMetrics` prints them.
    pub(super) fn lines(&self) -> String {
        let width = self.0.keys().map(String::len).max().unwrap_or(0);
        let head = format!("\n{:<width$}   Value\n", "Metric Name");
        self.0.iter().fold(head, |text, (name, value)| text + &format!("{name:<width$} : {value:.3}\n"))
    }

    pub(super) fn json(&self) -> Value {
        Value::Object(self.0.iter().map(|(name, value)| (name.clone(), (*value).into())).collect::<Map<_, _>>())
    }
}
