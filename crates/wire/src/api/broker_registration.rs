//! BrokerRegistration (key 62), versions 0-4, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct BrokerRegistrationRequest {
        broker_id: i32, 0..;
        cluster_id: String, 0..;
        incarnation_id: Uuid, 0..;
        listeners: Vec<Listener>, 0..;
        features: Vec<Feature>, 0..;
        rack: Option<String>, 0..;
        is_migrating_zk_broker: bool, 1..;
        log_dirs: Vec<Uuid>, 2..;
        previous_broker_epoch: i64 = -1, 3..;
        /// Ours: replicas that lack records which this broker had on disk.
        lost_replicas: Vec<LostReplicas>, 3.., tag 10000;
    }

    pub struct LostReplicas {
        topic_id: Uuid, 3..;
        partitions: Vec<i32>, 3..;
    }

    pub struct Listener {
        name: String, 0..;
        host: String, 0..;
        port: u16, 0..;
        security_protocol: i16, 0..;
    }

    pub struct Feature {
        name: String, 0..;
        min_supported_version: i16, 0..;
        max_supported_version: i16, 0..;
    }

    pub struct BrokerRegistrationResponse {
        throttle_time_ms: i32, 0..;
        error_code: ErrorCode, 0..;
        broker_epoch: i64 = -1, 0..;
    }
}
