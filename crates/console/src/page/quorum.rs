//! `/clusters/NAME/quorum`: who keeps the metadata, who leads, and whether one more may fail.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use client::{Quorum, QuorumReplica, VoterHealth};

use crate::failure::{Failure, render};
use crate::format::{count, counted, duration};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::Snapshot;

#[derive(Template)]
#[template(path = "quorum.html")]
struct Page {
    layout: Layout,
    events: String,
    verdict: (&'static str, &'static str),
    findings: Vec<(&'static str, String)>,
    tiles: Vec<(&'static str, String)>,
    replicas: Vec<Row>,
    is_known: bool,
}

struct Row {
    id: i32,
    role: &'static str,
    state: (&'static str, &'static str),
    end: String,
    lag: String,
    heard: String,
    caught_up: String,
    directory: String,
}

pub(crate) fn health_name(health: VoterHealth) -> &'static str {
    match health {
        VoterHealth::Healthy => "healthy",
        VoterHealth::Behind { .. } => "behind",
        VoterHealth::Silent { .. } => "silent",
    }
}

/// What is wrong, in words, and how bad it is.
pub(crate) fn findings(snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let Some(quorum) = &snapshot.quorum else {
        return match snapshot.gaps.iter().find(|gap| gap.starts_with("the metadata quorum")) {
            Some(gap) => vec![(
                "bad",
                format!(
                    "It does not answer: {gap}. While it has no leader nothing can be created, changed or elected; what \
                     is written and read goes on. Most of its voters have to run and to reach each other."
                ),
            )],
            None => vec![(
                "",
                "This cluster has none: it keeps its metadata in ZooKeeper, or is older than Apache Kafka 3.3. Look at \
                 ZooKeeper's own tools."
                    .to_owned(),
            )],
        };
    };
    let mut findings = Vec::new();
    if quorum.leader_id.is_none() {
        findings.push((
            "bad",
            "It has no leader: nothing can be created, changed or elected. Most of its voters have to run and to reach \
             each other."
                .to_owned(),
        ));
    }
    for voter in &quorum.voters {
        let id = voter.replica_id;
        match quorum.health(voter) {
            VoterHealth::Healthy => {}
            VoterHealth::Behind { .. } => {
                let lag = counted(voter.lag as usize, "record");
                findings.push(("warn", format!("Voter {id} is {lag} behind: look at its disk and its network.")));
            }
            VoterHealth::Silent { for_ms } => {
                let since = for_ms.map_or_else(
                    || "since the leader was elected".to_owned(),
                    |for_ms| format!("for {}", duration(for_ms as f64 / 1000.0)),
                );
                findings.push(("warn", format!("Voter {id} was not heard from {since}: look at its process.")));
            }
        }
    }
    let (voters, well) = (quorum.voters.len(), healthy_voters(quorum));
    let majority = voters / 2 + 1;
    if voters > 1 && well < voters && well <= majority {
        findings.push((
            "bad",
            format!(
                "Only {well} of {voters} voters are healthy, and {majority} are needed: if one more fails, nothing can be \
                 created, changed or elected."
            ),
        ));
    } else if voters > 1 && voters.is_multiple_of(2) {
        findings.push((
            "",
            format!(
                "Of {voters} voters {} may fail, as of {}: the last one adds nothing, an odd number is as good.",
                (voters - 1) / 2,
                voters - 1
            ),
        ));
    }
    findings
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let findings = findings(&snapshot);
    let has = |class| findings.iter().any(|(of, _)| *of == class);
    let verdict = match () {
        () if has("bad") => ("critical", "bad"),
        () if has("warn") => ("warning", "warn"),
        () if snapshot.quorum.is_none() => ("none", ""),
        () => ("healthy", "good"),
    };
    let quorum = snapshot.quorum.as_ref();
    let page = Page {
        layout: context.layout(Section::Quorum),
        events: context.events(),
        verdict,
        findings,
        tiles: quorum.map_or_else(Vec::new, tiles),
        replicas: quorum.map_or_else(Vec::new, |quorum| rows(quorum, &snapshot)),
        is_known: quorum.is_some(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn healthy_voters(quorum: &Quorum) -> usize {
    quorum.voters.iter().filter(|voter| quorum.health(voter) == VoterHealth::Healthy).count()
}

fn tiles(quorum: &Quorum) -> Vec<(&'static str, String)> {
    let well = healthy_voters(quorum);
    vec![
        ("Leader", quorum.leader_id.map_or_else(|| "none".to_owned(), |id| id.to_string())),
        ("Epoch", count(quorum.leader_epoch)),
        ("High watermark", count(quorum.high_watermark)),
        ("Healthy voters", format!("{well} of {}", quorum.voters.len())),
        ("May fail", counted((well.saturating_sub(quorum.voters.len() / 2 + 1)).min(well), "voter")),
        ("Observers", count(quorum.observers.len() as u64)),
    ]
}

fn rows(quorum: &Quorum, snapshot: &Snapshot) -> Vec<Row> {
    let answered_at_ms = quorum.answered_at_ms().unwrap_or(snapshot.at_ms);
    let ago = |timestamp_ms: Option<i64>| match timestamp_ms.map(|at_ms| answered_at_ms - at_ms) {
        None => "–".to_owned(),
        Some(..1000) => "now".to_owned(),
        Some(passed_ms) => format!("{} ago", duration(passed_ms as f64 / 1000.0)),
    };
    let row = |replica: &QuorumReplica, role| Row {
        id: replica.replica_id,
        role,
        state: match quorum.health(replica) {
            VoterHealth::Healthy => ("caught up", "good"),
            health => (health_name(health), "warn"),
        },
        end: if replica.log_end_offset < 0 { "–".to_owned() } else { count(replica.log_end_offset) },
        lag: count(replica.lag),
        heard: ago(replica.last_fetch_timestamp_ms),
        caught_up: ago(replica.last_caught_up_timestamp_ms),
        directory: if replica.directory_id.is_zero() { "–".to_owned() } else { replica.directory_id.to_string() },
    };
    let voters = quorum
        .voters
        .iter()
        .map(|voter| row(voter, if quorum.leader_id == Some(voter.replica_id) { "leader" } else { "voter" }));
    voters.chain(quorum.observers.iter().map(|observer| row(observer, "observer"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(voters: &[(i64, i64)]) -> Snapshot {
        // Lag and seconds since they were heard; the first leads.
        let voter = |(at, (lag, silent_s)): (usize, &(i64, i64))| QuorumReplica {
            replica_id: at as i32 + 1,
            lag: *lag,
            last_fetch_timestamp_ms: Some(1_000_000 - silent_s * 1000),
            last_caught_up_timestamp_ms: Some(1_000_000 - silent_s * 1000 - lag * 1000),
            ..QuorumReplica::default()
        };
        let voters = voters.iter().enumerate().map(voter).collect();
        let quorum = Quorum { leader_id: Some(1), voters, ..Quorum::default() };
        Snapshot { quorum: Some(quorum), at_ms: 5, ..Snapshot::empty() }
    }

    fn classes(snapshot: &Snapshot) -> Vec<&'static str> {
        findings(snapshot).into_iter().map(|(class, _)| class).collect()
    }

    #[test]
    fn a_majority_at_risk_is_said() {
        assert_eq!(classes(&snapshot(&[(0, 0), (1, 0), (0, 1)])), [""; 0]);
        let of_three = findings(&snapshot(&[(0, 0), (0, 0), (0, 75)]));
        assert!(of_three[0].1.contains("Voter 3 was not heard from for 1 min 15 s"), "{of_three:?}");
        assert!(of_three[1].0 == "bad" && of_three[1].1.contains("Only 2 of 3"), "{of_three:?}");
        // Two of five may fail; one has.
        assert_eq!(classes(&snapshot(&[(0, 0), (0, 0), (0, 0), (0, 0), (0, 75)])), ["warn"]);
        assert!(findings(&snapshot(&[(0, 0), (0, 0), (20, 0)]))[0].1.contains("20 records behind"));
        assert_eq!(classes(&snapshot(&[(0, 0), (0, 0), (0, 0), (0, 0)])), [""]);
        assert_eq!(classes(&snapshot(&[(0, 0)])), [""; 0]);
    }

    #[test]
    fn a_quorum_that_is_not_there_or_not_led() {
        let mut none = Snapshot::empty();
        assert!(findings(&none)[0].1.contains("ZooKeeper"));
        none.gaps.push("the metadata quorum (broken)".to_owned());
        assert_eq!(classes(&none), ["bad"]);
        let mut without = snapshot(&[(0, 0), (0, 0), (0, 0)]);
        without.quorum.as_mut().unwrap().leader_id = None;
        assert_eq!(classes(&without)[0], "bad");
    }
}
