//! What a line means: a key and a value, or a document.

use std::fmt;

use bytes::Bytes;
use client::ProducerRecord;
use serde_json::{Map, Value};

use crate::cmd::bytes::take_json;
use crate::cmd::time;

/// How lines become records, and what all records have.
#[derive(Clone, Debug, Default)]
pub(super) struct Format {
    pub(super) json: bool,
    pub(super) key: Option<Bytes>,
    pub(super) key_separator: Option<Bytes>,
    pub(super) null_value: Option<Bytes>,
    pub(super) headers: Vec<(Bytes, Option<Bytes>)>,
    pub(super) partition: Option<i32>,
    pub(super) timestamp: Option<i64>,
}

/// Why a line is no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineError(String);

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A separator with `\t` and the like as shells leave them.
pub(super) fn separator(text: &str) -> Result<String, String> {
    match text {
        "" => Err("a separator may not be empty".to_owned()),
        _ => Ok(text.replace("\\t", "\t").replace("\\0", "\0")),
    }
}

impl Format {
    pub(super) fn record(&self, line: Bytes, now_ms: i64) -> Result<ProducerRecord, LineError> {
        if self.json {
            return self.document(&line, now_ms).map_err(LineError);
        }
        let (key, value) = match &self.key_separator {
            None => (self.key.clone(), line),
            Some(separator) => {
                let at = line.windows(separator.len()).position(|window| window == &separator[..]);
                let at = at.ok_or_else(|| LineError("the key separator is missing".to_owned()))?;
                (Some(line.slice(..at)), line.slice(at + separator.len()..))
            }
        };
        Ok(ProducerRecord {
            partition: self.partition,
            timestamp: self.timestamp.unwrap_or(now_ms),
            key,
            value: (self.null_value.as_ref() != Some(&value)).then_some(value),
            headers: self.headers.clone(),
        })
    }

    fn document(&self, line: &[u8], now_ms: i64) -> Result<ProducerRecord, String> {
        let mut object: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("it is not a JSON object ({error})"))?;
        let key = take_json(&mut object, "key")?;
        let value = take_json(&mut object, "value")?;
        let mut headers = self.headers.clone();
        headers.extend(object.remove("headers").map_or_else(|| Ok(Vec::new()), headers_of)?);
        let partition = match object.remove("partition") {
            None | Some(Value::Null) => self.partition,
            Some(value) => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok()).filter(|n| *n >= 0);
                Some(number.ok_or_else(|| format!("{value} is not the number of a partition"))?)
            }
        };
        let timestamp = match object.remove("timestamp") {
            None | Some(Value::Null) => self.timestamp.unwrap_or(now_ms),
            Some(Value::String(text)) => time::parse_time(&text, now_ms)?,
            Some(value) => value.as_i64().ok_or_else(|| format!("{value} is not a time in milliseconds"))?,
        };
        // What `consume --json` prints can be produced again; its place is not ours to choose.
        for name in ["topic", "offset"] {
            object.remove(name);
        }
        if let Some(name) = object.keys().next() {
            return Err(format!("a record has no {name:?}; it has key, value, headers, partition and timestamp"));
        }
        let (key, value) = (key.map(Bytes::from), value.map(Bytes::from));
        Ok(ProducerRecord { partition, timestamp, key, value, headers })
    }
}

/// `{"name": "value"}`, or `[["name", "value"], ...]`; values may be null.
fn headers_of(value: Value) -> Result<Vec<(Bytes, Option<Bytes>)>, String> {
    let pairs: Vec<(String, Value)> = match value {
        Value::Null => Vec::new(),
        Value::Object(object) => object.into_iter().collect(),
        Value::Array(list) => {
            let pair =
                |value| serde_json::from_value(value).map_err(|_| "a header in a list is [name, value]".to_owned());
            list.into_iter().map(pair).collect::<Result<_, _>>()?
        }
        _ => return Err("headers are an object, or a list of [name, value]".to_owned()),
    };
    let header = |(name, value): (String, Value)| {
        let value = match value {
            Value::Null => None,
            Value::String(text) => Some(Bytes::from(text)),
            Value::Object(mut object) if object.contains_key("base64") => {
                let text = object.remove("base64");
                let bytes = text.as_ref().and_then(Value::as_str).and_then(crate::cmd::bytes::from_base64);
                Some(bytes.ok_or_else(|| format!("header {name:?} is not base64"))?.into())
            }
            other => Some(Bytes::from(other.to_string())),
        };
        Ok((Bytes::from(name), value))
    };
    pairs.into_iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(line: &str) -> Result<ProducerRecord, LineError> {
        Format { json: true, ..Format::default() }.record(Bytes::from(line.to_owned()), 1000)
    }

    #[test]
    fn a_line_is_a_value() {
        let format = Format { key: Some("k".into()), timestamp: Some(5), partition: Some(2), ..Format::default() };
        let record = format.record("a:b".into(), 1000).unwrap();
        assert_eq!((record.key, record.value), (Some("k".into()), Some("a:b".into())));
        assert_eq!((record.timestamp, record.partition), (5, Some(2)));
    }

    #[test]
    fn a_separator_parts_at_its_first_place() {
        let format = Format { key_separator: Some("::".into()), ..Format::default() };
        let record = format.record("a::b::c".into(), 1000).unwrap();
        assert_eq!((record.key, record.value, record.timestamp), (Some("a".into()), Some("b::c".into()), 1000));
        let record = format.record("::".into(), 0).unwrap();
        assert_eq!((record.key, record.value), (Some("".into()), Some("".into())));
        assert!(format.record("a:b".into(), 0).is_err());
        assert_eq!(separator("\\t"), Ok("\t".to_owned()));
    }

    #[test]
    fn a_marker_is_null() {
        let format = Format { null_value: Some("NULL".into()), ..Format::default() };
        assert_eq!(format.record("NULL".into(), 0).unwrap().value, None);
        assert_eq!(format.record("null".into(), 0).unwrap().value, Some("null".into()));
    }

    #[test]
    fn a_document_says_it_all() {
        let record = json(
            r#"{"key":"k","value":{"a":1},"headers":[["h","1"],["h",null]],"partition":3,"timestamp":"1970-01-01T00:00:02Z","offset":9,"topic":"t"}"#,
        )
        .unwrap();
        assert_eq!((record.key, record.value), (Some("k".into()), Some(r#"{"a":1}"#.into())));
        assert_eq!((record.partition, record.timestamp), (Some(3), 2000));
        assert_eq!(record.headers, [("h".into(), Some("1".into())), ("h".into(), None)]);
        let record = json(r#"{"value":null,"headers":{"a":"1"}}"#).unwrap();
        assert_eq!((record.key, record.value, record.timestamp), (None, None, 1000));
        assert_eq!(record.headers, [("a".into(), Some("1".into()))]);
    }

    #[test]
    fn a_wrong_document_says_why() {
        for line in [
            "",
            "[]",
            "{",
            r#"{"vlaue":1}"#,
            r#"{"partition":-1}"#,
            r#"{"partition":"x"}"#,
            r#"{"timestamp":1.5}"#,
            r#"{"headers":7}"#,
            r#"{"headers":[["a"]]}"#,
            r#"{"timestamp":"soon"}"#,
        ] {
            assert!(json(line).is_err(), "{line}");
        }
    }
}
