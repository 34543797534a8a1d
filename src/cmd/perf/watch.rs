//! Waits for the tasks of a run, shows its progress, and ends it on Ctrl-C.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// What a shell shows for a command that Ctrl-C has ended.
pub(super) const INTERRUPTED: u8 = 130;

/// Calls `show` with the length of each interval until all tasks are done; Ctrl-C sets `stop`, which they obey. Returns
/// whether it did.
pub(super) async fn watch(
    tasks: &mut JoinSet<Result<(), impl Into<anyhow::Error> + 'static>>,
    stop: &AtomicBool,
    period: Duration,
    mut show: impl FnMut(Duration) -> io::Result<()>,
) -> Result<bool> {
    let mut shown = Instant::now();
    let mut ticks = interval_at(shown + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    let mut interrupted = false;
    loop {
        tokio::select! {
            done = tasks.join_next() => match done {
                None => return Ok(interrupted),
                Some(done) => done.context("a task of the run failed")?.map_err(Into::into)?,
            },
            _ = ticks.tick() => {
                show(shown.elapsed())?;
                shown = Instant::now();
            }
            _ = &mut interrupt, if !interrupted => {
                interrupted = true;
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
}
