//! DescribeUserScramCredentials (key 50), version 0, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeUserScramCredentialsRequest {
        users: Option<Vec<UserName>>, 0..;
    }

    pub struct UserName {
        name: String, 0..;
    }

    pub struct DescribeUserScramCredentialsResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        results: Vec<DescribeUserScramCredentialsResult>, 0..;
    }

    pub struct DescribeUserScramCredentialsResult {
        user: String, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        credential_infos: Vec<CredentialInfo>, 0..;
    }

    pub struct CredentialInfo {
        mechanism: i8, 0..;
        iterations: i32, 0..;
    }
}
