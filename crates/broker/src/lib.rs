//! The broker: Kafka's protocol in front, partitions, groups and metadata behind it.
//!
//! `net` reads frames and hands them to `api`, which asks `partition`, `meta` and `group`. All I/O of the process
//! except the network goes through [`Env`].

mod api;
mod blocking_pool;
mod broker;
mod close_reason;
mod cluster;
mod controller;
mod coordination;
mod exposition;
mod fetch_sessions;
mod frame;
pub mod journal;
mod lifecycle;
mod maintenance;
mod memory;
mod net;
mod partition;
mod quotas;
pub mod recover;
pub mod replication;
mod security;
mod server;
mod session;
#[cfg(test)]
mod simulation;
mod stats;
mod stream;
mod threads;

pub use broker::Broker;
pub use exposition::{Metrics, NodeError, NodeReport};
pub use metadata::{Partition, PartitionChange};
pub use security::{SecurityError, tls_of_console};
pub use server::{Server, StartError};
pub use wire::api::describe_node::Rebalance;
