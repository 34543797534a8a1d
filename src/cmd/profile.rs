//! `parshall profile`: clusters by name, one of which commands use that are told of no other.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Subcommand;
use client::bootstrap_server;
use serde::Serialize;

use super::failure::Usage;
use super::profiles::{self, Profile, Profiles};
use super::table::Column::{Fitted, Fixed};
use super::table::table;
use super::{output, properties};

/// Keep clusters by name, and choose the one that commands use.
///
/// What says which cluster a command works on: --bootstrap-server or --profile, then the variables
/// PARSHALL_BOOTSTRAP_SERVER and PARSHALL_PROFILE, then the profile in use, then 127.0.0.1:9092. A command that changes
/// something says on stderr which profile it takes.
///
/// Profiles are kept in parshall/profiles.toml in $XDG_CONFIG_HOME, or in ~/.config. Passwords are not: they stay in
/// the properties file that a profile names. 'serve', 'console' and 'lab' use no profile.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  parshall profile add prod --bootstrap-server kafka-1:9093 --command-config prod.properties
  parshall profile use prod
  parshall topic list
  parshall topic list --profile test")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Show(Named),
    Use(Use),
    Remove(Remove),
}

/// Add a profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall profile add test --bootstrap-server localhost:19092
  parshall profile add prod --bootstrap-server kafka-1:9093 --command-config prod.properties
  parshall profile add prod --bootstrap-server kafka-3:9093 --replace")]
struct Add {
    /// Name of the profile
    #[arg(value_parser = profiles::name)]
    name: String,
    /// Brokers to ask first, separated by commas; the port is 9092 where none is given
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',', value_parser = bootstrap_server)]
    bootstrap_server: Vec<String>,
    /// A properties file of Kafka's clients; its path is kept, and not what is in it
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// Take the place of the profile that has the name
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// List the profiles; a star marks the one in use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall profile list
  parshall profile list --json")]
struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Show a profile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall profile show prod
  parshall profile show prod --json")]
struct Named {
    /// Name of the profile
    #[arg(value_parser = profiles::name)]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Choose the profile that commands use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall profile use prod
  parshall profile use --none")]
struct Use {
    /// Name of the profile
    #[arg(value_parser = profiles::name, required_unless_present = "none", conflicts_with = "none")]
    name: Option<String>,
    /// Use no profile
    #[arg(long)]
    none: bool,
    /// Print one JSON object, or null for no profile
    #[arg(long)]
    json: bool,
}

/// Remove a profile. The properties file that it names stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  parshall profile remove prod")]
struct Remove {
    /// Name of the profile
    #[arg(value_parser = profiles::name)]
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Add(args) => add(args),
        Command::List(args) => list(&args),
        Command::Show(args) => show(&args),
        Command::Use(args) => choose(args),
        Command::Remove(args) => remove(&args),
    }
}

/// A profile in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    is_in_use: bool,
    bootstrap_servers: &'a [String],
    command_config: Option<&'a Path>,
}

impl<'a> Shown<'a> {
    fn new(name: &'a str, profile: &'a Profile, in_use: Option<&str>) -> Self {
        Self {
            name,
            is_in_use: in_use == Some(name),
            bootstrap_servers: &profile.bootstrap_servers,
            command_config: profile.command_config.as_deref(),
        }
    }

    fn servers(&self) -> String {
        self.bootstrap_servers.join(",")
    }

    fn command_config(&self) -> String {
        self.command_config.map_or_else(|| "-".to_owned(), |path| path.display().to_string())
    }
}

