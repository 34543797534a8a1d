//! A plan of moves: as Kafka's tool writes it, whether a cluster can take it, and what it copies.

use std::collections::BTreeMap;

use client::{ReassignmentPlan, TopicPartition};

use super::balance::Replicas;
use crate::snapshot::Snapshot;

/// Of a plan as JSON.
pub(crate) const PLAN_BYTES_MAX: usize = 1 << 20;

/// The replicas that partitions shall have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub moves: ReassignmentPlan,
}

/// What a plan copies.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// By broker: replicas that it gets, and their bytes as their leaders have them.
    pub to: BTreeMap<i32, (usize, i64)>,
    /// By broker: replicas that it gives away.
    pub from: BTreeMap<i32, usize>,
    /// Partitions with another replica first.
    pub leaders: usize,
}

impl Copies {
    pub(crate) fn replicas(&self) -> usize {
        self.to.values().map(|(replicas, _)| replicas).sum()
    }

    pub(crate) fn bytes(&self) -> i64 {
        self.to.values().map(|(_, bytes)| bytes).sum()
    }
}

/// The replicas of a partition, as they will be when what is under way is done.
pub(crate) fn replicas_now(snapshot: &Snapshot, of: &TopicPartition) -> Option<Vec<i32>> {
    let partition = snapshot.partition(of)?;
    let leaving = snapshot.reassignments.get(of).map_or(&[][..], |reassignment| &reassignment.removing);
    Some(partition.replicas.iter().copied().filter(|id| !leaving.contains(id)).collect())
}

impl Plan {
    pub(crate) fn new(changes: Replicas<'_>) -> Self {
        let moves = changes.into_iter().flat_map(|(topic, partitions)| {
            partitions.into_iter().map(move |(index, replicas)| (TopicPartition::new(topic, index), replicas))
        });
        Self { moves: moves.collect() }
    }

    /// Reads what Kafka's tool writes. What is so already is left out, unless it is on its way.
    pub(crate) fn read(text: &str, snapshot: &Snapshot) -> Result<Self, String> {
        if text.len() > PLAN_BYTES_MAX {
            return Err("the plan is larger than 1 MiB: move the topics in several parts".to_owned());
        }
        let mut moves = client::read_reassignment_plan(text.as_bytes())?;
        for (of, replicas) in &moves {
            if snapshot.partition(of).is_none() {
                return Err(format!("there is no partition {of}"));
            }
            if let Some(id) = replicas.iter().find(|id| !snapshot.brokers.contains_key(id)) {
                return Err(format!("{of} shall be on broker {id}, and there is no such broker"));
            }
        }
        moves.retain(|of, replicas| {
            replicas_now(snapshot, of).as_ref() != Some(replicas) || snapshot.reassignments.contains_key(of)
        });
        Ok(Self { moves })
    }

    /// As Kafka's tool reads it, one partition in each line.
    pub(crate) fn json(&self) -> String {
        client::write_reassignment_plan(&self.moves)
    }

    pub(crate) fn copies(&self, snapshot: &Snapshot) -> Copies {
        let mut copies = Copies::default();
        for (of, then) in &self.moves {
            let Some(partition) = snapshot.partition(of) else { continue };
            let bytes = partition.full_bytes();
            for id in then.iter().filter(|id| !partition.replicas.contains(id)) {
                let to = copies.to.entry(*id).or_default();
                *to = (to.0 + 1, to.1 + bytes);
            }
            for id in partition.replicas.iter().filter(|id| !then.contains(id)) {
                *copies.from.entry(*id).or_default() += 1;
            }
            copies.leaders += usize::from(partition.replicas.first() != then.first());
        }
        copies
    }
}

#[cfg(test)]
pub(super) mod tests {
    use client::Reassignment;

    use super::*;
    use crate::snapshot::{Broker, Partition, Topic};

