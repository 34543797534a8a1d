//! AlterUserScramCredentials (key 51), version 0, flexible since 0.

use bytes::Bytes;

use crate::{ErrorCode, Secret};

crate::message! {
    pub struct AlterUserScramCredentialsRequest {
        deletions: Vec<ScramCredentialDeletion>, 0..;
        upsertions: Vec<ScramCredentialUpsertion>, 0..;
    }

    pub struct ScramCredentialDeletion {
        name: String, 0..;
        mechanism: i8, 0..;
    }

    pub struct ScramCredentialUpsertion {
        name: String, 0..;
        mechanism: i8, 0..;
        iterations: i32, 0..;
        salt: Bytes, 0..;
        /// As good as the password: who has it can log in.
        salted_password: Secret, 0..;
    }

    pub struct AlterUserScramCredentialsResponse {
        throttle_time_ms: i32, 0..;
        results: Vec<AlterUserScramCredentialsResult>, 0..;
    }

    pub struct AlterUserScramCredentialsResult {
        user: String, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
    }
}
