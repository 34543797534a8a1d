//! DescribeTopicPartitions (key 75), versions 0-0: topics and their partitions, in pages.
//!
//! Behaviour:
//! - Topics in the order of their names, each once; an empty list is all of them.
//! - A page has at most `response_partition_limit` partitions, at least one, and at most
//!   `max.request.partition.size.limit`. The cursor says where the next page begins.
//! - A cursor must name one of the topics asked for, unless all are; it may name one that is gone. Otherwise, or when
//!   its partition is negative, every topic is INVALID_REQUEST.
//! - Needs: DESCRIBE on each topic. All topics are without those that a client may not see; a name is
//!   TOPIC_AUTHORIZATION_FAILED, and comes first.
//! - A partition without a leader, or with one that the client cannot reach, has leader -1 and no error.
//! - A name that cannot be a topic's is INVALID_TOPIC_EXCEPTION for that topic (Kafka fails the request: -1).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use metadata::{MetadataImage, NO_LEADER, Partition, Topic, is_internal, validate_name};
use wire::ErrorCode;
use wire::api::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

use super::{Pace, RequestContext, nodes};
use crate::Broker;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let image = broker.metadata.load_full();
    let mut pace = Pace::default();
    let access = context.access(broker);
    let (mut asked, mut denied): (BTreeSet<&str>, BTreeSet<&str>) = Default::default();
    for topic in &request.topics {
        let name = topic.name.as_str();
        if !asked.contains(name) && !denied.contains(name) {
            let is_visible = access.topic(AclOperation::Describe, name);
            if is_visible { &mut asked } else { &mut denied }.insert(name);
        }
        pace.step(1).await;
    }
    let is_all = request.topics.is_empty();
    if let Some(cursor) = &request.cursor
        && (cursor.partition_index < 0 || !(is_all || asked.contains(cursor.topic_name.as_str())))
    {
        let refused = asked.into_iter().chain(denied);
        let topics = refused.map(|name| DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::INVALID_REQUEST,
            name: Some(name.to_owned()),
            ..Default::default()
        });
        return DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() };
    }
    let limit = request.response_partition_limit.min(broker.config().max_request_partition_size_limit).max(1);
    let start = request.cursor.as_ref().map_or("", |cursor| cursor.topic_name.as_str());
    let count = |name: &str| image.topic(name).map_or(0, |topic| topic.partitions.len());
    let (parts, next_cursor) = if is_all {
        let shown = |name: &&str| access.shows(AclOperation::Describe, ResourceType::Topic, name);
        let names = image.topics_from(start).map(|topic| &*topic.name).filter(shown);
        page(names, count, request.cursor.as_ref(), limit as usize)
    } else {
        page(asked.range(start..).copied(), count, request.cursor.as_ref(), limit as usize)
    };
    let mut topics: Vec<_> = denied.into_iter().map(denied_name).collect();
    for (name, partitions) in parts {
        pace.step(1 + partitions.len()).await;
        let described = match image.topic(name) {
            Some(topic) => describe(&image, &context.listener, topic, partitions),
            None => unknown(name),
        };
        let topic_authorized_operations = access.operations(ResourceType::Topic, name);
        topics.push(DescribeTopicPartitionsResponseTopic { topic_authorized_operations, ..described });
    }
    DescribeTopicPartitionsResponse { topics, next_cursor, ..Default::default() }
}

fn describe(
    image: &MetadataImage,
    listener: &str,
    topic: &Topic,
    partitions: Range<usize>,
) -> DescribeTopicPartitionsResponseTopic {
    let partition = |index| describe_partition(image, listener, index, &topic.partitions[index]);
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::NONE,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: partitions.map(partition).collect(),
        ..Default::default()
    }
}

fn describe_partition(
    image: &MetadataImage,
    listener: &str,
    index: usize,
    partition: &Partition,
) -> DescribeTopicPartitionsResponsePartition {
    let is_reachable = nodes::is_reachable(image, listener, partition.leader);
    DescribeTopicPartitionsResponsePartition {
        error_code: ErrorCode::NONE,
        partition_index: index as i32,
        leader_id: if is_reachable { partition.leader } else { NO_LEADER },
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: partition.isr.clone(),
        eligible_leader_replicas: Some(partition.eligible_leader_replicas.clone()),
        last_known_elr: Some(partition.last_known_elr.clone()),
        offline_replicas: nodes::offline_replicas(image, listener, partition),
    }
}

fn unknown(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: match validate_name(name) {
            Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
        },
        name: Some(name.to_owned()),
        is_internal: is_internal(name),
        ..Default::default()
    }
}

/// A topic that the client may not know of, whether it is there or not.
fn denied_name(name: &str) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

