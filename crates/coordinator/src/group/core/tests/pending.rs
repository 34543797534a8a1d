//! Offsets in transactions: who may commit them, and what markers, other commits and removals make of them.

use super::*;

const PRODUCER: i64 = 7;

fn value(offset: i64) -> CommittedOffset {
    CommittedOffset { offset, metadata: "m".repeat(offset as usize % 5), expire_timestamp_ms: -1, ..Default::default() }
}

fn visible(offsets: &Offsets, partition: i32) -> Option<i64> {
    offsets.get("t", partition).map(|committed| committed.offset)
}

#[test]
fn who_may_commit_in_a_transaction() {
    let mut h = Harness::new();
    let check = |h: &Harness, member_id: &str, instance_id, generation| {
        h.group.check_transactional_commit(member_id, instance_id, generation)
    };
    assert_eq!(check(&h, "", None, -1), Ok(()));
    assert_eq!(check(&h, "m1", None, -1), Ok(()), "the group has no members");
    assert_eq!(check(&h, "m1", None, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));

    h = Harness::stable(1);
    assert_eq!(check(&h, "m1", None, 1), Ok(()));
    assert_eq!(check(&h, "", None, -1), Ok(()), "a client from before KIP-447");
    assert_eq!(check(&h, "m1", None, 0), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(check(&h, "m1", None, -1), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(check(&h, "", None, 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check(&h, "m2", None, 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check(&h, "m1", Some("i"), 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));

    h.join_new();
    h.rejoin("m1");
    assert_eq!(h.group.state, State::CompletingRebalance);
    assert_eq!(check(&h, "m1", None, 2), Ok(()), "its partitions are not asked for");
    assert_eq!(check(&h, "m1", None, 1), Err(ErrorCode::ILLEGAL_GENERATION));

    let mut h = Harness::new();
    let now = h.now;
    h.group.begin_delete(now);
    assert_eq!(check(&h, "", None, -1), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
}

#[test]
fn a_static_member_that_was_replaced_is_fenced_in_a_transaction() {
    let mut h = Harness::new();
    h.join(JoinArgs { api_version: Some(9), instance_id: Some("i"), ..Default::default() });
    let member_id = h.group.member_ids().next().unwrap().to_owned();
    let (instance_id, generation) = (Some("i"), h.group.generation());
    let check = |member_id: &str| h.group.check_transactional_commit(member_id, instance_id, generation);
    assert_eq!((check(&member_id), check("former")), (Ok(()), Err(ErrorCode::FENCED_INSTANCE_ID)));
}

#[test]
fn an_offset_of_a_transaction_shows_with_its_commit_marker() {
    let mut offsets = Offsets::default();
    offsets.replay("t", 0, Some(value(1)));
    let before = offsets.size_bytes();
    for is_committed in [false, true] {
        let write = offsets.begin_pending(PRODUCER, "t", 0, value(2));
        assert!(offsets.is_in_flight("t", 0) && !offsets.is_pending("t", 0) && offsets.has_in_flight_of(PRODUCER));
        offsets.finish(write, true);
        assert!(offsets.is_pending("t", 0) && !offsets.has_in_flight() && !offsets.has_in_flight_of(PRODUCER));
        assert_eq!((visible(&offsets, 0), offsets.is_pending("t", 1)), (Some(1), false));
        assert!(offsets.size_bytes() > before);
        offsets.end_transaction(PRODUCER, is_committed);
        assert!(!offsets.is_pending("t", 0) && !offsets.has_transaction(PRODUCER));
    }
    assert_eq!(visible(&offsets, 0), Some(2));
    let failed = offsets.begin_pending(PRODUCER, "t", 1, value(3));
    offsets.finish(failed, false);
    assert!(!offsets.contains("t", 1) && !offsets.has_transaction(PRODUCER));
    offsets.replay("t", 0, None);
    assert_eq!((offsets.is_empty(), offsets.size_bytes()), (true, 0));
}

#[test]
fn the_order_of_the_records_counts_and_not_that_of_the_markers() {
    let mut offsets = Offsets::default();
    offsets.replay_pending(1, "t", 0, value(1));
    offsets.replay_pending(2, "t", 0, value(2));
    offsets.replay_pending(1, "t", 1, value(3));
    offsets.replay("t", 1, Some(value(4)));
    offsets.replay_pending(2, "t", 1, value(5));
    offsets.end_transaction(2, true);
    assert_eq!((visible(&offsets, 0), visible(&offsets, 1)), (Some(2), Some(5)));
    assert!(offsets.is_pending("t", 0), "of the other transaction");
    offsets.end_transaction(1, true);
    assert_eq!((visible(&offsets, 0), visible(&offsets, 1)), (Some(2), Some(5)));
    assert!(!offsets.is_pending("t", 0));
}

#[test]
fn the_last_offset_of_a_transaction_counts_whichever_is_durable_first() {
    let mut offsets = Offsets::default();
    let first = offsets.begin_pending(PRODUCER, "t", 0, value(1));
    let second = offsets.begin_pending(PRODUCER, "t", 0, value(2));
    offsets.finish(second, true);
    offsets.finish(first, true);
    offsets.end_transaction(PRODUCER, true);
    assert_eq!(visible(&offsets, 0), Some(2));
}

#[test]
fn a_removal_takes_what_is_pending_before_it() {
    let mut offsets = Offsets::default();
    offsets.replay_pending(1, "t", 0, value(1));
    offsets.replay_pending(1, "u", 0, value(1));
    let late = offsets.begin_pending(2, "t", 0, value(2));
    let removal = offsets.begin("t", 0, None);
    let after = offsets.begin_pending(3, "t", 0, value(3));
    offsets.finish(removal, true);
    offsets.finish(late, true);
    assert!(!offsets.has_transaction(2) && !offsets.is_pending("t", 0));
    offsets.finish(after, true);
    for producer_id in 1..4 {
        offsets.end_transaction(producer_id, true);
    }
    assert_eq!(visible(&offsets, 0), Some(3), "it came after the removal");
    assert_eq!(offsets.get("u", 0).map(|committed| committed.offset), Some(1));

    offsets.replay_pending(1, "t", 0, value(1));
    let removal = offsets.begin("t", 0, None);
    offsets.finish(removal, false);
    assert!(offsets.is_pending("t", 0), "nothing was removed");
}

#[test]
fn what_is_pending_does_not_expire_and_keeps_what_it_may_replace() {
    let mut h = Harness::new();
    h.group.offsets.replay("t", 0, Some(value(1)));
    h.group.offsets.replay_pending(PRODUCER, "t", 0, value(2));
    h.group.offsets.replay_pending(PRODUCER, "t", 1, value(3));
    h.group.offsets.replay("t", 2, Some(value(4)));
    h.advance(10_000);
    assert_eq!(h.group.expired_offsets(h.now, 1_000), [("t".to_owned(), 2)]);
    h.group.offsets.end_transaction(PRODUCER, false);
    assert_eq!(h.group.expired_offsets(h.now, 1_000), [("t".to_owned(), 0), ("t".to_owned(), 2)]);

    h.group.offsets.replay("t", 0, None);
    h.group.offsets.replay("t", 2, None);
    assert!(h.group.is_vacant());
    h.group.offsets.replay_pending(PRODUCER, "t", 1, value(3));
    assert!(!h.group.is_obsolete() && !h.group.is_vacant());
}

#[test]
fn offsets_of_a_topic_go_if_all_of_a_partition_are_of_it() {
    let of = |topic: u8| CommittedOffset { topic_id: wire::Uuid([topic; 16]), ..value(1) };
    let mut offsets = Offsets::default();
    offsets.replay("t", 0, Some(of(1)));
    offsets.replay_pending(PRODUCER, "t", 1, of(1));
    offsets.replay("t", 2, Some(of(2)));
    offsets.replay_pending(PRODUCER, "t", 2, of(1));
    let _first = offsets.begin("t", 3, Some(of(1)));
    let of_topic = offsets.partitions_where_all(|_, value| value.topic_id == wire::Uuid([1; 16]));
    assert_eq!(of_topic, [("t".to_owned(), 0), ("t".to_owned(), 1)]);
    assert_eq!(offsets.partitions().len(), 4);
}

/// What the log has of the group's offsets.
enum Record {
    Offset { producer_id: Option<i64>, partition: i32, value: Option<CommittedOffset> },
    Marker { producer_id: i64, is_committed: bool },
}

/// What is on its way to the log.
struct Begun {
    record: Record,
    write: Option<OffsetWrite>,
}

/// All that can be seen of offsets.
fn view(offsets: &Offsets) -> String {
    let of = |partition| (visible(offsets, partition), offsets.is_pending("t", partition));
    let partitions: Vec<_> = (0..PARTITIONS).map(of).collect();
    format!("{partitions:?} {:?} {} bytes", offsets.producers().collect::<Vec<_>>(), offsets.size_bytes())
}

const PARTITIONS: i32 = 3;

/// Commits, removals, transactions and markers that become durable in any order, or fail, against the log's records one
/// after the other.
#[test]
fn what_is_in_memory_is_what_the_log_says() {
    for seed in 1..400_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |bound: u64| {
            random ^= random >> 12;
            random ^= random << 25;
            random ^= random >> 27;
            (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
        };
        let mut offsets = Offsets::default();
        let mut begun: Vec<Option<Begun>> = Vec::new();
        let mut log: Vec<Option<Record>> = Vec::new();
        for step in 0..60 {
            let (producer_id, partition) = (below(3) as i64, below(PARTITIONS as u64) as i32);
            let is_ending = begun
                .iter()
                .flatten()
                .any(|begun| matches!(begun.record, Record::Marker { producer_id: of, .. } if of == producer_id));
            let (record, write) = match below(8) {
                0 => {
                    let write = offsets.begin("t", partition, Some(value(step)));
                    (Record::Offset { producer_id: None, partition, value: Some(value(step)) }, Some(write))
                }
                1 => {
                    let write = offsets.begin("t", partition, None);
                    (Record::Offset { producer_id: None, partition, value: None }, Some(write))
                }
                2 | 3 if !is_ending => {
                    let write = offsets.begin_pending(producer_id, "t", partition, value(step));
                    let producer_id = Some(producer_id);
                    (Record::Offset { producer_id, partition, value: Some(value(step)) }, Some(write))
                }
                4 if !is_ending => (Record::Marker { producer_id, is_committed: below(2) == 0 }, None),
                _ => {
                    let waiting: Vec<_> = (0..begun.len()).filter(|index| begun[*index].is_some()).collect();
                    if let Some(index) = waiting.get(below(waiting.len().max(1) as u64) as usize) {
                        let is_durable = below(6) > 0;
                        end(&mut offsets, &mut begun, &mut log, *index, is_durable);
                    }
                    continue;
                }
            };
            begun.push(Some(Begun { record, write }));
            log.push(None);
        }
        // Markers last: they wait for what is before them.
        for markers in [false, true] {
            for index in 0..begun.len() {
                let is_marker = |begun: &Begun| begun.write.is_none();
                if begun[index].as_ref().is_some_and(|begun| is_marker(begun) == markers) {
                    end(&mut offsets, &mut begun, &mut log, index, true);
                }
            }
        }
        let mut replayed = Offsets::default();
        for record in log.into_iter().flatten() {
            match record {
                Record::Offset { producer_id: Some(producer_id), partition, value: Some(value) } => {
                    replayed.replay_pending(producer_id, "t", partition, value);
                }
                Record::Offset { partition, value, .. } => replayed.replay("t", partition, value),
                Record::Marker { producer_id, is_committed } => replayed.end_transaction(producer_id, is_committed),
            }
        }
        assert_eq!(view(&offsets), view(&replayed), "seed {seed}");
        for producer_id in 0..3 {
            offsets.end_transaction(producer_id, false);
        }
        for (topic, partition) in offsets.partitions() {
            offsets.replay(&topic, partition, None);
        }
        assert_eq!((offsets.is_empty(), offsets.size_bytes()), (true, 0), "seed {seed}");
    }
}

/// Ends what is on its way, as far as the coordinator would: a marker waits for its producer's writes.
fn end(offsets: &mut Offsets, begun: &mut [Option<Begun>], log: &mut [Option<Record>], index: usize, is_durable: bool) {
    let Some(Begun { record, write }) = begun[index].take() else { return };
    match (&record, write) {
        (_, Some(write)) => offsets.finish(write, is_durable),
        (Record::Marker { producer_id, .. }, None) if offsets.has_in_flight_of(*producer_id) => {
            begun[index] = Some(Begun { record, write: None });
            return;
        }
        (Record::Marker { producer_id, is_committed }, None) if is_durable => {
            offsets.end_transaction(*producer_id, *is_committed);
        }
        (_, None) => {}
    }
    if is_durable {
        log[index] = Some(record);
    }
}
