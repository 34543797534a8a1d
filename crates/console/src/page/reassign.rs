//! `/clusters/NAME/partitions/reassign`: making a plan of moves, looking at it, and running it.
//!
//! Nothing is kept between the steps: the plan goes with the forms, and is read anew whenever it comes back.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::TopicPartition;
use serde::Deserialize;

use super::elections::{OutcomePage, PARTITIONS_AT_ONCE};
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted};
use crate::layout::{Layout, Section};
use crate::reassignment::{Aim, PLAN_BYTES_MAX, Plan, Replicas, Target, Throttle, balance, read_rate, replicas_now};
use crate::request_context::{Change, RequestContext};
use crate::snapshot::{Partition, Snapshot};

/// Moves of a plan that are shown; its JSON has all.
const ROWS_SHOWN: usize = 200;

#[derive(Template)]
#[template(path = "reassign.html")]
struct FormPage {
    layout: Layout,
    base: String,
    choice: Choice,
    brokers: Vec<BrokerChoice>,
    error: Option<String>,
}

struct BrokerChoice {
    id: i32,
    what: String,
    is_alive: bool,
    is_chosen: bool,
    replicas: usize,
}

/// What was chosen in the form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Names, or patterns with `*`; empty for all.
    topics: String,
    brokers: BTreeSet<i32>,
    replicas: String,
    has_fewest_moves: bool,
    json: String,
    is_json: bool,
}

impl Choice {
    /// A broker of the form comes once for each that was chosen.
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Failure> {
        let mut choice = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "topics" => choice.topics = value,
                "broker" => {
                    let id = value.parse().map_err(|_| Failure::wrong(format!("{value:?} is no broker")))?;
                    choice.brokers.insert(id);
                }
                "replicas" => choice.replicas = value,
                "aim" => choice.has_fewest_moves = value == "fewest",
                "plan" => choice.json = value,
                "make" => choice.is_json = value == "json",
                _ => {}
            }
        }
        Ok(choice)
    }

    fn plan(&self, snapshot: &Snapshot) -> Result<Plan, String> {
        if self.is_json {
            return Plan::read(&self.json, snapshot);
        }
        let mut targets = Vec::new();
        for id in &self.brokers {
            match snapshot.brokers.get(id).filter(|broker| broker.is_alive) {
                Some(broker) => targets.push(Target { id: *id, rack: broker.rack.clone() }),
                None => return Err(format!("broker {id} does not run: nothing can be moved there")),
            }
        }
        if targets.is_empty() {
            return Err("choose the brokers that shall have the replicas".to_owned());
        }
        let replication_factor = match self.replicas.trim() {
            "" => None,
            text => match text.parse() {
                Ok(number) if number > 0 => Some(number),
                _ => return Err(format!("Replicas is {text:?}: it takes a number from 1")),
            },
        };
        let aim = if self.has_fewest_moves { Aim::FewestMoves } else { Aim::Even };
        let now = self.replicas_of(snapshot)?;
        let plan = Plan::new(balance(&now, &targets, replication_factor, aim)?);
        match plan.json().len() > PLAN_BYTES_MAX {
            true => Err("the plan would be larger than 1 MiB: choose fewer topics, and the others later".to_owned()),
            false => Ok(plan),
        }
    }

    /// Of the topics that were chosen.
    fn replicas_of<'a>(&self, snapshot: &'a Snapshot) -> Result<Replicas<'a>, String> {
        let patterns: Vec<_> =
            self.topics.split([' ', ',', '\n', '\r', '\t']).filter(|pattern| !pattern.is_empty()).collect();
        let is_chosen = |name: &str| patterns.is_empty() || patterns.iter().any(|pattern| is_like(name, pattern));
        if let Some(pattern) =
            patterns.iter().find(|pattern| !snapshot.topics.keys().any(|name| is_like(name, pattern)))
        {
            return Err(format!("no topic is called {pattern}"));
        }
        let chosen = snapshot.topics.iter().filter(|(name, _)| is_chosen(name));
        let replicas = chosen.map(|(name, topic)| {
            let partitions = topic.partitions.iter().map(|partition| {
                let of = TopicPartition::new(name.clone(), partition.index);
                (partition.index, replicas_now(snapshot, &of).unwrap_or_default())
            });
            (name.as_str(), partitions.collect())
        });
        Ok(replicas.collect())
    }
}

