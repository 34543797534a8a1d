//! What a broker does without being asked: flush, note recovery points, delete and compact what is old, watch the disk.
//!
//! Each loop is one task; work on files runs on the blocking pool. Intervals come from the configuration.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::Broker;

/// Recovery points are noted at least this often: a restart after a kill checks what was appended since.
const CHECKPOINT_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// How often free space is looked at. What is written meanwhile has to fit into the reserve.
const DISK_INTERVAL: Duration = Duration::from_millis(100);
/// How often files of deleted segments and topics are looked at.
const DELETION_INTERVAL: Duration = Duration::from_secs(1);
/// How often stored batches are checked, and how many bytes at a time: a terabyte takes a day and a half.
const SCRUB_INTERVAL: Duration = Duration::from_secs(1);
const SCRUB_BYTES: u64 = 8 << 20;

/// Starts the loops. They end when the set is dropped.
pub(crate) fn start(broker: &Arc<Broker>, loops: &mut JoinSet<()>) {
    let config = broker.config();
    let millis = |ms: i64| Duration::from_millis(ms.max(1) as u64);
    let checkpoint = Duration::from_millis(config.log_flush_offset_checkpoint_interval_ms.max(1) as u64);
    every(loops, broker, millis(config.log_background_flush_interval_ms), flush);
    every(loops, broker, checkpoint.min(CHECKPOINT_INTERVAL_MAX), |broker| {
        if let Err(error) = broker.partitions.write_checkpoints() {
            tracing::warn!(%error, "cannot note recovery points; a restart will check more");
        }
    });
    every(loops, broker, millis(config.log_retention_check_interval_ms), |broker| {
        broker.partitions.apply_retention();
    });
    every(loops, broker, DELETION_INTERVAL, |broker| broker.partitions.remove_deleted());
    // What is full already is known before anything is appended.
    broker.partitions.watch_disk();
    every(loops, broker, DISK_INTERVAL, |broker| broker.partitions.watch_disk());
    every(loops, broker, SCRUB_INTERVAL, |broker| broker.partitions.scrub(SCRUB_BYTES));
    if config.log_cleaner_enable {
        every(loops, broker, millis(config.log_cleaner_backoff_ms), |broker| broker.partitions.compact());
    }
}

fn every(
    loops: &mut JoinSet<()>,
    broker: &Arc<Broker>,
    period: Duration,
    work: impl Fn(&Broker) + Clone + Send + 'static,
) {
    let broker = Arc::clone(broker);
    loops.spawn(async move {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let (broker, work) = (Arc::clone(&broker), work.clone());
            if spawn_blocking(move || work(&broker)).await.is_err() {
                tracing::error!("a background task failed; it is tried again");
            }
        }
    });
}

/// Brings to the disk what nobody waits for.
fn flush(broker: &Broker) {
    for partition in std::mem::take(&mut *broker.shared.dirty.lock()) {
        partition.flush_in_background();
    }
}
