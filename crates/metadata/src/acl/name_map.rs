//! A map by names whose copies share what they have in common, and in which a name among a hundred thousand is found
//! after a few steps through memory: where comparing names in their order would take fifteen, each of which waits for
//! memory several times.
//!
//! It is a tree by the bits of the names' hashes. It does not shrink: the next snapshot that is loaded makes another.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Bits of the hash for each step.
const STEP_BITS: u32 = 4;
const CHILDREN: usize = 1 << STEP_BITS;
/// A leaf with more becomes a branch.
const LEAF_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct NameMap<V>(Arc<Node<V>>);

#[derive(Clone, Debug)]
enum Node<V> {
    Branch([Arc<Node<V>>; CHILDREN]),
    Leaf(Vec<Slot<V>>),
}

#[derive(Clone, Debug)]
struct Slot<V> {
    hash: u64,
    name: Arc<str>,
    value: V,
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        Self(Arc::new(Node::Leaf(Vec::new())))
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The child that a hash belongs to, after so many bits of it.
fn child(hash: u64, bits: u32) -> usize {
    (hash >> bits) as usize % CHILDREN
}

impl<V: Clone + Default> NameMap<V> {
    pub(super) fn get(&self, name: &str) -> Option<&V> {
        let hash = hash(name);
        let (mut node, mut bits) = (&self.0, 0);
        loop {
            match &**node {
                Node::Branch(children) => {
                    node = &children[child(hash, bits)];
                    bits += STEP_BITS;
                }
                Node::Leaf(slots) => {
                    let slot = slots.iter().find(|slot| slot.hash == hash && &*slot.name == name);
                    return slot.map(|slot| &slot.value);
                }
            }
        }
    }

    /// The value of a name. One that is new gets the default.
    pub(super) fn get_or_default(&mut self, name: &Arc<str>) -> &mut V {
        get_or_default(&mut self.0, 0, hash(name), name)
    }

    pub(super) fn remove(&mut self, name: &str) {
        let hash = hash(name);
        let (mut node, mut bits) = (&mut self.0, 0);
        loop {
            match Arc::make_mut(node) {
                Node::Branch(children) => {
                    node = &mut children[child(hash, bits)];
                    bits += STEP_BITS;
                }
                Node::Leaf(slots) => return slots.retain(|slot| slot.hash != hash || &*slot.name != name),
            }
        }
    }
}

fn get_or_default<'a, V: Clone + Default>(
    node: &'a mut Arc<Node<V>>,
    bits: u32,
    hash: u64,
    name: &Arc<str>,
) -> &'a mut V {
    let node = Arc::make_mut(node);
    if let Node::Leaf(slots) = node
        && slots.len() >= LEAF_MAX
        && bits < u64::BITS
    {
        *node = branch(std::mem::take(slots), bits);
    }
    match node {
        Node::Branch(children) => get_or_default(&mut children[child(hash, bits)], bits + STEP_BITS, hash, name),
        Node::Leaf(slots) => {
            let known = slots.iter().position(|slot| slot.hash == hash && slot.name == *name);
            let at = known.unwrap_or_else(|| {
                slots.push(Slot { hash, name: Arc::clone(name), value: V::default() });
                slots.len() - 1
            });
            &mut slots[at].value
        }
    }
}

fn branch<V: Clone>(slots: Vec<Slot<V>>, bits: u32) -> Node<V> {
    let mut children: [Vec<Slot<V>>; CHILDREN] = std::array::from_fn(|_| Vec::new());
    for slot in slots {
        children[child(slot.hash, bits)].push(slot);
    }
    Node::Branch(children.map(|slots| Arc::new(Node::Leaf(slots))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use storage::simdisk::Rng;

    use super::*;

    #[test]
    fn is_what_a_plain_map_is_and_copies_do_not_change() {
        let mut rng = Rng::new(1);
        let (mut map, mut model) = (NameMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for step in 0..20_000 {
            let name = rng.below(3_000).to_string();
            if rng.percent(if step < 10_000 { 70 } else { 30 }) {
                let value = map.get_or_default(&name.as_str().into());
                assert_eq!(*value, model.get(&name).copied().unwrap_or_default());
                *value = step;
                model.insert(name, step);
            } else {
                map.remove(&name);
                model.remove(&name);
            }
            if step % 2_000 == 0 {
                copies.push((map.clone(), model.clone()));
            }
        }
        copies.push((map, model));
        for (map, model) in copies {
            for name in (0..3_000).map(|n| n.to_string()) {
                assert_eq!(map.get(&name), model.get(&name), "{name}");
            }
        }
    }

    /// However unlikely: nothing is left to tell names by but their letters.
    #[test]
    fn names_of_one_hash_are_told_apart() {
        let mut root = Arc::new(Node::Leaf(Vec::new()));
        let names: Vec<Arc<str>> = (0..100).map(|n| n.to_string().into()).collect();
        for (n, name) in names.iter().enumerate() {
            *get_or_default(&mut root, 0, 7, name) = n;
        }
        for (n, name) in names.iter().enumerate() {
            assert_eq!(*get_or_default(&mut root, 0, 7, name), n);
        }
    }
}
