//! What the active controller does by itself: it fences dead brokers, and gives leaderships back to preferred leaders.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Controller, ControllerError};

/// How often sessions are checked, besides when a broker's process ends.
const INTERVAL: Duration = Duration::from_millis(100);

/// Partitions that change leaders at a time because the controller wants it. The others follow with the next ticks.
const CHANGES_MAX: usize = 1000;

/// When the controller elects leaders by itself: once each period, and then until there is nothing left to elect. A
/// broker that was away may have led tens of thousands of partitions.
struct Elections {
    last: Instant,
    has_more: bool,
}

impl Elections {
    fn begin(now: Instant) -> Self {
        Self { last: now, has_more: false }
    }

    /// After those that were held at that time, with whether there may be more of them.
    fn held(now: Instant, outcomes: [&Result<bool, ControllerError>; 2]) -> Self {
        Self { last: now, has_more: outcomes.contains(&&Ok(true)) }
    }

    fn are_due(&self, now: Instant, period: Duration) -> bool {
        self.has_more || now - self.last >= period
    }
}

/// Watches over the brokers whenever this node is the active controller, until it is dropped.
pub async fn watch_brokers(controller: Controller) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut controls_in = None;
    let mut last_leader = None;
    let mut elections = Elections::begin(Instant::now());
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {}
            () = controller.liveness.news() => {}
        }
        let status = controller.quorum.status();
        if status.own_epoch != controls_in {
            controls_in = status.own_epoch;
            elections = Elections::begin(Instant::now());
            if let Some(epoch) = controls_in {
                tracing::info!(epoch, "this node is the active controller");
                let silent = |leader: i32| Some((leader, controller.quorum.ms_since_contact(leader)?));
                controller.liveness.begin(last_leader.and_then(silent));
            }
        }
        last_leader = status.leader.filter(|leader| *leader != controller.node_id).or(last_leader);
        if controls_in.is_none() {
            continue;
        }
        fence(&controller).await;
        let config = controller.config.load();
        let period = Duration::from_secs(config.leader_imbalance_check_interval_seconds.unsigned_abs());
        let now = Instant::now();
        if elections.are_due(now, period) {
            drop(config);
            let balanced = controller.balance_leaders(CHANGES_MAX).await;
            let elected = controller.elect_unclean_leaders(CHANGES_MAX).await;
            elections = Elections::held(now, [&balanced, &elected]);
            if let Err(error) = balanced.and(elected) {
                tracing::debug!(%error, "leaderships stay where they are");
            }
        }
    }
}

/// Ends the leaderships of brokers whose session is over.
async fn fence(controller: &Controller) {
    let timeout_ms = i64::from(controller.config.load().broker_session_timeout_ms);
    let image = controller.cache.committed();
    // This node is alive.
    let others = image.brokers().filter(|other| !other.fenced && other.id != controller.node_id);
    let over = controller.liveness.over(others.map(|other| (other.id, other.epoch)), timeout_ms);
    if over.is_empty() {
        return;
    }
    let ids: Vec<i32> = over.iter().map(|(id, _)| *id).collect();
    tracing::warn!(brokers = ?ids, "brokers are gone; others take over what they lead");
    if let Err(error) = controller.fence_brokers(over).await {
        tracing::warn!(%error, "brokers that are gone cannot be fenced");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elections_go_on_until_nothing_is_left() {
        let (begun, period) = (Instant::now(), Duration::from_secs(300));
        let due_after_s = |elections: Elections| {
            [0, 299, 300].into_iter().find(|s| elections.are_due(begun + Duration::from_secs(*s), period))
        };
        assert_eq!(due_after_s(Elections::begin(begun)), Some(300));
        for (balanced, elected, due_s) in [
            (Ok(false), Ok(false), 300),
            (Ok(true), Ok(false), 0),
            (Ok(false), Ok(true), 0),
            (Err(ControllerError::NotController), Ok(false), 300),
        ] {
            assert_eq!(due_after_s(Elections::held(begun, [&balanced, &elected])), Some(due_s), "{balanced:?}");
        }
    }
}
