//! A machine that a whole server runs on: its runtime's thread is the simulation's, its time passes when the simulation
//! says so, its disk may keep it waiting.
//!
//! Each process has a runtime of its own, with a paused clock, which is driven in turn with all others, a few
//! milliseconds at a time. Whatever a process has started ends with its runtime, as it does with `kill -9`. A machine
//! that is not driven is stopped.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Once, Weak};
use std::task::Poll;
use std::time::Duration;

use metadata::MetadataImage;
use parking_lot::Mutex;
use platform::simulation::{START_WALL_MS, set_simulated};
use platform::{Clock, DiskWatch};
use storage::simdisk::Rng;
use storage::{Now, SimDisk};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::sockets::{SimStream, Sockets};
use super::time::{self, now, now_ms};
use crate::Broker;
use crate::controller::Backlog;
use crate::partition::Syncer;

/// How long it takes at most until what is committed is published.
const PUBLISH_MS: u64 = 5;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Machine>>> = const { RefCell::new(None) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The machine whose process runs just now.
pub(crate) fn current() -> Option<Arc<Machine>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What a process has panicked with since this was asked last.
pub(crate) fn take_panic() -> Option<String> {
    PANIC.take()
}

/// Records panics of tasks that are not joined.
pub(crate) fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CURRENT.try_with(|current| current.try_borrow().is_ok_and(|current| current.is_some())) == Ok(true) {
                PANIC.with_borrow_mut(|panic| _ = panic.get_or_insert_with(|| info.to_string()));
            }
            before(info);
        }));
    });
}

/// What the checks learn of a process.
pub(crate) enum Witnessed {
    /// It has applied what the quorum has committed.
    Committed(Arc<MetadataImage>),
    /// It opens its logs, and takes this for all there is.
    Opens(Arc<MetadataImage>),
    /// As the controller of an epoch it decides on the state of an offset.
    Decides { epoch: i32, offset: i64 },
    /// It answers what it has decided.
    Answers { epoch: i32, offset: i64 },
}

fn witness(of: impl FnOnce() -> Witnessed) {
    if let Some(machine) = current() {
        machine.state.lock().witnessed.push(of());
    }
}

/// Reports to the checks, if there are any, what this process has applied.
pub(crate) fn commits(image: &Arc<MetadataImage>) {
    witness(|| Witnessed::Committed(Arc::clone(image)));
}

/// What it opens its logs with.
pub(crate) fn opens(image: &Arc<MetadataImage>) {
    witness(|| Witnessed::Opens(Arc::clone(image)));
}

/// What it decides on.
pub(crate) fn decides(epoch: i32, offset: i64) {
    witness(|| Witnessed::Decides { epoch, offset });
}

/// What it answers with.
pub(crate) fn answers(epoch: i32, offset: i64) {
    witness(|| Witnessed::Answers { epoch, offset });
}

/// Shows a process to the checks.
pub(crate) fn has_broker(broker: &Arc<Broker>) {
    if let Some(machine) = current() {
        machine.state.lock().broker = Arc::downgrade(broker);
    }
}

pub(crate) struct Machine {
    pub(crate) id: i32,
    pub(crate) disk: SimDisk,
    sockets: Sockets,
    state: Mutex<State>,
    answers: Notify,
}

struct State {
    rng: Rng,
    hangs: bool,
    slow_max_ms: u64,
    watch: Option<Arc<DiskWatch>>,
    witnessed: Vec<Witnessed>,
    broker: Weak<Broker>,
}

impl Machine {
    pub(crate) fn new(id: i32, disk: SimDisk, sockets: Sockets, seed: u64) -> Arc<Self> {
        let state = State {
            rng: Rng::new(seed),
            hangs: false,
            slow_max_ms: 0,
            watch: None,
            witnessed: Vec::new(),
            broker: Weak::new(),
        };
        Arc::new(Self { id, disk, sockets, state: Mutex::new(state), answers: Notify::new() })
    }

    pub(crate) fn take_witnessed(&self) -> Vec<Witnessed> {
        std::mem::take(&mut self.state.lock().witnessed)
    }

    /// What its process works with, as soon as it is there.
    pub(crate) fn broker(&self) -> Option<Arc<Broker>> {
        self.state.lock().broker.upgrade()
    }

    /// Whether the disk does not answer from now on.
    pub(crate) fn set_hangs(&self, hangs: bool) {
        self.state.lock().hangs = hangs;
        self.answers.notify_waiters();
    }

    /// How long each piece of work with the disk takes at most.
    pub(crate) fn set_slow(&self, max_ms: u64) {
        self.state.lock().slow_max_ms = max_ms;
    }

    pub(crate) fn has_its_disk_watched_by(&self, watch: &Arc<DiskWatch>) {
        self.state.lock().watch = Some(Arc::clone(watch));
    }

