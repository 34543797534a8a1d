//! Whole servers in one thread: all that [`crate::Server`] starts, as it starts it, on machines whose time, disks and
//! network are simulated. Clients use connections to them.
//!
//! Each process has a runtime of its own with a paused clock, and all are driven in turn, a few milliseconds at a time
//! ([`machine`]). Threads of a server are tasks here, which a disk keeps waiting; sockets are streams of a simulated
//! network ([`sockets`]). Nothing else is made up: nodes find each other, form a quorum, register, and end with all
//! that they have started.
//!
//! Nodes are killed, lose power, alone or all at once, start together on disks that keep them waiting, are stopped and
//! go on, lose their disks, one log or a bit of their metadata, and have slow, hanging, full or failing disks; the
//! network delays, is late, breaks connections, and is cut one way or both; wall clocks jump; partitions move. How
//! often each happens is chosen by the seed ([`faults`]). The [`ledger`] sees everything and knows what must hold.
//!
//! Some clusters have transactions: [`transactional_clients`] and [`committed_readers`] live in them, and the
//! [`transaction_ledger`] knows what must hold of what they do and read. Half of these have [`copiers`], whose
//! [`group_members`] share partitions; the [`group_ledger`] knows what must hold of their group, and the
//! [`copy_ledger`] what they have to have copied. The other half have [`keepers`], who write to a compacted topic, and
//! the [`key_ledger`] knows what it has to keep.
//!
//! [`replica`] is shared with the simulation of replication alone.

mod checks;
mod clients;
mod cluster;
mod committed_readers;
mod copiers;
mod copy_ledger;
mod fault_actions;
mod faults;
mod group_checks;
mod group_ledger;
mod group_members;
#[cfg(feature = "injected-faults")]
mod injected_faults;
mod keepers;
mod key_checks;
mod key_ledger;
mod ledger;
pub(crate) mod machine;
mod node;
pub(crate) mod replica;
pub(crate) mod sockets;
mod time;
mod topics;
mod transaction_checks;
mod transaction_history;
mod transaction_ledger;
mod transaction_states;
mod transactional_clients;
mod transactional_producer;

use platform::simulation::{run_seeds, seeds};

use self::cluster::Cluster;

const DATA_DIR: &str = "/data";
const VOTERS: i32 = 3;
const CLIENT_PORT: u16 = 9092;
const NODE_PORT: u16 = 9093;
/// Who everybody is, clients and nodes, and how that is shown.
const USER: &str = "everybody";
const JAAS_CONFIG: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"everybody\" \
                           password=\"secret\" user_everybody=\"secret\";";
/// How long things go wrong, in simulated time.
const TROUBLE_MS: i64 = 20_000;

/// What came about.
#[derive(Debug, Default)]
struct RunSummary {
    trace: u64,
    acknowledged: usize,
    committed: usize,
    leaderships: usize,
    eligible_elected: usize,
    transactions_committed: usize,
    transactions_aborted: usize,
    committed_read: usize,
    offsets_fetched: usize,
    copied: usize,
    group_epochs: usize,
    member_commits: usize,
    keys_written: usize,
    key_passes: usize,
}

fn run(seed: u64) -> RunSummary {
    live(Cluster::new(seed, (seed % 2) as i32))
}

fn run_with_transactions(seed: u64) -> RunSummary {
    live(Cluster::with_transactions(seed, (seed % 2) as i32))
}

fn live(mut cluster: Cluster) -> RunSummary {
    observe(&mut cluster, |cluster| {
        cluster.create_topics();
        let until_ms = cluster.now_ms + TROUBLE_MS;
        while cluster.now_ms < until_ms {
            let steps_per_mille = cluster.faults.steps_per_mille;
            if cluster.rng.below(1000) < steps_per_mille {
                cluster.apply_fault();
            }
            cluster.step();
        }
        cluster.heal();
    });
    RunSummary {
        trace: cluster.trace(),
        acknowledged: cluster.ledger.acknowledged,
        committed: cluster.ledger.committed,
        leaderships: cluster.ledger.leaderships,
        eligible_elected: cluster.ledger.eligible_elected,
        transactions_committed: cluster.transactions.committed,
        transactions_aborted: cluster.transactions.aborted,
        committed_read: cluster.transactions.read,
        offsets_fetched: cluster.transactions.offsets,
        copied: cluster.transactions.copies.count(),
        group_epochs: cluster.groups.epochs,
        member_commits: cluster.groups.commits,
        keys_written: cluster.keys.written,
        key_passes: cluster.keys.passes,
    }
}

