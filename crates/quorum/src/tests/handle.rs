//! Several nodes by their handles, in the runtime's own paused time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::*;

pub(super) type Switchboard = Arc<Mutex<BTreeMap<VoterKey, Quorum>>>;

/// Hands messages to the handle of whom they are for, if it is there.
pub(super) struct Direct {
    pub(super) own: Voter,
    pub(super) switchboard: Switchboard,
}

impl Transport for Direct {
    fn send(&mut self, to: &Voter, message: Message) {
        let Some(quorum) = self.switchboard.lock().get(&to.key()).cloned() else { return };
        let is_snapshot = message.get_msg_type() == raft::eraftpb::MessageType::MsgSnapshot;
        let message = from_wire(to_wire(message).unwrap()).unwrap();
        quorum.add_peer_addresses(vec![self.own.clone()]);
        quorum.step(([127, 0, 0, 1], 9093).into(), vec![message]);
        if is_snapshot && let Some(own) = self.switchboard.lock().get(&self.own.key()) {
            own.snapshot_sent(to.node_id, true);
        }
    }
}

struct Nodes {
    switchboard: Switchboard,
    founders: VoterSet,
    tasks: BTreeMap<VoterKey, tokio::task::JoinHandle<Result<(), QuorumError>>>,
}

impl Nodes {
    fn start(founders: i32, others: i32) -> Self {
        let set = VoterSet::new((1..=founders).map(|id| voter(key(id))).collect());
        let mut nodes = Self { switchboard: Switchboard::default(), founders: set, tasks: BTreeMap::new() };
        (1..=founders + others).for_each(|id| nodes.add(key(id)));
        nodes
    }

