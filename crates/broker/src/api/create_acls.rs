//! CreateAcls (key 30), versions 1-3: add access control lists (KIP-11, KIP-290).
//!
//! Behaviour:
//! - Each entry is created or refused by itself, with INVALID_REQUEST. One that is there already is created.
//! - If more than 10,000 are new at once, or more would be there than can be, none is created: POLICY_VIOLATION.
//! - An operation that its type of resources does not have is INVALID_REQUEST (Kafka takes it, and it means nothing).
//! - Without an authorizer: SECURITY_DISABLED for each.

use std::sync::Arc;

use metadata::acl::Acl;
use metadata::changes::acls::record;
use wire::ErrorCode;
use wire::api::create_acls::{AclCreationResult, CreateAclsRequest, CreateAclsResponse};

use super::{RequestContext, acls};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: CreateAclsRequest,
) -> CreateAclsResponse {
    let count = request.creations.len();
    if !acls::has_authorizer(broker) {
        return refuse(count, ErrorCode::SECURITY_DISABLED, acls::NO_AUTHORIZER);
    }
    let records: Vec<_> = request.creations.iter().map(record).collect();
    let answer = match context.ask_controller(broker, request).await {
        Ok(answer) => answer,
        Err(error) => return refuse(count, error.code(), &error.to_string()),
    };
    for (record, result) in records.iter().zip(&answer.results) {
        if let (ErrorCode::NONE, Ok(acl)) = (result.error_code, Acl::from_record(record)) {
            broker.audit.changed(context.asker(), &format_args!("created {acl}"));
        }
    }
    answer
}

/// The same error for each entry.
fn refuse(count: usize, error_code: ErrorCode, message: &str) -> CreateAclsResponse {
    let refused = AclCreationResult { error_code, error_message: Some(message.to_owned()) };
    CreateAclsResponse { results: vec![refused; count], ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(request: &CreateAclsRequest, error_code: ErrorCode) -> CreateAclsResponse {
    let refused = AclCreationResult { error_code, error_message: None };
    CreateAclsResponse { results: vec![refused; request.creations.len()], ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::super::acls::tests::{creation, start};
    use super::*;
    use crate::api::test_support::{TestBroker, context};

    #[tokio::test]
    async fn each_entry_has_its_result_and_works_when_it_is_answered() {
        let broker = start().await;
        let creations = vec![creation("a"), creation(""), creation("a"), creation("b")];
        let answer = handle(&broker, &context(3), CreateAclsRequest { creations }).await;
        let codes: Vec<i16> = answer.results.iter().map(|result| result.error_code.0).collect();
        assert_eq!((codes, broker.metadata.load().acls().len()), (vec![0, 42, 0, 0], 2));
        assert_eq!(answer.results[1].error_message.as_deref(), Some("Invalid empty resource name"));
    }

    #[tokio::test]
    async fn without_an_authorizer_there_are_none() {
        let broker = TestBroker::start().await;
        let request = CreateAclsRequest { creations: vec![creation("a"), creation("b")] };
        let answer = handle(&broker, &context(3), request).await;
        let refused = |result: &AclCreationResult| {
            assert_eq!(result.error_message.as_deref(), Some("No Authorizer is configured."));
            result.error_code
        };
        assert_eq!(answer.results.iter().map(refused).collect::<Vec<_>>(), [ErrorCode::SECURITY_DISABLED; 2]);
        assert!(broker.metadata.load().acls().is_empty());
    }
}
