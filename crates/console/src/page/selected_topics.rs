//! `/clusters/NAME/selected-topics/…`: deleting several topics or all of their records, and changing a config of them.
//!
//! Nothing is kept between the steps: what was selected goes with the forms, and is looked for anew whenever it comes
//! back.

pub(crate) mod configs;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::Response;
use client::{ClientError, TopicPartition};
use futures_util::future::join_all;

use super::{ROWS, delete_records, topic_changes};
use crate::failure::{Failure, render};
use crate::format::{count, counted};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::{Snapshot, Topic};

/// Of all selected topics whose records are deleted: the form has an offset of each.
const PARTITIONS_MAX: usize = 20_000;

/// The fields of a form, in their order: each `topic` may be followed by its `id` and its `plan`.
pub(crate) type Fields = Vec<(String, String)>;

/// A topic that was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Selected {
    name: String,
    /// Of the topic that was shown: another one may have its name since.
    id: Option<String>,
    /// Which of its records are to be deleted.
    plan: String,
}

/// What was selected, as far as it can be changed, and why the rest cannot.
struct Selection<'a> {
    topics: Vec<(Selected, &'a Topic)>,
    left_out: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "selected_topics.html")]
struct ReviewPage {
    layout: Layout,
    title: String,
    is_final: bool,
    /// Of the column that says it.
    what: &'static str,
    rows: Vec<ReviewRow>,
    left_out: Vec<(String, String)>,
    /// Where the form goes.
    here: String,
    /// What it has besides the topics.
    fields: Vec<(&'static str, String)>,
    /// What has to be typed.
    confirm: Option<String>,
    /// Of the button.
    action: &'static str,
    back: String,
}

struct ReviewRow {
    name: String,
    id: String,
    plan: String,
    changes: Vec<String>,
}

#[derive(Template)]
#[template(path = "selected_topics_results.html")]
struct ResultsPage {
    layout: Layout,
    title: String,
    done: usize,
    /// By topic, what was done, or why it was not.
    results: Vec<(String, Result<String, String>)>,
    back: String,
}

fn field<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
}

fn read(fields: &Fields) -> Result<Vec<Selected>, Failure> {
    let mut selected = Vec::<Selected>::new();
    for (name, value) in fields {
        match (name.as_str(), selected.last_mut()) {
            ("topic", _) => selected.push(Selected { name: value.clone(), ..Selected::default() }),
            ("id", Some(last)) => last.id = Some(value.clone()),
            ("plan", Some(last)) => last.plan.clone_from(value),
            _ => {}
        }
    }
    match selected.len() {
        0 => Err(Failure::wrong("no topic is selected: go back and tick those that you mean")),
        1..=ROWS => Ok(selected),
        _ => Err(Failure::wrong(format!("at most {ROWS} topics can be changed at once"))),
    }
}

fn find(selected: Vec<Selected>, snapshot: &Snapshot) -> Selection<'_> {
    let mut selection = Selection { topics: Vec::new(), left_out: Vec::new() };
    for selected in selected {
        let reason = match snapshot.topics.get(&selected.name) {
            None => "it does not exist any more",
            Some(topic) if topic.is_internal => "it belongs to the brokers",
            Some(topic) if selected.id.as_ref().is_some_and(|id| *id != topic.id) => {
                "it has been deleted and created again since the page was shown"
            }
            Some(topic) => {
                selection.topics.push((selected, topic));
                continue;
            }
        };
        selection.left_out.push((selected.name, reason.to_owned()));
    }
    selection
}

fn here(context: &RequestContext, action: &str) -> String {
    format!("{}/selected-topics/{action}", context.base)
}

/// What has to be typed for so many topics.
fn confirmation(topics: usize) -> String {
    counted(topics, "topic")
}

fn row(selected: Selected, topic: &Topic, changes: Vec<String>) -> ReviewRow {
    ReviewRow { name: selected.name, id: topic.id.clone(), plan: selected.plan, changes }
}

