//! Moving a group to other offsets: what is wanted, what that would do, and doing it.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{OffsetMove, ResetTarget, TopicPartition};
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use super::group::{find, here, path, quoted};
use super::group_changes::{in_use, typed_name};
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, escape, moment, name_shown, parse_moment};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::{Group, Snapshot};

/// Topics that a browser offers to choose from.
const TOPICS_OFFERED: usize = 500;

type Plan = BTreeMap<TopicPartition, OffsetMove>;

/// Which partitions, and where to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// Empty for all topics of the group.
    topic: String,
    /// Empty for all partitions of the topic.
    partition: String,
    /// Which of the fields below counts.
    to: String,
    time: String,
    ago: String,
    ago_unit: String,
    offset: String,
    shift: String,
}

#[derive(Template)]
#[template(path = "group_reset.html")]
struct FormPage {
    layout: Layout,
    group: String,
    here: String,
    /// Of the group, as far as they are offered.
    topics: Vec<String>,
    wanted: Wanted,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "group_reset_preview.html")]
struct PreviewPage {
    layout: Layout,
    group: String,
    here: String,
    target: String,
    /// What is wanted, as a query.
    query: String,
    digest: String,
    totals: Totals,
    rows: Vec<Row>,
    pages: Pages,
    typed_name: String,
    /// Whether something else was shown before.
    has_changed: bool,
}

struct Row {
    topic: String,
    partition: i32,
    from: String,
    to: String,
    again: String,
    skipped: String,
}

/// What a reset does to the records of all partitions, in words where it does something.
struct Totals {
    partitions: String,
    moved: String,
    again: Option<String>,
    skipped: Option<String>,
}

/// What a reset does to the records of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Effect {
    again: i64,
    skipped: i64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Confirmed {
    /// Of the plan that was shown.
    shown: String,
    confirm: String,
}

pub(crate) async fn form(Change(context): Change, Query(wanted): Query<Wanted>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let group = find(&context, &snapshot)?;
    if let Some(response) = in_use(&context, group, title(&context)) {
        return Ok(response);
    }
    Ok(render(StatusCode::OK, &form_page(&context, group, wanted, None)))
}

fn title(context: &RequestContext) -> String {
    format!("Reset offsets of group {}", quoted(context.group()))
}

fn form_page(context: &RequestContext, group: &Group, mut wanted: Wanted, error: Option<String>) -> FormPage {
    if wanted.to.is_empty() {
        wanted.to = "earliest".to_owned();
    }
    FormPage {
        layout: context.layout(Section::Groups),
        group: name_shown(context.group()),
        here: here(context),
        topics: group.topics().into_iter().take(TOPICS_OFFERED).map(str::to_owned).collect(),
        wanted,
        error,
    }
}

/// A plan for a group at this moment, or the page to show instead.
struct Planned {
    snapshot: std::sync::Arc<Snapshot>,
    wanted: Wanted,
    plan: Plan,
}

async fn plan(context: &RequestContext, wanted: Wanted) -> Result<Result<Planned, Response>, Failure> {
    let snapshot = context.fresh().await?;
    let group = find(context, &snapshot)?;
    if let Some(response) = in_use(context, group, title(context)) {
        return Ok(Err(response));
    }
    let wanted = wanted.resolved(snapshot.at_ms);
    let planned = match (wanted.target(snapshot.at_ms), wanted.scope(&snapshot, group)) {
        (Ok(target), Ok(scope)) => context.client.plan_offset_reset(context.group(), target, Some(&scope)).await,
        (Err(error), _) | (_, Err(error)) => return Ok(Err(refused(context, group, wanted, error))),
    };
    match planned {
        Ok(plan) => Ok(Ok(Planned { snapshot, wanted, plan })),
        Err(error) => Ok(Err(refused(context, group, wanted, error.to_string()))),
    }
}

fn refused(context: &RequestContext, group: &Group, wanted: Wanted, error: String) -> Response {
    render(StatusCode::UNPROCESSABLE_ENTITY, &form_page(context, group, wanted, Some(error)))
}

pub(crate) async fn preview(
    Change(context): Change,
    Query(wanted): Query<Wanted>,
    Query(listing): Query<Listing>,
) -> Result<Response, Failure> {
    match plan(&context, wanted).await? {
        Ok(planned) => Ok(render(StatusCode::OK, &preview_page(&context, &planned, &listing, false))),
        Err(instead) => Ok(instead),
    }
}

pub(crate) async fn reset(
    Change(context): Change,
    Query(wanted): Query<Wanted>,
    Form(form): Form<Confirmed>,
) -> Result<Response, Failure> {
    confirmed(&form.confirm, typed_name(context.group()))?;
    let planned = match plan(&context, wanted).await? {
        Ok(planned) => planned,
        Err(instead) => return Ok(instead),
    };
    if planned.wanted.digest(&planned.plan) != form.shown {
        return Ok(render(StatusCode::CONFLICT, &preview_page(&context, &planned, &Listing::default(), true)));
    }
    context.client.reset_offsets(context.group(), &planned.plan).await?;
    Ok(context.done(&path(&context), "offsets-reset").await.into_response())
}

