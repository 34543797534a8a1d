//! DescribeCluster (key 60), versions 0-2: the cluster's id, its controller and its brokers.
//!
//! Behaviour:
//! - Version 1 asks for an endpoint type (KIP-919): 1 is brokers. 2, controllers, is MISMATCHED_ENDPOINT_TYPE, since
//!   this is a broker's listener; any other is UNSUPPORTED_ENDPOINT_TYPE.
//! - The controller is a broker that clients can reach: see [`super::metadata`].
//! - Fenced brokers, which are registered and do not serve, are left out unless they are asked for (version 2,
//!   KIP-1073).

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::describe_cluster::{DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse};

use super::{RequestContext, nodes};
use crate::Broker;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    if let Err((error_code, message)) = check_endpoint_type(request.endpoint_type) {
        return DescribeClusterResponse { error_code, error_message: Some(message), ..Default::default() };
    }
    DescribeClusterResponse {
        cluster_id: broker.cluster_id.clone(),
        controller_id: broker.node_id,
        brokers: nodes::reachable(&broker.metadata.load(), &context.listener)
            .filter(|(node, _)| request.include_fenced_brokers || !node.fenced)
            .map(|(node, endpoint)| DescribeClusterBroker {
                broker_id: node.id,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: node.rack.clone(),
                is_fenced: node.fenced,
            })
            .collect(),
        cluster_authorized_operations: context
            .access(broker)
            .cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    }
}

fn check_endpoint_type(endpoint_type: i8) -> Result<(), (ErrorCode, String)> {
    match endpoint_type {
        BROKERS => Ok(()),
        CONTROLLERS => Err((
            ErrorCode::MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                .to_owned(),
        )),
        other => Err((ErrorCode::UNSUPPORTED_ENDPOINT_TYPE, format!("Unsupported endpoint type {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use wire::state::metadata::RegisterBrokerRecord;

    use super::*;
    use crate::api::test_support::{TestBroker, context, endpoint, registration};

    #[tokio::test]
    async fn fenced_brokers_are_told_of_when_the_client_asks_for_them() {
        let broker = TestBroker::start().await;
        let elsewhere = RegisterBrokerRecord { end_points: vec![endpoint("OTHER", 2)], ..registration(2) };
        let fenced = RegisterBrokerRecord { fenced: true, ..registration(3) };
        let no_rack = RegisterBrokerRecord { rack: None, ..registration(4) };
        broker.commit([elsewhere.into(), fenced.into(), no_rack.into()]).await;
        let ask = async |include_fenced_brokers| {
            let request = DescribeClusterRequest { include_fenced_brokers, ..Default::default() };
            let response = handle(&broker, &context(2), request).await;
            assert_eq!((response.error_code, response.controller_id), (ErrorCode::NONE, 1));
            let told = |node: DescribeClusterBroker| (node.broker_id, node.host, node.port, node.rack, node.is_fenced);
            response.brokers.into_iter().map(told).collect::<Vec<_>>()
        };
        let node = |id: i32, is_fenced| {
            let rack = (id != 4).then(|| format!("rack-{id}"));
            (id, format!("broker-{id}"), 9000 + id, rack, is_fenced)
        };
        assert_eq!(ask(false).await, [node(1, false), node(4, false)]);
        assert_eq!(ask(true).await, [node(1, false), node(3, true), node(4, false)]);
    }
}
