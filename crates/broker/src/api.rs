//! Requests and their handlers: one file per API.
//!
//! What ApiVersions advertises is computed from the table at the end of this file.

mod access;
#[cfg(test)]
mod access_tests;
mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod add_raft_voter;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_user_scram_credentials;
mod alteration;
mod api_versions;
mod auto_create;
mod certificates;
mod confirm_sender;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod controlled;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_node;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
pub(crate) mod fetch;
mod find_coordinator;
mod forward;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leaders;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod loggers;
mod metadata;
mod mutation_quota;
mod nodes;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod quorum_hello;
mod quorum_join;
mod quorum_leader;
mod quorum_messages;
mod remove_raft_voter;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
#[cfg(test)]
mod test_producer;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod transactions_tests;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod write_txn_markers;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::metadata::acl::AclOperation;
use ::metadata::{Decided, MetadataImage};
pub(crate) use platform::Pace;

use self::access::Access;
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;
use wire::Reader;
use wire::api::{self as table, Api, Request};
use wire::frame::{self, RequestHeader};

use crate::Broker;
use crate::close_reason::CloseReason;
use crate::controller::ControllerError;
use crate::frame::Frame;
use crate::memory::{AnswerSize, LargeAnswer, Permit};
use crate::partition::{PendingCommits, ProduceTimings};
use crate::security::audit::Asker;
use crate::security::nodes::Origin;
use crate::security::{Client, Exchange, Grants, ListenerSecurity, Principal};

/// The sender of a connection's requests.
#[derive(Clone)]
pub struct Peer {
    pub address: SocketAddr,
    /// Name of the listener that it connected to.
    pub listener: Arc<str>,
    /// Whether that is the inter-broker listener.
    pub is_inter_broker: bool,
    /// What the listener demands.
    pub security: Arc<ListenerSecurity>,
    pub principal: Principal,
    /// What it has been allowed.
    pub grants: Arc<Grants>,
    /// What it has shown on an inter-broker listener that asks for it.
    pub certificate: Option<Arc<CertificateDer<'static>>>,
}

/// What a handler knows of a request besides its body.
#[derive(Clone, Debug)]
pub struct RequestContext {
    pub api_key: i16,
    pub api_version: i16,
    pub client_id: Option<String>,
    pub client_address: SocketAddr,
    /// Name of the listener that the request came to. The client is told the brokers' addresses of the same name.
    pub listener: Arc<str>,
    /// Whether that is the inter-broker listener: then the sender is a broker.
    pub is_inter_broker: bool,
    pub principal: Principal,
    /// What has been allowed on the same connection.
    pub grants: Arc<Grants>,
    /// What the sender has shown on an inter-broker listener that asks for it.
    pub certificate: Option<Arc<CertificateDer<'static>>>,
}

/// A request that has been started and not yet answered.
pub enum Started {
    Produce(produce::PendingProduce),
    Other(Pin<Box<dyn Future<Output = Result<Frame, CloseReason>> + Send>>),
}

impl Started {
    pub fn is_produce(&self) -> bool {
        matches!(self, Self::Produce(_))
    }

    /// Whether another Produce may start behind it.
    pub fn is_queued_produce(&self) -> bool {
        matches!(self, Self::Produce(pending) if pending.is_queued())
    }

    /// The answer, when it is ready. A Produce that wants no acknowledgement is answered by an empty frame.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, CloseReason>> {
        match self {
            Self::Produce(pending) => pending.poll(cx),
            Self::Other(answer) => answer.as_mut().poll(cx),
        }
    }

    /// When the connection must call [`Started::expire`]. Other requests keep their own time.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Produce(pending) => pending.deadline(),
            Self::Other(_) => None,
        }
    }

    /// How long the stages of a Produce took.
    pub fn timings(&self) -> Option<ProduceTimings> {
        match self {
            Self::Produce(pending) => Some(pending.timings()),
            Self::Other(_) => None,
        }
    }

    /// Whether there was a partition that did not know its producer.
    pub fn is_of_new_producer(&self) -> bool {
        matches!(self, Self::Produce(pending) if pending.is_of_new_producer())
    }

    pub fn expire(&mut self, now: Instant) {
        if let Self::Produce(pending) = self {
            pending.expire(now);
        }
    }
}

