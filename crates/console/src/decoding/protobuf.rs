//! Protobuf, by the text of its schema, and with the list before it that says which message of the schema it is.

use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use super::structure::{Budget, DecodeError, Structure, deeper, float};
use crate::format::moment;

/// Of the file that a record's schema is, which others do not refer to.
const FILE: &str = "schema";
/// Messages within messages, to the one that was written.
const INDEXES_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct ProtobufSchema {
    pool: DescriptorPool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ProtobufSchemaError(String);

impl ProtobufSchema {
    /// With the files that it imports, by their names. Those that come with Protobuf are known.
    pub(super) fn parse(text: &str, references: &[(String, String)]) -> Result<Self, ProtobufSchemaError> {
        let mut pool = DescriptorPool::global();
        let mut files = vec![file(FILE, text)?];
        for (name, text) in references.iter().filter(|(name, _)| pool.get_file_by_name(name).is_none()) {
            files.push(file(name, text)?);
        }
        pool.add_file_descriptor_protos(files).map_err(|error| ProtobufSchemaError(error.to_string()))?;
        Ok(Self { pool })
    }

    /// One message, which is all of the bytes.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Structure, DecodeError> {
        let mut rest = bytes;
        let message = self.message(&mut rest)?;
        // It counts how deep it goes, and takes no more than what is there.
        let message = DynamicMessage::decode(message, rest);
        let message = message.map_err(|error| DecodeError::Malformed(error.to_string()))?;
        structure_of(&message, 0, &mut Budget::new())
    }

    /// The message that the indexes before it name.
    fn message(&self, rest: &mut &[u8]) -> Result<MessageDescriptor, DecodeError> {
        let none = || DecodeError::Malformed("its schema has no such message".to_owned());
        let count = usize::try_from(long(rest)?).ok().filter(|count| *count <= INDEXES_MAX).ok_or_else(none)?;
        // The first message has no list.
        let mut index = if count == 0 { 0 } else { index(rest)? };
        let file = self.pool.get_file_by_name(FILE).ok_or_else(none)?;
        let mut message = file.messages().nth(index).ok_or_else(none)?;
        for _ in 1..count {
            index = self::index(rest)?;
            let inner = message.child_messages().filter(|inner| !inner.is_map_entry()).nth(index);
            message = inner.ok_or_else(none)?;
        }
        Ok(message)
    }
}

fn file(name: &str, text: &str) -> Result<FileDescriptorProto, ProtobufSchemaError> {
    protox_parse::parse(name, text).map_err(|error| ProtobufSchemaError(error.to_string()))
}

fn index(rest: &mut &[u8]) -> Result<usize, DecodeError> {
    usize::try_from(long(rest)?).map_err(|_| DecodeError::Malformed("its message has no index".to_owned()))
}

/// As Avro has them.
fn long(rest: &mut &[u8]) -> Result<i64, DecodeError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or(DecodeError::TooShort)?;
        *rest = behind;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
        }
    }
    Err(DecodeError::Malformed("its message has no index".to_owned()))
}

fn structure_of(message: &DynamicMessage, depth: usize, budget: &mut Budget) -> Result<Structure, DecodeError> {
    use prost_reflect::ReflectMessage;
    let descriptor = message.descriptor();
    if let Some(known) = well_known(message, descriptor.full_name(), depth, budget)? {
        return Ok(known);
    }
    let mut fields = Vec::new();
    for field in descriptor.fields() {
        // Those that are not there, too, are looked at.
        budget.take(0)?;
        // What has no presence has its default.
        if field.supports_presence() && !message.has_field(&field) {
            continue;
        }
        budget.take(field.name().len())?;
        let value = structure(&message.get_field(&field), &field, deeper(depth)?, budget)?;
        fields.push((field.name().to_owned(), value));
    }
    Ok(Structure::Map(fields))
}

