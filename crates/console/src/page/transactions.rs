//! `/clusters/NAME/transactions`: all transactional ids, searched and sorted, and those open for too long.

use std::cmp::Reverse;

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;

use super::{Listing, Pages};
use crate::failure::{Failure, render};
use crate::format::{count, counted, duration, escape, group_part, moment, name_shown};
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;
use crate::snapshot::{Snapshot, Transaction, Transactions};

const STATES: [(&str, &str); 10] = [
    ("", "all"),
    ("open", "those with an open transaction"),
    ("overdue", "those open for longer than their timeout"),
    ("Ongoing", "Ongoing"),
    ("PrepareCommit", "PrepareCommit"),
    ("PrepareAbort", "PrepareAbort"),
    ("PrepareEpochFence", "PrepareEpochFence"),
    ("CompleteCommit", "CompleteCommit"),
    ("CompleteAbort", "CompleteAbort"),
    ("Empty", "Empty"),
];

#[derive(Template)]
#[template(path = "transactions.html")]
struct Page {
    layout: Layout,
    base: String,
    events: String,
    listing: Listing,
    filter: Filter,
    states: [(&'static str, &'static str); 10],
    /// What is not known of them, or not shown.
    notes: Vec<String>,
    rows: Vec<Row>,
    pages: Pages,
}

struct Row {
    id: String,
    href: String,
    state: String,
    state_class: &'static str,
    is_overdue: bool,
    coordinator: i32,
    producer_id: i64,
    producer_epoch: String,
    timeout: String,
    started: String,
    open_for: String,
    partitions: String,
}

/// Which of them are meant.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Filter {
    /// Part of the transactional id.
    pub q: String,
    /// One of Kafka's, or `open`, or `overdue`.
    pub state: String,
}

impl Filter {
    /// In the order of their ids.
    pub(crate) fn found<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<(&'a str, &'a Transaction)>, Failure> {
        if !STATES.iter().any(|(state, _)| *state == self.state) {
            return Err(Failure::wrong(format!("{:?} is no state of a transaction", self.state)));
        }
        let part = self.q.trim().to_lowercase();
        let found = snapshot.transactions.ids.iter().filter(|(id, known)| {
            let is_meant = match self.state.as_str() {
                "" => true,
                "open" => known.is_open(),
                "overdue" => known.is_overdue(snapshot.at_ms),
                state => known.state == state,
            };
            is_meant && (part.is_empty() || id.to_lowercase().contains(&part))
        });
        Ok(found.map(|(id, known)| (id.as_str(), known)).collect())
    }
}

pub(super) fn state_class(state: &str) -> &'static str {
    match state {
        "PrepareCommit" | "PrepareAbort" | "PrepareEpochFence" => "warn",
        "CompleteCommit" => "good",
        "Empty" | "CompleteAbort" | "Dead" => "muted",
        _ => "",
    }
}

/// The page of a transactional id.
pub(super) fn href(context: &RequestContext, id: &str) -> String {
    format!("{}/transactions/{}", context.base, group_part(id))
}

pub(crate) async fn show(
    context: RequestContext,
    Query(listing): Query<Listing>,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let snapshot = context.snapshot().await?;
    let mut found = filter.found(&snapshot)?;
    sort(&mut found, &listing.sort, snapshot.at_ms);
    let (shown, pages) = listing.cut(found, "transactional id");
    let page = Page {
        layout: context.layout(Section::Transactions),
        base: context.base.clone(),
        events: context.events(),
        rows: shown.into_iter().map(|(id, known)| row(&context, id, known, snapshot.at_ms)).collect(),
        pages: match filter.state.as_str() {
            "" => pages,
            state => pages.with(format!("state={}", escape(state))),
        },
        notes: notes(&snapshot),
        listing,
        filter,
        states: STATES,
    };
    Ok(render(StatusCode::OK, &page))
}

fn sort(found: &mut [(&str, &Transaction)], by: &str, now_ms: i64) {
    match by {
        "state" => found.sort_by_key(|(_, known)| (Reverse(known.is_open()), known.state.clone())),
        "coordinator" => found.sort_by_key(|(_, known)| known.coordinator),
        "producer" => found.sort_by_key(|(_, known)| known.producer_id),
        "duration" => found.sort_by_key(|(_, known)| Reverse(known.duration_ms(now_ms))),
        _ => {}
    }
}

