//! The requests that the active controller decides, from clients and from brokers.
//!
//! Each is decided in the newest version of its API, whatever version the client spoke: what differs between versions
//! is the handler's in `api/`.

use wire::ErrorCode;
use wire::api::Request;
use wire::api::allocate_producer_ids::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};
use wire::api::alter_client_quotas::{AlterClientQuotasRequest, AlterClientQuotasResponse};
use wire::api::alter_configs::{self, AlterConfigsRequest, AlterConfigsResponse};
use wire::api::alter_partition::{AlterPartitionRequest, AlterPartitionResponse};
use wire::api::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
};
use wire::api::alter_scram_keys::{AlterScramKeysRequest, AlterScramKeysResponse};
use wire::api::broker_heartbeat::{BrokerHeartbeatRequest, BrokerHeartbeatResponse};
use wire::api::broker_registration::{BrokerRegistrationRequest, BrokerRegistrationResponse};
use wire::api::confirm_sender::NodeIdentity;
use wire::api::create_acls::{AclCreationResult, CreateAclsRequest, CreateAclsResponse};
use wire::api::create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
use wire::api::create_topics::{CreateTopicsRequest, CreateTopicsResponse};
use wire::api::delete_acls::{DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest, DeleteAclsResponse};
use wire::api::delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
use wire::api::elect_leaders::{ElectLeadersRequest, ElectLeadersResponse};
use wire::api::incremental_alter_configs::{self, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use wire::api::list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};
use wire::api::unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use wire::api::update_features::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::acl::{Acl, AclOperation, CLUSTER_NAME, ResourceType};
use super::changes::{self, Context, Decision, code_and_message};
use super::image::{MetadataImage, ResourceKind};

/// Whether somebody may do something to a resource.
pub type May<'a> = &'a dyn Fn(AclOperation, ResourceType, &str) -> bool;

/// A request that the active controller decides.
pub trait Decided: Request<Response: Send> + Clone + Send + Sync + 'static {
    /// Whether it is a broker's own request. These must not wait until the controller has opened the logs of thousands
    /// of new partitions, for example: heartbeats would come too late.
    const IS_OF_BROKERS: bool = false;

    /// Whether a broker may send it: a broker's own requests only that broker itself.
    fn is_of(&self, _sender: &NodeIdentity) -> bool {
        true
    }

    /// Whether a client may have it decided: `may` says what it may do. Of what it named the broker that it asked has
    /// left out what it may not have; since then ACLs may have changed.
    fn is_allowed(&self, image: &MetadataImage, may: May<'_>) -> bool;

    /// `is_alive` says of a broker whether it is known to run.
    fn decide(self, context: &Context<'_>, is_alive: &dyn Fn(i32) -> bool) -> Decision<Self::Response>;

    /// Whether a request that was answered so shows that the registered broker of its sender's number is alive.
    fn counts_as_heartbeat(_answer: &Self::Response) -> bool {
        true
    }
}

/// Calls a macro with all requests that are decided.
#[macro_export]
macro_rules! with_decided_requests {
    ($call:ident) => {
        $call! {
            wire::api::allocate_producer_ids::AllocateProducerIdsRequest
            wire::api::alter_client_quotas::AlterClientQuotasRequest
            wire::api::alter_configs::AlterConfigsRequest
            wire::api::alter_partition::AlterPartitionRequest
            wire::api::alter_partition_reassignments::AlterPartitionReassignmentsRequest
            wire::api::alter_scram_keys::AlterScramKeysRequest
            wire::api::broker_heartbeat::BrokerHeartbeatRequest
            wire::api::broker_registration::BrokerRegistrationRequest
            wire::api::create_acls::CreateAclsRequest
            wire::api::create_partitions::CreatePartitionsRequest
            wire::api::create_topics::CreateTopicsRequest
            wire::api::delete_acls::DeleteAclsRequest
            wire::api::delete_topics::DeleteTopicsRequest
            wire::api::elect_leaders::ElectLeadersRequest
            wire::api::incremental_alter_configs::IncrementalAlterConfigsRequest
            wire::api::list_partition_reassignments::ListPartitionReassignmentsRequest
            wire::api::unregister_broker::UnregisterBrokerRequest
            wire::api::update_features::UpdateFeaturesRequest
        }
    };
}

impl<T> Decision<T> {
    fn map<U>(self, answer: impl FnOnce(T) -> U) -> Decision<U> {
        Decision { records: self.records, answer: answer(self.answer) }
    }
}

impl Decided for CreateTopicsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Create, ResourceType::Cluster, CLUSTER_NAME)
            || self.topics.iter().all(|topic| may(AclOperation::Create, ResourceType::Topic, &topic.name))
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<CreateTopicsResponse> {
        changes::topics::create(context, &self.topics, self.validate_only)
            .map(|topics| CreateTopicsResponse { topics, ..Default::default() })
    }
}

