//! Validation of altered settings, as Kafka does it (`ConfigurationControlManager`, `ConfigAdminManager`,
//! `ControllerConfigurationValidator`).

use wire::ErrorCode;

use super::value::elements;
use super::{BrokerConfig, ConfigError, ConfigMap, GroupConfig, Kind, Scope, TopicConfig, Update, topic};

/// What is done to one setting (`AlterConfigOp.OpType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Set,
    Delete,
    Append,
    Subtract,
}

impl Operation {
    pub fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Set),
            1 => Some(Self::Delete),
            2 => Some(Self::Append),
            3 => Some(Self::Subtract),
            _ => None,
        }
    }
}

/// One alteration of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alteration {
    pub name: String,
    pub operation: Operation,
    /// None only for a deletion.
    pub value: Option<String>,
}

/// Why settings are not altered. What Kafka finds out at the broker is INVALID_REQUEST, at the controller
/// INVALID_CONFIG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AlterError {
    pub code: ErrorCode,
    pub message: String,
}

impl AlterError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<ConfigError> for AlterError {
    fn from(error: ConfigError) -> Self {
        Self::new(ErrorCode::INVALID_CONFIG, error.to_string())
    }
}

/// What settings become by alterations, in order. Nothing is checked yet but what the operations themselves need.
pub fn apply(
    scope: Scope,
    broker: &BrokerConfig,
    current: &ConfigMap,
    alterations: &[Alteration],
) -> Result<ConfigMap, AlterError> {
    let mut altered = current.clone();
    for Alteration { name, operation, value } in alterations {
        let value = value.as_deref();
        if value.is_none() && *operation != Operation::Delete {
            return Err(AlterError::new(ErrorCode::INVALID_REQUEST, format!("Null value not supported for : {name}")));
        }
        match (operation, value) {
            (Operation::Delete, _) | (_, None) => _ = altered.remove(name),
            (Operation::Set, Some(value)) => _ = altered.insert(name.clone(), value.to_owned()),
            (Operation::Append | Operation::Subtract, Some(value)) => {
                let setting = scope.find(name).filter(|setting| setting.kind == Kind::List).ok_or_else(|| {
                    let verb = if *operation == Operation::Append { "APPEND" } else { "SUBTRACT" };
                    let message = format!("Can't {verb} to key {name} because its type is not LIST.");
                    AlterError::new(ErrorCode::INVALID_CONFIG, message)
                })?;
                let before = altered.get(name).cloned().or_else(|| match scope {
                    Scope::Broker => broker.text(setting).map(str::to_owned),
                    Scope::Topic | Scope::Group => topic::from_broker(setting, broker),
                });
                let mut list: Vec<&str> = elements(before.as_deref().unwrap_or_default()).collect();
                for element in elements(value) {
                    match operation {
                        Operation::Append if list.contains(&element) => {}
                        Operation::Append => list.push(element),
                        _ => list.retain(|other| *other != element),
                    }
                }
                let joined = list.join(",");
                altered.insert(name.clone(), joined);
            }
        }
    }
    Ok(altered)
}

/// Whether a topic may have these settings.
pub fn check_topic(broker: &BrokerConfig, settings: &ConfigMap) -> Result<(), AlterError> {
    TopicConfig::resolve(broker, settings)?;
    Ok(())
}

/// Whether a group may have these settings.
pub fn check_group(broker: &BrokerConfig, settings: &ConfigMap) -> Result<(), AlterError> {
    GroupConfig::resolve(broker, settings)?;
    Ok(())
}

