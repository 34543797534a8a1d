//! Transactions (KIP-98, KIP-360, KIP-447, KIP-664, KIP-890): the coordinator that decides them and keeps its decisions
//! in `__transaction_state`.
//!
//! - [`core`]: one transactional id as a pure state machine, without IO or clock.
//! - [`coordinator`]: the transactional ids of the partitions of `__transaction_state` that this broker leads, and what
//!   their producers ask; [`brokers`] and [`admin`] are its answers to brokers and administrators, [`timers`] what it
//!   does by the clock.
//! - [`writes`]: changes on their way to the log; [`markers`]: the ends of transactions on their way to the partitions,
//!   [`marker_queues`] where they wait.
//! - [`memory`]: the memory that ids take, and the addresses that caused it.
//! - [`records`]: what is stored, in Kafka's own format; [`load`] reads it back.
//! - [`watch`]: what metrics see, with [`decisions`].
//! - [`interfaces`]: what the coordinator needs of the rest of the broker.
//!
//! Timers run on the monotonic clock; the wall clock goes into what is stored, and says after a change of the
//! coordinator for how long a transaction has been open.

pub mod admin;
mod brokers;
pub mod config;
pub mod coordinator;
pub mod core;
mod decisions;
pub mod interfaces;
mod load;
mod marker_queues;
mod markers;
mod memory;
mod records;
mod shard;
mod timers;
mod watch;
mod writes;

#[cfg(test)]
mod tests;

pub use config::TransactionConfig;
pub use coordinator::TransactionCoordinator;
pub use interfaces::{Cluster, Leader, MarkerTransport, ProducerIds};
pub use storage::Now;

/// The topic that holds transactional ids and their transactions.
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";
