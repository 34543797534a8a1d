//! `parshall transaction`: what transactions there are, and ending those that nobody ends.

use anyhow::Result;
use clap::Subcommand;
use client::{ClientError, TransactionFilter};
use serde::Serialize;
use serde_json::json;

use super::args::{self, Connection};
use super::failure;
use super::output;
use super::table::{Column, table};
use super::time;

mod abort;
mod describe;
mod find_hanging;

/// List, describe and abort transactions, and find those that nobody will end.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Describe(describe::Describe),
    FindHanging(find_hanging::FindHanging),
    Abort(abort::Abort),
    Terminate(Terminate),
}

/// List transactional ids with the states of their transactions.
///
/// An id stays for a week after its last transaction (transactional.id.expiration.ms). Ongoing is a transaction that
/// its producer has not ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall transaction list
  parshall transaction list --state Ongoing --duration-filter 5m
  parshall transaction list --transactional-id-pattern 'billing-.*' --json")]
struct List {
    /// Only those that run for longer: milliseconds, or a time like 5m
    #[arg(long, value_name = "TIME", value_parser = duration_ms, allow_negative_numbers = true)]
    duration_filter: Option<i64>,
    /// A regular expression, which has to match the whole transactional id
    #[arg(long, value_name = "REGEX", value_parser = args::name)]
    transactional_id_pattern: Option<String>,
    /// Only those in this state, as often as needed: Ongoing, PrepareCommit, CompleteAbort ...
    #[arg(long, value_name = "STATE", value_parser = args::name)]
    state: Vec<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Have the coordinator abort the open transaction of a transactional id, and fence off its producer.
///
/// It is aborted in all of its partitions. The producer gets an error with its next request, and has to begin anew;
/// whatever restarts it may use the same id.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall transaction terminate billing-7
  parshall transaction terminate billing-7 billing-8 --json")]
struct Terminate {
    /// Transactional ids
    #[arg(required = true, value_name = "TRANSACTIONAL-ID", value_parser = args::name)]
    ids: Vec<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// As `kafka-transactions.sh` has it, in milliseconds; with a unit, too. A negative one is none.
fn duration_ms(text: &str) -> Result<i64, String> {
    let span = text.parse().ok().or_else(|| time::parse_span(text));
    span.ok_or_else(|| "it is a number of milliseconds, or a time like 5m".to_owned())
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Describe(args) => describe::run(args).await,
        Command::FindHanging(args) => find_hanging::run(args).await,
        Command::Abort(args) => abort::run(args).await,
        Command::Terminate(args) => terminate(args).await,
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    transactional_id: &'a str,
    coordinator: i32,
    producer_id: i64,
    state: &'a str,
}

async fn list(args: List) -> Result<()> {
    let client = args.connection.client("transaction").await?;
    let filter = TransactionFilter {
        states: args.state,
        producer_ids: Vec::new(),
        duration_ms: args.duration_filter.filter(|duration_ms| *duration_ms >= 0),
        pattern: args.transactional_id_pattern,
    };
    let listed = client.list_transactions(&filter).await?;
    let rows = listed.transactions.iter().map(|(id, of_it)| Listed {
        transactional_id: id,
        coordinator: of_it.coordinator,
        producer_id: of_it.producer_id,
        state: &of_it.state,
    });
    let rows: Vec<_> = rows.collect();
    // What the other brokers tell is worth having.
    if args.json {
        output::print_json(&rows)?;
    } else if !rows.is_empty() || listed.errors.is_empty() {
        output::print(&render(&rows))?;
    }
    failure::all(distinct(listed.errors.into_values()))
}

/// All brokers may fail alike.
fn distinct(errors: impl Iterator<Item = ClientError>) -> Vec<ClientError> {
    let mut distinct: Vec<ClientError> = Vec::new();
    for error in errors {
        if !distinct.contains(&error) {
            distinct.push(error);
        }
    }
    distinct
}

fn render(listed: &[Listed<'_>]) -> String {
    let mut rows = vec![["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"].map(str::to_owned)];
    rows.extend(listed.iter().map(|one| {
        [
            one.transactional_id.to_owned(),
            one.coordinator.to_string(),
            one.producer_id.to_string(),
            one.state.to_owned(),
        ]
    }));
    table(&rows, &[Column::Fitted(16), Column::Right(11), Column::Right(11), Column::Fixed(0)], "  ")
}

async fn terminate(args: Terminate) -> Result<()> {
    let client = args.connection.client_for_changes("transaction").await?;
    let mut terminated = Vec::new();
    for id in &args.ids {
        let result = client.terminate_transaction(id).await;
        if result.is_ok() && !args.json {
            output::print(&format!("{id} has no open transaction any more, and its producer is fenced\n"))?;
        }
        terminated.push((id, result));
    }
    if args.json {
        let row = |(id, result): &(_, _)| json!({ "transactional_id": id, "error": failure::text(result) });
        output::print_json(&terminated.iter().map(row).collect::<Vec<_>>())?;
    }
    failure::all(terminated.into_iter().filter_map(|(_, result)| result.err()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_kafkas_milliseconds_or_have_a_unit() {
        assert_eq!(duration_ms("5000"), Ok(5000));
        assert_eq!(duration_ms("-1"), Ok(-1));
        assert_eq!(duration_ms("5m"), Ok(300_000));
        assert!(duration_ms("soon").is_err());
    }

    #[test]
    fn a_list_is_a_table() {
        let one = Listed { transactional_id: "billing-7", coordinator: 1, producer_id: 4000, state: "Ongoing" };
        assert_eq!(
            render(&[one]),
            "TRANSACTIONAL-ID  COORDINATOR  PRODUCER-ID  STATE\n\
             billing-7                   1         4000  Ongoing\n"
        );
    }
}
