//! The REST interface of Kafka Connect (KIP-26, KIP-465, KIP-558, KIP-745, KIP-875): its calls, and what they answer.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Config, Connector, Task};
use crate::format::escape;
use crate::http_source::{Bounds, HttpError, HttpSource, shortened};

/// All connectors with their configs and the traces of their failures.
const LOOK: Bounds = Bounds { deadline: Duration::from_secs(10), size_bytes: 16 << 20 };
/// What a page waits for.
const PAGE: Bounds = Bounds { deadline: Duration::from_secs(3), size_bytes: 4 << 20 };
/// A connector that begins, or whose configs are validated, may ask elsewhere first.
const CHANGE: Bounds = Bounds { deadline: Duration::from_secs(20), size_bytes: 4 << 20 };

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RestError {
    #[error("Connect at {connect} cannot be asked: {error}")]
    Http { connect: String, error: HttpError },
    #[error("Connect at {connect} has refused it ({}): {message}", status.as_u16())]
    Refused { connect: String, status: StatusCode, message: String },
    #[error("what answers at {connect} is not Kafka Connect: {reason}")]
    NotConnect { connect: String, reason: String },
}

/// What is said of why a call was refused.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    pub version: String,
}

#[derive(Deserialize)]
struct Expanded {
    status: Option<Status>,
    info: Option<Info>,
}

#[derive(Deserialize)]
struct Status {
    connector: InstanceStatus,
    #[serde(default)]
    tasks: Vec<InstanceStatus>,
}

/// Of the connector itself, or of a task.
#[derive(Deserialize)]
struct InstanceStatus {
    id: Option<i32>,
    state: String,
    #[serde(default)]
    worker_id: String,
    #[serde(default)]
    trace: String,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    config: Config,
    #[serde(rename = "type")]
    kind: Option<String>,
}

impl From<Expanded> for Connector {
    fn from(Expanded { status, info }: Expanded) -> Self {
        let info = info.unwrap_or(Info { config: Config::new(), kind: None });
        let task = |of: InstanceStatus| Task {
            id: of.id.unwrap_or(-1),
            state: of.state,
            worker: of.worker_id,
            trace: of.trace,
        };
        let kind = info.kind.unwrap_or_default();
        let Some(Status { connector, tasks }) = status else {
            return Self { kind, ..Self::unassigned(info.config) };
        };
        let (Task { state, worker, trace, .. }, tasks) = (task(connector), tasks.into_iter().map(task).collect());
        Self { kind, state, worker, trace, tasks, config: info.config }
    }
}

#[derive(Deserialize)]
struct Topics {
    #[serde(default)]
    topics: Vec<String>,
}

#[derive(Deserialize)]
struct Offsets {
    #[serde(default)]
    offsets: Vec<Offset>,
}

/// Where a connector stands, in words of its own.
#[derive(Debug, Deserialize)]
pub(crate) struct Offset {
    pub partition: Value,
    pub offset: Value,
}

#[derive(Deserialize)]
struct Validation {
    #[serde(default)]
    configs: Vec<Validated>,
}

#[derive(Deserialize)]
struct Validated {
    value: ValidatedValue,
}

#[derive(Deserialize)]
struct ValidatedValue {
    name: String,
    #[serde(default)]
    errors: Vec<String>,
}

/// What is wrong with configs, by their names.
pub(crate) type ConfigErrors = BTreeMap<String, Vec<String>>;

/// A change of what a connector does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Pause,
    Resume,
    Stop,
    Restart { includes_tasks: bool, only_failed: bool },
    RestartTask(i32),
}

#[derive(Debug)]
pub(crate) struct Rest {
    source: HttpSource,
}

impl Rest {
    pub(super) fn new(source: HttpSource) -> Self {
        Self { source }
    }

