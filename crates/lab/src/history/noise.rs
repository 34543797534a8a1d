//! How far runs of one build are apart, which no change of the program can have made.

use std::collections::BTreeMap;
use std::f64::consts::SQRT_2;

use super::{HistoryFigure, Sample};
use crate::compare::{Moments, Ratio, t_95};

/// Of one figure, in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BuildNoise {
    /// Between the means of two runs of a build, at most.
    most: f64,
    /// Of single repetitions, one of each run.
    deviation: f64,
    /// How many runs tell that, beyond the first of each build.
    freedom: usize,
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
        let means =
            |runs: &Vec<&[f64]>| -> Vec<_> { runs.iter().map(|values| Moments::of_logarithms(values).mean).collect() };
        let range = |means: Vec<f64>| {
            means
                .iter()
                .copied()
                .reduce(f64::max)
                .zip(means.iter().copied().reduce(f64::min))
                .map_or(0.0, |(a, b)| a - b)
        };
        let most = builds.values().map(|runs| range(means(runs))).reduce(f64::max)?;
        let freedom = builds.values().map(|runs| runs.len() - 1).sum();
        let squares: f64 = builds
            .values()
            .map(|runs| {
                let firsts: Vec<_> = runs.iter().map(|values| values[0]).collect();
                Moments::of_logarithms(&firsts).variance * (runs.len() - 1) as f64
            })
            .sum();
        Some(Self { most, deviation: (squares / freedom as f64).sqrt(), freedom })
    }

    /// Runs of one build say what may come of nothing: a difference that they have too, and, where a side has no
    /// repetitions to tell, the interval of 95 % between two single ones.
    pub(super) fn applied_to(&self, ratio: Ratio) -> Ratio {
        let width = t_95(self.freedom) * self.deviation * SQRT_2;
        let between_single = (ratio.ratio * (-width).exp(), ratio.ratio * width.exp());
        Ratio {
            interval: ratio.interval.or(Some(between_single)),
            is_within_spread: ratio.is_within_spread || ratio.ratio.ln().abs() <= self.most,
            ..ratio
        }
    }
}
