//! Bounds on what moves send and fetch, set and taken away as Kafka's tool does it (`ReassignPartitionsCommand`).

use std::collections::{BTreeMap, BTreeSet};

use client::{Client, ClientError, Resource};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::time::timeout;

use super::plan::Plan;
use crate::snapshot::Snapshot;

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
pub(crate) const LEADER_REPLICAS: &str = "leader.replication.throttled.replicas";
pub(crate) const FOLLOWER_REPLICAS: &str = "follower.replication.throttled.replicas";
/// Requests that change settings at the same time.
const REQUESTS_AT_ONCE: usize = 8;

/// Whom a bound holds for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub brokers: BTreeSet<i32>,
    /// By topic: what its leaders send, and what its new replicas fetch, as `partition:broker`.
    pub topics: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>,
}

impl Throttle {
    /// For what is under way and what a plan adds to it.
    pub(crate) fn new(snapshot: &Snapshot, plan: &Plan) -> Self {
        let mut throttle = Self::default();
        for (of, reassignment) in &snapshot.reassignments {
            let is_new = |id: &&i32| reassignment.adding.contains(id);
            let sources: Vec<_> = reassignment.replicas.iter().filter(|id| !is_new(id)).copied().collect();
            throttle.add(&of.topic, of.partition, &sources, &reassignment.adding);
        }
        for (of, then) in &plan.moves {
            let Some(partition) = snapshot.partition(of) else { continue };
            let added: Vec<_> = then.iter().filter(|id| !partition.replicas.contains(id)).copied().collect();
            throttle.add(&of.topic, of.partition, &partition.replicas, &added);
        }
        throttle
    }

    fn add(&mut self, topic: &str, partition: i32, sources: &[i32], added: &[i32]) {
        if added.is_empty() {
            return;
        }
        self.brokers.extend(sources.iter().chain(added));
        let (leaders, followers) = self.topics.entry(topic.to_owned()).or_default();
        leaders.extend(sources.iter().map(|id| format!("{partition}:{id}")));
        followers.extend(added.iter().map(|id| format!("{partition}:{id}")));
    }

    /// Brokers that are down are left out: they send and fetch nothing.
    pub(crate) async fn set(&self, client: &Client, snapshot: &Snapshot, rate_bytes: i64) -> Result<(), ClientError> {
        let rate = rate_bytes.to_string();
        let rates = [LEADER_RATE, FOLLOWER_RATE].map(|name| (name.to_owned(), rate.clone()));
        let brokers = self.brokers.iter().filter(|id| snapshot.is_alive(**id));
        let of_brokers = brokers.map(|id| (Resource::broker(*id), rates.to_vec()));
        let listed = |replicas: &BTreeSet<String>| replicas.iter().cloned().collect::<Vec<_>>().join(",");
        let of_topics = self.topics.iter().map(|(topic, (leaders, followers))| {
            let set =
                vec![(LEADER_REPLICAS.to_owned(), listed(leaders)), (FOLLOWER_REPLICAS.to_owned(), listed(followers))];
            (Resource::topic(topic), set)
        });
        let changes = of_brokers
            .chain(of_topics)
            .map(|(resource, set)| async move { client.alter_configs(&resource, &set, &[], false).await });
        stream::iter(changes.collect::<Vec<_>>()).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
    }
}

/// By broker that runs: the bound that is set there now, in bytes per second.
pub(crate) async fn throttle_rates(client: &Client, snapshot: &Snapshot) -> BTreeMap<i32, i64> {
    let brokers = snapshot.brokers.values().filter(|broker| broker.is_alive);
    let brokers: Vec<_> = brokers.map(|broker| Resource::broker(broker.id)).collect();
    let names = [LEADER_RATE, FOLLOWER_RATE].map(str::to_owned);
    let asked = timeout(client.config().patience, client.describe_configs_named(&brokers, &names));
    let rates = asked.await.unwrap_or_default().into_iter().filter_map(|(resource, entries)| {
        let own = entries.ok()?.into_iter().filter(|entry| entry.source == resource.own_source());
        let lowest = own.filter_map(|entry| entry.value?.parse::<i64>().ok()).min()?;
        Some((resource.name.parse().ok()?, lowest))
    });
    rates.collect()
}

