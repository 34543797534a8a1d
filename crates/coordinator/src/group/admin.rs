//! DescribeGroups, ListGroups and DeleteGroups: what administrators see and do.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::ErrorCode;
use wire::api::delete_groups::DeletableGroupResult;
use wire::api::describe_groups::DescribedGroup;
use wire::api::list_groups::ListedGroup;

use super::coordinator::{GroupCoordinator, check_group_id_length};
use super::core::{CONSUMER_PROTOCOL_TYPE, State};
use super::offsets::InFlight;

/// Kafka's names of the types of groups (KIP-848).
const CLASSIC_TYPE: &str = "classic";
const CONSUMER_TYPE: &str = "consumer";

impl GroupCoordinator {
    pub fn describe_group(&self, api_version: i16, group_id: &str) -> DescribedGroup {
        /// First version that distinguishes "no such group" from "dead" (KIP-1043).
        const GROUP_ID_NOT_FOUND_SINCE: i16 = 6;
        match self.try_describe(group_id) {
            Ok(group) => group,
            Err(ErrorCode::GROUP_ID_NOT_FOUND) => {
                let is_error = api_version >= GROUP_ID_NOT_FOUND_SINCE;
                DescribedGroup {
                    error_code: if is_error { ErrorCode::GROUP_ID_NOT_FOUND } else { ErrorCode::NONE },
                    error_message: is_error.then(|| format!("Group {group_id} not found.")),
                    group_id: group_id.to_owned(),
                    group_state: State::Dead.name().to_owned(),
                    ..Default::default()
                }
            }
            Err(error_code) => DescribedGroup { error_code, group_id: group_id.to_owned(), ..Default::default() },
        }
    }

    fn try_describe(&self, group_id: &str) -> Result<DescribedGroup, ErrorCode> {
        check_group_id_length(group_id)?;
        let shard = self.shard(group_id)?;
        let state = shard.state.lock();
        state.phase.check()?;
        // Another API describes groups of the consumer group protocol.
        let slot = state.groups.get(group_id).filter(|slot| slot.consumers.is_none());
        Ok(slot.ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?.group.describe(group_id))
    }

    /// The approximate size of all offsets of a group. A group that cannot be read has none.
    pub fn offsets_size_bytes(&self, group_id: &str) -> usize {
        let Ok(shard) = self.shard(group_id) else { return 0 };
        let mut state = shard.state.lock();
        state.group(group_id).map_or(0, |group| group.offsets.size_bytes())
    }

    /// The groups in one of the states and of one of the types, in any case; without a filter, all of them. Fails while
    /// a part of them is being loaded.
    pub fn list_groups(&self, states: &[String], types: &[String]) -> Result<Vec<ListedGroup>, ErrorCode> {
        let matches = |filter: &[String], value: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(value))
        };
        let mut listed = Vec::new();
        for shard in self.shards() {
            let state = shard.state.lock();
            match state.phase.check() {
                Err(ErrorCode::NOT_COORDINATOR) => continue,
                active => active?,
            }
            for (group_id, slot) in &state.groups {
                let (group_state, group_type, protocol_type) = match &slot.consumers {
                    Some(consumers) => (consumers.group.state().name(), CONSUMER_TYPE, CONSUMER_PROTOCOL_TYPE),
                    None => (slot.group.state().name(), CLASSIC_TYPE, slot.group.protocol_type().unwrap_or_default()),
                };
                if matches(states, group_state) && matches(types, group_type) {
                    listed.push(ListedGroup {
                        group_id: group_id.clone(),
                        protocol_type: protocol_type.to_owned(),
                        group_state: group_state.to_owned(),
                        group_type: group_type.to_owned(),
                    });
                }
            }
        }
        Ok(listed)
    }

    /// Deletes groups without members, with their offsets. A group that is named twice is deleted once.
    pub async fn delete_groups(self: &Arc<Self>, group_ids: Vec<String>) -> Vec<DeletableGroupResult> {
        let mut seen = BTreeSet::new();
        let mut deletions = Vec::new();
        for group_id in group_ids {
            if seen.insert(group_id.clone()) {
                // Tasks, so that they wait for the disk together.
                let deletion = self.begin_delete(&group_id).map(|in_flight| tokio::spawn(in_flight.wait()));
                deletions.push((group_id, deletion));
            }
        }
        let mut results = Vec::with_capacity(deletions.len());
        for (group_id, deletion) in deletions {
            let result = match deletion {
                Ok(deletion) => deletion.await.unwrap_or(Err(ErrorCode::UNKNOWN_SERVER_ERROR)),
                Err(error) => Err(error),
            };
            results.push(DeletableGroupResult { group_id, error_code: result.err().unwrap_or(ErrorCode::NONE) });
        }
        results
    }

    fn begin_delete(self: &Arc<Self>, group_id: &str) -> Result<InFlight, ErrorCode> {
        check_group_id_length(group_id)?;
        let shard = self.shard(group_id)?;
        let mut state = shard.state.lock();
        state.phase.check()?;
        let now = self.now();
        let slot = state.groups.get_mut(group_id).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if let Some(consumers) = &slot.consumers {
            consumers.check_delete()?;
        }
        let group = &mut slot.group;
        group.check_delete()?;
        let partitions = group.offsets.partitions();
        let writes = partitions.iter().map(|(topic, p)| group.offsets.begin(topic, *p, None)).collect();
        group.begin_delete(now);
        let in_flight = self.enqueue(&shard, &mut state, group_id, writes, true, None);
        self.settle(&mut state, group_id);
        Ok(in_flight)
    }
}
