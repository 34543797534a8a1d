//! How much a consumer may be sent (`consumer_byte_rate`, KIP-219).
//!
//! What an answer has is read first. If its records were too much, the answer is empty and says how long to wait; they
//! do not count then, and the session stays as it was. What counts are the records.

use metadata::QuotaKey;
use platform::Clock;

use super::FetchContext;
use crate::quotas::{ClientLimit, ClientName, Quotas};

/// The quota of the consumer that asks.
pub(super) struct ConsumerQuota<'a> {
    limit: ClientLimit<'a>,
    clock: &'a dyn Clock,
}

impl<'a> ConsumerQuota<'a> {
    /// `None` if there is none.
    pub(super) fn of(asked: &FetchContext<'a>, clock: &'a dyn Clock) -> Option<Self> {
        let (broker, context) = asked.reader.filter(|_| !asked.is_inter_broker)?;
        let image = broker.metadata.load();
        if !Quotas::are_any(&image) {
            return None;
        }
        let client_id = context.client_id.as_deref().unwrap_or_default();
        let client = ClientName { user: context.principal.name(), client_id };
        let now_ms = clock.now().monotonic_ms;
        let limit = broker.quotas.of_client(&image, QuotaKey::ConsumerByteRate, client, now_ms)?;
        Some(Self { limit, clock })
    }

    /// How much an answer may have.
    pub(super) fn bytes_max(&self) -> i32 {
        self.limit.amount_max() as i32
    }

    /// Counts records that are about to be sent, unless they are too much. Returns for how long the consumer is
    /// throttled. Where there are no records, nobody waits.
    pub(super) fn admit(&self, bytes: i64) -> Result<i32, i32> {
        if bytes == 0 {
            return Ok(0);
        }
        self.limit.try_record(bytes as f64, self.clock.now().monotonic_ms)
    }
}
