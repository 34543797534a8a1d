//! Access control lists (KIP-11, KIP-290): they are described and deleted by filters, and created one by one. Types,
//! operations and the like are Kafka's numbers here, for a cluster may have some that we do not know.

use wire::ErrorCode;
use wire::api::create_acls::{AclCreation, CreateAclsRequest, CreateAclsResponse};
use wire::api::delete_acls::{DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse};
use wire::api::describe_acls::DescribeAclsRequest;

use crate::{Client, ClientError};

/// What a request may be about at once (`AclControlManager.MAX_RECORDS_PER_USER_OP`).
const ACLS_AT_ONCE: usize = 10_000;

impl Client {
    /// The ACLs that a filter matches, by their resources.
    pub async fn describe_acls(&self, filter: &DeleteAclsFilter) -> Result<Vec<AclCreation>, ClientError> {
        let response = self.send(&described_by(filter)).await?;
        ClientError::check(|| "the ACLs".to_owned(), response.error_code, response.error_message.as_deref())?;
        let acls = response.resources.into_iter().flat_map(|resource| {
            resource.acls.into_iter().map(move |acl| AclCreation {
                resource_type: resource.resource_type,
                resource_name: resource.resource_name.clone(),
                resource_pattern_type: resource.pattern_type,
                principal: acl.principal,
                host: acl.host,
                operation: acl.operation,
                permission_type: acl.permission_type,
            })
        });
        Ok(acls.collect())
    }

    /// Creates ACLs, each by itself: results are in their order. One that is there already is created.
    pub async fn create_acls(&self, acls: &[AclCreation]) -> Result<Vec<Result<(), ClientError>>, ClientError> {
        let mut results = Vec::with_capacity(acls.len());
        for creations in acls.chunks(ACLS_AT_ONCE) {
            let request = CreateAclsRequest { creations: creations.to_vec() };
            let code = |response: &CreateAclsResponse| {
                response.results.first().map_or(ErrorCode::NONE, |result| result.error_code)
            };
            let response = self.send_to_controller(&request, code).await?;
            results.extend(response.results.into_iter().map(|result| {
                let subject = || "cannot create an ACL".to_owned();
                ClientError::check(subject, result.error_code, result.error_message.as_deref())
            }));
        }
        Ok(results)
    }

    /// Deletes what filters match, and says what that was; each by itself, in their order.
    pub async fn delete_acls(
        &self,
        filters: &[DeleteAclsFilter],
    ) -> Result<Vec<Result<Vec<AclCreation>, ClientError>>, ClientError> {
        let request = DeleteAclsRequest { filters: filters.to_vec() };
        let code = |response: &DeleteAclsResponse| {
            response.filter_results.first().map_or(ErrorCode::NONE, |result| result.error_code)
        };
        let response = self.send_to_controller(&request, code).await?;
        Ok(response.filter_results.into_iter().map(deleted).collect())
    }
}

/// The requests have the same filter.
fn described_by(filter: &DeleteAclsFilter) -> DescribeAclsRequest {
    let DeleteAclsFilter { resource_name_filter, principal_filter, host_filter, .. } = filter.clone();
    DescribeAclsRequest {
        resource_type_filter: filter.resource_type_filter,
        resource_name_filter,
        pattern_type_filter: filter.pattern_type_filter,
        principal_filter,
        host_filter,
        operation: filter.operation,
        permission_type: filter.permission_type,
    }
}

fn deleted(result: DeleteAclsFilterResult) -> Result<Vec<AclCreation>, ClientError> {
    let check = |code, message: Option<&str>| ClientError::check(|| "cannot delete ACLs".to_owned(), code, message);
    check(result.error_code, result.error_message.as_deref())?;
    let acls = result.matching_acls.into_iter().map(|acl| {
        check(acl.error_code, acl.error_message.as_deref())?;
        Ok(AclCreation {
            resource_type: acl.resource_type,
            resource_name: acl.resource_name,
            resource_pattern_type: acl.pattern_type,
            principal: acl.principal,
            host: acl.host,
            operation: acl.operation,
            permission_type: acl.permission_type,
        })
    });
    acls.collect()
}

#[cfg(test)]
mod tests {
    use wire::api::create_acls::AclCreationResult;
    use wire::api::delete_acls::DeleteAclsMatchingAcl;
    use wire::api::describe_acls::{AclDescription, DescribeAclsResource, DescribeAclsResponse};

    use super::*;
    use crate::fake_cluster::FakeCluster;

