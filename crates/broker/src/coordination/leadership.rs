//! Has a coordinator serve the partitions of its topic that this node leads, and no others.

use std::sync::Arc;
use std::time::Duration;

use coordinator::group::GroupCoordinator;
use coordinator::topic_log::BoxFuture;
use coordinator::txn::TransactionCoordinator;
use metadata::{Applied, MetadataDelta, MetadataImage, TopicChange};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::sleep;
use wire::ErrorCode;

use super::internal_topic::InternalTopic;

/// How long after a partition could not be read that is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Who keeps its state in an internal topic.
pub(super) trait Coordinator: Send + Sync + 'static {
    /// Serves a partition from now on, when its state is read. From this call on requests get
    /// COORDINATOR_LOAD_IN_PROGRESS, and no earlier write is done any more.
    fn load(self: Arc<Self>, partition: i32, leader_epoch: i32) -> BoxFuture<Result<(), ErrorCode>>;

    fn unload(&self, partition: i32);
}

impl Coordinator for GroupCoordinator {
    fn load(self: Arc<Self>, partition: i32, _: i32) -> BoxFuture<Result<(), ErrorCode>> {
        Box::pin(GroupCoordinator::load(&self, partition))
    }

    fn unload(&self, partition: i32) {
        Self::unload(self, partition);
    }
}

impl Coordinator for TransactionCoordinator {
    fn load(self: Arc<Self>, partition: i32, leader_epoch: i32) -> BoxFuture<Result<(), ErrorCode>> {
        Box::pin(TransactionCoordinator::load(&self, partition, leader_epoch))
    }

    fn unload(&self, partition: i32) {
        Self::unload(self, partition);
    }
}

/// To be subscribed to the metadata behind the partition table, whose roles it reads.
pub(crate) struct LeadershipFollower<C> {
    coordinator: Arc<C>,
    topic: Arc<InternalTopic>,
    runtime: Handle,
    /// One look at the roles at a time, or an older one might have the last word.
    looking: Arc<Mutex<()>>,
}

impl<C: Coordinator> LeadershipFollower<C> {
    pub(super) fn new(coordinator: &Arc<C>, topic: &Arc<InternalTopic>, runtime: &Handle) -> Arc<Self> {
        let (coordinator, topic) = (Arc::clone(coordinator), Arc::clone(topic));
        Arc::new(Self { coordinator, topic, runtime: runtime.clone(), looking: Arc::default() })
    }

    /// Loads and unloads as this node leads now.
    pub(crate) fn follow_leadership(&self, image: &MetadataImage) {
        let _looking = self.looking.lock();
        let count = image.topic(self.topic.name).map_or(0, |topic| topic.partitions.len() as i32);
        for partition in 0..count {
            let found = self.topic.partitions.find_by_name(self.topic.name, partition).ok();
            let led_in = found.filter(|partition| partition.is_leader()).map(|partition| partition.leader_epoch());
            self.serve(partition, led_in);
        }
    }

    /// Serves a partition as of a leader epoch, or not at all.
    fn serve(&self, partition: i32, led_in: Option<i32>) {
        let loaded_in = self.topic.loaded.lock().get(&partition).copied();
        if loaded_in == led_in {
            return;
        }
        let Some(leader_epoch) = led_in else {
            self.coordinator.unload(partition);
            self.topic.loaded.lock().remove(&partition);
            return;
        };
        let mut load = Arc::clone(&self.coordinator).load(partition, leader_epoch);
        self.topic.loaded.lock().insert(partition, leader_epoch);
        let (coordinator, topic, looking) =
            (Arc::clone(&self.coordinator), Arc::clone(&self.topic), Arc::clone(&self.looking));
        self.runtime.spawn(async move {
            let mut reported = None;
            loop {
                match load.await {
                    // It has lost the partition again.
                    Ok(()) | Err(ErrorCode::NOT_COORDINATOR | ErrorCode::NOT_LEADER_OR_FOLLOWER) => return,
                    // A disk that does not answer may do so again, and nobody else serves the partition.
                    Err(code) if reported.replace(code) != Some(code) => {
                        tracing::error!(topic = topic.name, partition, %code, "a coordinator cannot serve a partition");
                    }
                    Err(_) => {}
                }
                sleep(RETRY_INTERVAL).await;
                let _looking = looking.lock();
                if topic.loaded.lock().get(&partition) != Some(&leader_epoch) {
                    return;
                }
                load = Arc::clone(&coordinator).load(partition, leader_epoch);
            }
        });
    }
}

