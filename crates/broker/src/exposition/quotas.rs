//! Quotas of clients: whom they have throttled, by kind.

use std::fmt;

use super::page::Page;
use crate::quotas::Quotas;

pub(super) fn write(page: &mut Page<'_>, quotas: &Quotas, now_ms: i64) -> fmt::Result {
    let requests = quotas.throttled().map(|(key, told)| ([("quota", key.name())], told.requests.get()));
    page.counters("parshall_quota_throttles", "Requests and connections that were throttled, by quota", requests)?;
    let seconds = quotas.throttled().map(|(key, told)| ([("quota", key.name())], told.ms.get() as f64 / 1000.0));
    page.counters("parshall_quota_throttle_seconds", "For how long they were", seconds)?;
    let buckets = quotas.bucket_count(now_ms);
    page.gauge("parshall_quota_buckets", "Users, clients and addresses whose use of a quota is counted", buckets)
}
