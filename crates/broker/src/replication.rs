//! Following leaders: a fetcher for each leader, and the changes of in-sync replicas that leaders propose.
//!
//! [`Replication`] watches the metadata and keeps one [`fetcher`] for each node that leads partitions which this node
//! follows. What a follower does with an answer is [`follow`]'s, without network or runtime. The leader's side of a
//! fetch is `api::fetch`; its changes of in-sync replicas go out through [`isr`]. Damaged batches come back from other
//! replicas by [`repair`].

mod fetcher;
pub(crate) mod follow;
pub mod isr;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use metadata::{Applied, MetadataCache, MetadataDelta, MetadataImage, Topic};
use parking_lot::Mutex;
use platform::Env;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use wire::Uuid;

use self::fetcher::{Assigned, Fetcher};
pub use self::repair::Repair;
use crate::partition::PartitionTable;
use crate::stream::Dialer;

/// A partition, by the id of its topic.
pub type Key = (Uuid, i32);

/// Keeps a fetcher for each leader. To be subscribed to the metadata behind the partition table, whose roles it reads.
pub struct Replication {
    env: Env,
    dialer: Dialer,
    config: Arc<ArcSwap<BrokerConfig>>,
    metadata: Arc<MetadataCache>,
    partitions: Arc<PartitionTable>,
    runtime: Handle,
    leaders: Mutex<Leaders>,
}

#[derive(Default)]
struct Leaders {
    /// The leader that each partition is fetched from.
    of: BTreeMap<Key, i32>,
    fetchers: BTreeMap<i32, Running>,
    is_stopped: bool,
}

struct Running {
    assigned: Arc<Assigned>,
    task: JoinHandle<()>,
}

impl Replication {
    /// Fetches nothing before the first image, or [`Replication::follow_all`].
    pub fn new(
        env: Env,
        dialer: Dialer,
        config: Arc<ArcSwap<BrokerConfig>>,
        metadata: Arc<MetadataCache>,
        partitions: Arc<PartitionTable>,
        runtime: Handle,
    ) -> Arc<Self> {
        Arc::new(Self { env, dialer, config, metadata, partitions, runtime, leaders: Mutex::default() })
    }

    /// Takes over the roles of all partitions of an image.
    pub fn follow_all(&self, image: &MetadataImage) {
        let mut leaders = self.leaders.lock();
        for topic in image.topics() {
            for index in 0..topic.partitions.len() {
                self.follow(&mut leaders, topic, index);
            }
        }
        leaders.settle();
    }

    /// Ends all fetchers.
    pub fn stop(&self) {
        let mut leaders = self.leaders.lock();
        leaders.is_stopped = true;
        leaders.of.clear();
        for (_, running) in std::mem::take(&mut leaders.fetchers) {
            running.task.abort();
        }
    }

    /// Has a partition fetched from the leader that it follows, or not at all.
    fn follow(&self, leaders: &mut Leaders, topic: &Topic, index: usize) {
        let Ok(number) = i32::try_from(index) else { return };
        let key = (topic.id, number);
        let partition = self.partitions.find_by_id(topic.id, number).ok();
        let leader = partition.as_ref().and_then(|partition| partition.followed_leader());
        if leaders.of.get(&key).copied() != leader {
            leaders.forget(key);
        }
        let (Some(partition), Some(leader), false) = (partition, leader, leaders.is_stopped) else { return };
        leaders.of.insert(key, leader);
        let running = leaders.fetchers.entry(leader).or_insert_with(|| self.start(leader));
        running.assigned.insert(key, partition);
    }

    fn start(&self, leader: i32) -> Running {
        let assigned = Arc::new(Assigned::default());
        let fetcher = Fetcher::new(
            (leader, self.dialer.clone()),
            self.env.clone(),
            Arc::clone(&self.config),
            Arc::clone(&self.metadata),
            Arc::clone(self.partitions.follower_quota()),
            Arc::clone(self.partitions.inline_appends()),
            Arc::clone(&assigned),
        );
        Running { assigned, task: self.runtime.spawn(fetcher.run()) }
    }
}

impl Leaders {
    fn forget(&mut self, key: Key) {
        if let Some(leader) = self.of.remove(&key)
            && let Some(running) = self.fetchers.get(&leader)
        {
            running.assigned.remove(&key);
        }
    }

    /// Ends the fetchers that have nothing to fetch any more.
    fn settle(&mut self) {
        let idle: Vec<i32> =
            self.fetchers.iter().filter(|(_, running)| running.assigned.is_empty()).map(|(&id, _)| id).collect();
        for id in idle {
            if let Some(running) = self.fetchers.remove(&id) {
                running.task.abort();
            }
        }
    }
}

impl Applied for Replication {
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        // The registration of this broker gives all partitions their roles.
        if delta.brokers_changed {
            self.follow_all(image);
        }
        let mut leaders = self.leaders.lock();
        for topic in &delta.deleted {
            for index in 0..topic.partitions.len() as i32 {
                leaders.forget((topic.id, index));
            }
        }
        for topic in &delta.created {
            for index in 0..topic.partitions.len() {
                self.follow(&mut leaders, topic, index);
            }
        }
        for change in &delta.changed {
            for (index, partition) in change.after.partitions.iter().enumerate() {
                if change.before.partitions.get(index) != Some(partition) {
                    self.follow(&mut leaders, &change.after, index);
                }
            }
        }
        leaders.settle();
    }
}
