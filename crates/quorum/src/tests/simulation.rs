//! What may happen to a cluster, from a seed: `PARSHALL_SEEDS` says how many, `PARSHALL_SEED` shows one again.

use platform::simulation::{run_seeds, seeds};

use super::cluster::Cluster;
use super::*;

/// Something goes wrong, or is set right.
fn apply_fault(cluster: &mut Cluster, voters_min: usize) {
    let machines = cluster.machines.len();
    let n = cluster.rng.below(machines as u64) as usize;
    match cluster.rng.below(100) {
        0..20 if cluster.is_up(n) => {
            let loses_power = cluster.rng.percent(70);
            cluster.stop(n, loses_power);
            if cluster.rng.percent(50) {
                cluster.report_down(n);
            }
        }
        0..40 => {
            let down: Vec<usize> = (0..machines).filter(|n| !cluster.is_up(*n)).collect();
            down.into_iter().for_each(|n| cluster.start(n));
        }
        40..48 => {
            let nodes: Vec<i32> = (0..machines as i32).collect();
            let side = cluster.rng.below(1 << machines);
            cluster.network.split(&nodes, side);
        }
        48..56 => {
            let to = cluster.rng.below(machines as u64) as i32;
            cluster.network.cut(n as i32, to);
        }
        56..70 => cluster.network.heal(),
        70..78 => cluster.fail_disk(n),
        78..82 => {
            if let Some(leader) = cluster.leader() {
                cluster.transfer(leader);
            }
        }
        82..86 => cluster.network.loss_percent = [0, 5, 20][cluster.rng.below(3) as usize],
        86..93 => {
            // With a new disk where one was. More than one of few must not be lost at a time.
            let (set, is_settled) = cluster.newest_set();
            if is_settled && cluster.has_no_ghosts(&set) && set.voters.len() >= 3 && cluster.is_up(n) {
                cluster.stop(n, true);
                cluster.wipe(n);
                cluster.set_joins(n, true, false);
                if cluster.rng.percent(70) {
                    cluster.start(n);
                }
            }
        }
        93..97 => {
            let (set, is_settled) = cluster.newest_set();
            let key = cluster.machines[n].key;
            if is_settled
                && cluster.has_no_ghosts(&set)
                && set.voters.len() > voters_min
                && let Some(leader) = cluster.leader()
            {
                cluster.set_joins(n, false, false);
                cluster.remove(leader, key);
            }
        }
        _ => {
            let wants_to_vote = cluster.rng.percent(50);
            cluster.set_joins(n, true, wants_to_vote);
        }
    }
}

pub struct RunSummary {
    trace: u64,
    acknowledged: usize,
    elections: usize,
}

pub fn run(seed: u64) -> RunSummary {
    let mut rng = Rng::new(seed ^ 0xface);
    let (voters, others) = [(3, 0), (3, 1), (3, 2), (4, 1), (5, 0)][rng.below(5) as usize];
    let faults_percent = 1 + rng.below(6);
    let mut cluster = Cluster::new(seed, voters, others);
    for n in voters..voters + others {
        cluster.start(n);
        let wants_to_vote = rng.percent(50);
        cluster.set_joins(n, true, wants_to_vote);
    }
    while cluster.now_ms < 30_000 {
        if cluster.rng.percent(faults_percent) && cluster.now_ms > 2000 {
            apply_fault(&mut cluster, 3);
        }
        if cluster.rng.percent(30) {
            let n = cluster.rng.below((voters + others) as u64) as usize;
            cluster.propose(n);
        }
        cluster.step();
    }
    cluster.network.heal();
    cluster.network.loss_percent = 0;
    for n in 0..voters + others {
        cluster.stop(n, false);
        cluster.start(n);
    }
    let healed_ms = cluster.now_ms;
    while !cluster.is_converged() {
        cluster.step();
        assert!(cluster.now_ms < healed_ms + 20_000, "seed {seed}: {:?}", cluster.describe());
    }
    let history = cluster.history.lock();
    let mut found = history.values.iter();
    for value in &cluster.acknowledged {
        assert!(history.values.contains(value), "seed {seed}: {value:?} was acknowledged and is lost");
    }
    assert!(found.all(|value| history.values.iter().filter(|other| *other == value).count() == 1), "seed {seed}");
    RunSummary { trace: cluster.trace(), acknowledged: cluster.acknowledged.len(), elections: cluster.elections }
}