/// Starts a request whose header has been read: everything up to the first wait. Batches that it queues are appended
/// when `commits` is committed.
pub fn start(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: RequestHeader,
    mut reader: Reader<'_>,
    commits: &mut PendingCommits,
) -> Result<Started, CloseReason> {
    let key = header.api_key;
    let call = Call {
        correlation_id: header.correlation_id,
        context: RequestContext {
            api_key: key,
            api_version: header.api_version,
            client_id: header.client_id,
            client_address: peer.address,
            listener: Arc::clone(&peer.listener),
            is_inter_broker: peer.is_inter_broker,
            principal: peer.principal.clone(),
            grants: Arc::clone(&peer.grants),
            certificate: peer.certificate.clone(),
        },
    };
    if key == wire::api::api_versions::ApiVersionsRequest::API.key {
        return api_versions::start(broker, call, reader);
    }
    if is_produce(key) {
        let request = frame::read_body(&mut reader)?;
        return Ok(Started::Produce(produce::start(broker, call, request, commits)));
    }
    if key == wire::api::fetch::FetchRequest::API.key {
        let request = frame::read_body(&mut reader)?;
        return Ok(Started::Other(Box::pin(fetch::answer(Arc::clone(broker), call, request))));
    }
    start_other(broker, key, call, reader)
}

/// One request: where its answer goes, and what its handler is told.
pub struct Call {
    pub correlation_id: i32,
    pub context: RequestContext,
}

impl RequestContext {
    /// Waits until an answer may be made that may be large.
    async fn large_answer(&self, broker: &Broker, kind: LargeAnswer) -> Permit {
        broker.memory.large_answer(kind, self.client_address.ip(), self.is_inter_broker).await
    }

    /// Who asks, for the log.
    fn asker(&self) -> Asker<'_> {
        let request = table::find(self.api_key).map_or("", |api| api.name);
        Asker { principal: &self.principal, address: self.client_address, request }
    }

    /// Where it comes from, if it comes from another node.
    fn origin(&self) -> Origin<'_> {
        Origin { address: self.client_address, certificate: self.certificate.as_deref() }
    }

    /// Whether it comes from a node of the cluster. A client that the authority of the nodes has signed, too, is none.
    fn is_from_node(&self, image: &MetadataImage) -> bool {
        self.is_inter_broker && self.origin().may_be_registered(image, &self.listener)
    }

    /// Has the active controller decide a request for the sender, which has to be allowed it then, too.
    async fn ask_controller<R: Decided>(&self, broker: &Broker, request: R) -> Result<R::Response, ControllerError> {
        let client = || Client { principal: self.principal.clone(), address: self.client_address.ip() };
        let client = (!self.is_from_node(&broker.metadata.load())).then(client);
        let decided = broker.controller.ask_for(client, request).await;
        if matches!(decided, Err(ControllerError::Denied)) {
            broker.audit.denied_since(self.asker());
        }
        decided
    }

    /// What the sender may do.
    fn access<'a>(&'a self, broker: &'a Broker) -> Access<'a> {
        Access::of(broker, self)
    }

    /// The size of an answer that waits when it becomes large.
    fn answer_size<'a>(&self, broker: &'a Broker, kind: LargeAnswer) -> AnswerSize<'a> {
        broker.memory.answer_size(kind, self.client_address.ip(), self.is_inter_broker)
    }
}

impl Call {
    fn encode<R: Request>(&self, response: &R::Response) -> Result<Frame, CloseReason> {
        Ok(Frame::encode(&R::API, self.context.api_version, self.correlation_id, response)?)
    }
}

pub fn is_produce(key: i16) -> bool {
    key == wire::api::produce::ProduceRequest::API.key
}

