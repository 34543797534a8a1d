//! Tokens that keys made here have signed, and what becomes of those that are changed.

use ring::rand::SystemRandom;
use ring::rsa::{self, PublicKeyComponents};
use ring::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::super::jwk::JwksError;
use super::*;

const NOW_MS: i64 = 1_700_000_000_000;
const NOW: i64 = NOW_MS / 1000;

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Somebody who signs tokens.
enum Signer {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(rsa::KeyPair),
}

impl Signer {
    fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::Ec(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    fn p256() -> Self {
        Self::ec(&signature::ECDSA_P256_SHA256_FIXED_SIGNING)
    }

    fn p384() -> Self {
        Self::ec(&signature::ECDSA_P384_SHA384_FIXED_SIGNING)
    }

    fn ed25519() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn rsa() -> Self {
        let der = base64::engine::general_purpose::STANDARD.decode(RSA_KEY.concat()).unwrap();
        Self::Rsa(rsa::KeyPair::from_pkcs8(&der).unwrap())
    }

    /// Its public key, as it stands in a set.
    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Ec(key) => {
                let point = &key.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "kid": id, "crv": curve, "x": base64(x), "y": base64(y)})
            }
            Self::Ed(key) => {
                json!({"kty": "OKP", "kid": id, "crv": "Ed25519", "x": base64(key.public_key().as_ref())})
            }
            Self::Rsa(key) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({"kty": "RSA", "kid": id, "n": base64(&n), "e": base64(&e)})
            }
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ec(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
            Self::Rsa(key) => {
                let padding: &'static dyn signature::RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": algorithm, "kid": "a", "typ": "JWT"}), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", base64(&signature))
    }
}

