//! Group commit: threads that bring appended bytes to the disk, and the acknowledgements that wait for it.
//!
//! What is acknowledged only from the disk is also appended here: everything that gathers while one `fdatasync` runs
//! goes out with one write and shares the next. A partition is in the queue at most once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::panics;
use wire::ErrorCode;

use super::acknowledgements::{self, Acknowledgements, Until, Waiting};
use super::role::Progress;
use super::{Partition, ProduceCompletion, ProduceOutcome, ProduceTimings};

/// Threads that do nothing but wait for the disk. Many, since a journaling file system makes one commit of the syncs
/// that are under way at the same time.
const THREADS: usize = 8;
/// How many of them may be busy with syncs that no request waits for, which can be large.
const BACKGROUND_THREADS: usize = 4;
/// How long a partition gathers appends that came while it was being synced. A sync costs the same CPU for one batch as
/// for ten, so fewer of them leave more for others; a client with one request at a time never waits.
const GATHER: Duration = Duration::from_micros(500);

/// The queue of partitions to sync.
pub struct Syncer {
    queue: Mutex<Queue>,
    work: Condvar,
    /// The same for tasks instead of threads.
    #[cfg(test)]
    arrived: tokio::sync::Notify,
}

#[derive(Default)]
struct Queue {
    urgent: VecDeque<Arc<Partition>>,
    background: VecDeque<Arc<Partition>>,
    in_background: usize,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    /// A request waits.
    Urgent,
    Background,
}

impl Syncer {
    /// Starts the threads. They end, with the queue empty, after [`Syncer::close`].
    pub fn start() -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let syncer = Arc::new(Self::new());
        let threads = (0..THREADS).map(|n| {
            let syncer = Arc::clone(&syncer);
            let thread = panics::essential_thread(format!("sync-{n}"), move || syncer.run());
            thread.expect("the system has room for a thread at start")
        });
        let threads = threads.collect();
        (syncer, threads)
    }

    fn new() -> Self {
        Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            #[cfg(test)]
            arrived: tokio::sync::Notify::new(),
        }
    }

    /// One without threads, for tests that do its work in their own time.
    #[cfg(test)]
    pub fn idle() -> Arc<Self> {
        Arc::new(Self::new())
    }

    /// Syncs until nothing is left to sync.
    #[cfg(test)]
    pub fn run_pending(&self) {
        loop {
            let Some(work) = self.queue.lock().next() else { return };
            self.sync(work);
        }
    }

    /// Works as a thread does, in a task that a machine's disk keeps waiting.
    #[cfg(test)]
    pub(crate) async fn run_on(&self, machine: &crate::simulation::machine::Machine) {
        loop {
            let next = {
                let mut queue = self.queue.lock();
                let next = queue.next();
                if next.is_none() && queue.closed && queue.background.is_empty() {
                    return;
                }
                next
            };
            match next {
                Some(work) => {
                    machine.wait_for_disk().await;
                    self.sync(work);
                }
                None => self.arrived.notified().await,
            }
        }
    }

    #[cfg(test)]
    fn sync(&self, (partition, priority): (Arc<Partition>, Priority)) {
        let again = partition.sync_once();
        let mut queue = self.queue.lock();
        if priority == Priority::Background {
            queue.in_background -= 1;
        }
        if let Some(priority) = again {
            queue.of(priority).push_back(partition);
        }
    }

    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.work.notify_all();
        #[cfg(test)]
        self.arrived.notify_waiters();
    }

    fn push(&self, partition: Arc<Partition>, priority: Priority) {
        self.queue.lock().of(priority).push_back(partition);
        self.work.notify_one();
        #[cfg(test)]
        self.arrived.notify_one();
    }

    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let Some((partition, priority)) = queue.next() else {
                if queue.closed && queue.background.is_empty() {
                    return;
                }
                self.work.wait(&mut queue);
                continue;
            };
            drop(queue);
            let again = partition.sync_once();
            queue = self.queue.lock();
            if priority == Priority::Background {
                queue.in_background -= 1;
            }
            if let Some(priority) = again {
                queue.of(priority).push_back(partition);
            }
        }
    }
}

impl Queue {
    fn of(&mut self, priority: Priority) -> &mut VecDeque<Arc<Partition>> {
        match priority {
            Priority::Urgent => &mut self.urgent,
            Priority::Background => &mut self.background,
        }
    }

    fn next(&mut self) -> Option<(Arc<Partition>, Priority)> {
        if let Some(partition) = self.urgent.pop_front() {
            return Some((partition, Priority::Urgent));
        }
        if self.in_background == BACKGROUND_THREADS {
            return None;
        }
        let partition = self.background.pop_front()?;
        self.in_background += 1;
        Some((partition, Priority::Background))
    }
}

/// The state of one partition's syncs.
#[derive(Default)]
pub struct SyncState {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// In the queue, or being synced by a thread.
    scheduled: bool,
    /// Queued or appended since the sync that runs began, so that there is another one to do.
    again: bool,
    waiting: Acknowledgements,
}

