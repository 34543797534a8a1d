//! `/clusters/NAME/quotas`: quotas of users, client ids and addresses, and who was throttled; setting them, and
//! removing them.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{ClientError, QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaEntity, Quotas};
use serde::Deserialize;

use super::{Listing, Pages};
use crate::failure::{Failure, render, told};
use crate::format::{byte_rate, count, duration, escape};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext};
use crate::throttled_clients::{ThrottledClient, throttled_clients};

/// In a form, all that have none of their own, as Kafka's tools once wrote it.
const DEFAULT: &str = "<default>";
const CONNECTION_RATE: &str = "connection_creation_rate";
/// Keys, what they are called, and in what unit they are.
const KEYS: [(&str, &str, &str); 6] = [
    ("producer_byte_rate", "Produced", "bytes per second"),
    ("consumer_byte_rate", "Consumed", "bytes per second"),
    ("request_percentage", "Request time", "percent of a thread's time; 100 is one thread"),
    ("controller_mutation_rate", "Changes", "partitions created or deleted per second"),
    ("producer_ids_rate", "New producers", "per second"),
    (CONNECTION_RATE, "New connections", "per second, of an address"),
];
const KINDS: [&str; 3] = [QUOTA_USER, QUOTA_CLIENT_ID, QUOTA_IP];

#[derive(Template)]
#[template(path = "quotas.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    listing: Listing,
    rows: Vec<Row>,
    pages: Pages,
    throttled: Vec<ThrottledRow>,
    /// Why they are not known.
    error: Option<String>,
    can_change: bool,
}

struct Row {
    entity: String,
    values: String,
    href: String,
}

struct ThrottledRow {
    entity: String,
    quota: String,
    count: String,
    time: String,
    since: String,
    brokers: String,
}

#[derive(Template)]
#[template(path = "quotas_edit.html")]
struct EditPage {
    layout: Layout,
    base: String,
    entity: Entity,
    /// Whether its names are fixed.
    is_known: bool,
    /// Keys, what they are called, their units, and values.
    values: Vec<(&'static str, &'static str, &'static str, String)>,
    error: Option<String>,
}

/// Whose quotas, as a query and a form have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Entity {
    user: String,
    client_id: String,
    ip: String,
}

impl Entity {
    fn of(entity: &QuotaEntity) -> Self {
        let name = |kind: &str| match entity.0.get(kind) {
            None => String::new(),
            Some(None) => DEFAULT.to_owned(),
            Some(Some(name)) => name.clone(),
        };
        Self { user: name(QUOTA_USER), client_id: name(QUOTA_CLIENT_ID), ip: name(QUOTA_IP) }
    }

    /// What is empty is no part of it.
    fn entity(&self) -> Result<QuotaEntity, String> {
        let names = KINDS.into_iter().zip([&self.user, &self.client_id, &self.ip]);
        let names = names.filter(|(_, name)| !name.trim().is_empty()).map(|(kind, name)| match name.trim() {
            DEFAULT => (kind.to_owned(), None),
            name => (kind.to_owned(), Some(name.to_owned())),
        });
        let names: BTreeMap<_, _> = names.collect();
        match (names.len(), names.contains_key(QUOTA_IP)) {
            (0, _) => Err("name a user, a client id, both, or an address".to_owned()),
            (2.., true) => Err("an address has quotas by itself only".to_owned()),
            _ => Ok(QuotaEntity(names)),
        }
    }

    fn query(&self) -> String {
        let parts = [("user", &self.user), ("client_id", &self.client_id), ("ip", &self.ip)];
        let parts = parts.into_iter().filter(|(_, name)| !name.is_empty());
        parts.map(|(kind, name)| format!("{kind}={}", escape(name))).collect::<Vec<_>>().join("&")
    }
}

/// The query of the page that changes the quotas of an entity.
pub(super) fn edit_query(entity: &QuotaEntity) -> String {
    Entity::of(entity).query()
}

