//! `parshall dump`: what stands in the files of a data directory, ours or Kafka's, and whether it is sound.
//!
//! Files are read through [`storage::Disk`] and never written. Memory is bounded by the largest batch, not by the file.

use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use storage::disk::{Disk, RealDisk, read_file};
use wire::state::producer_snapshot::ProducerSnapshot;

use super::output;

mod decode;
mod index;
mod log_file;
mod segment;

use decode::Decoder;

/// Larger ones are not what their names say.
const SMALL_FILE_BYTES_MAX: usize = 256 << 20;

/// Show the files of a data directory, and check them.
///
/// Reads segments (.log, .checkpoint), indexes, snapshots and checkpoints of a broker's data directory, Parshall's or
/// Apache Kafka's, while the broker runs or not. Records of the metadata log and of __consumer_offsets are decoded.
/// What is damaged is told on stderr, with the file, the position and the offset; reading goes on behind it, and the
/// exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall dump parshall-data/orders-0
  parshall dump parshall-data/orders-0/00000000000000000000.log --print-data
  parshall dump parshall-data/__cluster_metadata-0 --print-data --json
  parshall dump parshall-data > /dev/null && echo sound")]
pub(crate) struct Args {
    /// Files, or directories with all that is in them
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Show the records, not only their batches
    #[arg(long)]
    print_data: bool,
    /// Print lines of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mut dump = Dump {
        disk: &RealDisk,
        out: output::stdout(),
        print_data: args.print_data,
        json: args.json,
        file: String::new(),
        damages: 0,
    };
    for path in &args.paths {
        let name = path.display();
        match dump.disk.read_dir(path) {
            Ok(_) => dump.directory(path)?,
            Err(_) if dump.disk.exists(path).with_context(|| format!("{name}"))? => {
                if !dump.one(path)? {
                    dump.damage(format_args!("its name says nothing that dump knows"))?;
                }
            }
            Err(error) => return Err(anyhow::Error::from(error).context(format!("cannot read {name}"))),
        }
    }
    dump.out.flush()?;
    Ok(if dump.damages == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The state of one run.
struct Dump<'a> {
    disk: &'a dyn Disk,
    out: BufWriter<StdoutLock<'static>>,
    print_data: bool,
    json: bool,
    /// The file that is being read.
    file: String,
    damages: u64,
}

