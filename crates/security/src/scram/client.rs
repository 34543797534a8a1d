//! The client's side of SCRAM: it proves that it knows the password, and so must the broker.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac};

use super::{Hash, Keys, salted_password};

/// Fewer are an attack on the password (`ScramMechanism.minIterations`); more, on our time.
const ITERATIONS: RangeInclusive<u32> = 4096..=100_000;
/// "n,,": no channel binding, no other user.
const HEADER: &str = "n,,";
const HEADER_BASE64: &str = "biws";

/// What is wrong with what the broker says.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
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

/// A login that has begun.
pub struct Scram {
    hash: Hash,
    nonce: String,
    /// The first message without its header.
    first_bare: String,
}

impl Scram {
    pub fn new(hash: Hash, username: &str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Self { hash, first_bare: format!("n={name},r={nonce}"), nonce }
    }

    pub fn first(&self) -> String {
        format!("{HEADER}{}", self.first_bare)
    }

    /// What proves that we know the password, and what the broker then has to say. Takes as long as the broker asks
    /// for, within bounds: not for a thread that others wait for.
    pub fn answer(&self, password: &str, challenge: &[u8]) -> Result<Answer> {
        let challenge = str::from_utf8(challenge).map_err(|_| ScramError::Challenge)?;
        let (nonce, salt, iterations) = read_challenge(challenge)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let rounds = NonZeroU32::new(iterations).filter(|_| ITERATIONS.contains(&iterations));
        let rounds = rounds.ok_or(ScramError::Iterations { asked: iterations })?;
        let salted = salted_password(self.hash, password, &salt, rounds);
        let Keys { client_key, server_key } = Keys::new(self.hash, salted.expose());

        let without_proof = format!("c={HEADER_BASE64},r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.first_bare);
        let stored_key = digest::digest(self.hash.digest(), client_key.expose());
        let signature = self.hash.sign(stored_key.as_ref(), signed.as_bytes());
        let proof: Vec<u8> = client_key.expose().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        Ok(Answer {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            server_key: hmac::Key::new(self.hash.hmac(), server_key.expose()),
            signed,
        })
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

/// What is sent, and what proves the broker.
pub struct Answer {
    pub message: String,
    server_key: hmac::Key,
    signed: String,
}

impl Answer {
    /// Whether the broker knows the user too.
    pub fn verify(&self, last: &[u8]) -> Result<()> {
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
        for iterations in [0, 1, 4095, 100_001] {
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
