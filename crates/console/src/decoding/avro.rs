//! Avro in its binary form, by the schema that it was written with.
//!
//! Schemas may contain themselves and lists may have parts without bytes, so neither the depth nor the size of a value
//! is bounded by its length: both are counted here. The `apache-avro` crate does not count the depth, and a value that
//! is nested deep enough ends the process by its stack.

use std::collections::HashMap;

use serde_json::Value;

use super::structure::{Budget, DecodeError, Structure, deeper, float};

#[derive(Debug)]
pub(super) struct AvroSchema {
    root: Type,
    named: Vec<Named>,
}

#[derive(Clone, Debug)]
enum Type {
    Null,
    Boolean,
    /// Ints are longs that are short.
    Long,
    Float,
    Double,
    Bytes,
    Text,
    /// A number in bytes, with so many digits behind the point.
    Decimal(Box<Type>, u32),
    List(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
    /// One of those that have a name, which may contain itself.
    Named(usize),
}

#[derive(Debug)]
enum Named {
    Record(Vec<(String, Type)>),
    Enum(Vec<String>),
    Fixed(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AvroSchemaError {
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error("there is no type {0}")]
    UnknownType(String),
    #[error("a part of it has no {0}")]
    Missing(&'static str),
}

impl AvroSchema {
    /// Those it refers to come first.
    pub(super) fn parse(text: &str, references: &[String]) -> Result<Self, AvroSchemaError> {
        let mut parser = Parser::default();
        for reference in references {
            parser.parse(&read(reference)?, "")?;
        }
        let root = parser.parse(&read(text)?, "")?;
        Ok(Self { root, named: parser.named })
    }

    /// One value, which is all of the bytes.
    pub(super) fn decode(&self, bytes: &[u8]) -> Result<Structure, DecodeError> {
        let mut reader = Reader { schema: self, bytes, at: 0, budget: Budget::new() };
        let value = reader.value(&self.root, 0)?;
        match reader.at == bytes.len() {
            true => Ok(value),
            false => Err(DecodeError::TooLong(reader.at)),
        }
    }
}

fn read(text: &str) -> Result<Value, AvroSchemaError> {
    serde_json::from_str(text).map_err(|error| AvroSchemaError::NotJson(error.to_string()))
}

/// JSON is not deeper than its reader allows, and so are the calls here.
#[derive(Default)]
struct Parser {
    named: Vec<Named>,
    /// Full names.
    indexes: HashMap<String, usize>,
}

impl Parser {
    fn parse(&mut self, schema: &Value, namespace: &str) -> Result<Type, AvroSchemaError> {
        match schema {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.parse(branch, namespace));
                Ok(Type::Union(branches.collect::<Result<_, _>>()?))
            }
            Value::Object(object) => match &object.get("type").ok_or(AvroSchemaError::Missing("type"))? {
                Value::String(kind) => self.complex(kind, schema, namespace),
                inner => self.parse(inner, namespace),
            },
            other => Err(AvroSchemaError::UnknownType(other.to_string())),
        }
    }

    fn by_name(&self, name: &str, namespace: &str) -> Result<Type, AvroSchemaError> {
        Ok(match name {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "int" | "long" => Type::Long,
            "float" => Type::Float,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "string" => Type::Text,
            _ => {
                let index = self.indexes.get(&full_name(name, namespace)).or_else(|| self.indexes.get(name));
                Type::Named(*index.ok_or_else(|| AvroSchemaError::UnknownType(name.to_owned()))?)
            }
        })
    }

    fn complex(&mut self, kind: &str, schema: &Value, namespace: &str) -> Result<Type, AvroSchemaError> {
        let found = match kind {
            "array" => {
                let items = schema.get("items").ok_or(AvroSchemaError::Missing("items"))?;
                Type::List(Box::new(self.parse(items, namespace)?))
            }
            "map" => {
                let values = schema.get("values").ok_or(AvroSchemaError::Missing("values"))?;
                Type::Map(Box::new(self.parse(values, namespace)?))
            }
            "record" | "error" | "enum" | "fixed" => self.named(kind, schema, namespace)?,
            name => self.by_name(name, namespace)?,
        };
        if schema["logicalType"] == "decimal" {
            let scale = schema["scale"].as_u64().and_then(|scale| u32::try_from(scale).ok()).unwrap_or(0);
            return Ok(Type::Decimal(Box::new(found), scale));
        }
        Ok(found)
    }