/// Whether a name is a pattern, in which a `*` stands for anything.
fn is_like(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let parts: Vec<_> = rest.split('*').collect();
    let Some((end, between)) = parts.split_last() else { return true };
    for part in between {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

/// What the form begins with.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Preset {
    drain: String,
    topics: String,
}

pub(crate) async fn form(Change(context): Change, Query(preset): Query<Preset>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let drained: Option<i32> = preset.drain.parse().ok();
    let alive = snapshot.brokers.values().filter(|broker| broker.is_alive && Some(broker.id) != drained);
    let choice = Choice {
        topics: preset.topics,
        brokers: alive.map(|broker| broker.id).collect(),
        has_fewest_moves: drained.is_some(),
        ..Choice::default()
    };
    Ok(render(StatusCode::OK, &form_page(&context, &snapshot, choice, None)))
}

fn form_page(context: &RequestContext, snapshot: &Snapshot, choice: Choice, error: Option<String>) -> FormPage {
    let brokers = snapshot.brokers.values().map(|broker| BrokerChoice {
        id: broker.id,
        what: {
            let rack = broker.rack.as_ref().map_or(String::new(), |rack| format!("rack {rack}, "));
            format!("{rack}{}, {}", counted(broker.replicas, "replica"), bytes(broker.size_bytes))
        },
        is_alive: broker.is_alive,
        is_chosen: choice.brokers.contains(&broker.id),
        replicas: broker.replicas,
    });
    FormPage {
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        brokers: brokers.collect(),
        choice,
        error,
    }
}

#[derive(Template)]
#[template(path = "review.html")]
struct ReviewPage {
    layout: Layout,
    base: String,
    json: String,
    throttle: String,
    error: Option<String>,
    warnings: Vec<(&'static str, String)>,
    tiles: Vec<(&'static str, String)>,
    brokers: Vec<BrokerRow>,
    rows: Vec<MoveRow>,
    rows_left_out: usize,
}

struct BrokerRow {
    id: i32,
    gets: usize,
    gets_bytes: String,
    gives: usize,
    free: String,
}

struct MoveRow {
    name: String,
    now: Vec<(i32, &'static str)>,
    then: Vec<(i32, &'static str)>,
    copied: String,
    leader: Option<(i32, i32)>,
}

pub(crate) async fn review(
    Change(context): Change,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let choice = Choice::read(pairs)?;
    let snapshot = context.fresh().await?;
    match choice.plan(&snapshot) {
        Ok(plan) => Ok(render(StatusCode::OK, &review_page(&context, &snapshot, &plan, String::new(), None))),
        Err(error) => {
            let page = form_page(&context, &snapshot, choice, Some(error));
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn review_page(
    context: &RequestContext,
    snapshot: &Snapshot,
    plan: &Plan,
    throttle: String,
    error: Option<String>,
) -> ReviewPage {
    let copies = plan.copies(snapshot);
    let brokers: BTreeSet<_> = copies.to.keys().chain(copies.from.keys()).copied().collect();
    let brokers = brokers.into_iter().map(|id| {
        let (gets, gets_bytes) = copies.to.get(&id).copied().unwrap_or_default();
        BrokerRow {
            id,
            gets,
            gets_bytes: bytes(gets_bytes),
            gives: copies.from.get(&id).copied().unwrap_or(0),
            free: free_bytes(snapshot, id).map_or_else(|| "–".to_owned(), bytes),
        }
    });
    let rows = plan.moves.iter().take(ROWS_SHOWN).map(|(of, then)| move_row(snapshot, of, then));
    ReviewPage {
        layout: context.layout(Section::Partitions),
        base: context.base.clone(),
        json: plan.json(),
        throttle,
        error,
        warnings: warnings(snapshot, plan),
        tiles: vec![
            ("Partitions that change", count(plan.moves.len() as u64)),
            ("Replicas to be copied", count(copies.replicas() as u64)),
            ("Bytes to be copied", bytes(copies.bytes())),
            ("Preferred leaders that change", count(copies.leaders as u64)),
        ],
        brokers: brokers.collect(),
        rows: rows.collect(),
        rows_left_out: plan.moves.len().saturating_sub(ROWS_SHOWN),
    }
}

fn free_bytes(snapshot: &Snapshot, broker: i32) -> Option<i64> {
    let dirs = &snapshot.brokers.get(&broker)?.dirs;
    dirs.iter().filter_map(|dir| dir.usable_bytes).reduce(|sum, bytes| sum + bytes)
}

fn move_row(snapshot: &Snapshot, of: &TopicPartition, then: &[i32]) -> MoveRow {
    let now = replicas_now(snapshot, of).unwrap_or_default();
    let partition = snapshot.partition(of);
    let bytes_of_one = partition.map_or(0, Partition::full_bytes);
    let there = partition.map_or(&[][..], |partition| &partition.replicas);
    let added = then.iter().filter(|id| !there.contains(id)).count();
    let mark = |ids: &[i32], others: &[i32], mark| {
        ids.iter().map(|id| (*id, if others.contains(id) { "" } else { mark })).collect()
    };
    MoveRow {
        name: of.to_string(),
        copied: if added == 0 { "nothing".to_owned() } else { bytes(bytes_of_one * added as i64) },
        leader: now.first().copied().zip(then.first().copied()).filter(|(now, then)| now != then),
        then: mark(then, &now, "new"),
        now: mark(&now, then, "leaves"),
    }
}

/// What one should know before.
fn warnings(snapshot: &Snapshot, plan: &Plan) -> Vec<(&'static str, String)> {
    let mut warnings = Vec::new();
    let copies = plan.copies(snapshot);
    for (id, (_, gets)) in &copies.to {
        if !snapshot.is_alive(*id) {
            warnings.push(("bad", format!("Broker {id} is down or fenced: what moves there waits until it is back.")));
        } else if let Some(free) = free_bytes(snapshot, *id).filter(|free| free < gets) {
            let (gets, free) = (bytes(*gets), bytes(free));
            warnings.push(("bad", format!("Broker {id} gets {gets}, and has {free} free.")));
        }
    }
    let again = plan.moves.keys().filter(|of| snapshot.reassignments.contains_key(of)).count();
    if again > 0 {
        let partitions = counted(again, "partition");
        warnings.push((
            "warn",
            format!("{partitions} of the plan move already: this plan takes the context of those moves."),
        ));
    }
    let offline = plan.moves.keys().filter(|of| snapshot.partition(of).is_some_and(Partition::is_offline)).count();
    if offline > 0 {
        let partitions = counted(offline, "partition");
        warnings
            .push(("warn", format!("{partitions} of the plan have no leader: they move when they have one again.")));
    }
    let racks: BTreeMap<_, _> = snapshot.brokers.values().map(|broker| (broker.id, broker.rack.as_deref())).collect();
    if racks.values().any(Option::is_some) && racks.values().any(Option::is_none) {
        warnings.push(("", "Not all brokers have a rack (broker.rack): racks do not count.".to_owned()));
    }
    warnings
}

/// A plan that comes back from its page.
#[derive(Deserialize)]
pub(crate) struct Planned {
    plan: String,
    #[serde(default)]
    throttle: String,
}

pub(crate) async fn download(Change(context): Change, Form(planned): Form<Planned>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let plan = Plan::read(&planned.plan, &snapshot).map_err(Failure::wrong)?;
    let name = "attachment; filename=\"reassignment.json\"";
    Ok(([(header::CONTENT_TYPE, "application/json"), (header::CONTENT_DISPOSITION, name)], plan.json()).into_response())
}

pub(crate) async fn run(Change(context): Change, Form(planned): Form<Planned>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let plan = Plan::read(&planned.plan, &snapshot).map_err(Failure::wrong)?;
    let rate = match read_rate(&planned.throttle) {
        Ok(rate) => rate,
        Err(error) => {
            let page = review_page(&context, &snapshot, &plan, planned.throttle, Some(error));
            return Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page));
        }
    };
    let client = &context.client;
    // Before anything is copied.
    if let Some(rate) = rate {
        Throttle::new(&snapshot, &plan).set(client, &snapshot, rate).await?;
    }
    let mut errors = Vec::new();
    let moves: Vec<_> = plan.moves.into_iter().map(|(of, replicas)| (of, Some(replicas))).collect();
    for part in moves.chunks(PARTITIONS_AT_ONCE) {
        let part = part.iter().cloned().collect();
        for (of, begun) in client.alter_reassignments(&part).await? {
            errors.extend(begun.err().map(|error| (of.to_string(), error.to_string())));
        }
    }
    if errors.is_empty() {
        return Ok(context.done("/partitions/moves", "reassignment-started").await.into_response());
    }
    let facts = vec![format!("{} of {} moves have begun.", moves.len() - errors.len(), moves.len())];
    let next = (format!("{}/partitions/moves", context.base), "What moves");
    Ok(render(StatusCode::CONFLICT, &OutcomePage::new(&context, "Moves begun", facts, errors, next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Broker, Topic};

    #[test]
    fn topics_are_chosen_by_patterns() {
        let like = [("orders", "orders"), ("orders", "o*"), ("orders", "*"), ("a.b.c", "a*b*c"), ("abcbc", "a*bc")];
        let unlike = [("orders", "order"), ("orders", "*x"), ("a.c", "a*b*c"), ("aa", "aa*a"), ("b", "a*")];
        assert!(like.iter().all(|(name, pattern)| is_like(name, pattern)));
        assert!(!unlike.iter().any(|(name, pattern)| is_like(name, pattern)));
    }

    fn snapshot() -> Snapshot {
        let partition = Partition { leader: 1, replicas: vec![1, 2], isr: vec![1, 2], ..Partition::default() };
        let topic = |partition| Topic { partitions: vec![partition], ..Topic::default() };
        let broker = |id| (id, Broker { id, is_alive: id != 3, ..Broker::default() });
        let other = Partition { replicas: vec![4, 2], ..Partition { leader: 4, isr: vec![4], ..Partition::default() } };
        let topics = [("a".to_owned(), topic(partition)), ("b".to_owned(), topic(other))];
        Snapshot { brokers: (1..=4).map(broker).collect(), topics: topics.into(), ..Snapshot::empty() }
    }

    fn choice(pairs: &[(&str, &str)]) -> Choice {
        Choice::read(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()).unwrap()
    }

    #[test]
    fn a_choice_becomes_a_plan() {
        let plan = |pairs: &[(&str, &str)]| choice(pairs).plan(&snapshot()).map(|plan| plan.moves);
        let drained = plan(&[("topics", "a, b"), ("broker", "2"), ("broker", "4"), ("aim", "fewest")]).unwrap();
        assert_eq!(drained, BTreeMap::from([(TopicPartition::new("a", 0), vec![2, 4])]));
        let more = plan(&[("topics", "b"), ("broker", "1"), ("broker", "2"), ("broker", "4"), ("replicas", "3")]);
        assert_eq!(more.unwrap().into_values().next().unwrap().len(), 3);
        let wrong: [(&[_], _); 5] = [
            (&[], "choose the brokers"),
            (&[("broker", "3")], "broker 3 does not run"),
            (&[("broker", "1")], "need as many brokers"),
            (&[("broker", "1"), ("broker", "2"), ("topics", "c*")], "no topic is called c*"),
            (&[("broker", "1"), ("replicas", "0")], "a number from 1"),
        ];
        for (pairs, why) in wrong {
            assert!(plan(pairs).unwrap_err().contains(why), "{pairs:?}");
        }
        let json = r#"{"partitions":[{"topic":"a","partition":0,"replicas":[4]}]}"#;
        assert_eq!(plan(&[("make", "json"), ("plan", json)]).unwrap().into_values().next(), Some(vec![4]));
    }

    #[test]
    fn one_is_warned_before() {
        let moves = BTreeMap::from([(TopicPartition::new("a", 0), vec![3])]);
        let mut snapshot = snapshot();
        snapshot.reassignments.insert(TopicPartition::new("a", 0), Default::default());
        let warnings = warnings(&snapshot, &Plan { moves });
        assert!(
            warnings[0].1.starts_with("Broker 3 is down") && warnings[1].1.contains("move already"),
            "{warnings:?}"
        );
    }
}