impl Partition {
    /// Has everything that is queued or appended so far synced soon; `waiting` are answered then.
    pub fn request_sync(self: &Arc<Self>, waiting: impl IntoIterator<Item = Waiting>) {
        self.schedule_sync(waiting, Priority::Urgent);
    }

    /// The same for bytes that no request waits for.
    pub fn request_background_sync(self: &Arc<Self>) {
        self.schedule_sync([], Priority::Background);
    }

    fn schedule_sync(self: &Arc<Self>, waiting: impl IntoIterator<Item = Waiting>, priority: Priority) {
        let mut state = self.sync.inner.lock();
        waiting.into_iter().for_each(|waiting| state.waiting.add(waiting));
        if state.scheduled {
            state.again = true;
        } else {
            state.scheduled = true;
            drop(state);
            self.shared.syncer.push(Arc::clone(self), priority);
        }
    }

    /// Has all below an offset synced on all in-sync replicas, as far as the log goes. Returns a completion to wait
    /// for; `None` if it is synced, or if this node does not lead.
    ///
    /// Where fewer are in sync than `min.insync.replicas` wants, it ends with NOT_ENOUGH_REPLICAS_AFTER_APPEND when all
    /// that are have it.
    pub fn make_durable(self: &Arc<Self>, offset: i64) -> Option<Arc<ProduceCompletion>> {
        let offset = offset.min(self.view.log_end_offset());
        if offset <= self.durable_offset() || !self.is_leader() {
            return None;
        }
        let completion = Arc::new(ProduceCompletion::new(1));
        self.sync_wanted.fetch_max(offset, Ordering::AcqRel);
        self.waiters.appended(0, true);
        self.request_sync([Waiting {
            offset,
            until: Until::Durable,
            timings: ProduceTimings::appended(self.shared.env.clock.monotonic()),
            completion: Arc::clone(&completion),
            slot: 0,
            outcome: ProduceOutcome::Appended { base_offset: offset, log_append_time_ms: -1, log_start_offset: -1 },
        }]);
        // The replicas may have got there, or the leadership ended, before this was kept.
        match self.progress() {
            Some(progress) => self.answer_waiting(&progress),
            None => self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        }
        Some(completion)
    }

    /// Appends what is queued, syncs, answers what is on disk by it, and returns whether to do so again.
    fn sync_once(self: &Arc<Self>) -> Option<Priority> {
        let is_busy = self.sync.inner.lock().again;
        if is_busy {
            self.shared.env.clock.pause(GATHER);
        }
        self.append_queued();
        {
            let mut state = self.sync.inner.lock();
            // What was asked for until here is on disk by the sync below, except what was queued meanwhile: its caller
            // has requested a sync already, or is about to, and no other thread will.
            state.again = !self.queue.lock().is_empty();
        }
        let clock = &self.shared.env.clock;
        let began = clock.monotonic();
        let synced = self.view.sync();
        match synced {
            Ok(_) => {
                let now = clock.monotonic();
                self.shared.stats.syncs.observe(now.saturating_sub(began));
                let progress = self.record_synced();
                let synced_offset = self.view.synced_offset();
                let mut state = self.sync.inner.lock();
                state.waiting.record_synced(synced_offset, now);
                let settled = state.waiting.take_settled(progress.as_ref(), synced_offset);
                let again = state.again;
                // Requests that wait only for other replicas do not wait for this disk.
                let is_done = !state.waiting.want_more_than(synced_offset);
                state.scheduled = again;
                drop(state);
                acknowledgements::answer(settled, progress.as_ref(), now);
                let is_background = is_done && self.queue.lock().is_empty();
                again.then_some(if is_background { Priority::Background } else { Priority::Urgent })
            }
            Err(error) => {
                let failed = std::mem::take(&mut *self.sync.inner.lock());
                self.fail(&error);
                acknowledgements::refuse(failed.waiting.into_all(), ErrorCode::KAFKA_STORAGE_ERROR);
                // A request queued meanwhile relies on this thread.
                self.append_queued();
                None
            }
        }
    }

    /// Keeps requests that wait only for other replicas.
    pub(super) fn wait_for_replication(&self, waiting: Vec<Waiting>) {
        if waiting.is_empty() {
            return;
        }
        let mut state = self.sync.inner.lock();
        waiting.into_iter().for_each(|waiting| state.waiting.add(waiting));
        drop(state);
        // The others may have got there before these were kept.
        if let Some(progress) = self.progress() {
            self.answer_waiting(&progress);
        }
    }

    /// Answers the requests that are settled.
    pub(super) fn answer_waiting(&self, progress: &Progress) {
        let mut state = self.sync.inner.lock();
        if state.waiting.is_empty() {
            return;
        }
        let settled = state.waiting.take_settled(Some(progress), self.view.synced_offset());
        drop(state);
        acknowledgements::answer(settled, Some(progress), self.shared.env.clock.monotonic());
    }

    /// Refuses all requests that wait for other replicas: this node does not lead any more.
    pub(super) fn refuse_waiting(&self, code: ErrorCode) {
        let refused = self.sync.inner.lock().waiting.take_of_replicas();
        acknowledgements::refuse(refused, code);
    }
}
