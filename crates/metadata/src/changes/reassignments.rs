//! Moving partitions to other brokers (`ReplicationControlManager.alterPartitionReassignments`, KIP-455, KIP-860).

use wire::ErrorCode;
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::api::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};
use wire::state::metadata::{MetadataRecord, PartitionChangeRecord};

use super::leadership::Change;
use super::reassigning::{Way, back, is_under_way, target_count, towards};
use super::{Context, Decision, ERROR_MESSAGES_MAX, RECORDS_MAX, Refusal, RequestPartitions, check_assignment};
use crate::image::{MetadataImage, NO_LEADER, Partition, Topic};

/// Starts, changes and cancels reassignments.
pub fn alter(
    context: &Context<'_>,
    request: &AlterPartitionReassignmentsRequest,
) -> Decision<AlterPartitionReassignmentsResponse> {
    let may_resize = request.allow_replication_factor_change;
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut answer = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: may_resize,
        ..AlterPartitionReassignmentsResponse::default()
    };
    let mut named = RequestPartitions::default();
    for topic in &request.topics {
        let number = named.number(&topic.name);
        let partitions = topic.partitions.iter().enumerate().map(|(index, partition)| {
            let outcome = if named.is_new(number, partition.partition_index) {
                one(context, &topic.name, partition, may_resize)
            } else {
                Err(Refusal::new(ErrorCode::INVALID_REQUEST, "Each partition must appear at most once."))
            };
            let refusal = match outcome {
                Ok(record) => {
                    records.extend(record.map(MetadataRecord::from));
                    Refusal::plain(ErrorCode::NONE)
                }
                Err(refusal) => refusal,
            };
            ReassignablePartitionResponse {
                partition_index: partition.partition_index,
                error_code: refusal.code,
                error_message: refusal.message.filter(|_| index < ERROR_MESSAGES_MAX),
            }
        });
        let partitions = partitions.collect();
        answer.responses.push(ReassignableTopicResponse { name: topic.name.clone(), partitions });
    }
    if records.len() > RECORDS_MAX {
        records.clear();
        let refusal = Refusal::too_large();
        (answer.error_code, answer.error_message) = (refusal.code, refusal.message);
        answer.responses.clear();
    }
    Decision { records, answer }
}

fn one(
    context: &Context<'_>,
    name: &str,
    requested: &ReassignablePartition,
    may_resize: bool,
) -> Result<Option<PartitionChangeRecord>, Refusal> {
    let unknown = |message: String| Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message);
    let topic = context.image.topic(name).ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
    let index = requested.partition_index;
    let partition =
        topic.partition(index).ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
    match &requested.replicas {
        None => cancel(context, topic, index, partition),
        Some(target) => {
            check_assignment(context.image, target, None)?;
            let count = target_count(partition);
            if !may_resize && count != target.len() {
                let message = format!("The replication factor is changed from {count} to {}", target.len());
                return Err(Refusal::new(ErrorCode::INVALID_REPLICATION_FACTOR, message));
            }
            Ok(moving(context, topic, index, towards(partition, target)).record())
        }
    }
}

fn moving<'a>(context: &'a Context<'a>, topic: &'a Topic, index: i32, way: Way) -> Change<'a> {
    let mut change = Change::new(context, topic, index as usize);
    change.replicas = way.replicas;
    change.adding_replicas = way.adding;
    change.removing_replicas = way.removing;
    change.isr = way.isr;
    change
}

