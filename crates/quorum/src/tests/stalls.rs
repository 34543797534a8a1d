//! Nodes in threads of their own, when the disk of one of them does not answer.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use platform::{Env, OpenFiles, WatchedDisk};
use storage::disk::OpenMode;
use tokio::time::timeout;

use super::handle::{Direct, Switchboard, key};
use super::*;

/// Longer than any of it should take: there is nothing else to wait for.
const PATIENCE: Duration = Duration::from_secs(20);

struct Threads {
    nodes: BTreeMap<i32, Quorum>,
    disks: BTreeMap<i32, (SimDisk, Arc<dyn Disk>)>,
    switchboard: Switchboard,
    threads: Vec<JoinHandle<Result<(), QuorumError>>>,
}

impl Threads {
    fn start(count: i32) -> Self {
        let set = VoterSet::new((1..=count).map(|id| voter(key(id))).collect());
        let mut started = Self {
            nodes: BTreeMap::new(),
            disks: BTreeMap::new(),
            switchboard: Switchboard::default(),
            threads: Vec::new(),
        };
        for id in 1..=count {
            let env = Env::real();
            let sim = SimDisk::new(id as u64);
            let watch = Arc::new(DiskWatch::new(Arc::clone(&env.clock), Duration::from_millis(300)));
            let open_files = Arc::new(OpenFiles::new(u64::MAX));
            let disk: Arc<dyn Disk> = Arc::new(WatchedDisk::new(Arc::new(sim.clone()), Arc::clone(&watch), open_files));
            let options = Options {
                disk: Arc::clone(&disk),
                clock: env.clock,
                random: env.random,
                node_id: id,
                directory_id: key(id).directory_id,
                disk_watch: watch,
                ..options(Arc::clone(&disk), Path::new(DIR), 2000)
            };
            Node::bootstrap(&*options.disk, &options.dir, &*options.clock, &set).unwrap();
            let transport = Direct { own: voter(key(id)), switchboard: Arc::clone(&started.switchboard) };
            let node = Node::open(&options, Journal::default(), Box::new(transport)).unwrap();
            let (quorum, thread) = Quorum::start(node).unwrap();
            started.switchboard.lock().insert(key(id), quorum.clone());
            started.nodes.insert(id, quorum);
            started.disks.insert(id, (sim, disk));
            started.threads.push(thread);
        }
        started
    }

    /// The node that leads, other than one.
    async fn leader(&self, other_than: i32) -> i32 {
        timeout(PATIENCE, async {
            loop {
                let leads = |(id, quorum): &(&i32, &Quorum)| **id != other_than && quorum.leader_epoch().is_some();
                if let Some((id, _)) = self.nodes.iter().find(leads) {
                    return *id;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("somebody leads")
    }

    async fn until_stalled(&self, id: i32) {
        timeout(PATIENCE, async {
            while !self.nodes[&id].is_disk_stalled() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("it is stalled");
    }

    /// Proposes the first entry there is.
    async fn propose(&self, id: i32) -> Result<i64, QuorumError> {
        let quorum = &self.nodes[&id];
        let epoch = quorum.leader_epoch().ok_or(QuorumError::NotLeader)?;
        timeout(PATIENCE, quorum.propose(epoch, -1, values(0, 1))).await.expect("it is answered")
    }

    fn stop(self) {
        self.disks.values().for_each(|(sim, _)| sim.set_hangs(false));
        self.switchboard.lock().clear();
        drop(self.nodes);
        for thread in self.threads {
            thread.join().unwrap().unwrap();
        }
    }
}

/// Another part of the process waits for the disk; the quorum has nothing to write, and its thread goes on.
#[tokio::test]
async fn a_leader_that_has_nothing_to_write_steps_down_when_its_disk_stalls() {
    let nodes = Threads::start(3);
    let first = nodes.leader(0).await;
    let (sim, disk) = nodes.disks[&first].clone();
    sim.set_hangs(true);
    let writer = thread::spawn(move || disk.open(Path::new("/data/other"), OpenMode::Create).is_ok());
    let next = nodes.leader(first).await;
    assert_eq!(nodes.nodes[&first].leader_epoch(), None);
    nodes.propose(next).await.unwrap();
    // It answers again, and follows.
    sim.set_hangs(false);
    assert!(writer.join().unwrap());
    let mut status = nodes.nodes[&first].watch_status();
    let follows = |status: &QuorumStatus| status.leader == Some(next) && status.high_watermark > 0;
    timeout(PATIENCE, status.wait_for(follows)).await.expect("it follows").unwrap();
    nodes.stop();
}

/// The quorum's own write is the first that does not return.
#[tokio::test]
async fn a_leader_that_waits_for_its_disk_is_replaced() {
    let nodes = Threads::start(3);
    let first = nodes.leader(0).await;
    nodes.disks[&first].0.set_hangs(true);
    let proposed = tokio::spawn({
        let quorum = nodes.nodes[&first].clone();
        async move { quorum.propose(quorum.leader_epoch().unwrap(), -1, values(0, 1)).await }
    });
    nodes.leader(first).await;
    nodes.until_stalled(first).await;
    nodes.disks[&first].0.set_hangs(false);
    let outcome = timeout(PATIENCE, proposed).await.expect("it is answered when the disk answers").unwrap();
    assert!(matches!(outcome, Ok(_) | Err(QuorumError::NotLeader)), "{outcome:?}");
    nodes.stop();
}

#[tokio::test]
async fn a_node_alone_waits_for_its_disk() {
    let nodes = Threads::start(1);
    let leader = nodes.leader(0).await;
    let epoch = nodes.nodes[&leader].leader_epoch();
    let (sim, disk) = nodes.disks[&leader].clone();
    sim.set_hangs(true);
    let writer = thread::spawn(move || disk.open(Path::new("/data/other"), OpenMode::Create).is_ok());
    nodes.until_stalled(leader).await;
    // It leads, and writes as soon as it can.
    assert_eq!(nodes.nodes[&leader].leader_epoch(), epoch);
    sim.set_hangs(false);
    writer.join().unwrap();
    nodes.propose(leader).await.unwrap();
    assert_eq!(nodes.nodes[&leader].leader_epoch(), epoch);
    nodes.stop();
}
