//! `/clusters/NAME/acls`: access control lists, filtered; adding entries to them, and removing one.

use askama::Template;
use axum::extract::{Form, Query};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::ClientError;
use metadata::acl::{AclOperation, CLUSTER_NAME, PatternType, PermissionType, ResourceType, WILDCARD};
use serde::Deserialize;
use wire::ErrorCode;
use wire::api::create_acls::AclCreation;
use wire::api::delete_acls::DeleteAclsFilter;

use super::group_changes::typed_or;
use super::topic_changes::{ConfirmPage, Confirmation};
use super::{Listing, Pages};
use crate::access_control::{ANY, MATCH, in_words, known, operation, pattern_type, permission, resource_type};
use crate::failure::{Failure, render, told};
use crate::format::{escape, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::{Change, RequestContext, confirmed};

/// The filter of all patterns that a name matches.
const MATCHING: &str = "MATCH";

#[derive(Template)]
#[template(path = "acls.html")]
struct Page {
    layout: Layout,
    base: String,
    filter: Filter,
    resource_types: Vec<String>,
    operations: Vec<String>,
    rows: Vec<Row>,
    pages: Pages,
    /// Why they are not known.
    error: Option<String>,
    can_change: bool,
}

struct Row {
    resource_type: String,
    name: String,
    is_prefixed: bool,
    principal: String,
    /// Of the user, if the principal is one.
    user_href: Option<String>,
    host: String,
    operation: String,
    is_deny: bool,
    /// `None` for an entry of a kind that is not known here.
    remove_href: Option<String>,
}

/// Which entries are asked for. What is empty is any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    pub resource_type: String,
    pub name: String,
    /// `MATCH`, `LITERAL` or `PREFIXED`.
    pub pattern_type: String,
    pub principal: String,
    pub host: String,
    pub operation: String,
    pub permission: String,
}

impl Filter {
    pub(crate) fn filter(&self) -> Result<DeleteAclsFilter, Failure> {
        let id = |text: &str, what: &str, id: Option<i8>| match (text, id) {
            ("", _) => Ok(ANY),
            (_, Some(id)) => Ok(id),
            _ => Err(Failure::wrong(format!("there is no {what} {text:?}"))),
        };
        let text = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let pattern = match self.pattern_type.as_str() {
            MATCHING => Some(MATCH),
            name => pattern_type(name).map(|value| value as i8),
        };
        Ok(DeleteAclsFilter {
            resource_type_filter: id(
                &self.resource_type,
                "type of resources",
                resource_type(&self.resource_type).map(|value| value as i8),
            )?,
            resource_name_filter: text(&self.name),
            pattern_type_filter: id(&self.pattern_type, "type of patterns", pattern)?,
            principal_filter: text(&self.principal),
            host_filter: text(&self.host),
            operation: id(&self.operation, "operation", operation(&self.operation).map(|value| value as i8))?,
            permission_type: id(&self.permission, "permission", permission(&self.permission).map(|value| value as i8))?,
        })
    }

    /// As a query.
    fn query(&self) -> String {
        let parts = [
            ("resource_type", &self.resource_type),
            ("name", &self.name),
            ("pattern_type", &self.pattern_type),
            ("principal", &self.principal),
            ("host", &self.host),
            ("operation", &self.operation),
            ("permission", &self.permission),
        ];
        let parts = parts.into_iter().filter(|(_, value)| !value.is_empty());
        parts.map(|(name, value)| format!("{name}={}", escape(value))).collect::<Vec<_>>().join("&")
    }

    /// The one entry that it names in full.
    fn entry(&self) -> Result<AclCreation, Failure> {
        let filter = self.filter()?;
        let entry = AclCreation {
            resource_type: filter.resource_type_filter,
            resource_name: self.name.clone(),
            resource_pattern_type: filter.pattern_type_filter,
            principal: self.principal.clone(),
            host: self.host.clone(),
            operation: filter.operation,
            permission_type: filter.permission_type,
        };
        known(&entry).map(|_| entry).ok_or_else(|| Failure::wrong("name the whole entry that is to be removed"))
    }
}

/// The query of the page with the entries of a principal.
pub(super) fn principal_query(principal: &str) -> String {
    Filter { principal: principal.to_owned(), ..Filter::default() }.query()
}

