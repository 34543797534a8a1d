//! Partitions as a command line names them, and what became of each.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use client::{ByPartition, Client, TopicPartition};

use super::failure::{self, Usage};

/// The partitions of `orders` or `orders:0,2`.
pub(crate) async fn named(client: &Client, topics: &[String]) -> Result<BTreeSet<TopicPartition>> {
    let mut partitions = BTreeSet::new();
    for topic in topics {
        let (name, numbers) = match topic.split_once(':') {
            Some((name, numbers)) => (name, Some(numbers)),
            None => (topic.as_str(), None),
        };
        let metadata = client.existing(&[name]).await?;
        match numbers {
            None => {
                let known = &metadata.topic(name)?.partitions;
                partitions.extend(known.iter().map(|partition| TopicPartition::new(name, partition.index)));
            }
            Some(numbers) => {
                for number in numbers.split(',') {
                    let number = number.trim();
                    let wrong = || Usage(format!("{number:?} is not the number of a partition"));
                    let partition = TopicPartition::new(name, number.parse().map_err(|_| wrong())?);
                    metadata.leader(&partition)?;
                    partitions.insert(partition);
                }
            }
        }
    }
    Ok(partitions)
}

/// `orders:0,1;payments:2`, or a dash.
pub(crate) fn by_topic(partitions: &[TopicPartition]) -> String {
    let mut topics = BTreeMap::<&str, Vec<String>>::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition.to_string());
    }
    match topics.is_empty() {
        true => "-".to_owned(),
        false => topics.iter().map(|(topic, p)| format!("{topic}:{}", p.join(","))).collect::<Vec<_>>().join(";"),
    }
}

/// What was done to each partition, in lines that `line` makes; what failed becomes the error.
pub(crate) fn outcome<T>(results: ByPartition<T>, line: impl Fn(&TopicPartition, T) -> String) -> (String, Result<()>) {
    let (mut text, mut failed) = (String::new(), Vec::new());
    for (partition, result) in results {
        match result {
            Ok(done) => text.push_str(&line(&partition, done)),
            Err(error) => failed.push(error),
        }
    }
    (text, failure::all(failed))
}
