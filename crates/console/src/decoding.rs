//! Keys and values of records in formats that are not text: MessagePack, and Avro, Protobuf and JSON Schema in the wire
//! format of Confluent's serializers, a zero byte and the id of a schema before the value.
//!
//! Bytes of records may be anything. What they claim is checked against what there is, and what a value takes, how deep
//! it goes and how long its schema is waited for have bounds.

mod avro;
mod messagepack;
mod protobuf;
mod schemas;
mod structure;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
pub(crate) use schemas::Schemas;
use serde_json::{Map, Value};
pub(crate) use structure::Structure;
use tokio::time::Instant;

use crate::text::{FULL_BYTES_MAX, Show, Shown, beginning, full, is_json};

/// Schemas that are looked for at a time.
const LOOKUPS_MAX: usize = 64;

/// A value as its format has it.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    content: Content<'a>,
    format: &'static str,
    schema_id: Option<i32>,
}

#[derive(Debug)]
enum Content<'a> {
    Structure(Structure),
    /// As it came.
    Json(&'a str),
}

impl Decoded<'_> {
    /// What is shown, and how.
    fn text(&self) -> (Cow<'_, str>, Show) {
        match &self.content {
            Content::Structure(Structure::Text(text)) => (text.into(), Show::Text),
            Content::Structure(structure @ (Structure::List(_) | Structure::Map(_))) => {
                (serde_json::to_string(structure).unwrap_or_default().into(), Show::Json)
            }
            Content::Structure(structure) => (serde_json::to_string(structure).unwrap_or_default().into(), Show::Text),
            Content::Json(json) => ((*json).into(), if is_json(json) { Show::Json } else { Show::Text }),
        }
    }

    fn note(&self) -> String {
        match self.schema_id {
            Some(id) => format!("Decoded as {} with schema {id}.", self.format),
            None => format!("Decoded as {}.", self.format),
        }
    }

    pub(crate) fn into_structure(self) -> Result<Structure, String> {
        match self.content {
            Content::Structure(structure) => Ok(structure),
            Content::Json(json) => json_structure(json),
        }
    }
}

pub(crate) fn json_structure(json: &str) -> Result<Structure, String> {
    serde_json::from_str::<Value>(json).map(Structure::from).map_err(|error| format!("it is not JSON: {error}"))
}

/// How fields of records are to be decoded.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    schemas: Option<Arc<Schemas>>,
    show: Show,
}

impl Decoder {
    pub(crate) fn new(schemas: Option<Arc<Schemas>>, show: Show) -> Self {
        Self { schemas, show }
    }

    pub(crate) fn show(&self) -> Show {
        self.show
    }

    /// Looks for the schemas that these fields name.
    pub(crate) async fn prepare(&self, fields: impl IntoIterator<Item = &[u8]>, until: Instant) {
        let Some(schemas) = &self.schemas else { return };
        if !matches!(self.show, Show::Auto | Show::Avro | Show::Protobuf) {
            return;
        }
        let ids: BTreeSet<_> = fields.into_iter().filter_map(|field| framed(field).map(|(id, _)| id)).collect();
        join_all(ids.into_iter().take(LOOKUPS_MAX).map(|id| schemas.find(id, until))).await;
    }

