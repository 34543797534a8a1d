//! Flags that several subcommands have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches};
use client::{Client, ClientConfig, ConnectionConfig, Security, bootstrap_server};

#[cfg(feature = "lab")]
use super::failure::Usage;
use super::output::visible;
use super::{profiles, properties};

/// The longest string that old versions of the protocol can carry.
const NAME_BYTES_MAX: usize = i16::MAX as usize;
/// Where a broker of one's own is.
const DEFAULT_SERVER: &str = "127.0.0.1:9092";

/// Where the brokers are that a command works on, and how to connect to them: by flags, by the environment, or by a
/// profile.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    flags: ConnectionFlags,
    /// What the flags come to, when somebody has asked.
    address: OnceLock<Address>,
    /// What the properties file says of it, when it has been read.
    security: OnceLock<Security>,
}

#[derive(Clone, Debug, clap::Args)]
struct ConnectionFlags {
    /// Brokers to ask first, separated by commas; the port is 9092 where none is given [default: those of the profile
    /// in use, or 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT", env = "PARSHALL_BOOTSTRAP_SERVER", alias = "broker-list")]
    #[arg(value_delimiter = ',', value_parser = bootstrap_server, hide_env_values = true)]
    bootstrap_server: Vec<String>,
    /// A properties file of Kafka's clients: security.protocol, sasl.jaas.config, ssl.truststore.location ...
    #[arg(long, value_name = "FILE", env = "PARSHALL_COMMAND_CONFIG", hide_env_values = true)]
    #[arg(aliases = ["producer.config", "consumer.config"])]
    command_config: Option<PathBuf>,
    /// The cluster of a profile ('parshall profile list'), in place of the one in use
    #[arg(long, value_name = "NAME", env = "PARSHALL_PROFILE", hide_env_values = true, value_parser = profiles::name)]
    profile: Option<String>,
}

#[derive(Clone, Debug)]
struct Address {
    servers: Vec<String>,
    command_config: Option<PathBuf>,
    /// The profile that the servers come from.
    profile: Option<String>,
}

