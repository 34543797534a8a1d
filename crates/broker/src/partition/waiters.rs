//! Fetches that wait for bytes. A wait is a counter: appends take from it, and it wakes its fetch once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Partition;

/// One parked fetch, registered with each partition that it reads.
pub struct FetchWait {
    missing_bytes: AtomicI64,
    notify: Notify,
}

impl FetchWait {
    pub fn new(missing_bytes: i64) -> Arc<Self> {
        Arc::new(Self { missing_bytes: AtomicI64::new(missing_bytes), notify: Notify::new() })
    }

    /// Until enough bytes were appended, or something else happened that the fetch must see.
    pub async fn wait(&self) {
        self.notify.notified().await;
    }

    fn add(&self, bytes: i64) {
        if self.missing_bytes.fetch_sub(bytes, Ordering::AcqRel) <= bytes {
            self.notify.notify_one();
        }
    }
}

/// The fetches that wait at one partition.
#[derive(Default)]
pub struct Waiters {
    waits: Mutex<Vec<Arc<FetchWait>>>,
}

impl Waiters {
    /// Tells the waiting fetches of appended bytes.
    pub fn add(&self, bytes: i64) {
        for wait in self.waits.lock().iter() {
            wait.add(bytes);
        }
    }

    /// Wakes all, for a change that is not an append: truncation, a new leader, deletion.
    pub fn wake_all(&self) {
        for wait in self.waits.lock().iter() {
            wait.notify.notify_one();
        }
    }
}

/// Keeps a wait registered with its partitions until it is dropped.
pub struct Registration {
    wait: Arc<FetchWait>,
    partitions: Vec<Arc<Partition>>,
}

impl Registration {
    /// Bytes appended after this call are counted. The caller reads once more, since some may have come before it.
    pub fn new(wait: &Arc<FetchWait>, partitions: Vec<Arc<Partition>>) -> Self {
        for partition in &partitions {
            partition.waiters.waits.lock().push(Arc::clone(wait));
        }
        Self { wait: Arc::clone(wait), partitions }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        for partition in &self.partitions {
            let mut waits = partition.waiters.waits.lock();
            if let Some(index) = waits.iter().position(|wait| Arc::ptr_eq(wait, &self.wait)) {
                waits.swap_remove(index);
            }
        }
    }
}
