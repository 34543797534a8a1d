//! How many replicas each broker has. A request for a new partition asks for it, so the image keeps it: counting them
//! would take longer the more partitions there are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// By broker; those without any are left out. Copies share it until one changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReplicaCounts(Arc<BTreeMap<i32, usize>>);

impl ReplicaCounts {
    pub(super) fn by_broker(&self) -> &BTreeMap<i32, usize> {
        &self.0
    }

    /// The replicas of a partition are others than before: there are none of one that is new, or gone.
    pub(super) fn update(&mut self, before: &[i32], after: &[i32]) {
        if before == after {
            return;
        }
        let counts = Arc::make_mut(&mut self.0);
        for id in after {
            *counts.entry(*id).or_default() += 1;
        }
        for id in before {
            match counts.entry(*id) {
                Entry::Occupied(mut count) if *count.get() > 1 => *count.get_mut() -= 1,
                Entry::Occupied(last) => _ = last.remove(),
                Entry::Vacant(_) => {}
            }
        }
    }
}
