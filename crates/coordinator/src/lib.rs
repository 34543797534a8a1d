//! The coordinators of a cluster, each with its state in a topic of its own.

pub mod group;
pub mod topic_log;
