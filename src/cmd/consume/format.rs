//! How a record looks: a format string, or a line of JSON.

use std::io::{self, Write};

use client::ConsumedRecord;
use serde_json::{Map, Value, json};

use crate::cmd::bytes::{base64, put_json};
use crate::cmd::time::format_time;

/// Told in the help.
pub(super) const ESCAPES: &str = "\
Escapes of --format:
  %t topic          %k key     %K length of the key, -1 for null
  %p partition      %v value   %V length of the value, -1 for null
  %o offset         %h headers, as name=value,name=value
  %T time in milliseconds since 1970    %D the same as RFC 3339
  %% a percent sign   \\n \\t \\r \\0 \\\\ \\xHH  bytes";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Date,
    Key,
    KeyLength,
    Value,
    ValueLength,
    Headers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Parts(Vec<Part>),
}

/// For the parser of flags.
pub(super) fn parse(text: &str) -> Result<Format, String> {
    let mut parts = Vec::new();
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let part = match c {
            '%' => match chars.next() {
                Some('%') => {
                    bytes.push(b'%');
                    continue;
                }
                Some('t') => Part::Topic,
                Some('p') => Part::Partition,
                Some('o') => Part::Offset,
                Some('T') => Part::Timestamp,
                Some('D') => Part::Date,
                Some('k') => Part::Key,
                Some('K') => Part::KeyLength,
                // kcat's names of the value.
                Some('v' | 's') => Part::Value,
                Some('V' | 'S') => Part::ValueLength,
                Some('h') => Part::Headers,
                Some(other) => return Err(format!("%{other} is not an escape; %% is a percent sign")),
                None => return Err("a single % at the end; %% is a percent sign".to_owned()),
            },
            '\\' => {
                match chars.next() {
                    Some('n') => bytes.push(b'\n'),
                    Some('t') => bytes.push(b'\t'),
                    Some('r') => bytes.push(b'\r'),
                    Some('0') => bytes.push(0),
                    Some('\\') => bytes.push(b'\\'),
                    Some('x') => {
                        let digits: String = chars.by_ref().take(2).collect();
                        let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                        let byte = is_hex.then(|| u8::from_str_radix(&digits, 16).ok()).flatten();
                        bytes.push(byte.ok_or("\\x needs two hexadecimal digits")?);
                    }
                    Some(other) => return Err(format!("\\{other} is not an escape; \\\\ is a backslash")),
                    None => return Err("a single \\ at the end; \\\\ is a backslash".to_owned()),
                }
                continue;
            }
            other => {
                bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
        };
        if !bytes.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut bytes)));
        }
        parts.push(part);
    }
    if !bytes.is_empty() {
        parts.push(Part::Text(bytes));
    }
    Ok(Format::Parts(parts))
}

impl Format {
    /// The value, and before it, each followed by a tab, what else was asked for.
    pub(super) fn lines(keys: bool, headers: bool) -> Self {
        let tab = || Part::Text(b"\t".to_vec());
        let mut parts = Vec::new();
        if headers {
            parts.extend([Part::Headers, tab()]);
        }
        if keys {
            parts.extend([Part::Key, tab()]);
        }
        parts.extend([Part::Value, Part::Text(b"\n".to_vec())]);
        Self::Parts(parts)
    }

    pub(super) fn write(
        &self,
        out: &mut impl Write,
        topic: &str,
        partition: i32,
        record: &ConsumedRecord,
    ) -> io::Result<()> {
        let parts = match self {
            Self::Json => return write_json(out, topic, partition, record),
            Self::Parts(parts) => parts,
        };
        let length = |field: &Option<bytes::Bytes>| field.as_ref().map_or(-1, |field| field.len() as i64);
        for part in parts {
            match part {
                Part::Text(text) => out.write_all(text)?,
                Part::Topic => out.write_all(topic.as_bytes())?,
                Part::Partition => write!(out, "{partition}")?,
                Part::Offset => write!(out, "{}", record.offset)?,
                Part::Timestamp => write!(out, "{}", record.timestamp)?,
                Part::Date => out.write_all(format_time(record.timestamp).as_bytes())?,
                Part::Key => out.write_all(record.key.as_deref().unwrap_or_default())?,
                Part::KeyLength => write!(out, "{}", length(&record.key))?,
                Part::Value => out.write_all(record.value.as_deref().unwrap_or_default())?,
                Part::ValueLength => write!(out, "{}", length(&record.value))?,
                Part::Headers => write_headers(out, record)?,
            }
        }
        Ok(())
    }
}

