//! `parshall journal`: what is in the journal of a data directory, and writing it into the segments without a start.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use broker::journal::{self, Inspected, JournalFile, NeededSum};
use broker::recover;
use clap::Subcommand;
use platform::Env;
use serde_json::{Value, json};

use super::output;
use super::table::{Column, table};

/// Look at the journal of a data directory, and write it into the segments.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the files of the journal, and how much of it a start would read
    ///
    /// From which frame on something is needed is noted with each write, so segments may have more of it by now.
    /// While a broker runs, this is a moment of it. The exit code is 1 if a frame that is needed is damaged or missing.
    #[command(after_long_help = "\
Examples:
  parshall journal status --data-dir /var/lib/parshall
  parshall journal status --data-dir /var/lib/parshall --json | jq .needed_bytes")]
    Status(Target),
    /// Show what a start would read of the journal, and where it belongs
    ///
    /// A line for each frame and for each of its entries, which are batches of one segment. What is damaged or missing
    /// is told on stderr, and the exit code is 1.
    #[command(after_long_help = "\
Examples:
  parshall journal dump --data-dir /var/lib/parshall
  parshall journal dump --data-dir /var/lib/parshall --json | jq 'select(.directory == \"orders-0\")'")]
    Dump(Target),
    /// Write what only the journal has into the segments, as a start does
    ///
    /// For a node that was not stopped but lost power, before anything but Parshall reads its data directory: another
    /// tool, a copy, Apache Kafka. The broker must be down. Doing it again changes nothing. The exit code is 1 if a
    /// frame that is needed is damaged or missing; all others are written.
    #[command(after_long_help = "\
Examples:
  parshall journal apply --data-dir /var/lib/parshall")]
    Apply(Target),
    /// Start without files of the journal that are missing
    ///
    /// A broker that was not stopped cleanly does not start while a file of its journal is missing, since that may have
    /// the only copy of what was acknowledged last. Where the file is gone for good, this makes do with what is there;
    /// other replicas still have what is lost. The broker must be down.
    #[command(after_long_help = "\
Examples:
  parshall journal forget --data-dir /var/lib/parshall")]
    Forget(Target),
}

