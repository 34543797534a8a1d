//! Deleting a group, and what it has committed in a topic.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::ClientError;

use super::group::{find, here, host_shown, path, quoted};
use super::topic_changes::{ConfirmPage, Confirmation};
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, counted, escape, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};
use crate::snapshot::Group;

/// What can be typed into a field is as it is typed: a name that is longer, or has line breaks, is not.
const TYPED_CHARS_MAX: usize = 120;
/// Members and topics that are named where all of them would be too many.
const NAMED: usize = 10;

/// Members that stand in the way.
#[derive(Template)]
#[template(path = "group_in_use.html")]
struct InUsePage {
    layout: Layout,
    title: String,
    state: String,
    members: Vec<String>,
    more: usize,
    here: String,
    back: String,
}

/// What has to be typed to confirm something about a group.
pub(super) fn typed_name(group: &str) -> &str {
    typed_or(group, "this group")
}

/// A name that anybody may have chosen, or other words where it cannot be typed.
pub(super) fn typed_or<'a>(name: &'a str, other: &'a str) -> &'a str {
    let is_typed = !name.trim().is_empty()
        && name.trim() == name
        && !name.chars().any(char::is_control)
        && name.chars().count() <= TYPED_CHARS_MAX;
    if is_typed { name } else { other }
}

/// A page that says what to do first, where the group has members.
pub(super) fn in_use(context: &RequestContext, group: &Group, title: String) -> Option<Response> {
    if group.is_unused() {
        return None;
    }
    let members = group.members.iter().take(NAMED);
    let page = InUsePage {
        layout: context.layout(Section::Groups),
        title,
        state: group.state.clone(),
        members: members
            .map(|member| format!("{} on {}", name_shown(&member.client_id), host_shown(&member.client_host)))
            .collect(),
        more: group.members.len().saturating_sub(NAMED),
        here: here(context),
        back: here(context),
    };
    Some(render(StatusCode::OK, &page))
}

pub(crate) async fn delete_form(Change(context): Change) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let group = find(&context, &snapshot)?;
    let id = context.group();
    let title = format!("Delete group {}", quoted(id));
    if let Some(response) = in_use(&context, group, title.clone()) {
        return Ok(response);
    }
    let topics = group.topics();
    let page = ConfirmPage {
        layout: context.layout(Section::Groups),
        title,
        losses: vec![
            format!("where it stands in {}: {}", counted(group.positions.len(), "partition"), named(&topics)),
            "with it, what it has read and what not: consumers of this group would begin where auto.offset.reset says"
                .to_owned(),
        ],
        name: typed_name(id).to_owned(),
        action: "Delete the group",
        back: here(&context),
    };
    Ok(render(StatusCode::OK, &page))
}

/// Some of them, and how many more.
fn named(topics: &[&str]) -> String {
    let shown = topics.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match topics.len().saturating_sub(NAMED) {
        0 if topics.is_empty() => "no topic".to_owned(),
        0 => shown,
        more => format!("{shown} and {} more", count(more as u64)),
    }
}

pub(crate) async fn delete(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let id = context.group();
    confirmed(&form.confirm, typed_name(id))?;
    context.client.delete_group(id).await?;
    Ok(context.done("/groups", "group-deleted").await.into_response())
}

/// Which topic's offsets.
#[derive(Template)]
#[template(path = "group_offsets.html")]
struct TopicsPage {
    layout: Layout,
    group: String,
    here: String,
    topics: Vec<TopicRow>,
    pages: Pages,
}

struct TopicRow {
    name: String,
    partitions: String,
    lag_records: String,
    /// `None` while members read it.
    href: Option<String>,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct OfTopic {
    topic: Option<String>,
}

pub(crate) async fn offsets_form(
    Change(context): Change,
    Query(listing): Query<Listing>,
    Query(asked): Query<OfTopic>,
) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let group = find(&context, &snapshot)?;
    match asked.topic {
        Some(topic) => Ok(render(StatusCode::OK, &offsets_page(&context, group, topic)?)),
        None => Ok(render(StatusCode::OK, &topics_page(&context, group, &listing))),
    }
}

fn topics_page(context: &RequestContext, group: &Group, listing: &Listing) -> TopicsPage {
    let (topics, pages) = listing.cut(group.topics(), "topic");
    let rows = topics.into_iter().map(|topic| {
        let of_topic = group.positions.iter().filter(|(of, _)| of.topic == topic);
        let lag = of_topic.clone().filter_map(|(_, position)| position.lag_records).reduce(|sum, lag| sum + lag);
        let is_read = group.members.iter().flat_map(|member| &member.assigned).any(|of| of.topic == topic);
        TopicRow {
            name: topic.to_owned(),
            partitions: count(of_topic.count() as u64),
            lag_records: lag.map_or_else(|| "–".to_owned(), count),
            href: (!is_read).then(|| format!("?topic={}", escape(topic))),
        }
    });
    TopicsPage {
        layout: context.layout(Section::Groups),
        group: name_shown(context.group()),
        here: here(context),
        topics: rows.collect(),
        pages,
    }
}

fn offsets_page(context: &RequestContext, group: &Group, topic: String) -> Result<ConfirmPage, Failure> {
    let id = context.group();
    let committed = group.positions.iter().filter(|(of, position)| of.topic == topic && position.committed.is_some());
    let committed = committed.count();
    if committed == 0 {
        return Err(Failure::not_found(format!("group {} has no offsets in topic {topic:?}", quoted(id))));
    }
    Ok(ConfirmPage {
        layout: context.layout(Section::Groups),
        title: format!("Delete the offsets of group {} in topic {topic}", quoted(id)),
        losses: vec![format!(
            "where it stands in {} of {topic}: consumers of this group would begin there where auto.offset.reset says",
            counted(committed, "partition")
        )],
        name: typed_name(id).to_owned(),
        action: "Delete the offsets",
        back: format!("{}/offsets", here(context)),
    })
}

pub(crate) async fn delete_offsets(
    Change(context): Change,
    Query(asked): Query<OfTopic>,
    Form(form): Form<Confirmation>,
) -> Result<Response, Failure> {
    let id = context.group();
    confirmed(&form.confirm, typed_name(id))?;
    let topic = asked.topic.ok_or_else(|| Failure::wrong("name the topic whose offsets are to be deleted"))?;
    let snapshot = context.fresh().await?;
    let committed = find(&context, &snapshot)?.positions.iter().filter(|(_, position)| position.committed.is_some());
    let partitions = committed.map(|(of, _)| of.clone()).filter(|of| of.topic == topic).collect();
    let deleted = context.client.delete_offsets(id, &partitions).await?;
    if let Some(error) = deleted.into_values().find_map(Result::err) {
        return Err(ClientError::into(error));
    }
    Ok(context.done(&path(&context), "offsets-deleted").await.into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_typed_is_not_asked_for() {
        assert_eq!([typed_name("a b/<c>"), typed_name("ä")], ["a b/<c>", "ä"]);
        for group in ["", " ", " a", "a\nb", &"x".repeat(10_000)] {
            assert_eq!(typed_name(group), "this group");
        }
    }

    #[test]
    fn many_topics_are_named_in_part() {
        assert_eq!([named(&[]), named(&["a", "b"])], ["no topic", "a, b"]);
        assert_eq!(named(&["t"; 12]), "t, t, t, t, t, t, t, t, t, t and 2 more");
    }
}
