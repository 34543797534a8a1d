//! DescribeNode (key 123), version 0, ours: the metrics of this node, for a node that shows the whole cluster.
//!
//! Behaviour:
//! - Another cluster's node, which has come to an address that changed hands, is told INCONSISTENT_CLUSTER_ID.
//! - A sender that is no member of the cluster is told CLUSTER_AUTHORIZATION_FAILED.
//! - A page that is too long to be sent around is MESSAGE_TOO_LARGE.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::describe_node::{DescribeNodeRequest, DescribeNodeResponse};

use super::RequestContext;
use crate::Broker;
use crate::exposition::Metrics;
use crate::threads::spawn_blocking;

/// Longest page of metrics, which has tens of thousands of series at most.
const METRICS_BYTES_MAX: usize = 32 * 1024 * 1024;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: DescribeNodeRequest,
) -> DescribeNodeResponse {
    if request.cluster_id != broker.cluster_id {
        return refuse(ErrorCode::INCONSISTENT_CLUSTER_ID);
    }
    if let Err(error_code) = broker.senders.check(&request.sender, context.origin()).await {
        return refuse(error_code);
    }
    let metrics = Metrics::new(broker);
    match spawn_blocking(move || metrics.text()).await {
        Ok(page) if page.len() > METRICS_BYTES_MAX => refuse(ErrorCode::MESSAGE_TOO_LARGE),
        Ok(page) => {
            let rebalances = broker.groups.recent_rebalances();
            DescribeNodeResponse { metrics: page.into(), rebalances, ..Default::default() }
        }
        Err(error) => {
            tracing::error!(%error, "the metrics could not be made");
            refuse(ErrorCode::UNKNOWN_SERVER_ERROR)
        }
    }
}

fn refuse(error_code: ErrorCode) -> DescribeNodeResponse {
    DescribeNodeResponse { error_code, ..Default::default() }
}
