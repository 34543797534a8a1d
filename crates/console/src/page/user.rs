//! `/clusters/NAME/users/USER`: what this user can do, by which access control lists, and its passwords and quotas.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use client::{ClientError, QUOTA_USER, QuotaEntity, UserCredentials};
use metadata::acl::{ANY_PRINCIPAL, AclOperation, PatternType};
use serde::Deserialize;
use wire::api::delete_acls::DeleteAclsFilter;

use super::acls::principal_query;
use super::quotas::{edit_query, values_text};
use super::users::{credentials_text, path_of};
use super::{Listing, Pages};
use crate::access_control::{AccessControl, Grant, any, in_words};
use crate::failure::{Failure, render, told};
use crate::format::name_shown;
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

#[derive(Template)]
#[template(path = "user.html")]
struct Page {
    layout: Layout,
    base: String,
    name: String,
    principal: String,
    here: String,
    /// What is to be known before the rest.
    verdict: Option<String>,
    notes: Vec<String>,
    rows: Vec<Row>,
    pages: Pages,
    credentials: Option<String>,
    /// Those that are the user's own.
    quotas: Vec<(String, String)>,
    acls_href: String,
    quotas_href: String,
    /// What is not known, and why.
    errors: Vec<String>,
    can_change: bool,
}

struct Row {
    resource_type: String,
    name: String,
    pattern: &'static str,
    from: String,
    allowed: String,
    denied: String,
    acls: Vec<String>,
}

/// What is known of a user. Parts that it takes a right to see may not be.
pub(crate) struct UserAccess {
    pub principal: String,
    pub control: Option<AccessControl>,
    pub credentials: Option<UserCredentials>,
    pub errors: Vec<String>,
}

impl UserAccess {
    pub(crate) async fn ask(context: &RequestContext, user: &str) -> Result<Self, Failure> {
        let principal = format!("User:{user}");
        let filters = [principal.as_str(), ANY_PRINCIPAL].map(|principal| {
            let principal_filter = Some(principal.to_owned());
            DeleteAclsFilter { principal_filter, ..any() }
        });
        // Asked for once where it is everybody.
        let filters = if principal == ANY_PRINCIPAL { &filters[..1] } else { &filters[..] };
        let broker = context.any_broker().await?;
        let (control, credentials) =
            tokio::join!(AccessControl::ask(&context.client, broker, filters), context.client.describe_user(user),);
        let mut errors = Vec::new();
        let control = unless_refused("what this user can do is", control, &mut errors)?;
        let credentials = unless_refused("its passwords are", credentials, &mut errors)?;
        Ok(Self { principal, control, credentials, errors })
    }

    pub(crate) fn is_super_user(&self) -> bool {
        self.control.as_ref().is_some_and(|control| control.is_super_user(&self.principal))
    }

    pub(crate) fn grants(&self) -> Vec<Grant> {
        self.control.as_ref().map(|control| control.grants(&self.principal)).unwrap_or_default()
    }

    /// What there is to say beside what ACLs grant.
    pub(crate) fn verdict(&self) -> Option<String> {
        let control = self.control.as_ref()?;
        if !control.has_authorizer() {
            return Some("The brokers have no authorizer: everybody may do everything.".to_owned());
        }
        if self.is_super_user() {
            return Some("It is one of super.users: it may do everything.".to_owned());
        }
        let everyone = "What no entry is about is open to everybody: allow.everyone.if.no.acl.found is true.";
        control.allows_everyone.then(|| everyone.to_owned())
    }
}

/// What was refused is not known, and the rest of the page is shown.
fn unless_refused<T>(
    what: &str,
    asked: Result<T, ClientError>,
    errors: &mut Vec<String>,
) -> Result<Option<T>, Failure> {
    match asked {
        Ok(known) => Ok(Some(known)),
        Err(error @ ClientError::Refused { .. }) => {
            errors.push(format!("{what} not known: {}", told(&error)));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize)]
pub(crate) struct Named {
    name: String,
}

/// Where the page of a user is whose name was typed.
pub(crate) async fn find(context: RequestContext, Query(Named { name }): Query<Named>) -> Redirect {
    let name = name.trim();
    Redirect::to(&format!("{}{}", context.base, path_of(name.strip_prefix("User:").unwrap_or(name))))
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let user = context.user_param();
    let mut access = UserAccess::ask(&context, user).await?;
    let own = QuotaEntity([(QUOTA_USER.to_owned(), Some(user.to_owned()))].into());
    let quotas = unless_refused("its quotas are", context.client.describe_quotas(&own).await, &mut access.errors)?;
    let quotas = quotas.unwrap_or_default();
    let (grants, pages) = listing.cut(access.grants(), "pattern");
    let page = Page {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        name: name_shown(user),
        here: format!("{}{}", context.base, path_of(user)),
        verdict: access.verdict(),
        notes: access.control.as_ref().map(|control| control.notes.clone()).unwrap_or_default(),
        rows: grants.iter().map(row).collect(),
        pages,
        credentials: access.credentials.as_ref().filter(|known| !known.is_empty()).map(credentials_text),
        quotas: quotas.iter().map(|(entity, values)| (entity.to_string(), values_text(values))).collect(),
        acls_href: format!("{}/acls?{}", context.base, principal_query(&access.principal)),
        quotas_href: format!("{}/quotas/edit?{}", context.base, edit_query(&own)),
        principal: access.principal,
        errors: access.errors,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page).into_response())
}

fn row(grant: &Grant) -> Row {
    let names = |operations: &[AclOperation]| {
        let names: Vec<_> = operations.iter().map(ToString::to_string).collect();
        if names.is_empty() { "–".to_owned() } else { names.join(", ") }
    };
    Row {
        resource_type: grant.resource_type.to_string(),
        name: name_shown(&grant.name),
        pattern: if grant.pattern_type == PatternType::Prefixed { "prefix" } else { "" },
        from: grant.address.map_or_else(String::new, |address| address.to_string()),
        allowed: names(&grant.allowed),
        denied: names(&grant.denied),
        acls: grant.acls.iter().map(in_words).collect(),
    }
}
