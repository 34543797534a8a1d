//! DescribeUserScramCredentials (key 50), version 0: the mechanisms of users' SCRAM credentials, and their iterations
//! (KIP-554).
//!
//! Behaviour:
//! - Null and an empty list are all users. A user that is named twice is DUPLICATE_RESOURCE, one without credentials is
//!   RESOURCE_NOT_FOUND; each is answered once.
//! - Salts and keys are never shown.

use std::sync::Arc;

use metadata::changes::scram;
use wire::ErrorCode;
use wire::api::describe_user_scram_credentials::{
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    let results = scram::describe(&broker.metadata.load(), request.users.as_deref());
    DescribeUserScramCredentialsResponse { results, ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(
    _: &DescribeUserScramCredentialsRequest,
    error_code: ErrorCode,
) -> DescribeUserScramCredentialsResponse {
    DescribeUserScramCredentialsResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::describe_user_scram_credentials::{CredentialInfo, UserName};
    use wire::state::metadata::UserScramCredentialRecord;

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    #[tokio::test]
    async fn users_are_described_from_the_metadata() {
        let broker = TestBroker::start().await;
        let record =
            UserScramCredentialRecord { name: "a".into(), mechanism: 2, iterations: 5000, ..Default::default() };
        broker.commit([record.into()]).await;
        let named = |name: &str| Some(vec![UserName { name: name.to_owned() }]);
        for (users, code, infos) in [(None, 0, 1), (Some(vec![]), 0, 1), (named("a"), 0, 1), (named("b"), 91, 0)] {
            let answer = handle(&broker, &context(0), DescribeUserScramCredentialsRequest { users }).await;
            let [result] = &answer.results[..] else { panic!("{answer:?}") };
            assert_eq!((answer.error_code.0, result.error_code.0), (0, code));
            assert_eq!(result.credential_infos, vec![CredentialInfo { mechanism: 2, iterations: 5000 }; infos]);
        }
    }
}
