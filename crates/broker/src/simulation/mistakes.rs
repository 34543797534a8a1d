//! Each of the seeded mistakes is found, and within how many seeds. Those of the quorum alone are found in its crate.

use storage::injected_faults::{InjectedFault, find};

use super::run;
use crate::partition::power_loss_tests::live as read_over_power_losses;

#[test]
fn every_mistake_is_found() {
    for (mistake, name) in InjectedFault::ALL {
        let found = match mistake {
            InjectedFault::EmptyDiskVotes => continue,
            // Whole brokers sync before anybody else has a turn.
            InjectedFault::ReadBeforeSync => find(mistake, read_over_power_losses),
            _ => find(mistake, |seed| _ = run(seed)),
        };
        let (seeds, said) = found.unwrap_or_else(|| panic!("{name} is not found in {SEEDS_MAX} seeds"));
        eprintln!("{name}: found after {seeds} seeds: {}", said.lines().next().unwrap_or_default());
    }
}
