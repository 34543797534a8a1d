//! Members that come and go, and how partitions pass from one to another.

use wire::ErrorCode;
use wire::api::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

use super::fake::{REBALANCE_MS, SESSION_MS, World, assigned, joining, silent, topic_id};
use crate::group::consumer::offsets::CommitCheck;
use crate::group::consumer::{Current, MemberState, Record, State};

#[test]
fn a_member_gets_everything_and_gives_a_share_to_the_next() {
    let mut world = World::new();
    let first = world.join("a");
    assert_eq!((first.member_epoch, assigned(&first), first.heartbeat_interval_ms), (2, Some(vec![0, 1, 2, 3]), 5_000));
    assert_eq!(world.group.state(), State::Stable);

    // Nothing is given to the second before the first has given it up.
    let second = world.join("b");
    assert_eq!((second.member_epoch, assigned(&second)), (3, Some(vec![])));
    assert_eq!(world.group.state(), State::Reconciling);
    let told = world.report("a", 2, &[0, 1, 2, 3]).unwrap();
    assert_eq!((told.member_epoch, assigned(&told)), (2, Some(vec![0, 1])));
    assert_eq!(assigned(&world.report("b", 3, &[]).unwrap()), None);
    // A heartbeat without a list says nothing about what it has.
    let still = world.send(silent("a", 2)).unwrap();
    assert_eq!((still.member_epoch, assigned(&still)), (2, None));
    assert_eq!(assigned(&world.report("b", 3, &[]).unwrap()), None);

    let given_up = world.report("a", 2, &[0, 1]).unwrap();
    assert_eq!((given_up.member_epoch, assigned(&given_up)), (3, None));
    assert_eq!(assigned(&world.report("b", 3, &[]).unwrap()), Some(vec![2, 3]));
    assert_eq!(world.group.state(), State::Stable);
}

