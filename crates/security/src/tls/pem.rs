//! PEM as Kafka takes it (KIP-651): in lines, or, where it is the value of a setting, with spaces in their place.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::error::TlsError;
use super::pbes2;
use crate::Secret;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

pub(super) fn is_pem(text: &str) -> bool {
    text.contains(BEGIN)
}

pub(super) fn certificates(name: &'static str, text: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = sections(text).filter(|section| section.label == "CERTIFICATE");
    let certificates = certificates.map(|section| section.decode(name).map(CertificateDer::from));
    let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() { Err(TlsError::Empty { name, what: "certificate" }) } else { Ok(certificates) }
}

/// The first key of the text.
pub(super) fn key(
    name: &'static str,
    text: &str,
    password: Option<&Secret>,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    let section = sections(text).find(|section| section.label.ends_with("PRIVATE KEY"));
    let section = section.ok_or(TlsError::Empty { name, what: "private key" })?;
    // How openssl encrypted them before PKCS #8.
    if section.body.contains("Proc-Type:") {
        return Err(TlsError::OldKey { name });
    }
    let key = section.decode(name)?;
    Ok(match section.label {
        "PRIVATE KEY" => PrivatePkcs8KeyDer::from(key).into(),
        "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(key).into(),
        "EC PRIVATE KEY" => PrivateSec1KeyDer::from(key).into(),
        "ENCRYPTED PRIVATE KEY" => {
            let password = password.ok_or(TlsError::NoKeyPassword { name })?;
            let key = pbes2::decrypt_key(&key, password).map_err(|reason| TlsError::Key { name, reason })?;
            PrivatePkcs8KeyDer::from(key.expose().clone()).into()
        }
        label => return Err(TlsError::Unusable { name, reason: format!("it has {label:?}, which is not read") }),
    })
}

struct Section<'a> {
    label: &'a str,
    body: &'a str,
}

/// What stands between marks. Text outside of them is left out.
fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, begun) = rest.split_once(BEGIN)?;
        let (label, inside) = begun.split_once(DASHES)?;
        let (body, after) = inside.split_once(END)?;
        rest = after;
        Some(Section { label, body })
    })
}

impl Section<'_> {
    fn decode(&self, name: &'static str) -> Result<Vec<u8>, TlsError> {
        let letters = Secret::new(self.body.split_whitespace().collect::<String>());
        STANDARD.decode(letters.expose()).map_err(|_| {
            let reason = format!("what stands between the marks of {:?} is not base64", self.label);
            TlsError::Unusable { name, reason }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "-----BEGIN CERTIFICATE-----\nAAEC\nAwQF\n-----END CERTIFICATE-----\n";

    #[test]
    fn lines_may_be_spaces() {
        let expected = vec![CertificateDer::from(vec![0, 1, 2, 3, 4, 5])];
        assert_eq!(certificates("x", LINES), Ok(expected.clone()));
        assert_eq!(certificates("x", &LINES.replace('\n', " ")), Ok(expected.clone()));
        assert_eq!(certificates("x", &LINES.replace('\n', "\r\n  ")), Ok(expected.clone()));
        let with_words = format!("Bag Attributes\n    friendlyName: x\n--------\n{LINES}\n{LINES}");
        assert_eq!(certificates("x", &with_words).unwrap().len(), 2);
    }

    #[test]
    fn keys_have_several_forms() {
        let of = |label: &str| format!("{LINES}-----BEGIN {label}-----\nAAEC\n-----END {label}-----\n");
        assert!(matches!(key("x", &of("PRIVATE KEY"), None), Ok(PrivateKeyDer::Pkcs8(_))));
        assert!(matches!(key("x", &of("RSA PRIVATE KEY"), None), Ok(PrivateKeyDer::Pkcs1(_))));
        assert!(matches!(key("x", &of("EC PRIVATE KEY"), None), Ok(PrivateKeyDer::Sec1(_))));
        assert!(matches!(key("x", &of("DSA PRIVATE KEY"), None), Err(TlsError::Unusable { .. })));
    }

    #[test]
    fn what_is_missing_or_encrypted_is_said() {
        assert_eq!(
            certificates("ssl.truststore.location", "nothing").unwrap_err().to_string(),
            "ssl.truststore.location has no certificate"
        );
        assert_eq!(key("x", LINES, None), Err(TlsError::Empty { name: "x", what: "private key" }));
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAEC\n-----END ENCRYPTED PRIVATE KEY-----";
        assert_eq!(key("x", encrypted, None), Err(TlsError::NoKeyPassword { name: "x" }));
        let password = Secret::new("a".to_owned());
        assert!(matches!(key("x", encrypted, Some(&password)), Err(TlsError::Key { .. })));
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAEC\n-----END RSA PRIVATE KEY-----";
        assert_eq!(key("x", old, Some(&password)), Err(TlsError::OldKey { name: "x" }));
        assert!(matches!(certificates("x", &LINES.replace("AAEC", "!")), Err(TlsError::Unusable { .. })));
    }
}