    const VERSIONS: [(i16, i16); 3] = [(29, 3), (30, 3), (31, 3)];

    fn acl(name: &str, principal: &str) -> AclCreation {
        AclCreation {
            resource_type: 2,
            resource_name: name.to_owned(),
            resource_pattern_type: 4,
            principal: principal.to_owned(),
            host: "*".to_owned(),
            operation: 3,
            permission_type: 3,
        }
    }

    fn filter(name: &str) -> DeleteAclsFilter {
        DeleteAclsFilter {
            resource_type_filter: 2,
            resource_name_filter: Some(name.to_owned()),
            pattern_type_filter: 2,
            principal_filter: Some("User:b".to_owned()),
            host_filter: Some("10.0.0.1".to_owned()),
            operation: 3,
            permission_type: 1,
        }
    }

    #[tokio::test]
    async fn acls_are_described_with_their_resources() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<DescribeAclsRequest>()?;
            let is_right = request == described_by(&filter("orders"));
            let entry = |principal: &str| AclDescription {
                principal: principal.to_owned(),
                host: "*".to_owned(),
                operation: 3,
                permission_type: 3,
            };
            let resource = |name: &str, principals: &[&str]| DescribeAclsResource {
                resource_type: 2,
                resource_name: name.to_owned(),
                pattern_type: 4,
                acls: principals.iter().map(|principal| entry(principal)).collect(),
            };
            let response = DescribeAclsResponse {
                error_code: if is_right { ErrorCode::NONE } else { ErrorCode::SECURITY_DISABLED },
                resources: vec![resource("o", &["User:a", "User:b"]), resource("ord", &["User:a"])],
                ..Default::default()
            };
            question.answer::<DescribeAclsRequest>(&response)
        });
        let client = cluster.await.client();
        let expected = vec![acl("o", "User:a"), acl("o", "User:b"), acl("ord", "User:a")];
        assert_eq!(client.describe_acls(&filter("orders")).await, Ok(expected));
        let error = client.describe_acls(&filter("others")).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::SECURITY_DISABLED));
    }

    #[tokio::test]
    async fn each_acl_is_created_or_refused_by_itself() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<CreateAclsRequest>()?;
            let results = request.creations.iter().map(|creation| AclCreationResult {
                error_code: if creation == &acl("a", "User:a") { ErrorCode::NONE } else { ErrorCode::INVALID_REQUEST },
                error_message: None,
            });
            let response = CreateAclsResponse { results: results.collect(), ..Default::default() };
            question.answer::<CreateAclsRequest>(&response)
        });
        let client = cluster.await.client();
        let results = client.create_acls(&[acl("a", "alice"), acl("a", "User:a")]).await.unwrap();
        let codes: Vec<_> = results.iter().map(|result| result.as_ref().err().and_then(ClientError::code)).collect();
        assert_eq!(codes, [Some(ErrorCode::INVALID_REQUEST), None]);
    }

    #[tokio::test]
    async fn each_filter_says_what_it_has_deleted() {
        let cluster = FakeCluster::start(1, Vec::new(), &VERSIONS, |question| {
            let request = question.read::<DeleteAclsRequest>()?;
            let filter_results = request.filters.into_iter().map(|filter| {
                let AclCreation { resource_type, principal, host, operation, permission_type, .. } = acl("", "User:b");
                let name = filter.resource_name_filter.unwrap_or_default();
                let failed = |is_so: bool| if is_so { ErrorCode::INVALID_REQUEST } else { ErrorCode::NONE };
                let acl = DeleteAclsMatchingAcl {
                    error_code: failed(name == "half"),
                    resource_type,
                    resource_name: name.clone(),
                    pattern_type: 4,
                    principal,
                    host,
                    operation,
                    permission_type,
                    ..Default::default()
                };
                let error_code = failed(name == "none");
                DeleteAclsFilterResult { error_code, matching_acls: vec![acl], ..Default::default() }
            });
            let response = DeleteAclsResponse { filter_results: filter_results.collect(), ..Default::default() };
            question.answer::<DeleteAclsRequest>(&response)
        });
        let client = cluster.await.client();
        let results = client.delete_acls(&["a", "none", "half"].map(filter)).await.unwrap();
        let [deleted, none, half] = &results[..] else { panic!("{results:?}") };
        assert_eq!(deleted, &Ok(vec![acl("a", "User:b")]));
        assert_eq!(
            [none, half].map(|result| result.as_ref().unwrap_err().code()),
            [Some(ErrorCode::INVALID_REQUEST); 2]
        );
    }
}