fn losses_page(
    context: &RequestContext,
    (path, title, action): (&str, &str, &'static str),
    rows: Vec<ReviewRow>,
    left_out: Vec<(String, String)>,
) -> ReviewPage {
    let topics = confirmation(rows.len());
    ReviewPage {
        layout: context.layout(Section::Topics),
        title: format!("{title} {topics}"),
        is_final: true,
        what: "What will be lost",
        rows,
        left_out,
        here: here(context, path),
        fields: Vec::new(),
        confirm: Some(topics),
        action,
        back: format!("{}/topics", context.base),
    }
}

pub(crate) async fn delete_form(Change(context): Change, Query(fields): Query<Fields>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let Selection { topics, left_out } = find(read(&fields)?, &snapshot);
    let rows = topics.into_iter().map(|(selected, topic)| {
        let losses = topic_changes::losses(&snapshot, &selected.name, topic);
        row(selected, topic, losses)
    });
    let page = losses_page(&context, ("delete", "Delete", "Delete the topics"), rows.collect(), left_out);
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(context): Change, Form(fields): Form<Fields>) -> Result<Response, Failure> {
    let selected = read(&fields)?;
    confirmed(field(&fields, "confirm"), &confirmation(selected.len()))?;
    let snapshot = context.fresh().await?;
    let Selection { topics, left_out } = find(selected, &snapshot);
    let results = join_all(topics.into_iter().map(async |(selected, _)| {
        let deleted = context.client.delete_topic(&selected.name).await;
        (selected.name, deleted.map(|()| "deleted".to_owned()))
    }));
    results_page(&context, "Topics deleted", results.await, left_out).await
}

pub(crate) async fn delete_records_form(
    Change(context): Change,
    Query(fields): Query<Fields>,
) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let Selection { topics, mut left_out } = find(read(&fields)?, &snapshot);
    let partitions: usize = topics.iter().map(|(_, topic)| topic.partitions.len()).sum();
    if partitions > PARTITIONS_MAX {
        let (partitions, max) = (count(partitions as u64), count(PARTITIONS_MAX as u64));
        let what = format!("these topics have {partitions} partitions, more than {max}: select fewer of them");
        return Err(Failure::wrong(what));
    }
    let mut rows = Vec::new();
    for (selected, topic) in topics {
        match delete_records::of_all_records(topic) {
            Ok(plan) => {
                let mut losses = delete_records::losses(&snapshot, &selected.name, topic, &plan);
                let unknown = delete_records::unknown(topic);
                if unknown > 0 {
                    losses.push(format!("nothing of {} that did not answer", counted(unknown, "partition")));
                }
                rows.push(row(Selected { plan: delete_records::plan_text(&plan), ..selected }, topic, losses));
            }
            Err(reason) => left_out.push((selected.name, reason)),
        }
    }
    let words = ("delete-records", "Delete the records of", "Delete the records");
    Ok(render(StatusCode::OK, &losses_page(&context, words, rows, left_out)))
}

pub(crate) async fn delete_records(Change(context): Change, Form(fields): Form<Fields>) -> Result<Response, Failure> {
    let selected = read(&fields)?;
    confirmed(field(&fields, "confirm"), &confirmation(selected.len()))?;
    let snapshot = context.fresh().await?;
    let Selection { topics, mut left_out } = find(selected, &snapshot);
    let mut offsets = BTreeMap::new();
    for (selected, topic) in topics {
        match delete_records::confirmed_plan(topic, selected.id.as_deref().unwrap_or_default(), &selected.plan) {
            Ok(plan) => {
                let plan = plan.into_iter();
                offsets.extend(plan.map(|(index, before)| (TopicPartition::new(&selected.name, index), before)));
            }
            Err(reason) => left_out.push((selected.name, reason)),
        }
    }
    let mut by_topic = BTreeMap::<String, Vec<Result<i64, ClientError>>>::new();
    for (of, begins) in context.client.delete_records(&offsets).await {
        by_topic.entry(of.topic).or_default().push(begins);
    }
    let results = by_topic.into_iter().map(|(name, partitions)| (name, of_partitions(partitions))).collect();
    results_page(&context, "Records deleted", results, left_out).await
}

