//! The coordinators of a cluster, each with its state in a topic of its own.

pub mod group;
