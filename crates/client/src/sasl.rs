//! SASL: a connection says who uses it before anything else is asked (KIP-43, KIP-152).
//!
//! Where a broker ends sessions after a while (`connections.max.reauth.ms`, KIP-368), a connection is not authenticated
//! anew: shortly before its end it counts as closed for new users, and another one is opened.

mod jaas;
mod scram;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};
use wire::ErrorCode;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use crate::security::{Secret, SecurityError};
use crate::{Connection, ConnectionError};
use scram::{Hash, Scram};

/// `sasl.mechanism`, as far as they are there.
pub(crate) const MECHANISMS: [&str; 3] = [PLAIN, SCRAM_SHA_256, SCRAM_SHA_512];
const PLAIN: &str = "PLAIN";
const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
const SCRAM_SHA_512: &str = "SCRAM-SHA-512";
/// Since this version of SaslHandshake tokens follow in requests.
const TOKENS_IN_REQUESTS: i16 = 1;
/// The part of a session's life that is used. Kafka's clients choose from 85 to 95 %.
const SESSION_PERCENT: u32 = 85;
const NONCE_BYTES: usize = 24;

/// Who we are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credentials {
    mechanism: Mechanism,
    username: String,
    password: Secret,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    Scram(Hash),
}

impl Mechanism {
    fn name(self) -> &'static str {
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

/// Says who we are. Returns how long the connection may be used, where the broker limits it.
pub(crate) async fn authenticate(
    connection: &Connection,
    credentials: &Credentials,
) -> Result<Option<Duration>, ConnectionError> {
    let session = Session { connection, credentials };
    session.choose_mechanism().await?;
    let last = match credentials.mechanism {
        Mechanism::Plain => {
            let token = format!("\0{}\0{}", credentials.username, credentials.password.0);
            session.send(token).await?
        }
        Mechanism::Scram(hash) => {
            let failed = |error: scram::ScramError| session.refused(error.to_string());
            let scram = Scram::new(hash, &credentials.username, session.nonce()?);
            let challenge = session.send(scram.first()).await?;
            let answer = scram.answer(&credentials.password.0, &challenge.auth_bytes).map_err(failed)?;
            let last = session.send(answer.message.clone()).await?;
            answer.verify(&last.auth_bytes).map_err(failed)?;
            last
        }
    };
    let lifetime = u64::try_from(last.session_lifetime_ms).unwrap_or_default();
    Ok((lifetime > 0).then(|| Duration::from_millis(lifetime) * SESSION_PERCENT / 100))
}

struct Session<'a> {
    connection: &'a Connection,
    credentials: &'a Credentials,
}

impl Session<'_> {
    fn refused(&self, reason: String) -> ConnectionError {
        let Credentials { mechanism, username, .. } = self.credentials;
        ConnectionError::Authentication {
            address: self.connection.address().to_owned(),
            user: username.clone(),
            mechanism: mechanism.name(),
            reason,
        }
    }

    async fn choose_mechanism(&self) -> Result<(), ConnectionError> {
        let mechanism = self.credentials.mechanism.name();
        let version = self.connection.version::<SaslHandshakeRequest>().unwrap_or_default();
        if version < TOKENS_IN_REQUESTS {
            return Err(self.refused("it does not speak SASL".to_owned()));
        }
        let SaslHandshakeResponse { error_code, mechanisms } =
            self.connection.send(&SaslHandshakeRequest { mechanism: mechanism.to_owned() }).await?;
        Err(self.refused(match error_code {
            ErrorCode::NONE => return Ok(()),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => format!("it takes {}", mechanisms.join(", ")),
            ErrorCode::ILLEGAL_SASL_STATE => "this listener has no SASL".to_owned(),
            code => code.to_string(),
        }))
    }

    async fn send(&self, token: String) -> Result<SaslAuthenticateResponse, ConnectionError> {
        let request = SaslAuthenticateRequest { auth_bytes: Bytes::from(token) };
        let response = self.connection.send(&request).await?;
        match response.error_code {
            ErrorCode::NONE => Ok(response),
            code => {
                let message = response.error_message.filter(|message| !message.is_empty());
                Err(self.refused(message.unwrap_or_else(|| code.to_string())))
            }
        }
    }

    /// Letters and digits that nobody has seen before.
    fn nonce(&self) -> Result<String, ConnectionError> {
        let mut bytes = [0; NONCE_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| self.refused("the system gives no random numbers".to_owned()))?;
        Ok(STANDARD_NO_PAD.encode(bytes))
    }
}

#[cfg(test)]
mod tests;
