//! Which brokers shall have which replicas: even, over racks, and with as few copies as that takes.
//!
//! A plan is made in steps, each of which leaves what the steps before have reached: replicas on brokers that shall
//! have none go; those that are missing are put where there are fewest; what is uneven is moved, topic by topic and
//! then over all topics; and at last the first replicas, which lead, are made even, which copies nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// A broker that shall have replicas.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub id: i32,
    pub rack: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// All brokers have as many replicas as the others, and lead as many partitions.
    Even,
    /// What is on these brokers stays there.
    FewestMoves,
}

/// Replicas of partitions by topic, in the order of both.
pub(crate) type Replicas<'a> = BTreeMap<&'a str, Vec<(i32, Vec<i32>)>>;

/// Gives partitions replicas on these brokers: as many as they have, or `replication_factor`. Says which differ.
pub(crate) fn balance<'a>(
    now: &Replicas<'a>,
    targets: &[Target],
    replication_factor: Option<usize>,
    aim: Aim,
) -> Result<Replicas<'a>, String> {
    let wanted = |replicas: &[i32]| replication_factor.unwrap_or(replicas.len());
    let most = now.values().flatten().map(|(_, replicas)| wanted(replicas)).max().unwrap_or(0);
    if most > targets.len() || replication_factor == Some(0) {
        return Err(format!("{most} replicas of a partition need as many brokers, and {} were chosen", targets.len()));
    }
    let mut balancer = Balancer::new(now, targets);
    for (at, (_, replicas)) in now.values().flatten().enumerate() {
        balancer.resize(at, wanted(replicas));
    }
    if aim == Aim::Even {
        balancer.spread_over_racks();
        balancer.even_topics();
        balancer.even_all();
    }
    balancer.even_leaders(aim);
    Ok(balancer.changes(now))
}

/// Brokers are indexes into the targets here.
struct Balancer {
    ids: Vec<i32>,
    /// By broker.
    racks: Vec<usize>,
    rack_count: usize,
    partitions: Vec<Planned>,
    /// By topic, and of all topics: replicas of each broker.
    of_topic: Vec<Vec<usize>>,
    of_all: Vec<usize>,
}

struct Planned {
    topic: usize,
    replicas: Vec<usize>,
    /// Whether the replica that was first still is.
    keeps_first: bool,
}

impl Balancer {
    fn new(now: &Replicas<'_>, targets: &[Target]) -> Self {
        let ids: Vec<_> = targets.iter().map(|target| target.id).collect();
        // As in Kafka, racks count where all brokers have one.
        let names: Option<Vec<_>> = targets.iter().map(|target| target.rack.as_deref()).collect();
        let mut distinct = names.clone().unwrap_or_default();
        distinct.sort_unstable();
        distinct.dedup();
        let rack_of = |name| distinct.binary_search(&name).unwrap_or(0);
        let racks = names.map_or_else(|| vec![0; ids.len()], |names| names.into_iter().map(rack_of).collect());
        let mut of_topic = vec![vec![0; ids.len()]; now.len()];
        let mut of_all = vec![0; ids.len()];
        let mut partitions = Vec::new();
        for (topic, of_it) in now.values().enumerate() {
            for (_, replicas) in of_it {
                let index = |id: &i32| ids.iter().position(|target| target == id);
                let kept: Vec<_> = replicas.iter().filter_map(index).collect();
                for broker in &kept {
                    of_topic[topic][*broker] += 1;
                    of_all[*broker] += 1;
                }
                let keeps_first = replicas.first().is_some_and(|first| ids.contains(first));
                partitions.push(Planned { topic, replicas: kept, keeps_first });
            }
        }
        Self { rack_count: distinct.len().max(1), ids, racks, partitions, of_topic, of_all }
    }

    /// Replicas of a partition in each rack.
    fn in_racks(&self, at: usize) -> Vec<usize> {
        let mut counts = vec![0; self.rack_count];
        for broker in &self.partitions[at].replicas {
            counts[self.racks[*broker]] += 1;
        }
        counts
    }

    fn load(&self, topic: usize, broker: usize) -> (usize, usize, usize) {
        (self.of_topic[topic][broker], self.of_all[broker], broker)
    }

