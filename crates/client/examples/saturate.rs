//! Finds a broker's limit: sends one Produce frame, built once, over and over on pipelined connections.
//!
//! `cargo run --release -p parshall-client --example saturate -- [HOST:PORT] [TOPIC] [name=value ...]`
//! with `connections=4 partitions=4 batch=16384 record=100 depth=16 acks=1 seconds=10`. The topic must exist, with
//! that many partitions. `sink=PORT` runs the other side instead: a server that checks the CRC of what it gets, writes
//! it to a file in the current directory and answers with 4 bytes. It is what a broker that does nothing else would
//! cost.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use wire::Records;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::batch::{Attributes, BatchHeader, HEADER_BYTES, MAGIC};

/// Names topics, not ids: no look-up is needed before it.
const VERSION: i16 = 9;

struct Options {
    address: String,
    topic: String,
    connections: usize,
    partitions: usize,
    batch: usize,
    record: usize,
    depth: usize,
    acks: i16,
    seconds: u64,
    sink: Option<u16>,
}

fn options() -> Options {
    let mut options = Options {
        address: "127.0.0.1:9092".into(),
        topic: "saturate".into(),
        connections: 4,
        partitions: 4,
        batch: 16384,
        record: 100,
        depth: 16,
        acks: 1,
        seconds: 10,
        sink: None,
    };
    let mut words = Vec::new();
    for argument in std::env::args().skip(1) {
        let Some((name, value)) = argument.split_once('=') else {
            words.push(argument);
            continue;
        };
        let number: u64 = value.parse().unwrap_or_else(|_| panic!("{name} takes a number"));
        match name {
            "connections" => options.connections = number as usize,
            "partitions" => options.partitions = number as usize,
            "batch" => options.batch = number as usize,
            "record" => options.record = number as usize,
            "depth" => options.depth = number as usize,
            "acks" => options.acks = if number > 1 { -1 } else { number as i16 },
            "seconds" => options.seconds = number,
            "sink" => options.sink = Some(number as u16),
            _ => panic!("no option {name}"),
        }
    }
    let mut words = words.into_iter();
    options.address = words.next().unwrap_or(options.address);
    options.topic = words.next().unwrap_or(options.topic);
    options
}

fn main() {
    let options = options();
    match options.sink {
        Some(port) => sink(port),
        None => load(&options),
    }
}

/// A batch of equal records of `record` bytes, and how many there are.
fn batch(options: &Options) -> (Bytes, u64) {
    let mut records = Vec::new();
    let mut count = 0;
    while count == 0 || records.len() + options.record + HEADER_BYTES < options.batch {
        let mut body = vec![0, 0];
        varint(&mut body, count);
        varint(&mut body, -1);
        varint(&mut body, options.record as i64);
        body.extend((0..options.record).map(|i| b'a' + (i % 26) as u8));
        body.push(0);
        varint(&mut records, body.len() as i64);
        records.extend(body);
        count += 1;
    }
    let mut header = BatchHeader {
        base_offset: 0,
        length: (HEADER_BYTES - 12 + records.len()) as i32,
        partition_leader_epoch: -1,
        magic: MAGIC,
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: count as i32 - 1,
        base_timestamp: 1,
        max_timestamp: 1,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count as i32,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend(records);
    header.crc = wire::batch::crc(&bytes);
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    (bytes.into(), count as u64)
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[allow(clippy::disallowed_methods)]
fn load(options: &Options) {
    let (batch, records) = batch(options);
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..options.connections {
            let (batch, stop, sent) = (batch.clone(), &stop, &sent);
            scope.spawn(move || {
                if let Err(error) = connection(options, n % options.partitions, batch, stop, sent) {
                    eprintln!("{}: {error}", options.address);
                    std::process::exit(1);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(options.seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let seconds = started.elapsed().as_secs_f64();
    let requests = sent.load(Ordering::Relaxed) as f64;
    println!(
        "{:.0} requests/s, {:.0} records/s, {:.1} MiB/s",
        requests / seconds,
        requests * records as f64 / seconds,
        requests * batch.len() as f64 / seconds / 1048576.0
    );
}

fn connection(
    options: &Options,
    partition: usize,
    batch: Bytes,
    stop: &AtomicBool,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    let partition = PartitionProduceData { index: partition as i32, records: Some(Records::Inline(batch)) };
    let topic = TopicProduceData { name: options.topic.clone(), partition_data: vec![partition], ..Default::default() };
    let request =
        ProduceRequest { acks: options.acks, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
    let mut frame = BytesMut::new();
    wire::frame::write_request(&mut frame, VERSION, 7, "saturate", &request);

    let mut stream = TcpStream::connect(&options.address)?;
    stream.set_nodelay(true)?;
    let mut in_flight = 0;
    let mut answer = vec![0; 4096];
    while !stop.load(Ordering::Relaxed) || in_flight > 0 {
        let fresh = if stop.load(Ordering::Relaxed) { 0 } else { options.depth - in_flight };
        for _ in 0..fresh {
            stream.write_all(&frame)?;
        }
        in_flight += fresh;
        stream.read_exact(&mut answer[..4])?;
        let length = i32::from_be_bytes([answer[0], answer[1], answer[2], answer[3]]) as usize;
        if length > 0 {
            stream.read_exact(&mut answer[..length])?;
            check(&answer[..length], options.topic.len());
        }
        in_flight -= 1;
        sent.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The error code stands behind the header, the name of the topic and the partition's number.
fn check(answer: &[u8], topic_bytes: usize) {
    let position = 4 + 1 + 1 + (1 + topic_bytes) + 1 + 4;
    let code = i16::from_be_bytes([answer[position], answer[position + 1]]);
    assert_eq!(code, 0, "the broker refused a batch");
}

#[allow(clippy::disallowed_methods)]
fn sink(port: u16) {
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    for (n, stream) in listener.incoming().enumerate() {
        std::thread::spawn(move || {
            let mut stream = stream.expect("the connection is good");
            let mut file = std::fs::File::create(format!("sink-{n}")).expect("the directory is writable");
            let mut buffer = vec![0; 1 << 20];
            let mut filled = 0;
            loop {
                let mut position = 0;
                let mut answers = Vec::new();
                while let Some(prefix) = buffer[position..filled].first_chunk::<4>() {
                    let end = position + 4 + u32::from_be_bytes(*prefix) as usize;
                    if end > filled {
                        break;
                    }
                    std::hint::black_box(crc32c(&buffer[position..end]));
                    answers.extend([0; 4]);
                    position = end;
                }
                file.write_all(&buffer[..position]).expect("the disk takes it");
                stream.write_all(&answers).expect("the peer takes the answer");
                buffer.copy_within(position..filled, 0);
                filled -= position;
                match stream.read(&mut buffer[filled..]) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => filled += read,
                }
            }
        });
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    wire::batch::crc(bytes)
}
