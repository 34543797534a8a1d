//! `parshall acl`: who may do what, by access control lists.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use metadata::acl::{AclOperation, PatternType, PermissionType, ResourceType};
use serde_json::{Value, json};
use wire::api::create_acls::AclCreation;
use wire::api::delete_acls::DeleteAclsFilter;

use self::flags::{ANY, Entries, Grants, PatternFilter, Patterns, Principal, Resources};
use super::args::Connection;
use super::table::Column::{Fitted, Fixed};
use super::table::table;
use super::{failure, output};

mod check;
mod flags;

/// List, add, remove and check access control lists (ACLs).
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Remove(Remove),
    Check(check::Args),
}

/// Add ACLs: one for each principal, host, operation and resource that are named.
///
/// A deny wins over every allow. READ, WRITE, DELETE and ALTER allow DESCRIBE too, ALTER_CONFIGS allows
/// DESCRIBE_CONFIGS. --producer and --consumer stand for the operations that producers and consumers need. An ACL that
/// is there already stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall acl add --allow-principal User:alice --operation Read --topic orders
  parshall acl add --allow-principal User:alice --consumer --topic orders --group billing
  parshall acl add --allow-principal User:bob --producer --topic orders- --resource-pattern-type prefixed
  parshall acl add --deny-principal User:mallory --deny-host 10.0.0.9 --operation All --topic '*'")]
