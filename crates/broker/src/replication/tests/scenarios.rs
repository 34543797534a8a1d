//! Single courses of events.

use std::sync::Arc;

use wire::batch::BatchBuilder;

use super::cluster::Cluster;
use crate::partition::{Acks, PendingCommits, ProduceCompletion};
use crate::simulation::replica::{bytes_of, records};

fn ends(cluster: &Cluster) -> Vec<i64> {
    cluster.nodes.values().map(|node| node.partition().view().log_end_offset()).collect()
}

/// KIP-101: what a follower has beyond the high watermark that it knows of is not cut when it starts, or the only copy
/// may go.
#[test]
fn truncation_goes_by_epoch_and_not_by_high_watermark() {
    let mut cluster = Cluster::new(1, 2, &[("ack.durability", "os")]);
    for _ in 0..3 {
        cluster.produce(1, Acks::All);
    }
    cluster.fetch(2);
    assert_eq!(ends(&cluster), [3, 3]);
    assert_eq!(cluster.nodes[&2].partition().high_watermark(), 0, "it has not been told yet");
    cluster.nodes[&2].replica.table.write_checkpoints().unwrap();
    cluster.crash(2, false);
    cluster.start(2);
    cluster.apply_all(1);
    cluster.apply_all(2);
    cluster.fetch(2);
    assert_eq!(ends(&cluster), [3, 3]);
    cluster.settle();
    cluster.crash(1, true);
    cluster.apply_all(2);
    assert_eq!(records(&cluster.nodes[&2].partition()).len(), 3);
}

#[test]
fn a_leader_of_before_loses_what_the_next_one_never_had() {
    let mut cluster = Cluster::new(2, 3, &[]);
    cluster.produce(1, Acks::Leader);
    cluster.settle();
    // No follower fetches these any more.
    for _ in 0..4 {
        cluster.produce(1, Acks::Leader);
    }
    cluster.elect(2);
    cluster.apply_all(2);
    cluster.apply_all(3);
    for _ in 0..2 {
        cluster.produce(2, Acks::Leader);
    }
    assert_eq!(ends(&cluster), [5, 3, 1]);
    cluster.produce(1, Acks::All);
    assert!(cluster.nodes[&1].partition().is_leader(), "it has not heard of the change");
    cluster.settle();
    assert_eq!(ends(&cluster), [3, 3, 3]);
    assert!(cluster.trace.iter().any(|line| line == "1 refuses 7: NOT_LEADER_OR_FOLLOWER"), "{:?}", cluster.trace);
    cluster.check_healed();
}

#[test]
fn an_acknowledgement_waits_for_the_disks_of_all() {
    let mut cluster = Cluster::new(3, 2, &[]);
    cluster.produce(1, Acks::All);
    cluster.sync(1);
    assert!(cluster.acked.is_empty(), "the follower has nothing");
    cluster.fetch(2);
    let follower = cluster.nodes[&2].partition();
    assert_eq!(follower.view().synced_offset(), 1, "the answer said that somebody waits for it");
    assert!(cluster.acked.is_empty(), "the leader does not know");
    cluster.fetch(2);
    assert_eq!(cluster.acked.len(), 1);
}

