//! The coordinators of a cluster, each with its state in a topic of its own.

pub mod group;
mod phase;
mod replay;
#[cfg(test)]
mod test_support;
pub mod topic_log;
pub mod txn;
