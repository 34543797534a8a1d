//! Changes of in-sync replicas by leaders (`ReplicationControlManager.alterPartition`, KIP-497).

use std::collections::BTreeSet;

use wire::api::alter_partition::{
    AlterPartitionRequest, AlterPartitionResponse, BrokerState, PartitionData, PartitionRequest, TopicData,
};
use wire::state::metadata::{MetadataRecord, PartitionChangeRecord};
use wire::{ErrorCode, Uuid};

use super::leadership::Change;
use super::{Context, Decision};
use crate::image::{MetadataImage, NO_LEADER, Partition, Topic};

const RECOVERED: i8 = 0;
const RECOVERING: i8 = 1;

/// The epoch of a broker that a leader does not know.
const UNKNOWN_BROKER_EPOCH: i64 = -1;

/// Alters ISRs as the leaders ask, each if the leader knows the newest of its partition.
pub fn alter(context: &Context<'_>, request: &AlterPartitionRequest) -> Decision<AlterPartitionResponse> {
    let mut records = Vec::new();
    let mut answer = AlterPartitionResponse::default();
    if context.image.broker(request.broker_id).is_none_or(|broker| broker.epoch != request.broker_epoch) {
        answer.error_code = ErrorCode::STALE_BROKER_EPOCH;
        return Decision { records, answer };
    }
    let mut altered: BTreeSet<(Uuid, i32)> = BTreeSet::new();
    for requested in &request.topics {
        let topic = context.image.topic_by_id(requested.topic_id);
        let partitions = requested.partitions.iter().map(|partition| {
            let outcome = match topic {
                None => Err(ErrorCode::UNKNOWN_TOPIC_ID),
                // The first one has made the epoch stale.
                Some(_) if altered.contains(&(requested.topic_id, partition.partition_index)) => {
                    Err(ErrorCode::INVALID_UPDATE_VERSION)
                }
                Some(topic) => one(context, topic, request.broker_id, partition),
            };
            let (record, outcome) = match outcome {
                Ok((record, outcome)) => (record, outcome),
                Err(error_code) => (None, Err(error_code)),
            };
            if let Some(record) = record {
                altered.insert((requested.topic_id, partition.partition_index));
                records.push(MetadataRecord::from(record));
            }
            match outcome {
                Ok(after) => PartitionData {
                    partition_index: partition.partition_index,
                    error_code: ErrorCode::NONE,
                    leader_id: after.leader,
                    leader_epoch: after.leader_epoch,
                    isr: after.isr,
                    leader_recovery_state: after.leader_recovery_state,
                    partition_epoch: after.partition_epoch,
                },
                Err(error_code) => {
                    PartitionData { partition_index: partition.partition_index, error_code, ..PartitionData::default() }
                }
            }
        });
        answer.topics.push(TopicData { topic_id: requested.topic_id, partitions: partitions.collect() });
    }
    Decision { records, answer }
}

/// A record, and the partition as it is afterwards or why the leader must look for newer metadata first: both, when
/// this was the end of a reassignment that takes the partition away from it.
type Altered = (Option<PartitionChangeRecord>, Result<Partition, ErrorCode>);

fn one(
    context: &Context<'_>,
    topic: &Topic,
    broker_id: i32,
    requested: &PartitionRequest,
) -> Result<Altered, ErrorCode> {
    let before = topic.partition(requested.partition_index).ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let isr = new_isr(requested);
    check(context.image, before, broker_id, requested, &isr)?;
    let change_keeps_leader = isr.iter().any(|member| member.broker_id == broker_id);
    let mut change = Change::new(context, topic, requested.partition_index as usize);
    change.isr = isr.iter().map(|member| member.broker_id).collect();
    change.leader_recovery_state = requested.leader_recovery_state;
    let mut after = Partition::clone(before);
    let record = change.record();
    if let Some(record) = &record {
        after.change(record);
    }
    if !change_keeps_leader && after.leader == NO_LEADER {
        return Err(ErrorCode::INELIGIBLE_REPLICA);
    }
    let outcome = if after.leader == broker_id { Ok(after) } else { Err(ErrorCode::NEW_LEADER_ELECTED) };
    Ok((record, outcome))
}

