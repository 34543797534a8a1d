//! The coordinators of groups and transactions on this broker, and their ways to the rest of it.
//!
//! - [`internal_topic`]: the logs in which they keep their state; [`offsets_topic`] and [`transaction_topic`]: what
//!   else each of them needs of the cluster; [`producer_ids`] that transactions take.
//! - [`leadership`]: which partitions of these topics they serve.
//! - [`markers`]: the ends of transactions on their way to the partitions; [`verification`]: the question whether a
//!   partition belongs to a transaction, before it is written to.

mod internal_topic;
mod leadership;
mod markers;
pub(crate) mod offsets_topic;
mod producer_ids;
pub(crate) mod transaction_topic;
mod verification;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use configuration::BrokerConfig;
use coordinator::group::{GroupConfig, GroupCoordinator, OFFSETS_TOPIC};
use coordinator::txn::{TRANSACTION_STATE_TOPIC, TransactionConfig, TransactionCoordinator};
pub(crate) use markers::MarkerWriter;
use metadata::MetadataCache;
use parking_lot::Mutex;
use platform::{Env, LogLimit};
use tokio::runtime::Handle;
pub(crate) use verification::{TransactionSupport, TransactionalProducer, Verifier};

use self::internal_topic::{InternalTopic, LoadedEpochs};
use self::leadership::{ChangedTopics, LeadershipFollower};
use self::markers::MarkerSender;
use self::offsets_topic::OffsetsTopic;
use self::producer_ids::{Block, ProducerIds};
use self::transaction_topic::TransactionTopic;
use crate::cluster::Peers;
use crate::controller::Controller;
use crate::partition::PartitionTable;
use crate::session::Session;

/// What the coordinators stand on.
pub(crate) struct Ground {
    pub(crate) env: Env,
    pub(crate) node_id: i32,
    pub(crate) config: Arc<ArcSwap<BrokerConfig>>,
    pub(crate) metadata: Arc<MetadataCache>,
    pub(crate) controller: Controller,
    pub(crate) peers: Arc<Peers>,
    pub(crate) partitions: Arc<PartitionTable>,
    pub(crate) log_limit: Arc<LogLimit>,
    pub(crate) session: Arc<Session>,
}

/// The coordinators. They serve nothing before they follow the metadata.
pub(crate) struct Coordinators {
    pub(crate) groups: Arc<GroupCoordinator>,
    pub(crate) transactions: Arc<TransactionCoordinator>,
    pub(crate) marker_writer: Arc<MarkerWriter>,
    pub(crate) verifier: Arc<Verifier>,
    offsets_topic: Arc<InternalTopic>,
    transaction_topic: Arc<InternalTopic>,
}

impl Coordinators {
    pub(crate) fn new(ground: &Ground) -> Self {
        let settings = ground.config.load_full();
        let topic = |name| {
            Arc::new(InternalTopic {
                name,
                partitions: Arc::clone(&ground.partitions),
                loaded: LoadedEpochs::default(),
                metadata: Arc::clone(&ground.metadata),
                controller: ground.controller.clone(),
                config: Arc::clone(&ground.config),
                session: Arc::clone(&ground.session),
            })
        };
        let (offsets_topic, transaction_topic) = (topic(OFFSETS_TOPIC), topic(TRANSACTION_STATE_TOPIC));
        let groups = GroupCoordinator::new(
            GroupConfig::from(&*settings),
            Arc::clone(&ground.env.clock),
            Arc::clone(&ground.env.random),
            Arc::clone(&offsets_topic) as _,
            Arc::new(OffsetsTopic(Arc::clone(&offsets_topic))),
        );
        let request_timeout = Duration::from_millis(settings.request_timeout_ms.unsigned_abs().into());
        let marker_writer = Arc::new(MarkerWriter {
            partitions: Arc::clone(&ground.partitions),
            groups: Arc::clone(&groups),
            clock: Arc::clone(&ground.env.clock),
            // So that the sender hears of it.
            timeout: request_timeout / 2,
        });
        let sender = MarkerSender {
            node_id: ground.node_id,
            metadata: Arc::clone(&ground.metadata),
            peers: Arc::clone(&ground.peers),
            writer: Arc::clone(&marker_writer),
        };
        let producer_ids = ProducerIds {
            node_id: ground.node_id,
            metadata: Arc::clone(&ground.metadata),
            controller: ground.controller.clone(),
            log_limit: Arc::clone(&ground.log_limit),
            block: Arc::new(Block::default()),
        };
        let transactions = TransactionCoordinator::new(
            TransactionConfig::from(&*settings),
            Arc::clone(&ground.env.clock),
            Arc::clone(&transaction_topic) as _,
            Arc::new(TransactionTopic { topic: Arc::clone(&transaction_topic), groups: Arc::clone(&groups) }),
            Arc::new(sender),
            Arc::new(producer_ids),
        );
        let verifier = Arc::new(Verifier {
            node_id: ground.node_id,
            metadata: Arc::clone(&ground.metadata),
            config: Arc::clone(&ground.config),
            peers: Arc::clone(&ground.peers),
            transactions: Arc::clone(&transactions),
            // The connection to another broker gives up before.
            timeout: request_timeout * 2,
            waiting: Mutex::default(),
        });
        Self { groups, transactions, marker_writer, verifier, offsets_topic, transaction_topic }
    }

    /// Has them serve what this node leads, on a runtime. To be called when the partition table follows the metadata.
    pub(crate) fn follow(&self, metadata: &MetadataCache, runtime: &Handle) {
        let of_groups = LeadershipFollower::new(&self.groups, &self.offsets_topic, runtime);
        metadata.subscribe_after(Arc::clone(&of_groups) as _, |image| of_groups.follow_leadership(image));
        metadata.subscribe(Arc::new(ChangedTopics { groups: Arc::clone(&self.groups), runtime: runtime.clone() }));
        let of_transactions = LeadershipFollower::new(&self.transactions, &self.transaction_topic, runtime);
        metadata.subscribe_after(Arc::clone(&of_transactions) as _, |image| of_transactions.follow_leadership(image));
    }
}
