//! Which runs may stand beside the newest one, and which builds they measured.

use crate::proc_probe::HostFacts;
use crate::result::{RunFacts, TargetFacts};

/// The kernel gives programs more or less of the same memory from version to version.
const MEMORY_TOLERANCE: f64 = 0.05;

/// Why a run cannot be compared with the newest.
pub(super) fn why_not(newest: &RunFacts, run: &RunFacts) -> Option<String> {
    let other = |what: &str, of: &dyn Fn(&RunFacts) -> String| format!("{what}: {}, and not {}", of(run), of(newest));
    if !is_same_host(&newest.host, &run.host) {
        Some(other("another host", &|run| host(&run.host)))
    } else if newest.name != run.name {
        Some(other("another suite", &|run| run.name.clone()))
    } else if newest.scenario != run.scenario {
        Some("the text of its scenario is another".to_owned())
    } else if (newest.scale, newest.duration_s) != (run.scale, run.duration_s) {
        Some(other("another length", &length))
    } else {
        None
    }
}

/// Why the results of a target cannot be compared with those of the newest run that has it.
pub(super) fn why_not_target(newest: &TargetFacts, target: &TargetFacts) -> Option<String> {
    let other =
        |of: &dyn Fn(&TargetFacts) -> String| Some(format!("{}: {}, and not {}", target.label, of(target), of(newest)));
    if newest.brokers != target.brokers {
        other(&|target| format!("{} broker{}", target.brokers, if target.brokers == 1 { "" } else { "s" }))
    } else if newest.is_local != target.is_local {
        other(&|target| if target.is_local { "on the machine of the load" } else { "elsewhere" }.to_owned())
    } else if newest.settings != target.settings {
        other(&settings)
    } else if newest.durability.is_some() && target.durability.is_some() && newest.durability != target.durability {
        other(&|target| target.durability.as_ref().map_or_else(String::new, |durability| durability.setting.clone()))
    } else {
        None
    }
}

/// What differs on the same host, may be felt, and goes on with time.
pub(super) fn notes(newest: &RunFacts, run: &RunFacts) -> Vec<String> {
    let systems = [("kernel", &newest.host.kernel, &run.host.kernel), ("system", &newest.host.os, &run.host.os)];
    let others = systems.into_iter().filter(|(_, newest, other)| newest != other);
    others.map(|(what, newest, other)| format!("{what} {other}, and not {newest}")).collect()
}

/// The target's version and the program that put the load. `None` where builds cannot be told apart.
pub(super) fn build(run: &RunFacts, target: &TargetFacts) -> Option<String> {
    let checksum = run.program_checksum.as_ref().filter(|_| !target.version.is_empty())?;
    Some(format!("{} {checksum}", target.version))
}

fn is_same_host(a: &HostFacts, b: &HostFacts) -> bool {
    let (less, more) = (a.memory_bytes.min(b.memory_bytes) as f64, a.memory_bytes.max(b.memory_bytes) as f64);
    (&a.cpu, a.cores, &a.virtualized) == (&b.cpu, b.cores, &b.virtualized) && less >= more * (1.0 - MEMORY_TOLERANCE)
}

fn host(host: &HostFacts) -> String {
    let HostFacts { cpu, cores, memory_bytes, virtualized, .. } = host;
    let memory_gib = *memory_bytes as f64 / f64::from(1 << 30);
    let under = virtualized.as_ref().map_or_else(String::new, |under| format!(" under {under}"));
    format!("{cores} x {cpu} with {memory_gib:.1} GiB{under}")
}

fn length(run: &RunFacts) -> String {
    match (run.scale, run.duration_s) {
        (Some(scale), _) => format!("--scale {scale}"),
        (None, Some(duration_s)) => format!("--duration {duration_s}s"),
        (None, None) => "the scenario's own".to_owned(),
    }
}

fn settings(target: &TargetFacts) -> String {
    let settings: Vec<_> = target.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if settings.is_empty() { "no --broker-set".to_owned() } else { settings.join(" ") }
}