#[derive(Debug, clap::Args)]
struct Target {
    /// Directory of the data (the setting `log.dirs`)
    #[arg(long, value_name = "DIR", default_value = "parshall-data")]
    data_dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<ExitCode> {
    let env = Env::real();
    let (Command::Status(target) | Command::Dump(target) | Command::Apply(target) | Command::Forget(target)) =
        &args.command;
    let dir = target.data_dir.display();
    if !env.disk.exists(&target.data_dir).with_context(|| format!("cannot read {dir}"))? {
        bail!("{dir} is not there; --data-dir names the directory of the node's data");
    }
    let lost_frames = match &args.command {
        Command::Status(target) => status(&env, target)?,
        Command::Dump(target) => dump(&env, target)?,
        Command::Apply(target) => {
            let _lock = recover::lock(&target.data_dir).await.context("the node has to be down")?;
            apply(&env, target)?
        }
        Command::Forget(target) => {
            let _lock = recover::lock(&target.data_dir).await.context("the node has to be down")?;
            forget(&env, target)?;
            0
        }
    };
    Ok(if lost_frames == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn status(env: &Env, target: &Target) -> Result<u64> {
    let mut needed = NeededSum::default();
    let files = journal::inspect(&*env.disk, &target.data_dir, &mut |inspected| {
        needed.add(&inspected);
        Ok(())
    })?;
    if target.json {
        output::print_json(&json!({
            "files": files.iter().map(file_json).collect::<Vec<_>>(),
            "needed_frames": needed.frames,
            "needed_entries": needed.entries,
            "needed_logs": needed.directories.len(),
            "needed_bytes": needed.bytes,
            "lost_frames": needed.lost_frames,
        }))?;
        return Ok(needed.lost_frames);
    }
    if files.is_empty() {
        println!("There is no journal");
        return Ok(0);
    }
    let mut rows = vec![["FILE", "BYTES", "SEQUENCE", "FIRST-FRAME", "FRAMES"].map(str::to_owned)];
    rows.extend(files.iter().map(|file| {
        let [sequence, first_frame, frames] = match &file.begun {
            Some(begun) => [begun.file_sequence, begun.first_frame, begun.frames].map(|number| number.to_string()),
            None => ["-", "-", "-"].map(str::to_owned),
        };
        [name_of(&file.path), file.size_bytes.to_string(), sequence, first_frame, frames]
    }));
    let columns = [Column::Fitted(0), Column::Right(0), Column::Right(0), Column::Right(0), Column::Right(0)];
    output::print(&table(&rows, &columns, "  "))?;
    println!(
        "Needed: {} frames with {} entries of {} logs, {} bytes",
        needed.frames,
        needed.entries,
        needed.directories.len(),
        needed.bytes
    );
    if needed.lost_frames > 0 {
        tell_lost(needed.lost_frames);
    }
    Ok(needed.lost_frames)
}

fn dump(env: &Env, target: &Target) -> Result<u64> {
    let mut out = output::stdout();
    let mut needed = NeededSum::default();
    journal::inspect(&*env.disk, &target.data_dir, &mut |inspected| {
        needed.add(&inspected);
        if target.json {
            serde_json::to_writer(&mut out, &line_json(&inspected)).map_err(std::io::Error::from)?;
            return Ok(out.write_all(b"\n")?);
        }
        match inspected {
            Inspected::Frame { path, sequence, entries, size_bytes } => {
                let file = name_of(&path);
                writeln!(out, "frame: {sequence} file: {file} entries: {entries} bytes: {size_bytes}")?;
            }
            Inspected::Entry(entry) => writeln!(
                out,
                "  log: {} topicId: {} segment: {} position: {} nextOffset: {} bytes: {}",
                output::visible(entry.directory),
                entry.topic_id,
                entry.segment,
                entry.position,
                entry.next_offset,
                entry.length_bytes
            )?,
            Inspected::Lost { first_frame, frames } => {
                // What was printed so far comes first.
                out.flush()?;
                let last_frame = first_frame.saturating_add(frames - 1);
                eprintln!("error: frames {first_frame} to {last_frame} are damaged or missing");
            }
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(needed.lost_frames)
}

fn apply(env: &Env, target: &Target) -> Result<u64> {
    let replayed = journal::apply(env, &target.data_dir).context("the journal is not applied")?;
    if target.json {
        output::print_json(&json!({
            "frames": replayed.frames, "entries": replayed.entries, "written_bytes": replayed.written_bytes,
            "lost_frames": replayed.lost_frames,
        }))?;
    } else {
        println!(
            "Read {} frames with {} entries, and wrote {} bytes that segments lacked. Nothing in the journal is needed now",
            replayed.frames, replayed.entries, replayed.written_bytes
        );
        if replayed.lost_frames > 0 {
            tell_lost(replayed.lost_frames);
        }
    }
    Ok(replayed.lost_frames)
}

fn forget(env: &Env, target: &Target) -> Result<()> {
    let missing = journal::forget(&*env.disk, &target.data_dir)?;
    if target.json {
        let files: Vec<_> = missing.iter().map(|path| name_of(path)).collect();
        return Ok(output::print_json(&json!({ "forgotten_files": files }))?);
    }
    for path in &missing {
        println!("{} is not expected any more. What only it had is lost on this node", name_of(path));
    }
    if missing.is_empty() {
        println!("No file of the journal is missing");
    }
    Ok(())
}

fn tell_lost(frames: u64) {
    eprintln!(
        "error: {frames} frames are damaged or missing: records that were acknowledged may be gone from this node; \
         other replicas have them"
    );
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn file_json(file: &JournalFile) -> Value {
    json!({
        "file": name_of(&file.path),
        "size_bytes": file.size_bytes,
        "sequence": file.begun.map(|begun| begun.file_sequence),
        "first_frame": file.begun.map(|begun| begun.first_frame),
        "frames": file.begun.map(|begun| begun.frames),
    })
}

fn line_json(inspected: &Inspected<'_>) -> Value {
    match inspected {
        Inspected::Frame { path, sequence, entries, size_bytes } => {
            json!({ "frame": sequence, "file": name_of(path), "entries": entries, "size_bytes": size_bytes })
        }
        Inspected::Entry(entry) => json!({
            "frame": entry.frame, "directory": entry.directory, "topic_id": entry.topic_id.to_string(),
            "segment": entry.segment, "position": entry.position, "next_offset": entry.next_offset,
            "length_bytes": entry.length_bytes,
        }),
        Inspected::Lost { first_frame, frames } => json!({ "first_lost_frame": first_frame, "lost_frames": frames }),
    }
}
