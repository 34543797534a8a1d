//! A queue of partitions for a background task.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Partition;

/// Any number of threads push partitions, one task takes them.
#[derive(Default)]
pub struct PartitionQueue {
    partitions: Mutex<Vec<Arc<Partition>>>,
    news: Notify,
}

impl PartitionQueue {
    pub(super) fn push(&self, partition: Arc<Partition>) {
        self.partitions.lock().push(partition);
        self.news.notify_one();
    }

    /// Takes them all; a partition that was pushed twice is there twice.
    pub fn take(&self) -> Vec<Arc<Partition>> {
        std::mem::take(&mut *self.partitions.lock())
    }

    /// Waits until there may be some.
    pub async fn wait(&self) {
        self.news.notified().await;
    }
}