/// Values with their units, where they are known.
pub(super) fn values_text(quotas: &Quotas) -> String {
    let text = |(key, value): (&String, &f64)| match key.as_str() {
        "producer_byte_rate" => format!("produces {}", byte_rate(*value)),
        "consumer_byte_rate" => format!("consumes {}", byte_rate(*value)),
        "request_percentage" => format!("request time {value} %"),
        "controller_mutation_rate" => format!("{value} partitions/s created or deleted"),
        "producer_ids_rate" => format!("{value} new producers/s"),
        CONNECTION_RATE => format!("{value} new connections/s"),
        key => format!("{key} {value}"),
    };
    quotas.iter().map(text).collect::<Vec<_>>().join(", ")
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let (quotas, error) = match context.client.describe_quotas(&QuotaEntity::default()).await {
        Ok(quotas) => (quotas, None),
        Err(error @ ClientError::Refused { .. }) => (BTreeMap::new(), Some(told(&error))),
        Err(error) => return Err(error.into()),
    };
    let part = listing.q.trim().to_lowercase();
    let is_found = |entity: &QuotaEntity| entity.to_string().to_lowercase().contains(&part);
    let found = quotas.into_iter().filter(|(entity, _)| is_found(entity)).collect();
    // Who may not know the quotas does not get to know the clients, either.
    let throttled = match error {
        None => throttled_clients(&*context.snapshot().await?),
        Some(_) => Vec::new(),
    };
    let throttled = throttled.iter().filter(|client| is_found(&client.entity)).map(throttled_row).collect();
    let (shown, pages) = listing.cut(found, "client");
    let rows = shown.iter().map(|(entity, values)| Row {
        entity: entity.to_string(),
        values: values_text(values),
        href: format!("{}/quotas/edit?{}", context.base, edit_query(entity)),
    });
    let page = Page {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        events: context.events(),
        rows: rows.collect(),
        listing,
        pages,
        throttled,
        error,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn throttled_row(of: &ThrottledClient) -> ThrottledRow {
    let brokers: Vec<_> = of.brokers.iter().map(ToString::to_string).collect();
    let quota = KEYS.into_iter().find(|(key, ..)| *key == of.quota);
    ThrottledRow {
        entity: of.entity.to_string(),
        quota: quota.map_or_else(|| of.quota.clone(), |(_, name, _)| name.to_owned()),
        count: count(of.count as i64),
        time: duration(of.seconds),
        since: duration(of.age_seconds),
        brokers: brokers.join(", "),
    }
}

/// The quotas that are set of an entity, and of none beside it.
async fn set_of(context: &RequestContext, entity: &QuotaEntity) -> Result<Quotas, ClientError> {
    Ok(context.client.describe_quotas(entity).await?.remove(entity).unwrap_or_default())
}

fn edit_page(
    context: &RequestContext,
    status: StatusCode,
    (entity, is_known): (Entity, bool),
    value: impl Fn(&str) -> String,
    error: Option<String>,
) -> Response {
    let page = EditPage {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        entity,
        is_known,
        values: KEYS.into_iter().map(|(key, name, unit)| (key, name, unit, value(key))).collect(),
        error,
    };
    render(status, &page)
}

pub(crate) async fn edit_form(Change(context): Change, Query(entity): Query<Entity>) -> Result<Response, Failure> {
    if entity == Entity::default() {
        return Ok(edit_page(&context, StatusCode::OK, (entity, false), |_| String::new(), None));
    }
    let known = set_of(&context, &entity.entity().map_err(Failure::wrong)?).await?;
    let value = |key: &str| known.get(key).map_or_else(String::new, ToString::to_string);
    Ok(edit_page(&context, StatusCode::OK, (entity, true), value, None))
}

/// What is to be set, and what is to be removed of what there is.
type Changes = (Vec<(String, f64)>, Vec<String>);

fn changes(known: &Quotas, fields: &BTreeMap<String, String>) -> Result<Changes, String> {
    let (mut set, mut removed) = (Vec::new(), Vec::new());
    for (key, name, _) in KEYS {
        let Some(text) = fields.get(key).map(|text| text.trim()) else { continue };
        if text.is_empty() {
            removed.extend(known.contains_key(key).then(|| key.to_owned()));
            continue;
        }
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        set.push((key.to_owned(), value.ok_or_else(|| format!("{name} is {text:?}: it takes a number above 0"))?));
    }
    Ok((set, removed))
}

/// Sets what has a value, and removes what has none.
pub(crate) async fn change(
    Change(context): Change,
    Query(of): Query<Entity>,
    Form(fields): Form<BTreeMap<String, String>>,
) -> Result<Response, Failure> {
    let is_known = of != Entity::default();
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let typed = || Entity { user: field("user"), client_id: field("client_id"), ip: field("ip") };
    let whose = if is_known { of } else { typed() };
    let refused = |status, error| {
        let value = |key: &str| fields.get(key).cloned().unwrap_or_default();
        Ok(edit_page(&context, status, (whose.clone(), is_known), value, Some(error)))
    };
    let entity = match whose.entity() {
        Ok(entity) => entity,
        Err(error) => return refused(StatusCode::UNPROCESSABLE_ENTITY, error),
    };
    let known = match set_of(&context, &entity).await {
        Ok(known) => known,
        Err(error @ ClientError::Refused { .. }) => return refused(StatusCode::FORBIDDEN, told(&error)),
        Err(error) => return Err(error.into()),
    };
    let (set, removed) = match changes(&known, &fields) {
        Ok(changes) => changes,
        Err(error) => return refused(StatusCode::UNPROCESSABLE_ENTITY, error),
    };
    if set.is_empty() && removed.is_empty() {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, "nothing was typed that could be set".to_owned());
    }
    let notice = if set.is_empty() { "quotas-removed" } else { "quotas-set" };
    match context.client.alter_quotas(&entity, &set, &removed).await {
        Ok(()) => Ok(context.moved("/quotas", notice).into_response()),
        Err(error @ ClientError::Refused { .. }) => refused(StatusCode::CONFLICT, told(&error)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(user: &str, client_id: &str, ip: &str) -> Entity {
        Entity { user: user.to_owned(), client_id: client_id.to_owned(), ip: ip.to_owned() }
    }

    #[test]
    fn an_entity_is_a_user_a_client_id_both_or_an_address() {
        let both = entity("alice", DEFAULT, "");
        let names = [(QUOTA_CLIENT_ID.to_owned(), None), (QUOTA_USER.to_owned(), Some("alice".to_owned()))];
        assert_eq!(both.entity(), Ok(QuotaEntity(names.into())));
        assert_eq!(Entity::of(&both.entity().unwrap()), both);
        assert_eq!(both.query(), "user=alice&client_id=%3Cdefault%3E");
        assert!(entity("", "", "10.0.0.1").entity().is_ok());
        assert!(entity("", " ", "").entity().is_err() && entity("alice", "", "10.0.0.1").entity().is_err());
    }

    #[test]
    fn what_is_empty_is_removed_where_it_was_set() {
        let known = Quotas::from([("consumer_byte_rate".to_owned(), 5.0)]);
        let fields = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let typed = fields(&[("producer_byte_rate", " 1024 "), ("consumer_byte_rate", ""), ("request_percentage", "")]);
        let (set, removed) = changes(&known, &typed).unwrap();
        assert_eq!(
            (set, removed),
            (vec![("producer_byte_rate".to_owned(), 1024.0)], vec!["consumer_byte_rate".to_owned()])
        );
        for wrong in ["x", "0", "-1", "inf", "NaN"] {
            assert!(changes(&known, &fields(&[("producer_byte_rate", wrong)])).is_err(), "{wrong}");
        }
    }
}
