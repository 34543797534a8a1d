//! `parshall metrics`: the main figures of a broker as rows of a table, one each interval.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::failure::Usage;
use super::{args, output, time};

mod figures;

use figures::Figures;
use openmetrics::Exposition;

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(5);
/// A broker with the most series that it shows has some megabytes.
const PAGE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Write the main figures of a broker to a CSV file or as lines of JSON, one row each interval, until Ctrl-C.
///
/// Rows go behind those that the file has. Rates are those of the interval before the row. While the broker does not
/// answer, rows have 0 in the column `up` and nothing behind it; in JSON `is_up` is false and the rest null.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall metrics --csv broker.csv
  parshall metrics --csv - --interval 10s --url http://10.0.0.1:9644/metrics
  parshall metrics --json | jq '.records_in_per_s'")]
pub(crate) struct Args {
    /// File to write to; - is the standard output
    #[arg(long, value_name = "FILE", required_unless_present = "json")]
    csv: Option<PathBuf>,
    /// Print lines of JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Time between rows
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = args::duration)]
    interval: Duration,
    /// The metrics of the broker
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9644/metrics")]
    url: String,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    if args.interval < INTERVAL_MIN {
        bail!(Usage(format!("--interval is at least {INTERVAL_MIN:?}")));
    }
    let mut before = match read(&args.url).await {
        Ok(page) => Some(page),
        Err(error) => {
            bail!("nothing answers on {} ({error}); does a broker run, and not with --console off?", args.url)
        }
    };
    let mut table = args.csv.as_ref().map(Table::open).transpose()?;
    // One for all rows: a Ctrl-C that comes while a page is read must not be lost.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut ticks = interval_at(Instant::now() + args.interval, args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = interrupt.recv() => return Ok(()),
        }
        let now = read(&args.url).await.inspect_err(|error| tracing::debug!(%error, "no answer")).ok();
        let figures = now.as_ref().map(|now| Figures::between(before.as_ref(), now));
        match &mut table {
            Some(table) => table.write(&figures::row(time::now_ms(), figures.as_ref()))?,
            None => output::print_json(&figures::json(time::now_ms(), figures.as_ref()))?,
        }
        before = now;
    }
}

/// The text of a page.
pub(crate) async fn page(url: &str) -> Result<String> {
    let url = url.to_owned();
    let text = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().new_agent();
        agent.get(&url).call()?.body_mut().with_config().limit(PAGE_BYTES_MAX).read_to_string()
    });
    Ok(text.await.context("reading a page does not panic")??)
}

async fn read(url: &str) -> Result<Exposition> {
    let page = Exposition::new(page(url).await?);
    if page.sum("parshall_uptime_seconds").is_none() {
        bail!("it is not the metrics of a broker");
    }
    Ok(page)
}

/// Where rows go.
enum Table {
    File(File),
    Stdout,
}

impl Table {
    /// Writes the header unless it is there.
    fn open(path: &PathBuf) -> Result<Self> {
        let header = figures::header();
        if path.as_os_str() == "-" {
            output::print(&header)?;
            return Ok(Self::Stdout);
        }
        let failed = || format!("cannot write {}", path.display());
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).with_context(failed)?;
        let mut first = String::new();
        BufReader::new(&file).read_line(&mut first).with_context(failed)?;
        if first.is_empty() {
            file.write_all(header.as_bytes()).with_context(failed)?;
        } else if first != header {
            bail!(Usage(format!("{} has other columns; name another file", path.display())));
        }
        Ok(Self::File(file))
    }

    fn write(&mut self, row: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(row.as_bytes()),
            Self::Stdout => output::print(row),
        }
    }
}
