//! Producers and consumers, which use connections to servers. They know leaders as the newest metadata has them, or
//! sometimes not, and retry as real clients do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::{Connection, ConnectionConfig, ConnectionError, Security, SecurityConfig};
use coordinator::group::OFFSETS_TOPIC;
use metadata::{MetadataImage, NO_LEADER};
use parking_lot::Mutex;
use platform::simulation::START_WALL_MS;
use storage::simdisk::Rng;
use tokio::time::sleep;
use wire::api::Request;
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::offset_commit::{OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use wire::api::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::batch::{Batch, BatchBuilder, Batches};
use wire::{ErrorCode, Records};

use super::group_ledger::{GroupEvent, Owned};
use super::key_ledger::KeyEvent;
use super::ledger::TopicPartition;
use super::sockets::address_of;
use super::time::now_ms;
use super::transaction_ledger::TransactionEvent;
use super::{CLIENT_PORT, JAAS_CONFIG};
use crate::stream;

/// How long a client waits for an answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_millis(1000);
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(50);
const RECORDS_MAX: u64 = 3;
/// Versions that name topics.
const OFFSET_COMMIT_VERSION: i16 = 9;
pub(super) const OFFSET_FETCH_VERSION: i16 = 9;
const GROUP: &str = "readers";

/// The answers that clients got.
pub(super) enum ClientEvent {
    Acknowledged {
        topic_partition: TopicPartition,
        node: i32,
        base_offset: i64,
        values: Vec<u64>,
    },
    /// An error that reaches an application.
    Failed {
        topic_partition: TopicPartition,
        node: i32,
        sequence: i32,
        code: ErrorCode,
    },
    Read {
        topic_partition: TopicPartition,
        batch: Batch,
    },
    Committed {
        topic_partition: TopicPartition,
        node: i32,
        number: u64,
    },
    /// The coordinator had at least this epoch.
    FetchedOffset {
        topic_partition: TopicPartition,
        leader_epoch: i32,
        number: Option<u64>,
    },
    Transaction(TransactionEvent),
    Group(GroupEvent),
    Keys(KeyEvent),
}

/// What all clients share with the simulation.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) newest: Arc<MetadataImage>,
    /// The epoch of the groups' partition on each node that leads it.
    pub(super) coordinator_epochs: BTreeMap<i32, i32>,
    nodes: i32,
    last_value: u64,
    last_transaction: u64,
    /// Transactional producers that have not come to their end.
    pub(super) transacting: usize,
    /// Copiers that have not, and whether there is nothing more to copy for them.
    pub(super) copying: usize,
    pub(super) is_copied: bool,
    /// Members of groups: the epoch of each, and what it has.
    pub(super) members: BTreeMap<String, (i32, Owned)>,
    /// Nothing goes wrong any more.
    pub(super) is_calm: bool,
    pub(super) stops: bool,
    pub(super) client_events: Vec<ClientEvent>,
    /// By producer: how many of its batches are acknowledged, and whether it has come to its end.
    pub(super) acknowledged: Vec<u64>,
    pub(super) is_done: Vec<bool>,
}

impl World {
    pub(super) fn new(rng: Rng, nodes: i32) -> Self {
        Self {
            rng,
            newest: Arc::default(),
            coordinator_epochs: BTreeMap::new(),
            nodes,
            last_value: 0,
            last_transaction: 0,
            transacting: 0,
            copying: 0,
            is_copied: false,
            members: BTreeMap::new(),
            is_calm: false,
            stops: false,
            client_events: Vec::new(),
            acknowledged: Vec::new(),
            is_done: Vec::new(),
        }
    }

    /// Whether all producers have come to their end.
    pub(super) fn is_over(&self) -> bool {
        self.transacting == 0 && self.copying == 0 && self.is_done.iter().all(|is_done| *is_done)
    }