    fn named(&mut self, kind: &str, schema: &Value, namespace: &str) -> Result<Type, AvroSchemaError> {
        let name = schema["name"].as_str().ok_or(AvroSchemaError::Missing("name"))?;
        let name = full_name(name, schema["namespace"].as_str().unwrap_or(namespace));
        let namespace = name.rsplit_once('.').map_or("", |(namespace, _)| namespace);
        // It may contain itself, so it has its place before it is known.
        let index = self.named.len();
        self.named.push(Named::Enum(Vec::new()));
        self.indexes.insert(name.clone(), index);
        self.named[index] = match kind {
            "enum" => {
                let symbols = schema["symbols"].as_array().ok_or(AvroSchemaError::Missing("symbols"))?;
                Named::Enum(symbols.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            "fixed" => {
                let size = schema["size"].as_u64().and_then(|size| usize::try_from(size).ok());
                Named::Fixed(size.ok_or(AvroSchemaError::Missing("size"))?)
            }
            _ => {
                let fields = schema["fields"].as_array().ok_or(AvroSchemaError::Missing("fields"))?;
                let field = |field: &Value| {
                    let name = field["name"].as_str().ok_or(AvroSchemaError::Missing("name"))?;
                    let of = field.get("type").ok_or(AvroSchemaError::Missing("type"))?;
                    Ok((name.to_owned(), self.parse(of, namespace)?))
                };
                Named::Record(fields.iter().map(field).collect::<Result<_, _>>()?)
            }
        };
        Ok(Type::Named(index))
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    match namespace {
        "" => name.to_owned(),
        _ if name.contains('.') => name.to_owned(),
        namespace => format!("{namespace}.{name}"),
    }
}

struct Reader<'a> {
    schema: &'a AvroSchema,
    bytes: &'a [u8],
    at: usize,
    budget: Budget,
}

impl<'a> Reader<'a> {
    fn value(&mut self, of: &Type, depth: usize) -> Result<Structure, DecodeError> {
        self.budget.take(0)?;
        Ok(match of {
            Type::Null => Structure::Null,
            Type::Boolean => match self.take(1)? {
                [0] => Structure::Boolean(false),
                [1] => Structure::Boolean(true),
                _ => return Err(self.malformed("is no boolean")),
            },
            Type::Long => Structure::Int(self.long()?),
            Type::Float => float(f32::from_le_bytes(self.array()?)),
            Type::Double => Structure::Double(f64::from_le_bytes(self.array()?)),
            Type::Bytes => Structure::Bytes(self.counted()?.to_vec()),
            Type::Text => Structure::Text(self.text()?),
            Type::Decimal(of, scale) => match self.value(of, deeper(depth)?)? {
                Structure::Bytes(bytes) => decimal(&bytes, *scale).map_or(Structure::Bytes(bytes), Structure::Text),
                other => other,
            },
            Type::List(items) => {
                let depth = deeper(depth)?;
                let mut list = Vec::new();
                self.blocks(|reader| {
                    list.push(reader.value(items, depth)?);
                    Ok(())
                })?;
                Structure::List(list)
            }
            Type::Map(values) => {
                let depth = deeper(depth)?;
                let mut map = Vec::new();
                self.blocks(|reader| {
                    map.push((reader.text()?, reader.value(values, depth)?));
                    Ok(())
                })?;
                Structure::Map(map)
            }
            Type::Union(branches) => {
                let branch = usize::try_from(self.long()?).ok().and_then(|index| branches.get(index));
                let branch = branch.ok_or_else(|| self.malformed("is no branch of its union"))?;
                self.value(branch, deeper(depth)?)?
            }
            Type::Named(index) => self.named(*index, deeper(depth)?)?,
        })
    }

    fn named(&mut self, index: usize, depth: usize) -> Result<Structure, DecodeError> {
        let schema = self.schema;
        Ok(match &schema.named[index] {
            Named::Record(fields) => {
                let mut map = Vec::new();
                for (name, of) in fields {
                    self.budget.take(name.len())?;
                    map.push((name.clone(), self.value(of, depth)?));
                }
                Structure::Map(map)
            }
            Named::Enum(symbols) => {
                let symbol = usize::try_from(self.long()?).ok().and_then(|index| symbols.get(index));
                let symbol = symbol.ok_or_else(|| self.malformed("is no symbol of its enum"))?;
                self.budget.take(symbol.len())?;
                Structure::Text(symbol.clone())
            }
            Named::Fixed(size) => {
                let bytes = self.take(*size)?;
                self.budget.take(bytes.len())?;
                Structure::Bytes(bytes.to_vec())
            }
        })
    }

    /// The parts of a list or a map, in blocks that say how many they have.
    fn blocks(&mut self, mut part: impl FnMut(&mut Self) -> Result<(), DecodeError>) -> Result<(), DecodeError> {
        loop {
            let count = self.long()?;
            if count < 0 {
                // And how many bytes, for those who pass over them.
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                part(self)?;
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.bytes[self.at..].get(..length).ok_or(DecodeError::TooShort)?;
        self.at += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.bytes[self.at..].first_chunk().ok_or(DecodeError::TooShort)?;
        self.at += N;
        Ok(*taken)
    }

    fn long(&mut self) -> Result<i64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()));
            }
        }
        Err(self.malformed("is a number of too many bytes"))
    }

