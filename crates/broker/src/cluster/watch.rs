//! What the active controller does by itself: it fences brokers that are gone, and gives leaderships back to those who
//! are meant to have them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::sessions::Sessions;
use crate::Broker;
use crate::env::Clock;

/// How often sessions are looked at, when nobody brings news.
const INTERVAL: Duration = Duration::from_millis(100);

/// Partitions that change leaders at a time because the controller wants it. The others follow later.
const CHANGES_MAX: usize = 1000;

/// What this node, while it is the active controller, knows of the brokers' lives.
pub struct Liveness {
    clock: Arc<dyn Clock>,
    sessions: Mutex<Sessions>,
    /// Somebody has died.
    news: Notify,
}

impl Liveness {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let sessions = Mutex::new(Sessions::begin(clock.now().monotonic_ms));
        Self { clock, sessions, news: Notify::new() }
    }

    /// A broker gives a sign of life.
    pub fn heard(&self, broker: i32) {
        self.sessions.lock().heard(broker, self.clock.now().monotonic_ms);
    }

    /// A broker's process has ended.
    pub fn died(&self, broker: i32) {
        self.sessions.lock().died(broker);
        self.news.notify_one();
    }

    /// Whether a broker is known to run, so that another one of its number cannot be it.
    pub fn is_alive(&self, broker: i32, timeout_ms: i64) -> bool {
        self.sessions.lock().is_alive(broker, self.clock.now().monotonic_ms, timeout_ms)
    }

    /// This node becomes the controller. Of the one before it is known for how many milliseconds it has been silent.
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

/// Watches over the brokers whenever this node is the active controller, until it is dropped.
pub async fn watch(broker: Arc<Broker>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut controls_in = None;
    let mut last_leader = None;
    let mut balanced = Instant::now();
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {}
            () = broker.liveness.news.notified() => {}
        }
        let status = broker.quorum.status().borrow().clone();
        if status.own_epoch != controls_in {
            controls_in = status.own_epoch;
            balanced = Instant::now();
            if let Some(epoch) = controls_in {
                tracing::info!(epoch, "this node is the active controller");
                let silent = |leader: i32| Some((leader, broker.quorum.last_heard_ms(leader)?));
                broker.liveness.begin(last_leader.and_then(silent));
            }
        }
        last_leader = status.leader.filter(|leader| *leader != broker.node_id).or(last_leader);
        if controls_in.is_none() {
            continue;
        }
        fence(&broker).await;
        let config = broker.config();
        let period = Duration::from_secs(config.leader_imbalance_check_interval_seconds.unsigned_abs());
        if balanced.elapsed() >= period {
            drop(config);
            balanced = Instant::now();
            let balanced = broker.controller.balance_leaders(CHANGES_MAX).await;
            let elected = broker.controller.elect_unclean_leaders(CHANGES_MAX).await;
            if let Err(error) = balanced.and(elected) {
                tracing::debug!(%error, "leaderships stay where they are");
            }
        }
    }
}

/// Ends the leaderships of brokers whose session is over.
async fn fence(broker: &Broker) {
    let timeout_ms = i64::from(broker.config().broker_session_timeout_ms);
    let image = broker.metadata.committed();
    // This node is alive: it is the one that asks.
    let others = image.brokers().filter(|other| !other.fenced && other.id != broker.node_id);
    let over = broker.liveness.over(others.map(|other| (other.id, other.epoch)), timeout_ms);
    if over.is_empty() {
        return;
    }
    let ids: Vec<i32> = over.iter().map(|(id, _)| *id).collect();
    tracing::warn!(brokers = ?ids, "brokers are gone; others take over what they lead");
    if let Err(error) = broker.controller.fence_brokers(over).await {
        tracing::warn!(%error, "brokers that are gone cannot be fenced");
    }
}
