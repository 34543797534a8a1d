//! Applies faults to a cluster, and ends them.

use std::path::{Path, PathBuf};

use metadata::Decided;
use quorum::METADATA_DIR;
use rustix::io::Errno;
use storage::simdisk::SimOp;
use storage::{Disk, SimDisk};
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};

use super::DATA_DIR;
use super::cluster::{Cluster, REPLICATION_FACTOR};
use super::faults::Fault;

/// What is free on a disk that is called full, at most: less than any reserve.
pub(super) const FREE_BYTES_MAX: u64 = 1000;
/// How long a disk takes its time at most when all nodes have started together.
const SLOW_START_MAX_MS: u64 = 4000;
/// How much later than the first a node starts at most.
const LATE_START_MAX_MS: u64 = 2000;

impl Cluster {
    /// Applies the next fault, or ends one.
    pub(super) fn apply_fault(&mut self) {
        self.is_rebuilding &= !self.is_healthy();
        let count = self.count();
        if self.is_rebuilding {
            // A node that was refused while others were unhealthy too is started again.
            for n in 0..count {
                if self.nodes[n].flipped.is_some() {
                    self.start(n);
                }
            }
            return;
        }
        let n = self.rng.below(count as u64) as usize;
        match self.faults.next(&mut self.rng) {
            Fault::EndOne if self.is_up(n) => {
                let loses_power = self.rng.percent(self.faults.power_loss_percent);
                self.end(n, loses_power);
            }
            Fault::EndAll => self.end_all(),
            Fault::StartAll => (0..count).for_each(|n| self.start(n)),
            Fault::StartOne | Fault::EndOne => self.start(n),
            Fault::Leave => {
                if let Some(running) = &self.nodes[n].running {
                    running.leave();
                }
            }
            Fault::LoseLog => self.lose_log(n),
            Fault::Wipe => self.wipe(n),
            Fault::FlipMetadataBit => self.flip_metadata_bit(n),
            Fault::Cut => {
                let side = self.rng.below(1 << count);
                self.log_event(format!("cut {side:b}"));
                self.sockets.split(count as i32, side);
            }
            Fault::CutOneWay => {
                let to = self.rng.below(count as u64) as i32;
                self.log_event(format!("cut from {n} to {to}"));
                self.sockets.cut(n as i32, to);
            }
            Fault::HealNetwork => {
                self.log_event("the network is whole".to_owned());
                self.sockets.heal();
            }
            Fault::LateBytes => self.sockets.set_late_percent([0, 2, 10][self.rng.below(3) as usize]),
            Fault::ResetConnection => self.sockets.reset_one(&mut self.rng),
            Fault::Stop if self.is_up(n) => {
                self.log_event(format!("{n} is stopped"));
                self.nodes[n].is_stopped = true;
            }
            Fault::Stop | Fault::GoOn => self.go_on(),
            Fault::SlowDisk => self.nodes[n].slow_until_ms = self.now_ms + 100 + self.rng.below(3000) as i64,
            Fault::HangingDisk => {
                let for_ms = 1000 + self.rng.below(6000) as i64;
                self.hang(n, for_ms);
            }
            Fault::FullDisk if self.nodes[n].is_full => self.free_disk(n),
            Fault::FullDisk => {
                let free_bytes = self.rng.below(FREE_BYTES_MAX);
                self.fill(n, free_bytes);
            }
            Fault::IoError if self.is_up(n) => {
                let ops = [SimOp::Write, SimOp::Sync, SimOp::SyncDir, SimOp::Rename, SimOp::Open];
                let op = ops[self.rng.below(ops.len() as u64) as usize];
                self.log_event(format!("{n} will fail at {op:?}"));
                self.nodes[n].disk.fail(op, self.rng.below(20), Errno::IO);
                self.nodes[n].is_failing = true;
            }
            Fault::IoError => {}
            Fault::WrongClock if self.nodes[n].serves() => {
                let days = self.rng.below(7) as i64 - 3;
                self.log_event(format!("the clock of {n} is {days} days wrong"));
                self.nodes[n].clock.set_wall_shift_ms(days * 86_400_000);
            }
            Fault::WrongClock => {}
            Fault::Reassign => self.reassign(),
        }
    }

    /// All end together, and may start together, on disks that have much to do then.
    fn end_all(&mut self) {
        let loses_power = self.rng.percent(self.faults.power_loss_percent);
        let restarts = self.rng.percent(self.faults.restart_percent);
        for n in 0..self.count() {
            self.end(n, loses_power);
        }
        for n in 0..if restarts { self.count() } else { 0 } {
            self.start(n);
            self.nodes[n].slow_until_ms = self.now_ms + self.rng.below(SLOW_START_MAX_MS) as i64;
        }
    }

    /// The disk of a node does not answer for a while.
    pub(super) fn hang(&mut self, n: usize, for_ms: i64) {
        self.log_event(format!("the disk of {n} hangs for {for_ms} ms"));
        self.nodes[n].hangs_until_ms = self.now_ms + for_ms;
    }

    /// No other node hears of a node, and it of none.
    pub(super) fn cut_off(&mut self, n: usize) {
        self.log_event(format!("{n} is cut off"));
        self.sockets.split(self.count() as i32, 1 << n);
    }

