//! A connection says who uses it before anything else is asked (KIP-43, KIP-152).
//!
//! Where a broker ends sessions after a while (`connections.max.reauth.ms`, KIP-368), a connection is not authenticated
//! anew: shortly before its end it counts as closed for new users, and another one is opened.

use std::time::Duration;

use bytes::Bytes;
use ring::rand::{SecureRandom, SystemRandom};
use security::Mechanism;
use security::oauth;
use security::scram::client::{Scram, ScramError};
use security::scram::{NONCE_BYTES, nonce};
use tokio::task::spawn_blocking;
use wire::ErrorCode;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

use super::Connection;
use crate::ConnectionError;
use crate::sasl::{Credentials, TokenError};

/// Since this version of SaslHandshake tokens follow in requests.
const TOKENS_IN_REQUESTS: i16 = 1;
/// The part of a session's life that is used. Kafka's clients choose from 85 to 95 %.
const SESSION_PERCENT: u32 = 85;

/// Says who we are. Returns how long the connection may be used, where the broker limits it.
pub(super) async fn authenticate(
    connection: &Connection,
    credentials: &Credentials,
) -> Result<Option<Duration>, ConnectionError> {
    let session = Session { connection, credentials };
    session.choose_mechanism().await?;
    let last = match credentials.mechanism {
        Mechanism::Plain => {
            let token = format!("\0{}\0{}", credentials.username, credentials.password.expose());
            session.send(token).await?
        }
        Mechanism::Scram(hash) => {
            let failed = |error: ScramError| session.refused(error.to_string());
            let scram = Scram::new(hash, &credentials.username, session.nonce()?);
            let challenge = session.send(scram.first()).await?;
            // As many iterations as the broker asks for would keep a thread of the runtime from everybody else.
            let password = credentials.password.clone();
            let answer = spawn_blocking(move || scram.answer(password.expose(), &challenge.auth_bytes)).await;
            let answer = answer.map_err(|error| session.refused(error.to_string()))?.map_err(failed)?;
            let last = session.send(answer.message.clone()).await?;
            answer.verify(&last.auth_bytes).map_err(failed)?;
            last
        }
        Mechanism::OAuthBearer => {
            let tokens = credentials.tokens.as_ref().expect("with OAUTHBEARER there are tokens");
            let token = tokens.token(&credentials.username, &credentials.password).await;
            let token = token.map_err(|error| session.without_token(&error))?;
            let last = session.send(oauth::client_first(&token)).await?;
            if !last.auth_bytes.is_empty() {
                // It has said what it does not like, and refuses us when we say that we have heard.
                let said = String::from_utf8_lossy(&last.auth_bytes).into_owned();
                let heard = String::from_utf8_lossy(oauth::ACKNOWLEDGEMENT).into_owned();
                session.send(heard).await?;
                return Err(session.refused(said));
            }
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

    fn without_token(&self, error: &TokenError) -> ConnectionError {
        let (address, reason) = (self.connection.address().to_owned(), format!("there is no token: {error}"));
        if error.is_retriable() { ConnectionError::Connect { address, reason } } else { self.refused(reason) }
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

    fn nonce(&self) -> Result<String, ConnectionError> {
        let mut bytes = [0; NONCE_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| self.refused("the system gives no random numbers".to_owned()))?;
        Ok(nonce(&bytes))
    }
}
