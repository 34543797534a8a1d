//! Two sets of figures beside each other: their ratio, how sure it is, and whether it is more than noise.

use std::collections::BTreeMap;

use crate::result::{CaseResult, Measured};

/// Two-sided 95 % points of Student's t, by degrees of freedom from 1 on; beyond, the normal distribution's.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL_95: f64 = 1.96;

/// Some measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
    pub count: usize,
}

impl Spread {
    /// `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) };
        Some(Self { median, least, most, count: sorted.len() })
    }
}

/// The first over the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub ratio: f64,
    /// Of 95 %, by Welch's t of the logarithms; `None` with fewer than two measurements of each.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// `None` where one side has nothing, or what is not above 0.
    pub fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        let logarithms = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
        if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|&value| value <= 0.0) {
            return None;
        }
        let (a, b) = (Moments::of(&logarithms(first)), Moments::of(&logarithms(second)));
        let difference = a.mean - b.mean;
        let interval = (first.len() > 1 && second.len() > 1).then(|| {
            let (va, vb) = (a.variance / a.count, b.variance / b.count);
            let error = (va + vb).sqrt();
            let freedom = match va + vb > 0.0 {
                true => (va + vb).powi(2) / (va.powi(2) / (a.count - 1.0) + vb.powi(2) / (b.count - 1.0)),
                false => a.count + b.count - 2.0,
            };
            let t = T_95.get((freedom.floor() as usize).max(1) - 1).copied().unwrap_or(NORMAL_95);
            ((difference - t * error).exp(), (difference + t * error).exp())
        });
        Some(Self { ratio: difference.exp(), interval })
    }

    /// Whether the two may be the same; without an interval that is unknown.
    pub fn is_noise(&self) -> Option<bool> {
        self.interval.map(|(least, most)| least <= 1.0 && 1.0 <= most)
    }
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance: if count > 1.0 { squares / (count - 1.0) } else { 0.0 } }
    }
}

/// One case of two runs, or of two targets.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedCase {
    pub id: String,
    pub throughput: Option<Ratio>,
    pub broker_cpu_per_record: Option<Ratio>,
    /// Only where neither is saturated.
    pub latency_p99: Option<Ratio>,
}

/// The cases that both sides have measured, the first over the second.
pub fn compare<'a>(
    first: impl Iterator<Item = &'a CaseResult>,
    second: impl Iterator<Item = &'a CaseResult>,
) -> Vec<ComparedCase> {
    let (first, second) = (by_case(first), by_case(second));
    let mut compared: Vec<_> = first.iter().filter_map(|(key, a)| second.get(key).map(|b| (key, a, b))).collect();
    compared.sort_by_key(|(_, a, _)| a[0].number);
    compared.iter().map(|(id, a, b)| compare_case(id, a, b)).collect()
}

fn by_case<'a>(cases: impl Iterator<Item = &'a CaseResult>) -> BTreeMap<String, Vec<&'a CaseResult>> {
    let mut by_case = BTreeMap::<String, Vec<&CaseResult>>::new();
    for case in cases.filter(|case| case.measured().is_some()) {
        by_case.entry(case.id.clone()).or_default().push(case);
    }
    by_case
}

fn compare_case(id: &str, first: &[&CaseResult], second: &[&CaseResult]) -> ComparedCase {
    let ratio = |figure: fn(&Measured) -> Option<f64>| {
        let of = |cases: &[&CaseResult]| cases.iter().filter_map(|case| figure(case.measured()?)).collect::<Vec<_>>();
        Ratio::of(&of(first), &of(second))
    };
    ComparedCase {
        id: id.to_owned(),
        throughput: ratio(|measured| measured.produced.or(measured.consumed).map(|flow| flow.records_per_s)),
        broker_cpu_per_record: ratio(|measured| measured.cost.broker_cpu_s_per_million),
        latency_p99: ratio(|measured| {
            measured.latency.as_ref().filter(|_| !measured.verdict.is_saturated).map(|latency| latency.p99_us as f64)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_middle_and_its_ends() {
        let spread = Spread::of(&[3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((spread.least, spread.median, spread.most, spread.count), (1.0, 2.5, 10.0, 4));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_difference_within_the_spread_is_noise() {
        let ratio = Ratio::of(&[100.0, 110.0, 90.0], &[101.0, 95.0, 108.0]).unwrap();
        assert_eq!(ratio.is_noise(), Some(true), "{ratio:?}");
        let ratio = Ratio::of(&[200.0, 205.0, 198.0], &[100.0, 101.0, 99.0]).unwrap();
        let (least, most) = ratio.interval.unwrap();
        assert!((1.99..2.03).contains(&ratio.ratio) && least > 1.9 && most < 2.1, "{ratio:?}");
        assert_eq!(ratio.is_noise(), Some(false));
    }

    #[test]
    fn one_measurement_tells_nothing_of_noise() {
        let ratio = Ratio::of(&[4.0], &[2.0, 2.0]).unwrap();
        assert_eq!((ratio.is_noise(), ratio.interval), (None, None));
        assert!((ratio.ratio - 2.0).abs() < 1e-9);
        assert_eq!(Ratio::of(&[], &[1.0]), None);
        assert_eq!(Ratio::of(&[0.0], &[1.0]), None);
    }

    #[test]
    fn equal_measurements_have_an_interval_of_no_length() {
        let ratio = Ratio::of(&[2.0, 2.0], &[1.0, 1.0]).unwrap();
        let (least, most) = ratio.interval.unwrap();
        assert!((least - 2.0).abs() < 1e-9 && (most - 2.0).abs() < 1e-9);
    }
}
