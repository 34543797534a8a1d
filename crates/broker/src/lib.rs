//! The broker: Kafka's protocol in front, partitions, groups and metadata behind it.
//!
//! `net` reads frames and hands them to `api`, which asks `partition`, `meta` and `group`. Whatever leaves the process
//! other than by the network goes through [`Env`].

mod api;
mod blocking_pool;
mod cluster;
pub mod config;
mod disk_watch;
mod env;
pub mod group;
pub mod loggers;
mod maintenance;
pub mod meta;
mod net;
mod offsets_topic;
mod open_files;
pub mod panics;
mod partition;
pub mod quorum;
pub mod recover;
pub mod replication;
mod server;
#[cfg(test)]
mod simulation;
mod stats;
mod threads;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

pub use env::{Clock, Env, Random};
pub use server::{Server, StartError};
pub use stats::{Metrics, NodeError, NodeReport};
use wire::Uuid;
pub use wire::api::describe_node::Rebalance;

use crate::api::{FetchSessions, ProducerIds};
use crate::cluster::{Liveness, Peers, Senders};
use crate::config::BrokerConfig;
use crate::group::GroupCoordinator;
use crate::meta::{Controller, MetadataCache};
use crate::net::{LogLimit, Memory};
use crate::partition::{PartitionTable, Shared};
use crate::quorum::Quorum;

/// What the handlers work with.
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
    /// Who of those who ask this node is one of the cluster's.
    pub senders: Senders,
    pub liveness: Arc<Liveness>,
    pub partitions: Arc<PartitionTable>,
    pub groups: Arc<GroupCoordinator>,
    pub fetch_sessions: FetchSessions,
    pub producer_ids: ProducerIds,
    /// What peers may take of the memory.
    pub memory: Memory,
    /// How much each peer may have written to the log.
    pub log_limit: LogLimit,
    config: Arc<ArcSwap<BrokerConfig>>,
    shared: Shared,
}

impl Broker {
    /// The settings that are in force now.
    pub fn config(&self) -> Guard<Arc<BrokerConfig>> {
        self.config.load()
    }
}
