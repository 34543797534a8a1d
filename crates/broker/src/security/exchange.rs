//! How a client says who it is, on a listener with SASL (`SaslServerAuthenticator`, KIP-43, KIP-152, KIP-368).
//!
//! A client may ask once which versions are spoken, then chooses a mechanism, then sends tokens: in requests of their
//! own, or raw, without any header, where it chose with version 0 of SaslHandshake. It is told the same of every
//! failure, so that nobody learns which users there are.
//!
//! Behaviour of OAUTHBEARER (`OAuthBearerSaslServer`):
//! - A token that is no good is answered by a text in JSON, and the client is refused with its next message. Kafka
//!   would take another token there.
//! - A token whose key is not known waits until the keys have been fetched anew; Kafka refuses it meanwhile.
//! - A session ends with the token, if `connections.max.reauth.ms` does not end it before, or is not set.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use metadata::{MetadataImage, ScramMechanism};
use platform::Random;
use security::oauth::{self, TokenError};
use security::scram::server::ClientFirst;
use security::scram::{self, Credential, Hash};
use security::{Mechanism, Secret};
use wire::api::Request;
use wire::api::api_versions::ApiVersionsRequest;
use wire::api::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
use wire::api::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use wire::frame::RequestHeader;
use wire::{ErrorCode, Reader, frame};

use super::{KeysWait, ListenerSecurity, Principal, random_bytes};
use crate::close_reason::CloseReason;
use crate::frame::Frame;

/// Who a client has turned out to be, and for how long that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub principal: Principal,
    /// `None` for a certificate, or nothing at all.
    pub mechanism: Option<Mechanism>,
    /// `None` is for as long as the connection lives.
    pub lifetime: Option<Duration>,
}

/// What comes of a request of a client that has not said yet who it is.
pub enum Step {
    /// ApiVersions, which is answered as ever.
    Versions,
    Answer(Frame),
    Authenticated(Frame, Authenticated),
    /// The same frame is to come once more, then.
    Later(KeysWait),
    /// The client is told, if there is a way to, and the connection ends.
    Refused(Option<Frame>, CloseReason),
}

/// What an exchange looks at.
pub struct Ground<'a> {
    pub listener: &'a ListenerSecurity,
    pub image: &'a MetadataImage,
    pub random: &'a dyn Random,
    /// Milliseconds since 1970.
    pub now_ms: i64,
}

/// How far a client has come.
pub struct Exchange {
    state: State,
    /// Who it was before and how it has said so, where it says it again.
    before: Option<(Principal, Mechanism)>,
}

enum State {
    Start { has_asked_versions: bool },
    Tokens { login: Login, are_raw: bool },
}

enum Login {
    Plain,
    Scram(Hash),
    /// Its challenge has been sent.
    Challenged(Hash, Box<scram::server::Login>),
    OAuthBearer,
    /// It has been told that its token is no good, for this reason.
    BadToken(String),
}

/// What a client is told that wants to act as another (`ScramSaslServer`).
const OTHER_AUTHORIZATION_ID: &str =
    "Authentication failed: Client requested an authorization id that is different from username";

/// What a token leads to.
enum Accepted {
    /// There is more to come.
    Challenge(String),
    /// With how long the credentials last, where they do not for ever.
    User(String, Principal, Option<Duration>),
    /// The same token is to come once more, then.
    Later(KeysWait),
}

/// What an exchange makes of that.
enum Taken {
    Challenge(String),
    User(String, Authenticated),
    Later(KeysWait),
}

/// Why a token is refused: what the client is told, and what the log says.
struct Failure {
    told: String,
    why: String,
}

impl Exchange {
    pub fn new() -> Self {
        Self { state: State::Start { has_asked_versions: false }, before: None }
    }

    /// For a client that was known as `before` and says again who it is.
    pub fn again(before: Principal, mechanism: Mechanism) -> Self {
        Self { state: State::Start { has_asked_versions: true }, before: Some((before, mechanism)) }
    }

