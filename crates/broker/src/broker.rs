//! The state that handlers of requests share.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use configuration::BrokerConfig;
use coordinator::group::GroupCoordinator;
use coordinator::txn::TransactionCoordinator;
use metadata::MetadataCache;
use metadata::acl::Authorizer;
use platform::{Env, LogLimit};
use quorum::Quorum;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use wire::Uuid;

use crate::cluster::{Liveness, Peers, Senders};
use crate::controller::Controller;
use crate::coordination::{MarkerWriter, Verifier};
use crate::fetch_sessions::FetchSessions;
use crate::memory::Memory;
use crate::partition::{PartitionTable, Shared};
use crate::quotas::Quotas;
use crate::security::Certificates;
use crate::security::audit::Audit;
use crate::session::Session;

/// The state that handlers share.
pub struct Broker {
    pub env: Env,
    pub node_id: i32,
    /// Of this node's disk.
    pub directory_id: Uuid,
    pub cluster_id: String,
    pub metadata: Arc<MetadataCache>,
    pub quorum: Quorum,
    pub controller: Controller,
    pub peers: Arc<Peers>,
    /// Which senders of requests are nodes of this cluster.
    pub senders: Senders,
    pub liveness: Arc<Liveness>,
    pub partitions: Arc<PartitionTable>,
    pub groups: Arc<GroupCoordinator>,
    pub transactions: Arc<TransactionCoordinator>,
    pub(crate) marker_writer: Arc<MarkerWriter>,
    pub(crate) verifier: Arc<Verifier>,
    pub fetch_sessions: FetchSessions,
    /// What peers may take of the memory.
    pub memory: Memory,
    /// What clients may use, and have used.
    pub quotas: Quotas,
    /// How much each peer may have written to the log.
    pub log_limit: Arc<LogLimit>,
    pub session: Arc<Session>,
    /// For handshakes of TLS that are computed at the same time.
    pub(crate) handshake_turns: Arc<Semaphore>,
    pub(crate) audit: Audit,
    /// `None` where everybody may do everything.
    pub authorizer: Option<Authorizer>,
    pub certificates: Certificates,
    pub(crate) config: Arc<ArcSwap<BrokerConfig>>,
    pub(crate) shared: Shared,
}

impl Broker {
    /// Half of the threads that connections are served by may compute handshakes.
    pub(crate) fn new_handshake_turns(data_plane: &Handle) -> Arc<Semaphore> {
        Arc::new(Semaphore::new((data_plane.metrics().num_workers() / 2).max(1)))
    }

    /// The settings that are in force now.
    pub fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.config.load()
    }
}