fn preview_page(context: &RequestContext, planned: &Planned, listing: &Listing, has_changed: bool) -> PreviewPage {
    let Planned { snapshot, wanted, plan } = planned;
    let effects: Vec<_> = plan.iter().map(|(of, moved)| (of, moved, effect(snapshot, of, *moved))).collect();
    let totals = totals(&effects);
    let (rows, pages) = listing.cut(effects, "partition");
    PreviewPage {
        layout: context.layout(Section::Groups),
        group: name_shown(context.group()),
        here: here(context),
        target: wanted.text(),
        query: wanted.query(),
        digest: wanted.digest(plan),
        totals,
        rows: rows.into_iter().map(|(of, moved, effect)| row(of, *moved, effect)).collect(),
        pages: pages.with(wanted.query()),
        typed_name: typed_name(context.group()).to_owned(),
        has_changed,
    }
}

/// Of the records that there are: what has been deleted is neither read again nor skipped.
fn effect(snapshot: &Snapshot, of: &TopicPartition, moved: OffsetMove) -> Option<Effect> {
    let from = moved.from?;
    let (start, end) = snapshot.partition(of).map_or((None, None), |partition| (partition.start, partition.end));
    let from = from.max(start.unwrap_or(from)).min(end.unwrap_or(from));
    Some(Effect { again: (from - moved.to).max(0), skipped: (moved.to - from).max(0) })
}

fn totals(effects: &[(&TopicPartition, &OffsetMove, Option<Effect>)]) -> Totals {
    let known = effects.iter().filter_map(|(.., effect)| *effect);
    let sum = |of: fn(&Effect) -> i64| known.clone().map(|effect| of(&effect)).sum::<i64>();
    let records = |records: i64| match records {
        0 => None,
        1 => Some("1 record".to_owned()),
        _ => Some(format!("{} records", count(records))),
    };
    Totals {
        partitions: count(effects.len() as u64),
        moved: count(effects.iter().filter(|(_, moved, _)| moved.from != Some(moved.to)).count() as u64),
        again: records(sum(|effect| effect.again)),
        skipped: records(sum(|effect| effect.skipped)),
    }
}

fn row(of: &TopicPartition, moved: OffsetMove, effect: Option<Effect>) -> Row {
    let records = |value: Option<i64>| value.filter(|value| *value > 0).map_or_else(|| "–".to_owned(), count);
    Row {
        topic: of.topic.clone(),
        partition: of.partition,
        from: moved.from.map_or_else(|| "none".to_owned(), count),
        to: count(moved.to),
        again: records(effect.map(|effect| effect.again)),
        skipped: records(effect.map(|effect| effect.skipped)),
    }
}

impl Wanted {
    /// With a moment in context of so long ago: it shall mean the same when it is confirmed.
    fn resolved(mut self, now_ms: i64) -> Self {
        if self.to == "ago"
            && let Ok(ResetTarget::Time(ms)) = self.target(now_ms)
        {
            self.to = "time".to_owned();
            self.time = moment(ms);
        }
        self
    }

    fn target(&self, now_ms: i64) -> Result<ResetTarget, String> {
        let number = |text: &str| text.trim().parse::<i64>();
        match self.to.as_str() {
            "earliest" => Ok(ResetTarget::Earliest),
            "latest" => Ok(ResetTarget::Latest),
            "time" => match parse_moment(self.time.trim()) {
                Some(ms) if ms > now_ms => Err(format!("{} UTC has not come yet", moment(ms))),
                // Negative times mean something else to brokers.
                Some(ms) => Ok(ResetTarget::Time(ms.max(0))),
                None => Err(format!("{:?} is no time: it takes one like 2026-11-22T14:20, in UTC", self.time)),
            },
            "ago" => {
                let unit_ms = match self.ago_unit.as_str() {
                    "seconds" => 1000,
                    "minutes" => 60_000,
                    "hours" => 3_600_000,
                    "days" => 86_400_000,
                    other => return Err(format!("{other:?} is no unit of time")),
                };
                let ago = number(&self.ago).ok().filter(|ago| *ago >= 0).and_then(|ago| ago.checked_mul(unit_ms));
                let ago_ms = ago.ok_or_else(|| format!("{:?} is no number of {}", self.ago, self.ago_unit))?;
                Ok(ResetTarget::Time((now_ms - ago_ms).max(0)))
            }
            "offset" => match number(&self.offset) {
                Ok(offset) if offset >= 0 => Ok(ResetTarget::Offset(offset)),
                _ => Err(format!("{:?} is no offset: it takes a number from 0", self.offset)),
            },
            "shift" => match number(&self.shift) {
                Ok(shift) if shift != 0 => Ok(ResetTarget::Shift(shift)),
                _ => Err(format!("{:?} is no number of records: 100 skips them, -100 reads them again", self.shift)),
            },
            _ => Err("choose where the group is to go on reading".to_owned()),
        }
    }

