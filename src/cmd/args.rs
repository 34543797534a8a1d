//! Flags that several subcommands have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use client::{Client, ClientConfig, ConnectionConfig, Security, bootstrap_server};

use super::properties;

/// The longest string that old versions of the protocol can carry.
const NAME_BYTES_MAX: usize = i16::MAX as usize;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Connection {
    /// Brokers to ask first, separated by commas; the port is 9092 where none is given
    #[arg(long, value_name = "HOST:PORT", env = "PARSHALL_BOOTSTRAP_SERVER", default_value = "127.0.0.1:9092")]
    #[arg(alias = "broker-list")]
    #[arg(value_delimiter = ',', value_parser = bootstrap_server, hide_env_values = true)]
    bootstrap_server: Vec<String>,
    /// A properties file of Kafka's clients: security.protocol, sasl.jaas.config, ssl.truststore.location ...
    #[arg(long, value_name = "FILE", env = "PARSHALL_COMMAND_CONFIG", hide_env_values = true)]
    #[arg(aliases = ["producer.config", "consumer.config"])]
    command_config: Option<PathBuf>,
    /// What the file says of it, when it has been read.
    #[arg(skip)]
    security: OnceLock<Security>,
}

impl Connection {
    /// A client that has a connection. One that cannot be made is an error at once; what fails later is tried again.
    pub(crate) async fn client(&self, name: &str) -> Result<Client> {
        let client = self.unconnected(name)?;
        client.any_broker().await?;
        Ok(client)
    }

    pub(crate) fn command_config(&self) -> Option<&Path> {
        self.command_config.as_deref()
    }

    /// The flags, for another command.
    pub(crate) fn flags(&self) -> Vec<OsString> {
        let mut flags = vec!["--bootstrap-server".into(), self.bootstrap_server.join(",").into()];
        if let Some(path) = &self.command_config {
            flags.extend(["--command-config".into(), path.clone().into_os_string()]);
        }
        flags
    }

    /// The same with security, and servers where there are any, that were not named by these flags.
    #[cfg(feature = "lab")]
    pub(crate) fn with(&self, servers: Option<&str>, security: Security) -> Result<Self, String> {
        let bootstrap_server = match servers {
            Some(servers) => servers.split(',').map(|text| bootstrap_server(text.trim())).collect::<Result<_, _>>()?,
            None => self.bootstrap_server.clone(),
        };
        Ok(Self { bootstrap_server, command_config: self.command_config.clone(), security: security.into() })
    }

    /// A client with connections of its own, so that waiting on one does not hold up the other.
    pub(crate) fn unconnected(&self, name: &str) -> Result<Client> {
        self.named(&format!("parshall-{name}"))
    }

    /// The same with a `client.id` of the caller's choice.
    pub(crate) fn named(&self, client_id: &str) -> Result<Client> {
        let security = self.security()?;
        let connection = ConnectionConfig { client_id: client_id.to_owned(), security, ..ConnectionConfig::default() };
        let config = ClientConfig { connection, ..ClientConfig::new(self.bootstrap_server.clone()) };
        Ok(Client::new(config))
    }

    fn security(&self) -> Result<Security> {
        if let Some(security) = self.security.get() {
            return Ok(security.clone());
        }
        let security = properties::security_of(self.command_config())?;
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
