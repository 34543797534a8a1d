//! A message of a client with a token, and a set of keys. Nobody gets in whose token no key has signed.

use security::oauth::{ClientFirst, Expected, KeySet, TokenError};

/// One key, whose private half nobody has kept.
const KEYS: &str =
    r#"{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"k2STZ1sWYsvdcCaywYWBrznHR9ExGnhv6R1BeIeIwEI"}]}"#;

pub(crate) fn run(data: &[u8]) {
    let expected = Expected {
        issuer: "i".to_owned(),
        audiences: vec!["k".to_owned()],
        subject_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        clock_skew_seconds: 30,
    };
    let keys = KeySet::parse(KEYS.as_bytes()).expect("it has a key");
    let validate = |token: &str| expected.validate(token, &keys, 0).expect_err("nobody has signed it");
    if let Ok(first) = ClientFirst::read(data) {
        let token = first.token.expose();
        assert!(!token.is_empty() && token.is_ascii());
        assert!(!validate(token).to_string().is_empty());
    }
    if let Ok(token) = str::from_utf8(data) {
        assert!(
            !matches!(validate(token), TokenError::Expired | TokenError::Issuer),
            "claims are behind the signature"
        );
    }
    if let Ok(keys) = KeySet::parse(data) {
        assert!(!keys.is_empty());
    }
}