#[test]
fn a_member_that_did_not_hear_the_answer_may_go_on_and_another_may_not() {
    let mut world = World::new();
    world.join("a");
    world.join("b");
    world.report("a", 2, &[0, 1, 2, 3]).unwrap();
    world.report("a", 2, &[0, 1]).unwrap();
    // It is in epoch 3 and does not know.
    assert_eq!(world.report("a", 2, &[0, 1]).unwrap().member_epoch, 3);
    assert_eq!(world.report("a", 2, &[0, 1, 2]), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(world.send(silent("a", 2)), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(world.send(silent("a", 1)), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(world.send(silent("a", 4)), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(world.send(silent("c", 3)), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    // Joining again is allowed in any state.
    let again = world.join("a");
    assert_eq!((again.member_epoch, assigned(&again)), (3, Some(vec![0, 1])));
}

#[test]
fn a_sign_of_life_counts_in_the_present_epoch_only() {
    for other_epoch in [1, 3] {
        let mut world = World::new();
        world.join("a");
        assert_eq!(world.send(silent("a", 2)).unwrap().member_epoch, 2);
        assert_eq!(world.send(silent("a", other_epoch)), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    }
}

#[test]
fn silent_members_and_those_that_do_not_give_up_are_put_out() {
    let mut world = World::new();
    world.join("a");
    world.join("b");
    world.pass(SESSION_MS - 1);
    world.report("b", 3, &[]).unwrap();
    assert!(world.group.has_member("a"));
    world.pass(1);
    assert!(!world.group.has_member("a") && world.group.has_member("b"));
    assert_eq!(world.send(silent("a", 2)), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(assigned(&world.report("b", 3, &[]).unwrap()), Some(vec![0, 1, 2, 3]));

    // It has to give up two of its partitions, and never does.
    world.join("c");
    world.report("b", 4, &[0, 1, 2, 3]).unwrap();
    for _ in 0..REBALANCE_MS / 10_000 {
        assert!(world.group.has_member("b"));
        world.report("b", 4, &[0, 1, 2, 3]).unwrap();
        world.report("c", 5, &[]).unwrap();
        world.pass(10_000);
    }
    assert!(!world.group.has_member("b") && world.group.has_member("c"));
}

#[test]
fn a_static_member_comes_back_to_what_it_had() {
    let mut world = World::new();
    let static_member =
        |member_id: &str| ConsumerGroupHeartbeatRequest { instance_id: Some("i".into()), ..joining(member_id, &["t"]) };
    world.send(static_member("a")).unwrap();
    let epoch = world.group.epoch();
    assert_eq!(world.send(static_member("b")), Err(ErrorCode::UNRELEASED_INSTANCE_ID));
    assert_eq!(world.leave("b", Some("i"), -2), Err(ErrorCode::FENCED_INSTANCE_ID));
    assert_eq!(world.leave("a", Some("j"), -2), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    world.leave("a", Some("i"), -2).unwrap();
    assert_eq!(world.send(silent("a", 2)), Err(ErrorCode::FENCED_MEMBER_EPOCH));

    let back = world.send(static_member("b")).unwrap();
    assert_eq!((back.member_epoch, assigned(&back)), (epoch, Some(vec![0, 1, 2, 3])));
    assert_eq!((world.group.epoch(), world.group.member_count()), (epoch, 1));
    let with_instance =
        |member_id: &str| ConsumerGroupHeartbeatRequest { instance_id: Some("i".into()), ..silent(member_id, epoch) };
    assert_eq!(world.send(with_instance("a")), Err(ErrorCode::FENCED_INSTANCE_ID));
    assert!(world.send(with_instance("b")).is_ok());

    // Who does not come back within the session is out.
    world.leave("b", Some("i"), -2).unwrap();
    world.pass(SESSION_MS);
    assert!(world.group.is_empty());
}

#[test]
fn a_target_stays_for_the_interval() {
    let mut world = World::new();
    world.settings.assignment_interval_ms = 1_000;
    world.join("a");
    let joined = world.join("b");
    // It is in the epoch of the target that there is, and gets nothing of it.
    assert_eq!((joined.member_epoch, assigned(&joined)), (2, Some(vec![])));
    assert_eq!((world.group.epoch(), world.group.assignment_epoch(), world.group.state()), (3, 2, State::Assigning));
    world.pass(999);
    assert_eq!(world.report("b", 2, &[]).unwrap().member_epoch, 2);
    world.pass(1);
    assert_eq!(world.report("b", 2, &[]).unwrap().member_epoch, 3);
    assert_eq!(assigned(&world.report("a", 2, &[0, 1, 2, 3]).unwrap()), Some(vec![0, 1]));
}

#[test]
fn a_group_takes_no_more_members_than_it_may() {
    let mut world = World::new();
    world.settings.max_size = 1;
    world.join("a");
    assert_eq!(world.send(joining("b", &["t"])), Err(ErrorCode::GROUP_MAX_SIZE_REACHED));
    assert!(world.send(joining("a", &["t"])).is_ok());
}

#[test]
fn a_change_that_was_not_written_is_taken_back() {
    let mut world = World::new();
    world.join("a");
    let before = world.clone();
    let size_bytes = world.group.size_bytes();
    let change = world.answer(joining("b", &["t"])).unwrap().change;
    assert!(change.records.len() >= 4 && world.group.size_bytes() > size_bytes);
    world.group.take_back(change);
    assert!(!world.group.has_member("b"));
    assert_eq!((world.group.epoch(), world.group.assignment_epoch()), (2, 2));
    assert_eq!((&world.group.targets, &world.group.owners), (&before.group.targets, &before.group.owners));
    assert_eq!(world.group.size_bytes(), size_bytes);
    // The next one does it.
    assert_eq!(world.join("b").member_epoch, 3);
}

#[test]
fn a_state_of_the_future_has_to_be_left_without_partitions() {
    let mut world = World::new();
    world.join("a");
    let current = Current { state: MemberState::Unknown, ..world.group.current["a"].clone() };
    world.group.apply(Record::Current { member_id: "a".into(), current: Some(current) });
    assert_eq!(world.send(silent("a", 2)), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(world.report("a", 2, &[0]), Err(ErrorCode::FENCED_MEMBER_EPOCH));
    assert_eq!(assigned(&world.join("a")), Some(vec![0, 1, 2, 3]));
    assert_eq!(world.group.state(), State::Stable);
}

#[test]
fn members_commit_what_has_been_theirs_without_a_break() {
    let mut world = World::new();
    let check = |world: &World, version: Option<i16>, member: &str, epoch: i32, partition: i32| {
        let checked = world.group.check_commit(version, member, None, epoch)?;
        checked.partition(topic_id(1), partition)
    };
    assert_eq!(check(&world, Some(9), "", -1, 0), Ok(()));
    world.join("a");
    world.join("b");
    let (stale, illegal) = (Err(ErrorCode::STALE_MEMBER_EPOCH), Err(ErrorCode::ILLEGAL_GENERATION));
    assert_eq!(check(&world, Some(9), "", -1, 0), Err(ErrorCode::UNKNOWN_MEMBER_ID));
    assert_eq!(check(&world, None, "", -1, 0), Ok(()));
    assert_eq!(check(&world, Some(8), "a", 2, 0), Err(ErrorCode::UNSUPPORTED_VERSION));
    assert_eq!(world.group.check_commit(Some(9), "a", None, 2), Ok(CommitCheck::Accepted));
    assert_eq!(check(&world, Some(9), "a", 3, 0), stale);
    world.report("a", 2, &[0, 1, 2, 3]).unwrap();
    // What it has still to give up is its own.
    assert_eq!(check(&world, Some(9), "a", 2, 3), Ok(()));
    world.report("a", 2, &[0, 1]).unwrap();
    assert_eq!((check(&world, Some(9), "a", 2, 1), check(&world, Some(9), "a", 2, 2)), (Ok(()), stale));
    assert_eq!((check(&world, None, "a", 2, 1), check(&world, None, "a", 2, 2)), (Ok(()), illegal));
    world.report("b", 3, &[]).unwrap();
    assert_eq!(check(&world, Some(9), "b", 2, 2), stale);

    assert_eq!(world.group.check_fetch(None, -1), Ok(()));
    assert_eq!(world.group.check_fetch(Some("a"), 3), Ok(()));
    assert_eq!(world.group.check_fetch(Some("a"), 2), stale);
    assert_eq!(world.group.check_fetch(Some("c"), 3), Err(ErrorCode::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_deleted_group_leaves_nothing() {
    let mut world = World::new();
    world.join("a");
    world.leave("a", None, -1).unwrap();
    assert!(world.group.is_empty() && world.group.is_stored());
    world.change(|group, _| ((), group.delete()));
    assert!(!world.group.is_stored());
    assert_eq!(world.group.size_bytes(), world.group.own_bytes());
}
