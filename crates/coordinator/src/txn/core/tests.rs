//! The rules of one transactional id, row by row.

use super::*;

const V1: TransactionVersion = TransactionVersion::V1;
const V2: TransactionVersion = TransactionVersion::V2;
const CONC: ErrorCode = ErrorCode::CONCURRENT_TRANSACTIONS;
const FENCED: ErrorCode = ErrorCode::PRODUCER_FENCED;
const MAPPING: ErrorCode = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
const ITS: ErrorCode = ErrorCode::INVALID_TXN_STATE;
const PID: i64 = 7;
const NEW_PID: i64 = 8;
const TIMEOUT_MS: i32 = 1_000;

fn at(ms: i64) -> Now {
    Now { monotonic_ms: ms, wall_ms: 1_000_000 + ms }
}

fn producer(producer_id: i64, epoch: i16) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { producer_id, epoch }
}

/// An id in a state, with an epoch, that ended its last transaction in this version.
fn in_state(state: State, epoch: i16, client_version: TransactionVersion) -> Transaction {
    let mut transaction = Transaction::new(at(0), PID, TIMEOUT_MS);
    transaction.current.state = state;
    transaction.current.producer_epoch = epoch;
    transaction.current.previous_producer_id = PID;
    transaction.current.client_version = client_version;
    if matches!(state, State::Ongoing | State::PrepareCommit | State::PrepareAbort) {
        transaction.current.partitions.insert("t", 0);
        transaction.current.start_ms = 1_000_000;
    }
    transaction
}

fn end(
    transaction: &mut Transaction,
    version: TransactionVersion,
    result: TransactionResult,
    from: ProducerIdAndEpoch,
) -> Result<Step, ErrorCode> {
    transaction.end(at(5), EndTxn { producer: from, result }, version, None)
}

fn init(transaction: &mut Transaction, expected: Option<ProducerIdAndEpoch>) -> Result<Step, ErrorCode> {
    let request = InitProducerId { timeout_ms: 2_000, expected };
    transaction.init_producer_id(at(5), request, V1, None)
}

fn next(transaction: &Transaction) -> &Metadata {
    transaction.pending().unwrap().next.as_ref().unwrap()
}

fn identity(metadata: &Metadata) -> (i64, i16, i16) {
    (metadata.producer_id, metadata.producer_epoch, metadata.last_producer_epoch)
}

/// Writes what is pending and ends the transaction as if all markers were written.
fn finish(transaction: &mut Transaction) {
    assert_eq!(transaction.written(at(6)), Followup::SendMarkers);
    for (topic, partition) in transaction.current().partitions.clone().iter() {
        transaction.marker_written(topic, partition);
    }
    assert!(transaction.complete(at(7)));
    assert_eq!(transaction.written(at(7)), Followup::Nothing);
}

#[test]
fn end_txn_up_to_version_4_rules_by_state() {
    use State::*;
    use TransactionResult::{Abort, Commit};
    let table = [
        (Ongoing, Ok(Some(PrepareCommit)), Ok(Some(PrepareAbort))),
        (PrepareCommit, Err(CONC), Err(CONC)),
        (PrepareAbort, Err(CONC), Err(CONC)),
        (CompleteCommit, Ok(None), Err(ITS)),
        (CompleteAbort, Err(ITS), Ok(None)),
        (Empty, Err(ITS), Err(ITS)),
    ];
    for (state, on_commit, on_abort) in table {
        for (result, expected) in [(Commit, on_commit), (Abort, on_abort)] {
            let mut transaction = in_state(state, 3, V1);
            let step = end(&mut transaction, V1, result, producer(PID, 3));
            assert_eq!(step.map(|_| transaction.pending().map(|_| next(&transaction).state)), expected, "{state:?}");
            if let Ok(Some(_)) = expected {
                // The epoch stays.
                assert_eq!((step, identity(next(&transaction))), (Ok(Step::Write(Ok(producer(PID, 3)))), (PID, 3, -1)));
            }
        }
    }
}

