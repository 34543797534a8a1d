//! Connectors and tasks that have failed, and Connect clusters that do not answer.

use super::{Finding, Severity};
use crate::connect::{Connector, Connectors};
use crate::format::{counted, duration, escape, group_part, name_shown};
use crate::snapshot::Snapshot;

/// Of several connectors with the same trouble so many are named.
const NAMED: usize = 3;

pub(super) fn find(snapshot: &Snapshot, findings: &mut Vec<Finding>) {
    findings.extend(snapshot.connects.iter().filter_map(silent));
    let connectors = snapshot.connects.iter().flat_map(|connect| {
        connect.connectors.iter().map(move |(name, connector)| (connect.name.as_str(), name.as_str(), connector))
    });
    let mut failed = connectors.filter_map(failed).fuse();
    findings.extend(failed.by_ref().take(NAMED));
    let more = failed.count();
    if more > 0 {
        let what = format!(
            "{} failed, or some of their tasks.",
            if more == 1 {
                "1 more connector has".to_owned()
            } else {
                format!("{} have", counted(more, "more connector"))
            }
        );
        let advice = "Look at the traces; those with one cause need one remedy.";
        findings.push(Finding::new(Severity::Warn, what, advice, "/connect?sort=state"));
    }
}

/// That a Connect cluster does not answer.
fn silent(connect: &Connectors) -> Option<Finding> {
    let (since, reason) = connect.trouble.as_ref()?;
    let what = format!("{reason}, for {} now.", duration(since.elapsed().as_secs_f64()));
    let advice = "Look at its workers. What its connectors do is shown as it was seen last.";
    Some(Finding::new(Severity::Warn, what, advice, "/connect"))
}

fn failed((connect, name, connector): (&str, &str, &Connector)) -> Option<Finding> {
    let tasks = connector.tasks_failed();
    let what = match connector.has_failed() {
        true => format!("Connector {} has failed.", name_shown(name)),
        false if tasks > 0 => format!(
            "{tasks} of {} of connector {} {} failed.",
            counted(connector.tasks.len(), "task"),
            name_shown(name),
            if tasks == 1 { "has" } else { "have" }
        ),
        false => return None,
    };
    Some(Finding {
        severity: Severity::Warn,
        what,
        advice: "Its page has the trace. What has failed stays so until it is restarted.".to_owned(),
        href: format!("/connect/{}/{}", escape(connect), group_part(name)).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::Instant;

    use super::*;
    use crate::connect::Task;

    fn connector(state: &str, tasks: &[&str]) -> Connector {
        let task = |(id, state): (usize, &&str)| Task { id: id as i32, state: (*state).to_owned(), ..Task::default() };
        Connector {
            state: state.to_owned(),
            tasks: tasks.iter().enumerate().map(task).collect(),
            ..Connector::default()
        }
    }

    fn found(connectors: &[(&str, Connector)], trouble: Option<&str>) -> Vec<(String, String)> {
        let connectors = connectors.iter().map(|(name, connector)| ((*name).to_owned(), connector.clone())).collect();
        let mut snapshot = Snapshot::empty();
        snapshot.connects = vec![Connectors {
            name: "c:8083".to_owned(),
            connectors: Arc::new(connectors),
            trouble: trouble.map(|reason| (Instant::now(), reason.to_owned())),
            ..Connectors::default()
        }];
        let mut findings = Vec::new();
        find(&snapshot, &mut findings);
        findings.into_iter().map(|finding| (finding.what, finding.href.into_owned())).collect()
    }

    #[test]
    fn what_has_failed_is_told_with_its_page() {
        let calm = [("a", connector("RUNNING", &["RUNNING"])), ("b", connector("PAUSED", &["PAUSED"]))];
        assert_eq!(found(&calm, None), []);
        let failed = [
            ("a/b", connector("RUNNING", &["FAILED", "RUNNING", "FAILED"])),
            ("c", connector("FAILED", &["RUNNING"])),
            ("d", connector("RUNNING", &["FAILED"])),
            ("e", connector("FAILED", &[])),
            ("f", connector("FAILED", &[])),
        ];
        let expected = [
            ("2 of 3 tasks of connector a/b have failed.", "/connect/c%3A8083/a%2Fb"),
            ("Connector c has failed.", "/connect/c%3A8083/c"),
            ("1 of 1 task of connector d has failed.", "/connect/c%3A8083/d"),
            ("2 more connectors have failed, or some of their tasks.", "/connect?sort=state"),
        ];
        assert_eq!(found(&failed, None), expected.map(|(what, href)| (what.to_owned(), href.to_owned())));
        assert!(found(&failed[..4], None)[3].0.starts_with("1 more connector has failed"));
    }

    #[test]
    fn a_connect_cluster_that_does_not_answer_is_told() {
        let reason = "Connect at c:8083 cannot be asked: nobody listens there";
        assert_eq!(found(&[], Some(reason)), [(format!("{reason}, for 0 s now."), "/connect".to_owned())]);
    }
}
