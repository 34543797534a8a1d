//! `/clusters/NAME/groups/GROUP`: where it stands, who is in it, and its rebalances.

use askama::Template;
use axum::Json;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{GroupEpochs, TopicPartition};

use super::{Listing, Pages, ROWS};
use crate::embedded_broker::Rebalance;
use crate::failure::{Failure, render};
use crate::format::{count, duration, escape, group_part, milliseconds, moment, name_shown, rate};
use crate::health_findings::groups::{falls_behind, is_left_alone};
use crate::history::History;
use crate::layout::{Layout, Section};
use crate::rebalances::cause_text;
use crate::reconciliation::{Holder, PARTITIONS_NAMED, Standing, Step, holders, note, partitions_text};
use crate::request_context::RequestContext;
use crate::snapshot::{Group, Member, Position, Snapshot};

/// Consumers commit every few seconds, and so long ago the last commit may be.
const KEEPS_UP_SECONDS: f64 = 15.0;
const REBALANCES_SHOWN: usize = 25;
/// Members that hold the group up.
const HOLDERS_SHOWN: usize = 5;
/// Topics of a member's subscription.
const TOPICS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "group.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    /// As it is shown, and whole where that is only a part.
    group: String,
    whole: Option<(String, String)>,
    here: String,
    state: String,
    state_class: &'static str,
    tiles: Vec<(&'static str, String, &'static str)>,
    facts: Vec<(&'static str, String)>,
    /// Who holds up the rebalance, what to do where it stays so, and how that looks.
    holders: Vec<(String, &'static str, &'static str)>,
    holders_left_out: usize,
    note: Option<String>,
    /// Whether its members have epochs and targets (KIP-848).
    has_targets: bool,
    listing: Listing,
    partitions: Vec<PartitionRow>,
    pages: Pages,
    members: Vec<MemberRow>,
    members_pages: Pages,
    rebalances: Vec<RebalanceRow>,
    /// Where there are none, or not all are shown.
    rebalances_note: String,
    can_change: bool,
}

struct PartitionRow {
    topic: String,
    topic_href: String,
    partition: i32,
    committed: String,
    end: String,
    lag_records: String,
    lag_age: String,
    reader: Option<(String, String)>,
}

struct MemberRow {
    id: String,
    instance_id: Option<String>,
    client_id: String,
    client_host: String,
    partitions: String,
    assigned: String,
    progress: Option<ProgressRow>,
}

/// How far a member of a group of the consumer protocol is.
struct ProgressRow {
    topics: String,
    regex: Option<String>,
    epoch: i32,
    is_classic: bool,
    state: String,
    state_class: &'static str,
    /// Empty where it is what it has.
    target: String,
}

pub(super) struct RebalanceRow {
    pub group: String,
    pub href: String,
    pub moment: String,
    pub ago: String,
    pub cause: String,
    pub client_id: Option<String>,
    pub member_id: Option<String>,
    pub generation: i32,
    pub members: i32,
    pub took: String,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct GroupQuery {
    /// A page of the members, from 1.
    #[serde(default)]
    members: usize,
}

/// The group of a page's path.
pub(super) fn find<'a>(context: &RequestContext, snapshot: &'a Snapshot) -> Result<&'a Group, Failure> {
    let id = context.group();
    snapshot.groups.get(id).ok_or_else(|| Failure::not_found(format!("there is no group {}", quoted(id))))
}

pub(super) fn quoted(group: &str) -> String {
    format!("“{}”", name_shown(group))
}

/// The group's page, below those of the cluster.
pub(super) fn path(context: &RequestContext) -> String {
    format!("/groups/{}", group_part(context.group()))
}

pub(super) fn here(context: &RequestContext) -> String {
    format!("{}{}", context.base, path(context))
}