#[test]
fn end_txn_since_version_5_rules_by_state_and_sender() {
    use State::*;
    use TransactionResult::{Abort, Commit};
    // In the order of the columns: commit by the current epoch, by a retry; abort by the current epoch, by a retry.
    let table = [
        (Ongoing, [Ok(Some(PrepareCommit)), Err(FENCED), Ok(Some(PrepareAbort)), Err(FENCED)]),
        (PrepareCommit, [Err(CONC); 4]),
        (PrepareAbort, [Err(CONC); 4]),
        (Empty, [Err(ITS), Err(FENCED), Ok(Some(PrepareAbort)), Err(FENCED)]),
        (CompleteCommit, [Err(ITS), Ok(None), Ok(Some(PrepareAbort)), Err(ITS)]),
        (CompleteAbort, [Err(ITS), Err(FENCED), Ok(Some(PrepareAbort)), Ok(None)]),
    ];
    for (state, row) in table {
        let columns = [(Commit, 3), (Commit, 2), (Abort, 3), (Abort, 2)];
        for ((result, epoch), expected) in columns.into_iter().zip(row) {
            let mut transaction = in_state(state, 3, V2);
            let step = end(&mut transaction, V2, result, producer(PID, epoch));
            let pending = step.map(|_| transaction.pending().map(|_| next(&transaction).state));
            assert_eq!(pending, expected, "{state:?} {result:?} by epoch {epoch}");
            match (step, expected) {
                (Ok(step), Ok(Some(_))) => {
                    let expected = (Step::Write(Ok(producer(PID, 4))), (PID, 4, 3));
                    assert_eq!((step, identity(next(&transaction))), expected);
                    assert!(next(&transaction).start_ms > 0);
                }
                (Ok(step), _) => assert_eq!(step, Step::Answer(producer(PID, 3))),
                (Err(_), _) => {}
            }
        }
    }
}

#[test]
fn the_order_of_checks_of_end_txn_depends_on_the_version() {
    let pending = || {
        let mut transaction = in_state(State::Ongoing, 3, V2);
        end(&mut transaction, V1, TransactionResult::Abort, producer(PID, 3)).unwrap();
        transaction
    };
    let commit = TransactionResult::Commit;
    // The producer id may be about to change: since version 5 that comes first.
    assert_eq!(end(&mut pending(), V2, commit, producer(NEW_PID, 9)), Err(CONC));
    assert_eq!(end(&mut pending(), V1, commit, producer(NEW_PID, 9)), Err(MAPPING));
    assert_eq!(end(&mut pending(), V1, commit, producer(PID, 9)), Err(FENCED));
    assert_eq!(end(&mut pending(), V1, commit, producer(PID, 3)), Err(CONC));
    for version in [V1, V2] {
        let settled = || in_state(State::Ongoing, 3, V2);
        assert_eq!(end(&mut settled(), version, commit, producer(NEW_PID, 3)), Err(MAPPING));
        for epoch in [2, 4, i16::MAX] {
            assert_eq!(end(&mut settled(), version, commit, producer(PID, epoch)), Err(FENCED));
        }
    }
    // An epoch that was bumped by something else than the end of version 2 makes no retry.
    let mut fenced = in_state(State::CompleteAbort, 3, V1);
    assert_eq!(end(&mut fenced, V2, TransactionResult::Abort, producer(PID, 2)), Err(FENCED));
}

