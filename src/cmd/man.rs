//! `parshall man`: pages of `man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use super::failure;

/// Write a page of `man` for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall man ~/.local/share/man/man1 && man parshall-topic-create")]
pub(crate) struct Args {
    /// The directory of the pages; it is created where it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "files for the user, not of a broker")]
pub(crate) fn run(args: &Args, command: clap::Command) -> Result<()> {
    let written = fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(command, &args.dir));
    written.map_err(|error| failure::of_file("write the pages to", &args.dir, &error))
}
