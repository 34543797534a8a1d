//! The page of metrics: counters ([`stats`](crate::stats)), and what is read at each request.

mod certificates;
mod disk;
mod groups;
mod journal;
mod metrics;
mod nodes;
mod page;
mod partitions;
mod process;
mod quorum;
mod quotas;
mod requests;
mod transactions;

pub use metrics::Metrics;
pub use nodes::{NodeError, NodeReport};
