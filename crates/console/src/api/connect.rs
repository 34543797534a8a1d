//! `/api/v1/clusters/NAME/connect`: Connect clusters and connectors as JSON. Secrets are hidden as in the pages.

use axum::Json;
use serde_json::{Value, json};

use super::{Answer, ContextResult};
use crate::connect::{Connector, Connectors, without_secrets};
use crate::page::connector::{configs_shown, find, topics_and_offsets};

pub(super) async fn connects(context: ContextResult) -> Answer {
    let connects = context?.cluster.connectors().await;
    let connects = connects.iter().map(|connect| {
        let connectors = connect.connectors.iter().map(|(name, connector)| connector_json(name, connector));
        let mut answer = connect_json(connect);
        answer["connectors"] = connectors.collect();
        answer
    });
    Ok(Json(json!({ "connects": connects.collect::<Vec<_>>() })))
}

fn connect_json(connect: &Connectors) -> Value {
    json!({
        "name": connect.name,
        "version": (!connect.version.is_empty()).then_some(&connect.version),
        "seen_seconds_ago": connect.at.map(|at| at.elapsed().as_secs_f64()),
        "error": connect.trouble.as_ref().map(|(_, reason)| reason),
    })
}

fn connector_json(name: &str, connector: &Connector) -> Value {
    json!({
        "name": name,
        "type": connector.kind,
        "class": connector.class(),
        "state": connector.state,
        "tasks": connector.tasks.len(),
        "tasks_running": connector.tasks_running(),
        "tasks_failed": connector.tasks_failed(),
    })
}

pub(super) async fn connector(context: ContextResult) -> Answer {
    let context = context?;
    let (known, connector) = find(&context).await?;
    let (topics, offsets) = topics_and_offsets(&context, &known).await?;
    let trace = |trace: &str| (!trace.is_empty()).then(|| without_secrets(trace, &connector.config));
    let tasks = connector
        .tasks
        .iter()
        .map(|task| json!({ "id": task.id, "state": task.state, "worker": task.worker, "trace": trace(&task.trace) }));
    let offsets = offsets.ok().map(|offsets| {
        let offsets = offsets.iter().map(|of| json!({ "partition": of.partition, "offset": of.offset }));
        offsets.collect::<Vec<_>>()
    });
    let mut answer = connector_json(context.connector(), &connector);
    answer["connect"] = connect_json(&known);
    answer["worker"] = json!(connector.worker);
    answer["trace"] = json!(trace(&connector.trace));
    answer["tasks"] = tasks.collect();
    answer["configs"] =
        configs_shown(&connector.config).into_iter().map(|(name, value)| (name, json!(value))).collect();
    answer["topics"] = json!(topics.ok());
    answer["offsets"] = json!(offsets);
    Ok(Json(answer))
}
