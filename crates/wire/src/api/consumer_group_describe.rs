//! ConsumerGroupDescribe (key 69), versions 0-1, flexible since 0.

use crate::{ErrorCode, Uuid};

crate::message! {
    pub struct ConsumerGroupDescribeRequest {
        group_ids: Vec<String>, 0..;
        include_authorized_operations: bool, 0..;
    }

    pub struct ConsumerGroupDescribeResponse {
        throttle_time_ms: i32, 0..;
        groups: Vec<DescribedGroup>, 0..;
    }

    pub struct DescribedGroup {
        error_code: ErrorCode, 0..;
        error_message: Option<String>, 0..;
        group_id: String, 0..;
        group_state: String, 0..;
        group_epoch: i32, 0..;
        assignment_epoch: i32, 0..;
        assignor_name: String, 0..;
        members: Vec<Member>, 0..;
        authorized_operations: i32 = i32::MIN, 0..;
    }

    pub struct Member {
        member_id: String, 0..;
        instance_id: Option<String>, 0..;
        rack_id: Option<String>, 0..;
        member_epoch: i32, 0..;
        client_id: String, 0..;
        client_host: String, 0..;
        subscribed_topic_names: Vec<String>, 0..;
        subscribed_topic_regex: Option<String>, 0..;
        assignment: Assignment, 0..;
        target_assignment: Assignment, 0..;
        /// 0 for a member of the classic protocol, 1 for one of the consumer protocol, -1 where it is not known.
        member_type: i8 = -1, 1..;
    }

    pub struct Assignment {
        topic_partitions: Vec<TopicPartitions>, 0..;
    }

    pub struct TopicPartitions {
        topic_id: Uuid, 0..;
        topic_name: String, 0..;
        partitions: Vec<i32>, 0..;
    }
}