/// Takes all bounds away, from brokers and topics, as `--verify` of Kafka's tool does when nothing moves any more.
pub(crate) async fn remove_throttles(client: &Client, snapshot: &Snapshot) -> Result<(), ClientError> {
    let brokers = throttle_rates(client, snapshot).await.into_keys().map(Resource::broker);
    let brokers = brokers.map(|broker| (broker, [LEADER_RATE, FOLLOWER_RATE].map(str::to_owned)));
    let topics: Vec<_> = snapshot.topics.keys().map(|topic| Resource::topic(topic)).collect();
    let names = [LEADER_REPLICAS, FOLLOWER_REPLICAS].map(str::to_owned);
    let described = client.describe_configs_named(&topics, &names).await;
    let throttled = described.into_iter().filter(|(topic, entries)| {
        let mut entries = entries.iter().flatten();
        entries.any(|entry| names.contains(&entry.name) && entry.source == topic.own_source())
    });
    let throttled = throttled.map(|(topic, _)| (topic, names.clone()));
    let changes = brokers
        .chain(throttled)
        .map(|(resource, names)| async move { client.alter_configs(&resource, &[], &names, false).await });
    stream::iter(changes.collect::<Vec<_>>()).buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// A bound as it is typed, in MiB per second; `None` where nothing was.
pub(crate) fn read_rate(text: &str) -> Result<Option<i64>, String> {
    const MOST_MIB: f64 = 1_000_000.0;
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let mib: f64 = text
        .parse()
        .ok()
        .filter(|mib| (0.001..=MOST_MIB).contains(mib))
        .ok_or_else(|| format!("the throttle is {text:?}: it takes a number of MiB per second, for example 20"))?;
    Ok(Some((mib * 1048576.0) as i64))
}

#[cfg(test)]
mod tests {
    use client::{Reassignment, TopicPartition};

    use super::super::plan::tests::snapshot;
    use super::*;

    #[test]
    fn those_who_had_it_send_and_new_ones_fetch() {
        let mut snapshot = snapshot();
        let reassignment = Reassignment { replicas: vec![4, 1, 2, 3], adding: vec![4], removing: vec![1] };
        snapshot.reassignments.insert(TopicPartition::new("t", 1), reassignment);
        let moves = BTreeMap::from([(TopicPartition::new("t", 0), vec![4, 2])]);
        let throttle = Throttle::new(&snapshot, &Plan { moves });
        let (leaders, followers) = &throttle.topics["t"];
        let listed = |replicas: &BTreeSet<String>| replicas.iter().cloned().collect::<Vec<_>>().join(",");
        assert_eq!((listed(leaders), listed(followers)), ("0:1,0:2,0:3,1:1,1:2,1:3".to_owned(), "0:4,1:4".to_owned()));
        assert_eq!(throttle.brokers, BTreeSet::from([1, 2, 3, 4]));
        // What copies nothing is not bound.
        snapshot.reassignments.clear();
        let moves = BTreeMap::from([(TopicPartition::new("t", 0), vec![2, 1, 3])]);
        assert_eq!(Throttle::new(&snapshot, &Plan { moves }), Throttle::default());
    }

    #[test]
    fn bounds_are_typed_in_mib() {
        assert_eq!(
            [read_rate(" "), read_rate("20"), read_rate("0.5")],
            [Ok(None), Ok(Some(20 << 20)), Ok(Some(1 << 19))]
        );
        assert!(["0", "-1", "x", "NaN", "inf"].iter().all(|text| read_rate(text).is_err()));
    }
}
