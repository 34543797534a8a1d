//! Throttles of replication (KIP-73): how much a broker sends to, and fetches as, replicas that are not in sync.
//!
//! A topic names the replicas that are throttled, a broker the bytes per second that go to all of them together. Both
//! sides check their own [`Quota`] before they move records and record afterwards what they moved, so that one answer
//! may exceed the rate, and what follows waits until the mean is below it again (`ReplicationQuotaManager`).

use std::sync::Arc;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use parking_lot::Mutex;

use crate::quotas::Samples;

/// The partitions of a topic whose replica on this broker is throttled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThrottledReplicas {
    All,
    Of(Vec<i32>),
}

impl ThrottledReplicas {
    /// Reads `*` or partition:broker pairs, as they were checked when they were set.
    pub(super) fn parse(elements: &[String], node_id: i32) -> Self {
        if elements.iter().any(|element| element == "*") {
            return Self::All;
        }
        let pairs = elements.iter().filter_map(|element| element.split_once(':'));
        let numbers = pairs.filter_map(|(partition, broker)| Some((partition.parse().ok()?, broker.parse().ok()?)));
        Self::Of(
            numbers.filter(|&(_, broker): &(i32, i32)| broker == node_id).map(|(partition, _)| partition).collect(),
        )
    }

    pub fn has(&self, partition: i32) -> bool {
        match self {
            Self::All => true,
            Self::Of(partitions) => partitions.contains(&partition),
        }
    }
}

/// What one direction of replication may move, and has moved.
pub struct Quota {
    config: Arc<ArcSwap<BrokerConfig>>,
    bytes_per_second_max: fn(&BrokerConfig) -> i64,
    moved: Mutex<Samples>,
}

impl Quota {
    fn new(config: Arc<ArcSwap<BrokerConfig>>, bytes_per_second_max: fn(&BrokerConfig) -> i64) -> Self {
        let (windows_max, window_s) = {
            let config = config.load();
            (config.replication_quota_window_num, config.replication_quota_window_size_seconds)
        };
        Self { config, bytes_per_second_max, moved: Mutex::new(Samples::new(windows_max, window_s)) }
    }

    /// Of what is sent to followers: `leader.replication.throttled.rate`.
    pub(super) fn of_leader(config: Arc<ArcSwap<BrokerConfig>>) -> Self {
        Self::new(config, |config| config.leader_replication_throttled_rate)
    }

    /// Of what is fetched from leaders: `follower.replication.throttled.rate`.
    pub(super) fn of_follower(config: Arc<ArcSwap<BrokerConfig>>) -> Self {
        Self::new(config, |config| config.follower_replication_throttled_rate)
    }

    /// Whether a rate is set. It is not by default.
    pub fn is_limited(&self) -> bool {
        self.bytes_per_second_max() < i64::MAX
    }

    /// Whether throttled replicas have to wait.
    pub fn is_exceeded(&self, now_ms: i64) -> bool {
        self.is_limited() && self.bytes_per_second(now_ms) > self.bytes_per_second_max() as f64
    }

    /// Over the time since the oldest window began, at least the length of one (`SimpleRate`).
    fn bytes_per_second(&self, now_ms: i64) -> f64 {
        let mut moved = self.moved.lock();
        let (bytes, elapsed_ms) = moved.sum(now_ms);
        bytes * 1000.0 / elapsed_ms.max(moved.window_ms()) as f64
    }

    fn bytes_per_second_max(&self) -> i64 {
        (self.bytes_per_second_max)(&self.config.load())
    }

    /// Counts records that were moved for throttled replicas, in sync or not.
    pub fn record(&self, bytes: i64, now_ms: i64) {
        if bytes > 0 {
            self.moved.lock().record(bytes as f64, now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use configuration::ConfigMap;

    use super::*;

    fn quota(settings: &[(&str, &str)]) -> Quota {
        let map: ConfigMap = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Quota::of_leader(Arc::new(ArcSwap::from_pointee(BrokerConfig::new(map).unwrap())))
    }

    /// Moves as much at a time as an answer carries, whenever the quota lets it, and returns what was moved.
    fn moved_within(quota: &Quota, answer_bytes: i64, from_ms: i64, until_ms: i64) -> i64 {
        let mut moved = 0;
        for now_ms in (from_ms..until_ms).step_by(10) {
            if !quota.is_exceeded(now_ms) {
                quota.record(answer_bytes, now_ms);
                moved += answer_bytes;
            }
        }
        moved
    }

    #[test]
    fn the_mean_over_the_windows_is_the_rate() {
        let quota = quota(&[("leader.replication.throttled.rate", "1000000")]);
        let mut moved = 0;
        for second in (10..100).step_by(10) {
            moved += moved_within(&quota, 100_000, second * 1000, (second + 10) * 1000);
            let expected = (second - 10 + 10) * 1_000_000;
            assert!((moved - expected).abs() <= 200_000, "{moved} of {expected} after {second} s");
        }
    }

    #[test]
    fn one_large_answer_is_waited_for() {
        let quota = quota(&[("leader.replication.throttled.rate", "1000")]);
        quota.record(5000, 20_000);
        assert!(quota.is_exceeded(20_000));
        assert!(quota.is_exceeded(24_999));
        assert!(!quota.is_exceeded(25_000));
    }

    #[test]
    fn what_is_older_than_all_windows_is_forgotten() {
        let quota = quota(&[("leader.replication.throttled.rate", "1"), ("replication.quota.window.num", "3")]);
        quota.record(1_000_000, 20_000);
        assert!(quota.is_exceeded(22_999));
        assert!(!quota.is_exceeded(23_000));
    }

    #[test]
    fn a_pause_does_not_save_up_for_later() {
        let quota = quota(&[("leader.replication.throttled.rate", "1000")]);
        quota.record(1000, 0);
        quota.record(3000, 3_600_000);
        assert!(quota.is_exceeded(3_602_999));
    }

    #[test]
    fn the_rate_may_change_while_it_runs() {
        let quota = quota(&[("leader.replication.throttled.rate", "10")]);
        quota.record(1000, 20_000);
        assert!(quota.is_exceeded(20_000));
        let faster = BrokerConfig::new([("leader.replication.throttled.rate".into(), "1000".into())].into()).unwrap();
        quota.config.store(Arc::new(faster));
        assert!(!quota.is_exceeded(20_000));
    }

    #[test]
    fn without_a_rate_nothing_is_too_much() {
        let quota = quota(&[]);
        quota.record(i64::MAX, 20_000);
        quota.record(i64::MAX, 20_000);
        assert!(!quota.is_exceeded(20_000));
    }

    #[test]
    fn a_topic_names_replicas_of_this_broker_or_all() {
        for (text, throttled) in
            [("*", vec![0, 1, 2]), ("0:1,2:1,1:2", vec![0, 2]), ("1:2", vec![]), ("", vec![]), ("10:1", vec![])]
        {
            let elements: Vec<String> = text.split(',').map(str::to_owned).collect();
            let replicas = ThrottledReplicas::parse(&elements, 1);
            let found: Vec<i32> = (0..3).filter(|&partition| replicas.has(partition)).collect();
            assert_eq!(found, throttled, "{text}");
        }
    }
}