    /// The node that a client takes for the leader.
    pub(super) fn leader(&mut self, topic_partition: &TopicPartition) -> Option<i32> {
        if self.rng.percent(10) {
            return Some(self.rng.below(self.nodes as u64) as i32);
        }
        let leader = self.newest.topic(&topic_partition.0)?.partition(topic_partition.1)?.leader;
        (leader != NO_LEADER).then_some(leader)
    }

    /// A number that nothing else has.
    pub(super) fn next_value(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }

    pub(super) fn next_transaction(&mut self) -> u64 {
        self.last_transaction += 1;
        self.last_transaction
    }

    /// New values for a batch.
    pub(super) fn next_values(&mut self) -> Vec<u64> {
        let count = 1 + self.rng.below(RECORDS_MAX);
        (0..count).map(|_| self.next_value()).collect()
    }

    /// New values in a batch.
    fn batch(&mut self, builder: BatchBuilder) -> (Batch, Vec<u64>) {
        let values = self.next_values();
        (filled(builder, &values), values)
    }
}

/// Values in a batch, with the right time.
pub(super) fn filled(mut builder: BatchBuilder, values: &[u64]) -> Batch {
    for value in values {
        builder.push(START_WALL_MS + now_ms(), None, Some(&value.to_be_bytes()), &[]);
    }
    builder.build()
}

/// A client's connections, one to each node that it uses.
#[derive(Default)]
pub(super) struct Connections(BTreeMap<i32, Connection>);

/// Who clients are.
fn security() -> Security {
    let mut security = SecurityConfig::default();
    for (name, value) in
        [("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", JAAS_CONFIG)]
    {
        security.set(name, value).expect("the setting is valid");
    }
    security.load().expect("the settings are valid")
}

impl Connections {
    async fn connection(&mut self, node: i32) -> Result<Connection, ConnectionError> {
        if let Some(connection) = self.0.get(&node).filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        let config = ConnectionConfig {
            connect_timeout: ANSWER_TIMEOUT,
            request_timeout: ANSWER_TIMEOUT,
            security: security(),
            ..ConnectionConfig::default()
        };
        let connection = stream::connect(&address_of(node, CLIENT_PORT).to_string(), &config).await?;
        self.0.insert(node, connection.clone());
        Ok(connection)
    }

    pub(super) async fn ask<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ConnectionError> {
        self.connection(node).await?.start_as(request, version, ANSWER_TIMEOUT)?.await
    }
}

/// A client of one partition.
struct Client {
    world: Arc<Mutex<World>>,
    topic_partition: TopicPartition,
    connections: Connections,
}

impl Client {
    fn new(world: &Arc<Mutex<World>>, topic_partition: &TopicPartition) -> Self {
        let (world, topic_partition) = (Arc::clone(world), topic_partition.clone());
        Self { world, topic_partition, connections: Connections::default() }
    }

    fn produce_request(&self, batch: &Batch, acks: i16) -> ProduceRequest {
        let topic_id =
            self.world.lock().newest.topic(&self.topic_partition.0).map(|topic| topic.id).unwrap_or_default();
        let records = Some(Records::Inline(batch.bytes.clone()));
        ProduceRequest {
            acks,
            timeout_ms: ANSWER_TIMEOUT.as_millis() as i32,
            topic_data: vec![TopicProduceData {
                name: self.topic_partition.0.to_string(),
                topic_id,
                partition_data: vec![PartitionProduceData { index: self.topic_partition.1, records }],
            }],
            ..ProduceRequest::default()
        }
    }

    /// Produces a batch, and returns its offset if there is an answer.
    async fn produce(&mut self, node: i32, batch: &Batch, acks: i16) -> Option<Result<i64, ErrorCode>> {
        let (request, version) = (self.produce_request(batch, acks), *ProduceRequest::API.versions.end());
        if acks == 0 {
            _ = self.connections.connection(node).await.ok()?.post(&request, version);
            return None;
        }
        let answer = self.connections.ask(node, &request, version).await.ok()?;
        let answer = answer.responses.first()?.partition_responses.first()?.clone();
        Some(if answer.error_code.is_none() { Ok(answer.base_offset) } else { Err(answer.error_code) })
    }

