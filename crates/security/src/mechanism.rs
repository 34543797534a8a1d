//! The SASL mechanisms that are there, under their registered names.

use crate::scram::Hash;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    Plain,
    Scram(Hash),
    OAuthBearer,
}

impl Mechanism {
    pub const ALL: [Self; 4] = [Self::Plain, Self::Scram(Hash::Sha256), Self::Scram(Hash::Sha512), Self::OAuthBearer];

    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }

    /// Names are upper case (RFC 4422); Kafka takes no others.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// The names of all, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// What a client is told whose login is refused, whatever the reason (`SaslServerAuthenticator`). Those of PLAIN
    /// that say more are in [`crate::plain`].
    pub fn refusal(self, is_reauthentication: bool) -> String {
        let during = if is_reauthentication { "re-authentication" } else { "authentication" };
        let name = self.name();
        format!("Authentication failed during {during} due to invalid credentials with SASL mechanism {name}")
    }

    /// The login module of `sasl.jaas.config`, without its package.
    pub fn login_module(self) -> &'static str {
        match self {
            Self::Plain => "PlainLoginModule",
            Self::Scram(_) => "ScramLoginModule",
            Self::OAuthBearer => "OAuthBearerLoginModule",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_under_its_name() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        for name in ["", "plain", "SCRAM-SHA-1", "GSSAPI"] {
            assert_eq!(Mechanism::from_name(name), None);
        }
        assert_eq!(
            Mechanism::Scram(Hash::Sha256).refusal(false),
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        );
        assert_eq!(Mechanism::names(), "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER");
    }
}
