//! `parshall cluster`: a cluster on this machine to try things out, and how any cluster is.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[cfg(feature = "lab")]
mod layout;
#[cfg(feature = "lab")]
mod start;
mod status;

/// Start a cluster on this machine, and show how a cluster is.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "lab")]
    Start(start::Args),
    Status(status::Args),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        #[cfg(feature = "lab")]
        Command::Start(args) => start::run(args).await,
        Command::Status(args) => status::run(args).await,
    }
}
