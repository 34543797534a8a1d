//! Who reads what transactions have made: consumers of committed records, which leave out what was aborted as Java's
//! does (`CompletedFetch`), and readers of the offsets that groups have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::group::OFFSETS_TOPIC;
use parking_lot::Mutex;
use tokio::time::sleep;
use wire::api::Request;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::batch::{Batch, Batches};
use wire::{ErrorCode, Records};

use super::clients::{ClientEvent, Connections, OFFSET_FETCH_VERSION, World};
use super::ledger::TopicPartition;
use super::replica::values;
use super::time::now_ms;
use super::transaction_history::marker_of;
use super::transaction_ledger::{OffsetOf, TransactionEvent};

const READ_COMMITTED: i8 = 1;

/// A consumer of the committed records of one partition, which begins anew now and then.
pub(super) async fn consume_committed(world: Arc<Mutex<World>>, topic_partition: TopicPartition) {
    let mut connections = Connections::default();
    let mut offset = 0;
    loop {
        let (rests_ms, begins_anew) = {
            let mut world = world.lock();
            (20 + world.rng.below(200), world.rng.percent(3))
        };
        sleep(Duration::from_millis(rests_ms)).await;
        if begins_anew {
            offset = world.lock().rng.below(offset as u64 + 1) as i64;
        }
        read_committed(&world, &mut connections, &topic_partition, &mut offset).await;
    }
}

/// Reads committed records from an offset on, which it moves.
pub(super) async fn read_committed(
    world: &Arc<Mutex<World>>,
    connections: &mut Connections,
    topic_partition: &TopicPartition,
    offset: &mut i64,
) -> Vec<(i64, u64)> {
    let from = *offset;
    let Some((data, batches)) = fetch_committed(world, connections, topic_partition, offset).await else {
        return Vec::new();
    };
    let numbers: Vec<_> = batches.iter().flat_map(values).filter(|(offset, _)| *offset >= from).collect();
    if *offset > from {
        let (topic_partition, numbers, high_watermark) =
            (topic_partition.clone(), numbers.clone(), data.high_watermark);
        let read = TransactionEvent::ReadCommitted { topic_partition, from, to: *offset, high_watermark, numbers };
        world.lock().client_events.push(ClientEvent::Transaction(read));
    }
    numbers
}

/// Fetches committed records from an offset on, which is moved: the answer, and the batches that are visible.
pub(super) async fn fetch_committed(
    world: &Arc<Mutex<World>>,
    connections: &mut Connections,
    topic_partition: &TopicPartition,
    offset: &mut i64,
) -> Option<(PartitionData, Vec<Batch>)> {
    let (leader, topic_id) = {
        let mut world = world.lock();
        let topic_id = world.newest.topic(&topic_partition.0).map(|topic| topic.id).unwrap_or_default();
        (world.leader(topic_partition), topic_id)
    };
    let node = leader?;
    let partition = FetchPartition {
        partition: topic_partition.1,
        current_leader_epoch: -1,
        fetch_offset: *offset,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        partition_max_bytes: 2000,
        ..FetchPartition::default()
    };
    let request = FetchRequest {
        max_bytes: 10_000,
        max_wait_ms: 100,
        min_bytes: 1,
        isolation_level: READ_COMMITTED,
        session_epoch: -1,
        topics: vec![FetchTopic { topic_id, partitions: vec![partition], ..FetchTopic::default() }],
        ..FetchRequest::default()
    };
    let response = connections.ask(node, &request, *FetchRequest::API.versions.end()).await.ok()?;
    let mut data = response.responses.into_iter().flat_map(|topic| topic.partitions).next()?;
    if data.error_code == ErrorCode::OFFSET_OUT_OF_RANGE {
        *offset = 0;
    }
    let Some(Records::Inline(bytes)) = data.records.take().filter(|_| data.error_code.is_none()) else {
        return Some((data, Vec::new()));
    };
    let aborted = data.aborted_transactions.iter().flatten();
    let aborted = aborted.map(|aborted| (aborted.producer_id, aborted.first_offset)).collect();
    let batches = visible(bytes, aborted, offset);
    Some((data, batches))
}

