//! Group commit: threads that bring appended bytes to the disk, and the acknowledgements that wait for it.
//!
//! What is acknowledged only from the disk is also appended here. With a journal one thread takes all partitions that
//! wait, appends what is queued with each, and makes all of it durable in one write. What does not go there, or all if
//! there is no journal, is synced in its segment by threads of which each takes one partition. Either way, everything
//! that gathers meanwhile goes out together. A partition is in these two queues at most once.
//!
//! What is in the journal, or waits for nobody, is brought into its segment behind that, in large pieces.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use platform::panics;
use storage::LogError;
use storage::journal::{Committed, Journal};
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
/// Partitions in one commit of the journal.
const COMMIT_PARTITIONS_MAX: usize = 1024;
/// What is in the journal is brought into its segment when a partition has so much there, or when it is so old. Each of
/// these syncs makes the disk flush its cache beside the journal's writes: the larger, the fewer.
const WRITE_BEHIND: WriteBehind = WriteBehind { bytes: 8 << 20, age_ms: 5000 };
/// The same while many partitions, or one that is quiet, have so much of the journal needed.
const WRITE_BEHIND_SOON: WriteBehind = WriteBehind { bytes: 1 << 20, age_ms: 1000 };
const SOON_PERCENT: usize = 12;
/// When a file of the journal could not be made, the disk is left alone for a while.
const FILE_BACKOFF: Duration = Duration::from_secs(10);

/// From when on a partition's part of the journal is brought into its segment.
#[derive(Clone, Copy)]
struct WriteBehind {
    bytes: u64,
    age_ms: i64,
}

/// The queues of partitions to sync.
pub struct Syncer {
    queue: Mutex<Queue>,
    work: Condvar,
    /// What wakes the thread that commits.
    commits: Condvar,
    journal: OnceLock<Arc<Journal>>,
    /// The same for tasks instead of threads.
    #[cfg(test)]
    arrived: tokio::sync::Notify,
}

#[derive(Default)]
struct Queue {
    /// A request waits, and the journal may have room.
    commits: VecDeque<Arc<Partition>>,
    /// A request waits for the segment.
    urgent: VecDeque<Arc<Partition>>,
    background: VecDeque<Arc<Partition>>,
    in_background: usize,
    /// A file of the journal is to be made, since when by the monotonic clock.
    wants_file: Option<Duration>,
    /// From when on, by the monotonic clock, the next one may be asked for.
    next_file: Duration,
    closed: bool,
}

/// What a thread that syncs does next.
enum Work {
    Sync(Arc<Partition>),
    WriteBehind(Arc<Partition>),
    MakeJournalFile { asked_at: Duration },
}

