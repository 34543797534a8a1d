//! Members that come, go, fall silent and commit, on a log that stalls and fails and a broker that crashes, all from
//! one seed on paused time. What must hold whatever happens:
//!
//! - in one run of the broker, a generation has one leader, and generations only grow;
//! - a member that gets an assignment gets what the leader of that generation sent for it;
//! - a generation that a member has got an assignment in survives every crash;
//! - a commit that was acknowledged never goes back;
//! - offsets of a transaction are seen together, from its commit marker on, and never if it is aborted;
//! - a reader that wants stable offsets gets none that a transaction with an acknowledged offset may replace;
//! - what a broker knows of offsets and transactions is what the next one reads in the log;
//! - when the trouble is over, all members are soon in one stable generation.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::heartbeat::HeartbeatRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::api::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use wire::api::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use super::fake::{World, generation_of};
use super::transactions::{errors, marker, request};
use crate::group::{Caller, GroupConfig, GroupCoordinator};
use crate::test_support::Rng;

const GROUP: &str = "g";
const MEMBERS: u64 = 6;
const PRODUCERS: i64 = 3;
const SEEDS: u64 = 40;
const STEPS: u64 = 60;

/// What all clients have seen.
#[derive(Default)]
struct Seen {
    /// How often the broker has started.
    life: u32,
    /// Leader by run of the broker and generation.
    leaders: BTreeMap<(u32, i32), String>,
    /// What leaders sent, by instance id or else member id. A leader may send more than once.
    sent: Vec<BTreeMap<String, Bytes>>,
    /// Which of it a generation was given.
    chosen: BTreeMap<(u32, i32), usize>,
    /// The greatest generation that a member has got an assignment in.
    synced_generation: i32,
    /// By topic: the last offset that was acknowledged, and the last that was sent.
    acknowledged: BTreeMap<String, i64>,
    issued: BTreeMap<String, i64>,
    /// By producer.
    transactions: BTreeMap<i64, Transactions>,
    /// Members in the generation that they believe in.
    settled: BTreeMap<u64, i32>,
    log: Vec<String>,
}

/// The transactions of a producer. Each commits its number as the offsets of both its partitions.
#[derive(Clone, Default)]
struct Transactions {
    last: i64,
    /// Of those whose commit marker was answered.
    committed: i64,
    /// The one whose offsets were acknowledged, and no marker sent.
    open: Option<i64>,
    /// The one whose commit marker is under way.
    committing: Option<i64>,
}

struct Shared {
    groups: Mutex<Arc<GroupCoordinator>>,
    seen: Mutex<Seen>,
    trouble: AtomicBool,
    over: AtomicBool,
}

impl Shared {
    fn groups(&self) -> (u32, Arc<GroupCoordinator>) {
        let seen = self.seen.lock();
        (seen.life, self.groups.lock().clone())
    }

    fn in_trouble(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }
}

struct Client {
    number: u64,
    shared: Arc<Shared>,
    rng: Rng,
    member_id: String,
    instance_id: Option<String>,
    metadata: u64,
}

impl Client {
    async fn run(mut self) {
        while !self.shared.over.load(Ordering::Relaxed) {
            self.shared.seen.lock().settled.remove(&self.number);
            let Some(joined) = self.join().await else { continue };
            if !self.sync(&joined).await {
                continue;
            }
            self.shared.seen.lock().settled.insert(self.number, joined.generation_id);
            self.live(&joined).await;
        }
    }

    fn name(&self) -> String {
        self.instance_id.clone().unwrap_or_else(|| self.member_id.clone())
    }

