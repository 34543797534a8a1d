//! For how long acknowledged bytes have been in the journal only.

use std::path::PathBuf;
use std::sync::Arc;

use configuration::{BrokerConfig, ConfigMap, TopicConfig};
use platform::simulation::SimClock;
use storage::journal::{Journal, JournalLimits, Known};
use storage::{Disk, Log, SimDisk};
use wire::Uuid;
use wire::batch::BatchBuilder;

use super::*;

const DATA_DIR: &str = "/data";
const LIMITS: JournalLimits = JournalLimits { bytes: 1 << 20, bypass_bytes: 10_000 };

/// A partition of a broker with a journal.
fn journaled_partition(disk: &SimDisk, clock: &SimClock) -> Arc<Partition> {
    let env = Env { disk: Arc::new(disk.clone()), clock: Arc::new(clock.clone()), ..Env::real() };
    let config = BrokerConfig::default();
    let topic = TopicConfig::resolve(&config, &ConfigMap::new()).expect("the defaults are in order");
    let settings = Arc::new(Settings::new(&topic, &config));
    let dir = PathBuf::from(DATA_DIR);
    disk.create_dir_all(&dir).expect("an empty disk");
    let opened = Journal::open(env.disk.clone(), dir.clone(), Uuid([9; 16]), 1, LIMITS, &|_| Known::default());
    let (journal, _) = opened.expect("there was none");
    journal.make_file().expect("there is room");
    let syncer = Syncer::idle();
    syncer.set_journal(Arc::new(journal));
    let (log, _) = Log::create(env.disk.clone(), dir.join("t-0"), settings.log.clone(), Uuid([1; 16]), env.clock.now())
        .expect("an empty disk");
    let identity = Identity { topic: "t".into(), topic_id: Uuid([1; 16]), index: 0, traffic: Arc::default() };
    let partition = Partition::new(identity, log, 0, settings, Shared::new(env, 1, 30_000, syncer));
    let alone = metadata::Partition { replicas: vec![1], isr: vec![1], leader: 1, ..metadata::Partition::default() };
    partition.take_role(&alone, &|_| None);
    partition
}

fn produce(partition: &Arc<Partition>) {
    let mut builder = BatchBuilder::new();
    builder.push(0, None, Some(b"value"), &[]);
    let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
    partition.enqueue(builder.build(), Acks::All, &completion, 0, &mut commits);
    commits.commit();
    partition.shared.syncer.run_pending();
    assert_eq!(partition.view.durable_offset(), partition.view.log_end_offset());
}

#[test]
fn the_age_is_that_of_the_oldest_until_a_sync_of_the_segment_is_over() {
    let (disk, clock) = (SimDisk::new(1), SimClock::default());
    clock.pass(1_000_000);
    let partition = journaled_partition(&disk, &clock);
    produce(&partition);
    assert_eq!((partition.view.synced_offset(), partition.journaled_for_ms()), (0, 0));
    clock.pass(1500);
    produce(&partition);
    assert_eq!(partition.journaled_for_ms(), 1500);
    partition.request_background_sync();
    disk.set_hangs(true);
    let age_ms = std::thread::scope(|scope| {
        scope.spawn(|| partition.shared.syncer.run_pending());
        while disk.waiting() == 0 {
            std::thread::yield_now();
        }
        clock.pass(1000);
        let age_ms = partition.journaled_for_ms();
        disk.set_hangs(false);
        age_ms
    });
    assert_eq!(age_ms, 2500, "it is not in the segment before that is synced");
    assert_eq!((partition.view.synced_offset(), partition.journaled_for_ms()), (2, 0));
    // The next age counts from what comes next.
    clock.pass(60_000);
    produce(&partition);
    clock.pass(300);
    assert_eq!(partition.journaled_for_ms(), 300);
}