    /// As long as a thread that works with the disk has to.
    pub(crate) async fn wait_for_disk(&self) {
        let (watch, delay_ms, hangs) = {
            let mut state = self.state.lock();
            let slow_max_ms = state.slow_max_ms;
            (state.watch.clone(), state.rng.below(slow_max_ms), state.hangs)
        };
        let Some(watch) = watch.filter(|_| hangs || delay_ms > 0) else { return };
        let number = watch.begin(0);
        sleep(Duration::from_millis(delay_ms)).await;
        loop {
            let mut answers = pin!(self.answers.notified());
            answers.as_mut().enable();
            if !self.state.lock().hangs {
                break;
            }
            answers.await;
        }
        watch.end(number);
    }

    /// Works as a thread does that stands still, once it has used the disk, until the disk has answered.
    pub(crate) async fn stall_with_disk<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        let mut work = pin!(work);
        loop {
            let before = self.disk.trace();
            let done = poll_fn(|cx| match work.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.disk.trace() != before => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await;
            match done {
                Some(output) => return output,
                None => self.wait_for_disk().await,
            }
        }
    }

    /// Publishes what is committed, as a thread does.
    pub(crate) async fn publish(self: Arc<Self>, backlog: Backlog) {
        loop {
            self.wait_for_disk().await;
            if backlog.publish_next().is_none() {
                let wait_ms = 1 + self.state.lock().rng.below(PUBLISH_MS);
                sleep(Duration::from_millis(wait_ms)).await;
            }
        }
    }

    /// Syncs, as a thread does.
    pub(crate) async fn sync(self: Arc<Self>, syncer: Arc<Syncer>) {
        syncer.run_on(&self).await;
    }

    pub(crate) async fn connect(&self, address: &str) -> io::Result<SimStream> {
        let address = address.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.sockets.connect(self.id, address).await
    }
}

/// A process: all that runs on its runtime.
pub(crate) struct Process {
    machine: Arc<Machine>,
    runtime: Runtime,
    /// What its clock said when it began, and when that was.
    began: (Instant, i64),
    /// Until when it has run.
    ran_ms: Cell<i64>,
}

impl Process {
    pub(crate) fn start(machine: Arc<Machine>) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        let began = (runtime.block_on(async { Instant::now() }), now_ms());
        Self { machine, runtime, began, ran_ms: Cell::new(began.1) }
    }

    /// Does something in its place.
    pub(crate) fn enter<T>(&self, act: impl FnOnce() -> T) -> T {
        self.during(|| {
            let _guard = self.runtime.enter();
            act()
        })
    }

    /// Runs until it is so late.
    pub(crate) fn run_until(&self, ms: i64) {
        self.ran_ms.set(ms);
        let until = self.began.0 + Duration::from_millis((ms - self.began.1) as u64);
        self.during(|| self.runtime.block_on(async { sleep_until(until).await }));
    }

    /// Has it find that all the time has passed at once in which it has not run.
    pub(crate) fn skip_until(&self, ms: i64) {
        if self.ran_ms.get() == ms {
            return;
        }
        let until = self.began.0 + Duration::from_millis((ms - self.began.1) as u64);
        self.during(|| {
            self.runtime.block_on(async {
                let by = until.saturating_duration_since(Instant::now());
                tokio::time::advance(by).await;
            });
        });
    }

    /// Ends it, as `kill -9` does.
    pub(crate) fn kill(self) {
        let (machine, runtime) = (self.machine, self.runtime);
        as_machine(&machine, None, || drop(runtime));
    }

    fn during<T>(&self, act: impl FnOnce() -> T) -> T {
        as_machine(&self.machine, Some(self.began), act)
    }
}

fn as_machine<T>(machine: &Arc<Machine>, began: Option<(Instant, i64)>, act: impl FnOnce() -> T) -> T {
    CURRENT.set(Some(Arc::clone(machine)));
    set_simulated(true);
    time::set_running(began);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    CURRENT.set(None);
    set_simulated(false);
    time::set_running(None);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The clock of a machine: time passes for all alike, but each has a wall clock of its own.
#[derive(Clone, Default)]
pub(crate) struct MachineClock {
    wall_shift_ms: Arc<AtomicI64>,
    /// What this thread has seen last, for others that it waits for.
    seen_us: Arc<AtomicI64>,
}

impl MachineClock {
    /// Sets the wall clock, so far from the right time.
    pub(crate) fn set_wall_shift_ms(&self, ms: i64) {
        self.wall_shift_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Now {
        let monotonic_ms = self.monotonic().as_millis() as i64;
        Now { monotonic_ms, wall_ms: START_WALL_MS + monotonic_ms + self.wall_shift_ms.load(Ordering::Relaxed) }
    }

    fn monotonic(&self) -> Duration {
        // Logs are opened by a thread of their own.
        if current().is_some() {
            let seen = now();
            self.seen_us.store(seen.as_micros() as i64, Ordering::Relaxed);
            return seen;
        }
        Duration::from_micros(self.seen_us.load(Ordering::Relaxed) as u64)
    }

    fn pause(&self, _duration: Duration) {}
}
