//! Measures what checking a produced batch costs: `cargo run --release -p parshall-wire --example validate`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use wire::batch::{Batch, BatchBuilder, Rules, crc, validate};
use wire::compress::Codec;

const NOW_MS: i64 = 1_700_000_000_000;

fn batch(codec: Codec, count: usize, value_bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new().compression(codec, None);
    for i in 0..count {
        // Bytes that compress to about a half.
        let value: Vec<u8> = (0..value_bytes).map(|j| ((i * 31 + j * j * 7 + j / 3) % 61) as u8).collect();
        builder.push(NOW_MS + i as i64, Some(&(i as u64).to_be_bytes()), Some(&value), &[]);
    }
    builder.build()
}

/// The shortest time of ten.
// The clock is what this measures with.
#[expect(clippy::disallowed_methods)]
fn best_of(mut work: impl FnMut()) -> Duration {
    const TIMES: u32 = 2000;
    let run = || {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        start.elapsed() / TIMES
    };
    std::iter::repeat_with(run).take(10).min().unwrap_or_default()
}

fn main() {
    let rules = Rules::default();
    let mut measured = vec![("1 record of 1 KiB".to_owned(), batch(Codec::None, 1, 1024))];
    for codec in Codec::ALL {
        measured.push((format!("16 KiB of 100-byte records, {}", codec.name()), batch(codec, 146, 100)));
    }
    for (name, batch) in measured {
        let whole = best_of(|| {
            black_box(validate(black_box(&batch.bytes), &rules, 9, NOW_MS)).expect("the batch is good");
        });
        let crc = best_of(|| {
            black_box(crc(black_box(&batch.bytes)));
        });
        let bytes = batch.bytes.len();
        println!("{name}: {bytes} bytes, {} records, {whole:?}, of which CRC {crc:?}", batch.header.record_count);
    }
}
