//! Members that come from the consumer group protocol, or go to it, while they stay in their group (KIP-848).

use bytes::Bytes;
use wire::api::join_group::JoinGroupRequestProtocol;
use wire::state::group::GroupMetadataValue;

use super::member::{Member, NEVER};
use super::{CONSUMER_PROTOCOL_TYPE, ErrorCode, Group, Output, RebalanceCause, State, Trigger, join_error, sync_error};
use crate::group::{GroupConfig, Now};

/// What a member takes along.
#[derive(Clone, Debug)]
pub struct MigratingMember {
    pub member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocols: Vec<JoinGroupRequestProtocol>,
    /// Empty if nothing was assigned to it.
    pub assignment: Bytes,
}

impl Group {
    /// The members, for the other protocol.
    pub fn migrating_members(&self) -> impl Iterator<Item = MigratingMember> {
        self.members.iter().map(|(member_id, member)| MigratingMember {
            member_id: member_id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        })
    }

    /// A member's data for the protocol that the group runs, or would run.
    pub fn subscription(&self, member: &MigratingMember) -> Option<Bytes> {
        let name = self.protocol_name.clone().or_else(|| self.select_protocol())?;
        member.protocols.iter().find(|protocol| protocol.name == name).map(|protocol| protocol.metadata.clone())
    }

    /// Requests that wait are told to come again, since the group changes its protocol.
    pub fn interrupt(&mut self, out: &mut Vec<Output>) {
        for (member_id, member) in &mut self.members {
            if let Some(request) = member.joining.take() {
                out.push(Output::Joined(request, join_error(member_id, ErrorCode::REBALANCE_IN_PROGRESS)));
            }
            if let Some(request) = member.syncing.take() {
                out.push(Output::Synced(request, sync_error(ErrorCode::REBALANCE_IN_PROGRESS)));
            }
        }
        self.joining = 0;
    }

    /// A group of members that come from the other protocol with their assignments. None if they have no protocol in
    /// common.
    pub fn of_migrated(generation: i32, members: Vec<MigratingMember>, now: Now) -> Option<Self> {
        let mut group = Self::new(now);
        group.generation = generation;
        group.protocol_type = Some(CONSUMER_PROTOCOL_TYPE.to_owned());
        for migrated in members {
            let member = Member {
                instance_id: migrated.instance_id,
                client_id: migrated.client_id,
                client_host: migrated.client_host,
                rebalance_timeout_ms: migrated.rebalance_timeout_ms,
                session_timeout_ms: migrated.session_timeout_ms,
                protocols: migrated.protocols,
                assignment: migrated.assignment,
                joining: None,
                syncing: None,
                is_new: false,
                session_deadline_ms: NEVER,
            };
            group.insert_member(migrated.member_id, member);
        }
        group.protocol_name = Some(group.select_protocol()?);
        group.subscribed_topics = group.compute_subscribed_topics();
        group.transition_to(State::Stable, now);
        Some(group)
    }

    /// The record of the group as it is.
    pub fn value(&self) -> GroupMetadataValue {
        self.to_value(|_, member| member.assignment.clone())
    }

    /// Takes over members that have come from the other protocol, whose record is durable, and has them share anew what
    /// those had who are gone. The offsets stay.
    pub fn adopt(&mut self, migrated: Self, config: &GroupConfig, now: Now, out: &mut Vec<Output>) {
        self.forget_membership(now);
        let (offsets, growth) = (std::mem::take(&mut self.offsets), std::mem::take(&mut self.member_growth));
        *self = migrated;
        self.offsets = offsets;
        self.stored = true;
        for (client_host, bytes) in growth {
            *self.member_growth.entry(client_host).or_default() += bytes;
        }
        self.resume(config, now, out);
        if self.state == State::Stable {
            self.prepare_rebalance(Trigger::of_none(RebalanceCause::MemberLeft), config, now, out);
        }
    }
}
