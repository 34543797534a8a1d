//! SASL: who uses a connection, and how it is proved (KIP-43). [`crate::connection`] speaks of it with the broker.

mod jaas;
pub(crate) mod scram;

use scram::Hash;

use crate::security_error::{PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, Secret, SecurityError};

/// Who we are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credentials {
    pub(crate) mechanism: Mechanism,
    pub(crate) username: String,
    pub(crate) password: Secret,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    Plain,
    Scram(Hash),
}

impl Mechanism {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => PLAIN,
            Self::Scram(Hash::Sha256) => SCRAM_SHA_256,
            Self::Scram(Hash::Sha512) => SCRAM_SHA_512,
        }
    }
}

impl Credentials {
    /// By `sasl.mechanism` and `sasl.jaas.config`.
    pub(crate) fn new(mechanism: &str, config: &str) -> Result<Self, SecurityError> {
        let (mechanism, module) = match mechanism {
            PLAIN => (Mechanism::Plain, "PlainLoginModule"),
            SCRAM_SHA_256 => (Mechanism::Scram(Hash::Sha256), "ScramLoginModule"),
            SCRAM_SHA_512 => (Mechanism::Scram(Hash::Sha512), "ScramLoginModule"),
            _ => return Err(SecurityError::Mechanism { mechanism: mechanism.to_owned() }),
        };
        let wrong = |reason: String| SecurityError::Jaas { reason };
        let mut login = jaas::parse(config).map_err(|reason| wrong(reason.to_owned()))?;
        if login.module.rsplit('.').next() != Some(module) {
            return Err(wrong(format!("is for {}; {} needs {module}", login.module, mechanism.name())));
        }
        if login.options.get("tokenauth").is_some_and(|value| value == "true") {
            return Err(wrong("has tokenauth=true; delegation tokens are not there".to_owned()));
        }
        let mut take = |name: &str| {
            let value = login.options.remove(name).ok_or_else(|| wrong(format!("has no {name}")))?;
            match value.chars().any(char::is_control) {
                true => Err(wrong(format!("has a control character in its {name}"))),
                false => Ok(value),
            }
        };
        Ok(Self { mechanism, username: take("username")?, password: Secret(take("password")?) })
    }
}

#[cfg(test)]
mod tests;