#[test]
fn exhausted_epochs_lead_to_another_producer_id_with_the_end_of_the_transaction() {
    let mut transaction = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V2);
    let request = EndTxn { producer: producer(PID, LAST_CLIENT_EPOCH), result: TransactionResult::Commit };
    assert_eq!(transaction.end(at(5), request, V2, None), Ok(Step::NeedsProducerId));
    assert_eq!(transaction.pending(), None);
    let step = transaction.end(at(5), request, V2, Some(NEW_PID));
    assert_eq!(step, Ok(Step::Write(Ok(producer(NEW_PID, 0)))));
    // The markers have the old id and its very last epoch.
    assert_eq!(identity(next(&transaction)), (PID, i16::MAX, LAST_CLIENT_EPOCH));
    assert_eq!(next(&transaction).next_producer_id, NEW_PID);
    assert_eq!(transaction.end(at(5), request, V2, None), Err(CONC));
    assert_eq!(transaction.written(at(6)), Followup::SendMarkers);
    assert_eq!(transaction.end(at(6), request, V2, None), Err(CONC));
    transaction.marker_written("t", 0);
    assert!(transaction.complete(at(7)));
    transaction.written(at(7));
    assert_eq!(identity(transaction.current()), (NEW_PID, 0, LAST_CLIENT_EPOCH));
    assert_eq!((transaction.current().previous_producer_id, transaction.current().next_producer_id), (PID, -1));
    // The client may not have heard of it.
    assert_eq!(transaction.end(at(8), request, V2, None), Ok(Step::Answer(producer(NEW_PID, 0))));
    let aborted = EndTxn { result: TransactionResult::Abort, ..request };
    assert_eq!(transaction.end(at(8), aborted, V2, None), Err(ITS));
    let earlier = EndTxn { producer: producer(PID, LAST_CLIENT_EPOCH - 1), ..request };
    assert_eq!(transaction.end(at(8), earlier, V2, None), Err(MAPPING));
    // With InitProducerId neither.
    assert_eq!(
        init(&mut transaction, Some(producer(PID, LAST_CLIENT_EPOCH))),
        Ok(Step::Write(Ok(producer(NEW_PID, 0))))
    );
}

#[test]
fn version_1_keeps_an_exhausted_epoch_to_its_end() {
    let mut transaction = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V1);
    let step = end(&mut transaction, V1, TransactionResult::Commit, producer(PID, LAST_CLIENT_EPOCH));
    assert_eq!(step, Ok(Step::Write(Ok(producer(PID, LAST_CLIENT_EPOCH)))));
    finish(&mut transaction);
    assert_eq!(identity(transaction.current()), (PID, LAST_CLIENT_EPOCH, -1));
}

#[test]
fn a_producer_begins_with_epoch_0_and_takes_over_with_the_next() {
    let mut transaction = Transaction::new(at(0), PID, TIMEOUT_MS);
    assert!(transaction.is_vacant());
    // It may believe what it likes as long as there is nothing.
    assert_eq!(init(&mut transaction, Some(producer(99, 5))), Ok(Step::Write(Ok(producer(PID, 0)))));
    assert!(!transaction.is_vacant());
    assert_eq!(init(&mut transaction, None), Err(CONC));
    assert_eq!(transaction.written(at(5)), Followup::Nothing);
    for state in [State::Empty, State::CompleteCommit, State::CompleteAbort] {
        let mut transaction = in_state(state, 3, V1);
        assert_eq!(init(&mut transaction, None), Ok(Step::Write(Ok(producer(PID, 4)))));
        let next = next(&transaction);
        assert_eq!((next.state, identity(next)), (State::Empty, (PID, 4, -1)));
        assert_eq!((next.timeout_ms, next.start_ms, next.partitions.is_empty()), (2_000, -1, true));
    }
}

#[test]
fn a_producer_that_goes_on_after_an_error_may_ask_twice() {
    let mut transaction = in_state(State::CompleteAbort, 3, V1);
    assert_eq!(init(&mut transaction, Some(producer(PID, 3))), Ok(Step::Write(Ok(producer(PID, 4)))));
    transaction.written(at(5));
    assert_eq!(identity(transaction.current()), (PID, 4, 3));
    // A retry gets the same, as often as it is sent.
    for _ in 0..2 {
        assert_eq!(init(&mut transaction, Some(producer(PID, 3))), Ok(Step::Write(Ok(producer(PID, 4)))));
        transaction.written(at(5));
    }
    for epoch in [1, 2, 5] {
        assert_eq!(init(&mut transaction, Some(producer(PID, epoch))), Err(FENCED));
    }
    assert_eq!(init(&mut transaction, Some(producer(NEW_PID, 4))), Err(FENCED));
    // Another producer ends that.
    init(&mut transaction, None).unwrap();
    transaction.written(at(5));
    for epoch in [3, 4] {
        assert_eq!(init(&mut transaction, Some(producer(PID, epoch))), Err(FENCED));
    }
}

