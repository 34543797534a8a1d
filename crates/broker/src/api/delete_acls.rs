//! DeleteAcls (key 31), versions 1-3: delete access control lists by filters (KIP-11, KIP-290).
//!
//! Behaviour:
//! - Each filter says what it has deleted; what several match is said by each. A filter with a number that does not
//!   exist is INVALID_REQUEST.
//! - Filters that match more than 10,000 together delete nothing: INVALID_REQUEST for each. (Kafka counts what several
//!   match once.)
//! - Filters that name neither a resource nor a principal look at everything: too many of them are POLICY_VIOLATION.
//! - Without an authorizer: SECURITY_DISABLED for each.

use std::sync::Arc;

use metadata::acl::Acl;
use wire::api::delete_acls::{DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse};
use wire::state::metadata::AccessControlEntryRecord;
use wire::{ErrorCode, Uuid};

use super::{RequestContext, acls};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DeleteAclsRequest,
) -> DeleteAclsResponse {
    let count = request.filters.len();
    if !acls::has_authorizer(broker) {
        return refuse(count, ErrorCode::SECURITY_DISABLED, acls::NO_AUTHORIZER);
    }
    let answer = match context.ask_controller(broker, request).await {
        Ok(answer) => answer,
        Err(error) => return refuse(count, error.code(), &error.to_string()),
    };
    for deleted in answer.filter_results.iter().flat_map(|result| &result.matching_acls) {
        if let Ok(acl) = Acl::from_record(&record(deleted)) {
            broker.audit.changed(context.asker(), &format_args!("deleted {acl}"));
        }
    }
    answer
}

fn record(deleted: &DeleteAclsMatchingAcl) -> AccessControlEntryRecord {
    AccessControlEntryRecord {
        id: Uuid::ZERO,
        resource_type: deleted.resource_type,
        resource_name: deleted.resource_name.clone(),
        pattern_type: deleted.pattern_type,
        principal: deleted.principal.clone(),
        host: deleted.host.clone(),
        operation: deleted.operation,
        permission_type: deleted.permission_type,
    }
}

/// The same error for each filter.
fn refuse(count: usize, error_code: ErrorCode, message: &str) -> DeleteAclsResponse {
    let error_message = Some(message.to_owned());
    let refused = DeleteAclsFilterResult { error_code, error_message, ..Default::default() };
    DeleteAclsResponse { filter_results: vec![refused; count], ..Default::default() }
}

/// The answer to who may not.
pub(super) fn refused(request: &DeleteAclsRequest, error_code: ErrorCode) -> DeleteAclsResponse {
    let refused = DeleteAclsFilterResult { error_code, ..Default::default() };
    DeleteAclsResponse { filter_results: vec![refused; request.filters.len()], ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::api::create_acls::CreateAclsRequest;
    use wire::api::delete_acls::DeleteAclsFilter;

    use super::super::acls::tests::{creation, start};
    use super::super::create_acls;
    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn filter(name: &str) -> DeleteAclsFilter {
        DeleteAclsFilter {
            resource_type_filter: 2,
            resource_name_filter: Some(name.to_owned()),
            operation: 1,
            permission_type: 1,
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn each_filter_says_what_it_has_deleted() {
        let broker = start().await;
        let creations = ["a", "b"].map(creation).to_vec();
        create_acls::handle(&broker, &context(3), CreateAclsRequest { creations }).await;
        let unknown = DeleteAclsFilter { operation: 99, ..filter("b") };
        let request = DeleteAclsRequest { filters: vec![filter("a"), filter("x"), unknown] };
        let answer = handle(&broker, &context(3), request).await;
        let codes: Vec<i16> = answer.filter_results.iter().map(|result| result.error_code.0).collect();
        let deleted = DeleteAclsMatchingAcl {
            resource_type: 2,
            resource_name: "a".into(),
            pattern_type: 3,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
            ..Default::default()
        };
        assert_eq!((codes, &answer.filter_results[0].matching_acls), (vec![0, 0, 42], &vec![deleted]));
        assert!(answer.filter_results[1..].iter().all(|result| result.matching_acls.is_empty()));
        assert_eq!(broker.metadata.load().acls().len(), 1);
    }

    #[tokio::test]
    async fn without_an_authorizer_there_are_none() {
        let request = DeleteAclsRequest { filters: vec![filter("a"); 2] };
        let broker = TestBroker::start().await;
        let answer = handle(&broker, &context(3), request).await;
        let codes: Vec<_> = answer.filter_results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [ErrorCode::SECURITY_DISABLED; 2]);
        assert_eq!(answer.filter_results[0].error_message.as_deref(), Some("No Authorizer is configured."));
    }
}
