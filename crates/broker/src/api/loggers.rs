//! Loggers as settings of a broker (KIP-412), as far as DescribeConfigs and IncrementalAlterConfigs share them
//! (`kafka.server.logger.RuntimeLoggerManager`).
//!
//! Behaviour:
//! - A resource is altered as a whole or refused: an unknown logger or level is INVALID_CONFIG.
//! - A logger whose level is deleted has that of the one above it. `root` keeps its own.
//! - Levels last until the broker ends.

use std::collections::HashSet;

use configuration::alter::Operation;
use platform::loggers::{Levels, Loggers, ROOT, level_from_name, level_name};
use wire::ErrorCode;
use wire::api::describe_configs::DescribeConfigsResourceResult;
use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};

use super::alteration::AlterationResult;

/// `DYNAMIC_BROKER_LOGGER_CONFIG`.
const SOURCE: i8 = 6;

/// The loggers that are asked for, or all of them, with their levels.
pub(super) fn describe(loggers: &Loggers, keys: Option<&[String]>) -> Vec<DescribeConfigsResourceResult> {
    let keys = keys.filter(|keys| !keys.is_empty());
    let keys: Option<HashSet<&str>> = keys.map(|keys| keys.iter().map(String::as_str).collect());
    let levels = loggers.levels();
    let asked = levels.all().into_iter().filter(|(name, _)| keys.as_ref().is_none_or(|keys| keys.contains(name)));
    let described = asked.map(|(name, level)| DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: Some(level_name(level).to_owned()),
        config_source: SOURCE,
        documentation: Some(String::new()),
        ..Default::default()
    });
    described.collect()
}

/// Changes levels of this broker's loggers, unless they are only to be checked.
pub(super) fn alter(
    loggers: &Loggers,
    node_id: i32,
    resource: &AlterConfigsResource,
    validate_only: bool,
) -> AlterationResult {
    match check(&loggers.levels(), node_id, resource) {
        Err((code, message)) => (code, Some(message)),
        Ok(_) if validate_only => (ErrorCode::NONE, None),
        Ok(changes) => {
            loggers.change(|levels| changes.iter().for_each(|change| change.make(levels)));
            for Change { logger, level } in changes {
                match level {
                    Some(level) => tracing::warn!(logger, level = level_name(level), "the level of a logger was set"),
                    None => tracing::warn!(logger, "the level of a logger is that of the one above it"),
                }
            }
            (ErrorCode::NONE, None)
        }
    }
}

struct Change<'a> {
    logger: &'a str,
    level: Option<tracing::level_filters::LevelFilter>,
}

impl Change<'_> {
    fn make(&self, levels: &mut Levels) {
        match self.level {
            Some(level) => levels.set(self.logger, level),
            None => levels.unset(self.logger),
        }
    }
}

type Refusal = (ErrorCode, String);

fn check<'a>(levels: &Levels, node_id: i32, resource: &'a AlterConfigsResource) -> Result<Vec<Change<'a>>, Refusal> {
    let name = &resource.resource_name;
    match name.parse::<i32>() {
        Ok(id) if id == node_id => {}
        Ok(id) => return Err(invalid(format!("Unexpected node id. Expected {node_id}, but received {id}"))),
        Err(_) => return Err(invalid(format!("Node id must be an integer, but it is: {name}"))),
    }
    resource.configs.iter().map(|config| check_one(levels, config)).collect()
}

fn check_one<'a>(levels: &Levels, config: &'a AlterableConfig) -> Result<Change<'a>, Refusal> {
    let logger = config.name.as_str();
    let unknown = || (ErrorCode::INVALID_CONFIG, format!("Logger {logger} does not exist!"));
    match Operation::from_id(config.config_operation) {
        Some(Operation::Set) => {
            let null = || invalid(format!("Null value not supported for : {logger}"));
            let value = config.value.as_deref().ok_or_else(null)?;
            if !levels.exists(logger) {
                return Err(unknown());
            }
            let Some(level) = level_from_name(value) else {
                let message = format!(
                    "Cannot set the log level of {logger} to {value} as it is not a supported log level. Valid log \
                     levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
                );
                return Err((ErrorCode::INVALID_CONFIG, message));
            };
            Ok(Change { logger, level: Some(level) })
        }
        Some(Operation::Delete) if !levels.exists(logger) => Err(unknown()),
        Some(Operation::Delete) if logger == ROOT => {
            Err(invalid("Removing the log level of the root logger is not allowed".to_owned()))
        }
        Some(Operation::Delete) => Ok(Change { logger, level: None }),
        Some(Operation::Append) => Err(not_allowed("APPEND")),
        Some(Operation::Subtract) => Err(not_allowed("SUBTRACT")),
        None => Err(invalid(format!("Unknown operation {} for : {logger}", config.config_operation))),
    }
}

fn invalid(message: String) -> Refusal {
    (ErrorCode::INVALID_REQUEST, message)
}

fn not_allowed(operation: &str) -> Refusal {
    invalid(format!("{operation} operation is not allowed for the BROKER_LOGGER resource"))
}
