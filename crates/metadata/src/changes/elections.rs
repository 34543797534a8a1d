//! Elections on request, and those that the controller holds by itself (`ReplicationControlManager.electLeaders`,
//! `maybeBalancePartitionLeaders`, `maybeElectUncleanLeaders`).

use wire::ErrorCode;
use wire::api::elect_leaders::{ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult};
use wire::state::metadata::{MetadataRecord, PartitionChangeRecord};

use super::leadership::{Change, Election, allows_unclean_elections};
use super::{Context, Decision, ERROR_MESSAGES_MAX, RECORDS_MAX, Refusal, RequestPartitions};
use crate::image::{NO_LEADER, Partition, Topic};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// Elects leaders of partitions, or of all. Those of all that need no election are left out of the answer.
pub fn elect(context: &Context<'_>, request: &ElectLeadersRequest) -> Decision<ElectLeadersResponse> {
    let mut records: Vec<MetadataRecord> = Vec::new();
    let mut answer = ElectLeadersResponse::default();
    let election = match request.election_type {
        PREFERRED => Election::Preferred,
        UNCLEAN => Election::Unclean,
        _ => {
            answer.error_code = ErrorCode::INVALID_REQUEST;
            return Decision { records, answer };
        }
    };
    match &request.topic_partitions {
        None => {
            for topic in context.image.topics() {
                let mut partition_result = Vec::new();
                for partition_id in 0..topic.partitions.len() as i32 {
                    let outcome = elect_one(context, &topic.name, partition_id, election);
                    if outcome.as_ref().is_err_and(|refusal| refusal.code == ErrorCode::ELECTION_NOT_NEEDED) {
                        continue;
                    }
                    partition_result.push(result(partition_id, outcome, &mut records));
                }
                answer
                    .replica_election_results
                    .push(ReplicaElectionResult { topic: topic.name.to_string(), partition_result });
            }
        }
        Some(requested) => {
            let mut named = RequestPartitions::default();
            for topic in requested {
                let number = named.number(&topic.topic);
                let results = topic.partitions.iter().enumerate().map(|(index, partition_id)| {
                    let outcome = if named.is_new(number, *partition_id) {
                        elect_one(context, &topic.topic, *partition_id, election)
                    } else {
                        Err(not_needed())
                    };
                    let mut result = result(*partition_id, outcome, &mut records);
                    result.error_message = result.error_message.filter(|_| index < ERROR_MESSAGES_MAX);
                    result
                });
                let partition_result = results.collect();
                answer
                    .replica_election_results
                    .push(ReplicaElectionResult { topic: topic.topic.clone(), partition_result });
            }
        }
    }
    if records.len() > RECORDS_MAX {
        records.clear();
        answer = ElectLeadersResponse { error_code: Refusal::too_large().code, ..ElectLeadersResponse::default() };
    }
    Decision { records, answer }
}

fn result(
    partition_id: i32,
    outcome: Result<PartitionChangeRecord, Refusal>,
    records: &mut Vec<MetadataRecord>,
) -> PartitionResult {
    match outcome {
        Ok(record) => {
            records.push(record.into());
            PartitionResult { partition_id, ..PartitionResult::default() }
        }
        Err(refusal) => PartitionResult { partition_id, error_code: refusal.code, error_message: refusal.message },
    }
}

