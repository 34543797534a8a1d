//! The server's side of SCRAM (`ScramSaslServer`), over the bytes as they were received: [`ClientFirst::read`], then
//! [`ClientFirst::challenge`], then [`Login::finish`]. A login ends with the first message that is refused.
//!
//! Behaviour:
//! - The first message is `n,[a=NAME],[m=VALUE,]n=NAME,r=NONCE[,NAME=VALUE...]`. Channel binding (`y`, `p=`) is
//!   refused: the server offers none.
//! - In names `=2C` and `=3D` stand for comma and equals sign, and nothing else follows an equals sign. Names are ASCII
//!   without NUL, nonces are printable. An authorization id is the user's own name, or not there.
//! - `tokenauth=true` asks for delegation tokens (KIP-48), which are not there. Extensions beside it mean nothing.
//! - The second message is `c=HEADER,r=NONCE[,NAME=VALUE...],p=PROOF`. `c=` is the first message's beginning in base64,
//!   the nonce the one of the challenge (CVE-2024-56128). librdkafka before 2.6.1 puts its own nonce before that once
//!   more, which is taken, too: the proof is over what was sent.
//! - Signatures are over the received bytes, not over what was understood of them.
//! - A user that is not known gets a challenge like others, always the same one, and fails at the proof, after the same
//!   work. Kafka refuses it at once, which tells names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};
use subtle::{Choice, ConstantTimeEq};

use super::{Credential, Hash, SALT_RANDOM_BYTES, salt};
use crate::{Secret, sasl_name};

pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Why a login is refused, for the log. The client is told one text for all of them (`Mechanism::refusal`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the message is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the message is none of SCRAM")]
    Malformed,
    #[error("the client asks for channel binding, or takes back what it said of it")]
    ChannelBinding,
    #[error("the user wants to act as another")]
    AuthorizationId,
    #[error("the client has a delegation token")]
    DelegationToken,
    #[error("the nonce is not the one of this login")]
    Nonce,
    #[error("the user or the password is wrong")]
    Proof,
}

type Result<T> = std::result::Result<T, Refused>;

/// What users that are not there are asked.
pub struct UnknownUsers {
    key: hmac::Key,
    iterations: u32,
}

impl UnknownUsers {
    /// The secret is the same on all brokers, because salts of users are, and nobody else's. Most users should have as
    /// many iterations.
    pub fn new(secret: &[u8], iterations: u32) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA512, secret), iterations }
    }

    /// Always the same for a name, and nobody has the password of it.
    fn credential(&self, hash: Hash, username: &str) -> Credential {
        let derive = |what: &str| {
            let mut context = hmac::Context::with_key(&self.key);
            context.update(&[hash as u8]);
            context.update(what.as_bytes());
            context.update(username.as_bytes());
            context.sign()
        };
        let key = |what| Secret::new(derive(what).as_ref()[..hash.output_bytes()].to_vec());
        let mut random = [0; SALT_RANDOM_BYTES];
        random.copy_from_slice(&derive("salt ").as_ref()[..SALT_RANDOM_BYTES]);
        Credential {
            salt: salt(&random),
            stored_key: key("stored key "),
            server_key: key("server key "),
            iterations: self.iterations,
        }
    }
}

/// The first message.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst {
    username: String,
    /// `n,[a=NAME],`
    header: String,
    bare: String,
    nonce: String,
}

impl ClientFirst {
    pub fn read(message: &[u8]) -> Result<Self> {
        let message = text(message)?;
        let (flag, rest) = message.split_once(',').ok_or(Refused::Malformed)?;
        match flag {
            "n" => {}
            "y" => return Err(Refused::ChannelBinding),
            _ if flag.starts_with("p=") => return Err(Refused::ChannelBinding),
            _ => return Err(Refused::Malformed),
        }
        let (authorization_id, bare) = rest.split_once(',').ok_or(Refused::Malformed)?;
        let header = &message[..message.len() - bare.len()];

        let mut parts = bare.split(',').peekable();
        parts.next_if(|part| part.strip_prefix("m=").is_some_and(|value| !value.is_empty()));
        let username = attribute(parts.next(), "n=").and_then(unescape)?;
        let nonce = attribute(parts.next(), "r=").and_then(printable)?;
        for (name, value) in extensions(parts)? {
            if name == "tokenauth" && value.eq_ignore_ascii_case("true") {
                return Err(Refused::DelegationToken);
            }
        }
        if !authorization_id.is_empty() && attribute(Some(authorization_id), "a=").and_then(unescape)? != username {
            return Err(Refused::AuthorizationId);
        }
        Ok(Self { username, header: header.to_owned(), bare: bare.to_owned(), nonce: nonce.to_owned() })
    }

