//! What may begin and end a transaction in a leader's log (KIP-890): only batches to which the coordinator has agreed,
//! and only markers that are not from before.

mod common;

use common::*;
use storage::{AppendError, Appended, Log, LogConfig, Now, Origin, SimDisk, Verification, VerificationGuard};
use wire::batch::{Batch, BatchBuilder};
use wire::state::Stored;
use wire::state::control::{ControlType, EndTxnMarker};

const TV1: i8 = 1;
const TV2: i8 = 2;

fn new_log() -> Log {
    open(&SimDisk::new(1), &LogConfig::default(), options(0, false)).0
}

fn records(epoch: i16, sequence: i32) -> BatchBuilder {
    batch(1, 10, &mut Rng::new(1), at(0)).producer(7, epoch, sequence)
}

fn in_transaction(epoch: i16, sequence: i32) -> Batch {
    records(epoch, sequence).transactional().build()
}

fn ask(log: &mut Log, epoch: i16, sequence: i32, version: i8) -> Result<Verification, AppendError> {
    log.start_verification(7, epoch, sequence, version, at(0))
}

fn guard(log: &mut Log, epoch: i16, sequence: i32, version: i8) -> VerificationGuard {
    match ask(log, epoch, sequence, version).unwrap() {
        Verification::Needed(guard) => guard,
        Verification::NotNeeded => panic!("the transaction is open"),
    }
}

fn append(log: &mut Log, batch: Batch, guard: Option<VerificationGuard>) -> Result<Appended, AppendError> {
    log.append_verified(&[batch], &[guard], Origin::Client, EPOCH, at(0)).unwrap().remove(0)
}

/// Begins a transaction of producer 7.
fn begin(log: &mut Log, epoch: i16, version: i8) {
    let guard = guard(log, epoch, 0, version);
    append(log, in_transaction(epoch, 0), Some(guard)).unwrap();
}

fn mark(log: &mut Log, epoch: i16, coordinator_epoch: i32, version: i8) -> Result<Appended, AppendError> {
    let mut builder = BatchBuilder::new().producer(7, epoch, -1).transactional().control();
    let value = EndTxnMarker { coordinator_epoch }.write_versioned(0);
    builder.push(at(0).wall_ms, Some(&ControlType::Commit.write()), Some(&value), &[]);
    let origin = Origin::Marker { transaction_version: version };
    log.append(&[builder.build()], origin, EPOCH, at(0)).unwrap().remove(0)
}

const UNVERIFIED: Result<Appended, AppendError> = Err(AppendError::InvalidTxnState { producer_id: 7 });

fn stale_epoch<T: PartialEq + std::fmt::Debug>(
    result: Result<T, AppendError>,
    producer_epoch: i16,
    current_epoch: i16,
) {
    assert_eq!(result, Err(AppendError::InvalidProducerEpoch { producer_id: 7, producer_epoch, current_epoch }));
}

#[test]
fn a_transaction_begins_only_with_what_its_coordinator_has_agreed_to() {
    let mut log = new_log();
    assert_eq!(append(&mut log, in_transaction(0, 0), None), UNVERIFIED);
    let first = guard(&mut log, 0, 0, TV1);
    assert_eq!(append(&mut log, in_transaction(0, 0), None), UNVERIFIED);
    append(&mut log, in_transaction(0, 0), Some(first)).unwrap();
    assert_eq!(ask(&mut log, 0, 1, TV1), Ok(Verification::NotNeeded));
    append(&mut log, in_transaction(0, 1), None).unwrap();
    // A coordinator's own batches, of offsets, are no different.
    let offsets = batch(1, 10, &mut Rng::new(1), at(0)).producer(8, 0, -1).transactional().build();
    let refused = log.append(&[offsets], Origin::Coordinator, EPOCH, at(0)).unwrap().remove(0);
    assert_eq!(refused, Err(AppendError::InvalidTxnState { producer_id: 8 }));
}

#[test]
fn batches_of_one_append_begin_a_transaction_with_one_guard() {
    let mut log = new_log();
    let guard = Some(guard(&mut log, 0, 0, TV2));
    let batches = [in_transaction(0, 0), in_transaction(0, 1), records(0, 2).build()];
    let results = log.append_verified(&batches, &[guard, guard], Origin::Client, EPOCH, at(0)).unwrap();
    assert!(results[0].is_ok() && results[1].is_ok());
    assert_eq!(results[2], UNVERIFIED, "outside of the transaction that is open");
}

#[test]
fn an_answer_that_a_marker_has_overtaken_begins_nothing() {
    let mut log = new_log();
    let asked = guard(&mut log, 0, 0, TV1);
    mark(&mut log, 0, 1, TV1).unwrap();
    assert_eq!(append(&mut log, in_transaction(0, 0), Some(asked)), UNVERIFIED);
    let again = guard(&mut log, 0, 0, TV1);
    assert_ne!(asked, again);
    assert_eq!(append(&mut log, in_transaction(0, 0), Some(asked)), UNVERIFIED);
    append(&mut log, in_transaction(0, 0), Some(again)).unwrap();
    // Nor does it count for the next transaction.
    mark(&mut log, 0, 1, TV1).unwrap();
    assert_eq!(append(&mut log, in_transaction(0, 1), Some(again)), UNVERIFIED);
}