/// The partitions of each topic that fit in a page, and where the next page begins. A topic that does not exist has no
/// partitions and takes no room.
fn page<'a>(
    names: impl Iterator<Item = &'a str>,
    partition_count: impl Fn(&str) -> usize,
    cursor: Option<&Cursor>,
    limit: usize,
) -> (Vec<(&'a str, Range<usize>)>, Option<Cursor>) {
    let mut left = limit;
    let mut parts = Vec::new();
    for name in names {
        let from = match cursor {
            Some(cursor) if cursor.topic_name == name => cursor.partition_index.max(0) as usize,
            _ => 0,
        };
        let next = |partition: usize| Some(Cursor { topic_name: name.to_owned(), partition_index: partition as i32 });
        if left == 0 {
            return (parts, next(from));
        }
        let count = partition_count(name);
        let end = count.min(from.saturating_add(left));
        parts.push((name, from.min(end)..end));
        if end < count {
            return (parts, next(end));
        }
        left -= end - from.min(end);
    }
    (parts, None)
}

#[cfg(test)]
mod tests {
    use wire::Uuid;
    use wire::state::metadata::{PartitionRecord, RegisterBrokerRecord};

    use super::*;
    use crate::api::test_support::{TestBroker, context, endpoint, led_by, registration};

    /// `KRaftMetadataCache.getPartitionMetadataForDescribeTopicResponse` of Kafka 4.3.1.
    #[tokio::test]
    async fn a_leader_that_the_client_cannot_reach_is_none() {
        let broker = TestBroker::start().await;
        let elsewhere = RegisterBrokerRecord { end_points: vec![endpoint("OTHER", 2)], ..registration(2) };
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(3) };
        broker.commit([elsewhere.into(), fenced.into()]).await;
        let leaderless = PartitionRecord {
            isr: vec![],
            eligible_leader_replicas: Some(vec![3]),
            last_known_elr: Some(vec![1]),
            ..led_by(NO_LEADER, &[1, 3])
        };
        let partitions = [led_by(1, &[1, 2]), led_by(2, &[2, 1]), led_by(3, &[3, 1]), leaderless];
        broker.create("t", Uuid([7; 16]), &partitions).await;
        let request = DescribeTopicPartitionsRequest { response_partition_limit: 100, ..Default::default() };
        let response = handle(&broker, &context(0), request).await;
        let found = &response.topics[0].partitions;
        assert!(found.iter().all(|partition| partition.error_code == ErrorCode::NONE));
        let told: Vec<_> = found.iter().map(|p| (p.leader_id, &*p.replica_nodes, &*p.offline_replicas)).collect();
        assert_eq!(told, [(1, &[1, 2][..], &[2][..]), (-1, &[2, 1], &[2]), (3, &[3, 1], &[3]), (-1, &[1, 3], &[3])]);
        assert_eq!(found[3].eligible_leader_replicas, Some(vec![3]));
        assert_eq!(found[3].last_known_elr, Some(vec![1]));
    }

    type Paged = (Vec<(&'static str, Range<usize>)>, Option<(String, i32)>);

    /// Three topics of five partitions each, and one that is not there.
    fn paged(limit: usize, cursor: Option<(&str, i32)>) -> Paged {
        let count = |name: &str| if name == "nope" { 0 } else { 5 };
        let cursor = cursor.map(|(name, partition_index)| Cursor { topic_name: name.to_owned(), partition_index });
        let start = cursor.as_ref().map_or("", |cursor| cursor.topic_name.as_str()).to_owned();
        let names = ["m1", "m2", "m3", "nope"].into_iter().filter(move |name| **name >= *start);
        let (parts, next) = page(names, count, cursor.as_ref(), limit);
        (parts, next.map(|next| (next.topic_name, next.partition_index)))
    }

    /// As Kafka 4.3.1 answers.
    #[test]
    fn pages_end_where_the_limit_says() {
        let at = |name: &str, partition| Some((name.to_owned(), partition));
        assert_eq!(paged(1, None), (vec![("m1", 0..1)], at("m1", 1)));
        assert_eq!(paged(4, None), (vec![("m1", 0..4)], at("m1", 4)));
        assert_eq!(paged(5, None), (vec![("m1", 0..5)], at("m2", 0)));
        assert_eq!(paged(6, None), (vec![("m1", 0..5), ("m2", 0..1)], at("m2", 1)));
        assert_eq!(paged(15, None), (vec![("m1", 0..5), ("m2", 0..5), ("m3", 0..5)], at("nope", 0)));
        assert_eq!(paged(16, None), (vec![("m1", 0..5), ("m2", 0..5), ("m3", 0..5), ("nope", 0..0)], None));
    }

    #[test]
    fn a_cursor_goes_on_where_the_page_before_ended() {
        let at = |name: &str, partition| Some((name.to_owned(), partition));
        assert_eq!(paged(6, Some(("m2", 3))), (vec![("m2", 3..5), ("m3", 0..4)], at("m3", 4)));
        assert_eq!(paged(6, Some(("m2", 4))), (vec![("m2", 4..5), ("m3", 0..5)], at("nope", 0)));
        assert_eq!(paged(6, Some(("m2", 99))), (vec![("m2", 5..5), ("m3", 0..5), ("nope", 0..0)], None));
        assert_eq!(paged(6, Some(("m25", 4))), (vec![("m3", 0..5), ("nope", 0..0)], None));
    }
}
