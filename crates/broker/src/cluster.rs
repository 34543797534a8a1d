//! What makes one cluster of several nodes.
//!
//! - [`first_start`]: which cluster a new node belongs to; [`membership`]: how it becomes part of one that has begun;
//!   [`members`]: where the others are.
//! - [`links`]: raft's messages on their way to the other members; [`peers`]: all other requests to other nodes;
//!   [`senders`]: who of those who ask this node is one of the others.
//! - [`liveness`] and [`sessions`]: what the active controller knows of the brokers' lives.

pub mod first_start;
pub mod links;
mod liveness;
mod members;
pub mod membership;
pub mod peers;
mod senders;
mod sessions;

pub use liveness::Liveness;
pub use members::Members;
pub use peers::{Lane, Peers};
pub use senders::Senders;