/// What came of a topic whose partitions were changed one by one.
fn of_partitions(partitions: Vec<Result<i64, ClientError>>) -> Result<String, String> {
    let all = partitions.len();
    let errors: Vec<_> = partitions.into_iter().filter_map(Result::err).collect();
    match errors.first() {
        None => Ok(format!("deleted in {}", counted(all, "partition"))),
        Some(first) => Err(format!("{} of {} failed: {first}", count(errors.len()), counted(all, "partition"))),
    }
}

async fn results_page(
    context: &RequestContext,
    title: &str,
    results: Vec<(String, Result<String, impl ToString>)>,
    left_out: Vec<(String, String)>,
) -> Result<Response, Failure> {
    // What goes wrong here is said by the next page.
    let _ = context.fresh().await;
    let results = results.into_iter().map(|(name, result)| (name, result.map_err(|error| error.to_string())));
    let left_out = left_out.into_iter().map(|(name, reason)| (name, Err(reason)));
    let results: Vec<(String, Result<String, String>)> = results.chain(left_out).collect();
    let done = results.iter().filter(|(_, result)| result.is_ok()).count();
    let status = if done == results.len() { StatusCode::OK } else { StatusCode::CONFLICT };
    let page = ResultsPage {
        layout: context.layout(Section::Topics),
        title: title.to_owned(),
        done,
        results,
        back: format!("{}/topics", context.base),
    };
    Ok(render(status, &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn snapshot() -> Snapshot {
        let topic = |id: &str, is_internal| Topic { id: id.to_owned(), is_internal, ..Topic::default() };
        let topics = [("orders", topic("first", false)), ("__consumer_offsets", topic("own", true))];
        let topics = topics.map(|(name, topic)| (name.to_owned(), topic));
        Snapshot { topics: topics.into(), ..Snapshot::empty() }
    }

    #[test]
    fn what_is_internal_gone_or_another_by_now_is_left_out() {
        let snapshot = snapshot();
        let found = |pairs: &[(&str, &str)]| {
            let selection = find(read(&fields(pairs)).unwrap(), &snapshot);
            let topics: Vec<_> = selection.topics.into_iter().map(|(selected, _)| selected.name).collect();
            (topics.join(" "), selection.left_out.into_iter().map(|(_, reason)| reason).collect::<Vec<_>>().join("; "))
        };
        assert_eq!(found(&[("topic", "orders"), ("id", "first")]), ("orders".to_owned(), String::new()));
        let (topics, reasons) = found(&[("topic", "__consumer_offsets"), ("topic", "orders"), ("topic", "gone")]);
        assert_eq!(
            (topics.as_str(), reasons.as_str()),
            ("orders", "it belongs to the brokers; it does not exist any more")
        );
        let (topics, reasons) = found(&[("topic", "orders"), ("id", "second")]);
        assert_eq!(topics, "");
        assert!(reasons.contains("created again"), "{reasons}");
    }

    #[test]
    fn a_selection_is_read_in_its_order_and_has_a_bound() {
        let pairs =
            [("id", "x"), ("topic", "a"), ("plan", "0:1"), ("topic", "b"), ("id", "y"), ("confirm", "2 topics")];
        let selected = read(&fields(&pairs)).unwrap();
        let named = |name: &str, id: Option<&str>, plan: &str| Selected {
            name: name.to_owned(),
            id: id.map(str::to_owned),
            plan: plan.to_owned(),
        };
        assert_eq!(selected, [named("a", None, "0:1"), named("b", Some("y"), "")]);
        assert_eq!(confirmation(selected.len()), "2 topics");
        assert!(read(&fields(&[("confirm", "x")])).unwrap_err().what().contains("no topic is selected"));
        assert_eq!(read(&fields(&[("topic", "a"); ROWS])).unwrap().len(), ROWS);
        assert!(read(&fields(&[("topic", "a"); ROWS + 1])).unwrap_err().what().contains("at most 50"));
    }

    #[test]
    fn a_topic_has_failed_if_one_of_its_partitions_has() {
        assert_eq!(of_partitions(vec![Ok(1), Ok(2)]).unwrap(), "deleted in 2 partitions");
        let error = || Err(ClientError::NoLeader(TopicPartition::new("t", 1)));
        assert_eq!(
            of_partitions(vec![Ok(1), error()]).unwrap_err(),
            "1 of 2 partitions failed: partition t-1 has no leader"
        );
    }
}
