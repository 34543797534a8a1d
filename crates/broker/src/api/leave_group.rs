//! LeaveGroup (key 13), versions 0-5: members leave, or are removed.
//!
//! Behaviour:
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED).
//! - Version 3 names several members; a static one may be named by its instance id alone (KIP-345).
//! - The reason (version 5, KIP-800) is not used.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::api::leave_group::{LeaveGroupRequest, LeaveGroupResponse};

use super::RequestContext;
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    if let Err(error_code) = context.access(broker).check_group(AclOperation::Read, &request.group_id) {
        return LeaveGroupResponse { error_code, ..Default::default() };
    }
    broker.groups.leave_group(context.api_version, request).await
}
