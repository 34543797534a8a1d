//! `parshall quota`: what users, client ids and addresses may use.

use anyhow::{Result, bail};
use clap::Subcommand;
use client::{QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaEntity, Quotas};
use serde_json::json;

use super::args::{self, Connection};
use super::failure::Usage;
use super::output;
use super::table::Column::{Fitted, Fixed};
use super::table::table;

/// List, set and remove quotas of users, client ids and addresses.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Set(Set),
    Remove(Remove),
}

/// Whose quotas they are.
#[derive(Debug, clap::Args)]
struct Entity {
    /// A user
    #[arg(long, value_name = "NAME", value_parser = args::name)]
    user: Option<String>,
    /// Users that have no quota of their own
    #[arg(long, conflicts_with = "user")]
    user_defaults: bool,
    /// A client id; with a user, that of this user
    #[arg(long, value_name = "ID", alias = "client", value_parser = args::name)]
    client_id: Option<String>,
    /// Client ids that have no quota of their own
    #[arg(long, alias = "client-defaults", conflicts_with = "client_id")]
    client_id_defaults: bool,
    /// An address that clients connect from
    #[arg(long, value_name = "ADDRESS")]
    #[arg(conflicts_with_all = ["user", "user_defaults", "client_id", "client_id_defaults"])]
    ip: Option<String>,
    /// Addresses that have no quota of their own
    #[arg(long, conflicts_with_all = ["ip", "user", "user_defaults", "client_id", "client_id_defaults"])]
    ip_defaults: bool,
}

impl Entity {
    fn named(self) -> QuotaEntity {
        let part = |kind: &str, name: Option<String>, is_default: bool| {
            (name.is_some() || is_default).then(|| (kind.to_owned(), name))
        };
        let parts = [
            part(QUOTA_USER, self.user, self.user_defaults),
            part(QUOTA_CLIENT_ID, self.client_id, self.client_id_defaults),
            part(QUOTA_IP, self.ip, self.ip_defaults),
        ];
        QuotaEntity(parts.into_iter().flatten().collect())
    }

    /// The entity that a command changes.
    fn required(self) -> Result<QuotaEntity> {
        let entity = self.named();
        if entity.0.is_empty() {
            bail!(Usage("whose quota? Give --user, --client-id or --ip, or their defaults".to_owned()));
        }
        Ok(entity)
    }
}

/// List quotas, of all or of those that have the names given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall quota list
  parshall quota list --user alice
  parshall quota list --ip-defaults --json")]
struct List {
    #[command(flatten)]
    entity: Entity,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Set quotas; the others stay as they are.
///
/// producer_byte_rate and consumer_byte_rate are bytes in a second, request_percentage is of the time of one thread,
/// controller_mutation_rate is partitions created and deleted in a second, producer_ids_rate new idempotent producers
/// in a second (Parshall only). An address has connection_creation_rate, connections in a second. Each broker counts
/// for itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall quota set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
  parshall quota set --user-defaults --client-id etl request_percentage=50
  parshall quota set --ip 10.0.0.7 connection_creation_rate=20")]
struct Set {
    /// A quota, as often as needed
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = quota)]
    quotas: Vec<(String, f64)>,
    #[command(flatten)]
    entity: Entity,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Remove quotas of a user, a client id or an address.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall quota remove --user alice producer_byte_rate
  parshall quota remove --user alice --all")]
struct Remove {
    /// Names of quotas
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = args::name)]
    quotas: Vec<String>,
    /// Remove all that there are
    #[arg(long, conflicts_with = "quotas")]
    all: bool,
    #[command(flatten)]
    entity: Entity,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::List(args) => list(args).await,
        Command::Set(args) => set(args).await,
        Command::Remove(args) => remove(args).await,
    }
}

/// `NAME=VALUE`, where the value is a number.
fn quota(text: &str) -> Result<(String, f64), String> {
    let (name, value) = args::pair(text)?;
    match value.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((name, number)),
        _ => Err(format!("the value of {name} is a number")),
    }
}

async fn list(args: List) -> Result<()> {
    let quotas = args.connection.client("quota").await?.describe_quotas(&args.entity.named()).await?;
    if args.json {
        let rows = quotas.iter().map(|(entity, quotas)| json!({ "entity": entity.0, "quotas": quotas }));
        return Ok(output::print_json(&rows.collect::<Vec<_>>())?);
    }
    let mut rows = vec![["ENTITY", "QUOTAS"].map(str::to_owned)];
    rows.extend(quotas.iter().map(|(entity, quotas)| [entity.to_string(), in_words(quotas)]));
    Ok(output::print(&table(&rows, &[Fitted(0), Fixed(0)], "  "))?)
}

fn in_words(quotas: &Quotas) -> String {
    quotas.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

async fn set(args: Set) -> Result<()> {
    let entity = args.entity.required()?;
    let client = args.connection.client_for_changes("quota").await?;
    client.alter_quotas(&entity, &args.quotas, &[]).await?;
    if args.json {
        let set: Quotas = args.quotas.into_iter().collect();
        return Ok(output::print_json(&json!({ "entity": entity.0, "set": set }))?);
    }
    Ok(output::print(&format!("Set quotas of {entity}.\n"))?)
}

async fn remove(args: Remove) -> Result<()> {
    let entity = args.entity.required()?;
    let client = args.connection.client_for_changes("quota").await?;
    let removed = match args.all {
        false => args.quotas,
        true => client.describe_quotas(&entity).await?.remove(&entity).unwrap_or_default().into_keys().collect(),
    };
    client.alter_quotas(&entity, &[], &removed).await?;
    if args.json {
        return Ok(output::print_json(&json!({ "entity": entity.0, "removed": removed }))?);
    }
    Ok(output::print(&format!("Removed quotas of {entity}.\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers() {
        assert_eq!(quota("a=1048576"), Ok(("a".to_owned(), 1_048_576.0)));
        assert_eq!(quota("a = 0.5"), Ok(("a".to_owned(), 0.5)));
        for wrong in ["a", "a=", "=1", "a=x", "a=inf", "a=NaN"] {
            assert!(quota(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quotas_are_shown_as_they_are_given() {
        let quotas = Quotas::from([("a".to_owned(), 1_048_576.0), ("b".to_owned(), 0.5)]);
        assert_eq!(in_words(&quotas), "a=1048576 b=0.5");
    }
}
