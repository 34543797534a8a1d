//! Changes of in-sync replicas: leaders propose them, the controller decides.
//!
//! One AlterPartition is under way at a time, with all changes that have gathered. A leader counts a follower that it
//! wants to add from that moment on, and a follower that it wants to remove until the answer (KIP-497), so an answer
//! that is late or lost costs time and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::topic_log::BoxFuture;
use metadata::MetadataCache;
use tokio::time::{MissedTickBehavior, interval, sleep};
use wire::ErrorCode;
use wire::api::alter_partition::{
    AlterPartitionRequest, AlterPartitionResponse, BrokerState, PartitionRequest, TopicRequest,
};

use super::Key;
use crate::partition::replica::{AfterRefusal, Altered, Proposal};
use crate::partition::{Partition, PartitionQueue, PartitionTable};

/// How long to wait before a request is sent again: at first, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// Partitions of one request.
const PARTITIONS_MAX: usize = 1000;

/// Sends to the controller.
pub trait AlterPartition: Send + Sync + 'static {
    /// Has the active controller decide. An error is one of the connection, or of the request as a whole.
    fn alter(&self, request: AlterPartitionRequest) -> BoxFuture<Result<AlterPartitionResponse, ErrorCode>>;
}

/// Sends changes for ever.
pub async fn run(
    node_id: i32,
    changes: Arc<PartitionQueue>,
    metadata: Arc<MetadataCache>,
    controller: Arc<dyn AlterPartition>,
) {
    let mut backoff = BACKOFF_MIN;
    let mut wanted: BTreeMap<Key, Arc<Partition>> = BTreeMap::new();
    loop {
        if wanted.is_empty() {
            changes.wait().await;
        }
        wanted.extend(changes.take().into_iter().map(|partition| ((partition.topic_id, partition.index), partition)));
        let round = Round::new(&wanted);
        if round.proposals.is_empty() {
            wanted.clear();
            continue;
        }
        // Without a known registration nothing can be proposed.
        let broker_epoch = metadata.load().broker(node_id).map_or(-1, |broker| broker.epoch);
        let answer = controller.alter(round.request(node_id, broker_epoch)).await;
        if round.settle(&mut wanted, answer) {
            backoff = BACKOFF_MIN;
        } else {
            sleep(backoff).await;
            backoff = (2 * backoff).min(BACKOFF_MAX);
        }
    }
}

/// Has leaders look for followers that lag, for ever.
pub async fn watch_lag(partitions: Arc<PartitionTable>, lag_max: Duration) {
    let mut ticks = interval((lag_max / 2).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        partitions.shrink_isrs();
    }
}

/// The changes of one request.
pub struct Round {
    proposals: BTreeMap<Key, (Arc<Partition>, Proposal)>,
}

impl Round {
    pub fn new(wanted: &BTreeMap<Key, Arc<Partition>>) -> Self {
        let proposal = |(key, partition): (&Key, &Arc<Partition>)| {
            Some((*key, (Arc::clone(partition), partition.isr_proposal()?)))
        };
        Self { proposals: wanted.iter().filter_map(proposal).take(PARTITIONS_MAX).collect() }
    }

    pub fn request(&self, node_id: i32, broker_epoch: i64) -> AlterPartitionRequest {
        let mut topics: Vec<TopicRequest> = Vec::new();
        for (&(topic_id, partition_index), (_, proposal)) in &self.proposals {
            let state = |&(broker_id, epoch): &(i32, i64)| BrokerState {
                broker_id,
                broker_epoch: if broker_id == node_id { broker_epoch } else { epoch },
            };
            let partition = PartitionRequest {
                partition_index,
                leader_epoch: proposal.leader_epoch,
                new_isr_with_epochs: proposal.isr.iter().map(state).collect(),
                // A leader that was elected uncleanly has recovered by leading.
                leader_recovery_state: 0,
                partition_epoch: proposal.partition_epoch,
                ..PartitionRequest::default()
            };
            match topics.last_mut().filter(|topic| topic.topic_id == topic_id) {
                Some(topic) => topic.partitions.push(partition),
                None => topics.push(TopicRequest { topic_id, partitions: vec![partition] }),
            }
        }
        AlterPartitionRequest { broker_id: node_id, broker_epoch, topics }
    }

    /// Passes the controller's answers to the partitions. Changes to retry stay wanted; returns whether there are none.
    pub fn settle(
        self,
        wanted: &mut BTreeMap<Key, Arc<Partition>>,
        answer: Result<AlterPartitionResponse, ErrorCode>,
    ) -> bool {
        let answer = answer.and_then(|answer| match answer.error_code {
            ErrorCode::NONE => Ok(answer),
            code => Err(code),
        });
        let response = match answer {
            Ok(response) => response,
            Err(code) => {
                tracing::warn!(%code, "in-sync replicas cannot be changed for now");
                return false;
            }
        };
        let mut is_done = true;
        for topic in response.topics {
            for data in topic.partitions {
                let key = (topic.topic_id, data.partition_index);
                let Some((partition, proposal)) = self.proposals.get(&key) else { continue };
                if data.error_code.is_none() {
                    let (leader_epoch, partition_epoch) = (data.leader_epoch, data.partition_epoch);
                    partition.isr_altered(proposal, Altered { leader_epoch, partition_epoch, isr: data.isr });
                    wanted.remove(&key);
                    continue;
                }
                let after = partition.isr_refused(proposal, data.error_code);
                tracing::debug!(
                    topic = %partition.topic, partition = partition.index, code = %data.error_code, ?after,
                    "a change of in-sync replicas was refused"
                );
                // A dropped change is soon wanted again if nothing has changed: not at once.
                is_done &= after == AfterRefusal::WaitForMetadata;
                if after != AfterRefusal::Retry {
                    wanted.remove(&key);
                }
            }
        }
        is_done
    }
}
