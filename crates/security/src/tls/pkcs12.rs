//! PKCS#12 (RFC 7292), the stores that `keytool` and `openssl pkcs12` write: keys, certificates, and which belong
//! together. Read only, and only what is written today: see [`super::pbes2`] for what it may be encrypted by.

use ring::{digest, hmac};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::pbes2::{self, Pbes2Error};
use crate::Secret;
use crate::certificate::Certificate;
use crate::der::{Der, DerError, dotted, tag};

/// 1.2.840.113549.1.7.1, and .6.
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
/// 1.2.840.113549.1.12.10.1: bags, of which these are the key, the encrypted key and the certificate.
const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01];
const KEY_BAG: u8 = 1;
const ENCRYPTED_KEY_BAG: u8 = 2;
const CERTIFICATE_BAG: u8 = 3;
/// 1.2.840.113549.1.9.22.1
const X509_CERTIFICATE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
/// 1.2.840.113549.1.9.21: what a key and its certificate have in common.
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
/// 2.16.840.1.113894.746875.1.1: Java trusts certificates that have it, `trustedKeyUsage`.
const TRUSTED: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01];

/// Java and OpenSSL write no other.
const VERSION: u32 = 3;
/// What the key that signs a store is derived for (RFC 7292, appendix B.3).
const FOR_MAC: u8 = 3;

/// Why a store cannot be used. The words go on where the name of the file ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Pkcs12Error {
    #[error("cannot be read as PKCS12: {0}")]
    Der(#[from] DerError),
    #[error(transparent)]
    Encryption(#[from] Pbes2Error),
    #[error("is signed by {algorithm}, which is not read; SHA-1 and SHA-2 are")]
    Mac { algorithm: String },
    #[error("needs a password, and {name} is not set")]
    NoPassword { name: &'static str },
    #[error("has no {what}")]
    Empty { what: &'static str },
    #[error("has {count} private keys, and nothing says which to use; leave one")]
    SeveralKeys { count: usize },
}

type Result<T> = std::result::Result<T, Pkcs12Error>;

/// A store, opened.
#[derive(Debug)]
pub struct Pkcs12 {
    keys: Vec<Key>,
    certificates: Vec<StoredCertificate>,
}

#[derive(Debug)]
struct Key {
    /// As PKCS #8 has it.
    key: Secret<Vec<u8>>,
    id: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq)]
struct StoredCertificate {
    certificate: Vec<u8>,
    id: Option<Vec<u8>>,
    is_trusted: bool,
}

/// What opens a store. The name is that of the setting, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Passwords<'a> {
    pub name: &'static str,
    pub store: Option<&'a Secret>,
    /// Of the keys, where it is another.
    pub key: Option<&'a Secret>,
}

impl<'a> Passwords<'a> {
    fn of_store(&self) -> Result<&'a Secret> {
        self.store.ok_or(Pkcs12Error::NoPassword { name: self.name })
    }

    fn of_key(&self) -> Result<&'a Secret> {
        self.key.map_or_else(|| self.of_store(), Ok)
    }
}

impl Pkcs12 {
    pub fn read(bytes: &[u8], passwords: Passwords<'_>) -> Result<Self> {
        let mut store = Der::only_sequence(bytes)?;
        if store.unsigned()? != VERSION {
            return Err(DerError.into());
        }
        let mut content = store.sequence()?;
        if content.object_identifier()? != DATA {
            return Err(DerError.into());
        }
        let signed = octets(content.expect(tag::constructed(0))?)?;
        if let Some(mac) = store.optional(tag::SEQUENCE)? {
            check_mac(Der::new(mac), signed, passwords.of_store()?)?;
        }

        let mut opened = Self { keys: Vec::new(), certificates: Vec::new() };
        let mut contents = Der::only_sequence(signed)?;
        while !contents.is_empty() {
            let mut content = contents.sequence()?;
            let kind = content.object_identifier()?;
            let inside = content.expect(tag::constructed(0))?;
            if kind == DATA {
                opened.read_bags(octets(inside)?, passwords)?;
            } else if kind == ENCRYPTED_DATA {
                let mut encrypted = Der::only_sequence(inside)?;
                encrypted.expect(tag::INTEGER)?;
                let mut encrypted = encrypted.sequence()?;
                encrypted.object_identifier()?;
                let algorithm = encrypted.sequence()?;
                let bytes = encrypted.expect(tag::primitive(0))?;
                let plain = pbes2::decrypt(algorithm, bytes, passwords.of_store()?)?;
                opened.read_bags(plain.expose(), passwords)?;
            }
        }
        Ok(opened)
    }