/// What is missing in the list, in words.
fn notes(snapshot: &Snapshot) -> Vec<String> {
    let Transactions { ids, left_out, too_old, .. } = &snapshot.transactions;
    let gaps = snapshot.gaps.iter().filter(|gap| gap.starts_with("transactions"));
    let mut notes: Vec<_> = gaps.map(|gap| format!("Not known: {gap}.")).collect();
    if !too_old.is_empty() {
        let brokers: Vec<_> = too_old.iter().map(ToString::to_string).collect();
        notes.push(match snapshot.brokers.values().any(|broker| broker.is_alive && !too_old.contains(&broker.id)) {
            true => format!("Broker {} cannot tell of transactions, as Kafka before 3.0.", brokers.join(" and ")),
            false => "The brokers cannot tell of transactions, as Kafka before 3.0.".to_owned(),
        });
    }
    if *left_out > 0 {
        let left_out = counted(*left_out, "transactional id");
        notes.push(format!("Not shown here: {left_out}. What is open is kept first."));
    }
    let unknown = ids.values().filter(|known| known.described.is_none()).count();
    if unknown > 0 {
        let unknown = counted(unknown, "transactional id");
        notes.push(format!("Not asked for, or not told: epoch and timeout of {unknown}."));
    }
    notes
}

fn row(context: &RequestContext, id: &str, known: &Transaction, now_ms: i64) -> Row {
    let dash = || "–".to_owned();
    let described = known.described.as_ref();
    Row {
        id: name_shown(id),
        href: href(context, id),
        state: known.state.clone(),
        state_class: state_class(&known.state),
        is_overdue: known.is_overdue(now_ms),
        coordinator: known.coordinator,
        producer_id: known.producer_id,
        producer_epoch: described.map_or_else(dash, |described| described.producer_epoch.to_string()),
        timeout: described.map_or_else(dash, |described| duration(f64::from(described.timeout_ms) / 1000.0)),
        started: described.and_then(|described| described.start_ms).map_or_else(dash, moment),
        open_for: known.duration_ms(now_ms).map_or_else(dash, |open_ms| duration(open_ms as f64 / 1000.0)),
        partitions: described.map_or_else(dash, |described| count(described.partitions.len() as u64)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use client::TransactionDescription;

    use super::*;
    use crate::snapshot::Broker;

    pub(in crate::page) fn open(state: &str, start_ms: i64, timeout_ms: i32) -> Transaction {
        let coordinator = client::Broker { id: 1, host: "kafka".to_owned(), port: 9092, rack: None };
        let described = TransactionDescription {
            coordinator,
            producer_id: 4000,
            producer_epoch: 3,
            state: state.to_owned(),
            timeout_ms,
            start_ms: Some(start_ms),
            partitions: Vec::new(),
        };
        Transaction { state: state.to_owned(), producer_id: 4000, coordinator: 1, described: Some(described) }
    }

    fn snapshot() -> Snapshot {
        let ids = [
            ("billing-1", open("Ongoing", 50_000, 60_000)),
            ("Billing-2", open("Ongoing", 10_000, 60_000)),
            ("done", open("CompleteCommit", 20_000, 1)),
            ("ending", open("PrepareAbort", 20_000, 1)),
            ("new", Transaction { state: "Empty".to_owned(), ..Transaction::default() }),
        ];
        let ids = ids.into_iter().map(|(id, known)| (id.to_owned(), known)).collect();
        Snapshot { at_ms: 100_000, transactions: Transactions { ids, ..Transactions::default() }, ..Snapshot::empty() }
    }

    #[test]
    fn transactional_ids_are_found_by_state_and_id_and_sorted() {
        let snapshot = snapshot();
        let ids = |q: &str, state: &str, by: &str| {
            let filter = Filter { q: q.to_owned(), state: state.to_owned() };
            let mut found = filter.found(&snapshot).unwrap();
            sort(&mut found, by, snapshot.at_ms);
            found.into_iter().map(|(id, _)| id).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids("", "", ""), "Billing-2 billing-1 done ending new");
        assert_eq!(ids(" BILL", "", "duration"), "Billing-2 billing-1");
        assert_eq!([ids("", "open", ""), ids("", "Empty", "")], ["Billing-2 billing-1 ending", "new"]);
        // What is being ended is not waited for, and what has ended is not open.
        assert_eq!(ids("", "overdue", ""), "Billing-2");
        assert_eq!(ids("", "", "duration"), "Billing-2 ending billing-1 done new");
        assert!(Filter { state: "Lost".to_owned(), ..Filter::default() }.found(&snapshot).is_err());
    }

    #[test]
    fn what_is_missing_in_the_list_is_said() {
        let mut snapshot = snapshot();
        assert_eq!(notes(&snapshot), ["Not asked for, or not told: epoch and timeout of 1 transactional id."]);
        snapshot.transactions.ids.remove("new");
        snapshot.transactions.left_out = 7;
        assert_eq!(notes(&snapshot), ["Not shown here: 7 transactional ids. What is open is kept first."]);
        snapshot.transactions.left_out = 0;
        let broker = |id| (id, Broker { id, is_alive: true, ..Broker::default() });
        snapshot.brokers = [broker(1), broker(2)].into();
        snapshot.transactions.too_old = BTreeSet::from([1]);
        assert_eq!(notes(&snapshot), ["Broker 1 cannot tell of transactions, as Kafka before 3.0."]);
        snapshot.transactions.too_old.insert(2);
        assert_eq!(notes(&snapshot), ["The brokers cannot tell of transactions, as Kafka before 3.0."]);
    }
}
