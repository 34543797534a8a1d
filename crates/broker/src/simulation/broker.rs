//! One broker that runs: the real parts of a server, driven step by step.
//!
//! What stands in for the server's tasks is here and short: when the quorum ticks, when the controller takes requests,
//! how a broker catches up, registers and gives signs of life, when it fetches, syncs and looks after its logs. What is
//! decided in these steps is the server's own code.

mod hanging_disk;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arc_swap::ArcSwap;
use log::simdisk::Rng;
use log::{LogError, Now};
use parking_lot::Mutex;
use raft::eraftpb::{Message, MessageType};
use wire::api::alter_partition::AlterPartitionResponse;
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::batch::Batch;
use wire::{ErrorCode, Uuid};

use super::groups::Groups;
use super::ledger::{Ledger, Place, place};
use super::messages::{Ask, Lane, Said, Told};
use super::replica::Replica;
use crate::cluster::Liveness;
use crate::config::BrokerConfig;
use crate::disk_watch::DiskWatch;
use crate::env::{Env, Random};
use crate::meta::{Applied, Backlog, BrokerRegistration, MetadataCache, Publisher, Round};
use crate::partition::{Acks, Outcome, Ticket, Touched};
use crate::quorum::{METADATA_DIR, Node, Options, QuorumError, Ticket as Proposed, Transport, Voter, VoterKey};
use crate::replication::isr;

pub(super) const DATA_DIR: &str = "/data";
const STALL_TIMEOUT: Duration = Duration::from_millis(2000);

const TICK_MS: i64 = 100;
/// A quorum's thread that stood still for so long has been replaced if it led.
const STOOD_STILL_MS: i64 = 1000;
const JOIN_MS: i64 = 300;
const CATCH_UP_MS: i64 = 50;
const HEARTBEAT_MS: i64 = 200;
const LEAVE_MS: i64 = 50;
const LEAVE_MAX_MS: i64 = 10_000;
const FENCE_MS: i64 = 100;
const BALANCE_MS: i64 = 3000;
const BALANCE_MAX: usize = 1000;
const BACKOFF_MS: i64 = 50;
const DISK_MS: i64 = 100;
const FLUSH_MS: i64 = 250;
const CHECKPOINT_MS: i64 = 1000;
const RETENTION_MS: i64 = 2000;

type Outbox = Arc<Mutex<Vec<(Voter, Message)>>>;

/// The timer that runs out when a broker stops.
const LEFT: &str = "left";

/// Puts raft's messages where the process takes them from.
struct Sender(Outbox);

impl Transport for Sender {
    fn send(&mut self, to: &Voter, message: Message) {
        self.0.lock().push((to.clone(), message));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Looks for what the quorum has committed; with what it was told, once it was.
    CatchesUp(Option<i64>),
    Registers,
    /// Waits until it sees its own registration.
    Registered(i64),
    Serves(i64),
}

/// Who asked, the number of the question, and the answer.
type Answer = (i32, u64, Told);

/// A produce request that waits for its answer.
struct Producing {
    from: i32,
    number: u64,
    place: Place,
    values: Vec<u64>,
    leader_epoch: i32,
    acks: Acks,
    ticket: Arc<Ticket>,
}

/// What surrounds a process in one step.
pub(super) struct World<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) ledger: &'a mut Ledger,
    /// Whether the disk takes its time just now.
    pub(super) is_slow: bool,
    /// Whether it does not answer at all.
    pub(super) hangs: bool,
}

/// Why a process ends.
#[derive(Debug)]
pub(super) enum Ended {
    /// By its own will: it has closed everything.
    Left,
    DiskFailed,
}

impl From<LogError> for Ended {
    fn from(_: LogError) -> Self {
        Self::DiskFailed
    }
}

