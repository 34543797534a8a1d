//! `parshall lab`: scenarios, run on one Kafka or several, with results one can trust.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

pub(super) mod capacity;
pub(super) mod compare;
mod display;
mod history;
mod live;
pub(super) mod outlook;
pub(super) mod past_runs;
pub(super) mod plan;
mod progress;
pub(super) mod progress_file;
mod run;
pub(super) mod source;
mod target;

/// Run scenarios and the suites of published reports on any Kafka, and report what limited them.
///
/// A scenario is a TOML file with cases; a case whose keys hold lists is run for every combination. Results are one
/// JSON file for each case and one HTML page.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Start here:
  parshall lab run quick
  parshall lab list
  parshall lab plan huawei-dms
  parshall lab run huawei-dms --target embedded --target kafka --kafka-home /opt/kafka --repeat 3")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    List(plan::List),
    Show(plan::Show),
    Plan(plan::Args),
    Capacity(capacity::Args),
    Report(run::Report),
    Compare(compare::Args),
    History(history::Args),
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args).await,
        Command::List(args) => plan::list(&args).map(|()| ExitCode::SUCCESS),
        Command::Show(args) => plan::show(&args).map(|()| ExitCode::SUCCESS),
        Command::Plan(args) => plan::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Capacity(args) => capacity::run(args).await,
        Command::Report(args) => run::report(&args).map(|()| ExitCode::SUCCESS),
        Command::Compare(args) => compare::run(&args),
        Command::History(args) => history::run(&args).map(|()| ExitCode::SUCCESS),
    }
}