fn add(args: Add) -> Result<()> {
    let Add { name, bootstrap_server, command_config, replace, json } = args;
    let command_config = command_config.map(std::path::absolute).transpose()?;
    if let Some(path) = command_config.as_ref().filter(|path| path.to_str().is_none()) {
        bail!(Usage(format!("{} is not UTF-8", path.display())));
    }
    // A mistake in it is told now rather than by the first command that connects.
    properties::security_of(command_config.as_deref())?;
    let profile = Profile { bootstrap_servers: bootstrap_server, command_config };
    let (profiles, ()) = Profiles::change(|profiles| {
        if profiles.profiles.contains_key(&name) && !replace {
            bail!("there is a profile {name} already; --replace takes its place");
        }
        profiles.profiles.insert(name.clone(), profile.clone());
        Ok(())
    })?;
    let shown = Shown::new(&name, &profile, profiles.in_use.as_deref());
    if json {
        return Ok(output::print_json(&shown)?);
    }
    let advice = if shown.is_in_use { String::new() } else { format!("; 'parshall profile use {name}' uses it") };
    Ok(output::print(&format!("Added profile {name}{advice}.\n"))?)
}

fn list(args: &List) -> Result<()> {
    let profiles = Profiles::read()?;
    let in_use = profiles.in_use.as_deref();
    let shown: Vec<_> = profiles.profiles.iter().map(|(name, profile)| Shown::new(name, profile, in_use)).collect();
    if args.json {
        return Ok(output::print_json(&shown)?);
    }
    if shown.is_empty() {
        return Ok(output::print("no profiles; 'parshall profile add' adds one\n")?);
    }
    let mut rows = vec![["", "PROFILE", "BOOTSTRAP-SERVERS", "COMMAND-CONFIG"].map(str::to_owned)];
    rows.extend(shown.iter().map(|profile| {
        let mark = if profile.is_in_use { "*" } else { "" };
        [mark.to_owned(), profile.name.to_owned(), profile.servers(), profile.command_config()]
    }));
    output::print(&table(&rows, &[Fitted(0), Fitted(0), Fitted(0), Fixed(0)], "  "))?;
    tell_of_variables();
    Ok(())
}

fn show(args: &Named) -> Result<()> {
    let profiles = Profiles::read()?;
    let shown = Shown::new(&args.name, profiles.of_name(&args.name)?, profiles.in_use.as_deref());
    if args.json {
        return Ok(output::print_json(&shown)?);
    }
    let is_in_use = if shown.is_in_use { "yes" } else { "no" };
    let rows = [
        ["profile:", shown.name],
        ["in use:", is_in_use],
        ["bootstrap-server:", &shown.servers()],
        ["command-config:", &shown.command_config()],
    ];
    Ok(output::print(&table(&rows, &[Fitted(0), Fixed(0)], " "))?)
}

fn choose(args: Use) -> Result<()> {
    let (profiles, ()) = Profiles::change(|profiles| {
        if let Some(name) = &args.name {
            profiles.of_name(name)?;
        }
        profiles.in_use = args.name;
        Ok(())
    })?;
    let in_use = profiles.in_use.as_deref();
    let shown = in_use.map(|name| Ok::<_, anyhow::Error>(Shown::new(name, profiles.of_name(name)?, in_use)));
    let shown = shown.transpose()?;
    if args.json {
        return Ok(output::print_json(&shown)?);
    }
    match shown {
        Some(shown) => output::print(&format!("Profile {} is in use: {}\n", shown.name, shown.servers()))?,
        None => output::print("No profile is in use.\n")?,
    }
    tell_of_variables();
    Ok(())
}

fn remove(args: &Remove) -> Result<()> {
    let (_, (removed, was_in_use)) = Profiles::change(|profiles| {
        let removed = profiles.of_name(&args.name)?.clone();
        profiles.profiles.remove(&args.name);
        let was_in_use = profiles.in_use.take_if(|name| *name == args.name).is_some();
        Ok((removed, was_in_use))
    })?;
    if args.json {
        return Ok(output::print_json(&Shown::new(&args.name, &removed, None))?);
    }
    let also = if was_in_use { " No profile is in use." } else { "" };
    Ok(output::print(&format!("Removed profile {}.{also}\n", args.name))?)
}

/// What the shell has set is easily forgotten.
fn tell_of_variables() {
    for variable in ["PARSHALL_BOOTSTRAP_SERVER", "PARSHALL_PROFILE"] {
        if std::env::var_os(variable).is_some() {
            eprintln!("note: {variable} is set, and counts more than the profile in use");
        }
    }
}
