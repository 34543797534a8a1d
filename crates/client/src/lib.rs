//! Outbound Kafka: one pipelined connection, and on top of it what a command line needs of a client.
//!
//! [`Connection`] knows frames, versions and timeouts, and nothing of topics; the laboratory and replication use it
//! directly. [`Client`] knows the cluster: who leads what, who coordinates whom, what is worth trying again.
//! [`Producer`], [`Consumer`] and [`Group`] are built on it, and administration is methods of it.
//!
//! How connections are secured, with TLS and SASL, is a [`Security`] in the [`ConnectionConfig`], made of Kafka's own
//! settings by [`SecurityConfig`].
//!
//! Speaks to Apache Kafka 2.1 and later and to Parshall: every request goes out in the highest version that both sides
//! know.

mod admin;
mod bootstrap_server;
mod by_partition;
mod client;
mod connection;
mod consumer;
mod document;
mod error;
#[cfg(test)]
mod fake_broker;
#[cfg(test)]
mod fake_cluster;
mod fetch;
mod file;
mod group;
mod health;
mod isolation;
mod liveness;
mod metadata;
mod offsets;
mod partitioner;
pub mod private_file;
mod producer;
mod protocol;
mod reassignment_plan;
mod replica_comparison;
mod sasl;
mod security;
mod security_error;
pub mod system_error;
mod tls;
mod transaction;

pub use self::security::{Security, SecurityConfig};
pub use admin::{
    AbortTarget, ByPartition, ClusterBroker, ClusterDescription, CommittedOffsets, ConfigEntry, ConfigSource,
    ConfigSynonym, ConfigType, ElectionKind, EligibleLeaders, GroupDescription, GroupEpochs, GroupMember,
    HangingTransaction, HangingTransactions, ListedGroup, ListedGroups, ListedTransaction, ListedTransactions, LogDir,
    LogDirReplica, MemberProgress, OffsetMove, PartitionProducer, QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, Quorum,
    QuorumReplica, QuotaEntity, Quotas, Reassignment, ResetTarget, Resource, ResourceKind, ScramMechanism,
    TransactionDescription, TransactionFilter, UserCredentials,
};
pub use bootstrap_server::bootstrap_server;
pub use client::{Client, ClientConfig, Retry};
pub use connection::{Connection, ConnectionConfig, ConnectionError, PendingFrame, PendingResponse};
pub use consumer::{ConsumedRecord, Consumer, ConsumerConfig, FetchTotals, ResetOffset};
pub use document::{Document, DocumentError, DocumentSource, UrlError};
pub use error::ClientError;
pub use fetch::FetchedBatches;
pub use group::{CommittedOffset, Group, GroupConfig, Membership};
pub use health::{Placement, VoterHealth};
pub use isolation::IsolationLevel;
pub use liveness::Liveness;
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use offsets::{EARLIEST, LATEST, ListedOffset};
pub use partitioner::{Partitioner, murmur2};
pub use producer::{Acks, Delivered, Delivery, Producer, ProducerConfig, ProducerRecord};
pub use protocol::assigned_partitions;
pub use reassignment_plan::{ReassignmentPlan, read_reassignment_plan, write_reassignment_plan};
pub use replica_comparison::{ReplicaComparison, ReplicaDifference, ReplicaProblem};
pub use security_error::SecurityError;
pub use transaction::{PRODUCE_ADDS_PARTITIONS, Transactions};

/// A partition of a topic, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: String,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl std::fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
