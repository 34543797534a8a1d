//! The compacted topic of a whole cluster: who keeps it, and what the ledger of its keys needs to know of the nodes.

use std::sync::Arc;

use wire::batch::Batches;

use super::cluster::Cluster;
use super::committed_readers::visible;
use super::keepers::{find, keep, read_keys};
use super::key_ledger::{Found, KeyEvent};
use super::topics::{BALANCES, is_compacted};
use crate::partition::Partition;

/// Transactional ids of those who keep it.
const KEEPERS: usize = 2;
/// What is read at once when all has come to rest.
const READ_BYTES: u32 = 1000;

impl Cluster {
    /// Whether there is a compacted topic.
    pub(super) fn has_keys(&self) -> bool {
        self.topics.iter().any(|(topic, ..)| is_compacted(topic))
    }

    pub(super) fn start_keepers(&mut self) {
        self.world.lock().transacting += KEEPERS;
        let world = || Arc::clone(&self.world);
        self.clients.enter(|| {
            for number in 0..KEEPERS {
                tokio::spawn(keep(world(), number));
            }
            tokio::spawn(read_keys(world()));
        });
    }

    pub(super) fn observe_keys(&mut self, event: KeyEvent) {
        match event {
            KeyEvent::Sends { transaction, records } => self.keys.sends(transaction, records),
            KeyEvent::Reads { end_offset, found } => self.check_found("a consumer", end_offset, &found),
        }
    }

    fn check_found(&mut self, who: &str, end_offset: i64, found: &Found) {
        for number in found.values().filter_map(|(_, number)| *number) {
            self.transactions.reads(number, who);
        }
        let may_be_committed = |transaction| self.transactions.may_be_committed(transaction);
        self.keys.reads(who, end_offset, found, may_be_committed);
    }

    /// Checks what each replica has kept when all has come to rest.
    pub(super) fn check_keys(&mut self) {
        let nodes: Vec<_> = self.brokers().map(|(node, broker)| (node.id, broker)).collect();
        for (node, broker) in nodes {
            if let Ok(log) = broker.partitions.find_by_name(BALANCES, 0) {
                self.check_found(&format!("the log of {node}"), log.last_stable_offset(), &found_in(&log));
            }
        }
    }
}

/// What a consumer finds that reads a log from the beginning on.
fn found_in(log: &Partition) -> Found {
    let (view, end_offset) = (log.view(), log.last_stable_offset());
    let (mut found, mut offset) = (Found::new(), view.log_start_offset());
    while offset < end_offset {
        let read = view.committed_span(offset, end_offset, READ_BYTES).expect("what is stored is readable");
        let Some((span, aborted)) = read else { break };
        let bytes: bytes::Bytes = span.read_cached().expect("what is stored is readable").into();
        assert!(Batches::new(bytes.clone()).any(|batch| batch.is_ok()), "there is nothing at {offset}");
        let aborted = aborted.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect();
        find(&mut found, &visible(bytes, aborted, &mut offset));
    }
    found
}
