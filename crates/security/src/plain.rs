//! PLAIN (RFC 4616), the server's side: the token, and the users of a JAAS configuration.
//!
//! Behaviour (`PlainSaslServer`, `PlainServerCallbackHandler`):
//! - The token is `[AUTHORIZATION ID] NUL USER NUL PASSWORD`: three parts, the last two not empty, in UTF-8.
//! - Users are the options `user_NAME="PASSWORD"` of a `PlainLoginModule`. Its `username` and `password` are what a
//!   broker would log in with elsewhere, and let nobody in.
//! - An unknown user and a wrong password get the same answer after the same work.
//! - An authorization id is the user's own name, or empty (CVE-2017-12610); it is looked at behind the password.

use std::collections::HashMap;

use ring::digest;
use subtle::{Choice, ConstantTimeEq};

use crate::Secret;
use crate::jaas::{self, JaasError};

pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

const MODULE: &str = "PlainLoginModule";
const USER_PREFIX: &str = "user_";

/// Why a token is refused, in Kafka's words: the client is told them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    #[error("Invalid SASL/PLAIN response: expected 3 tokens, got {got}")]
    Token { got: usize },
    #[error("Authentication failed: username not specified")]
    NoUsername,
    #[error("Authentication failed: password not specified")]
    NoPassword,
    #[error("Authentication failed: Invalid username or password")]
    Credentials,
    #[error("Authentication failed: Client requested an authorization id that is different from username")]
    AuthorizationId,
}

/// What is wrong with `sasl.jaas.config`. The words go on where the name of the setting ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    #[error(transparent)]
    Jaas(#[from] JaasError),
    #[error("is for {module}; PLAIN needs {MODULE}")]
    Module { module: String },
    #[error("has no users; user_NAME=\"PASSWORD\" is expected")]
    NoUsers,
    #[error("has a user without a name, or without a password: {option}")]
    Empty { option: String },
}

/// A digest of each user's password, so that all of them are compared in the same time.
#[derive(Debug)]
pub struct Users(HashMap<String, Secret<Vec<u8>>>);

impl Users {
    pub fn from_jaas(config: &str) -> Result<Self, UsersError> {
        let login = jaas::parse(config)?;
        if login.module_name() != MODULE {
            return Err(UsersError::Module { module: login.module });
        }
        let mut users = HashMap::new();
        for (option, password) in &login.options {
            let Some(name) = option.strip_prefix(USER_PREFIX) else { continue };
            if name.is_empty() || password.expose().is_empty() {
                return Err(UsersError::Empty { option: option.clone() });
            }
            users.insert(name.to_owned(), digest_of(password.expose().as_bytes()));
        }
        if users.is_empty() { Err(UsersError::NoUsers) } else { Ok(Self(users)) }
    }

    /// The user whose password the token has.
    pub fn authenticate(&self, token: &[u8]) -> Result<String, PlainError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(PlainError::Credentials);
        }
        // What is no UTF-8 is nobody's name or password, and that is how it is told.
        let token = String::from_utf8_lossy(token);
        let parts: Vec<&str> = token.splitn(4, '\0').collect();
        let [authorization_id, username, password] = parts[..] else {
            return Err(PlainError::Token { got: parts.len() });
        };
        if username.is_empty() {
            return Err(PlainError::NoUsername);
        }
        if password.is_empty() {
            return Err(PlainError::NoPassword);
        }
        let given = digest_of(password.as_bytes());
        let nobodys = Secret::new(vec![0; digest::SHA256_OUTPUT_LEN]);
        let known = self.0.get(username);
        let is_known = Choice::from(u8::from(known.is_some()));
        let is_equal = given.expose().ct_eq(known.unwrap_or(&nobodys).expose());
        if !bool::from(is_equal & is_known) {
            return Err(PlainError::Credentials);
        }
        if !authorization_id.is_empty() && authorization_id != username {
            return Err(PlainError::AuthorizationId);
        }
        Ok(username.to_owned())
    }
}

fn digest_of(password: &[u8]) -> Secret<Vec<u8>> {
    Secret::new(digest::digest(&digest::SHA256, password).as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"broker\" \
                          password=\"broker's\" user_alice=\"alice's secret\" user_=x user_bob='bob';";

    fn users() -> Users {
        Users::from_jaas(&CONFIG.replace("user_=x ", "")).unwrap()
    }

    #[test]
    fn a_user_with_its_password_is_let_in() {
        assert_eq!(users().authenticate(b"\0alice\0alice's secret"), Ok("alice".to_owned()));
        assert_eq!(users().authenticate(b"bob\0bob\0bob"), Ok("bob".to_owned()));
    }

    #[test]
    fn all_others_are_refused() {
        use PlainError::*;
        for (token, reason) in [
            ("", Token { got: 1 }),
            ("alice", Token { got: 1 }),
            ("alice\0alice's secret", Token { got: 2 }),
            ("\0alice\0alice's secret\0", Token { got: 4 }),
            ("\0alice\0alice's secret\0\0", Token { got: 4 }),
            ("\0\0alice's secret", NoUsername),
            ("\0alice\0", NoPassword),
            ("\0alice\0bob", Credentials),
            ("\0alice\0alice's secret ", Credentials),
            ("\0Alice\0alice's secret", Credentials),
            ("\0mallory\0mallory", Credentials),
            ("\0broker\0broker's", Credentials),
            ("alice\0bob\0wrong", Credentials),
            ("alice\0bob\0bob", AuthorizationId),
        ] {
            assert_eq!(users().authenticate(token.as_bytes()), Err(reason), "{token:?}");
        }
        assert_eq!(users().authenticate(b"\0alice\0\xff"), Err(Credentials));
        let long = format!("\0alice\0{}", "x".repeat(TOKEN_BYTES_MAX));
        assert_eq!(users().authenticate(long.as_bytes()), Err(Credentials));
    }

    #[test]
    fn mistakes_are_named_and_passwords_are_not_shown() {
        let error = |config: &str| Users::from_jaas(config).unwrap_err().to_string();
        assert_eq!(error(CONFIG), "has a user without a name, or without a password: user_");
        assert_eq!(
            error("x.PlainLoginModule required user_a=\"\";"),
            "has a user without a name, or without a password: user_a"
        );
        assert_eq!(
            error("x.PlainLoginModule required username=a;"),
            "has no users; user_NAME=\"PASSWORD\" is expected"
        );
        assert_eq!(
            error("x.ScramLoginModule required user_a=b;"),
            "is for x.ScramLoginModule; PLAIN needs PlainLoginModule"
        );
        assert_eq!(error("x.PlainLoginModule required"), "does not end in a semicolon");
        let shown = format!("{:?}", users());
        assert!(!shown.contains("secret") && !shown.contains("bob's"), "{shown}");
    }
}
