//! SCRAM (RFC 5802, RFC 7677, KIP-84): two sides prove to each other that they know a password, or what was derived
//! from it, without telling it. [`client`] has the side that knows the password, [`server`] the one that knows a
//! [`Credential`].
//!
//! No IO, and no randomness: that comes from the caller. User names and passwords are taken as UTF-8, as Kafka does in
//! place of SASLprep; for ASCII it is the same.

pub mod client;
pub mod server;

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::{digest, hmac, pbkdf2};

use crate::Secret;

/// What a credential may have (`ScramMechanism.minIterations`, `maxIterations`).
pub const ITERATIONS: RangeInclusive<u32> = 4096..=16_384;
pub const NONCE_BYTES: usize = 24;
/// 130 bits of them are used.
pub const SALT_RANDOM_BYTES: usize = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

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

    /// How long keys and proofs are.
    pub fn output_bytes(self) -> usize {
        self.digest().output_len()
    }

    fn sign(self, key: &[u8], data: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.hmac(), key), data)
    }
}

/// What a server keeps of a user. Who has it can act as the server, but not as the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    pub salt: Vec<u8>,
    pub stored_key: Secret<Vec<u8>>,
    pub server_key: Secret<Vec<u8>>,
    pub iterations: u32,
}

impl Credential {
    pub fn from_password(hash: Hash, password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        let salted = salted_password(hash, password, &salt, iterations);
        Self::from_salted_password(hash, salted.expose(), salt, iterations.get())
    }

    /// From what an administrator has derived of the password, which is as good as the password.
    pub fn from_salted_password(hash: Hash, salted_password: &[u8], salt: Vec<u8>, iterations: u32) -> Self {
        let Keys { client_key, server_key } = Keys::new(hash, salted_password);
        let stored_key = Secret::new(digest::digest(hash.digest(), client_key.expose()).as_ref().to_vec());
        Self { salt, stored_key, server_key, iterations }
    }
}

/// What both sides derive from the salted password.
struct Keys {
    client_key: Secret<Vec<u8>>,
    server_key: Secret<Vec<u8>>,
}

impl Keys {
    fn new(hash: Hash, salted_password: &[u8]) -> Self {
        let key = |name: &[u8]| Secret::new(hash.sign(salted_password, name).as_ref().to_vec());
        Self { client_key: key(b"Client Key"), server_key: key(b"Server Key") }
    }
}

/// `Hi` of the RFC. Takes as long as the iterations are many: not for a thread that others wait for.
pub fn salted_password(hash: Hash, password: &str, salt: &[u8], iterations: NonZeroU32) -> Secret<Vec<u8>> {
    let mut salted = vec![0; hash.output_bytes()];
    pbkdf2::derive(hash.pbkdf2(), iterations, salt, password.as_bytes(), &mut salted);
    Secret::new(salted)
}

/// Letters and digits that nobody has seen before, if the bytes are random.
pub fn nonce(random: &[u8; NONCE_BYTES]) -> String {
    STANDARD_NO_PAD.encode(random)
}

/// A salt as Kafka's tools make it: a number of 130 bits in digits and letters (`ScramFormatter`). Others would tell
/// users that were made here from those that were not.
pub fn salt(random: &[u8; SALT_RANDOM_BYTES]) -> Vec<u8> {
    let mut number = *random;
    number[0] &= 0b11;
    let mut digits = Vec::new();
    while number.iter().any(|&byte| byte != 0) {
        let mut rest = 0;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = (value / 36) as u8;
            rest = value % 36;
        }
        digits.push(char::from_digit(rest, 36).map_or(b'0', |digit| digit as u8));
    }
    if digits.is_empty() {
        digits.push(b'0');
    }
    digits.reverse();
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_and_what_is_derived_from_it_make_the_same_credential() {
        for hash in Hash::ALL {
            let iterations = NonZeroU32::new(4096).unwrap();
            let salted = salted_password(hash, "pencil", b"salt", iterations);
            let credential = Credential::from_password(hash, "pencil", b"salt".to_vec(), iterations);
            let other = Credential::from_salted_password(hash, salted.expose(), b"salt".to_vec(), 4096);
            assert_eq!(credential, other);
            assert_eq!(credential.stored_key.expose().len(), hash.output_bytes());
            assert_ne!(credential.stored_key, credential.server_key);
        }
    }

    #[test]
    fn salts_are_numbers_in_letters() {
        let mut random = [0; SALT_RANDOM_BYTES];
        assert_eq!(salt(&random), b"0");
        random[16] = 35;
        assert_eq!(salt(&random), b"z");
        random[15] = 1;
        // 256 + 35 = 8 * 36 + 3.
        assert_eq!(salt(&random), b"83");
        // 2^130 - 1, by Python.
        assert_eq!(salt(&[0xff; SALT_RANDOM_BYTES]), SALT_OF_ONES);
    }

    const SALT_OF_ONES: &[u8] = b"1omfro7zwmumr3umxudzyj6scf";

    #[test]
    fn keys_are_not_shown() {
        let credential = Credential::from_salted_password(Hash::Sha256, b"salted", Vec::new(), 4096);
        assert_eq!(
            format!("{credential:?}"),
            "Credential { salt: [], stored_key: [hidden], server_key: [hidden], iterations: 4096 }"
        );
    }
}
