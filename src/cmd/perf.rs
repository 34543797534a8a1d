//! `parshall perf`: load on any Kafka, with the flags and the output of Kafka's own perf tools.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

mod concurrent_consumers;
mod consume;
mod disk;
mod e2e;
mod figures;
mod lines;
mod metrics;
mod net;
mod produce;
mod properties;
mod watch;

/// Put load on any Kafka and say what came of it.
///
/// produce, consume and e2e have the flags and the output of Kafka's own tools, so that a command from a runbook works
/// as it is. disk and net say beforehand what the machine can do at all.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Produce(produce::Args),
    Consume(consume::Args),
    E2e(e2e::Args),
    Disk(disk::Args),
    Net(net::Args),
}

/// What is printed: the lines of Kafka's tool, or [`figures`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Kafka,
    Table,
    Csv,
    Json,
}

#[derive(Debug, clap::Args)]
struct OutputFlags {
    /// What is printed: the lines of Kafka's tool, a table, CSV with lines of progress, or a JSON object
    #[arg(long, value_enum, default_value = "kafka", value_name = "kafka|table|csv|json", hide_possible_values = true)]
    output: Output,
    /// The same as --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl OutputFlags {
    fn kind(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Produce(args) => produce::run(args).await,
        Command::Consume(args) => consume::run(args).await,
        Command::Disk(args) => disk::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Net(args) => net::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::E2e(args) => e2e::run(args).await.map(|()| ExitCode::SUCCESS),
    }
}