#[test]
fn exhausted_epochs_lead_to_another_producer_id_with_init_producer_id() {
    for (expected, last_epoch) in [(None, -1), (Some(producer(PID, LAST_CLIENT_EPOCH)), LAST_CLIENT_EPOCH)] {
        let mut transaction = in_state(State::Empty, LAST_CLIENT_EPOCH, V1);
        transaction.current.previous_producer_id = NO_PRODUCER_ID;
        assert_eq!(init(&mut transaction, expected), Ok(Step::NeedsProducerId));
        let request = InitProducerId { timeout_ms: 2_000, expected };
        let step = transaction.init_producer_id(at(5), request, V1, Some(NEW_PID));
        assert_eq!(step, Ok(Step::Write(Ok(producer(NEW_PID, 0)))));
        transaction.written(at(5));
        assert_eq!(identity(transaction.current()), (NEW_PID, 0, last_epoch));
        // Only the end of the old id's epochs may still speak for it, be it to take over an open transaction.
        let mut open = transaction.clone();
        open.add_partitions(at(5), producer(NEW_PID, 0), &Partitions::default(), V1).unwrap();
        open.written(at(5));
        assert_eq!(init(&mut open, Some(producer(PID, 3))), Err(FENCED));
        assert_eq!(init(&mut open, Some(producer(PID, LAST_CLIENT_EPOCH))), Ok(Step::Write(Err(CONC))));
        // The old id counts as a retry of whoever had it, and of nobody else.
        let retried = init(&mut transaction, Some(producer(PID, LAST_CLIENT_EPOCH)));
        let is_retry = expected.is_some();
        assert_eq!(retried.is_ok(), is_retry);
        assert_eq!(init(&mut transaction, Some(producer(PID, 3))), Err(if is_retry { CONC } else { FENCED }));
    }
    // A retry does not need another id.
    let mut transaction = in_state(State::Empty, LAST_CLIENT_EPOCH, V1);
    transaction.current.last_producer_epoch = LAST_CLIENT_EPOCH - 1;
    let step = init(&mut transaction, Some(producer(PID, LAST_CLIENT_EPOCH - 1)));
    assert_eq!(step, Ok(Step::Write(Ok(producer(PID, LAST_CLIENT_EPOCH)))));
}

#[test]
fn a_decided_transaction_is_waited_for() {
    for state in [State::PrepareCommit, State::PrepareAbort] {
        let mut transaction = in_state(state, 3, V1);
        assert_eq!(init(&mut transaction, None), Err(CONC));
        // Also by the producer that it may become.
        for producer in [producer(PID, 3), producer(99, 0)] {
            assert_eq!(init(&mut transaction, Some(producer)), Err(CONC));
            assert_eq!(transaction.add_partitions(at(5), producer, &Partitions::default(), V2), Err(CONC));
            assert_eq!(end(&mut transaction, V2, TransactionResult::Abort, producer), Err(CONC));
        }
        assert_eq!(transaction.check_verifiable(producer(PID, 3)), Err(CONC));
    }
}

