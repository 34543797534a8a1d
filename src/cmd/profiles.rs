//! Profiles: clusters by name, kept in `profiles.toml` for commands that are told of no other. There are addresses and
//! paths in it, and no secrets: those stay in the properties files that it names.
//!
//! Who reads the file checks all of it, so that what a command finds can be used.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use client::{bootstrap_server, private_file};
use serde::{Deserialize, Serialize};

use super::failure;
use super::user_file::user_file;

const NAME_CHARS_MAX: usize = 64;
const PROFILES_MAX: usize = 1000;

/// What the file has.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_use: Option<String>,
    #[serde(default)]
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// How to reach a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    pub(crate) bootstrap_servers: Vec<String>,
    /// An absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command_config: Option<PathBuf>,
}

/// The name of a profile, for a command line.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
    match text.len() {
        1..=NAME_CHARS_MAX if is_plain && !text.starts_with('-') => Ok(text.to_owned()),
        _ => Err(format!("a profile's name has letters, digits, '.', '_' and '-', {NAME_CHARS_MAX} at most")),
    }
}

/// The profile of this name, or the one in use where none is named, with its name.
pub(crate) fn find(name: Option<&str>) -> Result<Option<(String, Profile)>> {
    if path().is_err() && name.is_none() {
        return Ok(None);
    }
    let profiles = Profiles::read()?;
    let Some(name) = name.or(profiles.in_use.as_deref()) else { return Ok(None) };
    Ok(Some((name.to_owned(), profiles.of_name(name)?.clone())))
}

fn path() -> Result<PathBuf> {
    let path = user_file("XDG_CONFIG_HOME", ".config", "profiles.toml");
    path.ok_or_else(|| anyhow!("there is no place for profiles: HOME is not set, nor XDG_CONFIG_HOME"))
}

impl Profiles {
    pub(crate) fn read() -> Result<Self> {
        let path = path()?;
        match private_file::read(&path) {
            Ok(Some(text)) => Self::parse(&text, &path),
            Ok(None) => Ok(Self::default()),
            Err(error) => Err(failure::of_file("read", &path, &error)),
        }
    }

    /// Reads the file, changes what is there and writes it, while nobody else does so.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Self, T)> {
        let path = path()?;
        let _lock = private_file::lock(&path).map_err(|error| failure::of_file("write", &path, &error))?;
        let mut profiles = Self::read()?;
        let changed = change(&mut profiles)?;
        profiles.write(&path)?;
        Ok((profiles, changed))
    }

    fn write(&self, path: &Path) -> Result<()> {
        if self.profiles.len() > PROFILES_MAX {
            bail!("there are {PROFILES_MAX} profiles already; 'parshall profile remove' removes one");
        }
        let text = toml::to_string(self)?;
        private_file::write(path, text.as_bytes()).map_err(|error| failure::of_file("write", path, &error))
    }

    pub(crate) fn of_name(&self, name: &str) -> Result<&Profile> {
        self.profiles.get(name).ok_or_else(|| match self.profiles.is_empty() {
            true => anyhow!("there is no profile {name}; 'parshall profile add' adds one"),
            false => {
                let names: Vec<_> = self.profiles.keys().map(String::as_str).collect();
                anyhow!("there is no profile {name}; there are {}", names.join(", "))
            }
        })
    }

    fn parse(text: &str, path: &Path) -> Result<Self> {
        let advice = "repair it, or remove it and add the profiles again";
        let malformed = |reason: String| anyhow!("{} is not a file of profiles ({reason}): {advice}", path.display());
        let mut profiles = toml::from_str::<Self>(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let line = line.map_or_else(String::new, |line| format!("line {line}: "));
            malformed(line + error.message())
        })?;
        for (given, profile) in &mut profiles.profiles {
            let of_profile = |reason: String| malformed(format!("profile {given}: {reason}"));
            name(given).map_err(of_profile)?;
            if profile.bootstrap_servers.is_empty() {
                return Err(of_profile("bootstrap_servers is empty".to_owned()));
            }
            for server in &mut profile.bootstrap_servers {
                *server = bootstrap_server(server).map_err(of_profile)?;
            }
        }
        Ok(profiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let profile = Profile {
            bootstrap_servers: vec!["kafka-1:9092".to_owned(), "[::1]:9093".to_owned()],
            command_config: Some(PathBuf::from("/etc/kafka/it's \"here\".properties")),
        };
        let plain = Profile { command_config: None, ..profile.clone() };
        let profiles = BTreeMap::from([("prod".to_owned(), profile), ("eu.dev-1_a".to_owned(), plain)]);
        for profiles in [Profiles { in_use: Some("prod".to_owned()), profiles }, Profiles::default()] {
            let text = toml::to_string(&profiles).unwrap();
            assert_eq!(Profiles::parse(&text, Path::new("f")).unwrap(), profiles, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_none_of_profiles_is_told_in_a_line() {
        for (text, part) in [
            ("in_use = \"a\"\nnonsense", "line 2: "),
            ("[profiles.a]\nbootstrap_server = [\"k\"]", "unknown field `bootstrap_server`"),
            ("[profiles.a]\nbootstrap_servers = []", "profile a: bootstrap_servers is empty"),
            ("[profiles.a]\nbootstrap_servers = [\"http://k\"]", "profile a: a server is HOST:PORT"),
            ("[profiles.\"a\\nb\"]\nbootstrap_servers = [\"k\"]", "a profile's name has"),
        ] {
            let error = Profiles::parse(text, Path::new("profiles.toml")).unwrap_err().to_string();
            assert!(error.contains(part) && error.ends_with("add the profiles again"), "{error}");
        }
    }

    #[test]
    fn names_are_plain() {
        assert!(["prod", "eu.dev-1_a", &"x".repeat(64)].iter().all(|text| name(text).is_ok()));
        assert!(["", "-x", "a b", "a/b", "ä", &"x".repeat(65)].iter().all(|text| name(text).is_err()));
    }
}
