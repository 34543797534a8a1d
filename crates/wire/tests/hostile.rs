//! Frames that were cut, and lengths that lie: an error, no panic, no memory taken for what is not there.

mod common;

use bytes::{BufMut, BytesMut};
use common::{Frame, Random, frames, recode_frame};

/// The frames that have every field.
fn filled() -> impl Iterator<Item = Frame> {
    frames(&["request", "response"]).into_iter().filter(|frame| frame.variant == "filled")
}

#[test]
fn every_truncation_is_an_error() {
    for frame in filled() {
        for end in 0..frame.bytes.len() {
            let cut = Frame { bytes: frame.bytes.slice(..end), ..frame.clone() };
            assert!(recode_frame(&cut).is_err(), "{} {} {} at {end}", frame.kind, frame.name, frame.version);
        }
    }
}

#[test]
fn lengths_that_lie_take_no_memory() {
    const LENGTHS: [&[u8]; 7] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0x80, 0, 0, 0],
        &[0x7f, 0xff],
        // The largest lengths in the flexible form.
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
    ];
    for frame in filled() {
        for position in 0..frame.bytes.len() {
            for length in LENGTHS {
                let mut bytes = BytesMut::from(&frame.bytes[..position]);
                bytes.put_slice(length);
                bytes.put_slice(frame.bytes.get(position + length.len()..).unwrap_or_default());
                let _ = recode_frame(&Frame { bytes: bytes.freeze(), ..frame.clone() });
            }
        }
    }
    assert!(peak_memory_kb() < 512 * 1024, "a claimed length was believed");
}

#[test]
fn what_is_read_can_be_written() {
    let mut random = Random(2);
    for frame in frames(&["request", "response"]) {
        for _ in 0..10 {
            let mut bytes = BytesMut::from(&frame.bytes[..]);
            for _ in 0..bytes.len().min(random.below(4) + 1) {
                let position = random.below(bytes.len());
                bytes[position] ^= 1 << random.below(8);
            }
            let flipped = Frame { bytes: bytes.freeze(), ..frame.clone() };
            // Unknown tagged fields are dropped, so the bytes may be others; from then on they stay the same.
            if let Ok(bytes) = recode_frame(&flipped) {
                let again = Frame { bytes: bytes.clone(), ..frame.clone() };
                assert_eq!(recode_frame(&again), Ok(bytes), "{} {} {}", frame.kind, frame.name, frame.version);
            }
        }
    }
}

/// The most memory that this process has held.
fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
