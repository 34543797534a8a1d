//! The certificates of listeners. There are no metrics where there are none.

use std::fmt;

use super::page::Page;
use crate::security::Certificates;

pub(super) fn write(page: &mut Page<'_>, certificates: &Certificates, now_ms: i64) -> fmt::Result {
    let listeners = || {
        let listeners = certificates.listeners().iter();
        listeners.filter_map(|listener| Some(([("listener", &*listener.name)], listener.tls()?)))
    };
    if certificates.listeners().is_empty() {
        return Ok(());
    }
    page.gauges(
        "parshall_certificate_expiry_seconds",
        "Until the certificate of a listener ends",
        listeners().map(|(labels, tls)| (labels, (tls.not_after_ms() - now_ms) as f64 / 1000.0)),
    )?;
    page.counters(
        "parshall_certificate_renewals",
        "Times that a listener got another certificate or truststore",
        listeners().map(|(labels, tls)| (labels, tls.renewals.get())),
    )?;
    page.counters(
        "parshall_certificate_refusals",
        "Times that what was in the files of a listener was not good, so that it kept what it had",
        listeners().map(|(labels, tls)| (labels, tls.refusals.get())),
    )
}