/// Its clients would wait for the whole of their time-outs for what another leader could do at once.
#[test]
fn a_leader_that_nobody_hears_refuses_what_silent_followers_would_have_to_confirm() {
    let mut cluster = Cluster::new(5, 2, &[]);
    cluster.produce(1, Acks::All);
    cluster.settle();
    assert_eq!(cluster.acked.len(), 1);
    let leader = cluster.nodes[&1].partition();
    cluster.pass(500);
    cluster.produce(1, Acks::All);
    cluster.sync(1);
    leader.refuse_if_stalled(500);
    cluster.take_answers();
    assert!(!cluster.trace.iter().any(|line| line.starts_with("1 refuses")), "not silent for long enough");
    cluster.pass(1);
    leader.refuse_if_stalled(500);
    cluster.take_answers();
    let refused = |cluster: &Cluster| cluster.trace.iter().filter(|line| line.starts_with("1 refuses")).count();
    assert_eq!(refused(&cluster), 1, "what waits: {:?}", cluster.trace);
    cluster.produce(1, Acks::All);
    cluster.take_answers();
    assert_eq!(refused(&cluster), 2, "what comes: {:?}", cluster.trace);
    cluster.produce(1, Acks::Leader);
    cluster.take_answers();
    assert_eq!(refused(&cluster), 2, "nobody has to confirm this: {:?}", cluster.trace);
    cluster.fetch(2);
    leader.refuse_if_stalled(500);
    cluster.produce(1, Acks::All);
    cluster.settle();
    assert_eq!((refused(&cluster), cluster.acked.len()), (2, 2), "{:?}", cluster.trace);
}

#[test]
fn a_follower_syncs_for_nobody_unless_somebody_waits() {
    let mut cluster = Cluster::new(4, 2, &[]);
    cluster.produce(1, Acks::Leader);
    cluster.fetch(2);
    let follower = cluster.nodes[&2].partition();
    assert_eq!((follower.view().log_end_offset(), follower.view().synced_offset()), (1, 0));
    // A later wait is for what it has in memory too.
    cluster.produce(1, Acks::All);
    cluster.sync(1);
    cluster.fetch(2);
    assert_eq!(follower.view().synced_offset(), 2);
}

/// Of what was written with acks=1 a power loss leaves more on one disk than on another.
#[test]
fn what_the_disks_of_others_may_lack_is_not_read_after_a_power_loss() {
    let mut cluster = Cluster::new(6, 2, &[]);
    cluster.produce(1, Acks::Leader);
    cluster.fetch(2);
    cluster.fetch(2);
    let high_watermark_after_crash = |cluster: &mut Cluster| {
        cluster.nodes[&2].replica.flush_in_background();
        let follower = cluster.nodes[&2].partition();
        assert_eq!((follower.view().synced_offset(), follower.high_watermark()), (1, 1));
        cluster.nodes[&2].replica.table.write_checkpoints().expect("the disk works");
        cluster.crash(2, true);
        cluster.start(2);
        cluster.nodes[&2].partition().high_watermark()
    };
    assert_eq!(high_watermark_after_crash(&mut cluster), 0, "the leader's disk does not have it");
    cluster.settle();
    assert_eq!(high_watermark_after_crash(&mut cluster), 1);
}

#[test]
fn one_that_was_away_comes_back_into_the_isr_and_counts_again() {
    let mut cluster = Cluster::new(5, 3, &[("min.insync.replicas", "2")]);
    cluster.crash(3, true);
    for _ in 0..20 {
        cluster.produce(1, Acks::All);
    }
    cluster.settle();
    assert_eq!((cluster.state().isr, cluster.acked.len()), (vec![1, 2], 20));
    cluster.start(3);
    cluster.settle();
    assert_eq!(cluster.state().isr, [1, 2, 3]);
    cluster.check_healed();
}

#[test]
fn too_few_in_sync_are_refused_before_and_after_the_append() {
    let mut cluster = Cluster::new(6, 2, &[("min.insync.replicas", "2")]);
    cluster.produce(1, Acks::All);
    cluster.crash(2, true);
    cluster.apply_all(1);
    cluster.sync(1);
    assert!(cluster.trace.iter().any(|line| line == "1 refuses 0: NOT_ENOUGH_REPLICAS_AFTER_APPEND"));
    cluster.produce(1, Acks::All);
    assert!(cluster.trace.iter().any(|line| line == "1 refuses 1: NOT_ENOUGH_REPLICAS"));
    cluster.start(2);
    cluster.settle();
    cluster.produce(1, Acks::All);
    cluster.settle();
    assert_eq!(cluster.acked.len(), 1);
    cluster.check_healed();
}

