//! Members of the classic protocol in consumer groups: how their requests get to the group (KIP-848). What they do
//! there is in [`super::consumer`].

use std::sync::Arc;

use configuration::MigrationPolicy;
use tokio::sync::oneshot;
use wire::ErrorCode;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupResponse};

use super::consumer::{ClassicJoin, Context};
use super::coordinator::{Caller, GroupCoordinator};
use super::queue::{Consumers, Work};
use super::records::Batcher;
use super::shard::{Shard, ShardState};

impl GroupCoordinator {
    /// A JoinGroup to a group that is a consumer group.
    pub(super) fn join_consumers(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        caller: &Caller<'_>,
        group_id: &str,
        request: JoinGroupRequest,
        sender: oneshot::Sender<JoinGroupResponse>,
    ) -> Result<(), ErrorCode> {
        if self.config.migration_policy == MigrationPolicy::Disabled {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let metadata_bytes = request.protocols.iter().map(|p| p.name.len() + p.metadata.len()).sum::<usize>();
        let slot = state.groups.get(group_id);
        self.check_memory_for_consumer(caller, slot, &request.member_id, metadata_bytes)?;
        let join = Box::new(ClassicJoin {
            api_version: caller.api_version,
            client_id: caller.client_id.unwrap_or_default().to_owned(),
            client_host: format!("/{}", caller.client_host),
            new_member_id: self.new_member_id(caller, &request),
            request,
        });
        if let Some(consumers) = state.consumers(group_id) {
            consumers.waiting.push(Work::Join(join, sender));
        }
        self.serve_consumers(shard, state, group_id);
        Ok(())
    }

    /// A Heartbeat of a member of the classic protocol. It changes nothing that is stored.
    pub(super) fn heartbeat_consumers(
        &self,
        consumers: &mut Consumers,
        request: &HeartbeatRequest,
    ) -> Result<(), ErrorCode> {
        let (settings, topics) = (self.consumer_settings(&request.group_id), self.topics.snapshot());
        let context = Context { settings: &settings, topics: &*topics, now: self.now() };
        consumers.group.heartbeat_classic(context, request)
    }

    /// Has a consumer group without members use the classic protocol from now on.
    pub(super) fn end_idle_consumers(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        state: &mut ShardState,
        group_id: &str,
    ) -> Result<(), ErrorCode> {
        let Some(consumers) = state.consumers(group_id).filter(|consumers| consumers.is_idle()) else { return Ok(()) };
        let mut batcher = Batcher::new(self.now().wall_ms, self.log.max_batch_bytes(), self.config.offsets_topic_codec);
        let deletion = consumers.group.delete();
        deletion.records.iter().for_each(|record| batcher.push_consumer(group_id, record));
        let durable = self.append(shard.partition, batcher.build());
        // There is nothing left of it, so that it is forgotten.
        self.settle(state, group_id);
        let group_id = group_id.to_owned();
        // What the members of the classic protocol write follows in the log. Without this, they count.
        tokio::spawn(async move {
            if let Err(error) = durable.await {
                tracing::warn!(group_id, %error, "the end of a consumer group could not be written");
            }
        });
        Ok(())
    }
}