fn structure(
    value: &Value,
    field: &FieldDescriptor,
    depth: usize,
    budget: &mut Budget,
) -> Result<Structure, DecodeError> {
    budget.take(0)?;
    Ok(match value {
        Value::Bool(value) => Structure::Boolean(*value),
        Value::I32(value) => Structure::Int(i64::from(*value)),
        Value::I64(value) => Structure::Int(*value),
        Value::U32(value) => Structure::Int(i64::from(*value)),
        Value::U64(value) => Structure::Uint(*value),
        Value::F32(value) => float(*value),
        Value::F64(value) => Structure::Double(*value),
        Value::String(text) => {
            budget.take(text.len())?;
            Structure::Text(text.clone())
        }
        Value::Bytes(bytes) => {
            budget.take(bytes.len())?;
            Structure::Bytes(bytes.to_vec())
        }
        Value::EnumNumber(number) => symbol(*number, &field.kind(), budget)?,
        Value::Message(message) => structure_of(message, depth, budget)?,
        Value::List(items) => {
            let depth = deeper(depth)?;
            Structure::List(items.iter().map(|item| structure(item, field, depth, budget)).collect::<Result<_, _>>()?)
        }
        Value::Map(entries) => {
            let depth = deeper(depth)?;
            let Kind::Message(entry) = field.kind() else { return Ok(Structure::Null) };
            let of = entry.map_entry_value_field();
            let mut map = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let key = key_text(key);
                budget.take(key.len())?;
                map.push((key, structure(value, &of, depth, budget)?));
            }
            // They have no order of their own.
            map.sort_by(|(one, _), (other, _)| one.cmp(other));
            Structure::Map(map)
        }
    })
}

