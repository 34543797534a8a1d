//! Fetches that wait for bytes. A wait is a counter: appends take from it, and it wakes its fetch once.
//!
//! Followers wait for what is appended, consumers for what is replicated too, or for what no open transaction holds
//! back either. That the high watermark has moved is news for a follower, but not urgent: the next records will most
//! likely carry it, so the news waits a moment for them.
//!
//! A wait that has been woken is not looked at again, and only [`PATIENT_MAX`] waits at one partition may want more
//! than a byte, so that an append looks at no more than these and the ones that it wakes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::timeout;

use super::Partition;

/// How long a new high watermark waits for records that would carry it. A partition with frequent writes needs no extra
/// answer; one with rare writes costs one answer more for each.
const NEWS_LINGER: Duration = Duration::from_millis(5);
/// How many waits at one partition may go on after an append. Further ones end with the first byte.
const PATIENT_MAX: usize = 1_000;

/// The kind of the fetching client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Consumer,
    /// One that reads up to the last stable offset.
    CommittedConsumer,
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
            // Always in this order, so that a simulation is reproducible.
            biased;
            () = self.urgent.notified() => {}
            () = self.news.notified() => {
                let _ = timeout(NEWS_LINGER, self.urgent.notified()).await;
            }
        }
    }

    /// There is news that is not urgent.
    pub fn notify_news(&self) {
        self.news.notify_one();
    }

    /// Takes bytes that came. Returns whether it waits on.
    fn add(&self, bytes: i64) -> bool {
        let waits_on = self.missing_bytes.fetch_sub(bytes, Ordering::AcqRel) > bytes;
        if !waits_on {
            self.urgent.notify_one();
        }
        waits_on
    }
}

/// The fetches that wait at one partition.
#[derive(Default)]
pub struct Waiters {
    waits: Mutex<Waits>,
    /// The last stable offset that was told last.
    last_stable_offset: AtomicI64,
    /// Bytes that were replicated since.
    unstable_bytes: AtomicI64,
    /// For requests that wait until all replicas have deleted something.
    low_watermark: Notify,
}

/// In the order in which they came, each under a number of its own.
#[derive(Default)]
struct Waits {
    waiting: BTreeMap<u64, Arc<FetchWait>>,
    last_number: u64,
}

impl Waiters {
    /// Notifies waiting fetches of bytes that were appended and are replicated by that.
    pub fn add(&self, bytes: i64, last_stable_offset: i64) {
        let stable_bytes = self.take_stable(bytes, last_stable_offset);
        self.notify_each(|wait| match wait.reader {
            Reader::Consumer | Reader::Follower => wait.add(bytes),
            Reader::CommittedConsumer => wait.add(stable_bytes),
        });
    }

    /// Counts replicated bytes. Returns those that have become stable, all if some have.
    fn take_stable(&self, bytes: i64, last_stable_offset: i64) -> i64 {
        self.unstable_bytes.fetch_add(bytes, Ordering::AcqRel);
        if self.last_stable_offset.swap(last_stable_offset, Ordering::AcqRel) == last_stable_offset {
            return 0;
        }
        self.unstable_bytes.swap(0, Ordering::AcqRel)
    }

    /// Notifies followers of appended bytes; at once, if they have to sync them.
    pub fn appended(&self, bytes: i64, is_urgent: bool) {
        self.notify_each(|wait| match wait.reader {
            Reader::Consumer | Reader::CommittedConsumer => true,
            Reader::Follower if is_urgent => {
                wait.urgent.notify_one();
                false
            }
            Reader::Follower => wait.add(bytes),
        });
    }

    /// Notifies consumers of bytes that they may read now, and followers that the high watermark has moved.
    pub fn replicated(&self, bytes: i64, last_stable_offset: i64) {
        let stable_bytes = self.take_stable(bytes, last_stable_offset);
        self.notify_each(|wait| match wait.reader {
            Reader::Consumer => wait.add(bytes),
            Reader::CommittedConsumer => wait.add(stable_bytes),
            Reader::Follower => {
                wait.notify_news();
                true
            }
        });
    }

    /// Keeps the waits that go on.
    fn notify_each(&self, mut waits_on: impl FnMut(&FetchWait) -> bool) {
        self.waits.lock().waiting.retain(|_, wait| waits_on(wait));
    }

