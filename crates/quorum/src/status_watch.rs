//! What a node knows of the quorum, for all who wait until that changes.
//!
//! They are woken in the order in which they began to wait. Tokio's `watch` wakes in random order, which would give a
//! simulated cluster another course each time.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::QuorumStatus;

/// The node has stopped: nothing changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node of the quorum has stopped")]
pub struct Stopped;

struct Shared {
    latest: Mutex<Latest>,
    changes: Notify,
}

struct Latest {
    status: QuorumStatus,
    version: u64,
    has_stopped: bool,
}

/// Tells of changes until it is dropped.
pub(crate) struct Announcer {
    shared: Arc<Shared>,
}

/// Waits for changes. A clone has seen what the original has.
#[derive(Clone)]
pub struct StatusWatch {
    shared: Arc<Shared>,
    seen: u64,
}

pub(crate) fn announce(status: QuorumStatus) -> (Announcer, StatusWatch) {
    let latest = Mutex::new(Latest { status, version: 0, has_stopped: false });
    let shared = Arc::new(Shared { latest, changes: Notify::new() });
    (Announcer { shared: Arc::clone(&shared) }, StatusWatch { shared, seen: 0 })
}

impl Announcer {
    pub(crate) fn set(&self, status: QuorumStatus) {
        let mut latest = self.shared.latest.lock();
        if latest.status != status {
            latest.status = status;
            latest.version += 1;
            drop(latest);
            self.shared.changes.notify_waiters();
        }
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.shared.latest.lock().has_stopped = true;
        self.shared.changes.notify_waiters();
    }
}

impl StatusWatch {
    pub fn status(&self) -> QuorumStatus {
        self.shared.latest.lock().status.clone()
    }

    /// The status, which is not new to [`Self::changed`] any more.
    pub fn see(&mut self) -> QuorumStatus {
        let latest = self.shared.latest.lock();
        self.seen = latest.version;
        latest.status.clone()
    }

    /// Waits until the status is another one than was seen last, and has it seen.
    pub async fn changed(&mut self) -> Result<(), Stopped> {
        loop {
            // Made before it looks, it misses no change.
            let change = self.shared.changes.notified();
            {
                let latest = self.shared.latest.lock();
                if latest.version != self.seen {
                    self.seen = latest.version;
                    return Ok(());
                }
                if latest.has_stopped {
                    return Err(Stopped);
                }
            }
            change.await;
        }
    }

    /// Waits until the status is as expected, which it may be already.
    pub async fn wait_for(&mut self, is_expected: impl Fn(&QuorumStatus) -> bool) -> Result<QuorumStatus, Stopped> {
        loop {
            let status = self.see();
            if is_expected(&status) {
                return Ok(status);
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;
    use crate::VoterSet;

    fn status(epoch: i32) -> QuorumStatus {
        let voters = Arc::new(VoterSet::default());
        QuorumStatus { leader: None, epoch, own_epoch: None, voters, high_watermark: 0, has_failed: false }
    }

    #[tokio::test]
    async fn those_who_wait_go_on_in_the_order_in_which_they_came() {
        let (announcer, watch) = announce(status(1));
        let (mut waiting, order) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        for n in 0..20 {
            let (mut watch, order) = (watch.clone(), Arc::clone(&order));
            waiting.spawn(async move {
                watch.changed().await.unwrap();
                order.lock().push(n);
            });
        }
        tokio::task::yield_now().await;
        announcer.set(status(2));
        waiting.join_all().await;
        assert_eq!(*order.lock(), Vec::from_iter(0..20));
    }

    #[tokio::test]
    async fn a_change_is_seen_once_and_the_end_always() {
        let (announcer, mut watch) = announce(status(1));
        announcer.set(status(2));
        assert_eq!(watch.clone().wait_for(|status| status.epoch == 2).await.unwrap(), status(2));
        assert_eq!(watch.changed().await, Ok(()));
        announcer.set(status(2));
        announcer.set(status(3));
        assert_eq!(watch.see(), status(3));
        drop(announcer);
        assert_eq!(watch.changed().await, Err(Stopped));
        assert_eq!(watch.wait_for(|status| status.epoch == 4).await, Err(Stopped));
        assert_eq!(watch.status(), status(3));
    }
}
