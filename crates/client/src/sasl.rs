//! SASL: who uses a connection, and how it is proved (KIP-43). [`crate::connection`] speaks of it with the broker.

use security::{Mechanism, Secret, jaas};

use crate::security_error::SecurityError;

/// Who we are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credentials {
    pub(crate) mechanism: Mechanism,
    pub(crate) username: String,
    pub(crate) password: Secret,
}

impl Credentials {
    /// As a person types them.
    pub(crate) fn typed(mechanism: &str, username: &str, password: &str) -> Result<Self, SecurityError> {
        let unknown = || SecurityError::Mechanism { mechanism: mechanism.to_owned() };
        let mechanism = Mechanism::from_name(mechanism).ok_or_else(unknown)?;
        for (what, text) in [("user", username), ("password", password)] {
            if text.is_empty() || text.chars().any(char::is_control) {
                return Err(SecurityError::Login { what });
            }
        }
        Ok(Self { mechanism, username: username.to_owned(), password: Secret::new(password.to_owned()) })
    }

    /// By `sasl.mechanism` and `sasl.jaas.config`.
    pub(crate) fn new(mechanism: &str, config: &str) -> Result<Self, SecurityError> {
        let unknown = || SecurityError::Mechanism { mechanism: mechanism.to_owned() };
        let mechanism = Mechanism::from_name(mechanism).ok_or_else(unknown)?;
        let module = mechanism.login_module();
        let wrong = |reason: String| SecurityError::Jaas { reason };
        let mut login = jaas::parse(config).map_err(|reason| wrong(reason.to_string()))?;
        if login.module_name() != module {
            return Err(wrong(format!("is for {}; {} needs {module}", login.module, mechanism.name())));
        }
        if login.options.get("tokenauth").is_some_and(|value| value.expose() == "true") {
            return Err(wrong("has tokenauth=true; delegation tokens are not there".to_owned()));
        }
        let mut take = |name: &str| {
            let value = login.options.remove(name).ok_or_else(|| wrong(format!("has no {name}")))?;
            match value.expose().chars().any(char::is_control) {
                true => Err(wrong(format!("has a control character in its {name}"))),
                false => Ok(value),
            }
        };
        Ok(Self { mechanism, username: take("username")?.expose().clone(), password: take("password")? })
    }
}

#[cfg(test)]
mod tests;
