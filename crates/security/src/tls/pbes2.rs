//! What is encrypted by a password, in keys (PKCS #8) and in PKCS#12: PBES2 (RFC 8018) with PBKDF2 and AES, which is
//! what OpenSSL 1.1 and Java since 2021 write. Older ciphers (RC2, DES) are refused: a file can be converted, and
//! nobody should keep a key in one of them.

use std::num::NonZeroU32;

use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use ring::pbkdf2;

use crate::Secret;
use crate::der::{Der, DerError, dotted, tag};

/// Java writes 10,000, OpenSSL 2048.
pub(super) const ITERATIONS_MAX: u32 = 1_000_000;

/// 1.2.840.113549.1.5.13, and .12.
const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];
/// 1.2.840.113549.2.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
/// 2.16.840.1.101.3.4.1.
const AES: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01];

const KEY_BYTES_MAX: usize = 32;

/// Why it cannot be decrypted. The words go on where what it is ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Pbes2Error {
    #[error("cannot be read: {0}")]
    Der(#[from] DerError),
    #[error(
        "is encrypted by {algorithm}, which is not read; AES is: \
         write it anew with openssl 3 or a JDK of version 17 or later"
    )]
    Algorithm { algorithm: String },
    #[error("asks for {iterations} iterations; at most {ITERATIONS_MAX} are taken")]
    Iterations { iterations: u32 },
    #[error("is not opened by this password")]
    Password,
}

type Result<T> = std::result::Result<T, Pbes2Error>;

/// `EncryptedPrivateKeyInfo`; what comes out is `PrivateKeyInfo`.
pub(super) fn decrypt_key(key: &[u8], password: &Secret) -> Result<Secret<Vec<u8>>> {
    let mut key = Der::only_sequence(key)?;
    let algorithm = key.sequence()?;
    decrypt(algorithm, key.expect(tag::OCTET_STRING)?, password)
}

/// `algorithm` is the inside of an `AlgorithmIdentifier`.
pub(super) fn decrypt(mut algorithm: Der<'_>, encrypted: &[u8], password: &Secret) -> Result<Secret<Vec<u8>>> {
    known(algorithm.object_identifier()?, |identifier| (identifier == PBES2).then_some(()))?;
    let mut parameters = algorithm.sequence()?;
    let (mut derivation, mut cipher) = (parameters.sequence()?, parameters.sequence()?);

    known(derivation.object_identifier()?, |identifier| (identifier == PBKDF2).then_some(()))?;
    let mut derivation = derivation.sequence()?;
    let salt = derivation.expect(tag::OCTET_STRING)?;
    let iterations = checked_iterations(derivation.unsigned()?)?;
    derivation.optional(tag::INTEGER)?; // the length of the key, which the cipher says too
    let mac = match derivation.optional(tag::SEQUENCE)? {
        Some(algorithm) => known(Der::new(algorithm).object_identifier()?, mac)?,
        None => pbkdf2::PBKDF2_HMAC_SHA1,
    };

    let aes = known(cipher.object_identifier()?, Aes::of)?;
    let vector = cipher.expect(tag::OCTET_STRING)?;
    let mut key = Secret::new([0; KEY_BYTES_MAX]);
    let key = &mut key.expose_mut()[..aes.key_bytes()];
    pbkdf2::derive(mac, iterations, salt, password.expose().as_bytes(), key);
    aes.decrypt(key, vector, encrypted)
}

pub(super) fn checked_iterations(iterations: u32) -> Result<NonZeroU32> {
    NonZeroU32::new(iterations).filter(|_| iterations <= ITERATIONS_MAX).ok_or(Pbes2Error::Iterations { iterations })
}

/// What an identifier stands for, or that it is not known.
fn known<T>(identifier: &[u8], what: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
    match what(identifier) {
        Some(known) => Ok(known),
        None => Err(Pbes2Error::Algorithm { algorithm: dotted(identifier)? }),
    }
}

fn mac(identifier: &[u8]) -> Option<pbkdf2::Algorithm> {
    Some(match identifier.strip_prefix(HMAC)? {
        [7] => pbkdf2::PBKDF2_HMAC_SHA1,
        [9] => pbkdf2::PBKDF2_HMAC_SHA256,
        [10] => pbkdf2::PBKDF2_HMAC_SHA384,
        [11] => pbkdf2::PBKDF2_HMAC_SHA512,
        _ => return None,
    })
}

/// In CBC.
#[derive(Clone, Copy)]
enum Aes {
    Of128,
    Of192,
    Of256,
}

impl Aes {
    fn of(identifier: &[u8]) -> Option<Self> {
        Some(match identifier.strip_prefix(AES)? {
            [2] => Self::Of128,
            [22] => Self::Of192,
            [42] => Self::Of256,
            _ => return None,
        })
    }

    fn key_bytes(self) -> usize {
        match self {
            Self::Of128 => 16,
            Self::Of192 => 24,
            Self::Of256 => 32,
        }
    }

    fn decrypt(self, key: &[u8], vector: &[u8], encrypted: &[u8]) -> Result<Secret<Vec<u8>>> {
        match self {
            Self::Of128 => decrypt_by(Decryptor::<Aes128>::new_from_slices(key, vector), encrypted),
            Self::Of192 => decrypt_by(Decryptor::<Aes192>::new_from_slices(key, vector), encrypted),
            Self::Of256 => decrypt_by(Decryptor::<Aes256>::new_from_slices(key, vector), encrypted),
        }
    }
}

/// Padding that is not right is how another password shows.
fn decrypt_by<D: BlockModeDecrypt, E>(
    decryptor: std::result::Result<D, E>,
    encrypted: &[u8],
) -> Result<Secret<Vec<u8>>> {
    let decryptor = decryptor.map_err(|_| DerError)?;
    let mut buffer = Secret::new(encrypted.to_vec());
    let plain = decryptor.decrypt_padded::<Pkcs7>(buffer.expose_mut()).map_err(|_| Pbes2Error::Password)?;
    Ok(Secret::new(plain.to_vec()))
}
