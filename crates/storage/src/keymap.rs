//! The latest offset of each key, for compaction: bounded, and by a 128-bit hash of the key instead of the key, as in
//! Kafka (`SkimpyOffsetMap`, which uses MD5).
//!
//! Two keys with the same hash would be taken for one, and a record would be lost. With 128 bits that does not happen
//! by chance, and as the hash is keyed with a secret (SipHash-2-4 with 128 bits of output) nobody can make it happen.

use std::collections::HashMap;

/// A secret, different for each compaction if possible.
pub(crate) type HashKey = [u64; 2];

pub(crate) struct KeyMap {
    offsets: HashMap<u128, i64>,
    keys_max: usize,
    secret: HashKey,
}

impl KeyMap {
    pub(crate) fn new(keys_max: usize, secret: HashKey) -> Self {
        Self { offsets: HashMap::new(), keys_max: keys_max.max(1), secret }
    }

    /// Notes an offset of a key, greater than those noted before. False if there is no room for another key.
    pub(crate) fn put(&mut self, key: &[u8], offset: i64) -> bool {
        let hash = siphash128(self.secret, key);
        if self.offsets.len() >= self.keys_max && !self.offsets.contains_key(&hash) {
            return false;
        }
        self.offsets.insert(hash, offset);
        true
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<i64> {
        self.offsets.get(&siphash128(self.secret, key)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }
}

struct Sip([u64; 4]);

impl Sip {
    fn rounds(&mut self, n: u32) {
        let [v0, v1, v2, v3] = &mut self.0;
        for _ in 0..n {
            *v0 = v0.wrapping_add(*v1);
            *v1 = v1.rotate_left(13) ^ *v0;
            *v0 = v0.rotate_left(32);
            *v2 = v2.wrapping_add(*v3);
            *v3 = v3.rotate_left(16) ^ *v2;
            *v0 = v0.wrapping_add(*v3);
            *v3 = v3.rotate_left(21) ^ *v0;
            *v2 = v2.wrapping_add(*v1);
            *v1 = v1.rotate_left(17) ^ *v2;
            *v2 = v2.rotate_left(32);
        }
    }

    fn take_in(&mut self, word: u64) {
        self.0[3] ^= word;
        self.rounds(2);
        self.0[0] ^= word;
    }

    fn half(&self) -> u64 {
        self.0.iter().fold(0, |all, word| all ^ word)
    }
}

fn siphash128([k0, k1]: HashKey, bytes: &[u8]) -> u128 {
    let mut sip = Sip([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        sip.take_in(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    last[7] = bytes.len() as u8;
    sip.take_in(u64::from_le_bytes(last));
    sip.0[2] ^= 0xee;
    sip.rounds(4);
    let low = sip.half();
    sip.0[1] ^= 0xdd;
    sip.rounds(4);
    u128::from(sip.half()) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_reference() {
        // From vectors.h of the reference implementation: key 00 .. 0f, inputs of 0, 1 and 15 bytes 00 01 02 ...
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let input: Vec<u8> = (0..15).collect();
        let hash = |n: usize| siphash128(key, &input[..n]).to_le_bytes();
        assert_eq!(
            hash(0),
            [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93]
        );
        assert_eq!(
            hash(1),
            [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45]
        );
        assert_eq!(
            hash(15),
            [0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9]
        );
    }

    #[test]
    fn a_full_map_still_takes_known_keys() {
        let mut map = KeyMap::new(2, [1, 2]);
        assert!(map.put(b"a", 1) && map.put(b"b", 2));
        assert!(!map.put(b"c", 3));
        assert!(map.put(b"a", 4));
        assert_eq!((map.get(b"a"), map.get(b"b"), map.get(b"c"), map.len()), (Some(4), Some(2), None, 2));
    }
}