    /// Something else takes the space of a node's disk, but for so much.
    pub(super) fn fill(&mut self, n: usize, free_bytes: u64) {
        self.log_event(format!("the disk of {n} is full but for {free_bytes} bytes"));
        self.nodes[n].disk.set_free_bytes(free_bytes);
        self.nodes[n].is_full = true;
    }

    pub(super) fn free_disk(&mut self, n: usize) {
        self.log_event(format!("the disk of {n} has room"));
        self.nodes[n].disk.set_free_bytes(u64::MAX);
        self.nodes[n].is_full = false;
    }

    pub(super) fn go_on(&mut self) {
        self.log_event("all go on".to_owned());
        for node in &mut self.nodes {
            node.is_stopped = false;
        }
    }

    /// Gives a node a new and empty disk. What was on it is on others; a cluster whose leader may acknowledge alone
    /// does not survive more than one loss at a time.
    fn wipe(&mut self, n: usize) {
        if !self.is_healthy() || !self.sockets.is_whole() {
            return;
        }
        self.is_rebuilding = true;
        self.end(n, true);
        self.replace_disk(n);
        self.start(n);
    }

    pub(super) fn replace_disk(&mut self, n: usize) {
        self.log_event(format!("{n} has an empty disk"));
        let node = &mut self.nodes[n];
        node.disks += 1;
        node.disk = SimDisk::new(self.seed * 1000 + 100 * node.disks + n as u64);
        node.left.clear();
        node.flipped = None;
    }

    /// Takes a log away from a node that starts before others, which have all that was in it.
    fn lose_log(&mut self, n: usize) {
        if !self.is_healthy() || !self.sockets.is_whole() {
            return;
        }
        self.is_rebuilding = true;
        let (topic, partitions, _) = self.topics[self.rng.below(self.topics.len() as u64) as usize];
        let lost = format!("{topic}-{}", self.rng.below(partitions as u64));
        for other in 0..self.count() {
            self.end(other, false);
            let wait_ms = if other == n { 0 } else { self.rng.below(LATE_START_MAX_MS) };
            self.nodes[other].starts_at_ms = Some(self.now_ms + wait_ms as i64);
        }
        self.log_event(format!("{n} has no log of {lost}"));
        let (disk, dir) = (&self.nodes[n].disk, Path::new(DATA_DIR).join(lost));
        if disk.exists(&dir).expect("the disk works") {
            disk.remove_dir_all(&dir).expect("the disk works");
            disk.sync_dir(DATA_DIR.as_ref()).expect("the disk works");
        }
    }

    /// A bit of what a node has noted of the cluster and of itself goes wrong while it is down. It starts and has lost
    /// nothing, or says that it cannot; its operator gives it an empty disk then, as the others have everything.
    fn flip_metadata_bit(&mut self, n: usize) {
        if !self.is_healthy() || !self.sockets.is_whole() {
            return;
        }
        self.is_rebuilding = true;
        let loses_power = self.rng.percent(self.faults.power_loss_percent);
        self.end(n, loses_power);
        let is_metadata = |path: &PathBuf| {
            path.starts_with(Path::new(DATA_DIR).join(METADATA_DIR))
                || path.file_name().is_some_and(|name| name == "partition.metadata")
                || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("meta.properties"))
        };
        let node = &mut self.nodes[n];
        let paths: Vec<PathBuf> = node.disk.paths().into_iter().filter(is_metadata).collect();
        if !paths.is_empty() {
            let path = &paths[self.rng.below(paths.len() as u64) as usize];
            let size = node.disk.get(path).map_or(0, |bytes| bytes.len() as u64);
            // The end of a log counts most.
            let from_end = if self.rng.percent(50) { size.min(300) } else { size };
            let position = size - from_end + self.rng.below(from_end);
            if node.disk.flip_bit(path, position, self.rng.below(8) as u32) {
                node.flipped = Some(path.display().to_string());
                let text = format!("a bit of {} at {position} of {size} flips on {n}", path.display());
                self.log_event(text);
            }
        }
        self.start(n);
    }

    /// Moves a partition to other brokers.
    fn reassign(&mut self) {
        let mut replicas: Vec<i32> = (0..self.count() as i32).collect();
        while replicas.len() > REPLICATION_FACTOR as usize {
            let at = self.rng.below(replicas.len() as u64) as usize;
            replicas.remove(at);
        }
        let by = self.rng.below(3) as usize;
        replicas.rotate_left(by);
        let (topic, partitions, _) = self.topics[self.rng.below(self.topics.len() as u64) as usize];
        let partition = self.rng.below(partitions as u64) as i32;
        self.log_event(format!("{topic}-{partition} goes to {replicas:?}"));
        let partitions = vec![ReassignablePartition { partition_index: partition, replicas: Some(replicas) }];
        let topics = vec![ReassignableTopic { name: topic.to_owned(), partitions }];
        self.ask(AlterPartitionReassignmentsRequest { topics, ..Default::default() });
    }

    /// Has an administrator ask the controller, if there is one.
    pub(super) fn ask<R: Decided>(&self, request: R) {
        let Some(controller) = self.controller() else { return };
        let Some(running) = &self.nodes[controller].running else { return };
        let Some(broker) = running.broker() else { return };
        running.process.enter(|| {
            tokio::spawn(async move {
                // A refused request is sent again.
                _ = broker.controller.ask(request).await;
            })
        });
    }
}
