//! What makes one cluster of several nodes.
//!
//! - [`first_start`]: which cluster a new node belongs to; [`membership`]: how it joins an existing one; [`members`]:
//!   the addresses of the other members.
//! - [`links`]: raft's messages to the other members; [`peers`]: all other requests to other nodes; [`senders`]: which
//!   senders of requests are nodes of this cluster.
//! - [`liveness`] and [`sessions`]: the brokers' sessions with the active controller.

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
