//! AlterUserScramCredentials (key 51), version 0: set and delete SCRAM credentials of users (KIP-554).
//!
//! Behaviour:
//! - A user is altered once in a request: a second mention is DUPLICATE_RESOURCE. Each user is answered once, and
//!   altered or refused by itself ([`metadata::changes::scram`]).
//! - The salted password of the request is as good as the password. This broker derives the keys that a login is
//!   checked with, and nothing else goes to the controller (Kafka sends it what the client has sent).
//! - More than 50,000 users are POLICY_VIOLATION, names of more than 1,024 bytes and salts of more than 256 are
//!   UNACCEPTABLE_CREDENTIAL. Kafka has no such bounds.
//! - An empty salt or salted password is UNACCEPTABLE_CREDENTIAL: nobody could log in (Kafka's clients refuse the
//!   first, its controller the second).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use metadata::ScramMechanism;
use security::scram::{Credential, Hash};
use wire::ErrorCode;
use wire::Secret;
use wire::api::alter_scram_keys::{AlterScramKeysRequest, ScramKeysUpsertion};
use wire::api::alter_user_scram_credentials::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
};

use super::{Pace, RequestContext};
use crate::Broker;
use crate::controller::ControllerError;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let users = users(&request);
    let mut pace = Pace::default();
    let mut upsertions = Vec::with_capacity(request.upsertions.len());
    for upsertion in request.upsertions {
        upsertions.push(with_keys(upsertion));
        pace.step(1).await;
    }
    let request = AlterScramKeysRequest { deletions: request.deletions, upsertions };
    let results = match context.ask_controller(broker, request).await {
        Ok(answer) => answer.results,
        Err(error) => refuse(users, &error),
    };
    for result in results.iter().filter(|result| result.error_code.is_none()) {
        broker.audit.changed(context.asker(), &format_args!("SCRAM credentials of user {:?}", result.user));
    }
    AlterUserScramCredentialsResponse { results, ..Default::default() }
}

/// The users that a request names, once each.
fn users(request: &AlterUserScramCredentialsRequest) -> BTreeSet<String> {
    let deleted = request.deletions.iter().map(|deletion| &deletion.name);
    let upserted = request.upsertions.iter().map(|upsertion| &upsertion.name);
    deleted.chain(upserted).cloned().collect()
}

fn refuse(users: BTreeSet<String>, error: &ControllerError) -> Vec<AlterUserScramCredentialsResult> {
    let (error_code, error_message) = (error.code(), Some(error.to_string()));
    let refused = |user| AlterUserScramCredentialsResult { user, error_code, error_message: error_message.clone() };
    users.into_iter().map(refused).collect()
}

/// What the controller is told of a credential. It refuses one without keys, or of a mechanism that is unknown.
fn with_keys(upsertion: ScramCredentialUpsertion) -> ScramKeysUpsertion {
    let ScramCredentialUpsertion { name, mechanism, iterations, salt, salted_password } = upsertion;
    let known = ScramMechanism::from_id(mechanism).filter(|_| !salted_password.0.is_empty());
    let credential = known.map(|mechanism| {
        let hash = match mechanism {
            ScramMechanism::Sha256 => Hash::Sha256,
            ScramMechanism::Sha512 => Hash::Sha512,
        };
        Credential::from_salted_password(hash, &salted_password.0, salt.to_vec(), iterations.unsigned_abs())
    });
    let key = |key: &security::Secret<Vec<u8>>| Secret(Bytes::copy_from_slice(key.expose()));
    let (stored_key, server_key) = match &credential {
        Some(credential) => (key(&credential.stored_key), key(&credential.server_key)),
        None => Default::default(),
    };
    ScramKeysUpsertion { name, mechanism, iterations, salt, stored_key, server_key }
}

