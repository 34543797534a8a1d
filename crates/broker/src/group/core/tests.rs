//! The rules of the classic protocol, one by one. The cases follow what Kafka's coordinator does in the same situation.

use wire::api::leave_group::MemberIdentity;
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use super::*;
use crate::group::GroupConfig;

const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 60_000;
const NOW: Now = Now { monotonic_ms: 0, wall_ms: 0 };

/// A group with a clock. Writes wait in `writes` until the test ends them.
struct Harness {
    group: Group,
    config: GroupConfig,
    now: Now,
    last_request: RequestId,
    last_member: u32,
    joined: BTreeMap<RequestId, JoinGroupResponse>,
    synced: BTreeMap<RequestId, SyncGroupResponse>,
    writes: Vec<Write>,
}

#[derive(Clone, Default)]
struct JoinArgs<'a> {
    member_id: &'a str,
    instance_id: Option<&'a str>,
    api_version: Option<i16>,
    protocol_type: Option<&'a str>,
    protocols: Option<&'a [(&'a str, &'a [u8])]>,
    session_ms: Option<i32>,
    rebalance_ms: Option<i32>,
}

impl Harness {
    fn new() -> Self {
        let now = Now { monotonic_ms: 0, wall_ms: 1_000_000 };
        Self {
            group: Group::new(now),
            config: GroupConfig::default(),
            now,
            last_request: 0,
            last_member: 0,
            joined: BTreeMap::new(),
            synced: BTreeMap::new(),
            writes: Vec::new(),
        }
    }

    fn take(&mut self, out: Vec<Output>) {
        for output in out {
            let unanswered = match output {
                Output::Joined(request, response) => self.joined.insert(request, response).is_none(),
                Output::Synced(request, response) => self.synced.insert(request, response).is_none(),
                Output::Write(write) => {
                    self.writes.push(write);
                    true
                }
            };
            assert!(unanswered, "a request is answered once");
        }
        self.check();
    }

    fn check(&self) {
        let group = &self.group;
        assert_eq!(group.leader.is_some(), !group.members.is_empty());
        assert!(group.leader.as_ref().is_none_or(|leader| group.members.contains_key(leader)));
        assert_eq!(group.joining, group.members.values().filter(|m| m.joining.is_some()).count());
        assert_eq!(group.member_bytes, group.members.iter().map(|(id, m)| m.size_bytes(id)).sum::<usize>());
        assert!(group.members.values().all(|m| m.session_deadline_ms >= group.wake_ms));
        for (instance_id, member_id) in &group.static_members {
            assert_eq!(group.members[member_id].instance_id.as_ref(), Some(instance_id));
        }
    }

    fn join(&mut self, args: JoinArgs<'_>) -> RequestId {
        self.last_request += 1;
        self.last_member += 1;
        let protocols = args.protocols.unwrap_or(&[("range", b"meta")]).iter().map(|(name, metadata)| {
            JoinGroupRequestProtocol { name: (*name).to_owned(), metadata: Bytes::copy_from_slice(metadata) }
        });
        let request = wire::api::join_group::JoinGroupRequest {
            group_id: "g".to_owned(),
            session_timeout_ms: args.session_ms.unwrap_or(SESSION_MS),
            rebalance_timeout_ms: args.rebalance_ms.unwrap_or(REBALANCE_MS),
            member_id: args.member_id.to_owned(),
            group_instance_id: args.instance_id.map(str::to_owned),
            protocol_type: args.protocol_type.unwrap_or("consumer").to_owned(),
            protocols: protocols.collect(),
            reason: None,
        };
        let join = Join {
            request_id: self.last_request,
            api_version: args.api_version.unwrap_or(9),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            new_member_id: format!("m{}", self.last_member),
            request,
        };
        let mut out = Vec::new();
        self.group.join(&self.config, self.now, join, &mut out);
        self.take(out);
        self.last_request
    }

