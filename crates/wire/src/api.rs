//! The table of APIs: key, name, versions, and since when flexible. One module per API holds its two messages.
//!
//! The versions are those that Apache Kafka 4.3 serves. What a broker advertises is a subset of this table. The keys
//! from 121 are our own, for the nodes of a cluster among themselves: Kafka deals out its keys from below.

use std::ops::RangeInclusive;

use crate::codec::Message;

pub mod add_offsets_to_txn;
pub mod add_partitions_to_txn;
pub mod add_raft_voter;
pub mod allocate_producer_ids;
pub mod alter_client_quotas;
pub mod alter_configs;
pub mod alter_partition;
pub mod alter_partition_reassignments;
pub mod alter_scram_keys;
pub mod alter_user_scram_credentials;
pub mod api_versions;
pub mod broker_heartbeat;
pub mod broker_registration;
pub mod confirm_sender;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod create_acls;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_acls;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_node;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod describe_transactions;
pub mod describe_user_scram_credentials;
pub mod elect_leaders;
pub mod end_txn;
pub mod fetch;
pub mod find_coordinator;
pub mod forward;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod list_transactions;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod quorum_hello;
pub mod quorum_join;
pub mod quorum_messages;
pub mod remove_raft_voter;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod unregister_broker;
pub mod update_features;
pub mod write_txn_markers;

/// What the table says of one API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    pub key: i16,
    pub name: &'static str,
    pub versions: RangeInclusive<i16>,
    /// First version in the flexible (KIP-482) form; `i16::MAX` where there is none.
    pub flexible_since: i16,
    /// How many elements the arrays of a request may have, all of them together. A request with more is malformed: its
    /// connection is closed before anything is allocated for it.
    pub elements_max: usize,
}

impl Api {
    /// The highest version that this table and another side speak, whose lowest and highest ones these are.
    pub fn highest_common_version(&self, lowest: i16, highest: i16) -> Option<i16> {
        let common = highest.min(*self.versions.end());
        (common >= lowest.max(*self.versions.start())).then_some(common)
    }
}

/// For APIs that name partitions or topics: 200,000 partitions is as large as Kafka's designers aim for in one cluster,
/// and a request of 8 MiB, the most that is taken of all but Produce, names a few more.
const PARTITIONS: usize = 250_000;
/// For Produce: a producer sends one batch of a partition at a time, and waits with the others until they are more.
const BATCHES: usize = 20_000;
/// For APIs that name groups, their members, what they are assigned, transactional ids, or users.
const GROUPS: usize = 10_000;
/// For APIs that change metadata: the metadata log takes 10,000 records at once, so a topic with the most partitions
/// that can be created at once may name three replicas of each, and as much again for settings.
const CHANGES: usize = 100_000;
/// For APIs whose requests have hardly an array.
const FEW: usize = 1_000;

impl Api {
    pub fn flexible(&self, version: i16) -> bool {
        version >= self.flexible_since
    }

    /// A response to ApiVersions always has the old header: a client that sends it does not know yet what the broker
    /// supports.
    pub fn flexible_response_header(&self, version: i16) -> bool {
        self.flexible(version) && self.key != api_versions::ApiVersionsRequest::API.key
    }
}

/// The request of an API, and with it the API.
pub trait Request: Message {
    const API: Api;
    type Response: Message;
}

/// The row of an API key, if the table has it.
pub fn find(key: i16) -> Option<&'static Api> {
    row(key).map(|row| &TABLE[row])
}

/// Where an API key stands in the [`TABLE`].
pub fn row(key: i16) -> Option<usize> {
    TABLE.binary_search_by_key(&key, |api| api.key).ok()
}

/// Something to be done with the types of an API: see [`visit`].
pub trait Visitor {
    type Output;

    fn visit<R: Request>(self) -> Self::Output;
}

macro_rules! apis {
    ($($key:literal $name:ident $versions:expr, $flexible_since:expr, $elements_max:expr, $module:ident $request:ident $response:ident;)*) => {
        /// All APIs that this crate knows, by key.
        pub const TABLE: &[Api] = &[$($module::$request::API,)*];

        $(impl Request for $module::$request {
            const API: Api = Api {
                key: $key,
                name: stringify!($name),
                versions: $versions,
                flexible_since: $flexible_since,
                elements_max: $elements_max,
            };
            type Response = $module::$response;
        })*

        /// Calls the visitor with the request type of an API key, if the table has it.
        pub fn visit<V: Visitor>(key: i16, visitor: V) -> Option<V::Output> {
            match key {
                $($key => Some(visitor.visit::<$module::$request>()),)*
                _ => None,
            }
        }
    };
}

