//! Guards the house style mechanically, over every file that git tracks: what a reader would otherwise have to say in a
//! review.

use std::path::{Path, PathBuf};
use std::process::Command;

use configuration::{Scope, Setting};

const LINE_CHARS_MAX: usize = 120;
const FILE_LINES_MAX: usize = 800;

/// Files that may be longer than [`FILE_LINES_MAX`], each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Where the process may meet the clock, the random source and the file system; everybody else is handed them. The
/// server locks the data directory, which is between processes and nothing that a simulation could want to replace.
const AMBIENT_FILES: &[&str] = &[
    "crates/platform/src/env.rs",
    "crates/broker/src/security/file.rs",
    "crates/broker/src/server.rs",
    "crates/storage/src/disk.rs",
];

const LOG_MACROS: [&str; 5] =
    ["tracing::error!", "tracing::warn!", "tracing::info!", "tracing::debug!", "tracing::trace!"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The tracked text files, with their contents. Without git (a source archive) there is nothing to guard.
fn tracked() -> Vec<(String, String)> {
    let Ok(output) = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output() else {
        return Vec::new();
    };
    let listed = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let names = listed.split('\0').filter(|name| !name.is_empty() && *name != "LICENSE" && *name != "Cargo.lock");
    names.filter_map(|name| Some((name.to_owned(), read(&root().join(name))?))).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test of the sources reads the sources")]
fn read(path: &PathBuf) -> Option<String> {
    String::from_utf8(std::fs::read(path).ok()?).ok()
}

fn rust(files: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    files.iter().filter(|(name, _)| name.ends_with(".rs")).map(|(name, text)| (name.as_str(), text.as_str()))
}

/// The lines of a file before its unit tests.
fn before_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]")).map(|(at, line)| (at + 1, line))
}

/// Recorded output of others, and their scripts, which are as they are.
fn is_data(name: &str) -> bool {
    name.starts_with("compat/expect/") || name.ends_with(".txt") || name.starts_with("crates/console/assets/uPlot")
}

/// rustfmt sees to the length of code, but not of comments.
fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn nothing_is_left_undone() {
    // Written in two parts, so that this file does not find itself.
    let marks = [
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("db", "g!("),
        concat!("FIX", "ME"),
        concat!("XX", "X"),
    ];
    let mut problems = Vec::new();
    for (name, text) in &tracked() {
        for (at, line) in text.lines().enumerate() {
            problems.extend(
                marks.iter().filter(|mark| line.contains(**mark)).map(|mark| format!("{name}:{}: {mark}", at + 1)),
            );
        }
    }
    report(&problems);
}

#[test]
fn lines_and_files_stay_readable() {
    let files = tracked();
    let mut problems = Vec::new();
    for (name, text) in &files {
        for (at, line) in text.lines().enumerate() {
            let markdown_break = name.ends_with(".md") && line.ends_with("  ");
            if line.ends_with(' ') && !markdown_break && !is_data(name) {
                problems.push(format!("{name}:{}: ends in a space", at + 1));
            }
            if line.contains('\t') && !is_data(name) && !name.starts_with("compat/go/") {
                problems.push(format!("{name}:{}: has a tab", at + 1));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') && !is_data(name) {
            problems.push(format!("{name}: does not end in a newline"));
        }
    }
    for (name, text) in rust(&files) {
        for (at, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX && is_comment(line) {
                problems.push(format!("{name}:{}: longer than {LINE_CHARS_MAX}", at + 1));
            }
        }
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(long, _)| *long == name) {
            problems.push(format!("{name}: {lines} lines, more than {FILE_LINES_MAX}"));
        }
    }
    for (long, reason) in LONG_FILES {
        assert!(!reason.is_empty());
        let still = files.iter().any(|(name, text)| name == long && text.lines().count() > FILE_LINES_MAX);
        if !still {
            problems.push(format!("{long} is not long any more: take it off the list"));
        }
    }
    report(&problems);
}

#[test]
fn every_module_says_what_it_is() {
    let files = tracked();
    // A fuzz target is three lines around a body, and the body says what it is.
    let without = rust(&files)
        .filter(|(name, _)| !name.starts_with("fuzz/fuzz_targets/"))
        .filter(|(_, text)| !text.lines().take(3).any(|line| line.starts_with("//! ")));
    report(&without.map(|(name, _)| format!("{name}: does not open with what it owns (//!)")).collect::<Vec<_>>());
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let files = tracked();
    let mut problems = Vec::new();
    let manifests = files.iter().filter(|(name, _)| name.ends_with("Cargo.toml") && !name.starts_with("fuzz/"));
    for (name, text) in manifests {
        if !text.contains("[lints]\nworkspace = true") {
            problems.push(format!("{name}: no [lints] workspace = true"));
        }
        if name == "Cargo.toml" && !text.contains("unsafe_code = \"forbid\"") {
            problems.push(format!("{name}: unsafe code is not forbidden"));
        }
    }
    report(&problems);
}

