//! What members of a classic group tell each other through the coordinator, and the range assignor (`RangeAssignor`).

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::state::consumer_protocol as protocol;
use wire::state::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};

use crate::TopicPartition;

/// What a member that wants these topics tells the leader.
pub(crate) fn subscription(topics: &[String], generation_id: i32) -> Bytes {
    ConsumerProtocolSubscription { topics: topics.to_vec(), generation_id, ..Default::default() }.to_bytes()
}

/// The topics that a member wants. One whose words cannot be read gets nothing.
pub(crate) fn subscribed(subscription: &Bytes) -> Vec<String> {
    ConsumerProtocolSubscription::from_bytes(subscription).map_or_else(|_| Vec::new(), |it| it.topics)
}

/// What the leader gives a member.
pub(crate) fn assignment(partitions: &[TopicPartition]) -> Bytes {
    let mut topics = BTreeMap::<&str, Vec<i32>>::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    let topic = |(topic, partitions): (&str, _)| protocol::TopicPartition { topic: topic.to_owned(), partitions };
    let assigned_partitions = topics.into_iter().map(topic).collect();
    ConsumerProtocolAssignment { assigned_partitions, user_data: None }.to_bytes()
}

/// The partitions of a consumer's assignment, sorted. `None` when it is that of another protocol.
pub fn assigned_partitions(assignment: &Bytes) -> Option<Vec<TopicPartition>> {
    // A member without an assignment has no bytes at all.
    if assignment.is_empty() {
        return Some(Vec::new());
    }
    let topics = ConsumerProtocolAssignment::from_bytes(assignment).ok()?.assigned_partitions;
    let partitions = |topic: protocol::TopicPartition| {
        topic.partitions.into_iter().map(move |partition| TopicPartition::new(topic.topic.clone(), partition))
    };
    let mut partitions: Vec<_> = topics.into_iter().flat_map(partitions).collect();
    partitions.sort();
    Some(partitions)
}

/// Gives each topic's partitions to the members that want it: ranges of equal length in the order of the member ids,
/// the first ones longer by one where it does not come out even.
///
/// `members` are ids with the topics they want, `counts` the number of partitions of each topic.
pub(crate) fn assign_ranges(
    members: &[(String, Vec<String>)],
    counts: &BTreeMap<String, usize>,
) -> BTreeMap<String, Vec<TopicPartition>> {
    let mut assignments: BTreeMap<_, _> = members.iter().map(|(id, _)| (id.clone(), Vec::new())).collect();
    for (topic, count) in counts {
        let wants = |(id, topics): &(String, Vec<String>)| topics.contains(topic).then(|| id.clone());
        let mut takers: Vec<_> = members.iter().filter_map(wants).collect();
        takers.sort();
        takers.dedup();
        let mut next = 0;
        for (i, taker) in takers.iter().enumerate() {
            let length = count / takers.len() + usize::from(i < count % takers.len());
            let range = (next..next + length).map(|p| TopicPartition::new(topic.clone(), p as i32));
            assignments.entry(taker.clone()).or_default().extend(range);
            next += length;
        }
    }
    assignments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, topics: &[&str]) -> (String, Vec<String>) {
        (id.to_owned(), topics.iter().map(|topic| (*topic).to_owned()).collect())
    }

    /// The example in the documentation of Kafka's RangeAssignor: two members, two topics of three partitions.
    #[test]
    fn ranges_are_kafkas() {
        let counts = BTreeMap::from([("t0".to_owned(), 3), ("t1".to_owned(), 3)]);
        let assignments = assign_ranges(&[member("C1", &["t0", "t1"]), member("C0", &["t0", "t1"])], &counts);
        let names = |id: &str| assignments[id].iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(names("C0"), "t0-0 t0-1 t1-0 t1-1");
        assert_eq!(names("C1"), "t0-2 t1-2");
    }

    #[test]
    fn who_does_not_want_a_topic_gets_none_of_it() {
        let counts = BTreeMap::from([("t0".to_owned(), 2), ("t1".to_owned(), 1)]);
        let assignments = assign_ranges(&[member("a", &["t0"]), member("b", &["t0", "t1"]), member("c", &[])], &counts);
        assert_eq!(assignments["a"], [TopicPartition::new("t0", 0)]);
        assert_eq!(assignments["b"], [TopicPartition::new("t0", 1), TopicPartition::new("t1", 0)]);
        assert_eq!(assignments["c"], []);
    }

    #[test]
    fn an_assignment_comes_back_sorted() {
        let partitions = [TopicPartition::new("b", 1), TopicPartition::new("a", 2), TopicPartition::new("a", 0)];
        let names = |partitions: Vec<TopicPartition>| partitions.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            assigned_partitions(&assignment(&partitions)).map(names),
            Some(vec!["a-0".into(), "a-2".into(), "b-1".into()])
        );
        assert_eq!(assigned_partitions(&Bytes::new()), Some(Vec::new()));
        assert_eq!(assigned_partitions(&Bytes::from_static(b"\0\x01whatever")), None);
    }

    #[test]
    fn a_subscription_comes_back() {
        let topics = ["t".to_owned(), "u".to_owned()];
        assert_eq!(subscribed(&subscription(&topics, 7)), topics);
        assert_eq!(subscribed(&Bytes::from_static(b"junk")), Vec::<String>::new());
    }
}
