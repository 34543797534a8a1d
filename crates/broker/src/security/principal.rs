//! Who sends a request (`KafkaPrincipal`).

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The only type of principals that authentication leads to.
const USER_PREFIX: &str = "User:";
/// Who has not said who they are (`KafkaPrincipal.ANONYMOUS`).
const ANONYMOUS: &str = "ANONYMOUS";

/// A user, as it is written in ACLs: `User:alice`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

/// Who asks this broker for something that another one decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub principal: Principal,
    pub address: IpAddr,
}

impl Principal {
    /// What [`Self::as_str`] gives. None for what no client can be called.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.strip_prefix(USER_PREFIX)?;
        (!name.is_empty()).then(|| Self(text.into()))
    }

    pub fn user(name: &str) -> Self {
        Self(format!("{USER_PREFIX}{name}").into())
    }

    /// `User:alice`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `alice`.
    pub fn name(&self) -> &str {
        self.0.strip_prefix(USER_PREFIX).unwrap_or(&self.0)
    }

    pub fn anonymous() -> Self {
        Self::user(ANONYMOUS)
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
