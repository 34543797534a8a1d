//! The highest rate that meets a goal, and how latency grows on the way there.
//!
//! A first run as fast as possible finds the limit. Parts of that rate, ever larger, draw the curve until the goal is
//! missed; then the gap between the last rate that met it and the first that did not is halved until it is narrow
//! enough. A rate that was not reached has not met the goal, whatever its latency says.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::criterion::Criterion;
use crate::result::{Capacity, CapacityStep, CaseResult, SearchFacts};
use crate::run::{Event, Plan, Results, RunError, Session, Turn};
use crate::scenario::Case;

/// Parts of the rate without a limit that draw the curve.
const CURVE: [f64; 8] = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0];
/// How long the first run may be; it only has to find the order of magnitude.
const UNLIMITED_S: f64 = 5.0;
/// The widest gap that is ever halved, as a factor: the first two parts of the curve.
const GAP_MAX: f64 = 2.0;
/// Less than this part of the rate without a limit is not tried.
const LOWEST: f64 = 0.01;
const GROUP: &str = "capacity";
const RATE: &str = "rate_records_per_s";

/// Searches on each target of the plan, whose scenario has the load as its one case. `precision` is how close the
/// answer is to be, as a part of it.
pub async fn capacity(
    plan: &Plan,
    goal: &Criterion,
    precision: f64,
    stop: &Arc<AtomicBool>,
    mut show: impl FnMut(Event<'_>),
) -> Result<Results, RunError> {
    let (mut session, _) = Session::start(plan, stop, &mut show).await?;
    let mut cases = Vec::new();
    let mut found = Vec::new();
    let load = plan.scenario.cases.first().map(|case| case.load.clone()).unwrap_or_default();
    for (index, target) in session.targets.iter().enumerate() {
        let later_max = (session.targets.len() - index - 1) * steps_max(precision);
        let turn = |before: &[CaseResult], left_max: usize| {
            let number = before.len() + 1;
            Turn { case: number, repetition: 1, number, of: number + left_max + later_max, is_at_most: true }
        };
        let mut search = Search { goal, steps: Vec::new() };
        let mut unlimited = Case::plain("unlimited", load.clone());
        unlimited.load.rate_records_per_s = 0.0;
        unlimited.load.duration_s = unlimited.load.duration_s.min(UNLIMITED_S);
        let result = session.measure(&unlimited, target, turn(&cases, steps_max(precision) - 1), &mut show).await?;
        let end = result.measured().and_then(|measured| measured.produced).map_or(0.0, |flow| flow.records_per_s);
        cases.push(result);
        while let Some(rate) = search.next_rate(end, precision) {
            if session.is_stopped() {
                break;
            }
            let mut case = Case::plain(GROUP, load.clone());
            case.id = format!("{GROUP}/{RATE}={rate:.0}");
            case.axes.insert(RATE.to_owned(), format!("{rate:.0}"));
            case.load.rate_records_per_s = rate;
            let left_max = search.left_max(end, precision).saturating_sub(1);
            let result = session.measure(&case, target, turn(&cases, left_max), &mut show).await?;
            let is_measured = search.take(rate, &result);
            cases.push(result);
            if !is_measured {
                break;
            }
        }
        found.push(search.found(target.label.clone(), end));
    }
    session.facts.search = Some(SearchFacts { goal: goal.to_string(), capacities: found });
    session.write_facts()?;
    session.finish(cases).await
}

/// How many runs a search takes at most, the first without a limit included.
pub fn steps_max(precision: f64) -> usize {
    1 + CURVE.len() + halvings_max(1.0, GAP_MAX, precision)
}

/// Until a gap is narrow enough.
fn halvings_max(met: f64, missed: f64, precision: f64) -> usize {
    ((missed - met) / (met * precision)).log2().ceil().max(0.0) as usize
}

struct Search<'a> {
    goal: &'a Criterion,
    steps: Vec<CapacityStep>,
}

