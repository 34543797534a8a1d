//! Each of the seeded mistakes is found, and within how many seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use log::mistakes::{Mistake, make};

use super::run;
use crate::partition::power_loss_tests::live as read_over_power_losses;
use crate::quorum::tests::simulation::run as run_quorum;

/// Seeds after which a mistake counts as one that is not found.
const SEEDS_MAX: u64 = 2000;

/// What is said by the first seed that shows a mistake, and how many there were until then.
fn find(mistake: Mistake, run: impl Fn(u64)) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        make(Some(mistake));
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        make(None);
        let panic = outcome.err()?;
        let said = panic.downcast_ref::<String>().cloned();
        Some((seed + 1, said.or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned())).unwrap_or_default()))
    })
}

#[test]
fn every_mistake_is_found() {
    for (mistake, name) in Mistake::ALL {
        let found = match mistake {
            // That a node votes with an empty disk shows where disks are lost while others are cut off.
            Mistake::EmptyDiskVotes => find(mistake, |seed| _ = run_quorum(seed)),
            // Whole brokers sync before anybody else has a turn.
            Mistake::ReadBeforeSync => find(mistake, read_over_power_losses),
            _ => find(mistake, |seed| _ = run(seed)),
        };
        let (seeds, said) = found.unwrap_or_else(|| panic!("{name} is not found in {SEEDS_MAX} seeds"));
        eprintln!("{name}: found after {seeds} seeds: {}", said.lines().next().unwrap_or_default());
    }
}
