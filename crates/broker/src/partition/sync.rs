//! Group commit: threads that bring appended bytes to the disk, and the tickets that wait for it.
//!
//! A partition is in the queue at most once. While one `fdatasync` runs, whatever is appended meanwhile shares the
//! next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use wire::ErrorCode;

use super::{Outcome, Partition, Ticket};

/// Threads that do nothing but wait for the disk. Several, since partitions sync independently of each other.
const THREADS: usize = 4;

/// The queue of partitions that want to be on disk.
pub struct Syncer {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    partitions: VecDeque<Arc<Partition>>,
    closed: bool,
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

    fn push(&self, partition: Arc<Partition>) {
        self.queue.lock().partitions.push_back(partition);
        self.work.notify_one();
    }

    fn run(&self) {
        loop {
            let mut queue = self.queue.lock();
            let partition = loop {
                if let Some(partition) = queue.partitions.pop_front() {
                    break partition;
                }
                if queue.closed {
                    return;
                }
                self.work.wait(&mut queue);
            };
            drop(queue);
            if partition.sync_once() {
                self.push(partition);
            }
        }
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
    /// Appended since the sync that runs began.
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
    /// Has everything that is appended so far synced soon; `waiting` are answered then.
    pub fn request_sync(self: &Arc<Self>, syncer: &Syncer, waiting: impl IntoIterator<Item = Waiting>) {
        let mut state = self.sync.inner.lock();
        state.waiting.extend(waiting);
        if state.scheduled {
            state.again = true;
        } else {
            state.scheduled = true;
            drop(state);
            syncer.push(Arc::clone(self));
        }
    }

    /// Syncs, answers what is on disk by it, and tells whether to sync again.
    fn sync_once(&self) -> bool {
        self.sync.inner.lock().again = false;
        let synced = self.view.sync();
        let mut state = self.sync.inner.lock();
        match synced {
            Ok(offset) => {
                let (done, waiting) = state.waiting.drain(..).partition(|waiting| waiting.offset <= offset);
                state.waiting = waiting;
                let again = state.again;
                state.scheduled = again;
                drop(state);
                for waiting in done {
                    waiting.ticket.fill(waiting.place, waiting.outcome);
                }
                again
            }
            Err(error) => {
                let failed = std::mem::take(&mut *state);
                drop(state);
                self.fail(&error);
                for waiting in failed.waiting {
                    waiting.ticket.fill(waiting.place, ErrorCode::KAFKA_STORAGE_ERROR.into());
                }
                false
            }
        }
    }
}
