//! SCRAM (RFC 5802), the client's side: it proves that it knows the password without telling it, and so must the
//! broker. No IO, and no randomness: the nonce comes from the caller.
//!
//! User names and passwords are taken as UTF-8, as Kafka does in place of SASLprep; for ASCII it is the same.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// Fewer are an attack on the password (`ScramMechanism.minIterations`); more, on our time.
const ITERATIONS: std::ops::RangeInclusive<u32> = 4096..=1_000_000;
/// "n,,": no channel binding, no other user.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";
const DIGEST_BYTES_MAX: usize = digest::SHA512_OUTPUT_LEN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// What is wrong with what the broker says.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScramError {
    #[error("its challenge cannot be read")]
    Challenge,
    #[error("its challenge is not an answer to our message")]
    Nonce,
    #[error("it asks for {asked} iterations; from {} to {} are safe", ITERATIONS.start(), ITERATIONS.end())]
    Iterations { asked: u32 },
    #[error("{0}")]
    Refused(String),
    #[error("it cannot prove that it knows the user")]
    Proof,
}

type Result<T> = std::result::Result<T, ScramError>;

pub(crate) struct Scram {
    hash: Hash,
    nonce: String,
    /// The first message without its header.
    first_bare: String,
}

impl Scram {
    pub(crate) fn new(hash: Hash, username: &str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Self { hash, first_bare: format!("n={name},r={nonce}"), nonce }
    }

    pub(crate) fn first(&self) -> String {
        format!("{HEADER}{}", self.first_bare)
    }

    /// What proves that we know the password, and what the broker then has to say.
    pub(crate) fn answer(&self, password: &str, challenge: &[u8]) -> Result<Answer> {
        let challenge = str::from_utf8(challenge).map_err(|_| ScramError::Challenge)?;
        let (nonce, salt, iterations) = read_challenge(challenge)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let rounds = NonZeroU32::new(iterations).filter(|_| ITERATIONS.contains(&iterations));
        let rounds = rounds.ok_or(ScramError::Iterations { asked: iterations })?;
        let mut salted = [0; DIGEST_BYTES_MAX];
        let salted = &mut salted[..self.hash.digest().output_len()];
        pbkdf2::derive(self.hash.pbkdf2(), rounds, &salt, password.as_bytes(), salted);

        let without_proof = format!("c={HEADER_BASE64},r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.first_bare);
        let client_key = self.sign(salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest(), client_key.as_ref());
        let signature = self.sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = self.sign(salted, b"Server Key");
        Ok(Answer {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            server_key: hmac::Key::new(self.hash.hmac(), server_key.as_ref()),
            signed,
        })
    }

    fn sign(&self, key: &[u8], data: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.hash.hmac(), key), data)
    }
}

/// `r=NONCE,s=SALT,i=ITERATIONS`; extensions behind it mean nothing.
fn read_challenge(challenge: &str) -> Result<(&str, Vec<u8>, u32)> {
    let mut parts = challenge.split(',');
    let mut part = |name: &str| {
        parts
            .next()
            .and_then(|part| part.strip_prefix(name))
            .filter(|value| !value.is_empty())
            .ok_or(ScramError::Challenge)
    };
    let (nonce, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
    let salt = STANDARD.decode(salt).map_err(|_| ScramError::Challenge)?;
    Ok((nonce, salt, iterations.parse().map_err(|_| ScramError::Challenge)?))
}

pub(crate) struct Answer {
    pub(crate) message: String,
    server_key: hmac::Key,
    signed: String,
}

impl Answer {
    /// Whether the broker knows the user too.
    pub(crate) fn verify(&self, last: &[u8]) -> Result<()> {
        let last = str::from_utf8(last).map_err(|_| ScramError::Proof)?;
        if let Some(reason) = last.strip_prefix("e=") {
            return Err(ScramError::Refused(reason.to_owned()));
        }
        let value = last.strip_prefix("v=").and_then(|rest| rest.split(',').next()).ok_or(ScramError::Proof)?;
        let signature = STANDARD.decode(value).map_err(|_| ScramError::Proof)?;
        hmac::verify(&self.server_key, self.signed.as_bytes(), &signature).map_err(|_| ScramError::Proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const CHALLENGE: &str = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const LAST: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn scram() -> Scram {
        Scram::new(Hash::Sha256, "user", NONCE.to_owned())
    }

    #[test]
    fn the_example_of_rfc_7677() {
        let scram = scram();
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let answer = scram.answer("pencil", CHALLENGE.as_bytes()).unwrap();
        assert_eq!(
            answer.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(answer.verify(LAST.as_bytes()), Ok(()));
    }

    #[test]
    fn the_same_with_sha_512() {
        let answer = Scram::new(Hash::Sha512, "user", NONCE.to_owned()).answer("pencil", CHALLENGE.as_bytes()).unwrap();
        let proof = answer.message.rsplit_once("p=").unwrap().1;
        // Computed by Python's hashlib.
        assert_eq!(proof, "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==");
        assert_eq!(
            answer
                .verify(b"v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw=="),
            Ok(())
        );
    }

    #[test]
    fn a_broker_that_does_not_know_the_user_is_found_out() {
        let answer = scram().answer("pencil", CHALLENGE.as_bytes()).unwrap();
        for last in ["", "v=", "v=!", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "x=1"] {
            assert_eq!(answer.verify(last.as_bytes()), Err(ScramError::Proof), "{last}");
        }
        assert_eq!(answer.verify(b"e=invalid-proof"), Err(ScramError::Refused("invalid-proof".to_owned())));
        let other = scram().answer("pen", CHALLENGE.as_bytes()).unwrap();
        assert_eq!(other.verify(LAST.as_bytes()), Err(ScramError::Proof));
    }

    #[test]
    fn a_bad_challenge_is_refused() {
        let answer = |challenge: &str| scram().answer("pencil", challenge.as_bytes()).map(|answer| answer.message);
        for challenge in ["", "r=x", "s=x,r=y,i=1", "r=rOprNGfwEbeRWgbNEkqOx,s=!,i=4096", "r=x,s=AA==,i=x"] {
            assert_eq!(answer(challenge), Err(ScramError::Challenge), "{challenge}");
        }
        let nonces = [format!("r={NONCE},s=AA==,i=4096"), "r=other,s=AA==,i=4096".to_owned()];
        assert!(nonces.iter().all(|challenge| answer(challenge) == Err(ScramError::Nonce)));
        for iterations in [0, 1, 4095, 1_000_001] {
            let challenge = format!("r={NONCE}x,s=AA==,i={iterations}");
            assert_eq!(answer(&challenge), Err(ScramError::Iterations { asked: iterations }));
        }
    }

    #[test]
    fn names_are_escaped() {
        let scram = Scram::new(Hash::Sha512, "a=b,c", "x".to_owned());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=x");
        assert_eq!(scram.answer("", b"r=xy,s=AA==,i=4096").unwrap().message.len(), "c=biws,r=xy,p=".len() + 88);
    }
}
