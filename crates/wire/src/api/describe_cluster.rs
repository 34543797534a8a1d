//! DescribeCluster (key 60), versions 0-2, flexible since 0.

use crate::ErrorCode;

crate::message! {
    pub struct DescribeClusterRequest {
        include_cluster_authorized_operations: bool, 0..;
        endpoint_type: i8 = 1, 1..;
        include_fenced_brokers: bool, 2..;
    }

    pub struct DescribeClusterResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        endpoint_type: i8 = 1, 1..;
        cluster_id: String, 0..;
        controller_id: i32 = -1, 0..;
        brokers: Vec<DescribeClusterBroker>, 0..;
        cluster_authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct DescribeClusterBroker {
        broker_id: i32, 0..;
        host: String, 0..;
        port: i32, 0..;
        rack: Option<String>, 0..;
        is_fenced: bool, 2..;
    }
}
