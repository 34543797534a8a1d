//! Holds up the cleaner, so that it reads and writes no faster than `log.cleaner.io.max.bytes.per.second`
//! (`org.apache.kafka.storage.internals.utils.Throttler`).

use std::cell::Cell;
use std::time::Duration;

use platform::Clock;

/// After so long it looks again whether it has to stop, and how fast it may be now.
const STEP_MAX: Duration = Duration::from_millis(100);

/// One compaction after the other, on one thread.
pub(super) struct Pace<'a> {
    clock: &'a dyn Clock,
    /// Until when what was moved so far takes, at the rate that held then.
    paid_until: Cell<Duration>,
}

impl<'a> Pace<'a> {
    pub(super) fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, paid_until: Cell::new(Duration::ZERO) }
    }

    /// Counts bytes that were moved, and waits as long as they take at the rate: a number of bytes per second, which
    /// may change meanwhile. Without a bound it does not even look at the clock.
    pub(super) fn wait(&self, bytes: u64, rate: impl Fn() -> f64, is_over: impl Fn() -> bool) {
        let mut left = bytes as f64;
        while left > 0.0 && !is_over() {
            let rate = rate();
            if rate >= f64::from(u32::MAX) * 1024.0 {
                return;
            }
            let now = self.clock.monotonic();
            let free_at = self.paid_until.get().max(now);
            let step_bytes = left.min((rate * STEP_MAX.as_secs_f64()).max(1.0));
            // One byte may take a while, too, but not for ever.
            let takes = Duration::try_from_secs_f64(step_bytes / rate).unwrap_or(Duration::MAX).min(STEP_MAX * 10);
            left -= step_bytes;
            self.paid_until.set(free_at + takes);
            self.clock.pause((free_at + takes).saturating_sub(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use storage::Now;

    use super::*;

    /// Moves only when a task waits.
    #[derive(Default)]
    struct PausedClock(AtomicU64);

    impl Clock for PausedClock {
        fn now(&self) -> Now {
            Now { wall_ms: 0, monotonic_ms: self.monotonic().as_millis() as i64 }
        }

        fn monotonic(&self) -> Duration {
            Duration::from_micros(self.0.load(Ordering::Relaxed))
        }

        fn pause(&self, duration: Duration) {
            self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
        }
    }

    #[test]
    fn so_many_bytes_take_as_long_as_the_rate_says() {
        let clock = PausedClock::default();
        let pace = Pace::new(&clock);
        for _ in 0..1000 {
            pace.wait(5_000, || 1e6, || false);
        }
        assert_eq!(clock.monotonic().as_millis(), 5_000);
        // Time in which nothing was moved is not saved up.
        clock.pause(Duration::from_secs(60));
        pace.wait(1_000_000, || 1e6, || false);
        assert_eq!(clock.monotonic().as_millis(), 66_000);
    }

    #[test]
    fn a_rate_that_changes_and_an_end_are_noticed_while_it_waits() {
        let clock = PausedClock::default();
        let pace = Pace::new(&clock);
        let looks = Cell::new(0);
        let rate = || {
            looks.set(looks.get() + 1);
            if looks.get() <= 10 { 1e3 } else { 1e6 }
        };
        // A second at a thousand bytes a second, the rest at a million.
        pace.wait(1_001_000, rate, || false);
        assert_eq!(clock.monotonic().as_millis(), 2_000);
        pace.wait(1 << 40, || 1e3, || clock.monotonic() >= Duration::from_secs(3));
        assert_eq!(clock.monotonic().as_millis(), 3_000);
    }

    #[test]
    fn without_a_bound_nothing_waits() {
        let clock = PausedClock::default();
        Pace::new(&clock).wait(1 << 40, || f64::MAX, || false);
        assert_eq!(clock.monotonic(), Duration::ZERO);
    }
}
