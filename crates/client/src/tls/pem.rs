//! PEM as Kafka's clients take it: in lines, or, where it is the value of a setting, with spaces in their place.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::security_error::SecurityError;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

pub(super) fn is_pem(text: &str) -> bool {
    text.contains(BEGIN)
}

pub(super) fn certificates(name: &'static str, text: &str) -> Result<Vec<CertificateDer<'static>>, SecurityError> {
    let unreadable = |error| SecurityError::Pem { name, reason: format!("{error}") };
    let text = in_lines(text);
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>().map_err(unreadable)?;
    if certificates.is_empty() { Err(SecurityError::Empty { name, what: "certificate" }) } else { Ok(certificates) }
}

pub(super) fn key(name: &'static str, text: &str) -> Result<PrivateKeyDer<'static>, SecurityError> {
    // The second is how openssl wrote them before PKCS #8.
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(SecurityError::EncryptedKey { name });
    }
    if !text.contains("PRIVATE KEY") {
        return Err(SecurityError::Empty { name, what: "private key" });
    }
    let unreadable = |error| SecurityError::Pem { name, reason: format!("{error}") };
    PrivateKeyDer::from_pem_slice(in_lines(text).as_bytes()).map_err(unreadable)
}

/// What stands between marks, one word on each line. Text outside of marks is left out.
fn in_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 100);
    let mut rest = text;
    while let Some((_, begun)) = rest.split_once(BEGIN)
        && let Some((label, inside)) = begun.split_once(DASHES)
        && let Some((body, after)) = inside.split_once(END)
    {
        out.extend([BEGIN, label, DASHES, "\n"]);
        body.split_whitespace().for_each(|word| out.extend([word, "\n"]));
        out.extend([END, label, DASHES, "\n"]);
        rest = after;
    }
    out
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
    fn what_is_missing_or_encrypted_is_said() {
        assert_eq!(
            certificates("ssl.truststore.location", "nothing").unwrap_err().to_string(),
            "ssl.truststore.location has no certificate"
        );
        assert_eq!(key("x", LINES), Err(SecurityError::Empty { name: "x", what: "private key" }));
        for encrypted in
            ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED"]
        {
            assert_eq!(key("x", encrypted), Err(SecurityError::EncryptedKey { name: "x" }));
        }
        assert!(matches!(certificates("x", &LINES.replace("AAEC", "!")), Err(SecurityError::Pem { .. })));
    }
}