    async fn join(&mut self) -> Option<JoinGroupResponse> {
        self.rng.pause(500).await;
        let (life, groups) = self.shared.groups();
        if self.shared.in_trouble() && self.rng.one_in(8) {
            self.metadata += 1;
        }
        let metadata = Bytes::from(self.metadata.to_string());
        let range = JoinGroupRequestProtocol { name: "range".to_owned(), metadata: metadata.clone() };
        let sticky = JoinGroupRequestProtocol { name: "sticky".to_owned(), metadata };
        let request = JoinGroupRequest {
            group_id: GROUP.to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 15_000,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: "consumer".to_owned(),
            protocols: if self.metadata.is_multiple_of(2) { vec![range, sticky] } else { vec![sticky, range] },
            reason: None,
        };
        let caller = Caller { api_version: 9, client_id: None, client_host: IpAddr::V4(Ipv4Addr::LOCALHOST) };
        let joining = groups.join_group(caller, request);
        // Some connections break while they wait.
        let give_up = if self.shared.in_trouble() && self.rng.one_in(10) { 3_000 } else { 400_000 };
        let Ok(joined) = tokio::time::timeout(Duration::from_millis(give_up), joining).await else { return None };
        match joined.error_code {
            ErrorCode::NONE => {
                self.member_id.clone_from(&joined.member_id);
                self.joined(life, &joined);
                Some(joined)
            }
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = joined.member_id;
                None
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID => {
                self.member_id.clear();
                None
            }
            ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::REBALANCE_IN_PROGRESS => None,
            error => panic!("JoinGroup: {error}"),
        }
    }

    fn joined(&self, life: u32, joined: &JoinGroupResponse) {
        let mut seen = self.shared.seen.lock();
        seen.log.push(format!("{} joins {} led by {}", self.name(), joined.generation_id, joined.leader));
        // A static leader may get a new id within its generation; it is the same member.
        if self.instance_id.is_none() {
            let key = (life, joined.generation_id);
            let is_dynamic = !joined.leader.starts_with("i");
            if is_dynamic {
                let leader = seen.leaders.entry(key).or_insert_with(|| joined.leader.clone());
                assert_eq!(*leader, joined.leader, "generation {key:?} has one leader");
            }
        }
        if joined.leader == joined.member_id && !joined.skip_assignment {
            assert!(joined.members.iter().any(|member| member.member_id == self.member_id), "the leader is a member");
        } else if joined.leader != joined.member_id {
            assert!(joined.members.is_empty(), "only the leader learns the members");
        }
    }

    async fn sync(&mut self, joined: &JoinGroupResponse) -> bool {
        self.rng.pause(300).await;
        if self.shared.in_trouble() && self.rng.one_in(20) {
            return false;
        }
        let (life, groups) = self.shared.groups();
        let mut assignments = Vec::new();
        if joined.leader == joined.member_id && !joined.skip_assignment {
            let mut seen = self.shared.seen.lock();
            let mut sent = BTreeMap::new();
            for member in &joined.members {
                let name = member.group_instance_id.clone().unwrap_or_else(|| member.member_id.clone());
                let part = Bytes::from(format!("{}:{life}:{}:{name}", seen.sent.len(), joined.generation_id));
                sent.insert(name, part.clone());
                assignments.push(SyncGroupRequestAssignment { member_id: member.member_id.clone(), assignment: part });
            }
            seen.sent.push(sent);
        }
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: joined.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            protocol_type: joined.protocol_type.clone(),
            protocol_name: joined.protocol_name.clone(),
            assignments,
        };
        let synced = groups.sync_group(5, request).await;
        match synced.error_code {
            ErrorCode::NONE => {
                self.synced(joined, &synced);
                true
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID => {
                self.member_id.clear();
                false
            }
            ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::INCONSISTENT_GROUP_PROTOCOL
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => false,
            error => panic!("SyncGroup: {error}"),
        }
    }

    fn synced(&self, joined: &JoinGroupResponse, synced: &SyncGroupResponse) {
        let mut seen = self.shared.seen.lock();
        seen.synced_generation = seen.synced_generation.max(joined.generation_id);
        if synced.assignment.is_empty() {
            return;
        }
        // The assignment says when it was made; a generation can outlive the broker.
        let text = std::str::from_utf8(&synced.assignment).unwrap();
        let parts: Vec<_> = text.split(':').collect();
        let sent: usize = parts[0].parse().unwrap();
        let (life, generation) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
        assert_eq!(generation, joined.generation_id, "an assignment is of its generation");
        assert_eq!(parts[3], self.name(), "an assignment is for its member");
        assert_eq!(seen.sent[sent].get(&self.name()), Some(&synced.assignment), "as the leader sent it");
        assert_eq!(*seen.chosen.entry((life, generation)).or_insert(sent), sent, "all get theirs of the same");
    }

