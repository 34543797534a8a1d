//! What producers send: sizes, values and keys. Everything follows from a seed.

use std::sync::Arc;

use bytes::Bytes;

use crate::text_enum::words;

/// Random bytes are made once; values are cut from here. Larger than what a codec looks back over.
const POOL_BYTES: usize = 4 * 1024 * 1024;
const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    #[error("{0:?} is no record size: 1024, 100-2000 for sizes in between, or 100:9,2000:1 for sizes with weights")]
    Sizes(String),
    #[error("a record may have {RECORD_BYTES_MAX} bytes at most")]
    TooLarge,
    #[error("the payload file has no records")]
    Empty,
}

/// How large values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    Fixed(usize),
    /// Any size in between, both ends included.
    Between(usize, usize),
    /// Sizes with the sums of the weights up to each.
    Weighted(Vec<(usize, u64)>),
}

impl Sizes {
    /// Of many values.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Between(from, to) => (from + to) as f64 / 2.0,
            Self::Weighted(sizes) => {
                let mut before = 0;
                let weighed = sizes
                    .iter()
                    .map(|(bytes, sum)| *bytes as f64 * (sum - std::mem::replace(&mut before, *sum)) as f64);
                let total: f64 = weighed.sum();
                total / sizes.last().map_or(1.0, |(_, sum)| *sum as f64)
            }
        }
    }
}

impl std::str::FromStr for Sizes {
    type Err = PayloadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PayloadError::Sizes(text.to_owned());
        let size = |part: &str| match part.trim().parse::<usize>() {
            Ok(size) if size <= RECORD_BYTES_MAX => Ok(size),
            Ok(_) => Err(PayloadError::TooLarge),
            Err(_) => Err(wrong()),
        };
        if text.contains(':') {
            let mut sum = 0_u64;
            let mut sizes = Vec::new();
            for part in text.split(',') {
                let (bytes, weight) = part.split_once(':').ok_or_else(wrong)?;
                let weight = weight.trim().parse::<u32>().map_err(|_| wrong())?;
                sum += u64::from(weight);
                sizes.push((size(bytes)?, sum));
            }
            return if sum > 0 { Ok(Self::Weighted(sizes)) } else { Err(wrong()) };
        }
        match text.split_once('-') {
            Some((from, to)) => match (size(from)?, size(to)?) {
                (from, to) if from <= to => Ok(Self::Between(from, to)),
                _ => Err(wrong()),
            },
            None => size(text).map(Self::Fixed),
        }
    }
}

words! {
    /// Which keys records get.
    KeyDistribution {
        None = "none",
        /// One after the other.
        Range = "range",
        /// All equally often.
        Random = "random",
        /// Few of them very often: the key k comes about as often as 1/(k+1).
        Skewed = "skewed",
    }
}

/// What the records of a run are like. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Payload {
    values: Values,
    keys: KeyDistribution,
    /// Different keys.
    key_range: u64,
    headers: Arc<[(Bytes, Bytes)]>,
}

#[derive(Clone, Debug)]
enum Values {
    Random {
        pool: Bytes,
        sizes: Sizes,
        /// Of each value, the part that is the same in all.
        repeated: f64,
    },
    /// In any order.
    Given(Vec<Bytes>),
    /// The number of the record, in decimal (`--payload-monotonic`).
    Numbers,
}

impl Payload {
    /// Values of random letters, as Kafka's tool sends; a part of each, from 0 to 1, compresses to nothing.
    pub fn random(sizes: Sizes, repeated: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pool: Vec<u8> = (0..POOL_BYTES).map(|_| b'A' + (random.next() % 26) as u8).collect();
        Self::of(Values::Random { pool: pool.into(), sizes, repeated: repeated.clamp(0.0, 1.0) })
    }

    /// These values, by chance.
    pub fn given(values: Vec<Bytes>) -> Result<Self, PayloadError> {
        if values.is_empty() {
            return Err(PayloadError::Empty);
        }
        Ok(Self::of(Values::Given(values)))
    }

    pub fn numbers() -> Self {
        Self::of(Values::Numbers)
    }

    fn of(values: Values) -> Self {
        Self { values, keys: KeyDistribution::None, key_range: 1, headers: Arc::new([]) }
    }

    pub fn with_keys(mut self, keys: KeyDistribution, range: u64) -> Self {
        (self.keys, self.key_range) = (keys, range.max(1));
        self
    }

    /// Names and values of headers, which every record gets.
    pub fn with_headers(mut self, headers: Vec<(Bytes, Bytes)>) -> Self {
        self.headers = headers.into();
        self
    }

    pub(crate) fn headers(&self) -> Arc<[(Bytes, Bytes)]> {
        Arc::clone(&self.headers)
    }

    /// The records of one producer.
    pub(crate) fn source(&self, seed: u64) -> Source {
        Source { payload: self.clone(), random: Random::new(seed), scratch: Vec::new(), key: Vec::new() }
    }
}

/// Makes one producer's records, one after the other, without allocating.
pub(crate) struct Source {
    payload: Payload,
    random: Random,
    scratch: Vec<u8>,
    key: Vec<u8>,
}

