//! `parshall group`: what groups there are, where they stand, and moving them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use anyhow::{Result, bail};
use clap::Subcommand;
use client::{Client, ClientError, Group};
use serde::Serialize;
use wire::ErrorCode;
use wire::api::delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
use wire::api::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup};
use wire::api::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::args::{self, Connection};
use super::output::{self, columns};

mod describe;
mod reset;

/// List, describe, reset and delete consumer groups.
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
  parshall group delete billing shipping")]
struct Delete {
    /// Names of the groups
    #[arg(required = true, value_name = "GROUP", value_parser = args::name)]
    groups: Vec<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Describe(args) => describe::run(args).await,
        Command::ResetOffsets(args) => reset::run(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

/// The groups of all brokers: each knows only those that it coordinates.
async fn listed(client: &Client) -> Result<BTreeMap<String, ListedGroup>, ClientError> {
    let mut groups = BTreeMap::new();
    for id in client.cluster().await?.brokers.keys().copied().collect::<BTreeSet<_>>() {
        let mut retry = client.retry();
        let response: ListGroupsResponse = loop {
            let response: ListGroupsResponse = client.send_to(id, &ListGroupsRequest::default()).await?;
            match ClientError::check(|| format!("the groups of broker {id}"), response.error_code, None) {
                Ok(()) => break response,
                Err(error) => retry.wait(error).await?,
            }
        };
        groups.extend(response.groups.into_iter().map(|group| (group.group_id.clone(), group)));
    }
    Ok(groups)
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
        let listed = groups.values().map(|group| Listed {
            group: &group.group_id,
            protocol_type: &group.protocol_type,
            state: &group.group_state,
            r#type: &group.group_type,
        });
        return Ok(output::print_json(&listed.collect::<Vec<_>>())?);
    }
    let mut out = output::stdout();
    if args.state {
        // The widths of ConsumerGroupCommand.printGroupInfo.
        let width = groups.keys().map(String::len).max().unwrap_or(0).max(15) + 10;
        let rows = groups.values().map(|group| [group.group_id.as_str(), group.group_state.as_str()]);
        for row in std::iter::once(["GROUP", "STATE"]).chain(rows) {
            writeln!(out, "{}", columns(&row, &[width, 20]))?;
        }
    } else {
        for group in groups.keys() {
            writeln!(out, "{group}")?;
        }
    }
    Ok(out.flush()?)
}

async fn delete(args: Delete) -> Result<()> {
    let client = args.connection.client("group").await?;
    let mut failed = Vec::new();
    for group in &args.groups {
        match delete_one(&client, group).await {
            Ok(()) => output::print(&format!("Deleted group {group}.\n"))?,
            Err(error) => failed.push(error),
        }
    }
    let others = failed.iter().skip(1).map(|error| format!("; {error}")).collect::<String>();
    match failed.into_iter().next() {
        None => Ok(()),
        Some(first) if others.is_empty() => Err(first.into()),
        Some(first) => bail!("{first}{others}"),
    }
}

async fn delete_one(client: &Client, group: &str) -> Result<(), ClientError> {
    let request = DeleteGroupsRequest { groups_names: vec![group.to_owned()] };
    let code = |response: &DeleteGroupsResponse| response.results.first().map_or(ErrorCode::NONE, |r| r.error_code);
    for result in client.send_to_coordinator(group, &request, code).await?.results {
        let message = match result.error_code {
            ErrorCode::NON_EMPTY_GROUP => Some("it has members; stop them first"),
            ErrorCode::GROUP_ID_NOT_FOUND => Some("it does not exist"),
            _ => None,
        };
        ClientError::check(|| format!("cannot delete group {group}"), result.error_code, message)?;
    }
    Ok(())
}

/// One group as its coordinator sees it. One that does not exist is an error.
async fn described(client: &Client, group: &str) -> Result<DescribedGroup, ClientError> {
    let request = DescribeGroupsRequest { groups: vec![group.to_owned()], ..Default::default() };
    let code = |response: &DescribeGroupsResponse| response.groups.first().map_or(ErrorCode::NONE, |g| g.error_code);
    let response = client.send_to_coordinator(group, &request, code).await?;
    let missing = || ClientError::Missing { address: "the coordinator".to_owned(), subject: format!("group {group}") };
    let described = response.groups.into_iter().next().ok_or_else(missing)?;
    let subject = || format!("group {group}");
    ClientError::check(subject, described.error_code, described.error_message.as_deref())?;
    // Before version 6 a group that does not exist is a dead one. It may have offsets all the same (a group whose
    // consumers assign their partitions themselves, on an old broker).
    if described.group_state == "Dead" && Group::new(client.clone(), group).committed().await?.is_empty() {
        ClientError::check(subject, ErrorCode::GROUP_ID_NOT_FOUND, Some("it does not exist"))?;
    }
    Ok(described)
}
