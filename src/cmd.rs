//! The subcommands, and what they share: flags, output, times, failures.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Subcommand;
use platform::loggers::Loggers;
use tracing_subscriber::filter::LevelFilter;

mod acl;
mod args;
mod bytes;
mod cluster;
mod completion;
mod config;
#[cfg(feature = "console")]
mod console;
#[cfg(feature = "console")]
mod console_certificate;
#[cfg(feature = "console")]
mod console_lab;
#[cfg(feature = "console")]
mod console_listener;
mod consume;
mod debug;
mod dump;
pub(crate) mod failure;
mod group;
mod journal;
pub(crate) mod kafka_forms;
#[cfg(feature = "lab")]
mod lab;
mod log_dirs;
mod man;
mod metrics;
mod names;
mod output;
mod partition;
mod partitions;
mod password;
#[cfg(feature = "lab")]
mod perf;
mod produce;
mod profile;
mod profiles;
mod properties;
mod quota;
mod recover;
mod serve;
mod table;
pub(crate) mod time;
mod tls;
mod topic;
mod transaction;
mod user;
mod user_file;
mod versions;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Cluster(cluster::Args),
    Topic(topic::Args),
    Produce(produce::Args),
    Consume(consume::Args),
    Group(group::Args),
    Transaction(transaction::Args),
    Partition(partition::Args),
    LogDirs(log_dirs::Args),
    Config(config::Args),
    User(user::Args),
    Quota(quota::Args),
    Acl(acl::Args),
    Tls(tls::Args),
    ApiVersions(versions::ApiVersions),
    Features(versions::Features),
    Dump(dump::Args),
    Debug(debug::Args),
    Recover(recover::Args),
    Journal(journal::Args),
    #[cfg(feature = "lab")]
    Perf(perf::Args),
    #[cfg(feature = "lab")]
    Lab(lab::Args),
    Metrics(metrics::Args),
    #[cfg(feature = "console")]
    Console(console::Args),
    Profile(profile::Args),
    Completion(completion::Args),
    Man(man::Args),
}

impl Command {
    /// A broker tells what it does; a tool is silent unless there is something to say.
    pub(crate) fn default_log_level(&self) -> LevelFilter {
        match self {
            Self::Serve(_) => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }
}

/// A broker takes the loggers of the process with it.
pub(crate) async fn run(command: Command, loggers: Arc<Loggers>) -> Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args, loggers).await.map(|()| ExitCode::SUCCESS),
        Command::Cluster(args) => cluster::run(args).await,
        Command::Topic(args) => topic::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Produce(args) => produce::run(args).await,
        Command::Consume(args) => consume::run(args).await,
        Command::Group(args) => group::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Transaction(args) => transaction::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Partition(args) => partition::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::LogDirs(args) => log_dirs::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Config(args) => config::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::User(args) => user::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Quota(args) => quota::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Acl(args) => acl::run(args).await,
        Command::Tls(args) => tls::run(args).map(|()| ExitCode::SUCCESS),
        Command::ApiVersions(args) => versions::api_versions(args).await.map(|()| ExitCode::SUCCESS),
        Command::Features(args) => versions::show_features(args).await.map(|()| ExitCode::SUCCESS),
        Command::Dump(args) => dump::run(args),
        Command::Debug(args) => debug::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Journal(args) => journal::run(args).await,
        Command::Recover(args) => recover::run(args).await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "lab")]
        Command::Perf(args) => perf::run(args).await,
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run(args).await,
        Command::Metrics(args) => metrics::run(args).await.map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "console")]
        Command::Console(args) => console::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Profile(args) => profile::run(args).map(|()| ExitCode::SUCCESS),
        Command::Completion(args) => completion::run(&args, crate::command()).map(|()| ExitCode::SUCCESS),
        Command::Man(args) => man::run(&args, crate::command()).map(|()| ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    /// Commands without --json, and why.
    const WITHOUT_JSON: [(&str, &str); 4] = [
        ("serve", "runs until it is stopped, and others wait for its line"),
        ("console", "runs until it is stopped"),
        ("completion", "prints a script for a shell"),
        ("man", "prints nothing"),
    ];

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, bool)>) {
        for sub in command.get_subcommands() {
            leaves(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
        if !command.has_subcommands() {
            found.push((path.to_owned(), command.get_arguments().any(|argument| argument.get_long() == Some("json"))));
        }
    }

    #[test]
    fn whatever_prints_something_prints_json_for_scripts() {
        let mut found = Vec::new();
        leaves(&crate::command(), "", &mut found);
        assert!(found.len() > 40, "{found:?}");
        let is_listed = |path: &str| WITHOUT_JSON.iter().any(|(listed, _)| *listed == path);
        for (path, has_json) in &found {
            assert_ne!(*has_json, is_listed(path), "{path}: it has --json, or stands on the list with a reason");
        }
        #[cfg(feature = "console")]
        for (listed, _) in WITHOUT_JSON {
            assert!(found.iter().any(|(path, _)| path == listed), "there is no command {listed}: take it off the list");
        }
    }

    #[test]
    fn the_command_line_makes_sense() {
        crate::command().debug_assert();
    }
}
