//! JoinGroup (key 11), versions 0-9: a member joins, or joins again for a rebalance.
//!
//! Behaviour:
//! - Needs: READ on the group (GROUP_AUTHORIZATION_FAILED).
//! - The answer waits until the rebalance has all members, or its time is up.
//! - From version 4 on a dynamic member without an id is given one first: MEMBER_ID_REQUIRED (KIP-394).
//! - A member's protocols may take as much as `GroupConfig::max_member_metadata_bytes`: else MESSAGE_TOO_LARGE. Kafka
//!   has no such bound.
//! - The reason (version 8, KIP-800) is not used.

use std::sync::Arc;

use coordinator::group::Caller;
use metadata::acl::AclOperation;
use wire::api::join_group::{JoinGroupRequest, JoinGroupResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

/// Before it, the protocol's name is not null.
const NULL_PROTOCOL_NAME_SINCE: i16 = 7;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let mut response = match context.access(broker).check_group(AclOperation::Read, &request.group_id) {
        Ok(()) => {
            let caller = Caller {
                api_version: context.api_version,
                client_id: context.client_id.as_deref(),
                client_host: context.client_address.ip(),
            };
            broker.groups.join_group(caller, request).await
        }
        Err(error_code) => JoinGroupResponse { error_code, ..Default::default() },
    };
    if context.api_version < NULL_PROTOCOL_NAME_SINCE {
        response.protocol_name.get_or_insert_default();
    }
    // Their metadata are shared with the group until the answer is written.
    let members = response.members.iter().map(|member| member.member_id.len() + member.metadata.len());
    context.answer_size(broker, LargeAnswer::Described).add(members.sum()).await;
    response
}
