//! Messages that no member sends: none of them ends a node, makes it forget a vote, or leaves on its disk what the next
//! start does not read.

use platform::simulation::{run_seeds, seeds};
use raft::eraftpb::MessageType;
use raft::{INVALID_ID, StateRole};
use wire::api::quorum_messages::{QuorumEntry, QuorumMessage};
use wire::batch::BatchBuilder;

use super::*;

/// Three voters in one process, and what they have said so far.
pub(super) struct Three {
    pub(super) nodes: Vec<Node<Journal>>,
    pub(super) disks: Vec<SimDisk>,
    options: Vec<Options>,
    pub(super) sent: Arc<Mutex<Vec<Message>>>,
    /// Of each node: its term, its vote in it, and how far it has committed.
    known: Vec<(u64, u64, u64)>,
}

impl Three {
    pub(super) fn start(seed: u64) -> Self {
        Self::start_with(seed, 3)
    }

    /// The others of the three have nothing yet.
    fn start_with(seed: u64, bootstrapped: usize) -> Self {
        let disks: Vec<SimDisk> = (1..=3).map(|n| SimDisk::new(seed * 3 + n)).collect();
        let own = |(disk, n): (&SimDisk, u8)| {
            let mut own = options(Arc::new(disk.clone()), Path::new(DIR), 1500);
            own.random = Arc::new(SeededRandom::new(seed * 3 + u64::from(n)));
            (own.node_id, own.directory_id) = (i32::from(n), wire::Uuid([n; 16]));
            own
        };
        let options: Vec<Options> = disks.iter().zip(1..).map(own).collect();
        let all: Vec<&Options> = options.iter().collect();
        options[..bootstrapped].iter().for_each(|own| bootstrap(own, &all).unwrap());
        let sent = Arc::<Mutex<Vec<Message>>>::default();
        let mut three = Self { nodes: Vec::new(), disks, options, sent, known: vec![(0, 0, 0); 3] };
        three.nodes = (0..3).map(|n| three.open(n)).collect();
        three
    }

    pub(super) fn open(&self, n: usize) -> Node<Journal> {
        Node::open(&self.options[n], Journal::default(), Box::new(Kept(Arc::clone(&self.sent)))).unwrap()
    }

    /// The first leads, and some entries are committed everywhere.
    pub(super) fn led() -> Self {
        let mut three = Self::start(0);
        three.nodes[0].campaign().unwrap();
        three.deliver_all();
        for n in 0..5 {
            three.propose(0, n);
            three.deliver_all();
        }
        (0..4).for_each(|_| three.nodes[0].tick().unwrap());
        three.deliver_all();
        assert!(three.nodes.iter().all(|node| node.machine().values == values(0, 5)));
        three
    }

    /// All messages arrive, until no node sends any.
    pub(super) fn deliver_all(&mut self) {
        loop {
            let sent = std::mem::take(&mut *self.sent.lock());
            if sent.is_empty() {
                return;
            }
            for message in sent {
                let n = self.node_index(message.to).unwrap();
                self.nodes[n].receive(message).unwrap();
                self.nodes[n].drive().unwrap();
            }
        }
    }

    fn node_index(&self, raft_id: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.key().raft_id() == raft_id)
    }

    pub(super) fn propose(&mut self, n: usize, value: usize) {
        let node = &mut self.nodes[n];
        if let Some(epoch) = node.leader_epoch() {
            _ = node.propose(epoch, node.state_offset(), &values(value, 1));
            _ = node.drive();
        }
    }

    pub(super) fn id(&self, n: usize) -> u64 {
        self.nodes[n].key().raft_id()
    }

    pub(super) fn state(&self, n: usize) -> (u64, u64, u64, u64, StateRole) {
        let raft = &self.nodes[n].raft.raft;
        (raft.term, raft.vote, raft.raft_log.committed, raft.raft_log.last_index(), raft.state)
    }

    /// A node goes on, and has forgotten nothing.
    fn look(&mut self, n: usize) {
        let node = &self.nodes[n];
        assert!(node.check().is_ok(), "{:?}", node.check());
        let raft = &node.raft.raft;
        let now = (raft.term, raft.vote, raft.raft_log.committed);
        let (term, vote, committed) = std::mem::replace(&mut self.known[n], now);
        assert!(now.0 >= term && now.2 >= committed, "{now:?} after {term}, {committed}");
        assert!(now.0 > term || vote == INVALID_ID || now.1 == vote, "its vote in term {term} was {vote}");
    }
}

