//! Which offsets partitions have.

use std::collections::BTreeMap;

use client::{Client, EARLIEST, LATEST, TopicPartition};

use super::Spans;

/// What there is to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// From the first offset to the one behind the last.
    pub spans: Spans,
    /// Partitions of which nothing is known, and why.
    pub problems: BTreeMap<i32, String>,
}

/// The offsets of these partitions.
pub(crate) async fn bounds(client: &Client, topic: &str, partitions: &[i32]) -> Bounds {
    let (earliest, latest) = (wanted(topic, partitions, EARLIEST), wanted(topic, partitions, LATEST));
    let (mut starts, ends) = tokio::join!(client.list_offsets_each(&earliest), client.list_offsets_each(&latest));
    let mut bounds = Bounds::default();
    for (of, end) in ends {
        match (starts.remove(&of), end) {
            (Some(Ok(start)), Ok(end)) => {
                bounds.spans.insert(of.partition, start.offset..end.offset.max(start.offset));
            }
            (_, Err(error)) | (Some(Err(error)), _) => {
                bounds.problems.insert(of.partition, error.to_string());
            }
            (None, Ok(_)) => {}
        }
    }
    bounds
}

/// Moves the beginnings to the first records at or after a time.
pub(crate) async fn begin_at(client: &Client, topic: &str, bounds: &mut Bounds, ms: i64) {
    let partitions: Vec<_> = bounds.spans.keys().copied().collect();
    for (of, listed) in client.list_offsets_each(&wanted(topic, &partitions, ms)).await {
        match listed {
            Ok(listed) => {
                if let Some(span) = bounds.spans.get_mut(&of.partition) {
                    // There may be none.
                    let offset = if listed.offset < 0 { span.end } else { listed.offset };
                    span.start = offset.clamp(span.start, span.end);
                }
            }
            Err(error) => {
                bounds.spans.remove(&of.partition);
                bounds.problems.insert(of.partition, error.to_string());
            }
        }
    }
}

fn wanted(topic: &str, partitions: &[i32], timestamp: i64) -> BTreeMap<TopicPartition, i64> {
    partitions.iter().map(|partition| (TopicPartition::new(topic, *partition), timestamp)).collect()
}
