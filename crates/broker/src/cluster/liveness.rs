//! Which brokers are alive, as the active controller knows it.

use std::sync::Arc;

use parking_lot::Mutex;
use platform::Clock;
use tokio::sync::Notify;

use super::sessions::Sessions;

/// Which brokers are alive, while this node is the active controller.
pub struct Liveness {
    clock: Arc<dyn Clock>,
    sessions: Mutex<Sessions>,
    /// A broker's process has ended.
    news: Notify,
}

impl Liveness {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let sessions = Mutex::new(Sessions::begin(clock.now().monotonic_ms));
        Self { clock, sessions, news: Notify::new() }
    }

    /// A broker has sent a heartbeat, or another request that counts as one.
    pub fn touch(&self, broker: i32) {
        self.sessions.lock().touch(broker, self.clock.now().monotonic_ms);
    }

    /// A broker's process has ended.
    pub fn died(&self, broker: i32) {
        self.sessions.lock().died(broker);
        self.news.notify_one();
    }

    /// Waits until a broker's process has ended.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Whether a broker is known to run, so that another process with its id cannot be it.
    pub fn is_alive(&self, broker: i32, timeout_ms: i64) -> bool {
        self.sessions.lock().is_alive(broker, self.clock.now().monotonic_ms, timeout_ms)
    }

    /// This node becomes the controller. The argument has the former one, and for how many milliseconds it has been
    /// silent.
    pub fn begin(&self, before: Option<(i32, i64)>) {
        let now_ms = self.clock.now().monotonic_ms;
        let mut sessions = self.sessions.lock();
        let died = before.is_some_and(|(broker, _)| sessions.is_dead(broker));
        *sessions = Sessions::begin(now_ms);
        if let Some((broker, silent_ms)) = before {
            sessions.silent_since(broker, now_ms - silent_ms);
            if died {
                sessions.died(broker);
            }
        }
    }

    /// Of these brokers, by id and epoch, those whose session is over.
    pub fn over(&self, brokers: impl Iterator<Item = (i32, i64)>, timeout_ms: i64) -> Vec<(i32, i64)> {
        let now_ms = self.clock.now().monotonic_ms;
        let sessions = self.sessions.lock();
        brokers.filter(|(id, _)| sessions.is_over(*id, now_ms, timeout_ms)).collect()
    }
}
