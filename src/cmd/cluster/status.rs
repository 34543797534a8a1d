//! `parshall cluster status`: whether a cluster is well, in one line, and what that is made of. The exit status says
//! the same to a script.

use std::process::ExitCode;

use anyhow::Result;
use client::Client;

use crate::cmd::args::Connection;
use crate::cmd::output;

mod facts;
mod judge;
mod text;

use facts::{ANSWER_MAX, Facts};
use judge::Status;

/// Partitions that are shown without --all.
const LISTED_MAX: usize = 20;
const UNHEALTHY: u8 = 1;

/// Show how a cluster is: quorum, brokers, partitions.
///
/// The first line says whether it is well, and what is wrong where it is not: the quorum has no leader or does not
/// answer, a voter is behind, a broker is fenced or does not answer, partitions have no leader, or fewer replicas in
/// the ISR than they have. A partition that is just at min.insync.replicas, or has a non-preferred leader, is counted
/// and nothing is wrong with that.
///
/// Exits with 0 when the cluster is healthy, and with 1 when it is not or cannot be asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall cluster status
  parshall cluster status --bootstrap-server kafka-1:9092,kafka-2:9092 --all
  parshall cluster status --json | jq '.problems'
  until parshall cluster status >/dev/null; do sleep 1; done")]
pub(super) struct Args {
    /// List all partitions with which something is wrong, not only the first 20
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let mut config = args.connection.unconnected("cluster")?.config().clone();
    config.connection.connect_timeout = ANSWER_MAX;
    let facts = Facts::gather(&Client::new(config.clone()), &Client::new(config)).await?;
    let status = Status::of(&facts, if args.all { usize::MAX } else { LISTED_MAX });
    if args.json {
        output::print_json(&status)?;
    } else {
        output::print(&text::render(&status))?;
    }
    Ok(if status.is_healthy { ExitCode::SUCCESS } else { ExitCode::from(UNHEALTHY) })
}
