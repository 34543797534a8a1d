//! The partitions of a transaction.

use std::collections::{BTreeMap, BTreeSet};

/// Partitions by topic. No topic is there without partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partitions(BTreeMap<String, BTreeSet<i32>>);

impl Partitions {
    pub fn insert(&mut self, topic: &str, partition: i32) {
        match self.0.get_mut(topic) {
            Some(partitions) => _ = partitions.insert(partition),
            None => _ = self.0.insert(topic.to_owned(), BTreeSet::from([partition])),
        }
    }

    pub fn extend(&mut self, others: &Self) {
        for (topic, partition) in others.iter() {
            self.insert(topic, partition);
        }
    }

    pub fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.0.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.0.remove(topic);
            }
        }
    }

    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        self.0.get(topic).is_some_and(|partitions| partitions.contains(&partition))
    }

    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|(topic, partition)| self.contains(topic, partition))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.topics().flat_map(|(topic, partitions)| partitions.iter().map(move |partition| (topic, *partition)))
    }

    pub fn topics(&self) -> impl Iterator<Item = (&str, &BTreeSet<i32>)> {
        self.0.iter().map(|(topic, partitions)| (topic.as_str(), partitions))
    }

    /// Estimate of the memory that they take.
    pub fn size_bytes(&self) -> usize {
        const TOPIC_BYTES: usize = 150;
        const PARTITION_BYTES: usize = 16;
        self.0.iter().map(|(topic, partitions)| TOPIC_BYTES + topic.len() + PARTITION_BYTES * partitions.len()).sum()
    }
}

impl<'a> FromIterator<(&'a str, i32)> for Partitions {
    fn from_iter<I: IntoIterator<Item = (&'a str, i32)>>(partitions: I) -> Self {
        let mut all = Self::default();
        for (topic, partition) in partitions {
            all.insert(topic, partition);
        }
        all
    }
}
