//! Adding partitions to topics.

use std::collections::BTreeMap;

use wire::ErrorCode;
use wire::api::create_partitions::{CreatePartitionsTopic, CreatePartitionsTopicResult};
use wire::state::metadata::MetadataRecord;

use super::bound::Bound;
use super::{Context, Decision, RECORDS_MAX, Refusal, all_inactive, check_assignment, new_partition, place};
use crate::image::Topic;

/// Adds partitions (`ReplicationControlManager.createPartitions`).
pub fn create(
    context: &Context<'_>,
    topics: &[CreatePartitionsTopic],
    validate_only: bool,
) -> Decision<Vec<CreatePartitionsTopicResult>> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    let mut records = Vec::new();
    let mut answer = Vec::with_capacity(times.len());
    let mut bound = Bound::new(context);
    for topic in topics {
        let outcome = match times.remove(topic.name.as_str()) {
            Some(1) => create_one(context, topic, RECORDS_MAX - records.len(), &mut bound),
            Some(_) => Err(Refusal::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name.")),
            None => continue,
        };
        let refusal = match outcome {
            Ok(mut added) => {
                records.append(&mut added);
                Refusal::plain(ErrorCode::NONE)
            }
            Err(refusal) => refusal,
        };
        answer.push(CreatePartitionsTopicResult {
            name: topic.name.clone(),
            error_code: refusal.code,
            error_message: refusal.message,
        });
    }
    if validate_only {
        records.clear();
    }
    Decision { records, answer }
}

fn create_one(
    context: &Context<'_>,
    topic: &CreatePartitionsTopic,
    records_left: usize,
    bound: &mut Bound,
) -> Result<Vec<MetadataRecord>, Refusal> {
    let found: &Topic =
        context.image.topic(&topic.name).ok_or_else(|| Refusal::plain(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    let before = found.partitions.len();
    let wanted = usize::try_from(topic.count).unwrap_or(0);
    if topic.count >= 0 && wanted == before {
        let message = format!("Topic already has {before} partition(s).");
        return Err(Refusal::new(ErrorCode::INVALID_PARTITIONS, message));
    }
    if wanted < before {
        let message = format!(
            "The topic {} currently has {before} partition(s); {} would not be an increase.",
            found.name, topic.count
        );
        return Err(Refusal::new(ErrorCode::INVALID_PARTITIONS, message));
    }
    let added = wanted - before;
    if let Some(assignments) = &topic.assignments
        && assignments.len() != added
    {
        let message = format!(
            "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        );
        return Err(Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
    }
    if added > records_left {
        return Err(Refusal::too_large());
    }
    let factor = found.partitions.first().map_or(1, |partition| partition.replicas.len());
    let partitions: Vec<_> = match &topic.assignments {
        Some(assignments) => {
            let assigned = assignments.iter().enumerate().map(|(index, assignment)| {
                check_assignment(context.image, &assignment.broker_ids, Some(factor))?;
                new_partition(context.image, &assignment.broker_ids, || {
                    let message = format!(
                        "All brokers specified in the manual partition assignment for partition {} are fenced or in \
                         controlled shutdown.",
                        before + index
                    );
                    Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message)
                })
            });
            assigned.collect::<Result<_, _>>()?
        }
        None => {
            let placed = place(context, added, i16::try_from(factor).unwrap_or(i16::MAX))
                .map_err(|error| Refusal::new(ErrorCode::INVALID_REPLICATION_FACTOR, error.to_string()))?;
            let new = placed.iter().map(|replicas| new_partition(context.image, replicas, || all_inactive(factor)));
            new.collect::<Result<_, _>>()?
        }
    };
    bound.add(&topic.name, &partitions)?;
    let records = partitions.iter().zip(before as i32..);
    Ok(records.map(|(partition, index)| partition.to_record(found.id, index).into()).collect())
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::create_partitions::CreatePartitionsAssignment;
    use wire::api::create_topics::CreatableTopic;

    use super::super::tests::{Counter, applied, brokers};
    use super::super::topics;
    use super::*;
    use crate::image::MetadataImage;

    fn with_topic() -> MetadataImage {
        let image = brokers(&[1, 2]);
        let topic = CreatableTopic { name: "t".into(), num_partitions: 2, replication_factor: 1, ..Default::default() };
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let context = Context { image: &image, config: &config, random: &random };
        applied(&image, &topics::create(&context, &[topic], false).records)
    }

    fn ask(
        image: &MetadataImage,
        topics: &[CreatePartitionsTopic],
        validate_only: bool,
    ) -> Decision<Vec<(i16, String)>> {
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let decision = create(&Context { image, config: &config, random: &random }, topics, validate_only);
        let answer = decision.answer.into_iter().map(|r| (r.error_code.0, r.error_message.unwrap_or_default()));
        Decision { records: decision.records, answer: answer.collect() }
    }

    fn topic(name: &str, count: i32, assignments: Option<&[&[i32]]>) -> CreatePartitionsTopic {
        let assignments = assignments
            .map(|all| all.iter().map(|ids| CreatePartitionsAssignment { broker_ids: ids.to_vec() }).collect());
        CreatePartitionsTopic { name: name.to_owned(), count, assignments }
    }

    #[test]
    fn partitions_are_added_behind_the_others() {
        let image = with_topic();
        let decision = ask(&image, &[topic("t", 4, Some(&[&[2], &[1]]))], false);
        assert_eq!(decision.answer, [(0, String::new())]);
        let after = applied(&image, &decision.records);
        assert_eq!((after.topic("t").unwrap().partitions.len(), after.partition("t", 2).unwrap().leader), (4, 2));
        assert_eq!(ask(&image, &[topic("t", 3, None)], false).records.len(), 1);
        assert_eq!(
            ask(&image, &[topic("t", 3, None)], true),
            Decision { records: vec![], answer: vec![(0, String::new())] }
        );
    }

    #[test]
    fn refusals_by_table() {
        let image = with_topic();
        let excessive = "Unable to perform excessively large batch operation.";
        for (name, count, assignments, code, message) in [
            ("u", 3, None, 3, ""),
            ("t", 2, None, 37, "Topic already has 2 partition(s)."),
            ("t", 1, None, 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
            ("t", -5, None, 37, "The topic t currently has 2 partition(s); -5 would not be an increase."),
            (
                "t",
                4,
                Some(&[&[1][..]][..]),
                39,
                "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
            ),
            (
                "t",
                3,
                Some(&[&[1, 2]]),
                39,
                "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent \
                 with previous partitions, which have 1 replica(s).",
            ),
            (
                "t",
                3,
                Some(&[&[9]]),
                39,
                "The manual partition assignment includes broker 9, but no such broker is registered.",
            ),
            ("t", i32::MAX, None, 44, excessive),
        ] {
            let decision = ask(&image, &[topic(name, count, assignments)], false);
            assert_eq!(decision, Decision { records: vec![], answer: vec![(code, message.to_owned())] });
        }
        let twice = ask(&image, &[topic("t", 3, None), topic("t", 4, None)], false);
        assert_eq!(twice, Decision { records: vec![], answer: vec![(42, "Duplicate topic name.".to_owned())] });
    }
}