fn write_headers(out: &mut impl Write, record: &ConsumedRecord) -> io::Result<()> {
    for (i, (name, value)) in record.headers.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        out.write_all(name)?;
        out.write_all(b"=")?;
        out.write_all(value.as_deref().unwrap_or(b"NULL"))?;
    }
    Ok(())
}

fn write_json(out: &mut impl Write, topic: &str, partition: i32, record: &ConsumedRecord) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("topic".to_owned(), Value::from(topic));
    object.insert("partition".to_owned(), Value::from(partition));
    object.insert("offset".to_owned(), Value::from(record.offset));
    object.insert("timestamp".to_owned(), Value::from(record.timestamp));
    put_json(&mut object, "key", record.key.as_deref());
    put_json(&mut object, "value", record.value.as_deref());
    if !record.headers.is_empty() {
        let value = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Value::from(text),
            Err(_) => json!({ "base64": base64(bytes) }),
        };
        let header = |(name, content): &(bytes::Bytes, Option<bytes::Bytes>)| {
            json!([String::from_utf8_lossy(name), content.as_deref().map(value)])
        };
        object.insert("headers".to_owned(), record.headers.iter().map(header).collect());
    }
    serde_json::to_writer(&mut *out, &object)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ConsumedRecord {
        ConsumedRecord {
            offset: 42,
            timestamp: 1_700_000_000_123,
            key: Some("k".into()),
            value: Some("väl".into()),
            headers: vec![("a".into(), Some("1".into())), ("b".into(), None)],
        }
    }

    fn written(format: &Format, record: &ConsumedRecord) -> String {
        let mut out = Vec::new();
        format.write(&mut out, "orders", 3, record).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_escape_is_written() {
        let format = parse("%t %p %o %T %D %k %K %v %s %V %h 100%%\\t\\x41\\\\\\n").unwrap();
        assert_eq!(
            written(&format, &record()),
            "orders 3 42 1700000000123 2023-11-14T22:13:20.123Z k 1 väl väl 4 a=1,b=NULL 100%\tA\\\n"
        );
    }

    #[test]
    fn null_is_empty_and_has_the_length_minus_one() {
        let record = ConsumedRecord { key: None, value: None, headers: Vec::new(), ..record() };
        assert_eq!(written(&parse("[%k|%K|%v|%V|%h]").unwrap(), &record), "[|-1||-1|]");
    }

    #[test]
    fn wrong_escapes_are_refused() {
        for text in ["%", "%z", "\\", "\\q", "\\x4", "\\xzz", "\\x+1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_show_what_was_asked_for() {
        assert_eq!(written(&Format::lines(false, false), &record()), "väl\n");
        assert_eq!(written(&Format::lines(true, true), &record()), "a=1,b=NULL\tk\tväl\n");
    }

    #[test]
    fn json_is_one_line_and_keeps_every_byte() {
        let record = ConsumedRecord {
            value: Some(bytes::Bytes::from_static(&[0xff])),
            headers: vec![("a".into(), Some(bytes::Bytes::from_static(&[0xfe]))), ("a".into(), None)],
            ..record()
        };
        assert_eq!(
            written(&Format::Json, &record),
            "{\"headers\":[[\"a\",{\"base64\":\"/g==\"}],[\"a\",null]],\"key\":\"k\",\"offset\":42,\"partition\":3,\
             \"timestamp\":1700000000123,\"topic\":\"orders\",\"value_base64\":\"/w==\"}\n"
        );
    }
}
