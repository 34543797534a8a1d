//! `parshall debug bundle`: what somebody who helps would ask for, in one file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::{Context, Result};
use clap::Subcommand;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::args::Connection;
use super::{failure, metrics, output, time};

/// Of each file of a log: its end.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// Gather what somebody who helps would ask for.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bundle(Bundle),
}

/// Write the state of a cluster to one archive: health, topics, configs, groups, log directories, versions, metrics
/// and logs.
///
/// Each file in it is what a command of this program prints, or its error where the cluster does not answer. There are
/// no records in it, and no secrets: brokers do not tell the values of sensitive configs. Names of topics, groups,
/// clients and hosts are in it: look at the files before you send them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall debug bundle
  parshall debug bundle --metrics http://10.0.0.1:9644/metrics --log /var/log/parshall.log
  parshall debug bundle --bootstrap-server kafka-1:9092 --out kafka-1.tar.gz")]
struct Bundle {
    /// The archive; parshall-debug-TIME.tar.gz where none is named
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The metrics of a broker, as often as needed
    #[arg(long, value_name = "URL")]
    metrics: Vec<String>,
    /// A log, of which the last 16 MiB are taken, as often as needed
    #[arg(long, value_name = "FILE")]
    log: Vec<PathBuf>,
    /// Print one JSON object with the names of the files
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Bundle(args) => bundle(args).await,
    }
}

async fn bundle(args: Bundle) -> Result<()> {
    let now = time::format_time(time::now_ms());
    let stamp: String = now.chars().filter(char::is_ascii_digit).take("20260102030405".len()).collect();
    let name = format!("parshall-debug-{stamp}");
    let path = args.out.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    // Before the long work.
    let mut archive = Archive::create(&path, name)?;
    let mut files = BTreeMap::new();
    for (file, words) in commands(&args.connection).await {
        eprintln!("{}", words.join(" "));
        let flags = args.connection.flags()?;
        files.insert(file, tokio::task::spawn_blocking(move || printed(&words, &flags)).await??);
    }
    for (number, url) in (1..).zip(&args.metrics) {
        let text = metrics::page(url).await.unwrap_or_else(|error| format!("{url}: {error}\n"));
        files.insert(format!("metrics-{number}.txt"), text.into_bytes());
    }
    for (number, log) in (1..).zip(&args.log) {
        let end = end_of(log).unwrap_or_else(|error| failure::of_file("read", log, &error).to_string().into_bytes());
        files.insert(format!("log-{number}.txt"), end);
    }
    for (file, bytes) in &files {
        archive.add(file, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    archive.finish().with_context(|| format!("cannot write {}", path.display()))?;
    let name = path.display().to_string();
    match args.json {
        true => output::print_json(&json!({ "archive": name, "files": files.keys().collect::<Vec<_>>() }))?,
        false => output::print(&format!("{name} has {} files\n", files.len()))?,
    }
    Ok(())
}

/// Names of files, and the command whose output each is.
async fn commands(connection: &Connection) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<_> = [
        ("version.txt", "--version"),
        ("status.json", "cluster status --all --json"),
        ("topics.json", "topic describe --json"),
        ("groups.json", "group describe --all-groups --json"),
        ("reassignments.json", "partition reassignments --json"),
        ("log-dirs.json", "log-dirs --json"),
        ("api-versions.json", "api-versions --json"),
        ("features.json", "features --json"),
        ("configs-default.json", "config describe broker default --json"),
    ]
    .map(|(file, words)| (file.to_owned(), words.split(' ').map(str::to_owned).collect()))
    .into();
    let brokers = async { connection.client("debug").await?.brokers().await.map_err(anyhow::Error::from) };
    for id in brokers.await.map(BTreeMap::from_iter).unwrap_or_default().into_keys() {
        let words = ["config", "describe", "broker", &id.to_string(), "--all", "--json"].map(str::to_owned);
        commands.push((format!("configs-broker-{id}.json"), words.into()));
    }
    commands
}

/// What a command prints; its error behind that.
fn printed(words: &[String], flags: &[OsString]) -> Result<Vec<u8>> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut process = Process::new(program);
    process.args(words).stdin(Stdio::null());
    // The flags say all of it: the properties file of another cluster is not for this one.
    process.env_remove("PARSHALL_COMMAND_CONFIG");
    if !words[0].starts_with('-') {
        process.args(flags);
    }
    let output = process.output().context("cannot start this program again")?;
    Ok([output.stdout, output.stderr].concat())
}

#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
fn end_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX)))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut end)?;
    Ok(end)
}

/// Files in a directory of their own, packed.
struct Archive {
    tar: tar::Builder<GzEncoder<File>>,
    directory: String,
}

impl Archive {
    fn create(path: &Path, directory: String) -> Result<Self> {
        let file = File::create_new(path).map_err(|error| failure::of_file("create", path, &error))?;
        Ok(Self { tar: tar::Builder::new(GzEncoder::new(file, Compression::default())), directory })
    }

    fn add(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        self.tar.append_data(&mut header, format!("{}/{name}", self.directory), bytes)
    }

    fn finish(self) -> std::io::Result<()> {
        self.tar.into_inner()?.finish()?.flush()
    }
}
