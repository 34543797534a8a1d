//! Where a leader is now, for a client that went to the wrong one (KIP-951).

use arc_swap::Guard;
use std::sync::Arc;

use wire::{ErrorCode, Uuid};

use crate::meta::{MetadataCache, MetadataImage};

/// A broker as a client reaches it.
pub(super) struct Node {
    pub(super) id: i32,
    pub(super) host: String,
    pub(super) port: i32,
    pub(super) rack: Option<String>,
}

/// The hints of one answer: leaders are looked up as errors want them, and named once.
pub(super) struct Hints<'a> {
    metadata: &'a MetadataCache,
    image: Option<Guard<Arc<MetadataImage>>>,
    listener: &'a str,
    leaders: Vec<i32>,
}

impl<'a> Hints<'a> {
    pub(super) fn new(metadata: &'a MetadataCache, listener: &'a str) -> Self {
        Self { metadata, image: None, listener, leaders: Vec::new() }
    }

    /// The leader of a partition and its epoch, if the error is one of a wrong leader and there is one. The topic is
    /// named by name, or by id where that is empty.
    pub(super) fn find(&mut self, error: ErrorCode, topic: &str, id: Uuid, index: i32) -> Option<(i32, i32)> {
        if error != ErrorCode::NOT_LEADER_OR_FOLLOWER && error != ErrorCode::FENCED_LEADER_EPOCH {
            return None;
        }
        let image = self.image.get_or_insert_with(|| self.metadata.load());
        let topic = if topic.is_empty() { image.topic_by_id(id) } else { image.topic(topic) };
        let partition = topic?.partition(index)?;
        let reachable = image.broker(partition.leader).and_then(|broker| broker.endpoint(self.listener));
        if reachable.is_some() && !self.leaders.contains(&partition.leader) {
            self.leaders.push(partition.leader);
        }
        Some((partition.leader, partition.leader_epoch))
    }

    /// The brokers that were named.
    pub(super) fn into_nodes(self) -> Vec<Node> {
        let Some(image) = self.image else { return Vec::new() };
        let node = |id| {
            let broker = image.broker(id)?;
            let endpoint = broker.endpoint(self.listener)?;
            let (host, port) = (endpoint.host.clone(), i32::from(endpoint.port));
            Some(Node { id, host, port, rack: broker.rack.clone() })
        };
        self.leaders.into_iter().filter_map(node).collect()
    }
}