apis! {
    0 Produce 3..=13, 9, BATCHES, produce ProduceRequest ProduceResponse;
    1 Fetch 4..=18, 12, PARTITIONS, fetch FetchRequest FetchResponse;
    2 ListOffsets 1..=11, 6, PARTITIONS, list_offsets ListOffsetsRequest ListOffsetsResponse;
    3 Metadata 0..=13, 9, PARTITIONS, metadata MetadataRequest MetadataResponse;
    8 OffsetCommit 2..=10, 8, PARTITIONS, offset_commit OffsetCommitRequest OffsetCommitResponse;
    9 OffsetFetch 1..=10, 6, PARTITIONS, offset_fetch OffsetFetchRequest OffsetFetchResponse;
    10 FindCoordinator 0..=6, 3, GROUPS, find_coordinator FindCoordinatorRequest FindCoordinatorResponse;
    11 JoinGroup 0..=9, 6, GROUPS, join_group JoinGroupRequest JoinGroupResponse;
    12 Heartbeat 0..=4, 4, FEW, heartbeat HeartbeatRequest HeartbeatResponse;
    13 LeaveGroup 0..=5, 4, GROUPS, leave_group LeaveGroupRequest LeaveGroupResponse;
    14 SyncGroup 0..=5, 4, GROUPS, sync_group SyncGroupRequest SyncGroupResponse;
    15 DescribeGroups 0..=6, 5, GROUPS, describe_groups DescribeGroupsRequest DescribeGroupsResponse;
    16 ListGroups 0..=5, 3, GROUPS, list_groups ListGroupsRequest ListGroupsResponse;
    17 SaslHandshake 0..=1, i16::MAX, FEW, sasl_handshake SaslHandshakeRequest SaslHandshakeResponse;
    18 ApiVersions 0..=4, 3, FEW, api_versions ApiVersionsRequest ApiVersionsResponse;
    19 CreateTopics 2..=7, 5, CHANGES, create_topics CreateTopicsRequest CreateTopicsResponse;
    20 DeleteTopics 1..=6, 4, CHANGES, delete_topics DeleteTopicsRequest DeleteTopicsResponse;
    21 DeleteRecords 0..=2, 2, PARTITIONS, delete_records DeleteRecordsRequest DeleteRecordsResponse;
    22 InitProducerId 0..=5, 2, FEW, init_producer_id InitProducerIdRequest InitProducerIdResponse;
    23 OffsetForLeaderEpoch 2..=4, 4, PARTITIONS, offset_for_leader_epoch OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse;
    24 AddPartitionsToTxn 0..=5, 3, PARTITIONS, add_partitions_to_txn AddPartitionsToTxnRequest AddPartitionsToTxnResponse;
    25 AddOffsetsToTxn 0..=4, 3, FEW, add_offsets_to_txn AddOffsetsToTxnRequest AddOffsetsToTxnResponse;
    26 EndTxn 0..=5, 3, FEW, end_txn EndTxnRequest EndTxnResponse;
    27 WriteTxnMarkers 1..=2, 1, PARTITIONS, write_txn_markers WriteTxnMarkersRequest WriteTxnMarkersResponse;
    28 TxnOffsetCommit 0..=5, 3, PARTITIONS, txn_offset_commit TxnOffsetCommitRequest TxnOffsetCommitResponse;
    29 DescribeAcls 1..=3, 2, FEW, describe_acls DescribeAclsRequest DescribeAclsResponse;
    30 CreateAcls 1..=3, 2, CHANGES, create_acls CreateAclsRequest CreateAclsResponse;
    31 DeleteAcls 1..=3, 2, FEW, delete_acls DeleteAclsRequest DeleteAclsResponse;
    32 DescribeConfigs 1..=4, 4, PARTITIONS, describe_configs DescribeConfigsRequest DescribeConfigsResponse;
    33 AlterConfigs 0..=2, 2, CHANGES, alter_configs AlterConfigsRequest AlterConfigsResponse;
    35 DescribeLogDirs 1..=5, 2, PARTITIONS, describe_log_dirs DescribeLogDirsRequest DescribeLogDirsResponse;
    36 SaslAuthenticate 0..=2, 2, FEW, sasl_authenticate SaslAuthenticateRequest SaslAuthenticateResponse;
    37 CreatePartitions 0..=3, 2, CHANGES, create_partitions CreatePartitionsRequest CreatePartitionsResponse;
    42 DeleteGroups 0..=2, 2, GROUPS, delete_groups DeleteGroupsRequest DeleteGroupsResponse;
    43 ElectLeaders 0..=2, 2, PARTITIONS, elect_leaders ElectLeadersRequest ElectLeadersResponse;
    44 IncrementalAlterConfigs 0..=1, 1, CHANGES, incremental_alter_configs IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse;
    45 AlterPartitionReassignments 0..=1, 0, CHANGES, alter_partition_reassignments AlterPartitionReassignmentsRequest AlterPartitionReassignmentsResponse;
    46 ListPartitionReassignments 0..=0, 0, PARTITIONS, list_partition_reassignments ListPartitionReassignmentsRequest ListPartitionReassignmentsResponse;
    47 OffsetDelete 0..=0, i16::MAX, PARTITIONS, offset_delete OffsetDeleteRequest OffsetDeleteResponse;
    48 DescribeClientQuotas 0..=1, 1, FEW, describe_client_quotas DescribeClientQuotasRequest DescribeClientQuotasResponse;
    49 AlterClientQuotas 0..=1, 1, CHANGES, alter_client_quotas AlterClientQuotasRequest AlterClientQuotasResponse;
    50 DescribeUserScramCredentials 0..=0, 0, GROUPS, describe_user_scram_credentials DescribeUserScramCredentialsRequest DescribeUserScramCredentialsResponse;
    51 AlterUserScramCredentials 0..=0, 0, GROUPS, alter_user_scram_credentials AlterUserScramCredentialsRequest AlterUserScramCredentialsResponse;
    55 DescribeQuorum 0..=2, 0, PARTITIONS, describe_quorum DescribeQuorumRequest DescribeQuorumResponse;
    56 AlterPartition 2..=3, 0, PARTITIONS, alter_partition AlterPartitionRequest AlterPartitionResponse;
    57 UpdateFeatures 0..=2, 0, FEW, update_features UpdateFeaturesRequest UpdateFeaturesResponse;
    60 DescribeCluster 0..=2, 0, FEW, describe_cluster DescribeClusterRequest DescribeClusterResponse;
    61 DescribeProducers 0..=0, 0, PARTITIONS, describe_producers DescribeProducersRequest DescribeProducersResponse;
    62 BrokerRegistration 0..=4, 0, FEW, broker_registration BrokerRegistrationRequest BrokerRegistrationResponse;
    63 BrokerHeartbeat 0..=2, 0, PARTITIONS, broker_heartbeat BrokerHeartbeatRequest BrokerHeartbeatResponse;
    64 UnregisterBroker 0..=0, 0, FEW, unregister_broker UnregisterBrokerRequest UnregisterBrokerResponse;
    65 DescribeTransactions 0..=0, 0, GROUPS, describe_transactions DescribeTransactionsRequest DescribeTransactionsResponse;
    66 ListTransactions 0..=2, 0, GROUPS, list_transactions ListTransactionsRequest ListTransactionsResponse;
    67 AllocateProducerIds 0..=0, 0, FEW, allocate_producer_ids AllocateProducerIdsRequest AllocateProducerIdsResponse;
    68 ConsumerGroupHeartbeat 0..=1, 0, PARTITIONS, consumer_group_heartbeat ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse;
    69 ConsumerGroupDescribe 0..=1, 0, GROUPS, consumer_group_describe ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse;
    74 ListConfigResources 0..=1, 0, FEW, list_config_resources ListConfigResourcesRequest ListConfigResourcesResponse;
    75 DescribeTopicPartitions 0..=0, 0, PARTITIONS, describe_topic_partitions DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse;
    80 AddRaftVoter 0..=1, 0, FEW, add_raft_voter AddRaftVoterRequest AddRaftVoterResponse;
    81 RemoveRaftVoter 0..=0, 0, FEW, remove_raft_voter RemoveRaftVoterRequest RemoveRaftVoterResponse;
    121 AlterScramKeys 0..=0, 0, GROUPS, alter_scram_keys AlterScramKeysRequest AlterScramKeysResponse;
    122 ConfirmSender 0..=0, 0, FEW, confirm_sender ConfirmSenderRequest ConfirmSenderResponse;
    123 DescribeNode 0..=0, 0, FEW, describe_node DescribeNodeRequest DescribeNodeResponse;
    124 Forward 0..=1, 0, FEW, forward ForwardRequest ForwardResponse;
    125 QuorumJoin 0..=0, 0, FEW, quorum_join QuorumJoinRequest QuorumJoinResponse;
    126 QuorumMessages 0..=0, 0, PARTITIONS, quorum_messages QuorumMessagesRequest QuorumMessagesResponse;
    127 QuorumHello 0..=1, 0, FEW, quorum_hello QuorumHelloRequest QuorumHelloResponse;
}
