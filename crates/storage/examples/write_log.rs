//! Writes a log into a directory, for Kafka's own tools to read:
//! `cargo run -p parshall-storage --example write_log -- /tmp/topic-0`.

use std::sync::Arc;

use storage::{Log, LogConfig, Now, Origin, RealDisk};
use wire::Uuid;
use wire::batch::BatchBuilder;
use wire::compress::Codec;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("which directory?")?;
    let config = LogConfig { segment_bytes: 64 * 1024, ..LogConfig::default() };
    let now = |ms| Now { wall_ms: 1_700_000_000_000 + ms, monotonic_ms: ms };
    let topic_id = Uuid::from_random([7; 16]);
    let (mut log, report) = Log::create(Arc::new(RealDisk), dir.into(), config, topic_id, now(0))?;
    println!("{report:?}");
    let mut sequence = 0;
    for n in 0..400i64 {
        let codec = Codec::ALL[n as usize % Codec::ALL.len()];
        let mut builder = BatchBuilder::new().compression(codec, None).producer(4711, 2, sequence);
        for record in 0..3 {
            let value = format!("value {n} {record} {}", "x".repeat(200));
            builder.push(now(n).wall_ms, Some(b"key"), Some(value.as_bytes()), &[(b"header", Some(b"yes"))]);
        }
        sequence += 3;
        for result in log.append(&[builder.build()], Origin::Client, n as i32 / 100, now(n))? {
            result?;
        }
    }
    println!("closed at {}", log.close()?);
    Ok(())
}