/// The last of the initial voters takes the first snapshot, which has nothing but the voters.
#[test]
fn who_comes_late_takes_what_the_cluster_began_with() {
    let mut three = Three::start_with(0, 2);
    let others: Vec<Voter> = three.nodes[..2].iter().map(|node| voter(node.key())).collect();
    three.nodes[2].add_peer_addresses(others);
    three.nodes[0].campaign().unwrap();
    three.deliver_all();
    for n in 0..5 {
        three.propose(0, n);
        (0..4).for_each(|_| three.nodes[0].tick().unwrap());
        three.deliver_all();
    }
    assert!(three.nodes.iter().all(|node| node.machine().values == values(0, 5)));
}

/// From the leader to the second node, as it is now.
fn message(three: &Three, kind: MessageType) -> Message {
    let raft = &three.nodes[0].raft.raft;
    let mut message = Message { from: three.id(0), to: three.id(1), term: raft.term, ..Message::default() };
    message.set_msg_type(kind);
    message.index = raft.raft_log.last_index();
    message.log_term = raft.raft_log.last_term();
    message.commit = raft.raft_log.committed;
    message
}

fn entry(message: &Message, data: Bytes) -> raft::eraftpb::Entry {
    raft::eraftpb::Entry { index: message.index + 1, term: message.term, data, ..Default::default() }
}

#[test]
fn what_no_member_says_changes_nothing() {
    use MessageType::*;
    type Change = fn(&mut Message);
    let by_number: [(MessageType, Change); 22] = [
        (MsgHeartbeat, |m| (m.term, m.commit) = (1 << 40, 1 << 40)),
        (MsgHeartbeat, |m| m.commit += 1),
        (MsgHeartbeat, |m| m.commit = u64::MAX),
        (MsgHeartbeat, |m| m.term = 1 << 63),
        (MsgHeartbeat, |m| m.term = 0),
        (MsgHeartbeat, |m| m.term += 1 << 21),
        (MsgHeartbeat, |m| m.from ^= 1 << 40),
        (MsgHeartbeat, |m| m.context = b"context".as_slice().into()),
        (MsgAppend, |m| (m.index, m.log_term) = (1 << 40, 0)),
        (MsgAppend, |m| (m.index, m.log_term) = (0, 0)),
        (MsgAppend, |m| m.index = u64::MAX),
        (MsgAppend, |m| m.log_term = m.term + 1),
        (MsgSnapshot, |_| {}),
        (MsgSnapshot, |m| m.mut_snapshot().mut_metadata().index = 1 << 40),
        (MsgTimeoutNow, |m| m.term += 1),
        (MsgTimeoutNow, |m| m.from ^= 1 << 40),
        (MsgRequestVote, |m| (m.term, m.log_term) = (m.term + 1, m.term + 1)),
        (MsgRequestVote, |m| (m.term, m.commit) = (m.term + 1, m.index + 1)),
        (MsgRequestPreVote, |m| m.term = i64::MAX as u64),
        (MsgRequestVoteResponse, |m| m.term = u64::MAX),
        (MsgAppendResponse, |m| m.term = 1 << 50),
        (MsgHeartbeatResponse, |m| m.request_snapshot = 1 << 50),
    ];
    let mut three = Three::led();
    let before = three.state(1);
    for (at, (kind, change)) in by_number.into_iter().enumerate() {
        let mut message = message(&three, kind);
        change(&mut message);
        let received = three.nodes[1].receive(message);
        assert!(matches!(received, Err(QuorumError::Impossible(_))), "{at}: {received:?}");
        three.nodes[1].drive().unwrap();
        assert_eq!(three.state(1), before, "{at}");
    }

    // To the leader, from one who follows it.
    let before = three.state(0);
    let to_leader: [(MessageType, Change); 6] = [
        (MsgAppendResponse, |m| m.index = 1 << 40),
        (MsgAppendResponse, |m| m.commit = m.index + 1),
        (MsgAppendResponse, |m| (m.reject, m.reject_hint) = (true, u64::MAX)),
        (MsgHeartbeatResponse, |m| m.commit = 1 << 40),
        (MsgAppend, |_| {}),
        (MsgHeartbeat, |_| {}),
    ];
    for (at, (kind, change)) in to_leader.into_iter().enumerate() {
        let mut message = message(&three, kind);
        (message.from, message.to) = (message.to, message.from);
        change(&mut message);
        let received = three.nodes[0].receive(message);
        assert!(matches!(received, Err(QuorumError::Impossible(_))), "{at}: {received:?}");
        three.nodes[0].drive().unwrap();
        assert_eq!(three.state(0), before, "{at}");
    }

    // They go on as before. A claim to lack entries that no node has is not believed either.
    for answer in std::mem::take(&mut *three.sent.lock()) {
        assert!(matches!(three.nodes[0].receive(answer), Err(QuorumError::Impossible(_))));
    }
    three.propose(0, 5);
    three.deliver_all();
    (0..4).for_each(|_| three.nodes[0].tick().unwrap());
    three.deliver_all();
    assert!(three.nodes.iter().all(|node| node.machine().values == values(0, 6)));
}

