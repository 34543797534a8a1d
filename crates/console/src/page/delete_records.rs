//! Deleting the oldest records of a topic's partitions: up to where, what that would lose, and doing it.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::TopicPartition;
use serde::Deserialize;

use super::elections::OutcomePage;
use super::topic::find;
use super::topic_changes::records_text;
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, counted, escape, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::{Snapshot, Topic};

/// Groups that are named with what they will not read.
const GROUPS_SHOWN: usize = 10;
const END: &str = "end";
/// Fields of the form: `before-3` has the first offset that stays in partition 3.
const BEFORE: &str = "before-";

/// By partition: the first offset that stays.
pub(super) type Plan = BTreeMap<i32, i64>;

#[derive(Template)]
#[template(path = "delete_records.html")]
struct FormPage {
    layout: Layout,
    topic: String,
    here: String,
    to_end: bool,
    rows: Vec<FormRow>,
    pages: Pages,
    error: Option<String>,
}

struct FormRow {
    index: i32,
    /// The first offset and the one behind the last, where they are known.
    bounds: Option<(i64, i64)>,
    records: String,
    before: String,
}

#[derive(Template)]
#[template(path = "delete_records_preview.html")]
struct PreviewPage {
    layout: Layout,
    topic: String,
    topic_id: String,
    here: String,
    query: String,
    /// The plan, for the form.
    plan: String,
    losses: Vec<String>,
    /// Partitions whose records stay, because nobody could be asked for them.
    unknown: usize,
    rows: Vec<PreviewRow>,
    pages: Pages,
}

struct PreviewRow {
    index: i32,
    start: String,
    end: String,
    before: String,
    gone: String,
}

/// What is wanted, as the fields of the form have it.
type Fields = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
pub(crate) struct Confirmed {
    /// Of the topic that was shown: another one may have its name since.
    topic_id: String,
    /// `partition:offset`, with commas.
    plan: String,
    confirm: String,
}

pub(crate) async fn form(
    Change(context): Change,
    Query(listing): Query<Listing>,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let topic = find(&context, &snapshot)?;
    Ok(render(StatusCode::OK, &form_page(&context, topic, &listing, &fields, None)))
}

fn here(context: &RequestContext) -> String {
    format!("{}/topics/{}", context.base, context.param("topic"))
}

fn form_page(
    context: &RequestContext,
    topic: &Topic,
    listing: &Listing,
    fields: &Fields,
    error: Option<String>,
) -> FormPage {
    let (partitions, pages) = listing.cut(topic.partitions.iter().collect(), "partition");
    let rows = partitions.into_iter().map(|partition| FormRow {
        index: partition.index,
        bounds: partition.start.zip(partition.end),
        records: partition.records().map_or_else(|| "–".to_owned(), count),
        before: fields.get(&format!("{BEFORE}{}", partition.index)).cloned().unwrap_or_default(),
    });
    FormPage {
        layout: context.layout(Section::Topics),
        topic: context.param("topic").to_owned(),
        here: here(context),
        to_end: to_end(fields),
        rows: rows.collect(),
        pages,
        error,
    }
}

