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

/// What was used.
#[derive(Debug)]
pub enum Bucket {
    Rate(Rate),
    Tokens(TokenBucket),
}

/// Whose it is: of a user, a client id, or both; of an address, which stands in place of a client id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BucketKey {
    key: QuotaKey,
    user: Option<Box<str>>,
    client_id: Option<Box<str>>,
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
    pub fn get(&self, key: BucketKey, now_ms: i64, make: impl FnOnce() -> Bucket) -> Arc<Mutex<Bucket>> {
        let mut inner = self.inner.lock();
        inner.sweep(now_ms);
        if let Some(entry) = inner.by_key.get_mut(&key) {
            entry.used_ms = now_ms;
            return Arc::clone(&entry.bucket);
        }
        let new = || Arc::new(Mutex::new(make()));
        if inner.by_key.len() >= BUCKETS_MAX {
            return Arc::clone(inner.shared.entry(key.key).or_insert_with(new));
        }
        let bucket = new();
        inner.by_key.insert(key, Entry { bucket: Arc::clone(&bucket), used_ms: now_ms });
        bucket
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
        buckets.get(key, now_ms, || Bucket::Rate(Rate::new(11, 1)))
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
        let other = buckets.get(request, 0, || Bucket::Rate(Rate::new(11, 1)));
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
