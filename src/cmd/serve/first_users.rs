//! `--add-scram`: the first users of a cluster (KIP-900), who can log in before there is anybody to make users.

use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use platform::Random;
use security::scram::{self, Credential, Hash};
use security::{Mechanism, Secret};
use wire::api::alter_scram_keys::ScramKeysUpsertion;

use crate::cmd::failure::{self, Usage};

const ITERATIONS_DEFAULT: u32 = 4096;
/// Of a file of users.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What the flags say, as the cluster keeps it: a password is in none of it.
pub(super) fn read(flags: &[String], random: &dyn Random) -> Result<Vec<ScramKeysUpsertion>> {
    let mut users = Vec::new();
    for flag in flags {
        match flag.strip_prefix('@') {
            Some(path) => {
                let text = read_file(Path::new(path))?;
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
                for line in lines {
                    users.push(user(line, random).map_err(|reason| Usage(format!("--add-scram {flag}: {reason}")))?);
                }
            }
            None => {
                let user = user(flag, random).map_err(|reason| Usage(format!("--add-scram: {reason}")))?;
                let name = user.name.escape_debug();
                tracing::warn!(
                    "every process of this machine can read the password of {name} in this command; --add-scram @FILE \
                     reads it from a file"
                );
                users.push(user);
            }
        }
    }
    Ok(users)
}

fn read_file(path: &Path) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(|error| failure::of_file("read", path, &error))?;
    if text.len() > FILE_BYTES_MAX {
        bail!(Usage(format!("{} is no list of users: it has more than {FILE_BYTES_MAX} bytes", path.display())));
    }
    Ok(text)
}

/// `SCRAM-SHA-256=[name=alice,password=secret]`, with `iterations` and `salt` where they are given, and with
/// `saltedpassword` in place of the password. No error says more of it than names.
fn user(text: &str, random: &dyn Random) -> Result<ScramKeysUpsertion> {
    let form = "it is SCRAM-SHA-256=[name=NAME,password=PASSWORD], or SCRAM-SHA-512";
    let (mechanism, rest) = text.trim().split_once('=').ok_or_else(|| anyhow!(form))?;
    let inside = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or_else(|| anyhow!(form))?;
    let (id, hash) = match Mechanism::from_name(mechanism) {
        Some(Mechanism::Scram(Hash::Sha256)) => (1, Hash::Sha256),
        Some(Mechanism::Scram(Hash::Sha512)) => (2, Hash::Sha512),
        _ => bail!(form),
    };
    let mut given = Given::read(inside)?;
    let name =
        given.take("name").filter(|name| !name.expose().is_empty()).ok_or_else(|| anyhow!("a name is missing"))?;
    let iterations = match given.take("iterations") {
        Some(text) => text.expose().parse().ok().filter(|number| scram::ITERATIONS.contains(number)),
        None => Some(ITERATIONS_DEFAULT),
    };
    let iterations = iterations.and_then(NonZeroU32::new);
    let range = (scram::ITERATIONS.start(), scram::ITERATIONS.end());
    let iterations = iterations.ok_or_else(|| anyhow!("iterations are a number from {} to {}", range.0, range.1))?;
    let salt = given.take("salt").map(|salt| decoded("salt", salt.expose())).transpose()?;
    let credential = match (given.take("password"), given.take("saltedpassword"), salt) {
        (Some(password), None, salt) if !password.expose().is_empty() => {
            let salt = salt.unwrap_or_else(|| new_salt(random));
            Credential::from_password(hash, password.expose(), salt, iterations)
        }
        (None, Some(salted), Some(salt)) => {
            let salted = Secret::new(decoded("saltedpassword", salted.expose())?);
            Credential::from_salted_password(hash, salted.expose(), salt, iterations.get())
        }
        (None, Some(_), None) => bail!("a salt is missing, without which a saltedpassword is of no use"),
        _ => bail!("there is one password, or one saltedpassword"),
    };
    given.must_be_empty()?;
    let key = |key: &Secret<Vec<u8>>| wire::Secret(Bytes::copy_from_slice(key.expose()));
    Ok(ScramKeysUpsertion {
        name: name.expose().clone(),
        mechanism: id,
        iterations: i32::try_from(iterations.get())?,
        salt: credential.salt.clone().into(),
        stored_key: key(&credential.stored_key),
        server_key: key(&credential.server_key),
    })
}

/// Names and values, each once.
struct Given<'a>(Vec<(&'a str, Secret<String>)>);