#[test]
fn one_that_fell_behind_the_start_of_the_leaders_log_starts_anew() {
    let mut cluster = Cluster::new(7, 3, &[]);
    cluster.crash(3, true);
    for _ in 0..10 {
        cluster.produce(1, Acks::All);
    }
    cluster.settle();
    cluster.nodes[&1].partition().with_log(|log| log.delete_records(6)).unwrap();
    cluster.settle();
    assert_eq!(cluster.nodes[&2].partition().log_start_offset(), 6, "a follower learns the start by its fetches");
    cluster.start(3);
    cluster.settle();
    assert_eq!(cluster.nodes[&3].partition().log_start_offset(), 6);
    cluster.check_healed();
}

/// DeleteRecords may leave the start of a log within a batch. Logs hold whole batches (`Partition.
/// appendRecordsToFollowerOrFutureReplica`).
#[test]
fn one_that_begins_within_a_batch_of_the_leaders_log_takes_the_whole_batch() {
    let mut cluster = Cluster::new(12, 3, &[]);
    cluster.crash(3, true);
    let leader = cluster.nodes[&1].partition();
    for n in 0..3_u64 {
        let mut builder = BatchBuilder::new();
        (0..4).for_each(|m| builder.push(0, None, Some(&(4 * n + m).to_be_bytes()), &[]));
        let (completion, mut commits) = (Arc::new(ProduceCompletion::new(1)), PendingCommits::default());
        leader.enqueue(builder.build(), Acks::Leader, &completion, 0, &mut commits);
    }
    cluster.settle();
    leader.with_log(|log| log.delete_records(6)).unwrap();
    cluster.settle();
    cluster.start(3);
    cluster.settle();
    let follower = cluster.nodes[&3].partition();
    assert_eq!((follower.log_start_offset(), follower.view().log_end_offset()), (6, 12));
    assert_eq!(records(&follower), records(&leader));
    cluster.check_healed();
}