/// Says what has happened where something is wrong.
fn observe(cluster: &mut Cluster, live: impl FnOnce(&mut Cluster)) {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(cluster)));
    if let Err(panic) = outcome {
        if std::env::var("PARSHALL_SEED").is_ok() {
            eprintln!("{:?}\n{}", cluster.faults, cluster.describe());
        }
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn whatever_happens_no_promise_is_broken() {
    let seeds = seeds(10);
    let count = (seeds.end - seeds.start) as usize;
    let mut all = RunSummary::default();
    for outcome in run_seeds(seeds, run) {
        all.acknowledged += outcome.acknowledged;
        all.committed += outcome.committed;
        all.leaderships += outcome.leaderships;
        all.eligible_elected += outcome.eligible_elected;
    }
    eprintln!("{count} seeds: {all:?}");
    // Enough has come about to say something. One seed alone may be a bad day.
    assert!(count == 1 || all.acknowledged > 100 * count && all.committed > 10 * count, "{all:?}");
    assert!(count == 1 || all.leaderships > 10 * count && (count < 10 || all.eligible_elected > 0), "{all:?}");
}

#[test]
fn whatever_happens_in_transactions_no_promise_is_broken() {
    let seeds = seeds(6);
    let count = (seeds.end - seeds.start) as usize;
    let mut all = RunSummary::default();
    for outcome in run_seeds(seeds, run_with_transactions) {
        all.transactions_committed += outcome.transactions_committed;
        all.transactions_aborted += outcome.transactions_aborted;
        all.committed_read += outcome.committed_read;
        all.offsets_fetched += outcome.offsets_fetched;
        all.copied += outcome.copied;
        all.group_epochs += outcome.group_epochs;
        all.member_commits += outcome.member_commits;
        all.keys_written += outcome.keys_written;
        all.key_passes += outcome.key_passes;
        all.leaderships += outcome.leaderships;
    }
    eprintln!("{count} seeds: {all:?}");
    let (committed, aborted) = (all.transactions_committed, all.transactions_aborted);
    assert!(count == 1 || committed > 20 * count && aborted > 10 * count, "{all:?}");
    assert!(count == 1 || all.committed_read > 100 * count && all.offsets_fetched > 20 * count, "{all:?}");
}

#[test]
fn a_seed_is_a_course_of_events() {
    for seed in [1, 2] {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
    assert_eq!(run_with_transactions(1).trace, run_with_transactions(1).trace);
}

/// Longer than any of these waits.
const LAG_MAX_MS: i64 = 30_000;
/// How long the others may wait for a node whose disk does not answer: until it is stalled, others have taken over, and
/// clients have found them.
const STALL_MS: i64 = 5000;

#[test]
fn a_disk_that_hangs_holds_the_others_up_for_a_moment_only() {
    let mut longest_ms = 0;
    for seed in seeds(8) {
        let mut cluster = Cluster::with_lag_max(seed, 0, LAG_MAX_MS);
        observe(&mut cluster, |cluster| {
            cluster.create_topics();
            cluster.run(3000);
            let controller = cluster.controller().expect("nothing is wrong");
            // The active controller, or another node.
            let n = (controller + seed as usize % 3) % cluster.count();
            cluster.hang(n, 15_000);
            let ms = cluster.run_until_all_progress();
            assert!(ms < STALL_MS, "seed {seed}: {ms} ms: {}", cluster.describe());
            longest_ms = longest_ms.max(ms);
            cluster.run(3000);
            cluster.heal();
        });
    }
    eprintln!("the longest: {longest_ms} ms");
}

/// Longer than a session.
const CUT_MS: i64 = 6000;

/// Has a broker miss what others decide, for at least [`CUT_MS`], and then hear of it again.
fn goes_on_with_the_metadata_of_the_meantime(misses: impl Fn(&mut Cluster, usize), hears: impl Fn(&mut Cluster)) {
    for seed in seeds(8) {
        let mut cluster = Cluster::with_lag_max(seed, 0, LAG_MAX_MS);
        observe(&mut cluster, |cluster| {
            cluster.create_topics();
            cluster.run(3000);
            let n = seed as usize % 3;
            let known = |cluster: &Cluster| {
                let of_node = cluster.brokers().find(|(node, _)| node.id == n as i32);
                of_node.expect("it runs").1.metadata.load().offset()
            };
            let before = known(cluster);
            misses(cluster, n);
            cluster.run(CUT_MS);
            assert!(!cluster.has_session(n));
            let newest = cluster.ledger.newest.offset();
            assert!(newest > before, "others have taken over");
            hears(cluster);
            while !cluster.has_session(n) {
                cluster.step();
            }
            assert!(known(cluster) >= newest, "seed {seed}: it goes on at {} of {newest}", known(cluster));
            cluster.heal();
        });
    }
}

#[test]
fn a_broker_that_was_cut_off_goes_on_when_it_knows_what_has_changed_meanwhile() {
    goes_on_with_the_metadata_of_the_meantime(Cluster::cut_off, |cluster| cluster.sockets.heal());
}

/// Its heartbeats go on: they ask that others take over.
#[test]
fn a_broker_whose_disk_did_not_answer_goes_on_when_it_knows_what_has_changed_meanwhile() {
    goes_on_with_the_metadata_of_the_meantime(|cluster, n| cluster.hang(n, CUT_MS + 1000), |_| ());
}

/// How long the others may wait for a node with a full disk: until it is cordoned, and others have taken over.
const FULL_MS: i64 = 1500;

#[test]
fn a_full_disk_holds_the_others_up_for_a_moment_only() {
    let mut longest_ms = 0;
    for seed in seeds(8) {
        let mut cluster = Cluster::with_lag_max(seed, 0, LAG_MAX_MS);
        observe(&mut cluster, |cluster| {
            cluster.create_topics();
            cluster.run(6000);
            let n = (seed % 3) as usize;
            let free_bytes = cluster.rng.below(fault_actions::FREE_BYTES_MAX);
            cluster.fill(n, free_bytes);
            cluster.run(100);
            let ms = cluster.run_until_all_progress();
            assert!(ms < FULL_MS, "seed {seed}: {ms} ms: {}", cluster.describe());
            longest_ms = longest_ms.max(ms);
            cluster.run(3000);
            cluster.heal();
        });
    }
    eprintln!("the longest: {longest_ms} ms");
}