/// The query that names one entry.
fn query_of(acl: &AclCreation) -> Option<String> {
    let acl = known(acl)?;
    let filter = Filter {
        resource_type: acl.pattern.resource_type.to_string(),
        name: acl.pattern.name.to_string(),
        pattern_type: acl.pattern.pattern_type.to_string(),
        principal: acl.entry.principal.clone(),
        host: acl.entry.host.as_str().to_owned(),
        operation: acl.entry.operation.to_string(),
        permission: acl.entry.permission_type.to_string(),
    };
    Some(filter.query())
}

/// What Kafka calls the type of the resource, that of the pattern, the operation and the permission. A cluster may know
/// more of them.
pub(crate) fn names(acl: &AclCreation) -> [String; 4] {
    fn name<T: ToString>(id: i8, value: Option<T>) -> String {
        value.map_or_else(|| id.to_string(), |value| value.to_string())
    }
    [
        name(acl.resource_type, ResourceType::from_id(acl.resource_type)),
        name(acl.resource_pattern_type, PatternType::from_id(acl.resource_pattern_type)),
        name(acl.operation, AclOperation::from_id(acl.operation)),
        name(acl.permission_type, PermissionType::from_id(acl.permission_type)),
    ]
}

/// The entries that a filter matches, in the order of their resources and principals.
pub(crate) async fn described(context: &RequestContext, filter: &Filter) -> Result<Vec<AclCreation>, ClientFailure> {
    let mut acls = context.client.describe_acls(&filter.filter()?).await?;
    acls.sort_by(|a, b| {
        let key =
            |acl: &AclCreation| (acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type);
        let names = |acl: &AclCreation| [acl.resource_name.clone(), acl.principal.clone(), acl.host.clone()];
        (a.resource_type, names(a), key(a)).cmp(&(b.resource_type, names(b), key(b)))
    });
    Ok(acls)
}

/// What was asked for makes no sense, or the brokers refuse it.
pub(crate) enum ClientFailure {
    Asked(Failure),
    Client(ClientError),
}

impl From<Failure> for ClientFailure {
    fn from(failure: Failure) -> Self {
        Self::Asked(failure)
    }
}

impl From<ClientError> for ClientFailure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<ClientFailure> for Failure {
    fn from(failure: ClientFailure) -> Self {
        match failure {
            ClientFailure::Asked(failure) => failure,
            ClientFailure::Client(error) => error.into(),
        }
    }
}

/// Why there are no entries to be shown.
fn reason(error: &ClientError) -> String {
    match error.code() {
        Some(ErrorCode::SECURITY_DISABLED) => {
            "the brokers have no authorizer (authorizer.class.name), so everybody may do everything".to_owned()
        }
        _ => told(error),
    }
}

