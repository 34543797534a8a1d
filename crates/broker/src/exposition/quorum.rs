//! The cluster as this node knows it: its controller, its brokers, its partitions.

use std::fmt;

use metadata::NO_LEADER;

use super::page::Page;
use crate::Broker;

pub(super) fn write(page: &mut Page<'_>, broker: &Broker) -> fmt::Result {
    let status = broker.quorum.status();
    let leads = u64::from(status.own_epoch.is_some());
    page.gauge("parshall_controller_active", "1 if this node is the active controller", leads)?;
    let known = u64::from(status.leader.is_some());
    page.gauge("parshall_quorum_leader_known", "1 if this node knows who leads the metadata quorum", known)?;
    page.gauge(
        "parshall_quorum_leader_id",
        "The node that leads the metadata quorum; -1 if none is known",
        status.leader.unwrap_or(-1),
    )?;
    page.gauge("parshall_quorum_epoch", "The epoch of the metadata quorum", i64::from(status.epoch))?;
    page.gauge("parshall_quorum_voters", "Voters of the metadata quorum", status.voters.voters.len())?;
    page.gauge(
        "parshall_quorum_high_watermark",
        "The first offset of the metadata that is not known to be committed",
        status.high_watermark,
    )?;
    page.gauge(
        "parshall_quorum_failed",
        "1 if the log of the metadata on this node has failed",
        u64::from(status.has_failed),
    )?;
    page.counter(
        "parshall_quorum_refused_messages",
        "Messages to the metadata quorum that no member sends, and that were dropped",
        broker.quorum.refused_messages(),
    )?;

    let image = broker.metadata.load();
    page.gauge(
        "parshall_metadata_applied_offset",
        "The offset of the metadata that this node works by",
        image.offset(),
    )?;
    let (active, fenced): (Vec<_>, Vec<_>) = image.brokers().partition(|broker| !broker.fenced);
    page.gauge("parshall_cluster_active_brokers", "Brokers that are registered and not fenced", active.len())?;
    page.gauge("parshall_cluster_fenced_brokers", "Brokers that are registered and fenced", fenced.len())?;
    page.gauge("parshall_cluster_topics", "Topics of the cluster", image.topic_count())?;
    page.gauge("parshall_cluster_partitions", "Partitions of the cluster", image.partition_count())?;
    let partitions = image.topics().flat_map(|topic| &topic.partitions);
    let offline = partitions.filter(|partition| partition.leader == NO_LEADER).count();
    page.gauge("parshall_cluster_offline_partitions", "Partitions of the cluster without a leader", offline)
}