    /// Stays in the group until it has to rejoin.
    async fn live(&mut self, joined: &JoinGroupResponse) {
        loop {
            self.rng.pause(3_000).await;
            if self.shared.over.load(Ordering::Relaxed) {
                return;
            }
            if self.shared.in_trouble() {
                match self.rng.below(40) {
                    0 => {
                        self.leave().await;
                        return self.rng.pause(5_000).await;
                    }
                    1 => {
                        // It dies, and restarts; a dynamic one has forgotten its id.
                        self.member_id.clear();
                        return self.rng.pause(30_000).await;
                    }
                    2 => self.rng.pause(20_000).await,
                    3 => return,
                    _ => {}
                }
            }
            if self.rng.one_in(2) && !self.commit(joined).await {
                return;
            }
            let (_, groups) = self.shared.groups();
            let error = groups.heartbeat(&HeartbeatRequest {
                group_id: GROUP.to_owned(),
                generation_id: joined.generation_id,
                member_id: self.member_id.clone(),
                group_instance_id: self.instance_id.clone(),
            });
            match error {
                ErrorCode::NONE | ErrorCode::NOT_COORDINATOR => {}
                ErrorCode::REBALANCE_IN_PROGRESS => return,
                ErrorCode::ILLEGAL_GENERATION | ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_INSTANCE_ID => {
                    self.member_id.clear();
                    return;
                }
                error => panic!("Heartbeat: {error}"),
            }
        }
    }

    async fn leave(&mut self) {
        let (_, groups) = self.shared.groups();
        let identity = MemberIdentity {
            member_id: std::mem::take(&mut self.member_id),
            group_instance_id: self.instance_id.clone(),
            reason: None,
        };
        let request = LeaveGroupRequest { group_id: GROUP.to_owned(), members: vec![identity], ..Default::default() };
        groups.leave_group(5, request).await;
    }

