//! Requests that only the leader of the metadata quorum can carry out, and that clients send to any broker.

use wire::ErrorCode;
use wire::api::Request;

use super::RequestContext;
use crate::Broker;
use crate::cluster::Lane;

/// Has the leader answer, if that is another node. `None` is to be answered here.
pub(super) async fn pass_on<R: Request>(
    broker: &Broker,
    context: &RequestContext,
    request: &R,
) -> Option<Result<R::Response, ErrorCode>> {
    let leader = broker.quorum.status().leader;
    match leader {
        Some(leader) if leader == broker.node_id => None,
        // The broker that passed it on finds the new leader.
        _ if context.is_inter_broker => Some(Err(ErrorCode::NOT_CONTROLLER)),
        None => Some(Err(ErrorCode::NOT_CONTROLLER)),
        Some(leader) => {
            let connection = broker.peers.connection(leader, Lane::Requests).await;
            let Ok(Some(connection)) = connection else { return Some(Err(ErrorCode::NOT_CONTROLLER)) };
            Some(connection.send(request).await.map_err(|_| ErrorCode::NOT_CONTROLLER))
        }
    }
}

/// Refuses what is meant for another cluster.
pub(super) fn check_cluster(broker: &Broker, cluster_id: Option<&str>) -> Result<(), (ErrorCode, String)> {
    match cluster_id {
        Some(id) if id != broker.cluster_id => {
            Err((ErrorCode::INCONSISTENT_CLUSTER_ID, format!("This is cluster {}.", broker.cluster_id)))
        }
        _ => Ok(()),
    }
}
