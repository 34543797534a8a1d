//! How full the disk is, and when it will be full if it goes on like this.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use platform::Count;

/// What is looked back at, and how often a sample of it is kept.
const PAST: Duration = Duration::from_secs(60 * 60);
/// Nothing is said of the future after a shorter time: an import of a minute would fill any disk soon.
const PAST_MIN: Duration = Duration::from_secs(10 * 60);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(60);

/// The disk of the data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Below it `disk.capacity.policy` acts. Not less than the reserve.
    pub threshold_bytes: u64,
    /// Below it nothing is appended.
    pub reserve_bytes: u64,
    /// Records are refused, those of some topics or of all.
    pub is_full: bool,
}

/// The space as it is, and as it was in the last hour; and what was deleted to have some.
#[derive(Debug, Default)]
pub struct DiskSpace {
    past: Mutex<Past>,
    pub deleted_segments: Count,
    pub deleted_bytes: Count,
}

#[derive(Debug, Default)]
struct Past {
    now: Option<(Duration, Space)>,
    /// Free bytes, oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl DiskSpace {
    /// Takes note of the space at a time on the monotonic clock.
    pub fn record(&self, now: Duration, space: Space) {
        let mut past = self.past.lock();
        past.now = Some((now, space));
        if past.samples.back().is_none_or(|(at, _)| now.saturating_sub(*at) >= SAMPLE_INTERVAL) {
            past.samples.push_back((now, space.free_bytes));
        }
        while past.samples.pop_front_if(|(at, _)| now.saturating_sub(*at) > PAST).is_some() {}
    }

    /// The space as it is, and the seconds until the threshold is reached if the disk fills as it did in the last hour:
    /// infinity if it does not.
    pub fn now(&self) -> Option<(Space, f64)> {
        let past = self.past.lock();
        let (_, space) = past.now?;
        Some((space, past.seconds_left()))
    }
}

impl Past {
    fn seconds_left(&self) -> f64 {
        let Some((now, space)) = self.now else { return f64::INFINITY };
        let left = space.free_bytes.saturating_sub(space.threshold_bytes);
        if left == 0 {
            return 0.0;
        }
        let old_enough = |(since, _): &&(Duration, u64)| now.saturating_sub(*since) >= PAST_MIN;
        let Some((since, free_then)) = self.samples.front().filter(old_enough) else { return f64::INFINITY };
        let filled = free_then.saturating_sub(space.free_bytes);
        // Nothing filled divides to infinity.
        left as f64 * (now - *since).as_secs_f64() / filled as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes the free space each half second, as it is after so many seconds.
    fn watch(seconds: u64, free_bytes: impl Fn(u64) -> u64) -> Past {
        let disk = DiskSpace::default();
        for half in 0..=2 * seconds {
            let space = Space {
                free_bytes: free_bytes(half / 2),
                total_bytes: 1 << 40,
                threshold_bytes: 1000,
                ..Space::default()
            };
            disk.record(Duration::from_millis(500 * half), space);
        }
        disk.past.into_inner()
    }

    #[test]
    fn the_last_hour_says_when_the_disk_is_full() {
        // Ten bytes a second, and 9,000 seconds until the threshold is reached.
        let past = watch(1000, |second| 101_000 - 10 * second);
        assert_eq!(past.seconds_left(), 9000.0);
        // What was before the last hour does not count.
        let past = watch(2 * 3600, |second| if second < 3600 { 1 << 30 } else { 101_000 - 10 * (second - 3600) });
        assert_eq!(past.seconds_left(), 6400.0);
        assert!(past.samples.len() <= 61, "{}", past.samples.len());
    }

    #[test]
    fn a_disk_that_does_not_fill_is_never_full() {
        assert_eq!(watch(1000, |_| 5000).seconds_left(), f64::INFINITY);
        assert_eq!(watch(1000, |second| 5000 + second).seconds_left(), f64::INFINITY);
        assert_eq!(watch(0, |_| 5000).seconds_left(), f64::INFINITY);
        // What fills it has only begun.
        assert_eq!(watch(599, |second| 101_000 - 10 * second).seconds_left(), f64::INFINITY);
        assert_eq!(watch(1000, |_| 999).seconds_left(), 0.0);
    }
}
