//! Static members: they keep their membership under an instance id (KIP-345).

use super::*;

#[test]
fn a_static_member_needs_no_id_ahead() {
    let mut h = Harness::new();
    let request = h.join(JoinArgs { instance_id: Some("i1"), ..Default::default() });
    h.advance(3_000);
    let response = h.joined(request);
    assert_eq!((response.error_code, response.member_id.as_str()), (ErrorCode::NONE, "m1"));
    assert_eq!(response.members[0].group_instance_id.as_deref(), Some("i1"));
}

#[test]
fn a_static_member_that_comes_back_disturbs_nobody() {
    for (version, is_leader) in [(9, false), (9, true), (8, false), (8, true)] {
        let mut h = Harness::stable_static(&["i1", "i2"]);
        let instance_id = if is_leader { "i1" } else { "i2" };
        let old_id = h.group.static_members[instance_id].clone();
        let args = JoinArgs { instance_id: Some(instance_id), api_version: Some(version), ..Default::default() };
        let request = h.join(args);
        assert_eq!(h.group.state, State::Stable);
        assert!(!h.joined.contains_key(&request), "the new id must be stored first");
        assert!(h.writes[0].value.members.iter().any(|m| m.member_id == "m3"));
        h.written(Ok(()));
        let response = h.joined(request).clone();
        assert_eq!((response.error_code, response.generation_id), (ErrorCode::NONE, 1));
        assert_eq!(response.member_id, "m3");
        assert_eq!(response.skip_assignment, version == 9 && is_leader);
        assert_eq!(response.members.len(), if version == 9 && is_leader { 2 } else { 0 });
        let leads = response.leader == response.member_id;
        assert_eq!(leads, version == 9 && is_leader, "an old client must not think that it leads");
        assert_eq!(h.group.is_leader("m3"), is_leader);
        // It takes over the assignment; the old id is fenced.
        let sync = h.sync("m3", &[]);
        assert_eq!(h.synced[&sync].assignment, old_id.as_bytes());
        let now = h.now;
        assert_eq!(h.group.heartbeat(now, &old_id, Some(instance_id), 1), ErrorCode::FENCED_INSTANCE_ID);
        assert_eq!(h.group.heartbeat(now, &old_id, None, 1), ErrorCode::UNKNOWN_MEMBER_ID);
        assert_eq!(h.group.heartbeat(now, "m3", Some(instance_id), 1), ErrorCode::NONE);
    }
}

#[test]
fn a_static_member_keeps_its_old_id_if_the_new_one_cannot_be_stored() {
    let mut h = Harness::stable_static(&["i1"]);
    let protocols: &[(&str, &[u8])] = &[("range", b"other")];
    let request = h.join(JoinArgs { instance_id: Some("i1"), protocols: Some(protocols), ..Default::default() });
    h.written(Err(ErrorCode::NOT_COORDINATOR));
    assert_eq!(h.joined(request).error_code, ErrorCode::NOT_COORDINATOR);
    assert_eq!(h.group.member_ids().collect::<Vec<_>>(), ["m1"]);
    assert_eq!(h.group.leader(), Some("m1"));
    assert_eq!(h.heartbeat("m1"), ErrorCode::NONE);
    assert_eq!(h.group.members["m1"].metadata("range"), &b"meta"[..]);
}

#[test]
fn a_static_member_that_changes_the_protocol_starts_a_rebalance() {
    let mut h = Harness::stable_static(&["i1"]);
    let protocols: &[(&str, &[u8])] = &[("sticky", b""), ("range", b"")];
    let request = h.join(JoinArgs { instance_id: Some("i1"), protocols: Some(protocols), ..Default::default() });
    assert_eq!(h.joined(request).generation_id, 2);
    assert_eq!(h.joined(request).protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn a_static_member_that_comes_back_during_the_assignment_starts_a_rebalance() {
    let mut h = Harness::new();
    h.join(JoinArgs { instance_id: Some("i1"), ..Default::default() });
    h.join(JoinArgs { instance_id: Some("i2"), ..Default::default() });
    h.advance(6_000);
    let old = h.sync("m2", &[]);
    h.join(JoinArgs { instance_id: Some("i2"), ..Default::default() });
    assert_eq!(h.synced[&old].error_code, ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(h.group.state, State::PreparingRebalance);
}

#[test]
fn two_processes_with_one_instance_id_fence_each_other() {
    let mut h = Harness::new();
    let first = h.join(JoinArgs { instance_id: Some("i1"), ..Default::default() });
    let second = h.join(JoinArgs { instance_id: Some("i1"), ..Default::default() });
    assert_eq!(h.joined(first).error_code, ErrorCode::FENCED_INSTANCE_ID);
    h.advance(6_000);
    assert_eq!(h.joined(second).generation_id, 1);
    let of_first = h.join(JoinArgs { member_id: "m1", instance_id: Some("i1"), ..Default::default() });
    assert_eq!(h.joined(of_first).error_code, ErrorCode::FENCED_INSTANCE_ID);
    let stranger = h.join(JoinArgs { member_id: "m1", instance_id: Some("i9"), ..Default::default() });
    assert_eq!(h.joined(stranger).error_code, ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(h.leave(&[("m1", Some("i1"))]), [ErrorCode::FENCED_INSTANCE_ID]);
    assert_eq!(h.leave(&[("", Some("i9")), ("", Some("i1"))]), [ErrorCode::UNKNOWN_MEMBER_ID, ErrorCode::NONE]);
}

#[test]
fn a_rebalance_keeps_static_members_that_do_not_rejoin() {
    let mut h = Harness::stable_static(&["i1", "i2"]);
    let rejoined = h.join(JoinArgs { member_id: "m1", instance_id: Some("i1"), ..Default::default() });
    for _ in 0..12 {
        let now = h.now;
        h.group.heartbeat(now, "m2", Some("i2"), 1);
        h.advance(REBALANCE_MS / 12);
    }
    assert_eq!(h.joined(rejoined).members.len(), 2);
}

#[test]
fn static_members_that_are_all_missing_keep_the_group_waiting_until_their_sessions_end() {
    let mut h = Harness::stable_static(&["i1"]);
    h.config.max_size = 0;
    let mut out = Vec::new();
    h.group.resume(&h.config.clone(), h.now, &mut out);
    h.take(out);
    assert_eq!(h.group.state, State::PreparingRebalance);
    for _ in 0..13 {
        let now = h.now;
        h.group.heartbeat(now, "m1", Some("i1"), 1);
        h.advance(REBALANCE_MS / 12);
    }
    assert_eq!((h.group.state, h.group.generation), (State::PreparingRebalance, 1));
    h.advance(SESSION_MS);
    assert_eq!(h.group.state, State::Empty);
}