impl Decided for DeleteTopicsRequest {
    fn is_allowed(&self, image: &MetadataImage, may: May<'_>) -> bool {
        self.topics.iter().all(|topic| {
            let by_id = || image.topic_by_id(topic.topic_id).map(|topic| &*topic.name);
            let name = topic.name.as_deref().or_else(by_id);
            name.is_none_or(|name| may(AclOperation::Delete, ResourceType::Topic, name))
        })
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<DeleteTopicsResponse> {
        changes::topics::delete(context, &self.topics)
            .map(|responses| DeleteTopicsResponse { responses, ..Default::default() })
    }
}

impl Decided for CreatePartitionsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        self.topics.iter().all(|topic| may(AclOperation::Alter, ResourceType::Topic, &topic.name))
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<CreatePartitionsResponse> {
        changes::partitions::create(context, &self.topics, self.validate_only)
            .map(|results| CreatePartitionsResponse { results, ..Default::default() })
    }
}

impl Decided for IncrementalAlterConfigsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        let resources = self.resources.iter();
        may_alter_configs(resources.map(|resource| (resource.resource_type, resource.resource_name.as_str())), may)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<IncrementalAlterConfigsResponse> {
        let Self { resources, validate_only } = self;
        changes::configs::alter_incrementally(context, &resources, validate_only).map(|outcomes| {
            let answers = resources.into_iter().zip(outcomes).map(|(resource, outcome)| {
                let (error_code, error_message) = code_and_message(outcome);
                let (resource_type, resource_name) = (resource.resource_type, resource.resource_name);
                incremental_alter_configs::AlterConfigsResourceResponse {
                    error_code,
                    error_message,
                    resource_type,
                    resource_name,
                }
            });
            IncrementalAlterConfigsResponse { responses: answers.collect(), ..Default::default() }
        })
    }
}

impl Decided for AlterConfigsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        let resources = self.resources.iter();
        may_alter_configs(resources.map(|resource| (resource.resource_type, resource.resource_name.as_str())), may)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AlterConfigsResponse> {
        let Self { resources, validate_only } = self;
        changes::configs::replace(context, &resources, validate_only).map(|outcomes| {
            let answers = resources.into_iter().zip(outcomes).map(|(resource, outcome)| {
                let (error_code, error_message) = code_and_message(outcome);
                let (resource_type, resource_name) = (resource.resource_type, resource.resource_name);
                alter_configs::AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
            });
            AlterConfigsResponse { responses: answers.collect(), ..Default::default() }
        })
    }
}

impl Decided for CreateAclsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<CreateAclsResponse> {
        changes::acls::create(context, &self.creations).map(|outcomes| {
            let results = outcomes.into_iter().map(|outcome| {
                let (error_code, error_message) = code_and_message(outcome);
                AclCreationResult { error_code, error_message }
            });
            CreateAclsResponse { results: results.collect(), ..Default::default() }
        })
    }
}

impl Decided for DeleteAclsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<DeleteAclsResponse> {
        changes::acls::delete(context, &self.filters).map(|outcomes| {
            let filter_results = outcomes.into_iter().map(|outcome| match outcome {
                Ok(deleted) => DeleteAclsFilterResult {
                    matching_acls: deleted.iter().map(|acl| deleted_acl(acl)).collect(),
                    ..Default::default()
                },
                Err(refusal) => DeleteAclsFilterResult {
                    error_code: refusal.code,
                    error_message: refusal.message,
                    ..Default::default()
                },
            });
            DeleteAclsResponse { filter_results: filter_results.collect(), ..Default::default() }
        })
    }
}

fn may_alter_configs<'a>(mut resources: impl Iterator<Item = (i8, &'a str)>, may: May<'_>) -> bool {
    resources.all(|(resource_type, name)| {
        let resource = ResourceKind::from_id(resource_type).map(|kind| kind.guarded_by(name));
        resource.is_none_or(|(resource_type, name)| may(AclOperation::AlterConfigs, resource_type, name))
    })
}

fn deleted_acl(Acl { pattern, entry }: &Acl) -> DeleteAclsMatchingAcl {
    DeleteAclsMatchingAcl {
        error_code: ErrorCode::NONE,
        error_message: None,
        resource_type: pattern.resource_type as i8,
        resource_name: pattern.name.to_string(),
        pattern_type: pattern.pattern_type as i8,
        principal: entry.principal.clone(),
        host: entry.host.as_str().to_owned(),
        operation: entry.operation as i8,
        permission_type: entry.permission_type as i8,
    }
}

