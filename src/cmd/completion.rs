//! `parshall completion`: what makes a shell complete commands and flags.

use anyhow::Result;
use clap_complete::Shell;

use super::output;

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

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "parshall", &mut text);
    Ok(output::print(&String::from_utf8_lossy(&text))?)
}