impl Source {
    /// Key and value of record `number`.
    pub(crate) fn record(&mut self, number: u64) -> (Option<&[u8]>, &[u8]) {
        use std::io::Write;
        let range = self.payload.key_range;
        let key = match self.payload.keys {
            KeyDistribution::None => None,
            KeyDistribution::Range => Some(number % range),
            KeyDistribution::Random => Some(self.random.next() % range),
            KeyDistribution::Skewed => Some(self.random.skewed(range)),
        };
        self.key.clear();
        if let Some(key) = key {
            write!(self.key, "{key}").expect("a vector takes everything");
        }
        let value = match &self.payload.values {
            Values::Random { pool, sizes, repeated } => {
                let bytes = self.random.size(sizes);
                let fresh = bytes - (bytes as f64 * repeated) as usize;
                if fresh == bytes && bytes <= pool.len() {
                    let start = self.random.next() as usize % (pool.len() - bytes + 1);
                    &pool[start..start + bytes]
                } else {
                    self.scratch.clear();
                    while self.scratch.len() < fresh {
                        let part = (fresh - self.scratch.len()).min(pool.len());
                        let start = self.random.next() as usize % (pool.len() - part + 1);
                        self.scratch.extend_from_slice(&pool[start..start + part]);
                    }
                    self.scratch.resize(bytes, b'A');
                    &self.scratch
                }
            }
            Values::Given(values) => &values[self.random.next() as usize % values.len()],
            Values::Numbers => {
                self.scratch.clear();
                write!(self.scratch, "{number}").expect("a vector takes everything");
                &self.scratch
            }
        };
        (key.map(|_| self.key.as_slice()), value)
    }
}

/// Xorshift: fast, and the same for the same seed.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Seeds that are close to each other must not give sequences that are.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| _ = random.next());
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn size(&mut self, sizes: &Sizes) -> usize {
        match sizes {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Between(from, to) => from + self.next() as usize % (to - from + 1),
            Sizes::Weighted(sizes) => {
                let sum = sizes.last().map_or(1, |(_, sum)| *sum);
                let drawn = self.next() % sum;
                sizes.iter().find(|(_, up_to)| drawn < *up_to).map_or(0, |(bytes, _)| *bytes)
            }
        }
    }

    /// A number below `range`, small ones far more often: the inverse of the logarithm spreads 1/(k+1).
    fn skewed(&mut self, range: u64) -> u64 {
        let drawn = self.next() as f64 / (1_u64 << 53) as f64;
        (((range as f64 + 1.0).powf(drawn) - 1.0) as u64).min(range - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn sizes(text: &str) -> Vec<usize> {
        let mut source = Payload::random(text.parse().unwrap(), 0.0, 1).source(1);
        (0..1000).map(|n| source.record(n).1.len()).collect()
    }

    #[test]
    fn sizes_are_as_they_were_asked_for() {
        assert!(sizes("1024").iter().all(|&size| size == 1024));
        let between = sizes("10-20");
        assert_eq!((between.iter().min(), between.iter().max()), (Some(&10), Some(&20)));
        let weighted = sizes("100:9,2000:1");
        let large = weighted.iter().filter(|&&size| size == 2000).count();
        assert!(weighted.iter().all(|size| [100, 2000].contains(size)));
        assert!((50..200).contains(&large), "{large}");
        assert_eq!(sizes("0")[0], 0);
    }

    #[test]
    fn wrong_sizes_are_refused() {
        for wrong in ["", "x", "20-10", "100:0", "100:x", "-1", "99999999999"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_records_and_another_does_not() {
        let payload = Payload::random(Sizes::Fixed(50), 0.0, 7);
        let values = |seed| (0..5).map(|n| payload.source(seed).record(n).1.to_vec()).collect::<Vec<_>>();
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
        let mut source = payload.source(1);
        assert_ne!(source.record(0).1.to_vec(), source.record(1).1.to_vec());
    }

    #[test]
    fn a_part_of_each_value_can_be_made_to_compress() {
        let mut source = Payload::random(Sizes::Fixed(100), 0.75, 7).source(1);
        let value = source.record(0).1;
        assert_eq!(value.len(), 100);
        assert!(value[25..].iter().all(|&byte| byte == b'A'));
        assert!(value[..25].iter().any(|&byte| byte != b'A'));
    }

    #[test]
    fn keys_follow_their_distribution() {
        let keys = |distribution| {
            let mut source = Payload::numbers().with_keys(distribution, 10).source(3);
            let mut counts: HashMap<Option<Vec<u8>>, usize> = HashMap::new();
            for number in 0..10_000 {
                *counts.entry(source.record(number).0.map(<[u8]>::to_vec)).or_default() += 1;
            }
            counts
        };
        assert_eq!(keys(KeyDistribution::None).keys().collect::<Vec<_>>(), [&None]);
        assert!(keys(KeyDistribution::Range).values().all(|&count| count == 1000));
        let random = keys(KeyDistribution::Random);
        assert!(random.len() == 10 && random.values().all(|count| (800..1200).contains(count)));
        let skewed = keys(KeyDistribution::Skewed);
        let (first, last) = (skewed[&Some(b"0".to_vec())], skewed[&Some(b"9".to_vec())]);
        assert!(skewed.len() == 10 && first > 5 * last, "{first} {last}");
    }
}