    /// Takes or gives replicas until there are so many.
    fn resize(&mut self, at: usize, wanted: usize) {
        let topic = self.partitions[at].topic;
        while self.partitions[at].replicas.len() > wanted {
            let racks = self.in_racks(at);
            // Not the one that leads.
            let rest = self.partitions[at].replicas.iter().enumerate().skip(1);
            let fullest = rest.max_by_key(|(_, broker)| (racks[self.racks[**broker]], self.load(topic, **broker)));
            let Some(slot) = fullest.map(|(slot, _)| slot) else { return };
            let broker = self.partitions[at].replicas.remove(slot);
            self.of_topic[topic][broker] -= 1;
            self.of_all[broker] -= 1;
        }
        while self.partitions[at].replicas.len() < wanted {
            let racks = self.in_racks(at);
            let free = (0..self.ids.len()).filter(|broker| !self.partitions[at].replicas.contains(broker));
            let Some(broker) = free.min_by_key(|broker| (racks[self.racks[*broker]], self.load(topic, *broker))) else {
                return;
            };
            self.partitions[at].replicas.push(broker);
            self.of_topic[topic][broker] += 1;
            self.of_all[broker] += 1;
        }
    }

    fn replace(&mut self, at: usize, slot: usize, to: usize) {
        let partition = &mut self.partitions[at];
        let from = std::mem::replace(&mut partition.replicas[slot], to);
        partition.keeps_first &= slot > 0;
        for counts in [&mut self.of_topic[partition.topic], &mut self.of_all] {
            counts[from] -= 1;
            counts[to] += 1;
        }
    }

    /// Moves replicas of a partition out of racks that have more of them than others need to have.
    fn spread_over_racks(&mut self) {
        for at in 0..self.partitions.len() {
            loop {
                let racks = self.in_racks(at);
                let partition = &self.partitions[at];
                let crowded = |slot: &usize| racks[self.racks[partition.replicas[*slot]]];
                // The last of a rack goes, so that the first, which leads, rather stays.
                let Some(slot) = (0..partition.replicas.len()).max_by_key(|slot| (crowded(slot), *slot)) else { break };
                let free = (0..self.ids.len()).filter(|broker| !partition.replicas.contains(broker));
                let free = free.filter(|broker| racks[self.racks[*broker]] + 1 < crowded(&slot));
                let to = free.min_by_key(|to| (racks[self.racks[*to]], self.load(partition.topic, *to)));
                let Some(to) = to else { break };
                self.replace(at, slot, to);
            }
        }
    }

    /// Whether a replica may go from one broker to another and racks are as spread as before.
    fn suits(&self, at: usize, racks: &[usize], from: usize, to: usize) -> bool {
        let (from_rack, to_rack) = (self.racks[from], self.racks[to]);
        !self.partitions[at].replicas.contains(&to) && (from_rack == to_rack || racks[to_rack] < racks[from_rack])
    }

    fn even_topics(&mut self) {
        let mut first = 0;
        for topic in 0..self.of_topic.len() {
            let length = self.partitions[first..].iter().take_while(|partition| partition.topic == topic).count();
            self.even(first..first + length, Some(topic));
            first += length;
        }
    }

    /// Evens what topics have left uneven, one more here and there, without making one of them uneven.
    fn even_all(&mut self) {
        self.even(0..self.partitions.len(), None);
    }

    /// Replicas of each broker, of one topic or of all.
    fn counts(&self, topic: Option<usize>) -> &[usize] {
        topic.map_or(&self.of_all, |topic| &self.of_topic[topic])
    }

    /// Moves replicas of some partitions from brokers with more than their part to brokers with less, until no move is
    /// left that keeps racks as spread and topics as even as they are.
    fn even(&mut self, range: Range<usize>, within: Option<usize>) {
        let brokers = self.ids.len();
        let total: usize = self.counts(within).iter().sum();
        let (least, most) = (total / brokers, total.div_ceil(brokers));
        let in_parts = |from: usize, to: usize| from > most && to < most || from > least && to < least;
        // Where racks stand in the way of equal parts, what they leave is shared.
        let in_pairs = |from: usize, to: usize| from > to + 1;
        for is_better in [&in_parts as &dyn Fn(usize, usize) -> bool, &in_pairs] {
            loop {
                let mut has_moved = false;
                let mut givers: Vec<_> = (0..brokers).collect();
                givers.sort_by_key(|broker| Reverse(self.counts(within)[*broker]));
                for from in givers {
                    for at in range.clone() {
                        let counts = self.counts(within);
                        if !counts.iter().any(|to| is_better(counts[from], *to)) {
                            break;
                        }
                        let partition = &self.partitions[at];
                        let Some(slot) = partition.replicas.iter().position(|broker| *broker == from) else { continue };
                        let (topic, racks) = (partition.topic, self.in_racks(at));
                        let keeps_topic =
                            |to: usize| within.is_some() || self.of_topic[topic][from] > self.of_topic[topic][to];
                        let takers = (0..brokers).filter(|to| {
                            is_better(counts[from], counts[*to])
                                && self.suits(at, &racks, from, *to)
                                && keeps_topic(*to)
                        });
                        if let Some(to) = takers.min_by_key(|to| (counts[*to], self.load(topic, *to))) {
                            self.replace(at, slot, to);
                            has_moved = true;
                        }
                    }
                }
                if !has_moved {
                    break;
                }
            }
        }
    }

