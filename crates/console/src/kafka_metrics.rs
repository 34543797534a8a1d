//! What a broker of Apache Kafka tells of itself: a page of Prometheus' JMX exporter, or of a reporter like it.
//!
//! What a bean is called there is up to the rules of the exporter. Without any it is
//! `kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec"}`; with those of its examples, and Strimzi's,
//! `kafka_server_brokertopicmetrics_bytesin_total`; Strimzi's reporter has
//! `kafka_server_brokertopicmetrics_bytesinpersec_total`. They come down to one name, in lower case and without what is
//! added at the end.

use openmetrics::{Exposition, PROCESS_CPU_SECONDS, SampleLine};

use crate::node_metrics::{Counters, Figures};

/// What is read, each with its bean as Kafka's documentation has it.
const BYTES_IN: Counter = Counter::new("kafka_server_brokertopicmetrics_bytesin", "BytesInPerSec");
const BYTES_OUT: Counter = Counter::new("kafka_server_brokertopicmetrics_bytesout", "BytesOutPerSec");
const MESSAGES_IN: Counter = Counter::new("kafka_server_brokertopicmetrics_messagesin", "MessagesInPerSec");
const REPLICATION_IN: Counter =
    Counter::new("kafka_server_brokertopicmetrics_replicationbytesin", "ReplicationBytesInPerSec");
const REPLICATION_OUT: Counter =
    Counter::new("kafka_server_brokertopicmetrics_replicationbytesout", "ReplicationBytesOutPerSec");
const REQUESTS: Counter = Counter::new("kafka_network_requestmetrics_requests", "RequestsPerSec");
const COUNTERS: [Counter; 6] = [BYTES_IN, BYTES_OUT, MESSAGES_IN, REPLICATION_IN, REPLICATION_OUT, REQUESTS];

/// What their names begin with. Most lines of a page are others.
const TYPES: [&str; 2] = ["kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_"];
/// Fetch requests are counted under these names once more.
const COUNTED_TWICE: [&str; 2] = ["FetchConsumer", "FetchFollower"];

#[derive(Clone, Copy, PartialEq, Eq)]
struct Counter {
    name: &'static str,
    bean: &'static str,
}

impl Counter {
    const fn new(name: &'static str, bean: &'static str) -> Self {
        Self { name, bean }
    }

    fn of(line: &SampleLine<'_>) -> Option<usize> {
        let begins_with = |start: &str| line.name.get(..start.len()).is_some_and(|of| of.eq_ignore_ascii_case(start));
        if !TYPES.iter().any(|of_type| begins_with(of_type)) {
            return None;
        }
        let lower = line.name.to_ascii_lowercase();
        let name = lower.strip_suffix("_total").unwrap_or(&lower);
        let name = name.strip_suffix("_count").unwrap_or(name);
        let named = line.label("name").map(|of_bean| format!("{name}_{}", of_bean.to_ascii_lowercase()));
        let name = named.as_deref().unwrap_or(name);
        let name = name.strip_suffix("persec").unwrap_or(name);
        COUNTERS.iter().position(|counter| counter.name == name)
    }
}

/// What a counter has come to: there is one of all topics, and else one of each.
#[derive(Clone, Copy, Default)]
struct Sum {
    of_all: Option<f64>,
    of_topics: Option<f64>,
}

impl Sum {
    fn add(&mut self, line: &SampleLine<'_>) {
        let has_topic = line.label("topic").is_some_and(|topic| !topic.is_empty());
        let sum = if has_topic { &mut self.of_topics } else { &mut self.of_all };
        *sum = Some(sum.unwrap_or(0.0) + line.value);
    }
}