/// Whether an answer is about as large as its request, whatever this broker knows and however it is asked, or waits
/// when it becomes large ([`AnswerSize`]). The records of a Fetch do not count: it copies a few where there is no
/// memory for more.
pub fn answers_little(key: i16) -> bool {
    const KEYS: [i16; 31] = [
        table::produce::ProduceRequest::API.key,
        table::fetch::FetchRequest::API.key,
        table::api_versions::ApiVersionsRequest::API.key,
        table::list_offsets::ListOffsetsRequest::API.key,
        table::offset_commit::OffsetCommitRequest::API.key,
        table::find_coordinator::FindCoordinatorRequest::API.key,
        table::heartbeat::HeartbeatRequest::API.key,
        table::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest::API.key,
        table::consumer_group_describe::ConsumerGroupDescribeRequest::API.key,
        table::leave_group::LeaveGroupRequest::API.key,
        table::init_producer_id::InitProducerIdRequest::API.key,
        table::add_partitions_to_txn::AddPartitionsToTxnRequest::API.key,
        table::add_offsets_to_txn::AddOffsetsToTxnRequest::API.key,
        table::end_txn::EndTxnRequest::API.key,
        table::write_txn_markers::WriteTxnMarkersRequest::API.key,
        table::txn_offset_commit::TxnOffsetCommitRequest::API.key,
        table::offset_for_leader_epoch::OffsetForLeaderEpochRequest::API.key,
        table::offset_delete::OffsetDeleteRequest::API.key,
        table::delete_groups::DeleteGroupsRequest::API.key,
        table::delete_topics::DeleteTopicsRequest::API.key,
        table::delete_records::DeleteRecordsRequest::API.key,
        table::describe_acls::DescribeAclsRequest::API.key,
        table::describe_cluster::DescribeClusterRequest::API.key,
        table::metadata::MetadataRequest::API.key,
        table::describe_configs::DescribeConfigsRequest::API.key,
        table::describe_groups::DescribeGroupsRequest::API.key,
        table::offset_fetch::OffsetFetchRequest::API.key,
        table::join_group::JoinGroupRequest::API.key,
        table::sync_group::SyncGroupRequest::API.key,
        table::sasl_handshake::SaslHandshakeRequest::API.key,
        table::sasl_authenticate::SaslAuthenticateRequest::API.key,
    ];
    KEYS.contains(&key)
}

/// Whether a request is one of those that only brokers send, or of those that any connection begins with.
pub fn is_of_control_plane(key: i16) -> bool {
    Exchange::takes(key) || BETWEEN_BROKERS.iter().any(|api| api.key == key)
}

/// Whether an API is served, to clients or only to other brokers.
pub fn serves(key: i16, to_broker: bool) -> bool {
    served(to_broker).any(|api| api.key == key)
}

fn served(to_broker: bool) -> impl Iterator<Item = &'static Api> {
    let between_brokers = if to_broker { BETWEEN_BROKERS } else { &[] };
    SERVED.iter().chain(between_brokers)
}

/// What the sender of a request has to be allowed, where the broker has an authorizer. No row of the table below is
/// without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing.
    Open,
    /// Something on what the request is about: its handler asks.
    PerResource,
    /// An operation on the cluster, which is asked about before the handler is. Its module says what is answered to who
    /// may not.
    Cluster,
}

macro_rules! handlers {
    (clients { $($module:ident $request:ident $needs:ident $(($operation:ident))?;)* } brokers { $($inner_module:ident $inner_request:ident;)* }) => {
        /// The APIs that this broker serves at every listener.
        pub const SERVED: &[Api] = &[
            table::produce::ProduceRequest::API,
            table::fetch::FetchRequest::API,
            table::api_versions::ApiVersionsRequest::API,
            $(table::$module::$request::API,)*
        ];

        /// The APIs that it serves only at the inter-broker listener.
        const BETWEEN_BROKERS: &[Api] = &[$(table::$inner_module::$inner_request::API,)*];

        // A row that does not say what it needs is none.
        $(const _: Needs = Needs::$needs;)*

        /// Starts a request that has a handler `handle(broker, context, request)`.
        fn start_other(
            broker: &Arc<Broker>,
            key: i16,
            call: Call,
            mut reader: Reader<'_>,
        ) -> Result<Started, CloseReason> {
            let broker = Arc::clone(broker);
            $(if key == table::$module::$request::API.key {
                let request: table::$module::$request = frame::read_body(&mut reader)?;
                return Ok(Started::Other(Box::pin(async move {
                    $(if let Err(code) = call.context.access(&broker).check_cluster(AclOperation::$operation) {
                        return call.encode::<table::$module::$request>(&$module::refused(&request, code));
                    })?
                    let response = $module::handle(&broker, &call.context, request).await;
                    call.encode::<table::$module::$request>(&response)
                })));
            })*
            $(if key == table::$inner_module::$inner_request::API.key {
                let request: table::$inner_module::$inner_request = frame::read_body(&mut reader)?;
                return Ok(Started::Other(Box::pin(async move {
                    let response = $inner_module::handle(&broker, &call.context, request).await;
                    call.encode::<table::$inner_module::$inner_request>(&response)
                })));
            })*
            Err(CloseReason::UnsupportedApi { key, version: call.context.api_version })
        }
    };
}

