//! Keystores and truststores: `ssl.keystore.*`, `ssl.truststore.*` and `ssl.key.password`, with the meaning that Kafka
//! gives them (KIP-651, `DefaultSslEngineFactory`).
//!
//! Behaviour:
//! - A store is a file, or PEM in the settings themselves, and not both.
//! - A file says itself what it is: Java reads PKCS12 under the name of JKS, its default type. A type that is set and
//!   contradicts is refused.
//! - PKCS12 has a password, which also opens its key unless `ssl.key.password` does. PEM has none but the key's.
//! - JKS is refused, with the command that converts it.

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::TlsError;
use super::pem;
use super::pkcs12::{Passwords, Pkcs12};
use crate::Secret;
use crate::certificate::Certificate;

pub const KEY_TYPE: &str = "ssl.keystore.type";
pub const KEY_LOCATION: &str = "ssl.keystore.location";
pub const KEY_STORE_PASSWORD: &str = "ssl.keystore.password";
pub const KEY: &str = "ssl.keystore.key";
pub const KEY_CHAIN: &str = "ssl.keystore.certificate.chain";
pub const KEY_PASSWORD: &str = "ssl.key.password";
pub const TRUST_TYPE: &str = "ssl.truststore.type";
pub const TRUST_LOCATION: &str = "ssl.truststore.location";
pub const TRUST_PASSWORD: &str = "ssl.truststore.password";
pub const TRUST_CERTIFICATES: &str = "ssl.truststore.certificates";

/// Certificates are the most of the largest.
pub const STORE_BYTES_MAX: usize = 16 << 20;

/// Reads a file, at most a little more than [`STORE_BYTES_MAX`], or says in words why not.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// The settings, as they were written, under their names without a listener's prefix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreConfig {
    pub keystore_type: Option<String>,
    pub keystore_location: Option<String>,
    pub keystore_password: Option<Secret>,
    pub keystore_key: Option<Secret>,
    pub keystore_certificate_chain: Option<String>,
    pub key_password: Option<Secret>,
    pub truststore_type: Option<String>,
    pub truststore_location: Option<String>,
    pub truststore_password: Option<Secret>,
    pub truststore_certificates: Option<String>,
}

/// A key with its certificates, the first of which is its own.
pub struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// The setting that it comes from.
    pub name: &'static str,
}

/// Whom we trust.
pub struct Trusted {
    pub certificates: Vec<CertificateDer<'static>>,
    /// The same, as those who may sign.
    pub roots: RootCertStore,
}

impl StoreConfig {
    /// Sets what Kafka calls `name`. An empty value is none. Returns whether the name is one of these.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let text = || (!value.is_empty()).then(|| value.to_owned());
        let secret = || text().map(Secret::new);
        match name {
            KEY_TYPE => self.keystore_type = text(),
            KEY_LOCATION => self.keystore_location = text(),
            KEY_STORE_PASSWORD => self.keystore_password = secret(),
            KEY => self.keystore_key = secret(),
            KEY_CHAIN => self.keystore_certificate_chain = text(),
            KEY_PASSWORD => self.key_password = secret(),
            TRUST_TYPE => self.truststore_type = text(),
            TRUST_LOCATION => self.truststore_location = text(),
            TRUST_PASSWORD => self.truststore_password = secret(),
            TRUST_CERTIFICATES => self.truststore_certificates = text(),
            _ => return false,
        }
        true
    }

    /// The file that a setting names.
    pub fn location(&self, name: &str) -> Option<&str> {
        match name {
            KEY_LOCATION => self.keystore_location.as_deref(),
            TRUST_LOCATION => self.truststore_location.as_deref(),
            _ => None,
        }
    }

    /// Our key and certificates, where there are any.
    pub fn identity(&self, read: ReadFile<'_>) -> Result<Option<Identity>, TlsError> {
        let identity = self.read_identity(read)?;
        if let Some(Identity { chain, name, .. }) = &identity {
            let is_old = |own: &CertificateDer<'_>| Certificate::read(own).is_ok_and(|own| own.version < 3);
            if chain.first().is_some_and(is_old) {
                let reason = "its certificate is of X.509 version 1, which is not taken; give it a subjectAltName";
                return Err(TlsError::Unusable { name, reason: reason.to_owned() });
            }
        }
        Ok(identity)
    }

    fn read_identity(&self, read: ReadFile<'_>) -> Result<Option<Identity>, TlsError> {
        let kind = Kind::of(KEY_TYPE, self.keystore_type.as_deref())?;
        let password = self.keystore_password.as_ref();
        let missing = |name, because| Err(TlsError::Missing { name, because });
        match (&self.keystore_certificate_chain, &self.keystore_key, &self.keystore_location) {
            (None, None, None) if password.is_some() => missing(KEY_LOCATION, KEY_STORE_PASSWORD),
            (None, None, None) => Ok(None),
            (Some(_), _, Some(_)) => Err(TlsError::Both { name: KEY_CHAIN, other: KEY_LOCATION }),
            (None, Some(_), Some(_)) => Err(TlsError::Both { name: KEY, other: KEY_LOCATION }),
            (None, Some(_), None) => missing(KEY_CHAIN, KEY),
            (Some(_), None, None) => missing(KEY, KEY_CHAIN),
            (Some(chain), Some(key), None) => {
                only_pem(KEY_TYPE, kind)?;
                no_password(KEY_STORE_PASSWORD, password)?;
                let key = pem::key(KEY, key.expose(), self.key_password.as_ref())?;
                Ok(Some(Identity { chain: pem::certificates(KEY_CHAIN, chain)?, key, name: KEY }))
            }
            (None, None, Some(path)) => {
                let name = KEY_LOCATION;
                let (chain, key) = match Contents::read(name, path, kind, read)? {
                    Contents::Pem(text) => {
                        no_password(KEY_STORE_PASSWORD, password)?;
                        let key = pem::key(name, text.expose(), self.key_password.as_ref())?;
                        (pem::certificates(name, text.expose())?, key)
                    }
                    Contents::Pkcs12(bytes) => {
                        let passwords =
                            Passwords { name: KEY_STORE_PASSWORD, store: password, key: self.key_password.as_ref() };
                        let opened = Pkcs12::read(bytes.expose(), passwords).and_then(Pkcs12::identity);
                        opened.map_err(|reason| TlsError::Pkcs12 { name, path: path.clone(), reason })?
                    }
                };
                Ok(Some(Identity { chain, key, name }))
            }
        }
    }

    /// Whom we trust, where it is said.
    pub fn trusted(&self, read: ReadFile<'_>) -> Result<Option<Trusted>, TlsError> {
        let kind = Kind::of(TRUST_TYPE, self.truststore_type.as_deref())?;
        let password = self.truststore_password.as_ref();
        let (name, certificates) = match (&self.truststore_certificates, &self.truststore_location) {
            (None, None) if password.is_some() => {
                return Err(TlsError::Missing { name: TRUST_LOCATION, because: TRUST_PASSWORD });
            }
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err(TlsError::Both { name: TRUST_CERTIFICATES, other: TRUST_LOCATION }),
            (Some(text), None) => {
                only_pem(TRUST_TYPE, kind)?;
                no_password(TRUST_PASSWORD, password)?;
                (TRUST_CERTIFICATES, pem::certificates(TRUST_CERTIFICATES, text)?)
            }
            (None, Some(path)) => {
                let name = TRUST_LOCATION;
                let certificates = match Contents::read(name, path, kind, read)? {
                    Contents::Pem(text) => {
                        no_password(TRUST_PASSWORD, password)?;
                        pem::certificates(name, text.expose())?
                    }
                    Contents::Pkcs12(bytes) => {
                        let passwords = Passwords { name: TRUST_PASSWORD, store: password, key: None };
                        let opened = Pkcs12::read(bytes.expose(), passwords).and_then(Pkcs12::trusted);
                        opened.map_err(|reason| TlsError::Pkcs12 { name, path: path.clone(), reason })?
                    }
                };
                (name, certificates)
            }
        };
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            let unusable = |error: rustls::Error| TlsError::Unusable { name, reason: error.to_string() };
            roots.add(certificate.clone()).map_err(unusable)?;
        }
        Ok(Some(Trusted { certificates, roots }))
    }
}