#[test]
fn an_open_transaction_is_fenced_with_one_bump() {
    for (version, last_epoch) in [(V1, -1), (TransactionVersion(1), -1), (V2, 3)] {
        let mut transaction = in_state(State::Ongoing, 3, V1);
        let request = InitProducerId { timeout_ms: 2_000, expected: None };
        let step = transaction.init_producer_id(at(5), request, version, None);
        assert_eq!(step, Ok(Step::Write(Err(CONC))));
        let pending = next(&transaction);
        assert_eq!((pending.state, identity(pending)), (State::PrepareAbort, (PID, 4, last_epoch)));
        assert_eq!((pending.client_version, pending.timeout_ms), (version, TIMEOUT_MS));
        // If it was not written nothing has happened, and the next attempt bumps as far as this one (KAFKA-9666).
        assert!(!transaction.not_written(ErrorCode::COORDINATOR_NOT_AVAILABLE, true));
        transaction.init_producer_id(at(5), request, version, None).unwrap();
        assert_eq!(next(&transaction).producer_epoch, 4);
        finish(&mut transaction);
        assert_eq!((transaction.current().state, transaction.current().producer_epoch), (State::CompleteAbort, 4));
        // The fenced producer is out; the new one gets an epoch that nobody had.
        assert_eq!(transaction.add_partitions(at(8), producer(PID, 3), &Partitions::default(), V1), Err(FENCED));
        assert_eq!(init(&mut transaction, None), Ok(Step::Write(Ok(producer(PID, 5)))));
    }
}

#[test]
fn a_fence_of_version_2_leaves_an_exhausted_producer_id() {
    let request = InitProducerId { timeout_ms: 2_000, expected: None };
    let mut transaction = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V2);
    assert_eq!(transaction.init_producer_id(at(5), request, V2, None), Ok(Step::NeedsProducerId));
    let step = transaction.init_producer_id(at(5), request, V2, Some(NEW_PID));
    assert_eq!(step, Ok(Step::Write(Err(CONC))));
    finish(&mut transaction);
    assert_eq!(identity(transaction.current()), (NEW_PID, 0, LAST_CLIENT_EPOCH));
    // Version 1 has one epoch left for that, and InitProducerId then finds them exhausted.
    let mut transaction = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V1);
    assert_eq!(transaction.init_producer_id(at(5), request, V1, None), Ok(Step::Write(Err(CONC))));
    finish(&mut transaction);
    assert_eq!(identity(transaction.current()), (PID, i16::MAX, -1));
    assert_eq!(init(&mut transaction, None), Ok(Step::NeedsProducerId));
}

#[test]
fn partitions_are_added_once_and_begin_the_transaction() {
    let added: Partitions = [("t", 0), ("u", 3)].into_iter().collect();
    for state in [State::Empty, State::CompleteCommit, State::CompleteAbort] {
        let mut transaction = in_state(state, 3, V1);
        let step = transaction.add_partitions(at(5), producer(PID, 3), &added, V1);
        assert_eq!(step, Ok(Step::Write(Ok(producer(PID, 3)))));
        assert_eq!((next(&transaction).state, next(&transaction).start_ms), (State::Ongoing, 1_000_005));
        // Not there before it is durable.
        assert!(!transaction.check_verifiable(producer(PID, 3)).unwrap().contains("t", 0));
        transaction.written(at(9));
        assert!(transaction.check_verifiable(producer(PID, 3)).unwrap().contains_all(&added));
        let step = transaction.add_partitions(at(10), producer(PID, 3), &added, V1);
        assert_eq!(step, Ok(Step::Answer(producer(PID, 3))));
        let more: Partitions = [("u", 3), ("u", 4)].into_iter().collect();
        transaction.add_partitions(at(10), producer(PID, 3), &more, V1).unwrap();
        assert_eq!((next(&transaction).start_ms, next(&transaction).last_update_ms), (1_000_005, 1_000_010));
        assert_eq!(next(&transaction).partitions.iter().count(), 3);
    }
}