#[test]
fn entries_that_nobody_could_read_back_are_not_appended() {
    use raft::eraftpb::EntryType::{EntryConfChange, EntryConfChangeV2};
    let mut three = Three::led();
    let good = batches::of_values(&values(7, 2), 5);
    let flipped = {
        let mut bytes = good.bytes.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        Bytes::from(bytes)
    };
    let with_producer = BatchBuilder::new().producer(7, 0, 0);
    let built = |mut builder: BatchBuilder| {
        builder.push(5, None, Some(b"value"), &[]);
        builder.build().bytes
    };
    let datas = [
        Bytes::from_static(b"no batch"),
        good.bytes.slice(..good.bytes.len() - 1),
        [&good.bytes[..], b"x"].concat().into(),
        [&good.bytes[..], &good.bytes[..]].concat().into(),
        flipped,
        built(BatchBuilder::new().control()),
        built(with_producer),
        BatchBuilder::new().build().bytes,
    ];
    let before = three.state(1);
    let base = message(&three, MessageType::MsgAppend);
    let mut wrong: Vec<Vec<raft::eraftpb::Entry>> = datas.into_iter().map(|data| vec![entry(&base, data)]).collect();
    let fine = entry(&base, good.bytes.clone());
    // Out of their order, of another term, of another type, and changes that are none.
    wrong.push(vec![raft::eraftpb::Entry { index: fine.index + 1, ..fine.clone() }]);
    wrong.push(vec![fine.clone(), fine.clone()]);
    wrong.push(vec![raft::eraftpb::Entry { term: fine.term + 1, ..fine.clone() }]);
    wrong.push(vec![raft::eraftpb::Entry { term: 0, ..fine.clone() }]);
    wrong.push(vec![raft::eraftpb::Entry { context: b"x".as_slice().into(), ..fine.clone() }]);
    let now = VoterSet::clone(&three.nodes[1].voters);
    let stranger = voter(VoterKey { node_id: 9, directory_id: wire::Uuid([9; 16]) });
    let (other, none) = (now.with_observer(stranger.clone()), VoterSet::default());
    let two = VoterSet::new(vec![now.voters[0].clone(), stranger]);
    // What the change is, and what raft is given.
    for (is, declared) in [(&other, &now), (&now, &other), (&two, &two), (&none, &other), (&two, &other)] {
        let mut change = fine.clone();
        change.set_entry_type(EntryConfChange);
        change.data = protobuf::Message::write_to_bytes(&declared.change_from(&now)).unwrap().into();
        change.context = is.to_batch(false, 5).build().bytes;
        wrong.push(vec![change]);
    }
    let mut joint = fine.clone();
    joint.set_entry_type(EntryConfChangeV2);
    wrong.push(vec![joint]);
    let mut garbage = fine.clone();
    garbage.set_entry_type(EntryConfChange);
    wrong.push(vec![garbage]);
    for (at, entries) in wrong.into_iter().enumerate() {
        let mut message = base.clone();
        message.set_entries(entries.into());
        let received = three.nodes[1].receive(message);
        assert!(matches!(received, Err(QuorumError::Impossible(_))), "{at}: {received:?}");
        three.nodes[1].drive().unwrap();
        assert_eq!(three.state(1), before, "{at}");
    }
    let mut message = base;
    message.set_entries(vec![fine].into());
    three.nodes[1].receive(message).unwrap();
    assert_eq!(three.state(1).3, before.3 + 1);
}

