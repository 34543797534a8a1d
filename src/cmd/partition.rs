//! `parshall partition`: who leads partitions, who writes to them, which brokers have them, and whether those have the
//! same.

use anyhow::Result;
use clap::Subcommand;

mod elect;
mod producers;
mod reassign;
mod verify_replicas;

/// Elect leaders of partitions, move partitions to other brokers, compare replicas, and show producers.
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
    VerifyReplicas(verify_replicas::VerifyReplicas),
    Producers(producers::Producers),
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Elect(args) => elect::run(args).await,
        Command::Reassign(args) => reassign::run(args).await,
        Command::Reassignments(args) => reassign::list(args).await,
        Command::VerifyReplicas(args) => verify_replicas::run(args).await,
        Command::Producers(args) => producers::run(args).await,
    }
}