#[test]
fn a_pending_change_comes_before_the_producer_id() {
    let mut transaction = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V2);
    let more: Partitions = [("u", 3)].into_iter().collect();
    assert_eq!(transaction.add_partitions(at(5), producer(NEW_PID, 0), &more, V1), Err(MAPPING));
    assert_eq!(transaction.add_partitions(at(5), producer(PID, 0), &more, V1), Err(FENCED));
    let request = EndTxn { producer: producer(PID, LAST_CLIENT_EPOCH), result: TransactionResult::Commit };
    transaction.end(at(5), request, V2, Some(NEW_PID)).unwrap();
    assert_eq!(transaction.add_partitions(at(5), producer(NEW_PID, 0), &more, V1), Err(CONC));
    // Verification looks at what is durable.
    assert!(transaction.check_verifiable(producer(PID, LAST_CLIENT_EPOCH)).is_ok());
    assert_eq!(transaction.check_verifiable(producer(NEW_PID, 0)), Err(MAPPING));
    assert_eq!(transaction.check_verifiable(producer(PID, 0)), Err(FENCED));
}

#[test]
fn a_transaction_is_complete_when_each_partition_has_its_marker() {
    let mut transaction = in_state(State::Ongoing, 3, V1);
    transaction.current.partitions.insert("t", 1);
    assert!(!transaction.complete(at(5)));
    end(&mut transaction, V1, TransactionResult::Commit, producer(PID, 3)).unwrap();
    // A marker that nobody asked for counts for nothing.
    transaction.marker_written("t", 0);
    assert!(!transaction.complete(at(5)));
    transaction.written(at(6));
    assert!(!transaction.complete(at(6)));
    transaction.marker_written("t", 0);
    transaction.marker_written("x", 0);
    assert!(!transaction.complete(at(6)));
    transaction.marker_written("t", 1);
    assert!(transaction.complete(at(7)));
    assert!(!transaction.complete(at(7)));
    assert_eq!(next(&transaction).state, State::CompleteCommit);
    // The end is not given up.
    assert!(transaction.not_written(ErrorCode::COORDINATOR_NOT_AVAILABLE, true));
    assert_eq!(init(&mut transaction, None), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(transaction.written(at(8)), Followup::Nothing);
    assert_eq!(transaction.current().state, State::CompleteCommit);
}

#[test]
fn a_record_that_may_be_in_the_log_stays_pending() {
    let mut transaction = in_state(State::Ongoing, 3, V1);
    end(&mut transaction, V1, TransactionResult::Commit, producer(PID, 3)).unwrap();
    assert!(transaction.not_written(ErrorCode::COORDINATOR_NOT_AVAILABLE, false));
    // Nobody is told to try again here for ever.
    let answer = end(&mut transaction, V1, TransactionResult::Abort, producer(PID, 3));
    assert_eq!(answer, Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(init(&mut transaction, None), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    // Whatever becomes of the second attempt, the first may have come through.
    assert!(transaction.not_written(ErrorCode::NOT_COORDINATOR, true));
    assert_eq!(transaction.written(at(9)), Followup::SendMarkers);
    assert_eq!(transaction.current().state, State::PrepareCommit);
}

#[test]
fn refused_markers_are_not_waited_for() {
    let reasons = [
        (ErrorCode::TRANSACTION_COORDINATOR_FENCED, ErrorCode::NOT_COORDINATOR),
        (ErrorCode::INVALID_PRODUCER_EPOCH, FENCED),
    ];
    for (refusal, told) in reasons {
        let mut transaction = in_state(State::PrepareCommit, 3, V1);
        transaction.marker_refused(refusal, "t", 0);
        assert!(!transaction.complete(at(5)));
        assert_eq!(init(&mut transaction, None), Err(told));
        assert_eq!(end(&mut transaction, V1, TransactionResult::Commit, producer(PID, 3)), Err(told));
        assert!(transaction.take_refused().contains("t", 0));
        assert!(transaction.take_refused().is_empty());
        assert_eq!(init(&mut transaction, None), Err(told));
        transaction.marker_written("t", 0);
        assert!(transaction.complete(at(6)));
        transaction.written(at(6));
        assert!(init(&mut transaction, None).is_ok());
    }
}

#[test]
fn a_transaction_times_out_after_its_start() {
    let mut transaction = in_state(State::Empty, 3, V1);
    let partitions: Partitions = [("t", 0)].into_iter().collect();
    transaction.add_partitions(at(50), producer(PID, 3), &partitions, V1).unwrap();
    transaction.written(at(100));
    // More partitions do not make it younger.
    let more: Partitions = [("t", 1)].into_iter().collect();
    transaction.add_partitions(at(900), producer(PID, 3), &more, V1).unwrap();
    assert_eq!(transaction.abort_timed_out(at(5_000), V1, None), None, "a change is pending");
    transaction.written(at(900));
    assert_eq!(transaction.abort_timed_out(at(1_100), V1, None), None);
    assert_eq!(transaction.abort_timed_out(at(1_101), V1, None), Some(Step::Write(Ok(producer(PID, 3)))));
    assert_eq!((next(&transaction).state, next(&transaction).producer_epoch), (State::PrepareAbort, 4));
    for state in State::ALL.into_iter().filter(|state| *state != State::Ongoing) {
        assert_eq!(in_state(state, 3, V1).abort_timed_out(at(1 << 40), V1, None), None);
    }
    let mut exhausted = in_state(State::Ongoing, LAST_CLIENT_EPOCH, V1);
    assert_eq!(exhausted.abort_timed_out(at(5_000), V2, None), Some(Step::NeedsProducerId));
}

#[test]
fn a_timeout_runs_on_under_another_coordinator() {
    let stored = in_state(State::Ongoing, 3, V1).current;
    for (start_ms, due_ms) in [(-600, 400), (0, 1_000), (-5_000, 0), (7_000, 1_000)] {
        let stored = Metadata { start_ms: at(0).wall_ms + start_ms, ..stored.clone() };
        let mut transaction = Transaction::restore(at(0), 0, stored);
        assert_eq!(transaction.abort_timed_out(at(due_ms), V1, None), None);
        assert!(transaction.abort_timed_out(at(due_ms + 1), V1, None).is_some(), "{start_ms}");
    }
}

#[test]
fn ids_without_a_transaction_expire() {
    for state in State::ALL {
        let mut transaction = in_state(state, 3, V1);
        assert!(!transaction.expire(at(99), 100));
        let may_expire = matches!(state, State::Empty | State::CompleteCommit | State::CompleteAbort);
        assert_eq!(transaction.expire(at(100), 100), may_expire, "{state:?}");
        assert_eq!(transaction.is_expiring(), may_expire);
        if may_expire {
            assert_eq!(init(&mut transaction, None), Err(CONC));
            assert!(!transaction.expire(at(100), 100));
            assert_eq!(transaction.written(at(101)), Followup::Forget);
        }
    }
    let mut transaction = in_state(State::Empty, 3, V1);
    assert!(transaction.expire(at(100), 100));
    assert!(!transaction.not_written(ErrorCode::COORDINATOR_NOT_AVAILABLE, true));
    assert!(!transaction.is_expiring() && !transaction.is_vacant());
}

#[test]
fn a_state_follows_only_its_predecessors() {
    use State::*;
    let predecessors = [
        (Empty, vec![Empty, CompleteCommit, CompleteAbort]),
        (Ongoing, vec![Empty, Ongoing, CompleteCommit, CompleteAbort]),
        (PrepareCommit, vec![Ongoing]),
        (PrepareAbort, vec![Empty, Ongoing, CompleteCommit, CompleteAbort]),
        (CompleteCommit, vec![PrepareCommit]),
        (CompleteAbort, vec![PrepareAbort]),
    ];
    for (state, expected) in predecessors {
        let allowed: Vec<_> = State::ALL.into_iter().filter(|previous| state.may_follow(*previous, V2)).collect();
        assert_eq!(allowed, expected, "{state:?}");
    }
    assert!(!PrepareAbort.may_follow(Empty, V1) && PrepareAbort.may_follow(Ongoing, V1));
    for (id, state) in State::ALL.into_iter().enumerate() {
        assert_eq!((state.id(), State::from_id(id as i8)), (id as i8, Some(state)));
    }
    assert_eq!(State::from_id(6), None);
}