impl Syncer {
    /// Starts the threads. They end, with the queues empty, after [`Syncer::close`].
    pub fn start() -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let syncer = Arc::new(Self::new());
        let start = |name: String, run: fn(&Self)| {
            let syncer = Arc::clone(&syncer);
            let thread = panics::essential_thread(name, move || run(&syncer));
            thread.expect("the system has room for a thread at start")
        };
        let mut threads: Vec<_> = (0..THREADS).map(|n| start(format!("sync-{n}"), Self::run)).collect();
        threads.push(start("journal".to_owned(), Self::run_commits));
        (syncer, threads)
    }

    fn new() -> Self {
        Self {
            queue: Mutex::default(),
            work: Condvar::new(),
            commits: Condvar::new(),
            journal: OnceLock::new(),
            #[cfg(test)]
            arrived: tokio::sync::Notify::new(),
        }
    }

    /// Takes into use the journal of the data directory. To be called once, before any partition is led or followed.
    pub fn set_journal(&self, journal: Arc<Journal>) {
        let is_first = self.journal.set(journal).is_ok();
        debug_assert!(is_first, "a data directory has one journal");
    }

    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.get()
    }

    fn write_behind(&self) -> WriteBehind {
        match self.journal.get() {
            Some(journal) if journal.needed_percent() >= SOON_PERCENT => WRITE_BEHIND_SOON,
            _ => WRITE_BEHIND,
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
        while self.commit_next() || self.work_next() {}
    }

    /// Works as a thread does, in a task that a machine's disk keeps waiting.
    #[cfg(test)]
    pub(crate) async fn run_on(&self, machine: &crate::simulation::machine::Machine) {
        loop {
            let (is_idle, is_closed) = {
                let queue = self.queue.lock();
                (queue.is_empty(), queue.closed)
            };
            match (is_idle, is_closed) {
                (true, true) => return,
                (true, false) => self.arrived.notified().await,
                (false, _) => {
                    machine.wait_for_disk().await;
                    let _ = self.commit_next() || self.work_next();
                }
            }
        }
    }

    /// Makes what waits for the journal durable. Returns whether there was anything.
    #[cfg(test)]
    fn commit_next(&self) -> bool {
        let partitions = self.queue.lock().take_commits();
        if let Some(journal) = self.journal.get().filter(|_| !partitions.is_empty()) {
            self.commit(journal, partitions);
            return true;
        }
        false
    }

    /// Does what a thread would do next. Returns whether there was anything.
    #[cfg(test)]
    fn work_next(&self) -> bool {
        let work = self.queue.lock().next();
        work.map(|work| self.do_work(work)).is_some()
    }

    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.work.notify_all();
        self.commits.notify_all();
        #[cfg(test)]
        self.arrived.notify_waiters();
    }

    /// A request waits for the disk.
    fn push_urgent(&self, partition: Arc<Partition>) {
        if self.journal.get().is_some_and(|journal| !journal.is_over()) {
            self.queue.lock().commits.push_back(partition);
            self.commits.notify_one();
        } else {
            self.queue.lock().urgent.push_back(partition);
            self.work.notify_one();
        }
        #[cfg(test)]
        self.arrived.notify_one();
    }

    fn push_background(&self, partition: Arc<Partition>) {
        self.queue.lock().background.push_back(partition);
        self.work.notify_one();
        #[cfg(test)]
        self.arrived.notify_one();
    }

    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            let Some(work) = queue.next() else {
                if queue.closed && queue.is_empty() {
                    return;
                }
                self.work.wait(&mut queue);
                continue;
            };
            drop(queue);
            self.do_work(work);
            queue = self.queue.lock();
        }
    }

    fn do_work(&self, work: Work) {
        match work {
            Work::Sync(partition) => {
                if partition.sync_once() {
                    self.push_urgent(partition);
                }
            }
            Work::WriteBehind(partition) => {
                partition.write_behind();
                self.queue.lock().in_background -= 1;
            }
            Work::MakeJournalFile { asked_at } => {
                let mut next_file = Duration::ZERO;
                // Without it logs are synced one by one.
                if let Some(Err(error)) = self.journal.get().map(|journal| journal.make_file()) {
                    tracing::warn!(%error, "the journal does not get another file for now");
                    next_file = asked_at + FILE_BACKOFF;
                }
                self.queue.lock().next_file = next_file;
            }
        }
    }

    fn run_commits(&self) {
        let mut queue = self.queue.lock();
        loop {
            let partitions = queue.take_commits();
            if partitions.is_empty() {
                if queue.closed {
                    // Those who wait for more work look again.
                    self.work.notify_all();
                    return;
                }
                self.commits.wait(&mut queue);
                continue;
            }
            drop(queue);
            let Some(journal) = self.journal.get() else { return };
            self.commit(journal, partitions);
            queue = self.queue.lock();
        }
    }

    /// Makes what the partitions have durable in one write, and leaves to others what does not go into the journal.
    fn commit(&self, journal: &Journal, partitions: Vec<Arc<Partition>>) {
        if partitions.iter().any(|partition| partition.is_busy()) {
            partitions[0].shared.env.clock.pause(GATHER / 2);
        }
        for partition in &partitions {
            partition.append_to_sync();
        }
        let clock = &partitions[0].shared.env.clock;
        let began = clock.monotonic();
        let logs: Vec<_> = partitions.iter().map(|partition| (&partition.view, partition.topic_id)).collect();
        let committed = journal.commit(&logs);
        let now = clock.monotonic();
        let (stats, took) = (&partitions[0].shared.stats, now.saturating_sub(began));
        stats.syncs.observe(took);
        stats.journal.record(&committed, took);
        for (partition, committed) in partitions.into_iter().zip(committed) {
            match committed {
                Committed::Durable { bytes } => {
                    partition.note_journaled(bytes);
                    if partition.settle(Ok(())) {
                        self.push_urgent(partition);
                    }
                }
                Committed::Direct(_) => {
                    self.queue.lock().urgent.push_back(partition);
                    self.work.notify_one();
                }
            }
        }
        if journal.wants_file() {
            let mut queue = self.queue.lock();
            if !queue.closed && queue.next_file <= now {
                (queue.wants_file, queue.next_file) = (Some(now), Duration::MAX);
                self.work.notify_one();
            }
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.urgent.is_empty() && self.background.is_empty()
    }

    fn take_commits(&mut self) -> Vec<Arc<Partition>> {
        let count = self.commits.len().min(COMMIT_PARTITIONS_MAX);
        self.commits.drain(..count).collect()
    }

    fn next(&mut self) -> Option<Work> {
        if let Some(partition) = self.urgent.pop_front() {
            return Some(Work::Sync(partition));
        }
        if let Some(asked_at) = self.wants_file.take() {
            return Some(Work::MakeJournalFile { asked_at });
        }
        if self.in_background == BACKGROUND_THREADS {
            return None;
        }
        let partition = self.background.pop_front()?;
        self.in_background += 1;
        Some(Work::WriteBehind(partition))
    }
}

