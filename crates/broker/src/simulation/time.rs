//! The time of a simulation: it passes for all machines alike, when the simulation says so.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

thread_local! {
    /// The time that passes for all, and what the clock of the runtime that is driven said at its beginning.
    static TIME: Cell<(i64, Option<(Instant, i64)>)> = const { Cell::new((0, None)) };
}

/// Milliseconds since the simulation began.
pub(crate) fn now_ms() -> i64 {
    now().as_millis() as i64
}

pub(super) fn now() -> Duration {
    let (now_ms, running) = TIME.get();
    match running {
        Some((began, began_ms)) => Duration::from_millis(began_ms as u64) + began.elapsed(),
        None => Duration::from_millis(now_ms as u64),
    }
}

/// Sets the time that passes for all.
pub(super) fn set_now_ms(ms: i64) {
    TIME.set((ms, None));
}

/// While a runtime is driven, time passes by its clock.
pub(super) fn set_running(began: Option<(Instant, i64)>) {
    let (now_ms, _) = TIME.get();
    TIME.set((now_ms, began));
}
