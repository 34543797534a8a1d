//! Time, randomness and networks of a simulation.

mod network;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::Now;
pub use storage::seeds::{run_seeds, seeds};
use storage::simdisk::Rng;

pub use self::network::Network;
use crate::env::{Clock, Random};

/// The wall clock when a simulation begins.
pub const START_WALL_MS: i64 = 1_700_000_000_000;

/// Time that passes when the simulation says so. Clones are one clock.
#[derive(Clone, Default)]
pub struct SimClock {
    ms: Arc<AtomicI64>,
    wall_shift_ms: Arc<AtomicI64>,
}

impl SimClock {
    pub fn pass(&self, ms: i64) {
        self.ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn ms(&self) -> i64 {
        self.ms.load(Ordering::Relaxed)
    }

    /// Sets the wall clock, so far from the right time.
    pub fn set_wall_shift_ms(&self, ms: i64) {
        self.wall_shift_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Now {
        let monotonic_ms = self.ms();
        Now { monotonic_ms, wall_ms: START_WALL_MS + monotonic_ms + self.wall_shift_ms.load(Ordering::Relaxed) }
    }

    fn pause(&self, _duration: Duration) {}
}

/// Time that passes by a millisecond with each reading.
#[derive(Default)]
pub struct TickingClock(AtomicI64);

impl Clock for TickingClock {
    fn now(&self) -> Now {
        let ms = self.0.fetch_add(1, Ordering::Relaxed);
        Now { wall_ms: START_WALL_MS + ms, monotonic_ms: ms }
    }
}

/// Random bytes from a seed.
pub struct SeededRandom(Mutex<Rng>);

impl SeededRandom {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Rng::new(seed)))
    }
}

impl Random for SeededRandom {
    fn bytes(&self) -> [u8; 16] {
        let mut rng = self.0.lock();
        let [first, second] = [rng.next_u64(), rng.next_u64()];
        (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
    }
}

thread_local! {
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether the calling thread runs a simulated process just now. A simulated process that has to end panics.
pub fn set_simulated(is_simulated: bool) {
    IS_SIMULATED.set(is_simulated);
}

pub fn is_simulated() -> bool {
    IS_SIMULATED.get()
}
