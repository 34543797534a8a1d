//! What a request uses of its client's quotas, and how a connection is throttled (KIP-219): the answer leaves at once
//! and says for how long. Until then nothing is read, and no frame that has arrived is started. A connection that is
//! muted so is not idle, and what has arrived of it stays charged.

use std::time::Duration;

use metadata::QuotaKey;
use tokio::time::Instant;
use wire::frame::RequestHeader;

use super::Connection;
use crate::api;
use crate::frame::Frame;
use crate::quotas::{ClientName, Quotas};
use crate::stats::Stopwatch;

/// A request that counts for quotas.
pub(super) struct Metered {
    client_id: String,
    /// Of a Produce: how large the request is.
    produced_bytes: Option<usize>,
}

impl Connection {
    /// What is to be counted of a request when it is answered: nothing where there are no quotas, and of brokers.
    pub(super) fn meter(&self, header: &RequestHeader, request_bytes: usize) -> Option<Box<Metered>> {
        if !Quotas::are_any(&self.broker.metadata.load()) || self.peer.is_inter_broker {
            return None;
        }
        let produced_bytes = api::is_produce(header.api_key).then_some(request_bytes);
        Some(Box::new(Metered { client_id: header.client_id.clone().unwrap_or_default(), produced_bytes }))
    }

    /// Counts a request that is answered, by the quotas of now. The longest throttle counts.
    pub(super) fn count(&self, metered: &Metered, is_of_new_producer: bool, watch: &Stopwatch, answer: &mut Frame) {
        let image = self.broker.metadata.load();
        let client = ClientName { user: self.peer.principal.name(), client_id: &metered.client_id };
        let now_ms = self.broker.env.clock.now().monotonic_ms;
        let throttle_time_ms = |key, amount| {
            let limit = self.broker.quotas.of_client(&image, key, client, now_ms);
            limit.map_or(0, |limit| limit.record(amount, now_ms))
        };
        answer.throttle(throttle_time_ms(QuotaKey::RequestPercentage, watch.busy().as_secs_f64() * 100.0));
        if let Some(bytes) = metered.produced_bytes {
            answer.throttle(throttle_time_ms(QuotaKey::ProducerByteRate, bytes as f64));
        }
        if is_of_new_producer {
            answer.throttle(throttle_time_ms(QuotaKey::ProducerIdsRate, 1.0));
        }
        if answer.throttle_time_ms() > 0 {
            let ClientName { user, client_id } = client;
            let throttle_time_ms = answer.throttle_time_ms();
            tracing::debug!(address = %self.peer.address, ?user, ?client_id, throttle_time_ms, "a client is throttled");
        }
    }

    pub(super) fn mute(&mut self, throttle_time_ms: i32) {
        let Some(ms) = u64::try_from(throttle_time_ms).ok().filter(|ms| *ms > 0) else { return };
        let until = Instant::now() + Duration::from_millis(ms);
        self.muted_until = self.muted_until.max(Some(until));
        // What has not arrived is not waited for.
        self.short_since = None;
    }

    pub(super) fn end_mute(&mut self, now: Instant) {
        if self.muted_until.is_some_and(|until| now >= until) {
            self.muted_until = None;
            self.last_active = now;
        }
    }
}
