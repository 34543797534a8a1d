//! Who reads what transactions have made: consumers of committed records, which leave out what was aborted as Java's
//! does (`CompletedFetch`), and readers of the offsets that groups have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

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
use super::transaction_ledger::TransactionEvent;

const READ_COMMITTED: i8 = 1;

/// A consumer of the committed records of one partition, which begins anew now and then.
pub(super) async fn consume_committed(world: Arc<Mutex<World>>, topic_partition: TopicPartition) {
    let mut connections = Connections::default();
    let mut offset = 0;
    loop {
        let (rests_ms, begins_anew, leader, topic_id) = {
            let mut world = world.lock();
            let topic_id = world.newest.topic(&topic_partition.0).map(|topic| topic.id).unwrap_or_default();
            (20 + world.rng.below(200), world.rng.percent(3), world.leader(&topic_partition), topic_id)
        };
        sleep(Duration::from_millis(rests_ms)).await;
        let Some(node) = leader else { continue };
        if begins_anew {
            offset = world.lock().rng.below(offset as u64 + 1) as i64;
        }
        let partition = FetchPartition {
            partition: topic_partition.1,
            current_leader_epoch: -1,
            fetch_offset: offset,
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
        let version = *FetchRequest::API.versions.end();
        let Ok(response) = connections.ask(node, &request, version).await else { continue };
        for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            if data.error_code == ErrorCode::OFFSET_OUT_OF_RANGE {
                offset = 0;
            }
            let (from, high_watermark) = (offset, data.high_watermark);
            let numbers = committed(data, &mut offset);
            let topic_partition = topic_partition.clone();
            let read = TransactionEvent::ReadCommitted { topic_partition, from, to: offset, high_watermark, numbers };
            if offset > from {
                world.lock().client_events.push(ClientEvent::Transaction(read));
            }
        }
    }
}

/// What a consumer makes of what it has fetched from an offset on, which it moves.
fn committed(data: PartitionData, offset: &mut i64) -> Vec<(i64, u64)> {
    let from = *offset;
    let Some(Records::Inline(bytes)) = data.records.filter(|_| data.error_code.is_none()) else { return Vec::new() };
    let mut to_come: Vec<_> = data.aborted_transactions.expect("it reads committed records");
    to_come.sort_by_key(|aborted| aborted.first_offset);
    let mut to_come = to_come.into_iter().peekable();
    let mut aborted = BTreeSet::new();
    let is_visible = |aborted: &BTreeSet<i64>, batch: &Batch| {
        !batch.header.attributes.is_transactional() || !aborted.contains(&batch.header.producer_id)
    };
    let mut read = Vec::new();
    // The last one may be cut off.
    for batch in Batches::new(bytes).map_while(Result::ok) {
        while let Some(next) = to_come.next_if(|next| next.first_offset <= batch.header.last_offset()) {
            aborted.insert(next.producer_id);
        }
        match marker_of(&batch) {
            Some(marker) if !marker.is_commit => _ = aborted.remove(&batch.header.producer_id),
            Some(_) => {}
            None if is_visible(&aborted, &batch) => {
                read.extend(values(&batch).into_iter().filter(|(offset, _)| *offset >= from));
            }
            None => {}
        }
        *offset = batch.header.next_offset();
    }
    read
}

/// Asks now and then what a group has committed of a partition.
pub(super) async fn read_offsets(world: Arc<Mutex<World>>, group: String, topic_partition: TopicPartition) {
    let mut connections = Connections::default();
    loop {
        let (rests_ms, is_stable, coordinator) = {
            let mut world = world.lock();
            (50 + world.rng.below(400), world.rng.percent(60), world.leader(&(OFFSETS_TOPIC.into(), 0)))
        };
        sleep(Duration::from_millis(rests_ms)).await;
        let Some(node) = coordinator else { continue };
        let Some(leader_epoch) = world.lock().coordinator_epochs.get(&node).copied() else { continue };
        let topic = OffsetFetchRequestTopics {
            name: topic_partition.0.to_string(),
            partition_indexes: vec![topic_partition.1],
            ..OffsetFetchRequestTopics::default()
        };
        let asked = OffsetFetchRequestGroup {
            group_id: group.clone(),
            topics: Some(vec![topic]),
            ..OffsetFetchRequestGroup::default()
        };
        let request =
            OffsetFetchRequest { groups: vec![asked], require_stable: is_stable, ..OffsetFetchRequest::default() };
        let asked_ms = now_ms();
        let Ok(answer) = connections.ask(node, &request, OFFSET_FETCH_VERSION).await else { continue };
        let answered: BTreeMap<_, _> = answer.groups.iter().map(|group| (&group.group_id, group)).collect();
        let Some(answered) = answered.get(&group).filter(|group| group.error_code.is_none()) else { continue };
        let fetched = answered.topics.iter().flat_map(|topic| &topic.partitions);
        for fetched in fetched.filter(|fetched| fetched.error_code.is_none()) {
            let metadata = fetched.metadata.as_deref().filter(|_| fetched.committed_offset >= 0);
            let number = metadata.map(|number| number.parse().expect("the number of a commit"));
            let group = group.clone();
            let event = TransactionEvent::FetchedOffset { group, leader_epoch, is_stable, asked_ms, number };
            world.lock().client_events.push(ClientEvent::Transaction(event));
        }
    }
}
