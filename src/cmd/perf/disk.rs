//! `parshall perf disk`: what the disk can do, before anybody blames the broker.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use lab::{DiskProbe, DiskResult};
use serde_json::json;

use crate::cmd::{args, output};

const MIB: u64 = 1024 * 1024;

/// Measure the disk under a directory: sequential writes, and how long a sync takes.
///
/// What people do with dd: through the page cache with one sync at the end, past the cache, with a sync after each MiB;
/// and appends of 4 KiB with a sync each, which is what acks=all costs at least. Writes to a file without a name, so
/// that nothing is left behind. Needs no broker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf disk --dir /var/lib/parshall
  parshall perf disk --size-mib 4096 --json")]
pub(crate) struct Args {
    /// A directory on the disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// How much each sequential write writes; more than the machine's memory tells the disk from its caches
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    size_mib: u64,
    /// How many syncs
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    syncs: u64,
    /// What ends each of the four parts in any case
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::duration)]
    part_max: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let probe = DiskProbe { bytes: args.size_mib * MIB, syncs: args.syncs, part_max: args.part_max };
    let dir = args.dir.clone();
    let measured = tokio::task::spawn_blocking(move || lab::probe_disk(&dir, probe)).await?;
    let result = measured.with_context(|| format!("cannot measure the disk under {}", args.dir.display()))?;
    let DiskResult { write_bytes_per_s, direct_bytes_per_s, synced_bytes_per_s, sync_latency } = result;
    let rate = |bytes_per_s: f64| bytes_per_s / MIB as f64;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| sync_latency.quantile_us(quantile));
    if args.json {
        output::print_json(&json!({
            "write_mib_per_s": rate(write_bytes_per_s),
            "direct_mib_per_s": direct_bytes_per_s.map(rate),
            "synced_mib_per_s": rate(synced_bytes_per_s),
            "sync_latency_us": {
                "mean": sync_latency.mean_us(), "p50": p50, "p99": p99, "p99_9": p999, "max": sync_latency.max_us(),
            },
        }))?;
        return Ok(());
    }
    let direct = match direct_bytes_per_s {
        Some(bytes_per_s) => format!("{:>10.1} MiB/s", rate(bytes_per_s)),
        None => "the file system cannot".to_owned(),
    };
    output::print(&format!(
        "sequential write, one sync at the end   {:>10.1} MiB/s\n\
         sequential write past the page cache    {direct}\n\
         sequential write, a sync after each MiB {:>10.1} MiB/s\n\
         append of 4 KiB with a sync             p50 {p50} us, p99 {p99} us, p99.9 {p999} us, max {} us\n",
        rate(write_bytes_per_s),
        rate(synced_bytes_per_s),
        sync_latency.max_us(),
    ))?;
    Ok(())
}
