//! Changing one config of several topics.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::Response;
use client::{ConfigEntry, ConfigSource, Resource};
use futures_util::future::join_all;

use super::{Fields, ReviewPage, Selection, field, find, here, read, results_page, row};
use crate::failure::{Failure, render};
use crate::format::counted;
use crate::layout::{Layout, Section};
use crate::page::configs::{describe, value_shown};
use crate::request_context::{Change, RequestContext};

#[derive(Template)]
#[template(path = "selected_topics_config.html")]
struct FormPage {
    layout: Layout,
    here: String,
    topics: Vec<String>,
    names: Vec<String>,
    back: String,
}

/// What a config shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Value(String),
    Default,
}

/// A change of one config.
struct ConfigChange {
    name: String,
    wanted: Wanted,
}

impl ConfigChange {
    /// `None` where nothing was chosen yet.
    fn read(fields: &Fields) -> Option<Self> {
        let wanted = match field(fields, "action") {
            "set" => Wanted::Value(field(fields, "value").trim().to_owned()),
            "reset" => Wanted::Default,
            _ => return None,
        };
        Some(Self { name: field(fields, "name").to_owned(), wanted })
    }

    async fn apply(&self, context: &RequestContext, topic: &str, only_checks: bool) -> Result<(), String> {
        let (set, delete) = match &self.wanted {
            Wanted::Value(value) => (vec![(self.name.clone(), value.clone())], Vec::new()),
            Wanted::Default => (Vec::new(), vec![self.name.clone()]),
        };
        let (client, topic) = (&context.client, Resource::topic(topic));
        client.alter_configs(&topic, &set, &delete, only_checks).await.map_err(|error| error.to_string())
    }

    /// How it is and how it will be, or why it stays as it is.
    fn of(&self, configs: &[ConfigEntry]) -> Result<String, String> {
        let entry = configs.iter().find(|entry| entry.name == self.name);
        let entry = entry.ok_or_else(|| format!("there is no config {:?}", self.name))?;
        let is_own = entry.source == ConfigSource::DynamicTopic;
        let shown = |value: Option<&str>| value_shown(&entry.name, value, entry.is_sensitive);
        let now = shown(entry.value.as_deref());
        match &self.wanted {
            Wanted::Value(value) if is_own && entry.value.as_ref() == Some(value) => {
                Err(format!("it is {now} already"))
            }
            Wanted::Value(value) => Ok(format!("{now} → {}", shown(Some(value)))),
            Wanted::Default if !is_own => Err(format!("it has no value of its own: {now}")),
            Wanted::Default => {
                let next = entry.synonyms.iter().find(|synonym| synonym.source != ConfigSource::DynamicTopic);
                Ok(format!("{now} → {}", shown(next.and_then(|synonym| synonym.value.as_deref()))))
            }
        }
    }
}

pub(crate) async fn form(Change(context): Change, Query(fields): Query<Fields>) -> Result<Response, Failure> {
    let snapshot = context.fresh().await?;
    let selected = read(&fields)?;
    let back = format!("{}/topics", context.base);
    let Some(change) = ConfigChange::read(&fields) else {
        let Selection { topics, left_out } = find(selected, &snapshot);
        let Some((first, _)) = topics.first() else {
            let (name, reason) = &left_out[0];
            return Err(Failure::wrong(format!("topic {name} cannot be changed: {reason}")));
        };
        let entries = describe(&context, &Resource::topic(&first.name)).await?;
        let mut names: Vec<_> = entries.into_iter().filter(|of| !of.is_read_only).map(|of| of.name).collect();
        names.sort();
        let page = FormPage {
            layout: context.layout(Section::Topics),
            here: here(&context, "config"),
            topics: topics.into_iter().map(|(selected, _)| selected.name).collect(),
            names,
            back,
        };
        return Ok(render(StatusCode::OK, &page));
    };
    Ok(render(StatusCode::OK, &review(&context, find(selected, &snapshot), &change, &fields).await))
}

