//! Each of the injected faults is found, and within how many seeds. Those of the quorum, of the journal and of
//! transactions in one log are found in their crates.

use platform::simulation::run_seeds;
use storage::injected_faults::{InjectedFault, find};

use super::{run, run_with_transactions};
use crate::partition::power_loss_tests::live as read_over_power_losses;

#[test]
fn every_injected_fault_is_found() {
    let found = run_seeds(0..InjectedFault::ALL.len() as u64, |index| {
        let (fault, name) = InjectedFault::ALL[index as usize];
        match fault {
            InjectedFault::EmptyDiskVotes => {}
            fault if fault.is_of_journal() => {}
            fault if fault.is_of_transactions() => find(name, fault, |seed| _ = run_with_transactions(seed)),
            fault if fault.is_of_transactions_in_log() => {}
            // Whole brokers sync before any other task has a turn.
            InjectedFault::ReadBeforeSync => find(name, fault, read_over_power_losses),
            _ => find(name, fault, |seed| _ = run(seed)),
        }
    });
    assert_eq!(found.len(), InjectedFault::ALL.len());
}
