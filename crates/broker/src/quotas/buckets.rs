//! What each user and client has used of its quotas, as long as they use them.
//!
//! There are no more buckets than [`BUCKETS_MAX`]. Whoever comes beyond shares one for each kind of quota: somebody who
//! changes the client id with each request gains nothing from that. A bucket that nobody has used for an hour ends.

use std::collections::HashMap;
use std::sync::Arc;

use metadata::QuotaKey;
use parking_lot::Mutex;

use super::rate::Rate;
use super::token_bucket::TokenBucket;

pub const BUCKETS_MAX: usize = 10_000;
const IDLE_MAX_MS: i64 = 3_600_000;
/// How often those that ended are looked for.
const SWEEP_INTERVAL_MS: i64 = 60_000;
/// Users and clients whose names begin with so many same bytes share a bucket.
const NAME_BYTES_MAX: usize = 256;

/// What somebody has used of a quota, and how they were throttled for that.
#[derive(Debug)]
pub struct Bucket {
    pub used: Used,
    pub throttles: Throttles,
}

#[derive(Debug)]
pub enum Used {
    Rate(Rate),
    Tokens(TokenBucket),
}

/// Of one bucket, as long as that lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttles {
    pub requests: u64,
    pub ms: u64,
    /// When the last one was.
    pub last_ms: i64,
}

/// Whose it is: of a user, a client id, or both; of an address, which stands in place of a client id. What is `None`
/// does not count for the quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey {
    pub key: QuotaKey,
    pub user: Option<Box<str>>,
    pub client_id: Option<Box<str>>,
}

impl BucketKey {
    pub fn new(key: QuotaKey, user: Option<&str>, client_id: Option<&str>) -> Self {
        let bounded = |name: &str| name[..name.floor_char_boundary(NAME_BYTES_MAX)].into();
        Self { key, user: user.map(bounded), client_id: client_id.map(bounded) }
    }
}

#[derive(Default)]
pub struct Buckets {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_key: HashMap<BucketKey, Entry>,
    /// For those beyond the bound.
    shared: HashMap<QuotaKey, Arc<Mutex<Bucket>>>,
    swept_ms: i64,
}

struct Entry {
    bucket: Arc<Mutex<Bucket>>,
    used_ms: i64,
}

impl Buckets {
    /// The bucket of somebody, which is made where there is none.
    pub fn get(&self, key: BucketKey, now_ms: i64, make: impl FnOnce() -> Used) -> Arc<Mutex<Bucket>> {
        let mut inner = self.inner.lock();
        inner.sweep(now_ms);
        if let Some(entry) = inner.by_key.get_mut(&key) {
            entry.used_ms = now_ms;
            return Arc::clone(&entry.bucket);
        }
        let new = || Arc::new(Mutex::new(Bucket { used: make(), throttles: Throttles::default() }));
        if inner.by_key.len() >= BUCKETS_MAX {
            return Arc::clone(inner.shared.entry(key.key).or_insert_with(new));
        }
        let bucket = new();
        inner.by_key.insert(key, Entry { bucket: Arc::clone(&bucket), used_ms: now_ms });
        bucket
    }

    /// Those who were throttled, who last were first, and no more than so many. Nobody of a shared bucket is among
    /// them.
    pub fn throttled(&self, now_ms: i64, count_max: usize) -> Vec<(BucketKey, Throttles)> {
        let mut inner = self.inner.lock();
        inner.sweep(now_ms);
        let of_buckets = inner.by_key.iter().map(|(key, entry)| (key, entry.bucket.lock().throttles));
        let mut throttled: Vec<_> = of_buckets.filter(|(_, throttles)| throttles.requests > 0).collect();
        throttled.sort_by_key(|(_, throttles)| std::cmp::Reverse(throttles.last_ms));
        throttled.truncate(count_max);
        throttled.into_iter().map(|(key, throttles)| (key.clone(), throttles)).collect()
    }

    pub fn count(&self, now_ms: i64) -> usize {
        let mut inner = self.inner.lock();
        inner.sweep(now_ms);
        inner.by_key.len()
    }
}

impl Inner {
    fn sweep(&mut self, now_ms: i64) {
        if now_ms - self.swept_ms >= SWEEP_INTERVAL_MS {
            self.swept_ms = now_ms;
            self.by_key.retain(|_, entry| now_ms - entry.used_ms < IDLE_MAX_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(buckets: &Buckets, client_id: &str, now_ms: i64) -> Arc<Mutex<Bucket>> {
        let key = BucketKey::new(QuotaKey::ProducerByteRate, None, Some(client_id));
        buckets.get(key, now_ms, || Used::Rate(Rate::new(11, 1)))
    }

    #[test]
    fn a_bucket_that_nobody_uses_ends_after_an_hour() {
        let buckets = Buckets::default();
        let first = get(&buckets, "a", 0);
        get(&buckets, "b", 1000);
        assert!(Arc::ptr_eq(&first, &get(&buckets, "a", 3_000_000)));
        assert_eq!(buckets.count(3_600_000), 2);
        assert_eq!(buckets.count(3_660_000), 1);
        assert!(Arc::ptr_eq(&first, &get(&buckets, "a", 3_660_000)));
        assert_eq!(buckets.count(7_260_000), 0);
        assert!(!Arc::ptr_eq(&first, &get(&buckets, "a", 7_260_000)));
    }

    #[test]
    fn who_comes_beyond_the_bound_shares_a_bucket() {
        let buckets = Buckets::default();
        let own: Vec<_> = (0..BUCKETS_MAX).map(|client| get(&buckets, &client.to_string(), 0)).collect();
        assert!(Arc::ptr_eq(&get(&buckets, "a", 0), &get(&buckets, "b", 0)));
        assert!(Arc::ptr_eq(&get(&buckets, "7", 0), &own[7]));
        assert_eq!(buckets.count(0), BUCKETS_MAX);
        let request = BucketKey::new(QuotaKey::RequestPercentage, None, Some("a"));
        let other = buckets.get(request, 0, || Used::Rate(Rate::new(11, 1)));
        assert!(!Arc::ptr_eq(&get(&buckets, "a", 0), &other));
    }

    #[test]
    fn names_are_kept_as_far_as_they_are_of_a_reasonable_length() {
        let buckets = Buckets::default();
        let long = "ä".repeat(16_000);
        assert!(Arc::ptr_eq(&get(&buckets, &long, 0), &get(&buckets, &format!("{long}b"), 0)));
        let client = BucketKey::new(QuotaKey::ProducerByteRate, None, Some(&long)).client_id.unwrap();
        assert_eq!(client.len(), NAME_BYTES_MAX);
    }
}
