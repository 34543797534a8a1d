//! `parshall perf disk`: what the disk can do, before anybody blames the broker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use lab::{ByteSize, DiskProbe};
use serde_json::json;

use crate::cmd::failure::Usage;
use crate::cmd::table::{Column, table};
use crate::cmd::{args, output};

const MIB: u64 = 1024 * 1024;

/// Measure the disk under a directory: sequential writes, and how long a sync takes.
///
/// What people do with dd, for each block size: through the page cache with one sync at the end (conv=fdatasync), past
/// the cache (oflag=direct), with a sync after each block (oflag=dsync); and appends of 4 KiB with a sync each, which
/// is what acks=all costs at least. Writes to a file without a name, so that nothing is left behind. Needs no broker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall perf disk --dir /var/lib/parshall
  parshall perf disk --block-size 4K,1M,100M,1G --size-mib 4096
  parshall perf disk --size-mib 4096 --json")]
pub(crate) struct Args {
    /// A directory on the disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// How much each call writes, as dd's bs: 4K to 1G in steps of 4K, several with commas
    #[arg(long, value_name = "SIZE", default_value = "1M", value_delimiter = ',', value_parser = block_size)]
    block_size: Vec<ByteSize>,
    /// How much each sequential write writes; more than the machine's memory tells the disk from its caches
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    size_mib: u64,
    /// How many syncs
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    syncs: u64,
    /// What ends each part in any case: the three of each block size, and the syncs
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = args::duration)]
    part_max: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn block_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse()?;
    let is_allowed = (DiskProbe::BLOCK_BYTES_MIN..=DiskProbe::BLOCK_BYTES_MAX).contains(&size.0)
        && size.0.is_multiple_of(DiskProbe::BLOCK_BYTES_MIN);
    if is_allowed { Ok(size) } else { Err("a block is 4K to 1G, in steps of 4K".to_owned()) }
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let probe = DiskProbe { bytes: args.size_mib * MIB, syncs: args.syncs, part_max: args.part_max };
    if let Some(larger) = args.block_size.iter().find(|size| size.0 > probe.bytes) {
        let size_mib = larger.0.div_ceil(MIB);
        return Err(Usage(format!("a block of {larger} needs --size-mib {size_mib} at least")).into());
    }
    let mut writes = Vec::new();
    for size in args.block_size.iter().copied() {
        writes.push((size, measured(&args.dir, move |dir| probe.write_rates(dir, size.0)).await?));
    }
    let sync_latency = measured(&args.dir, move |dir| probe.sync_latency(dir)).await?;
    let rate = |bytes_per_s: f64| bytes_per_s / MIB as f64;
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| sync_latency.quantile_us(quantile));
    if args.json {
        let of_block = |(size, rates): &(ByteSize, lab::WriteRates)| {
            json!({
                "block_bytes": size.0,
                "write_mib_per_s": rate(rates.cached_bytes_per_s),
                "direct_mib_per_s": rates.direct_bytes_per_s.map(rate),
                "synced_mib_per_s": rate(rates.synced_bytes_per_s),
            })
        };
        output::print_json(&json!({
            "writes": writes.iter().map(of_block).collect::<Vec<_>>(),
            "sync_latency_us": {
                "mean": sync_latency.mean_us(), "p50": p50, "p99": p99, "p99_9": p999, "max": sync_latency.max_us(),
            },
        }))?;
        return Ok(());
    }
    let shown = |bytes_per_s: f64| format!("{:.1} MiB/s", rate(bytes_per_s));
    let heading = ["block", "one sync at the end", "past the page cache", "a sync after each block"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(writes.iter().map(|(size, rates)| {
        [
            size.to_string(),
            shown(rates.cached_bytes_per_s),
            rates.direct_bytes_per_s.map_or_else(|| "not there".to_owned(), shown),
            shown(rates.synced_bytes_per_s),
        ]
    }));
    output::print(&table(&rows, &[Column::Fitted(0), Column::Right(0), Column::Right(0), Column::Right(0)], "  "))?;
    output::print(&format!(
        "append of 4 KiB with a sync: p50 {p50} us, p99 {p99} us, p99.9 {p999} us, max {} us\n",
        sync_latency.max_us(),
    ))?;
    Ok(())
}

async fn measured<T: Send + 'static>(
    dir: &Path,
    probe: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
) -> Result<T> {
    let owned = dir.to_owned();
    let result = tokio::task::spawn_blocking(move || probe(&owned)).await?;
    result.with_context(|| format!("cannot measure the disk under {}", dir.display()))
}
