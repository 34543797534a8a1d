//! `/clusters/NAME/aborted-transactions`: aborts that looks at the cluster have shown.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;

use super::transactions::href;
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{duration, moment, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::seen_aborts::SeenAbort;

#[derive(Template)]
#[template(path = "aborted_transactions.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    since: String,
    listing: Listing,
    rows: Vec<Row>,
    pages: Pages,
}

struct Row {
    id: String,
    href: String,
    state: String,
    /// The look before it was seen first.
    after: Option<String>,
    first_seen: String,
    last_seen: String,
    ago: String,
    started: String,
    producer_id: i64,
    producer_epoch: String,
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let (began_ms, mut seen) = context.cluster.seen_aborts();
    let part = listing.q.trim().to_lowercase();
    seen.retain(|seen| seen.transactional_id.to_lowercase().contains(&part));
    let (shown, pages) = listing.cut(seen, "aborted transaction");
    let page = Page {
        layout: context.layout(Section::Transactions),
        base: context.base.clone(),
        events: context.events(),
        since: moment(began_ms.unwrap_or(snapshot.at_ms)),
        rows: shown.iter().map(|seen| row(&context, seen, snapshot.at_ms)).collect(),
        listing,
        pages,
    };
    Ok(render(StatusCode::OK, &page))
}

fn row(context: &RequestContext, seen: &SeenAbort, now_ms: i64) -> Row {
    let dash = || "–".to_owned();
    Row {
        id: name_shown(&seen.transactional_id),
        href: href(context, &seen.transactional_id),
        state: seen.state.clone(),
        after: seen.after_ms.map(moment),
        first_seen: moment(seen.first_seen_ms),
        last_seen: moment(seen.last_seen_ms),
        ago: duration((now_ms - seen.last_seen_ms).max(0) as f64 / 1000.0),
        started: seen.started_ms.map_or_else(dash, moment),
        producer_id: seen.producer_id,
        producer_epoch: seen.producer_epoch.map_or_else(dash, |epoch| epoch.to_string()),
    }
}