/// What a type says that is set. Kafka's default, JKS, says nothing here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jks,
    Pkcs12,
    Pem,
}

impl Kind {
    fn of(name: &'static str, value: Option<&str>) -> Result<Option<Self>, TlsError> {
        let Some(value) = value else { return Ok(None) };
        Ok(Some(match value.to_ascii_uppercase().as_str() {
            "JKS" => Self::Jks,
            "PKCS12" => Self::Pkcs12,
            "PEM" => Self::Pem,
            _ => return Err(TlsError::Value { name, value: value.to_owned(), takes: "PKCS12, PEM or JKS" }),
        }))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Jks => "JKS",
            Self::Pkcs12 => "PKCS12",
            Self::Pem => "PEM",
        }
    }
}

/// What stands in settings is PEM.
fn only_pem(name: &'static str, kind: Option<Kind>) -> Result<(), TlsError> {
    match kind {
        Some(kind @ (Kind::Jks | Kind::Pkcs12)) => {
            let takes = "PEM where certificates and keys are in the settings themselves";
            Err(TlsError::Value { name, value: kind.name().to_owned(), takes })
        }
        Some(Kind::Pem) | None => Ok(()),
    }
}

fn no_password(name: &'static str, password: Option<&Secret>) -> Result<(), TlsError> {
    if password.is_some() { Err(TlsError::PemPassword { name }) } else { Ok(()) }
}

/// A file, as far as its first bytes say what it is.
enum Contents {
    Pem(Secret),
    Pkcs12(Secret<Vec<u8>>),
}

impl Contents {
    fn read(name: &'static str, path: &str, kind: Option<Kind>, read: ReadFile<'_>) -> Result<Self, TlsError> {
        let path = || path.to_owned();
        let failed = |reason| TlsError::File { name, path: path(), reason };
        let bytes = Secret::new(read(&path()).map_err(failed)?);
        if bytes.expose().len() > STORE_BYTES_MAX {
            return Err(failed(format!("it is larger than {STORE_BYTES_MAX} bytes")));
        }
        let contradicts = |found: &str, kind: Kind| {
            let kind = kind.name();
            Err(TlsError::Unusable { name, reason: format!("{} is {found}, and its type is set to {kind}", path()) })
        };
        match (bytes.expose().as_slice(), kind) {
            // And JCEKS, which Java writes where it is asked to.
            ([0xfe, 0xed, 0xfe, 0xed, ..] | [0xce, 0xce, 0xce, 0xce, ..], _) => {
                Err(TlsError::Jks { name, path: path() })
            }
            ([0x30, ..], Some(kind @ Kind::Pem)) => contradicts("PKCS12", kind),
            ([0x30, ..], _) => Ok(Self::Pkcs12(bytes)),
            (text, kind) => match (str::from_utf8(text).ok().filter(|text| pem::is_pem(text)), kind) {
                (None, _) => Err(TlsError::Format { name, path: path() }),
                (Some(_), Some(kind @ (Kind::Jks | Kind::Pkcs12))) => contradicts("PEM", kind),
                (Some(text), _) => Ok(Self::Pem(Secret::new(text.to_owned()))),
            },
        }
    }
}
