//! The rules of the classic protocol, one by one. The cases follow what Kafka's coordinator does in the same situation.

mod members;
mod offsets;
mod pending;
mod static_members;

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
    rebalances: Vec<Trigger>,
    /// How many have come to their end.
    rebalanced: usize,
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
            rebalances: Vec::new(),
            rebalanced: 0,
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
                Output::Rebalance(trigger) => {
                    self.rebalances.push(trigger);
                    true
                }
                Output::Rebalanced => {
                    self.rebalanced += 1;
                    true
                }
            };
            assert!(unanswered, "a request is answered once");
        }
        self.check();
    }

    /// The rebalances that have begun, with the members that began them.
    fn take_causes(&mut self) -> Vec<(RebalanceCause, String)> {
        let triggers = std::mem::take(&mut self.rebalances).into_iter();
        triggers
            .map(|trigger| {
                let client_id = if trigger.member_id.is_empty() { "" } else { "client" };
                assert_eq!(trigger.client_id, client_id);
                (trigger.cause, trigger.member_id)
            })
            .collect()
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
        let request = JoinGroupRequest {
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
