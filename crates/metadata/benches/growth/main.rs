//! How the metadata's costs grow with partitions and brokers: one table, each of its rows measured in a process of its
//! own, so that the memory of one is not that of another.
//!
//! `cargo bench -p parshall-metadata --bench growth -- [name=value ...]`, for example with
//! `partitions=1000,10000,100000,1000000 brokers=3,30,100 per-topic=10`. It takes a minute or two, and 2 GiB of memory
//! at 1,000,000 partitions. Nothing is written to a disk or sent: what a quorum adds to these figures is a sync for
//! each entry, and the bytes of a snapshot, which each node writes twice.

mod cluster;

use std::process::{Command, ExitCode};
use std::time::Duration;

use cluster::{Cluster, REPLICAS, batch_of, memory_bytes, new_leaders};
use metadata::changes::RECORDS_MAX;

const COLUMNS: [&str; 18] = [
    "brokers",
    "partitions",
    "replay, s",
    "image, MiB",
    "topic: decide, us",
    "topic: apply, us",
    "ISR: decide, us",
    "ISR: apply, us",
    "failure: records",
    "failure: new leaders",
    "failure: decide, ms",
    "failure: KiB",
    "failure: apply, ms",
    "snapshot, MiB",
    "snapshot: write, ms",
    "snapshot: load, ms",
    "peak, MiB",
    "heartbeat, B",
];

struct Options {
    partitions: Vec<usize>,
    brokers: Vec<usize>,
    per_topic: usize,
    /// Measures one row and prints it: what this program asks of itself.
    is_row: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        partitions: vec![1_000, 10_000, 100_000, 1_000_000],
        brokers: vec![3, 30, 100],
        per_topic: 10,
        is_row: false,
    };
    // Cargo adds `--bench`.
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        let (name, value) = argument.split_once('=').ok_or(format!("{argument}: say it as name=value"))?;
        let numbers = value.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let numbers = numbers.map_err(|_| format!("{name} takes numbers, with commas between them"))?;
        let [first, ..] = numbers[..] else { return Err(format!("{name} takes a number")) };
        match name {
            "partitions" => options.partitions = numbers,
            "brokers" => options.brokers = numbers,
            "per-topic" => options.per_topic = first,
            "row" => options.is_row = first == 1,
            _ => return Err(format!("no option {name}; there are partitions, brokers and per-topic")),
        }
    }
    let is_possible = |count: &usize| (1..=10_000_000).contains(count);
    if !options.partitions.iter().all(is_possible) || !(1..RECORDS_MAX).contains(&options.per_topic) {
        return Err("there are 1 to 10,000,000 partitions, and less than 10,000 in a topic".to_owned());
    }
    if !options.brokers.iter().all(|count| (REPLICAS..=1000).contains(count)) {
        return Err(format!("there are {REPLICAS} to 1,000 brokers"));
    }
    Ok(options)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let options = options()?;
    if !options.is_row {
        return print_table(&options);
    }
    print_row(&options);
    Ok(())
}

fn print_table(options: &Options) -> Result<(), String> {
    println!("| {} |", COLUMNS.join(" | "));
    println!("|{}", " ---: |".repeat(COLUMNS.len()));
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    for partitions in &options.partitions {
        for brokers in &options.brokers {
            let arguments = [("partitions", *partitions), ("brokers", *brokers), ("per-topic", options.per_topic)];
            let arguments = arguments.iter().chain(&[("row", 1)]).map(|(name, value)| format!("{name}={value}"));
            let status = Command::new(&program).args(arguments).status().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{partitions} partitions on {brokers} brokers: {status}"));
            }
        }
    }
    Ok(())
}

fn print_row(options: &Options) {
    let (partitions, brokers) = (options.partitions[0], options.brokers[0]);
    let cluster = Cluster::build(partitions, brokers, options.per_topic);
    let create = cluster.create_topic(options.per_topic);
    let shrink = cluster.shrink_isr();
    let failure = cluster.fail_broker();
    let (snapshot, write) = cluster.write_snapshot();
    let load = cluster.load_snapshot(&snapshot);
    let figures = [
        brokers.to_string(),
        partitions.to_string(),
        format!("{:.2}", cluster.replay.as_secs_f64()),
        format!("{:.1}", mib(cluster.image_bytes)),
        format!("{:.0}", us(create.decide)),
        format!("{:.0}", us(create.apply)),
        format!("{:.1}", us(shrink.decide)),
        format!("{:.0}", us(shrink.apply)),
        failure.records.len().to_string(),
        new_leaders(&failure.records).to_string(),
        format!("{:.1}", us(failure.decide) / 1000.0),
        format!("{:.0}", batch_of(&failure.records).len() as f64 / 1024.0),
        format!("{:.1}", us(failure.apply) / 1000.0),
        format!("{:.2}", mib(snapshot.iter().map(|batch| batch.len() as u64).sum())),
        format!("{:.0}", us(write) / 1000.0),
        format!("{:.0}", us(load) / 1000.0),
        format!("{:.0}", mib(memory_bytes("VmHWM:"))),
        cluster.heartbeat_bytes().to_string(),
    ];
    println!("| {} |", figures.join(" | "));
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
