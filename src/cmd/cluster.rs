//! `parshall cluster`: a cluster on this machine to try things out, how any cluster is, nodes that leave it, and its
//! feature levels.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

#[cfg(feature = "lab")]
mod layout;
mod remove_node;
#[cfg(feature = "lab")]
mod secure;
#[cfg(feature = "lab")]
mod start;
mod status;
mod upgrade;

/// Start a cluster on this machine, show how a cluster is, remove nodes from it, and raise its feature levels.
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
    RemoveNode(remove_node::Args),
    Upgrade(upgrade::Args),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        #[cfg(feature = "lab")]
        Command::Start(args) => start::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::RemoveNode(args) => remove_node::run(args).await,
        Command::Upgrade(args) => upgrade::run(args).await,
    }
}
