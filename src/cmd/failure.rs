//! How a failure looks: one line that says what failed and what to do, and an exit code.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use client::{ClientError, ConnectionError};
use wire::ErrorCode;

use super::output::visible;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

/// A mistake in the command itself that the parser cannot see.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Of things that were done one by one: what failed, in one line.
pub(crate) fn all(failed: Vec<ClientError>) -> anyhow::Result<()> {
    let others = failed.iter().skip(1).map(|error| format!("; {error}")).collect::<String>();
    match failed.into_iter().next() {
        None => Ok(()),
        Some(first) if others.is_empty() => Err(first.into()),
        Some(first) => anyhow::bail!("{first}{others}"),
    }
}

/// What went wrong with one of them, for JSON.
pub(crate) fn text<T>(result: &Result<T, ClientError>) -> Option<String> {
    result.as_ref().err().map(ToString::to_string)
}

/// What could not be done with a file or a directory, in the system's words without Rust's number behind them.
pub(crate) fn of_file(what: &str, path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot {what} {}: {}", path.display(), client::system_error::reason(error))
}

/// Prints an error of a subcommand.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let hint = error.chain().find_map(|cause| cause.downcast_ref()).and_then(hint);
    let text = one_line(&with_causes(error));
    let text = visible(&text);
    match hint {
        Some(hint) => eprintln!("error: {text}; {hint}"),
        None => eprintln!("error: {text}"),
    }
    let is_usage = error.downcast_ref::<Usage>().is_some();
    ExitCode::from(if is_usage { WRONG_USAGE } else { FAILED })
}

/// Prints what the parser found: help and version as they are, a mistake in one line.
pub(crate) fn usage(error: &clap::Error, command: &clap::Command, words: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // Nobody may be reading: `parshall --help | head`.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let rendered = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{rendered}");
    } else {
        eprintln!("{}", mistake(&rendered, &subcommand(command, words)));
    }
    ExitCode::from(WRONG_USAGE)
}

/// The parser's paragraphs as one line, with the help to ask for.
fn mistake(rendered: &str, subcommand: &str) -> String {
    let is_end = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more information");
    let text: Vec<_> = rendered.lines().take_while(is_end).map(str::trim).filter(|line| !line.is_empty()).collect();
    let text =
        text.join(" ").replace(" tip: ", "; tip: ").replace("invalid digit found in string", "it is no whole number");
    format!("{text}; see '{subcommand} --help'")
}

/// What the words of a command line begin with: `parshall topic create`.
fn subcommand(mut command: &clap::Command, words: &[OsString]) -> String {
    let mut path = command.get_name().to_owned();
    for word in words {
        let Some(found) = command.find_subcommand(word) else { break };
        path = format!("{path} {}", found.get_name());
        command = found;
    }
    path
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

fn hint(error: &ClientError) -> Option<&'static str> {
    match error {
        // What is wrong then is how, not where.
        ClientError::Unreachable { reason } if reason.is_about_security() => None,
        ClientError::Unreachable { .. } => {
            Some("start a broker with 'parshall serve', or name another with --bootstrap-server")
        }
        ClientError::Connection(ConnectionError::Closed { .. }) => {
            Some("a listener with SASL hangs up on those who do not log in, which --command-config is for")
        }
        ClientError::UnknownTopic { .. } => Some("'parshall topic list' shows the topics"),
        ClientError::UnknownPartition(_) => Some("'parshall topic describe' shows the partitions"),
        ClientError::OffsetOutOfRange { .. } => Some("start with --offset beginning or --offset end"),
        ClientError::Refused { code: ErrorCode::MESSAGE_TOO_LARGE, .. } => {
            Some("the topic's max.message.bytes and the broker's message.max.bytes set the limit")
        }
        ClientError::Refused { code: ErrorCode::SECURITY_DISABLED, .. } => {
            Some("brokers have ACLs with authorizer.class.name, which docs/security.md describes")
        }
        ClientError::Refused { code: ErrorCode::GROUP_ID_NOT_FOUND, .. } => {
            Some("'parshall group list' shows the groups")
        }
        ClientError::Refused { code: ErrorCode::TRANSACTIONAL_ID_NOT_FOUND, .. } => {
            Some("'parshall transaction list' shows the transactional ids")
        }
        _ => None,
    }
}

/// The error and what led to it. A cause that the words before it end with is not said twice.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line_with_the_help_to_ask_for() {
        let rendered = "error: unexpected argument '--partition' found\n\n  tip: a similar argument exists: \
            '--partitions'\n\nUsage: parshall topic create --partitions <N> <TOPIC>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            mistake(rendered, "parshall topic create"),
            "error: unexpected argument '--partition' found; tip: a similar argument exists: '--partitions'; \
             see 'parshall topic create --help'"
        );
    }

    #[test]
    fn the_help_is_that_of_the_subcommand() {
        let create = clap::Command::new("create").alias("make");
        let root = clap::Command::new("parshall").subcommand(clap::Command::new("topic").subcommand(create));
        for (words, path) in [
            ("topic create orders --partitions x", "parshall topic create"),
            ("topic make", "parshall topic create"),
            ("topic --x create", "parshall topic"),
            ("create", "parshall"),
        ] {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            assert_eq!(subcommand(&root, &words), path);
        }
    }

    #[test]
    fn an_error_of_many_lines_becomes_one() {
        assert_eq!(one_line("a\n  b\n\nc"), "a; b; c");
    }

    #[test]
    fn a_cause_is_said_once() {
        let error = io::Error::other("the disk is gone");
        let said = anyhow::Error::from(error).context("cannot read: the disk is gone").context("cannot start");
        assert_eq!(with_causes(&said), "cannot start: cannot read: the disk is gone");
    }

    #[test]
    fn a_closed_pipe_is_found_under_context() {
        let pipe = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing");
        assert!(is_broken_pipe(&pipe));
        assert!(!is_broken_pipe(&anyhow::anyhow!("other")));
    }
}
