//! Tells the binary which commit it is built from.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-env-changed=BUILD_COMMIT");
    // What is built from an archive is told its commit, or has none. Each commit, and no other change, is noted in the
    // log of HEAD.
    let commit = std::env::var("BUILD_COMMIT").ok().or_else(|| {
        let head_log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
        println!("cargo::rerun-if-changed={head_log}");
        git(&["log", "-1", "--format=%h %cs", "--abbrev=12"])
    });
    let version = env!("CARGO_PKG_VERSION");
    let version = commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=VERSION_WITH_COMMIT={version}");
}