    /// Whether the client was known before.
    pub fn is_renewal(&self) -> bool {
        self.before.is_some()
    }

    /// Whether the next frame is a token and nothing else.
    pub fn takes_raw_tokens(&self) -> bool {
        matches!(self.state, State::Tokens { are_raw: true, .. })
    }

    /// Whether a request of this API may come at all.
    pub fn takes(key: i16) -> bool {
        [ApiVersionsRequest::API.key, SaslHandshakeRequest::API.key, SaslAuthenticateRequest::API.key].contains(&key)
    }

    /// Takes a request whose header was read.
    pub fn request(
        &mut self,
        ground: &Ground<'_>,
        header: &RequestHeader,
        reader: &mut Reader<'_>,
    ) -> Result<Step, CloseReason> {
        let key = header.api_key;
        match &mut self.state {
            State::Start { has_asked_versions } if key == ApiVersionsRequest::API.key && !*has_asked_versions => {
                // One that is too new may be asked again.
                *has_asked_versions = ApiVersionsRequest::API.versions.contains(&header.api_version);
                Ok(Step::Versions)
            }
            State::Start { .. } if key == SaslHandshakeRequest::API.key => {
                let request: SaslHandshakeRequest = frame::read_body(reader)?;
                self.choose(ground.listener, header, &request)
            }
            State::Tokens { login, .. } if key == SaslAuthenticateRequest::API.key => {
                let mechanism = login.mechanism();
                if self.before.as_ref().is_some_and(|(_, before)| *before != mechanism) {
                    let reason = "another mechanism on the same connection".to_owned();
                    return Ok(Step::Refused(None, CloseReason::Authentication(reason)));
                }
                let request: SaslAuthenticateRequest = frame::read_body(reader)?;
                let taken = match self.take(ground, &request.auth_bytes) {
                    Ok(Taken::Later(wait)) => return Ok(Step::Later(wait)),
                    Ok(Taken::Challenge(token)) => Ok((token, None)),
                    Ok(Taken::User(token, authenticated)) => Ok((token, Some(authenticated))),
                    Err(failure) => Err(failure),
                };
                let (response, outcome) = match taken {
                    Ok((token, authenticated)) => {
                        let lifetime = authenticated.as_ref().and_then(|authenticated| authenticated.lifetime);
                        let lifetime_ms = lifetime.map_or(0, |lifetime| lifetime.as_millis());
                        let response = SaslAuthenticateResponse {
                            auth_bytes: token.into(),
                            error_message: Some(String::new()),
                            session_lifetime_ms: i64::try_from(lifetime_ms).unwrap_or(i64::MAX),
                            ..Default::default()
                        };
                        (response, Ok(authenticated))
                    }
                    Err(Failure { told, why }) => {
                        let response = SaslAuthenticateResponse {
                            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED,
                            error_message: Some(told),
                            ..Default::default()
                        };
                        (response, Err(CloseReason::Authentication(why)))
                    }
                };
                let answer = encode::<SaslAuthenticateRequest>(header, &response)?;
                Ok(match outcome {
                    Ok(None) => Step::Answer(answer),
                    Ok(Some(authenticated)) => Step::Authenticated(answer, authenticated),
                    Err(reason) => Step::Refused(Some(answer), reason),
                })
            }
            _ => Ok(Step::Refused(None, CloseReason::NotAuthenticated { key })),
        }
    }

    /// Takes a frame that is a token and nothing else. Such a client is not told of a failure.
    pub fn raw_token(&mut self, ground: &Ground<'_>, token: &[u8]) -> Step {
        match self.take(ground, token) {
            Ok(Taken::Challenge(token)) => Step::Answer(raw(&token)),
            Ok(Taken::User(token, authenticated)) => Step::Authenticated(raw(&token), authenticated),
            Ok(Taken::Later(wait)) => Step::Later(wait),
            Err(Failure { why, .. }) => Step::Refused(None, CloseReason::Authentication(why)),
        }
    }

