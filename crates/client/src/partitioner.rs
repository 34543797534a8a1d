//! Which partition a record goes to: Kafka's own choice, so that keys meet wherever they were produced.

/// Kafka's 32-bit murmur2, with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`).
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        k = k.wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// The partition of a key: Kafka clears the sign bit before it divides (`Utils.toPositive`).
fn partition_of_key(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// Chooses partitions of one topic. Records without a key stick to one partition until a batch of it is full, then go
/// to another (KIP-480), which keeps batches large.
#[derive(Clone, Debug)]
pub struct Partitioner {
    state: u64,
    sticky: Option<usize>,
}

impl Partitioner {
    /// The seed decides the order in which partitions without keys take turns.
    pub fn new(seed: u64) -> Self {
        Self { state: seed | 1, sticky: None }
    }

    pub fn partition(&mut self, key: Option<&[u8]>, partitions: usize) -> usize {
        match key {
            Some(key) => partition_of_key(key, partitions),
            None => match self.sticky {
                Some(sticky) if sticky < partitions => sticky,
                _ => {
                    let next = self.random() as usize % partitions;
                    self.sticky = Some(next);
                    next
                }
            },
        }
    }

    /// The batch that records without a key went to is full: others are next.
    pub fn batch_is_full(&mut self, partition: usize, partitions: usize) {
        if self.sticky == Some(partition) && partitions > 1 {
            let step = 1 + self.random() as usize % (partitions - 1);
            self.sticky = Some((partition + step) % partitions);
        }
    }

    /// Xorshift: enough to spread load.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `UtilsTest.testMurmur2` of Apache Kafka.
    #[test]
    fn murmur2_is_kafkas() {
        let cases: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (data, hash) in cases {
            assert_eq!(murmur2(data) as i32, hash, "{data:?}");
        }
    }

    #[test]
    fn null_keys_stick_until_the_batch_is_full() {
        let mut partitioner = Partitioner::new(7);
        let first = partitioner.partition(None, 5);
        assert!((0..100).all(|_| partitioner.partition(None, 5) == first));
        partitioner.batch_is_full(first, 5);
        assert_ne!(partitioner.partition(None, 5), first);
    }

    #[test]
    fn all_partitions_get_their_turn() {
        let mut partitioner = Partitioner::new(42);
        let mut seen = [0; 4];
        for _ in 0..400 {
            let partition = partitioner.partition(None, 4);
            seen[partition] += 1;
            partitioner.batch_is_full(partition, 4);
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    }

    #[test]
    fn a_topic_that_shrank_is_no_trouble() {
        let mut partitioner = Partitioner::new(1);
        while partitioner.partition(None, 10) < 3 {
            let sticky = partitioner.partition(None, 10);
            partitioner.batch_is_full(sticky, 10);
        }
        assert!(partitioner.partition(None, 3) < 3);
    }
}
