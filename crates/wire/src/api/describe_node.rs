//! DescribeNode (key 123), version 0, flexible since 0. Ours: what a node knows of itself, for another that shows the
//! whole cluster.

use bytes::Bytes;

use crate::ErrorCode;

crate::message! {
    pub struct DescribeNodeRequest {
        cluster_id: String, 0..;
    }

    pub struct DescribeNodeResponse {
        error_code: ErrorCode, 0..;
        /// The page of its metrics in the OpenMetrics text format.
        metrics: Bytes, 0..;
    }
}
