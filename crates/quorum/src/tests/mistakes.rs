//! The seeded mistake of the quorum is found, and within how many seeds.

use storage::injected_faults::{InjectedFault, find};

use super::simulation::run;

#[test]
fn every_mistake_is_found() {
    // It shows where disks are lost while others are cut off.
    let (seeds, said) = find(InjectedFault::EmptyDiskVotes, |seed| _ = run(seed)).expect("it is found");
    eprintln!("empty-disk-votes: found after {seeds} seeds: {}", said.lines().next().unwrap_or_default());
}
