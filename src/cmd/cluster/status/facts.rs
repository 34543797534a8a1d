//! What a cluster says of itself. What an older Kafka does not know is left open.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, ClientError, ClusterBroker, Liveness, Placement, Reassignment, TopicPartition};
use tokio::time::timeout;

/// Each broker is asked on its own, and waited for no longer. The same holds for the quorum: without a leader there may
/// be no answer for as long as anybody waits.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

type Reassignments = BTreeMap<TopicPartition, Reassignment>;

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
    Described(client::Quorum),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Broker {
    pub(super) id: i32,
    pub(super) address: String,
    pub(super) rack: Option<String>,
    /// `None`: fenced brokers are not told of.
    pub(super) is_fenced: Option<bool>,
    /// It has just been asked, and has not answered.
    pub(super) is_silent: bool,
}

impl Broker {
    fn new(known: ClusterBroker) -> Self {
        let (id, address) = (known.broker.id, known.broker.address());
        Self { id, address, rack: known.broker.rack, is_fenced: known.is_fenced, is_silent: false }
    }
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
            let key = TopicPartition::new(&partition.topic, partition.index);
            partition.adding = moves.remove(&key).unwrap_or_default().adding;
        }
        Ok(Self { quorum, ..facts })
    }

    async fn gather_data(client: &Client) -> Result<Self, ClientError> {
        // One that cannot be reached is an error at once.
        client.any_broker().await?;
        let cluster = client.cluster().await?;
        let brokers = client.describe_cluster().await?.brokers.into_iter().map(Broker::new);
        let mut brokers: Vec<_> = brokers.collect();
        let asked = brokers.iter().map(|broker| (broker.id, broker.address.clone()));
        let topics: Vec<_> = cluster.topics.iter().filter(|(_, topic)| topic.error_code.is_none()).collect();
        let names: Vec<_> = topics.iter().map(|(name, _)| name.as_str()).collect();
        let liveness = Liveness::new(&client.config().connection, ANSWER_MAX, ANSWER_MAX);
        let (silent, min_in_sync) = tokio::join!(liveness.find_silent(asked), client.min_in_sync_replicas(&names));
        let min_in_sync = min_in_sync?;
        for broker in &mut brokers {
            broker.is_silent = silent.contains(&broker.id);
        }
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

/// What only the leader of the quorum can tell.
async fn from_quorum(client: &Client) -> Result<(Quorum, Reassignments), ClientError> {
    // A cluster that cannot be reached at all is no quorum that is silent.
    client.any_broker().await?;
    let (quorum, moves) = tokio::join!(
        timeout(ANSWER_MAX, client.describe_quorum()),
        timeout(ANSWER_MAX, client.list_reassignments(None)),
    );
    let quorum = match quorum {
        Ok(Ok(quorum)) => Quorum::Described(quorum),
        Ok(Err(ClientError::NoQuorum { .. })) => Quorum::Unknown,
        Ok(Err(error)) => Quorum::Silent(error.to_string()),
        Err(_) => Quorum::Silent(format!("it has not answered for {} s", ANSWER_MAX.as_secs())),
    };
    // A broker that does not tell has none under way as far as we can know, as for Kafka's tool.
    Ok((quorum, moves.ok().and_then(Result::ok).unwrap_or_default()))
}