    fn read_bags(&mut self, bags: &[u8], passwords: Passwords<'_>) -> Result<()> {
        let mut bags = Der::only_sequence(bags)?;
        while !bags.is_empty() {
            let mut bag = bags.sequence()?;
            let kind = bag.object_identifier()?;
            let value = bag.expect(tag::constructed(0))?;
            let Attributes { id, is_trusted } = Attributes::read(bag.optional(tag::SET)?)?;
            match kind.strip_prefix(BAG) {
                Some([KEY_BAG]) => self.keys.push(Key { key: Secret::new(value.to_vec()), id }),
                Some([ENCRYPTED_KEY_BAG]) => {
                    let key = pbes2::decrypt_key(value, passwords.of_key()?)?;
                    self.keys.push(Key { key, id });
                }
                Some([CERTIFICATE_BAG]) => {
                    let mut bag = Der::only_sequence(value)?;
                    if bag.object_identifier()? == X509_CERTIFICATE {
                        let certificate = octets(bag.expect(tag::constructed(0))?)?.to_vec();
                        self.certificates.push(StoredCertificate { certificate, id, is_trusted });
                    }
                }
                // Revocation lists and secrets.
                _ => {}
            }
        }
        Ok(())
    }

    /// The key, with its certificate and those that have signed it, one after the other.
    pub fn identity(mut self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = match self.keys.len() {
            0 => return Err(Pkcs12Error::Empty { what: "private key" }),
            1 => self.keys.remove(0),
            count => return Err(Pkcs12Error::SeveralKeys { count }),
        };
        let mut left = self.certificates;
        // A certificate alone needs nothing that says whose it is.
        let own = match &key.id {
            Some(_) => left.iter().position(|stored| stored.id == key.id),
            None if left.len() == 1 => Some(0),
            None => None,
        };
        let own = own.ok_or(Pkcs12Error::Empty { what: "certificate of its private key" })?;
        let mut chain = vec![left.remove(own).certificate];
        while let Some(last) = chain.last() {
            let last = Certificate::read(last)?;
            let has_signed = |stored: &StoredCertificate| {
                Certificate::read(&stored.certificate).is_ok_and(|other| other.subject == last.issuer)
            };
            let issuer = if last.is_self_issued() { None } else { left.iter().position(has_signed) };
            let Some(issuer) = issuer else { break };
            chain.push(left.remove(issuer).certificate);
        }
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        Ok((chain, PrivatePkcs8KeyDer::from(key.key.expose().clone()).into()))
    }

    /// Whom Java would trust (`TrustStoreUtil`): certificates that are marked so, and those of the store's own keys. In
    /// a store that another program has made there are no marks; all of its certificates count.
    pub fn trusted(self) -> Result<Vec<CertificateDer<'static>>> {
        let is_own =
            |stored: &StoredCertificate| stored.id.is_some() && self.keys.iter().any(|key| key.id == stored.id);
        let is_trusted = |stored: &StoredCertificate| stored.is_trusted || is_own(stored);
        let has_marks = self.certificates.iter().any(is_trusted);
        let trusted = self.certificates.iter().filter(|stored| !has_marks || is_trusted(stored));
        let trusted: Vec<_> = trusted.map(|stored| CertificateDer::from(stored.certificate.clone())).collect();
        if trusted.is_empty() { Err(Pkcs12Error::Empty { what: "certificate" }) } else { Ok(trusted) }
    }
}

/// What is looked at of a bag's attributes.
#[derive(Default)]
struct Attributes {
    id: Option<Vec<u8>>,
    is_trusted: bool,
}

impl Attributes {
    fn read(attributes: Option<&[u8]>) -> Result<Self> {
        let mut found = Self::default();
        let mut attributes = Der::new(attributes.unwrap_or_default());
        while !attributes.is_empty() {
            let mut attribute = attributes.sequence()?;
            let kind = attribute.object_identifier()?;
            let values = attribute.expect(tag::SET)?;
            if kind == LOCAL_KEY_ID {
                found.id = Some(Der::new(values).expect(tag::OCTET_STRING)?.to_vec());
            }
            found.is_trusted |= kind == TRUSTED;
        }
        Ok(found)
    }
}

