//! A network between machines: it delays, loses, repeats and reorders, and parts of it can be cut, one way or both.

use std::collections::BTreeSet;

use storage::simdisk::Rng;

/// How long a message takes at most, and how long a delayed one.
const DELAY_MAX_MS: u64 = 30;
const LATE_MAX_MS: u64 = 800;

struct Packet<T> {
    at_ms: i64,
    from: i32,
    to: i32,
    message: T,
}

pub struct Network<T> {
    packets: Vec<Packet<T>>,
    /// Which messages may come twice.
    may_repeat: fn(&T) -> bool,
    /// Of each hundred messages, how many are lost. Half as many come twice, and as many are late.
    pub loss_percent: u64,
    /// Nothing that `.0` sends reaches `.1`.
    cuts: BTreeSet<(i32, i32)>,
}

impl<T: Clone> Network<T> {
    pub fn new(may_repeat: fn(&T) -> bool) -> Self {
        Self { packets: Vec::new(), may_repeat, loss_percent: 0, cuts: BTreeSet::new() }
    }

    /// Takes a message. False if it is lost at once.
    pub fn send(&mut self, rng: &mut Rng, now_ms: i64, from: i32, to: i32, message: T) -> bool {
        if from == to {
            self.packets.push(Packet { at_ms: now_ms, from, to, message });
            return true;
        }
        if self.is_cut(from, to) || rng.percent(self.loss_percent) {
            return false;
        }
        let repeats = (self.may_repeat)(&message) && rng.percent(self.loss_percent / 2);
        for _ in 0..if repeats { 2 } else { 1 } {
            let longest_ms = if rng.percent(self.loss_percent / 2) { LATE_MAX_MS } else { DELAY_MAX_MS };
            let at_ms = now_ms + 1 + rng.below(longest_ms) as i64;
            self.packets.push(Packet { at_ms, from, to, message: message.clone() });
        }
        true
    }

    /// What arrives by now, as sender, receiver and message. What is still under way when a way is cut is lost.
    pub fn receive(&mut self, now_ms: i64) -> Vec<(i32, i32, T)> {
        let mut due: Vec<Packet<T>> = self.packets.extract_if(.., |packet| packet.at_ms <= now_ms).collect();
        due.sort_by_key(|packet| packet.at_ms);
        due.retain(|packet| !self.is_cut(packet.from, packet.to));
        due.into_iter().map(|packet| (packet.from, packet.to, packet.message)).collect()
    }

    pub fn is_cut(&self, from: i32, to: i32) -> bool {
        self.cuts.contains(&(from, to))
    }

    pub fn cut(&mut self, from: i32, to: i32) {
        self.cuts.insert((from, to));
    }

    /// Cuts it in two: those whose bit is set in `side` from the others.
    pub fn split(&mut self, nodes: &[i32], side: u64) {
        let is_there = |index: usize| side >> index & 1 == 1;
        self.cuts.clear();
        for (from_index, from) in nodes.iter().enumerate() {
            for (to_index, to) in nodes.iter().enumerate() {
                if is_there(from_index) != is_there(to_index) {
                    self.cuts.insert((*from, *to));
                }
            }
        }
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
    }
}
