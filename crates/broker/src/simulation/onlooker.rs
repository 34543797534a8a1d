//! What an onlooker sees of a cluster: the logs of all nodes, what clients were told, what processes have witnessed.

use std::hash::Hash;
use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use platform::simulation::START_WALL_MS;

use super::clients::Heard;
use super::cluster::{Cluster, REPLICATION_FACTOR, partition_count};
use super::ledger::{PartitionKey, place};
use super::replica::bytes_of;

impl Cluster {
    /// What a client has been told is a promise.
    pub(super) fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Acknowledged { place, node, base_offset, values } => {
                let epoch = self.led_epoch(node, &place);
                let newest = self.ledger.partition(&place).map_or(0, |partition| partition.leader_epoch);
                (node, base_offset, values.len()).hash(&mut self.trace);
                self.ledger.acknowledges(&place, epoch.unwrap_or(newest), base_offset, &values);
            }
            // One that does not know that it leads no more knows nothing of what has been acknowledged since.
            Heard::Failed { place, node, sequence, code } => {
                let leads = self.ledger.partition(&place).is_some_and(|partition| partition.leader == node);
                assert!(!leads, "{place:?}: an error reaches the producer at sequence {sequence}: {code}");
            }
            Heard::Read { place, batch } => self.ledger.sees(&place, "a consumer", &batch),
            Heard::Committed { place, node, number } => {
                let known = self.ledger.partition(&(OFFSETS_TOPIC.into(), 0)).map_or(0, |p| p.leader_epoch);
                let own = self.world.lock().coordinator_epochs.get(&node).copied().unwrap_or(0);
                let key = ("readers".to_owned(), place.0.to_string(), place.1);
                // Of one consumer, a later number is a later record.
                self.ledger.commits(key, number, known.max(own), number as i64);
            }
            Heard::FetchedOffset { place, leader_epoch, number } => {
                let key = ("readers".to_owned(), place.0.to_string(), place.1);
                self.ledger.fetches_offset(&key, leader_epoch, number);
            }
        }
    }

    /// The epoch in which a node leads a partition, as far as it knows. What it has acknowledged was appended in this
    /// epoch or an older one, and a leader that was replaced before the acknowledgement need not have it.
    fn led_epoch(&self, node: i32, place: &PartitionKey) -> Option<i32> {
        let log = self.nodes[node as usize].broker()?.partitions.find_by_name(&place.0, place.1).ok()?;
        log.is_leader().then(|| log.leader_epoch())
    }

    /// Looks at the logs of all nodes, as everybody may see them.
    pub(super) fn show(&mut self) {
        let image = Arc::clone(&self.ledger.newest);
        let brokers: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.id, node.running.as_ref()?.start, node.broker()?)))
            .collect();
        for (id, start, broker) in brokers {
            let incarnation_id = broker.peers.own().incarnation_id;
            let is_known = image.broker(id).is_some_and(|known| known.incarnation_id == incarnation_id);
            for partition in broker.partitions.all() {
                self.ledger.begins(id, &partition, START_WALL_MS + self.now_ms);
                if !is_known || partition.is_offline() {
                    continue;
                }
                let Some(state) = self.ledger.partition(&place(&partition)).cloned() else { continue };
                let is_newest = state.leader_epoch == partition.leader_epoch();
                if is_newest && partition.is_leader() {
                    self.ledger.looks_at_leader((id, start), &partition);
                } else if is_newest && state.isr.contains(&id) && partition.followed_leader() == Some(state.leader) {
                    self.ledger.looks_at((id, start), &partition, partition.high_watermark());
                }
            }
        }
    }

    /// The newest leader promises nothing that an in-sync replica does not have.
    pub(super) fn check_watermarks(&self) {
        let image = &self.ledger.newest;
        // What a process had that has ended since, the next one of that node may not have; nobody knows of it yet.
        let log = |id: i32, place: &PartitionKey| {
            let broker = self.nodes[id as usize].broker()?;
            let incarnation_id = broker.peers.own().incarnation_id;
            let is_known = image.broker(id).is_some_and(|known| known.incarnation_id == incarnation_id);
            broker.partitions.find_by_name(&place.0, place.1).ok().filter(|_| is_known)
        };
        for leader in self.led() {
            let place = place(&leader);
            let Some(state) = self.ledger.partition(&place) else { continue };
            if leader.leader_epoch() != state.leader_epoch {
                continue;
            }
            let (high_watermark, durable_offset) = (leader.high_watermark(), leader.durable_offset());
            for (id, log) in state.isr.iter().filter_map(|id| Some((id, log(*id, &place)?))) {
                let (end, synced) = (log.view().log_end_offset(), log.view().synced_offset());
                assert!(high_watermark <= end, "{place:?}: {id} ends at {end}, the high watermark is {high_watermark}");
                assert!(durable_offset <= synced, "{place:?}: {id} has synced {synced} of {durable_offset}");
            }
        }
    }

    pub(super) fn check(&mut self) {
        let led = self.led();
        assert_eq!(led.len(), partition_count(), "every partition has one leader");
        for leader in led {
            let place = place(&leader);
            let node = self.ledger.partition(&place).map_or(-1, |partition| partition.leader);
            self.ledger.checks(node, &leader);
            if &*place.0 != OFFSETS_TOPIC {
                self.ledger.check_once(&leader);
            }
            let logs: Vec<_> = self.logs(&place).collect();
            assert_eq!(logs.len(), REPLICATION_FACTOR as usize, "{place:?}");
            let start = logs.iter().map(|log| log.log_start_offset()).max().unwrap_or(0);
            if logs.iter().all(|log| log.log_start_offset() == start) {
                let bytes = bytes_of(&leader);
                assert!(logs.iter().all(|log| bytes_of(log) == bytes), "{place:?}: the replicas differ");
            }
        }
    }
}
