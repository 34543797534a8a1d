//! Seeds of tests that run through many courses of events.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{available_parallelism, scope};

use parking_lot::Mutex;

/// The seeds of a test: `PARSHALL_SEEDS` says how many, `PARSHALL_SEED` shows one again, and both together say from
/// which on and how many.
pub fn seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse::<u64>().ok());
    match (number("PARSHALL_SEED"), number("PARSHALL_SEEDS")) {
        (Some(seed), count) => seed..seed + count.unwrap_or(1),
        (None, count) => 0..count.unwrap_or(default),
    }
}

/// Runs seeds on all cores, each in one thread, and returns what came of them in their order. After one that panics no
/// other is begun, and it is named.
pub fn run_seeds<T: Send>(seeds: Range<u64>, run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some(seed) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end) {
            let result = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
                next.store(seeds.end, Ordering::Relaxed);
                eprintln!("PARSHALL_SEED={seed} shows it again");
                resume_unwind(panic)
            });
            done.lock().insert(seed, result);
        }
    };
    scope(|scope| {
        let threads: Vec<_> = (0..available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    });
    done.into_inner().into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_seeds_run_and_one_that_fails_is_heard_of() {
        assert_eq!(run_seeds(3..50, |seed| seed * 2), (3..50).map(|seed| seed * 2).collect::<Vec<_>>());
        let failed = catch_unwind(|| run_seeds(0..50, |seed| assert_ne!(seed, 20, "twenty")));
        assert!(failed.unwrap_err().downcast_ref::<String>().unwrap().contains("twenty"));
    }
}
