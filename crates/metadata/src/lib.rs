//! The cluster's metadata: what topics, brokers, settings, access control lists, credentials and quotas there are, and
//! how they may change.
//!
//! [`MetadataImage`] is the state at one point in time. [`MetadataCache`] holds the newest one for readers, and passes
//! each to [`Applied`] listeners. [`changes`] decides requests on an image: pure, what it returns are records and
//! answers. The broker's controller has the quorum commit them.

pub mod acl;
mod apply;
mod cache;
pub mod changes;
pub mod features;
mod image;
mod name;
mod ordered_map;
mod partition_history;
mod placement;
pub mod properties;
pub mod quota;
mod replica_counts;
mod requests;
mod scram;

pub use apply::{ApplyError, MetadataDelta, TopicChange};
pub use cache::{Applied, MetadataCache};
pub use changes::brokers::{BrokerRegistration, PRODUCER_ID_BLOCK, ProducerIdBlock};
pub use features::Feature;
pub use image::{
    BrokerEndpoint, ConfigResource, MetadataImage, NO_LEADER, Partition, RegisteredBroker, ResourceKind, Topic,
};
pub use name::{
    CLUSTER_METADATA, CONSUMER_OFFSETS, InvalidTopicName, LENGTH_MAX as TOPIC_NAME_BYTES_MAX, TRANSACTION_STATE,
    TopicName, is_internal, validate_name,
};
pub use partition_history::{ChangeCause, PartitionChange, PartitionHistory};
pub use quota::{ClientQuota, ClientQuotas, EntityName, InvalidQuota, QuotaEntity, QuotaKey, QuotaShare};
pub use requests::{Decided, May};
pub use scram::{InvalidCredential, ScramCredential, ScramCredentials, ScramMechanism};