    fn counted(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| self.malformed("is no length"))?;
        let bytes = self.take(length)?;
        self.budget.take(bytes.len())?;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let bytes = self.counted()?;
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| self.malformed("is text that is not UTF-8"))
    }

    fn malformed(&self, what: &str) -> DecodeError {
        DecodeError::Malformed(format!("what ends at byte {} {what}", self.at))
    }
}

/// The digits of a number of up to 16 bytes.
fn decimal(bytes: &[u8], scale: u32) -> Option<String> {
    let scale = usize::try_from(scale).ok().filter(|scale| *scale <= 64)?;
    let mut number = [if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 }; 16];
    number.get_mut(16_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    let number = i128::from_be_bytes(number);
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, rest) = digits.split_at(digits.len() - scale);
    let sign = if number < 0 { "-" } else { "" };
    Some(if rest.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{rest}") })
}

#[cfg(test)]
mod tests {
    use super::super::structure::DEPTH_MAX;
    use super::*;

    fn json(schema: &str, bytes: &[u8]) -> String {
        let schema = AvroSchema::parse(schema, &[]).unwrap();
        serde_json::to_string(&schema.decode(bytes).unwrap()).unwrap()
    }

    const ORDER: &str = r#"{"type":"record","name":"Order","namespace":"shop","fields":[
        {"name":"id","type":"long"},
        {"name":"customer","type":["null","string"]},
        {"name":"state","type":{"type":"enum","name":"State","symbols":["new","paid"]}},
        {"name":"before","type":["null","State"]},
        {"name":"amount","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}},
        {"name":"tags","type":{"type":"array","items":"string"}},
        {"name":"counts","type":{"type":"map","values":"int"}},
        {"name":"hash","type":{"type":"fixed","name":"Hash","size":2}},
        {"name":"rate","type":"float"},{"name":"exact","type":"double"},{"name":"ok","type":"boolean"}]}"#;

    #[test]
    fn all_types_are_read() {
        let mut bytes = b"\x0d\x02\x04c7\x02\x02\x00\x04\xcf\xc7\x04\x02a\x02b\x02\x02c\0".to_vec();
        bytes.extend(b"\x02\x02k\xd8\x04\0\xff\0\xcd\xcc\xcc\x3d\0\0\0\0\0\0\xf8\x3f\x01");
        let expected = concat!(
            r#"{"id":-7,"customer":"c7","state":"paid","before":"new","amount":"-123.45","tags":["a","b","c"],"#,
            r#""counts":{"k":300},"hash":"/wA=","rate":0.1,"exact":1.5,"ok":true}"#
        );
        // The list is in two blocks, the first of which says how long it is.
        let mut blocks = bytes.clone();
        let at = blocks.windows(3).position(|part| part == b"\x04\x02a").unwrap();
        blocks.splice(at..=at, [0x03, 0x08]);
        assert_eq!(json(ORDER, &blocks), expected);
        assert_eq!(json("\"string\"", b"\x06abc"), "\"abc\"");
    }

    #[test]
    fn schemas_refer_to_others() {
        let of = r#"{"type":"record","name":"Pair","fields":[{"name":"m","type":"a.Money"}]}"#;
        let money = r#"{"type":"record","name":"Money","namespace":"a","fields":[{"name":"u","type":"long"}]}"#;
        let schema = AvroSchema::parse(of, &[money.to_owned()]).unwrap();
        let money = Structure::Map(vec![("u".into(), Structure::Int(1))]);
        assert_eq!(schema.decode(b"\x02"), Ok(Structure::Map(vec![("m".into(), money)])));
        assert_eq!(AvroSchema::parse(of, &[]).unwrap_err(), AvroSchemaError::UnknownType("a.Money".into()));
        for text in ["", "7", "{}", r#"{"type":"record"}"#, r#"{"type":"fixed","name":"F"}"#, &"[".repeat(10_000)] {
            assert!(AvroSchema::parse(text, &[]).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_claimed_is_not_believed() {
        let decode = |schema: &str, bytes: &[u8]| AvroSchema::parse(schema, &[]).unwrap().decode(bytes);
        assert_eq!(decode("\"string\"", b"\xfe\xff\xff\xff\x0fabc"), Err(DecodeError::TooShort));
        assert_eq!(decode("\"long\"", b"\x02\x02"), Err(DecodeError::TooLong(1)));
        assert!(matches!(decode("\"long\"", &[0xff; 11]), Err(DecodeError::Malformed(_))));
        // So many parts without a byte.
        let nulls = r#"{"type":"array","items":"null"}"#;
        assert_eq!(decode(nulls, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\0"), Err(DecodeError::TooLarge));
        assert_eq!(decode(nulls, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0"), Err(DecodeError::TooLarge));
        assert_eq!(decode(r#"{"type":"fixed","name":"F","size":99999999999}"#, b"a"), Err(DecodeError::TooShort));
        let node = r#"{"type":"record","name":"N","fields":[{"name":"n","type":["null","N"]}]}"#;
        assert_eq!(decode(node, &[2; 1_000_000]), Err(DecodeError::TooDeep));
        assert!(decode(node, &[vec![2; DEPTH_MAX / 2 - 1], vec![0]].concat()).is_ok());
        // A record of itself and nothing else has no end.
        let endless = r#"{"type":"record","name":"N","fields":[{"name":"n","type":"N"}]}"#;
        assert_eq!(decode(endless, b""), Err(DecodeError::TooDeep));
        let twice = r#"{"type":"record","name":"N","fields":[{"name":"a","type":["N","null"]},{"name":"b","type":["N","null"]}]}"#;
        assert_eq!(decode(twice, &[0; 1000]), Err(DecodeError::TooDeep));
    }

    #[test]
    fn decimals_have_their_point() {
        assert_eq!(decimal(&[0x30, 0x39], 2).as_deref(), Some("123.45"));
        assert_eq!(decimal(&[0xff], 3).as_deref(), Some("-0.001"));
        assert_eq!(decimal(&[5], 0).as_deref(), Some("5"));
        assert_eq!(decimal(&[], 0).as_deref(), Some("0"));
        assert_eq!(decimal(&[0x80; 16], 0), Some(i128::from_be_bytes([0x80; 16]).to_string()));
        assert_eq!((decimal(&[1; 17], 0), decimal(&[1], 65)), (None, None));
    }
}
