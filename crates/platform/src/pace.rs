//! Requests over many elements yield to other tasks.
//!
//! A worker of the runtime runs a handler until it waits for something. What only computes waits for nothing: a request
//! that names a hundred thousand topics would keep whatever else the worker has to do, heartbeats too, for as long.

use tokio::task::yield_now;

/// Elements after which a handler yields. Each takes about a microsecond.
pub const ELEMENTS_PER_TURN: usize = 1_000;

/// Counts what a handler has done since it last yielded.
#[derive(Debug, Default)]
pub struct Pace {
    elements: usize,
}

impl Pace {
    /// Counts processed elements, and yields when it is time.
    pub async fn step(&mut self, elements: usize) {
        self.elements += elements;
        if self.elements >= ELEMENTS_PER_TURN {
            self.elements = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn others_have_their_turn_after_so_many_elements() {
        let turns = Arc::new(AtomicUsize::new(0));
        let others = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let mut pace = Pace::default();
        for _ in 0..10 * ELEMENTS_PER_TURN {
            pace.step(1).await;
        }
        assert_eq!(turns.load(Ordering::Relaxed), 10);
        pace.step(ELEMENTS_PER_TURN - 1).await;
        assert_eq!(turns.load(Ordering::Relaxed), 10);
        other.abort();
    }
}