    /// `None` where nothing says that these bytes are anything but what they are.
    pub(crate) fn decode<'a>(&self, bytes: &'a [u8]) -> Option<Result<Decoded<'a>, String>> {
        match self.show {
            Show::Text | Show::Json | Show::Hex => None,
            _ if bytes.is_empty() => None,
            Show::MessagePack => Some(message_pack(bytes)),
            Show::Auto => self.schemas.as_ref().and_then(|schemas| Some(by_schema(schemas, framed(bytes)?))),
            Show::Avro | Show::Protobuf => Some(self.by_chosen_schema(bytes)),
        }
    }

    fn by_chosen_schema<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<'a>, String> {
        let none = "no schema registry is known here: name one with --schema-registry http://HOST:8081";
        let schemas = self.schemas.as_ref().ok_or(none)?;
        let decoded = by_schema(schemas, framed(bytes).ok_or("it does not begin with the id of a schema")?)?;
        let wanted = if self.show == Show::Avro { "Avro" } else { "Protobuf" };
        match decoded.format == wanted {
            true => Ok(decoded),
            false => Err(format!("its schema is one of {}", decoded.format)),
        }
    }

    /// The beginning of a field, in one line.
    pub(crate) fn beginning(&self, bytes: Option<&[u8]>) -> Shown {
        match bytes.and_then(|bytes| self.decode(bytes)) {
            None => beginning(bytes, self.show),
            Some(Ok(decoded)) => {
                let (text, show) = decoded.text();
                beginning(Some(text.as_bytes()), show)
            }
            Some(Err(reason)) => Shown { note: Some(format!("not decoded: {reason}")), ..beginning(bytes, Show::Text) },
        }
    }

    /// A field in full, as far as that is shown.
    pub(crate) fn full(&self, bytes: Option<&[u8]>) -> Shown {
        let (mut shown, note) = match bytes.and_then(|bytes| self.decode(bytes)) {
            None => return full(bytes, self.undecoded(bytes)),
            Some(Ok(decoded)) => {
                let (text, show) = decoded.text();
                (full(Some(text.as_bytes()), show), decoded.note())
            }
            Some(Err(reason)) => (full(bytes, Show::Text), format!("It is not decoded: {reason}.")),
        };
        shown.note = Some(shown.note.map_or(note.clone(), |more| format!("{note} {more}")));
        shown
    }

    /// JSON is what one mostly wants to see laid out.
    fn undecoded(&self, bytes: Option<&[u8]>) -> Show {
        match self.show {
            Show::Auto if bytes.and_then(|bytes| str::from_utf8(bytes).ok()).is_some_and(is_json) => Show::Json,
            Show::Auto => Show::Text,
            show => show,
        }
    }

    /// Adds what a field says to a record as JSON, where it is decoded.
    pub(crate) fn put(&self, object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
        let Some(decoded) = bytes.and_then(|bytes| self.decode(bytes)) else { return };
        let put = |object: &mut Map<String, Value>, what: &str, value: Value| {
            object.insert(format!("{name}_{what}"), value);
        };
        let decoded = decoded.and_then(|decoded| {
            let (format, id) = (decoded.format, decoded.schema_id);
            let value = serde_json::to_value(decoded.into_structure()?).map_err(|error| error.to_string())?;
            Ok((format, id, value))
        });
        match decoded {
            Ok((format, id, value)) => {
                put(object, "decoded", value);
                put(object, "format", format.into());
                if let Some(id) = id {
                    put(object, "schema_id", id.into());
                }
            }
            Err(reason) => put(object, "error", reason.into()),
        }
    }
}

/// The id of a schema and what comes behind it, where bytes begin as those of Confluent's serializers do.
fn framed(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (id, rest) = bytes.strip_prefix(&[0])?.split_first_chunk()?;
    Some((i32::from_be_bytes(*id), rest)).filter(|(id, _)| *id > 0)
}

fn by_schema<'a>(schemas: &Schemas, (id, bytes): (i32, &'a [u8])) -> Result<Decoded<'a>, String> {
    let schema = schemas.known(id)?;
    is_small(bytes)?;
    let content = match schema.decode(bytes) {
        Some(decoded) => Content::Structure(decoded.map_err(|error| format!("schema {id}: {error}"))?),
        None => Content::Json(str::from_utf8(bytes).map_err(|_| format!("schema {id}: it is not UTF-8"))?),
    };
    Ok(Decoded { content, format: schema.format(), schema_id: Some(id) })
}

fn message_pack(bytes: &[u8]) -> Result<Decoded<'_>, String> {
    is_small(bytes)?;
    let structure = messagepack::decode(bytes).map_err(|error| error.to_string())?;
    Ok(Decoded { content: Content::Structure(structure), format: "MessagePack", schema_id: None })
}

fn is_small(bytes: &[u8]) -> Result<(), String> {
    match bytes.len() <= FULL_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("it has more than {} MiB", FULL_BYTES_MAX >> 20)),
    }
}
