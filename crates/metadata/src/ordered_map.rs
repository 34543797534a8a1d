//! A sorted map whose copies share what they have in common.
//!
//! Every change of metadata makes a new image while readers keep the old one. With ten thousand topics, copying a plain
//! map for each change would cost some hundred microseconds and half a megabyte; here a change copies the list of
//! chunks and the one chunk it falls into. Iteration is in order, so that answers and snapshots are the same in every
//! run.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

/// A full chunk is split into two halves.
const CHUNK_MAX: usize = 128;

/// Sorted, and never empty.
type Chunk<K, V> = Arc<Vec<(K, V)>>;

#[derive(Clone, Debug)]
pub(super) struct OrderedMap<K, V> {
    chunks: Arc<Vec<Chunk<K, V>>>,
    len: usize,
}

impl<K, V> Default for OrderedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Arc::default(), len: 0 }
    }
}

/// Where chunks begin and end depends on what came first, and does not count.
impl<K: Ord + Clone, V: Clone + PartialEq> PartialEq for OrderedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord + Clone, V: Clone> OrderedMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The chunk that a key is in if it is anywhere.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.chunks.partition_point(|chunk| chunk[0].0.borrow() <= key).saturating_sub(1)
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let position = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some(&chunk[position].1)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        let at = self.chunk_of(&key);
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(at) else {
            chunks.push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return;
        };
        let chunk = Arc::make_mut(chunk);
        match chunk.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(position) => chunk[position].1 = value,
            Err(position) => {
                chunk.insert(position, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK_MAX {
                    let upper = chunk.split_off(chunk.len() / 2);
                    chunks.insert(at + 1, Arc::new(upper));
                }
            }
        }
    }

    /// The value of a key. One that is new gets the default.
    pub(super) fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        if self.get(key).is_none() {
            self.insert(key.clone(), V::default());
        }
        let at = self.chunk_of(key);
        let chunk = Arc::make_mut(&mut Arc::make_mut(&mut self.chunks)[at]);
        let position = chunk.partition_point(|(other, _)| other < key);
        &mut chunk[position].1
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key);
        let position = self.chunks.get(at)?.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[at]);
        let (_, value) = chunk.remove(position);
        if chunk.is_empty() {
            chunks.remove(at);
        }
        self.len -= 1;
        Some(value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).inspect(|_| count_visit()).map(|(key, value)| (key, value))
    }

    /// Entries from the first one whose key is not less.
    pub(super) fn iter_from<'a, Q: Ord + ?Sized>(&'a self, start: &Q) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(start);
        let position = self.chunks.get(at).map_or(0, |chunk| chunk.partition_point(|(key, _)| key.borrow() < start));
        let chunks = self.chunks.get(at..).unwrap_or_default();
        let entries = chunks.iter().flat_map(|chunk| chunk.iter()).skip(position);
        entries.inspect(|_| count_visit()).map(|(key, value)| (key, value))
    }

    /// Entries whose keys are equal as far as `order` looks at them. It says how a key compares with those that are
    /// looked for, and goes by the first parts of what keys are ordered by: they lie together.
    pub(super) fn range_by(&self, order: impl Fn(&K) -> Ordering) -> impl Iterator<Item = (&K, &V)> {
        let at = self.chunks.partition_point(|chunk| order(&chunk[0].0).is_lt()).saturating_sub(1);
        let first = self.chunks.get(at).map_or(&[][..], |chunk| {
            let position = chunk.partition_point(|(key, _)| order(key).is_lt());
            &chunk[position..]
        });
        let others = self.chunks.get(at + 1..).unwrap_or_default();
        let entries = first.iter().chain(others.iter().flat_map(|chunk| chunk.iter()));
        let equal = entries.take_while(move |(key, _)| order(key).is_eq());
        equal.inspect(|_| count_visit()).map(|(key, value)| (key, value))
    }

    /// The last entry whose key is not greater.
    pub(super) fn last_up_to<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let position = chunk.partition_point(|(other, _)| other.borrow() <= key).checked_sub(1)?;
        count_visit();
        let (key, value) = &chunk[position];
        Some((key, value))
    }
}

#[cfg(not(test))]
fn count_visit() {}

/// Tests hold against each other what a decision looks at in small maps and in large ones.
#[cfg(test)]
use tests::count_visit;

#[cfg(test)]
pub mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::*;

    thread_local! {
        static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_visit() {
        VISITED.set(VISITED.get() + 1);
    }

    /// How many entries iterators pass in this thread while something is done.
    pub fn visited(work: impl FnOnce()) -> usize {
        let before = VISITED.get();
        work();
        VISITED.get() - before
    }

    #[test]
    fn is_what_a_plain_map_is_and_copies_do_not_change() {
        let mut random = 1u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % bound
        };
        let mut model = BTreeMap::new();
        let mut map = OrderedMap::default();
        let mut copies = Vec::new();
        for step in 0..20_000 {
            let key = next(3000);
            if next(3) < if step < 10_000 { 2 } else { 1 } {
                model.insert(key, step);
                map.insert(key, step);
            } else {
                assert_eq!(map.remove(&key), model.remove(&key));
            }
            if step % 1000 == 0 {
                copies.push((map.clone(), model.clone()));
            }
            let probe = next(3000);
            assert_eq!(map.get(&probe), model.get(&probe));
            if next(4) == 0 {
                let value = map.get_or_default(&probe);
                assert_eq!(*value, model.get(&probe).copied().unwrap_or_default());
                *value = step;
                model.insert(probe, step);
            }
        }
        copies.push((map, model));
        for (map, model) in copies {
            assert_eq!(map.len(), model.len());
            assert!(map.iter().eq(model.iter()));
            for start in [0, 1, 1499, 2999, 3000] {
                assert!(map.iter_from(&start).eq(model.range(start..)));
                assert_eq!(map.last_up_to(&start), model.range(..=start).next_back());
            }
            for hundred in [0, 7, 29, 30] {
                let range = map.range_by(move |key| (key / 100).cmp(&hundred));
                assert!(range.eq(model.range(100 * hundred..100 * (hundred + 1))));
            }
        }
    }
}
