//! Users, access control lists and quotas, as JSON.

use axum::Json;
use axum::extract::Query;
use client::{QuotaEntity, ScramMechanism, UserCredentials};
use metadata::acl::{AclOperation, ResourceType};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::api::create_acls::AclCreation;

use super::{Answer, ContextResult};
use crate::access_control::{AccessControl, in_words};
use crate::failure::Failure;
use crate::page::acls::{self, Filter};
use crate::page::topic_access::{self, Asked};
use crate::page::user::UserAccess;
use crate::throttled_clients::throttled_clients;

/// Entries, or principals, of an answer; there may be many times as many.
const ROWS_AT_ONCE: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Page {
    /// From 1.
    #[serde(default)]
    page: usize,
}

impl Page {
    /// The rows of the page, its number, and how many pages there are.
    fn cut<T>(&self, rows: Vec<T>) -> (Vec<T>, usize, usize) {
        let pages = rows.len().div_ceil(ROWS_AT_ONCE).max(1);
        let page = self.page.clamp(1, pages);
        (rows.into_iter().skip((page - 1) * ROWS_AT_ONCE).take(ROWS_AT_ONCE).collect(), page, pages)
    }
}

fn credentials_json(credentials: &UserCredentials) -> Value {
    let credential = |(mechanism, iterations): (&ScramMechanism, &i32)| {
        let mechanism = mechanism.to_string();
        json!({ "mechanism": mechanism, "iterations": iterations })
    };
    credentials.iter().map(credential).collect()
}

fn acl_json(acl: &AclCreation) -> Value {
    let [resource_type, pattern_type, operation, permission] = acls::names(acl);
    json!({
        "resource_type": resource_type,
        "resource_name": acl.resource_name,
        "pattern_type": pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": operation,
        "permission": permission,
    })
}

fn names(operations: &[AclOperation]) -> Vec<String> {
    operations.iter().map(ToString::to_string).collect()
}

pub(super) async fn users(context: ContextResult) -> Answer {
    let users = context?.client.list_users().await.map_err(Failure::from)?;
    let users = users.iter().map(|(name, known)| json!({ "user": name, "credentials": credentials_json(known) }));
    Ok(Json(json!({ "users": users.collect::<Vec<_>>() })))
}

pub(super) async fn user(context: ContextResult) -> Answer {
    let context = context?;
    let access = UserAccess::ask(&context, context.user_param()).await?;
    let notes = access.control.iter().flat_map(|control| &control.notes);
    let grants = access.grants();
    let grants = grants.iter().map(|grant| {
        json!({
            "resource_type": grant.resource_type.to_string(),
            "resource_name": grant.name,
            "pattern_type": grant.pattern_type.to_string(),
            "host": grant.address,
            "allowed": names(&grant.allowed),
            "denied": names(&grant.denied),
            "decided_by": grant.acls.iter().map(in_words).collect::<Vec<_>>(),
        })
    });
    Ok(Json(json!({
        "principal": access.principal,
        "super_user": access.is_super_user(),
        "authorizer": access.control.as_ref().map(AccessControl::has_authorizer),
        "allow_everyone_if_no_acl_found": access.control.as_ref().map(|control| control.allows_everyone),
        "credentials": access.credentials.as_ref().map(credentials_json),
        "grants": access.control.as_ref().map(|_| grants.collect::<Vec<_>>()),
        "problems": access.errors.iter().chain(notes).collect::<Vec<_>>(),
    })))
}

pub(super) async fn acls(context: ContextResult, Query(filter): Query<Filter>, Query(page): Query<Page>) -> Answer {
    let acls = acls::described(&context?, &filter).await.map_err(Failure::from)?;
    let total = acls.len();
    let (shown, page, pages) = page.cut(acls);
    let shown: Vec<_> = shown.iter().map(acl_json).collect();
    Ok(Json(json!({ "total": total, "page": page, "pages": pages, "acls": shown })))
}

pub(super) async fn quotas(context: ContextResult) -> Answer {
    let context = context?;
    let quotas = context.client.describe_quotas(&QuotaEntity::default()).await.map_err(Failure::from)?;
    let quotas = quotas.iter().map(|(entity, values)| {
        let values: Map<_, _> = values.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        json!({ "entity": entity.0, "quotas": values })
    });
    let throttled = throttled_clients(&*context.snapshot().await?);
    let throttled = throttled.iter().map(|of| {
        json!({
            "entity": of.entity.0,
            "quota": of.quota,
            "throttles": of.count,
            "seconds": of.seconds,
            "age_seconds": of.age_seconds,
            "brokers": of.brokers,
        })
    });
    Ok(Json(json!({ "entities": quotas.collect::<Vec<_>>(), "throttled": throttled.collect::<Vec<_>>() })))
}

/// Who can do something to a topic.
pub(super) async fn of_topic(context: ContextResult, Query(asked): Query<Asked>, Query(page): Query<Page>) -> Answer {
    let context = context?;
    let (operation, topic) = (asked.operation()?, context.param("topic"));
    let control = topic_access::control(&context).await?.map_err(Failure::from)?;
    let everybody = control.everybody();
    let total = everybody.len();
    let (shown, page, pages) = page.cut(everybody);
    let rows = shown.iter().map(|who| {
        let decision = control.decide(who, operation, ResourceType::Topic, topic);
        json!({
            "principal": who.principal,
            "host": who.address,
            "allowed": decision.is_allowed,
            "rule": decision.rule,
            "acl": decision.acl.as_ref().map(in_words),
        })
    });
    let rows: Vec<_> = rows.collect();
    let operation = operation.to_string();
    Ok(Json(json!({ "operation": operation, "total": total, "page": page, "pages": pages, "principals": rows })))
}
