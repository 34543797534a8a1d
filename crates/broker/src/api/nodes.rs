//! The brokers of the cluster as clients are told to reach them.

use crate::meta::{BrokerEndpoint, MetadataImage, RegisteredBroker};

/// Brokers that serve, each with the endpoint for clients.
pub(super) fn active(image: &MetadataImage) -> impl Iterator<Item = (&RegisteredBroker, &BrokerEndpoint)> {
    reachable(image).filter(|(broker, _)| !broker.fenced)
}

/// All brokers that are registered, each with the endpoint for clients.
pub(super) fn reachable(image: &MetadataImage) -> impl Iterator<Item = (&RegisteredBroker, &BrokerEndpoint)> {
    image.brokers().filter_map(|broker| Some((broker, broker.endpoints.first()?)))
}
