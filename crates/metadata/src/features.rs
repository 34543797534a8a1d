//! The features of a cluster: the levels that this version supports, in one table (KIP-584, KIP-1022).
//!
//! A level is finalized for the whole cluster, by a record of the metadata that [`crate::changes::features`] decides.
//! Every broker registers with the levels that it supports, and is refused where they lack a finalized one: what
//! [`MetadataImage::feature_level`](crate::MetadataImage::feature_level) says, all brokers of the cluster can do.

/// What brokers of a cluster must agree upon before one of them does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Which records the metadata log has.
    MetadataVersion,
    /// 1: flexible records of transactions; 2: transactions that bump the epoch (KIP-890).
    TransactionVersion,
    /// 1: the consumer protocol (KIP-848).
    GroupVersion,
    /// 1: a quorum whose voters come and go (KIP-853).
    KRaftVersion,
    /// 1: replicas that were in sync below `min.insync.replicas` may lead (KIP-966).
    EligibleLeaderReplicasVersion,
}

/// A row of [`FEATURES`].
#[derive(Debug)]
pub struct SupportedFeature {
    pub feature: Feature,
    pub name: &'static str,
    /// The lowest and the highest level that this version supports. A new cluster starts at the highest.
    pub min: i16,
    pub max: i16,
    /// Whether all versions of Parshall are at the one level that there is, so that none is ever finalized.
    pub is_fixed: bool,
}

/// The features that this version supports (`org.apache.kafka.server.common.Feature`). Level 30 of the metadata is
/// Kafka 4.3's.
pub const FEATURES: &[SupportedFeature] = &[
    SupportedFeature { feature: Feature::MetadataVersion, name: "metadata.version", min: 7, max: 30, is_fixed: false },
    SupportedFeature {
        feature: Feature::TransactionVersion,
        name: "transaction.version",
        min: 0,
        max: 2,
        is_fixed: false,
    },
    SupportedFeature { feature: Feature::GroupVersion, name: "group.version", min: 0, max: 1, is_fixed: false },
    SupportedFeature { feature: Feature::KRaftVersion, name: "kraft.version", min: 1, max: 1, is_fixed: true },
    SupportedFeature {
        feature: Feature::EligibleLeaderReplicasVersion,
        name: "eligible.leader.replicas.version",
        min: 1,
        max: 1,
        is_fixed: true,
    },
];

/// Features of Kafka 4.3 that this version does not have.
pub const MISSING: [&str; 2] = ["share.version", "streams.version"];

impl Feature {
    /// Its row in the table.
    pub fn supported(self) -> &'static SupportedFeature {
        FEATURES.iter().find(|supported| supported.feature == self).expect("every feature has a row")
    }
}

/// The row of a feature's name.
pub fn find(name: &str) -> Option<&'static SupportedFeature> {
    FEATURES.iter().find(|supported| supported.name == name)
}
