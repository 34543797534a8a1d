//! DeleteGroups (key 42), versions 0-2: groups without members, and their offsets.
//!
//! Behaviour:
//! - Needs: DELETE on each group (GROUP_AUTHORIZATION_FAILED). The others are deleted.
//! - A group with members is NON_EMPTY_GROUP, an unknown one GROUP_ID_NOT_FOUND. One that is named twice is answered
//!   once.
//! - Answered when the deletion is durable.

use std::collections::BTreeSet;
use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::delete_groups::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

use super::RequestContext;
use super::access::denied;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let access = context.access(broker);
    let denied = denied(&mut request.groups_names, |group_id| access.group(AclOperation::Delete, group_id));
    let mut results = broker.groups.delete_groups(request.groups_names).await;
    let denied = denied.into_iter().collect::<BTreeSet<_>>().into_iter();
    results.extend(
        denied.map(|group_id| DeletableGroupResult { group_id, error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED }),
    );
    DeleteGroupsResponse { results, ..Default::default() }
}
