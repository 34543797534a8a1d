//! One record as it is kept for a page, and as a line of JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use wire::batch::BatchHeader;
use wire::record::Record;

use crate::decoding::Decoder;

/// A record, whose bytes share the memory of its batch.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// The first ones.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Of all of them.
    pub header_count: usize,
    /// Of the batch that it came in.
    pub batch: BatchHeader,
}

impl Message {
    pub(super) fn new(
        partition: i32,
        batch: &BatchHeader,
        section: &Bytes,
        record: &Record<'_>,
        headers_max: usize,
    ) -> Self {
        let share = |field: &[u8]| section.slice_ref(field);
        let headers = record.headers.iter().take(headers_max);
        Self {
            partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(share),
            value: record.value.map(share),
            headers: headers.map(|(name, value)| (share(name), value.map(share))).collect(),
            header_count: record.headers.len(),
            batch: *batch,
        }
    }

    /// What may have to be decoded.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        [&self.key, &self.value].into_iter().filter_map(|field| field.as_deref())
    }

    /// Of key, value and the headers that are kept.
    pub(crate) fn size_bytes(&self) -> usize {
        let length = |field: &Option<Bytes>| field.as_ref().map_or(0, Bytes::len);
        let headers = self.headers.iter().map(|(name, value)| name.len() + length(value));
        length(&self.key) + length(&self.value) + headers.sum::<usize>()
    }

    /// With the fields of `parshall consume --json`: what is not UTF-8 is in base64, in a field that says so. What is
    /// decoded has fields of its own beside those.
    pub(crate) fn json(&self, topic: &str, decoder: &Decoder) -> Value {
        let mut object = Map::new();
        object.insert("topic".to_owned(), topic.into());
        object.insert("partition".to_owned(), self.partition.into());
        object.insert("offset".to_owned(), self.offset.into());
        object.insert("timestamp".to_owned(), self.timestamp.into());
        put(&mut object, "key", self.key.as_deref());
        put(&mut object, "value", self.value.as_deref());
        decoder.put(&mut object, "key", self.key.as_deref());
        decoder.put(&mut object, "value", self.value.as_deref());
        if !self.headers.is_empty() {
            let header = |(name, value): &(Bytes, Option<Bytes>)| {
                json!([String::from_utf8_lossy(name), value.as_deref().map(header_value)])
            };
            object.insert("headers".to_owned(), self.headers.iter().map(header).collect());
        }
        if self.header_count > self.headers.len() {
            object.insert("headers_omitted".to_owned(), (self.header_count - self.headers.len()).into());
        }
        object.into()
    }
}

fn header_value(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

fn put(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (str::from_utf8(bytes), bytes)) {
        None => object.insert(name.to_owned(), Value::Null),
        Some((Ok(text), _)) => object.insert(name.to_owned(), text.into()),
        Some((Err(_), bytes)) => object.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

pub(crate) fn json_line(topic: &str, message: &Message, decoder: &Decoder) -> Bytes {
    format!("{}\n", message.json(topic, decoder)).into()
}
