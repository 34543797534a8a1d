//! What a token has to be (RFC 7519, KIP-768 `BrokerJwtValidator`).
//!
//! Behaviour:
//! - It has the compact form, three parts in base64url, and at most [`TOKEN_BYTES_MAX`].
//! - One of the known keys has signed it: that of its `kid`, by an algorithm which that key has. `none` and shared
//!   secrets are no such algorithm. Extensions that have to be understood (`crit`) are not. Nothing that a token claims
//!   is looked at before.
//! - `exp` and `iat` are there, `exp` is neither over nor before `iat` or `nbf`, `nbf` is not to come. Clocks may
//!   differ by `sasl.oauthbearer.clock.skew.seconds`.
//! - `iss` is the issuer that is expected, `aud` has one of the audiences. Kafka 4.3.1 lets both stay unset, and warns.
//! - `sub`, or what stands in its place, is the name of the user, without spaces around it. Control characters are
//!   refused, which Kafka takes.
//! - `scope`, or what stands in its place, is one text or several different ones where it is there, and grants nothing.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::jwk::{Algorithm, KeySet};

pub const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Why a token is refused, for the log. A client is told nothing of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token is larger than {TOKEN_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the token is no signed JSON Web Token")]
    Malformed,
    #[error("the token is signed by an algorithm that is not taken")]
    Algorithm,
    #[error("the token asks for extensions (crit)")]
    Critical,
    #[error("the token does not name its key (kid)")]
    NoKeyId,
    #[error("the token's key is not known (kid)")]
    UnknownKey,
    #[error("the token's signature is not that of its key")]
    Signature,
    #[error("the token's time is over (exp)")]
    Expired,
    #[error("the token's time has not come (nbf)")]
    NotYet,
    #[error("the token has no {claim}")]
    Missing { claim: String },
    #[error("the token's {claim} is not what it has to be")]
    Claim { claim: String },
    #[error("the token is of another issuer (iss)")]
    Issuer,
    #[error("the token is for others (aud)")]
    Audience,
}

type Result<T> = std::result::Result<T, TokenError>;

/// What tokens have to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub issuer: String,
    pub audiences: Vec<String>,
    pub subject_claim: String,
    pub scope_claim: String,
    pub clock_skew_seconds: u32,
}

/// What a token says that is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub subject: String,
    /// In milliseconds since 1970.
    pub expires_ms: i64,
}

impl Expected {
    /// Whether a token is good now, and what it says.
    pub fn validate(&self, token: &str, keys: &KeySet, now_ms: i64) -> Result<Token> {
        let claims = Claims(verified(token, keys)?);
        let skew_ms = i64::from(self.clock_skew_seconds) * 1000;
        let expires_ms = claims.time_ms("exp")?.ok_or_else(|| missing("exp"))?;
        let issued_ms = claims.time_ms("iat")?.ok_or_else(|| missing("iat"))?;
        let not_before_ms = claims.time_ms("nbf")?;
        if now_ms.saturating_sub(skew_ms) >= expires_ms {
            return Err(TokenError::Expired);
        }
        if not_before_ms.is_some_and(|from_ms| now_ms.saturating_add(skew_ms) < from_ms) {
            return Err(TokenError::NotYet);
        }
        if expires_ms < issued_ms || not_before_ms.is_some_and(|from_ms| expires_ms < from_ms) {
            return Err(wrong("exp"));
        }
        if claims.0.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(TokenError::Issuer);
        }
        let is_for_us = |audience: &str| self.audiences.iter().any(|ours| ours == audience);
        if !claims.texts("aud")?.is_some_and(|audiences| audiences.into_iter().any(is_for_us)) {
            return Err(TokenError::Audience);
        }
        self.check_scope(&claims)?;
        Ok(Token { subject: self.subject(&claims)?, expires_ms })
    }

    fn subject(&self, claims: &Claims) -> Result<String> {
        let claim = &self.subject_claim;
        let subject = claims.0.get(claim).ok_or_else(|| missing(claim))?.as_str().ok_or_else(|| wrong(claim))?.trim();
        if subject.is_empty() || subject.chars().any(char::is_control) {
            return Err(wrong(claim));
        }
        Ok(subject.to_owned())
    }

    fn check_scope(&self, claims: &Claims) -> Result<()> {
        let claim = &self.scope_claim;
        let mut seen = HashSet::new();
        let scopes = claims.texts(claim)?.unwrap_or_default();
        let is_good = scopes.into_iter().map(str::trim).all(|scope| !scope.is_empty() && seen.insert(scope));
        if is_good { Ok(()) } else { Err(wrong(claim)) }
    }
}

fn missing(claim: &str) -> TokenError {
    TokenError::Missing { claim: claim.to_owned() }
}

fn wrong(claim: &str) -> TokenError {
    TokenError::Claim { claim: claim.to_owned() }
}

/// What a token claims, after its signature.
fn verified(token: &str, keys: &KeySet) -> Result<Map<String, Value>> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLarge);
    }
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
    let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
    let header = object(header)?;
    let text = |name: &str| header.get(name).and_then(Value::as_str);
    let algorithm = text("alg").and_then(Algorithm::from_name).ok_or(TokenError::Algorithm)?;
    if header.contains_key("crit") {
        return Err(TokenError::Critical);
    }
    let id = text("kid").ok_or(TokenError::NoKeyId)?;
    let signature = decode(signature)?;
    match keys.verify(id, algorithm, signed.as_bytes(), &signature) {
        None => Err(TokenError::UnknownKey),
        Some(false) => Err(TokenError::Signature),
        Some(true) => object(claims),
    }
}

fn decode(part: &str) -> Result<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part).ok().filter(|bytes| !bytes.is_empty()).ok_or(TokenError::Malformed)
}

fn object(part: &str) -> Result<Map<String, Value>> {
    serde_json::from_slice(&decode(part)?).map_err(|_| TokenError::Malformed)
}

struct Claims(Map<String, Value>);

impl Claims {
    /// Seconds since 1970, perhaps with a fraction, which is left out. `None` if it is not there.
    fn time_ms(&self, claim: &str) -> Result<Option<i64>> {
        let Some(value) = self.0.get(claim) else { return Ok(None) };
        let seconds = value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64));
        let time_ms = seconds.filter(|seconds| *seconds >= 0).and_then(|seconds| seconds.checked_mul(1000));
        time_ms.map(Some).ok_or_else(|| wrong(claim))
    }

    /// One text, or a list of them. `None` if it is not there.
    fn texts(&self, claim: &str) -> Result<Option<Vec<&str>>> {
        match self.0.get(claim) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(vec![text])),
            Some(Value::Array(list)) => {
                let texts = list.iter().map(|value| value.as_str().ok_or_else(|| wrong(claim)));
                texts.collect::<Result<Vec<_>>>().map(Some)
            }
            Some(_) => Err(wrong(claim)),
        }
    }
}

#[cfg(test)]
mod tests;