pub(super) struct Process {
    pub(super) id: i32,
    /// Different for each start of each node.
    pub(super) start: u64,
    pub(super) own: Voter,
    pub(super) incarnation_id: Uuid,
    /// The offset of the metadata that was committed when it started.
    committed_before: i64,
    pub(super) quorum: Node<Publisher>,
    pub(super) replica: Replica,
    metadata: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
    random: Arc<dyn Random>,
    disk_watch: Arc<DiskWatch>,
    /// What waits for a disk that hangs.
    hanging: Option<u64>,
    backlog: Backlog,
    outbox: Outbox,
    liveness: Liveness,
    groups: Groups,
    life: Life,
    leaves: bool,
    /// What waits for the disk.
    writing: Vec<(i32, Said)>,
    said: Vec<(i32, Said)>,
    last_number: u64,
    // The controller's.
    asked: Vec<(i32, u64, Ask)>,
    controls_in: Option<i32>,
    deciding: Option<(Proposed, i32, Vec<Answer>)>,
    /// By the offset that has to be published first.
    publishing: Vec<(i64, i32, Vec<Answer>)>,
    // The broker's.
    last_tick_ms: i64,
    hello: Lane,
    /// Who waits for the voters' word that this node leads: the number of the question, and who asked what.
    confirming: Vec<(u64, i32, u64)>,
    heartbeats: Lane,
    in_sync_replicas: Lane,
    altering: Option<isr::Round>,
    fetching: BTreeMap<i32, Lane>,
    producing: Vec<Producing>,
    /// When what is done now and then is to be done next.
    timers: BTreeMap<&'static str, i64>,
}

impl Process {
    pub(super) fn start(
        env: Env,
        config: BrokerConfig,
        own: Voter,
        start: u64,
        committed_before: i64,
    ) -> Result<Self, QuorumError> {
        let now_ms = env.clock.now().monotonic_ms;
        let id = own.node_id;
        env.disk.create_dir_all(DATA_DIR.as_ref())?;
        let config = Arc::new(ArcSwap::from_pointee(config));
        let metadata = Arc::new(MetadataCache::default());
        let (publisher, backlog) = Publisher::prepare(Arc::clone(&metadata), Arc::clone(&config));
        let outbox = Outbox::default();
        let options = options(&env, own.key());
        let disk_watch = Arc::clone(&options.disk_watch);
        let quorum = Node::open(&options, publisher, Box::new(Sender(Arc::clone(&outbox))))?;
        let incarnation_id = env.new_id();
        let (random, liveness) = (Arc::clone(&env.random), Liveness::new(Arc::clone(&env.clock)));
        let replica = Replica::new(env, Arc::clone(&config), Arc::clone(&metadata), DATA_DIR.into(), incarnation_id)?;
        let groups = Groups::new(Arc::clone(&replica.table));
        Ok(Self {
            id,
            start,
            own,
            incarnation_id,
            committed_before,
            quorum,
            replica,
            metadata,
            config,
            random,
            disk_watch,
            hanging: None,
            backlog,
            outbox,
            liveness,
            groups,
            life: Life::CatchesUp(None),
            leaves: false,
            writing: Vec::new(),
            said: Vec::new(),
            last_number: start << 32,
            asked: Vec::new(),
            controls_in: None,
            deciding: None,
            publishing: Vec::new(),
            last_tick_ms: now_ms,
            hello: Lane::default(),
            confirming: Vec::new(),
            heartbeats: Lane::default(),
            in_sync_replicas: Lane::default(),
            altering: None,
            fetching: BTreeMap::new(),
            producing: Vec::new(),
            timers: BTreeMap::new(),
        })
    }

    fn now(&self) -> Now {
        self.replica.env.clock.now()
    }

    fn now_ms(&self) -> i64 {
        self.now().monotonic_ms
    }

    pub(super) fn controls(&self) -> bool {
        self.quorum.leader_epoch().is_some()
    }

    pub(super) fn serves(&self) -> bool {
        matches!(self.life, Life::Serves(_))
    }

