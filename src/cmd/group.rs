//! `parshall group`: what groups there are, where they stand, and moving them.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Subcommand;
use client::{Client, ClientError, ListedGroup};
use serde::Serialize;
use serde_json::json;

use super::args::{self, Connection};
use super::failure;
use super::names;
use super::output::{self, visible};
use super::table::{Column, table};

mod delete_offsets;
mod describe;
mod reset;

/// List, describe, reset and delete consumer groups and their offsets.
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
    ResetOffsets(reset::ResetOffsets),
    DeleteOffsets(delete_offsets::DeleteOffsets),
    Delete(Delete),
}

/// List all groups.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall group list
  parshall group list --state
  parshall group list --json")]
struct List {
    /// Show the state of each group
    #[arg(long)]
    state: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Delete groups that have no members, with their offsets.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall group delete billing
  parshall group delete billing shipping
  parshall group delete --regex 'test-.*'")]
struct Delete {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP", value_parser = args::name)]
    groups: Vec<String>,
    /// Take the names for regular expressions, each of a whole name
    #[arg(long, short = 'r')]
    regex: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Describe(args) => describe::run(args).await,
        Command::ResetOffsets(args) => reset::run(args).await,
        Command::DeleteOffsets(args) => delete_offsets::run(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

/// The groups of all brokers, or why one of them does not tell of its own.
async fn listed(client: &Client) -> Result<BTreeMap<String, ListedGroup>, ClientError> {
    let listed = client.list_groups().await?;
    match listed.errors.into_values().next() {
        None => Ok(listed.groups),
        Some(error) => Err(error),
    }
}

/// The groups that patterns match.
async fn matching(client: &Client, patterns: &[String]) -> Result<Vec<String>> {
    names::matching(patterns, listed(client).await?.keys().map(String::as_str))
}

#[derive(Serialize)]
struct Listed<'a> {
    group: &'a str,
    protocol_type: &'a str,
    state: &'a str,
    r#type: &'a str,
}

async fn list(args: List) -> Result<()> {
    let client = args.connection.client("group").await?;
    let groups = listed(&client).await?;
    if args.json {
        let listed = groups.iter().map(|(name, group)| Listed {
            group: name,
            protocol_type: &group.protocol_type,
            state: &group.state,
            r#type: &group.group_type,
        });
        return Ok(output::print_json(&listed.collect::<Vec<_>>())?);
    }
    let mut text = String::new();
    if args.state {
        // The widths of ConsumerGroupCommand.printGroupInfo.
        let width = groups.keys().map(String::len).max().unwrap_or(0).max(15) + 10;
        let rows = groups.iter().map(|(name, group)| [name.as_str(), group.state.as_str()]);
        let rows: Vec<_> = std::iter::once(["GROUP", "STATE"]).chain(rows).collect();
        text.push_str(&table(&rows, &[Column::Fixed(width), Column::Fixed(20)], " "));
    } else {
        for group in groups.keys() {
            text.push_str(&visible(group));
            text.push('\n');
        }
    }
    Ok(output::print(&text)?)
}

async fn delete(args: Delete) -> Result<()> {
    let client = args.connection.client_for_changes("group").await?;
    let groups = match args.regex {
        true => matching(&client, &args.groups).await?,
        false => args.groups,
    };
    let mut deleted = Vec::new();
    for group in &groups {
        let result = client.delete_group(group).await;
        if result.is_ok() && !args.json {
            output::print(&format!("Deleted group {group}.\n"))?;
        }
        deleted.push((group, result));
    }
    if args.json {
        let row = |(group, result): &(_, _)| json!({ "group": group, "error": failure::text(result) });
        output::print_json(&deleted.iter().map(row).collect::<Vec<_>>())?;
    }
    failure::all(deleted.into_iter().filter_map(|(_, result)| result.err()).collect())
}