/// Elected with what is not on disk yet, a node would promise it.
#[test]
fn votes_that_come_with_the_entries_find_them_on_disk() {
    let mut three = Three::led();
    let append = {
        let mut message = message(&three, MessageType::MsgAppend);
        let entries = vec![entry(&message, batches::of_values(&values(9, 1), 5).bytes)];
        message.set_entries(entries.into());
        message
    };
    let hand_over = message(&three, MessageType::MsgTimeoutNow);
    let vote = |n| {
        let mut vote = Message { from: three.id(n), to: three.id(1), term: append.term + 1, ..Message::default() };
        vote.set_msg_type(MessageType::MsgRequestVoteResponse);
        vote
    };
    let all = [append.clone(), hand_over, vote(0), vote(2)];
    all.into_iter().for_each(|message| three.nodes[1].receive(message).unwrap());
    three.nodes[1].drive().unwrap();
    assert!(three.nodes[1].leads());
}

/// A number that means something to a node, or that might break it.
fn number(rng: &mut Rng, known: &[u64]) -> i64 {
    let near = known[rng.below(known.len() as u64) as usize] as i64;
    match rng.below(10) {
        0 => [0, 1, 1 << 20, 1 << 31, 1 << 40, i64::MAX, i64::MIN, -1][rng.below(8) as usize],
        1..6 => near,
        6 | 7 => near.wrapping_add(1),
        _ => near.wrapping_sub(1),
    }
}

/// A changed raft message, or an invented one.
fn forge(rng: &mut Rng, three: &Three, corpus: &[QuorumMessage]) -> QuorumMessage {
    let n = rng.below(3) as usize;
    let (term, _, committed, last, _) = three.state(n);
    let known = [term, committed, last, three.nodes[n].applied()];
    let made_up = corpus.is_empty() || rng.percent(30);
    let mut message = if made_up {
        let kind = rng.below(20) as i8;
        let from = three.id(rng.below(3) as usize) as i64;
        let [index, commit] = [(); 2].map(|()| number(rng, &known));
        let [term, log_term] = [(); 2].map(|()| number(rng, &[term]));
        QuorumMessage { message_type: kind, from, term, log_term, index, commit, ..QuorumMessage::default() }
    } else {
        corpus[rng.below(corpus.len() as u64) as usize].clone()
    };
    message.to = three.id(n) as i64;
    for _ in 0..rng.below(4) {
        match rng.below(14) {
            0 => message.message_type = rng.below(20) as i8,
            1 => message.from = three.id(rng.below(3) as usize) as i64,
            2 => message.term = number(rng, &[term]),
            3 => message.log_term = number(rng, &[term]),
            4 => message.index = number(rng, &known),
            5 => message.commit = number(rng, &known),
            6 => message.commit_term = number(rng, &[term]),
            7 => message.reject = !message.reject,
            8 => message.reject_hint = number(rng, &known),
            9 => message.is_transfer = !message.is_transfer,
            10 if !message.snapshot.is_empty() => message.snapshot = broken(rng, &message.snapshot),
            11 if !message.entries.is_empty() => {
                let at = rng.below(message.entries.len() as u64) as usize;
                let entry = &mut message.entries[at];
                match rng.below(5) {
                    0 => entry.term = number(rng, &[term]),
                    1 => entry.index = number(rng, &known),
                    2 => entry.batch = broken(rng, &entry.batch),
                    3 => (entry.change_type, entry.change_of) = (rng.below(4) as i8 - 1, three.id(n) as i64),
                    _ => _ = message.entries.remove(at),
                }
            }
            _ => {
                let index = message.index.wrapping_add(message.entries.len() as i64 + 1);
                message.entries.push(forged_entry(rng, three, message.term, index));
            }
        }
    }
    message
}

