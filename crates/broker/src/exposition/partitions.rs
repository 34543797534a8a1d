//! What the partitions of this node are and have, topic by topic.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use super::page::Page;
use crate::partition::{PartitionTable, TopicSummary};

/// Topics with series of their own. Those with the most bytes have them; the rest is summed up.
const TOPICS_MAX: usize = 10_000;
/// The label of what is summed up, which no topic can be called.
const REST: &str = "(other)";

/// Topics with series of their own, and how many have none.
struct Topics {
    /// The last may stand for all that have none.
    named: Vec<TopicSummary>,
    left_out: usize,
}

impl Topics {
    fn of(mut topics: Vec<TopicSummary>, topics_max: usize) -> Self {
        let left_out = topics.len().saturating_sub(topics_max);
        if left_out > 0 {
            topics.sort_by_key(|topic| Reverse(topic.size_bytes));
            let mut rest = TopicSummary { name: REST.into(), ..TopicSummary::default() };
            topics.drain(topics_max..).for_each(|topic| rest.add(&topic));
            topics.push(rest);
        }
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Self { named: topics, left_out }
    }

    fn series<'t, V>(
        &'t self,
        value: impl Fn(&TopicSummary) -> V + 't,
    ) -> impl Iterator<Item = ([(&'static str, &'t str); 1], V)> {
        self.named.iter().map(move |topic| ([("topic", &*topic.name)], value(topic)))
    }
}

pub(super) fn write(page: &mut Page<'_>, table: &PartitionTable) -> fmt::Result {
    write_topics(page, table.summaries(), TOPICS_MAX)
}

fn write_topics(page: &mut Page<'_>, topics: Vec<TopicSummary>, topics_max: usize) -> fmt::Result {
    let mut all = TopicSummary::default();
    topics.iter().for_each(|topic| all.add(topic));
    let count = topics.len() as u64;
    let topics = Topics::of(topics, topics_max);

    page.counters(
        "parshall_topic_received_records",
        "Records that producers have appended",
        topics.series(|topic| topic.records_in),
    )?;
    page.counters(
        "parshall_topic_received_bytes",
        "Bytes of batches that producers have appended",
        topics.series(|topic| topic.bytes_in),
    )?;
    page.counters(
        "parshall_topic_sent_bytes",
        "Bytes of batches that consumers were given",
        topics.series(|topic| topic.bytes_out),
    )?;
    page.counters(
        "parshall_topic_replication_received_bytes",
        "Bytes of batches that leaders have sent",
        topics.series(|topic| topic.replication_bytes_in),
    )?;
    page.counters(
        "parshall_topic_replication_sent_bytes",
        "Bytes of batches that followers were given",
        topics.series(|topic| topic.replication_bytes_out),
    )?;
    page.gauges("parshall_topic_log_bytes", "Size of the logs on this node", topics.series(|topic| topic.size_bytes))?;
    page.gauges(
        "parshall_topic_log_segments",
        "Segments of the logs on this node",
        topics.series(|topic| topic.segments),
    )?;
    page.gauges(
        "parshall_topic_partitions",
        "Partitions with a replica on this node",
        topics.series(|topic| topic.partitions),
    )?;
    page.gauges(
        "parshall_topic_unstable_records",
        "Records that an open transaction keeps from readers of committed records, in the partitions led here",
        topics.series(|topic| topic.unstable_records),
    )?;
    page.gauge("parshall_topics", "Topics with a replica on this node", count)?;
    page.gauge("parshall_topics_left_out", "Topics without series of their own", topics.left_out)?;

    page.gauge("parshall_partitions", "Replicas on this node", all.partitions)?;
    page.gauge("parshall_leaders", "Partitions that this node leads", all.leaders)?;
    page.gauge("parshall_offline_replicas", "Replicas on this node whose log has failed", all.offline)?;
    page.gauge(
        "parshall_under_replicated_partitions",
        "Partitions that this node leads with a replica that is not in sync",
        all.under_replicated,
    )?;
    page.gauge(
        "parshall_under_min_isr_partitions",
        "Partitions that this node leads with too few replicas in sync for acks=all",
        all.under_min_isr,
    )?;
    page.gauge(
        "parshall_at_min_isr_partitions",
        "Partitions that this node leads with no replica in sync to spare for acks=all",
        all.at_min_isr,
    )?;
    page.gauge(
        "parshall_unsynced_bytes",
        "Bytes in partitions that this node leads that are not on its disk yet; what acks=0 and 1 have acknowledged is in \
         danger as long as it is among them",
        all.unsynced_bytes,
    )?;
    page.gauge(
        "parshall_journal_oldest_needed_seconds",
        "For how long the oldest that is acknowledged and only in the journal has been there",
        Duration::from_millis(all.journaled_for_ms).as_secs_f64(),
    )
}

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::DescriptorEncoder;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Fixed(Vec<TopicSummary>);

    impl Collector for Fixed {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            write_topics(&mut Page::new(encoder), self.0.clone(), 2)
        }
    }

    fn text(topics: Vec<TopicSummary>) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Fixed(topics)));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    fn topic(name: &str, size_bytes: u64) -> TopicSummary {
        TopicSummary { name: name.into(), size_bytes, partitions: 1, leaders: 1, ..TopicSummary::default() }
    }

    fn lines<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
        text.lines().filter(|line| line.starts_with(name) && !line.starts_with('#')).collect()
    }

    #[test]
    fn more_topics_than_there_may_be_are_summed_up() {
        let text = text(vec![topic("small", 1), topic("large", 100), topic("tiny", 2), topic("huge", 1000)]);
        let expected = [
            r#"parshall_topic_log_bytes{topic="(other)"} 3"#,
            r#"parshall_topic_log_bytes{topic="huge"} 1000"#,
            r#"parshall_topic_log_bytes{topic="large"} 100"#,
        ];
        assert_eq!(lines(&text, "parshall_topic_log_bytes"), expected);
        assert_eq!(lines(&text, "parshall_topics"), ["parshall_topics 4", "parshall_topics_left_out 2"]);
        assert_eq!(lines(&text, "parshall_leaders"), ["parshall_leaders 4"]);
    }

    #[test]
    fn the_oldest_of_all_that_only_the_journal_has_is_told() {
        let age = |name, journaled_for_ms| TopicSummary { journaled_for_ms, ..topic(name, 1) };
        let text = text(vec![age("a", 30), age("b", 1500), age("c", 0)]);
        let name = "parshall_journal_oldest_needed_seconds";
        assert_eq!(lines(&text, name), ["parshall_journal_oldest_needed_seconds 1.5"]);
    }

    #[test]
    fn no_name_breaks_the_format() {
        let hostile = "a\"} 1\n# EOF\nb{c=\"\\\r\u{0}\u{7f}\u{2028}é\\\\n";
        let text = text(vec![topic(hostile, 7)]);
        let escaped = hostile.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let expected = format!("parshall_topic_log_bytes{{topic=\"{escaped}\"}} 7");
        assert_eq!(lines(&text, "parshall_topic_log_bytes"), [expected]);
        assert_eq!(text.matches("\n# EOF\n").count(), 1);
        assert!(text.ends_with("\n# EOF\n"));
    }
}
