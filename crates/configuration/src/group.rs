//! The settings of a consumer group (KIP-848): its own over the broker's.

use super::{BrokerConfig, ConfigError, ConfigMap, Scope, Synonym, settings, topic};

settings! {
    /// A group's settings, typed.
    pub struct GroupConfig {}

    "consumer.heartbeat.interval.ms" => consumer_heartbeat_interval_ms: i32 = "5000", AtLeast(1), ClusterWide,
        "How often members report.",
        from [Synonym { name: "group.consumer.heartbeat.interval.ms", factor: 1 }];
    "consumer.session.timeout.ms" => consumer_session_timeout_ms: i32 = "45000", AtLeast(1), ClusterWide,
        "How long a member may be silent before it is out.",
        from [Synonym { name: "group.consumer.session.timeout.ms", factor: 1 }];
    "consumer.assignment.interval.ms" => consumer_assignment_interval_ms: i32 = "1000", AtLeast(0), ClusterWide,
        "How long an assignment stays at least (KIP-1263).",
        from [Synonym { name: "group.consumer.assignment.interval.ms", factor: 1 }];
}

impl GroupConfig {
    /// The settings of a group without any of its own. The broker's may contradict each other, as Kafka's may.
    pub fn of_broker(broker: &BrokerConfig) -> Self {
        Self::typed(|setting| topic::from_broker(setting, broker)).expect("the broker's settings have been checked")
    }

    /// A group's settings: its own over the broker's.
    pub fn resolve(broker: &BrokerConfig, overrides: &ConfigMap) -> Result<Self, ConfigError> {
        for name in overrides.keys() {
            Scope::Group.expect(name)?;
        }
        let config = Self::typed(|setting| {
            overrides.get(setting.name).cloned().or_else(|| topic::from_broker(setting, broker))
        })?;
        config.check(broker)?;
        Ok(config)
    }

    /// What the broker's settings allow a group (`GroupConfig.validateValues`).
    fn check(&self, broker: &BrokerConfig) -> Result<(), ConfigError> {
        let heartbeat = ("consumer.heartbeat.interval.ms", self.consumer_heartbeat_interval_ms);
        let session = ("consumer.session.timeout.ms", self.consumer_session_timeout_ms);
        let assignment = ("consumer.assignment.interval.ms", self.consumer_assignment_interval_ms);
        let bounds = [
            (
                heartbeat,
                "group.consumer.min.heartbeat.interval.ms",
                broker.group_consumer_min_heartbeat_interval_ms,
                true,
            ),
            (
                heartbeat,
                "group.consumer.max.heartbeat.interval.ms",
                broker.group_consumer_max_heartbeat_interval_ms,
                false,
            ),
            (session, "group.consumer.min.session.timeout.ms", broker.group_consumer_min_session_timeout_ms, true),
            (session, "group.consumer.max.session.timeout.ms", broker.group_consumer_max_session_timeout_ms, false),
            (
                assignment,
                "group.consumer.min.assignment.interval.ms",
                broker.group_consumer_min_assignment_interval_ms,
                true,
            ),
            (
                assignment,
                "group.consumer.max.assignment.interval.ms",
                broker.group_consumer_max_assignment_interval_ms,
                false,
            ),
        ];
        for ((name, value), bound_name, bound, is_least) in bounds {
            if is_least && value < bound {
                return Err(ConfigError::Conflict(format!("{name} must be greater than or equal to {bound_name}")));
            }
            if !is_least && value > bound {
                return Err(ConfigError::Conflict(format!("{name} must be less than or equal to {bound_name}")));
            }
        }
        if session.1 <= heartbeat.1 {
            return Err(ConfigError::Conflict(format!("{} must be greater than {}", session.0, heartbeat.0)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stays_within_the_brokers_bounds() {
        let broker = BrokerConfig::new(ConfigMap::new()).unwrap();
        let resolve = |name: &str, value: &str| {
            GroupConfig::resolve(&broker, &ConfigMap::from([(name.to_owned(), value.to_owned())]))
                .map_err(|error| error.to_string())
        };
        assert_eq!(resolve("consumer.session.timeout.ms", "50000").unwrap().consumer_session_timeout_ms, 50000);
        assert_eq!(
            resolve("consumer.session.timeout.ms", "60001").unwrap_err(),
            "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"
        );
        assert_eq!(
            resolve("consumer.heartbeat.interval.ms", "1").unwrap_err(),
            "consumer.heartbeat.interval.ms must be greater than or equal to \
             group.consumer.min.heartbeat.interval.ms"
        );
        assert_eq!(resolve("colour", "red").unwrap_err(), "Unknown group config name: colour");
    }
}