    /// Is told to stop: when others have taken over what it leads, or after a while all the same.
    pub(super) fn leave(&mut self) {
        self.leaves = true;
        let until_ms = self.now_ms() + LEAVE_MAX_MS;
        self.timers.entry(LEFT).or_insert(until_ms);
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whether it is time again for what is done so often.
    fn is_due(&mut self, what: &'static str, period_ms: i64) -> bool {
        let now_ms = self.now_ms();
        let next_ms = self.timers.entry(what).or_insert(now_ms);
        if *next_ms > now_ms {
            return false;
        }
        *next_ms = now_ms + period_ms;
        true
    }

    /// Lives for a moment, with what has arrived. Returns what it says to whom.
    pub(super) fn step(
        &mut self,
        mut arrived: Vec<(i32, Said)>,
        world: &mut World<'_>,
    ) -> Result<Vec<(i32, Said)>, Ended> {
        self.feel_disk(world.hangs);
        let is_slow = world.is_slow || world.hangs;
        // What leads the quorum has nothing to write between two changes.
        let is_idle = world.hangs && self.leads_quorum();
        if !is_slow || is_idle {
            self.tick()?;
        }
        // A disk that takes its time keeps what has to be on it before it is answered.
        let is_write = |(_, said): &(i32, Said)| matches!(said, Said::Raft(_, message) if !message.entries.is_empty());
        let writes = arrived.extract_if(.., |said| is_slow && is_write(said));
        self.writing.extend(writes);
        if !is_slow {
            arrived.splice(..0, std::mem::take(&mut self.writing));
        }
        for (from, said) in arrived {
            if !world.hangs || self.goes_without_disk(&said) {
                self.hear(from, said, world)?;
            }
        }
        self.answer_hellos();
        if !is_slow || !self.controls() {
            self.decide(world)?;
        }
        if !is_slow {
            self.join();
        }
        if !world.hangs {
            self.publish(world);
        }
        self.live();
        if !world.hangs {
            self.replicate();
        }
        if !is_slow {
            self.upkeep()?;
        }
        self.answer_producers(world);
        self.send_raft(world)?;
        Ok(std::mem::take(&mut self.said))
    }

    /// Calls the quorum's node. A disk that fails it is the end of the process.
    fn with_quorum(&mut self, act: impl FnOnce(&mut Node<Publisher>) -> Result<(), QuorumError>) -> Result<(), Ended> {
        let acted = act(&mut self.quorum).and_then(|()| self.quorum.drive());
        match acted {
            Err(error @ (QuorumError::Corrupt(_) | QuorumError::VoteLost(_) | QuorumError::Raft(_))) => {
                panic!("node {}: {error}", self.id)
            }
            Err(error) if !error.is_retriable() => Err(Ended::DiskFailed),
            _ => Ok(()),
        }
    }

    fn tick(&mut self) -> Result<(), Ended> {
        let now_ms = self.now_ms();
        if now_ms - self.last_tick_ms < TICK_MS {
            return Ok(());
        }
        let stood_still = now_ms - self.last_tick_ms >= STOOD_STILL_MS;
        self.last_tick_ms = now_ms;
        self.with_quorum(|node| {
            if stood_still {
                node.resign();
            }
            node.tick()
        })
    }

    fn hear(&mut self, from: i32, said: Said, world: &mut World<'_>) -> Result<(), Ended> {
        match said {
            Said::Raft(sender, message) => {
                return self.with_quorum(|node| {
                    node.introduce(vec![sender]);
                    node.receive(message)
                });
            }
            Said::Join(member) => {
                return self.with_quorum(|node| {
                    node.introduce(vec![member.clone()]);
                    // Whoever is refused asks again.
                    _ = node.join(member, false);
                    Ok(())
                });
            }
            Said::Hello(number) => {
                // Whoever is not answered asks again.
                let mut question = None;
                self.with_quorum(|node| {
                    question = node.confirm().ok();
                    Ok(())
                })?;
                self.confirming.extend(question.map(|question| (question, from, number)));
            }
            Said::HighWatermark(number, high_watermark) => {
                if self.hello.takes(number) && self.life == Life::CatchesUp(None) {
                    self.life = Life::CatchesUp(Some(high_watermark));
                }
            }
            Said::Ask(number, ask) => self.asked.push((from, number, ask)),
            Said::Told(number, told) => self.hear_controller(number, told),
            Said::Died(node) => {
                self.liveness.died(node);
                return self.with_quorum(|quorum| match quorum.peer_down(node) {
                    Some(0) => quorum.campaign(),
                    _ => Ok(()),
                });
            }
            Said::Fetch(number, request) => {
                let response = self.replica.answer(&request);
                self.said.push((from, Said::Fetched(number, response)));
            }
            Said::Fetched(number, response) => {
                let now_ms = self.now_ms();
                let Some(lane) = self.fetching.get_mut(&from) else { return Ok(()) };
                if !lane.takes(number) {
                    return Ok(());
                }
                lane.next_ms = now_ms + 10 * world.rng.below(3) as i64;
                if self.replica.take_response(from, response).is_err() {
                    self.replica.disconnect(from);
                }
            }
            Said::Produce(number, place, batch, acks) => self.produce(from, number, place, batch, acks),
            Said::Commit(number, commit) => {
                let now = self.now();
                if self.groups.commit((from, number), commit, now).is_err() {
                    self.said.push((from, Said::Committed(number)));
                }
            }
            Said::FetchOffset(group, (topic, partition)) => {
                if let Ok((leader_epoch, commit)) = self.groups.fetch(&group, &topic, partition) {
                    world.ledger.fetches_offset(&(group, topic.to_string(), partition), leader_epoch, commit);
                }
            }
            Said::Produced(..) | Said::Committed(..) => {}
        }
        Ok(())
    }

    // --- The quorum

    /// Tells what is committed to those who asked, when most voters have said that this node leads.
    fn answer_hellos(&mut self) {
        let (confirmed, high_watermark) = (self.quorum.take_confirmed(), self.quorum.status().high_watermark);
        for (_, from, number) in self.confirming.extract_if(.., |(question, ..)| confirmed.contains(question)) {
            self.said.push((from, Said::HighWatermark(number, high_watermark)));
        }
    }

    /// Asks to be a member as long as it is none.
    fn join(&mut self) {
        let status = self.quorum.status();
        if status.voters.members().any(|member| *member == self.own) || !self.is_due("join", JOIN_MS) {
            return;
        }
        // One that knows nobody asks all there are.
        let nodes: Vec<i32> = match status.leader {
            Some(leader) => vec![leader],
            None => (0..super::NODES_MAX).filter(|node| *node != self.id).collect(),
        };
        let own = self.own.clone();
        self.said.extend(nodes.into_iter().map(|node| (node, Said::Join(own.clone()))));
    }

    fn send_raft(&mut self, world: &mut World<'_>) -> Result<(), Ended> {
        loop {
            let sent = std::mem::take(&mut *self.outbox.lock());
            if sent.is_empty() {
                return Ok(());
            }
            for (to, message) in sent {
                // What becomes of a snapshot is not always told; after a while it is taken for lost.
                if message.get_msg_type() == MessageType::MsgSnapshot && world.rng.percent(90) {
                    self.with_quorum(|node| node.report_snapshot(to.node_id, true))?;
                }
                self.said.push((to.node_id, Said::Raft(self.own.clone(), message)));
            }
        }
    }

    // --- The controller

    /// Takes what was asked, as long as this node leads the quorum.
    fn decide(&mut self, world: &mut World<'_>) -> Result<(), Ended> {
        let epoch = self.quorum.leader_epoch();
        if epoch != self.controls_in {
            self.controls_in = epoch;
            if epoch.is_some() {
                self.liveness.begin(None);
            }
        }
        for committed in self.quorum.take_committed() {
            if let Some((_, epoch, answers)) = self.deciding.take_if(|(ticket, ..)| *ticket == committed.ticket) {
                self.publishing.push((committed.offset, epoch, answers));
            }
        }
        let Some(epoch) = epoch else {
            let undecided = std::mem::take(&mut self.asked).into_iter().map(|(from, number, _)| (from, number));
            let waiting = self.deciding.take().into_iter().flat_map(|(_, _, answers)| answers);
            let refused: Vec<_> = undecided.chain(waiting.map(|(from, number, _)| (from, number))).collect();
            for (from, number) in refused {
                self.said.push((from, Said::Told(number, Told::NotController)));
            }
            return Ok(());
        };
        if self.deciding.is_some() {
            return Ok(());
        }
        let fences = self.is_due("fence", FENCE_MS);
        if self.asked.is_empty() && !fences {
            return Ok(());
        }
        let balances = self.is_due("balance", BALANCE_MS);
        let mut round = Round::begin(epoch, &self.metadata, &self.config, Arc::clone(&self.random));
        world.ledger.decides(self.id, epoch, round.after());
        let timeout_ms = i64::from(self.config.load().broker_session_timeout_ms);
        let mut answers = Vec::new();
        for (from, number, ask) in std::mem::take(&mut self.asked) {
            let is_own = from == self.id;
            let is_alive = |id| !(is_own && id == self.id) && self.liveness.is_alive(id, timeout_ms);
            let told = ask.decide(&mut round, &is_alive).unwrap_or_else(|error| panic!("{error}"));
            answers.push((from, number, told));
        }
        if fences {
            let image = self.metadata.committed();
            let others = image.brokers().filter(|other| !other.fenced && other.id != self.id);
            let over = self.liveness.over(others.map(|other| (other.id, other.epoch)), timeout_ms);
            round.fence(&over).unwrap_or_else(|error| panic!("{error}"));
        }
        if balances {
            round.balance_leaders(BALANCE_MAX).unwrap_or_else(|error| panic!("{error}"));
            round.elect_unclean_leaders(BALANCE_MAX).unwrap_or_else(|error| panic!("{error}"));
        }
        if round.is_empty() {
            self.publishing.push((round.after(), epoch, answers));
            return Ok(());
        }
        let mut proposed = None;
        self.with_quorum(|node| {
            proposed = node.propose(round.epoch(), round.after(), &round.values()).ok();
            Ok(())
        })?;
        match proposed {
            Some(ticket) => self.deciding = Some((ticket, epoch, answers)),
            None => {
                let refused =
                    answers.into_iter().map(|(from, number, _)| (from, Said::Told(number, Told::NotController)));
                self.said.extend(refused);
            }
        }
        Ok(())
    }

    /// Publishes some of what is committed, and answers who waited for it.
    fn publish(&mut self, world: &mut World<'_>) {
        world.ledger.committed(&self.metadata.committed());
        let most = if world.rng.percent(20) { 0 } else { 1 + world.rng.below(8) };
        let mut published = false;
        for _ in 0..most {
            let Some(image) = self.backlog.publish_next() else { break };
            world.ledger.committed(&image);
            published = true;
            // Whoever leads from now on must have everything from now on.
            for partition in self.replica.table.all().iter().filter(|partition| partition.is_leader()) {
                world.ledger.leads(self.id, partition);
            }
        }
        let now = self.now();
        if published {
            self.groups.follow_leadership(&self.metadata.load_full(), now);
        }
        let offset = self.metadata.load().offset();
        for (answered, epoch, answers) in self.publishing.extract_if(.., |(until, ..)| *until <= offset) {
            world.ledger.answers(epoch, answered);
            for (from, number, told) in answers {
                if told.is_sign_of_life() {
                    self.liveness.heard(from);
                }
                self.said.push((from, Said::Told(number, told)));
            }
        }
    }

    // --- The broker's life

    fn ask(&mut self, ask: Ask) -> Option<u64> {
        let (status, number) = (self.quorum.status(), self.number());
        let known = status.leader.filter(|_| !self.disk_watch.is_stalled());
        let leader = known.or_else(|| status.other_voter(self.id, number as usize))?;
        self.said.push((leader, Said::Ask(number, ask)));
        Some(number)
    }

    fn live(&mut self) {
        let now_ms = self.now_ms();
        match self.life {
            Life::CatchesUp(None) if self.hello.is_free(now_ms) => {
                let leader = self.quorum.status().leader;
                let number = self.number();
                self.hello.next_ms = now_ms + CATCH_UP_MS;
                if let Some(leader) = leader {
                    self.hello.waits_for = Some((number, now_ms));
                    self.said.push((leader, Said::Hello(number)));
                }
            }
            Life::CatchesUp(Some(high_watermark)) => {
                let has_all = self.quorum.status().high_watermark >= high_watermark
                    && self.metadata.load().offset() >= self.metadata.committed().offset();
                if has_all {
                    let table = Arc::clone(&self.replica.table);
                    self.metadata.subscribe_after(Arc::clone(&table) as Arc<dyn Applied>, |image| {
                        let (known, there_was) = (image.offset(), self.committed_before);
                        assert!(known >= there_was, "{} takes {known} for all there is of {there_was}", self.id);
                        table.load(image);
                    });
                    self.life = Life::Registers;
                }
            }
            Life::Registers if self.heartbeats.is_free(now_ms) => {
                let registration = BrokerRegistration {
                    id: self.id,
                    incarnation_id: self.incarnation_id,
                    endpoints: Vec::new(),
                    rack: None,
                    log_dirs: vec![self.own.directory_id],
                    is_clean: self.replica.table.was_clean(),
                    lost_replicas: self.replica.table.lost_replicas(),
                };
                let previous_epoch = self.metadata.load().broker(self.id).map(|broker| broker.epoch);
                self.heartbeats.next_ms = now_ms + BACKOFF_MS;
                let number = self.ask(Ask::Register(registration.to_request(previous_epoch)));
                self.heartbeats.waits_for = number.map(|number| (number, now_ms));
            }
            Life::Registered(epoch) if self.metadata.load().offset() >= epoch => self.life = Life::Serves(epoch),
            Life::Serves(broker_epoch) if self.heartbeats.is_free(now_ms) => {
                let heartbeat = BrokerHeartbeatRequest {
                    broker_id: self.id,
                    broker_epoch,
                    current_metadata_offset: self.metadata.load().offset(),
                    want_fence: self.disk_watch.is_stalled(),
                    cordoned_log_dirs: Some(
                        self.replica.is_cordoned().then_some(self.own.directory_id).into_iter().collect(),
                    ),
                    want_shut_down: self.leaves,
                    ..BrokerHeartbeatRequest::default()
                };
                self.heartbeats.next_ms = now_ms + if self.leaves { LEAVE_MS } else { HEARTBEAT_MS };
                let number = self.ask(Ask::Heartbeat(heartbeat));
                self.heartbeats.waits_for = number.map(|number| (number, now_ms));
            }
            _ => {}
        }
    }

    fn hear_controller(&mut self, number: u64, told: Told) {
        let now_ms = self.now_ms();
        if self.heartbeats.takes(number) {
            match (told, self.life) {
                (Told::Registered(answer), Life::Registers) if answer.error_code.is_none() => {
                    self.life = Life::Registered(answer.broker_epoch);
                }
                (Told::Heartbeat(answer), Life::Serves(_)) => match answer.error_code {
                    ErrorCode::STALE_BROKER_EPOCH | ErrorCode::BROKER_ID_NOT_REGISTERED => self.life = Life::Registers,
                    _ if self.leaves && answer.should_shut_down => self.timers.extend([(LEFT, now_ms)]),
                    _ => {}
                },
                _ => {}
            }
        } else if self.in_sync_replicas.takes(number) {
            let answer = match told {
                Told::Altered(answer) => Ok(answer),
                _ => Err(ErrorCode::NOT_CONTROLLER),
            };
            self.settle_isr(answer);
        }
    }

    // --- Data

    fn replicate(&mut self) {
        let now_ms = self.now_ms();
        let leaders = self.replica.leaders();
        self.fetching.retain(|leader, _| leaders.contains(leader));
        for leader in leaders {
            let lane = self.fetching.entry(leader).or_default();
            let waited = lane.waits_for.is_some();
            if !lane.is_free(now_ms) {
                continue;
            }
            if waited {
                self.replica.disconnect(leader);
            }
            let Some(request) = self.replica.fetch_request(leader) else { continue };
            let number = self.number();
            self.fetching.entry(leader).or_default().waits_for = Some((number, now_ms));
            self.said.push((leader, Said::Fetch(number, request)));
        }
        let waited = self.in_sync_replicas.waits_for.is_some();
        if self.in_sync_replicas.is_free(now_ms) {
            if waited {
                self.settle_isr(Err(ErrorCode::REQUEST_TIMED_OUT));
            }
            if let Some((round, request)) = self.replica.isr_round() {
                self.altering = Some(round);
                match self.ask(Ask::Alter(request)) {
                    Some(number) => self.in_sync_replicas.waits_for = Some((number, now_ms)),
                    None => self.settle_isr(Err(ErrorCode::NOT_CONTROLLER)),
                }
            }
        }
    }

    fn settle_isr(&mut self, answer: Result<AlterPartitionResponse, ErrorCode>) {
        let Some(round) = self.altering.take() else { return };
        if !self.replica.settle_isr(round, answer) {
            self.in_sync_replicas.next_ms = self.now_ms() + BACKOFF_MS;
        }
    }

    fn upkeep(&mut self) -> Result<(), Ended> {
        self.replica.sync();
        let lag_max_ms = self.config.load().replica_lag_time_max_ms;
        if self.is_due("disk", DISK_MS) {
            self.replica.table.watch_disk();
        }
        if self.is_due("flush", FLUSH_MS) {
            self.replica.flush_in_background();
        }
        if self.is_due("lag", lag_max_ms / 2) {
            self.replica.table.shrink_isrs();
        }
        if self.is_due("checkpoint", CHECKPOINT_MS) {
            // A restart checks more.
            _ = self.replica.table.write_checkpoints();
        }
        if self.is_due("retention", RETENTION_MS) {
            self.replica.table.apply_retention();
            self.replica.table.remove_deleted();
        }
        if self.timers.get(LEFT).is_some_and(|at_ms| *at_ms <= self.now_ms()) {
            self.replica.table.close()?;
            return Err(Ended::Left);
        }
        Ok(())
    }

    fn produce(&mut self, from: i32, number: u64, place: Place, batch: Batch, acks: Acks) {
        let refuse = |code| (from, Said::Produced(number, Err(code)));
        let partition = match self.replica.table.find_by_name(&place.0, place.1) {
            Ok(partition) => partition,
            Err(code) => return self.said.push(refuse(code)),
        };
        let values = super::replica::values(&batch).into_iter().map(|(_, value)| value).collect();
        let (ticket, mut touched) = (Arc::new(Ticket::new(1)), Touched::default());
        partition.enqueue(batch, acks, &ticket, 0, &mut touched);
        touched.commit();
        let leader_epoch = partition.leader_epoch();
        self.producing.push(Producing { from, number, place, values, leader_epoch, acks, ticket });
    }

    fn answer_producers(&mut self, world: &mut World<'_>) {
        let mut context = Context::from_waker(Waker::noop());
        let mut done = Vec::new();
        self.producing.retain(|producing| match producing.ticket.poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(mut outcomes) => {
                let outcome = match outcomes.remove(0) {
                    Outcome::Appended { base_offset, .. } => Ok(base_offset),
                    Outcome::Refused(refusal) => Err(refusal.code),
                };
                if let (Ok(offset), Acks::All) = (outcome, producing.acks) {
                    world.ledger.acknowledges(&producing.place, producing.leader_epoch, offset, &producing.values);
                }
                done.push((producing.from, Said::Produced(producing.number, outcome)));
                false
            }
        });
        self.said.append(&mut done);
        for committed in self.groups.take_committed() {
            let (from, number) = committed.asker;
            if let Ok(record_offset) = committed.outcome {
                let commit = committed.commit;
                let key = (commit.group, commit.topic, commit.partition);
                world.ledger.commits(key, commit.number, committed.leader_epoch, record_offset);
            }
            self.said.push((from, Said::Committed(number)));
        }
    }

