//! `/clusters/NAME/connect/CONNECT/CONNECTOR`: a connector, its tasks, why they have failed, its configs, topics and
//! offsets.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::connectors::{ConnectRow, connect_row, connector_path, state_class, state_text};
use crate::connect::{Config, Connector, Connectors, HIDDEN, Offset, RestError, is_secret, without_secrets};
use crate::failure::{Failure, render};
use crate::format::{count, name_shown};
use crate::http_source::shortened;
use crate::layout::{Layout, Section};
use crate::request_context::RequestContext;

/// Of a trace, which may be very long.
const TRACE_CHARS_MAX: usize = 20_000;
/// Rows of topics and of offsets.
const ROWS_MAX: usize = 200;

#[derive(Template)]
#[template(path = "connector.html")]
struct Page {
    layout: Layout,
    base: String,
    here: String,
    events: String,
    name: String,
    state: String,
    state_class: &'static str,
    connect: ConnectRow,
    tiles: Vec<(&'static str, String)>,
    trace: Option<Trace>,
    tasks: Vec<TaskRow>,
    configs: Vec<(String, String)>,
    topics: Result<Vec<String>, String>,
    topics_left_out: usize,
    offsets: Result<Vec<(String, String)>, String>,
    offsets_left_out: usize,
    can_change: bool,
    can_pause: bool,
    can_stop: bool,
}

struct TaskRow {
    id: i32,
    state: String,
    state_class: &'static str,
    worker: String,
    trace: Option<Trace>,
}

/// Why something has failed: the first line, and all of it.
struct Trace {
    first: String,
    all: String,
}

impl Trace {
    fn new(trace: &str, config: &Config) -> Option<Self> {
        let first = trace.lines().next().filter(|line| !line.trim().is_empty())?;
        let first = shortened(&without_secrets(first, config));
        let all = without_secrets(trace, config);
        let end = all.char_indices().nth(TRACE_CHARS_MAX).map(|(at, _)| at);
        Some(Self { first, all: end.map_or_else(|| all.clone(), |at| format!("{}…", &all[..at])) })
    }
}

/// The connector of the path, with all that is known of its Connect cluster.
pub(crate) async fn find(context: &RequestContext) -> Result<(Connectors, Connector), Failure> {
    let connect = context.connect()?;
    let name = context.connector();
    context.cluster.connectors().await;
    let known = connect.known();
    if let Some(connector) = known.connectors.get(name) {
        let connector = connector.clone();
        return Ok((known, connector));
    }
    if let Some((_, reason)) = known.trouble {
        return Err(Failure::unavailable(reason));
    }
    // Connect does not list one that no worker has taken yet.
    match connect.rest.config(name).await {
        Ok(config) => Ok((known, Connector::unassigned(config))),
        Err(RestError::Refused { status: StatusCode::NOT_FOUND, .. }) => {
            Err(Failure::not_found(format!("there is no connector {name:?} on {}", connect.name)))
        }
        Err(error) => Err(error.into()),
    }
}

/// What a page or a program is shown of configs.
pub(crate) fn configs_shown(config: &Config) -> Vec<(String, String)> {
    let shown = config.iter().map(|(name, value)| {
        let value = match value {
            _ if is_secret(name) => HIDDEN.to_owned(),
            Some(value) if value.is_empty() => "(empty)".to_owned(),
            Some(value) => value.clone(),
            None => "(none)".to_owned(),
        };
        (name.clone(), value)
    });
    shown.collect()
}

/// Where a connector reads and writes, and where it stands. One that does not answer is not asked.
pub(crate) async fn topics_and_offsets(
    context: &RequestContext,
    known: &Connectors,
) -> Result<(Result<Vec<String>, String>, Result<Vec<Offset>, String>), Failure> {
    if known.trouble.is_some() {
        let reason = "Connect does not answer";
        return Ok((Err(reason.to_owned()), Err(reason.to_owned())));
    }
    let (rest, name) = (&context.connect()?.rest, context.connector());
    let (topics, offsets) = tokio::join!(rest.topics(name), rest.offsets(name));
    let offsets = offsets.map_err(|error| match error {
        // Where there is the connector and not its offsets.
        RestError::Refused { status: StatusCode::NOT_FOUND, .. } => {
            "this version of Connect does not tell them (Kafka 3.5 does)".to_owned()
        }
        error => error.to_string(),
    });
    Ok((topics.map_err(|error| error.to_string()), offsets))
}

/// `kafka_topic: orders, kafka_partition: 0`
fn fields_text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match value {
                Value::String(text) => format!("{name}: {text}"),
                value => format!("{name}: {value}"),
            });
            fields.collect::<Vec<_>>().join(", ")
        }
        Value::Null => "none".to_owned(),
        value => value.to_string(),
    }
}

