//! The page of a broker's metrics: counters, and its state at the moment of the request.

use std::fmt;
use std::sync::{Arc, Weak};

use metadata::PartitionChange;
use platform::panics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use super::page::Page;
use super::{certificates, disk, groups, journal, partitions, process, quorum, quotas, requests, transactions};
use crate::Broker;
use crate::close_reason::{CloseReason, Limit};
use crate::memory::Memory;

/// The metrics of a broker. It holds nothing that a stop would wait for.
pub struct Metrics {
    pub(super) broker: Weak<Broker>,
    registry: Registry,
}

/// Why a broker is not ready for clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    #[error("the broker has stopped")]
    Stopped,
    #[error("the log of the metadata has failed")]
    QuorumFailed,
    #[error("no node is known to lead the metadata quorum")]
    NoController,
    #[error("the broker is not registered")]
    Unregistered,
    #[error("the broker is fenced")]
    Fenced,
}

impl Metrics {
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Exposition(Arc::downgrade(broker))));
        Self { broker: Arc::downgrade(broker), registry }
    }

    /// In the OpenMetrics text format. It takes as long as a look at each partition does.
    pub fn text(&self) -> String {
        let mut page = String::new();
        text::encode(&mut page, &self.registry).expect("a string takes whatever is written to it");
        page
    }

    /// How a partition got its leader and its in-sync replicas, the newest change first. Empty when the broker has
    /// stopped.
    pub fn partition_changes(&self, topic: &str, partition: i32) -> Vec<PartitionChange> {
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let topic_id = broker.metadata.load().topic(topic).map(|topic| topic.id);
        topic_id.map_or_else(Vec::new, |id| broker.metadata.partition_history.of(id, partition))
    }

    /// Whether clients may be sent here.
    pub fn check_ready(&self) -> Result<(), NotReady> {
        let broker = self.broker.upgrade().ok_or(NotReady::Stopped)?;
        let status = broker.quorum.status();
        if status.has_failed {
            return Err(NotReady::QuorumFailed);
        }
        if status.leader.is_none() {
            return Err(NotReady::NoController);
        }
        match broker.metadata.load().broker(broker.node_id) {
            None => Err(NotReady::Unregistered),
            Some(own) if own.fenced => Err(NotReady::Fenced),
            Some(_) => Ok(()),
        }
    }
}

struct Exposition(Weak<Broker>);

impl fmt::Debug for Exposition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exposition").finish_non_exhaustive()
    }
}

impl Collector for Exposition {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(broker) = self.0.upgrade() else { return Ok(()) };
        let mut page = Page::new(encoder);
        let stats = &broker.shared.stats;
        write_node(&mut page, &broker)?;
        requests::write(&mut page, &stats.requests)?;
        write_connections(&mut page, &broker)?;
        quotas::write(&mut page, &broker.quotas, broker.env.clock.now().monotonic_ms)?;
        certificates::write(&mut page, &broker.certificates, broker.env.clock.now_ms())?;
        page.histogram("parshall_log_append_seconds", "Writes of what has gathered for a partition", &stats.appends)?;
        page.histogram(
            "parshall_log_sync_seconds",
            "Syncs to the disk: of a log (fdatasync), and commits of the journal",
            &stats.syncs,
        )?;
        let (journal, is_wanted) = (broker.shared.syncer.journal(), broker.config().log_journal_enable);
        journal::write(&mut page, &stats.journal, journal.map(|journal| &**journal), is_wanted)?;
        partitions::write(&mut page, &broker.partitions)?;
        page.counter(
            "parshall_isr_shrinks",
            "Times that a partition led here lost a replica in sync",
            stats.isr_shrinks.get(),
        )?;
        page.counter(
            "parshall_isr_expansions",
            "Times that a partition led here got one back",
            stats.isr_expansions.get(),
        )?;
        groups::write(&mut page, &broker)?;
        transactions::write(&mut page, &broker.transactions)?;
        quorum::write(&mut page, &broker)?;
        let is_stalled = u64::from(broker.quorum.is_disk_stalled());
        page.gauge("parshall_disk_stalled", "1 while the disk does not answer and others take over", is_stalled)?;
        disk::write(&mut page, &stats.disk)?;
        process::write(&mut page, &*broker.env.disk)
    }
}

fn write_node(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let node_id = broker.node_id.to_string();
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("node_id", &node_id), ("cluster_id", &broker.cluster_id)];
    page.gauges("parshall_build", "Which node this is", [(labels, 1u64)])?;
    let uptime = broker.env.clock.monotonic().as_secs_f64();
    page.gauge("parshall_uptime_seconds", "Since the process began", uptime)?;
    page.counter("parshall_panics", "Mistakes of the program that ended what it was doing", panics::count())
}

fn write_connections(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let connections = &broker.shared.stats.connections;
    page.gauge("parshall_connections", "Connections that are open", connections.open())?;
    page.counter("parshall_connections_accepted", "Connections that were accepted", connections.accepted.get())?;
    let refused =
        Limit::ALL.iter().zip(&connections.refused).map(|(limit, count)| ([("limit", limit.name())], count.get()));
    page.counters(
        "parshall_connections_refused",
        "Connections that were refused, by the limit that was reached",
        refused,
    )?;
    let closed = CloseReason::NAMES.iter().zip(&connections.closed);
    let closed = closed.map(|(reason, count)| ([("reason", *reason)], count.get()));
    page.counters("parshall_connections_closed", "Connections that have ended, by the reason", closed)?;
    let (received, sent) = (connections.received_bytes.get(), connections.sent_bytes.get());
    page.counter("parshall_network_received_bytes", "Bytes that came over connections", received)?;
    page.counter("parshall_network_sent_bytes", "Bytes that left over connections", sent)?;
    let Memory { requests, decoding, answers, .. } = &broker.memory;
    page.gauge(
        "parshall_request_memory_bytes",
        "Memory of what has arrived of requests, until its records are appended or it is answered",
        requests.used_bytes(),
    )?;
    page.gauge("parshall_request_memory_limit_bytes", "How much of it there may be", requests.size_bytes())?;
    page.gauge(
        "parshall_decoding_memory_bytes",
        "Memory of what large requests become beside their bytes, until they are answered, as far as it is estimated",
        decoding.used_bytes(),
    )?;
    page.gauge("parshall_decoding_memory_limit_bytes", "How much of it there may be", decoding.size_bytes())?;
    page.gauge(
        "parshall_answer_memory_bytes",
        "Memory of answers that their clients have not read",
        answers.used_bytes(),
    )?;
    page.gauge("parshall_answer_memory_limit_bytes", "How much of it there may be", answers.size_bytes())?;
    page.gauge("parshall_group_memory_bytes", "Memory of consumer groups", broker.groups.memory_bytes())
}
