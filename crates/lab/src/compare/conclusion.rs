//! What may be said of two sides of a case: one sentence, or why there is none.

use std::fmt;

use super::{ComparedSide, Ratio};
use crate::bottleneck::Limit;

/// A is the first, B the second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    A,
    B,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Conclusion {
    /// It carries so many times as many records as the other; more where it was asked for no more.
    Carries { side: Side, times: f64, is_least: bool },
    /// Both carry the rate that was asked for, and records of one take so many times as long.
    TakesLonger { side: Side, times: f64 },
    /// Alike in that, it takes so many times as much broker CPU.
    TakesMoreCpu { side: Side, times: f64 },
    /// Nothing that the repetitions of one side do not differ by themselves.
    NoDifference,
    /// Other processes limited most repetitions of one side, or half.
    Disturbed { side: Side },
    /// What repetitions differ by is not known.
    TooFewRepetitions,
    /// There is no figure on one of the sides.
    NoFigures,
}

/// Of throughput, or of latency where the rate was asked for; of broker CPU where they are alike in that.
pub(crate) fn draw(
    (first, second): (&ComparedSide, &ComparedSide),
    throughput: Option<Ratio>,
    latency_p99: Option<Ratio>,
    broker_cpu: Option<Ratio>,
) -> Conclusion {
    for (side, of_side) in [(Side::A, first), (Side::B, second)] {
        if of_side.is_disturbed() {
            return Conclusion::Disturbed { side };
        }
    }
    let Some(throughput) = throughput else { return Conclusion::NoFigures };
    if throughput.is_noise().is_none() {
        return Conclusion::TooFewRepetitions;
    }
    let reaches_rate = |side: &ComparedSide| part_limited_by(side, Limit::TargetRate) >= 1.0;
    if reaches_rate(first) && reaches_rate(second) {
        if let Some((side, times)) = larger(latency_p99) {
            return Conclusion::TakesLonger { side, times };
        }
    } else if let Some((side, times)) = larger(Some(throughput)) {
        let is_least = reaches_rate(if side == Side::A { first } else { second });
        return Conclusion::Carries { side, times, is_least };
    }
    larger(broker_cpu).map_or(Conclusion::NoDifference, |(side, times)| Conclusion::TakesMoreCpu { side, times })
}

/// The part of its repetitions.
fn part_limited_by(side: &ComparedSide, limit: Limit) -> f64 {
    let all: usize = side.limits.iter().map(|(_, count)| count).sum();
    let found = side.limits.iter().find(|(one, _)| *one == limit).map_or(0, |(_, count)| *count);
    found as f64 / all.max(1) as f64
}

/// The side that has more, where that is more than noise.
fn larger(ratio: Option<Ratio>) -> Option<(Side, f64)> {
    let ratio = ratio.filter(|ratio| ratio.is_noise() == Some(false))?.ratio;
    Some(if ratio >= 1.0 { (Side::A, ratio) } else { (Side::B, 1.0 / ratio) })
}

impl ComparedSide {
    /// Whether other processes limited half of its repetitions, or more.
    pub(crate) fn is_disturbed(&self) -> bool {
        part_limited_by(self, Limit::Noise) >= 0.5
    }
}

impl Conclusion {
    /// Whether it tells the sides apart.
    pub fn is_difference(&self) -> bool {
        matches!(self, Self::Carries { .. } | Self::TakesLonger { .. } | Self::TakesMoreCpu { .. })
    }
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Carries { side, times, is_least } => {
                let least = if *is_least { " at least" } else { "" };
                write!(f, "{side} carries{least} {} times as many records", Times(*times))
            }
            Self::TakesLonger { side, times } => {
                let (other, times) = (side.other(), Times(*times));
                write!(f, "both carry the rate; the p99 of {side} is {times} times that of {other}")
            }
            Self::TakesMoreCpu { side, times } => {
                write!(f, "both carry as many records; {side} takes {} times the broker CPU", Times(*times))
            }
            Self::NoDifference => f.write_str("no difference: within the noise"),
            Self::Disturbed { side } => {
                write!(f, "no conclusion: other processes limited half of the repetitions of {side} or more")
            }
            Self::TooFewRepetitions => f.write_str("no conclusion: it takes two repetitions of each side to tell"),
            Self::NoFigures => f.write_str("no conclusion: a side has no throughput"),
        }
    }
}

