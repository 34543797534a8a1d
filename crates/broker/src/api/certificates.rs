//! Certificates that are renewed because the location of their files is set once more (KIP-226).
//!
//! Behaviour:
//! - The location is set to what it is: the file is read now, and counts if it is good. Any other is INVALID_CONFIG:
//!   files are named when the broker starts, and not over the protocol.
//! - A file that is not good is INVALID_CONFIG, and changes nothing.
//! - Other settings are not in the same resource.

use std::sync::Arc;

use configuration::alter::Operation;
use metadata::ResourceKind;
use wire::ErrorCode;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};

use super::alteration::AlterationResult;
use crate::Broker;
use crate::security::Certificates;
use crate::threads::spawn_blocking;

/// What comes of a resource that is this broker's, and that its sender may alter. `None` if it is about other settings.
pub(super) async fn alter(
    broker: &Arc<Broker>,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> Option<AlterationResult> {
    let AlterConfigsResource { resource_type, resource_name, configs } = resource;
    let is_own = ResourceKind::from_id(*resource_type) == Some(ResourceKind::Broker) && !resource_name.is_empty();
    let is_location = |config: &AlterableConfig| broker.certificates.location(&config.name).is_some();
    if !is_own || configs.is_empty() || !configs.iter().all(is_location) {
        return None;
    }
    let invalid = |message: String| Some((ErrorCode::INVALID_CONFIG, Some(message)));
    if let Some(config) = configs.iter().find(|config| !is_as_before(&broker.certificates, config)) {
        return invalid(format!("{} can only be set to what it is, so that the file is read again", config.name));
    }
    let (broker, names) = (Arc::clone(broker), configs.iter().map(|config| config.name.clone()).collect::<Vec<_>>());
    let renewed = spawn_blocking(move || {
        let now_ms = broker.env.clock.now_ms();
        let listeners = names.iter().filter_map(|name| broker.certificates.location(name));
        listeners.into_iter().try_for_each(|(listener, _)| {
            let renewed = broker.certificates.renew(listener, now_ms, validate_only);
            renewed
                .map_err(|error| format!("The listener {} keeps the certificate that it has: {error}", listener.name))
        })
    });
    match renewed.await {
        Ok(Ok(())) => Some((ErrorCode::NONE, None)),
        Ok(Err(message)) => invalid(message),
        Err(_) => Some((ErrorCode::UNKNOWN_SERVER_ERROR, None)),
    }
}

fn is_as_before(certificates: &Certificates, config: &AlterableConfig) -> bool {
    let current = certificates.location(&config.name).and_then(|(_, current)| current);
    let is_set = Operation::from_id(config.config_operation) == Some(Operation::Set);
    is_set && current.is_some() && config.value.as_deref() == current
}
