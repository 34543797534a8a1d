//! Quotas of clients (KIP-13, KIP-124, KIP-219, KIP-599): what each has used, and for how long it is throttled.
//!
//! Which quotas there are is in the metadata ([`ClientQuotas::of_client`](metadata::ClientQuotas::of_client)), which is
//! looked at for each request. What was used is counted here, by each broker for itself. Where there are no quotas,
//! nothing is.

mod buckets;
mod rate;
mod samples;
mod token_bucket;

use std::net::IpAddr;
use std::sync::Arc;

use configuration::BrokerConfig;
use metadata::{MetadataImage, QuotaKey, QuotaShare};
use parking_lot::Mutex;
use platform::Count;

use self::buckets::{Bucket, Buckets, Used};
pub use self::buckets::{BucketKey, Throttles};
pub use self::rate::Rate;
pub use self::samples::Samples;
use self::token_bucket::TokenBucket;

/// Clients that are told of who were throttled.
const THROTTLED_CLIENTS_MAX: usize = 100;
/// The longest that one request is throttled.
const THROTTLE_TIME_MAX_MS: f64 = 30_000.0;

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub struct ClientName<'a> {
    /// The name of its principal, without the type.
    pub user: &'a str,
    /// Empty where it has none.
    pub client_id: &'a str,
}

pub struct Quotas {
    buckets: Buckets,
    /// How many windows there are, and the seconds of each.
    windows: (i32, i32),
    controller_windows: (i32, i32),
    throttled: [Throttled; QuotaKey::ALL.len()],
}

/// How often and how long clients were throttled for one kind of quota.
#[derive(Default)]
pub struct Throttled {
    pub requests: Count,
    pub ms: Count,
}

/// A quota that counts for somebody, and what was used of it.
pub struct ClientLimit<'a> {
    quotas: &'a Quotas,
    key: QuotaKey,
    quota: f64,
    bucket: Arc<Mutex<Bucket>>,
}

impl Quotas {
    pub fn new(config: &BrokerConfig) -> Self {
        Self {
            buckets: Buckets::default(),
            windows: (config.quota_window_num, config.quota_window_size_seconds),
            controller_windows: (config.controller_quota_window_num, config.controller_quota_window_size_seconds),
            throttled: Default::default(),
        }
    }

    /// Whether there may be a quota for anybody.
    pub fn are_any(image: &MetadataImage) -> bool {
        image.quotas().entity_count() > 0
    }

    /// The quota of this kind that counts for a client, if one does.
    pub fn of_client(
        &self,
        image: &MetadataImage,
        key: QuotaKey,
        client: ClientName<'_>,
        now_ms: i64,
    ) -> Option<ClientLimit<'_>> {
        let ClientName { user, client_id } = client;
        let found = image.quotas().of_client(key, user, client_id)?;
        let (user, client_id) = match found.share {
            QuotaShare::UserAndClient => (Some(user), Some(client_id)),
            QuotaShare::User => (Some(user), None),
            QuotaShare::Client => (None, Some(client_id)),
        };
        Some(self.limit(BucketKey::new(key, user, client_id), key, found.value, now_ms))
    }

    /// The rate at which an address may connect, if there is one.
    pub fn of_address(&self, image: &MetadataImage, ip: IpAddr, now_ms: i64) -> Option<ClientLimit<'_>> {
        let key = QuotaKey::ConnectionCreationRate;
        let quota = image.quotas().connection_creation_rate(ip)?;
        let bucket_key = BucketKey::new(key, None, Some(&ip.to_canonical().to_string()));
        Some(self.limit(bucket_key, key, quota, now_ms))
    }

    fn limit(&self, bucket_key: BucketKey, key: QuotaKey, quota: f64, now_ms: i64) -> ClientLimit<'_> {
        let make = || match (key, self.windows, self.controller_windows) {
            (QuotaKey::ControllerMutationRate, _, (number, seconds)) => Used::Tokens(TokenBucket::new(number, seconds)),
            (_, (number, seconds), _) => Used::Rate(Rate::new(number, seconds)),
        };
        ClientLimit { quotas: self, key, quota, bucket: self.buckets.get(bucket_key, now_ms, make) }
    }

    /// The longest throttle. One for the time of requests and of connections is a window at most, as in Kafka.
    fn throttle_time_max_ms(&self, key: QuotaKey) -> f64 {
        match key {
            QuotaKey::RequestPercentage | QuotaKey::ConnectionCreationRate => {
                (f64::from(self.windows.1) * 1000.0).min(THROTTLE_TIME_MAX_MS)
            }
            QuotaKey::ProducerByteRate
            | QuotaKey::ConsumerByteRate
            | QuotaKey::ControllerMutationRate
            | QuotaKey::ProducerIdsRate => THROTTLE_TIME_MAX_MS,
        }
    }

    pub fn bucket_count(&self, now_ms: i64) -> usize {
        self.buckets.count(now_ms)
    }

    /// Who was throttled within the last hour, who last was first. Where there are many, only those.
    pub fn throttled_clients(&self, now_ms: i64) -> Vec<(BucketKey, Throttles)> {
        self.buckets.throttled(now_ms, THROTTLED_CLIENTS_MAX)
    }

    /// How much clients were throttled, by kind of quota.
    pub fn throttled(&self) -> impl Iterator<Item = (QuotaKey, &Throttled)> {
        QuotaKey::ALL.into_iter().zip(&self.throttled)
    }
}

impl ClientLimit<'_> {
    /// Counts what was used. Returns for how long the client is throttled then; 0 is not at all.
    pub fn record(&self, amount: f64, now_ms: i64) -> i32 {
        let mut bucket = self.bucket.lock();
        let wait_ms = match &mut bucket.used {
            Used::Rate(rate) => rate.record(amount, self.quota, now_ms),
            Used::Tokens(tokens) => tokens.take(amount, self.quota, now_ms),
        };
        self.throttle(wait_ms, &mut bucket.throttles, now_ms)
    }

    /// Counts what is about to be used, unless that is too much. A rate is compared as it would be then, tokens as they
    /// were before.
    pub fn try_record(&self, amount: f64, now_ms: i64) -> Result<i32, i32> {
        let mut bucket = self.bucket.lock();
        let recorded = match &mut bucket.used {
            Used::Rate(rate) => rate.try_record(amount, self.quota, now_ms),
            Used::Tokens(tokens) => tokens.try_take(amount, self.quota, now_ms).map(|()| 0.0),
        };
        match recorded {
            Ok(wait_ms) => Ok(self.throttle(wait_ms, &mut bucket.throttles, now_ms)),
            Err(wait_ms) => Err(self.throttle(wait_ms, &mut bucket.throttles, now_ms)),
        }
    }

    /// How much may be used at once when nothing was used before.
    pub fn amount_max(&self) -> f64 {
        let (number, seconds) = self.quotas.windows;
        self.quota * f64::from((number - 1).max(1)) * f64::from(seconds)
    }

    fn throttle(&self, wait_ms: f64, of_client: &mut Throttles, now_ms: i64) -> i32 {
        let throttle_time_ms = wait_ms.min(self.quotas.throttle_time_max_ms(self.key)) as i32;
        if throttle_time_ms > 0 {
            let (of_all, ms) = (&self.quotas.throttled[self.key as usize], throttle_time_ms.unsigned_abs().into());
            of_all.requests.add(1);
            of_all.ms.add(ms);
            *of_client = Throttles { requests: of_client.requests + 1, ms: of_client.ms + ms, last_ms: now_ms };
        }
        throttle_time_ms
    }
}

#[cfg(test)]
mod tests;