async fn review(
    context: &RequestContext,
    selection: Selection<'_>,
    change: &ConfigChange,
    fields: &Fields,
) -> ReviewPage {
    let Selection { topics, mut left_out } = selection;
    let resources: Vec<_> = topics.iter().map(|(selected, _)| Resource::topic(&selected.name)).collect();
    let mut described = context.client.describe_configs(&resources, false).await;
    let reviewed = join_all(topics.into_iter().zip(resources).map(|((selected, topic), resource)| {
        let configs = described.remove(&resource);
        async move {
            let configs = configs.unwrap_or_else(|| Ok(Vec::new())).map_err(|error| error.to_string());
            let what = configs.and_then(|configs| change.of(&configs));
            let what = match what {
                Ok(what) => change.apply(context, &selected.name, true).await.map(|()| what),
                Err(reason) => Err(reason),
            };
            (selected, topic, what)
        }
    }));
    let mut rows = Vec::new();
    for (selected, topic, what) in reviewed.await {
        match what {
            Ok(what) => rows.push(row(selected, topic, vec![what])),
            Err(reason) => left_out.push((selected.name, reason)),
        }
    }
    let kept = ["name", "value", "action"].map(|name| (name, field(fields, name).to_owned()));
    ReviewPage {
        layout: context.layout(Section::Topics),
        title: format!("Change {} of {}", change.name, counted(rows.len(), "topic")),
        is_final: false,
        what: "Now, and then",
        rows,
        left_out,
        here: here(context, "config"),
        fields: kept.into(),
        confirm: None,
        action: "Change it",
        back: format!("{}/topics", context.base),
    }
}

pub(crate) async fn change(Change(context): Change, Form(fields): Form<Fields>) -> Result<Response, Failure> {
    let change = ConfigChange::read(&fields).ok_or_else(|| Failure::wrong("it is neither set nor reset"))?;
    let snapshot = context.fresh().await?;
    let Selection { topics, left_out } = find(read(&fields)?, &snapshot);
    let done = if change.wanted == Wanted::Default { "back at its default" } else { "changed" };
    let results = join_all(topics.into_iter().map(async |(selected, _)| {
        let changed = change.apply(&context, &selected.name, false).await;
        (selected.name, changed.map(|()| done.to_owned()))
    }));
    results_page(&context, &format!("Change of {}", change.name), results.await, left_out).await
}

#[cfg(test)]
mod tests {
    use client::ConfigSynonym;

    use super::*;

    #[test]
    fn a_change_says_how_a_config_is_and_how_it_will_be() {
        let name = "retention.ms";
        let synonym =
            |value: &str, source| ConfigSynonym { name: name.to_owned(), value: Some(value.to_owned()), source };
        let entry = |value: &str, source| ConfigEntry {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            source,
            synonyms: vec![synonym(value, source), synonym("604800000", ConfigSource::Default)],
            ..ConfigEntry::default()
        };
        let (own, inherited) =
            ([entry("3600000", ConfigSource::DynamicTopic)], [entry("604800000", ConfigSource::Default)]);
        let wanted = |wanted| ConfigChange { name: name.to_owned(), wanted };
        let value = |value: &str| wanted(Wanted::Value(value.to_owned()));
        assert_eq!(value("60000").of(&own).unwrap(), "3600000 (1 h) → 60000 (1 min)");
        assert_eq!(value("3600000").of(&own).unwrap_err(), "it is 3600000 (1 h) already");
        // What is inherited may change by itself, and what is set may not.
        assert_eq!(value("604800000").of(&inherited).unwrap(), "604800000 (7 d) → 604800000 (7 d)");
        assert_eq!(wanted(Wanted::Default).of(&own).unwrap(), "3600000 (1 h) → 604800000 (7 d)");
        assert!(wanted(Wanted::Default).of(&inherited).unwrap_err().contains("no value of its own"));
        assert!(value("1").of(&[]).unwrap_err().contains("there is no config"));
    }
}