    fn acknowledged(&self, node: i32, base_offset: i64, values: &[u64]) {
        let (topic_partition, values) = (self.topic_partition.clone(), values.to_vec());
        self.world.lock().client_events.push(ClientEvent::Acknowledged { topic_partition, node, base_offset, values });
    }
}

/// Of the first producer without transactions: beyond all that brokers give out, however often they ask for a block.
const PRODUCER_ID: i64 = 1 << 40;

/// An idempotent producer for one partition, with one batch under way that it repeats until it is acknowledged.
pub(super) async fn produce(world: Arc<Mutex<World>>, topic_partition: TopicPartition, number: usize, rests_ms: u64) {
    let mut client = Client::new(&world, &topic_partition);
    let mut sequence = 0;
    loop {
        if world.lock().stops {
            world.lock().is_done[number] = true;
            return;
        }
        let builder = BatchBuilder::new().producer(PRODUCER_ID + number as i64, 0, sequence);
        let (batch, values) = world.lock().batch(builder);
        loop {
            let leader = world.lock().leader(&topic_partition);
            let Some(node) = leader else {
                sleep(RETRY_INTERVAL).await;
                continue;
            };
            match client.produce(node, &batch, -1).await {
                Some(Ok(base_offset)) => {
                    client.acknowledged(node, base_offset, &values);
                    break;
                }
                Some(Err(
                    code @ (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
                    | ErrorCode::INVALID_PRODUCER_EPOCH
                    | ErrorCode::UNKNOWN_SERVER_ERROR),
                )) => {
                    world.lock().client_events.push(ClientEvent::Failed {
                        topic_partition: topic_partition.clone(),
                        node,
                        sequence,
                        code,
                    });
                    sleep(RETRY_INTERVAL).await;
                }
                _ => sleep(RETRY_INTERVAL).await,
            }
        }
        sequence += values.len() as i32;
        let rests_ms = {
            let mut world = world.lock();
            world.acknowledged[number] += 1;
            world.rng.below(rests_ms)
        };
        sleep(Duration::from_millis(rests_ms)).await;
    }
}

/// A producer that sends records once, with `acks=0` or by the answer.
pub(super) async fn produce_once(world: Arc<Mutex<World>>, topic_partition: TopicPartition) {
    let mut client = Client::new(&world, &topic_partition);
    loop {
        let (rests_ms, acks) = {
            let mut world = world.lock();
            if world.stops {
                return;
            }
            (world.rng.below(1000), [-1, 1, 0][world.rng.below(3) as usize])
        };
        sleep(Duration::from_millis(rests_ms)).await;
        let leader = world.lock().leader(&topic_partition);
        let Some(node) = leader else { continue };
        let (batch, values) = world.lock().batch(BatchBuilder::new());
        if let (Some(Ok(base_offset)), -1) = (client.produce(node, &batch, acks).await, acks) {
            client.acknowledged(node, base_offset, &values);
        }
    }
}

/// A consumer of one partition, which commits how far it has got.
pub(super) async fn consume(world: Arc<Mutex<World>>, topic_partition: TopicPartition) {
    let mut client = Client::new(&world, &topic_partition);
    let mut offset = 0;
    loop {
        let (rests_ms, commits, leader) = {
            let mut world = world.lock();
            (20 + world.rng.below(200), world.rng.percent(30), world.leader(&topic_partition))
        };
        sleep(Duration::from_millis(rests_ms)).await;
        let Some(node) = leader else { continue };
        client.fetch(node, &mut offset).await;
        if commits && !world.lock().stops {
            client.commit(offset).await;
        }
    }
}