pub(crate) async fn show(
    context: RequestContext,
    Query(listing): Query<Listing>,
    Query(asked): Query<GroupQuery>,
) -> Result<Response, Failure> {
    let snapshot = context.snapshot_with(|snapshot| find(&context, snapshot).is_ok()).await?;
    let group = find(&context, &snapshot)?;
    let id = context.group();
    let (partitions, pages) = listing.cut(found(group, &listing), "partition");
    let of_members = Listing { page: asked.members, ..listing.clone() };
    let (members, members_pages) = of_members.cut(group.members.iter().collect(), "member");
    // Each list stays where it is when the other one is paged.
    let members_pages = members_pages.with(format!("page={}", pages.page)).second("members", "#members");
    let pages = pages.with(format!("members={}", members_pages.page));
    let rebalances: Vec<_> = snapshot.rebalances.iter().rev().filter(|of| of.group == id).collect();
    let holders = holders(group);
    let page = Page {
        layout: context.layout(Section::Groups),
        base: context.base.clone(),
        events: context.events(),
        group: name_shown(id),
        whole: (name_shown(id).ends_with('…')).then(|| (id.to_owned(), count(id.chars().count() as u64))),
        here: here(&context),
        state: group.state.clone(),
        state_class: state_class(&group.state),
        tiles: tiles(&context.cluster.history(), id, group),
        facts: facts(group),
        holders_left_out: holders.len().saturating_sub(HOLDERS_SHOWN),
        holders: holders.iter().take(HOLDERS_SHOWN).map(holder_notice).collect(),
        note: note(group),
        has_targets: group.epochs.is_some(),
        listing,
        partitions: partitions.into_iter().map(|of| partition_row(&context, of)).collect(),
        pages,
        members: members.into_iter().map(|member| member_row(member, group)).collect(),
        members_pages,
        rebalances_note: rebalances_note(&snapshot, group, rebalances.len()),
        rebalances: rebalance_rows(&context.base, &rebalances, REBALANCES_SHOWN, snapshot.at_ms),
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(super) fn state_class(state: &str) -> &'static str {
    match state {
        "Stable" => "good",
        "Empty" => "muted",
        "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling" => "warn",
        "Dead" => "bad",
        _ => "",
    }
}

/// Those of share and streams groups are not told.
pub(super) fn members_text(group: &Group) -> String {
    match group.members.len() {
        0 if !group.is_unused() => "–".to_owned(),
        members => count(members as u64),
    }
}

/// When a group will have read everything, in words, and how that looks.
pub(super) fn progress(history: &History, id: &str, group: &Group) -> (String, &'static str) {
    let lag = match group.lag_records() {
        None => return ("–".to_owned(), ""),
        Some(lag) => lag,
    };
    if lag == 0 {
        return ("caught up".to_owned(), "good");
    }
    if is_left_alone(group) || group.is_unused() && history.group_rate(id) == Some(0.0) {
        return ("no consumers".to_owned(), "muted");
    }
    if group.lag_age().is_some_and(|age| !age.is_more && age.seconds < KEEPS_UP_SECONDS) {
        return ("keeping up".to_owned(), "good");
    }
    if falls_behind(history, id, group).is_some() {
        return ("falling behind".to_owned(), "bad");
    }
    match (history.group_catches_up_seconds(id), history.group_rate(id)) {
        (Some(seconds), _) => (format!("ETA {}", duration(seconds)), ""),
        (None, Some(_)) => ("not catching up".to_owned(), "warn"),
        (None, None) => ("–".to_owned(), ""),
    }
}

fn tiles(history: &History, id: &str, group: &Group) -> Vec<(&'static str, String, &'static str)> {
    let dash = || "–".to_owned();
    let (progress, class) = progress(history, id, group);
    vec![
        ("Members", members_text(group), ""),
        ("Lag (records)", group.lag_records().map_or_else(dash, count), ""),
        ("Lag (time)", group.lag_age().map_or_else(dash, |age| age.to_string()), ""),
        ("Records read", history.group_rate(id).map_or_else(dash, rate), ""),
        ("Catch-up", progress, class),
    ]
}

fn facts(group: &Group) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !group.kind.is_empty() {
        facts.push(("Type", kind_text(&group.kind)));
    }
    facts.push(("Coordinator", format!("broker {}", group.coordinator)));
    if !group.protocol.is_empty() {
        let by = if group.epochs.is_some() { " (of the broker)" } else { "" };
        facts.push(("Assignor", format!("{}{by}", name_shown(&group.protocol))));
    }
    if let Some(epochs) = group.epochs {
        facts.push(("Group epoch", epochs.group.to_string()));
        facts.push(("Assignment epoch", epochs.assignment.to_string()));
    }
    if !group.protocol_type.is_empty() {
        facts.push(("Protocol type", name_shown(&group.protocol_type)));
    }
    facts.push(("Topics", count(group.topics().len() as u64)));
    facts
}

