//! Group commit: threads that bring appended bytes to the disk, and the tickets that wait for it.
//!
//! What is acknowledged only from the disk is also appended here: everything that gathers while one `fdatasync` runs
//! goes out with one write and shares the next. A partition is in the queue at most once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wire::ErrorCode;

use super::{Outcome, Partition, Ticket};

/// Threads that do nothing but wait for the disk. Many, since a journaling file system makes one commit of the syncs
/// that are under way at the same time.
const THREADS: usize = 8;
/// How many of them may be busy with what nobody waits for, which can be much at a time.
const BACKGROUND_THREADS: usize = 4;
/// How long a partition gathers appends that came while it was being synced. A sync costs the same CPU
/// for one batch as for ten, so fewer of them leave more for everybody; who sends one request at a time never waits.
const GATHER: Duration = Duration::from_micros(500);

/// The queue of partitions that want to be on disk.
pub struct Syncer {
    queue: Mutex<Queue>,
    work: Condvar,
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
    /// Somebody waits.
    Urgent,
    Background,
}

impl Syncer {
    /// Starts the threads. They end, with the queue empty, after [`Syncer::close`].
    pub fn start() -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let syncer = Arc::new(Self { queue: Mutex::default(), work: Condvar::new() });
        let threads = (0..THREADS).map(|n| {
            let syncer = Arc::clone(&syncer);
            let thread = std::thread::Builder::new().name(format!("sync-{n}"));
            thread.spawn(move || syncer.run()).expect("the system has room for a thread at start")
        });
        let threads = threads.collect();
        (syncer, threads)
    }

    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.work.notify_all();
    }

    fn push(&self, partition: Arc<Partition>, priority: Priority) {
        self.queue.lock().of(priority).push_back(partition);
        self.work.notify_one();
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

/// What one partition has to do with the disk.
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
    waiting: Vec<Waiting>,
}

/// An append whose acknowledgement waits until the log is on disk up to `offset`.
pub struct Waiting {
    pub offset: i64,
    pub ticket: Arc<Ticket>,
    pub place: usize,
    pub outcome: Outcome,
}

impl Partition {
    /// Has everything that is queued or appended so far synced soon; `waiting` are answered then.
    pub fn request_sync(self: &Arc<Self>, waiting: impl IntoIterator<Item = Waiting>) {
        self.schedule_sync(waiting, Priority::Urgent);
    }

    /// The same for what nobody waits for.
    pub fn request_background_sync(self: &Arc<Self>) {
        self.schedule_sync([], Priority::Background);
    }

    fn schedule_sync(self: &Arc<Self>, waiting: impl IntoIterator<Item = Waiting>, priority: Priority) {
        let mut state = self.sync.inner.lock();
        state.waiting.extend(waiting);
        if state.scheduled {
            state.again = true;
        } else {
            state.scheduled = true;
            drop(state);
            self.shared.syncer.push(Arc::clone(self), priority);
        }
    }

    /// Appends what is queued, syncs, answers what is on disk by it, and tells whether to do so again.
    fn sync_once(self: &Arc<Self>) -> Option<Priority> {
        let is_busy = self.sync.inner.lock().again;
        if is_busy {
            self.shared.env.pause(GATHER);
        }
        self.append_queued();
        {
            let mut state = self.sync.inner.lock();
            // What was asked for until here is on disk by the sync below, but for what was queued behind our back: the
            // one who did so has asked already, or is about to, and nobody else will.
            state.again = !self.queue.lock().is_empty();
        }
        let synced = self.view.sync();
        let mut state = self.sync.inner.lock();
        match synced {
            Ok(offset) => {
                let (done, waiting) = state.waiting.drain(..).partition(|waiting| waiting.offset <= offset);
                state.waiting = waiting;
                let (again, nobody_waits) = (state.again, state.waiting.is_empty());
                state.scheduled = again;
                drop(state);
                for waiting in done {
                    waiting.ticket.fill(waiting.place, waiting.outcome);
                }
                let is_background = nobody_waits && self.queue.lock().is_empty();
                again.then_some(if is_background { Priority::Background } else { Priority::Urgent })
            }
            Err(error) => {
                let failed = std::mem::take(&mut *state);
                drop(state);
                self.fail(&error);
                for waiting in failed.waiting {
                    waiting.ticket.fill(waiting.place, ErrorCode::KAFKA_STORAGE_ERROR.into());
                }
                // Whoever queued something meanwhile counts on this thread.
                self.append_queued();
                None
            }
        }
    }
}