fn symbol(number: i32, kind: &Kind, budget: &mut Budget) -> Result<Structure, DecodeError> {
    let symbol = kind.as_enum().and_then(|of| of.get_value(number));
    let Some(symbol) = symbol else { return Ok(Structure::Int(i64::from(number))) };
    budget.take(symbol.name().len())?;
    Ok(Structure::Text(symbol.name().to_owned()))
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// Messages of Protobuf's own that stand for something simpler.
fn well_known(
    message: &DynamicMessage,
    name: &str,
    depth: usize,
    budget: &mut Budget,
) -> Result<Option<Structure>, DecodeError> {
    let Some(name) = name.strip_prefix("google.protobuf.") else { return Ok(None) };
    let number = |name: &str| {
        let field = message.get_field_by_name(name);
        field.and_then(|field| field.as_i64().or_else(|| field.as_i32().map(i64::from))).unwrap_or(0)
    };
    Ok(match name {
        "Timestamp" => Some(Structure::Text(timestamp(number("seconds"), number("nanos")))),
        "Duration" => {
            let (seconds, nanos) = (number("seconds"), number("nanos"));
            let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
            let (seconds, nanos) = (seconds.unsigned_abs(), nanos.unsigned_abs());
            Some(Structure::Text(format!("{sign}{seconds}{}s", fraction(nanos))))
        }
        "BoolValue" | "Int32Value" | "Int64Value" | "UInt32Value" | "UInt64Value" | "FloatValue" | "DoubleValue"
        | "StringValue" | "BytesValue" => only(message, "value", depth, budget)?,
        "Struct" => only(message, "fields", depth, budget)?,
        "ListValue" => only(message, "values", depth, budget)?,
        "Value" => {
            let (field, value) = match message.fields().next() {
                Some(set) => set,
                None => return Ok(Some(Structure::Null)),
            };
            match field.name() {
                "null_value" => Some(Structure::Null),
                _ => Some(structure(value, &field, deeper(depth)?, budget)?),
            }
        }
        _ => None,
    })
}

/// What the one field of a message is.
fn only(
    message: &DynamicMessage,
    name: &str,
    depth: usize,
    budget: &mut Budget,
) -> Result<Option<Structure>, DecodeError> {
    use prost_reflect::ReflectMessage;
    let Some(field) = message.descriptor().get_field_by_name(name) else { return Ok(None) };
    structure(&message.get_field(&field), &field, deeper(depth)?, budget).map(Some)
}

fn timestamp(seconds: i64, nanos: i64) -> String {
    let Some(ms) = seconds.checked_mul(1000) else { return format!("{seconds} s") };
    format!("{}{}Z", moment(ms).replace(' ', "T"), fraction(nanos.unsigned_abs()))
}

fn fraction(nanos: u64) -> String {
    match nanos {
        0 => String::new(),
        _ => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = r#"
        syntax = "proto3";
        package shop;
        import "money.proto";
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/struct.proto";
        import "google/protobuf/wrappers.proto";
        message Other {}
        message Order {
          message Line { string sku = 1; sint32 count = 2; }
          map<string, Line> by_sku = 1;
          message Nothing {}
          enum State { NEW = 0; PAID = 1; }
          int64 id = 2;
          optional string customer = 3;
          State state = 4;
          repeated Line lines = 5;
          common.Money amount = 6;
          google.protobuf.Timestamp at = 7;
          google.protobuf.Struct more = 8;
          google.protobuf.Int32Value limit = 9;
          bytes hash = 10;
          repeated int32 counts = 11;
          Order before = 12;
          float rate = 13;
        }"#;
    const MONEY: &str = "syntax = \"proto3\"; package common; message Money { string currency = 1; int64 units = 2; }";

    fn shop() -> ProtobufSchema {
        ProtobufSchema::parse(SHOP, &[("money.proto".to_owned(), MONEY.to_owned())]).unwrap()
    }

    fn json(bytes: &[u8]) -> String {
        serde_json::to_string(&shop().decode(bytes).unwrap()).unwrap()
    }

    #[test]
    fn messages_are_read_with_what_they_import() {
        // The second message of the file.
        let mut bytes =
            b"\x02\x02\x10\x07\x1a\x02c7\x20\x01\x2a\x05\x0a\x01a\x10\x03\x32\x07\x0a\x03EUR\x10\x05".to_vec();
        bytes.extend(
            b"\x3a\x06\x08\xdb\x91\x87\xc7\x06\x4a\x02\x08\x09\x52\x01\xff\x5a\x02\x01\x02\x6d\xcd\xcc\xcc\x3d",
        );
        bytes.extend(
            b"\x42\x0c\x0a\x0a\x0a\x01k\x12\x05\x1a\x03abc\x0a\x08\x0a\x01z\x12\x03\x0a\x01z\x0a\x05\x0a\x01b\x12\x00",
        );
        let expected = concat!(
            r#"{"by_sku":{"b":{"sku":"","count":0},"z":{"sku":"z","count":0}},"id":7,"customer":"c7","state":"PAID","#,
            r#""lines":[{"sku":"a","count":-2}],"amount":{"currency":"EUR","units":5},"at":"2025-10-05T01:24:43Z","#,
            r#""more":{"k":"abc"},"limit":9,"hash":"/w==","counts":[1,2],"rate":0.1}"#
        );
        assert_eq!(json(&bytes), expected);
        let empty = r#"{"by_sku":{},"id":0,"state":"NEW","lines":[],"hash":"","counts":[],"rate":0.0}"#;
        assert_eq!(json(b"\x02\x02"), empty);
    }

    #[test]
    fn indexes_name_the_message() {
        assert_eq!(json(b"\0"), "{}");
        assert_eq!(json(b"\x02\0"), "{}");
        // What stands for a map is no message that could be written.
        assert_eq!(json(b"\x04\x02\0\x0a\x01s"), r#"{"sku":"s","count":0}"#);
        assert_eq!(json(b"\x04\x02\x02"), "{}");
        for bytes in [b"\x04\x02\x04".as_slice(), b"\x02\x04", b"\x02\x01", b"\x80\x01", b"\x01", &[0xff; 12]] {
            assert!(matches!(shop().decode(bytes), Err(DecodeError::Malformed(_))), "{bytes:?}");
        }
        assert_eq!(shop().decode(b"\x04\x02"), Err(DecodeError::TooShort));
    }

    #[test]
    fn what_is_claimed_is_not_believed() {
        let order = |fields: &[u8]| shop().decode(&[b"\x02\x02", fields].concat());
        assert!(matches!(order(b"\x1a\xff\xff\xff\xff\x0fabc"), Err(DecodeError::Malformed(_))));
        assert!(matches!(order(b"\x10"), Err(DecodeError::Malformed(_))));
        let mut nested = Vec::new();
        for _ in 0..200 {
            let mut length = nested.len();
            let mut outer = vec![0x62];
            while length >= 0x80 {
                outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.append(&mut nested);
            nested = outer;
        }
        assert!(order(&nested).is_err());
        assert_eq!(order(&b"\x2a\0".repeat(200_000)), Err(DecodeError::TooLarge));
    }

    #[test]
    fn schemas_that_are_not_complete_are_refused() {
        let error = ProtobufSchema::parse(SHOP, &[]).unwrap_err().to_string();
        assert!(error.contains("money.proto"), "{error}");
        for text in ["", "message", "syntax = \"proto3\"; message A { B b = 1; }", &"message A {".repeat(10_000)] {
            let parsed = ProtobufSchema::parse(text, &[]);
            assert!(text.is_empty() || parsed.is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_their_fraction() {
        assert_eq!(timestamp(1_795_357_211, 42_000_000), "2026-11-22T14:20:11.042Z");
        assert_eq!(timestamp(i64::MAX, 0), format!("{} s", i64::MAX));
    }
}
