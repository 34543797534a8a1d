//! The schemas that records name by their ids, as far as they are known. A registry that does not answer is not asked
//! again for some time, so that pages wait for it once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::avro::AvroSchema;
use super::protobuf::ProtobufSchema;
use super::structure::{DecodeError, Structure};
use crate::schema_registry::{Reference, RegistryError, Schema, SchemaRegistry};

/// Schemas that are kept, and the text that they had.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Of a schema with all that it refers to.
const TEXT_BYTES_MAX: usize = 2 * 1024 * 1024;
const REFERENCES_MAX: usize = 100;
/// How long one is looked for, with what it refers to.
const PATIENCE: Duration = Duration::from_secs(2);
/// After this time a registry that did not answer is asked again, and so it is for a schema that it did not have.
const SILENCE: Duration = Duration::from_secs(10);

/// What values are decoded by.
#[derive(Debug)]
pub(super) enum Known {
    Avro(AvroSchema),
    Protobuf(ProtobufSchema),
    Json,
}

impl Known {
    fn parse(schema: &Schema, references: &[(String, String)]) -> Result<Self, String> {
        match schema.kind.as_str() {
            "AVRO" => {
                let references: Vec<_> = references.iter().map(|(_, text)| text.clone()).collect();
                AvroSchema::parse(&schema.text, &references).map(Self::Avro).map_err(|error| error.to_string())
            }
            "PROTOBUF" => {
                ProtobufSchema::parse(&schema.text, references).map(Self::Protobuf).map_err(|error| error.to_string())
            }
            "JSON" => Ok(Self::Json),
            other => Err(format!("its type {other} is not known")),
        }
    }
}

type Found = Result<Arc<Known>, String>;

#[derive(Debug)]
struct Kept {
    found: Found,
    bytes: usize,
    /// When it is looked for again.
    until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Cache {
    kept: BTreeMap<i32, Kept>,
    /// The oldest first.
    order: VecDeque<i32>,
    bytes: usize,
    /// Since when the registry does not answer, and how that was noticed.
    silent: Option<(Instant, String)>,
}

impl Cache {
    fn find(&self, id: i32) -> Option<Found> {
        let now = Instant::now();
        let kept = self.kept.get(&id).filter(|kept| kept.until.is_none_or(|until| now < until));
        let silent = || self.silent.as_ref().filter(|(since, _)| now < *since + SILENCE);
        kept.map(|kept| kept.found.clone()).or_else(|| silent().map(|(_, reason)| Err(reason.clone())))
    }