/// The answer to who may not.
pub(super) fn refused(
    request: &AlterUserScramCredentialsRequest,
    error_code: ErrorCode,
) -> AlterUserScramCredentialsResponse {
    let refused = |user| AlterUserScramCredentialsResult { user, error_code, error_message: None };
    AlterUserScramCredentialsResponse {
        results: users(request).into_iter().map(refused).collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use wire::api::Request;
    use wire::api::alter_user_scram_credentials::ScramCredentialDeletion;

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn bytes(hex: &str) -> Bytes {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn upsertion(name: &str, mechanism: i8, salted_password: &str) -> ScramCredentialUpsertion {
        ScramCredentialUpsertion {
            name: name.to_owned(),
            mechanism,
            iterations: 4096,
            salt: Bytes::from_static(b"salt"),
            salted_password: Secret(bytes(salted_password)),
        }
    }

    fn deletion(name: &str, mechanism: i8) -> ScramCredentialDeletion {
        ScramCredentialDeletion { name: name.to_owned(), mechanism }
    }

    /// Of the password of RFC 7677's example, and its keys, by Python's hashlib.
    const SHA_256: [&str; 3] = [
        "c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d",
        "586e5df283e6dceb5c3e791d8b8528ec191e664045ce971792e2e6b5bb13e2a6",
        "c1f3cbc1c13a9d35a14c0990eed97629ea225863e566a4314ab99f3f00e5d9d5",
    ];
    /// The same with the other mechanism.
    const SHA_512: [&str; 3] = [
        "f16efe1be67f1d09502ebd5ed9262fddffba5a377ab4f0b687e5ed5ba0f50686\
         b8a4ae166476da8ab3b951d2fa9238b63998f45461bc33a464814949cec9631d",
        "e8002e6f7d3ae446119b216933644dc2a2be7869eb918b8459b5e7d7d2ec1260\
         6aceef106825cd735170a675fd3611f684affad1dce3f43a0ee43bd590e1dbbe",
        "8d91db6230b5687874fe129bc7206e1858c3ae08e02934f57ac03b6b05a229c4\
         59d28ff46f5c9611e6c179256490215ec1ff759cb0df285db89af0f99e613aac",
    ];

    #[tokio::test]
    async fn what_is_kept_of_a_password_are_its_keys() {
        let broker = TestBroker::start().await;
        let upsertions = vec![upsertion("a", 1, SHA_256[0]), upsertion("b", 2, SHA_512[0])];
        let request = AlterUserScramCredentialsRequest { upsertions, ..Default::default() };
        let answer = handle(&broker, &context(0), request).await;
        let told: Vec<_> = answer.results.iter().map(|result| (&*result.user, result.error_code)).collect();
        assert_eq!(told, [("a", ErrorCode::NONE), ("b", ErrorCode::NONE)]);
        let image = broker.metadata.load_full();
        for (user, mechanism, [_, stored_key, server_key]) in
            [("a", ScramMechanism::Sha256, SHA_256), ("b", ScramMechanism::Sha512, SHA_512)]
        {
            let credential = image.scram().get(user, mechanism).expect("the user is made");
            assert_eq!((&credential.stored_key.0, &credential.server_key.0), (&bytes(stored_key), &bytes(server_key)));
            assert_eq!((&credential.salt[..], credential.iterations), (&b"salt"[..], 4096));
        }
    }

    #[tokio::test]
    async fn each_user_is_answered_by_itself() {
        let broker = TestBroker::start().await;
        let ask = async |deletions: Vec<_>, upsertions: Vec<_>| {
            let request = AlterUserScramCredentialsRequest { deletions, upsertions };
            let answer = handle(&broker, &context(0), request).await;
            answer.results.into_iter().map(|result| (result.user, result.error_code.0)).collect::<Vec<_>>()
        };
        let upsertions = vec![upsertion("a", 1, "ff"), upsertion("b", 0, "ff"), upsertion("c", 2, "")];
        let told = ask(vec![], upsertions).await;
        assert_eq!(told, [("a", 0), ("b", 33), ("c", 93)].map(|(user, code)| (user.to_owned(), code)));
        let told = ask(vec![deletion("a", 1), deletion("d", 1)], vec![upsertion("d", 1, "ff")]).await;
        assert_eq!(told, [("a", 0), ("d", 91)].map(|(user, code)| (user.to_owned(), code)));
        assert_eq!(broker.metadata.load().scram().user_count(), 0);
    }

    #[test]
    fn without_a_controller_every_user_is_refused_once() {
        let deletions = vec![deletion("b", 1), deletion("a", 1)];
        let request = AlterUserScramCredentialsRequest { deletions, upsertions: vec![upsertion("b", 1, "ff")] };
        let results = refuse(users(&request), &ControllerError::NotController);
        let told: Vec<_> = results.iter().map(|result| (&*result.user, result.error_code)).collect();
        assert_eq!(told, [("a", ErrorCode::NOT_CONTROLLER), ("b", ErrorCode::NOT_CONTROLLER)]);
    }

    #[test]
    fn only_brokers_send_keys() {
        assert!([true, false].iter().all(|to_broker| !crate::api::serves(AlterScramKeysRequest::API.key, *to_broker)));
    }
}