impl Client {
    async fn fetch(&mut self, node: i32, offset: &mut i64) {
        let Some(topic_id) = self.world.lock().newest.topic(&self.topic_partition.0).map(|topic| topic.id) else {
            return;
        };
        let partition = FetchPartition {
            partition: self.topic_partition.1,
            current_leader_epoch: -1,
            fetch_offset: *offset,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 1000,
            ..FetchPartition::default()
        };
        let request = FetchRequest {
            max_bytes: 10_000,
            max_wait_ms: 100,
            min_bytes: 1,
            session_epoch: -1,
            topics: vec![FetchTopic { topic_id, partitions: vec![partition], ..FetchTopic::default() }],
            ..FetchRequest::default()
        };
        let Ok(response) = self.connections.ask(node, &request, *FetchRequest::API.versions.end()).await else {
            return;
        };
        for data in response.responses.into_iter().flat_map(|topic| topic.partitions) {
            match data.error_code {
                ErrorCode::NONE => {}
                ErrorCode::OFFSET_OUT_OF_RANGE => *offset = 0.max(data.log_start_offset),
                _ => continue,
            }
            let Some(Records::Inline(bytes)) = data.records else { continue };
            // The last one may be cut off.
            for batch in Batches::new(bytes).map_while(Result::ok) {
                *offset = batch.header.next_offset();
                self.world
                    .lock()
                    .client_events
                    .push(ClientEvent::Read { topic_partition: self.topic_partition.clone(), batch });
            }
        }
    }

    async fn commit(&mut self, offset: i64) {
        let (number, coordinator) = {
            let mut world = self.world.lock();
            (world.next_value(), world.leader(&(OFFSETS_TOPIC.into(), 0)))
        };
        let Some(node) = coordinator else { return };
        let partition = OffsetCommitRequestPartition {
            partition_index: self.topic_partition.1,
            committed_offset: offset,
            committed_metadata: Some(number.to_string()),
            ..OffsetCommitRequestPartition::default()
        };
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            topics: vec![OffsetCommitRequestTopic {
                name: self.topic_partition.0.to_string(),
                partitions: vec![partition],
                ..OffsetCommitRequestTopic::default()
            }],
            ..OffsetCommitRequest::default()
        };
        if let Ok(answer) = self.connections.ask(node, &request, OFFSET_COMMIT_VERSION).await
            && answer.topics.iter().flat_map(|topic| &topic.partitions).all(|partition| partition.error_code.is_none())
        {
            self.world.lock().client_events.push(ClientEvent::Committed {
                topic_partition: self.topic_partition.clone(),
                node,
                number,
            });
        }
        self.fetch_offset(node).await;
    }

    async fn fetch_offset(&mut self, node: i32) {
        let Some(leader_epoch) = self.world.lock().coordinator_epochs.get(&node).copied() else { return };
        let topic = OffsetFetchRequestTopics {
            name: self.topic_partition.0.to_string(),
            partition_indexes: vec![self.topic_partition.1],
            ..OffsetFetchRequestTopics::default()
        };
        let group = OffsetFetchRequestGroup {
            group_id: GROUP.to_owned(),
            topics: Some(vec![topic]),
            ..OffsetFetchRequestGroup::default()
        };
        let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
        let Ok(answer) = self.connections.ask(node, &request, OFFSET_FETCH_VERSION).await else { return };
        for group in answer.groups.iter().filter(|group| group.error_code.is_none()) {
            for fetched in group.topics.iter().flat_map(|topic| &topic.partitions) {
                if !fetched.error_code.is_none() {
                    continue;
                }
                let metadata = fetched.metadata.as_deref().filter(|_| fetched.committed_offset >= 0);
                let number = metadata.map(|number| number.parse().expect("the number of a commit"));
                let topic_partition = self.topic_partition.clone();
                self.world.lock().client_events.push(ClientEvent::FetchedOffset {
                    topic_partition,
                    leader_epoch,
                    number,
                });
            }
        }
    }
}
