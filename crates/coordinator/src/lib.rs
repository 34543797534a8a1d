//! The coordinators of a cluster: who keeps a state for clients, in a topic of its own.

pub mod group;
