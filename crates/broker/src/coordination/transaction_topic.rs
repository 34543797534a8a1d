//! What the transaction coordinator needs of the cluster: `__transaction_state`, the finalized version of transactions,
//! and where groups are.

use std::sync::Arc;

use configuration::BrokerConfig;
use coordinator::group::GroupCoordinator;
use coordinator::topic_log::BoxFuture;
use coordinator::txn::core::TransactionVersion;
use coordinator::txn::{Cluster, TRANSACTION_STATE_TOPIC};
use metadata::Feature;
use wire::ErrorCode;
use wire::api::create_topics::CreatableTopic;

use super::internal_topic::{self, InternalTopic};

pub(super) struct TransactionTopic {
    pub(super) topic: Arc<InternalTopic>,
    pub(super) groups: Arc<GroupCoordinator>,
}

impl Cluster for TransactionTopic {
    fn state_partition_count(&self) -> Option<i32> {
        self.topic.partition_count()
    }

    fn create_state_topic(&self) -> BoxFuture<Result<(), ErrorCode>> {
        self.topic.create(creatable(&self.topic.config.load(), self.topic.metadata.load().brokers().count()))
    }

    fn transaction_version(&self) -> TransactionVersion {
        TransactionVersion(self.topic.metadata.load().feature_level(Feature::TransactionVersion))
    }

    fn offsets_partition_for(&self, group_id: &str) -> i32 {
        self.groups.partition_for(group_id)
    }
}

/// The topic as it comes into being, on a cluster of so many brokers.
pub(crate) fn creatable(config: &BrokerConfig, brokers: usize) -> CreatableTopic {
    let replication_factor = config.internal_replication_factor(
        "transaction.state.log.replication.factor",
        config.transaction_state_log_replication_factor,
        brokers,
    );
    let configs = [
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "uncompressed".to_owned()),
        ("min.insync.replicas", config.transaction_state_log_min_isr.to_string()),
        ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
        ("unclean.leader.election.enable", "false".to_owned()),
    ];
    let partitions = config.transaction_state_log_num_partitions;
    internal_topic::creatable(TRANSACTION_STATE_TOPIC, partitions, replication_factor, configs)
}
