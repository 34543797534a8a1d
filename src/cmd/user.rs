//! `parshall user`: users that log in with SCRAM.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use client::{Client, ClientError, ScramMechanism};
use serde_json::json;

use super::args::{self, Connection};
use super::table::Column::{Fitted, Fixed, Right};
use super::table::table;
use super::{failure, output, password};

/// What a broker takes. Kafka's tools have the fewest by default, too.
const ITERATIONS_MIN: NonZeroU32 = NonZeroU32::new(4_096).unwrap();
const ITERATIONS_MAX: NonZeroU32 = NonZeroU32::new(16_384).unwrap();

/// Make, list and delete users that log in with SCRAM.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Delete(Delete),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mechanism {
    #[value(name = "SCRAM-SHA-256")]
    Sha256,
    #[value(name = "SCRAM-SHA-512")]
    Sha512,
}

impl From<Mechanism> for ScramMechanism {
    fn from(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Sha256 => Self::Sha256,
            Mechanism::Sha512 => Self::Sha512,
        }
    }
}

/// Create a user.
///
/// The password is asked for at the terminal, or is the first line of --password-file or of stdin. Brokers get it
/// salted, and keep what a login is checked with.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall user create alice
  parshall user create alice --replace --password-file new-password
  parshall user create alice --mechanism SCRAM-SHA-256 < password")]
struct Create {
    /// Name of the user
    #[arg(value_parser = args::name)]
    user: String,
    /// How the user proves who it is; one may have a password of each mechanism
    #[arg(long, value_enum, ignore_case = true, default_value = "SCRAM-SHA-512")]
    mechanism: Mechanism,
    /// A file with the password in its first line
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// How often the password is hashed: what a guess costs who has the keys
    #[arg(long, value_name = "N", default_value_t = ITERATIONS_MIN, value_parser = iterations)]
    iterations: NonZeroU32,
    /// Take the place of the password that the user has with this mechanism
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// List users and their mechanisms.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall user list
  parshall user list --json")]
struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Delete users. Connections that they have stay until they end.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall user delete alice bob
  parshall user delete alice --mechanism SCRAM-SHA-256")]
struct Delete {
    /// Names of the users
    #[arg(required = true, value_name = "USER", value_parser = args::name)]
    users: Vec<String>,
    /// Delete the password of this mechanism only
    #[arg(long, value_enum, ignore_case = true)]
    mechanism: Option<Mechanism>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Create(args) => create(args).await,
        Command::List(args) => list(args).await,
        Command::Delete(args) => delete(args).await,
    }
}

fn iterations(text: &str) -> Result<NonZeroU32, String> {
    let number = text.parse().ok().filter(|number| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(number));
    number.ok_or_else(|| format!("it is a number from {ITERATIONS_MIN} to {ITERATIONS_MAX}"))
}

async fn create(args: Create) -> Result<()> {
    let (user, mechanism) = (args.user, ScramMechanism::from(args.mechanism));
    let client = args.connection.client_for_changes("user").await?;
    if !args.replace && client.describe_user(&user).await?.contains_key(&mechanism) {
        bail!("user {user} has a password with {mechanism} already; --replace takes its place");
    }
    let password = password::read(args.password_file.as_deref()).await?;
    client.set_user_password(&user, mechanism, &password, args.iterations).await?;
    if args.json {
        let iterations = args.iterations.get();
        return Ok(output::print_json(&json!({
            "user": user, "mechanism": mechanism.to_string(), "iterations": iterations,
        }))?);
    }
    Ok(output::print(&format!("Set the password of user {user} with {mechanism}.\n"))?)
}

async fn list(args: List) -> Result<()> {
    let users = args.connection.client("user").await?.list_users().await?;
    if args.json {
        let rows = users.iter().map(|(user, credentials)| {
            let credentials = credentials
                .iter()
                .map(|(mechanism, iterations)| json!({ "mechanism": mechanism.to_string(), "iterations": iterations }));
            json!({ "user": user, "credentials": credentials.collect::<Vec<_>>() })
        });
        return Ok(output::print_json(&rows.collect::<Vec<_>>())?);
    }
    let mut rows = vec![["USER", "MECHANISM", "ITERATIONS"].map(str::to_owned)];
    for (user, credentials) in &users {
        let of_user = credentials.iter();
        rows.extend(of_user.map(|(mechanism, number)| [user.clone(), mechanism.to_string(), number.to_string()]));
    }
    Ok(output::print(&table(&rows, &[Fitted(0), Fixed(13), Right(0)], "  "))?)
}

async fn delete(args: Delete) -> Result<()> {
    let client = args.connection.client_for_changes("user").await?;
    let only = args.mechanism.map(ScramMechanism::from);
    let mut deleted = Vec::new();
    for user in &args.users {
        deleted.push((user, delete_user(&client, user, only).await));
    }
    if args.json {
        let rows = deleted.iter().map(|(user, result)| json!({ "user": user, "error": failure::text(result) }));
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        for (user, _) in deleted.iter().filter(|(_, result)| result.is_ok()) {
            match only {
                None => output::print(&format!("Deleted user {user}.\n"))?,
                Some(only) => output::print(&format!("Deleted the password of user {user} with {only}.\n"))?,
            }
        }
    }
    failure::all(deleted.into_iter().filter_map(|(_, result)| result.err()).collect())
}

/// A request alters one credential of a user, so all of them are several.
async fn delete_user(client: &Client, user: &str, only: Option<ScramMechanism>) -> Result<(), ClientError> {
    let mechanisms: Vec<_> = match only {
        Some(only) => vec![only],
        None => client.describe_user(user).await?.into_keys().collect(),
    };
    if mechanisms.is_empty() {
        // The broker says that there is nothing to delete.
        return client.delete_user_password(user, ScramMechanism::Sha512).await;
    }
    for mechanism in mechanisms {
        client.delete_user_password(user, mechanism).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_what_a_broker_takes() {
        assert_eq!(iterations("4096").map(NonZeroU32::get), Ok(4096));
        assert_eq!(iterations("16384").map(NonZeroU32::get), Ok(16384));
        for wrong in ["", "x", "-1", "0", "4095", "16385", "99999999999"] {
            assert!(iterations(wrong).is_err(), "{wrong}");
        }
    }
}
