//! `/clusters/NAME/schemas/SUBJECT`: a subject of the schema registry, and the schema of a version of it.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::schemas::subject_path;
use crate::failure::{Failure, render};
use crate::format::{group_of_part, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::schema_registry::Reference;
use crate::text::{Show, Shown, full, is_json};

#[derive(Template)]
#[template(path = "schema.html")]
struct Page {
    layout: Layout,
    base: String,
    subject: String,
    /// The newest first.
    versions: Vec<i32>,
    version: i32,
    tiles: Vec<(&'static str, String)>,
    text: Shown,
    references: Vec<(Reference, String)>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SchemaQuery {
    version: String,
}

pub(crate) async fn show(context: RequestContext, Query(asked): Query<SchemaQuery>) -> Result<Response, Failure> {
    let registry = context.registry()?;
    let subject = group_of_part(context.param("subject"));
    let wanted = match asked.version.trim() {
        "" => None,
        text => Some(text.parse().map_err(|_| Failure::wrong(format!("{text:?} is no version: it is a number")))?),
    };
    let (versions, shown, own, global) = tokio::join!(
        registry.versions(subject),
        registry.version(subject, wanted),
        registry.compatibility_of(subject),
        registry.compatibility(),
    );
    let (mut versions, shown) = (versions?, shown?);
    versions.reverse();
    let compatibility = match (own, global) {
        (Ok(Some(level)), _) => level,
        (Ok(None), Ok(level)) => format!("{level}, as all subjects"),
        _ => "not known".to_owned(),
    };
    let schema = shown.schema;
    let how = if is_json(&schema.text) { Show::Json } else { Show::Text };
    let page = Page {
        layout: context.layout(Section::Schemas),
        base: context.base.clone(),
        subject: name_shown(subject),
        tiles: vec![
            ("Type", schema.kind),
            ("Version", format!("{} of {}", shown.version, versions.first().copied().unwrap_or(shown.version))),
            ("Schema id", shown.id.to_string()),
            ("Compatibility", compatibility),
        ],
        versions,
        version: shown.version,
        text: full(Some(schema.text.as_bytes()), how),
        references: schema.references.into_iter().map(|of| (of.clone(), subject_path(&of.subject))).collect(),
    };
    Ok(render(StatusCode::OK, &page))
}
