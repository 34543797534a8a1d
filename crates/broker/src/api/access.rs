//! What the sender of a request may do. Handlers ask before they look anything up, so that who may not know of a
//! resource is told the same whether it is there or not.
//!
//! Each decision is made on the newest ACLs and told to the [`Audit`](crate::security::audit::Audit), but for those
//! that only leave something out of an answer.

use std::sync::Arc;

use metadata::acl::{AclOperation, Authorizer, CLUSTER_NAME, Requester, ResourceType, Rule};
use metadata::{MetadataImage, ResourceKind};
use wire::{ErrorCode, Uuid};

use super::RequestContext;
use crate::Broker;
use crate::security::audit::is_change;

/// In place of operations that were not asked for, or of something that is not known.
pub const OPERATIONS_NOT_ASKED: i32 = i32::MIN;

/// Decides for one request.
pub struct Access<'a> {
    broker: &'a Broker,
    context: &'a RequestContext,
    /// `None` for who may do everything: everybody where there is no authorizer, and nodes at the inter-broker
    /// listener.
    authorizer: Option<(&'a Authorizer, Arc<MetadataImage>)>,
}

/// Takes those out of a request that the client may not have.
pub fn denied<T>(asked: &mut Vec<T>, is_allowed: impl Fn(&T) -> bool) -> Vec<T> {
    asked.extract_if(.., |asked| !is_allowed(asked)).collect()
}

impl<'a> Access<'a> {
    pub fn of(broker: &'a Broker, context: &'a RequestContext) -> Self {
        let authorizer = broker.authorizer.as_ref().map(|authorizer| (authorizer, broker.metadata.load_full()));
        let authorizer = authorizer.filter(|(_, image)| !context.is_from_node(image));
        Self { broker, context, authorizer }
    }

    /// Whether there is anything that the client may not do.
    pub fn is_restricted(&self) -> bool {
        self.authorizer.is_some()
    }

    pub fn topic(&self, operation: AclOperation, name: &str) -> bool {
        self.allows(operation, ResourceType::Topic, name)
    }

    pub fn group(&self, operation: AclOperation, id: &str) -> bool {
        self.allows(operation, ResourceType::Group, id)
    }

    pub fn transactional_id(&self, operation: AclOperation, id: &str) -> bool {
        self.allows(operation, ResourceType::TransactionalId, id)
    }

    pub fn cluster(&self, operation: AclOperation) -> bool {
        self.allows(operation, ResourceType::Cluster, CLUSTER_NAME)
    }

    /// Whether a topic may be created: by who may create any, too (KIP-277).
    pub fn create_topic(&self, name: &str) -> bool {
        let may_create_any = || {
            self.decide(|authorizer, image, requester| {
                let (operation, cluster) = (AclOperation::Create, ResourceType::Cluster);
                let rule = authorizer.authorize(image, requester, operation, cluster, CLUSTER_NAME);
                if rule.is_allowed() {
                    self.note(&rule, operation, ResourceType::Topic, name);
                }
                rule.is_allowed()
            })
        };
        may_create_any().unwrap_or(true) || self.topic(AclOperation::Create, name)
    }

