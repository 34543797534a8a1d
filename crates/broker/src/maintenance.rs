//! Background work of a broker: flush, checkpoints, retention, compaction, watching the disk and the files of
//! certificates.
//!
//! Each loop is one task; work on files runs on the blocking pool. Both are the control plane's, whose pool clients
//! cannot fill. Intervals come from the current configuration.

use std::sync::Arc;
use std::time::Duration;

use configuration::BrokerConfig;
use platform::panics::essential;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Broker;
use crate::threads::spawn_blocking;

/// Checkpoints are written at least this often: a restart after a kill checks what was appended since.
const CHECKPOINT_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// How often free space is looked at. What is written meanwhile has to fit into the reserve.
const DISK_INTERVAL: Duration = Duration::from_millis(100);
/// How often files of deleted segments and topics are looked at.
const DELETION_INTERVAL: Duration = Duration::from_secs(1);
/// How often stored batches are checked, and how many bytes at a time: a terabyte takes a day and a half.
const SCRUB_INTERVAL: Duration = Duration::from_secs(1);
const SCRUB_BYTES: u64 = 8 << 20;
/// How often the files of certificates are read.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(60);

/// How long it takes at most to notice a changed interval.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the loops. They end when the set is dropped.
pub(crate) fn start(broker: &Arc<Broker>, loops: &mut JoinSet<()>, control: &Handle) {
    let _entered = control.enter();
    every(loops, broker, |config| millis(config.log_background_flush_interval_ms), flush);
    every(loops, broker, checkpoint_interval, |broker| {
        if let Err(error) = broker.partitions.write_checkpoints() {
            tracing::warn!(%error, "cannot note recovery points; a restart will check more");
        }
    });
    every(
        loops,
        broker,
        |config| millis(config.log_retention_check_interval_ms),
        |broker| broker.partitions.apply_retention(),
    );
    every(loops, broker, |_| DELETION_INTERVAL, |broker| broker.partitions.remove_deleted());
    // A full disk is known before anything is appended.
    broker.partitions.watch_disk();
    every(loops, broker, |_| DISK_INTERVAL, |broker| broker.partitions.watch_disk());
    every(loops, broker, |_| SCRUB_INTERVAL, |broker| broker.partitions.scrub(SCRUB_BYTES));
    if !broker.certificates.listeners().is_empty() {
        every(
            loops,
            broker,
            |_| CERTIFICATES_INTERVAL,
            |broker| broker.certificates.renew_all(broker.env.clock.now_ms()),
        );
    }
    if broker.config().log_cleaner_enable {
        every(loops, broker, |config| millis(config.log_cleaner_backoff_ms), |broker| broker.partitions.compact());
    }
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(1) as u64)
}

/// All checkpoints are written together, at the shortest of their intervals.
fn checkpoint_interval(config: &BrokerConfig) -> Duration {
    let offsets = config.log_flush_offset_checkpoint_interval_ms;
    let log_starts = config.log_flush_start_offset_checkpoint_interval_ms;
    let interval_ms = i64::from(offsets.min(log_starts)).min(config.replica_high_watermark_checkpoint_interval_ms);
    millis(interval_ms).min(CHECKPOINT_INTERVAL_MAX)
}

/// Repeats the work, a period after it was begun. The period is that of the current settings.
fn every(
    loops: &mut JoinSet<()>,
    broker: &Arc<Broker>,
    period: fn(&BrokerConfig) -> Duration,
    work: impl Fn(&Broker) + Clone + Send + 'static,
) {
    let broker = Arc::clone(broker);
    loops.spawn(essential("a loop of maintenance", async move {
        let mut begun = Instant::now();
        loop {
            due(begun, || period(&broker.config())).await;
            begun = Instant::now();
            let (broker, work) = (Arc::clone(&broker), work.clone());
            if spawn_blocking(move || work(&broker)).await.is_err() {
                tracing::error!("a background task failed; it is tried again");
            }
        }
    }));
}

/// Until a period has passed, which may change meanwhile.
async fn due(begun: Instant, period: impl Fn() -> Duration) {
    loop {
        let left = period().saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK_INTERVAL)).await;
    }
}

/// Syncs appends that no request waits for.
fn flush(broker: &Broker) {
    broker.shared.flush_in_background();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn checkpoints_are_as_frequent_as_the_most_impatient_setting_and_at_least_each_second() {
        let interval = |name: &str, value: &str| {
            checkpoint_interval(&BrokerConfig::new([(name.to_owned(), value.to_owned())].into()).expect("it is valid"))
        };
        assert_eq!(interval("node.id", "1"), CHECKPOINT_INTERVAL_MAX);
        for name in [
            "replica.high.watermark.checkpoint.interval.ms",
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
        ] {
            assert_eq!(interval(name, "70"), Duration::from_millis(70), "{name}");
            assert_eq!(interval(name, "70000"), CHECKPOINT_INTERVAL_MAX, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_that_shrinks_is_noticed_while_it_passes() {
        let begun = Instant::now();
        let period = Cell::new(Duration::from_secs(3600));
        let shrink = async {
            sleep(Duration::from_secs(10)).await;
            period.set(Duration::from_secs(20));
        };
        tokio::join!(due(begun, || period.get()), shrink);
        assert_eq!(begun.elapsed(), Duration::from_secs(20));
        period.set(Duration::from_millis(5));
        due(Instant::now(), || period.get()).await;
        assert_eq!(begun.elapsed(), Duration::from_millis(20_005));
    }
}