/// Version 2 has no epochs of brokers.
fn new_isr(requested: &PartitionRequest) -> Vec<BrokerState> {
    if !requested.new_isr_with_epochs.is_empty() {
        return requested.new_isr_with_epochs.clone();
    }
    let unknown = |id: &i32| BrokerState { broker_id: *id, broker_epoch: UNKNOWN_BROKER_EPOCH };
    requested.new_isr.iter().map(unknown).collect()
}

/// `ReplicationControlManager.validateAlterPartitionData`, in its order. Unlike in Kafka a leader may leave the ISR
/// itself, when it cannot read all of its log: then one of the others leads.
fn check(
    image: &MetadataImage,
    before: &Partition,
    broker_id: i32,
    requested: &PartitionRequest,
    isr: &[BrokerState],
) -> Result<(), ErrorCode> {
    // A broker with newer epochs has them from another controller.
    if requested.leader_epoch > before.leader_epoch || requested.partition_epoch > before.partition_epoch {
        return Err(ErrorCode::NOT_CONTROLLER);
    }
    if requested.leader_epoch < before.leader_epoch {
        return Err(ErrorCode::FENCED_LEADER_EPOCH);
    }
    if broker_id != before.leader {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if requested.partition_epoch < before.partition_epoch {
        return Err(ErrorCode::INVALID_UPDATE_VERSION);
    }
    let members: BTreeSet<i32> = isr.iter().map(|member| member.broker_id).collect();
    let is_handed_over = !members.is_empty() && members.iter().all(|id| before.isr.contains(id));
    let is_recovering = requested.leader_recovery_state == RECOVERING;
    if members.len() != isr.len()
        || members.iter().any(|id| !before.replicas.contains(id))
        || (!members.contains(&broker_id) && !is_handed_over)
        || !matches!(requested.leader_recovery_state, RECOVERED | RECOVERING)
        || (is_recovering && (isr.len() > 1 || before.leader_recovery_state == RECOVERED))
    {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    let is_eligible = |member: &BrokerState| {
        image.broker(member.broker_id).is_some_and(|broker| {
            broker.is_active()
                && [UNKNOWN_BROKER_EPOCH, broker.epoch].contains(&member.broker_epoch)
                // A leader with a full disk lets other replicas in, which take over.
                && (broker.id == broker_id || broker.has_room())
        })
    };
    if isr.iter().all(is_eligible) { Ok(()) } else { Err(ErrorCode::INELIGIBLE_REPLICA) }
}

#[cfg(test)]
mod tests {
    use wire::api::alter_partition::TopicRequest;

    use super::super::elections::balance;
    use super::super::tests::{applied, brokers, on, partition, state, with_fenced, with_setting, with_topic};
    use super::super::with_brokers;
    use super::*;

    const TOPIC: Uuid = Uuid([1; 16]);

    fn requested(isr: &[(i32, i64)]) -> PartitionRequest {
        let members = isr.iter().map(|(broker_id, epoch)| BrokerState { broker_id: *broker_id, broker_epoch: *epoch });
        PartitionRequest {
            leader_epoch: 3,
            partition_epoch: 5,
            new_isr_with_epochs: members.collect(),
            ..Default::default()
        }
    }

    fn request(broker_id: i32, topic_id: Uuid, partitions: Vec<PartitionRequest>) -> AlterPartitionRequest {
        let topics = vec![TopicRequest { topic_id, partitions }];
        AlterPartitionRequest { broker_id, broker_epoch: 0, topics }
    }

    fn ask(image: &MetadataImage, request: &AlterPartitionRequest) -> (Vec<PartitionData>, MetadataImage) {
        let mut decision = on(image, |context| alter(context, request));
        assert_eq!(decision.answer.error_code, ErrorCode::NONE);
        let after = if decision.records.is_empty() { image.clone() } else { applied(image, &decision.records) };
        (decision.answer.topics.remove(0).partitions, after)
    }

    /// Led by 1 on brokers 1, 2 and 3, in leader epoch 3 and partition epoch 5; 4 is fenced.
    fn image() -> MetadataImage {
        let before = Partition { leader_epoch: 3, partition_epoch: 5, ..partition(&[1, 2, 3, 4], &[1, 2], 1) };
        with_fenced(&with_topic(&brokers(&[1, 2, 3, 4, 5]), &[before]), &[4])
    }

    #[test]
    fn the_leader_says_who_is_in_sync() {
        let (answer, after) = ask(&image(), &request(1, TOPIC, vec![requested(&[(1, 0), (2, 0), (3, -1)])]));
        assert_eq!(state(&after, 0), (1, vec![1, 2, 3], vec![]));
        let data = &answer[0];
        assert_eq!((data.error_code, data.leader_id, &data.isr[..]), (ErrorCode::NONE, 1, &[1, 2, 3][..]));
        assert_eq!((data.leader_epoch, data.partition_epoch), (3, 6));
        // As version 2 says it.
        let old = PartitionRequest { new_isr: vec![1], new_isr_with_epochs: vec![], ..requested(&[]) };
        assert_eq!(state(&ask(&image(), &request(1, TOPIC, vec![old])).1, 0), (1, vec![1], vec![]));
        // A request without a change is answered, and writes nothing.
        let (answer, after) = ask(&image(), &request(1, TOPIC, vec![requested(&[(1, 0), (2, 0)])]));
        assert_eq!((answer[0].error_code, answer[0].partition_epoch), (ErrorCode::NONE, 5));
        assert!(after == image());
        let twice = vec![requested(&[(1, 0)]), requested(&[(1, 0), (2, 0), (3, 0)])];
        let (answer, after) = ask(&image(), &request(1, TOPIC, twice));
        assert_eq!(answer[1].error_code, ErrorCode::INVALID_UPDATE_VERSION);
        assert_eq!(state(&after, 0).1, [1]);
    }

    #[test]
    fn refusals_by_table() {
        let with = |change: fn(&mut PartitionRequest)| {
            let mut partition = requested(&[(1, 0), (2, 0)]);
            change(&mut partition);
            partition
        };
        for (broker, topic, partition, code) in [
            (1, Uuid([9; 16]), with(|_| {}), ErrorCode::UNKNOWN_TOPIC_ID),
            (1, TOPIC, with(|p| p.partition_index = 1), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (1, TOPIC, with(|p| p.partition_index = -1), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (1, TOPIC, with(|p| p.leader_epoch = 4), ErrorCode::NOT_CONTROLLER),
            (1, TOPIC, with(|p| (p.leader_epoch, p.partition_epoch) = (2, 6)), ErrorCode::NOT_CONTROLLER),
            (2, TOPIC, with(|p| (p.leader_epoch, p.partition_epoch) = (2, 4)), ErrorCode::FENCED_LEADER_EPOCH),
            (2, TOPIC, with(|p| p.partition_epoch = 4), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, with(|p| p.partition_epoch = 4), ErrorCode::INVALID_UPDATE_VERSION),
            (1, TOPIC, requested(&[(2, 0), (3, 0)]), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, requested(&[]), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, requested(&[(1, 0), (1, 0)]), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, requested(&[(1, 0), (5, 0)]), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, with(|p| p.leader_recovery_state = 1), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, with(|p| p.leader_recovery_state = 2), ErrorCode::INVALID_REQUEST),
            (1, TOPIC, requested(&[(1, 0), (4, 0)]), ErrorCode::INELIGIBLE_REPLICA),
            (1, TOPIC, requested(&[(1, 0), (3, 1)]), ErrorCode::INELIGIBLE_REPLICA),
        ] {
            let (answer, after) = ask(&image(), &request(broker, topic, vec![partition.clone()]));
            assert_eq!(answer[0].error_code, code, "{partition:?}");
            assert!(after == image());
        }
        let leaving = with_brokers(&image(), |brokers| brokers.get_mut(&3).unwrap().in_controlled_shutdown = true);
        let (answer, _) = ask(&leaving, &request(1, TOPIC, vec![requested(&[(1, 0), (3, 0)])]));
        assert_eq!(answer[0].error_code, ErrorCode::INELIGIBLE_REPLICA);
        for (broker, epoch) in [(1, 1), (7, -1)] {
            let stale =
                AlterPartitionRequest { broker_epoch: epoch, ..request(broker, TOPIC, vec![requested(&[(1, 0)])]) };
            let decision = on(&image(), |context| alter(context, &stale));
            assert_eq!((decision.answer.error_code, decision.records.len()), (ErrorCode::STALE_BROKER_EPOCH, 0));
        }
    }

    #[test]
    fn a_leader_may_leave_to_others_in_sync() {
        let (answer, after) = ask(&image(), &request(1, TOPIC, vec![requested(&[(2, 0)])]));
        assert_eq!(answer[0].error_code, ErrorCode::NEW_LEADER_ELECTED);
        assert_eq!(state(&after, 0), (2, vec![2], vec![]));
        assert_eq!(after.partition("t", 0).unwrap().leader_epoch, 4);
        // The minimum holds for a removed replica, too: it can lead when no other is left.
        let image = with_setting(&image(), "min.insync.replicas", "2");
        let (_, after) = ask(&image, &request(1, TOPIC, vec![requested(&[(2, 0)])]));
        assert_eq!(state(&after, 0), (2, vec![2], vec![1]));
        // Preferred elections do not bring it back.
        assert_eq!(on(&after, |context| balance(context, 9)).records, []);
    }

    #[test]
    fn a_leader_recovers_alone() {
        let recovering =
            Partition { leader_epoch: 3, partition_epoch: 5, leader_recovery_state: 1, ..partition(&[1, 2], &[1], 1) };
        let image = with_topic(&brokers(&[1, 2]), &[recovering]);
        let still = PartitionRequest { leader_recovery_state: 1, ..requested(&[(1, 0), (2, 0)]) };
        assert_eq!(ask(&image, &request(1, TOPIC, vec![still])).0[0].error_code, ErrorCode::INVALID_REQUEST);
        let (answer, after) = ask(&image, &request(1, TOPIC, vec![requested(&[(1, 0), (2, 0)])]));
        assert_eq!((answer[0].leader_recovery_state, state(&after, 0).1), (0, vec![1, 2]));
        assert_eq!(after.partition("t", 0).unwrap().leader_recovery_state, 0);
    }

    #[test]
    fn the_end_of_a_reassignment_may_take_the_partition_away() {
        for (leader, code) in [(1, ErrorCode::NEW_LEADER_ELECTED), (2, ErrorCode::NONE)] {
            let moving = Partition {
                adding_replicas: vec![3],
                removing_replicas: vec![1],
                leader_epoch: 3,
                partition_epoch: 5,
                ..partition(&[3, 2, 1], &[1, 2], leader)
            };
            let image = with_topic(&brokers(&[1, 2, 3]), &[moving]);
            let isr = requested(&[(1, 0), (2, 0), (3, 0)]);
            let (answer, after) = ask(&image, &request(leader, TOPIC, vec![isr]));
            assert_eq!(answer[0].error_code, code);
            let partition = after.partition("t", 0).unwrap();
            assert_eq!((&partition.replicas[..], &partition.isr[..]), (&[3, 2][..], &[2, 3][..]));
            assert_eq!((partition.leader, partition.leader_epoch), (if leader == 1 { 3 } else { 2 }, 4));
            assert_eq!((partition.adding_replicas.len(), partition.removing_replicas.len()), (0, 0));
        }
    }
}
