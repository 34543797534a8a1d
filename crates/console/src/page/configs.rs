//! Settings of topics and brokers: where they come from, and changing one.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{ClientError, ConfigEntry, ConfigSource, ConfigType, Resource, ResourceKind};
use serde::Deserialize;

use super::Listing;
use crate::failure::{Failure, render, told};
use crate::format::{bytes, duration, escape};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};

/// From here on a time or a size is shown in larger units too.
const MILLISECONDS_LONG: i64 = 10_000;
const BYTES_MANY: i64 = 10_000;

pub(crate) struct ConfigRow {
    pub name: String,
    pub value: String,
    pub source: &'static str,
    /// Whether it was set for this very thing.
    pub is_own: bool,
    pub is_read_only: bool,
}

#[derive(Template)]
#[template(path = "configs.html")]
struct Page {
    layout: Layout,
    base: String,
    topic: String,
    edit_base: String,
    listing: Listing,
    configs: Vec<ConfigRow>,
    configs_error: Option<String>,
    can_change: bool,
}

#[derive(Template)]
#[template(path = "config.html")]
struct EditPage {
    layout: Layout,
    /// What it belongs to, and that one's page.
    of: String,
    of_href: String,
    name: String,
    value: String,
    is_sensitive: bool,
    is_own: bool,
    config_type: &'static str,
    documentation: String,
    /// What it would be without a value of its own, the next source first.
    synonyms: Vec<(String, String, &'static str)>,
    error: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct NewValue {
    #[serde(default)]
    value: String,
    /// `set` or `reset`.
    action: String,
}

/// The settings of a topic or broker whose names contain `part`: those that were changed first.
pub(crate) async fn config_rows(
    context: &RequestContext,
    resource: &Resource,
    part: &str,
) -> Result<Vec<ConfigRow>, ClientError> {
    let part = part.trim().to_lowercase();
    let entries = describe(context, resource).await?;
    let found = entries.into_iter().filter(|entry| entry.name.to_lowercase().contains(&part));
    let mut rows: Vec<_> = found
        .map(|entry| ConfigRow {
            is_own: entry.source == resource.own_source(),
            source: source_text(entry.source),
            is_read_only: entry.is_read_only,
            value: value_shown(&entry.name, entry.value.as_deref(), entry.is_sensitive),
            name: entry.name,
        })
        .collect();
    rows.sort_by(|a, b| b.is_own.cmp(&a.is_own).then_with(|| a.name.cmp(&b.name)));
    Ok(rows)
}

pub(super) async fn describe(context: &RequestContext, resource: &Resource) -> Result<Vec<ConfigEntry>, ClientError> {
    let mut described = context.client.describe_configs(std::slice::from_ref(resource), true).await;
    let missing = || ClientError::Missing { address: "the cluster".to_owned(), subject: "settings".to_owned() };
    described.remove(resource).unwrap_or_else(|| Err(missing()))
}

pub(super) fn value_shown(name: &str, value: Option<&str>, is_sensitive: bool) -> String {
    match value {
        _ if is_sensitive => "(hidden)".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(value) => match readable(name, value) {
            Some(readable) => format!("{value} ({readable})"),
            None => value.to_owned(),
        },
        None => "(none)".to_owned(),
    }
}

/// A time or a size in units that a person reads at a glance, where its own does not do.
fn readable(name: &str, value: &str) -> Option<String> {
    let number = value.parse::<i64>().ok()?;
    let (is_time, is_size) = (name.ends_with(".ms"), name.ends_with(".bytes"));
    match number {
        i64::MAX if is_time || is_size => Some("no bound".to_owned()),
        MILLISECONDS_LONG.. if is_time => Some(duration(number as f64 / 1000.0)),
        BYTES_MANY.. if is_size => Some(bytes(number)),
        _ => None,
    }
}

fn source_text(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::DynamicTopic => "this topic",
        ConfigSource::DynamicBroker => "this broker, at run time",
        ConfigSource::DynamicDefaultBroker => "all brokers, at run time",
        ConfigSource::StaticBroker => "the broker's start",
        ConfigSource::Default => "default",
        other => other.name(),
    }
}

fn type_text(config_type: ConfigType) -> &'static str {
    match config_type {
        ConfigType::Unknown => "A value",
        ConfigType::Boolean => "true or false",
        ConfigType::String | ConfigType::Class => "A text",
        ConfigType::Int | ConfigType::Short | ConfigType::Long => "A whole number",
        ConfigType::Double => "A number",
        ConfigType::List => "A list, with commas",
        ConfigType::Password => "A password",
    }
}

