//! A timer for schedules finer than the millisecond of the runtime's own.

use std::io;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// One timer, for one task: setting it anew replaces what it was set to.
pub(crate) struct Timer {
    file: AsyncFd<OwnedFd>,
}

impl Timer {
    /// Must be called within a runtime.
    #[expect(deprecated, reason = "its successor is an unsafe function; an OwnedFd is all that it asks for")]
    pub(crate) fn new() -> io::Result<Self> {
        let file = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self { file: AsyncFd::new(file)? })
    }

    /// Waits until a point in time. May be dropped before. A point in the past still yields to other tasks, so that a
    /// loop around this cannot starve them.
    pub(crate) async fn wait_until(&self, at: Instant) -> io::Result<()> {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &once(left))?;
        loop {
            let mut ready = self.file.readable().await?;
            let read = ready.try_io(|file| {
                let mut expirations = [0; 8];
                Ok(rustix::io::read(file, &mut expirations)?)
            });
            match read {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                // It had been set to something else when it became readable.
                Err(_) => {}
            }
        }
    }
}

fn once(after: Duration) -> Itimerspec {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let value = Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) };
    Itimerspec { it_interval: zero, it_value: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_get_their_turn_when_there_is_nothing_to_wait_for() {
        let timer = Timer::new().unwrap();
        let other = tokio::spawn(async {});
        for _ in 0..10 {
            timer.wait_until(Instant::now()).await.unwrap();
        }
        assert!(other.is_finished());
    }

    #[tokio::test]
    async fn it_waits_and_can_be_set_anew() {
        let timer = Timer::new().unwrap();
        let started = Instant::now();
        let long = tokio::time::timeout(Duration::from_millis(1), timer.wait_until(started + Duration::from_secs(60)));
        assert!(long.await.is_err());
        timer.wait_until(started + Duration::from_millis(3)).await.unwrap();
        assert!(started.elapsed() >= Duration::from_millis(3));
        timer.wait_until(started).await.unwrap();
    }
}