/// The contents of the only value, an octet string.
fn octets(bytes: &[u8]) -> Result<&[u8]> {
    let mut all = Der::new(bytes);
    let octets = all.expect(tag::OCTET_STRING)?;
    all.end()?;
    Ok(octets)
}

/// Whether the store was signed with this password.
fn check_mac(mut mac: Der<'_>, signed: &[u8], password: &Secret) -> Result<()> {
    let mut info = mac.sequence()?;
    let identifier = info.sequence()?.object_identifier()?;
    let expected = info.expect(tag::OCTET_STRING)?;
    let salt = mac.expect(tag::OCTET_STRING)?;
    let iterations = if mac.is_empty() { 1 } else { mac.unsigned()? };
    let iterations = pbes2::checked_iterations(iterations)?.get();
    let hash = match identifier {
        // 1.3.14.3.2.26, and 2.16.840.1.101.3.4.2.
        [0x2b, 0x0e, 0x03, 0x02, 0x1a] => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01] => hmac::HMAC_SHA256,
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02] => hmac::HMAC_SHA384,
        [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03] => hmac::HMAC_SHA512,
        _ => return Err(Pkcs12Error::Mac { algorithm: dotted(identifier)? }),
    };
    let key = derive(hash.digest_algorithm(), password, salt, iterations);
    let key = hmac::Key::new(hash, key.expose());
    hmac::verify(&key, signed, expected).map_err(|_| Pbes2Error::Password.into())
}

/// The key that signs a store (RFC 7292, appendix B.2): as long as the hash, so that one round of the scheme is all.
fn derive(hash: &'static digest::Algorithm, password: &Secret, salt: &[u8], iterations: u32) -> Secret<Vec<u8>> {
    let block = hash.block_len();
    // UTF-16 with a NUL behind it.
    let password = password.expose().encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
    let password = Secret::new(password);
    let repeated = |bytes: &[u8]| {
        let length = bytes.len().div_ceil(block) * block;
        bytes.iter().copied().cycle().take(length).collect::<Vec<u8>>()
    };
    let mut context = digest::Context::new(hash);
    context.update(&vec![FOR_MAC; block]);
    context.update(&repeated(salt));
    context.update(Secret::new(repeated(password.expose())).expose());
    let mut key = context.finish();
    for _ in 1..iterations {
        key = digest::digest(hash, key.as_ref());
    }
    Secret::new(key.as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: &[u8] = include_bytes!("../../tests/stores/java.p12");
    const PLAIN: &[u8] = include_bytes!("../../tests/stores/plain.p12");

    fn read(bytes: &[u8]) -> Result<Pkcs12> {
        let password = Secret::new("a password".to_owned());
        Pkcs12::read(bytes, Passwords { name: "x", store: Some(&password), key: None })
    }

    #[test]
    fn a_store_that_was_changed_is_not_opened() {
        assert!(read(STORE).is_ok());
        for at in [100, STORE.len() / 2] {
            let mut bytes = STORE.to_vec();
            bytes[at] ^= 1;
            assert_eq!(read(&bytes).unwrap_err(), Pbes2Error::Password.into(), "{at}");
        }
        for length in 0..STORE.len() {
            assert_eq!(read(&STORE[..length]).unwrap_err(), DerError.into());
        }
    }

    #[test]
    fn one_key_is_used_with_the_certificate_that_is_its_own() {
        let mut store = read(PLAIN).unwrap();
        store.certificates.reverse();
        let (chain, _) = store.identity().unwrap();
        let names: Vec<_> = chain.iter().map(|certificate| Certificate::read(certificate).unwrap()).collect();
        assert!(names.len() == 2 && names[0].issuer == names[1].subject && names[1].is_self_issued());

        let mut store = read(PLAIN).unwrap();
        store.keys.extend(read(PLAIN).unwrap().keys);
        assert_eq!(store.identity().unwrap_err(), Pkcs12Error::SeveralKeys { count: 2 });
        let mut store = read(PLAIN).unwrap();
        store.keys[0].id = Some(b"another".to_vec());
        let missing = Pkcs12Error::Empty { what: "certificate of its private key" };
        assert_eq!(store.identity().unwrap_err(), missing);
    }

    #[test]
    fn iterations_are_bounded() {
        for iterations in [0, pbes2::ITERATIONS_MAX + 1, u32::MAX] {
            assert_eq!(pbes2::checked_iterations(iterations), Err(Pbes2Error::Iterations { iterations }));
        }
        assert!(pbes2::checked_iterations(pbes2::ITERATIONS_MAX).is_ok());
    }
}