    /// Who claims to log in.
    pub fn username(&self) -> &str {
        &self.username
    }

    /// What the client is asked. `nonce` is of [`super::nonce`], from bytes that nobody can guess.
    pub fn challenge(
        self,
        hash: Hash,
        credential: Option<&Credential>,
        unknown: &UnknownUsers,
        nonce: &str,
    ) -> (Login, String) {
        // Made for everybody, so that it takes no longer for some.
        let stand_in = unknown.credential(hash, &self.username);
        let credential_or_stand_in = credential.unwrap_or(&stand_in).clone();
        let nonce = format!("{}{nonce}", self.nonce);
        let Credential { salt, iterations, .. } = &credential_or_stand_in;
        let challenge = format!("r={nonce},s={},i={iterations}", STANDARD.encode(salt));
        let login = Login {
            hash,
            is_known: credential.is_some(),
            credential: credential_or_stand_in,
            challenge: challenge.clone(),
            nonce,
            first: self,
        };
        (login, challenge)
    }
}

/// A login whose challenge has been sent.
#[derive(Debug)]
pub struct Login {
    hash: Hash,
    first: ClientFirst,
    is_known: bool,
    credential: Credential,
    /// The client's, and ours behind it.
    nonce: String,
    challenge: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub username: String,
    /// What proves to the client that we know it.
    pub message: String,
}

impl Login {
    /// Who claims to log in.
    pub fn username(&self) -> &str {
        &self.first.username
    }

    /// Whether the second message proves it.
    pub fn finish(self, message: &[u8]) -> Result<Accepted> {
        let message = text(message)?;
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or(Refused::Malformed)?;
        let mut parts = without_proof.split(',');
        let header = attribute(parts.next(), "c=")?;
        let nonce = attribute(parts.next(), "r=").and_then(printable)?;
        extensions(parts)?;
        let proof = STANDARD.decode(proof).map_err(|_| Refused::Malformed)?;
        if proof.len() != self.hash.output_bytes() {
            return Err(Refused::Malformed);
        }
        if header != STANDARD.encode(&self.first.header) {
            return Err(Refused::ChannelBinding);
        }
        if nonce != self.nonce && nonce.strip_prefix(&self.first.nonce) != Some(self.nonce.as_str()) {
            return Err(Refused::Nonce);
        }

        let signed = format!("{},{},{without_proof}", self.first.bare, self.challenge);
        let stored_key = self.credential.stored_key.expose();
        let signature = self.hash.sign(stored_key, signed.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let client_key = Secret::new(client_key);
        let claimed_key = digest::digest(self.hash.digest(), client_key.expose());
        let is_proved = claimed_key.as_ref().ct_eq(stored_key) & Choice::from(u8::from(self.is_known));
        if !bool::from(is_proved) {
            return Err(Refused::Proof);
        }
        let signature = self.hash.sign(self.credential.server_key.expose(), signed.as_bytes());
        Ok(Accepted { username: self.first.username, message: format!("v={}", STANDARD.encode(signature)) })
    }
}

/// All that SCRAM has in messages to a server is ASCII without NUL.
fn text(message: &[u8]) -> Result<&str> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(Refused::TooLarge);
    }
    let is_text = message.is_ascii() && !message.contains(&0);
    str::from_utf8(message).ok().filter(|_| is_text).ok_or(Refused::Malformed)
}

fn attribute<'a>(part: Option<&'a str>, name: &str) -> Result<&'a str> {
    part.and_then(|part| part.strip_prefix(name)).ok_or(Refused::Malformed)
}

fn printable(value: &str) -> Result<&str> {
    let is_printable = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
    if is_printable { Ok(value) } else { Err(Refused::Malformed) }
}

/// A name in which comma and equals sign are escaped.
fn unescape(value: &str) -> Result<String> {
    sasl_name::unescape(value).ok_or(Refused::Malformed)
}

/// `NAME=VALUE`, of letters and of anything that is no comma.
fn extensions<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Vec<(&'a str, &'a str)>> {
    let is_extension = |(name, value): &(&str, &str)| {
        !name.is_empty() && !value.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    parts.map(|part| part.split_once('=').filter(is_extension).ok_or(Refused::Malformed)).collect()
}

#[cfg(test)]
mod tests;