#[test]
fn time_and_files_come_from_outside() {
    // tokio's Instant is no way out: tests pause its clock.
    let ways_out =
        ["SystemTime::now", "std::time::Instant", "std::fs::", "std::net::Tcp", "tokio::fs::", "std::thread::sleep"];
    let files = tracked();
    let mut problems = Vec::new();
    let crates =
        ["wire", "security", "storage", "platform", "configuration", "quorum", "metadata", "coordinator", "broker"];
    let guarded = crates.map(|name| format!("crates/{name}/src/"));
    for (name, text) in rust(&files) {
        if !guarded.iter().any(|path| name.starts_with(path.as_str())) || AMBIENT_FILES.contains(&name) {
            continue;
        }
        for (at, line) in before_tests(text) {
            let code = line.split("//").next().unwrap_or_default();
            problems
                .extend(ways_out.iter().filter(|way| code.contains(**way)).map(|way| format!("{name}:{at}: {way}")));
        }
    }
    report(&problems);
}

#[test]
fn nothing_names_a_place_on_somebody_s_machine() {
    let places = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut problems = Vec::new();
    for (name, text) in &tracked() {
        for (at, line) in text.lines().enumerate() {
            problems.extend(
                places.iter().filter(|place| line.contains(**place)).map(|place| format!("{name}:{}: {place}", at + 1)),
            );
        }
    }
    report(&problems);
}

/// Words of our own that have given way to those of the field (docs/glossary.md has those that stay).
const OLD_WORDS: &[(&str, &str)] = &[
    ("In trouble", "Critical"),
    ("NOT WELL", "UNHEALTHY"),
    ("Not all in sync", "Under-replicated"),
    ("Processor, of one core", "CPU, of one core"),
    ("Greatest lag", "Max lag"),
    ("Lag, records", "Lag (records)"),
    ("Write a record", "Produce message"),
    ("Follow new records", "Live tail"),
    ("Light or dark", "Theme"),
    ("is_mistaken", "injected_fault"),
    ("fill_after", "complete_after"),
    ("look_at_leadership", "read_leadership"),
    ("be_patient", "reset_election_timeout"),
    ("is_lonely", "lost_majority"),
    ("loyal", "stale_leader_client"),
];

#[test]
fn old_words_stay_out() {
    let mut problems = Vec::new();
    for (name, text) in tracked().iter().filter(|(name, _)| name != "tests/tidy.rs" && !is_data(name)) {
        for (at, line) in text.lines().enumerate() {
            let old = OLD_WORDS.iter().filter(|(old, _)| line.contains(old));
            problems.extend(old.map(|(old, new)| format!("{name}:{}: {old:?}; say {new:?}", at + 1)));
        }
    }
    report(&problems);
}

/// A line without a logger could not be turned up or down by itself.
#[test]
fn every_line_of_the_log_has_a_logger() {
    let files = tracked();
    let mut problems = Vec::new();
    let of_broker =
        |name: &str| !name.starts_with("tests/") && !name.contains("/tests/") && !name.starts_with("crates/lab/");
    for (name, text) in rust(&files).filter(|(name, _)| of_broker(name)) {
        let path = name.trim_end_matches(".rs").trim_start_matches("crates/").replace("/src/", "/");
        let logger = match path.split('/').collect::<Vec<_>>()[..] {
            ["broker", module, ..] => format!("broker.{module}"),
            ["src", ..] => "parshall".to_owned(),
            [one, ..] => one.to_owned(),
            [] => continue,
        };
        let writes = before_tests(text).any(|(_, line)| LOG_MACROS.iter().any(|name| line.contains(name)));
        if writes && !platform::loggers::NAMES.contains(&logger.as_str()) {
            problems.push(format!("{name}: {logger} is no logger of crates/platform/src/loggers.rs"));
        }
    }
    report(&problems);
}

/// Settings that are read by way of a function (or a field) of the typed settings: who calls that reads them.
const READ_THROUGH: &[(Scope, &str, &[&str])] = &[
    (Scope::Broker, "node_id", &["broker.id"]),
    (Scope::Broker, "data_dirs(", &["log.dir", "log.dirs"]),
    (Scope::Broker, "membership(", &["controller.quorum.voters", "controller.quorum.bootstrap.servers"]),
    (Scope::Broker, "client_endpoints(", &["listeners", "listener.security.protocol.map"]),
    (Scope::Broker, "advertised_endpoints(", &["advertised.listeners"]),
    (Scope::Broker, "inter_broker_endpoint(", &["controller.listener.names"]),
    (Scope::Broker, "jaas_config(", &["sasl.jaas.config"]),
    (Scope::Broker, "max_reauth_ms(", &["connections.max.reauth.ms"]),
    (Scope::Broker, "log_config(", &["producer.id.expiration.ms"]),
    (
        Scope::Topic,
        "log_config(",
        &[
            "cleanup.policy",
            "delete.retention.ms",
            "file.delete.delay.ms",
            "index.interval.bytes",
            "internal.segment.bytes",
            "max.compaction.lag.ms",
            "min.cleanable.dirty.ratio",
            "min.compaction.lag.ms",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.index.bytes",
            "segment.jitter.ms",
            "segment.ms",
        ],
    ),
];

