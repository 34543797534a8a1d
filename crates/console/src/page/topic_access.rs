//! `/clusters/NAME/topics/TOPIC/access`: who can read the topic, or do something else to it, and which rule decides.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::ClientError;
use metadata::acl::{ANY_PRINCIPAL, AclOperation, ResourceType};
use serde::Deserialize;
use wire::api::delete_acls::DeleteAclsFilter;

use super::users::path_of;
use super::{Listing, Pages};
use crate::access_control::{AccessControl, Decision, MATCH, Who, any, operation};
use crate::failure::{Failure, render, told};
use crate::format::{escape, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

#[derive(Template)]
#[template(path = "topic_access.html")]
struct Page {
    layout: Layout,
    base: String,
    topic: String,
    /// Names, and whether they are chosen.
    operations: Vec<(String, bool)>,
    question: String,
    notes: Vec<String>,
    rows: Vec<Row>,
    pages: Pages,
    /// Why it is not known.
    error: Option<String>,
    new_href: String,
    can_change: bool,
}

struct Row {
    principal: String,
    is_everybody_else: bool,
    user_href: Option<String>,
    from: String,
    is_allowed: bool,
    reason: String,
}

#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    operation: String,
}

impl Asked {
    /// What it is asked who may do it: READ, unless something else is said.
    pub(crate) fn operation(&self) -> Result<AclOperation, Failure> {
        let name = self.operation.as_str();
        let known = if name.is_empty() { Some(AclOperation::Read) } else { operation(name) };
        let known = known.filter(|operation| ResourceType::Topic.operations().contains(operation));
        known.ok_or_else(|| Failure::wrong(format!("{name:?} is nothing that is done to topics")))
    }
}

/// What decides about the topic of the path.
pub(crate) async fn control(context: &RequestContext) -> Result<Result<AccessControl, ClientError>, Failure> {
    let matching = DeleteAclsFilter {
        resource_type_filter: ResourceType::Topic as i8,
        resource_name_filter: Some(context.param("topic").to_owned()),
        pattern_type_filter: MATCH,
        ..any()
    };
    match AccessControl::ask(&context.client, context.any_broker().await?, &[matching]).await {
        Err(error) if !matches!(error, ClientError::Refused { .. }) => Err(error.into()),
        asked => Ok(asked),
    }
}

pub(crate) async fn show(
    context: RequestContext,
    Query(asked): Query<Asked>,
    Query(listing): Query<Listing>,
) -> Result<Response, Failure> {
    let operation = asked.operation()?;
    let topic = context.param("topic");
    context
        .snapshot_with(|snapshot| snapshot.topics.contains_key(topic))
        .await
        .and_then(|snapshot| super::topic::find(&context, &snapshot).map(|_| ()))?;
    let (control, error) = match control(&context).await? {
        Ok(control) => (Some(control), None),
        Err(error) => (None, Some(told(&error))),
    };
    let everybody = control.as_ref().map(AccessControl::everybody).unwrap_or_default();
    let (shown, pages) = listing.cut(everybody, "principal");
    let decided =
        |who: &Who| control.as_ref().map(|control| control.decide(who, operation, ResourceType::Topic, topic));
    let rows = shown.iter().filter_map(|who| Some(row(&context, who, &decided(who)?)));
    let operations = ResourceType::Topic.operations().iter();
    let page = Page {
        layout: context.layout(Section::Topics),
        base: context.base.clone(),
        operations: operations.map(|known| (known.to_string(), *known == operation)).collect(),
        question: question(operation),
        rows: rows.collect(),
        pages: pages.with(format!("operation={operation}")),
        notes: control.as_ref().map(|control| control.notes.clone()).unwrap_or_default(),
        error,
        new_href: format!("{}/acls/new?name={}&operations={operation}", context.base, escape(topic)),
        can_change: context.can_change(),
        topic: topic.to_owned(),
    };
    Ok(render(StatusCode::OK, &page))
}

/// In words, where there is a word for it.
fn question(operation: AclOperation) -> String {
    let what = match operation {
        AclOperation::Read => "read this topic",
        AclOperation::Write => "write to this topic",
        AclOperation::Create => "create a topic of this name",
        AclOperation::Delete => "delete this topic or its records",
        AclOperation::Alter => "add partitions to this topic",
        AclOperation::Describe => "see this topic",
        AclOperation::DescribeConfigs => "see the settings of this topic",
        AclOperation::AlterConfigs => "change the settings of this topic",
        _ => return format!("Who has {operation}?"),
    };
    format!("Who can {what}?")
}

fn row(context: &RequestContext, who: &Who, decision: &Decision) -> Row {
    let is_everybody_else = who.principal == ANY_PRINCIPAL;
    let user = who.principal.strip_prefix("User:");
    Row {
        principal: name_shown(&who.principal),
        is_everybody_else,
        user_href: user.map(|user| format!("{}{}", context.base, path_of(user))),
        from: who.address.map_or_else(String::new, |address| address.to_string()),
        is_allowed: decision.is_allowed,
        reason: decision.reason(),
    }
}