    /// A member without an id, by the version that admits it at once.
    fn join_new(&mut self) -> RequestId {
        self.join(JoinArgs { api_version: Some(3), ..Default::default() })
    }

    fn rejoin(&mut self, member_id: &str) -> RequestId {
        self.join(JoinArgs { member_id, ..Default::default() })
    }

    fn sync(&mut self, member_id: &str, assignments: &[(&str, &[u8])]) -> RequestId {
        let request = SyncGroupRequest {
            generation_id: self.group.generation,
            member_id: member_id.to_owned(),
            assignments: assignments
                .iter()
                .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                    member_id: (*member_id).to_owned(),
                    assignment: Bytes::copy_from_slice(assignment),
                })
                .collect(),
            ..Default::default()
        };
        self.sync_request(request)
    }

    fn sync_request(&mut self, request: SyncGroupRequest) -> RequestId {
        self.last_request += 1;
        let mut out = Vec::new();
        self.group.sync(self.last_request, request, &mut out);
        self.take(out);
        self.last_request
    }

    fn heartbeat(&mut self, member_id: &str) -> ErrorCode {
        let generation = self.group.generation;
        let error = self.group.heartbeat(self.now, member_id, None, generation);
        self.check();
        error
    }

    fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<ErrorCode> {
        let members = members.iter().map(|(member_id, instance_id)| MemberIdentity {
            member_id: (*member_id).to_owned(),
            group_instance_id: instance_id.map(str::to_owned),
            reason: None,
        });
        let mut out = Vec::new();
        let left = self.group.leave(&self.config, self.now, members.collect(), &mut out);
        self.take(out);
        left.unwrap().into_iter().map(|member| member.error_code).collect()
    }

    fn written(&mut self, result: Result<(), ErrorCode>) {
        let write = self.writes.remove(0);
        let mut out = Vec::new();
        self.group.written(&self.config, self.now, write.then, result, &mut out);
        self.take(out);
    }

    fn advance(&mut self, ms: i32) {
        let end = self.now.monotonic_ms + i64::from(ms);
        while self.group.wake_ms() <= end {
            self.now.monotonic_ms = self.now.monotonic_ms.max(self.group.wake_ms());
            let mut out = Vec::new();
            self.group.tick(&self.config, self.now, &mut out);
            self.take(out);
            assert!(self.group.wake_ms() > self.now.monotonic_ms, "a tick must get somewhere");
        }
        self.now.monotonic_ms = end;
        self.now.wall_ms += i64::from(ms);
    }

    /// A stable group of `count` dynamic members m1..; m1 leads. Nothing is left to write.
    fn stable(count: usize) -> Self {
        let mut harness = Self::new();
        let requests: Vec<_> = (0..count).map(|_| harness.join_new()).collect();
        harness.advance(6_000);
        let ids: Vec<_> = requests.iter().map(|request| harness.joined[request].member_id.clone()).collect();
        harness.settle(&ids);
        harness
    }

    fn settle(&mut self, ids: &[String]) {
        let leader = self.group.leader.clone().unwrap();
        let assignments: Vec<_> = ids.iter().map(|id| (id.as_str(), id.as_bytes())).collect();
        for id in ids {
            let assignments = if *id == leader { &assignments[..] } else { &[] };
            self.sync(id, assignments);
        }
        self.written(Ok(()));
        assert_eq!(self.group.state, State::Stable);
    }

    /// A stable group of static members with these instance ids.
    fn stable_static(instance_ids: &[&str]) -> Self {
        let mut harness = Self::new();
        for instance_id in instance_ids {
            harness.join(JoinArgs { instance_id: Some(instance_id), ..Default::default() });
        }
        harness.advance(6_000);
        let ids: Vec<_> = harness.group.member_ids().map(str::to_owned).collect();
        harness.settle(&ids);
        harness
    }

    fn joined(&self, request: RequestId) -> &JoinGroupResponse {
        &self.joined[&request]
    }
}

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
