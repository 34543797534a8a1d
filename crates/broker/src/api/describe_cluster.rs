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

use super::{RequestContext, nodes, operations};
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
        cluster_authorized_operations: operations::cluster(request.include_cluster_authorized_operations),
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