#[test]
fn the_next_transaction_may_ask_before_the_marker_of_the_last_if_epochs_tell_them_apart() {
    let mut log = new_log();
    begin(&mut log, 0, TV2);
    let next = guard(&mut log, 1, 0, TV2);
    mark(&mut log, 1, 1, TV2).unwrap();
    append(&mut log, in_transaction(1, 0), Some(next)).unwrap();
    // One that asked with the epoch before has to ask again.
    mark(&mut log, 2, 1, TV2).unwrap();
    let late = guard(&mut log, 2, 0, TV2);
    mark(&mut log, 3, 1, TV2).unwrap();
    stale_epoch(append(&mut log, in_transaction(2, 0), Some(late)), 2, 3);
}

#[test]
fn a_stale_epoch_is_told_before_a_missing_guard() {
    let mut log = new_log();
    mark(&mut log, 5, 1, TV1).unwrap();
    stale_epoch(append(&mut log, in_transaction(4, 0), None), 4, 5);
    stale_epoch(ask(&mut log, 4, 0, TV1), 4, 5);
    // A newer epoch that waits fences as well, and what waited before it has no answer any more.
    let older = guard(&mut log, 5, 0, TV2);
    let newer = guard(&mut log, 6, 0, TV2);
    stale_epoch(ask(&mut log, 5, 0, TV2), 5, 6);
    assert_eq!(append(&mut log, in_transaction(5, 0), Some(older)), UNVERIFIED);
    append(&mut log, in_transaction(6, 0), Some(newer)).unwrap();
}

#[test]
fn a_duplicate_needs_no_guard() {
    let mut log = new_log();
    begin(&mut log, 0, TV1);
    mark(&mut log, 0, 1, TV1).unwrap();
    assert!(append(&mut log, in_transaction(0, 0), None).unwrap().is_duplicate);
}

#[test]
fn a_batch_that_overtakes_the_first_of_its_transaction_is_refused() {
    let mut log = new_log();
    let asked = guard(&mut log, 0, 3, TV1);
    assert_eq!(guard(&mut log, 0, 2, TV1), asked, "they wait for the same answer");
    let overtakes = append(&mut log, in_transaction(0, 3), Some(asked));
    assert!(matches!(overtakes, Err(AppendError::OutOfOrderSequence { sequence: 3, .. })), "{overtakes:?}");
    append(&mut log, in_transaction(0, 2), Some(asked)).unwrap();
    append(&mut log, in_transaction(0, 3), Some(asked)).unwrap();
}

#[test]
fn a_transaction_with_its_own_epoch_begins_with_the_first_sequence() {
    let mut log = new_log();
    let asked = guard(&mut log, 0, 1, TV2);
    let refused = append(&mut log, in_transaction(0, 1), Some(asked));
    assert!(matches!(refused, Err(AppendError::OutOfOrderSequence { sequence: 1, .. })), "{refused:?}");
    // Otherwise its records may just have been deleted (KAFKA-5793).
    let asked = guard(&mut log, 1, 1, TV1);
    append(&mut log, in_transaction(1, 1), Some(asked)).unwrap();
}

#[test]
fn a_late_marker_ends_no_later_transaction() {
    let mut log = new_log();
    begin(&mut log, 0, TV2);
    mark(&mut log, 1, 1, TV2).unwrap();
    mark(&mut log, 1, 1, TV2).expect("a retry ends nothing, and is appended again");
    begin(&mut log, 1, TV2);
    stale_epoch(mark(&mut log, 1, 1, TV2), 1, 1);
    assert_eq!(log.view().first_undecided_offset(), Some(3));
    stale_epoch(mark(&mut log, 0, 1, TV2), 0, 1);
    // Without an epoch of its own a transaction cannot be told from the next one.
    mark(&mut log, 1, 1, TV1).unwrap();
    assert_eq!(log.view().first_undecided_offset(), None);
}

#[test]
fn the_last_epoch_of_a_producer_can_end_a_transaction() {
    let mut log = new_log();
    begin(&mut log, i16::MAX, TV2);
    mark(&mut log, i16::MAX, 1, TV2).unwrap();
    assert_eq!(log.view().first_undecided_offset(), None);
}

#[test]
fn a_deposed_coordinator_ends_nothing() {
    let mut log = new_log();
    begin(&mut log, 0, TV2);
    mark(&mut log, 1, 5, TV2).unwrap();
    let (coordinator_epoch, current_epoch) = (4, 5);
    let fenced = AppendError::TransactionCoordinatorFenced { producer_id: 7, coordinator_epoch, current_epoch };
    assert_eq!(mark(&mut log, 2, 4, TV2), Err(fenced));
}

#[test]
fn a_new_leader_asks_again() {
    let mut log = new_log();
    let asked = guard(&mut log, 0, 0, TV2);
    log.assign_epoch(EPOCH + 1).unwrap();
    assert_eq!(append(&mut log, in_transaction(0, 0), Some(asked)), UNVERIFIED);
}

#[test]
fn an_answer_is_not_waited_for_for_ever() {
    let mut log = new_log();
    let asked = guard(&mut log, 0, 0, TV2);
    let later = LogConfig::default().producer_id_expiration_ms;
    log.remove_expired_producers(Now { monotonic_ms: later, ..at(0) });
    assert_eq!(append(&mut log, in_transaction(0, 0), Some(asked)), UNVERIFIED);
}
