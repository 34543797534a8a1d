//! A bound that results are held to: `p99 > 20ms` names what must not be.

use std::fmt;
use std::str::FromStr;

use crate::result::{CaseResult, Latency, Measured};

/// The figures that can be asked for, for messages.
const FIGURES: &str = "mean, p50, p95, p99, p99.9, p99.99, max, end_to_end_p50, end_to_end_p99, records_per_s, \
                       mib_per_s, consumed_records_per_s, failed_records, broker_cpu_s_per_million, saturated";

#[derive(Clone, Debug, PartialEq)]
pub struct Criterion {
    text: String,
    figure: Figure,
    is_greater: bool,
    includes_equal: bool,
    value: f64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Figure {
    Latency(LatencyPart),
    EndToEnd(LatencyPart),
    RecordsPerS,
    MibPerS,
    ConsumedRecordsPerS,
    FailedRecords,
    BrokerCpuPerMillion,
    Saturated,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LatencyPart {
    Mean,
    P50,
    P95,
    P99,
    P999,
    P9999,
    Max,
}

#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CriterionError {
    #[error("{0:?} is no bound: a figure, >, >=, < or <=, and a value, for example 'p99 > 20ms'")]
    Form(String),
    #[error("{0:?} is no figure; there are {FIGURES}")]
    Figure(String),
    #[error("{0:?} is no value: a number, for latencies with us, ms or s")]
    Value(String),
}

impl FromStr for Criterion {
    type Err = CriterionError;

    fn from_str(text: &str) -> Result<Self, CriterionError> {
        let form = || CriterionError::Form(text.to_owned());
        let at = text.find(['<', '>']).ok_or_else(form)?;
        let (figure, rest) = text.split_at(at);
        let is_greater = rest.starts_with('>');
        let (includes_equal, value) = match rest[1..].strip_prefix('=') {
            Some(value) => (true, value),
            None => (false, &rest[1..]),
        };
        let figure = Figure::named(figure.trim()).ok_or_else(|| CriterionError::Figure(figure.trim().to_owned()))?;
        let value = figure.value(value.trim()).ok_or_else(|| CriterionError::Value(value.trim().to_owned()))?;
        Ok(Self { text: text.trim().to_owned(), figure, is_greater, includes_equal, value })
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Criterion {
    /// Whether a case is what must not be. A case without the figure is not.
    pub fn holds(&self, case: &CaseResult) -> bool {
        case.measured().and_then(|measured| self.figure.of(measured)).is_some_and(|figure| self.compares(figure))
    }

    /// Whether what was measured is as this says.
    pub fn holds_of(&self, measured: &Measured) -> bool {
        self.figure.of(measured).is_some_and(|figure| self.compares(figure))
    }

    fn compares(&self, figure: f64) -> bool {
        let is_beyond = if self.is_greater { figure > self.value } else { figure < self.value };
        is_beyond || (self.includes_equal && figure == self.value)
    }
}

impl Figure {
    fn named(name: &str) -> Option<Self> {
        if let Some(part) = LatencyPart::named(name) {
            return Some(Self::Latency(part));
        }
        if let Some(part) = name.strip_prefix("end_to_end_") {
            return LatencyPart::named(part).map(Self::EndToEnd);
        }
        Some(match name {
            "records_per_s" => Self::RecordsPerS,
            "mib_per_s" => Self::MibPerS,
            "consumed_records_per_s" => Self::ConsumedRecordsPerS,
            "failed_records" => Self::FailedRecords,
            "broker_cpu_s_per_million" => Self::BrokerCpuPerMillion,
            "saturated" => Self::Saturated,
            _ => return None,
        })
    }

    fn value(self, text: &str) -> Option<f64> {
        let (number, us) = match self {
            Self::Latency(_) | Self::EndToEnd(_) => match text {
                _ if text.ends_with("us") => (text.strip_suffix("us")?, 1.0),
                _ if text.ends_with("ms") => (text.strip_suffix("ms")?, 1e3),
                _ => (text.strip_suffix('s')?, 1e6),
            },
            _ => (text, 1.0),
        };
        let number: f64 = number.trim().parse().ok()?;
        number.is_finite().then_some(number * us)
    }

    fn of(self, measured: &Measured) -> Option<f64> {
        let flow = measured.produced.or(measured.consumed);
        match self {
            Self::Latency(part) => measured.latency.as_ref().map(|latency| part.of(latency)),
            Self::EndToEnd(part) => measured.end_to_end.as_ref().map(|latency| part.of(latency)),
            Self::RecordsPerS => flow.map(|flow| flow.records_per_s),
            Self::MibPerS => flow.map(|flow| flow.mib_per_s),
            Self::ConsumedRecordsPerS => measured.consumed.map(|flow| flow.records_per_s),
            Self::FailedRecords => Some(measured.failures.values().sum::<u64>() as f64),
            Self::BrokerCpuPerMillion => measured.cost.broker_cpu_s_per_million,
            Self::Saturated => Some(f64::from(u8::from(measured.verdict.is_saturated))),
        }
    }
}

impl LatencyPart {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "mean" => Self::Mean,
            "p50" => Self::P50,
            "p95" => Self::P95,
            "p99" => Self::P99,
            "p99.9" => Self::P999,
            "p99.99" => Self::P9999,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn of(self, latency: &Latency) -> f64 {
        match self {
            Self::Mean => latency.mean_us,
            Self::P50 => latency.p50_us as f64,
            Self::P95 => latency.p95_us as f64,
            Self::P99 => latency.p99_us as f64,
            Self::P999 => latency.p99_9_us as f64,
            Self::P9999 => latency.p99_99_us as f64,
            Self::Max => latency.max_us as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::CountsFrom;
    use crate::stats::Tally;

    #[test]
    fn bounds_are_read_with_their_units() {
        let mut tally = Tally::default();
        (1..=100).for_each(|n| tally.record(n * 1000, 1));
        let latency = Latency::of(&tally, CountsFrom::Due);
        let measured = Measured { latency, ..crate::result::tests::measured() };
        for (text, holds) in [
            ("p99 > 20ms", true),
            ("p99>0.2s", false),
            ("p50 < 60 ms", true),
            ("max >= 100000us", true),
            ("failed_records > 0", false),
            ("end_to_end_p99 > 1us", false),
            ("saturated >= 1", false),
        ] {
            assert_eq!(text.parse::<Criterion>().unwrap().holds_of(&measured), holds, "{text}");
        }
    }

    #[test]
    fn what_is_no_bound_is_said() {
        for (text, part) in [
            ("p99", "is no bound"),
            ("p98 > 1ms", "there are mean, p50"),
            ("p99 > 20", "with us, ms or s"),
            ("mib_per_s < 5ms", "no value"),
            ("p99 = 5ms", "is no bound"),
        ] {
            let error = text.parse::<Criterion>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
