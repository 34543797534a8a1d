//! SyncGroup (key 14), versions 0-5: the leader sends the assignment, and each member is answered its part.
//!
//! Behaviour:
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED), before the form of the request is looked at.
//! - The answer waits until the leader's assignment is stored.
//! - From version 5 on the protocol's type and name are mandatory (KIP-559): else INCONSISTENT_GROUP_PROTOCOL.

use std::sync::Arc;

use metadata::acl::AclOperation;
use wire::api::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: SyncGroupRequest,
) -> SyncGroupResponse {
    if let Err(error_code) = context.access(broker).check_group(AclOperation::Read, &request.group_id) {
        return SyncGroupResponse { error_code, ..Default::default() };
    }
    let response = broker.groups.sync_group(context.api_version, request).await;
    // It is shared with the group until the answer is written.
    context.answer_size(broker, LargeAnswer::Described).add(response.assignment.len()).await;
    response
}