    /// Brokers 1 to 4, and topic `t` with two partitions on 1, 2 and 3, led by 1.
    pub(in super::super) fn snapshot() -> Snapshot {
        let size = client::LogDirReplica { size_bytes: 1000, offset_lag: 0, is_future: false };
        let partition = |index| Partition {
            index,
            leader: 1,
            replicas: vec![1, 2, 3],
            isr: vec![1, 2, 3],
            sizes: [(1, size)].into(),
            ..Partition::default()
        };
        let topic = Topic { partitions: vec![partition(0), partition(1)], ..Topic::default() };
        let broker = |id| (id, Broker { id, is_alive: true, ..Broker::default() });
        Snapshot {
            brokers: (1..=4).map(broker).collect(),
            topics: [("t".to_owned(), topic)].into(),
            ..Snapshot::empty()
        }
    }

    #[test]
    fn plans_are_read_as_kafkas_tool_writes_them() {
        let text = r#"{"version":1,"partitions":[
            {"topic":"t","partition":0,"replicas":[4,2,3],"log_dirs":["any","any","any"]},
            {"topic":"t","partition":1,"replicas":[1,2,3],"log_dirs":["any","any","any"]}]}"#;
        let mut snapshot = snapshot();
        let plan = Plan::read(text, &snapshot).unwrap();
        assert_eq!(plan.moves, BTreeMap::from([(TopicPartition::new("t", 0), vec![4, 2, 3])]));
        assert_eq!(Plan::read(&plan.json(), &snapshot).unwrap(), plan);
        // On its way, it can be sent back.
        let reassignment = Reassignment { adding: vec![4], ..Reassignment::default() };
        snapshot.reassignments.insert(TopicPartition::new("t", 1), reassignment);
        assert_eq!(Plan::read(text, &snapshot).unwrap().moves.len(), 2);
    }

    #[test]
    fn plans_that_the_cluster_cannot_take_are_refused() {
        let refusal = |text: &str| Plan::read(text, &snapshot()).unwrap_err();
        let of_one = |partition: &str| refusal(&format!(r#"{{"version":1,"partitions":[{partition}]}}"#));
        assert!(refusal("{").starts_with("that is no plan"));
        assert!(refusal(r#"{"version":2,"partitions":[]}"#).contains("version 1"));
        assert!(refusal(&" ".repeat(PLAN_BYTES_MAX + 1)).contains("larger than 1 MiB"));
        let refused = [
            (r#"{"topic":"u","partition":0,"replicas":[1]}"#, "there is no partition u-0"),
            (r#"{"topic":"t","partition":2,"replicas":[1]}"#, "there is no partition t-2"),
            (r#"{"topic":"t","partition":0,"replicas":[]}"#, "has no replicas"),
            (r#"{"topic":"t","partition":0,"replicas":[9]}"#, "no such broker"),
            (r#"{"topic":"t","partition":0,"replicas":[1,1]}"#, "on broker 1 twice"),
            (r#"{"topic":"t","partition":0,"replicas":[1],"log_dirs":["/d"]}"#, "log_dirs"),
            (r#"{"topic":"t","partition":0,"replicas":[1]},{"topic":"t","partition":0,"replicas":[2]}"#, "plan twice"),
        ];
        for (partition, why) in refused {
            assert!(of_one(partition).contains(why), "{partition}: {}", of_one(partition));
        }
    }

    #[test]
    fn a_plan_says_what_it_copies() {
        let moves = [(0, vec![4, 2, 3]), (1, vec![2, 1])];
        let plan = Plan { moves: moves.map(|(index, ids)| (TopicPartition::new("t", index), ids)).into() };
        let copies = plan.copies(&snapshot());
        let expected = Copies { to: [(4, (1, 1000))].into(), from: [(1, 1), (3, 1)].into(), leaders: 2 };
        assert_eq!((copies.replicas(), copies.bytes()), (1, 1000));
        assert_eq!(copies, expected);
    }
}
