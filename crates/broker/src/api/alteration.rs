//! Altering settings, as far as AlterConfigs and IncrementalAlterConfigs have it in common: a broker refuses some
//! resources by itself (`kafka.server.ConfigAdminManager.preprocess`) and has the controller decide about the others.

use std::collections::HashSet;

use metadata::ResourceKind;
use metadata::acl::AclOperation;
use wire::ErrorCode;
use wire::api::{alter_configs, incremental_alter_configs};

use super::Access;
use crate::controller::ControllerError;

/// A resource of a request.
pub(super) trait Resource {
    fn kind(&self) -> i8;
    fn name(&self) -> &str;
    fn keys(&self) -> impl Iterator<Item = &str>;
}

macro_rules! resources {
    ($($module:ident)*) => {$(
        impl Resource for $module::AlterConfigsResource {
            fn kind(&self) -> i8 {
                self.resource_type
            }

            fn name(&self) -> &str {
                &self.resource_name
            }

            fn keys(&self) -> impl Iterator<Item = &str> {
                self.configs.iter().map(|config| config.name.as_str())
            }
        }
    )*};
}

resources! { alter_configs incremental_alter_configs }

/// The outcome of one resource: NONE and no message, or why it is as before.
pub(super) type AlterationResult = (ErrorCode, Option<String>);

/// Alters resources. `here` alters a resource that the broker decides about itself; `ask` has the controller decide
/// about the others that the broker does not refuse, one outcome each. Answers the kind, name and outcome of every
/// resource, in the order of the request.
pub(super) async fn alter<R: Resource>(
    node_id: i32,
    access: &Access<'_>,
    resources: Vec<R>,
    here: impl Fn(&R) -> Option<AlterationResult>,
    ask: impl AsyncFnOnce(Vec<R>) -> Result<Vec<AlterationResult>, ControllerError>,
) -> Vec<(i8, String, AlterationResult)> {
    let mut decided_here = Vec::with_capacity(resources.len());
    let mut passed = Vec::with_capacity(resources.len());
    for resource in resources {
        let granted = access.check_configs(AclOperation::AlterConfigs, resource.kind(), resource.name());
        let outcome = match granted.map(|()| check(node_id, &resource)) {
            Ok(Ok(())) => here(&resource),
            Ok(Err(message)) => Some((ErrorCode::INVALID_REQUEST, Some(message))),
            Err(code) => Some((code, None)),
        };
        decided_here.push((resource.kind(), resource.name().to_owned(), outcome));
        if decided_here.last().is_some_and(|(_, _, outcome)| outcome.is_none()) {
            passed.push(resource);
        }
    }
    let mut decided = ask(passed).await.map(Vec::into_iter);
    let mut next = || match &mut decided {
        Ok(outcomes) => outcomes.next().unwrap_or((ErrorCode::UNKNOWN_SERVER_ERROR, None)),
        Err(error) => (error.code(), Some(error.to_string())),
    };
    decided_here.into_iter().map(|(kind, name, outcome)| (kind, name, outcome.unwrap_or_else(&mut next))).collect()
}

/// A broker's settings are altered by that broker, and each key once.
fn check(node_id: i32, resource: &impl Resource) -> Result<(), String> {
    let name = resource.name();
    if ResourceKind::from_id(resource.kind()) == Some(ResourceKind::Broker) && !name.is_empty() {
        match name.parse::<i32>() {
            Ok(id) if id == node_id => {}
            Ok(id) => return Err(format!("Unexpected broker id, expected {node_id}, but received {id}")),
            Err(_) => return Err(format!("Node id must be an integer, but it is: {name}")),
        }
    }
    let mut seen = HashSet::new();
    if resource.keys().all(|key| seen.insert(key)) {
        Ok(())
    } else {
        Err("Error due to duplicate config keys".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use alter_configs::{AlterConfigsResource, AlterableConfig};

    use super::*;
    use crate::api::test_support::{TestBroker, context};

    fn resource(resource_type: i8, name: &str, keys: &[&str]) -> AlterConfigsResource {
        let configs = keys.iter().map(|key| AlterableConfig { name: (*key).to_owned(), value: None });
        AlterConfigsResource { resource_type, resource_name: name.to_owned(), configs: configs.collect() }
    }

    #[test]
    fn a_broker_takes_only_its_own_settings_and_each_once() {
        let check = |name: &str, keys: &[&str]| check(1, &resource(4, name, keys));
        assert_eq!(check("1", &["a", "b"]), Ok(()));
        assert_eq!(check("", &["a"]), Ok(()));
        assert_eq!(check("2", &[]), Err("Unexpected broker id, expected 1, but received 2".into()));
        assert_eq!(check("x", &[]), Err("Node id must be an integer, but it is: x".into()));
        assert_eq!(check("1", &["a", "b", "a"]), Err("Error due to duplicate config keys".into()));
    }

    #[tokio::test]
    async fn outcomes_are_in_the_order_of_the_request() {
        let broker = TestBroker::start().await;
        let context = context(2);
        let access = context.access(&broker);
        let resources =
            || vec![resource(2, "a", &[]), resource(4, "2", &[]), resource(8, "1", &[]), resource(2, "b", &[])];
        let here = |resource: &AlterConfigsResource| {
            (resource.resource_type == 8).then_some((ErrorCode::POLICY_VIOLATION, None))
        };
        let outcomes = alter(1, &access, resources(), here, async |passed: Vec<AlterConfigsResource>| {
            assert_eq!(passed.iter().map(Resource::name).collect::<Vec<_>>(), ["a", "b"]);
            Ok(vec![(ErrorCode::NONE, None), (ErrorCode::INVALID_CONFIG, Some("no".to_owned()))])
        });
        let outcomes = outcomes.await;
        let codes: Vec<_> = outcomes.iter().map(|(_, name, outcome)| (name.as_str(), outcome.0)).collect();
        let (refused, here_too) = (("2", ErrorCode::INVALID_REQUEST), ("1", ErrorCode::POLICY_VIOLATION));
        assert_eq!(codes, [("a", ErrorCode::NONE), refused, here_too, ("b", ErrorCode::INVALID_CONFIG)]);

        let outcomes = alter(1, &access, resources(), here, async |_| Err(ControllerError::Stopped)).await;
        let codes: Vec<_> = outcomes.iter().map(|(_, _, outcome)| outcome.0).collect();
        assert_eq!(codes, [ErrorCode::NOT_CONTROLLER, refused.1, here_too.1, ErrorCode::NOT_CONTROLLER]);
    }
}
