//! Ending a transaction that its producer does not end: through its coordinator, or in one partition past it.

use std::collections::BTreeSet;

use axum::extract::Form;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use client::{HangingTransaction, TopicPartition};

use super::group_changes::typed_or;
use super::partitions::partition_href;
use super::topic_changes::{ConfirmPage, Confirmation};
use super::transaction::{describe, quoted};
use super::transactions::href;
use crate::failure::{Failure, render};
use crate::format::{count, counted, duration, escape, group_part, now_ms};
use crate::layout::Section;
use crate::request_context::{Change, RequestContext, confirmed};

/// What has to be typed to confirm something about the transactional id.
fn typed(context: &RequestContext) -> &str {
    typed_or(context.transactional_id(), "this transactional id")
}

pub(crate) async fn terminate_form(Change(context): Change) -> Result<Response, Failure> {
    let described = describe(&context).await?;
    let id = context.transactional_id();
    let open = match described.partitions.len() {
        0 => "no records, as no transaction is open there now: one that is open by then is aborted".to_owned(),
        partitions => format!(
            "what its open transaction has written in {}: consumers of committed records never see it",
            counted(partitions, "partition")
        ),
    };
    let page = ConfirmPage {
        layout: context.layout(Section::Transactions),
        title: format!("Terminate the transaction of {}", quoted(id)),
        losses: vec![
            open,
            format!(
                "the session of producer {} with epoch {}: it is fenced off, gets an error, and has to begin anew",
                described.producer_id, described.producer_epoch
            ),
        ],
        name: typed(&context).to_owned(),
        action: "Terminate it",
        back: href(&context, id),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn terminate(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    confirmed(&form.confirm, typed(&context))?;
    // Where there is no such id, neither it nor the topic of its coordinator is to be made.
    describe(&context).await?;
    let id = context.transactional_id();
    context.client.terminate_transaction(id).await?;
    let path = format!("/transactions/{}", group_part(id));
    Ok(context.done(&path, "transaction-terminated").await.into_response())
}

/// The transaction of a page's path, if it hangs: what a coordinator has it ends itself, and in all partitions.
async fn find_hanging(context: &RequestContext) -> Result<HangingTransaction, Failure> {
    let of = TopicPartition::new(context.param("topic"), context.number("partition")?);
    let offset = context.param("start_offset");
    let snapshot = context.snapshot().await?;
    if snapshot.partition(&of).is_none() {
        return Err(Failure::not_found(format!("there is no partition {of}")));
    }
    let client = &context.client;
    // However young it is: it was told apart by whether a coordinator has it.
    let mut found = client.find_hanging_transactions(&BTreeSet::from([of.clone()]), None, i64::MIN, now_ms()).await?;
    if let Some((_, error)) = found.errors.pop_first() {
        return Err(error.into());
    }
    let is_meant = |one: &HangingTransaction| {
        one.producer.transaction_start_offset.is_some_and(|start_offset| start_offset.to_string() == offset)
    };
    let not_hanging = || {
        Failure::wrong(format!(
            "no transaction that hangs in {of} begins at offset {offset}: it has ended, or a coordinator has it and \
             will end it. Nothing was changed"
        ))
    };
    found.hanging.into_iter().find(is_meant).ok_or_else(not_hanging)
}

pub(crate) async fn abort_form(Change(context): Change) -> Result<Response, Failure> {
    let HangingTransaction { partition, producer } = find_hanging(&context).await?;
    let start_offset = producer.transaction_start_offset.map_or_else(String::new, count);
    let idle_ms = (now_ms() - producer.last_timestamp_ms).max(0);
    let page = ConfirmPage {
        layout: context.layout(Section::Transactions),
        title: format!("Abort the transaction in {partition} from offset {start_offset}"),
        losses: vec![
            format!(
                "the records of producer {} with epoch {} from offset {start_offset} on: consumers of committed \
                 records never see them, and get on to what is behind them",
                producer.producer_id, producer.producer_epoch
            ),
            format!(
                "a transaction that no coordinator has now, and in which nothing was written for {}: if its producer \
                 is about to begin it, its next request fails",
                duration(idle_ms as f64 / 1000.0)
            ),
        ],
        back: partition_href(&context, &partition),
        name: partition.to_string(),
        action: "Abort it",
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn abort(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    let named = TopicPartition::new(context.param("topic"), context.number("partition")?);
    confirmed(&form.confirm, &named.to_string())?;
    let hanging = find_hanging(&context).await?;
    context.client.abort_transaction(&hanging.target()).await?;
    let path = format!("/partitions/{}/{}", escape(&named.topic), named.partition);
    Ok(context.done(&path, "transaction-aborted").await.into_response())
}