/// What is visible of what was fetched from an offset on, which is moved. Aborted transactions are given by their
/// producer ids and first offsets. A batch may begin before the offset.
pub(super) fn visible(bytes: Bytes, mut to_come: Vec<(i64, i64)>, offset: &mut i64) -> Vec<Batch> {
    to_come.sort_by_key(|(_, first_offset)| *first_offset);
    let mut to_come = to_come.into_iter().peekable();
    let mut aborted = BTreeSet::new();
    let is_visible = |aborted: &BTreeSet<i64>, batch: &Batch| {
        !batch.header.attributes.is_transactional() || !aborted.contains(&batch.header.producer_id)
    };
    let mut read = Vec::new();
    // The last one may be cut off.
    for batch in Batches::new(bytes).map_while(Result::ok) {
        while let Some((producer_id, _)) = to_come.next_if(|(_, first)| *first <= batch.header.last_offset()) {
            aborted.insert(producer_id);
        }
        *offset = batch.header.next_offset();
        match marker_of(&batch) {
            Some(marker) if !marker.is_commit => _ = aborted.remove(&batch.header.producer_id),
            Some(_) => {}
            None if is_visible(&aborted, &batch) => read.push(batch),
            None => {}
        }
    }
    read
}

/// Asks now and then what a group has committed of a partition.
pub(super) async fn read_offsets(world: Arc<Mutex<World>>, offset_of: OffsetOf) {
    let mut connections = Connections::default();
    loop {
        let (rests_ms, is_stable) = {
            let mut world = world.lock();
            (50 + world.rng.below(400), world.rng.percent(60))
        };
        sleep(Duration::from_millis(rests_ms)).await;
        _ = fetch_offset(&world, &mut connections, &offset_of, None, is_stable).await;
    }
}

/// The offset that a group has committed, if there is an answer, for anybody or for a member in its epoch. It is -1 if
/// there is none.
pub(super) async fn fetch_offset(
    world: &Arc<Mutex<World>>,
    connections: &mut Connections,
    offset_of: &OffsetOf,
    member: Option<(String, i32)>,
    is_stable: bool,
) -> Option<i64> {
    let node = world.lock().leader(&(OFFSETS_TOPIC.into(), 0))?;
    let leader_epoch = world.lock().coordinator_epochs.get(&node).copied()?;
    let (group, (topic, index)) = offset_of;
    let topics = OffsetFetchRequestTopics {
        name: topic.to_string(),
        partition_indexes: vec![*index],
        ..OffsetFetchRequestTopics::default()
    };
    let (member_id, member_epoch) = member.map_or((None, -1), |(id, epoch)| (Some(id), epoch));
    let asked =
        OffsetFetchRequestGroup { group_id: group.clone(), member_id, member_epoch, topics: Some(vec![topics]) };
    let request =
        OffsetFetchRequest { groups: vec![asked], require_stable: is_stable, ..OffsetFetchRequest::default() };
    let asked_ms = now_ms();
    let answer = connections.ask(node, &request, OFFSET_FETCH_VERSION).await.ok()?;
    let answered = answer.groups.into_iter().find(|answered| answered.group_id == *group)?;
    let mut fetched = answered.topics.into_iter().flat_map(|topic| topic.partitions);
    let fetched = fetched.next().filter(|fetched| answered.error_code.is_none() && fetched.error_code.is_none())?;
    let metadata = fetched.metadata.as_deref().filter(|_| fetched.committed_offset >= 0);
    let number = metadata.map(|number| number.parse().expect("the number of a commit"));
    let offset_of = offset_of.clone();
    let event = TransactionEvent::FetchedOffset { offset_of, leader_epoch, is_stable, asked_ms, number };
    world.lock().client_events.push(ClientEvent::Transaction(event));
    Some(fetched.committed_offset)
}
