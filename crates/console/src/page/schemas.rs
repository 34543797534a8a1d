//! `/clusters/NAME/schemas`: the subjects of the schema registry, searched, each with its newest version.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::future::join_all;

use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{group_part, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::schema_registry::SchemaRegistry;

#[derive(Template)]
#[template(path = "schemas.html")]
struct Page {
    layout: Layout,
    listing: Listing,
    registry: String,
    compatibility: String,
    /// Why nothing is shown.
    trouble: Option<String>,
    rows: Vec<Row>,
    pages: Pages,
}

struct Row {
    name: String,
    href: String,
    newest: Result<Newest, String>,
}

struct Newest {
    version: i32,
    kind: String,
    id: i32,
}

/// The page of a subject within its cluster.
pub(super) fn subject_path(subject: &str) -> String {
    format!("/schemas/{}", group_part(subject))
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let registry = context.registry()?;
    let (subjects, compatibility) = tokio::join!(registry.subjects(), registry.compatibility());
    let trouble = subjects.as_ref().err().map(ToString::to_string);
    let part = listing.q.trim().to_lowercase();
    let mut found = subjects.unwrap_or_default();
    found.retain(|subject| subject.to_lowercase().contains(&part));
    let (shown, pages) = listing.cut(found, "subject");
    let page = Page {
        layout: context.layout(Section::Schemas),
        registry: registry.name(),
        compatibility: compatibility.unwrap_or_else(|_| "not known".to_owned()),
        trouble,
        rows: join_all(shown.iter().map(|subject| row(&context.base, registry, subject))).await,
        listing,
        pages,
    };
    Ok(render(StatusCode::OK, &page))
}

async fn row(base: &str, registry: &SchemaRegistry, subject: &str) -> Row {
    let newest = registry.version(subject, None).await;
    Row {
        name: name_shown(subject),
        href: format!("{base}{}", subject_path(subject)),
        newest: newest
            .map(|newest| Newest { version: newest.version, kind: newest.schema.kind, id: newest.id })
            .map_err(|error| error.to_string()),
    }
}
