//! Two sets of figures beside each other: their ratio, how sure it is, and what may be concluded.

mod conclusion;

use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(crate) use conclusion::draw;
pub use conclusion::{Conclusion, Side};

use crate::bottleneck::Limit;
use crate::result::{CaseResult, Measured};

/// Two-sided 95 % points of Student's t, by degrees of freedom from 1 on; beyond, the normal distribution's.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL_95: f64 = 1.96;
/// Closer than this is no difference, however alike repetitions are.
const LEAST_DIFFERENCE: f64 = 0.01;

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
    /// Whether one side's measurements reach into the range of the other's, or runs of one build may be as far apart.
    pub is_within_spread: bool,
}

impl Ratio {
    /// `None` where one side has nothing, or what is not above 0.
    pub fn of(first: &[f64], second: &[f64]) -> Option<Self> {
        if first.iter().chain(second).any(|&value| value <= 0.0) {
            return None;
        }
        let (spread_a, spread_b) = (Spread::of(first)?, Spread::of(second)?);
        let (a, b) = (Moments::of_logarithms(first), Moments::of_logarithms(second));
        let difference = a.mean - b.mean;
        let interval = (first.len() > 1 && second.len() > 1).then(|| {
            let (va, vb) = (a.variance / a.count, b.variance / b.count);
            let error = (va + vb).sqrt();
            let freedom = match va + vb > 0.0 {
                true => (va + vb).powi(2) / (va.powi(2) / (a.count - 1.0) + vb.powi(2) / (b.count - 1.0)),
                false => a.count + b.count - 2.0,
            };
            let t = t_95(freedom.floor() as usize);
            ((difference - t * error).exp(), (difference + t * error).exp())
        });
        let is_within_spread = spread_a.least <= spread_b.most && spread_b.least <= spread_a.most;
        Some(Self { ratio: difference.exp(), interval, is_within_spread })
    }

    /// How much more or less the first is: `+31 %`.
    pub fn change(&self) -> String {
        percent(self.ratio)
    }

    /// Whether the two may be the same; without an interval that is unknown.
    pub fn is_noise(&self) -> Option<bool> {
        let is_alike = self.is_within_spread || (self.ratio.ln().abs() < LEAST_DIFFERENCE);
        self.interval.map(|(least, most)| is_alike || (least <= 1.0 && 1.0 <= most))
    }
}

/// A ratio as a change: `+31 %`, with a decimal where it is small.
pub(crate) fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let digits = usize::from(percent.abs() < 9.95);
    format!("{percent:+.digits$} %")
}

/// How many standard deviations hold 95 %.
pub(crate) fn t_95(freedom: usize) -> f64 {
    T_95.get(freedom.max(1) - 1).copied().unwrap_or(NORMAL_95)
}

pub(crate) struct Moments {
    count: f64,
    pub mean: f64,
    pub variance: f64,
}

impl Moments {
    pub(crate) fn of_logarithms(values: &[f64]) -> Self {
        let values: Vec<_> = values.iter().map(|value| value.ln()).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { count, mean, variance: if count > 1.0 { squares / (count - 1.0) } else { 0.0 } }
    }
}

/// One figure on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedFigure {
    pub first: Option<Spread>,
    pub second: Option<Spread>,
    pub ratio: Option<Ratio>,
}

/// What is to be known of one side of a case besides its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedSide {
    /// How many repetitions were limited by what, the most frequent first.
    pub limits: Vec<(Limit, usize)>,
    /// Whether a repetition was offered more than it carried: then there is no latency to compare.
    pub is_saturated: bool,
    pub warnings: Vec<String>,
}

/// One case of two runs, or of two targets.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedCase {
    pub id: String,
    pub title: String,
    pub first: ComparedSide,
    pub second: ComparedSide,
    /// Records per second.
    pub throughput: ComparedFigure,
    /// Seconds per million records.
    pub broker_cpu_per_record: ComparedFigure,
    /// In milliseconds; only where neither is saturated.
    pub latency_p99: ComparedFigure,
    pub conclusion: Conclusion,
}