pub(crate) async fn show(context: RequestContext) -> Result<Response, Failure> {
    let (known, connector) = find(&context).await?;
    let (topics, offsets) = topics_and_offsets(&context, &known).await?;
    let text = |value: &Value| shortened(&without_secrets(&fields_text(value), &connector.config));
    let left_out = |rows: Option<usize>| rows.unwrap_or(0).saturating_sub(ROWS_MAX);
    let rows = |offsets: Vec<Offset>| {
        offsets.iter().take(ROWS_MAX).map(|of| (text(&of.partition), text(&of.offset))).collect()
    };
    let page = Page {
        layout: context.layout(Section::Connect),
        base: context.base.clone(),
        here: format!("{}{}", context.base, connector_path(&known.name, context.connector())),
        events: context.events(),
        name: name_shown(context.connector()),
        state: state_text(&connector.state),
        state_class: state_class(&connector.state),
        tiles: tiles(&connector),
        trace: Trace::new(&connector.trace, &connector.config),
        tasks: connector
            .tasks
            .iter()
            .map(|task| TaskRow {
                id: task.id,
                state: state_text(&task.state),
                state_class: state_class(&task.state),
                worker: task.worker.clone(),
                trace: Trace::new(&task.trace, &connector.config),
            })
            .collect(),
        configs: configs_shown(&connector.config),
        topics_left_out: left_out(topics.as_ref().ok().map(Vec::len)),
        topics: topics.map(|topics| topics.into_iter().take(ROWS_MAX).collect()),
        offsets_left_out: left_out(offsets.as_ref().ok().map(Vec::len)),
        offsets: offsets.map(rows),
        can_change: context.can_change(),
        can_pause: !["PAUSED", "STOPPED"].contains(&&*connector.state),
        can_stop: connector.state != "STOPPED",
        connect: connect_row(&known),
    };
    Ok(render(StatusCode::OK, &page))
}

fn tiles(connector: &Connector) -> Vec<(&'static str, String)> {
    let (running, failed) = (connector.tasks_running(), connector.tasks_failed());
    vec![
        ("Type", if connector.kind.is_empty() { "–".to_owned() } else { connector.kind.clone() }),
        ("Tasks running", format!("{} of {}", count(running as u64), count(connector.tasks.len() as u64))),
        ("Tasks failed", count(failed as u64)),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn traces_are_bounded_and_repeat_no_secret() {
        let config = [("db.password".to_owned(), Some("sesame".to_owned()))].into();
        let trace = Trace::new("failed with sesame\n\tat a.b(C.java)", &config).unwrap();
        assert_eq!((&*trace.first, &*trace.all), ("failed with (hidden)", "failed with (hidden)\n\tat a.b(C.java)"));
        assert!(Trace::new("", &config).is_none());
        let long = Trace::new(&"ä".repeat(TRACE_CHARS_MAX + 1), &config).unwrap();
        assert_eq!(long.all.chars().count(), TRACE_CHARS_MAX + 1);
        assert!(long.all.ends_with('…') && long.first.len() < 1100);
    }

    #[test]
    fn secrets_are_shown_as_hidden() {
        let value = |text: &str| Some(text.to_owned());
        let config = [
            ("a.password".to_owned(), value("sesame")),
            ("b".to_owned(), value("")),
            ("c".to_owned(), None),
            ("topics".to_owned(), value("orders")),
        ];
        let shown = configs_shown(&config.into());
        let expected = [("a.password", "(hidden)"), ("b", "(empty)"), ("c", "(none)"), ("topics", "orders")];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn offsets_are_words() {
        let sink = json!({ "kafka_topic": "orders", "kafka_partition": 0 });
        assert_eq!(fields_text(&sink), "kafka_partition: 0, kafka_topic: orders");
        assert_eq!([fields_text(&json!(null)), fields_text(&json!([1]))], ["none", "[1]"]);
    }
}