    fn scope(&self, snapshot: &Snapshot, group: &Group) -> Result<BTreeSet<TopicPartition>, String> {
        let name = self.topic.trim();
        if name.is_empty() {
            if !self.partition.trim().is_empty() {
                return Err("name the topic of that partition".to_owned());
            }
            let committed = group.positions.iter().filter(|(_, position)| position.committed.is_some());
            // What was committed in topics that have been deleted since stays as it is.
            let there: BTreeSet<_> =
                committed.map(|(of, _)| of.clone()).filter(|of| snapshot.partition(of).is_some()).collect();
            return match there.is_empty() {
                true => Err("the group has no offsets yet: name a topic where it is to begin".to_owned()),
                false => Ok(there),
            };
        }
        let topic = snapshot.topics.get(name).ok_or_else(|| format!("there is no topic {name:?}"))?;
        let all = topic.partitions.iter().map(|partition| TopicPartition::new(name, partition.index));
        match self.partition.trim() {
            "" => Ok(all.collect()),
            number => match number.parse::<i32>() {
                Ok(index) => match all.clone().find(|of| of.partition == index) {
                    Some(of) => Ok(BTreeSet::from([of])),
                    None => Err(format!("topic {name} has no partition {index}")),
                },
                Err(_) => Err(format!("{number:?} is no number of a partition")),
            },
        }
    }

    fn text(&self) -> String {
        let scope = match (self.topic.trim(), self.partition.trim()) {
            ("", _) => "all topics of the group".to_owned(),
            (topic, "") => format!("topic {topic}"),
            (topic, partition) => format!("partition {partition} of topic {topic}"),
        };
        let target = match self.to.as_str() {
            "earliest" => "to the first record that there is".to_owned(),
            "latest" => "to the end, where the next record will be written".to_owned(),
            "time" => format!("to the first record from {} UTC on", self.time.replace('T', " ")),
            "offset" => format!("to offset {}", self.offset.trim()),
            "shift" if self.shift.trim().starts_with('-') => format!("back by {} records", &self.shift.trim()[1..]),
            _ => format!("forward by {} records", self.shift.trim()),
        };
        format!("{scope}, {target}")
    }