/// The cases that both sides have measured, the first over the second.
pub fn compare<'a>(
    first: impl Iterator<Item = &'a CaseResult>,
    second: impl Iterator<Item = &'a CaseResult>,
) -> Vec<ComparedCase> {
    let (first, second) = (by_case(first), by_case(second));
    let mut compared: Vec<_> = first.iter().filter_map(|(id, a)| Some((a, second.get(id)?))).collect();
    compared.sort_by_key(|(a, _)| a[0].number);
    compared.iter().map(|(a, b)| compare_case(a, b)).collect()
}

fn by_case<'a>(cases: impl Iterator<Item = &'a CaseResult>) -> BTreeMap<&'a str, Vec<&'a CaseResult>> {
    let mut by_case = BTreeMap::<_, Vec<&CaseResult>>::new();
    for case in cases.filter(|case| case.measured().is_some()) {
        by_case.entry(case.id.as_str()).or_default().push(case);
    }
    by_case
}

fn compare_case(first: &[&CaseResult], second: &[&CaseResult]) -> ComparedCase {
    let (a, b) = (Figures::of(first), Figures::of(second));
    let figure =
        |a: &[f64], b: &[f64]| ComparedFigure { first: Spread::of(a), second: Spread::of(b), ratio: Ratio::of(a, b) };
    let throughput = figure(&a.throughput, &b.throughput);
    let broker_cpu = figure(&a.broker_cpu, &b.broker_cpu);
    let latency_p99 = if a.side.is_saturated || b.side.is_saturated {
        ComparedFigure { first: None, second: None, ratio: None }
    } else {
        figure(&a.latency_p99, &b.latency_p99)
    };
    ComparedCase {
        id: first[0].id.clone(),
        title: first[0].title.clone(),
        broker_cpu_per_record: broker_cpu,
        conclusion: draw((&a.side, &b.side), throughput.ratio, latency_p99.ratio, broker_cpu.ratio),
        first: a.side,
        second: b.side,
        throughput,
        latency_p99,
    }
}

/// What the repetitions of a case have measured, in their order: the figures that are compared.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Records per second.
    pub throughput: Vec<f64>,
    /// Seconds per million records.
    pub broker_cpu: Vec<f64>,
    /// In milliseconds; empty where a repetition is saturated.
    pub latency_p99: Vec<f64>,
    pub side: ComparedSide,
}

impl Figures {
    pub(crate) fn of(cases: &[&CaseResult]) -> Self {
        let values = |of: fn(&Measured) -> Option<f64>| cases.iter().filter_map(|case| of(case.measured()?)).collect();
        let side = side(cases);
        let p99_ms = |measured: &Measured| measured.latency.as_ref().map(|latency| latency.p99_us as f64 / 1000.0);
        Self {
            throughput: values(|measured| measured.produced.or(measured.consumed).map(|flow| flow.records_per_s)),
            broker_cpu: values(|measured| measured.cost.broker_cpu_s_per_million),
            latency_p99: if side.is_saturated { Vec::new() } else { values(p99_ms) },
            side,
        }
    }
}

