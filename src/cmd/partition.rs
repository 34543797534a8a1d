//! `parshall partition`: who leads partitions, and which brokers have them.

use anyhow::Result;
use clap::Subcommand;

mod elect;
mod reassign;

/// Elect leaders of partitions, and move partitions to other brokers.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Elect(elect::Elect),
    Reassign(reassign::Reassign),
    Reassignments(reassign::List),
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Elect(args) => elect::run(args).await,
        Command::Reassign(args) => reassign::run(args).await,
        Command::Reassignments(args) => reassign::list(args).await,
    }
}
