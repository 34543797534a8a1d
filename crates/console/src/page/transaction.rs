//! `/clusters/NAME/transactions/ID`: the producer of a transactional id, and the partitions of its open transaction.

use std::time::Duration;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use client::TransactionDescription;
use tokio::time::timeout;

use super::partitions::partition_href;
use super::transactions::state_class;
use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, duration, moment, name_shown, now_ms};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{duration_ms, is_overdue};

/// Whoever looks for a coordinator where there is no such topic has it made.
const TRANSACTION_STATE: &str = "__transaction_state";
/// A coordinator is waited for no longer.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Template)]
#[template(path = "transaction.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    id: String,
    href: String,
    state: String,
    state_class: &'static str,
    tiles: Vec<(&'static str, String, &'static str)>,
    facts: Vec<(&'static str, String)>,
    is_overdue: bool,
    /// Names, and their pages.
    partitions: Vec<(String, String)>,
    pages: Pages,
    command: String,
    can_change: bool,
}

/// The transactional id of a page's path, as its coordinator has it now.
pub(crate) async fn describe(context: &RequestContext) -> Result<TransactionDescription, Failure> {
    let id = context.transactional_id();
    let none = || Failure::not_found(format!("there is no transactional id {}", quoted(id)));
    let snapshot = context.snapshot_with(|snapshot| snapshot.topics.contains_key(TRANSACTION_STATE)).await?;
    if !snapshot.topics.contains_key(TRANSACTION_STATE) && !snapshot.transactions.ids.contains_key(id) {
        return Err(none());
    }
    let asked = [id.to_owned()];
    let described = timeout(PATIENCE, context.client.describe_transactions(&asked)).await;
    let late = |_| Failure::unavailable(format!("the coordinator of {} has not answered yet", quoted(id)));
    Ok(described.map_err(late)?.remove(id).ok_or_else(none)??)
}

pub(super) fn quoted(id: &str) -> String {
    format!("“{}”", name_shown(id))
}

pub(crate) async fn show(context: RequestContext, Query(listing): Query<Listing>) -> Result<Response, Failure> {
    let described = describe(&context).await?;
    let id = context.transactional_id();
    let now_ms = now_ms();
    let is_overdue = is_overdue(&described, now_ms);
    let (partitions, pages) = listing.cut(described.partitions.iter().collect(), "partition");
    let dash = || "–".to_owned();
    let open_for = duration_ms(&described, now_ms).map_or_else(dash, |open_ms| duration(open_ms as f64 / 1000.0));
    let page = Page {
        layout: context.layout(Section::Transactions),
        base: context.base.clone(),
        events: context.events(),
        href: super::transactions::href(&context, id),
        id: name_shown(id),
        state_class: state_class(&described.state),
        tiles: vec![
            ("Open for", open_for, if is_overdue { "bad" } else { "" }),
            ("Timeout", duration(f64::from(described.timeout_ms) / 1000.0), ""),
            ("Partitions", count(described.partitions.len() as u64), ""),
            ("Producer id", described.producer_id.to_string(), ""),
            ("Producer epoch", described.producer_epoch.to_string(), ""),
        ],
        facts: vec![
            ("Coordinator", format!("broker {}", described.coordinator.id)),
            ("Started, UTC", described.start_ms.map_or_else(dash, moment)),
        ],
        is_overdue,
        partitions: partitions.into_iter().map(|of| (of.to_string(), partition_href(&context, of))).collect(),
        pages,
        command: terminate_command(id),
        state: described.state,
        can_change: context.can_change(),
    };
    Ok(render(StatusCode::OK, &page))
}

/// What does the same as the button, for a shell.
fn terminate_command(id: &str) -> String {
    let is_plain = |of: char| of.is_ascii_alphanumeric() || "-_.:/@%+=,".contains(of);
    let word = match !id.is_empty() && id.chars().all(is_plain) {
        true => id.to_owned(),
        false => format!("'{}'", id.replace('\'', r"'\''")),
    };
    let end = if id.starts_with('-') { "-- " } else { "" };
    format!("parshall transaction terminate {end}{word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_word_for_a_shell_whatever_it_is() {
        let word = |id: &str| terminate_command(id).trim_start_matches("parshall transaction terminate ").to_owned();
        assert_eq!([word("billing-7"), word("a b"), word("")], ["billing-7", "'a b'", "''"]);
        assert_eq!([word("-x"), word("it's $(x)")], ["-- -x", r"'it'\''s $(x)'"]);
    }
}
