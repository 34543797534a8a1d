//! The published codec as a second opinion, in every version that it knows: frames with random values must come out of
//! both the same.

mod common;

use bytes::{Bytes, BytesMut};
use common::{Frame, Random, frames, key, recode_frame};
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseKind};

/// Reads and writes a body with the oracle. `None` where it does not know the version.
fn recode_oracle(frame: &Frame, bytes: &Bytes) -> Option<Result<Bytes, String>> {
    let key = ApiKey::try_from(key(frame.name)).ok()?;
    let (mut input, mut out) = (bytes.clone(), BytesMut::new());
    let coded = match frame.kind {
        "request" => {
            RequestKind::decode(key, &mut input, frame.version).and_then(|m| m.encode(&mut out, frame.version))
        }
        _ => ResponseKind::decode(key, &mut input, frame.version).and_then(|m| m.encode(&mut out, frame.version)),
    };
    match coded {
        Ok(()) => Some(Ok(out.freeze())),
        Err(error) if format!("{error:#}").contains("version not supported") => None,
        Err(error) => Some(Err(format!("{error:#}"))),
    }
}

#[test]
fn both_agree_on_random_values() {
    let mut random = Random(1);
    let mut compared = 0;
    for frame in frames(&["request", "response"]) {
        for round in 0..100 {
            let mut bytes = BytesMut::from(&frame.bytes[..]);
            // The first round is the frame as Kafka wrote it.
            for _ in 0..bytes.len().min(if round == 0 { 0 } else { 1 + random.below(5) }) {
                let position = random.below(bytes.len());
                bytes[position] = random.next() as u8;
            }
            let mutated = Frame { bytes: bytes.freeze(), ..frame.clone() };
            // The oracle is only shown what is well-formed: it trusts lengths.
            let Ok(ours) = recode_frame(&mutated) else { continue };
            let Some(theirs) = recode_oracle(&frame, &ours) else { continue };
            assert_eq!(theirs.as_ref(), Ok(&ours), "{} {} {}", frame.kind, frame.name, frame.version);
            compared += 1;
        }
    }
    assert!(compared > 20_000, "only {compared} were compared");
}
