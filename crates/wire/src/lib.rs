//! Bytes to values and back: Kafka's wire protocol, its record batches, and the schemas of what is stored.
//!
//! No IO, no async, no clock. Every other crate builds on this one.
//!
//! A message is declared once, as a Rust struct inside [`message!`]: the field list with its version ranges *is* the
//! schema. Decoding never allocates by a claimed length: see [`codec::Reader`].

#[macro_use]
pub mod codec;

pub mod api;
pub mod batch;
pub mod compress;
pub mod error;
pub mod frame;
mod lz4;
mod secret;
pub mod state;
pub mod uuid;

pub use batch::record;
pub use codec::{Reader, Records, Wire, WireError, Writer, sample};
pub use error::ErrorCode;
pub use secret::Secret;
pub use uuid::Uuid;