impl Search<'_> {
    fn highest(&self) -> Option<f64> {
        self.steps.iter().filter(|step| step.meets_goal).map(|step| step.records_per_s).reduce(f64::max)
    }

    fn lowest_missed(&self) -> Option<f64> {
        self.steps.iter().filter(|step| !step.meets_goal).map(|step| step.records_per_s).reduce(f64::min)
    }

    /// What to try next; `None` when the answer is close enough.
    fn next_rate(&self, end: f64, precision: f64) -> Option<f64> {
        if end < 1.0 {
            return None;
        }
        match (self.highest(), self.lowest_missed()) {
            // On the curve, until the goal is missed or all is tried.
            (_, None) => CURVE.get(self.steps.len()).map(|part| (end * part).round().max(1.0)),
            // Even the lowest missed it: further down, but not for ever.
            (None, Some(missed)) => {
                let lower = (missed / 2.0).round();
                (lower >= end * LOWEST && lower >= 1.0).then_some(lower)
            }
            (Some(met), Some(missed)) if missed <= met * (1.0 + precision) => None,
            (Some(met), Some(missed)) => {
                Some(f64::midpoint(met, missed).round()).filter(|&rate| rate > met && rate < missed)
            }
        }
    }

    /// How many rates will be tried yet, at most.
    fn left_max(&self, end: f64, precision: f64) -> usize {
        match (self.highest(), self.lowest_missed()) {
            (_, None) => match CURVE.len().saturating_sub(self.steps.len()) {
                0 => 0,
                left => left + halvings_max(1.0, GAP_MAX, precision),
            },
            (None, Some(missed)) => {
                let lower = (missed / (end * LOWEST)).log2().ceil().max(0.0) as usize;
                lower + halvings_max(1.0, GAP_MAX, precision)
            }
            (Some(met), Some(missed)) => halvings_max(met, missed, precision),
        }
    }

    /// Returns whether there are figures to go on from.
    fn take(&mut self, rate: f64, result: &CaseResult) -> bool {
        let Some(measured) = result.measured() else { return false };
        let (Some(flow), Some(latency)) = (measured.produced, &measured.latency) else { return false };
        self.steps.push(CapacityStep {
            records_per_s: rate,
            reached_records_per_s: flow.records_per_s,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            meets_goal: !measured.verdict.is_saturated && self.goal.holds_of(measured),
        });
        true
    }

    fn found(mut self, target: String, unlimited: f64) -> Capacity {
        self.steps.sort_by(|a, b| a.records_per_s.total_cmp(&b.records_per_s));
        Capacity {
            target,
            unlimited_records_per_s: unlimited,
            highest_records_per_s: self.highest(),
            lowest_missed_records_per_s: self.lowest_missed(),
            knee_records_per_s: knee(&self.steps),
            steps: self.steps,
        }
    }
}

/// The rate that lies furthest from the straight line between the ends of the curve, latency on a logarithmic scale.
fn knee(steps: &[CapacityStep]) -> Option<f64> {
    let (first, last) = (steps.first()?, steps.last()?);
    let height = |step: &CapacityStep| (step.p99_us.max(1) as f64).ln();
    let (width, rise) = (last.records_per_s - first.records_per_s, height(last) - height(first));
    if steps.len() < 3 || width <= 0.0 || rise <= 0.0 {
        return None;
    }
    let below = |step: &CapacityStep| {
        (step.records_per_s - first.records_per_s) / width - (height(step) - height(first)) / rise
    };
    steps.iter().max_by(|a, b| below(a).total_cmp(&below(b))).map(|step| step.records_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(records_per_s: f64, p99_us: u64, meets_goal: bool) -> CapacityStep {
        CapacityStep { records_per_s, reached_records_per_s: records_per_s, p50_us: p99_us / 2, p99_us, meets_goal }
    }

    /// Runs the search against a broker that meets the goal up to some rate.
    fn search(end: f64, capacity: f64) -> (Option<f64>, usize) {
        let goal = "p99 <= 20ms".parse().unwrap();
        let mut search = Search { goal: &goal, steps: Vec::new() };
        let mut left_max = steps_max(0.05) - 1;
        while let Some(rate) = search.next_rate(end, 0.05) {
            assert!(search.left_max(end, 0.05) <= left_max && left_max > 0, "{capacity}: more than was foretold");
            left_max = search.left_max(end, 0.05) - 1;
            search.steps.push(step(rate, 1000, rate <= capacity));
        }
        (search.highest(), search.steps.len())
    }

    #[test]
    fn the_highest_rate_is_found_to_its_precision() {
        for capacity in [3_000.0, 9_999.0, 12_345.0, 19_999.0, 51_000.0, 99_000.0] {
            let (highest, steps) = search(100_000.0, capacity);
            let highest = highest.unwrap();
            assert!(highest <= capacity && highest * 1.06 >= capacity, "{highest} of {capacity} in {steps} steps");
        }
        // It meets the goal at full speed.
        assert_eq!(search(100_000.0, 200_000.0), (Some(100_000.0), CURVE.len()));
        // It never does.
        assert_eq!(search(100_000.0, 0.0).0, None);
        assert_eq!(search(0.0, 0.0), (None, 0));
    }

    #[test]
    fn the_knee_is_where_latency_leaves_the_ground() {
        let steps = [(10.0, 1000), (20.0, 1050), (30.0, 1100), (40.0, 1300), (45.0, 9000), (50.0, 90_000)]
            .map(|(r, l)| step(r, l, true));
        assert_eq!(knee(&steps), Some(40.0));
        assert_eq!(knee(&steps[..2]), None);
    }
}