fn not_needed() -> Refusal {
    Refusal::new(ErrorCode::ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
}

fn elect_one(
    context: &Context<'_>,
    topic: &str,
    index: i32,
    election: Election,
) -> Result<PartitionChangeRecord, Refusal> {
    let unknown = |message: String| Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message);
    let found = context.image.topic(topic).ok_or_else(|| unknown(format!("No such topic as {topic}")))?;
    let before = found.partition(index).ok_or_else(|| unknown(format!("No such partition as {topic}-{index}")))?;
    let (is_needed, refusal) = match election {
        Election::Preferred => (
            before.replicas.first() != Some(&before.leader),
            Refusal::new(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
        ),
        Election::Online | Election::Unclean => (
            before.leader == NO_LEADER,
            Refusal::new(
                ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE,
                "Eligible topic partition leaders are not available.",
            ),
        ),
    };
    if !is_needed {
        return Err(not_needed());
    }
    held(context, found, index as usize, election).ok_or(refusal)
}

/// The record of an election, if its type succeeds: the preferred replica, or any replica, becomes leader.
fn held(context: &Context<'_>, topic: &Topic, index: usize, election: Election) -> Option<PartitionChangeRecord> {
    let mut change = Change::new(context, topic, index);
    change.election = election;
    let record = change.record()?;
    let mut after = Partition::clone(&topic.partitions[index]);
    after.change(&record);
    let is_won = match election {
        Election::Preferred => after.replicas.first() == Some(&after.leader),
        Election::Online | Election::Unclean => after.leader != NO_LEADER,
    };
    is_won.then_some(record)
}

/// Gives up to `max` partitions back to their preferred leaders. The answer is whether there may be more of them.
pub fn balance(context: &Context<'_>, max: usize) -> Decision<bool> {
    if !context.config.auto_leader_rebalance_enable {
        return Decision { records: Vec::new(), answer: false };
    }
    let is_off = |_: &Topic, partition: &Partition| partition.replicas.first() != Some(&partition.leader);
    hold_where(context, max, Election::Preferred, is_off)
}

/// Elects any replica in up to `max` partitions that have no leader and may be led by any. The answer is whether there
/// may be more of them.
pub fn elect_unclean(context: &Context<'_>, max: usize) -> Decision<bool> {
    let is_down = |topic: &Topic, partition: &Partition| {
        partition.leader == NO_LEADER && allows_unclean_elections(context, topic)
    };
    hold_where(context, max, Election::Unclean, is_down)
}

fn hold_where(
    context: &Context<'_>,
    max: usize,
    election: Election,
    is_meant: impl Fn(&Topic, &Partition) -> bool,
) -> Decision<bool> {
    let meant = context.image.topics().flat_map(|topic| {
        let partitions = topic.partitions.iter().enumerate();
        partitions.filter(|(_, partition)| is_meant(topic, partition)).map(move |(index, _)| (topic, index))
    });
    let held = meant.filter_map(|(topic, index)| held(context, topic, index, election));
    let records: Vec<MetadataRecord> = held.take(max).map(MetadataRecord::from).collect();
    Decision { answer: records.len() == max, records }
}

#[cfg(test)]
mod tests {
    use configuration::{BrokerConfig, ConfigMap};
    use wire::api::elect_leaders::TopicPartitions;

    use super::super::tests::{Counter, applied, brokers, on, partition, state, with_fenced, with_setting, with_topic};
    use super::*;
    use crate::image::MetadataImage;

    /// Partitions led by the first replica, by another, without a leader, and without a leader although another replica
    /// is active.
    fn image() -> MetadataImage {
        let partitions = [
            partition(&[1, 2], &[1, 2], 1),
            partition(&[1, 2], &[1, 2], 2),
            partition(&[3], &[3], -1),
            partition(&[3, 1], &[3], -1),
            partition(&[3, 1], &[1], 1),
        ];
        with_fenced(&with_topic(&brokers(&[1, 2, 3]), &partitions), &[3])
    }

    fn ask(election_type: i8, requested: Option<&[(&str, &[i32])]>) -> (Vec<(i32, i16, String)>, MetadataImage) {
        let topics = requested.map(|all| {
            let topics = all.iter();
            topics.map(|(t, ids)| TopicPartitions { topic: (*t).to_owned(), partitions: ids.to_vec() }).collect()
        });
        let request = ElectLeadersRequest { election_type, topic_partitions: topics, ..Default::default() };
        let image = image();
        let decision = on(&image, |context| elect(context, &request));
        let results = decision.answer.replica_election_results.into_iter().flat_map(|topic| topic.partition_result);
        let results = results.map(|r| (r.partition_id, r.error_code.0, r.error_message.unwrap_or_default()));
        let after = if decision.records.is_empty() { image } else { applied(&image, &decision.records) };
        (results.collect(), after)
    }

    #[test]
    fn elections_by_table() {
        let not_needed = "Leader election not needed for topic partition.";
        let not_preferred = "The preferred leader was not available.";
        let not_eligible = "Eligible topic partition leaders are not available.";
        for (election_type, topic, index, code, message, leader) in [
            (PREFERRED, "t", 0, 84, not_needed, Some(1)),
            (PREFERRED, "t", 1, 0, "", Some(1)),
            (PREFERRED, "t", 2, 80, not_preferred, Some(-1)),
            (PREFERRED, "t", 4, 80, not_preferred, Some(1)),
            (PREFERRED, "t", 5, 3, "No such partition as t-5", None),
            (PREFERRED, "u", 0, 3, "No such topic as u", None),
            (UNCLEAN, "t", 1, 84, not_needed, Some(2)),
            (UNCLEAN, "t", 2, 83, not_eligible, Some(-1)),
            (UNCLEAN, "t", 3, 0, "", Some(1)),
        ] {
            let (results, after) = ask(election_type, Some(&[(topic, &[index])]));
            assert_eq!(results, [(index, code, message.to_owned())]);
            assert_eq!(after.partition(topic, index).map(|partition| partition.leader), leader);
        }
    }

    #[test]
    fn of_all_partitions_only_those_are_answered_that_needed_one() {
        let (results, after) = ask(PREFERRED, None);
        assert_eq!(results.iter().map(|r| (r.0, r.1)).collect::<Vec<_>>(), [(1, 0), (2, 80), (3, 80), (4, 80)]);
        assert_eq!(state(&after, 1).0, 1);
        let (results, after) = ask(PREFERRED, Some(&[("t", &[1, 1])]));
        assert_eq!(results.iter().map(|r| r.1).collect::<Vec<_>>(), [0, 84]);
        assert_eq!(after.partition("t", 1).unwrap().leader_epoch, 1);
    }

    #[test]
    fn an_election_type_that_does_not_exist_is_refused() {
        let request = ElectLeadersRequest { election_type: 2, ..ElectLeadersRequest::default() };
        let decision = on(&image(), |context| elect(context, &request));
        assert_eq!((decision.answer.error_code, decision.records.len()), (ErrorCode::INVALID_REQUEST, 0));
    }

    #[test]
    fn the_controller_gives_back_what_can_be_given_back() {
        let off = || partition(&[1, 2], &[1, 2], 2);
        let image = with_topic(&brokers(&[1, 2]), &[off(), partition(&[2], &[2], 2), off(), off()]);
        let decision = on(&image, |context| balance(context, 2));
        assert_eq!((decision.records.len(), decision.answer), (2, true));
        let after = applied(&image, &decision.records);
        assert_eq!([0, 2, 3].map(|index| state(&after, index).0), [1, 1, 2]);
        let decision = on(&after, |context| balance(context, 2));
        assert_eq!((decision.records.len(), decision.answer), (1, false));
        let config = ConfigMap::from([("auto.leader.rebalance.enable".into(), "false".into())]);
        let config = BrokerConfig::new(config).unwrap();
        let context = Context { image: &image, config: &config, random: &Counter::default() };
        assert_eq!(balance(&context, 2), Decision { records: vec![], answer: false });
    }

    #[test]
    fn unclean_leaders_come_by_themselves_only_where_they_may() {
        let image = image();
        assert_eq!(on(&image, |context| elect_unclean(context, 9)).records, []);
        let allowed = with_setting(&image, "unclean.leader.election.enable", "true");
        let after = applied(&allowed, &on(&allowed, |context| elect_unclean(context, 9)).records);
        assert_eq!([2, 3].map(|index| state(&after, index).0), [-1, 1]);
        assert_eq!(after.partition("t", 3).unwrap().leader_recovery_state, 1);
    }
}