#[test]
fn whatever_happens_all_nodes_have_one_history() {
    let seeds = seeds(12);
    let mut acknowledged = 0;
    for (seed, outcome) in seeds.clone().zip(run_seeds(seeds.clone(), run)) {
        if std::env::var("PARSHALL_SEED").is_ok() {
            eprintln!("seed {seed}: {} acknowledged, {} elections", outcome.acknowledged, outcome.elections);
        }
        acknowledged += outcome.acknowledged as u64;
    }
    // Enough has come about to say something.
    assert!(acknowledged > 20 * (seeds.end - seeds.start), "{acknowledged}");
}

#[test]
fn a_seed_is_a_course_of_events() {
    for seed in [3, 4] {
        assert_eq!(run(seed).trace, run(seed).trace, "seed {seed}");
    }
}

/// Partial network partitions, each as pairs of a sender and a receiver that are cut.
fn asymmetric_cuts(voters: usize) -> Vec<Vec<(usize, usize)>> {
    let all = || 0..voters;
    vec![
        // One node receives from none, reaches none, or reaches only one.
        all().map(|n| (n, 0)).collect(),
        all().map(|n| (0, n)).collect(),
        all().skip(2).map(|n| (0, n)).collect(),
        all().skip(2).map(|n| (n, 0)).collect(),
        // Two nodes do not reach each other, and all others reach both.
        vec![(0, 1), (1, 0)],
        vec![(0, 1)],
        // A ring: each node receives from all but one.
        if voters > 3 { all().map(|n| (n, (n + 1) % voters)).collect() } else { vec![(0, 1), (2, 0)] },
    ]
}

#[test]
fn somebody_leads_when_not_everybody_hears_everybody() {
    for seed in seeds(2) {
        for voters in [3, 5] {
            for cuts in asymmetric_cuts(voters) {
                let mut cluster = Cluster::new(seed, voters, 0);
                while cluster.leader().is_none() {
                    cluster.step();
                }
                // Each in turn is where the leader is.
                for shift in 0..voters {
                    let shifted = |n: usize| ((n + shift) % voters) as i32;
                    cuts.iter().for_each(|(from, to)| cluster.network.cut(shifted(*from), shifted(*to)));
                    let cut_ms = cluster.now_ms;
                    let acknowledged = cluster.acknowledged.len();
                    while cluster.acknowledged.len() < acknowledged + 3 {
                        (0..voters).for_each(|n| cluster.propose(n));
                        cluster.step();
                        assert!(
                            cluster.now_ms < cut_ms + 5000,
                            "seed {seed}, {cuts:?}, {shift}: {:?}",
                            cluster.describe()
                        );
                    }
                    // No node unseats it again and again.
                    let elections = cluster.elections;
                    for _ in 0..1000 {
                        cluster.step();
                    }
                    assert!(
                        cluster.elections <= elections + 1,
                        "seed {seed}, {cuts:?}, {shift}: {}",
                        cluster.elections
                    );
                    cluster.network.heal();
                    (0..100).for_each(|_| cluster.step());
                }
            }
        }
    }
}

/// Many entries that a node has missed are written together, and cut together when power goes meanwhile.
#[test]
fn what_was_missed_is_written_together_and_torn_together() {
    let mut torn = 0;
    for seed in seeds(16) {
        let mut cluster = Cluster::new(seed, 3, 0);
        while cluster.leader().is_none() {
            cluster.step();
        }
        let late = (cluster.leader().unwrap() + 1) % 3;
        for (other, n) in [(0, late), (1, late), (2, late)] {
            cluster.network.cut(other, n as i32);
        }
        while cluster.acknowledged.len() < 15 {
            (0..3).for_each(|n| cluster.propose(n));
            cluster.step();
        }
        cluster.network.heal();
        cluster.fail_disk_at(late, [SimOp::Sync, SimOp::Write][seed as usize % 2], 1 + seed / 2 % 12);
        while cluster.is_up(late) && !cluster.is_converged() {
            cluster.step();
        }
        if !cluster.is_up(late) {
            torn += 1;
            cluster.start(late);
        }
        let started_ms = cluster.now_ms;
        while !cluster.is_converged() {
            cluster.step();
            assert!(cluster.now_ms < started_ms + 10_000, "seed {seed}: {:?}", cluster.describe());
        }
    }
    assert!(torn > 0);
}