impl<'a> Given<'a> {
    /// `name=value,name="a value, in quotes"`.
    fn read(mut text: &'a str) -> Result<Self> {
        let mut given: Vec<(&str, Secret<String>)> = Vec::new();
        while !text.is_empty() {
            let (name, rest) = text.split_once('=').ok_or_else(|| anyhow!("NAME=VALUE is expected, behind commas"))?;
            let (value, rest) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(|| anyhow!("a quotation mark is missing"))?,
                None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
            };
            let name = name.trim();
            if given.iter().any(|(other, _)| *other == name) {
                bail!("{name:?} is there twice");
            }
            given.push((name, Secret::new(value.to_owned())));
            text = match rest.strip_prefix(',') {
                Some(rest) => rest,
                None if rest.is_empty() => rest,
                None => bail!("a comma is missing behind a quotation mark"),
            };
        }
        Ok(Self(given))
    }

    fn take(&mut self, name: &str) -> Option<Secret<String>> {
        let at = self.0.iter().position(|(other, _)| *other == name)?;
        Some(self.0.remove(at).1)
    }

    fn must_be_empty(&self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => bail!("{name:?} is nothing that a user has"),
        }
    }
}

fn decoded(name: &str, text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty()).ok_or_else(|| anyhow!("{name} is not in base64"))
}

fn new_salt(random: &dyn Random) -> Vec<u8> {
    let halves = [random.bytes(), random.bytes()].concat();
    let mut bytes = [0; scram::SALT_RANDOM_BYTES];
    bytes.copy_from_slice(&halves[..scram::SALT_RANDOM_BYTES]);
    scram::salt(&bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use platform::Env;

    use super::*;

    fn read_one(text: &str) -> Result<ScramKeysUpsertion> {
        user(text, &*Env::real().random)
    }

    #[test]
    fn keys_are_those_of_the_password() {
        let user = read_one("SCRAM-SHA-512=[name=alice,password=\"a, b\",iterations=5000]").unwrap();
        assert_eq!((user.name.as_str(), user.mechanism, user.iterations), ("alice", 2, 5000));
        let iterations = NonZeroU32::new(5000).unwrap();
        let expected = Credential::from_password(Hash::Sha512, "a, b", user.salt.to_vec(), iterations);
        assert_eq!(&user.stored_key.0[..], &expected.stored_key.expose()[..]);
        assert_eq!(&user.server_key.0[..], &expected.server_key.expose()[..]);
        assert_ne!(read_one("SCRAM-SHA-512=[name=alice,password=a]").unwrap().salt, user.salt);
    }

    #[test]
    fn a_salted_password_is_as_good_as_the_password() {
        let salted = scram::salted_password(Hash::Sha256, "p", b"salt", NonZeroU32::new(4096).unwrap());
        let (salt, salted) = (STANDARD.encode("salt"), STANDARD.encode(salted.expose()));
        let plain = read_one(&format!("SCRAM-SHA-256=[name=a,password=p,salt=\"{salt}\"]")).unwrap();
        let given = format!("SCRAM-SHA-256=[name=a,salt=\"{salt}\",saltedpassword=\"{salted}\"]");
        assert_eq!(read_one(&given).unwrap(), plain);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (wrong, part) in [
            ("canary", "it is SCRAM-SHA-256="),
            ("PLAIN=[name=a,password=canary]", "it is SCRAM-SHA-256="),
            ("SCRAM-SHA-256=name=a,password=canary", "it is SCRAM-SHA-256="),
            ("SCRAM-SHA-256=[password=canary]", "a name is missing"),
            ("SCRAM-SHA-256=[name=a]", "one password"),
            ("SCRAM-SHA-256=[name=a,password=]", "one password"),
            ("SCRAM-SHA-256=[name=a,password=canary,saltedpassword=canary]", "one password"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=canary]", "a salt is missing"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=canary-,salt=\"YQ==\"]", "saltedpassword is not in base64"),
            ("SCRAM-SHA-256=[name=a,password=canary,iterations=4095]", "from 4096 to 16384"),
            ("SCRAM-SHA-256=[name=a,password=canary,password=canary]", "\"password\" is there twice"),
            ("SCRAM-SHA-256=[name=a,password=canary,x=canary]", "\"x\" is nothing"),
            ("SCRAM-SHA-256=[name=a,password=\"canary]", "a quotation mark is missing"),
            ("SCRAM-SHA-256=[name=a,password=\"canary\"x]", "a comma is missing"),
            ("SCRAM-SHA-256=[name=a,canary]", "NAME=VALUE"),
        ] {
            let text = read_one(wrong).unwrap_err().to_string();
            assert!(text.contains(part) && !text.contains("canary"), "{wrong}: {text}");
        }
    }

    #[test]
    fn a_file_has_a_user_in_each_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "# first users\n\nSCRAM-SHA-256=[name=a,password=p]\n SCRAM-SHA-512=[name=a,password=p]\n";
        file.write_all(text.as_bytes()).unwrap();
        let flag = format!("@{}", file.path().display());
        let random = &*Env::real().random;
        let users = read(std::slice::from_ref(&flag), random).unwrap();
        assert_eq!(users.iter().map(|user| user.mechanism).collect::<Vec<_>>(), [1, 2]);
        file.write_all(b"x\n").unwrap();
        assert!(read(&[flag], random).unwrap_err().is::<Usage>());
        assert!(read(&["@no-such-file".to_owned()], random).unwrap_err().to_string().contains("no-such-file"));
    }
}
