//! Creating a topic, adding partitions, deleting it.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{ConfigEntry, ConfigSource, Resource};
use serde::Deserialize;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig};

use super::configs::describe;
use super::topic::find;
use crate::failure::{Failure, render, told};
use crate::format::{bytes, count, counted};
use crate::layout::{Layout, Section};
use crate::reassignment::{FOLLOWER_REPLICAS, LEADER_REPLICAS};
use crate::request_context::{Change, confirmed};
use crate::snapshot::{Snapshot, Topic};

#[derive(Template)]
#[template(path = "topic_new.html")]
struct CreatePage {
    layout: Layout,
    base: String,
    form: NewTopic,
    /// The topic that the form was filled in from, or empty.
    like: String,
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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Like {
    /// A topic whose partitions, replicas and settings another one shall have.
    like: String,
}

pub(crate) async fn create_form(Change(place): Change, Query(Like { like }): Query<Like>) -> Result<Response, Failure> {
    let snapshot = place.snapshot_with(|snapshot| like.is_empty() || snapshot.topics.contains_key(&like)).await?;
    let form = match (like.as_str(), snapshot.topics.get(&like)) {
        ("", _) => NewTopic::default(),
        (_, Some(topic)) => NewTopic::like(topic, &describe(&place, &Resource::topic(&like)).await?),
        (_, None) => return Err(Failure::not_found(format!("there is no topic {like:?}"))),
    };
    let page = CreatePage {
        layout: place.layout(Section::Topics),
        base: place.base.clone(),
        form,
        like,
        brokers: snapshot.alive(),
        error: None,
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn create(
    Change(place): Change,
    Query(Like { like }): Query<Like>,
    Form(form): Form<NewTopic>,
) -> Result<Response, Failure> {
    let created = match form.topic() {
        Ok(topic) => place.client.create_topic(topic).await.map_err(|error| told(&error)),
        Err(reason) => Err(reason),
    };
    match created {
        Ok(()) => Ok(place.done(&format!("/topics/{}", form.name.trim()), "topic-created").await.into_response()),
        Err(error) => {
            let brokers = place.snapshot().await?.alive();
            let (layout, base) = (place.layout(Section::Topics), place.base.clone());
            let page = CreatePage { layout, base, form, like, brokers, error: Some(error) };
            Ok(render(StatusCode::UNPROCESSABLE_ENTITY, &page))
        }
    }
}

impl NewTopic {
    /// Without a name, and without what throttles moves of the other topic's replicas.
    fn like(topic: &Topic, configs: &[ConfigEntry]) -> Self {
        let own = configs.iter().filter(|entry| {
            entry.source == ConfigSource::DynamicTopic && ![LEADER_REPLICAS, FOLLOWER_REPLICAS].contains(&&*entry.name)
        });
        let lines = own.filter_map(|entry| Some(format!("{}={}", entry.name, entry.value.as_ref()?)));
        Self {
            name: String::new(),
            partitions: topic.partitions.len().to_string(),
            replicas: topic.replication_factor().to_string(),
            configs: lines.collect::<Vec<_>>().join("\n"),
        }
    }

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
        Ok(count) => place.client.create_partitions(&name, count, None).await.map_err(|error| told(&error)),
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

/// What is lost with a topic.
pub(super) fn losses(snapshot: &Snapshot, name: &str, topic: &Topic) -> Vec<String> {
    let (records, partitions) = (records_text(topic.records()), counted(topic.partitions.len(), "partition"));
    let mut losses =
        vec![format!("{records} in {partitions}, {} on disk", bytes(topic.size_bytes())), "its settings".to_owned()];
    let groups: Vec<_> = snapshot.groups_of(name).map(|(id, _)| id).collect();
    if !groups.is_empty() {
        losses.push(format!("what {} have committed in it: {}", counted(groups.len(), "group"), groups.join(", ")));
    }
    losses
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
    let page = ConfirmPage {
        layout: place.layout(Section::Topics),
        title: format!("Delete topic {name}"),
        losses: losses(&snapshot, &name, topic),
        back: format!("{}/topics/{name}", place.base),
        name,
        action: "Delete the topic",
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn delete(Change(place): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let name = place.param("topic");
    confirmed(&form.confirm, name)?;
    place.client.delete_topic(name).await?;
    Ok(place.done("/topics", "topic-deleted").await.into_response())
}

#[cfg(test)]
mod tests {
    use client::ConfigType;

    use super::*;
    use crate::snapshot::Partition;

    #[test]
    fn a_topic_like_another_has_the_settings_that_were_set_on_that_one() {
        let entry = |name: &str, value: Option<&str>, source| ConfigEntry {
            name: name.to_owned(),
            value: value.map(str::to_owned),
            source,
            is_read_only: false,
            is_sensitive: value.is_none(),
            synonyms: Vec::new(),
            config_type: ConfigType::String,
            documentation: None,
        };
        let configs = [
            entry("cleanup.policy", Some("compact"), ConfigSource::DynamicTopic),
            entry("retention.ms", Some("1000"), ConfigSource::StaticBroker),
            entry("secret", None, ConfigSource::DynamicTopic),
            entry("segment.bytes", Some("2000000"), ConfigSource::DynamicTopic),
            entry(LEADER_REPLICAS, Some("0:1"), ConfigSource::DynamicTopic),
            entry(FOLLOWER_REPLICAS, Some("0:2"), ConfigSource::DynamicTopic),
        ];
        let partition = |index| Partition { index, replicas: vec![1, 2, 3], ..Partition::default() };
        let topic = Topic { partitions: vec![partition(0), partition(1)], ..Topic::default() };
        let form = NewTopic::like(&topic, &configs);
        assert_eq!([&*form.name, &*form.partitions, &*form.replicas], ["", "2", "3"]);
        assert_eq!(form.configs, "cleanup.policy=compact\nsegment.bytes=2000000");
    }
}