/// Back to the replicas that a partition had. If none of them has all that was acknowledged, only where unclean
/// elections are allowed.
fn cancel(
    context: &Context<'_>,
    topic: &Topic,
    index: i32,
    partition: &Partition,
) -> Result<Option<PartitionChangeRecord>, Refusal> {
    if !is_under_way(partition) {
        let message = "No partition reassignment is in progress.";
        return Err(Refusal::new(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, message));
    }
    let way = back(partition);
    let is_left_without = way.isr.is_empty();
    let record = moving(context, topic, index, way).record();
    let leader = record.as_ref().map_or(NO_LEADER, |record| record.leader);
    if is_left_without && leader < 0 {
        let message = format!(
            "Unable to revert partition assignment for {}:{index} because it would require an unclean leader election.",
            topic.name
        );
        return Err(Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
    }
    Ok(record)
}

/// Ongoing reassignments, of all topics or of the requested ones, each once. What does not exist is left out.
pub fn list(image: &MetadataImage, request: &ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse {
    let topics: Vec<OngoingTopicReassignment> = match &request.topics {
        None => image.topics().filter_map(|topic| ongoing(topic, 0..topic.partitions.len() as i32)).collect(),
        Some(requested) => {
            let mut named = RequestPartitions::default();
            let found = requested.iter().filter_map(|requested| {
                let topic = image.topic(&requested.name)?;
                let number = named.number(&requested.name);
                let indexes = requested.partition_indexes.iter().copied();
                ongoing(topic, indexes.filter(|index| named.is_new(number, *index)))
            });
            found.collect()
        }
    };
    ListPartitionReassignmentsResponse { topics, ..ListPartitionReassignmentsResponse::default() }
}

fn ongoing(topic: &Topic, indexes: impl Iterator<Item = i32>) -> Option<OngoingTopicReassignment> {
    let partitions = indexes.filter_map(|partition_index| {
        let partition = topic.partition(partition_index).filter(|partition| is_under_way(partition))?;
        Some(OngoingPartitionReassignment {
            partition_index,
            replicas: partition.replicas.clone(),
            adding_replicas: partition.adding_replicas.clone(),
            removing_replicas: partition.removing_replicas.clone(),
        })
    });
    let partitions: Vec<_> = partitions.collect();
    (!partitions.is_empty()).then(|| OngoingTopicReassignment { name: topic.name.to_string(), partitions })
}

#[cfg(test)]
mod tests {
    use wire::api::alter_partition_reassignments::ReassignableTopic;
    use wire::api::list_partition_reassignments::ListPartitionReassignmentsTopics;

    use super::super::tests::{applied, brokers, on, partition, state, with_fenced, with_setting, with_topic};
    use super::*;

    fn request(name: &str, index: i32, replicas: Option<&[i32]>) -> AlterPartitionReassignmentsRequest {
        let replicas = replicas.map(<[i32]>::to_vec);
        let partitions = vec![ReassignablePartition { partition_index: index, replicas }];
        AlterPartitionReassignmentsRequest {
            topics: vec![ReassignableTopic { name: name.to_owned(), partitions }],
            ..Default::default()
        }
    }

    fn ask(image: &MetadataImage, request: &AlterPartitionReassignmentsRequest) -> (i16, String, MetadataImage) {
        let mut decision = on(image, |context| alter(context, request));
        let result = decision.answer.responses.remove(0).partitions.remove(0);
        let after = if decision.records.is_empty() { image.clone() } else { applied(image, &decision.records) };
        (result.error_code.0, result.error_message.unwrap_or_default(), after)
    }

    fn moved(image: &MetadataImage, replicas: Option<&[i32]>) -> MetadataImage {
        let (code, message, after) = ask(image, &request("t", 0, replicas));
        assert_eq!((code, message.as_str()), (0, ""));
        after
    }

    /// Replicas, added ones, and removed ones.
    fn way(image: &MetadataImage) -> [Vec<i32>; 3] {
        let partition = image.partition("t", 0).unwrap();
        [&partition.replicas, &partition.adding_replicas, &partition.removing_replicas].map(Clone::clone)
    }

    fn image() -> MetadataImage {
        with_topic(&brokers(&[1, 2, 3, 4, 5]), &[partition(&[1, 2, 3], &[1, 2, 3], 1)])
    }

    #[test]
    fn partitions_are_on_their_way_until_the_new_replicas_are_in_sync() {
        let after = moved(&image(), Some(&[4, 5, 1]));
        assert_eq!(way(&after), [vec![4, 5, 1, 2, 3], vec![4, 5], vec![2, 3]]);
        let partition = after.partition("t", 0).unwrap();
        assert_eq!((partition.leader, partition.leader_epoch, partition.isr.len()), (1, 0, 3));
        assert_eq!(partition.directories[..2], [wire::Uuid([104; 16]), wire::Uuid([105; 16])]);
        // Another target, and back.
        let other = moved(&after, Some(&[1, 4]));
        assert_eq!(way(&other), [vec![1, 4, 2, 3], vec![4], vec![2, 3]]);
        assert_eq!(other.partition("t", 0).unwrap().leader_epoch, 1);
        let back = moved(&other, None);
        assert_eq!(way(&back), [vec![1, 2, 3], vec![], vec![]]);
        assert!(moved(&back, Some(&[1, 2, 3])) == back);
    }

    #[test]
    fn what_needs_no_copy_is_done_at_once() {
        let turned = moved(&image(), Some(&[3, 2, 1]));
        assert_eq!((way(&turned), state(&turned, 0).0), ([vec![3, 2, 1], vec![], vec![]], 1));
        let fewer = moved(&image(), Some(&[2]));
        assert_eq!((way(&fewer), state(&fewer, 0)), ([vec![2], vec![], vec![]], (2, vec![2], vec![])));
        assert_eq!(fewer.partition("t", 0).unwrap().directories, [wire::Uuid([102; 16])]);
    }

    #[test]
    fn refusals_by_table() {
        let image = image();
        for (name, index, replicas, code, message) in [
            ("u", 0, None, 3, "Unable to find a topic named u."),
            ("t", 7, None, 3, "Unable to find partition t:7."),
            ("t", 0, None, 85, "No partition reassignment is in progress."),
            ("t", 0, Some(&[][..]), 39, "The manual partition assignment includes an empty replica list."),
            ("t", 0, Some(&[1, 1]), 39, "The manual partition assignment includes the broker 1 more than once."),
            (
                "t",
                0,
                Some(&[9]),
                39,
                "The manual partition assignment includes broker 9, but no such broker is registered.",
            ),
        ] {
            let (found, words, after) = ask(&image, &request(name, index, replicas));
            assert_eq!((found, words.as_str(), after == image), (code, message, true));
        }
        let fixed = |request| AlterPartitionReassignmentsRequest { allow_replication_factor_change: false, ..request };
        let (code, message, _) = ask(&image, &fixed(request("t", 0, Some(&[1, 2]))));
        assert_eq!((code, message.as_str()), (38, "The replication factor is changed from 3 to 2"));
        assert_eq!(ask(&image, &fixed(request("t", 0, Some(&[5, 4, 3])))).0, 0);
        // On the way to two, two is no change.
        let on_the_way = moved(&image, Some(&[4, 5]));
        assert_eq!(ask(&on_the_way, &fixed(request("t", 0, Some(&[1, 2])))).0, 0);
        let mut twice = request("t", 0, Some(&[1]));
        let again = twice.topics[0].partitions[0].clone();
        twice.topics[0].partitions.push(again);
        let decision = on(&image, |context| alter(context, &twice));
        assert_eq!((decision.records.len(), decision.answer.responses[0].partitions[1].error_code.0), (1, 42));
    }

    #[test]
    fn a_way_back_to_nobody_in_sync_needs_an_unclean_election() {
        let moving =
            Partition { adding_replicas: vec![3], removing_replicas: vec![1, 2], ..partition(&[3, 1, 2], &[3], 3) };
        let image = with_fenced(&with_topic(&brokers(&[1, 2, 3]), std::slice::from_ref(&moving)), &[1]);
        let (code, message, _) = ask(&image, &request("t", 0, None));
        let words =
            "Unable to revert partition assignment for t:0 because it would require an unclean leader election.";
        assert_eq!((code, message.as_str()), (39, words));
        let allowed = with_setting(&image, "unclean.leader.election.enable", "true");
        let back = moved(&allowed, None);
        assert_eq!((way(&back)[0].clone(), state(&back, 0)), (vec![1, 2], (2, vec![2], vec![])));
        assert_eq!(back.partition("t", 0).unwrap().leader_recovery_state, 1);
        // An eligible replica has all.
        let eligible = Partition { eligible_leader_replicas: vec![2], ..moving };
        let image = with_topic(&brokers(&[1, 2, 3]), &[eligible]);
        let back = moved(&with_setting(&image, "min.insync.replicas", "2"), None);
        assert_eq!((state(&back, 0), back.partition("t", 0).unwrap().leader_recovery_state), ((2, vec![2], vec![]), 0));
    }

    #[test]
    fn what_is_on_its_way_is_listed() {
        let listed = |image: &MetadataImage, topics| {
            let found = list(image, &ListPartitionReassignmentsRequest { topics, ..Default::default() }).topics;
            found.into_iter().flat_map(|topic| topic.partitions).map(|p| (p.replicas, p.adding_replicas)).collect()
        };
        let of = |name: &str| {
            Some(vec![ListPartitionReassignmentsTopics { name: name.to_owned(), partition_indexes: vec![0, 1, -1] }])
        };
        let none: Vec<(Vec<i32>, Vec<i32>)> = Vec::new();
        assert_eq!(listed(&image(), None), none);
        let after = moved(&image(), Some(&[4]));
        let way = vec![(vec![4, 1, 2, 3], vec![4])];
        assert_eq!((listed(&after, None), listed(&after, of("t")), listed(&after, of("u"))), (way.clone(), way, none));
    }
}
