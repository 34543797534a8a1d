//! Creating a topic, adding partitions, deleting it.

use askama::Template;
use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig};

use super::topic::find;
use crate::failure::{Failure, render};
use crate::format::{bytes, count, counted};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, confirmed};
use crate::snapshot::Topic;

#[derive(Template)]
#[template(path = "topic_new.html")]
struct CreatePage {
    layout: Layout,
    base: String,
    form: NewTopic,
    brokers: usize,
    error: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NewTopic {
    name: String,
    partitions: String,
    replicas: String,
    /// `name=value` in each line.
    configs: String,
}

pub(crate) async fn create_form(Change(place): Change) -> Result<Response, Failure> {
    let brokers = place.snapshot().await?.alive();
    let page = CreatePage {
        layout: place.layout(Section::Topics),
        base: place.base.clone(),
        form: NewTopic::default(),
        brokers,
        error: None,
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn create(Change(place): Change, Form(form): Form<NewTopic>) -> Result<Response, Failure> {
    let created = match form.topic() {
        Ok(topic) => place.cluster.client.create_topic(topic).await.map_err(|error| error.to_string()),
        Err(reason) => Err(reason),
    };
    match created {
        Ok(()) => Ok(place.done(&format!("/topics/{}", form.name.trim()), "topic-created").await.into_response()),
        Err(error) => {
            let brokers = place.snapshot().await?.alive();
            let (layout, base) = (place.layout(Section::Topics), place.base.clone());
            let page = CreatePage { layout, base, form, brokers, error: Some(error) };
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

impl NewTopic {
    fn topic(&self) -> Result<CreatableTopic, String> {
        let number = |what: &str, text: &str| match text.trim() {
            // The broker's default.
            "" => Ok(-1),
            text => match text.parse::<i32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{what} is {text:?}: it takes a number from 1")),
            },
        };
        let replicas = number("Replicas", &self.replicas)?;
        let lines = self.configs.lines().map(str::trim).filter(|line| !line.is_empty());
        let configs = lines.map(|line| match line.split_once('=') {
            Some((name, value)) => {
                Ok(CreatableTopicConfig { name: name.trim().to_owned(), value: Some(value.trim().to_owned()) })
            }
            None => Err(format!("a setting is name=value, for example retention.ms=86400000, and not {line:?}")),
        });
        Ok(CreatableTopic {
            name: self.name.trim().to_owned(),
            num_partitions: number("Partitions", &self.partitions)?,
            replication_factor: i16::try_from(replicas).map_err(|_| "so many replicas cannot be".to_owned())?,
            configs: configs.collect::<Result<_, _>>()?,
            ..Default::default()
        })
    }
}

#[derive(Template)]
#[template(path = "topic_partitions.html")]
struct PartitionsPage {
    layout: Layout,
    base: String,
    topic: String,
    now: usize,
    wanted: String,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct MorePartitions {
    count: String,
}

pub(crate) async fn partitions_form(Change(place): Change) -> Result<Response, Failure> {
    let snapshot = place.snapshot().await?;
    let now = find(&place, &snapshot)?.partitions.len();
    let page = PartitionsPage {
        layout: place.layout(Section::Topics),
        base: place.base.clone(),
        topic: place.param("topic").to_owned(),
        now,
        wanted: (now + 1).to_string(),
        error: None,
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn add_partitions(
    Change(place): Change,
    Form(form): Form<MorePartitions>,
) -> Result<Response, Failure> {
    let name = place.param("topic").to_owned();
    let added = match form.count.trim().parse() {
        Ok(count) => {
            place.cluster.client.create_partitions(&name, count, None).await.map_err(|error| error.to_string())
        }
        Err(_) => Err(format!("{:?} is no number", form.count)),
    };
    match added {
        Ok(()) => Ok(place.done(&format!("/topics/{name}"), "partitions-added").await.into_response()),
        Err(error) => {
            let now = find(&place, &*place.snapshot().await?)?.partitions.len();
            let (layout, base) = (place.layout(Section::Topics), place.base.clone());
            let page = PartitionsPage { layout, base, topic: name, now, wanted: form.count, error: Some(error) };
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

/// Something that cannot be undone: what will be lost, and a field for the name.
#[derive(Template)]
#[template(path = "confirm.html")]
pub(super) struct ConfirmPage {
    pub layout: Layout,
    pub title: String,
    /// What will be lost.
    pub losses: Vec<String>,
    /// What has to be typed.
    pub name: String,
    /// Of the button.
    pub action: &'static str,
    pub back: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Confirmation {
    pub confirm: String,
}

fn losses(topic: &Topic) -> Vec<String> {
    let (records, size) = (topic.records(), topic.size_bytes());
    vec![format!(
        "{} in {}, {} on disk",
        records_text(records),
        counted(topic.partitions.len(), "partition"),
        bytes(size)
    )]
}

pub(super) fn records_text(records: i64) -> String {
    match records {
        1 => "1 record".to_owned(),
        _ => format!("{} records", count(records)),
    }
}

pub(crate) async fn delete_form(Change(place): Change) -> Result<Response, Failure> {
    let snapshot = place.fresh().await?;
    let topic = find(&place, &snapshot)?;
    let name = place.param("topic").to_owned();
    let mut losses = losses(topic);
    losses.push("its settings".to_owned());
    let groups: Vec<_> = snapshot.groups_of(&name).map(|(id, _)| id).collect();
    if !groups.is_empty() {
        losses.push(format!("what {} have committed in it: {}", counted(groups.len(), "group"), groups.join(", ")));
    }
    let page = ConfirmPage {
        layout: place.layout(Section::Topics),
        title: format!("Delete topic {name}"),
        losses,
        back: format!("{}/topics/{name}", place.base),
        name,
        action: "Delete the topic",
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(place): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let name = place.param("topic");
    confirmed(&form.confirm, name)?;
    place.cluster.client.delete_topic(name).await?;
    Ok(place.done("/topics", "topic-deleted").await.into_response())
}
