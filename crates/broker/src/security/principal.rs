//! Who sends a request (`KafkaPrincipal`).

use std::fmt;
use std::sync::Arc;

/// The only type of principals that authentication leads to.
const USER_PREFIX: &str = "User:";
/// Who has not said who they are (`KafkaPrincipal.ANONYMOUS`).
const ANONYMOUS: &str = "ANONYMOUS";

/// A user, as it is written in ACLs: `User:alice`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
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
