//! How much of a scenario is run, and so what ends a case: a time, or a number of records.

use std::time::Duration;

use crate::scenario::Load;

/// How much of a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Each case for its own time.
    Time,
    /// This part of each case's records.
    Scale(f64),
}

impl Extent {
    pub(super) fn scale(self) -> Option<f64> {
        match self {
            Self::Time => None,
            Self::Scale(scale) => Some(scale),
        }
    }

    /// How many records are sent, or read, all together; `None`: what fits into the time.
    pub fn records(self, load: &Load) -> Option<u64> {
        let records = (load.records > 0).then_some(load.records);
        match self {
            Self::Scale(scale) => records.map(|records| ((records as f64 * scale) as u64).max(1)),
            // A report's size says nothing about how long it takes here.
            Self::Time if load.duration_s > 0.0 => None,
            Self::Time => records,
        }
    }

    /// How long the load goes on, its warm-up included; `None`: until its records are through.
    pub fn duration(self, load: &Load) -> Option<Duration> {
        let is_by_records = matches!(self, Self::Scale(_)) && load.records > 0;
        (!is_by_records && load.duration_s > 0.0).then(|| Duration::from_secs_f64(load.warm_up_s + load.duration_s))
    }
}
