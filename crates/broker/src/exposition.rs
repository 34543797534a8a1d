//! The page of metrics: what was counted ([`stats`](crate::stats)), and what is looked at when somebody asks.

mod disk;
mod groups;
mod metrics;
mod nodes;
mod page;
mod partitions;
mod process;
mod quorum;
mod requests;

pub use metrics::Metrics;
pub use nodes::{NodeError, NodeReport};
