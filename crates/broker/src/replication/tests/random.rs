//! Random lives of a cluster: nodes that lose power and come back, leaders that change, answers that are lost.

use log::simdisk::Rng;
use wire::api::alter_partition::AlterPartitionResponse;
use wire::api::fetch::FetchResponse;

use super::cluster::Cluster;
use crate::partition::Acks;
use crate::replication::isr::Round;

const STEPS: usize = 400;

struct Life {
    cluster: Cluster,
    rng: Rng,
    nodes: i32,
    /// Answers of the controller that are under way.
    altering: Vec<(i32, Round, AlterPartitionResponse)>,
    /// Answers of leaders, by follower and leader.
    fetching: Vec<(i32, i32, FetchResponse)>,
}

impl Life {
    fn step(&mut self) {
        let id = 1 + self.rng.below(self.nodes as u64) as i32;
        self.cluster.pass(self.rng.below(40) as i64);
        match self.rng.below(100) {
            0..25 => {
                let acks = if self.rng.percent(80) { Acks::All } else { Acks::Leader };
                // Mostly the right one, but clients may have old metadata.
                let leader = self.cluster.state().leader;
                let to = if self.rng.percent(80) { leader } else { id };
                self.cluster.produce(to, acks);
            }
            25..55 => self.fetch(id),
            55..70 => self.cluster.sync(id),
            70..80 => _ = self.cluster.apply_next(id),
            80..86 => self.alter(id),
            86..89 => {
                if let Some(node) = self.cluster.nodes.get(&id) {
                    node.table.shrink_isrs();
                }
            }
            89..91 => {
                if let Some(node) = self.cluster.nodes.get(&id) {
                    node.table.write_checkpoints().expect("the disk works");
                    node.flush_in_background();
                }
                self.cluster.take_answers();
            }
            91..93 => {
                let isr = self.cluster.state().isr;
                let leader = isr[self.rng.below(isr.len() as u64) as usize];
                if self.cluster.nodes.contains_key(&leader) {
                    self.cluster.elect(leader);
                }
            }
            93..96 => self.crash_or_start(id),
            96..98 => self.cluster.pass(500),
            _ => self.cluster.apply_all(id),
        }
        self.cluster.check_watermarks();
    }

    /// Delivers an answer of before, or asks and delivers at once or later; some are lost.
    fn fetch(&mut self, id: i32) {
        let waiting = self.fetching.iter().position(|(of, ..)| *of == id);
        let (leader, answer) = match waiting.map(|place| self.fetching.remove(place)) {
            Some((_, leader, answer)) => (leader, Some(answer)),
            None => {
                let Some((leader, request)) = self.cluster.fetch_request(id) else { return };
                let answer = self.cluster.nodes.get(&leader).map(|node| node.answer(&request));
                match answer {
                    Some(answer) if self.rng.percent(40) => return self.fetching.push((id, leader, answer)),
                    answer => (leader, answer),
                }
            }
        };
        match answer {
            Some(answer) if self.rng.percent(93) => self.cluster.take_response(id, leader, answer),
            _ => self.cluster.disconnect(id, leader),
        }
        self.cluster.take_answers();
    }

    /// Asks the controller, delivers an answer of before, or loses one.
    fn alter(&mut self, id: i32) {
        if let Some(place) = self.altering.iter().position(|(of, ..)| *of == id) {
            let (_, round, answer) = self.altering.remove(place);
            let is_lost = self.rng.percent(20);
            let answer = if is_lost { Err(wire::ErrorCode::REQUEST_TIMED_OUT) } else { Ok(answer) };
            self.cluster.settle_isr(id, round, answer);
        } else if let Some((round, request)) = self.cluster.isr_request(id) {
            let answer = self.cluster.alter(&request);
            self.altering.push((id, round, answer));
        }
    }

    fn crash_or_start(&mut self, id: i32) {
        if !self.cluster.nodes.contains_key(&id) {
            let behind = self.rng.below(4) as usize;
            return self.cluster.start_behind(id, behind);
        }
        if self.rng.percent(50) {
            let power_loss = self.rng.percent(70);
            self.altering.retain(|(of, ..)| *of != id);
            self.fetching.retain(|(of, ..)| *of != id);
            self.cluster.crash(id, power_loss);
        }
    }
}

/// Lives one life to a good end. Returns what happened.
fn live(seed: u64, settings: &[(&str, &str)]) -> Vec<String> {
    let mut rng = Rng::new(seed);
    let nodes = 2 + rng.below(2) as i32;
    let cluster = Cluster::new(seed, nodes, settings);
    let mut life = Life { cluster, rng, nodes, altering: Vec::new(), fetching: Vec::new() };
    for _ in 0..STEPS {
        life.step();
    }
    for id in 1..=nodes {
        if !life.cluster.nodes.contains_key(&id) {
            life.cluster.start(id);
        }
    }
    for (id, leader, answer) in life.fetching.drain(..) {
        life.cluster.take_response(id, leader, answer);
    }
    life.cluster.settle();
    // The last leader's epoch needs a record of its own to be replicated before all know where they are.
    let leader = life.cluster.state().leader;
    life.cluster.produce(leader, Acks::All);
    life.cluster.settle();
    life.cluster.check_watermarks();
    life.cluster.check_healed();
    assert!(!life.cluster.acked.is_empty());
    life.cluster.trace
}

#[test]
fn what_is_acknowledged_survives_and_replicas_become_the_same() {
    for seed in 0..100 {
        live(seed, &[("min.insync.replicas", if seed % 2 == 0 { "1" } else { "2" })]);
    }
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in 1000..1010 {
        let first = live(seed, &[]);
        assert_eq!(first, live(seed, &[]));
    }
}
