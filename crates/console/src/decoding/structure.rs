//! A decoded value, whatever format it came in, and how much one may take.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// How deep values may be nested: each level takes stack.
pub(super) const DEPTH_MAX: usize = 64;
/// What a value may take when it is decoded, whatever lengths its bytes claim.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What is counted for a part of a value, however small it is.
const PART_BYTES: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("it ends too early")]
    TooShort,
    #[error("it goes on behind its end, at byte {0}")]
    TooLong(usize),
    #[error("it would take more than {} MiB when it is decoded", BYTES_MAX >> 20)]
    TooLarge,
    #[error("it is nested more than {DEPTH_MAX} deep")]
    TooDeep,
    #[error("{0}")]
    Malformed(String),
}

/// What a value may still take, and how much deeper it may go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { bytes: BYTES_MAX }
    }

    /// For a part of a value with so many bytes of text or name.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), DecodeError> {
        let left = self.bytes.checked_sub(bytes.saturating_add(PART_BYTES));
        self.bytes = left.ok_or(DecodeError::TooLarge)?;
        Ok(())
    }
}

/// One level deeper.
pub(super) fn deeper(depth: usize) -> Result<usize, DecodeError> {
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(DecodeError::TooDeep) }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Structure {
    Null,
    Boolean(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Structure>),
    /// In the order of the fields.
    Map(Vec<(String, Structure)>),
}

/// A float with as many digits as it has, and not with those that it takes as a double.
pub(super) fn float(value: f32) -> Structure {
    Structure::Double(value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
}

/// As JSON: bytes in base64, and what JSON has no number for as text.
impl Serialize for Structure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Boolean(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Uint(value) => serializer.serialize_u64(*value),
            Self::Double(value) if value.is_nan() => serializer.serialize_str("NaN"),
            Self::Double(f64::INFINITY) => serializer.serialize_str("Infinity"),
            Self::Double(f64::NEG_INFINITY) => serializer.serialize_str("-Infinity"),
            Self::Double(value) => serializer.serialize_f64(*value),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_str(&STANDARD.encode(bytes)),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl From<Value> for Structure {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Boolean(value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Self::Int(value),
                (None, Some(value)) => Self::Uint(value),
                (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(fields) => {
                Self::Map(fields.into_iter().map(|(name, value)| (name, Self::from(value))).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_has_no_word_for_is_text() {
        let map = Structure::Map(vec![
            ("z".into(), Structure::Double(f64::NAN)),
            ("a".into(), Structure::Bytes(vec![0xff, 0])),
            ("i".into(), Structure::List(vec![Structure::Double(f64::NEG_INFINITY), Structure::Uint(u64::MAX)])),
            ("f".into(), float(0.1)),
            ("n".into(), Structure::Null),
        ]);
        let json = r#"{"z":"NaN","a":"/wA=","i":["-Infinity",18446744073709551615],"f":0.1,"n":null}"#;
        assert_eq!(serde_json::to_string(&map).unwrap(), json);
    }
}
