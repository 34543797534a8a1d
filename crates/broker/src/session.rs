//! This broker's session with the controller, as the broker itself knows it.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use parking_lot::Mutex;
use tokio::time::Instant;

/// It is over here before it is over for the controller, which counts from the moment when a heartbeat arrives.
pub struct Session {
    config: Arc<ArcSwap<BrokerConfig>>,
    /// When the last heartbeat that a controller has accepted was sent. `None` after this broker has given up.
    last_taken: Mutex<Option<Instant>>,
}

impl Session {
    /// Begins now.
    pub(crate) fn new(config: &Arc<ArcSwap<BrokerConfig>>) -> Self {
        Self { config: Arc::clone(config), last_taken: Mutex::new(Some(Instant::now())) }
    }

    /// `broker.session.timeout.ms`.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.config.load().broker_session_timeout_ms.unsigned_abs().into())
    }

    /// A controller has accepted a heartbeat that was sent then.
    pub(crate) fn extend(&self, sent: Instant) {
        *self.last_taken.lock() = Some(sent);
    }

    /// This broker has asked that others take over.
    pub(crate) fn give_up(&self) {
        *self.last_taken.lock() = None;
    }

    /// Whether others may have taken over by now what this broker leads.
    pub(crate) fn is_over(&self) -> bool {
        self.last_taken.lock().is_none_or(|taken| taken.elapsed() > self.timeout())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_over_when_no_heartbeat_was_accepted_for_its_whole_length() {
        let config = Arc::new(ArcSwap::from_pointee(BrokerConfig::default()));
        let session = Session::new(&config);
        let sent = Instant::now();
        advance(session.timeout()).await;
        assert!(!session.is_over());
        advance(Duration::from_millis(1)).await;
        assert!(session.is_over());
        session.extend(sent);
        assert!(session.is_over(), "the answer came after the session's end");
        session.extend(Instant::now());
        assert!(!session.is_over());
        session.give_up();
        assert!(session.is_over());
    }
}
