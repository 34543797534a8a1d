//! All I/O of the process except the network: the clock, the disk, randomness, the levels of the log. Real here,
//! simulated in tests.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storage::Now;
use storage::disk::{Disk, RealDisk};
use wire::Uuid;

use crate::loggers::Loggers;

/// The environment of the broker. Cheap to clone.
#[derive(Clone)]
pub struct Env {
    pub clock: Arc<dyn Clock>,
    pub disk: Arc<dyn Disk>,
    pub random: Arc<dyn Random>,
    pub loggers: Arc<Loggers>,
}

impl Env {
    /// The machine itself. The binary that writes the log gives its loggers.
    pub fn real() -> Self {
        let clock = SystemClock { started: started() };
        Self {
            clock: Arc::new(clock),
            disk: Arc::new(RealDisk),
            random: Arc::new(SystemRandom),
            loggers: Arc::default(),
        }
    }

    pub fn new_id(&self) -> Uuid {
        Uuid::from_random(self.random.bytes())
    }
}

/// Two clocks: the wall clock for timestamps, and one that only ever goes forward for everything that waits.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Now;

    /// The monotonic clock, finer: for durations of microseconds.
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now().monotonic_ms.unsigned_abs())
    }

    /// Both with one reading of the monotonic clock.
    fn now_and_monotonic(&self) -> (Now, Duration) {
        (self.now(), self.monotonic())
    }

    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64 {
        self.now().wall_ms
    }

    /// Blocks the calling thread, which must not be the runtime's.
    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// The source of ids.
pub trait Random: Send + Sync + 'static {
    fn bytes(&self) -> [u8; 16];
}

struct SystemClock {
    started: Instant,
}

#[allow(clippy::disallowed_methods)]
fn started() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)]
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        self.now_and_monotonic().0
    }

    fn now_and_monotonic(&self) -> (Now, Duration) {
        let monotonic = self.started.elapsed();
        (Now { wall_ms: wall_ms(), monotonic_ms: monotonic.as_millis() as i64 }, monotonic)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn now_ms(&self) -> i64 {
        wall_ms()
    }
}

struct SystemRandom;

impl Random for SystemRandom {
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .expect("the kernel has random bytes once the machine is up");
        bytes
    }
}
