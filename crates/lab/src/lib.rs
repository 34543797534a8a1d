//! The laboratory: puts load on any Kafka and says honestly what came of it.
//!
//! [`produce`] is the load of producers, [`produce_raw`] that of requests which were encoded beforehand, [`Payload`]
//! what they send, [`Stats`] what became of it; [`consume`] and [`ConsumeStats`] are their counterparts, and
//! [`end_to_end`] sees a record from one end to the other. Settings have the names and the meaning that Kafka's own
//! clients give them ([`ProducerSettings`], [`ConsumerSettings`]), so that figures can be compared with its tools.
//! [`probe_disk`] and [`probe_net`] say what the machine could do at all.

mod batches;
mod consume;
mod disk_probe;
mod end_to_end;
mod net_probe;
mod payload;
mod produce;
mod raw;
mod settings;
mod stats;
mod timer;

pub use consume::{ConsumeLoad, ConsumeStats, Consumed, consume};
pub use disk_probe::{DiskProbe, DiskResult, probe_disk};
pub use end_to_end::{EndToEndError, EndToEndLoad, end_to_end};
pub use net_probe::{NetProbe, NetResult, probe_net};
pub use payload::{KeyDistribution, Payload, PayloadError, Sizes};
pub use produce::{Pace, ProduceLoad, Schedule, produce};
pub use raw::produce_raw;
pub use settings::{ConsumerSettings, ProducerSettings, SettingError};
pub use stats::{Stats, Tally};