fn kind_text(kind: &str) -> String {
    match kind {
        "consumer" => "consumer (KIP-848)".to_owned(),
        kind => name_shown(kind),
    }
}

/// What it says, what to do, and how that looks.
fn holder_notice(holder: &Holder<'_>) -> (String, &'static str, &'static str) {
    (holder.text(), holder.advice(), if holder.waiting.is_empty() { "" } else { "warn" })
}

type ReadPartition<'a> = (&'a TopicPartition, &'a Position, Option<&'a Member>);

/// Its partitions whose topic or reader was asked for.
fn found<'a>(group: &'a Group, listing: &Listing) -> Vec<ReadPartition<'a>> {
    let part = listing.q.trim().to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&part);
    let readers = group.readers();
    let standing = group.positions.iter().map(|(of, position)| (of, position, readers.get(of).copied()));
    let mut found: Vec<ReadPartition<'_>> = standing
        .filter(|(of, _, reader)| {
            has(&of.topic) || reader.is_some_and(|member| has(&member.client_id) || has(&member.client_host))
        })
        .collect();
    match listing.sort.as_str() {
        "lag" => found.sort_by_key(|(_, position, _)| std::cmp::Reverse(position.lag_records)),
        "age" => found.sort_by(|(_, a, _), (_, b, _)| {
            let seconds = |position: &Position| position.lag_age.map_or(-1.0, |age| age.seconds);
            seconds(b).total_cmp(&seconds(a))
        }),
        "reader" => found.sort_by_key(|(_, _, reader)| reader.map(|member| (&member.client_id, &member.id))),
        _ => {}
    }
    found
}

fn partition_row(context: &RequestContext, (of, position, reader): ReadPartition<'_>) -> PartitionRow {
    let known = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), count);
    PartitionRow {
        topic: of.topic.clone(),
        topic_href: format!("{}/topics/{}", context.base, escape(&of.topic)),
        partition: of.partition,
        committed: known(position.committed),
        end: known(position.end),
        lag_records: known(position.lag_records),
        lag_age: position.lag_age.map_or_else(|| "–".to_owned(), |age| age.to_string()),
        reader: reader.map(|member| (name_shown(&member.client_id), host_shown(&member.client_host))),
    }
}

/// As brokers write it, there is a slash before an address without a name.
pub(super) fn host_shown(host: &str) -> String {
    name_shown(host.trim_start_matches('/'))
}

fn member_row(member: &Member, group: &Group) -> MemberRow {
    MemberRow {
        id: name_shown(&member.id),
        instance_id: member.instance_id.as_deref().map(name_shown),
        client_id: name_shown(&member.client_id),
        client_host: host_shown(&member.client_host),
        partitions: count(member.assigned.len() as u64),
        assigned: partitions_text(member.assigned.iter(), ROWS),
        progress: group.epochs.and_then(|epochs| progress_row(member, epochs)),
    }
}

fn progress_row(member: &Member, epochs: GroupEpochs) -> Option<ProgressRow> {
    let (progress, standing) = (member.progress.as_ref()?, Standing::of(member, epochs)?);
    let topics: Vec<_> = progress.topics.iter().take(TOPICS_SHOWN).map(|topic| name_shown(topic)).collect();
    let topics = match progress.topics.len().saturating_sub(TOPICS_SHOWN) {
        0 => topics.join(", "),
        more => format!("{} and {more} more", topics.join(", ")),
    };
    let (state, state_class) = step_text(&standing);
    Some(ProgressRow {
        topics,
        regex: progress.regex.as_deref().map(name_shown),
        epoch: progress.epoch,
        is_classic: progress.is_classic == Some(true),
        state,
        state_class,
        target: match progress.target == member.assigned {
            true => String::new(),
            false if progress.target.is_empty() => "none".to_owned(),
            false => partitions_text(progress.target.iter(), ROWS),
        },
    })
}

