//! Which brokers a cluster has, those that are fenced included.

use wire::api::describe_cluster::DescribeClusterRequest;
use wire::api::unregister_broker::UnregisterBrokerRequest;

use crate::{Broker, Client, ClientError};

/// Since this version a broker says which ones are fenced (KIP-1073).
const DESCRIBE_CLUSTER_FENCED: i16 = 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDescription {
    pub cluster_id: Option<String>,
    /// A broker that takes requests for the controller.
    pub controller_id: Option<i32>,
    /// By their ids.
    pub brokers: Vec<ClusterBroker>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterBroker {
    pub broker: Broker,
    /// `None`: fenced brokers are not told of.
    pub is_fenced: Option<bool>,
}

impl Client {
    /// The cluster without its topics, asked for anew.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.try_cluster().await {
                Ok(cluster) => return Ok(cluster),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Removes the registration of a broker that has left for good. One that runs registers anew.
    pub async fn unregister_broker(&self, broker_id: i32) -> Result<(), ClientError> {
        let response =
            self.send_to_controller(&UnregisterBrokerRequest { broker_id }, |response| response.error_code).await?;
        ClientError::check(|| format!("broker {broker_id}"), response.error_code, response.error_message.as_deref())
    }

    /// What the user of this client may do to the cluster itself, as bits by Kafka's numbers of operations (KIP-430);
    /// none from brokers that do not tell.
    pub async fn cluster_operations(&self) -> Result<i32, ClientError> {
        let request = DescribeClusterRequest { include_cluster_authorized_operations: true, ..Default::default() };
        let response = self.send(&request).await?;
        let subject = || "the cluster".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        Ok(Some(response.cluster_authorized_operations).filter(|operations| *operations >= 0).unwrap_or(0))
    }

    async fn try_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let connection = self.any_broker().await?;
        let known = |id: i32| (id >= 0).then_some(id);
        let Ok(version) = connection.version::<DescribeClusterRequest>() else {
            let cluster = self.without_topics().await?;
            let mut brokers: Vec<_> = cluster.brokers.values().cloned().collect();
            brokers.sort_by_key(|broker| broker.id);
            return Ok(ClusterDescription {
                cluster_id: cluster.cluster_id.clone(),
                controller_id: known(cluster.controller_id),
                brokers: brokers.into_iter().map(|broker| ClusterBroker { broker, is_fenced: None }).collect(),
            });
        };
        let request = DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() };
        let response = connection.send(&request).await?;
        let subject = || "the brokers of the cluster".to_owned();
        ClientError::check(subject, response.error_code, response.error_message.as_deref())?;
        let brokers = response.brokers.into_iter().map(|broker| ClusterBroker {
            is_fenced: (version >= DESCRIBE_CLUSTER_FENCED).then_some(broker.is_fenced),
            broker: Broker { id: broker.broker_id, host: broker.host, port: broker.port, rack: broker.rack },
        });
        let mut brokers: Vec<_> = brokers.collect();
        brokers.sort_by_key(|broker| broker.broker.id);
        let controller_id = known(response.controller_id);
        Ok(ClusterDescription { cluster_id: Some(response.cluster_id), controller_id, brokers })
    }
}