    /// [`Self::topic`], or the error that the client gets.
    pub fn check_topic(&self, operation: AclOperation, name: &str) -> Result<(), ErrorCode> {
        self.topic(operation, name).then_some(()).ok_or(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
    }

    /// [`Self::check_topic`] of the topic that has an id, if there is one.
    pub fn check_topic_by_id(&self, operation: AclOperation, id: Uuid) -> Result<(), ErrorCode> {
        let Some((_, image)) = &self.authorizer else { return Ok(()) };
        let topic = image.topic_by_id(id).ok_or(ErrorCode::UNKNOWN_TOPIC_ID)?;
        self.check_topic(operation, &topic.name)
    }

    pub fn check_group(&self, operation: AclOperation, id: &str) -> Result<(), ErrorCode> {
        self.group(operation, id).then_some(()).ok_or(ErrorCode::GROUP_AUTHORIZATION_FAILED)
    }

    pub fn check_transactional_id(&self, operation: AclOperation, id: &str) -> Result<(), ErrorCode> {
        let is_allowed = self.transactional_id(operation, id);
        is_allowed.then_some(()).ok_or(ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    }

    pub fn check_cluster(&self, operation: AclOperation) -> Result<(), ErrorCode> {
        self.cluster(operation).then_some(()).ok_or(ErrorCode::CLUSTER_AUTHORIZATION_FAILED)
    }

    /// Whether settings of a resource may be described or altered. What has no settings is for its handler to refuse.
    pub fn check_configs(&self, operation: AclOperation, resource_type: i8, name: &str) -> Result<(), ErrorCode> {
        let resource = ResourceKind::from_id(resource_type).map(|kind| kind.guarded_by(name));
        match resource {
            Some((ResourceType::Topic, name)) => self.check_topic(operation, name),
            Some((ResourceType::Group, name)) => self.check_group(operation, name),
            Some(_) => self.check_cluster(operation),
            None => Ok(()),
        }
    }

    /// Whether the answer may tell of a resource that the client has not named.
    pub fn shows(&self, operation: AclOperation, resource_type: ResourceType, name: &str) -> bool {
        self.decide(|authorizer, image, requester| {
            authorizer.authorize(image, requester, operation, resource_type, name).is_allowed()
        })
        .unwrap_or(true)
    }

    /// Whether there can be a resource of the type to which the client may do something.
    pub fn any(&self, operation: AclOperation, resource_type: ResourceType) -> bool {
        self.decide(|authorizer, image, requester| {
            let rule = authorizer.authorize_any(image, requester, operation, resource_type);
            self.note(&rule, operation, resource_type, "*");
            rule.is_allowed()
        })
        .unwrap_or(true)
    }

    /// What the client may do to a resource, as the set of bits in which Kafka answers it (KIP-430): bit n is
    /// [`AclOperation`] n.
    pub fn operations(&self, resource_type: ResourceType, name: &str) -> i32 {
        let may = |operation: &&AclOperation| self.shows(**operation, resource_type, name);
        resource_type.operations().iter().filter(may).map(|operation| 1 << *operation as i32).sum()
    }

    /// The same of the cluster, where the client has asked for it: nothing without DESCRIBE
    /// (`AuthHelper.authorizedOperations`).
    pub fn cluster_operations(&self, is_asked: bool) -> i32 {
        match is_asked {
            false => OPERATIONS_NOT_ASKED,
            true if !self.shows(AclOperation::Describe, ResourceType::Cluster, CLUSTER_NAME) => 0,
            true => self.operations(ResourceType::Cluster, CLUSTER_NAME),
        }
    }

    fn allows(&self, operation: AclOperation, resource_type: ResourceType, name: &str) -> bool {
        let Some((_, image)) = &self.authorizer else { return true };
        let RequestContext { grants, principal, .. } = self.context;
        let (acls, resource) = (image.acls(), (resource_type, name));
        // What changes something is written down each time.
        let may_be_remembered = !is_change(operation) && is_known(image);
        if may_be_remembered && grants.has(acls, principal, operation, resource) {
            return true;
        }
        let is_allowed = self.decide(|authorizer, acls, requester| {
            let rule = authorizer.authorize(acls, requester, operation, resource_type, name);
            self.note(&rule, operation, resource_type, name);
            rule.is_allowed()
        });
        let is_allowed = is_allowed.unwrap_or(true);
        if is_allowed && may_be_remembered {
            grants.remember(acls, principal, operation, resource);
        }
        is_allowed
    }

    fn decide<T>(
        &self,
        decide: impl FnOnce(&Authorizer, Option<&metadata::acl::Acls>, Requester<'_>) -> T,
    ) -> Option<T> {
        let (authorizer, image) = self.authorizer.as_ref()?;
        let address = self.context.client_address.ip();
        let requester = Requester { principal: self.context.principal.as_str(), address };
        let acls = is_known(image).then(|| &**image.acls());
        Some(decide(authorizer, acls, requester))
    }

    fn note(&self, rule: &Rule<'_>, operation: AclOperation, resource_type: ResourceType, name: &str) {
        self.broker.audit.decided(self.context.asker(), rule, operation, (resource_type, name));
    }
}

/// Before the metadata is known, nobody knows what it denies.
fn is_known(image: &MetadataImage) -> bool {
    image.offset() >= 0
}
