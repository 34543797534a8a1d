//! The metrics of all nodes of the cluster, gathered by one of them for its console.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::ErrorCode;
use wire::api::describe_node::{DescribeNodeRequest, Rebalance};

use super::Metrics;
use crate::cluster::{Lane, Peers};
use crate::threads::spawn_blocking;

/// How long another node may take: the page does not wait for a node that hangs.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// The report of one node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    pub node_id: i32,
    /// In the OpenMetrics text format.
    pub metrics: Result<String, NodeError>,
    /// Of the groups that it coordinates, the newest first.
    pub rebalances: Vec<Rebalance>,
}

/// Why nothing is known of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("nobody knows where it is")]
    NoAddress,
    #[error("it did not answer within {} s", NODE_TIMEOUT.as_secs())]
    TimedOut,
    #[error("{0}")]
    Unreachable(#[from] client::ConnectionError),
    #[error("it answered {0}")]
    Refused(ErrorCode),
    #[error("what it answered is not text")]
    NotText,
    #[error("the metrics could not be made")]
    Failed,
}

/// The answer of a node.
struct NodeAnswer {
    metrics: String,
    rebalances: Vec<Rebalance>,
}

impl Metrics {
    /// The metrics of every registered node, by node id: this one without the network, the others in parallel, each
    /// within two seconds. Empty when the broker has stopped.
    pub async fn nodes(&self) -> Vec<NodeReport> {
        // The reference to the broker is dropped: a stop does not wait for an answer.
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let own_id = broker.node_id;
        let client = Arc::new(NodeClient { peers: Arc::clone(&broker.peers), cluster_id: broker.cluster_id.clone() });
        let mut answers = JoinSet::new();
        for node_id in broker.metadata.load().brokers().map(|node| node.id).filter(|id| *id != own_id) {
            let client = Arc::clone(&client);
            answers.spawn(async move { (node_id, client.ask(node_id).await) });
        }
        let (own, rebalances) = (Self::new(&broker), broker.groups.recent_rebalances());
        answers.spawn(async move {
            let page = spawn_blocking(move || own.text()).await;
            (own_id, page.map(|metrics| NodeAnswer { metrics, rebalances }).map_err(|_| NodeError::Failed))
        });
        drop(broker);
        let mut reports: Vec<_> = answers.join_all().await.into_iter().map(report).collect();
        reports.sort_by_key(|report| report.node_id);
        reports
    }
}

fn report((node_id, answer): (i32, Result<NodeAnswer, NodeError>)) -> NodeReport {
    match answer {
        Ok(NodeAnswer { metrics, rebalances }) => NodeReport { node_id, metrics: Ok(metrics), rebalances },
        Err(error) => NodeReport { node_id, metrics: Err(error), rebalances: Vec::new() },
    }
}

/// Sends DescribeNode to other nodes.
struct NodeClient {
    peers: Arc<Peers>,
    cluster_id: String,
}

impl NodeClient {
    async fn ask(&self, node_id: i32) -> Result<NodeAnswer, NodeError> {
        timeout(NODE_TIMEOUT, self.ask_without_end(node_id)).await.unwrap_or(Err(NodeError::TimedOut))
    }

    async fn ask_without_end(&self, node_id: i32) -> Result<NodeAnswer, NodeError> {
        let connection = self.peers.connection(node_id, Lane::Metrics).await?.ok_or(NodeError::NoAddress)?;
        let request = DescribeNodeRequest { cluster_id: self.cluster_id.clone(), sender: self.peers.own().clone() };
        let version = connection.version::<DescribeNodeRequest>()?;
        // A connection on which an answer is overdue ends, so that the next question finds another.
        let answer = connection.start_as(&request, version, NODE_TIMEOUT)?.await?;
        if !answer.error_code.is_none() {
            return Err(NodeError::Refused(answer.error_code));
        }
        let metrics = String::from_utf8(answer.metrics.into()).map_err(|_| NodeError::NotText)?;
        Ok(NodeAnswer { metrics, rebalances: answer.rebalances })
    }
}
