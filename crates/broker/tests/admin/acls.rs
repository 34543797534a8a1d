//! DescribeAcls, CreateAcls, DeleteAcls of a broker without an authorizer.

use wire::ErrorCode;
use wire::api::create_acls::{AclCreation, CreateAclsRequest};
use wire::api::delete_acls::{DeleteAclsFilter, DeleteAclsRequest};
use wire::api::describe_acls::DescribeAclsRequest;

use crate::common::TestBroker;

#[test]
fn without_an_authorizer_there_is_no_access_control() {
    let broker = TestBroker::start();
    let mut client = broker.connect();
    for version in 1..=3 {
        let described = client.call(version, &DescribeAclsRequest::default());
        let created = client.call(version, &CreateAclsRequest { creations: vec![AclCreation::default(); 2] });
        let deleted = client.call(version, &DeleteAclsRequest { filters: vec![DeleteAclsFilter::default(); 2] });
        let mut codes = vec![described.error_code];
        codes.extend(created.results.iter().map(|result| result.error_code));
        codes.extend(deleted.filter_results.iter().map(|result| result.error_code));
        assert_eq!(codes, [ErrorCode::SECURITY_DISABLED; 5], "version {version}");
    }
}
