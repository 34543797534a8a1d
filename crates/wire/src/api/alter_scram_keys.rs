//! AlterScramKeys (key 121), version 0, flexible since 0. Ours: what a broker makes of an AlterUserScramCredentials
//! before it sends it to the active controller in a Forward. It has keys in place of the salted passwords, with which
//! anybody could log in.

use bytes::Bytes;

use super::alter_user_scram_credentials::{AlterUserScramCredentialsResult, ScramCredentialDeletion};
use crate::Secret;

crate::message! {
    pub struct AlterScramKeysRequest {
        deletions: Vec<ScramCredentialDeletion>, 0..;
        upsertions: Vec<ScramKeysUpsertion>, 0..;
    }

    pub struct ScramKeysUpsertion {
        name: String, 0..;
        mechanism: i8, 0..;
        iterations: i32, 0..;
        salt: Bytes, 0..;
        stored_key: Secret, 0..;
        server_key: Secret, 0..;
    }

    pub struct AlterScramKeysResponse {
        results: Vec<AlterUserScramCredentialsResult>, 0..;
    }
}
