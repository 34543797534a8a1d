//! Brokers that are down, and what runs out on those that live: disks, file descriptors.

use super::{Finding, Severity};
use crate::format::{bytes, counted, duration, percent};
use crate::snapshot::{Broker, Directory, Snapshot};

/// The part of a disk, used, from which on it is a finding.
const DISK_NEARLY_FULL: f64 = 0.90;
/// The part of what is used from which on logs are what fills a disk.
const DISK_USED_BY_LOGS: f64 = 0.25;
const FILES_NEARLY_EXHAUSTED: f64 = 0.80;
const FORECAST_SECONDS: f64 = 24.0 * 3600.0;

pub(super) fn find(snapshot: &Snapshot) -> impl Iterator<Item = Finding> {
    snapshot.brokers.values().flat_map(|broker| {
        let dirs = broker.dirs.iter().flat_map(|dir| [failed_dir(broker, dir), nearly_full(broker, dir)]);
        let own = [down(broker), full(broker), soon_full(broker), journal_failed(broker), open_files(broker)];
        own.into_iter().chain(dirs).flatten()
    })
}

fn down(broker: &Broker) -> Option<Finding> {
    (!broker.is_alive).then(|| {
        let state = match broker.silent_since {
            Some(since) => format!("has not answered for {}", duration(since.elapsed().as_secs_f64())),
            None => "is down or fenced".to_owned(),
        };
        Finding::new(
            Severity::Bad,
            format!("Broker {} {state}; it has {}.", broker.id, counted(broker.replicas, "replica")),
            "Look at its process and its log. What it led has moved to replicas in sync, where there are some.",
            "/",
        )
    })
}

fn failed_dir(broker: &Broker, dir: &Directory) -> Option<Finding> {
    let error = dir.error.as_ref()?;
    Some(Finding::new(
        Severity::Bad,
        format!("Log directory {} of broker {} has failed: {error}.", dir.path, broker.id),
        "Look at the disk before the broker is started again; its replicas are on the other brokers.",
        "/",
    ))
}

fn nearly_full(broker: &Broker, dir: &Directory) -> Option<Finding> {
    let (total, usable) = dir.total_bytes.zip(dir.usable_bytes).filter(|(total, _)| *total > 0)?;
    let used = 1.0 - usable as f64 / total as f64;
    (used > DISK_NEARLY_FULL).then(|| {
        let advice = match dir.size_bytes as f64 > DISK_USED_BY_LOGS * (total - usable) as f64 {
            true => "Shorten the retention of large topics, delete what nobody reads, or give it a larger disk.",
            false => "Something else than its logs fills it: look at what, or give the broker a disk of its own.",
        };
        let (used, usable, logs) = (percent(used), bytes(usable), bytes(dir.size_bytes));
        Finding::new(
            Severity::Warn,
            format!("The disk of broker {} is {used} full: {usable} free, {logs} in logs.", broker.id),
            advice,
            "/topics?sort=size",
        )
    })
}

fn full(broker: &Broker) -> Option<Finding> {
    let disk = broker.own_figures()?.disk?;
    disk.is_full.then(|| {
        Finding::new(
            Severity::Bad,
            format!("The disk of broker {} is full: it takes no records.", broker.id),
            "Make room: shorten the retention of large topics or delete what nobody reads. Records are taken again \
             by themselves.",
            "/topics?sort=size",
        )
    })
}

fn soon_full(broker: &Broker) -> Option<Finding> {
    let seconds = broker.own_figures()?.disk?.forecast_seconds;
    (seconds < FORECAST_SECONDS).then(|| {
        Finding::new(
            Severity::Warn,
            format!("The disk of broker {} will be full in {} if it goes on like this.", broker.id, duration(seconds)),
            "Shorten the retention of the topics that grow, or give it a larger disk.",
            "/topics?sort=size",
        )
    })
}

fn journal_failed(broker: &Broker) -> Option<Finding> {
    let has_failed = broker.own_figures()?.page.first("parshall_journal_failed") == Some(1.0);
    has_failed.then(|| {
        Finding::new(
            Severity::Warn,
            format!("The journal of broker {} could not be written: it syncs logs one by one.", broker.id),
            "Look at its log and its disk, then restart it.",
            "/",
        )
    })
}

fn open_files(broker: &Broker) -> Option<Finding> {
    let figures = broker.figures.as_ref()?;
    let is_near = figures.max_fds > 0.0 && figures.open_fds > FILES_NEARLY_EXHAUSTED * figures.max_fds;
    is_near.then(|| {
        Finding::new(
            Severity::Warn,
            format!("Broker {} has {} of {} file descriptors in use.", broker.id, figures.open_fds, figures.max_fds),
            "Raise the limit of open files (ulimit -n, LimitNOFILE) and start it again.",
            "/",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_metrics::Figures;

    #[test]
    fn a_failed_journal_is_a_finding() {
        let page = |failed| {
            format!("parshall_build{{version=\"1\"}} 1\nparshall_uptime_seconds 1\nparshall_journal_failed {failed}\n")
        };
        let found = |failed| {
            let broker = Broker { id: 7, figures: Figures::read(page(failed)), ..Broker::default() };
            journal_failed(&broker).map(|finding| finding.what)
        };
        let text = "The journal of broker 7 could not be written: it syncs logs one by one.";
        assert_eq!((found(1), found(0)), (Some(text.to_owned()), None));
    }
}
