//! `parshall`: the command line, and nothing else. One file per subcommand in `cmd/`.
//!
//! An error is one line on stderr: what failed, and what to do about it. The exit code is 1, or 2 for a mistake in the
//! command itself. That the reader of a pipe has gone is no error.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod cmd;
mod logging;
mod push;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Kafka-compatible event streaming broker, and the tools to use it.
///
/// Every tool works with any Kafka: name it with --bootstrap-server or PARSHALL_BOOTSTRAP_SERVER.
#[derive(Debug, Parser)]
#[command(name = "parshall", version, long_version = env!("VERSION_WITH_COMMIT"), propagate_version = true, arg_required_else_help = true, max_term_width = 110)]
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

/// The command line, for those who describe it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next();
    let words = cmd::kafka_forms::translated(words.collect());
    let cli = match Cli::try_parse_from(program.iter().chain(&words)) {
        Ok(cli) => cli,
        Err(error) => return cmd::failure::usage(&error, &command(), &words),
    };
    let loggers = match logging::start(cli.command.default_log_level()) {
        Ok(loggers) => loggers,
        Err(reason) => return cmd::failure::report(&reason),
    };
    // One thread is always left to others while the rest stand in writes to the disk.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).max(2);
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cmd::failure::report(&anyhow::Error::from(error).context("cannot start the threads")),
    };
    let result = runtime.block_on(cmd::run(cli.command, loggers));
    // What still waits, on a broker or on stdin, is not waited for.
    runtime.shutdown_background();
    match result {
        Ok(code) => code,
        Err(error) => cmd::failure::report(&error),
    }
}
