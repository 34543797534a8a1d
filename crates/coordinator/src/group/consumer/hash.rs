//! A hash of a group's topics, by which changes of them are noticed (KIP-1101, Kafka's `Utils.computeGroupHash`).
//!
//! It is stored, so that it has to be what Kafka computes: otherwise every group would rebalance once after it has
//! moved from one to the other.

use twox_hash::XxHash3_64;

use crate::group::interfaces::TopicSnapshot;

/// The hash of topics, of which those that do not exist are left out. 0 if none does.
pub(super) fn of_topics<'a>(names: impl IntoIterator<Item = &'a str>, topics: &dyn TopicSnapshot) -> i64 {
    let mut existing: Vec<&str> = names.into_iter().filter(|name| topics.topic(name).is_some()).collect();
    existing.sort_unstable();
    existing.dedup();
    if existing.is_empty() {
        return 0;
    }
    let mut bytes = Vec::with_capacity(existing.len() * 8);
    for name in existing {
        bytes.extend(of_topic(name, topics).to_le_bytes());
    }
    XxHash3_64::oneshot(&bytes).cast_signed()
}

fn of_topic(name: &str, topics: &dyn TopicSnapshot) -> u64 {
    let Some(topic) = topics.topic(name) else { return 0 };
    let mut bytes = vec![0];
    for half in [&topic.id.0[..8], &topic.id.0[8..]] {
        bytes.extend(half.iter().rev());
    }
    put_string(&mut bytes, name);
    bytes.extend(topic.partition_count.to_le_bytes());
    let mut racks = topics.racks(name);
    racks.resize(usize::try_from(topic.partition_count).unwrap_or(0), Vec::new());
    for (partition, mut racks) in (0i32..).zip(racks) {
        bytes.extend(partition.to_le_bytes());
        racks.sort_unstable();
        for rack in racks {
            bytes.extend((rack.encode_utf16().count() as i32).to_le_bytes());
            put_string(&mut bytes, &rack);
        }
    }
    XxHash3_64::oneshot(&bytes)
}

/// A string as hash4j's streams take it: its units of UTF-16, and how many there are.
fn put_string(bytes: &mut Vec<u8>, text: &str) {
    let mut units = 0i32;
    for unit in text.encode_utf16() {
        bytes.extend(unit.to_le_bytes());
        units += 1;
    }
    bytes.extend(units.to_le_bytes());
}
