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

#[cfg(test)]
mod tests {
    use super::*;

    const DELETE: i8 = 1;
    const SUBTRACT: i8 = 3;

    fn config(name: &str, config_operation: i8, value: Option<&str>) -> AlterableConfig {
        AlterableConfig { name: name.to_owned(), config_operation, value: value.map(str::to_owned) }
    }

    fn set(loggers: &Loggers, configs: &[AlterableConfig], validate_only: bool) -> ErrorCode {
        let resource =
            AlterConfigsResource { resource_type: 8, resource_name: "1".to_owned(), configs: configs.to_vec() };
        let (code, message) = alter(loggers, 1, &resource, validate_only);
        assert_eq!(message.is_some(), !code.is_none());
        code
    }

    fn level(loggers: &Loggers, name: &str) -> Option<String> {
        describe(loggers, Some(&[name.to_owned()])).pop()?.value
    }

    #[test]
    fn each_logger_that_is_asked_for_is_told_once() {
        let loggers = Loggers::default();
        let names = |keys: Option<&[&str]>| {
            let keys: Option<Vec<String>> = keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect());
            describe(&loggers, keys.as_deref()).into_iter().map(|logger| logger.name).collect::<Vec<_>>()
        };
        let all = names(None);
        assert!(all.contains(&"root".to_owned()) && all.contains(&"broker.api".to_owned()), "{all:?}");
        assert_eq!(names(Some(&[])), all);
        assert_eq!(names(Some(&["root", "nope", "broker", "root"])), ["broker", "root"]);
    }

    #[test]
    fn a_level_is_that_of_the_logger_above_until_it_is_set_and_after_it_is_deleted() {
        let loggers = Loggers::default();
        let change = [config("broker", 0, Some("TRACE")), config("broker.net", 0, Some("ERROR"))];
        assert_eq!(set(&loggers, &change, true), ErrorCode::NONE);
        assert_eq!(level(&loggers, "broker.net"), level(&loggers, "root"), "that was only a question");
        assert_eq!(set(&loggers, &change, false), ErrorCode::NONE);
        let levels = ["broker", "broker.api", "broker.net"].map(|name| level(&loggers, name));
        assert_eq!(levels, ["TRACE", "TRACE", "ERROR"].map(|level| Some(level.to_owned())));
        assert_eq!(set(&loggers, &[config("broker.net", DELETE, None)], false), ErrorCode::NONE);
        assert_eq!(level(&loggers, "broker.net").as_deref(), Some("TRACE"));
    }

    #[test]
    fn operations_of_lists_and_unknown_ones_are_refused() {
        let loggers = Loggers::default();
        let good = config("storage", 0, Some("TRACE"));
        for operation in [SUBTRACT, 4, -1] {
            let change = [good.clone(), config("broker", operation, Some("TRACE"))];
            assert_eq!(set(&loggers, &change, false), ErrorCode::INVALID_REQUEST, "{operation}");
        }
        assert_eq!(level(&loggers, "storage"), level(&loggers, "root"), "a resource is altered as a whole");
    }
}