    fn choose(
        &mut self,
        listener: &ListenerSecurity,
        header: &RequestHeader,
        request: &SaslHandshakeRequest,
    ) -> Result<Step, CloseReason> {
        let chosen = listener.mechanisms().find(|mechanism| mechanism.name() == request.mechanism);
        let response = SaslHandshakeResponse {
            error_code: if chosen.is_some() { ErrorCode::NONE } else { ErrorCode::UNSUPPORTED_SASL_MECHANISM },
            mechanisms: listener.mechanisms().map(|mechanism| mechanism.name().to_owned()).collect(),
        };
        let answer = encode::<SaslHandshakeRequest>(header, &response)?;
        let login = match chosen {
            Some(Mechanism::Plain) => Login::Plain,
            Some(Mechanism::Scram(hash)) => Login::Scram(hash),
            Some(Mechanism::OAuthBearer) => Login::OAuthBearer,
            None => {
                let reason = CloseReason::Authentication("the mechanism is not enabled".to_owned());
                return match self.before {
                    Some(_) => Err(reason),
                    None => Ok(Step::Refused(Some(answer), reason)),
                };
            }
        };
        self.state = State::Tokens { login, are_raw: header.api_version == 0 };
        Ok(Step::Answer(answer))
    }

    /// Takes a token. With the last one it is known who the client is.
    fn take(&mut self, ground: &Ground<'_>, token: &[u8]) -> Result<Taken, Failure> {
        let State::Tokens { login, .. } = &mut self.state else { unreachable!("a mechanism was chosen") };
        let mechanism = login.mechanism();
        let accepted = login.take(ground, token).map_err(|failure| Failure {
            told: failure.told.unwrap_or_else(|| mechanism.refusal(self.before.is_some())),
            why: failure.why,
        });
        match accepted? {
            Accepted::Challenge(challenge) => Ok(Taken::Challenge(challenge)),
            Accepted::Later(wait) => Ok(Taken::Later(wait)),
            Accepted::User(last, principal, rest) => {
                if let Some((before, _)) = self.before.as_ref().filter(|(before, _)| *before != principal) {
                    let [from, to] = [before, &principal].map(|one| one.as_str().replacen(':', ".", 1));
                    return Err(Failure {
                        told: format!("Cannot change principals during re-authentication from {from}: {to}"),
                        why: "another user on the same connection".to_owned(),
                    });
                }
                let lifetime = ground.listener.session_lifetime(mechanism).into_iter().chain(rest).min();
                Ok(Taken::User(last, Authenticated { principal, mechanism: Some(mechanism), lifetime }))
            }
        }
    }
}

/// Why a login takes a token no further. `told` is what the client is told where that is not the mechanism's one text.
struct LoginFailure {
    told: Option<String>,
    why: String,
}

impl Login {
    fn mechanism(&self) -> Mechanism {
        match self {
            Self::Plain => Mechanism::Plain,
            Self::Scram(hash) | Self::Challenged(hash, _) => Mechanism::Scram(*hash),
            Self::OAuthBearer | Self::BadToken(_) => Mechanism::OAuthBearer,
        }
    }

