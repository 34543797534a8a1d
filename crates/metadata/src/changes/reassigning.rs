//! Which replicas a partition has while it moves from some brokers to others (`PartitionReassignmentReplicas`,
//! `PartitionReassignmentRevert`, KIP-455).

use crate::image::Partition;

/// The replicas of a partition that is being reassigned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) replicas: Vec<i32>,
    pub(super) adding: Vec<i32>,
    pub(super) removing: Vec<i32>,
    pub(super) isr: Vec<i32>,
}

/// Whether a partition is being reassigned.
pub(super) fn is_under_way(partition: &Partition) -> bool {
    !partition.adding_replicas.is_empty() || !partition.removing_replicas.is_empty()
}

/// The replicas that a partition had when its reassignment began.
fn original(partition: &Partition) -> Vec<i32> {
    without(&partition.replicas, &partition.adding_replicas)
}

fn without(list: &[i32], left_out: &[i32]) -> Vec<i32> {
    list.iter().copied().filter(|id| !left_out.contains(id)).collect()
}

/// From what a partition has to the target. A reassignment that is under way is replaced: brokers that only it would
/// have added leave at once, unless the partition has no other in-sync replica.
pub(super) fn towards(partition: &Partition, target: &[i32]) -> Way {
    let original = original(partition);
    let abandoned = without(&partition.adding_replicas, target);
    let isr = without(&partition.isr, &abandoned);
    let (from, isr) = if isr.is_empty() { (&partition.replicas, partition.isr.clone()) } else { (&original, isr) };
    let mut removing = without(from, target);
    removing.sort_unstable();
    let mut adding = without(target, &original);
    adding.sort_unstable();
    Way { replicas: target.iter().chain(&removing).copied().collect(), adding, removing, isr }
}

/// Back to the former replicas. The ISR is empty when none of them is in sync.
pub(super) fn back(partition: &Partition) -> Way {
    Way {
        replicas: original(partition),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: without(&partition.isr, &partition.adding_replicas),
    }
}

/// How many replicas a partition has at its target.
pub(super) fn target_count(partition: &Partition) -> usize {
    without(&partition.replicas, &partition.removing_replicas).len()
}

/// ISR and replicas at the end of the reassignment, which is when all target replicas are in sync.
pub(super) fn completed(
    isr: &[i32],
    replicas: &[i32],
    adding: &[i32],
    removing: &[i32],
) -> Option<(Vec<i32>, Vec<i32>)> {
    if adding.is_empty() && removing.is_empty() {
        return None;
    }
    let (isr, replicas) = (without(isr, removing), without(replicas, removing));
    let is_complete = !isr.is_empty() && !replicas.is_empty() && replicas.iter().all(|id| isr.contains(id));
    is_complete.then_some((isr, replicas))
}

#[cfg(test)]
mod tests {
    use super::super::tests::partition;
    use super::*;

    fn way(replicas: &[i32], adding: &[i32], removing: &[i32], isr: &[i32]) -> Way {
        let [replicas, adding, removing, isr] = [replicas, adding, removing, isr].map(<[i32]>::to_vec);
        Way { replicas, adding, removing, isr }
    }

    fn on_the_way(replicas: &[i32], adding: &[i32], removing: &[i32], isr: &[i32]) -> Partition {
        Partition {
            adding_replicas: adding.to_vec(),
            removing_replicas: removing.to_vec(),
            ..partition(replicas, isr, isr[0])
        }
    }

    #[test]
    fn ways_by_table() {
        let resting = partition(&[1, 2, 3], &[1, 2, 3], 1);
        assert_eq!(towards(&resting, &[3, 1, 2]), way(&[3, 1, 2], &[], &[], &[1, 2, 3]));
        assert_eq!(towards(&resting, &[1, 5, 4]), way(&[1, 5, 4, 2, 3], &[4, 5], &[2, 3], &[1, 2, 3]));
        let moving = on_the_way(&[4, 5, 1, 2], &[4, 5], &[1, 2], &[1, 2, 4]);
        assert_eq!(target_count(&moving), 2);
        // Replicas of only the old target leave at once.
        assert_eq!(towards(&moving, &[5, 6]), way(&[5, 6, 1, 2], &[5, 6], &[1, 2], &[1, 2]));
        assert_eq!(towards(&moving, &[1, 2]), way(&[1, 2], &[], &[], &[1, 2]));
        assert_eq!(back(&moving), way(&[1, 2], &[], &[], &[1, 2]));
        // Unless it is all there is.
        let only_new = on_the_way(&[4, 5, 1, 2], &[4, 5], &[1, 2], &[4]);
        assert_eq!(towards(&only_new, &[5, 6]), way(&[5, 6, 1, 2, 4], &[5, 6], &[1, 2, 4], &[4]));
        assert_eq!(back(&only_new).isr, []);
    }

    #[test]
    fn the_end_of_the_way_is_when_all_that_stay_are_in_sync() {
        let replicas = [4, 5, 1];
        assert_eq!(completed(&[1, 4], &replicas, &[4, 5], &[1]), None);
        assert_eq!(completed(&[1, 4, 5], &replicas, &[4, 5], &[1]), Some((vec![4, 5], vec![4, 5])));
        assert_eq!(completed(&[1, 4, 5], &replicas, &[], &[]), None);
        assert_eq!(completed(&[1], &[1, 2], &[], &[2]), Some((vec![1], vec![1])));
        assert_eq!(completed(&[2], &[1, 2], &[], &[2]), None);
    }
}
