//! The injected fault of the quorum is found, and within how many seeds.

use storage::injected_faults::{InjectedFault, find};

use super::simulation::run;

#[test]
fn every_injected_fault_is_found() {
    // It shows where disks are lost while others are cut off.
    find("empty-disk-votes", InjectedFault::EmptyDiskVotes, |seed| _ = run(seed));
}
