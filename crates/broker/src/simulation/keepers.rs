//! Who keeps a compacted topic: producers that write records with keys, and tombstones, in transactions of which they
//! abort and abandon some; and a reader who reads all that is committed, from the beginning on, again and again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use platform::simulation::START_WALL_MS;
use tokio::time::sleep;
use wire::batch::{Batch, BatchBuilder};
use wire::record::RecordReader;

use super::clients::{ClientEvent, Connections, World};
use super::committed_readers::fetch_committed;
use super::key_ledger::{Found, KeyEvent, KeyRecord};
use super::ledger::TopicPartition;
use super::time::now_ms;
use super::topics::BALANCES;
use super::transactional_producer::{Failure, TransactionalProducer};

const NAME: &str = "keeper";
/// How many keys each has.
const KEYS: u64 = 4;
const STEPS_MAX: u64 = 3;
const REST_MAX_MS: u64 = 250;
/// How long it rests between two steps of a transaction at most, so that segments end within.
const STEP_REST_MAX_MS: u64 = 200;
/// How long a dead one stays away at most.
const AWAY_MAX_MS: u64 = 2000;
const READER_RESTS_MAX_MS: u64 = 1500;
const DIES_PERCENT: u64 = 4;
const ABORTS_PERCENT: u64 = 35;
const TOMBSTONES_PERCENT: u64 = 15;

fn balances() -> TopicPartition {
    (BALANCES.into(), 0)
}

/// One transactional id, and the producers that have it one after the other. Nobody else writes to its keys.
pub(super) async fn keep(world: Arc<Mutex<World>>, number: usize) {
    loop {
        let mut producer = TransactionalProducer::new(&world, NAME, number);
        _ = live(&world, &mut producer, number).await;
        let away_ms = {
            let mut world = world.lock();
            if world.stops {
                world.transacting -= 1;
                return;
            }
            world.rng.below(AWAY_MAX_MS)
        };
        sleep(Duration::from_millis(away_ms)).await;
    }
}

async fn live(world: &Arc<Mutex<World>>, producer: &mut TransactionalProducer, number: usize) -> Result<(), Failure> {
    producer.initialize().await?;
    while !world.lock().stops {
        let transaction = producer.begin();
        let written = write(world, producer, transaction, number).await;
        let (dies, aborts, rests_ms) = {
            let rng = &mut world.lock().rng;
            (rng.percent(DIES_PERCENT), rng.percent(ABORTS_PERCENT), rng.below(REST_MAX_MS))
        };
        if written == Err(Failure::Fatal) || dies {
            return Err(Failure::Fatal);
        }
        producer.end(transaction, written.is_ok() && !aborts).await?;
        producer.renew(written).await?;
        sleep(Duration::from_millis(rests_ms)).await;
    }
    Ok(())
}

async fn write(
    world: &Arc<Mutex<World>>,
    producer: &mut TransactionalProducer,
    transaction: u64,
    number: usize,
) -> Result<(), Failure> {
    let steps = 1 + world.lock().rng.below(STEPS_MAX);
    for _ in 0..steps {
        let (records, rests_ms) = {
            let mut world = world.lock();
            let numbers = world.next_values();
            let record = |number_of_record| KeyRecord {
                key: number as u64 * KEYS + world.rng.below(KEYS),
                number: number_of_record,
                is_tombstone: world.rng.percent(TOMBSTONES_PERCENT),
            };
            let records: Vec<KeyRecord> = numbers.into_iter().map(record).collect();
            (records, world.rng.below(STEP_REST_MAX_MS))
        };
        let event = KeyEvent::Sends { transaction, records: records.clone() };
        world.lock().client_events.push(ClientEvent::Keys(event));
        let numbers = records.iter().map(|record| record.number).collect();
        producer.produce_batch(transaction, balances(), numbers, |builder| batch(builder, &records)).await?;
        sleep(Duration::from_millis(rests_ms)).await;
    }
    Ok(())
}

fn batch(mut builder: BatchBuilder, records: &[KeyRecord]) -> Batch {
    for record in records {
        let number = record.number.to_be_bytes();
        let value = (!record.is_tombstone).then_some(&number[..]);
        builder.push(START_WALL_MS + now_ms(), Some(&record.key.to_be_bytes()), value, &[]);
    }
    builder.build()
}

/// Adds what visible batches have of each key.
pub(super) fn find(found: &mut Found, batches: &[Batch]) {
    for batch in batches {
        let section = batch.records(1 << 20).expect("the records are ours");
        for record in RecordReader::new(&batch.header, &section) {
            let record = record.expect("the records are ours");
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("it is a number"));
            found.insert(number(record.key.expect("it has a key")), (record.offset, record.value.map(number)));
        }
    }
}

/// Reads everything from the beginning on, again and again.
pub(super) async fn read_keys(world: Arc<Mutex<World>>) {
    let mut connections = Connections::default();
    loop {
        let rests_ms = world.lock().rng.below(READER_RESTS_MAX_MS);
        sleep(Duration::from_millis(rests_ms)).await;
        let (mut found, mut offset) = (Found::new(), 0);
        loop {
            let from = offset;
            match fetch_committed(&world, &mut connections, &balances(), &mut offset).await {
                Some((data, batches)) if data.error_code.is_none() => {
                    find(&mut found, &batches);
                    if offset == from || offset >= data.last_stable_offset {
                        break;
                    }
                }
                // It is found where it was before.
                _ => {
                    offset = from;
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        world.lock().client_events.push(ClientEvent::Keys(KeyEvent::Reads { end_offset: offset, found }));
    }
}