    /// Looks at the logs of this node, as everybody may see them.
    pub(super) fn show(&self, ledger: &mut Ledger, wall_ms: i64) {
        let image = Arc::clone(&ledger.newest);
        let is_known = |id: i32, incarnation_id| image.broker(id).is_some_and(|b| b.incarnation_id == incarnation_id);
        for partition in self.replica.table.all() {
            ledger.begins(self.id, &partition, wall_ms);
            if !is_known(self.id, self.incarnation_id) || partition.is_offline() {
                continue;
            }
            let Some(state) = ledger.partition(&place(&partition)).cloned() else { continue };
            let is_newest = state.leader_epoch == partition.leader_epoch();
            if is_newest && partition.is_leader() {
                ledger.looks_at_leader((self.id, self.start), &partition);
            } else if is_newest && state.isr.contains(&self.id) && partition.followed_leader() == Some(state.leader) {
                ledger.looks_at((self.id, self.start), &partition, partition.high_watermark());
            }
        }
    }
}

pub(super) fn options(env: &Env, key: VoterKey) -> Options {
    Options {
        disk: Arc::clone(&env.disk),
        clock: Arc::clone(&env.clock),
        random: Arc::clone(&env.random),
        dir: [DATA_DIR, METADATA_DIR].iter().collect(),
        node_id: key.node_id,
        directory_id: key.directory_id,
        segment_bytes: 1 << 20,
        snapshot_bytes: 20_000,
        disk_watch: Arc::new(DiskWatch::new(Arc::clone(&env.clock), STALL_TIMEOUT)),
    }
}
