//! A case on one target with its repetitions: which of them is shown, and how far they differ.

use std::collections::BTreeMap;

use super::measure;
use super::relation::Relation;
use crate::compare::Spread;
use crate::result::{CaseResult, Latency, Measure, Measured, Outcome, RunFacts};

pub(super) struct Group<'a> {
    /// Its anchor in the page.
    pub anchor: String,
    /// The repetition in the middle by throughput; the first one where nothing was measured.
    pub case: &'a CaseResult,
    /// By repetition.
    pub runs: Vec<&'a CaseResult>,
    /// The base case of what was published, on the same target; likewise the repetition in the middle.
    pub base: Option<&'a CaseResult>,
}

impl<'a> Group<'a> {
    fn new(anchor: String, mut runs: Vec<&'a CaseResult>) -> Self {
        runs.sort_by_key(|case| case.repetition);
        let rate =
            |case: &CaseResult| case.measured().and_then(measure::throughput).map_or(0.0, |flow| flow.records_per_s);
        let mut measured: Vec<_> = runs.iter().copied().filter(|case| case.measured().is_some()).collect();
        measured.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let case = measured.get(measured.len().saturating_sub(1) / 2).copied().unwrap_or(runs[0]);
        Self { anchor, case, runs, base: None }
    }

    pub(super) fn measured(&self) -> Option<&'a Measured> {
        self.case.measured()
    }

    /// A figure of the repetition in the middle.
    pub(super) fn value(&self, measure: Measure) -> Option<f64> {
        if measure == Measure::BrokerCpuRatio {
            return Relation::cpu(self.case, self.base?).ours;
        }
        self.measured().and_then(|measured| measure::value(measure, measured))
    }

    /// In the same unit as [`Self::value`].
    pub(super) fn published(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::BrokerCpuRatio => Relation::cpu(self.case, self.base?).published,
            measure => measure::published(measure, self.case.published.as_ref()?),
        }
    }

    /// A figure of each repetition that has it.
    pub(super) fn values(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|case| figure(case.measured()?)).collect()
    }

    /// Records per second that were produced, or consumed where it only consumes.
    pub(super) fn rate(&self) -> Option<f64> {
        self.measured().and_then(measure::throughput).map(|flow| flow.records_per_s)
    }

    /// The least and the most of all repetitions, where there are several.
    pub(super) fn spread(&self, measure: Measure) -> Option<(f64, f64)> {
        let spread = Spread::of(&self.values(|measured| measure::value(measure, measured)))?;
        (spread.count > 1).then_some((spread.least, spread.most))
    }

    pub(super) fn is_saturated(&self) -> bool {
        self.measured().is_some_and(|measured| measured.verdict.is_saturated)
    }

    /// What may be said about latency: nothing for a saturated run, whose records only waited in its own queue.
    pub(super) fn honest_latency(&self) -> Option<&'a Latency> {
        self.measured().filter(|measured| !measured.verdict.is_saturated).and_then(measure::latency)
    }

    /// What a reader has to know of any of the repetitions.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for case in &self.runs {
            let found = match &case.outcome {
                Outcome::Measured(measured) => measured.verdict.warnings.clone(),
                Outcome::Failed { reason } => vec![format!("failed: {reason}")],
                Outcome::Skipped { .. } => Vec::new(),
            };
            let is_one_of_many = self.runs.len() > 1;
            let named = |text| if is_one_of_many { format!("repetition {}: {text}", case.repetition) } else { text };
            warnings.extend(found.into_iter().map(named));
        }
        warnings
    }
}

/// In the order of the scenario, and of the run's targets within a case.
pub(super) fn groups<'a>(run: &RunFacts, cases: &'a [CaseResult]) -> Vec<Group<'a>> {
    let rank = |case: &'a CaseResult| {
        let target = run.targets.iter().position(|target| target.label == case.target);
        (case.number, &case.id, target.unwrap_or(run.targets.len()), &case.target)
    };
    let mut ordered: Vec<_> = cases.iter().collect();
    ordered.sort_by_key(|case| rank(case));
    let together = ordered.chunk_by(|a, b| a.id == b.id && a.target == b.target);
    let mut groups: Vec<_> =
        together.enumerate().map(|(at, runs)| Group::new(format!("case-{}", at + 1), runs.to_vec())).collect();
    let by_id: BTreeMap<_, _> =
        groups.iter().map(|group| ((group.case.id.as_str(), group.case.target.as_str()), group.case)).collect();
    for group in &mut groups {
        let base = group.case.published.as_ref().and_then(|published| published.base_case.as_deref());
        group.base = base.and_then(|id| by_id.get(&(id, group.case.target.as_str())).copied());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn the_repetition_in_the_middle_speaks_for_all() {
        let run = sample::run();
        let mut cases = Vec::new();
        for (repetition, records_per_s) in [(1, 300.0), (2, 100.0), (3, 200.0)] {
            cases.push(sample::measured("A", "kafka", repetition, records_per_s));
        }
        cases.push(sample::measured("A", "parshall", 1, 50.0));
        let failed = Outcome::Failed { reason: "gone".to_owned() };
        cases.push(CaseResult { outcome: failed, repetition: 2, ..cases[3].clone() });
        let groups = groups(&run, &cases);
        let names: Vec<_> = groups.iter().map(|group| (group.case.target.as_str(), group.case.repetition)).collect();
        assert_eq!(names, [("parshall", 1), ("kafka", 3)]);
        assert_eq!(groups[1].value(Measure::RecordsPerS).map(f64::round), Some(200.0));
        let spread = groups[1].spread(Measure::RecordsPerS).map(|(least, most)| (least.round(), most.round()));
        assert_eq!(spread, Some((100.0, 300.0)));
        assert_eq!(groups[0].spread(Measure::RecordsPerS), None);
        assert_eq!(groups[0].warnings(), ["repetition 2: failed: gone"]);
    }
}
