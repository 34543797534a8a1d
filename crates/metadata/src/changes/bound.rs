//! How many replicas a broker may have (`max.partitions.per.broker`): each takes memory, files, and time at a start.
//!
//! The broker's own topics are exempt: groups need theirs. So are moves, which bring a broker nothing that the cluster
//! does not have already.

use std::collections::BTreeMap;

use wire::ErrorCode;

use super::{Context, Refusal};
use crate::image::Partition;
use crate::is_internal;

pub(super) struct Bound {
    max: usize,
    by_broker: BTreeMap<i32, usize>,
}

impl Bound {
    /// With what there is.
    pub(super) fn new(context: &Context<'_>) -> Self {
        let by_broker = context.image.replica_counts.by_broker().clone();
        Self { max: usize::try_from(context.config.max_partitions_per_broker).unwrap_or(0), by_broker }
    }

    /// Takes new partitions of a topic into account, or none of them.
    pub(super) fn add(&mut self, topic: &str, partitions: &[Partition]) -> Result<(), Refusal> {
        let mut by_broker = self.by_broker.clone();
        for id in partitions.iter().flat_map(|partition| &partition.replicas) {
            let count = by_broker.entry(*id).or_default();
            *count += 1;
            if *count > self.max && !is_internal(topic) {
                let message = format!(
                    "Broker {id} would have more than the {} partitions that max.partitions.per.broker allows.",
                    self.max
                );
                return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
            }
        }
        self.by_broker = by_broker;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::create_partitions::CreatePartitionsTopic;
    use wire::api::create_topics::CreatableTopic;

    use wire::Uuid;
    use wire::state::metadata::TopicRecord;

    use super::super::tests::{Counter, applied, brokers, on, partition};
    use super::super::{partitions, topics};
    use super::*;
    use crate::ordered_map::tests::visited;

    #[test]
    fn a_broker_gets_no_more_partitions_than_it_may_have() {
        let config = BrokerConfig::new([("max.partitions.per.broker".to_owned(), "4".to_owned())].into()).unwrap();
        let random = Counter::default();
        let mut image = brokers(&[1, 2]);
        let topic = |name: &str, count: i32, replication_factor: i16| CreatableTopic {
            name: name.to_owned(),
            num_partitions: count,
            replication_factor,
            ..CreatableTopic::default()
        };
        // Two brokers can have eight replicas. The second and the fourth request would be one too many.
        let all =
            [topic("a", 2, 2), topic("b", 5, 1), topic("c", 2, 2), topic("d", 1, 1), topic("__consumer_offsets", 1, 2)];
        let context = Context { image: &image, config: &config, random: &random };
        let decision = topics::create(&context, &all, false);
        let codes: Vec<_> = decision.answer.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
        let (yes, no) = (ErrorCode::NONE, ErrorCode::POLICY_VIOLATION);
        assert_eq!(codes, [("a", yes), ("b", no), ("c", yes), ("d", no), ("__consumer_offsets", yes)]);
        let message = decision.answer[1].error_message.as_deref().unwrap();
        assert!(message.contains("the 4 partitions that max.partitions.per.broker allows"), "{message}");
        image = applied(&image, &decision.records);
        let more = CreatePartitionsTopic { name: "a".to_owned(), count: 3, assignments: None };
        let context = Context { image: &image, config: &config, random: &random };
        let decision = partitions::create(&context, &[more], false);
        assert_eq!((decision.answer[0].error_code, decision.records.len()), (no, 0));
    }

    #[test]
    fn a_new_topic_costs_no_more_where_there_are_many() {
        let looked_at = |topics: u8| {
            let mut image = brokers(&[1, 2]);
            for number in 1..=topics {
                let id = Uuid([number; 16]);
                let topic = TopicRecord { name: format!("t{number}"), topic_id: id };
                let partition = partition(&[1, 2], &[1, 2], 1).to_record(id, 0);
                image = applied(&image, &[topic.into(), partition.into()]);
            }
            let new = CreatableTopic {
                name: "new".to_owned(),
                num_partitions: 3,
                replication_factor: 2,
                ..CreatableTopic::default()
            };
            visited(|| assert_eq!(on(&image, |context| topics::create(context, &[new], false)).records.len(), 4))
        };
        assert_eq!(looked_at(200), looked_at(2));
    }
}
