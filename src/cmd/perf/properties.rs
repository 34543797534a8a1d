//! Settings by Kafka's names, from a properties file and from flags.

use std::path::Path;

use anyhow::{Context, Result};
use lab::SettingError;

use crate::cmd::args::Connection;
use crate::cmd::failure::Usage;

/// Applies what the file says and then what the flags say, which therefore wins. Settings that change nothing are
/// warned of. Returns the servers where `bootstrap.servers` names some.
pub(super) fn apply(
    file: Option<&Path>,
    flags: &[(String, String)],
    mut set: impl FnMut(&str, &str) -> Result<(), SettingError>,
) -> Result<Option<String>> {
    let mut pairs = match file {
        Some(file) => parse(file)?,
        None => Vec::new(),
    };
    pairs.extend(flags.iter().cloned());
    let mut servers = None;
    for (name, value) in pairs {
        if name == "bootstrap.servers" {
            servers = Some(value);
            continue;
        }
        match set(&name, &value) {
            Ok(()) => {}
            Err(error) if error.is_harmless() => eprintln!("warning: {error}"),
            Err(error) => return Err(Usage(error.to_string()).into()),
        }
    }
    Ok(servers)
}

/// To the servers that the settings name, or those of the flag.
pub(super) fn connection(servers: Option<String>, flag: &Connection) -> Result<Connection> {
    Ok(match servers {
        Some(servers) => Connection::to(&servers).map_err(Usage)?,
        None => flag.clone(),
    })
}

fn parse(file: &Path) -> Result<Vec<(String, String)>> {
    let text = String::from_utf8(read(file)?).map_err(|_| Usage(format!("{} is not UTF-8", file.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    let pairs = lines.map(|line| line.split_once(['=', ':']).unwrap_or((line, "")));
    Ok(pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect())
}

#[expect(clippy::disallowed_methods, reason = "a file that the user names")]
pub(super) fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
