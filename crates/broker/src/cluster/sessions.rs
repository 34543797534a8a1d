//! The sessions of brokers with the active controller. Pure: times are milliseconds of the monotonic clock.
//!
//! A new controller has no contact yet. Each broker gets a whole session from its beginning on, except a broker whose
//! silence it knows of from before: the leader that it replaced.

use std::collections::{BTreeMap, BTreeSet};

/// The last contact with each broker.
#[derive(Debug, Default)]
pub struct Sessions {
    began_ms: i64,
    last_contact_ms: BTreeMap<i32, i64>,
    /// Brokers whose process is known to have ended.
    dead: BTreeSet<i32>,
}

impl Sessions {
    /// Sessions of a controller that begins now.
    pub fn begin(now_ms: i64) -> Self {
        Self { began_ms: now_ms, ..Self::default() }
    }

    /// A broker has sent a heartbeat, or another request that counts as one.
    pub fn touch(&mut self, broker: i32, now_ms: i64) {
        self.dead.remove(&broker);
        let last = self.last_contact_ms.entry(broker).or_insert(now_ms);
        *last = now_ms.max(*last);
    }

    /// The last contact with a broker, before this node became the controller.
    pub fn silent_since(&mut self, broker: i32, last_contact_ms: i64) {
        self.last_contact_ms.entry(broker).or_insert(last_contact_ms);
    }

    /// A broker's process has ended.
    pub fn died(&mut self, broker: i32) {
        self.dead.insert(broker);
    }

    /// Whether a broker's process is known to have ended.
    pub fn is_dead(&self, broker: i32) -> bool {
        self.dead.contains(&broker)
    }

    /// Whether this controller had contact with a broker, and its session goes on.
    pub fn is_alive(&self, broker: i32, now_ms: i64, timeout_ms: i64) -> bool {
        self.last_contact_ms.contains_key(&broker) && !self.is_over(broker, now_ms, timeout_ms)
    }

    /// Whether a session is over: by silence, or because the process has ended.
    pub fn is_over(&self, broker: i32, now_ms: i64, timeout_ms: i64) -> bool {
        let last_contact_ms = self.last_contact_ms.get(&broker).copied().unwrap_or(self.began_ms);
        self.dead.contains(&broker) || now_ms - last_contact_ms >= timeout_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_death_end_a_session_and_a_sign_of_life_begins_it_anew() {
        let mut sessions = Sessions::begin(1000);
        assert!(!sessions.is_over(1, 2999, 2000) && sessions.is_over(1, 3000, 2000));
        assert!(!sessions.is_alive(1, 1500, 2000), "nobody has heard of it yet");
        sessions.touch(1, 2500);
        assert!(!sessions.is_over(1, 4499, 2000) && sessions.is_over(1, 4500, 2000));
        sessions.died(1);
        assert!(sessions.is_over(1, 2501, 2000));
        assert!(!sessions.is_alive(1, 2501, 2000));
        sessions.touch(1, 2600);
        assert!(!sessions.is_over(1, 2601, 2000) && sessions.is_alive(1, 2601, 2000));
    }

    #[test]
    fn a_new_controller_counts_the_silence_that_it_knows_of() {
        let mut sessions = Sessions::begin(10_000);
        sessions.silent_since(1, 8500);
        assert!(sessions.is_over(1, 10_500, 2000) && !sessions.is_over(2, 10_500, 2000));
        sessions.touch(1, 10_600);
        sessions.silent_since(1, 8500);
        assert!(!sessions.is_over(1, 10_700, 2000));
    }
}
