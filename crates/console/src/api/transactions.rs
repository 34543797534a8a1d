//! `/api/v1/clusters/NAME/transactions` and what belongs to it: transactions and producers as JSON.

use axum::Json;
use axum::extract::Query;
use client::{ClientError, PartitionProducer, TopicPartition};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, ContextResult, PARTITIONS_AT_ONCE, PartitionsPage};
use crate::failure::Failure;
use crate::format::now_ms;
use crate::page::hanging_transactions::{abort_command, longest_ms, search};
use crate::page::partition_producers::Producers;
use crate::page::transaction::describe;
use crate::page::transactions::Filter;
use crate::snapshot::{Transaction, duration_ms, is_overdue};

/// Of an answer, as of partitions.
const AT_ONCE: usize = PARTITIONS_AT_ONCE;

pub(super) async fn transactions(
    context: ContextResult,
    Query(filter): Query<Filter>,
    Query(PartitionsPage { page }): Query<PartitionsPage>,
) -> Answer {
    let snapshot = context?.snapshot().await?;
    let found = filter.found(&snapshot)?;
    let pages = found.len().div_ceil(AT_ONCE).max(1);
    let page = page.clamp(1, pages);
    let shown = found.iter().skip((page - 1) * AT_ONCE).take(AT_ONCE);
    let shown: Vec<_> = shown.map(|(id, known)| transaction_json(id, known, snapshot.at_ms)).collect();
    Ok(Json(json!({
        "total": found.len(),
        "page": page,
        "pages": pages,
        "left_out": snapshot.transactions.left_out,
        "brokers_too_old": snapshot.transactions.too_old,
        "transactions": shown,
    })))
}

fn transaction_json(id: &str, known: &Transaction, now_ms: i64) -> Value {
    let described = known.described.as_ref();
    json!({
        "transactional_id": id,
        "state": known.state,
        "coordinator": known.coordinator,
        "producer_id": known.producer_id,
        "producer_epoch": described.map(|described| described.producer_epoch),
        "timeout_ms": described.map(|described| described.timeout_ms),
        "start_ms": described.and_then(|described| described.start_ms),
        "duration_ms": known.duration_ms(now_ms),
        "overdue": known.is_overdue(now_ms),
        "partitions": described.map(|described| described.partitions.len()),
    })
}

pub(super) async fn transaction(context: ContextResult) -> Answer {
    let context = context?;
    let described = describe(&context).await?;
    let now_ms = now_ms();
    let partition = |of: &TopicPartition| json!({ "topic": of.topic, "partition": of.partition });
    Ok(Json(json!({
        "transactional_id": context.transactional_id(),
        "state": described.state,
        "coordinator": described.coordinator.id,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "start_ms": described.start_ms,
        "duration_ms": duration_ms(&described, now_ms),
        "overdue": is_overdue(&described, now_ms),
        "partitions": described.partitions.iter().map(partition).collect::<Vec<_>>(),
    })))
}

pub(super) async fn aborted(context: ContextResult) -> Answer {
    let context = context?;
    context.snapshot().await?;
    let (began_ms, seen) = context.cluster.seen_aborts();
    Ok(Json(json!({ "began_ms": began_ms, "aborted": seen })))
}

#[derive(Debug, Deserialize)]
pub(super) struct HangingQuery {
    /// For how long nothing was written in it; what the brokers allow if it is left out.
    #[serde(default)]
    idle_ms: Option<i64>,
}

pub(super) async fn hanging(context: ContextResult, Query(asked): Query<HangingQuery>) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let idle_ms = match asked.idle_ms {
        Some(idle_ms) if idle_ms >= 0 => idle_ms,
        Some(_) => return Err(Failure::wrong("idle_ms is not negative").into()),
        None => longest_ms(&context, &snapshot).await,
    };
    let now_ms = now_ms();
    let found = search(&context, &snapshot, idle_ms, now_ms).await?.map_err(Failure::from)?;
    let hanging = found.hanging.iter().map(|one| {
        let mut answer = producer_json(&one.producer);
        answer["topic"] = json!(one.partition.topic);
        answer["partition"] = json!(one.partition.partition);
        answer["idle_ms"] = json!(now_ms - one.producer.last_timestamp_ms);
        answer["abort_command"] = json!(abort_command(one));
        answer
    });
    let error = |(of, error): (&TopicPartition, &ClientError)| json!({ "partition": of.to_string(), "error": error.to_string() });
    Ok(Json(json!({
        "idle_ms": idle_ms,
        "hanging": hanging.collect::<Vec<_>>(),
        "errors": found.errors.iter().map(error).collect::<Vec<_>>(),
    })))
}

fn producer_json(producer: &PartitionProducer) -> Value {
    json!({
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": (producer.last_sequence >= 0).then_some(producer.last_sequence),
        "last_timestamp_ms": producer.last_timestamp_ms,
        "coordinator_epoch": producer.coordinator_epoch,
        "transaction_start_offset": producer.transaction_start_offset,
    })
}

pub(super) async fn producers(context: ContextResult) -> Answer {
    let context = context?;
    let snapshot = context.snapshot().await?;
    let of = TopicPartition::new(context.param("topic"), context.number("partition")?);
    if snapshot.partition(&of).is_none() {
        return Err(Failure::not_found(format!("there is no partition {of}")).into());
    }
    let told = Producers::ask(&context.client, &of).await.map_err(Failure::unavailable)?;
    Ok(Json(json!({
        "topic": of.topic,
        "partition": of.partition,
        "last_stable_offset": told.last_stable_offset,
        "high_watermark": told.high_watermark,
        "finding": told.finding(now_ms()).map(|(_, finding)| finding),
        "producers": told.producers.iter().map(producer_json).collect::<Vec<_>>(),
    })))
}
