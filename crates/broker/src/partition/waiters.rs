//! Fetches that wait for bytes. A wait is a counter: appends take from it, and it wakes its fetch once.
//!
//! Followers wait for what is appended, consumers for what is replicated too. That the high watermark has moved is news
//! for a follower, but not urgent: the next records will most likely carry it, so the news waits a moment for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::timeout;

use super::Partition;

/// How long news waits for records that would carry it. A partition that is written to often tells it by the way; one
/// that is written to now and then costs one answer more for each time.
const NEWS_LINGER: Duration = Duration::from_millis(5);

/// Who fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Consumer,
    Follower,
}

/// One parked fetch, registered with each partition that it reads.
pub struct FetchWait {
    reader: Reader,
    missing_bytes: AtomicI64,
    urgent: Notify,
    news: Notify,
}

impl FetchWait {
    pub fn new(reader: Reader, missing_bytes: i64) -> Arc<Self> {
        let missing_bytes = AtomicI64::new(missing_bytes);
        Arc::new(Self { reader, missing_bytes, urgent: Notify::new(), news: Notify::new() })
    }

    /// Until enough bytes were appended, or something else happened that the fetch must see.
    pub async fn wait(&self) {
        tokio::select! {
            // In this order always, so that a simulation repeats itself.
            biased;
            () = self.urgent.notified() => {}
            () = self.news.notified() => {
                let _ = timeout(NEWS_LINGER, self.urgent.notified()).await;
            }
        }
    }

    /// There is something to tell which need not be told at once.
    pub fn note_news(&self) {
        self.news.notify_one();
    }

    fn add(&self, bytes: i64) {
        if self.missing_bytes.fetch_sub(bytes, Ordering::AcqRel) <= bytes {
            self.urgent.notify_one();
        }
    }
}

/// The fetches that wait at one partition.
#[derive(Default)]
pub struct Waiters {
    waits: Mutex<Vec<Arc<FetchWait>>>,
    /// For those who wait until all replicas have deleted something.
    low_watermark: Notify,
}

impl Waiters {
    /// Tells the waiting fetches of bytes that were appended and are replicated by that.
    pub fn add(&self, bytes: i64) {
        for wait in self.waits.lock().iter() {
            wait.add(bytes);
        }
    }

    /// Tells followers of appended bytes; at once, if they have to bring them to their disks.
    pub fn appended(&self, bytes: i64, is_urgent: bool) {
        for wait in self.waits.lock().iter().filter(|wait| wait.reader == Reader::Follower) {
            if is_urgent {
                wait.urgent.notify_one();
            } else {
                wait.add(bytes);
            }
        }
    }

    /// Tells consumers of bytes that they may read now, and followers that the high watermark has moved.
    pub fn replicated(&self, bytes: i64) {
        for wait in self.waits.lock().iter() {
            match wait.reader {
                Reader::Consumer => wait.add(bytes),
                Reader::Follower => wait.note_news(),
            }
        }
    }

    /// The next move of the low watermark, or anything else that [`Waiters::wake_all`] is called for.
    pub fn low_watermark_moved(&self) -> Notified<'_> {
        self.low_watermark.notified()
    }

    pub fn note_low_watermark(&self) {
        self.low_watermark.notify_waiters();
    }

    /// Wakes all, for a change that is not an append: truncation, a new leader, deletion.
    pub fn wake_all(&self) {
        self.note_low_watermark();
        for wait in self.waits.lock().iter() {
            wait.urgent.notify_one();
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
