//! What members of a classic group tell each other through the coordinator, which does not look inside: subscriptions,
//! assignments, and the range assignor (`ConsumerProtocolSubscription.json`, `RangeAssignor`).

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use wire::{Reader, Wire, WireError, Writer};

use crate::TopicPartition;

wire::message! {
    pub struct Subscription {
        topics: Vec<String>, 0..;
        user_data: Option<Bytes>, 0..;
        owned_partitions: Vec<TopicPartitions>, 1..;
        generation_id: i32 = -1, 2..;
        rack_id: Option<String>, 3..;
    }

    pub struct Assignment {
        assigned_partitions: Vec<TopicPartitions>, 0..;
        user_data: Option<Bytes>, 0..;
    }

    pub struct TopicPartitions {
        topic: String, 0..;
        partitions: Vec<i32>, 0..;
    }
}

impl Subscription {
    /// The newest version; a later one is read as far as it is the same.
    const VERSION: i16 = 3;

    pub fn encode(&self) -> Bytes {
        encode(self, Self::VERSION)
    }

    pub fn decode(bytes: &Bytes) -> Result<Self, WireError> {
        decode(bytes, Self::VERSION)
    }
}

impl Assignment {
    const VERSION: i16 = 3;

    pub fn encode(&self) -> Bytes {
        encode(self, Self::VERSION)
    }

    /// A member without an assignment has no bytes at all.
    pub fn decode(bytes: &Bytes) -> Result<Self, WireError> {
        match bytes.is_empty() {
            true => Ok(Self::default()),
            false => decode(bytes, Self::VERSION),
        }
    }

    pub fn partitions(&self) -> Vec<TopicPartition> {
        let topics = self.assigned_partitions.iter();
        topics.flat_map(|t| t.partitions.iter().map(|p| TopicPartition::new(t.topic.clone(), *p))).collect()
    }

    pub fn of(partitions: &[TopicPartition]) -> Self {
        let mut topics = BTreeMap::<&str, Vec<i32>>::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(partition.partition);
        }
        let topics =
            topics.into_iter().map(|(topic, partitions)| TopicPartitions { topic: topic.to_owned(), partitions });
        Self { assigned_partitions: topics.collect(), user_data: None }
    }
}

fn encode(message: &impl Wire, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(version);
    message.write(&mut Writer::new(&mut out, version, false));
    out.freeze()
}

fn decode<T: Wire>(bytes: &Bytes, newest: i16) -> Result<T, WireError> {
    let mut reader = Reader::new(bytes, 0, false);
    let version = i16::read(&mut reader)?;
    reader.set_version(version.clamp(0, newest), false);
    T::read(&mut reader)
}

/// Gives each topic's partitions to the members that want it: ranges of equal length in the order of the member ids,
/// the first ones longer by one where it does not come out even.
///
/// `members` are ids with the topics they want, `counts` the number of partitions of each topic.
pub fn assign_ranges(
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

    /// Bytes as a Java consumer sends them (version 3).
    #[test]
    fn subscription_is_read_in_every_version() {
        let v0 = Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff");
        let v1 = Bytes::from_static(b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\0");
        let v9 = Bytes::from_static(b"\0\x09\0\0\0\x01\0\x01t\xff\xff\xff\xff\0\0\0\0\0\0\0\x05\xff\xffmore");
        for bytes in [v0, v1, v9] {
            assert_eq!(Subscription::decode(&bytes).unwrap().topics, ["t"], "{bytes:?}");
        }
        let ours = Subscription { topics: vec!["t".to_owned()], generation_id: 7, ..Default::default() };
        assert_eq!(Subscription::decode(&ours.encode()), Ok(ours));
    }

    #[test]
    fn an_assignment_comes_back() {
        let partitions = [TopicPartition::new("a", 0), TopicPartition::new("a", 2), TopicPartition::new("b", 1)];
        let assignment = Assignment::of(&partitions);
        assert_eq!(Assignment::decode(&assignment.encode()).unwrap().partitions(), partitions);
        assert_eq!(Assignment::decode(&Bytes::new()), Ok(Assignment::default()));
    }
}
