//! Two messages of a client that wants in with SCRAM, with a zero byte between them, and a challenge of a server. What
//! is refused is a typed error; nobody gets in without the password.

use std::num::NonZeroU32;

use security::scram::client::Scram;
use security::scram::server::{ClientFirst, Refused, UnknownUsers};
use security::scram::{Credential, Hash};

pub(crate) fn run(data: &[u8]) {
    let (first, second) = match data.iter().position(|byte| *byte == 0) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &data[..0]),
    };
    let iterations = NonZeroU32::MIN;
    let unknown = UnknownUsers::new(b"secret", iterations.get());
    if let Ok(first) = ClientFirst::read(first) {
        let username = first.username().to_owned();
        assert!(!username.is_empty() && username.is_ascii() && !username.contains('\0'));
        let credential = Credential::from_password(Hash::Sha256, "pencil", b"salt".to_vec(), iterations);
        let (login, challenge) = first.challenge(Hash::Sha256, Some(&credential), &unknown, "server");
        assert!(challenge.is_ascii() && challenge.contains("server,s="));
        if let Ok(accepted) = login.finish(second) {
            assert_eq!(accepted.username, username);
        }
    }
    if let Ok(first) = ClientFirst::read(first) {
        let (login, _) = first.challenge(Hash::Sha512, None, &unknown, "server");
        let refused = login.finish(second).expect_err("nobody has this user's password");
        assert!(!refused.to_string().is_empty() && refused != Refused::DelegationToken);
    }
    let scram = Scram::new(Hash::Sha256, "user", "client".to_owned());
    if let Ok(answer) = scram.answer("pencil", second) {
        let _ = answer.verify(first);
    }
}