    fn register(&self, wait: &Arc<FetchWait>) -> u64 {
        let mut waits = self.waits.lock();
        if waits.waiting.len() >= PATIENT_MAX {
            wait.missing_bytes.fetch_min(1, Ordering::AcqRel);
        }
        waits.last_number += 1;
        let number = waits.last_number;
        waits.waiting.insert(number, Arc::clone(wait));
        number
    }

    /// The next move of the low watermark, or anything else that [`Waiters::wake_all`] is called for.
    pub fn low_watermark_moved(&self) -> Notified<'_> {
        self.low_watermark.notified()
    }

    pub fn notify_low_watermark(&self) {
        self.low_watermark.notify_waiters();
    }

    /// Wakes all, for a change that is not an append: truncation, a new leader, deletion.
    pub fn wake_all(&self) {
        self.notify_low_watermark();
        self.notify_each(|wait| {
            wait.urgent.notify_one();
            false
        });
    }
}

/// Keeps a wait registered with its partitions until it is dropped.
pub struct Registration(Vec<(Arc<Partition>, u64)>);

impl Registration {
    /// Bytes appended after this call are counted. The caller reads once more, since some may have come before it.
    pub fn new(wait: &Arc<FetchWait>, partitions: Vec<Arc<Partition>>) -> Self {
        let register = |partition: Arc<Partition>| {
            let number = partition.waiters.register(wait);
            (partition, number)
        };
        Self(partitions.into_iter().map(register).collect())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        for (partition, number) in &self.0 {
            partition.waiters.waits.lock().waiting.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(waiters: &Waiters) -> usize {
        waiters.waits.lock().waiting.len()
    }

    fn is_woken(wait: &FetchWait) -> bool {
        let mut woken = std::pin::pin!(wait.urgent.notified());
        woken.as_mut().enable()
    }

    #[test]
    fn an_append_looks_at_those_that_wait_on_and_no_others() {
        let waiters = Waiters::default();
        let waits: Vec<_> = (1..=3).map(|bytes| FetchWait::new(Reader::Consumer, bytes * 100)).collect();
        waits.iter().for_each(|wait| _ = waiters.register(wait));
        waiters.appended(1000, true);
        assert_eq!(left(&waiters), 3, "that is for followers");
        waiters.add(199, 2);
        assert_eq!((left(&waiters), waits.iter().map(|wait| is_woken(wait)).collect()), (2, vec![true, false, false]));
        waiters.replicated(1, 3);
        assert_eq!((left(&waiters), is_woken(&waits[1]), is_woken(&waits[2])), (1, true, false));
        waiters.wake_all();
        assert_eq!((left(&waiters), is_woken(&waits[2])), (0, true));
    }

    #[test]
    fn of_very_many_waits_most_are_over_with_the_first_byte() {
        let waiters = Waiters::default();
        for _ in 0..10 * PATIENT_MAX {
            waiters.register(&FetchWait::new(Reader::Consumer, i64::MAX));
        }
        waiters.add(1, 1);
        assert_eq!(left(&waiters), PATIENT_MAX);
    }

    #[test]
    fn what_an_open_transaction_holds_back_wakes_nobody_who_may_not_read_it() {
        let waiters = Waiters::default();
        let [all, committed] = [Reader::Consumer, Reader::CommittedConsumer].map(|reader| FetchWait::new(reader, 150));
        waiters.register(&all);
        waiters.register(&committed);
        waiters.add(100, 0);
        waiters.replicated(100, 0);
        assert_eq!((left(&waiters), is_woken(&all), is_woken(&committed)), (1, true, false));
        // Its marker.
        waiters.replicated(1, 21);
        assert_eq!((left(&waiters), is_woken(&committed)), (0, true));
    }

    #[test]
    fn news_leaves_a_follower_waiting() {
        let waiters = Waiters::default();
        let wait = FetchWait::new(Reader::Follower, 10);
        waiters.register(&wait);
        waiters.replicated(100, 1);
        assert_eq!((left(&waiters), is_woken(&wait)), (1, false));
        waiters.appended(1, true);
        assert_eq!((left(&waiters), is_woken(&wait)), (0, true));
    }
}
