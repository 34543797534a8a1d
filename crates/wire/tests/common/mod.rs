//! The frames that Apache Kafka made (frames/Frames.java), and what the tests do with them.

// Every test file uses its own part of this.
#![allow(dead_code)]

use bytes::{Bytes, BytesMut};
use wire::api::{self, Request, Visitor};
use wire::{Reader, Wire, Writer};

/// The keys that Kafka does not know: tests/own.rs has their frames.
pub(crate) const OWN: [i16; 7] = [121, 122, 123, 124, 125, 126, 127];

/// A line of frames.txt.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: &'static str,
    pub(crate) name: &'static str,
    pub(crate) version: i16,
    pub(crate) variant: &'static str,
    pub(crate) bytes: Bytes,
}

pub(crate) fn frames(kinds: &[&str]) -> Vec<Frame> {
    let frames: Vec<_> = include_str!("../frames/frames.txt").lines().map(parse).collect();
    let frames: Vec<_> = frames.into_iter().filter(|frame| kinds.contains(&frame.kind)).collect();
    assert!(!frames.is_empty());
    frames
}

fn parse(line: &'static str) -> Frame {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap();
    let (kind, name, version, variant, hex) = (word(), word(), word().parse().unwrap(), word(), word());
    let bytes = (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap());
    Frame { kind, name, version, variant, bytes: bytes.collect() }
}

/// What is written after a body has been read. `Err` is how reading failed.
pub(crate) fn recode<T: Wire>(bytes: &Bytes, version: i16, flexible: bool) -> wire::codec::Result<Bytes> {
    let mut r = Reader::new(bytes, version, flexible);
    let message = T::read(&mut r)?;
    r.finish()?;
    let mut out = BytesMut::new();
    message.write(&mut Writer::new(&mut out, version, flexible));
    Ok(out.freeze())
}

/// Reads a frame of a request or a response and writes it again.
pub(crate) fn recode_frame(frame: &Frame) -> wire::codec::Result<Bytes> {
    struct Recode<'a>(&'a Frame);

    impl Visitor for Recode<'_> {
        type Output = wire::codec::Result<Bytes>;

        fn visit<R: Request>(self) -> Self::Output {
            let Frame { kind, version, bytes, .. } = self.0;
            let flexible = R::API.flexible(*version);
            match *kind {
                "request" => recode::<R>(bytes, *version, flexible),
                _ => recode::<R::Response>(bytes, *version, flexible),
            }
        }
    }

    api::visit(key(frame.name), Recode(frame)).unwrap()
}

pub(crate) fn key(name: &str) -> i16 {
    api::TABLE.iter().find(|api| api.name == name).unwrap().key
}

/// Pseudo-random numbers, the same for the same seed (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}