fn keys(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn expected() -> Expected {
    Expected {
        issuer: "https://issuer".to_owned(),
        audiences: vec!["kafka".to_owned(), "other".to_owned()],
        subject_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
        clock_skew_seconds: 30,
    }
}

fn claims() -> Value {
    json!({"iss": "https://issuer", "aud": "kafka", "sub": "alice", "iat": NOW - 60, "exp": NOW + 600})
}

/// The usual claims, with some set or, by null, taken away.
fn claims_but(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => _ = claims.as_object_mut().unwrap().remove(name),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn alice() -> Result<Token> {
    Ok(Token { subject: "alice".to_owned(), expires_ms: NOW_MS + 600_000 })
}

#[test]
fn each_algorithm_is_taken_with_a_key_of_its_kind() {
    let signers = [
        (Signer::rsa(), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (Signer::p256(), &["ES256"]),
        (Signer::p384(), &["ES384"]),
        (Signer::ed25519(), &["EdDSA", "Ed25519"]),
    ];
    let all: Vec<_> = signers.iter().flat_map(|(_, algorithms)| *algorithms).collect();
    for (signer, algorithms) in &signers {
        let known = keys(&[signer.jwk("other"), signer.jwk("a")]);
        for algorithm in &all {
            let validated = expected().validate(&signer.token(algorithm, &claims()), &known, NOW_MS);
            let is_of_kind = algorithms.contains(algorithm);
            assert_eq!(validated, if is_of_kind { alice() } else { Err(TokenError::Signature) }, "{algorithm}");
        }
    }
}

#[test]
fn a_key_keeps_to_the_algorithm_that_it_names() {
    let signer = Signer::rsa();
    let mut key = signer.jwk("a");
    key["alg"] = "PS256".into();
    key["use"] = "sig".into();
    key["key_ops"] = json!(["verify"]);
    let known = keys(&[key]);
    assert_eq!(expected().validate(&signer.token("PS256", &claims()), &known, NOW_MS), alice());
    let other = expected().validate(&signer.token("RS256", &claims()), &known, NOW_MS);
    assert_eq!(other, Err(TokenError::Signature));
}

#[test]
fn a_token_without_a_signature_or_with_that_of_another_is_refused() {
    let (signer, stranger) = (Signer::p256(), Signer::p256());
    let known = keys(&[signer.jwk("a")]);
    let validate = |token: &str| expected().validate(token, &known, NOW_MS).unwrap_err();
    assert_eq!(validate(&stranger.token("ES256", &claims())), TokenError::Signature);
    let token = signer.token("ES256", &claims());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    assert_eq!(validate(&format!("{signed}.")), TokenError::Malformed);
    assert_eq!(validate(signed), TokenError::Malformed);
    // All zeros verify everything where nobody looks (CVE-2022-21449).
    assert_eq!(validate(&format!("{signed}.{}", base64(&[0; 64]))), TokenError::Signature);
    let (header, _) = signed.split_once('.').unwrap();
    let of_mallory = base64(claims_but(json!({"sub": "mallory"})).to_string().as_bytes());
    assert_eq!(validate(&format!("{header}.{of_mallory}.{signature}")), TokenError::Signature);
    for algorithm in ["none", "None", "HS256", "HS512", "RS1", "es256", "A128KW", ""] {
        assert_eq!(validate(&signer.token(algorithm, &claims())), TokenError::Algorithm, "{algorithm}");
    }
    // The public key is no secret that could sign.
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, signer.jwk("a").to_string().as_bytes());
    let signed = format!("{}.{}", base64(br#"{"alg":"HS256","kid":"a"}"#), base64(claims().to_string().as_bytes()));
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    assert_eq!(validate(&format!("{signed}.{}", base64(tag.as_ref()))), TokenError::Algorithm);
}

#[test]
fn a_token_names_a_key_that_is_known() {
    let signer = Signer::p256();
    let known = keys(&[signer.jwk("a")]);
    let validate = |header: &Value| expected().validate(&signer.token_with(header, &claims()), &known, NOW_MS);
    assert_eq!(validate(&json!({"alg": "ES256", "kid": "a"})), alice());
    assert_eq!(validate(&json!({"alg": "ES256", "kid": "b"})), Err(TokenError::UnknownKey));
    assert_eq!(validate(&json!({"alg": "ES256"})), Err(TokenError::NoKeyId));
    assert_eq!(validate(&json!({"alg": "ES256", "kid": 1})), Err(TokenError::NoKeyId));
    assert_eq!(
        validate(&json!({"alg": "ES256", "kid": "a", "crit": ["b64"], "b64": false})),
        Err(TokenError::Critical)
    );
    assert_eq!(validate(&json!({"kid": "a"})), Err(TokenError::Algorithm));
    let none = expected().validate(&signer.token("ES256", &claims()), &KeySet::default(), NOW_MS);
    assert_eq!(none, Err(TokenError::UnknownKey));
}

#[test]
fn claims_by_table() {
    let signer = Signer::ed25519();
    let known = keys(&[signer.jwk("a")]);
    let missing = |claim: &str| Err(TokenError::Missing { claim: claim.to_owned() });
    let wrong = |claim: &str| Err(TokenError::Claim { claim: claim.to_owned() });
    for (changes, outcome) in [
        (json!({"exp": null}), missing("exp")),
        (json!({"exp": "soon"}), wrong("exp")),
        (json!({"exp": -1}), wrong("exp")),
        (json!({"exp": 1e300}), wrong("exp")),
        (json!({"exp": i64::MAX}), wrong("exp")),
        (json!({"exp": NOW - 30}), Err(TokenError::Expired)),
        (json!({"exp": NOW + 600, "iat": NOW + 601}), wrong("exp")),
        (json!({"iat": null}), missing("iat")),
        (json!({"iat": [1]}), wrong("iat")),
        (json!({"nbf": NOW + 30}), alice()),
        (json!({"nbf": NOW + 31}), Err(TokenError::NotYet)),
        (json!({"nbf": "x"}), wrong("nbf")),
        (json!({"exp": (NOW + 600) as f64 + 0.5}), alice()),
        (json!({"iss": null}), Err(TokenError::Issuer)),
        (json!({"iss": "https://issuer/"}), Err(TokenError::Issuer)),
        (json!({"iss": ["https://issuer"]}), Err(TokenError::Issuer)),
        (json!({"aud": null}), Err(TokenError::Audience)),
        (json!({"aud": "Kafka"}), Err(TokenError::Audience)),
        (json!({"aud": []}), Err(TokenError::Audience)),
        (json!({"aud": ["x", "other"]}), alice()),
        (json!({"aud": ["kafka", 1]}), wrong("aud")),
        (json!({"aud": {"kafka": 1}}), wrong("aud")),
        (json!({"sub": null}), missing("sub")),
        (json!({"sub": ""}), wrong("sub")),
        (json!({"sub": "  "}), wrong("sub")),
        (json!({"sub": 7}), wrong("sub")),
        (json!({"sub": "a\nb"}), wrong("sub")),
        (json!({"sub": " alice "}), alice()),
        (json!({"scope": "read write"}), alice()),
        (json!({"scope": ["read", "write"]}), alice()),
        (json!({"scope": ["read", "read "]}), wrong("scope")),
        (json!({"scope": " "}), wrong("scope")),
    ] {
        let token = signer.token("EdDSA", &claims_but(changes.clone()));
        assert_eq!(expected().validate(&token, &known, NOW_MS), outcome, "{changes}");
    }
    // Within the difference that clocks may have it is over, and good.
    let token = signer.token("EdDSA", &claims_but(json!({"exp": NOW - 29})));
    assert_eq!(expected().validate(&token, &known, NOW_MS).unwrap().expires_ms, NOW_MS - 29_000);
}

#[test]
fn names_of_claims_can_be_others() {
    let signer = Signer::ed25519();
    let known = keys(&[signer.jwk("a")]);
    let expected = Expected { subject_claim: "email".to_owned(), scope_claim: "scp".to_owned(), ..expected() };
    let token = signer.token("EdDSA", &claims_but(json!({"email": "alice", "sub": "x", "scope": " "})));
    assert_eq!(expected.validate(&token, &known, NOW_MS), alice());
    let token = signer.token("EdDSA", &claims_but(json!({"scp": " ", "email": "alice"})));
    assert_eq!(expected.validate(&token, &known, NOW_MS), Err(TokenError::Claim { claim: "scp".to_owned() }));
    let token = signer.token("EdDSA", &claims());
    assert_eq!(expected.validate(&token, &known, NOW_MS), Err(TokenError::Missing { claim: "email".to_owned() }));
}

#[test]
fn what_is_no_token_is_refused() {
    let signer = Signer::ed25519();
    let known = keys(&[signer.jwk("a")]);
    let validate = |token: &str| expected().validate(token, &known, NOW_MS);
    let token = signer.token("EdDSA", &claims());
    let header = |json: &str| format!("{}.e30.AAAA", base64(json.as_bytes()));
    for token in ["", ".", "..", "a.b.c", "a.b.c.d", &format!("{token}="), &format!("{token}.x"), &format!(" {token}")]
    {
        assert_eq!(validate(token), Err(TokenError::Malformed), "{token}");
    }
    for json in ["", "[]", "{", "null", "\"x\"", &"[".repeat(8000), "{\"alg\":\"EdDSA\"}}", "\u{feff}{}"] {
        assert_eq!(validate(&header(json)), Err(TokenError::Malformed), "{json}");
    }
    assert_eq!(validate(&"a".repeat(TOKEN_BYTES_MAX + 1)), Err(TokenError::TooLarge));
    // Signed, and no object.
    let signed = format!("{}.{}", base64(br#"{"alg":"EdDSA","kid":"a"}"#), base64(b"[1]"));
    let signature = signer.sign("EdDSA", signed.as_bytes());
    assert_eq!(validate(&format!("{signed}.{}", base64(&signature))), Err(TokenError::Malformed));
}

#[test]
fn keys_that_cannot_verify_tokens_are_left_out() {
    let (signer, rsa) = (Signer::p256(), Signer::rsa());
    let but = |changes: Value| {
        let mut key = if changes.get("n").is_some() { rsa.jwk("a") } else { signer.jwk("a") };
        for (name, value) in changes.as_object().unwrap() {
            key[name] = value.clone();
        }
        key
    };
    let mut anonymous = signer.jwk("a");
    anonymous.as_object_mut().unwrap().remove("kid");
    let left_out = [
        anonymous,
        but(json!({"kid": 1})),
        but(json!({"use": "enc"})),
        but(json!({"use": 1})),
        but(json!({"key_ops": ["encrypt"]})),
        but(json!({"alg": "ES384"})),
        but(json!({"alg": "RS256"})),
        but(json!({"alg": "HS256"})),
        but(json!({"alg": 1})),
        but(json!({"crv": "secp256k1"})),
        but(json!({"crv": "P-384"})),
        but(json!({"x": base64(&[1; 31])})),
        but(json!({"x": "not base64!"})),
        but(json!({"n": base64(&[0xff; 128])})),
        // Zeros in front do not make it longer.
        but(json!({"n": base64(&[&[0; 128][..], &[0xff; 128]].concat())})),
        but(json!({"n": base64(&[0xff; 1025])})),
        but(json!({"n": ""})),
        json!({"kty": "oct", "kid": "a", "k": base64(&[1; 32]), "alg": "HS256"}),
        json!({"kty": "unheard-of", "kid": "a"}),
        json!({}),
        json!("a"),
        Value::Null,
    ];
    for key in &left_out {
        let set = json!({"keys": [key]}).to_string();
        assert_eq!(KeySet::parse(set.as_bytes()).err(), Some(JwksError::NoKeys), "{key}");
    }
    let known = keys(&[&left_out[..], &[signer.jwk("a")]].concat());
    assert_eq!((known.len(), known.left_out()), (1, left_out.len()));
    assert_eq!(expected().validate(&signer.token("ES256", &claims()), &known, NOW_MS), alice());
}

#[test]
fn sets_are_bounded_and_have_a_form() {
    let error = |text: &str| KeySet::parse(text.as_bytes()).unwrap_err();
    for text in ["", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]", &"[".repeat(100_000)] {
        assert_eq!(error(text), JwksError::Malformed, "{}", &text[..text.len().min(20)]);
    }
    assert_eq!(error("{\"keys\":[]}"), JwksError::NoKeys);
    let many = json!({"keys": vec![Signer::ed25519().jwk("a"); 257]}).to_string();
    assert_eq!(error(&many), JwksError::TooManyKeys);
    assert_eq!(error(&" ".repeat((1 << 20) + 1)), JwksError::TooLarge);
}

/// Made by openssl for this test, and good for nothing else.
const RSA_KEY: &[&str] = &[
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCZY+OBsnEiR2x36tauCdMgasYdX3q+0eywHu8GYpzsEI/xSpjf",
    "WtIRwChM9/MKOEtsBYZJwWLFNqVmw49DIh5cbPptPgLuXs+xMCLydQ4LwXgsEgxs2y4TfDYUJa52zZ8PfaJv+L5LMeVgc4sHO5BA",
    "wOhe2Snw7n3SrcotiLVE9O4h0Ann3h4AeAbjb6LarOC6GwJ3VS9h9DdTUzoCfTwyE35nE7gzLhpVthMpb8Uf5mz4Gue7A3QRJL9v",
    "3oa3uJGXSHwTVMp8ywRqGknS9+Py1k80xgalI1e6skITfGx+g4IY/yCwksL8XhT4ic9G1FUkruV5Ok6Yk3tC6OevkZsLAgMBAAEC",
    "ggEANVA5InqdhN8TTcjDTiFfDtzduBbYCFvZasuNo4gB57DH/wNBCBy+d+n0d/AUOsCfQk/XQWpkRIx+R63/7ML+j3xXPEH57dTp",
    "VjoXY3MY6zAW7yZkyC8UIDSjbTQ9o9BLESzHGSj5JxSUF4aBU4W52S/TdCgBwlp6RBAgfdwOuQTolfK7iQQ36qzeZ0O9hhSJd/st",
    "Ni5YmEKBYNnivDk78oQ3Nx+BDT4q8XRIla3b/Csyab1LgGO3LAIzUsrtVtUfdd5TyqAuRHx9Qf3BPKAvpW0DwzfQbF0m1BXttLfI",
    "MHSly6sUjH2lEcNqIrKOL8NADEJqeLYEyc1KqTbp1MeNaQKBgQDQQyAT1RtGLRRIPSh+KuST2/BPVS0GWrGQZ1jsSOQr9GeWVdYd",
    "G8bAmNYhsF49rdjIcendQH4outZJhvFl+PUQB4orqOveUqbI5DHvFCPC/wt+RaNrjyH6J/fdK4b6UOy7njHWsGisErw/bg0u2ECz",
    "rZDwmf1g7ktNexgC6tb1CQKBgQC8jNxTeC0OCtI23jjtw+pyyuKeTd0IRDZPeD6d7EMdImvpMtpgrmjcLCKSPhPMJa3K8y0cPT65",
    "2w2uy2Hzz1/3sPTAn4BrDBvikynbQsyvh8lugkVdi+/9BlN+yX8al6wuoWh7PIfesTVnlKCovrb3nA2liW5OM6PaYkj3kB9IcwKB",
    "gE+kO9IZvrJZbtYpPSDyejLo+r77zZoOeLTGMMU7IraEYlClRpofEyR3zftYHNHtd2c/2LUZgqVEvcmkZxAd4mlc2MPVd02vwcQ1",
    "L7tDsmFRcy24p8PsGow1WJ4llRqIc99Toa9+CqkzCPYgub3eSO/tQe4glTrKJdXdatNCxy0xAoGAGv6z4MN49+S2uiJQ1kHRhEPl",
    "9DJDrhZODEyz8lpMNZSjDI06VNNDshojjPqUTQsr+b2dPMjL/UIOkHMQAB81pznPoPB1K15dc7AMMxc6RPtU7Jx8H+uUHY7VT3a7",
    "2uvSPA7h7Zr5/Pk0IzNVWTOM8KCIF6Y4g7vC/tZJiiA5Sl8CgYEAxnAAzuCiJiQe02irAbkn9tFciV0ZVq32tSRbyT9wpLlkv9va",
    "O3LdumguyecOWNgMBFKIpE7KL1JqkhjA7wdDQRyKFqaZyf12uY9TEjNvF4c66Ud0m1EwXOh1EjXVXxNwNOUE5r/AjQcR8oRaGenJ",
    "bf9JxEynGHzIyFcUTV5R+XA=",
];