    fn take(&mut self, ground: &Ground<'_>, token: &[u8]) -> Result<Accepted, LoginFailure> {
        let refused = |refused: scram::server::Refused| LoginFailure {
            // All that Kafka says more of.
            told: (refused == scram::server::Refused::AuthorizationId).then(|| OTHER_AUTHORIZATION_ID.to_owned()),
            why: refused.to_string(),
        };
        match self {
            Self::Plain => {
                let users = ground.listener.plain_users().expect("a listener with PLAIN has users");
                match users.authenticate(token) {
                    Ok(user) => Ok(Accepted::User(String::new(), Principal::user(&user), None)),
                    Err(error) => Err(LoginFailure { told: Some(error.to_string()), why: error.to_string() }),
                }
            }
            Self::Scram(hash) => {
                let hash = *hash;
                let first = ClientFirst::read(token).map_err(refused)?;
                let credential = match ground.listener.node_login() {
                    Some(login) => login.credential(first.username(), hash),
                    None => credential(ground.image, first.username(), hash),
                };
                let nonce = scram::nonce(&random_bytes(ground.random));
                let (login, challenge) =
                    first.challenge(hash, credential.as_ref(), ground.listener.unknown_users(), &nonce);
                *self = Self::Challenged(hash, Box::new(login));
                Ok(Accepted::Challenge(challenge))
            }
            Self::Challenged(hash, _) => {
                // The next token would be one too many.
                let first = Self::Scram(*hash);
                let Self::Challenged(_, login) = std::mem::replace(self, first) else { unreachable!("it is one") };
                let scram::server::Accepted { username, message } = login.finish(token).map_err(refused)?;
                Ok(Accepted::User(message, Principal::user(&username), None))
            }
            Self::OAuthBearer => self.take_bearer_token(ground, token),
            Self::BadToken(why) => {
                let is_told = token == oauth::ACKNOWLEDGEMENT;
                Err(LoginFailure { told: is_told.then(|| oauth::FAILURE.to_owned()), why: why.clone() })
            }
        }
    }

    fn take_bearer_token(&mut self, ground: &Ground<'_>, message: &[u8]) -> Result<Accepted, LoginFailure> {
        let keys = ground.listener.token_keys().expect("a listener with OAUTHBEARER has keys");
        let first = oauth::ClientFirst::read(message);
        let first = first.map_err(|error| LoginFailure { told: None, why: error.to_string() })?;
        let token = match keys.validate(first.token.expose(), ground.now_ms) {
            Ok(token) => token,
            Err(error) => {
                if let Some(wait) = (error == TokenError::UnknownKey).then(|| keys.fetch_again()).flatten() {
                    return Ok(Accepted::Later(wait));
                }
                *self = Self::BadToken(error.to_string());
                return Ok(Accepted::Challenge(oauth::FAILURE.to_owned()));
            }
        };
        let subject = token.subject;
        if let Some(other) = first.authorization_id.filter(|id| *id != subject) {
            let told = format!(
                "Authentication failed: Client requested an authorization id ({other}) that is different from the \
                 token's principal name ({subject})"
            );
            let why = "the user wants to act as another".to_owned();
            return Err(LoginFailure { told: Some(told), why });
        }
        let rest_ms = u64::try_from(token.expires_ms.saturating_sub(ground.now_ms)).unwrap_or_default();
        Ok(Accepted::User(String::new(), Principal::user(&subject), Some(Duration::from_millis(rest_ms))))
    }
}

/// What the metadata have of a user.
fn credential(image: &MetadataImage, user: &str, hash: Hash) -> Option<Credential> {
    let mechanism = match hash {
        Hash::Sha256 => ScramMechanism::Sha256,
        Hash::Sha512 => ScramMechanism::Sha512,
    };
    let known = image.scram().get(user, mechanism)?;
    Some(Credential {
        salt: known.salt.to_vec(),
        stored_key: Secret::new(known.stored_key.0.to_vec()),
        server_key: Secret::new(known.server_key.0.to_vec()),
        iterations: known.iterations.unsigned_abs(),
    })
}

fn encode<R: Request>(header: &RequestHeader, response: &R::Response) -> Result<Frame, CloseReason> {
    Ok(Frame::encode(&R::API, header.api_version, header.correlation_id, response)?)
}

/// A token with its size in front.
fn raw(token: &str) -> Frame {
    let mut bytes = BytesMut::with_capacity(4 + token.len());
    bytes.put_i32(i32::try_from(token.len()).expect("our own tokens are short"));
    bytes.extend_from_slice(token.as_bytes());
    Frame::of_bytes(bytes.freeze())
}
