//! Replication that is throttled (KIP-73), on a clock that the test moves.

use std::collections::BTreeMap;
use std::sync::Arc;

use configuration::BrokerConfig;
use platform::Clock;
use wire::Uuid;
use wire::batch::BatchBuilder;
use wire::state::metadata::{ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord};

use super::cluster::{Cluster, TOPIC_ID};
use crate::partition::{Acks, PendingCommits, ProduceCompletion};
use crate::replication::follow::{Follow, Limits};

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";
const THROTTLED: &[(&str, &str)] =
    &[("leader.replication.throttled.replicas", "*"), ("follower.replication.throttled.replicas", "*")];

/// Sets a rate of a broker while it runs.
fn set(cluster: &Cluster, id: i32, name: &str, bytes_per_second: i64) {
    let config = BrokerConfig::new([(name.to_owned(), bytes_per_second.to_string())].into()).unwrap();
    cluster.nodes[&id].replica.config.store(Arc::new(config));
}

/// As if other partitions had just taken all that there is.
fn exceed(cluster: &Cluster) {
    let now_ms = cluster.clock.now().monotonic_ms;
    cluster.nodes[&1].replica.table.leader_quota().record(1_000_000, now_ms);
    cluster.nodes[&2].replica.table.follower_quota().record(1_000_000, now_ms);
}

/// Node 1 leads; node 2 comes back and lacks 200 records.
fn behind(settings: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(1, 2, settings);
    cluster.crash(2, false);
    cluster.apply_all(1);
    for _ in 0..200 {
        cluster.produce(1, Acks::Leader);
    }
    cluster.start(2);
    cluster.apply_all(1);
    cluster.apply_all(2);
    cluster
}

fn size_bytes(cluster: &Cluster, id: i32) -> i64 {
    cluster.nodes[&id].partition().view().size_bytes() as i64
}

fn end(cluster: &Cluster, id: i32) -> i64 {
    cluster.nodes[&id].partition().view().log_end_offset()
}

/// Fetches as often as a follower does, for some time.
fn run(cluster: &mut Cluster, seconds: i64) {
    for _ in 0..seconds * 20 {
        cluster.fetch(2);
        cluster.pass(50);
    }
}

#[test]
fn one_that_is_not_in_sync_catches_up_at_the_rate_of_either_side() {
    for (node, name) in [(1, LEADER_RATE), (2, FOLLOWER_RATE)] {
        let mut cluster = behind(THROTTLED);
        set(&cluster, node, name, 500);
        let lacks = size_bytes(&cluster, 1) - size_bytes(&cluster, 2);
        assert!(lacks > 10_000, "{lacks}");
        for seconds in 1..=10 {
            run(&mut cluster, 1);
            let fetched = size_bytes(&cluster, 2);
            // Of each answer's 300 bytes the last batch is cut off, and comes again.
            let expected = 500 * seconds * 228 / 300;
            assert!((fetched - expected).abs() <= 400, "{name}: {fetched} bytes after {seconds} s, not {expected}");
        }
        set(&cluster, node, name, 1_000_000);
        run(&mut cluster, 4);
        assert_eq!(end(&cluster, 2), end(&cluster, 1), "{name}");
        cluster.settle();
        assert_eq!(cluster.state().isr, [1, 2]);
        cluster.check_healed();
    }
}

#[test]
fn only_replicas_that_the_topic_names_are_throttled() {
    let mut cluster = behind(&[]);
    set(&cluster, 1, LEADER_RATE, 1);
    set(&cluster, 2, FOLLOWER_RATE, 1);
    exceed(&cluster);
    run(&mut cluster, 4);
    assert_eq!(end(&cluster, 2), end(&cluster, 1));
}

#[test]
fn one_that_is_in_sync_is_never_held_up() {
    let mut cluster = Cluster::new(1, 2, THROTTLED);
    cluster.produce(1, Acks::All);
    cluster.settle();
    set(&cluster, 1, LEADER_RATE, 1);
    set(&cluster, 2, FOLLOWER_RATE, 1);
    exceed(&cluster);
    for _ in 0..20 {
        cluster.produce(1, Acks::Leader);
        run(&mut cluster, 1);
        assert_eq!(end(&cluster, 2), end(&cluster, 1));
    }
    cluster.settle();
    cluster.check_healed();
}

/// More partitions than fit one answer, and a quota that lets an answer through now and then.
#[test]
fn throttled_partitions_take_turns() {
    const PARTITIONS: i32 = 7;
    let mut cluster = Cluster::new(1, 2, &[]);
    let topic_id = Uuid([8; 16]);
    let mut records: Vec<MetadataRecord> = vec![TopicRecord { name: "many".into(), topic_id }.into()];
    records.extend((0..PARTITIONS).map(|partition_id| {
        let record = PartitionRecord {
            partition_id,
            topic_id,
            replicas: vec![1, 2],
            isr: vec![1],
            leader: 1,
            leader_epoch: 0,
            partition_epoch: 0,
            directories: vec![Uuid([9; 16]); 2],
            ..PartitionRecord::default()
        };
        record.into()
    }));
    records.extend(THROTTLED.iter().map(|(name, value)| {
        let (name, value) = ((*name).to_owned(), Some((*value).to_owned()));
        ConfigRecord { resource_type: 2, resource_name: "many".into(), name, value }.into()
    }));
    cluster.commit(&records);
    cluster.apply_all(1);
    cluster.apply_all(2);
    for index in 0..PARTITIONS {
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(100)), PendingCommits::default());
        let leader = cluster.nodes[&1].replica.table.find_by_name("many", index).unwrap();
        for slot in 0..100 {
            let mut builder = BatchBuilder::new();
            builder.push(0, None, Some(&[7; 8]), &[]);
            leader.enqueue(builder.build(), Acks::Leader, &completion, slot, &mut commits);
        }
        commits.commit();
    }
    set(&cluster, 2, FOLLOWER_RATE, 390);
    let followed: BTreeMap<_, _> = (0..PARTITIONS)
        .map(|index| ((topic_id, index), cluster.nodes[&2].replica.table.find_by_name("many", index).unwrap()))
        .collect();
    let limits = Limits { partition_bytes_max: 300, response_bytes_max: 1000, wait_max_ms: 0, bytes_min: 1 };
    let mut follow = Follow::new(2, limits).throttled_by(Arc::clone(cluster.nodes[&2].replica.table.follower_quota()));
    // With a partition that is not throttled, requests go on, and name the partitions that are left out.
    let mut assigned = followed.clone();
    assigned.insert((TOPIC_ID, 0), cluster.nodes[&2].partition());
    follow.assign(&assigned);
    for _ in 0..40 * 20 {
        let now_ms = cluster.clock.now().monotonic_ms;
        if let Some(request) = follow.request(&cluster.nodes[&2].replica.metadata.load(), now_ms) {
            follow.apply(cluster.nodes[&1].replica.answer(&request), now_ms).unwrap();
        }
        cluster.pass(50);
    }
    let ends: Vec<i64> = followed.values().map(|partition| partition.view().log_end_offset()).collect();
    let (least, most) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(*most < 100 && *least * 2 > *most, "{ends:?}");
}
