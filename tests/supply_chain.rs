//! What is built into the binary, and into its tests, from elsewhere: whence it comes, under which licenses, what is
//! there twice, and what nobody maintains any more. Everything that is not as it should be is named here with a reason,
//! and has to be taken off its list when it is gone.
//!
//! `cargo deny` looks at the same and has to be built first; what it knows beyond this, the advisories of RustSec, is a
//! database to be downloaded. Those that concern us are in [`EXCEPTIONS`]; `cargo audit`, where there is a network,
//! says whether there are others.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Permissive ones, that ask for no more than their text in what is distributed.
const LICENSES: [&str; 8] =
    ["0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that have an advisory: name, version, advisory, and why they are here all the same.
const EXCEPTIONS: [(&str, &str, &str, &str); 2] = [
    (
        "protobuf",
        "2.28.0",
        "RUSTSEC-2024-0437",
        "raft's entries are its messages, and raft has no version without it. It reads nobody's bytes but our own: messages \
         of other nodes have a schema of ours (crates/broker/src/quorum/messages.rs), and nothing on disk is protobuf. \
         The prost codec of raft needs it too, and prost 0.11 beside 0.14",
    ),
    (
        "fxhash",
        "0.2.1",
        "RUSTSEC-2025-0057",
        "raft's maps of members have it for a hash, by ids that this node has made itself. It is 200 lines without unsafe \
         code that need no maintenance",
    ),
];

/// Crates of which there are several versions, and who keeps the older one.
const TWICE: [(&str, &str); 13] = [
    ("base64", "hdrhistogram"),
    ("bit-vec", "yasna"),
    ("bitflags", "protobuf-build, at build time"),
    ("getrandom", "ring, and rand 0.8"),
    ("lock_api", "parking_lot 0.12"),
    ("nom", "cel, and x509-parser in tests"),
    ("parking_lot", "prometheus-client"),
    ("parking_lot_core", "parking_lot 0.12"),
    ("rand", "raft"),
    ("rand_core", "rand 0.8"),
    ("syn", "derive macros, at build time"),
    ("thiserror", "raft"),
    ("thiserror-impl", "thiserror 1"),
];

/// What cargo says about the packages that are built on this platform.
fn packages() -> Vec<Value> {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc says what it is");
    let host = String::from_utf8(host.stdout).expect("it is text");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("it builds for a platform");
    let mut command = Command::new(env!("CARGO"));
    // With what only some binaries have, too.
    command.args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform", host]);
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    serde_json::from_value(metadata["packages"].take()).expect("there are packages")
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// Whether a license expression (SPDX, and the slash that crates used for OR) is fulfilled by the allowed ones.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut rest = &words[..];
    let allowed = any_of(&mut rest);
    allowed && rest.is_empty() && !words.is_empty()
}

fn any_of(rest: &mut &[&str]) -> bool {
    let mut allowed = all_of(rest);
    while let Some(("OR", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        allowed |= all_of(rest);
    }
    allowed
}

fn all_of(rest: &mut &[&str]) -> bool {
    let mut allowed = one(rest);
    while let Some(("AND", after)) = rest.split_first().map(|(word, after)| (*word, after)) {
        *rest = after;
        allowed &= one(rest);
    }
    allowed
}

fn one(rest: &mut &[&str]) -> bool {
    match **rest {
        ["(", ref after @ ..] => {
            *rest = after;
            let allowed = any_of(rest);
            *rest = rest.strip_prefix(&[")"]).unwrap_or_default();
            allowed
        }
        [license, "WITH", exception, ref after @ ..] => {
            *rest = after;
            LICENSES.contains(&format!("{license} WITH {exception}").as_str())
        }
        [license, ref after @ ..] => {
            *rest = after;
            LICENSES.contains(&license)
        }
        [] => false,
    }
}

#[test]
fn expressions_of_licenses_are_understood() {
    for allowed in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND ISC"] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
    for refused in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MPL-2.0) AND MIT", "MIT WITH Commons-Clause", "OR"] {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn what_is_built_in_comes_from_crates_io_under_licenses_that_allow_it() {
    let mut problems = Vec::new();
    for package in packages() {
        let name = format!("{} {}", text(&package, "name"), text(&package, "version"));
        // Those without a source are of this workspace.
        if !package["source"].is_null() && text(&package, "source") != CRATES_IO {
            problems.push(format!("{name} comes from {}", package["source"]));
        }
        if !is_allowed(text(&package, "license")) {
            problems.push(format!("{name} has the license {}", package["license"]));
        }
        let is_own = package["source"].is_null();
        for dependency in package["dependencies"].as_array().into_iter().flatten().filter(|_| is_own) {
            if dependency["path"].is_null() && text(dependency, "req") == "*" {
                problems.push(format!("{name} takes any version of {}", dependency["name"]));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn what_is_there_twice_or_has_an_advisory_is_named() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        versions.entry(text(&package, "name").to_owned()).or_default().insert(text(&package, "version").to_owned());
    }
    let mut problems = Vec::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        if !TWICE.iter().any(|(known, _)| known == name) {
            problems.push(format!("{name} is there as {versions:?}"));
        }
    }
    for (name, _) in TWICE {
        if versions.get(name).is_none_or(|versions| versions.len() < 2) {
            problems.push(format!("{name} is there once: take it off the list"));
        }
    }
    for (name, version, advisory, reason) in EXCEPTIONS {
        assert!(!reason.is_empty());
        if !versions.get(name).is_some_and(|versions| versions.contains(version)) {
            problems.push(format!("{name} {version} is not there: look at {advisory} again, and at the list"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
