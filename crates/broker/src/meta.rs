//! The cluster's metadata: what topics, brokers and settings there are, and the only way to change them.
//!
//! [`MetadataImage`] is the state at one point in time. [`MetadataCache`] holds the newest one for readers. Changes go
//! through the [`Controller`], which validates each request on the newest image, has the quorum commit the records, and
//! answers when they are applied: when the image is published and every [`Applied`] listener has done its part.
//!
//! [`Publisher`] sits between the quorum and the readers. Images come in order, each listener sees each of them once.

mod apply;
mod changes;
mod controller;
mod image;
mod name;
mod ordered_map;
mod placement;
pub mod properties;
mod publish;
mod requests;
mod round;
#[cfg(test)]
mod tests;

pub use apply::{ApplyError, MetadataDelta, TopicChange};
pub use changes::brokers::{BrokerRegistration, PRODUCER_ID_BLOCK, ProducerIdBlock};
pub use controller::{Controller, ControllerError};
pub use image::{
    BrokerEndpoint, ConfigResource, MetadataImage, NO_LEADER, Partition, RegisteredBroker, ResourceKind, Topic,
};
pub use name::{
    CLUSTER_METADATA, CONSUMER_OFFSETS, InvalidTopicName, LENGTH_MAX as TOPIC_NAME_BYTES_MAX, TRANSACTION_STATE,
    TopicName, is_internal, validate_name,
};
pub use publish::{Applied, Backlog, MetadataCache, Publisher};
pub use requests::Decided;
pub use round::Round;