fn broken(rng: &mut Rng, bytes: &Bytes) -> Bytes {
    let mut bytes = bytes.to_vec();
    if rng.percent(50) {
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
    } else if !bytes.is_empty() {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
    bytes.into()
}

fn forged_entry(rng: &mut Rng, three: &Three, term: i64, index: i64) -> QuorumEntry {
    let good = batches::of_values(&values(rng.below(1000) as usize, 1 + rng.below(3) as usize), 5).bytes;
    let batch = match rng.below(6) {
        0 => Bytes::new(),
        1 => BatchBuilder::new().build().bytes,
        2 => broken(rng, &good),
        _ => good,
    };
    let mut entry = QuorumEntry { term, index, batch, ..QuorumEntry::default() };
    if rng.percent(30) {
        let now = VoterSet::clone(&three.nodes[0].voters);
        let other =
            voter(VoterKey { node_id: 1 + rng.below(5) as i32, directory_id: wire::Uuid([rng.below(6) as u8; 16]) });
        let next = match rng.below(3) {
            0 => now.with_observer(other.clone()),
            1 => now.with_voter(other.clone()),
            _ => now.without(now.voters.first().map_or(other.key(), Voter::key)),
        };
        let change = next.change_from(&now);
        entry.batch = next.to_batch(false, 5).build().bytes;
        (entry.change_type, entry.change_of) = (change.get_change_type() as i8, change.node_id as i64);
    }
    entry
}

/// Returns how many forged messages were let through.
fn run(seed: u64) -> usize {
    let mut rng = Rng::new(seed ^ 0xbad);
    let mut three = Three::start(seed);
    let (mut corpus, mut on_their_way) = (Vec::new(), Vec::new());
    let mut let_through = 0;
    for step in 0..1500 {
        let n = rng.below(3) as usize;
        match rng.below(10) {
            0..2 => _ = three.nodes[n].tick(),
            2 => three.propose(n, step),
            3..7 if !on_their_way.is_empty() => {
                let at = rng.below(on_their_way.len() as u64) as usize;
                let message: Message = on_their_way.swap_remove(at);
                if let Some(to) = three.node_index(message.to) {
                    // What others were made to believe by forgery may be impossible here.
                    _ = three.nodes[to].receive(message);
                    _ = three.nodes[to].drive();
                    three.look(to);
                }
            }
            _ => {
                for _ in 0..1 + rng.below(4) {
                    let forged = forge(&mut rng, &three, &corpus);
                    let Some(to) = three.node_index(forged.to as u64) else { continue };
                    if let Ok(message) = from_wire(forged) {
                        let_through += usize::from(three.nodes[to].receive(message).is_ok());
                    }
                    if rng.percent(60) {
                        _ = three.nodes[to].drive();
                    }
                }
                (0..3).for_each(|n| _ = three.nodes[n].drive());
            }
        }
        (0..3).for_each(|n| three.look(n));
        for message in std::mem::take(&mut *three.sent.lock()) {
            if message.get_msg_type() == MessageType::MsgSnapshot {
                let (from, to) = (three.node_index(message.from).unwrap(), message.to);
                let to = voters::node_id(to).unwrap();
                _ = three.nodes[from].report_snapshot(to, true);
            }
            if let (true, Ok(wire)) = (corpus.len() < 300, to_wire(message.clone())) {
                corpus.push(wire);
            }
            on_their_way.push(message);
        }
        on_their_way.truncate(200);
    }
    for (node, own) in three.nodes.into_iter().zip(&three.options) {
        node.close().unwrap();
        let again = Node::open(own, Journal::default(), Box::new(Kept(Arc::default())));
        assert!(again.is_ok(), "{:?}", again.err());
    }
    let_through
}

#[test]
fn no_message_ends_a_node() {
    let seeds = seeds(40);
    let count = (seeds.end - seeds.start) as usize;
    let let_through: usize = run_seeds(seeds, run).into_iter().sum();
    // Enough of them gets as far as raft to say something.
    assert!(let_through > 100 * count, "{let_through}");
}