    fn connect(&self) -> String {
        self.source.url.to_string()
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        bounds: Bounds,
    ) -> Result<Vec<u8>, RestError> {
        let body = body.map(|body| body.to_string().into_bytes());
        let answer = self.source.call(method, path, body, bounds).await;
        let answer = answer.map_err(|error| RestError::Http { connect: self.connect(), error })?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        let message = match serde_json::from_slice::<Refusal>(&answer.body) {
            Ok(refusal) => shortened(&refusal.message),
            Err(_) => answer.status.canonical_reason().unwrap_or("no reason").to_owned(),
        };
        Err(RestError::Refused { connect: self.connect(), status: answer.status, message })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, bounds: Bounds) -> Result<T, RestError> {
        self.read(&self.call(Method::GET, path, None, bounds).await?)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, RestError> {
        let wrong = |error: serde_json::Error| RestError::NotConnect {
            connect: self.connect(),
            reason: shortened(&error.to_string()),
        };
        serde_json::from_slice(body).map_err(wrong)
    }

    pub(super) async fn worker(&self) -> Result<Worker, RestError> {
        self.get("/", PAGE).await
    }

    pub(super) async fn connectors(&self) -> Result<BTreeMap<String, Connector>, RestError> {
        let expanded: BTreeMap<String, Expanded> = self.get("/connectors?expand=status&expand=info", LOOK).await?;
        Ok(expanded.into_iter().map(|(name, expanded)| (name, expanded.into())).collect())
    }

    /// Topics that a connector has written to or read from since it was created, or since that was reset.
    pub(crate) async fn topics(&self, connector: &str) -> Result<Vec<String>, RestError> {
        let mut topics: BTreeMap<String, Topics> = self.get(&path(connector, "/topics"), PAGE).await?;
        let mut topics = topics.remove(connector).map(|of| of.topics).unwrap_or_default();
        topics.sort();
        Ok(topics)
    }

    pub(crate) async fn offsets(&self, connector: &str) -> Result<Vec<Offset>, RestError> {
        let offsets: Offsets = self.get(&path(connector, "/offsets"), PAGE).await?;
        Ok(offsets.offsets)
    }

    pub(crate) async fn config(&self, connector: &str) -> Result<Config, RestError> {
        self.get(&path(connector, "/config"), PAGE).await
    }

    /// What is wrong with the configs of a connector. They name its class.
    pub(crate) async fn validate(&self, config: &Config) -> Result<ConfigErrors, RestError> {
        let class = config.get("connector.class").and_then(Option::as_deref).unwrap_or_default();
        let path = format!("/connector-plugins/{}/config/validate", escape(class));
        let validation: Validation = self.read(&self.call(Method::PUT, &path, Some(json!(config)), CHANGE).await?)?;
        let values = validation.configs.into_iter().map(|config| config.value);
        let wrong = values.filter(|value| !value.errors.is_empty());
        Ok(wrong.map(|value| (value.name, value.errors)).collect())
    }

    pub(crate) async fn set_config(&self, connector: &str, config: &Config) -> Result<(), RestError> {
        self.call(Method::PUT, &path(connector, "/config"), Some(json!(config)), CHANGE).await.map(drop)
    }

    pub(crate) async fn create(&self, connector: &str, config: &Config) -> Result<(), RestError> {
        let body = json!({ "name": connector, "config": config });
        self.call(Method::POST, "/connectors", Some(body), CHANGE).await.map(drop)
    }

    pub(crate) async fn delete(&self, connector: &str) -> Result<(), RestError> {
        self.call(Method::DELETE, &path(connector, ""), None, CHANGE).await.map(drop)
    }

    pub(crate) async fn act(&self, connector: &str, action: Action) -> Result<(), RestError> {
        let (method, rest) = match action {
            Action::Pause => (Method::PUT, "/pause".to_owned()),
            Action::Resume => (Method::PUT, "/resume".to_owned()),
            Action::Stop => (Method::PUT, "/stop".to_owned()),
            Action::Restart { includes_tasks, only_failed } => {
                (Method::POST, format!("/restart?includeTasks={includes_tasks}&onlyFailed={only_failed}"))
            }
            Action::RestartTask(task) => (Method::POST, format!("/tasks/{task}/restart")),
        };
        self.call(method, &path(connector, &rest), None, CHANGE).await.map(drop)
    }
}

fn path(connector: &str, rest: &str) -> String {
    format!("/connectors/{}{rest}", escape(connector))
}
