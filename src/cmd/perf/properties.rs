//! Settings by Kafka's names, from a properties file and from flags.

use anyhow::Result;
use client::{Security, SecurityConfig};
use lab::SettingError;

use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;
use crate::cmd::properties;

const SERVERS: &str = "bootstrap.servers";

/// Where and how to connect, as the settings say.
pub(super) struct Given {
    pub(super) servers: Option<String>,
    security: Security,
}

/// What the properties file says and then what the flags say, which therefore wins.
pub(super) fn pairs(connection: &Connection, flags: &[(String, String)]) -> Result<Vec<(String, String)>> {
    // A profile's file is for its own servers only.
    let is_profile = flags.iter().all(|(name, _)| name != SERVERS) && connection.is_of_profile()?;
    let file = if is_profile { connection.command_config()? } else { connection.named_command_config() };
    let mut pairs = match file {
        Some(file) => properties::read(file)?,
        None => Vec::new(),
    };
    pairs.retain(|(name, _)| name != SERVERS || !is_profile);
    pairs.extend(flags.iter().cloned());
    Ok(pairs)
}

/// Applies settings; a later one wins. Those that change nothing are warned of. Returns what is not for `set`:
/// `bootstrap.servers` and all of security.
pub(super) fn apply(
    pairs: &[(String, String)],
    mut set: impl FnMut(&str, &str) -> Result<(), SettingError>,
) -> Result<Given> {
    let mut servers = None;
    for (name, value) in pairs {
        if name == SERVERS {
            servers = Some(value.clone());
            continue;
        }
        if SecurityConfig::is_about(name) {
            continue;
        }
        match set(name, value) {
            Ok(()) => {}
            Err(error) if error.is_harmless() => eprintln!("warning: {error}"),
            Err(error) => return Err(Usage(error.to_string()).into()),
        }
    }
    Ok(Given { servers, security: properties::security(pairs)? })
}

/// To the servers that the settings name, or those of the flag.
pub(super) fn connection(given: Given, flag: &Connection) -> Result<Connection> {
    flag.with(given.servers.as_deref(), given.security)
}
