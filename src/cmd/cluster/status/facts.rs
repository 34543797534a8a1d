//! What a cluster says of itself. What an older Kafka does not know is left open.

use std::collections::HashMap;
use std::time::Duration;

use client::{Client, ClientError};
use tokio::time::timeout;
use wire::api::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use wire::api::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionData, PartitionRequest, TopicRequest,
};

use crate::cmd::partitions::{Placement, Reassignments, min_in_sync_replicas, reassignments};

const CLUSTER_METADATA: &str = "__cluster_metadata";
/// Since this version a broker says whether it is fenced (KIP-1073).
const DESCRIBE_CLUSTER_FENCED: i16 = 2;
/// Without a leader of the quorum there may be no answer for as long as anybody waits.
const QUORUM_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) cluster_id: Option<String>,
    pub(super) quorum: Quorum,
    /// By their ids.
    pub(super) brokers: Vec<Broker>,
    /// By topic and number.
    pub(super) partitions: Vec<Partition>,
    pub(super) topics: usize,
}

#[derive(Debug, Default)]
pub(super) enum Quorum {
    /// Nobody knows the question.
    #[default]
    Unknown,
    /// Nobody answers it.
    Silent(String),
    Described(PartitionData),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Broker {
    pub(super) id: i32,
    pub(super) address: String,
    pub(super) rack: Option<String>,
    /// `None`: fenced brokers are not told of.
    pub(super) is_fenced: Option<bool>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Partition {
    pub(super) topic: String,
    pub(super) index: i32,
    pub(super) leader: Option<i32>,
    pub(super) replicas: Vec<i32>,
    pub(super) isr: Vec<i32>,
    pub(super) adding: Vec<i32>,
    pub(super) min_in_sync: usize,
}

impl Partition {
    pub(super) fn placement(&self) -> Placement<'_> {
        let Self { leader, replicas, isr, adding, min_in_sync, .. } = self;
        Placement { leader: *leader, replicas, isr, adding, min_in_sync: *min_in_sync }
    }
}

impl Facts {
    /// `for_quorum` has connections of its own: where the quorum does not answer, nothing that is asked behind it on
    /// the same connection is answered either.
    pub(super) async fn gather(client: &Client, for_quorum: &Client) -> Result<Self, ClientError> {
        let (quorum, facts) = tokio::join!(from_quorum(for_quorum), Self::gather_data(client));
        let ((quorum, mut moves), mut facts) = (quorum?, facts?);
        for partition in &mut facts.partitions {
            let key = (partition.topic.clone(), partition.index);
            partition.adding = moves.remove(&key).unwrap_or_default().0;
        }
        Ok(Self { quorum, ..facts })
    }

    async fn gather_data(client: &Client) -> Result<Self, ClientError> {
        let cluster = client.cluster().await?;
        let mut brokers = brokers(client).await?.unwrap_or_else(|| {
            let broker = |broker: &client::Broker| Broker {
                id: broker.id,
                address: broker.address(),
                rack: broker.rack.clone(),
                is_fenced: None,
            };
            cluster.brokers.values().map(broker).collect()
        });
        brokers.sort_by_key(|broker| broker.id);
        let topics: Vec<_> = cluster.topics.iter().filter(|(_, topic)| topic.error_code.is_none()).collect();
        let names: Vec<_> = topics.iter().map(|(name, _)| name.as_str()).collect();
        let min_in_sync = min_in_sync_replicas(client, &names).await?;
        let mut partitions = Vec::new();
        for (name, topic) in &topics {
            partitions.extend(topic.partitions.iter().map(|partition| Partition {
                topic: (*name).clone(),
                index: partition.index,
                leader: (partition.leader >= 0).then_some(partition.leader),
                replicas: partition.replicas.clone(),
                isr: partition.isr.clone(),
                adding: Vec::new(),
                min_in_sync: min_in_sync.get(*name).copied().unwrap_or(1),
            }));
        }
        let (cluster_id, topics) = (cluster.cluster_id.clone(), topics.len());
        Ok(Self { cluster_id, quorum: Quorum::Unknown, brokers, partitions, topics })
    }
}

/// `None` from brokers that do not know the question.
async fn brokers(client: &Client) -> Result<Option<Vec<Broker>>, ClientError> {
    let connection = client.any_broker().await?;
    let Ok(version) = connection.version::<DescribeClusterRequest>() else { return Ok(None) };
    let request = DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() };
    let DescribeClusterResponse { error_code, error_message, brokers, .. } = connection.send(&request).await?;
    ClientError::check(|| "the brokers of the cluster".to_owned(), error_code, error_message.as_deref())?;
    let brokers = brokers.into_iter().map(|broker| {
        let is_fenced = (version >= DESCRIBE_CLUSTER_FENCED).then_some(broker.is_fenced);
        let (id, rack) = (broker.broker_id, broker.rack);
        let address = client::Broker { id, host: broker.host, port: broker.port, rack: None }.address();
        Broker { id, address, rack, is_fenced }
    });
    Ok(Some(brokers.collect()))
}

/// What only the leader of the quorum can tell.
async fn from_quorum(client: &Client) -> Result<(Quorum, Reassignments), ClientError> {
    let quorum = quorum(client).await?;
    if matches!(quorum, Quorum::Silent(_)) {
        return Ok((quorum, HashMap::new()));
    }
    let moves = timeout(QUORUM_MAX, reassignments(client, None)).await.unwrap_or_default();
    Ok((quorum, moves))
}

async fn quorum(client: &Client) -> Result<Quorum, ClientError> {
    if client.any_broker().await?.version::<DescribeQuorumRequest>().is_err() {
        return Ok(Quorum::Unknown);
    }
    let silent = |_| Quorum::Silent(format!("it has not answered for {} s", QUORUM_MAX.as_secs()));
    Ok(timeout(QUORUM_MAX, described_quorum(client)).await.unwrap_or_else(silent))
}

async fn described_quorum(client: &Client) -> Quorum {
    let mut retry = client.retry();
    loop {
        match try_quorum(client).await {
            Ok(described) => return Quorum::Described(described),
            Err(error) => {
                if let Err(error) = retry.wait(error).await {
                    return Quorum::Silent(error.to_string());
                }
            }
        }
    }
}

async fn try_quorum(client: &Client) -> Result<PartitionData, ClientError> {
    let partitions = vec![PartitionRequest { partition_index: 0 }];
    let topics = vec![TopicRequest { topic_name: CLUSTER_METADATA.to_owned(), partitions }];
    let DescribeQuorumResponse { error_code, error_message, topics, .. } =
        client.send(&DescribeQuorumRequest { topics }).await?;
    let subject = || "the metadata quorum".to_owned();
    ClientError::check(subject, error_code, error_message.as_deref())?;
    let found = topics.into_iter().flat_map(|topic| topic.partitions).next();
    let partition = found.ok_or_else(|| ClientError::Missing { address: "a broker".to_owned(), subject: subject() })?;
    ClientError::check(subject, partition.error_code, partition.error_message.as_deref())?;
    Ok(partition)
}
