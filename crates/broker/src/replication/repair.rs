//! Repairs damaged batches of this node with those of other replicas.
//!
//! It reads as a consumer does, so it works the same on leaders and followers. The replica is not in sync meanwhile.
//! Truncated or compacted batches have other bytes elsewhere, which do not fit: a follower truncates its log there and
//! fetches it again, a leader hands over to a replica without damage and does so then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Connection, ConnectionError};
use metadata::MetadataCache;
use storage::{BadRange, LogError, RepairError};
use tokio::time::sleep;
use wire::api::Request;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::{ErrorCode, Records};

use super::Key;
use crate::partition::{Partition, PartitionQueue};
use crate::stream::Dialer;
use crate::threads::spawn_blocking;

/// How long until damage that no replica could repair is looked at again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// The same, while it is not known yet who leads the partition.
const ROLE_INTERVAL: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of a fetch, except for a larger batch.
const PIECE_BYTES_MAX: u64 = 4 << 20;

pub struct Repair {
    pub node_id: i32,
    pub dialer: Dialer,
    /// Under which name brokers are reached by brokers.
    pub listener: String,
    pub metadata: Arc<MetadataCache>,
    pub damaged: Arc<PartitionQueue>,
}

/// Why a replica did not help.
#[derive(Debug, thiserror::Error)]
enum MendingError {
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("it answers {0}")]
    Refused(ErrorCode),
    #[error("{0}")]
    Mend(#[from] RepairError),
    #[error("the thread that wrote ended")]
    Panicked,
}

impl Repair {
    /// Repairs queued partitions, for ever.
    pub async fn run(self) {
        let mut damaged: BTreeMap<Key, Arc<Partition>> = BTreeMap::new();
        loop {
            let waits_for_role = damaged.values().any(|partition| !has_had_role(partition));
            let interval = if waits_for_role { ROLE_INTERVAL } else { RETRY_INTERVAL };
            tokio::select! {
                biased;
                () = self.damaged.wait() => {}
                () = sleep(interval), if !damaged.is_empty() => {}
            }
            damaged.extend(self.damaged.take().into_iter().map(|found| ((found.topic_id, found.index), found)));
            for (key, partition) in std::mem::take(&mut damaged) {
                if !self.repair(&partition).await {
                    damaged.insert(key, partition);
                }
            }
        }
    }

    /// Whether there is nothing left to do.
    async fn repair(&self, partition: &Arc<Partition>) -> bool {
        if !has_had_role(partition) {
            return false;
        }
        while let Some(range) = partition.next_to_repair() {
            let mut is_repaired = false;
            let others = self.other_replicas(partition);
            let followed = partition.followed_leader().map(|leader| (leader, partition.leader_epoch()));
            for (id, address) in others {
                let error = match self.repair_from(&address, partition, range).await {
                    Ok(()) => {
                        is_repaired = true;
                        break;
                    }
                    Err(MendingError::Mend(RepairError::Log(LogError::Failed(_)))) => return true,
                    Err(error) => error,
                };
                // The leader has answered, so what it has is fetched from it once more.
                if let Some((leader, leader_epoch)) = followed
                    && leader == id
                    && matches!(error, MendingError::Mend(_))
                    && self.cut(partition, leader_epoch, range).await
                {
                    is_repaired = true;
                    break;
                }
                tracing::warn!(
                    topic = %partition.topic, partition = partition.index, first_offset = range.first_offset,
                    next_offset = range.next_offset, replica = id, %error, "a bad batch is not mended by a replica"
                );
            }
            if !is_repaired {
                partition.set_lasting_damage();
                partition.hand_over();
                return false;
            }
        }
        true
    }

    /// Has a follower fetch again what does not fit. Returns whether it does.
    async fn cut(&self, partition: &Arc<Partition>, leader_epoch: i32, range: BadRange) -> bool {
        let image = self.metadata.load();
        let topic = image.topic_by_id(partition.topic_id);
        let state = topic.and_then(|topic| topic.partition(partition.index));
        let is_in_sync = state.is_none_or(|state| state.isr.contains(&self.node_id));
        let cutting = Arc::clone(partition);
        let cut = spawn_blocking(move || cutting.cut_damage(leader_epoch, &range, is_in_sync)).await;
        match cut {
            Ok(Ok(is_cut)) => is_cut,
            Ok(Err(error)) => {
                tracing::warn!(topic = %partition.topic, partition = partition.index, %error, "damage is not cut");
                false
            }
            Err(_) => false,
        }
    }

    /// The replicas to fetch from: the leader first, then those in sync.
    fn other_replicas(&self, partition: &Partition) -> Vec<(i32, String)> {
        let image = self.metadata.load();
        let topic = image.topic_by_id(partition.topic_id);
        let Some(state) = topic.and_then(|topic| topic.partition(partition.index)) else { return Vec::new() };
        let mut replicas: Vec<i32> = state.replicas.iter().copied().filter(|&id| id != self.node_id).collect();
        replicas.sort_by_key(|id| (*id != state.leader, !state.isr.contains(id)));
        let address = |id: i32| {
            let endpoint = image.broker(id).filter(|broker| !broker.fenced)?.endpoint(&self.listener)?;
            Some((id, configuration::address(&endpoint.host, endpoint.port)))
        };
        replicas.into_iter().filter_map(address).collect()
    }

    async fn repair_from(
        &self,
        address: &str,
        partition: &Arc<Partition>,
        mut range: BadRange,
    ) -> Result<(), MendingError> {
        let dialer = self.dialer.named(format!("broker-{}-mends", self.node_id));
        let connection = dialer.connect(address, CONNECT_TIMEOUT, ANSWER_TIMEOUT).await?;
        while range.first_offset < range.next_offset {
            let bytes = fetch(&connection, partition, &range).await?;
            let (repairing, damage) = (Arc::clone(partition), range);
            let next = spawn_blocking(move || repairing.repair(&damage, bytes));
            let next = next.await.map_err(|_| MendingError::Panicked)??;
            // What is left of it, if it came in pieces.
            let rest = partition.view().bad_ranges().into_iter().find(|bad| bad.first_offset == next);
            match rest.filter(|rest| rest.next_offset == range.next_offset) {
                Some(rest) => range = rest,
                None => break,
            }
        }
        Ok(())
    }
}

/// Whether the metadata has said since the start what the partition is here.
fn has_had_role(partition: &Partition) -> bool {
    partition.leader_epoch() >= 0
}

async fn fetch(connection: &Connection, partition: &Partition, range: &BadRange) -> Result<Bytes, MendingError> {
    let size = (range.end_position - range.position).min(PIECE_BYTES_MAX) as i32;
    let requested = FetchPartition {
        partition: partition.index,
        fetch_offset: range.first_offset,
        partition_max_bytes: size,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        max_bytes: size,
        topics: vec![FetchTopic { topic_id: partition.topic_id, partitions: vec![requested], ..FetchTopic::default() }],
        ..FetchRequest::default()
    };
    let version = *FetchRequest::API.versions.end();
    let response = connection.start_as(&request, version, ANSWER_TIMEOUT)?.await?;
    let data = response.responses.into_iter().flat_map(|topic| topic.partitions).next();
    let code = data.as_ref().map_or(response.error_code, |data| data.error_code);
    match data.and_then(|data| data.records) {
        Some(Records::Inline(bytes)) if code.is_none() => Ok(bytes),
        _ if code.is_none() => Ok(Bytes::new()),
        _ => Err(MendingError::Refused(code)),
    }
}
