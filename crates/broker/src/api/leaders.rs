//! Where a leader is now, for a client that went to the wrong one (KIP-951).

use std::sync::Arc;

use metadata::{MetadataCache, MetadataImage};
use wire::{ErrorCode, Uuid};

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
    image: Option<Arc<MetadataImage>>,
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
        let image = self.image.get_or_insert_with(|| self.metadata.load_full());
        let topic = if topic.is_empty() { image.topic_by_id(id) } else { image.topic(topic) };
        let partition = topic?.partition(index)?;
        if !self.leaders.contains(&partition.leader) {
            self.leaders.push(partition.leader);
        }
        Some((partition.leader, partition.leader_epoch))
    }

    /// The leaders that were found, as far as the client can reach them.
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

#[cfg(test)]
mod tests {
    use metadata::{MetadataDelta, NO_LEADER};
    use wire::state::metadata::{BrokerEndpoint, MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};

    use super::*;

    const TOPIC_ID: Uuid = Uuid([7; 16]);
    const WRONG: ErrorCode = ErrorCode::NOT_LEADER_OR_FOLLOWER;

    /// Brokers 1 and 2, of which only 2 has a second listener, and a topic with these leaders.
    fn metadata(leaders: &[i32]) -> MetadataCache {
        let endpoint =
            |name: &str, port| BrokerEndpoint { name: name.into(), host: "h".into(), port, security_protocol: 0 };
        let broker = |broker_id, end_points| RegisterBrokerRecord {
            broker_id,
            end_points,
            rack: Some(format!("rack-{broker_id}")),
            ..RegisterBrokerRecord::default()
        };
        let mut records: Vec<MetadataRecord> = vec![
            broker(1, vec![endpoint("PLAINTEXT", 91)]).into(),
            broker(2, vec![endpoint("PLAINTEXT", 92), endpoint("OTHER", 82)]).into(),
            TopicRecord { name: "t".into(), topic_id: TOPIC_ID }.into(),
        ];
        records.extend((0..).zip(leaders).map(|(partition_id, &leader)| {
            let (topic_id, leader_epoch) = (TOPIC_ID, 10 + partition_id);
            PartitionRecord { partition_id, topic_id, leader, leader_epoch, ..PartitionRecord::default() }.into()
        }));
        let cache = MetadataCache::default();
        cache.publish(
            Arc::new(MetadataImage::default().apply(&records, 0, 1).unwrap().0),
            &MetadataDelta::default(),
            |_| (),
        );
        cache
    }

    fn nodes(hints: Hints<'_>) -> Vec<(i32, i32)> {
        hints.into_nodes().into_iter().map(|node| (node.id, node.port)).collect()
    }

    #[test]
    fn leaders_are_found_by_name_or_id_and_named_once() {
        let metadata = metadata(&[2, 2, 1, 2]);
        let mut hints = Hints::new(&metadata, "PLAINTEXT");
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 1), Some((2, 11)));
        assert_eq!(hints.find(ErrorCode::FENCED_LEADER_EPOCH, "", TOPIC_ID, 0), Some((2, 10)));
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 2), Some((1, 12)));
        let found = hints.into_nodes();
        let found: Vec<_> = found.iter().map(|node| (node.id, &*node.host, node.port, node.rack.as_deref())).collect();
        assert_eq!(found, [(2, "h", 92, Some("rack-2")), (1, "h", 91, Some("rack-1"))]);
    }

    #[test]
    fn other_errors_and_what_does_not_exist_have_no_leader() {
        let metadata = metadata(&[2]);
        let mut hints = Hints::new(&metadata, "PLAINTEXT");
        for error in [ErrorCode::NONE, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_LEADER_EPOCH] {
            assert_eq!(hints.find(error, "t", Uuid::ZERO, 0), None, "{error}");
        }
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 1), None);
        assert_eq!(hints.find(WRONG, "u", Uuid::ZERO, 0), None);
        assert_eq!(hints.find(WRONG, "", Uuid([8; 16]), 0), None);
        assert_eq!(nodes(hints), []);
    }

    #[test]
    fn a_client_is_not_told_of_a_node_that_it_cannot_reach() {
        let metadata = metadata(&[1, 2, NO_LEADER]);
        let mut hints = Hints::new(&metadata, "OTHER");
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 0), Some((1, 10)));
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 1), Some((2, 11)));
        assert_eq!(hints.find(WRONG, "t", Uuid::ZERO, 2), Some((NO_LEADER, 12)));
        assert_eq!(nodes(hints), [(2, 82)]);
    }
}
