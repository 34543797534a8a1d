//! Checks of a whole cluster: the logs of all nodes, the answers that clients got, the events of processes.

use std::hash::Hash;
use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use platform::simulation::START_WALL_MS;

use super::clients::ClientEvent;
use super::cluster::{Cluster, REPLICATION_FACTOR};
use super::ledger::{TopicPartition, topic_partition};
use super::replica::bytes_of;
use super::topics::{is_compacted, is_internal};

impl Cluster {
    /// An answer to a client is a promise.
    pub(super) fn observe(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Acknowledged { topic_partition, node, base_offset, values } => {
                let epoch = self.led_epoch(node, &topic_partition);
                let newest = self.ledger.partition(&topic_partition).map_or(0, |partition| partition.leader_epoch);
                (node, base_offset, values.len()).hash(&mut self.trace);
                if is_compacted(&topic_partition.0) {
                    self.keys.acknowledges(base_offset, &values);
                }
                self.ledger.acknowledges(&topic_partition, epoch.unwrap_or(newest), base_offset, &values);
            }
            // A node that does not know that it leads no more knows nothing of what has been acknowledged since.
            ClientEvent::Failed { topic_partition, node, sequence, code } => {
                let leads = self.ledger.partition(&topic_partition).is_some_and(|partition| partition.leader == node);
                assert!(!leads, "{topic_partition:?}: an error reaches the producer at sequence {sequence}: {code}");
            }
            ClientEvent::Read { topic_partition, batch } => self.ledger.sees(&topic_partition, "a consumer", &batch),
            ClientEvent::Committed { topic_partition, node, number } => {
                let known = self.ledger.partition(&(OFFSETS_TOPIC.into(), 0)).map_or(0, |p| p.leader_epoch);
                let own = self.world.lock().coordinator_epochs.get(&node).copied().unwrap_or(0);
                let key = ("readers".to_owned(), topic_partition.0.to_string(), topic_partition.1);
                // Of one consumer, a later number is a later record.
                self.ledger.commits(key, number, known.max(own), number as i64);
            }
            ClientEvent::Transaction(event) => self.observe_transaction(event),
            ClientEvent::Group(event) => self.observe_group(event),
            ClientEvent::Keys(event) => self.observe_keys(event),
            ClientEvent::FetchedOffset { topic_partition, leader_epoch, number } => {
                let key = ("readers".to_owned(), topic_partition.0.to_string(), topic_partition.1);
                self.ledger.fetches_offset(&key, leader_epoch, number);
            }
        }
    }

    /// The epoch in which a node leads a partition, as far as it knows. What it has acknowledged was appended in this
    /// epoch or an older one, and a leader that was replaced before the acknowledgement need not have it.
    fn led_epoch(&self, node: i32, topic_partition: &TopicPartition) -> Option<i32> {
        let log =
            self.nodes[node as usize].broker()?.partitions.find_by_name(&topic_partition.0, topic_partition.1).ok()?;
        log.is_leader().then(|| log.leader_epoch())
    }

    /// Looks at the visible part of the logs of all nodes.
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
                let Some(state) = self.ledger.partition(&topic_partition(&partition)).cloned() else { continue };
                let is_newest = state.leader_epoch == partition.leader_epoch();
                if is_newest && partition.is_leader() {
                    self.ledger.looks_at_leader((id, start), &partition);
                    if self.has_transactions() && !is_compacted(&partition.topic) {
                        self.transactions.walk(&partition);
                        if self.has_copiers() && &*partition.topic == OFFSETS_TOPIC {
                            self.groups.walk(&partition);
                        }
                        self.transactions.check_log((id, start), &partition);
                    }
                } else if is_newest && state.isr.contains(&id) && partition.followed_leader() == Some(state.leader) {
                    self.ledger.looks_at((id, start), &partition, partition.high_watermark());
                    if self.has_transactions() && !is_compacted(&partition.topic) {
                        self.transactions.check_log((id, start), &partition);
                    }
                }
            }
        }
    }

    /// The newest leader promises nothing that an in-sync replica does not have.
    pub(super) fn check_watermarks(&self) {
        let image = &self.ledger.newest;
        // The next process of a node may not have what an ended one had; the metadata does not have it yet.
        let log = |id: i32, topic_partition: &TopicPartition| {
            let broker = self.nodes[id as usize].broker()?;
            let incarnation_id = broker.peers.own().incarnation_id;
            let is_known = image.broker(id).is_some_and(|known| known.incarnation_id == incarnation_id);
            broker.partitions.find_by_name(&topic_partition.0, topic_partition.1).ok().filter(|_| is_known)
        };
        for leader in self.led() {
            let topic_partition = topic_partition(&leader);
            let Some(state) = self.ledger.partition(&topic_partition) else { continue };
            if leader.leader_epoch() != state.leader_epoch {
                continue;
            }
            let (high_watermark, durable_offset) = (leader.high_watermark(), leader.durable_offset());
            for (id, log) in state.isr.iter().filter_map(|id| Some((id, log(*id, &topic_partition)?))) {
                let (end, durable) = (log.view().log_end_offset(), log.view().durable_offset());
                assert!(
                    high_watermark <= end,
                    "{topic_partition:?}: {id} ends at {end}, the high watermark is {high_watermark}"
                );
                assert!(
                    durable_offset <= durable,
                    "{topic_partition:?}: {id} has {durable} of {durable_offset} on disk"
                );
            }
        }
    }

    pub(super) fn check(&mut self) {
        let led = self.led();
        assert_eq!(led.len(), self.partition_count(), "every partition has one leader");
        for leader in led {
            let topic_partition = topic_partition(&leader);
            let is_compacted = is_compacted(&topic_partition.0);
            let node = self.ledger.partition(&topic_partition).map_or(-1, |partition| partition.leader);
            self.ledger.checks(node, &leader);
            if !is_internal(&topic_partition.0) && !is_compacted {
                self.ledger.check_once(&leader);
            }
            let logs: Vec<_> = self.logs(&topic_partition).collect();
            assert_eq!(logs.len(), REPLICATION_FACTOR as usize, "{topic_partition:?}");
            let start = logs.iter().map(|log| log.log_start_offset()).max().unwrap_or(0);
            if !is_compacted && logs.iter().all(|log| log.log_start_offset() == start) {
                let bytes = bytes_of(&leader);
                assert!(logs.iter().all(|log| bytes_of(log) == bytes), "{topic_partition:?}: the replicas differ");
            }
        }
        if self.has_transactions() {
            self.check_transactions();
        }
        if self.has_copiers() {
            self.check_groups();
        }
        if self.has_keys() {
            self.check_keys();
        }
    }
}