    /// Commits the next number to the client's own topic. False if it should rejoin.
    async fn commit(&mut self, joined: &JoinGroupResponse) -> bool {
        let topic = format!("t{}", self.number);
        let offset = {
            let mut seen = self.shared.seen.lock();
            let issued = seen.issued.entry(topic.clone()).or_insert(0);
            *issued += 1;
            *issued
        };
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            generation_id_or_member_epoch: joined.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id.clone(),
            topics: vec![OffsetCommitRequestTopic {
                name: topic.clone(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index: 0,
                    committed_offset: offset,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let (_, groups) = self.shared.groups();
        let response = groups.offset_commit(9, IpAddr::V4(Ipv4Addr::LOCALHOST), request).await;
        match response.topics[0].partitions[0].error_code {
            ErrorCode::NONE => {
                self.shared.seen.lock().acknowledged.insert(topic, offset);
                true
            }
            ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => true,
            ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::GROUP_ID_NOT_FOUND => false,
            error => panic!("OffsetCommit: {error}"),
        }
    }
}

/// A producer, and what its transaction's coordinator does for it.
struct Producer {
    id: i64,
    shared: Arc<Shared>,
    rng: Rng,
}

/// A producer's topic. Members have others.
fn topic_of(producer_id: i64) -> String {
    format!("t{}", MEMBERS as i64 + producer_id)
}

impl Producer {
    /// Leaves its last transaction open.
    async fn run(mut self) {
        loop {
            self.rng.pause(4_000).await;
            let is_acknowledged = self.commit().await;
            if is_acknowledged && self.shared.over.load(Ordering::Relaxed) {
                return;
            }
            self.rng.pause(2_000).await;
            let is_committed = is_acknowledged && !self.rng.one_in(4);
            self.end(is_committed).await;
        }
    }

    /// Commits offsets in the next transaction. False if it has to be aborted.
    async fn commit(&mut self) -> bool {
        let number = {
            let mut seen = self.shared.seen.lock();
            let transactions = seen.transactions.entry(self.id).or_default();
            transactions.last += 1;
            transactions.last
        };
        let topic = topic_of(self.id);
        for _ in 0..5 {
            let (_, groups) = self.shared.groups();
            let request = request(self.id, GROUP, &[(&topic, 0, number), (&topic, 1, number)]);
            let verification = std::future::ready(Ok(None));
            let response = groups.txn_offset_commit(5, IpAddr::V4(Ipv4Addr::LOCALHOST), request, verification).await;
            match errors(&response)[0] {
                ErrorCode::NONE => {
                    self.shared.seen.lock().transactions.entry(self.id).or_default().open = Some(number);
                    return true;
                }
                ErrorCode::NOT_COORDINATOR
                | ErrorCode::COORDINATOR_NOT_AVAILABLE
                | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => self.rng.pause(3_000).await,
                error => panic!("TxnOffsetCommit: {error}"),
            }
        }
        false
    }

    /// Sends the marker until it is answered.
    async fn end(&mut self, is_committed: bool) {
        {
            let mut seen = self.shared.seen.lock();
            let transactions = seen.transactions.entry(self.id).or_default();
            transactions.open = None;
            transactions.committing = is_committed.then_some(transactions.last);
            let last = transactions.last;
            seen.log.push(format!("{} ends {last}: {is_committed}", self.id));
        }
        loop {
            let (_, groups) = self.shared.groups();
            match groups.write_marker(0, marker(self.id, is_committed)).await {
                Ok(()) => break,
                Err(ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::NOT_ENOUGH_REPLICAS) => self.rng.pause(1_000).await,
                // The log of the tests loses what is on its way when the broker restarts.
                Err(ErrorCode::KAFKA_STORAGE_ERROR) => self.rng.pause(1_000).await,
                Err(error) => panic!("marker: {error}"),
            }
        }
        let mut seen = self.shared.seen.lock();
        let transactions = seen.transactions.entry(self.id).or_default();
        if let Some(number) = transactions.committing.take() {
            transactions.committed = number;
        }
    }
}

/// What is seen of a producer's transactions is what was committed, and no more than is stable.
async fn check_transactions(world: &World, shared: &Shared) {
    for producer_id in 0..PRODUCERS {
        let seen = || shared.seen.lock().transactions.get(&producer_id).cloned().unwrap_or_default();
        let topic = topic_of(producer_id);
        let before = seen();
        let fetched = world.fetch(GROUP).await;
        let offset = |partition| fetched.iter().find(|of| (&of.0, of.1) == (&topic, partition)).map_or(0, |of| of.2);
        assert_eq!(offset(0), offset(1), "a transaction is seen as a whole");
        assert!(offset(0) == before.committed || Some(offset(0)) == before.committing, "{topic}: {}", offset(0));
        let stable = world.stable(GROUP, &topic, 0).await;
        if before.open.is_some() && seen().open == before.open {
            assert!(stable.is_err(), "{stable:?} may be replaced by transaction {:?}", before.open);
        } else if let Ok(offset) = stable {
            let after = seen();
            assert!(offset.max(0) >= before.committed && offset <= after.last, "{topic}: {offset}");
        }
    }
}

/// All that can be told of the group's offsets.
async fn offsets_of(world: &World) -> (Vec<(String, i32, i64)>, Vec<Result<i64, ErrorCode>>, usize) {
    let mut stable = Vec::new();
    for producer_id in 0..PRODUCERS {
        stable.push(world.stable(GROUP, &topic_of(producer_id), 1).await);
    }
    (world.fetch(GROUP).await, stable, world.groups.offsets_size_bytes(GROUP))
}

/// Every acknowledged offset is there, and none that was never sent.
async fn check_offsets(shared: &Shared) {
    let (_, groups) = shared.groups();
    let acknowledged = shared.seen.lock().acknowledged.clone();
    let group = OffsetFetchRequestGroup { group_id: GROUP.to_owned(), ..Default::default() };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let fetched = groups.offset_fetch(9, request).await.groups.remove(0);
    assert_eq!(fetched.error_code, ErrorCode::NONE);
    let fetched: BTreeMap<_, _> =
        fetched.topics.into_iter().map(|topic| (topic.name, topic.partitions[0].committed_offset)).collect();
    for (topic, offset) in acknowledged {
        let found = fetched.get(&topic).copied().unwrap_or(-1);
        assert!(found >= offset, "{topic} went back from {offset} to {found}");
    }
    let issued = shared.seen.lock().issued.clone();
    for (topic, offset) in fetched {
        assert!(issued.get(&topic).is_none_or(|issued| offset <= *issued));
    }
}

async fn run(seed: u64) -> Vec<String> {
    let config = GroupConfig { initial_rebalance_delay_ms: 1_000, ..GroupConfig::default() };
    let mut world = World::new(config).await;
    let shared = Arc::new(Shared {
        groups: Mutex::new(world.groups.clone()),
        seen: Mutex::default(),
        trouble: AtomicBool::new(true),
        over: AtomicBool::new(false),
    });
    let mut rng = Rng::new(seed, MEMBERS);
    let clients: Vec<_> = (0..MEMBERS)
        .map(|number| {
            let client = Client {
                number,
                shared: shared.clone(),
                rng: Rng::new(seed, number),
                member_id: String::new(),
                instance_id: (number < seed % 3).then(|| format!("i{number}")),
                metadata: 0,
            };
            tokio::spawn(client.run())
        })
        .collect();

    let producers: Vec<_> = (0..PRODUCERS)
        .map(|id| {
            let rng = Rng::new(seed, MEMBERS + 1 + id as u64);
            tokio::spawn(Producer { id, shared: shared.clone(), rng }.run())
        })
        .collect();

    let mut generation = 0;
    for _ in 0..STEPS {
        rng.pause(8_000).await;
        match rng.below(10) {
            0 | 1 => world.log.hold(),
            2 => world.log.release(rng.below(4) as usize),
            3 => world.log.refuse(Some(ErrorCode::NOT_ENOUGH_REPLICAS)),
            4 => {
                world.log.refuse(None);
                world = world.restart(rng.below(3) as usize).await;
                let mut seen = shared.seen.lock();
                seen.life += 1;
                *shared.groups.lock() = world.groups.clone();
                generation = generation_of(&world, GROUP).unwrap_or(0);
                assert!(generation >= seen.synced_generation, "{generation} < {}", seen.synced_generation);
                let life = seen.life;
                seen.log.push(format!("life {life} begins in generation {generation}"));
            }
            _ => {
                world.log.refuse(None);
                world.log.release_all();
            }
        }
        check_offsets(&shared).await;
        check_transactions(&world, &shared).await;
        if let Some(now) = generation_of(&world, GROUP) {
            assert!(now >= generation, "the generation went back");
            generation = now;
        }
    }
    shared.trouble.store(false, Ordering::Relaxed);
    world.log.refuse(None);
    world.log.release_all();
    sleep(Duration::from_secs(180)).await;
    check_offsets(&shared).await;
    let settled = shared.seen.lock().settled.clone();
    let described = world.groups.describe_group(6, GROUP);
    assert_eq!((described.group_state.as_str(), described.members.len() as u64), ("Stable", MEMBERS), "{settled:?}");
    let generation = generation_of(&world, GROUP).unwrap();
    assert_eq!(settled, (0..MEMBERS).map(|number| (number, generation)).collect());
    shared.over.store(true, Ordering::Relaxed);
    for task in clients.into_iter().chain(producers) {
        task.await.unwrap();
    }
    check_transactions(&world, &shared).await;
    let offsets = offsets_of(&world).await;
    world.memory_is_counted();
    let world = world.restart(0).await;
    assert_eq!(offsets_of(&world).await, offsets, "what is in memory is what the log says");
    assert!(offsets.1.iter().all(Result::is_err), "all transactions were left open: {offsets:?}");
    let seen = std::mem::take(&mut *shared.seen.lock());
    assert!(seen.acknowledged.values().sum::<i64>() > 100, "the test must do something");
    assert!(seen.transactions.values().all(|of| of.committed > 10), "the test must do something");
    seen.log
}

#[test]
fn invariants_hold_whatever_happens() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(|| runtime().block_on(run(seed)));
        assert!(result.is_ok(), "seed {seed}");
    }
    let twice = [runtime().block_on(run(7)), runtime().block_on(run(7))];
    assert_eq!(twice[0], twice[1], "a seed tells all");
}