    fn query(&self) -> String {
        let fields = [
            ("topic", &self.topic),
            ("partition", &self.partition),
            ("to", &self.to),
            ("time", &self.time),
            ("offset", &self.offset),
            ("shift", &self.shift),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
    }

    /// Stands for a plan that somebody has seen. Who goes to the end goes to where it is when it is done: records that
    /// come in the meantime make no other plan of it.
    fn digest(&self, plan: &Plan) -> String {
        let mut lines = String::new();
        for (of, moved) in plan {
            let to = if self.to == "latest" { None } else { Some(moved.to) };
            lines.push_str(&format!("{of} {:?} {to:?}\n", moved.from));
        }
        digest(&SHA256, lines.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Partition, Position, Topic};

    const NOW_MS: i64 = 1_795_357_211_000;

    fn wanted(to: &str) -> Wanted {
        Wanted { to: to.to_owned(), ..Wanted::default() }
    }

    fn snapshot() -> Snapshot {
        let mut snapshot = Snapshot::empty();
        let partition = |index| Partition { index, start: Some(10), end: Some(100), ..Partition::default() };
        let topic = || Topic { partitions: vec![partition(0), partition(1)], ..Topic::default() };
        snapshot.topics = ["orders", "payments"].map(|name| (name.to_owned(), topic())).into();
        snapshot
    }

    fn group() -> Group {
        let at = |topic, committed| (TopicPartition::new(topic, 0), Position { committed, ..Position::default() });
        Group {
            positions: [at("orders", Some(50)), at("payments", None), at("gone", Some(3))].into(),
            ..Group::default()
        }
    }

    #[test]
    fn targets_are_read() {
        let target = |wanted: &Wanted| wanted.target(NOW_MS);
        assert_eq!(target(&wanted("earliest")), Ok(ResetTarget::Earliest));
        assert_eq!(target(&wanted("latest")), Ok(ResetTarget::Latest));
        let time = |time: &str| target(&Wanted { time: time.to_owned(), ..wanted("time") });
        assert_eq!(time("2026-11-22T14:20:11"), Ok(ResetTarget::Time(NOW_MS)));
        assert_eq!(time("2026-11-22T14:20:12"), Err("2026-11-22 14:20:12 UTC has not come yet".to_owned()));
        assert!(time("yesterday").is_err());
        let ago =
            |ago: &str, unit: &str| target(&Wanted { ago: ago.to_owned(), ago_unit: unit.to_owned(), ..wanted("ago") });
        assert_eq!(ago("2", "hours"), Ok(ResetTarget::Time(NOW_MS - 7_200_000)));
        assert_eq!(ago("9000000", "days"), Ok(ResetTarget::Time(0)));
        assert!(
            [ago("-1", "hours"), ago("x", "hours"), ago("1", "moons"), ago(&i64::MAX.to_string(), "days")]
                .iter()
                .all(Result::is_err)
        );
        let offset = |offset: &str| target(&Wanted { offset: offset.to_owned(), ..wanted("offset") });
        assert_eq!(offset(" 15 "), Ok(ResetTarget::Offset(15)));
        assert!([offset("-1"), offset("")].iter().all(Result::is_err));
        let shift = |shift: &str| target(&Wanted { shift: shift.to_owned(), ..wanted("shift") });
        assert_eq!([shift("-100"), shift("7")], [-100, 7].map(|by| Ok(ResetTarget::Shift(by))));
        assert!([shift("0"), shift("all")].iter().all(Result::is_err));
        assert!([target(&wanted("")), target(&wanted("moon"))].iter().all(Result::is_err));
    }

    #[test]
    fn so_long_ago_is_a_moment_from_then_on() {
        let ago = Wanted { ago: "20".to_owned(), ago_unit: "minutes".to_owned(), ..wanted("ago") };
        let resolved = ago.resolved(NOW_MS);
        assert_eq!(resolved.target(NOW_MS + 60_000), Ok(ResetTarget::Time(NOW_MS - 1_200_000)));
        assert_eq!(resolved.query(), "to=time&time=2026-11-22%2014%3A00%3A11");
        assert_eq!(resolved.text(), "all topics of the group, to the first record from 2026-11-22 14:00:11 UTC on");
    }

    #[test]
    fn the_scope_is_the_whole_group_or_a_part_of_it() {
        let scope = |topic: &str, partition: &str| {
            let wanted = Wanted { topic: topic.to_owned(), partition: partition.to_owned(), ..wanted("earliest") };
            let scope = wanted.scope(&snapshot(), &group())?;
            Ok::<_, String>(scope.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        // Where it has offsets, of topics that are still there.
        assert_eq!(scope("", "").unwrap(), TopicPartition::new("orders", 0).to_string());
        let both = [0, 1].map(|index| TopicPartition::new("payments", index).to_string()).join(" ");
        assert_eq!(scope(" payments ", "").unwrap(), both);
        assert_eq!(scope("orders", "1").unwrap(), TopicPartition::new("orders", 1).to_string());
        assert_eq!(scope("orders", "2").unwrap_err(), "topic orders has no partition 2");
        assert!([scope("orders", "x"), scope("gone", ""), scope("", "0")].iter().all(Result::is_err));
        let none = wanted("earliest").scope(&snapshot(), &Group::default()).unwrap_err();
        assert!(none.starts_with("the group has no offsets yet"), "{none}");
    }

    #[test]
    fn what_is_read_again_or_skipped_are_records_that_there_are() {
        let effect = |from, to| effect(&snapshot(), &TopicPartition::new("orders", 0), OffsetMove { from, to });
        assert_eq!(effect(Some(50), 20), Some(Effect { again: 30, skipped: 0 }));
        assert_eq!(effect(Some(50), 100), Some(Effect { again: 0, skipped: 50 }));
        // Before 10 everything has been deleted, and behind 100 there was never anything.
        assert_eq!(effect(Some(3), 30), Some(Effect { again: 0, skipped: 20 }));
        assert_eq!(effect(Some(130), 90), Some(Effect { again: 10, skipped: 0 }));
        assert_eq!(effect(None, 10), None);
    }

    #[test]
    fn a_plan_is_known_again_unless_something_has_changed() {
        let plan = |from, to| Plan::from([(TopicPartition::new("orders", 0), OffsetMove { from: Some(from), to })]);
        let digest = |to: &str, plan: Plan| wanted(to).digest(&plan);
        assert_eq!(digest("earliest", plan(50, 10)), digest("earliest", plan(50, 10)));
        assert_ne!(digest("earliest", plan(50, 10)), digest("earliest", plan(51, 10)));
        assert_ne!(digest("earliest", plan(50, 10)), digest("earliest", plan(50, 11)));
        // The end moves on.
        assert_eq!(digest("latest", plan(50, 100)), digest("latest", plan(50, 101)));
        assert_ne!(digest("latest", plan(50, 100)), digest("latest", plan(60, 100)));
    }
}