/// What a page lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no {0}: is it the page of a broker's JMX exporter?")]
pub(crate) struct Missing(&'static str);

pub(crate) fn figures(page: &Exposition, now_ms: i64) -> Result<Figures, Missing> {
    let mut sums = [Sum::default(); COUNTERS.len()];
    for line in page.lines() {
        let Some(counter) = Counter::of(&line) else { continue };
        if !line.label("request").is_some_and(|request| COUNTED_TWICE.contains(&&*request)) {
            sums[counter].add(&line);
        }
    }
    let find = |wanted: Counter| {
        let (sum, _) = sums.iter().zip(COUNTERS).find(|(_, counter)| *counter == wanted)?;
        sum.of_all.or(sum.of_topics)
    };
    let get = |counter: Counter| find(counter).ok_or(Missing(counter.bean));
    let now_seconds = now_ms as f64 / 1000.0;
    let uptime_seconds = page.first("process_start_time_seconds").map(|began| (now_seconds - began).max(0.0));
    let (received_bytes, sent_bytes) = (get(BYTES_IN)?, get(BYTES_OUT)?);
    let counters = Counters {
        uptime_seconds: uptime_seconds.unwrap_or(now_seconds),
        cpu_seconds: page.process_cpu_seconds().ok_or(Missing(PROCESS_CPU_SECONDS))?,
        // Of records, which is nearly all; Kafka counts no others.
        network_received_bytes: received_bytes + find(REPLICATION_IN).unwrap_or(0.0),
        network_sent_bytes: sent_bytes + find(REPLICATION_OUT).unwrap_or(0.0),
        received_records: get(MESSAGES_IN)?,
        received_bytes,
        sent_bytes,
        requests: find(REQUESTS),
    };
    Ok(Figures {
        uptime_seconds,
        memory_bytes: page.process_memory_bytes(),
        open_fds: page.first("process_open_fds").unwrap_or(0.0),
        max_fds: page.first("process_max_fds").unwrap_or(0.0),
        counters,
        own: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Apache Kafka 4.3.1 with the JMX exporter 1.0.1, trimmed.
    const NO_RULES: &str = include_str!("kafka_metrics/no_rules.txt");
    /// The same with its example of rules for KRaft. Strimzi's rules give the same names.
    const EXAMPLE_RULES: &str = include_str!("kafka_metrics/example_rules.txt");

    fn read(text: &str) -> Result<Figures, Missing> {
        figures(&Exposition::new(text.to_owned()), 1_795_557_300_000)
    }

    #[test]
    fn pages_with_and_without_rules_tell_the_same() {
        for (text, requests, cpu, memory, uptime) in
            [(NO_RULES, 16.0, 5.93, 402_989_056.0, 79.191), (EXAMPLE_RULES, 12.0, 5.64, 401_072_128.0, 51.045)]
        {
            let figures = read(text).unwrap();
            let counters = figures.counters;
            assert_eq!((counters.received_bytes, counters.sent_bytes), (110_679.0, 55_057.0));
            assert_eq!((counters.received_records, counters.requests), (1004.0, Some(requests)));
            assert_eq!((counters.cpu_seconds, figures.memory_bytes), (cpu, Some(memory)));
            assert_eq!((figures.open_fds, figures.max_fds), (208.0, 20_000.0));
            assert!(figures.uptime_seconds.is_some_and(|of| (of - uptime).abs() < 0.001), "{uptime}");
        }
    }

    #[test]
    fn names_of_a_reporter_and_counters_of_topics_alone_are_read() {
        let text = "\
kafka_server_brokertopicmetrics_bytesinpersec_total{topic=\"a\"} 5
kafka_server_brokertopicmetrics_bytesinpersec_total{topic=\"b\"} 2
kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate{topic=\"b\"} 99
kafka_server_brokertopicmetrics_replicationbytesinpersec_total 100
kafka_server_brokertopicmetrics_bytesoutpersec_total 3
kafka_server_brokertopicmetrics_messagesinpersec_total 4
process_cpu_seconds_total 1
";
        let figures = read(text).unwrap();
        let counters = figures.counters;
        assert_eq!((counters.received_bytes, counters.network_received_bytes), (7.0, 107.0));
        assert_eq!((counters.sent_bytes, counters.received_records, counters.requests), (3.0, 4.0, None));
        assert_eq!((figures.memory_bytes, figures.uptime_seconds), (None, None));
    }

    #[test]
    fn what_a_page_lacks_is_named() {
        let without =
            |what: &str| EXAMPLE_RULES.lines().filter(|line| !line.contains(what)).collect::<Vec<_>>().join("\n");
        let missing = |what: &str| read(&without(what)).err().map(|Missing(name)| name);
        assert_eq!(missing("_bytesout"), Some("BytesOutPerSec"));
        assert_eq!(missing("process_cpu"), Some("process_cpu_seconds_total"));
        assert_eq!(missing("_replicationbytes"), None);
        assert!(read("<html>").is_err());
    }
}
