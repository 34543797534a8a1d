//! What makes one cluster of several nodes.
//!
//! - [`first_start`]: which cluster a new node belongs to; [`membership`]: how it becomes part of one that has begun.
//! - [`links`]: raft's messages on their way to the other members; [`peers`]: all other requests to other nodes;
//!   [`senders`]: who of those who ask this node is one of the others.
//! - [`lifecycle`]: how a broker registers, stays and leaves; [`watch`] and [`sessions`]: how the active controller
//!   watches over the brokers.

pub mod first_start;
pub mod lifecycle;
pub mod links;
pub mod membership;
pub mod peers;
mod senders;
mod sessions;
pub mod watch;

pub use lifecycle::{Lifecycle, RegistrationError};
pub use peers::{Lane, Peers};
pub use senders::Senders;
pub use watch::Liveness;
