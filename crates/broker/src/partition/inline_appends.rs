//! How many threads of the runtime may block in writes to the disk.
//!
//! A write into the page cache takes microseconds, which is less than it takes to hand it to another thread. But when
//! the disk stalls, or the kernel throttles a writer, it takes as long as that lasts. So connections and fetchers
//! append by themselves, but never so many at a time that no thread is left for other work. Partitions that come when
//! all permits are taken are appended by a holder of a permit, after its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::Partition;

/// Partitions of others that one thread appends, before it leaves them to the threads that sync.
const OTHERS_MAX: usize = 64;

/// The permits of a process, and the partitions that wait for one.
pub struct InlineAppends {
    permits_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    waiting: VecDeque<Arc<Partition>>,
}

/// A permit to write on a thread of the runtime. When it is given back, what waits is appended.
pub struct Permit<'a>(&'a InlineAppends);

impl InlineAppends {
    /// For a runtime of so many threads, of which one is always left.
    pub fn new(threads: usize) -> Self {
        Self { permits_max: threads.saturating_sub(1).max(1), state: Mutex::default() }
    }

    /// A permit to write now, if there is one.
    pub fn begin(&self) -> Option<Permit<'_>> {
        let mut state = self.state.lock();
        (state.taken < self.permits_max).then(|| {
            state.taken += 1;
            Permit(self)
        })
    }

    /// Has what is queued with a partition appended: here and now, or by a thread that writes already.
    pub(super) fn append(&self, partition: &Arc<Partition>) {
        let mut state = self.state.lock();
        if state.taken == self.permits_max {
            if !partition.waits_to_append.swap(true, Ordering::AcqRel) {
                state.waiting.push_back(Arc::clone(partition));
            }
            return;
        }
        state.taken += 1;
        drop(state);
        let _permit = Permit(self);
        partition.append_queued();
    }

    /// The next partition that waits. Where there is none, the permit is given back.
    fn next(&self) -> Option<Arc<Partition>> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        match &next {
            // What is queued from now on makes it wait again.
            Some(partition) => partition.waits_to_append.store(false, Ordering::Release),
            None => state.taken -= 1,
        }
        next
    }
}

impl Default for InlineAppends {
    /// Where there is no runtime whose threads could be too few.
    fn default() -> Self {
        Self { permits_max: usize::MAX, state: Mutex::default() }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut appended = 0;
        while let Some(partition) = self.0.next() {
            if appended < OTHERS_MAX && !std::thread::panicking() {
                partition.append_queued();
                appended += 1;
            } else {
                partition.request_sync([]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_always_left() {
        for (threads, permits) in [(1, 1), (2, 1), (8, 7)] {
            let appends = InlineAppends::new(threads);
            let taken: Vec<_> = (0..permits).map(|_| appends.begin()).collect();
            assert!(taken.iter().all(Option::is_some) && appends.begin().is_none());
            drop(taken);
            assert!(appends.begin().is_some());
        }
    }
}
