//! The keys of those who sign tokens: a JSON Web Key Set (RFC 7517), and the signatures that its keys verify (RFC 7518,
//! RFC 8037).
//!
//! Only public keys for signatures count: RSA of 2048 to 8192 bits, P-256, P-384 and Ed25519, each under its id. All
//! others are left out: keys for encryption, of other kinds, weak ones, secrets (a token that is signed by one of those
//! could be made by whoever verifies it), and what is no key. A key verifies by its own algorithm, or by those of its
//! kind where it names none; a token has no say in it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde_json::{Map, Value};

pub const JWKS_BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 256;
const RSA_BITS_MIN: usize = 2048;
const RSA_BITS_MAX: usize = 8192;

/// What is wrong with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    #[error("has more than {} MiB", JWKS_BYTES_MAX >> 20)]
    TooLarge,
    #[error("is no JSON Web Key Set")]
    Malformed,
    #[error("has more than {KEYS_MAX} keys")]
    TooManyKeys,
    #[error("has no key that could verify a token")]
    NoKeys,
}

/// How a token is signed. `none`, and what is signed by a shared secret (`HS256` and so on), is nothing of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // The second is the name of the same since RFC 9864.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

#[derive(Debug)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point of a curve, which has one algorithm.
    Point(Algorithm, &'static dyn VerificationAlgorithm, Vec<u8>),
}

#[derive(Debug)]
struct Key {
    id: String,
    /// Its own, where it names one.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

/// The keys that may have signed a token. The default has none.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    left_out: usize,
}

impl KeySet {
    pub fn parse(bytes: &[u8]) -> Result<Self, JwksError> {
        if bytes.len() > JWKS_BYTES_MAX {
            return Err(JwksError::TooLarge);
        }
        let set: Map<String, Value> = serde_json::from_slice(bytes).map_err(|_| JwksError::Malformed)?;
        let listed = set.get("keys").and_then(Value::as_array).ok_or(JwksError::Malformed)?;
        if listed.len() > KEYS_MAX {
            return Err(JwksError::TooManyKeys);
        }
        let keys: Vec<_> = listed.iter().filter_map(|key| Key::read(key.as_object()?)).collect();
        if keys.is_empty() {
            return Err(JwksError::NoKeys);
        }
        let left_out = listed.len() - keys.len();
        Ok(Self { keys, left_out })
    }

    /// How many keys count.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many others there are in the set.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Whether the key of this id has signed the message. `None` if there is none of that id.
    pub(super) fn verify(&self, id: &str, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Option<bool> {
        let mut of_id = self.keys.iter().filter(|key| key.id == id).peekable();
        of_id.peek()?;
        Some(of_id.any(|key| key.verifies(algorithm, message, signature)))
    }
}

impl Key {
    /// `None` if it does not count.
    fn read(key: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        // A member that is no text is no reason to take the key for one without it.
        let is_for_signatures = key.get("use").is_none_or(|usage| usage == "sig")
            && key.get("key_ops").is_none_or(|operations| {
                operations.as_array().is_some_and(|all| all.iter().any(|operation| operation == "verify"))
            });
        if !is_for_signatures {
            return None;
        }
        let algorithm = match key.get("alg") {
            Some(name) => Some(Algorithm::from_name(name.as_str()?)?),
            None => None,
        };
        let point = |algorithm, verification, point| PublicKey::Point(algorithm, verification, point);
        let public = match (text("kty")?, text("crv")) {
            ("RSA", _) => PublicKey::Rsa { modulus: rsa_modulus(bytes("n")?)?, exponent: bytes("e")? },
            ("EC", Some("P-256")) => {
                let xy = uncompressed(&bytes("x")?, &bytes("y")?, 32)?;
                point(Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED, xy)
            }
            ("EC", Some("P-384")) => {
                let xy = uncompressed(&bytes("x")?, &bytes("y")?, 48)?;
                point(Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED, xy)
            }
            ("OKP", Some("Ed25519")) => {
                let x = bytes("x").filter(|x| x.len() == 32)?;
                point(Algorithm::EdDsa, &signature::ED25519, x)
            }
            _ => return None,
        };
        let key = Self { id: text("kid")?.to_owned(), algorithm, public };
        algorithm.is_none_or(|own| key.may_use(own)).then_some(key)
    }

    fn may_use(&self, algorithm: Algorithm) -> bool {
        let is_of_kind = match &self.public {
            PublicKey::Rsa { .. } => algorithm.rsa().is_some(),
            PublicKey::Point(of_curve, ..) => *of_curve == algorithm,
        };
        is_of_kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.may_use(algorithm) {
            return false;
        }
        match (&self.public, algorithm.rsa()) {
            (PublicKey::Rsa { modulus, exponent }, Some(parameters)) => {
                let key = RsaPublicKeyComponents { n: &modulus[..], e: &exponent[..] };
                key.verify(parameters, message, signature).is_ok()
            }
            (PublicKey::Point(_, verification, point), _) => {
                UnparsedPublicKey::new(*verification, &point[..]).verify(message, signature).is_ok()
            }
            (PublicKey::Rsa { .. }, None) => false,
        }
    }
}

/// Without the zeros that some put in front.
fn rsa_modulus(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let modulus = &bytes[zeros..];
    let bits = modulus.len() * 8 - modulus.first()?.leading_zeros() as usize;
    (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits).then(|| modulus.to_vec())
}

/// A point in the form of SEC 1, section 2.3.3.
fn uncompressed(x: &[u8], y: &[u8], coordinate_bytes: usize) -> Option<Vec<u8>> {
    let is_whole = x.len() == coordinate_bytes && y.len() == coordinate_bytes;
    is_whole.then(|| [&[4], x, y].concat())
}
