//! The bodies of the fuzz targets, on seeds: noise, and real frames with a few bytes changed.

mod common;

#[path = "../../../fuzz/bodies/batch.rs"]
mod batch;
#[path = "../../../fuzz/bodies/decompress.rs"]
mod decompress;
#[path = "../../../fuzz/bodies/request.rs"]
mod request;
#[path = "../../../fuzz/bodies/stored.rs"]
mod stored;

use bytes::BufMut;
use common::{Random, frames, key};
use wire::batch::{Batch, BatchBuilder};
use wire::compress::Codec;

fn noise(random: &mut Random) -> Vec<u8> {
    let length = random.below(200);
    (0..length).map(|_| random.next() as u8).collect()
}

/// Changes, removes or doubles a few bytes.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let position = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => bytes.truncate(position),
            1 => bytes.insert(position, random.next() as u8),
            2 if position < bytes.len() => drop(bytes.remove(position)),
            3 => bytes.splice(position..position, noise(random)).for_each(drop),
            _ if position < bytes.len() => bytes[position] ^= 1 << random.below(8),
            _ => {}
        }
    }
}

#[test]
fn requests() {
    let mut random = Random(3);
    for frame in frames(&["request"]) {
        for _ in 0..10 {
            let mut bytes = Vec::new();
            bytes.put_i16(key(frame.name));
            bytes.put_i16(frame.version);
            bytes.put_i32(1);
            bytes.put_i16(-1);
            if wire::api::find(key(frame.name)).unwrap().flexible(frame.version) {
                bytes.put_u8(0);
            }
            bytes.put_slice(&frame.bytes);
            mutate(&mut random, &mut bytes);
            request::run(&bytes);
        }
        request::run(&noise(&mut random));
    }
}

/// Batches of every codec, with records of many shapes.
fn batches(random: &mut Random) -> Vec<Batch> {
    let mut batches = Vec::new();
    for codec in Codec::ALL {
        for count in [1, 2, 20] {
            let mut builder = BatchBuilder::new().compression(codec, None);
            for _ in 0..count {
                let (key, value) = (noise(random), noise(random));
                let timestamp = 1_700_000_000_000 + random.below(1000) as i64;
                let key = (random.below(3) > 0).then_some(&key[..]);
                builder.push(
                    timestamp,
                    key,
                    (random.below(3) > 0).then_some(&value),
                    &[(b"h", None), (b"h", Some(&value))],
                );
            }
            batches.push(builder.build());
        }
    }
    batches
}

#[test]
fn produced_batches() {
    let mut random = Random(4);
    for _ in 0..100 {
        for good in batches(&mut random) {
            for _ in 0..4 {
                let mut bytes = vec![random.next() as u8];
                bytes.put_slice(&good.bytes);
                let mut body = bytes.split_off(1 + random.below(62));
                mutate(&mut random, &mut body);
                bytes.append(&mut body);
                batch::run(&bytes);
            }
        }
        batch::run(&noise(&mut random));
    }
}

#[test]
fn compressed_sections() {
    let mut random = Random(5);
    for _ in 0..100 {
        for good in batches(&mut random) {
            let codec = good.header.attributes.compression() as u8;
            for _ in 0..4 {
                let mut section = good.section().to_vec();
                mutate(&mut random, &mut section);
                let mut bytes = vec![codec, random.next() as u8];
                bytes.append(&mut section);
                decompress::run(&bytes);
            }
        }
        decompress::run(&noise(&mut random));
    }
}

#[test]
fn stored_records() {
    let mut random = Random(6);
    for frame in frames(&["metadata", "stored"]) {
        for _ in 0..100 {
            let mut bytes = Vec::new();
            if frame.kind == "stored" {
                bytes.put_i16(frame.version);
            }
            bytes.put_slice(&frame.bytes);
            mutate(&mut random, &mut bytes);
            stored::run(&bytes);
        }
        stored::run(&noise(&mut random));
    }
}
