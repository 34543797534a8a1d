//! Joining, syncing, heartbeats, leaving, and timeouts.

use super::*;

#[test]
fn a_new_dynamic_member_gets_an_id_first() {
    let mut h = Harness::new();
    let first = h.join(JoinArgs { api_version: Some(4), ..Default::default() });
    assert_eq!(h.joined(first).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    assert_eq!(h.joined(first).member_id, "m1");
    assert_eq!(h.group.state, State::Empty);
    assert!(h.group.is_pending("m1"));
    assert_eq!(h.heartbeat("m1"), ErrorCode::UNKNOWN_MEMBER_ID, "it is no member yet");

    let second = h.rejoin("m1");
    assert_eq!(h.group.state, State::PreparingRebalance);
    h.advance(3_000);
    let response = h.joined(second);
    assert_eq!((response.error_code, response.generation_id), (ErrorCode::NONE, 1));
    assert_eq!((response.leader.as_str(), response.members.len()), ("m1", 1));
    assert_eq!(response.protocol_name.as_deref(), Some("range"));
    assert_eq!(response.protocol_type.as_deref(), Some("consumer"));
    assert!(!h.group.is_pending("m1"));
}

#[test]
fn an_unused_member_id_expires() {
    let mut h = Harness::new();
    h.join(JoinArgs::default());
    assert!(!h.group.is_vacant());
    h.advance(SESSION_MS);
    assert!(h.group.is_vacant());
    let request = h.rejoin("m1");
    assert_eq!(h.joined(request).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_rebalance_waits_for_member_ids_that_were_handed_out() {
    let mut h = Harness::stable(1);
    h.join(JoinArgs::default());
    assert_eq!(h.group.state, State::Stable, "handing out an id disturbs nobody");
    let rejoined = h.rejoin("m1");
    h.advance(SESSION_MS - 1);
    assert!(!h.joined.contains_key(&rejoined), "the other may join yet");
    h.advance(1);
    assert_eq!(h.joined(rejoined).generation_id, 2, "it did not");
}

#[test]
fn the_initial_delay_is_extended_while_members_come() {
    let mut h = Harness::new();
    let first = h.join_new();
    h.advance(2_000);
    let second = h.join_new();
    h.advance(1_000);
    assert!(h.joined.is_empty(), "somebody came: three more seconds");
    h.advance(3_000);
    assert_eq!(h.joined(first).generation_id, 1);
    assert_eq!(h.joined(second).generation_id, 1);
    assert_eq!(h.joined(first).members.len(), 2, "the leader knows all");
    assert_eq!(h.joined(second).members.len(), 0, "the others do not");
    assert_eq!(h.group.state, State::CompletingRebalance);
}

#[test]
fn the_initial_delay_ends_with_the_rebalance_timeout() {
    let mut h = Harness::new();
    let join = JoinArgs { api_version: Some(3), rebalance_ms: Some(7_000), ..Default::default() };
    let first = h.join(join.clone());
    for _ in 0..6 {
        h.advance(1_000);
        h.join(join.clone());
        assert!(!h.joined.contains_key(&first));
    }
    h.advance(1_000);
    assert_eq!(h.joined(first).members.len(), 7);
}

#[test]
fn without_a_delay_the_first_member_is_served_at_once() {
    let mut h = Harness::new();
    h.config.initial_rebalance_delay_ms = 0;
    let first = h.join_new();
    h.advance(0);
    assert_eq!(h.joined(first).generation_id, 1);
}

#[test]
fn protocols_must_have_a_type_and_a_name_in_common() {
    let mut h = Harness::new();
    for (protocol_type, protocols) in [("", &[("range", &b""[..])][..]), ("consumer", &[])] {
        let args = JoinArgs { protocol_type: Some(protocol_type), protocols: Some(protocols), ..Default::default() };
        let request = h.join(args);
        assert_eq!(h.joined(request).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    let mut h = Harness::stable(1);
    let other_type = JoinArgs { protocol_type: Some("connect"), ..Default::default() };
    let other_name = JoinArgs { protocols: Some(&[("roundrobin", b"")]), ..Default::default() };
    let of_member = JoinArgs { member_id: "m1", protocols: Some(&[("roundrobin", b"")]), ..Default::default() };
    for args in [other_type, other_name, of_member] {
        let request = h.join(args);
        assert_eq!(h.joined(request).error_code, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
    }
    assert_eq!(h.group.state, State::Stable);
}

#[test]
fn any_protocol_type_will_do_and_an_empty_group_may_change_it() {
    let mut h = Harness::new();
    let connect = [("compatible", &b"opaque"[..])];
    let args = JoinArgs {
        api_version: Some(3),
        protocol_type: Some("connect"),
        protocols: Some(&connect),
        ..Default::default()
    };
    let request = h.join(args);
    h.advance(3_000);
    assert_eq!(h.joined(request).protocol_type.as_deref(), Some("connect"));
    assert_eq!(h.joined(request).members[0].metadata, &b"opaque"[..]);
    h.leave(&[("m1", None)]);
    assert_eq!(h.group.state, State::Empty);
    assert_eq!(h.group.protocol_type(), Some("connect"), "it keeps what it was");
    h.join_new();
    assert_eq!(h.group.protocol_type(), Some("consumer"));
}

#[test]
fn the_protocol_with_the_most_votes_of_those_all_know_is_chosen() {
    let mut h = Harness::new();
    let join = |h: &mut Harness, protocols: &[(&str, &[u8])]| {
        h.join(JoinArgs { api_version: Some(3), protocols: Some(protocols), ..Default::default() })
    };
    let first = join(&mut h, &[("only-mine", b""), ("a", b"a1"), ("b", b"b1")]);
    join(&mut h, &[("b", b"b2"), ("a", b"a2")]);
    join(&mut h, &[("b", b"b3"), ("a", b"a3")]);
    h.advance(6_000);
    assert_eq!(h.joined(first).protocol_name.as_deref(), Some("b"));
    let metadata: Vec<_> = h.joined(first).members.iter().map(|m| m.metadata.clone()).collect();
    assert_eq!(metadata, [&b"b1"[..], b"b2", b"b3"]);
}

#[test]
fn the_assignment_is_delivered_when_it_is_stored() {
    let mut h = Harness::new();
    h.join_new();
    h.join_new();
    h.advance(6_000);
    let follower = h.sync("m2", &[]);
    let leader = h.sync("m1", &[("m1", b"one"), ("m2", b"two"), ("nobody", b"x")]);
    assert!(h.synced.is_empty(), "not stored yet");
    assert_eq!(h.writes.len(), 1);
    let value = &h.writes[0].value;
    assert_eq!((value.generation, value.leader.as_deref(), value.members.len()), (1, Some("m1"), 2));
    assert_eq!(value.members[1].assignment, &b"two"[..]);
    assert_eq!(value.members[1].subscription, &b"meta"[..]);
    h.written(Ok(()));
    assert_eq!(h.synced[&follower].assignment, &b"two"[..]);
    assert_eq!(h.synced[&leader].assignment, &b"one"[..]);
    assert_eq!(h.synced[&leader].protocol_name.as_deref(), Some("range"));
    assert_eq!(h.group.state, State::Stable);
    let again = h.sync("m2", &[]);
    assert_eq!(h.synced[&again].assignment, &b"two"[..]);
}

#[test]
fn members_that_the_leader_forgets_get_nothing() {
    let mut h = Harness::new();
    h.join_new();
    h.join_new();
    h.advance(6_000);
    let follower = h.sync("m2", &[]);
    h.sync("m1", &[("m1", b"one")]);
    h.written(Ok(()));
    assert_eq!((h.synced[&follower].error_code, h.synced[&follower].assignment.len()), (ErrorCode::NONE, 0));
}

#[test]
fn a_leader_that_syncs_twice_does_not_change_its_mind() {
    let mut h = Harness::new();
    h.join_new();
    h.advance(3_000);
    let first = h.sync("m1", &[("m1", b"one")]);
    let second = h.sync("m1", &[("m1", b"other")]);
    assert_eq!(h.writes.len(), 1);
    assert_eq!(h.synced[&first].error_code, ErrorCode::REBALANCE_IN_PROGRESS, "superseded");
    h.written(Ok(()));
    assert_eq!(h.synced[&second].assignment, &b"one"[..]);
}

#[test]
fn an_assignment_that_cannot_be_stored_starts_a_rebalance() {
    let mut h = Harness::new();
    h.join_new();
    h.advance(3_000);
    let request = h.sync("m1", &[("m1", b"one")]);
    h.written(Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(h.synced[&request].error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(h.group.state, State::PreparingRebalance);
    assert_eq!(h.group.assignment("m1").map(Bytes::len), Some(0));
}

#[test]
fn an_assignment_that_is_stored_too_late_counts_for_nothing() {
    let mut h = Harness::stable(2);
    h.rejoin("m1");
    h.rejoin("m2");
    h.sync("m1", &[("m1", b"late"), ("m2", b"late")]);
    let waiting = h.sync("m2", &[]);
    h.join_new();
    assert_eq!(h.synced[&waiting].error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    h.written(Ok(()));
    assert_eq!(h.group.state, State::PreparingRebalance);
    assert_eq!(h.group.assignment("m2").map(Bytes::len), Some(0));
}

#[test]
fn sync_is_checked() {
    let request = |member_id: &str, generation_id| SyncGroupRequest {
        generation_id,
        member_id: member_id.to_owned(),
        ..Default::default()
    };
    let mut h = Harness::new();
    let id = h.sync_request(request("m1", 0));
    assert_eq!(h.synced[&id].error_code, ErrorCode::UNKNOWN_MEMBER_ID, "an empty group");

    let mut h = Harness::stable(1);
    let fenced = SyncGroupRequest { group_instance_id: Some("i".into()), ..request("m1", 1) };
    let wrong_type = SyncGroupRequest { protocol_type: Some("connect".into()), ..request("m1", 1) };
    let wrong_name = SyncGroupRequest { protocol_name: Some("sticky".into()), ..request("m1", 1) };
    let right = SyncGroupRequest {
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        ..request("m1", 1)
    };
    for (request, error) in [
        (request("stranger", 1), ErrorCode::UNKNOWN_MEMBER_ID),
        (request("m1", 0), ErrorCode::ILLEGAL_GENERATION),
        (request("m1", 2), ErrorCode::ILLEGAL_GENERATION),
        (fenced, ErrorCode::UNKNOWN_MEMBER_ID),
        (wrong_type, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (wrong_name, ErrorCode::INCONSISTENT_GROUP_PROTOCOL),
        (right, ErrorCode::NONE),
    ] {
        let id = h.sync_request(request.clone());
        assert_eq!(h.synced[&id].error_code, error, "{request:?}");
    }
    h.join_new();
    let id = h.sync_request(request("m1", 1));
    assert_eq!(h.synced[&id].error_code, ErrorCode::REBALANCE_IN_PROGRESS);
}

#[test]
fn heartbeats_by_state() {
    let mut h = Harness::new();
    assert_eq!(h.heartbeat("m1"), ErrorCode::UNKNOWN_MEMBER_ID, "empty");
    h.join_new();
    h.advance(3_000);
    assert_eq!(h.heartbeat("m1"), ErrorCode::NONE, "completing");
    h.sync("m1", &[]);
    h.written(Ok(()));
    assert_eq!(h.heartbeat("m1"), ErrorCode::NONE, "stable");
    assert_eq!(h.heartbeat("stranger"), ErrorCode::UNKNOWN_MEMBER_ID);
    let now = h.now;
    assert_eq!(h.group.heartbeat(now, "m1", None, 0), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(h.group.heartbeat(now, "m1", Some("i"), 1), ErrorCode::UNKNOWN_MEMBER_ID);
    h.join_new();
    assert_eq!(h.heartbeat("m1"), ErrorCode::REBALANCE_IN_PROGRESS, "preparing");
    h.group.begin_delete(h.now);
    assert_eq!(h.heartbeat("m1"), ErrorCode::COORDINATOR_NOT_AVAILABLE, "dead");
}

#[test]
fn a_silent_member_is_removed_and_the_others_rebalance() {
    let mut h = Harness::stable(2);
    h.advance(SESSION_MS - 1);
    assert_eq!(h.heartbeat("m2"), ErrorCode::NONE);
    h.advance(1);
    assert_eq!(h.group.member_ids().collect::<Vec<_>>(), ["m2"]);
    assert_eq!(h.group.state, State::PreparingRebalance);
    assert_eq!(h.heartbeat("m2"), ErrorCode::REBALANCE_IN_PROGRESS);
    let request = h.rejoin("m2");
    assert_eq!((h.joined(request).generation_id, h.joined(request).leader.as_str()), (2, "m2"));
}

#[test]
fn the_last_member_that_goes_silent_leaves_an_empty_group() {
    let mut h = Harness::stable(1);
    h.advance(SESSION_MS);
    assert_eq!((h.group.state, h.group.generation), (State::Empty, 2));
    assert_eq!(h.writes.len(), 1);
    let value = &h.writes[0].value;
    assert_eq!((value.generation, value.members.len(), &value.protocol, &value.leader), (2, 0, &None, &None));
    assert_eq!(value.protocol_type, "consumer");
}

#[test]
fn a_rebalance_does_not_wait_for_ever() {
    let mut h = Harness::stable(2);
    let first = h.rejoin("m1");
    for _ in 0..11 {
        h.advance(REBALANCE_MS / 12);
        assert_eq!(h.heartbeat("m2"), ErrorCode::REBALANCE_IN_PROGRESS, "alive, but busy");
        assert!(!h.joined.contains_key(&first));
    }
    h.advance(REBALANCE_MS / 12);
    assert_eq!(h.joined(first).members.len(), 1);
    assert_eq!(h.heartbeat("m2"), ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_leader_that_does_not_rejoin_is_replaced() {
    let mut h = Harness::stable(2);
    h.join_new();
    let follower = h.rejoin("m2");
    for _ in 0..8 {
        h.heartbeat("m1");
        h.advance(REBALANCE_MS / 8);
    }
    assert_eq!(h.joined(follower).generation_id, 2);
    let leader = h.joined(follower).leader.clone();
    assert_ne!(leader, "m1");
    assert!(h.group.member_ids().any(|id| id == leader));
}

#[test]
fn members_that_never_sync_are_removed() {
    let mut h = Harness::stable(2);
    let first = h.rejoin("m1");
    h.rejoin("m2");
    assert_eq!(h.joined(first).generation_id, 2);
    h.sync("m1", &[("m1", b"all")]);
    h.written(Ok(()));
    for _ in 0..12 {
        h.heartbeat("m1");
        h.heartbeat("m2");
        h.advance(REBALANCE_MS / 12);
    }
    assert_eq!(h.group.member_ids().collect::<Vec<_>>(), ["m1"]);
    assert_eq!(h.group.state, State::PreparingRebalance);
}

#[test]
fn a_new_member_that_waits_too_long_is_told_to_start_anew() {
    let mut h = Harness::stable(1);
    let waiting = h.join(JoinArgs { api_version: Some(3), rebalance_ms: Some(i32::MAX), ..Default::default() });
    let minutes = (GroupConfig::NEW_MEMBER_JOIN_TIMEOUT_MS / 5_000) as i32;
    for _ in 0..minutes {
        assert!(!h.joined.contains_key(&waiting));
        h.heartbeat("m1");
        h.advance(5_000);
    }
    assert_eq!(h.joined(waiting).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.joined(waiting).member_id, "");
}

#[test]
fn a_member_that_waits_needs_no_heartbeat() {
    let mut h = Harness::stable(2);
    let waiting = h.rejoin("m1");
    for _ in 0..5 {
        h.advance(SESSION_MS - 1);
        h.heartbeat("m2");
    }
    assert!(!h.joined.contains_key(&waiting));
    assert!(h.group.member_ids().any(|id| id == "m1"));
    h.rejoin("m2");
    assert_eq!(h.joined(waiting).error_code, ErrorCode::NONE);
    h.advance(SESSION_MS);
    assert!(!h.group.member_ids().any(|id| id == "m1"), "its session has begun anew and ended");
}

#[test]
fn rejoining_a_stable_group() {
    let mut h = Harness::stable(2);
    let follower = h.rejoin("m2");
    assert_eq!((h.joined(follower).generation_id, h.joined(follower).members.len()), (1, 0), "nothing has changed");
    assert_eq!(h.group.state, State::Stable);

    let changed = JoinArgs { member_id: "m2", protocols: Some(&[("range", b"new")]), ..Default::default() };
    h.join(changed);
    assert_eq!(h.group.state, State::PreparingRebalance, "a follower with new metadata");

    let mut h = Harness::stable(2);
    h.rejoin("m1");
    assert_eq!(h.group.state, State::PreparingRebalance, "the leader, whatever it says");
}

#[test]
fn rejoining_a_group_that_waits_for_its_assignment() {
    let mut h = Harness::new();
    h.join_new();
    h.join_new();
    h.advance(6_000);
    let leader = h.rejoin("m1");
    assert_eq!((h.joined(leader).generation_id, h.joined(leader).members.len()), (1, 2), "it lost the answer");
    let follower = h.rejoin("m2");
    assert_eq!((h.joined(follower).generation_id, h.joined(follower).members.len()), (1, 0));
    let waiting = h.sync("m1", &[]);
    h.join(JoinArgs { member_id: "m2", protocols: Some(&[("range", b"new")]), ..Default::default() });
    assert_eq!(h.synced[&waiting].error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(h.group.state, State::PreparingRebalance);
}

#[test]
fn a_join_that_is_repeated_replaces_the_one_that_waits() {
    let mut h = Harness::stable(2);
    let first = h.rejoin("m1");
    let second = h.rejoin("m1");
    assert_eq!(h.joined(first).error_code, ErrorCode::REBALANCE_IN_PROGRESS);
    h.rejoin("m2");
    assert_eq!(h.joined(second).generation_id, 2);
}

#[test]
fn group_max_size() {
    let mut h = Harness::stable(2);
    h.config.max_size = 2;
    let request = h.join_new();
    assert_eq!(h.joined(request).error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(h.group.state, State::Stable);
    // A smaller bound leaves out the last to rejoin.
    h.config.max_size = 1;
    let first = h.rejoin("m1");
    let second = h.rejoin("m2");
    assert_eq!(h.joined(second).error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert!(!h.joined.contains_key(&first) || h.joined(first).members.len() == 1);
    h.advance(REBALANCE_MS);
    assert_eq!(h.joined(first).members.len(), 1);
}

#[test]
fn leaving() {
    let mut h = Harness::stable(3);
    let errors = h.leave(&[("m1", None), ("stranger", None), ("", None), ("m1", None)]);
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID;
    assert_eq!(errors, [ErrorCode::NONE, unknown, unknown, unknown]);
    assert_eq!(h.group.state, State::PreparingRebalance);
    let first = h.rejoin("m2");
    assert_eq!(h.leave(&[("m3", None)]), [ErrorCode::NONE]);
    assert_eq!(h.joined(first).members.len(), 1, "nobody else is waited for");
    assert_eq!(h.leave(&[("stranger", None)]), [unknown]);
    assert_eq!(h.group.state, State::CompletingRebalance, "nobody left, nothing happened");
}

#[test]
fn leaving_answers_what_the_member_waits_for() {
    let mut h = Harness::stable(2);
    let joining = h.rejoin("m1");
    h.leave(&[("m1", None)]);
    assert_eq!(h.joined(joining).error_code, ErrorCode::UNKNOWN_MEMBER_ID);

    let mut h = Harness::stable(2);
    h.rejoin("m1");
    h.rejoin("m2");
    let syncing = h.sync("m2", &[]);
    h.leave(&[("m2", None)]);
    assert_eq!(h.synced[&syncing].error_code, ErrorCode::UNKNOWN_MEMBER_ID);
}

#[test]
fn a_pending_member_may_leave() {
    let mut h = Harness::stable(1);
    h.join(JoinArgs::default());
    let waiting = h.rejoin("m1");
    assert!(!h.joined.contains_key(&waiting));
    assert_eq!(h.leave(&[("m2", None)]), [ErrorCode::NONE]);
    assert_eq!(h.joined(waiting).generation_id, 2);
}

#[test]
fn a_dead_group_sends_everybody_away() {
    let mut h = Harness::new();
    h.group.begin_delete(h.now);
    let request = h.join_new();
    assert_eq!(h.joined(request).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let request = h.rejoin("m1");
    assert_eq!(h.joined(request).error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let request = h.sync("m1", &[]);
    assert_eq!(h.synced[&request].error_code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let now = h.now;
    assert_eq!(h.group.check_commit(now, "", None, -1), Err(ErrorCode::COORDINATOR_NOT_AVAILABLE));
    assert_eq!(h.group.check_delete(), Err(ErrorCode::GROUP_ID_NOT_FOUND));
    h.group.revive();
    assert_eq!(h.group.check_delete(), Ok(()));
}

#[test]
fn unloading_ends_all_waiting() {
    let mut h = Harness::stable(2);
    let joining = h.rejoin("m1");
    let mut out = Vec::new();
    h.group.unload(&mut out);
    assert!(
        matches!(&out[..], [Output::Joined(id, r)] if *id == joining && r.error_code == ErrorCode::NOT_COORDINATOR)
    );

    let mut h = Harness::stable(2);
    h.rejoin("m1");
    h.rejoin("m2");
    let syncing = h.sync("m2", &[]);
    let mut out = Vec::new();
    h.group.unload(&mut out);
    assert!(
        matches!(&out[..], [Output::Synced(id, r)] if *id == syncing && r.error_code == ErrorCode::NOT_COORDINATOR)
    );
}

#[test]
fn a_group_comes_back_from_its_record() {
    let mut h = Harness::new();
    h.join_new();
    h.join_new();
    h.advance(6_000);
    h.sync("m1", &[("m1", b"one"), ("m2", b"two")]);
    let value = h.writes[0].value.clone();
    h.written(Ok(()));
    let mut restored = Group::new(NOW);
    restored.restore(value.clone(), 0);
    assert_eq!((restored.state, restored.generation, restored.leader()), (State::Stable, 1, Some("m1")));
    assert_eq!(restored.assignment("m2"), Some(&Bytes::from("two")));
    assert_eq!(restored.to_value(|_, m| m.assignment.clone()), value);

    let mut h = Harness { group: restored, ..h };
    let mut out = Vec::new();
    h.group.resume(&h.config.clone(), h.now, &mut out);
    h.take(out);
    assert_eq!(h.heartbeat("m2"), ErrorCode::NONE, "members go on as if nothing had happened");
    h.advance(SESSION_MS);
    assert_eq!(h.group.state, State::Empty, "their sessions have started");
}

#[test]
fn a_foreign_record_cannot_break_the_group() {
    let member = MemberMetadata { member_id: "a".into(), session_timeout: 10, ..Default::default() };
    let value = GroupMetadataValue {
        generation: i32::MAX,
        leader: Some("nobody".into()),
        protocol: None,
        members: vec![member],
        ..Default::default()
    };
    let mut group = Group::new(NOW);
    group.restore(value, 0);
    let mut h = Harness { group, ..Harness::new() };
    h.check();
    assert_eq!(h.group.leader(), Some("a"));
    let mut out = Vec::new();
    h.group.resume(&h.config.clone(), h.now, &mut out);
    h.take(out);
    h.advance(10);
    assert_eq!((h.group.state, h.group.generation), (State::Empty, 1));
}

#[test]
fn describing() {
    let h = Harness::stable(1);
    let described = h.group.describe("g");
    assert_eq!((described.group_state.as_str(), described.protocol_data.as_str()), ("Stable", "range"));
    let member = &described.members[0];
    assert_eq!((member.member_id.as_str(), member.client_host.as_str()), ("m1", "/127.0.0.1"));
    assert_eq!((&member.member_metadata[..], &member.member_assignment[..]), (&b"meta"[..], &b"m1"[..]));
    let mut h = h;
    h.join_new();
    let described = h.group.describe("g");
    assert_eq!((described.group_state.as_str(), described.protocol_data.as_str()), ("PreparingRebalance", ""));
    assert!(described.members[0].member_metadata.is_empty());
}

#[test]
fn each_rebalance_has_its_cause_and_whose_doing_it_was() {
    use RebalanceCause::*;
    let mut h = Harness::stable(3);
    assert_eq!(h.take_causes(), [(MemberJoined, "m1".into())], "the others came while it was under way");
    h.rejoin("m1");
    h.leave(&[("m2", None)]);
    assert_eq!(h.take_causes(), [(MemberRejoined, "m1".into())], "one that leaves meanwhile begins none");

    let mut h = Harness::stable(3);
    h.take_causes();
    h.leave(&[("nobody", None), ("m2", None), ("m3", None)]);
    assert_eq!(h.take_causes(), [(MemberLeft, "m2".into())], "the first of those who have left");

    let mut h = Harness::stable(2);
    h.take_causes();
    h.advance(SESSION_MS - 1);
    h.heartbeat("m1");
    h.advance(1);
    assert_eq!(h.take_causes(), [(SessionExpired, "m2".into())]);

    let mut h = Harness::stable(1);
    h.take_causes();
    h.rejoin("m1");
    h.sync("m1", &[]);
    h.written(Err(ErrorCode::KAFKA_STORAGE_ERROR));
    assert_eq!(h.take_causes(), [(MemberRejoined, "m1".into()), (AssignmentNotStored, String::new())]);
}

#[test]
fn a_rebalance_is_over_when_the_group_is_stable_or_empty() {
    let mut h = Harness::stable(2);
    assert_eq!(h.rebalanced, 1);
    h.leave(&[("m1", None)]);
    assert_eq!((h.group.state(), h.rebalanced), (State::PreparingRebalance, 1));
    h.leave(&[("m2", None)]);
    assert_eq!((h.group.state(), h.rebalanced), (State::Empty, 2));
}
