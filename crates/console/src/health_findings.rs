//! Whether a cluster is well, and what is wrong, in words, with what to do.

mod brokers;
mod connect;
pub(crate) mod groups;
mod partitions;
mod quorum;
mod transactions;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::time::Duration;

use serde::Serialize;

use crate::format::duration;
use crate::history::History;
use crate::snapshot::Snapshot;

/// What was seen longer ago is said to be old. A look every two seconds may take a while.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(6);

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
    fn new(severity: Severity, what: String, advice: &str, href: &'static str) -> Self {
        Self { severity, what, advice: advice.to_owned(), href: href.into() }
    }

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
    findings.extend(outdated(snapshot));
    findings.extend(brokers::find(snapshot));
    findings.extend(partitions::find(snapshot));
    findings.extend(quorum::find(snapshot));
    findings.extend(snapshot.gaps.iter().map(|gap| {
        let what = format!("Not everything is known: {gap}.");
        Finding::new(Severity::Warn, what, "It is asked for again every few seconds.", "/")
    }));
    groups::find(snapshot, history, &mut findings);
    transactions::find(snapshot, &mut findings);
    connect::find(snapshot, &mut findings);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

/// That the cluster was seen too long ago to be sure of it.
fn outdated(snapshot: &Snapshot) -> Option<Finding> {
    let age = snapshot.at.elapsed();
    (age > AGE_MAX || snapshot.trouble.is_some()).then(|| {
        let reason = snapshot.trouble.as_deref().unwrap_or("it is slow to answer");
        let what = format!("The cluster was last seen {} ago: {reason}.", duration(age.as_secs_f64()));
        let severity = if snapshot.trouble.is_some() { Severity::Bad } else { Severity::Warn };
        Finding::new(severity, what, "It is asked again every few seconds.", "/")
    })
}

/// One word for all of it, and how it looks.
pub(crate) fn verdict(findings: &[Finding]) -> (&'static str, &'static str) {
    match findings.iter().map(|finding| finding.severity).max() {
        None | Some(Severity::Note) => ("Healthy", "good"),
        Some(Severity::Warn) => ("Warning", "warn"),
        Some(Severity::Bad) => ("Critical", "bad"),
    }
}
