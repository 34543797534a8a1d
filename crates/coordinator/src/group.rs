//! Consumer groups: the classic group protocol (KIP-394, KIP-345), the new one (KIP-848), and committed offsets.
//!
//! - [`core`]: one group as a pure state machine, without IO or clock.
//! - [`consumer`]: one group of the consumer group protocol (KIP-848), likewise; [`assignor`] shares partitions out for
//!   it, and [`regex`] has the patterns that its members subscribe with.
//! - [`coordinator`]: the groups of the partitions of `__consumer_offsets` that this broker leads, their timers and
//!   waiting requests; [`offsets`], [`offset_fetch`] and [`admin`] are its answers to the other APIs.
//! - [`transactions`]: offsets that are committed in transactions, and the markers that end them.
//! - `consumers`: the coordinator's part for consumer groups, and ConsumerGroupHeartbeat and ConsumerGroupDescribe;
//!   `queue` is what waits there. `classic_members` serves members of the classic protocol in such a group, and
//!   `migration` says what a group of one protocol becomes in the other.
//! - [`memory`]: the memory that groups take, and the addresses that caused it.
//! - [`watch`]: what the metrics show of groups; [`history`]: the latest rebalances.
//! - [`records`]: what is stored, in Kafka's own format; [`load`] reads it back.
//! - [`interfaces`]: what the coordinator needs of the rest of the broker.
//!
//! Timers run on the monotonic clock, so that a jump of the wall clock expires nothing; the wall clock only goes into
//! what is stored.
//!
//! The handlers in `api/` call the coordinator; the broker passes it the partitions that it leads.

pub mod admin;
pub mod assignor;
mod classic_members;
pub mod config;
pub mod consumer;
mod consumers;
pub mod coordinator;
pub mod core;
mod history;
pub mod interfaces;
pub mod load;
mod memory;
mod migration;
pub mod offset_fetch;
pub mod offsets;
mod queue;
pub mod records;
pub mod regex;
mod shard;
mod transactions;
mod watch;

#[cfg(test)]
mod tests;

pub use core::RebalanceCause;

pub use config::GroupConfig;
pub use coordinator::{Caller, GroupCoordinator};
pub use interfaces::{MayDescribe, OffsetsLog, Topic, TopicSnapshot, Topics};
pub use records::Marker;
pub use storage::Now;

/// The topic that holds groups and offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
