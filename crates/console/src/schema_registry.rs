//! A schema registry (Confluent's REST API, which Apicurio, Karapace and Redpanda serve, too), read only: which
//! subjects there are, their versions, and the text of a schema.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::format::escape;
use crate::http_source::{Bounds, HttpError, HttpSource, HttpUrl, shortened};

/// What a page waits for.
const PAGE: Bounds = Bounds { deadline: Duration::from_secs(3), size_bytes: 4 << 20 };
/// What a page of records does.
const RECORDS: Bounds = Bounds { deadline: Duration::from_secs(1), size_bytes: 2 << 20 };

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("the schema registry at {registry} cannot be asked: {error}")]
    Http { registry: String, error: HttpError },
    #[error("the schema registry at {registry} has refused it ({}): {message}", status.as_u16())]
    Refused { registry: String, status: StatusCode, message: String },
    #[error("what answers at {registry} is not a schema registry: {reason}")]
    NotARegistry { registry: String, reason: String },
}

/// What is said of why a call was refused.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// A version of a subject.
#[derive(Debug, Deserialize)]
pub(crate) struct SubjectVersion {
    pub version: i32,
    /// Of the schema, which several subjects may share.
    pub id: i32,
    #[serde(flatten)]
    pub schema: Schema,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Schema {
    /// `AVRO` where nothing is said.
    #[serde(rename = "schemaType", default = "avro")]
    pub kind: String,
    #[serde(rename = "schema")]
    pub text: String,
    #[serde(default)]
    pub references: Vec<Reference>,
}

fn avro() -> String {
    "AVRO".to_owned()
}

/// Another schema that a schema uses, by the name that it has there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Reference {
    pub name: String,
    pub subject: String,
    pub version: i32,
}

#[derive(Deserialize)]
struct Compatibility {
    #[serde(rename = "compatibilityLevel")]
    level: String,
}

#[derive(Debug)]
pub(crate) struct SchemaRegistry {
    source: HttpSource,
}

impl SchemaRegistry {
    pub(crate) fn new(url: HttpUrl) -> Self {
        Self { source: HttpSource::new(url) }
    }

    /// Where it is.
    pub(crate) fn name(&self) -> String {
        self.source.url.to_string()
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RegistryError> {
        self.get_within(path, PAGE).await
    }

    async fn get_within<T: DeserializeOwned>(&self, path: &str, bounds: Bounds) -> Result<T, RegistryError> {
        let answer = self.source.call(Method::GET, path, None, bounds).await;
        let answer = answer.map_err(|error| RegistryError::Http { registry: self.name(), error })?;
        if !answer.status.is_success() {
            let message = match serde_json::from_slice::<Refusal>(&answer.body) {
                Ok(refusal) => shortened(&refusal.message),
                Err(_) => answer.status.canonical_reason().unwrap_or("no reason").to_owned(),
            };
            return Err(RegistryError::Refused { registry: self.name(), status: answer.status, message });
        }
        serde_json::from_slice(&answer.body).map_err(|error| RegistryError::NotARegistry {
            registry: self.name(),
            reason: shortened(&error.to_string()),
        })
    }

    /// Those that are not deleted, in the order of their names.
    pub(crate) async fn subjects(&self) -> Result<Vec<String>, RegistryError> {
        let mut subjects: Vec<String> = self.get("/subjects").await?;
        subjects.sort();
        Ok(subjects)
    }

    /// The newest last.
    pub(crate) async fn versions(&self, subject: &str) -> Result<Vec<i32>, RegistryError> {
        let mut versions: Vec<i32> = self.get(&format!("/subjects/{}/versions", escape(subject))).await?;
        versions.sort_unstable();
        Ok(versions)
    }

    /// The newest where none is asked for.
    pub(crate) async fn version(&self, subject: &str, version: Option<i32>) -> Result<SubjectVersion, RegistryError> {
        let version = version.map_or_else(|| "latest".to_owned(), |version| version.to_string());
        self.get(&format!("/subjects/{}/versions/{version}", escape(subject))).await
    }

    /// The schema that records name by this id.
    pub(crate) async fn schema(&self, id: i32) -> Result<Schema, RegistryError> {
        self.get_within(&format!("/schemas/ids/{id}"), RECORDS).await
    }

    /// What new versions of all subjects have to be compatible with that have no level of their own.
    pub(crate) async fn compatibility(&self) -> Result<String, RegistryError> {
        let compatibility: Compatibility = self.get("/config").await?;
        Ok(compatibility.level)
    }

    /// The level of a subject's own, if it has one.
    pub(crate) async fn compatibility_of(&self, subject: &str) -> Result<Option<String>, RegistryError> {
        match self.get::<Compatibility>(&format!("/config/{}", escape(subject))).await {
            Ok(compatibility) => Ok(Some(compatibility.level)),
            Err(RegistryError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