fn step_text(standing: &Standing<'_>) -> (String, &'static str) {
    let named = |partitions: &[&TopicPartition]| partitions_text(partitions.iter().copied(), PARTITIONS_NAMED);
    match standing.step {
        Step::Stable => ("stable".to_owned(), "good"),
        Step::Left => ("left, may come back".to_owned(), "muted"),
        Step::Releasing => (format!("has to release {}", named(&standing.to_release)), "warn"),
        Step::Behind => ("has not heard of the assignment".to_owned(), "warn"),
        Step::Waiting => (format!("waits for {}", named(&standing.awaited)), "warn"),
    }
}

/// The first of them, which are the newest.
pub(super) fn rebalance_rows(base: &str, newest: &[&Rebalance], rows: usize, now_ms: i64) -> Vec<RebalanceRow> {
    let shown = newest.iter().enumerate().take(rows);
    shown.map(|(at, of)| rebalance_row(base, of, &newest[..at], now_ms)).collect()
}

/// `later` are those that began after it.
fn rebalance_row(base: &str, of: &Rebalance, later: &[&Rebalance], now_ms: i64) -> RebalanceRow {
    let took = match of.took_ms {
        Some(ms) => milliseconds(ms as f64 / 1000.0),
        None if later.iter().any(|later| later.group == of.group) => "until the next".to_owned(),
        None => "goes on".to_owned(),
    };
    RebalanceRow {
        group: name_shown(&of.group),
        href: format!("{base}/groups/{}", group_part(&of.group)),
        moment: moment(of.began_ms),
        ago: duration((now_ms - of.began_ms) as f64 / 1000.0),
        cause: cause_text(&of.cause).to_owned(),
        client_id: of.client_id.as_deref().map(name_shown),
        member_id: of.member_id.as_deref().map(name_shown),
        generation: of.generation,
        members: of.members,
        took,
    }
}

/// What a table of so many rebalances does not say by itself.
fn rebalances_note(snapshot: &Snapshot, group: &Group, rebalances: usize) -> String {
    let coordinator = group.coordinator;
    let figures = snapshot.brokers.get(&coordinator).and_then(|broker| broker.figures.as_ref());
    let figures = figures.filter(|figures| figures.own.is_some());
    match (figures, rebalances) {
        (_, rebalances) if rebalances > REBALANCES_SHOWN => {
            format!("The last {REBALANCES_SHOWN} of {} that its coordinator remembers.", count(rebalances as u64))
        }
        (_, 1..) => String::new(),
        _ if group.epochs.is_some() => {
            "Only those of the classic protocol are remembered. Here members move one by one, as their list shows."
                .to_owned()
        }
        (Some(figures), 0) => format!(
            "None that its coordinator remembers: broker {coordinator} began {} ago, and knows the last thousand.",
            duration(figures.counters.uptime_seconds)
        ),
        (None, 0) if snapshot.brokers.values().any(|broker| broker.own_figures().is_some()) => {
            format!("Not known: broker {coordinator}, its coordinator, does not tell them at the moment.")
        }
        (None, 0) => "This cluster does not tell them. Brokers of Parshall do, to the console that one of them serves."
            .to_owned(),
    }
}

