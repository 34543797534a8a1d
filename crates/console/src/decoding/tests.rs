//! Bytes that nobody has written: whatever they are, they are decoded or refused, within their bounds.

use std::time::Duration;

use super::avro::AvroSchema;
use super::protobuf::ProtobufSchema;
use super::structure::{DecodeError, Structure};
use super::*;
use crate::http_source::HttpUrl;
use crate::schema_registry::SchemaRegistry;

const CASES: usize = 5_000;

/// The same numbers every time.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        // Small ones, and those that claim much, are met more often.
        match self.below(4) {
            0 => u8::try_from(self.below(16)).unwrap(),
            1 => [0xff, 0x80, 0xfe, 0x7f, 0xdd, 0xdf, 0xdb, 0x91][self.below(8)],
            _ => u8::try_from(self.below(256)).unwrap(),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(200)).map(|_| self.byte()).collect()
    }

    /// Some bytes of a valid value are others, gone, or there twice.
    fn mutated(&mut self, valid: &[u8]) -> Vec<u8> {
        let mut bytes = valid.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len().max(1)).min(bytes.len());
            match self.below(4) {
                0 if at < bytes.len() => _ = bytes.remove(at),
                1 => bytes.insert(at, self.byte()),
                2 => bytes.truncate(at),
                _ if at < bytes.len() => bytes[at] = self.byte(),
                _ => bytes.extend_from_within(..),
            }
        }
        bytes
    }
}

/// What comes of it can be shown, and its text is no longer than a value may be.
fn stays_within_bounds(decode: impl Fn(&[u8]) -> Result<Structure, DecodeError>, valid: &[u8], seed: u64) {
    let mut seeded = Seeded(seed);
    assert!(decode(valid).is_ok());
    let mut decoded = 0;
    for case in 0..CASES {
        let bytes = if case % 2 == 0 { seeded.bytes() } else { seeded.mutated(valid) };
        if let Ok(structure) = decode(&bytes) {
            decoded += 1;
            let json = serde_json::to_string(&structure).unwrap();
            assert!(json.len() < 64 * 1024 * 1024, "{bytes:?}");
        }
    }
    assert!(decoded > 0, "some of them are valid");
}

#[test]
fn any_bytes_are_messagepack_or_refused() {
    let valid = b"\x84\xa2id\xcd\x01\x00\xa4name\xa3abc\xa4tags\x93\xa1a\xa1b\x81\xa1c\xc0\xa3bin\xc4\x03\x01\x02\x03";
    stays_within_bounds(messagepack::decode, valid, 7);
}

#[test]
fn any_bytes_are_avro_or_refused() {
    let schema = r#"{"type":"record","name":"Node","fields":[
        {"name":"id","type":"long"},{"name":"name","type":["null","string"]},{"name":"nulls","type":{"type":"array","items":"null"}},
        {"name":"inner","type":{"type":"array","items":"Node"}},{"name":"more","type":{"type":"map","values":["null","Node"]}},
        {"name":"amount","type":{"type":"bytes","logicalType":"decimal","scale":2}}]}"#;
    let schema = AvroSchema::parse(schema, &[]).unwrap();
    let node = |inner: &[u8]| [b"\x0e\x02\x06abc\x04\0", inner, b"\x02\x02k\0\0\x04\x01\x02"].concat();
    let valid = node(&[b"\x02".as_slice(), &node(b"\0"), b"\0"].concat());
    stays_within_bounds(|bytes| schema.decode(bytes), &valid, 11);
}

#[test]
fn any_bytes_are_protobuf_or_refused() {
    let schema = "syntax = \"proto3\"; import \"google/protobuf/struct.proto\"; message Node { int64 id = 1; string name = 2; \
                  repeated Node inner = 3; map<int32, Node> more = 4; repeated sint64 counts = 5; google.protobuf.Value any = 6; }";
    let schema = ProtobufSchema::parse(schema, &[]).unwrap();
    let valid = b"\0\x08\x07\x12\x03abc\x1a\x04\x08\x01\x12\0\x22\x06\x08\x05\x12\x02\x08\x01\x2a\x03\x01\x02\x03\x32\x05\x1a\x03xyz";
    stays_within_bounds(|bytes| schema.decode(bytes), valid, 13);
}

#[test]
fn what_begins_as_serializers_do_names_a_schema() {
    assert_eq!(framed(b"\0\0\0\0\x11rest"), Some((17, b"rest".as_slice())));
    assert_eq!(framed(b"\0\0\0\0\x11"), Some((17, b"".as_slice())));
    for bytes in [b"".as_slice(), b"\0\0\0\x11", b"\x01\0\0\0\x11", b"\0\0\0\0\0x", b"\0\xff\xff\xff\xffx"] {
        assert_eq!(framed(bytes), None);
    }
}

#[test]
fn what_cannot_be_decoded_is_shown_as_it_is_with_the_reason() {
    let of = |show| Decoder::new(None, show);
    let packed = of(Show::MessagePack);
    assert_eq!(packed.beginning(Some(b"\x81\xa1a\x07")).text, "{\"a\": 7}");
    let shown = packed.full(Some(b"\x81\xa1a\x07"));
    assert_eq!((shown.text.as_str(), shown.note.as_deref()), ("{\n  \"a\": 7\n}", Some("Decoded as MessagePack.")));
    assert_eq!(packed.full(Some(b"\xa3abc")).text, "abc");
    let refused = packed.beginning(Some(b"abc"));
    assert_eq!(
        (refused.text.as_str(), refused.note.as_deref()),
        ("abc", Some("not decoded: it goes on behind its end, at byte 1"))
    );
    assert_eq!(packed.beginning(None), beginning(None, Show::Text));
    let none = of(Show::Avro).full(Some(b"\0\0\0\0\x11\x0e"));
    assert!(none.note.unwrap().starts_with("It is not decoded: no schema registry is known here"));
    // Without a registry nothing looks for schemas.
    assert!(of(Show::Auto).decode(b"\0\0\0\0\x11\x0e").is_none());
    assert_eq!(of(Show::Auto).full(Some(b"{\"a\":1}")).text, "{\n  \"a\": 1\n}");
    assert!(of(Show::MessagePack).beginning(Some(&[0x91; 2 << 20])).note.unwrap().contains("more than 1 MiB"));
}

#[tokio::test]
async fn a_registry_that_is_gone_is_the_reason() {
    let url: HttpUrl = "http://127.0.0.1:1".parse().unwrap();
    let schemas = Arc::new(Schemas::new(Arc::new(SchemaRegistry::new(url))));
    let decoder = Decoder::new(Some(schemas), Show::Auto);
    let value = b"\0\0\0\0\x11\x0e".as_slice();
    let waited = decoder.decode(value).unwrap().unwrap_err();
    assert_eq!(waited, "schema 17 has not been looked for: there was no time");
    decoder.prepare([value], Instant::now() + Duration::from_secs(30)).await;
    let reason = "the schema registry at 127.0.0.1:1 cannot be asked: nobody listens there";
    assert_eq!(decoder.decode(value).unwrap().unwrap_err(), reason);
    let mut object = Map::new();
    decoder.put(&mut object, "value", Some(value));
    assert_eq!(Value::from(object), serde_json::json!({ "value_error": reason }));
}
