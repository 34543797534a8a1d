//! The laboratory: puts load on any Kafka and says honestly what came of it.
//!
//! [`produce`] is the load of producers, [`Payload`] what they send, [`Stats`] what became of it. Settings have the
//! names and the meaning of Kafka's own producer ([`ProducerSettings`]), so that figures can be compared with its tools.

mod batches;
mod payload;
mod produce;
mod settings;
mod stats;
mod timer;

pub use payload::{KeyDistribution, Payload, PayloadError, Sizes};
pub use produce::{Pace, ProduceLoad, produce};
pub use settings::{ProducerSettings, SettingError};
pub use stats::{Stats, Tally};