impl<C: Coordinator> Applied for LeadershipFollower<C> {
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        let is_own = |name: &str| name == self.topic.name;
        for topic in delta.deleted.iter().filter(|topic| is_own(&topic.name)) {
            let _looking = self.looking.lock();
            for partition in 0..topic.partitions.len() {
                self.serve(partition as i32, None);
            }
        }
        let concerns_topic = delta.created.iter().any(|topic| is_own(&topic.name))
            || delta.changed.iter().any(|change| is_own(&change.after.name));
        // The registration of this broker gives all partitions their roles.
        if concerns_topic || delta.brokers_changed {
            self.follow_leadership(image);
        }
    }
}

/// Reports changed and deleted topics to the group coordinator.
pub(super) struct ChangedTopics {
    pub(super) groups: Arc<GroupCoordinator>,
    pub(super) runtime: Handle,
}

/// Whether consumer groups look at what has changed of a topic: its partitions, and where they are.
fn concerns_consumers(change: &TopicChange) -> bool {
    let replicas = |topic: &metadata::Topic| {
        topic.partitions.iter().map(|partition| partition.replicas.clone()).collect::<Vec<_>>()
    };
    replicas(&change.before) != replicas(&change.after)
}

impl Applied for ChangedTopics {
    fn apply(&self, image: &Arc<MetadataImage>, delta: &MetadataDelta) {
        let deleted: Vec<_> = delta.deleted.iter().map(|topic| (topic.name.to_string(), topic.id)).collect();
        if !deleted.is_empty() {
            let _runtime = self.runtime.enter();
            self.groups.topics_deleted(&deleted);
        }
        let other = delta.created.iter().chain(&delta.deleted).map(|topic| topic.name.to_string());
        let changed = delta.changed.iter().filter(|change| concerns_consumers(change));
        let names: Vec<_> = other.chain(changed.map(|change| change.after.name.to_string())).collect();
        if !names.is_empty() {
            self.groups.topics_changed(image.offset(), &names, !delta.created.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_support::TestBroker;

    /// Loads as it is told, the last answer first, and then always.
    #[derive(Default)]
    struct Loader {
        answers: Mutex<Vec<Result<(), ErrorCode>>>,
        loaded_in: Mutex<Vec<i32>>,
    }

    impl Coordinator for Loader {
        fn load(self: Arc<Self>, _: i32, leader_epoch: i32) -> BoxFuture<Result<(), ErrorCode>> {
            self.loaded_in.lock().push(leader_epoch);
            let answer = self.answers.lock().pop().unwrap_or(Ok(()));
            Box::pin(async move { answer })
        }

        fn unload(&self, _: i32) {}
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_read_again_as_long_as_it_is_led() {
        let broker = TestBroker::start().await;
        let topic = Arc::new(InternalTopic::of(&broker, "state"));
        let loader = Arc::new(Loader::default());
        let follower = LeadershipFollower::new(&loader, &topic, &Handle::current());
        tokio::time::pause();
        let later = || sleep(5 * RETRY_INTERVAL);
        let stalled = Err(ErrorCode::KAFKA_STORAGE_ERROR);
        loader.answers.lock().extend([stalled; 2]);
        follower.serve(0, Some(3));
        later().await;
        assert_eq!(*loader.loaded_in.lock(), [3, 3, 3]);
        loader.answers.lock().extend([stalled; 2]);
        follower.serve(0, Some(4));
        sleep(RETRY_INTERVAL / 2).await;
        follower.serve(0, Some(5));
        later().await;
        assert_eq!(*loader.loaded_in.lock(), [3, 3, 3, 4, 5, 5], "each epoch for itself");
        loader.answers.lock().extend([stalled; 2]);
        follower.serve(0, Some(6));
        sleep(RETRY_INTERVAL / 2).await;
        follower.serve(0, None);
        loader.answers.lock().extend([Err(ErrorCode::NOT_LEADER_OR_FOLLOWER); 2]);
        follower.serve(0, Some(7));
        later().await;
        assert_eq!(*loader.loaded_in.lock(), [3, 3, 3, 4, 5, 5, 6, 7], "not what is led no more");
    }
}
