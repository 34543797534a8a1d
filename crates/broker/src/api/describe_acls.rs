//! DescribeAcls (key 29), versions 1-3: the access control lists that a filter matches (KIP-11, KIP-290).
//!
//! Behaviour:
//! - Each pattern of resources is there once, with its entries. None is an empty answer and no error.
//! - A filter with a number that does not exist is INVALID_REQUEST.
//! - More than 16 MiB are POLICY_VIOLATION: a filter for part of them is answered. Kafka has no such bound.
//! - Without an authorizer: SECURITY_DISABLED.

use std::sync::Arc;

use metadata::acl::{Acl, AclFilter};
use wire::ErrorCode;
use wire::api::describe_acls::{AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse};

use super::{Pace, RequestContext, acls};
use crate::Broker;
use crate::memory::{DESCRIBED_BYTES_MAX, LargeAnswer};

/// What an ACL takes in the answer beside its texts, at most.
const ACL_BYTES: usize = 24;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeAclsRequest,
) -> DescribeAclsResponse {
    if !acls::has_authorizer(broker) {
        return refuse(ErrorCode::SECURITY_DISABLED, "No Authorizer is configured on the broker");
    }
    match AclFilter::try_from(&request) {
        Ok(filter) => describe(broker, context, filter).await,
        Err(unknown) => refuse(ErrorCode::INVALID_REQUEST, &unknown.to_string()),
    }
}

fn refuse(error_code: ErrorCode, message: &str) -> DescribeAclsResponse {
    DescribeAclsResponse { error_code, error_message: Some(message.to_owned()), ..Default::default() }
}

async fn describe(broker: &Broker, context: &RequestContext, filter: AclFilter<'_>) -> DescribeAclsResponse {
    let acls = Arc::clone(broker.metadata.load().acls());
    let mut size = context.answer_size(broker, LargeAnswer::Described);
    let (mut pace, mut bytes) = (Pace::default(), 0);
    let mut found: Vec<&Acl> = Vec::new();
    for (acl, _) in acls.candidates(filter) {
        pace.step(1).await;
        if filter.matches(acl) {
            let more = acl.text_bytes() + ACL_BYTES;
            bytes += more;
            if bytes > DESCRIBED_BYTES_MAX {
                return refuse(ErrorCode::POLICY_VIOLATION, "Too many ACLs at once: filter by resource or principal.");
            }
            size.add(more).await;
            found.push(acl);
        }
    }
    found.sort();
    let resources = found.chunk_by(|a, b| a.pattern == b.pattern).map(resource).collect();
    DescribeAclsResponse { resources, ..Default::default() }
}

/// ACLs of one pattern.
fn resource(acls: &[&Acl]) -> DescribeAclsResource {
    let pattern = &acls[0].pattern;
    let describe = |acl: &&Acl| AclDescription {
        principal: acl.entry.principal.clone(),
        host: acl.entry.host.as_str().to_owned(),
        operation: acl.entry.operation as i8,
        permission_type: acl.entry.permission_type as i8,
    };
    DescribeAclsResource {
        resource_type: pattern.resource_type as i8,
        resource_name: pattern.name.to_string(),
        pattern_type: pattern.pattern_type as i8,
        acls: acls.iter().map(describe).collect(),
    }
}

/// The answer to who may not.
pub(super) fn refused(_: &DescribeAclsRequest, error_code: ErrorCode) -> DescribeAclsResponse {
    DescribeAclsResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::api::create_acls::{AclCreation, CreateAclsRequest};
    use wire::state::metadata::AccessControlEntryRecord;

    use super::super::acls::tests::{creation, start};
    use super::super::create_acls;
    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn all() -> DescribeAclsRequest {
        DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn patterns_are_there_once_with_what_the_filter_matches() {
        let broker = start().await;
        let of_b = |name| AclCreation { principal: "User:b".into(), ..creation(name) };
        let prefixed = AclCreation { resource_pattern_type: 4, ..creation("t") };
        let creations = vec![creation("t"), of_b("t"), prefixed, of_b("*")];
        create_acls::handle(&broker, &context(3), CreateAclsRequest { creations }).await;
        let ask = async |request| {
            let answer = handle(&broker, &context(3), request).await;
            assert_eq!((answer.error_code, answer.error_message), (ErrorCode::NONE, None));
            let told = answer.resources.into_iter().map(|resource| {
                let principals = resource.acls.into_iter().map(|acl| acl.principal).collect::<Vec<_>>();
                format!("{} {}: {}", resource.resource_name, resource.pattern_type, principals.join(" "))
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(ask(all()).await, ["* 3: User:b", "t 3: User:a User:b", "t 4: User:a"]);
        let of = |principal: &str| DescribeAclsRequest { principal_filter: Some(principal.to_owned()), ..all() };
        assert_eq!(ask(of("User:b")).await, ["* 3: User:b", "t 3: User:b"]);
        assert_eq!(ask(of("User:c")).await, [""; 0]);
        let matching = DescribeAclsRequest { pattern_type_filter: 2, resource_name_filter: Some("t1".into()), ..all() };
        assert_eq!(ask(matching).await, ["* 3: User:b", "t 4: User:a"]);
    }

    #[tokio::test]
    async fn more_than_an_answer_takes_is_refused_and_less_is_answered() {
        let broker = start().await;
        let long = "x".repeat(30_000);
        let record = |n: u8| AccessControlEntryRecord {
            id: Uuid([n; 16]),
            resource_type: 2,
            resource_name: n.to_string(),
            pattern_type: 3,
            principal: format!("User:{long}"),
            host: long.clone(),
            operation: 3 + i8::from(n >= 200),
            permission_type: 3,
        };
        // A batch of the metadata log may not be larger.
        for some in (0..250).step_by(10) {
            broker.commit((some..some + 10).map(|n| record(n).into())).await;
        }
        let ask = async |request| {
            let answer = handle(&broker, &context(3), request).await;
            (answer.error_code, answer.resources.len())
        };
        assert_eq!(ask(all()).await, (ErrorCode::NONE, 250));
        let of_groups = |n: u8| AccessControlEntryRecord {
            id: Uuid([n, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            resource_type: 3,
            ..record(n)
        };
        for some in (0..50).step_by(10) {
            broker.commit((some..some + 10).map(|n| of_groups(n).into())).await;
        }
        assert_eq!(ask(all()).await, (ErrorCode::POLICY_VIOLATION, 0));
        assert_eq!(ask(DescribeAclsRequest { operation: 4, ..all() }).await, (ErrorCode::NONE, 50));
    }

    #[tokio::test]
    async fn a_number_that_does_not_exist_is_refused() {
        let broker = start().await;
        let answer = handle(&broker, &context(3), DescribeAclsRequest { operation: 0, ..all() }).await;
        assert_eq!(answer.error_code, ErrorCode::INVALID_REQUEST);
    }

    #[tokio::test]
    async fn without_an_authorizer_there_are_none() {
        let broker = TestBroker::start().await;
        let answer = handle(&broker, &context(3), all()).await;
        assert_eq!(answer.error_code, ErrorCode::SECURITY_DISABLED);
        assert_eq!(answer.error_message.as_deref(), Some("No Authorizer is configured on the broker"));
    }
}
