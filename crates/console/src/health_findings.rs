//! Whether a cluster is well, and what is wrong, in words, with what to do.

pub(crate) mod groups;

use std::borrow::Cow;

use std::cmp::Reverse;

use serde::Serialize;

use crate::format::{bytes, counted, duration, percent};
use crate::history::History;
use crate::snapshot::Snapshot;

/// Free space that is worth a word.
const DISK_NEARLY_FULL: f64 = 0.90;
const FORECAST_SECONDS: f64 = 24.0 * 3600.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Nothing is wrong; something goes on.
    Note,
    /// Something will go wrong.
    Warn,
    /// Something is wrong for clients.
    Bad,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub severity: Severity,
    pub what: String,
    pub advice: String,
    /// Below the cluster's pages.
    pub href: Cow<'static, str>,
}

impl Finding {
    pub(crate) fn class(&self) -> &'static str {
        match self.severity {
            Severity::Note => "",
            Severity::Warn => "warn",
            Severity::Bad => "bad",
        }
    }
}

/// What is wrong, the worst first.
pub(crate) fn findings(snapshot: &Snapshot, history: &History) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |severity, what: String, advice: &str, href: &'static str| {
        findings.push(Finding { severity, what, advice: advice.to_owned(), href: href.into() });
    };
    for broker in snapshot.brokers.values().filter(|broker| !broker.is_alive) {
        find(
            Severity::Bad,
            format!("Broker {} is down or fenced; it has {}.", broker.id, counted(broker.replicas, "replica")),
            "Look at its process and its log. What it led has moved to replicas in sync, where there are some.",
            "/",
        );
    }
    let offline = snapshot.partitions().filter(|(_, partition)| partition.is_offline()).count();
    if offline > 0 {
        find(
            Severity::Bad,
            format!("{} without a leader: nobody can write to them or read them.", have(offline)),
            "Start the brokers with their replicas. If those in sync are lost for good, an unclean election takes \
             another and loses records.",
            "/partitions?show=offline",
        );
    }
    let under_replicated =
        snapshot.partitions().filter(|(_, partition)| !partition.is_offline() && partition.is_under_replicated());
    let under_replicated = under_replicated.count();
    if under_replicated > 0 {
        find(
            Severity::Warn,
            format!("{} with a replica that is not in sync.", have(under_replicated)),
            "A replica catches up by itself when its broker is back. If all brokers are up, look at the disk and the \
             network of the one that is behind.",
            "/partitions?show=under-replicated",
        );
    }
    for broker in snapshot.brokers.values() {
        for dir in &broker.dirs {
            if let Some(error) = &dir.error {
                find(
                    Severity::Bad,
                    format!("Log directory {} of broker {} has failed: {error}.", dir.path, broker.id),
                    "Look at the disk before the broker is started again; its replicas are on the other brokers.",
                    "/",
                );
            }
            let Some((total, usable)) = dir.total_bytes.zip(dir.usable_bytes).filter(|(total, _)| *total > 0) else {
                continue;
            };
            let used = 1.0 - usable as f64 / total as f64;
            if used > DISK_NEARLY_FULL {
                find(
                    Severity::Warn,
                    format!("The disk of broker {} is {} full: {} free.", broker.id, percent(used), bytes(usable)),
                    "Shorten the retention of large topics, delete what nobody reads, or give it a larger disk.",
                    "/topics?sort=size",
                );
            }
        }
        let Some(figures) = &broker.figures else { continue };
        if figures.disk.is_some_and(|disk| disk.is_full) {
            find(
                Severity::Bad,
                format!("The disk of broker {} is full: it takes no records.", broker.id),
                "Make room: shorten the retention of large topics or delete what nobody reads. Records are taken again \
                 by themselves.",
                "/topics?sort=size",
            );
        }
        let forecast = figures.disk.map_or(f64::INFINITY, |disk| disk.forecast_seconds);
        if forecast < FORECAST_SECONDS {
            find(
                Severity::Warn,
                format!(
                    "The disk of broker {} will be full in {} if it goes on like this.",
                    broker.id,
                    duration(forecast)
                ),
                "Shorten the retention of the topics that grow, or give it a larger disk.",
                "/topics?sort=size",
            );
        }
        if figures.max_fds > 0.0 && figures.open_fds > 0.8 * figures.max_fds {
            find(
                Severity::Warn,
                format!(
                    "Broker {} has {} of {} file descriptors in use.",
                    broker.id, figures.open_fds, figures.max_fds
                ),
                "Raise the limit of open files (ulimit -n, LimitNOFILE) and start it again.",
                "/",
            );
        }
    }
    if let Some(quorum) = &snapshot.quorum
        && quorum.leader_id.is_none()
    {
        find(
            Severity::Bad,
            "The metadata quorum has no leader: nothing can be created, changed or elected.".to_owned(),
            "Most of its voters have to run and to reach each other.",
            "/quorum",
        );
    }
    if !snapshot.reassignments.is_empty() {
        find(
            Severity::Note,
            match snapshot.reassignments.len() {
                1 => "1 partition is moving.".to_owned(),
                moving => format!("{moving} partitions are moving."),
            },
            "Clients can go on meanwhile.",
            "/partitions/moves",
        );
    }
    for gap in &snapshot.gaps {
        find(
            Severity::Warn,
            format!("Not everything is known: {gap}."),
            "It is asked for again every few seconds.",
            "/",
        );
    }
    groups::find(snapshot, history, &mut findings);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

fn have(partitions: usize) -> String {
    match partitions {
        1 => "1 partition is".to_owned(),
        _ => format!("{partitions} partitions are"),
    }
}

/// One word for all of it, and how it looks.
pub(crate) fn verdict(findings: &[Finding]) -> (&'static str, &'static str) {
    match findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Note) => ("Healthy", "good"),
        Some(Severity::Warn) => ("Warning", "warn"),
        Some(Severity::Bad) => ("Critical", "bad"),
    }
}
