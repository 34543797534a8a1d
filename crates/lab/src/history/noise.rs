//! How far runs of one build are apart, which no change of the program can have made.

use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;

use super::{HistoryFigure, Sample};
use crate::compare::{Moments, Ratio, t_95};

/// Of one figure: what two runs of a build may be apart, as intervals of 95 % in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BuildNoise {
    /// Between the means of all their repetitions.
    between_runs: f64,
    /// Between one repetition of each.
    between_repetitions: f64,
}

impl BuildNoise {
    /// `None` where no build has two runs. Runs that other processes have limited tell nothing of the others.
    pub(super) fn of(samples: &[Sample], figure: HistoryFigure) -> Option<Self> {
        let mut builds = BTreeMap::<&str, Vec<&[f64]>>::new();
        for sample in samples.iter().filter(|sample| !sample.figures.side.is_disturbed()) {
            let values = figure.values(&sample.figures);
            if let Some(build) = &sample.build
                && !values.is_empty()
                && values.iter().all(|value| *value > 0.0)
            {
                builds.entry(build.as_str()).or_default().push(values);
            }
        }
        builds.retain(|_, runs| runs.len() > 1);
        let freedom: usize = builds.values().map(|runs| runs.len() - 1).sum();
        let interval = |value: fn(&[f64]) -> f64| {
            let squares = builds.values().map(|runs| {
                let values: Vec<_> = runs.iter().map(|repetitions| value(repetitions)).collect();
                Moments::of_logarithms(&values).variance * (runs.len() - 1) as f64
            });
            t_95(freedom) * (squares.sum::<f64>() / freedom as f64).sqrt() * SQRT_2
        };
        (freedom > 0).then(|| Self {
            between_runs: interval(|repetitions| Moments::of_logarithms(repetitions).mean.exp()),
            between_repetitions: interval(|repetitions| repetitions[0]),
        })
    }

    /// The repetitions of a run do not tell what changes on the machine from run to run: runs of one build do. Where a
    /// side has no repetitions, they tell all that is known of noise.
    pub(super) fn applied_to(&self, ratio: Ratio) -> Ratio {
        let width = self.between_repetitions;
        let between_single = (ratio.ratio * (-width).exp(), ratio.ratio * width.exp());
        Ratio {
            interval: ratio.interval.or(Some(between_single)),
            is_within_spread: ratio.is_within_spread || ratio.ratio.ln().abs() <= self.between_runs,
            ..ratio
        }
    }
}
