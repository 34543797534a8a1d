//! Partitions as requests name them, and as answers are looked up.

use std::collections::BTreeMap;

use crate::{ClientError, TopicPartition};

/// What was found out about each partition, or done with it.
pub type ByPartition<T> = BTreeMap<TopicPartition, Result<T, ClientError>>;

/// Partitions as requests name them: by topic, each with what belongs to it.
pub(crate) fn by_topic<'a, T>(
    partitions: impl IntoIterator<Item = (&'a TopicPartition, T)>,
) -> BTreeMap<&'a str, Vec<(i32, T)>> {
    let mut topics = BTreeMap::<_, Vec<_>>::new();
    for (partition, of_it) in partitions {
        topics.entry(partition.topic.as_str()).or_default().push((partition.partition, of_it));
    }
    topics
}
