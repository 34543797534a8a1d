//! Members of the classic protocol in a consumer group.

use bytes::Bytes;
use wire::ErrorCode;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::api::leave_group::MemberIdentity;
use wire::api::sync_group::SyncGroupRequest;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition};

use super::fake::{REBALANCE_MS, World, assigned, joining};
use crate::group::consumer::{Change, ClassicJoin};

const SESSION_MS: i64 = 10_000;

fn subscription(owned: &[i32]) -> Bytes {
    let owned = (!owned.is_empty()).then(|| TopicPartition { topic: "t".into(), partitions: owned.to_vec() });
    let subscription = ConsumerProtocolSubscription {
        topics: vec!["t".into()],
        owned_partitions: owned.into_iter().collect(),
        ..Default::default()
    };
    subscription.to_bytes()
}

fn join(member_id: &str, owned: &[i32]) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        member_id: member_id.into(),
        session_timeout_ms: SESSION_MS as i32,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".into(), metadata: subscription(owned) }],
        ..Default::default()
    }
}

impl World {
    fn join_classic(&mut self, request: JoinGroupRequest) -> JoinGroupResponse {
        let (client_id, client_host) = ("client".to_owned(), "/127.0.0.1".to_owned());
        let new_member_id = "fresh".to_owned();
        let join = ClassicJoin { api_version: 9, client_id, client_host, new_member_id, request };
        self.change(|group, context| {
            let (response, change, _) = group.join_classic(context, join);
            (response, change)
        })
    }

    fn sync(&mut self, joined: &JoinGroupResponse) -> Result<Vec<i32>, ErrorCode> {
        self.sync_by(joined, "consumer", "range")
    }

    fn sync_by(&mut self, joined: &JoinGroupResponse, of_type: &str, name: &str) -> Result<Vec<i32>, ErrorCode> {
        let request = SyncGroupRequest {
            member_id: joined.member_id.clone(),
            generation_id: joined.generation_id,
            protocol_type: Some(of_type.into()),
            protocol_name: Some(name.into()),
            ..Default::default()
        };
        let synced = self.change(|group, context| (group.sync_classic(context, request), Change::default()))?;
        let assignment = ConsumerProtocolAssignment::from_bytes(&synced.assignment).unwrap();
        Ok(assignment.assigned_partitions.into_iter().flat_map(|topic| topic.partitions).collect())
    }

    fn beat_classic(&mut self, joined: &JoinGroupResponse) -> Result<(), ErrorCode> {
        let request = HeartbeatRequest {
            member_id: joined.member_id.clone(),
            generation_id: joined.generation_id,
            ..Default::default()
        };
        self.change(|group, context| (group.heartbeat_classic(context, &request), Change::default()))
    }

    /// A consumer and a member of the classic protocol, of whom each has two partitions.
    fn with_both() -> (Self, JoinGroupResponse) {
        let mut world = Self::new();
        world.join("new");
        world.join_classic(join("old", &[]));
        let epoch = world.group.epoch();
        let kept = assigned(&world.report("new", epoch - 1, &[0, 1, 2, 3]).unwrap()).unwrap();
        assert_eq!(world.report("new", epoch - 1, &kept).unwrap().member_epoch, epoch);
        let joined = world.join_classic(join("old", &[]));
        assert_eq!(world.sync(&joined).unwrap().len(), 2);
        (world, joined)
    }
}

#[test]
fn members_of_both_protocols_share() {
    let mut world = World::new();
    let first = world.join("new");
    assert_eq!(world.join_classic(join("", &[])).error_code, ErrorCode::MEMBER_ID_REQUIRED);
    let joined = world.join_classic(join("old", &[]));
    let epoch = first.member_epoch + 1;
    assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::NONE, epoch));
    assert_eq!((joined.protocol_name.as_deref(), joined.leader.as_str()), (Some("range"), ""));
    // The consumer has everything still, and it does not help to rejoin.
    assert_eq!(world.sync(&joined), Ok(vec![]));
    assert_eq!(world.beat_classic(&joined), Ok(()));
    let kept = assigned(&world.report("new", epoch - 1, &[0, 1, 2, 3]).unwrap()).unwrap();
    world.report("new", epoch - 1, &kept).unwrap();
    // Now it does.
    assert_eq!(world.beat_classic(&joined), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    let joined = world.join_classic(join("old", &[]));
    let mut all = world.sync(&joined).unwrap();
    all.extend(kept);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
    assert_eq!(world.beat_classic(&joined), Ok(()));
}

