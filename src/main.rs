//! `parshall`: the command line, and nothing else. One file per subcommand in `cmd/`.
//!
//! An error is one line on stderr: what failed, and what to do about it. The exit code is 1, or 2 for a mistake in the
//! command itself. That the reader of a pipe has gone is no error.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::filter::LevelFilter;

mod cmd;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Kafka-compatible event streaming broker, and the tools to use it.
///
/// Every tool works with any Kafka: name it with --bootstrap-server or PARSHALL_BOOTSTRAP_SERVER.
#[derive(Debug, Parser)]
#[command(name = "parshall", version, propagate_version = true, arg_required_else_help = true, max_term_width = 110)]
#[command(after_help = "\
Start here:
  parshall serve
  parshall topic create orders --partitions 3
  echo 'hello' | parshall produce orders
  parshall consume orders --from-beginning")]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cmd::failure::usage(&error),
    };
    if let Err(reason) = start_logging(cli.command.default_log_level()) {
        return cmd::failure::report(&reason);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cmd::failure::report(&anyhow::Error::from(error).context("cannot start the threads")),
    };
    let result = runtime.block_on(cmd::run(cli.command));
    // What still waits, on a broker or on stdin, is not waited for.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => cmd::failure::report(&error),
    }
}

/// Logs go to stderr, at the level in PARSHALL_LOG.
fn start_logging(default: LevelFilter) -> anyhow::Result<()> {
    let level = match std::env::var("PARSHALL_LOG") {
        Ok(text) => text.parse().map_err(|_| {
            cmd::failure::Usage(format!("PARSHALL_LOG is {text:?}; it takes off, error, warn, info, debug or trace"))
        })?,
        Err(_) => default,
    };
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(is_terminal).init();
    Ok(())
}