pub(crate) async fn of_topic(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let topic = context.param("topic").to_owned();
    let (configs, configs_error) = match config_rows(&context, &Resource::topic(&topic), &listing.q).await {
        Ok(configs) => (configs, None),
        Err(error @ ClientError::Refused { .. }) => (Vec::new(), Some(told(&error))),
        Err(error) => return Err(error.into()),
    };
    let page = Page {
        layout: context.layout(Section::Topics),
        base: context.base.clone(),
        edit_base: format!("{}/topics/{}/configs", context.base, escape(&topic)),
        topic,
        listing,
        configs,
        configs_error,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn edit_of_topic(Change(context): Change) -> Result<Response, Failure> {
    edit(&context, &Resource::topic(context.param("topic"))).await
}

pub(crate) async fn change_of_topic(Change(context): Change, Form(new): Form<NewValue>) -> Result<Response, Failure> {
    change(&context, &Resource::topic(context.param("topic")), new).await
}

pub(crate) async fn edit_of_broker(Change(context): Change) -> Result<Response, Failure> {
    edit(&context, &Resource::broker(context.number("broker")?)).await
}

pub(crate) async fn change_of_broker(Change(context): Change, Form(new): Form<NewValue>) -> Result<Response, Failure> {
    change(&context, &Resource::broker(context.number("broker")?), new).await
}

async fn edit(context: &RequestContext, resource: &Resource) -> Result<Response, Failure> {
    Ok(render(StatusCode::OK, &edit_page(context, resource).await?))
}

async fn edit_page(context: &RequestContext, resource: &Resource) -> Result<EditPage, Failure> {
    let name = context.param("config");
    let entries = describe(context, resource).await?;
    let entry = entries.into_iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| Failure::not_found(format!("there is no setting {name:?}")))?;
    let (section, of, _) = whose(resource);
    let synonyms = entry.synonyms.iter().map(|synonym| {
        let value = if entry.is_sensitive { "(hidden)" } else { synonym.value.as_deref().unwrap_or("(none)") };
        (synonym.name.clone(), value.to_owned(), source_text(synonym.source))
    });
    Ok(EditPage {
        layout: context.layout(section),
        of,
        of_href: format!("{}{}", context.base, settings_path(resource)),
        value: entry.value.clone().filter(|_| !entry.is_sensitive).unwrap_or_default(),
        is_sensitive: entry.is_sensitive,
        is_own: entry.source == resource.own_source(),
        config_type: type_text(entry.config_type),
        documentation: entry.documentation.clone().unwrap_or_default(),
        synonyms: synonyms.collect(),
        name: entry.name,
        error: None,
    })
}

fn whose(resource: &Resource) -> (Section, String, String) {
    match resource.kind {
        ResourceKind::Topic => (Section::Topics, format!("topic {}", resource.name), escape(&resource.name)),
        _ => (Section::Overview, format!("broker {}", resource.name), resource.name.clone()),
    }
}

fn settings_path(resource: &Resource) -> String {
    let (section, _, name) = whose(resource);
    match section {
        Section::Topics => format!("/topics/{name}/configs"),
        _ => format!("/brokers/{name}"),
    }
}

async fn change(context: &RequestContext, resource: &Resource, new: NewValue) -> Result<Response, Failure> {
    let name = context.param("config").to_owned();
    let is_reset = new.action == "reset";
    let set = if is_reset { Vec::new() } else { vec![(name.clone(), new.value.trim().to_owned())] };
    let delete = if is_reset { vec![name] } else { Vec::new() };
    match context.client.alter_configs(resource, &set, &delete, false).await {
        Ok(()) => {
            let notice = if is_reset { "config-reset" } else { "config-set" };
            Ok(context.done(&settings_path(resource), notice).await.into_response())
        }
        Err(error @ ClientError::Refused { .. }) => {
            let page = EditPage { value: new.value, error: Some(told(&error)), ..edit_page(context, resource).await? };
            Ok(render(StatusCode::CONFLICT, &page))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_and_sizes_are_readable() {
        let readable = |name, value| readable(name, value).unwrap_or_default();
        assert_eq!(readable("retention.ms", "604800000"), "7 d");
        assert_eq!(readable("segment.bytes", "1073741824"), "1.00 GiB");
        assert_eq!(readable("flush.ms", "9223372036854775807"), "no bound");
        for (name, value) in
            [("linger.ms", "5"), ("retention.ms", "-1"), ("num.partitions", "604800000"), ("a.ms", "x")]
        {
            assert_eq!(readable(name, value), "", "{name}={value}");
        }
    }
}
