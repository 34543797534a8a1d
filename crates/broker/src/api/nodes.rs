//! The brokers of the cluster as a client is told to reach them: by the endpoint of the listener that it came to
//! itself.

use metadata::{BrokerEndpoint, MetadataImage, Partition, RegisteredBroker};

/// Brokers that serve, each with the endpoint for the client.
pub(super) fn active<'a>(
    image: &'a MetadataImage,
    listener: &str,
) -> impl Iterator<Item = (&'a RegisteredBroker, &'a BrokerEndpoint)> {
    reachable(image, listener).filter(|(broker, _)| !broker.fenced)
}

/// All brokers that are registered, each with the endpoint for the client. One without such a listener is left out.
pub(super) fn reachable<'a>(
    image: &'a MetadataImage,
    listener: &str,
) -> impl Iterator<Item = (&'a RegisteredBroker, &'a BrokerEndpoint)> {
    image.brokers().filter_map(move |broker| Some((broker, broker.endpoint(listener)?)))
}

/// The replicas of a partition that are on brokers which do not serve (`KRaftMetadataCache.getOfflineReplicas`).
pub(super) fn offline_replicas(image: &MetadataImage, partition: &Partition) -> Vec<i32> {
    let is_offline = |id: &&i32| image.broker(**id).is_none_or(|broker| broker.fenced);
    partition.replicas.iter().filter(is_offline).copied().collect()
}
