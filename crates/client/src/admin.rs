//! Administration of a cluster, for whoever shows or changes it: one module per theme, all of them methods of
//! [`crate::Client`].
//!
//! What is asked of many things at once goes out in one request per broker that has to be asked, to all of them at the
//! same time, and is answered thing by thing: that one of them fails says nothing of the others.

mod acls;
mod cluster;
mod configs;
mod elections;
mod features;
mod groups;
mod leaders;
mod log_dirs;
mod producers;
mod quorum;
mod quotas;
mod reassignments;
mod records;
mod reset;
#[cfg(test)]
mod tests;
mod topics;
mod transactions;
mod users;

use std::collections::BTreeMap;

pub use cluster::{ClusterBroker, ClusterDescription};
pub use configs::{ConfigEntry, ConfigSource, ConfigSynonym, ConfigType, Resource, ResourceKind};
pub use elections::ElectionKind;
pub use groups::{
    CommittedOffsets, GroupDescription, GroupEpochs, GroupMember, ListedGroup, ListedGroups, MemberProgress,
};
pub use log_dirs::{LogDir, LogDirReplica};
pub use producers::{HangingTransaction, HangingTransactions, PartitionProducer};
pub use quorum::{Quorum, QuorumReplica};
pub use quotas::{QUOTA_CLIENT_ID, QUOTA_IP, QUOTA_USER, QuotaEntity, Quotas};
pub use reassignments::Reassignment;
pub use reset::{OffsetMove, ResetTarget};
use tokio::task::JoinSet;
pub use topics::EligibleLeaders;
pub use transactions::{AbortTarget, ListedTransaction, ListedTransactions, TransactionDescription, TransactionFilter};
pub use users::{ScramMechanism, UserCredentials};

pub use crate::by_partition::ByPartition;
use crate::by_partition::by_topic;

/// How long brokers may take for what they do together. Less than what we wait for an answer, so that the broker can
/// say that it took too long.
const TIMEOUT_MS: i32 = 20_000;

/// Does all of this at the same time.
fn at_once<I, K, T, F>(work: I) -> impl Future<Output = BTreeMap<K, T>> + Send + use<I, K, T, F>
where
    I: IntoIterator<Item = (K, F)>,
    K: Ord + Send + 'static,
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (key, work) in work {
        tasks.spawn(async move { (key, work.await) });
    }
    async { tasks.join_all().await.into_iter().collect() }
}
