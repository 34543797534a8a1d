//! Quotas of clients: whom they have throttled, by kind and by client.

use std::fmt;

use metadata::QuotaKey;

use super::page::Page;
use crate::quotas::{BucketKey, Quotas};

pub(super) fn write(page: &mut Page<'_>, quotas: &Quotas, now_ms: i64) -> fmt::Result {
    let requests = quotas.throttled().map(|(key, told)| ([("quota", key.name())], told.requests.get()));
    page.counters("parshall_quota_throttles", "Requests and connections that were throttled, by quota", requests)?;
    let seconds = quotas.throttled().map(|(key, told)| ([("quota", key.name())], told.ms.get() as f64 / 1000.0));
    page.counters("parshall_quota_throttle_seconds", "For how long they were", seconds)?;
    let buckets = quotas.bucket_count(now_ms);
    page.gauge("parshall_quota_buckets", "Users, clients and addresses whose use of a quota is counted", buckets)?;
    let clients = quotas.throttled_clients(now_ms);
    page.counters(
        "parshall_quota_client_throttles",
        "Requests and connections that were throttled, by quota and client",
        clients.iter().map(|(client, throttles)| (labels(client), throttles.requests)),
    )?;
    page.counters(
        "parshall_quota_client_throttle_seconds",
        "For how long they were",
        clients.iter().map(|(client, throttles)| (labels(client), throttles.ms as f64 / 1000.0)),
    )?;
    page.gauges(
        "parshall_quota_client_throttle_age_seconds",
        "Time since the client was throttled last",
        clients.iter().map(|(client, throttles)| {
            let age_ms = (now_ms - throttles.last_ms).max(0);
            (labels(client), age_ms as f64 / 1000.0)
        }),
    )
}

/// Empty is what does not count for the quota.
fn labels(client: &BucketKey) -> [(&'static str, &str); 4] {
    let (user, client_id) = (client.user.as_deref().unwrap_or(""), client.client_id.as_deref().unwrap_or(""));
    let (client_id, ip) = match client.key {
        QuotaKey::ConnectionCreationRate => ("", client_id),
        _ => (client_id, ""),
    };
    [("quota", client.key.name()), ("user", user), ("client_id", client_id), ("ip", ip)]
}