/// Settings that take one value only, and refuse the others.
const REFUSING: &[(Scope, &str)] = &[
    (Scope::Broker, "process.roles"),
    (Scope::Topic, "remote.storage.enable"),
    (Scope::Broker, "group.consumer.min.session.timeout.ms"),
    (Scope::Broker, "group.consumer.max.session.timeout.ms"),
    (Scope::Broker, "group.consumer.min.heartbeat.interval.ms"),
    (Scope::Broker, "group.consumer.max.heartbeat.interval.ms"),
    (Scope::Broker, "group.consumer.min.assignment.interval.ms"),
    (Scope::Broker, "group.consumer.max.assignment.interval.ms"),
];

/// The code of some files without comments and tests. A chain of calls is one line.
fn code_of<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut code = String::new();
    for (_, text) in files.filter(|(name, _)| !name.contains("/tests") && !name.contains("/simulation")) {
        for (_, line) in before_tests(text).filter(|(_, line)| !is_comment(line)) {
            let line = line.trim();
            if !line.starts_with('.') {
                code.push('\n');
            }
            code.push_str(line);
        }
    }
    code
}

/// Whether the code has `receiver.member`, and not only the beginning of a longer name.
fn reads(code: &str, receivers: &[&str], member: &str) -> bool {
    receivers.iter().any(|receiver| {
        let wanted = format!("{receiver}.{member}");
        let is_end = |at: usize| !code[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        code.match_indices(&wanted).any(|(at, _)| member.ends_with('(') || is_end(at + wanted.len()))
    })
}

/// A setting that nobody reads is a promise that nobody keeps. One that changes nothing belongs to those that are said
/// to be ignored, with the reason.
#[test]
fn every_setting_is_read_or_said_to_be_ignored() {
    const RECEIVERS: &[&str] = &["config", "config()", "settings", "load()", "topic", "broker", "self", "own"];
    let files = tracked();
    if files.is_empty() {
        return;
    }
    let is_config = |name: &str| name.starts_with("crates/configuration/src/");
    let readers =
        ["crates/broker/src/", "crates/coordinator/src/", "crates/metadata/src/", "crates/storage/src/", "src/"];
    let is_reader = |name: &str| readers.iter().any(|path| name.starts_with(path));
    let config = code_of(rust(&files).filter(|(name, _)| is_config(name)));
    let readers = code_of(rust(&files).filter(|(name, _)| is_reader(name) && !is_config(name)));
    let is_read_itself = |scope: Scope, setting: &Setting| {
        let field = setting.name.replace('.', "_");
        let in_config = || reads(&config, RECEIVERS, &field);
        let through = READ_THROUGH.iter().find(|(of, _, names)| *of == scope && names.contains(&setting.name));
        reads(&readers, RECEIVERS, &field)
            || readers.contains(&format!(".get(\"{}\")", setting.name))
            || through.is_some_and(|(_, function, _)| in_config() && reads(&readers, RECEIVERS, function))
            || REFUSING.contains(&(scope, setting.name)) && in_config()
    };
    // What a topic or a group is not given itself comes from the broker.
    let stands_behind_a_read_one = |name: &str| {
        [Scope::Topic, Scope::Group].into_iter().any(|scope| {
            let mut settings = scope.settings().filter(|setting| setting.synonyms.iter().any(|s| s.name == name));
            settings.any(|setting| setting.ignored.is_none() && is_read_itself(scope, setting))
        })
    };
    let mut problems = Vec::new();
    for scope in [Scope::Broker, Scope::Topic, Scope::Group] {
        for setting in scope.settings() {
            let is_read =
                is_read_itself(scope, setting) || scope == Scope::Broker && stands_behind_a_read_one(setting.name);
            match setting.ignored {
                None if !is_read => problems.push(format!("{scope} setting {}: accepted, but not read", setting.name)),
                Some(_) if is_read => problems.push(format!("{scope} setting {}: read, but ignored", setting.name)),
                Some("") => problems.push(format!("{scope} setting {}: ignored without a reason", setting.name)),
                _ => {}
            }
        }
    }
    // What a log is told, it obeys.
    let log = code_of(
        rust(&files)
            .filter(|(name, _)| name.starts_with("crates/storage/src/") && *name != "crates/storage/src/config.rs"),
    );
    let (_, fields) = files
        .iter()
        .find(|(name, _)| name == "crates/storage/src/config.rs")
        .and_then(|(_, text)| text.split_once("pub struct LogConfig {"))
        .expect("logs have a configuration");
    let fields = fields.lines().take_while(|line| *line != "}");
    for field in fields.filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':')) {
        if !reads(&log, &["config", "config()"], field.0) {
            problems.push(format!("LogConfig.{}: not read by the log", field.0));
        }
    }
    report(&problems);
}