#[test]
fn what_a_member_has_is_given_to_nobody_before_it_rejoins_without_it() {
    let (mut world, joined) = World::with_both();
    let had = world.sync(&joined).unwrap();
    world.join("third");
    world.join("fourth");
    let epoch = world.group.epoch();
    assert_eq!(world.sync(&joined), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    assert_eq!(world.beat_classic(&joined), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    // It says what it has: it keeps its epoch and is given less.
    let rejoined = world.join_classic(join("old", &had));
    assert_eq!(rejoined.generation_id, joined.generation_id);
    let kept = world.sync(&rejoined).unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(world.beat_classic(&rejoined), Err(ErrorCode::REBALANCE_IN_PROGRESS));
    let rejoined = world.join_classic(join("old", &kept));
    assert_eq!(rejoined.generation_id, epoch);
    assert_eq!(world.sync(&rejoined), Ok(kept));
}

#[test]
fn a_member_that_does_not_do_its_part_is_put_out() {
    // It has a session of its own.
    let (mut world, joined) = World::with_both();
    world.pass(SESSION_MS - 1);
    assert!(world.group.has_member("old"));
    world.beat_classic(&joined).unwrap();
    world.pass(SESSION_MS - 1);
    assert!(world.group.has_member("old"));
    world.pass(1);
    assert!(!world.group.has_member("old") && world.group.has_member("new"));

    // It has joined, and does not ask for what it has.
    let keep_alive = |world: &mut World, joined: &JoinGroupResponse, ms: i64| {
        for _ in 0..ms / 5_000 {
            world.beat_classic(joined).ok();
            let epoch = world.group.epoch();
            world.send(super::fake::silent("new", epoch)).ok();
            world.pass(5_000);
        }
    };
    let (mut world, joined) = World::with_both();
    let had = world.sync(&joined).unwrap();
    let rejoined = world.join_classic(join("old", &had));
    keep_alive(&mut world, &rejoined, i64::from(REBALANCE_MS) - 5_000);
    assert!(world.group.has_member("old"));
    keep_alive(&mut world, &rejoined, 5_000);
    assert!(!world.group.has_member("old"));

    // It is told to rejoin, and does not.
    let (mut world, joined) = World::with_both();
    world.join("third");
    assert!(world.beat_classic(&joined).is_err());
    keep_alive(&mut world, &joined, i64::from(REBALANCE_MS) - 5_000);
    assert!(world.group.has_member("old"));
    keep_alive(&mut world, &joined, 5_000);
    assert!(!world.group.has_member("old"));
}

#[test]
fn requests_that_are_not_a_members_are_refused() {
    let (mut world, joined) = World::with_both();
    let with = |change: fn(&mut JoinGroupResponse)| {
        let mut joined = joined.clone();
        change(&mut joined);
        joined
    };
    let stranger = with(|joined| joined.member_id = "x".into());
    // A consumer is none.
    let consumer = with(|joined| joined.member_id = "new".into());
    let late = with(|joined| joined.generation_id -= 1);
    for (who, error) in [
        (&stranger, ErrorCode::UNKNOWN_MEMBER_ID),
        (&consumer, ErrorCode::UNKNOWN_MEMBER_ID),
        (&late, ErrorCode::ILLEGAL_GENERATION),
    ] {
        assert_eq!((world.sync(who), world.beat_classic(who)), (Err(error), Err(error)));
    }
    for (of_type, name) in [("connect", "range"), ("consumer", "sticky")] {
        assert_eq!(world.sync_by(&joined, of_type, name), Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    }
    let former = world.group.clone();
    let refused = |world: &mut World, change: fn(&mut JoinGroupRequest)| {
        let mut request = join("other", &[]);
        change(&mut request);
        let response = world.join_classic(request);
        assert!(response.error_code == ErrorCode::INCONSISTENT_GROUP_PROTOCOL && !world.group.has_member("other"));
    };
    refused(&mut world, |request| request.protocol_type = "connect".into());
    refused(&mut world, |request| request.protocols.clear());
    refused(&mut world, |request| request.protocols[0].name = "sticky".into());
    refused(&mut world, |request| request.protocols[0].metadata = Bytes::from_static(b"\0\x01\xff\xff\xff\x7f"));
    refused(&mut world, |request| request.protocols[0].metadata = Bytes::new());
    assert_eq!(world.group.epoch(), former.epoch());
    world.settings.max_size = 2;
    assert_eq!(world.join_classic(join("other", &[])).error_code, ErrorCode::GROUP_MAX_SIZE_REACHED);
    assert_eq!(world.join_classic(join("old", &[])).error_code, ErrorCode::NONE);
}

#[test]
fn a_static_member_changes_its_protocol() {
    let mut world = World::new();
    let with_instance = |member_id: &str| {
        let mut request = joining(member_id, &["t"]);
        request.instance_id = Some("i".into());
        request
    };
    let classic_of = |member_id: &str| JoinGroupRequest { group_instance_id: Some("i".into()), ..join(member_id, &[]) };
    world.join("other");
    world.send(with_instance("a")).unwrap();
    // A consumer has to have left, one of the classic protocol has not: it does not say so.
    assert_eq!(world.send(with_instance("b")), Err(ErrorCode::UNRELEASED_INSTANCE_ID));
    let joined = world.join_classic(classic_of(""));
    assert_eq!((joined.error_code, joined.member_id.as_str()), (ErrorCode::NONE, "fresh"));
    assert!(!world.group.has_member("a"));
    assert_eq!(world.join_classic(classic_of("a")).error_code, ErrorCode::FENCED_INSTANCE_ID);
    let joined = world.send(with_instance("b")).unwrap();
    assert!(joined.member_epoch > 0 && !world.group.has_member("fresh") && world.group.has_member("b"));
}

#[test]
fn members_of_either_protocol_are_removed_by_leave_group() {
    let (mut world, _) = World::with_both();
    let mut request = joining("static", &["t"]);
    request.instance_id = Some("i".into());
    world.send(request).unwrap();
    let identity = |member_id: &str, instance_id: Option<&str>| MemberIdentity {
        member_id: member_id.into(),
        group_instance_id: instance_id.map(str::to_owned),
        reason: None,
    };
    let leaving = vec![
        identity("old", None),
        identity("x", None),
        identity("x", Some("i")),
        identity("", Some("j")),
        identity("", Some("i")),
    ];
    let epoch = world.group.epoch();
    let left = world.change(|group, context| group.leave_classic(context, leaving));
    let errors: Vec<_> = left.iter().map(|left| left.error_code).collect();
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID;
    assert_eq!(errors, [ErrorCode::NONE, unknown, ErrorCode::FENCED_INSTANCE_ID, unknown, ErrorCode::NONE]);
    assert_eq!((world.group.member_count(), world.group.epoch()), (1, epoch + 1));
}
