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

/// Whether the client can be sent to a broker: it is registered, and has the listener. It may be fenced.
pub(super) fn is_reachable(image: &MetadataImage, listener: &str, id: i32) -> bool {
    image.broker(id).is_some_and(|broker| broker.endpoint(listener).is_some())
}

/// Whether a broker serves, and at the client's listener.
pub(super) fn is_online(image: &MetadataImage, listener: &str, id: i32) -> bool {
    image.broker(id).is_some_and(|broker| !broker.fenced && broker.endpoint(listener).is_some())
}

/// The replicas of a partition that the client cannot use now (`KRaftMetadataCache.getOfflineReplicas`).
pub(super) fn offline_replicas(image: &MetadataImage, listener: &str, partition: &Partition) -> Vec<i32> {
    partition.replicas.iter().copied().filter(|id| !is_online(image, listener, *id)).collect()
}