/// A decimal of a factor, two of one that is nearly 1.
struct Times(f64);

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.0 < 10.0) + usize::from(self.0 < 1.2);
        write!(f, "{:.digits$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(limits: &[(Limit, usize)]) -> ComparedSide {
        ComparedSide { limits: limits.to_vec(), is_saturated: false, warnings: Vec::new() }
    }

    fn text(a: &ComparedSide, b: &ComparedSide, rates: [&[f64]; 2], p99_ms: [&[f64]; 2]) -> String {
        draw((a, b), Ratio::of(rates[0], rates[1]), Ratio::of(p99_ms[0], p99_ms[1]), None).to_string()
    }

    const FAST: &[f64] = &[180.0, 181.0, 179.0];
    const SLOW: &[f64] = &[100.0, 101.0, 99.0];
    const NONE: [&[f64]; 2] = [&[], &[]];

    #[test]
    fn the_side_that_carries_more_is_named() {
        let free = side(&[(Limit::BrokerCpu, 3)]);
        assert_eq!(text(&free, &free, [FAST, SLOW], NONE), "A carries 1.8 times as many records");
        assert_eq!(text(&free, &free, [SLOW, FAST], NONE), "B carries 1.8 times as many records");
        let near = [&[103.0, 103.1, 103.2][..], &[100.0, 100.1, 100.2][..]];
        assert_eq!(text(&free, &free, near, NONE), "A carries 1.03 times as many records");
        let at_rate = side(&[(Limit::TargetRate, 3)]);
        assert_eq!(text(&at_rate, &free, [FAST, SLOW], NONE), "A carries at least 1.8 times as many records");
        assert_eq!(text(&free, &at_rate, [FAST, SLOW], NONE), "A carries 1.8 times as many records");
    }

    #[test]
    fn what_differs_no_more_than_repetitions_is_no_difference() {
        let free = side(&[(Limit::BrokerCpu, 3)]);
        let alike = [&[100.0, 110.0, 90.0][..], &[101.0, 95.0, 108.0][..]];
        assert_eq!(text(&free, &free, alike, NONE), "no difference: within the noise");
        assert_eq!(text(&free, &free, [SLOW, SLOW], NONE), "no difference: within the noise");
    }

    #[test]
    fn at_a_rate_that_both_carry_latency_decides() {
        let at_rate = side(&[(Limit::TargetRate, 3)]);
        let expected = "both carry the rate; the p99 of B is 1.8 times that of A";
        assert_eq!(text(&at_rate, &at_rate, [SLOW, SLOW], [SLOW, FAST]), expected);
        let expected = "no difference: within the noise";
        assert_eq!(text(&at_rate, &at_rate, [FAST, SLOW], [SLOW, SLOW]), expected);
        assert_eq!(text(&at_rate, &at_rate, [FAST, SLOW], NONE), expected);
        let mostly = side(&[(Limit::TargetRate, 2), (Limit::BrokerCpu, 1)]);
        assert_eq!(text(&at_rate, &mostly, [SLOW, SLOW], [SLOW, FAST]), "no difference: within the noise");
    }

    #[test]
    fn sides_that_are_alike_may_differ_in_broker_cpu() {
        let [free, at_rate] = [Limit::BrokerCpu, Limit::TargetRate].map(|limit| side(&[(limit, 3)]));
        let (same, cpu) = (Ratio::of(SLOW, SLOW), Ratio::of(SLOW, FAST));
        for side in [&free, &at_rate] {
            let text = draw((side, side), same, same, cpu).to_string();
            assert_eq!(text, "both carry as many records; B takes 1.8 times the broker CPU");
            assert_eq!(draw((side, side), same, same, same), Conclusion::NoDifference);
        }
        let text = draw((&free, &free), Ratio::of(FAST, SLOW), None, cpu).to_string();
        assert_eq!(text, "A carries 1.8 times as many records", "throughput comes first");
    }

    #[test]
    fn one_repetition_or_other_processes_conclude_nothing() {
        let free = side(&[(Limit::BrokerCpu, 1)]);
        let expected = "no conclusion: it takes two repetitions of each side to tell";
        assert_eq!(text(&free, &free, [&FAST[..1], SLOW], NONE), expected);
        let at_rate = side(&[(Limit::TargetRate, 1)]);
        assert_eq!(text(&at_rate, &at_rate, [&SLOW[..1], SLOW], [SLOW, FAST]), expected);
        let disturbed = side(&[(Limit::BrokerCpu, 1), (Limit::Noise, 1)]);
        let expected = "no conclusion: other processes limited half of the repetitions of B or more";
        assert_eq!(text(&free, &disturbed, [FAST, SLOW], NONE), expected);
        assert_eq!(text(&free, &free, NONE, NONE), "no conclusion: a side has no throughput");
        assert!(!draw((&free, &disturbed), None, None, None).is_difference());
    }
}