struct Add {
    #[command(flatten)]
    entries: Entries,
    #[command(flatten)]
    grants: Grants,
    #[command(flatten)]
    resources: Resources,
    /// How names are to be read: as they are, or as what names begin with
    #[arg(long, value_enum, ignore_case = true, default_value = "literal")]
    resource_pattern_type: Patterns,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List ACLs, of all or of the principals and resources that are named.
///
/// Of a resource those are listed that count for it: also those of prefixes of its name, and of all resources.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall acl list
  parshall acl list --topic orders
  parshall acl list --principal User:alice --json")]
struct List {
    /// A principal, as often as needed; without, all
    #[arg(long, value_name = "TYPE:NAME")]
    principal: Vec<Principal>,
    #[command(flatten)]
    resources: Resources,
    /// Which patterns: those that a resource of the name matches, those of the name itself, or of one type
    #[arg(long, value_enum, ignore_case = true, default_value = "match")]
    resource_pattern_type: PatternFilter,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Remove ACLs: all that are as the flags say. A flag that is left out stands for any.
///
/// 'parshall acl list' with the same resources and --resource-pattern-type shows what there is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall acl remove --allow-principal User:alice --operation Read --topic orders
  parshall acl remove --allow-principal User:bob --producer --topic orders- --resource-pattern-type prefixed
  parshall acl remove --topic orders")]
struct Remove {
    #[command(flatten)]
    entries: Entries,
    #[command(flatten)]
    grants: Grants,
    #[command(flatten)]
    resources: Resources,
    /// Which patterns: those of the name itself, of one type, or all that a resource of the name matches [default:
    /// literal, and any where no resource is named]
    #[arg(long, value_enum, ignore_case = true)]
    resource_pattern_type: Option<PatternFilter>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Add(args) => add(args).await.map(|()| ExitCode::SUCCESS),
        Command::List(args) => list(args).await.map(|()| ExitCode::SUCCESS),
        Command::Remove(args) => remove(args).await.map(|()| ExitCode::SUCCESS),
        Command::Check(args) => check::run(args).await,
    }
}

async fn add(args: Add) -> Result<()> {
    let acls = flags::acls(&args.entries, &args.grants, &args.resources, args.resource_pattern_type)?;
    let results = args.connection.client_for_changes("acl").await?.create_acls(&acls).await?;
    if args.json {
        let rows = acls.iter().zip(&results).map(|(acl, result)| {
            let mut row = in_json(acl);
            row["error"] = json!(failure::text(result));
            row
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        let added = acls.iter().zip(&results).filter(|(_, result)| result.is_ok());
        output::print(&added.map(|(acl, _)| format!("Added {}.\n", in_words(acl))).collect::<String>())?;
    }
    failure::all(results.into_iter().filter_map(Result::err).collect())
}

async fn list(args: List) -> Result<()> {
    let pattern_type = args.resource_pattern_type.id();
    let client = args.connection.client("acl").await?;
    let mut found = Vec::new();
    for resource in args.resources.filters(pattern_type) {
        let principals = args.principal.iter().map(|principal| Some(principal.0.clone()));
        let principals: Vec<_> = if args.principal.is_empty() { vec![None] } else { principals.collect() };
        for principal_filter in principals {
            found.extend(client.describe_acls(&DeleteAclsFilter { principal_filter, ..resource.clone() }).await?);
        }
    }
    // Several filters may match one.
    let mut seen = BTreeSet::new();
    found.retain(|acl| seen.insert(in_json(acl).to_string()));
    print_all(&found, args.json)
}

async fn remove(args: Remove) -> Result<()> {
    let default = if args.resources.is_empty() { PatternFilter::Any } else { PatternFilter::Literal };
    let pattern_type = args.resource_pattern_type.unwrap_or(default);
    let filters = flags::filters(&args.entries, &args.grants, &args.resources, pattern_type)?;
    let results = args.connection.client_for_changes("acl").await?.delete_acls(&filters).await?;
    let removed: Vec<_> = results.iter().flatten().flatten().collect();
    if args.json {
        output::print_json(&removed.iter().map(|acl| in_json(acl)).collect::<Vec<_>>())?;
    } else if removed.is_empty() && results.iter().all(Result::is_ok) {
        output::print("No ACL is like that.\n")?;
    } else {
        output::print(&removed.iter().map(|acl| format!("Removed {}.\n", in_words(acl))).collect::<String>())?;
    }
    failure::all(results.into_iter().filter_map(Result::err).collect())
}

fn print_all(acls: &[AclCreation], is_json: bool) -> Result<()> {
    if is_json {
        return Ok(output::print_json(&acls.iter().map(in_json).collect::<Vec<_>>())?);
    }
    let head = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(acls.iter().map(|acl| {
        let [resource_type, pattern_type, operation, permission_type] = names(acl);
        let AclCreation { resource_name, principal, host, .. } = acl.clone();
        [resource_type, resource_name, pattern_type, principal, host, operation, permission_type]
    }));
    let columns = [Fitted(0), Fitted(0), Fitted(0), Fitted(0), Fitted(0), Fitted(0), Fixed(0)];
    Ok(output::print(&table(&rows, &columns, "  "))?)
}

/// What Kafka calls the type of the resource, that of the pattern, the operation and the permission.
fn names(acl: &AclCreation) -> [String; 4] {
    fn name<T: ToString>(id: i8, from_id: impl Fn(i8) -> Option<T>) -> String {
        // A cluster may know more than we do.
        from_id(id).map_or_else(|| id.to_string(), |value| value.to_string())
    }
    [
        name(acl.resource_type, ResourceType::from_id),
        name(acl.resource_pattern_type, PatternType::from_id),
        name(acl.operation, AclOperation::from_id),
        name(acl.permission_type, PermissionType::from_id),
    ]
}

fn in_json(acl: &AclCreation) -> Value {
    let [resource_type, pattern_type, operation, permission_type] = names(acl);
    json!({
        "resource_type": resource_type, "resource_name": acl.resource_name, "pattern_type": pattern_type,
        "principal": acl.principal, "host": acl.host, "operation": operation, "permission_type": permission_type,
    })
}

/// `ALLOW User:alice READ on TOPIC orders`.
fn in_words(acl: &AclCreation) -> String {
    let [resource_type, pattern_type, operation, permission_type] = names(acl);
    let AclCreation { resource_name, principal, host, .. } = acl;
    let [resource_name, principal, host] = [resource_name, principal, host].map(|text| output::visible(text));
    let pattern = if pattern_type == "LITERAL" { String::new() } else { format!(" ({pattern_type})") };
    let from = if host == ANY { String::new() } else { format!(" from {host}") };
    format!("{permission_type} {principal}{from} {operation} on {resource_type} {resource_name}{pattern}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_is_told_in_words() {
        let acl = AclCreation {
            resource_type: 2,
            resource_name: "orders".to_owned(),
            resource_pattern_type: 3,
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: 11,
            permission_type: 3,
        };
        assert_eq!(in_words(&acl), "ALLOW User:alice ALTER_CONFIGS on TOPIC orders");
        let other = AclCreation { resource_pattern_type: 4, host: "10.0.0.1".to_owned(), permission_type: 2, ..acl };
        assert_eq!(in_words(&other), "DENY User:alice from 10.0.0.1 ALTER_CONFIGS on TOPIC orders (PREFIXED)");
        let later = AclCreation { resource_type: 99, principal: "User:\u{1b}[2J".to_owned(), ..other };
        assert!(in_words(&later).contains(" on 99 orders") && in_words(&later).contains("User:\\u{1b}[2J"));
    }
}