impl clap::Args for Connection {
    fn augment_args(command: clap::Command) -> clap::Command {
        ConnectionFlags::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ConnectionFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Connection {
    /// A flag counts more than the environment, and of either of them servers more than a profile. What counts less is
    /// forgotten: the properties file of one cluster may not go to another.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = ConnectionFlags::from_arg_matches(matches)?;
        let is_flag = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        match (is_flag("profile"), is_flag("bootstrap_server")) {
            (true, true) => {
                let text = "--profile and --bootstrap-server each name a cluster: leave one out\n";
                return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
            }
            (true, false) => {
                flags.bootstrap_server.clear();
                flags.command_config.take_if(|_| !is_flag("command_config"));
            }
            (false, _) if !flags.bootstrap_server.is_empty() => flags.profile = None,
            (false, _) => {}
        }
        Ok(Self { flags, address: OnceLock::new(), security: OnceLock::new() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Connection {
    /// A client that has a connection. One that cannot be made is an error at once; what fails later is tried again.
    pub(crate) async fn client(&self, name: &str) -> Result<Client> {
        let client = self.unconnected(name)?;
        match (client.any_broker().await, &self.address()?.profile) {
            (Ok(_), _) => Ok(client),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(profile)) => Err(anyhow::Error::from(error).context(format!("profile {profile}"))),
        }
    }

    /// The same for a command that changes something: it says which profile it takes, for that may have been forgotten.
    pub(crate) async fn client_for_changes(&self, name: &str) -> Result<Client> {
        self.tell_profile()?;
        self.client(name).await
    }

    /// Says on stderr which profile a command takes, if it takes one.
    pub(crate) fn tell_profile(&self) -> Result<()> {
        let Address { servers, profile, .. } = self.address()?;
        if let Some(profile) = profile {
            eprintln!("Using profile {profile}: {}", visible(&servers.join(",")));
        }
        Ok(())
    }

    /// The properties file for the cluster that the command works on.
    pub(crate) fn command_config(&self) -> Result<Option<&Path>> {
        Ok(self.address()?.command_config.as_deref())
    }

    /// The properties file that was named, and no profile's.
    #[cfg(feature = "lab")]
    pub(crate) fn named_command_config(&self) -> Option<&Path> {
        self.flags.command_config.as_deref()
    }

    #[cfg(feature = "lab")]
    pub(crate) fn is_of_profile(&self) -> Result<bool> {
        Ok(self.address()?.profile.is_some())
    }

    /// The flags, for another command.
    pub(crate) fn flags(&self) -> Result<Vec<OsString>> {
        let Address { servers, command_config, .. } = self.address()?;
        let mut flags = vec!["--bootstrap-server".into(), servers.join(",").into()];
        if let Some(path) = command_config {
            flags.extend(["--command-config".into(), path.clone().into_os_string()]);
        }
        Ok(flags)
    }

    /// The same with security, and servers where there are any, that were not named by these flags.
    #[cfg(feature = "lab")]
    pub(crate) fn with(&self, servers: Option<&str>, security: Security) -> Result<Self> {
        let address = match servers {
            Some(servers) => {
                let servers = servers.split(',').map(|text| bootstrap_server(text.trim())).collect::<Result<_, _>>();
                let command_config = self.flags.command_config.clone();
                Address { servers: servers.map_err(Usage)?, command_config, profile: None }
            }
            None => self.address()?.clone(),
        };
        Ok(Self { flags: self.flags.clone(), address: address.into(), security: security.into() })
    }

    /// A client with connections of its own, so that waiting on one does not hold up the other.
    pub(crate) fn unconnected(&self, name: &str) -> Result<Client> {
        self.named(&format!("parshall-{name}"))
    }

    /// The same with a `client.id` of the caller's choice.
    pub(crate) fn named(&self, client_id: &str) -> Result<Client> {
        let security = self.security()?;
        let connection = ConnectionConfig { client_id: client_id.to_owned(), security, ..ConnectionConfig::default() };
        let config = ClientConfig { connection, ..ClientConfig::new(self.address()?.servers.clone()) };
        Ok(Client::new(config))
    }

    fn address(&self) -> Result<&Address> {
        if let Some(address) = self.address.get() {
            return Ok(address);
        }
        let ConnectionFlags { bootstrap_server, command_config, profile } = self.flags.clone();
        let found = if bootstrap_server.is_empty() { profiles::find(profile.as_deref())? } else { None };
        let address = match found {
            Some((name, profile)) => Address {
                servers: profile.bootstrap_servers,
                command_config: command_config.or(profile.command_config),
                profile: Some(name),
            },
            None if bootstrap_server.is_empty() => {
                Address { servers: vec![DEFAULT_SERVER.to_owned()], command_config, profile: None }
            }
            None => Address { servers: bootstrap_server, command_config, profile: None },
        };
        Ok(self.address.get_or_init(|| address))
    }

    fn security(&self) -> Result<Security> {
        if let Some(security) = self.security.get() {
            return Ok(security.clone());
        }
        let security = properties::security_of(self.command_config()?)?;
        Ok(self.security.get_or_init(|| security).clone())
    }
}

/// The name of a topic, group or setting.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a name may not be empty".to_owned()),
        1..=NAME_BYTES_MAX => Ok(text.to_owned()),
        _ => Err(format!("a name may not be longer than {NAME_BYTES_MAX} bytes")),
    }
}

/// `NAME=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name(key.trim())?, value.trim().to_owned()))
}

/// `500ms`, `10s`, `2m`, `1h`, or seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let milliseconds = match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e12).contains(&seconds) => (seconds * 1000.0) as i64,
        _ => super::time::parse_span(text).ok_or("a time is a number with ms, s, m, h or d, for example 10s")?,
    };
    u64::try_from(milliseconds).map(Duration::from_millis).map_err(|_| "a time may not be negative".to_owned())
}

/// As a shell takes it for one word.
#[cfg(feature = "lab")]
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "-1", "5 parsecs", "NaN", "inf"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_keep_what_stands_behind_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err());
        assert!(pair("=b").is_err());
    }

    #[cfg(feature = "lab")]
    #[test]
    fn a_shell_takes_it_for_one_word() {
        assert_eq!(quoted("a=b/c"), "a=b/c");
        assert_eq!(quoted("p99 > 20ms"), "'p99 > 20ms'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
