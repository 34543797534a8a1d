//! The examples of the RFCs, our client against our server, and clients that mean no good.

use std::num::NonZeroU32;

use super::*;
use crate::scram::client::Scram;

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
const PROOF: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn unknown() -> UnknownUsers {
    UnknownUsers::new(b"of this cluster", 4096)
}

fn credential(hash: Hash, password: &str, salt: &[u8]) -> Credential {
    Credential::from_password(hash, password, salt.to_vec(), NonZeroU32::new(4096).unwrap())
}

/// As in RFC 7677.
fn pencil() -> Credential {
    credential(Hash::Sha256, "pencil", &STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap())
}

fn begin(first: &str) -> Login {
    let first = ClientFirst::read(first.as_bytes()).unwrap();
    first.challenge(Hash::Sha256, Some(&pencil()), &unknown(), SERVER_NONCE).0
}

/// What a client says that signs whatever it is told to.
fn prove(login: &Login, password: &str, without_proof: &str) -> String {
    let Credential { salt, iterations, .. } = &login.credential;
    let salted = crate::scram::salted_password(login.hash, password, salt, NonZeroU32::new(*iterations).unwrap());
    let keys = crate::scram::Keys::new(login.hash, salted.expose());
    let stored_key = digest::digest(login.hash.digest(), keys.client_key.expose());
    let signed = format!("{},{},{without_proof}", login.first.bare, login.challenge);
    let signature = login.hash.sign(stored_key.as_ref(), signed.as_bytes());
    let proof: Vec<u8> = keys.client_key.expose().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

#[test]
fn the_example_of_rfc_7677() {
    let first = ClientFirst::read(FIRST.as_bytes()).unwrap();
    assert_eq!(first.username(), "user");
    let (login, challenge) = first.challenge(Hash::Sha256, Some(&pencil()), &unknown(), SERVER_NONCE);
    assert_eq!(challenge, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
    let accepted = login.finish(PROOF.as_bytes()).unwrap();
    assert_eq!(accepted.username, "user");
    assert_eq!(accepted.message, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn our_client_and_our_server_know_each_other() {
    for hash in Hash::ALL {
        for name in ["alice", "a=b,c", "=2C", " "] {
            let credential = credential(hash, "p=ä,", b"salt");
            let scram = Scram::new(hash, name, NONCE.to_owned());
            let first = ClientFirst::read(scram.first().as_bytes()).unwrap();
            assert_eq!(first.username(), name);
            let (login, challenge) = first.challenge(hash, Some(&credential), &unknown(), SERVER_NONCE);
            let answer = scram.answer("p=ä,", challenge.as_bytes()).unwrap();
            let accepted = login.finish(answer.message.as_bytes()).unwrap();
            assert_eq!(accepted.username, name);
            assert_eq!(answer.verify(accepted.message.as_bytes()), Ok(()));
        }
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_fail_alike() {
    assert_eq!(begin(FIRST).finish(prove(&begin(FIRST), "pen", "c=biws,r=x").as_bytes()), Err(Refused::Nonce));
    let without_proof = format!("c=biws,r={NONCE}{SERVER_NONCE}");
    assert_eq!(begin(FIRST).finish(prove(&begin(FIRST), "pen", &without_proof).as_bytes()), Err(Refused::Proof));
    for hash in Hash::ALL {
        let first = ClientFirst::read(FIRST.as_bytes()).unwrap();
        let (login, _) = first.challenge(hash, None, &unknown(), SERVER_NONCE);
        let proof = prove(&login, "pencil", &without_proof);
        assert_eq!(login.finish(proof.as_bytes()), Err(Refused::Proof));
    }
}

#[test]
fn an_unknown_user_is_unknown_whatever_it_proves() {
    let first = ClientFirst::read(FIRST.as_bytes()).unwrap();
    let (mut login, _) = first.challenge(Hash::Sha256, None, &unknown(), SERVER_NONCE);
    login.credential = credential(Hash::Sha256, "pencil", b"salt");
    let proof = prove(&login, "pencil", &format!("c=biws,r={NONCE}{SERVER_NONCE}"));
    assert_eq!(login.finish(proof.as_bytes()), Err(Refused::Proof));
}

#[test]
fn unknown_users_are_asked_as_others_are() {
    let challenge = |name: &str, hash, unknown: &UnknownUsers| {
        let first = ClientFirst::read(format!("n,,n={name},r=x").as_bytes()).unwrap();
        first.challenge(hash, None, unknown, "y").1
    };
    let one = challenge("bob", Hash::Sha256, &unknown());
    assert_eq!(one, challenge("bob", Hash::Sha256, &unknown()));
    assert_ne!(one, challenge("bobby", Hash::Sha256, &unknown()));
    assert_ne!(one, challenge("bob", Hash::Sha512, &unknown()));
    assert_ne!(one, challenge("bob", Hash::Sha256, &UnknownUsers::new(b"of another", 4096)));
    let salt = one.strip_prefix("r=xy,s=").and_then(|rest| rest.strip_suffix(",i=4096")).unwrap();
    let salt = STANDARD.decode(salt).unwrap();
    assert!((20..=26).contains(&salt.len()) && salt.iter().all(u8::is_ascii_alphanumeric), "{salt:?}");
}

#[test]
fn first_messages_that_are_taken() {
    for (message, username) in [
        ("n,,n=user,r=x", "user"),
        ("n,a=user,n=user,r=x", "user"),
        ("n,a=a=2Cb,n=a=2Cb,r=x", "a,b"),
        ("n,,m=anything,n=user,r=x", "user"),
        ("n,,n=user,r=x,tokenauth=false", "user"),
        ("n,,n=user,r=x,a=b=c,zz==", "user"),
        ("n,,n==3D=3D\u{7f},r=!~=", "==\u{7f}"),
        ("n,,n= ,r=x", " "),
    ] {
        let first = ClientFirst::read(message.as_bytes());
        assert_eq!(first.as_ref().map(ClientFirst::username), Ok(username), "{message}");
    }
}

#[test]
fn first_messages_that_are_refused() {
    use Refused::*;
    for (message, reason) in [
        ("", Malformed),
        ("n", Malformed),
        ("n,", Malformed),
        ("n,,", Malformed),
        ("N,,n=user,r=x", Malformed),
        ("x,,n=user,r=x", Malformed),
        ("y,,n=user,r=x", ChannelBinding),
        ("p=tls-unique,,n=user,r=x", ChannelBinding),
        ("n,b=user,n=user,r=x", Malformed),
        ("n,a=,n=user,r=x", Malformed),
        ("n,a=root,n=user,r=x", AuthorizationId),
        ("n,a=us=zzer,n=user,r=x", Malformed),
        ("n,,n=,r=x", Malformed),
        ("n,,n=us=er,r=x", Malformed),
        ("n,,n=user=,r=x", Malformed),
        ("n,,n=user=2,r=x", Malformed),
        ("n,,n=user=2c,r=x", Malformed),
        ("n,,n=us\0er,r=x", Malformed),
        ("n,,n=üser,r=x", Malformed),
        ("n,,n=user", Malformed),
        ("n,,r=x,n=user", Malformed),
        ("n,,m=,n=user,r=x", Malformed),
        ("n,,m=a,m=b,n=user,r=x", Malformed),
        ("n,,n=user,r=", Malformed),
        ("n,,n=user,r=x y", Malformed),
        ("n,,n=user,r=x,", Malformed),
        ("n,,n=user,r=x,a", Malformed),
        ("n,,n=user,r=x,1=a", Malformed),
        ("n,,n=user,r=x,a=", Malformed),
        ("n,,n=user,r=x,tokenauth=true", DelegationToken),
        ("n,,n=user,r=x,a=b,tokenauth=TRUE", DelegationToken),
    ] {
        assert_eq!(ClientFirst::read(message.as_bytes()), Err(reason), "{message}");
    }
    assert_eq!(ClientFirst::read(b"n,,n=us\xffer,r=x"), Err(Malformed));
    let of_length = |length: usize| format!("n,,n=user,r={}", "x".repeat(length - "n,,n=user,r=".len()));
    assert!(ClientFirst::read(of_length(MESSAGE_BYTES_MAX).as_bytes()).is_ok());
    assert_eq!(ClientFirst::read(of_length(MESSAGE_BYTES_MAX + 1).as_bytes()), Err(TooLarge));
}

/// Every message here is signed with the right password.
#[test]
fn second_messages_whose_proof_is_right() {
    let (client, all) = (NONCE, format!("{NONCE}{SERVER_NONCE}"));
    for (first, second, reason) in [
        (FIRST, format!("c=biws,r={all}"), None),
        (FIRST, format!("c=biws,r={all},x=y=z"), None),
        // librdkafka before 2.6.1.
        (FIRST, format!("c=biws,r={client}{all}"), None),
        (FIRST, format!("c=biws,r={client}{client}{all}"), Some(Refused::Nonce)),
        (FIRST, format!("c=biws,r={all}{SERVER_NONCE}"), Some(Refused::Nonce)),
        (FIRST, format!("c=biws,r={client}"), Some(Refused::Nonce)),
        (FIRST, format!("c=biws,r={SERVER_NONCE}"), Some(Refused::Nonce)),
        (FIRST, format!("c=biws,r=x{all}"), Some(Refused::Nonce)),
        (FIRST, format!("c=biws,r={}", &all[..all.len() - 1]), Some(Refused::Nonce)),
        // "y,,", and "n,,n", and no padding.
        (FIRST, format!("c=eSws,r={all}"), Some(Refused::ChannelBinding)),
        (FIRST, format!("c=bixu,r={all}"), Some(Refused::ChannelBinding)),
        (FIRST, format!("c=,r={all}"), Some(Refused::ChannelBinding)),
        (FIRST, format!("c=!,r={all}"), Some(Refused::ChannelBinding)),
        (FIRST, format!("r={all},c=biws"), Some(Refused::Malformed)),
        (FIRST, format!("c=biws,r={all},x"), Some(Refused::Malformed)),
        (FIRST, format!("c=biws,x=y,r={all}"), Some(Refused::Malformed)),
        // "n,a=user,": what was received is compared, not what it means.
        ("n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO", format!("c=bixhPXVzZXIs,r={all}"), None),
        ("n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO", format!("c=biws,r={all}"), Some(Refused::ChannelBinding)),
        // Raw bytes are signed: an extension, and an escape.
        ("n,,n=us=3Der,r=rOprNGfwEbeRWgbNEkqO,x=y", format!("c=biws,r={all}"), None),
    ] {
        let login = begin(first);
        let message = prove(&login, "pencil", &second);
        assert_eq!(login.finish(message.as_bytes()).err(), reason, "{first} {second}");
    }
}

#[test]
fn second_messages_without_a_proof() {
    let without_proof = PROOF.rsplit_once(",p=").unwrap().0;
    for proof in ["", "=", "dHzb", "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ", "ä"] {
        let message = format!("{without_proof},p={proof}");
        assert_eq!(begin(FIRST).finish(message.as_bytes()), Err(Refused::Malformed), "{message}");
    }
    for message in ["", "c=biws", without_proof, "p=dHzb"] {
        assert_eq!(begin(FIRST).finish(message.as_bytes()), Err(Refused::Malformed), "{message}");
    }
    // One bit of the proof.
    let message = PROOF.replace("p=dHzb", "p=dHzc");
    assert_eq!(begin(FIRST).finish(message.as_bytes()), Err(Refused::Proof));
    let message = format!("c=biws,r={},p=AA==", "x".repeat(MESSAGE_BYTES_MAX));
    assert_eq!(begin(FIRST).finish(message.as_bytes()), Err(Refused::TooLarge));
}

/// RFC 5802's own example is with SHA-1, which is not there; this is its exchange under the other hashes.
#[test]
fn the_exchange_of_rfc_5802() {
    for hash in Hash::ALL {
        let credential = credential(hash, "pencil", &STANDARD.decode("QSXCR+Q6sek8bf92").unwrap());
        let scram = Scram::new(hash, "user", "fyko+d2lbbFgONRv9qkxdawL".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL");
        let first = ClientFirst::read(scram.first().as_bytes()).unwrap();
        let (login, challenge) = first.challenge(hash, Some(&credential), &unknown(), "3rfcNHYJY1ZVvWVs7j");
        assert_eq!(challenge, "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096");
        let answer = scram.answer("pencil", challenge.as_bytes()).unwrap();
        assert!(answer.message.starts_with("c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p="));
        assert!(login.finish(answer.message.as_bytes()).is_ok());
    }
}