    /// Puts replicas first, so that brokers lead as many partitions as others.
    fn even_leaders(&mut self, aim: Aim) {
        let mut leads = vec![0_usize; self.ids.len()];
        for partition in self.partitions.iter().filter(|partition| partition.keeps_first) {
            leads[partition.replicas[0]] += 1;
        }
        for partition in self.partitions.iter_mut().filter(|partition| !partition.keeps_first) {
            let fewest = (0..partition.replicas.len()).min_by_key(|slot| (leads[partition.replicas[*slot]], *slot));
            let Some(slot) = fewest else { continue };
            partition.replicas[..=slot].rotate_right(1);
            leads[partition.replicas[0]] += 1;
        }
        if aim == Aim::Even {
            self.hand_leaders_on(&mut leads);
        }
    }

    /// From brokers that lead more than their part to those that lead less, over others in between where it takes that.
    fn hand_leaders_on(&mut self, leads: &mut [usize]) {
        let brokers = self.ids.len();
        let total: usize = leads.iter().sum();
        let (least, most) = (total / brokers, total.div_ceil(brokers));
        // What the first broker leads and the second has a replica of. Entries that are so no more are passed over.
        let mut led = vec![vec![Vec::new(); brokers]; brokers];
        for (at, partition) in self.partitions.iter().enumerate() {
            for follower in partition.replicas.iter().skip(1) {
                led[partition.replicas[0]][*follower].push(at);
            }
        }
        loop {
            let is_giver = |broker: usize| leads[broker] > most;
            let is_taker = |broker: usize| leads[broker] < least;
            let has_givers = (0..brokers).any(is_giver);
            let (givers, takes): (Vec<_>, &dyn Fn(usize) -> bool) = match has_givers {
                true => ((0..brokers).filter(|broker| is_giver(*broker)).collect(), &|broker| leads[broker] < most),
                false if (0..brokers).any(is_taker) => {
                    ((0..brokers).filter(|broker| leads[*broker] > least).collect(), &is_taker)
                }
                false => return,
            };
            let Some(path) = self.path(&mut led, &givers, takes) else { return };
            leads[path[0]] -= 1;
            leads[path[path.len() - 1]] += 1;
            for pair in path.windows(2) {
                let Some(at) = led[pair[0]][pair[1]].pop() else { return };
                let replicas = &mut self.partitions[at].replicas;
                let Some(slot) = replicas.iter().position(|broker| *broker == pair[1]) else { return };
                replicas.swap(0, slot);
                for follower in replicas.iter().skip(1) {
                    led[pair[1]][*follower].push(at);
                }
            }
        }
    }

    /// The shortest way from one of the givers to somebody who takes.
    fn path(&self, led: &mut [Vec<Vec<usize>>], givers: &[usize], takes: &dyn Fn(usize) -> bool) -> Option<Vec<usize>> {
        let mut before = vec![None; self.ids.len()];
        let mut queue: VecDeque<_> = givers.iter().copied().collect();
        for giver in givers {
            before[*giver] = Some(*giver);
        }
        while let Some(from) = queue.pop_front() {
            for to in 0..self.ids.len() {
                while led[from][to].last().is_some_and(|at| self.partitions[*at].replicas[0] != from) {
                    led[from][to].pop();
                }
                if led[from][to].is_empty() || before[to].is_some() {
                    continue;
                }
                before[to] = Some(from);
                if takes(to) {
                    let mut path = vec![to];
                    while let Some(step) = before[path[path.len() - 1]].filter(|step| *step != path[path.len() - 1]) {
                        path.push(step);
                    }
                    path.reverse();
                    return Some(path);
                }
                queue.push_back(to);
            }
        }
        None
    }