fn side(cases: &[&CaseResult]) -> ComparedSide {
    let measured = || cases.iter().filter_map(|case| Some((case.repetition, case.measured()?)));
    let mut limits = BTreeMap::new();
    for (_, measured) in measured() {
        *limits.entry(measured.verdict.limit).or_default() += 1;
    }
    let mut limits: Vec<_> = limits.into_iter().collect();
    limits.sort_by_key(|(_, count)| Reverse(*count));
    let warnings = measured().flat_map(|(repetition, measured)| {
        let warnings = measured.verdict.warnings.iter();
        warnings.map(move |warning| format!("repetition {repetition}: {warning}"))
    });
    let is_saturated = measured().any(|(_, measured)| measured.verdict.is_saturated);
    ComparedSide { limits, is_saturated, warnings: warnings.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_probe::HostFacts;
    use crate::result::{CountsFrom, Flow, Latency, Outcome, Preflight, SCHEMA_VERSION};
    use crate::stats::Tally;

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

    #[test]
    fn measurements_that_overlap_are_noise_whatever_the_interval_says() {
        let (first, second) = ([100.0, 103.0, 103.0, 103.0, 103.0, 103.0], [99.0, 99.0, 99.0, 99.0, 99.0, 100.5]);
        let ratio = Ratio::of(&first, &second).unwrap();
        assert!(ratio.interval.unwrap().0 > 1.0 && ratio.is_within_spread, "{ratio:?}");
        assert_eq!(ratio.is_noise(), Some(true));
        let ratio = Ratio::of(&[1.001, 1.0011], &[1.0, 1.0001]).unwrap();
        assert!(!ratio.is_within_spread);
        assert_eq!(ratio.is_noise(), Some(true), "less than 1 %");
    }

    fn case(id: &str, repetition: u32, records_per_s: f64, limit: Limit) -> CaseResult {
        let mut measured = crate::result::tests::measured();
        measured.produced = Some(Flow { records_per_s, ..Flow::default() });
        measured.cost.broker_cpu_s_per_million = Some(4.0);
        let mut tally = Tally::default();
        tally.record(1000, 1);
        measured.latency = Latency::of(&tally, CountsFrom::Due);
        measured.verdict.limit = limit;
        measured.verdict.is_saturated = limit == Limit::ClientBuffer;
        measured.verdict.warnings = if limit == Limit::ClientCpu { vec!["disturbed".to_owned()] } else { Vec::new() };
        CaseResult {
            schema: SCHEMA_VERSION,
            number: 1,
            id: id.to_owned(),
            group: id.to_owned(),
            title: "Batches".to_owned(),
            axes: BTreeMap::new(),
            parameters: BTreeMap::new(),
            target: String::new(),
            repetition,
            started: String::new(),
            reproduce: String::new(),
            host: HostFacts::default(),
            preflight: Preflight::default(),
            published: None,
            outcome: Outcome::Measured(Box::new(measured)),
        }
    }

    #[test]
    fn a_case_has_the_figures_of_both_sides_and_what_limited_them() {
        let rates = [(1, 200.0, Limit::ClientCpu), (2, 202.0, Limit::BrokerCpu), (3, 201.0, Limit::BrokerCpu)];
        let first: Vec<_> = rates.map(|(repetition, rate, limit)| case("H1", repetition, rate, limit)).into();
        let rates = [(1, 100.0, Limit::ClientCpu), (2, 101.0, Limit::ClientBuffer)];
        let mut second: Vec<_> = rates.map(|(repetition, rate, limit)| case("H1", repetition, rate, limit)).into();
        second.push(case("H2", 1, 1.0, Limit::Unknown));
        let compared = compare(first.iter(), second.iter());
        assert_eq!(compared.len(), 1, "what both have measured");
        let ComparedCase { first, second, throughput, latency_p99, broker_cpu_per_record, conclusion, .. } =
            &compared[0];
        assert_eq!(first.limits, [(Limit::BrokerCpu, 2), (Limit::ClientCpu, 1)]);
        assert_eq!(first.warnings, ["repetition 1: disturbed"]);
        assert!(second.is_saturated && !first.is_saturated);
        assert_eq!(throughput.first, Some(Spread { median: 201.0, least: 200.0, most: 202.0, count: 3 }));
        assert_eq!(throughput.second, Some(Spread { median: 100.5, least: 100.0, most: 101.0, count: 2 }));
        assert_eq!(broker_cpu_per_record.first.unwrap().median, 4.0);
        assert_eq!(latency_p99, &ComparedFigure { first: None, second: None, ratio: None }, "one run was saturated");
        assert_eq!(conclusion.to_string(), "A carries 2.0 times as many records");
    }
}
