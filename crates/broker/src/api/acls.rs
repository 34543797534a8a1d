//! What the APIs of access control lists have in common: there are none without an authorizer.

use crate::Broker;

/// Kafka's words for SECURITY_DISABLED where something is to be changed (`AclApis`).
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

pub(super) fn has_authorizer(broker: &Broker) -> bool {
    !broker.config().authorizer_class_name.is_empty()
}

#[cfg(test)]
pub(super) mod tests {
    use wire::api::create_acls::AclCreation;

    use crate::api::test_support::TestBroker;

    /// A broker with the authorizer that there is, whose super user is who has not said who they are.
    pub async fn start() -> TestBroker {
        let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
        TestBroker::start_with(&[("authorizer.class.name", class), ("super.users", "User:ANONYMOUS")]).await
    }

    /// User a may read a topic.
    pub fn creation(topic: &str) -> AclCreation {
        AclCreation {
            resource_type: 2,
            resource_name: topic.to_owned(),
            resource_pattern_type: 3,
            principal: "User:a".into(),
            host: "*".into(),
            operation: 3,
            permission_type: 3,
        }
    }
}