    fn changes<'a>(&self, now: &Replicas<'a>) -> Replicas<'a> {
        let mut planned = self.partitions.iter();
        let mut changes = Replicas::new();
        for (topic, of_it) in now {
            for ((index, replicas), planned) in of_it.iter().zip(planned.by_ref()) {
                let then: Vec<_> = planned.replicas.iter().map(|broker| self.ids[*broker]).collect();
                if then != *replicas {
                    changes.entry(*topic).or_default().push((*index, then));
                }
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn targets(racks: &[(i32, &str)]) -> Vec<Target> {
        let rack = |rack: &str| Some(rack.to_owned()).filter(|rack| !rack.is_empty());
        racks.iter().map(|(id, name)| Target { id: *id, rack: rack(name) }).collect()
    }

    fn brokers(ids: std::ops::RangeInclusive<i32>) -> Vec<Target> {
        ids.map(|id| Target { id, rack: None }).collect()
    }

    /// A topic whose partitions have these replicas.
    fn topic(replicas: &[&[i32]]) -> Replicas<'static> {
        let partitions = replicas.iter().enumerate().map(|(at, of)| (at as i32, of.to_vec()));
        Replicas::from([("t", partitions.collect())])
    }

    /// A topic with its replicas in turn on brokers from 1 on.
    fn in_turn(partitions: i32, factor: i32, brokers: i32) -> Replicas<'static> {
        let of = |at: i32| (0..factor).map(|slot| (at + slot) % brokers + 1).collect();
        Replicas::from([("t", (0..partitions).map(|at| (at, of(at))).collect())])
    }

    /// What there is after the changes.
    fn after(now: &Replicas<'static>, changes: &Replicas<'_>) -> Replicas<'static> {
        let mut after = now.clone();
        for (topic, partitions) in &mut after {
            for (index, replicas) in partitions {
                let of_topic = changes.get(topic).into_iter().flatten();
                if let Some((_, then)) = of_topic.clone().find(|(changed, _)| changed == index) {
                    replicas.clone_from(then);
                }
            }
        }
        after
    }

    fn planned(now: &Replicas<'static>, targets: &[Target], factor: Option<usize>, aim: Aim) -> Replicas<'static> {
        let then = after(now, &balance(now, targets, factor, aim).unwrap());
        for (_, replicas) in then.values().flatten() {
            assert_eq!(replicas.iter().collect::<BTreeSet<_>>().len(), replicas.len(), "twice on a broker");
            assert!(replicas.iter().all(|id| targets.iter().any(|target| target.id == *id)));
        }
        then
    }

    fn copies(now: &Replicas<'_>, then: &Replicas<'_>) -> usize {
        let pairs = now.values().flatten().zip(then.values().flatten());
        pairs.map(|((_, now), (_, then))| then.iter().filter(|id| !now.contains(id)).count()).sum()
    }

    /// Replicas and leaders of each broker.
    fn loads(of: &Replicas<'_>) -> BTreeMap<i32, (usize, usize)> {
        let mut loads = BTreeMap::<_, (usize, usize)>::new();
        for (_, replicas) in of.values().flatten() {
            for (slot, id) in replicas.iter().enumerate() {
                let load = loads.entry(*id).or_default();
                load.0 += 1;
                load.1 += usize::from(slot == 0);
            }
        }
        loads
    }

    #[test]
    fn what_is_even_stays() {
        let now = in_turn(12, 3, 4);
        assert_eq!(balance(&now, &brokers(1..=4), None, Aim::Even), Ok(Replicas::new()));
        assert_eq!(balance(&now, &brokers(1..=5), None, Aim::FewestMoves), Ok(Replicas::new()));
    }

    #[test]
    fn a_new_broker_gets_its_part_and_no_other_copies_are_made() {
        let now = in_turn(12, 3, 3);
        let then = planned(&now, &brokers(1..=4), None, Aim::Even);
        assert!(loads(&then).values().all(|load| *load == (9, 3)), "{:?}", loads(&then));
        assert_eq!(copies(&now, &then), 9);
    }

    #[test]
    fn a_broker_is_drained_with_the_copies_that_were_there() {
        let now = in_turn(16, 3, 4);
        let then = planned(&now, &brokers(1..=3), None, Aim::FewestMoves);
        assert_eq!(copies(&now, &then), 12);
        let kept = now.values().flatten().zip(then.values().flatten());
        let kept = kept.filter(|((_, now), _)| !now.contains(&4)).all(|(now, then)| now == then);
        assert!(kept && !loads(&then).contains_key(&4), "{then:?}");
        let leaders: Vec<_> = loads(&then).values().map(|load| load.1).collect();
        assert!(leaders.iter().all(|leads| (5..=6).contains(leads)), "{leaders:?}");
        // The replicas of a drained broker go where there are fewest.
        let now = topic(&[&[1, 2], &[1, 2], &[1, 3], &[1, 3], &[2, 3], &[2, 4]]);
        let then = planned(&now, &brokers(2..=5), None, Aim::FewestMoves);
        let replicas: Vec<_> = loads(&then).values().map(|load| load.0).collect();
        assert_eq!((copies(&now, &then), replicas), (4, vec![4, 3, 3, 2]));
    }

    #[test]
    fn racks_have_a_replica_each_where_there_are_enough() {
        let racks = targets(&[(1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c"), (6, "c")]);
        let now = topic(&[&[1, 2, 3], &[1, 2, 3], &[3, 4, 1], &[5, 6, 1], &[1, 3, 5], &[2, 4, 6]]);
        let then = planned(&now, &racks, None, Aim::Even);
        for (_, replicas) in then.values().flatten() {
            let of: BTreeSet<_> = replicas.iter().map(|id| (id - 1) / 2).collect();
            assert_eq!(of.len(), 3, "{replicas:?}");
        }
        assert!(loads(&then).values().all(|load| *load == (3, 1)), "{:?}", loads(&then));
        // One of each of four partitions was too much in its rack, and one more move makes all even.
        assert!(copies(&now, &then) <= 5, "{then:?}");
    }

    #[test]
    fn racks_of_different_sizes_come_before_equal_parts() {
        let racks = targets(&[(1, "a"), (2, "a"), (3, "b")]);
        let now = topic(&[&[1, 2], &[1, 2], &[1, 2], &[1, 2]]);
        let then = planned(&now, &racks, None, Aim::Even);
        let replicas: Vec<_> = loads(&then).values().map(|load| load.0).collect();
        assert_eq!((replicas, copies(&now, &then)), (vec![2, 2, 4], 4));
    }

    #[test]
    fn racks_that_not_all_have_do_not_count() {
        let racks = targets(&[(1, "a"), (2, "a"), (3, "")]);
        let now = topic(&[&[1, 2], &[2, 3], &[3, 1]]);
        assert_eq!(balance(&now, &racks, None, Aim::Even), Ok(Replicas::new()));
    }

    #[test]
    fn leaders_are_made_even_without_copies() {
        let now = topic(&[&[1, 2, 3], &[1, 2, 3], &[1, 3, 2], &[1, 2, 3], &[1, 3, 2], &[1, 2, 3]]);
        let then = planned(&now, &brokers(1..=3), None, Aim::Even);
        assert_eq!(copies(&now, &then), 0);
        assert!(loads(&then).values().all(|load| *load == (6, 2)), "{:?}", loads(&then));
        // Broker 3 can lead more only when 2 hands one on.
        let now = topic(&[&[1, 2], &[1, 2], &[1, 2], &[2, 3], &[2, 3], &[3, 1]]);
        let then = planned(&now, &brokers(1..=3), None, Aim::Even);
        assert!(loads(&then).values().all(|load| load.1 == 2), "{then:?}");
    }

    #[test]
    fn there_can_be_more_replicas_or_fewer() {
        let now = in_turn(9, 2, 3);
        let then = planned(&now, &brokers(1..=3), Some(3), Aim::FewestMoves);
        assert!(copies(&now, &then) == 9 && loads(&then).values().all(|load| *load == (9, 3)));
        let then = planned(&now, &brokers(1..=3), Some(1), Aim::Even);
        assert!(copies(&now, &then) == 0 && loads(&then).values().all(|load| *load == (3, 3)));
        assert!(balance(&now, &brokers(1..=3), Some(4), Aim::Even).is_err());
        assert!(balance(&now, &brokers(1..=1), None, Aim::Even).is_err());
        assert!(balance(&now, &brokers(1..=3), Some(0), Aim::Even).is_err());
    }

    #[test]
    fn many_topics_are_even_all_together() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let now: Replicas<'static> = names.iter().map(|name| (*name, vec![(0, vec![1, 2])])).collect();
        let then = planned(&now, &brokers(1..=4), None, Aim::Even);
        let replicas: Vec<_> = loads(&then).values().map(|load| load.0).collect();
        assert!(replicas.iter().all(|replicas| (3..=4).contains(replicas)), "{replicas:?}");
        assert!(loads(&then).values().all(|load| (1..=2).contains(&load.1)), "{then:?}");
        assert_eq!(copies(&now, &then), 6);
    }
}
