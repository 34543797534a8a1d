//! Who may commit, what is visible, and what expires.

use super::*;

#[test]
fn who_may_commit() {
    let check = |h: &mut Harness, member_id: &str, instance_id, generation| {
        let now = h.now;
        h.group.check_commit(now, member_id, instance_id, generation)
    };
    let mut h = Harness::new();
    assert_eq!(check(&mut h, "", None, -1), Ok(()), "a simple consumer");
    assert_eq!(check(&mut h, "m1", None, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));

    h = Harness::stable(1);
    assert_eq!(check(&mut h, "m1", None, 1), Ok(()));
    assert_eq!(check(&mut h, "", None, -1), Err(ErrorCode::UNKNOWN_MEMBER_ID), "the group has members");
    assert_eq!(check(&mut h, "m1", None, 0), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(check(&mut h, "m1", None, -1), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(check(&mut h, "m2", None, 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check(&mut h, "m1", Some("i"), 1), Err(ErrorCode::UNKNOWN_MEMBER_ID));

    h.join_new();
    assert_eq!(check(&mut h, "m1", None, 1), Ok(()), "before it gives up its partitions");
    h.rejoin("m1");
    assert_eq!(h.group.state, State::CompletingRebalance);
    assert_eq!(check(&mut h, "m1", None, 2), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    assert_eq!(check(&mut h, "m1", None, 1), Err(ErrorCode::ILLEGAL_GENERATION));
}

#[test]
fn a_commit_is_a_sign_of_life() {
    let mut h = Harness::stable(1);
    for _ in 0..3 {
        h.advance(SESSION_MS - 1);
        let now = h.now;
        assert_eq!(h.group.check_commit(now, "m1", None, 1), Ok(()));
    }
}

fn at(offset: i64, now: Now) -> Option<CommittedOffset> {
    Some(CommittedOffset {
        offset,
        commit_timestamp_ms: now.wall_ms,
        known_ms: now.monotonic_ms,
        expire_timestamp_ms: -1,
        ..Default::default()
    })
}

#[test]
fn offsets_are_visible_when_durable_and_the_later_record_wins() {
    let mut offsets = Offsets::default();
    let now = NOW;
    let first = offsets.begin("t", 0, at(1, now));
    let second = offsets.begin("t", 0, at(2, now));
    assert_eq!(offsets.get("t", 0), None);
    assert!(offsets.is_in_flight("t", 0) && offsets.contains("t", 0));
    offsets.finish(second, true);
    assert_eq!(offsets.get("t", 0).map(|o| o.offset), Some(2));
    offsets.finish(first, true);
    assert_eq!(offsets.get("t", 0).map(|o| o.offset), Some(2), "the first was earlier in the log");
    assert!(!offsets.has_in_flight());

    let failed = offsets.begin("t", 0, at(3, now));
    offsets.finish(failed, false);
    assert_eq!(offsets.get("t", 0).map(|o| o.offset), Some(2));

    let commit = offsets.begin("t", 0, at(4, now));
    let removal = offsets.begin("t", 0, None);
    offsets.finish(removal, true);
    offsets.finish(commit, true);
    assert!(offsets.is_empty(), "the removal came later");
    assert_eq!(offsets.size_bytes(), 0);
}

#[test]
fn offsets_expire_from_when_the_group_became_empty() {
    let day = 24 * 60 * 60 * 1000;
    let expired = |h: &Harness| h.group.expired_offsets(h.now, i64::from(7 * day));
    let mut h = Harness::stable(1);
    let committed = at(5, h.now);
    h.group.offsets.replay("t", 0, committed);
    for _ in 0..10 * 24 * 3600 / 5 {
        h.now.monotonic_ms += 5_000;
        assert_eq!(h.heartbeat("m1"), ErrorCode::NONE);
    }
    assert!(expired(&h).is_empty(), "it has members, and what they subscribe to is not known");
    h.leave(&[("m1", None)]);
    h.advance(7 * day - 1);
    h.now.wall_ms += 100 * i64::from(day);
    assert!(expired(&h).is_empty(), "the wall clock does not count");
    h.advance(1);
    assert_eq!(expired(&h), [("t".to_owned(), 0)]);
    let committed = at(6, h.now);
    h.group.offsets.replay("t", 0, committed);
    assert!(expired(&h).is_empty(), "an administrator has just set it");
}

#[test]
fn offsets_of_a_simple_group_expire_from_the_commit() {
    let mut h = Harness::new();
    let committed = at(5, h.now);
    h.group.offsets.replay("t", 0, committed);
    h.advance(500);
    let committed = at(5, h.now);
    h.group.offsets.replay("t", 1, committed);
    h.advance(500);
    assert_eq!(h.group.expired_offsets(h.now, 1_000), [("t".to_owned(), 0)]);
    let busy = h.group.offsets.begin("t", 0, at(6, h.now));
    assert!(h.group.expired_offsets(h.now, 1_000).is_empty(), "a commit is on its way");
    h.group.offsets.finish(busy, false);
    let own = CommittedOffset { expire_timestamp_ms: h.now.wall_ms + 50, ..at(7, h.now).unwrap() };
    h.group.offsets.replay("t", 2, Some(own));
    h.advance(50);
    assert_eq!(h.group.expired_offsets(h.now, 10_000), [("t".to_owned(), 2)], "a time of its own");
}

#[test]
fn topics_that_nobody_subscribes_to_expire_while_the_group_lives() {
    let mut h = Harness::new();
    // ConsumerProtocolSubscription v0 of the topic "t".
    let subscription: &[u8] = b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff";
    h.join(JoinArgs { api_version: Some(3), protocols: Some(&[("range", subscription)]), ..Default::default() });
    h.advance(3_000);
    h.settle(&["m1".to_owned()]);
    assert!(h.group.is_subscribed_to("t") && !h.group.is_subscribed_to("u"));
    for topic in ["t", "u"] {
        let committed = at(5, h.now);
        h.group.offsets.replay(topic, 0, committed);
    }
    h.advance(1_000);
    assert_eq!(h.group.expired_offsets(h.now, 1_000), [("u".to_owned(), 0)]);
    assert_eq!(h.group.check_delete_offsets(), Ok(()));
    assert_eq!(h.group.check_delete(), Err(ErrorCode::NON_EMPTY_GROUP));
}

#[test]
fn offsets_of_a_group_of_another_type_cannot_be_deleted_while_it_has_members() {
    let mut h = Harness::new();
    h.join(JoinArgs { api_version: Some(3), protocol_type: Some("connect"), ..Default::default() });
    h.advance(3_000);
    assert_eq!(h.group.check_delete_offsets(), Err(ErrorCode::NON_EMPTY_GROUP));
    assert!(!h.group.is_subscribed_to("t"));
}
