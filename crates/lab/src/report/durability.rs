//! What an acknowledgement is worth on each target: who syncs before it does other work than who does not.

use super::format;
use super::group::Group;
use crate::result::{CaseResult, Durability, RunFacts};

/// Whether acknowledgements of a case mean the disk on its target, where that is not the same on all targets.
pub(super) fn of_case(run: &RunFacts, case: &CaseResult) -> Option<&'static str> {
    let target = run.targets.iter().find(|target| target.label == case.target)?;
    let is_synced = target.durability.as_ref()?.is_synced;
    (differs(run) && waits_for_all(case)).then_some(if is_synced { "synced" } else { "not synced" })
}

/// That targets are compared that do not do the same work, with the settings that make it so.
pub(super) fn difference(run: &RunFacts, groups: &[Group<'_>]) -> Option<String> {
    let cases = groups.iter().filter(|group| waits_for_all(group.case) && group.measured().is_some()).count();
    if !differs(run) || cases == 0 {
        return None;
    }
    let of_target = |(label, durability): (&str, &Durability)| {
        let when = if durability.is_synced { "when it is on disk" } else { "when it is in memory" };
        format!("{label} {when} ({})", durability.setting)
    };
    let sides: Vec<_> = known(run).map(of_target).collect();
    let cases = format::counted(cases, "result");
    Some(format!("With acks=all ({cases}) a record is acknowledged by {}.", sides.join(", by ")))
}

fn known(run: &RunFacts) -> impl Iterator<Item = (&str, &Durability)> {
    run.targets.iter().filter_map(|target| Some((target.label.as_str(), target.durability.as_ref()?)))
}

fn differs(run: &RunFacts) -> bool {
    let synced = known(run).filter(|(_, durability)| durability.is_synced).count();
    synced > 0 && synced < known(run).count()
}

/// The default of Kafka's producers is all.
fn waits_for_all(case: &CaseResult) -> bool {
    let has_producers = case.parameters.get("producers").is_none_or(|producers| producers != "0");
    has_producers && case.parameters.get("producer.acks").is_none_or(|acks| acks == "all" || acks == "-1")
}