handlers! {
    clients {
        list_offsets ListOffsetsRequest PerResource;
        metadata MetadataRequest PerResource;
        offset_commit OffsetCommitRequest PerResource;
        offset_fetch OffsetFetchRequest PerResource;
        find_coordinator FindCoordinatorRequest PerResource;
        join_group JoinGroupRequest PerResource;
        heartbeat HeartbeatRequest PerResource;
        consumer_group_heartbeat ConsumerGroupHeartbeatRequest PerResource;
        consumer_group_describe ConsumerGroupDescribeRequest PerResource;
        leave_group LeaveGroupRequest PerResource;
        sync_group SyncGroupRequest PerResource;
        describe_groups DescribeGroupsRequest PerResource;
        list_groups ListGroupsRequest PerResource;
        create_topics CreateTopicsRequest PerResource;
        delete_topics DeleteTopicsRequest PerResource;
        delete_records DeleteRecordsRequest PerResource;
        init_producer_id InitProducerIdRequest PerResource;
        offset_for_leader_epoch OffsetForLeaderEpochRequest PerResource;
        add_partitions_to_txn AddPartitionsToTxnRequest PerResource;
        add_offsets_to_txn AddOffsetsToTxnRequest PerResource;
        end_txn EndTxnRequest PerResource;
        write_txn_markers WriteTxnMarkersRequest PerResource;
        txn_offset_commit TxnOffsetCommitRequest PerResource;
        describe_configs DescribeConfigsRequest PerResource;
        alter_configs AlterConfigsRequest PerResource;
        alter_partition_reassignments AlterPartitionReassignmentsRequest Cluster(Alter);
        describe_log_dirs DescribeLogDirsRequest Cluster(Describe);
        create_partitions CreatePartitionsRequest PerResource;
        delete_groups DeleteGroupsRequest PerResource;
        elect_leaders ElectLeadersRequest Cluster(Alter);
        incremental_alter_configs IncrementalAlterConfigsRequest PerResource;
        list_partition_reassignments ListPartitionReassignmentsRequest Cluster(Describe);
        offset_delete OffsetDeleteRequest PerResource;
        describe_quorum DescribeQuorumRequest Cluster(Describe);
        describe_cluster DescribeClusterRequest Open;
        describe_producers DescribeProducersRequest PerResource;
        describe_transactions DescribeTransactionsRequest PerResource;
        list_transactions ListTransactionsRequest PerResource;
        list_config_resources ListConfigResourcesRequest Cluster(DescribeConfigs);
        describe_topic_partitions DescribeTopicPartitionsRequest PerResource;
        unregister_broker UnregisterBrokerRequest Cluster(Alter);
        update_features UpdateFeaturesRequest Cluster(Alter);
        add_raft_voter AddRaftVoterRequest Cluster(Alter);
        remove_raft_voter RemoveRaftVoterRequest Cluster(Alter);
        sasl_authenticate SaslAuthenticateRequest Open;
        sasl_handshake SaslHandshakeRequest Open;
        describe_acls DescribeAclsRequest Cluster(Describe);
        create_acls CreateAclsRequest Cluster(Alter);
        delete_acls DeleteAclsRequest Cluster(Alter);
        describe_client_quotas DescribeClientQuotasRequest Cluster(DescribeConfigs);
        alter_client_quotas AlterClientQuotasRequest Cluster(AlterConfigs);
        describe_user_scram_credentials DescribeUserScramCredentialsRequest Cluster(Describe);
        alter_user_scram_credentials AlterUserScramCredentialsRequest Cluster(Alter);
    }
    brokers {
        confirm_sender ConfirmSenderRequest;
        describe_node DescribeNodeRequest;
        forward ForwardRequest;
        quorum_hello QuorumHelloRequest;
        quorum_join QuorumJoinRequest;
        quorum_messages QuorumMessagesRequest;
    }
}
