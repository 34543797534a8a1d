//! Consumers that copy (KIP-447): members of one group, which read committed records of their partitions, write one
//! record for each to another topic, and commit how far they got in the same transaction.
//!
//! They fall silent until they are fenced, leave, die, and find that another has taken their transactional id.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use wire::Uuid;

use super::clients::{ClientEvent, World};
use super::committed_readers::{fetch_offset, read_committed};
use super::group_ledger::{Attempt, GroupEvent};
use super::group_members::Member;
use super::ledger::TopicPartition;
use super::topics::{COPIES, SOURCES};
use super::transaction_ledger::TransactionEvent;
use super::transactional_producer::{Failure, SentOffset, TransactionalProducer};

pub(super) const COPYING_GROUP: &str = "copiers";
const NAME: &str = "copier";
/// How long it rests after it has looked at all its partitions.
const REST_MIN_MS: u64 = 100;
const REST_MAX_MS: u64 = 400;
/// How long one that is gone stays away at most.
const AWAY_MAX_MS: u64 = 2000;
/// How long a silent one is silent, which may be longer than its session.
const SILENT_MIN_MS: u64 = 500;
const SILENT_MAX_MS: u64 = 5000;
/// How often something happens to a copier, in its transaction or between two.
const DIES_PERCENT: u64 = 2;
const IS_SUCCEEDED_PERCENT: u64 = 2;
const IS_SILENT_PERCENT: u64 = 4;
const LEAVES_PERCENT: u64 = 2;
const ABORTS_PERCENT: u64 = 15;

struct Copier {
    world: Arc<Mutex<World>>,
    producer: TransactionalProducer,
    member: Member,
    number: usize,
    /// From where it goes on, in partitions that it has.
    positions: BTreeMap<(Uuid, i32), i64>,
    /// Another has taken the transactional id, or is about to.
    is_succeeded: bool,
}

/// One transactional id, and the copiers that have it one after the other.
pub(super) async fn copy(world: Arc<Mutex<World>>, number: usize) {
    loop {
        let mut copier = Copier {
            producer: TransactionalProducer::new(&world, NAME, number),
            member: Member::new(&world, COPYING_GROUP, SOURCES),
            world: Arc::clone(&world),
            number,
            positions: BTreeMap::new(),
            is_succeeded: false,
        };
        _ = copier.live().await;
        let away_ms = {
            let mut world = world.lock();
            if copier.is_succeeded || world.is_copied {
                world.copying -= 1;
                return;
            }
            world.rng.below(AWAY_MAX_MS)
        };
        drop(copier);
        sleep(Duration::from_millis(away_ms)).await;
    }
}

/// One that has the same transactional id as the one that is about to find out.
fn copy_boxed(world: Arc<Mutex<World>>, number: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(copy(world, number))
}

impl Copier {
    /// Whether something happens, while things go wrong.
    fn suffers(&self, percent: u64) -> bool {
        let mut world = self.world.lock();
        !world.is_calm && world.rng.percent(percent)
    }

    async fn may_be_silent(&self) {
        if self.suffers(IS_SILENT_PERCENT) {
            let for_ms = SILENT_MIN_MS + self.world.lock().rng.below(SILENT_MAX_MS - SILENT_MIN_MS);
            sleep(Duration::from_millis(for_ms)).await;
        }
    }

    async fn live(&mut self) -> Result<(), Failure> {
        self.producer.initialize().await?;
        while !self.world.lock().is_copied {
            self.may_be_silent().await;
            if self.suffers(LEAVES_PERCENT) {
                self.member.leave().await;
            }
            self.member.heartbeat().await;
            self.positions.retain(|partition, _| self.member.owned.contains(partition));
            for partition in self.member.owned.clone() {
                self.copy_from(partition).await?;
            }
            let rest_ms = REST_MIN_MS + self.world.lock().rng.below(REST_MAX_MS - REST_MIN_MS);
            sleep(Duration::from_millis(rest_ms)).await;
        }
        Ok(())
    }

    /// Copies what there is in a partition, from where the group is on.
    async fn copy_from(&mut self, partition: (Uuid, i32)) -> Result<(), Failure> {
        let topic = self.world.lock().newest.topic_by_id(partition.0).map(|topic| Arc::from(&*topic.name));
        let Some(topic) = topic else { return Ok(()) };
        let source: TopicPartition = (topic, partition.1);
        let position = match self.positions.get(&partition) {
            Some(position) => *position,
            None => {
                let offset_of = (COPYING_GROUP.to_owned(), source.clone());
                let member = Some((self.member.id.clone(), self.member.epoch));
                let fetched = fetch_offset(&self.world, &mut self.producer.connections, &offset_of, member, true);
                let Some(offset) = fetched.await else { return Ok(()) };
                offset.max(0)
            }
        };
        let mut next = position;
        let read = read_committed(&self.world, &mut self.producer.connections, &source, &mut next).await;
        self.positions.insert(partition, position.max(next));
        if read.is_empty() {
            return Ok(());
        }
        let is_committed = self.copy_records(partition, source, read, next).await?;
        if !is_committed {
            self.positions.clear();
        }
        Ok(())
    }

    /// Copies records in a transaction. Returns whether it is committed.
    async fn copy_records(
        &mut self,
        partition: (Uuid, i32),
        source: TopicPartition,
        read: Vec<(i64, u64)>,
        next: i64,
    ) -> Result<bool, Failure> {
        let transaction = self.producer.begin();
        let written = self.write(transaction, partition, source, read, next).await;
        if written == Err(Failure::Fatal) || self.suffers(DIES_PERCENT) {
            return Err(Failure::Fatal);
        }
        if !self.is_succeeded && self.suffers(IS_SUCCEEDED_PERCENT) {
            self.is_succeeded = true;
            self.world.lock().copying += 1;
            tokio::spawn(copy_boxed(Arc::clone(&self.world), self.number));
        }
        let is_commit = written.is_ok() && !self.world.lock().rng.percent(ABORTS_PERCENT);
        self.producer.end(transaction, is_commit).await?;
        self.producer.renew(written).await?;
        Ok(is_commit)
    }

    async fn write(
        &mut self,
        transaction: u64,
        partition: (Uuid, i32),
        source: TopicPartition,
        read: Vec<(i64, u64)>,
        next: i64,
    ) -> Result<(), Failure> {
        let (copies, values, sent) = {
            let mut world = self.world.lock();
            let copies: Vec<(u64, u64)> = read.into_iter().map(|(_, number)| (world.next_value(), number)).collect();
            let values = copies.iter().map(|(copy, _)| *copy).collect();
            let (number, group) = (world.next_value(), COPYING_GROUP.to_owned());
            let (id, epoch) = (self.member.id.clone(), self.member.epoch);
            let attempt = Attempt { group: group.clone(), member: id.clone(), epoch, partition };
            world.client_events.push(ClientEvent::Group(GroupEvent::Commits { number, attempt }));
            let member = Some((id, epoch));
            (copies, values, SentOffset { group, member, topic_partition: source, offset: next, number })
        };
        let event = TransactionEvent::Copies { transaction, copies };
        self.world.lock().client_events.push(ClientEvent::Transaction(event));
        self.producer.produce(transaction, (COPIES.into(), 0), values).await?;
        self.may_be_silent().await;
        self.producer.commit_offset(transaction, sent).await
    }
}