impl Dump<'_> {
    /// All files that we know, in the order of their names, and those of the directories below.
    fn directory(&mut self, path: &Path) -> Result<()> {
        let entries = self.disk.read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        for entry in &entries {
            if !entry.is_dir {
                self.one(&path.join(&entry.name))?;
            }
        }
        for entry in entries {
            if entry.is_dir {
                self.directory(&path.join(entry.name))?;
            }
        }
        Ok(())
    }

    /// `false` where the name of the file says nothing.
    fn one(&mut self, path: &Path) -> Result<bool> {
        self.file = path.display().to_string();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A segment on its way out or in is read like any other.
        let name = ["deleted", "cleaned", "swap"]
            .into_iter()
            .find_map(|stage| name.strip_suffix(stage).and_then(|name| name.strip_suffix('.')))
            .unwrap_or(name);
        let read = match name.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
            "log" | "checkpoint" => self.segment(path),
            "index" => self.offset_index(path),
            "timeindex" => self.time_index(path),
            "txnindex" => self.transaction_index(path),
            "snapshot" => self.snapshot(path),
            "metadata" => self.text(path),
            "properties" => self.text(path),
            _ => match name {
                "leader-epoch-checkpoint" => self.checkpoint(path, "epoch", 1),
                "truncation-checkpoint" | "journal-checkpoint" | "journal-files-checkpoint" => self.text(path),
                name if name.ends_with("-checkpoint") => self.checkpoint(path, "offset", 2),
                "quorum-state" => self.text(path),
                _ => return Ok(false),
            },
        };
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error.into()),
            Err(error) => self.damage(format_args!("cannot be read: {error}"))?,
        }
        Ok(true)
    }

    /// Which records stand in a file, by where it lies.
    fn decoder(path: &Path) -> Decoder {
        let parent = path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        let topic = parent.rsplit_once('-').map_or(parent, |(topic, _)| topic);
        match (topic, path.file_name().and_then(|name| name.to_str())) {
            ("__cluster_metadata", _) | (_, Some("bootstrap.checkpoint")) => Decoder::Metadata,
            ("__consumer_offsets", _) => Decoder::Groups,
            _ => Decoder::Plain,
        }
    }

    /// Tells of something damaged and goes on. What was printed so far comes first.
    fn damage(&mut self, what: fmt::Arguments<'_>) -> io::Result<()> {
        self.damages += 1;
        self.out.flush()?;
        eprintln!("error: {}: {what}", self.file);
        Ok(())
    }

    fn title(&mut self) -> io::Result<()> {
        if self.json { Ok(()) } else { writeln!(self.out, "Dumping {}", self.file) }
    }

    /// A line of text, or of JSON with the file's name.
    fn line(&mut self, text: fmt::Arguments<'_>, value: &impl Serialize) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            file: &'a str,
            #[serde(flatten)]
            value: &'a T,
        }
        if !self.json {
            return writeln!(self.out, "{text}");
        }
        serde_json::to_writer(&mut self.out, &Line { file: &self.file, value })?;
        self.out.write_all(b"\n")
    }

    fn snapshot(&mut self, path: &Path) -> io::Result<()> {
        #[derive(Serialize)]
        struct Producer {
            producer_id: i64,
            producer_epoch: i16,
            last_sequence: i32,
            last_offset: i64,
            offset_delta: i32,
            timestamp: i64,
            coordinator_epoch: i32,
            current_txn_first_offset: i64,
        }
        self.title()?;
        let bytes = read_file(self.disk, path, SMALL_FILE_BYTES_MAX)?;
        let snapshot = match ProducerSnapshot::from_bytes(&bytes.into()) {
            Ok(snapshot) => snapshot,
            Err(error) => return self.damage(format_args!("the snapshot is damaged: {error}")),
        };
        for entry in snapshot.producer_entries {
            let producer = Producer {
                producer_id: entry.producer_id,
                producer_epoch: entry.epoch,
                last_sequence: entry.last_sequence,
                last_offset: entry.last_offset,
                offset_delta: entry.offset_delta,
                timestamp: entry.timestamp,
                coordinator_epoch: entry.coordinator_epoch,
                current_txn_first_offset: entry.current_txn_first_offset,
            };
            self.line(
                format_args!(
                    "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {} lastTimestamp: {} \
                     lastSequence: {} lastOffset: {} offsetDelta: {}",
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.coordinator_epoch,
                    producer.current_txn_first_offset,
                    producer.timestamp,
                    producer.last_sequence,
                    producer.last_offset,
                    producer.offset_delta,
                ),
                &producer,
            )?;
        }
        Ok(())
    }

    /// A version, a count, and as many lines: `keys` words, then a number.
    fn checkpoint(&mut self, path: &Path, what: &str, keys: usize) -> io::Result<()> {
        #[derive(Serialize)]
        struct Entry<'a> {
            key: &'a str,
            offset: i64,
        }
        self.title()?;
        let bytes = read_file(self.disk, path, SMALL_FILE_BYTES_MAX)?;
        let Ok(text) = String::from_utf8(bytes) else { return self.damage(format_args!("it is not text")) };
        // Kafka makes the file before there is anything to say.
        if text.is_empty() {
            return Ok(());
        }
        let mut lines = text.lines();
        if lines.next() != Some("0") {
            return self.damage(format_args!("line 1: the version is not 0"));
        }
        let Some(count) = lines.next().and_then(|line| line.trim().parse::<usize>().ok()) else {
            return self.damage(format_args!("line 2: the number of entries is missing"));
        };
        let mut found = 0;
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            found += 1;
            let entry = line.trim().rsplit_once(' ').and_then(|(key, offset)| Some((key, offset.parse().ok()?)));
            match entry {
                Some((key, offset)) if key.split(' ').count() == keys => {
                    self.line(format_args!("{what}: {key} offset: {offset}"), &Entry { key, offset })?;
                }
                _ => self.damage(format_args!("line {}: {line:?} is no entry", number + 3))?,
            }
        }
        if found != count {
            self.damage(format_args!("it has {found} entries and claims {count}"))?;
        }
        Ok(())
    }

    fn text(&mut self, path: &Path) -> io::Result<()> {
        #[derive(Serialize)]
        struct Text<'a> {
            text: &'a str,
        }
        self.title()?;
        let bytes = read_file(self.disk, path, SMALL_FILE_BYTES_MAX)?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => self.line(format_args!("{}", text.trim_end()), &Text { text }),
            Err(_) => self.damage(format_args!("it is not text")),
        }
    }
}