    fn add(&mut self, key: VoterKey) {
        let mut options = options(Arc::new(SimDisk::new(key.node_id as u64)), Path::new(DIR), 2000);
        (options.node_id, options.directory_id) = (key.node_id, key.directory_id);
        options.random = Arc::new(SeededRandom::new(key.node_id as u64));
        if self.founders.voter(key).is_some() {
            Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &self.founders).unwrap();
        }
        let transport = Direct { own: voter(key), switchboard: Arc::clone(&self.switchboard) };
        let node = Node::open(&options, Journal::default(), Box::new(transport)).unwrap();
        let (quorum, driver) = Quorum::prepare(node).unwrap();
        self.tasks.insert(key, tokio::spawn(driver.run()));
        self.switchboard.lock().insert(key, quorum);
    }

    fn get(&self, id: i32) -> Quorum {
        self.switchboard.lock()[&key(id)].clone()
    }

    /// The process has ended at once.
    fn kill(&mut self, id: i32) {
        self.switchboard.lock().remove(&key(id));
        self.tasks.remove(&key(id)).unwrap().abort();
    }

    async fn leader(&self) -> Quorum {
        let all: Vec<Quorum> = self.switchboard.lock().values().cloned().collect();
        timeout(Duration::from_secs(5), async {
            loop {
                if let Some(leader) = all.iter().find(|quorum| quorum.leader_epoch().is_some()) {
                    return leader.clone();
                }
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap()
    }
}

pub(super) fn key(id: i32) -> VoterKey {
    VoterKey { node_id: id, directory_id: wire::Uuid([id as u8; 16]) }
}

async fn propose(quorum: &Quorum, after: i64, n: usize) -> i64 {
    quorum.propose(quorum.leader_epoch().unwrap(), after, values(n, 1)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_and_see_what_is_committed() {
    let nodes = Nodes::start(3, 1);
    let leader = nodes.leader().await;
    let id = leader.status().leader.unwrap();
    let after = propose(&leader, -1, 0).await;

    let observer = nodes.get(4);
    assert_eq!(observer.status().leader, None);
    let not_leader = nodes.get(id % 3 + 1);
    assert!(matches!(not_leader.join(voter(key(4)), false).await, Err(QuorumError::NotLeader)));
    leader.join(voter(key(4)), false).await.unwrap();
    leader.join(voter(key(4)), false).await.unwrap();
    let after = propose(&leader, after, 1).await;
    let mut status = observer.watch_status();
    let seen = timeout(Duration::from_secs(3), status.wait_for(|status| status.high_watermark > after)).await;
    let seen = seen.unwrap().unwrap();
    assert_eq!((seen.leader, seen.voters.observers.len(), seen.voters.voters.len()), (Some(id), 1, 3));
    assert_eq!(seen.own_epoch, None);

    let moved = Voter { port: 1, ..voter(key(4)) };
    leader.join(moved.clone(), false).await.unwrap();
    assert_eq!(leader.status().voters.observers, [moved]);
    leader.promote(key(4)).await.unwrap();
    assert_eq!(leader.status().voters.voters.len(), 4);
    sleep(Duration::from_secs(1)).await;
    let replicas = leader.replicas().await.unwrap();
    assert!(replicas.iter().all(|replica| replica.is_voter && replica.last_heard_ms > 0), "{replicas:?}");
    let end = leader.status().high_watermark;
    assert!(replicas.iter().all(|replica| replica.log_end_offset == end), "{replicas:?}");
    assert!(leader.ms_since_contact(4).is_some_and(|ms| ms < 1000));
    assert_eq!(leader.ms_since_contact(9), None);

    leader.remove(key(4)).await.unwrap();
    assert!(matches!(leader.remove(key(4)).await, Err(QuorumError::UnknownMember(_))));
    // The leader itself: another takes over.
    leader.remove(key(id)).await.unwrap();
    assert_eq!(leader.leader_epoch(), None);
    let next = nodes.leader().await;
    assert_ne!(next.status().leader, Some(id));
    assert_eq!(next.status().voters.voters.len(), 2);
    propose(&next, after, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_known_to_be_dead_is_replaced_at_once() {
    let mut nodes = Nodes::start(5, 0);
    let leader = nodes.leader().await;
    let id = leader.status().leader.unwrap();
    sleep(Duration::from_secs(2)).await;
    nodes.kill(id);
    let killed = Instant::now();
    for other in (1..=5).filter(|other| *other != id) {
        nodes.get(other).peer_down(id);
    }
    let next = nodes.leader().await;
    assert!(killed.elapsed() < Duration::from_millis(100), "{:?}", killed.elapsed());
    assert!(next.ms_since_contact(id).is_some());

    // No node is dead, although one was reported: the leader goes on.
    let (id, epoch) = (next.status().leader.unwrap(), next.leader_epoch());
    let follower = nodes.get((1..=5).find(|other| *other != id && nodes.tasks.contains_key(&key(*other))).unwrap());
    follower.peer_down(id);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(next.leader_epoch(), epoch);
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_the_leadership_over() {
    let nodes = Nodes::start(3, 0);
    let leader = nodes.leader().await;
    let id = leader.status().leader.unwrap();
    propose(&leader, -1, 0).await;
    sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    assert!(leader.transfer_leadership().await);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    let next = nodes.leader().await;
    assert_ne!(next.status().leader, Some(id));
    assert!(leader.transfer_leadership().await, "another leads already");

    let alone = Nodes::start(1, 0);
    assert!(!alone.leader().await.transfer_leadership().await);
}

#[tokio::test(start_paused = true)]
async fn a_new_disk_takes_the_place_of_the_old_one() {
    let mut nodes = Nodes::start(3, 0);
    let leader = nodes.leader().await;
    let id = leader.status().leader.unwrap();
    propose(&leader, -1, 0).await;
    let wiped = id % 3 + 1;
    nodes.kill(wiped);
    let new = VoterKey { node_id: wiped, directory_id: wire::Uuid([99; 16]) };
    nodes.add(new);
    leader.join(voter(new), false).await.unwrap();
    let mut status = leader.watch_status();
    let is_replaced = |status: &QuorumStatus| {
        status.voters.observers.is_empty() && status.voters.voters.len() == 3 && status.voters.voter(new).is_some()
    };
    timeout(Duration::from_secs(5), status.wait_for(is_replaced)).await.unwrap().unwrap();
    // A node with a living voter's node id does not replace it.
    let double = VoterKey { node_id: wiped, directory_id: wire::Uuid([98; 16]) };
    nodes.add(double);
    leader.join(voter(double), false).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    assert!(leader.status().voters.voter(new).is_some());
    assert!(leader.status().voters.observer(double).is_some());
}

/// Only a leader that most voters follow says what is committed.
#[tokio::test(start_paused = true)]
async fn a_leader_that_others_do_not_follow_confirms_nothing() {
    let mut nodes = Nodes::start(3, 0);
    let leader = nodes.leader().await;
    let id = leader.status().leader.unwrap();
    let after = propose(&leader, -1, 0).await;
    let confirmed = leader.confirm().await.unwrap();
    assert_eq!((confirmed.epoch, confirmed.high_watermark), (leader.leader_epoch().unwrap(), after + 1));
    let (others, questions) = ([id % 3 + 1, (id + 1) % 3 + 1], 100);
    assert!(matches!(nodes.get(others[0]).confirm().await, Err(QuorumError::NotLeader)));

    others.into_iter().for_each(|other| nodes.kill(other));
    assert!(leader.leader_epoch().is_some(), "it has not noticed");
    let answers = (0..questions).map(|_| {
        tokio::spawn({
            let leader = leader.clone();
            async move { leader.confirm().await }
        })
    });
    for answer in answers.collect::<Vec<_>>() {
        let answer = timeout(Duration::from_secs(5), answer).await.unwrap().unwrap();
        assert!(matches!(answer, Err(QuorumError::NotLeader)), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_no_member_sends_are_counted() {
    let nodes = Nodes::start(1, 0);
    let quorum = nodes.leader().await;
    let mut without_term = Message::default();
    without_term.set_msg_type(raft::eraftpb::MessageType::MsgHeartbeat);
    (without_term.from, without_term.to) = (key(2).raft_id(), key(1).raft_id());
    quorum.step(([127, 0, 0, 1], 9093).into(), vec![without_term.clone(), without_term]);
    let counted = async {
        while quorum.refused_messages() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), counted).await.expect("both are refused");
    quorum.settle().await.expect("it goes on");
    assert_eq!(quorum.refused_messages(), 2);
}