impl Decided for AllocateProducerIdsRequest {
    const IS_OF_BROKERS: bool = true;

    fn is_of(&self, sender: &NodeIdentity) -> bool {
        self.broker_id == sender.node_id
    }

    fn is_allowed(&self, _: &MetadataImage, _: May<'_>) -> bool {
        false
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AllocateProducerIdsResponse> {
        changes::brokers::allocate_producer_ids(context, &self).map(|block| match block {
            Ok(block) => AllocateProducerIdsResponse {
                producer_id_start: block.first,
                producer_id_len: i32::try_from(block.count).unwrap_or(i32::MAX),
                ..Default::default()
            },
            Err(refusal) => AllocateProducerIdsResponse { error_code: refusal.code, ..Default::default() },
        })
    }
}

impl Decided for BrokerRegistrationRequest {
    const IS_OF_BROKERS: bool = true;

    fn is_of(&self, sender: &NodeIdentity) -> bool {
        (self.broker_id, self.incarnation_id) == (sender.node_id, sender.incarnation_id)
            && self.log_dirs.contains(&sender.directory_id)
    }

    fn is_allowed(&self, _: &MetadataImage, _: May<'_>) -> bool {
        false
    }

    fn decide(self, context: &Context<'_>, is_alive: &dyn Fn(i32) -> bool) -> Decision<BrokerRegistrationResponse> {
        changes::brokers::register(context, &self, is_alive)
    }

    /// A refused request may come from another process.
    fn counts_as_heartbeat(answer: &BrokerRegistrationResponse) -> bool {
        answer.error_code.is_none()
    }
}

impl Decided for BrokerHeartbeatRequest {
    const IS_OF_BROKERS: bool = true;

    fn is_of(&self, sender: &NodeIdentity) -> bool {
        self.broker_id == sender.node_id
    }

    fn is_allowed(&self, _: &MetadataImage, _: May<'_>) -> bool {
        false
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<BrokerHeartbeatResponse> {
        changes::heartbeats::heartbeat(context, &self)
    }

    /// One of an earlier registration comes from a process that is the broker no longer.
    fn counts_as_heartbeat(answer: &BrokerHeartbeatResponse) -> bool {
        answer.error_code.is_none()
    }
}

impl Decided for UnregisterBrokerRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<UnregisterBrokerResponse> {
        changes::brokers::unregister(context, self.broker_id).map(|outcome| {
            let (error_code, error_message) = code_and_message(outcome);
            UnregisterBrokerResponse { error_code, error_message, ..Default::default() }
        })
    }
}

impl Decided for UpdateFeaturesRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<UpdateFeaturesResponse> {
        changes::features::update(context, &self.feature_updates, self.validate_only).map(|outcome| {
            let (error_code, error_message) = code_and_message(outcome);
            UpdateFeaturesResponse { error_code, error_message, ..Default::default() }
        })
    }
}

impl Decided for AlterPartitionRequest {
    const IS_OF_BROKERS: bool = true;

    fn is_of(&self, sender: &NodeIdentity) -> bool {
        self.broker_id == sender.node_id
    }

    fn is_allowed(&self, _: &MetadataImage, _: May<'_>) -> bool {
        false
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AlterPartitionResponse> {
        changes::alter_partition::alter(context, &self)
    }
}

impl Decided for ElectLeadersRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<ElectLeadersResponse> {
        changes::elections::elect(context, &self)
    }
}

impl Decided for AlterPartitionReassignmentsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AlterPartitionReassignmentsResponse> {
        changes::reassignments::alter(context, &self)
    }
}

impl Decided for ListPartitionReassignmentsRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Describe, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<ListPartitionReassignmentsResponse> {
        Decision { records: Vec::new(), answer: changes::reassignments::list(context.image, &self) }
    }
}

impl Decided for AlterClientQuotasRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::AlterConfigs, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AlterClientQuotasResponse> {
        changes::quotas::alter(context, &self.entries, self.validate_only)
            .map(|entries| AlterClientQuotasResponse { entries, ..Default::default() })
    }
}

impl Decided for AlterScramKeysRequest {
    fn is_allowed(&self, _: &MetadataImage, may: May<'_>) -> bool {
        may(AclOperation::Alter, ResourceType::Cluster, CLUSTER_NAME)
    }

    fn decide(self, context: &Context<'_>, _: &dyn Fn(i32) -> bool) -> Decision<AlterScramKeysResponse> {
        changes::scram::alter(context, &self).map(|results| AlterScramKeysResponse { results })
    }
}
