//! What a later run has come to against an earlier one, in a word and in a sentence.

use std::fmt;

use serde::Serialize;

use super::HistoryFigure;
use crate::compare::{Conclusion, Ratio, Side, percent};

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    Better,
    Worse,
    NoDifference,
    Unknown,
}

/// The trend, and by how much, or why it is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub trend: Trend,
    pub reason: String,
}

impl Finding {
    pub(super) fn unknown(reason: &str) -> Self {
        Self { trend: Trend::Unknown, reason: reason.to_owned() }
    }

    /// With the figures that have gone the other way, which a trend must not hide.
    pub(super) fn with_contrary(self, ratios: &[Option<Ratio>; 3]) -> Self {
        let contrary = |figure: &HistoryFigure| {
            let ratio = ratios[*figure as usize].filter(|ratio| ratio.is_noise() == Some(false))?;
            let is_better = (ratio.ratio > 1.0) == (*figure == HistoryFigure::RecordsPerS);
            let is_contrary = self.trend == if is_better { Trend::Worse } else { Trend::Better };
            is_contrary.then(|| format!("{} {}", figure.name(), ratio.change()))
        };
        let contrary: Vec<_> = HistoryFigure::ALL.iter().filter_map(contrary).collect();
        match contrary.is_empty() {
            true => self,
            false => Self { reason: format!("{}, but {}", self.reason, contrary.join(", ")), ..self },
        }
    }

    /// Of the later run as A and the earlier as B.
    pub(super) fn of(conclusion: Conclusion) -> Self {
        let change = |trend, figure: HistoryFigure, ratio| Self {
            trend,
            reason: format!("{} {}", figure.name(), percent(ratio)),
        };
        match conclusion {
            Conclusion::Carries { side, times, is_least } => {
                let (trend, ratio) = match side {
                    Side::A => (Trend::Better, times),
                    Side::B => (Trend::Worse, 1.0 / times),
                };
                let Self { reason, .. } = change(trend, HistoryFigure::RecordsPerS, ratio);
                Self { trend, reason: if is_least { reason + " at least" } else { reason } }
            }
            Conclusion::TakesLonger { side: Side::A, times } => change(Trend::Worse, HistoryFigure::LatencyP99, times),
            Conclusion::TakesLonger { side: Side::B, times } => {
                change(Trend::Better, HistoryFigure::LatencyP99, 1.0 / times)
            }
            Conclusion::TakesMoreCpu { side: Side::A, times } => change(Trend::Worse, HistoryFigure::BrokerCpu, times),
            Conclusion::TakesMoreCpu { side: Side::B, times } => {
                change(Trend::Better, HistoryFigure::BrokerCpu, 1.0 / times)
            }
            Conclusion::NoDifference => Self { trend: Trend::NoDifference, reason: "within the noise".to_owned() },
            Conclusion::Disturbed { side } => {
                let run = if side == Side::A { "the newer" } else { "the older" };
                Self::unknown(&format!("other processes limited {run} run"))
            }
            Conclusion::TooFewRepetitions => Self::unknown("one repetition only"),
            Conclusion::NoFigures => Self::unknown("a run has no throughput"),
        }
    }
}

impl Trend {
    pub const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::NoDifference, Self::Unknown];
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joint = if self.trend == Trend::NoDifference { " " } else { ": " };
        write!(f, "{}{joint}{}", self.trend, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_records_are_better_and_more_time_or_cpu_is_worse() {
        let carries = |side, is_least| Finding::of(Conclusion::Carries { side, times: 1.25, is_least }).to_string();
        assert_eq!(carries(Side::A, false), "better: records/s +25 %");
        assert_eq!(carries(Side::B, true), "worse: records/s -20 % at least");
        let of = |conclusion| Finding::of(conclusion).to_string();
        assert_eq!(of(Conclusion::TakesLonger { side: Side::A, times: 1.031 }), "worse: p99 +3.1 %");
        assert_eq!(of(Conclusion::TakesLonger { side: Side::B, times: 2.0 }), "better: p99 -50 %");
        assert_eq!(of(Conclusion::TakesMoreCpu { side: Side::A, times: 12.0 }), "worse: broker CPU +1100 %");
        assert_eq!(of(Conclusion::TakesMoreCpu { side: Side::B, times: 1.25 }), "better: broker CPU -20 %");
        assert_eq!(of(Conclusion::NoDifference), "no difference within the noise");
        assert_eq!(of(Conclusion::TooFewRepetitions), "unknown: one repetition only");
        assert_eq!(of(Conclusion::Disturbed { side: Side::B }), "unknown: other processes limited the older run");
    }

    #[test]
    fn what_has_gone_the_other_way_is_not_hidden() {
        let faster = Finding::of(Conclusion::Carries { side: Side::A, times: 1.1, is_least: false });
        let more = Ratio::of(&[150.0, 151.0], &[100.0, 101.0]);
        let less = Ratio::of(&[100.0, 101.0], &[150.0, 151.0]);
        let alike = Ratio::of(&[100.0, 101.0], &[101.0, 100.0]);
        let text = |ratios| faster.clone().with_contrary(&ratios).to_string();
        assert_eq!(text([more, less, more]), "better: records/s +10 %, but broker CPU +50 %");
        assert_eq!(text([more, more, more]), "better: records/s +10 %, but p99 +50 %, broker CPU +50 %");
        assert_eq!(text([more, alike, None]), "better: records/s +10 %");
        let slower =
            Finding::of(Conclusion::TakesLonger { side: Side::A, times: 1.5 }).with_contrary(&[alike, more, less]);
        assert_eq!(slower.to_string(), "worse: p99 +50 %, but broker CPU -33 %");
        let unknown = Finding::of(Conclusion::TooFewRepetitions);
        assert_eq!(unknown.clone().with_contrary(&[more, more, more]), unknown);
    }
}