/// The state of one partition's syncs.
#[derive(Default)]
pub struct SyncState {
    inner: Mutex<Inner>,
    /// It waits to be brought into its segment, or is about to be.
    is_behind: AtomicBool,
    /// In the journal and not in a synced segment, since the last sync of that, and since when by the monotonic clock.
    journaled_bytes: AtomicU64,
    journaled_since_ms: AtomicI64,
    /// What that sync did not bring there, or does not yet, is in the journal since then; 0 if it left nothing.
    left_since_ms: AtomicI64,
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
        let mut state = self.sync.inner.lock();
        waiting.into_iter().for_each(|waiting| state.waiting.add(waiting));
        if state.scheduled {
            state.again = true;
        } else {
            state.scheduled = true;
            drop(state);
            self.shared.syncer.push_urgent(Arc::clone(self));
        }
    }

    /// Has what is appended so far brought into its segment, for which no request waits.
    pub fn request_background_sync(self: &Arc<Self>) {
        if !self.sync.is_behind.swap(true, Ordering::AcqRel) {
            self.shared.syncer.push_background(Arc::clone(self));
        }
    }

    /// Whether what the log has behind its synced part is all in the journal, and neither so much nor so old that it
    /// should be brought into the segment.
    pub(super) fn may_stay_in_journal(&self) -> bool {
        let age_ms = self.now_ms() - self.sync.journaled_since_ms.load(Ordering::Relaxed);
        let limits = self.shared.syncer.write_behind();
        self.view.durable_offset() == self.view.log_end_offset()
            && (1..limits.bytes).contains(&self.sync.journaled_bytes.load(Ordering::Relaxed))
            && age_ms < limits.age_ms
    }

    /// For how long the oldest that is durable only in the journal has been there; 0 if there is nothing.
    pub(super) fn journaled_for_ms(&self) -> u64 {
        // In this order, or what is synced in between would be taken for something that only the journal has.
        let durable_offset = self.view.durable_offset();
        if self.view.synced_offset() >= durable_offset {
            return 0;
        }
        let left_since_ms = Some(self.sync.left_since_ms.load(Ordering::Relaxed)).filter(|since_ms| *since_ms > 0);
        let is_noted = self.sync.journaled_bytes.load(Ordering::Relaxed) > 0;
        let since_ms = is_noted.then(|| self.sync.journaled_since_ms.load(Ordering::Relaxed));
        let oldest_ms = left_since_ms.into_iter().chain(since_ms).min();
        oldest_ms.map_or(0, |since_ms| u64::try_from(self.now_ms() - since_ms).unwrap_or(0))
    }

    fn note_journaled(self: &Arc<Self>, bytes: u64) {
        let before = self.sync.journaled_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            self.sync.journaled_since_ms.store(self.now_ms(), Ordering::Relaxed);
        }
        if before + bytes >= self.shared.syncer.write_behind().bytes {
            self.request_background_sync();
        } else if bytes > 0 {
            self.mark_dirty();
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
            outcome: ProduceOutcome::Appended {
                base_offset: offset,
                log_append_time_ms: -1,
                log_start_offset: -1,
                is_of_new_producer: false,
            },
        }]);
        // The replicas may have got there, or the leadership ended, before this was kept.
        match self.progress() {
            Some(progress) => self.answer_waiting(&progress),
            None => self.refuse_waiting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        }
        Some(completion)
    }

    /// Whether something came while it was being synced.
    fn is_busy(&self) -> bool {
        self.sync.inner.lock().again
    }

    /// Appends what is queued, before a sync.
    fn append_to_sync(self: &Arc<Self>) {
        self.append_queued();
        let mut state = self.sync.inner.lock();
        // What was asked for until here is on disk by the sync that follows, except what was queued meanwhile: its
        // caller has requested a sync already, or is about to, and no other thread will.
        state.again = !self.queue.lock().is_empty();
    }

    /// Appends what is queued, syncs the segments, answers what is on disk by it, and returns whether to sync again.
    fn sync_once(self: &Arc<Self>) -> bool {
        if self.is_busy() {
            self.shared.env.clock.pause(GATHER);
        }
        self.append_to_sync();
        self.settle(self.sync_segments())
    }

    /// Brings what is appended into its segment.
    fn write_behind(self: &Arc<Self>) {
        self.sync.is_behind.store(false, Ordering::Release);
        match self.sync_segments() {
            Ok(()) => {
                let progress = self.record_synced();
                self.answer_synced(progress.as_ref());
            }
            Err(error) => self.refuse_all(&error),
        }
    }

    fn sync_segments(&self) -> Result<(), LogError> {
        let clock = &self.shared.env.clock;
        let (began_ms, since_ms) = (self.now_ms(), self.sync.journaled_since_ms.load(Ordering::Relaxed));
        // What comes meanwhile counts for the next time.
        if self.sync.journaled_bytes.swap(0, Ordering::Relaxed) > 0 {
            let _ = self.sync.left_since_ms.compare_exchange(0, since_ms, Ordering::Relaxed, Ordering::Relaxed);
        }
        let began = clock.monotonic();
        self.view.sync()?;
        let has_all = self.view.synced_offset() >= self.view.durable_offset();
        self.sync.left_since_ms.store(if has_all { 0 } else { began_ms }, Ordering::Relaxed);
        self.shared.stats.syncs.observe(clock.monotonic().saturating_sub(began));
        Ok(())
    }

    /// Answers what is on disk by a sync that was requested, and returns whether to sync again.
    fn settle(self: &Arc<Self>, synced: Result<(), LogError>) -> bool {
        if let Err(error) = synced {
            {
                let mut state = self.sync.inner.lock();
                (state.scheduled, state.again) = (false, false);
            }
            self.refuse_all(&error);
            return false;
        }
        let progress = self.record_synced();
        self.answer_synced(progress.as_ref());
        let mut state = self.sync.inner.lock();
        let again = state.again;
        // Requests that wait only for other replicas do not wait for this disk.
        let is_done = !state.waiting.want_more_than(self.view.durable_offset());
        let is_urgent = again && !(is_done && self.queue.lock().is_empty());
        state.scheduled = is_urgent;
        drop(state);
        if again && !is_urgent {
            self.request_background_sync();
        }
        is_urgent
    }

    fn answer_synced(&self, progress: Option<&Progress>) {
        let now = self.shared.env.clock.monotonic();
        let durable_offset = self.view.durable_offset();
        let mut state = self.sync.inner.lock();
        state.waiting.record_synced(durable_offset, now);
        let settled = state.waiting.take_settled(progress, durable_offset);
        drop(state);
        acknowledgements::answer(settled, progress, now);
    }

    /// The log takes no more.
    fn refuse_all(self: &Arc<Self>, error: &LogError) {
        let waiting = std::mem::take(&mut self.sync.inner.lock().waiting);
        self.fail(error);
        acknowledgements::refuse(waiting.into_all(), ErrorCode::KAFKA_STORAGE_ERROR);
        // A request queued meanwhile relies on this thread.
        self.append_queued();
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
        let settled = state.waiting.take_settled(Some(progress), self.view.durable_offset());
        drop(state);
        acknowledgements::answer(settled, Some(progress), self.shared.env.clock.monotonic());
    }

    /// Refuses all requests that wait for other replicas: this node does not lead any more.
    pub(super) fn refuse_waiting(&self, code: ErrorCode) {
        let refused = self.sync.inner.lock().waiting.take_of_replicas();
        acknowledgements::refuse(refused, code);
    }
}