#[test]
fn nothing_is_led_before_the_registration_of_this_start_is_known() {
    let mut cluster = Cluster::new(8, 2, &[]);
    cluster.crash(2, true);
    cluster.produce(1, Acks::All);
    cluster.settle();
    cluster.crash(1, true);
    // It does not know that it was fenced: what it knows of itself is from before.
    cluster.start_behind(1, 2);
    let partition = cluster.nodes[&1].partition();
    for _ in 0..2 {
        assert!(!partition.is_leader());
        assert_eq!(partition.check_has_role(), Err(wire::ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert!(cluster.apply_next(1));
    }
    cluster.apply_all(1);
    assert!(partition.is_leader());
    assert_eq!(bytes_of(&partition).len(), 61 + 15);
}

/// What the recovery point covers was truncated; what replaced it is not on disk yet at the power loss.
#[test]
fn a_torn_batch_behind_a_cut_is_no_damage() {
    for seed in 0..40 {
        let mut cluster = Cluster::new(seed, 2, &[]);
        for _ in 0..6 {
            cluster.produce(1, Acks::Leader);
        }
        cluster.nodes[&1].replica.flush_in_background();
        cluster.nodes[&1].replica.table.write_checkpoints().unwrap();
        cluster.elect(2);
        cluster.apply_all(2);
        for _ in 0..6 {
            cluster.produce(2, Acks::Leader);
        }
        cluster.apply_all(1);
        cluster.fetch(1);
        cluster.fetch(1);
        assert!(cluster.nodes[&1].partition().view().log_end_offset() > 0, "it has cut, and taken some");
        cluster.crash(1, true);
        cluster.start(1);
        assert_eq!(cluster.nodes[&1].partition().view().bad_ranges(), []);
        cluster.settle();
        cluster.check_healed();
    }
}

/// A log that lost some of what was on disk, or has it damaged: its replica is out of sync until it has all of it
/// again, and what was left of the torn batch is fetched anew.
#[test]
fn what_a_follower_has_lost_is_fetched_again() {
    for lost_bytes in [1, 20, 61, 100, 200] {
        let mut cluster = Cluster::new(12, 3, &[]);
        for _ in 0..6 {
            cluster.produce(1, Acks::All);
            cluster.settle();
        }
        cluster.nodes[&3].replica.flush_in_background();
        cluster.nodes[&3].replica.table.write_checkpoints().unwrap();
        cluster.crash(3, false);
        let (disk, dir) = (cluster.disks[&3].clone(), cluster.nodes[&1].partition().view().dir().to_owned());
        let path = dir.join("00000000000000000000.log");
        let bytes = disk.get(&path).unwrap();
        disk.put(&path, &bytes[..bytes.len() - lost_bytes]);
        cluster.start(3);
        cluster.settle();
        let partition = cluster.nodes[&3].partition();
        if let Some(range) = partition.next_to_repair() {
            assert!(!cluster.state().isr.contains(&3), "{lost_bytes}: it is in sync with a hole");
            assert!(partition.cut_damage(partition.leader_epoch(), &range, false).unwrap());
        }
        cluster.settle();
        assert_eq!(partition.next_to_repair(), None);
        assert_eq!(disk.get(&path).unwrap(), bytes, "{lost_bytes}");
        cluster.settle();
        assert!(cluster.state().isr.contains(&3));
        cluster.check_healed();
    }
}

#[test]
fn an_answer_of_an_older_epoch_changes_nothing() {
    let mut cluster = Cluster::new(10, 3, &[]);
    cluster.produce(1, Acks::Leader);
    let (leader, request) = cluster.fetch_request(3).unwrap();
    let late = cluster.answer(1, &request);
    cluster.elect(2);
    cluster.apply_all(3);
    cluster.take_response(3, leader, late);
    assert_eq!(ends(&cluster), [1, 0, 0]);
}

#[test]
fn a_batch_that_is_damaged_on_its_way_is_asked_for_again() {
    let mut cluster = Cluster::new(9, 2, &[]);
    cluster.produce(1, Acks::Leader);
    cluster.produce(1, Acks::Leader);
    let (leader, request) = cluster.fetch_request(2).unwrap();
    let mut response = cluster.answer(1, &request);
    let data = &mut response.responses[0].partitions[0];
    let Some(wire::Records::Inline(bytes)) = &data.records else { panic!("records are inline") };
    let mut damaged = bytes.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    data.records = Some(wire::Records::Inline(damaged.into()));
    cluster.take_response(2, leader, response);
    assert_eq!(ends(&cluster), [2, 1], "what came before is good");
    let (leader, request) = cluster.fetch_request(2).unwrap();
    let mut response = cluster.answer(1, &request);
    let data = &mut response.responses[0].partitions[0];
    let Some(wire::Records::Inline(bytes)) = &data.records else { panic!("records are inline") };
    data.records = Some(wire::Records::Inline([&bytes[..bytes.len() - 1], b"?"].concat().into()));
    cluster.take_response(2, leader, response);
    assert_eq!(ends(&cluster), [2, 1], "it begins with what is bad");
    assert!(cluster.fetch_request(2).is_none(), "it waits a moment");
    cluster.pass(50);
    cluster.fetch(2);
    assert_eq!(ends(&cluster), [2, 2]);
}

/// The leader's session assumes that the follower has what it has left.
#[test]
fn what_an_answer_said_that_came_too_late_is_said_again() {
    let mut cluster = Cluster::new(11, 2, &[]);
    cluster.produce(1, Acks::Leader);
    cluster.fetch(2);
    let (leader, request) = cluster.fetch_request(2).unwrap();
    let late = cluster.answer(leader, &request);
    assert_eq!(late.responses[0].partitions[0].high_watermark, 1);
    cluster.elect(1);
    cluster.apply_all(1);
    cluster.apply_all(2);
    cluster.take_response(2, leader, late);
    assert_eq!(cluster.nodes[&2].partition().high_watermark(), 0, "it is of an older epoch");
    cluster.fetch(2);
    assert_eq!(cluster.nodes[&2].partition().high_watermark(), 1);
}