/// The data of a chart of a group.
pub(crate) async fn chart(context: RequestContext) -> Result<Response, Failure> {
    let (history, id) = (context.cluster.history(), context.group());
    let chart = match context.param("chart") {
        "lag" => history.lag_chart(id),
        "lag-seconds" => history.lag_seconds_chart(id),
        other => return Err(Failure::not_found(format!("there is no chart {other:?}"))),
    };
    Ok(Json(chart).into_response())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::reconciliation::tests::{group as reconciling, member};
    use crate::snapshot::Age;

    fn group(lag: i64, age: Age) -> Group {
        let position = Position { lag_records: Some(lag), lag_age: Some(age), ..Position::default() };
        Group { positions: [(TopicPartition::new("t", 0), position)].into(), ..Group::default() }
    }

    #[test]
    fn progress_is_told_in_words() {
        let (mut history, began) = (History::default(), Instant::now());
        for (second, lag) in [(0, 1000), (10, 900)] {
            let mut snapshot = Snapshot { at: began + Duration::from_secs(second), ..Snapshot::empty() };
            snapshot.groups = [("g".to_owned(), group(lag, Age::exactly(100.0)))].into();
            history.note(&mut snapshot);
        }
        let text = |id, group| progress(&history, id, &group).0;
        assert_eq!(text("g", group(900, Age::exactly(100.0))), "ETA 1 min 30 s");
        assert_eq!(text("g", group(900, Age::exactly(3.0))), "keeping up");
        assert_eq!(text("g", group(900, Age { seconds: 3.0, is_more: true })), "ETA 1 min 30 s");
        assert_eq!([text("g", group(0, Age::exactly(0.0))), text("g", Group::default())], ["caught up", "–"]);
        assert_eq!(text("unknown", group(1, Age::exactly(100.0))), "–");
        let mut snapshot = Snapshot { at: began + Duration::from_secs(20), ..Snapshot::empty() };
        snapshot.groups = [("g".to_owned(), group(2000, Age::exactly(100.0)))].into();
        history.note(&mut snapshot);
        assert_eq!(progress(&history, "g", &group(2000, Age::exactly(100.0))).0, "not catching up");
    }

    #[test]
    fn a_group_of_the_consumer_protocol_has_epochs_and_each_member_a_target() {
        let mut slow = member("slow", 3, &[0, 1], &[0]);
        if let Some(progress) = &mut slow.progress {
            progress.topics = (0..12).map(|at| format!("t{at}")).collect();
            progress.regex = Some("t.*".to_owned());
        }
        let group = Group {
            kind: "consumer".to_owned(),
            protocol: "uniform".to_owned(),
            ..reconciling((5, 4), vec![slow, member("b", 4, &[], &[1]), member("c", 4, &[2], &[2])])
        };
        let facts: Vec<_> = facts(&group).into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(facts[0], "Type: consumer (KIP-848)");
        assert_eq!(facts[2..5], ["Assignor: uniform (of the broker)", "Group epoch: 5", "Assignment epoch: 4"]);
        let row = |at: usize| member_row(&group.members[at], &group);
        let progress = |at: usize| row(at).progress.unwrap();
        assert_eq!(progress(0).topics, "t0, t1, t2, t3, t4, t5, t6, t7, t8, t9 and 2 more");
        assert_eq!((progress(0).regex.as_deref(), progress(0).epoch), (Some("t.*"), 3));
        assert_eq!([0, 1, 2].map(|at| progress(at).state), ["has to release t 1", "waits for t 1", "stable"]);
        assert_eq!([0, 1, 2].map(|at| progress(at).target), ["t 0", "t 1", ""]);
        assert_eq!([0, 1, 2].map(|at| row(at).assigned), ["t 0, 1", "", "t 2"]);
        assert_eq!(holders(&group).iter().map(|holder| holder_notice(holder).2).collect::<Vec<_>>(), ["warn"]);
        // A group of the classic protocol has none of it.
        let classic = Group { members: vec![Member::default()], kind: "classic".to_owned(), ..Group::default() };
        assert!(member_row(&classic.members[0], &classic).progress.is_none());
        assert_eq!(super::facts(&classic)[0], ("Type", "classic".to_owned()));
        assert_eq!(super::facts(&Group::default())[0].0, "Coordinator");
    }

    #[test]
    fn partitions_are_found_by_topic_and_reader() {
        let member = |client_id: &str, topic: &str| Member {
            client_id: client_id.to_owned(),
            client_host: "10.0.0.7".to_owned(),
            assigned: vec![TopicPartition::new(topic, 0)],
            ..Member::default()
        };
        let lag = |lag| Position { lag_records: Some(lag), ..Position::default() };
        let of = |topic: &str| TopicPartition::new(topic, 0);
        let group = Group {
            positions: [(of("orders"), lag(5)), (of("payments"), lag(9)), (of("quiet"), lag(0))].into(),
            members: vec![member("Anna", "orders"), member("Berta", "payments")],
            ..Group::default()
        };
        let topics = |q: &str, sort: &str| {
            let listing = Listing { q: q.to_owned(), sort: sort.to_owned(), page: 0 };
            found(&group, &listing).iter().map(|(of, ..)| of.topic.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!([topics("", ""), topics("anna", "")], ["orders payments quiet", "orders"]);
        assert_eq!([topics("10.0.0", "lag"), topics("Q", "")], ["payments orders", "quiet"]);
    }
}