    fn keep(&mut self, id: i32, kept: Kept) {
        self.bytes += kept.bytes;
        if let Some(before) = self.kept.insert(id, kept) {
            self.bytes -= before.bytes;
            self.order.retain(|other| *other != id);
        }
        self.order.push_back(id);
        while self.order.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let oldest = self.order.pop_front().and_then(|oldest| self.kept.remove(&oldest));
            self.bytes -= oldest.map_or(self.bytes, |oldest| oldest.bytes);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Schemas {
    registry: Arc<SchemaRegistry>,
    cache: Mutex<Cache>,
}

impl Schemas {
    pub(crate) fn new(registry: Arc<SchemaRegistry>) -> Self {
        Self { registry, cache: Mutex::default() }
    }

    /// One that has been looked for.
    pub(super) fn known(&self, id: i32) -> Found {
        let unknown = || Err(format!("schema {id} has not been looked for: there was no time"));
        self.cache.lock().find(id).unwrap_or_else(unknown)
    }

    /// Looks for one that is not known.
    pub(super) async fn find(&self, id: i32, until: Instant) {
        if self.cache.lock().find(id).is_some() || Instant::now() >= until {
            return;
        }
        let fetched = timeout_at(until.min(Instant::now() + PATIENCE), self.fetch(id)).await;
        let mut cache = self.cache.lock();
        let until = Some(Instant::now() + SILENCE);
        match fetched {
            Ok(Ok((found, bytes))) => {
                cache.silent = None;
                cache.keep(id, Kept { until: until.filter(|_| found.is_err()), found, bytes });
            }
            Ok(Err(refused @ RegistryError::Refused { .. })) => {
                let found = Err(match refused {
                    RegistryError::Refused { status: StatusCode::NOT_FOUND, .. } => {
                        format!("the schema registry has no schema {id}, or not all that it refers to")
                    }
                    refused => format!("schema {id}: {refused}"),
                });
                cache.keep(id, Kept { found, bytes: 0, until });
            }
            Ok(Err(error)) => cache.silent = Some((Instant::now(), error.to_string())),
            Err(_) => {
                let reason = format!("the schema registry at {} has not answered in time", self.registry.name());
                cache.silent = Some((Instant::now(), reason));
            }
        }
    }

    /// A schema, and the length of its text with that of those which it refers to.
    async fn fetch(&self, id: i32) -> Result<(Found, usize), RegistryError> {
        let schema = self.registry.schema(id).await?;
        let mut fetched: BTreeMap<(String, i32), Schema> = BTreeMap::new();
        let mut order: Vec<Reference> = Vec::new();
        let (mut bytes, mut steps) = (schema.text.len(), 0);
        let mut left: VecDeque<_> = schema.references.clone().into();
        while let Some(reference) = left.pop_front() {
            let of = (reference.subject.clone(), reference.version);
            if !fetched.contains_key(&of) {
                let found = self.registry.version(&of.0, Some(of.1)).await?.schema;
                bytes += found.text.len();
                fetched.insert(of.clone(), found);
            }
            steps += 1;
            if bytes > TEXT_BYTES_MAX || steps > REFERENCES_MAX {
                return Ok((Err(format!("schema {id} is too large to be used")), 0));
            }
            left.extend(fetched[&of].references.iter().cloned());
            // What several refer to moves behind the last of them.
            order.retain(|other| other.name != reference.name);
            order.push(reference);
        }
        // What is referred to comes before what refers to it.
        let text = |of: &Reference| fetched[&(of.subject.clone(), of.version)].text.clone();
        let references: Vec<_> = order.iter().rev().map(|of| (of.name.clone(), text(of))).collect();
        let known = tokio::task::spawn_blocking(move || Known::parse(&schema, &references));
        let known = known.await.unwrap_or_else(|error| Err(error.to_string()));
        Ok((known.map(Arc::new).map_err(|reason| format!("schema {id} cannot be used: {reason}")), bytes))
    }
}

impl Known {
    pub(super) fn format(&self) -> &'static str {
        match self {
            Self::Avro(_) => "Avro",
            Self::Protobuf(_) => "Protobuf",
            Self::Json => "JSON Schema",
        }
    }

    /// `None` where it is JSON.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<Result<Structure, DecodeError>> {
        match self {
            Self::Avro(schema) => Some(schema.decode(bytes)),
            Self::Protobuf(schema) => Some(schema.decode(bytes)),
            Self::Json => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bytes: usize) -> Kept {
        Kept { found: Ok(Arc::new(Known::Json)), bytes, until: None }
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut cache = Cache::default();
        (0..300).for_each(|id| cache.keep(id, kept(10)));
        assert_eq!((cache.kept.len(), cache.order.len(), cache.bytes), (KEPT_MAX, KEPT_MAX, 10 * KEPT_MAX));
        assert!(cache.find(43).is_none() && cache.find(44).is_some());
        cache.keep(44, kept(20));
        assert_eq!((cache.kept.len(), cache.bytes), (KEPT_MAX, 10 * KEPT_MAX + 10));
        cache.keep(1000, kept(KEPT_BYTES_MAX));
        assert_eq!((cache.kept.len(), cache.bytes), (1, KEPT_BYTES_MAX));
        cache.keep(1001, kept(KEPT_BYTES_MAX + 1));
        assert_eq!((cache.kept.len(), cache.order.len(), cache.bytes), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_there_is_looked_for_again() {
        let mut cache = Cache { silent: Some((Instant::now(), "silent".to_owned())), ..Cache::default() };
        cache.keep(7, Kept { found: Err("gone".to_owned()), bytes: 0, until: Some(Instant::now() + SILENCE) });
        cache.keep(8, kept(1));
        let reason = |cache: &Cache, id| cache.find(id).and_then(Result::err);
        assert_eq!((reason(&cache, 7).as_deref(), reason(&cache, 9).as_deref()), (Some("gone"), Some("silent")));
        tokio::time::advance(SILENCE).await;
        assert!(cache.find(7).is_none() && cache.find(9).is_none() && cache.find(8).is_some());
    }
}