/// Whether a broker, or all of them, may get these settings while they run. What is as before is not looked at again.
pub fn check_broker(all_brokers: bool, before: &ConfigMap, after: &ConfigMap) -> Result<(), AlterError> {
    let bad = |error: ConfigError| match error {
        ConfigError::Unknown { .. } => AlterError::from(error),
        error => AlterError::new(ErrorCode::INVALID_REQUEST, error.to_string()),
    };
    for (name, text) in after.iter().filter(|(name, text)| before.get(*name) != Some(text)) {
        BrokerConfig::check_dynamic(name, text).map_err(bad)?;
        if all_brokers && Scope::Broker.find(name).is_some_and(|setting| setting.update == Update::PerBroker) {
            let message = format!("Cannot update per-broker configs at the default cluster level: [{name}]");
            return Err(AlterError::new(ErrorCode::INVALID_REQUEST, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> ConfigMap {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn alteration(operation: Operation, name: &str, value: Option<&str>) -> Alteration {
        Alteration { name: name.to_owned(), operation, value: value.map(str::to_owned) }
    }

    fn topic_after(current: &[(&str, &str)], alterations: &[Alteration]) -> Result<ConfigMap, AlterError> {
        let broker = BrokerConfig::new(ConfigMap::new()).unwrap();
        apply(Scope::Topic, &broker, &map(current), alterations)
    }

    #[test]
    fn operations_by_table() {
        use Operation::*;
        for (current, operation, name, value, after) in [
            (&[][..], Set, "retention.ms", Some("1"), &[("retention.ms", "1")][..]),
            (&[("retention.ms", "1")], Set, "retention.ms", Some("2"), &[("retention.ms", "2")]),
            (&[("retention.ms", "1")], Delete, "retention.ms", None, &[]),
            (&[], Delete, "retention.ms", None, &[]),
            (&[], Append, "cleanup.policy", Some("compact"), &[("cleanup.policy", "delete,compact")]),
            (&[], Append, "cleanup.policy", Some("delete"), &[("cleanup.policy", "delete")]),
            (
                &[("cleanup.policy", "compact,delete")],
                Subtract,
                "cleanup.policy",
                Some("delete"),
                &[("cleanup.policy", "compact")],
            ),
            (&[], Subtract, "cleanup.policy", Some("compact"), &[("cleanup.policy", "delete")]),
        ] {
            let result = topic_after(current, &[alteration(operation, name, value)]);
            assert_eq!(result, Ok(map(after)), "{operation:?} {name} {value:?}");
        }
    }

    #[test]
    fn refusals_by_table() {
        use Operation::*;
        for (operation, name, value, code, message) in [
            (
                Append,
                "retention.ms",
                Some("1"),
                ErrorCode::INVALID_CONFIG,
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
            (
                Subtract,
                "colour",
                Some("1"),
                ErrorCode::INVALID_CONFIG,
                "Can't SUBTRACT to key colour because its type is not LIST.",
            ),
            (Set, "retention.ms", None, ErrorCode::INVALID_REQUEST, "Null value not supported for : retention.ms"),
        ] {
            let error = topic_after(&[], &[alteration(operation, name, value)]).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, message));
        }
    }

    #[test]
    fn brokers_by_table() {
        let cordoned = "Cannot update per-broker configs at the default cluster level: [cordoned.log.dirs]";
        for (all, name, value, outcome) in [
            (false, "log.retention.ms", "1", Ok(())),
            (true, "log.retention.ms", "1", Ok(())),
            (false, "num.partitions", "3", Err((42, "Cannot update these configs dynamically: [num.partitions]"))),
            (
                true,
                "log.segment.bytes",
                "30",
                Err((42, "Invalid value 30 for configuration log.segment.bytes: Value must be at least 1048576")),
            ),
            (false, "cordoned.log.dirs", "", Ok(())),
            (true, "cordoned.log.dirs", "", Err((42, cordoned))),
            (false, "foo.bar", "3", Err((40, "Unknown broker config name: foo.bar"))),
        ] {
            let result = check_broker(all, &ConfigMap::new(), &map(&[(name, value)]));
            assert_eq!(result.as_ref().copied().map_err(|e| (e.code.0, e.message.as_str())), outcome, "{name}");
        }
        // What is there already, from another version perhaps, does not stand in the way.
        let before = map(&[("foo.bar", "3")]);
        assert_eq!(check_broker(false, &before, &map(&[("foo.bar", "3"), ("log.retention.ms", "1")])), Ok(()));
    }
}
