//! Clients with transactions: they abort some and abandon others, die and come again, and find that another one has
//! taken their transactional id.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::clients::World;
use super::ledger::TopicPartition;
use super::transactional_producer::{Failure, SentOffset, TransactionalProducer};

/// How long a dead producer stays away at most.
const AWAY_MAX_MS: u64 = 3000;
const STEPS_MAX: u64 = 4;
/// How often something happens to a producer in its transaction.
const DIES_PERCENT: u64 = 4;
const IS_SUCCEEDED_PERCENT: u64 = 3;
const ABORTS_PERCENT: u64 = 25;
const COMMITS_OFFSET_PERCENT: u64 = 30;
const NAME: &str = "writer";

/// The group whose offsets a client commits.
pub(super) fn group_of(number: usize) -> String {
    format!("{NAME}-{number}")
}

struct TransactionalClient {
    world: Arc<Mutex<World>>,
    producer: TransactionalProducer,
    number: usize,
    topics: Vec<TopicPartition>,
    /// Another has taken the transactional id, or is about to.
    is_succeeded: bool,
}

/// One transactional id, and the clients that have it one after the other.
pub(super) async fn transact(world: Arc<Mutex<World>>, number: usize, topics: Vec<TopicPartition>) {
    loop {
        let producer = TransactionalProducer::new(&world, NAME, number);
        let (world, topics) = (Arc::clone(&world), topics.clone());
        let mut client = TransactionalClient { world, producer, number, topics, is_succeeded: false };
        _ = client.live().await;
        let TransactionalClient { world, is_succeeded, .. } = client;
        let is_over = is_succeeded || world.lock().stops;
        if is_over {
            world.lock().transacting -= 1;
            return;
        }
        let away_ms = world.lock().rng.below(AWAY_MAX_MS);
        sleep(Duration::from_millis(away_ms)).await;
    }
}

impl TransactionalClient {
    fn roll(&self, percent: u64) -> bool {
        self.world.lock().rng.percent(percent)
    }

    async fn live(&mut self) -> Result<(), Failure> {
        self.producer.initialize().await?;
        while !self.world.lock().stops {
            self.transaction().await?;
            let rests_ms = self.world.lock().rng.below(150);
            sleep(Duration::from_millis(rests_ms)).await;
        }
        Ok(())
    }

    async fn transaction(&mut self) -> Result<(), Failure> {
        let transaction = self.producer.begin();
        let written = self.write(transaction).await;
        if written == Err(Failure::Fatal) || self.roll(DIES_PERCENT) {
            return Err(Failure::Fatal);
        }
        if !self.is_succeeded && self.roll(IS_SUCCEEDED_PERCENT) {
            self.is_succeeded = true;
            self.world.lock().transacting += 1;
            tokio::spawn(transact_boxed(Arc::clone(&self.world), self.number, self.topics.clone()));
        }
        let is_commit = written.is_ok() && !self.roll(ABORTS_PERCENT);
        self.producer.end(transaction, is_commit).await?;
        self.producer.renew(written).await
    }

    async fn write(&mut self, transaction: u64) -> Result<(), Failure> {
        let steps = 1 + self.world.lock().rng.below(STEPS_MAX);
        for _ in 0..steps {
            let (at, values) = {
                let mut world = self.world.lock();
                (world.rng.below(self.topics.len() as u64) as usize, world.next_values())
            };
            self.producer.produce(transaction, self.topics[at].clone(), values).await?;
        }
        if self.roll(COMMITS_OFFSET_PERCENT) {
            let number = self.world.lock().next_value();
            let (group, topic_partition) = (group_of(self.number), self.topics[0].clone());
            let sent = SentOffset { group, member: None, topic_partition, offset: number as i64, number };
            self.producer.commit_offset(transaction, sent).await?;
        }
        Ok(())
    }
}

/// A client that has the same transactional id as the one that is about to find out.
fn transact_boxed(
    world: Arc<Mutex<World>>,
    number: usize,
    topics: Vec<TopicPartition>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(transact(world, number, topics))
}