pub(crate) async fn preview(
    Change(context): Change,
    Query(listing): Query<Listing>,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let topic = find(&context, &snapshot)?;
    match wanted(topic, &fields).and_then(|plan| checked(topic, plan)) {
        Ok(plan) => Ok(render(StatusCode::OK, &preview_page(&context, &snapshot, topic, &listing, &fields, &plan))),
        Err(error) => {
            let page = form_page(&context, topic, &listing, &fields, Some(error));
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

fn preview_page(
    context: &RequestContext,
    snapshot: &Snapshot,
    topic: &Topic,
    listing: &Listing,
    fields: &Fields,
    plan: &Plan,
) -> PreviewPage {
    let name = context.param("topic");
    let known = |value: Option<i64>| value.map_or_else(|| "–".to_owned(), count);
    let planned: Vec<_> = topic.partitions.iter().filter(|of| plan.contains_key(&of.index)).collect();
    let (partitions, pages) = listing.cut(planned, "partition");
    let rows = partitions.into_iter().map(|partition| PreviewRow {
        index: partition.index,
        start: known(partition.start),
        end: known(partition.end),
        before: count(plan[&partition.index]),
        gone: count(plan[&partition.index] - partition.start.unwrap_or(0)),
    });
    let query = query(fields);
    PreviewPage {
        layout: context.layout(Section::Topics),
        topic: name.to_owned(),
        topic_id: topic.id.clone(),
        here: here(context),
        plan: plan_text(plan),
        losses: losses(snapshot, name, topic, plan),
        unknown: if to_end(fields) { unknown(topic) } else { 0 },
        rows: rows.collect(),
        pages: pages.with(query.clone()),
        query,
    }
}

/// Partitions that nobody could be asked for.
pub(super) fn unknown(topic: &Topic) -> usize {
    topic.partitions.iter().filter(|of| of.start.is_none() || of.end.is_none()).count()
}

fn to_end(fields: &Fields) -> bool {
    fields.get("to").is_some_and(|to| to == END)
}

fn query(fields: &Fields) -> String {
    let own = fields.iter().filter(|(name, value)| (*name == "to" || name.starts_with(BEFORE)) && !value.is_empty());
    let own = own.map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    own.collect::<Vec<_>>().join("&")
}

/// The ends are those of this moment: what comes later stays.
fn ends(topic: &Topic) -> Plan {
    topic.partitions.iter().filter_map(|of| of.start.and(of.end).map(|end| (of.index, end))).collect()
}

/// All that there is to delete now.
pub(super) fn of_all_records(topic: &Topic) -> Result<Plan, String> {
    checked(topic, ends(topic))
}

fn wanted(topic: &Topic, fields: &Fields) -> Result<Plan, String> {
    if to_end(fields) {
        return Ok(ends(topic));
    }
    let given = fields.iter().filter(|(_, value)| !value.trim().is_empty());
    let given = given.filter_map(|(name, value)| Some((name.strip_prefix(BEFORE)?, value.trim())));
    let plan: Plan = given.map(|(index, offset)| entry(index, offset)).collect::<Result<_, _>>()?;
    match plan.is_empty() {
        true => Err("choose all records, or type an offset at a partition".to_owned()),
        false => Ok(plan),
    }
}

fn entry(index: &str, offset: &str) -> Result<(i32, i64), String> {
    let index = index.parse().map_err(|_| format!("{index:?} is no number of a partition"))?;
    match offset.parse::<i64>() {
        Ok(offset) if offset >= 0 => Ok((index, offset)),
        _ => Err(format!("{offset:?} is no offset: it takes a number from 0")),
    }
}

/// Of a plan, what deletes something in the partitions as they are.
fn checked(topic: &Topic, plan: Plan) -> Result<Plan, String> {
    let mut left = Plan::new();
    for (index, before) in plan {
        let partition = topic.partitions.iter().find(|of| of.index == index);
        let partition = partition.ok_or_else(|| format!("there is no partition {index}"))?;
        let bounds = partition.start.zip(partition.end);
        let (start, end) = bounds.ok_or_else(|| format!("nobody could be asked for partition {index}: try again"))?;
        if before > end {
            return Err(format!("partition {index} ends at offset {end}: nothing before {before} can be deleted"));
        }
        if before > start {
            left.insert(index, before);
        }
    }
    match left.is_empty() {
        true => Err("there are no records to delete there".to_owned()),
        false => Ok(left),
    }
}

pub(super) fn losses(snapshot: &Snapshot, name: &str, topic: &Topic, plan: &Plan) -> Vec<String> {
    let starts: BTreeMap<_, _> = topic.partitions.iter().map(|of| (of.index, of.start.unwrap_or(0))).collect();
    let gone: i64 = plan.iter().map(|(index, before)| before - starts[index]).sum();
    let mut losses = vec![format!("{} in {}", records_text(gone), counted(plan.len(), "partition"))];
    let unread = snapshot.groups_of(name).map(|(id, group)| {
        let positions = group.positions.iter().filter(|(of, _)| of.topic == name);
        let unread = positions.filter_map(|(of, position)| {
            let from = position.committed?.max(*starts.get(&of.partition)?);
            Some((plan.get(&of.partition)? - from).max(0))
        });
        (id, unread.sum::<i64>())
    });
    let unread = unread.filter(|(_, unread)| *unread > 0).take(GROUPS_SHOWN);
    losses.extend(
        unread.map(|(id, unread)| format!("{} of them that group “{}” has not read", count(unread), name_shown(id))),
    );
    losses
}

pub(super) fn plan_text(plan: &Plan) -> String {
    plan.iter().map(|(index, before)| format!("{index}:{before}")).collect::<Vec<_>>().join(",")
}

/// The plan of a form, if it is still about this topic and its records.
pub(super) fn confirmed_plan(topic: &Topic, topic_id: &str, plan: &str) -> Result<Plan, String> {
    if topic.id != topic_id {
        return Err("the topic has been deleted and created again since the page was shown".to_owned());
    }
    let entries = plan.split(',').map(|part| part.split_once(':').ok_or("the plan is not that of a page"));
    let plan = entries.map(|part| part.map_err(str::to_owned).and_then(|(index, offset)| entry(index, offset)));
    checked(topic, plan.collect::<Result<_, _>>()?)
}

pub(crate) async fn delete(Change(context): Change, Form(form): Form<Confirmed>) -> Result<Response, Failure> {
    let name = context.param("topic");
    confirmed(&form.confirm, name)?;
    let snapshot = context.fresh().await?;
    let topic = find(&context, &snapshot)?;
    let plan = match confirmed_plan(topic, &form.topic_id, &form.plan) {
        Ok(plan) => plan,
        Err(error) => {
            let error = format!("Nothing was deleted: {error}.");
            let page = form_page(&context, topic, &Listing::default(), &Fields::new(), Some(error));
            return Ok(render(StatusCode::CONFLICT, &page));
        }
    };
    let offsets = plan.into_iter().map(|(index, before)| (TopicPartition::new(name, index), before)).collect();
    let deleted = context.client.delete_records(&offsets).await;
    let path = format!("/topics/{name}");
    let all = deleted.len();
    let errors = deleted.into_iter().filter_map(|(of, begins)| Some((of.to_string(), begins.err()?.to_string())));
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() {
        return Ok(context.done(&path, "records-deleted").await.into_response());
    }
    // What goes wrong here is said by the next page.
    let _ = context.fresh().await;
    let facts = vec![format!("Records of {} have been deleted.", counted(all - errors.len(), "partition"))];
    let next = (format!("{}{path}", context.base), "The topic");
    Ok(render(StatusCode::CONFLICT, &OutcomePage::new(&context, "Records deleted", facts, errors, next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Group, Partition, Position};

    fn topic() -> Topic {
        let partition = |index, start, end| Partition { index, start, end, ..Partition::default() };
        let partitions = vec![
            partition(0, Some(10), Some(100)),
            partition(1, Some(0), Some(0)),
            partition(2, None, None),
            partition(3, Some(5), Some(8)),
        ];
        Topic { id: "first".to_owned(), partitions, ..Topic::default() }
    }

    fn planned(fields: &[(&str, &str)]) -> Result<String, String> {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        wanted(&topic(), &fields).and_then(|plan| checked(&topic(), plan)).map(|plan| plan_text(&plan))
    }

    #[test]
    fn records_are_deleted_up_to_the_ends_or_up_to_offsets() {
        // Partition 1 has none, and nobody could be asked for partition 2.
        assert_eq!(planned(&[("to", "end"), ("before-0", "20")]).unwrap(), "0:100,3:8");
        let offsets = [("to", "offsets"), ("before-0", " 20 "), ("before-1", ""), ("before-3", "5")];
        assert_eq!(planned(&offsets).unwrap(), "0:20");
        assert_eq!(
            planned(&[("before-0", "101")]).unwrap_err(),
            "partition 0 ends at offset 100: nothing before 101 can be deleted"
        );
        assert_eq!(planned(&[("before-9", "1")]).unwrap_err(), "there is no partition 9");
        assert_eq!(planned(&[("before-3", "4")]).unwrap_err(), "there are no records to delete there");
        for fields in [("to", "offsets"), ("before-0", "-1"), ("before-0", "x"), ("before-x", "1"), ("before-2", "1")] {
            assert!(planned(&[fields]).is_err(), "{fields:?}");
        }
    }

    #[test]
    fn a_plan_is_checked_again_when_it_is_confirmed() {
        let confirmed = |id: &str, plan: &str| confirmed_plan(&topic(), id, plan).map(|plan| plan_text(&plan));
        // Of partition 3 retention has deleted these in the meantime.
        assert_eq!(confirmed("first", "0:20,3:5").unwrap(), "0:20");
        assert!(confirmed("second", "0:20").unwrap_err().starts_with("the topic has been deleted"));
        assert!(
            [confirmed("first", "0:101"), confirmed("first", ""), confirmed("first", "0:20;")]
                .iter()
                .all(Result::is_err)
        );
    }

    #[test]
    fn losses_are_counted_and_so_is_what_groups_have_not_read() {
        let position = |partition, committed| {
            (TopicPartition::new("t", partition), Position { committed: Some(committed), ..Position::default() })
        };
        let mut snapshot = Snapshot::empty();
        let groups = [("late", vec![position(0, 15), position(3, 0)]), ("done", vec![position(0, 90)])];
        snapshot.groups = groups
            .map(|(id, positions)| {
                (id.to_owned(), Group { positions: positions.into_iter().collect(), ..Group::default() })
            })
            .into();
        let losses = losses(&snapshot, "t", &topic(), &Plan::from([(0, 20), (3, 8)]));
        assert_eq!(losses, ["13 records in 2 partitions", "8 of them that group “late” has not read"]);
    }
}
