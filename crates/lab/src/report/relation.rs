//! Broker CPU of a case over that of its base case, ours and published: percent of cores that others do not count
//! compare with nothing of ours, but the relation of two of them does.

use super::measure;
use crate::result::{CaseResult, Measure};

/// What a figure of the case is of that of its base case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Relation {
    pub ours: Option<f64>,
    pub published: Option<f64>,
}

impl Relation {
    /// Of the CPU of the busiest broker.
    pub(super) fn cpu(case: &CaseResult, base: &CaseResult) -> Self {
        Self::of(case, base, our_cpu, published_cpu)
    }

    /// Of the same for a record: rates may be related otherwise than those that were published.
    pub(super) fn cpu_per_record(case: &CaseResult, base: &CaseResult) -> Self {
        let ours = |case: &CaseResult| {
            let rate = case.measured().and_then(measure::throughput)?.records_per_s;
            Some(our_cpu(case)? / rate).filter(|cpu| cpu.is_finite())
        };
        let published = |case: &CaseResult| {
            let rate = case.published.as_ref()?.records_per_s?;
            Some(published_cpu(case)? / rate).filter(|cpu| cpu.is_finite())
        };
        Self::of(case, base, ours, published)
    }

    fn of(
        case: &CaseResult,
        base: &CaseResult,
        ours: impl Fn(&CaseResult) -> Option<f64>,
        published: impl Fn(&CaseResult) -> Option<f64>,
    ) -> Self {
        let over = |figure: &dyn Fn(&CaseResult) -> Option<f64>| {
            Some(figure(case)? / figure(base).filter(|of_base| *of_base > 0.0)?)
        };
        Self { ours: over(&ours), published: over(&published) }
    }
}

fn our_cpu(case: &CaseResult) -> Option<f64> {
    measure::value(Measure::BrokerCpu, case.measured()?)
}

fn published_cpu(case: &CaseResult) -> Option<f64> {
    case.published.as_ref()?.broker_cpu_percent.iter().copied().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::result::{Outcome, Published};

    fn case(records_per_s: f64, cpu_s: f64, published: Published) -> CaseResult {
        let mut case = sample::measured("H1", "parshall", 1, records_per_s);
        if let Outcome::Measured(measured) = &mut case.outcome {
            measured.cost.brokers[0].cpu_s = cpu_s;
        }
        CaseResult { published: Some(published), ..case }
    }

    fn published(records_per_s: f64, percent: &[f64]) -> Published {
        let broker_cpu_percent = percent.to_vec();
        Published { records_per_s: Some(records_per_s), broker_cpu_percent, ..Published::default() }
    }

    #[test]
    fn the_busiest_broker_counts_on_both_sides() {
        let base = case(1000.0, 8.0, published(512.0, &[50.0, 40.0]));
        let other = case(4000.0, 4.0, published(1024.0, &[60.0, 80.0]));
        let cpu = Relation::cpu(&other, &base);
        assert_eq!(cpu, Relation { ours: Some(0.5), published: Some(1.6) });
        let per_record = Relation::cpu_per_record(&other, &base);
        assert_eq!(per_record, Relation { ours: Some(0.125), published: Some(0.8) });
    }

    #[test]
    fn what_one_of_both_lacks_has_no_relation() {
        let base = case(1000.0, 0.0, published(500.0, &[]));
        let other = case(4000.0, 4.0, published(1000.0, &[60.0]));
        assert_eq!(Relation::cpu(&other, &base), Relation::default());
        let skipped = CaseResult { outcome: Outcome::Skipped { reason: String::new() }, ..other.clone() };
        assert_eq!(Relation::cpu_per_record(&other, &skipped), Relation { ours: None, published: Some(1.0) });
    }
}
