//! Settings by Kafka's names, from a properties file and from flags.

use std::path::Path;

use anyhow::Result;
use client::{Security, SecurityConfig};
use lab::SettingError;

use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;
use crate::cmd::properties;

/// Where and how to connect, as the settings say.
pub(super) struct Given {
    pub(super) servers: Option<String>,
    security: Security,
}

/// Applies what the file says and then what the flags say, which therefore wins. Settings that change nothing are
/// warned of. Returns what is not for `set`: `bootstrap.servers` and all of security.
pub(super) fn apply(
    file: Option<&Path>,
    flags: &[(String, String)],
    mut set: impl FnMut(&str, &str) -> Result<(), SettingError>,
) -> Result<Given> {
    let mut pairs = match file {
        Some(file) => properties::read(file)?,
        None => Vec::new(),
    };
    pairs.extend(flags.iter().cloned());
    let mut servers = None;
    for (name, value) in &pairs {
        if name == "bootstrap.servers" {
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
    Ok(Given { servers, security: properties::security(&pairs)? })
}

/// To the servers that the settings name, or those of the flag.
pub(super) fn connection(given: Given, flag: &Connection) -> Result<Connection> {
    Ok(flag.with(given.servers.as_deref(), given.security).map_err(Usage)?)
}