pub(crate) async fn show(
    context: RequestContext,
    Query(filter): Query<Filter>,
    Query(listing): Query<Listing>,
) -> Result<Response, Failure> {
    let (acls, error) = match described(&context, &filter).await {
        Ok(acls) => (acls, None),
        Err(ClientFailure::Client(error @ ClientError::Refused { .. })) => (Vec::new(), Some(reason(&error))),
        Err(error) => return Err(error.into()),
    };
    let (shown, pages) = listing.cut(acls, "ACL");
    let page = Page {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        rows: shown.iter().map(|acl| row(&context, acl)).collect(),
        pages: pages.with(filter.query()),
        filter,
        resource_types: ResourceType::VALUES.iter().map(ToString::to_string).collect(),
        operations: AclOperation::VALUES.iter().map(ToString::to_string).collect(),
        error,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

fn row(context: &RequestContext, acl: &AclCreation) -> Row {
    let [resource_type, _, operation, _] = names(acl);
    let user = acl.principal.strip_prefix("User:");
    Row {
        resource_type,
        name: name_shown(&acl.resource_name),
        is_prefixed: acl.resource_pattern_type == PatternType::Prefixed as i8,
        principal: name_shown(&acl.principal),
        user_href: user.map(|user| format!("{}{}", context.base, super::users::path_of(user))),
        host: name_shown(&acl.host),
        operation,
        is_deny: acl.permission_type == PermissionType::Deny as i8,
        remove_href: query_of(acl).map(|query| format!("{}/acls/remove?{query}", context.base)),
    }
}

#[derive(Template)]
#[template(path = "acl_new.html")]
struct NewPage {
    layout: Layout,
    base: String,
    form: NewAcl,
    resource_types: Vec<String>,
    /// Names, and whether they are chosen.
    operations: Vec<(String, bool)>,
    error: Option<String>,
}

/// What the form has.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(crate) struct NewAcl {
    resource_type: String,
    name: String,
    pattern_type: String,
    principal: String,
    host: String,
    /// With spaces between them: a form has a field for each.
    operations: String,
    permission: String,
}

impl Default for NewAcl {
    fn default() -> Self {
        Self {
            resource_type: ResourceType::Topic.to_string(),
            name: String::new(),
            pattern_type: PatternType::Literal.to_string(),
            principal: String::new(),
            host: WILDCARD.to_owned(),
            operations: AclOperation::Read.to_string(),
            permission: PermissionType::Allow.to_string(),
        }
    }
}

impl NewAcl {
    /// An entry for each operation.
    fn acls(&self) -> Result<Vec<AclCreation>, String> {
        let resource_type = resource_type(&self.resource_type).ok_or("choose a type of resources")?;
        let name = match resource_type {
            ResourceType::Cluster => CLUSTER_NAME,
            _ => self.name.trim(),
        };
        if name.is_empty() {
            return Err("name the resource; * is all of them".to_owned());
        }
        let principal = self.principal.trim();
        if principal.split_once(':').is_none_or(|(kind, name)| kind.is_empty() || name.is_empty()) {
            return Err("a principal is a type and a name, for example User:alice; User:* is everybody".to_owned());
        }
        let host = if self.host.trim().is_empty() { WILDCARD } else { self.host.trim() };
        let pattern_type = pattern_type(&self.pattern_type).ok_or("choose a type of patterns")?;
        let permission_type = permission(&self.permission).ok_or("choose whether it allows or denies")?;
        let mut acls = Vec::new();
        for name_of_operation in self.operations.split_whitespace() {
            let is_known = |operation: &AclOperation| {
                *operation == AclOperation::All || resource_type.operations().contains(operation)
            };
            let operation = operation(name_of_operation).filter(is_known);
            let operation = operation
                .ok_or_else(|| format!("{name_of_operation} is nothing that can be done to {resource_type}"))?;
            acls.push(AclCreation {
                resource_type: resource_type as i8,
                resource_name: name.to_owned(),
                resource_pattern_type: pattern_type as i8,
                principal: principal.to_owned(),
                host: host.to_owned(),
                operation: operation as i8,
                permission_type: permission_type as i8,
            });
        }
        if acls.is_empty() { Err("choose an operation".to_owned()) } else { Ok(acls) }
    }
}

fn new_page(context: &RequestContext, status: StatusCode, form: NewAcl, error: Option<String>) -> Response {
    let is_chosen = |name: &str| form.operations.split_whitespace().any(|chosen| chosen == name);
    let operations = AclOperation::VALUES.iter().map(ToString::to_string);
    let page = NewPage {
        layout: context.layout(Section::Access),
        base: context.base.clone(),
        operations: operations.map(|name| (name.clone(), is_chosen(&name))).collect(),
        resource_types: ResourceType::VALUES.iter().map(ToString::to_string).collect(),
        form,
        error,
    };
    render(status, &page)
}

/// What the form may be filled in with.
pub(crate) async fn new_form(Change(context): Change, Query(form): Query<NewAcl>) -> Response {
    new_page(&context, StatusCode::OK, form, None)
}

/// Fields that a form has several of come as pairs.
pub(crate) async fn add(
    Change(context): Change,
    Form(pairs): Form<Vec<(String, String)>>,
) -> Result<Response, Failure> {
    let field = |name: &str| {
        let values = pairs.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(" ")
    };
    let form = NewAcl {
        resource_type: field("resource_type"),
        name: field("name"),
        pattern_type: field("pattern_type"),
        principal: field("principal"),
        host: field("host"),
        operations: field("operations"),
        permission: field("permission"),
    };
    let acls = match form.acls() {
        Ok(acls) => acls,
        Err(error) => return Ok(new_page(&context, StatusCode::UNPROCESSABLE_ENTITY, form, Some(error))),
    };
    let refused = |error: ClientError, form| Ok(new_page(&context, StatusCode::CONFLICT, form, Some(reason(&error))));
    let results = match context.client.create_acls(&acls).await {
        Ok(results) => results,
        Err(error @ ClientError::Refused { .. }) => return refused(error, form),
        Err(error) => return Err(error.into()),
    };
    match results.into_iter().find_map(Result::err) {
        Some(error) => refused(error, form),
        None => {
            let path = format!("/acls?{}", principal_query(&acls[0].principal));
            Ok(context.moved(&path, "acls-added").into_response())
        }
    }
}

pub(crate) async fn remove_form(Change(context): Change, Query(filter): Query<Filter>) -> Result<Response, Failure> {
    let acl = known(&filter.entry()?).ok_or_else(|| Failure::wrong("there is no such entry"))?;
    let page = ConfirmPage {
        layout: context.layout(Section::Access),
        title: "Remove an entry of an access control list".to_owned(),
        losses: vec![
            in_words(&acl),
            match acl.denies() {
                true => "with it, what it denies may be allowed by others at once".to_owned(),
                false => "with it, what it allows, at once, unless another entry allows it".to_owned(),
            },
        ],
        name: typed_or(&acl.entry.principal, "this entry").to_owned(),
        action: "Remove it",
        back: format!("{}/acls", context.base),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn remove(
    Change(context): Change,
    Query(filter): Query<Filter>,
    Form(form): Form<Confirmation>,
) -> Result<Response, Failure> {
    let entry = filter.entry()?;
    confirmed(&form.confirm, typed_or(&entry.principal, "this entry"))?;
    let wanted = DeleteAclsFilter {
        resource_name_filter: Some(entry.resource_name.clone()),
        principal_filter: Some(entry.principal.clone()),
        host_filter: Some(entry.host.clone()),
        resource_type_filter: entry.resource_type,
        pattern_type_filter: entry.resource_pattern_type,
        operation: entry.operation,
        permission_type: entry.permission_type,
    };
    let mut removed = Vec::new();
    for result in context.client.delete_acls(&[wanted]).await? {
        removed.extend(result?);
    }
    if removed.is_empty() {
        return Err(Failure::not_found("there is no such entry any longer"));
    }
    Ok(context.moved("/acls", "acl-removed").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_control::any;

    #[test]
    fn a_form_is_an_entry_for_each_operation_and_says_what_is_wrong() {
        let form = |principal: &str, operations: &str| NewAcl {
            name: " orders ".to_owned(),
            principal: principal.to_owned(),
            operations: operations.to_owned(),
            ..NewAcl::default()
        };
        let acls = form("User:alice", "READ WRITE").acls().unwrap();
        assert_eq!(acls.iter().map(|acl| acl.operation).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(known(&acls[0]).map(|acl| in_words(&acl)).unwrap(), "ALLOW User:alice READ on TOPIC orders");
        for (principal, operations) in
            [("alice", "READ"), ("User:", "READ"), ("User:a", ""), ("User:a", "IDEMPOTENT_WRITE")]
        {
            assert!(form(principal, operations).acls().is_err(), "{principal} {operations}");
        }
        let cluster = NewAcl { resource_type: "CLUSTER".to_owned(), name: String::new(), ..form("User:a", "ALTER") };
        assert_eq!(cluster.acls().unwrap()[0].resource_name, CLUSTER_NAME);
    }

    #[test]
    fn an_entry_is_named_by_a_query_and_by_nothing_less() {
        let acls = NewAcl { principal: "User:a&b".to_owned(), name: "x y".to_owned(), ..NewAcl::default() }.acls();
        let query = query_of(&acls.unwrap()[0]).unwrap();
        assert!(query.contains("principal=User%3Aa%26b") && query.contains("name=x%20y"), "{query}");
        let filter = Filter { principal: "User:a".to_owned(), ..Filter::default() };
        assert!(filter.filter().is_ok() && filter.entry().is_err());
        assert!(Filter { operation: "FLY".to_owned(), ..Filter::default() }.filter().is_err());
        let all = Filter::default().filter().unwrap();
        assert_eq!(all, any());
    }
}
