//! Three logs that replicate each other by Kafka's protocol (KIP-101, KIP-279), on disks that lose power.
//!
//! Records count as acknowledged when all replicas have them on disk. Any replica may be elected at any time. No
//! acknowledged record is ever cut or lost, and in the end all logs are the same.

mod common;

use std::collections::BTreeMap;

use bytes::Bytes;
use common::*;
use storage::seeds::{run_seeds, seeds};
use storage::{FetchedError, Log, LogConfig, LogView, OpenOptions, Origin, SimDisk};
use wire::batch::BatchHeader;

const REPLICAS: usize = 3;

struct Replica {
    disk: SimDisk,
    log: Log,
    /// As its owner checkpointed it: now and then, not after a truncation.
    recovery_point: i64,
    /// What the leader of this epoch knows to be on its disk.
    acknowledged: i64,
}

struct Cluster {
    rng: Rng,
    config: LogConfig,
    replicas: Vec<Replica>,
    leader: usize,
    epoch: i32,
    /// All below is acknowledged.
    durable: i64,
    /// What is acknowledged, by base offset.
    promised: BTreeMap<i64, Bytes>,
    sequence: i32,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let config = LogConfig { segment_bytes: 5000, ..small_config() };
        let replica = |index| {
            let disk = SimDisk::new(seed * 10 + index);
            let (log, _) = open(&disk, &config, options(0, false));
            // As `Log::create` does.
            log.view().sync().unwrap();
            Replica { disk, log, recovery_point: 0, acknowledged: 0 }
        };
        let replicas = (0..REPLICAS as u64).map(replica).collect();
        let rng = Rng::new(seed);
        Self { rng, config, replicas, leader: 0, epoch: 0, durable: 0, promised: BTreeMap::new(), sequence: 0 }
    }

    fn step(&mut self) {
        let replica = self.rng.below(REPLICAS as u64) as usize;
        match self.rng.below(100) {
            0..25 => self.append(),
            25..70 => self.fetch(replica),
            70..85 => {
                self.replicas[replica].log.view().sync().unwrap();
            }
            85..90 => self.checkpoint(replica),
            90..94 => self.elect(replica),
            94..96 => self.restart(replica, false),
            _ => self.restart(replica, true),
        }
    }

    fn view(&self, replica: usize) -> std::sync::Arc<LogView> {
        self.replicas[replica].log.view()
    }

    fn append(&mut self) {
        let leader = &mut self.replicas[self.leader].log;
        let sequence = leader.producer(7).filter(|known| i32::from(known.producer_epoch) == self.sequence);
        let next = sequence.map_or(0, |known| known.last_sequence() + 1);
        let idempotent = batch(2, 100, &mut self.rng, at(0)).producer(7, self.sequence as i16, next).build();
        let mut batches = vec![idempotent];
        for _ in 0..self.rng.below(5) {
            let bytes = self.rng.below(400) as usize;
            batches.push(batch(1, bytes, &mut self.rng, at(0)).build());
        }
        let results = leader.append(&batches, Origin::Client, self.epoch, at(0)).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// One Fetch of a follower and what it does with the response.
    fn fetch(&mut self, follower: usize) {
        if follower == self.leader {
            return;
        }
        let (leader, view) = (self.view(self.leader), self.view(follower));
        let fetch_offset = view.log_end_offset();
        if let Some(last) = view.latest_epoch() {
            let end = leader.end_offset_for_epoch(last.epoch, leader.log_end_offset());
            if end.epoch < last.epoch || end.end_offset < fetch_offset {
                // `AbstractFetcherThread.getOffsetTruncationState`.
                let own = view.end_offset_for_epoch(end.epoch, fetch_offset);
                let offset = match own.epoch {
                    _ if end.epoch < 0 => 0,
                    epoch if epoch == end.epoch => own.end_offset.min(end.end_offset),
                    _ => own.end_offset.max(0),
                };
                return self.truncate(follower, offset);
            }
        }
        let acknowledged = view.synced_offset().min(fetch_offset);
        let replica = &mut self.replicas[follower];
        replica.acknowledged = replica.acknowledged.max(acknowledged);
        self.promise();
        let max_bytes = self.rng.below(3000) as u32;
        let mut bytes = leader.read(fetch_offset, leader.log_end_offset(), max_bytes).unwrap();
        if self.rng.percent(20) {
            bytes.truncate(self.rng.below(bytes.len() as u64 + 1) as usize);
        }
        let appended = self.replicas[follower].log.append_fetched(fetch_offset, &bytes, self.epoch, at(0));
        assert!(appended.is_ok(), "{appended:?}");
        let stale = self.replicas[follower].log.append_fetched(fetch_offset - 1, &bytes, self.epoch, at(0));
        assert!(matches!(stale, Err(FetchedError::Append(_))));
    }

    fn truncate(&mut self, replica: usize, offset: i64) {
        let end = self.replicas[replica].log.truncate_to(offset, at(0)).unwrap();
        assert!(end >= self.durable, "{replica} cut what is acknowledged: {end} of {}", self.durable);
    }

    /// Takes note of what is on all disks now.
    fn promise(&mut self) {
        let leader = self.view(self.leader);
        let followers = (0..REPLICAS).filter(|&replica| replica != self.leader);
        let durable = followers.map(|replica| self.replicas[replica].acknowledged).min().unwrap();
        let durable = durable.min(leader.synced_offset());
        for (header, bytes) in read_all(&leader, &mut self.rng).batches {
            if header.next_offset() <= durable {
                self.promised.insert(header.base_offset, bytes);
            }
        }
        self.durable = self.durable.max(durable);
    }

    fn checkpoint(&mut self, replica: usize) {
        let replica = &mut self.replicas[replica];
        if self.rng.percent(50) {
            replica.log.write_snapshot(false).unwrap();
        }
        replica.recovery_point = replica.log.view().synced_offset();
    }

    fn elect(&mut self, replica: usize) {
        (self.leader, self.epoch) = (replica, self.epoch + 1);
        self.sequence += i32::from(self.rng.percent(30));
        self.replicas[replica].log.assign_epoch(self.epoch).unwrap();
        self.replicas.iter_mut().for_each(|replica| replica.acknowledged = 0);
    }

    fn restart(&mut self, index: usize, power_is_lost: bool) {
        let replica = &mut self.replicas[index];
        if power_is_lost {
            replica.disk.crash();
        } else {
            replica.disk.kill();
        }
        let options = OpenOptions { recovery_point: replica.recovery_point, ..options(0, false) };
        let (log, report) = open(&replica.disk, &self.config, options);
        replica.log = log;
        // It was not on disk, so nobody was promised anything of it; the others have it.
        if let Some(bad) = report.bad_ranges.first() {
            self.truncate(index, bad.first_offset);
        }
        self.check(index);
        if index == self.leader {
            let replica = self.rng.below(REPLICAS as u64) as usize;
            self.elect(replica);
        }
    }

    /// The replica has all that is acknowledged, and knows the epochs of what it has.
    fn check(&mut self, replica: usize) {
        let view = self.view(replica);
        let content = read_all(&view, &mut self.rng);
        assert_eq!(content.corrupt, [], "{replica}");
        let there: BTreeMap<i64, &Bytes> =
            content.batches.iter().map(|(header, bytes)| (header.base_offset, bytes)).collect();
        for (base_offset, bytes) in &self.promised {
            assert_eq!(there.get(base_offset), Some(&bytes), "{replica} lost {base_offset} of {}", self.durable);
        }
        for (header, _) in &content.batches {
            assert_eq!(view.epoch_for_offset(header.base_offset), Some(header.partition_leader_epoch), "{replica}");
        }
    }

    /// All followers catch up, and have what the leader has.
    fn settle(&mut self) {
        for replica in 0..REPLICAS {
            let mut rounds = 0;
            while self.view(replica).log_end_offset() != self.view(self.leader).log_end_offset()
                || self.view(replica).latest_epoch() != self.view(self.leader).latest_epoch()
            {
                self.fetch(replica);
                rounds += 1;
                assert!(rounds < 1000, "{replica} does not catch up");
            }
            self.check(replica);
        }
        let batches = |replica: &Replica| read_all(&replica.log.view(), &mut Rng::new(1)).batches;
        let producers = |replica: &Replica| {
            let last = |state: &storage::ProducerState| (state.producer_epoch, state.last_batch().copied());
            replica.log.producer(7).map(last)
        };
        let expected: Vec<(BatchHeader, Bytes)> = batches(&self.replicas[self.leader]);
        for replica in &self.replicas {
            assert!(batches(replica) == expected);
            assert_eq!(producers(replica), producers(&self.replicas[self.leader]));
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_all_replicas_agree() {
    let promised = run_seeds(seeds(150), |seed| {
        let mut cluster = Cluster::new(seed);
        for _ in 0..250 {
            cluster.step();
        }
        // A leader without records of its epoch has nothing that would tell its followers of it.
        cluster.append();
        cluster.settle();
        cluster.promised.len()
    });
    assert!(promised.into_iter().sum::<usize>() > 0, "nothing was acknowledged");
}
