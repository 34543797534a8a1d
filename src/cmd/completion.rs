//! `parshall completion`: what makes a shell complete commands and flags; and `parshall man`, the pages of `man`.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap_complete::Shell;

use super::{failure, output};

/// Print what makes a shell complete commands and flags.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(parshall completion bash)
  parshall completion zsh > \"${fpath[1]}/_parshall\"
  parshall completion fish > ~/.config/fish/completions/parshall.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Write a page of `man` for each command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall man ~/.local/share/man/man1 && man parshall-topic-create")]
pub(crate) struct ManArgs {
    /// The directory of the pages; it is created where it is missing
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parshall", &mut text);
    Ok(output::print(&String::from_utf8_lossy(&text))?)
}

#[expect(clippy::disallowed_methods, reason = "files for the user, not of a broker")]
pub(crate) fn run_man(args: &ManArgs, command: clap::Command) -> Result<()> {
    let written = fs::create_dir_all(&args.dir).and_then(|()| clap_mangen::generate_to(command, &args.dir));
    written.map_err(|error| failure::of_file("write the pages to", &args.dir, &error))
}
