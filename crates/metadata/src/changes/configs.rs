//! Altering settings of topics, brokers and groups.

use std::collections::BTreeSet;

use configuration::alter::{self, Alteration, Operation};
use configuration::{ConfigMap, Scope};
use wire::ErrorCode;
use wire::api::{alter_configs, incremental_alter_configs};
use wire::state::metadata::{ClearElrRecord, MetadataRecord};

use super::{Context, Decision, MIN_INSYNC_REPLICAS, RECORDS_MAX, Refusal};
use crate::image::{ConfigResource, ResourceKind};
use crate::name::TopicName;

/// Groups that may have settings of their own. A group need not exist for that, so nothing else bounds them: configs of
/// deleted groups stay until a client deletes them.
const GROUPS_MAX: usize = 10_000;
/// Longest id of a group that may have settings of its own.
const GROUP_ID_BYTES_MAX: usize = 1_024;

/// The result of one resource, in the order of the request.
pub type AlterationResult = Result<(), Refusal>;

/// Alters single settings (KIP-339).
pub fn alter_incrementally(
    context: &Context<'_>,
    resources: &[incremental_alter_configs::AlterConfigsResource],
    validate_only: bool,
) -> Decision<Vec<AlterationResult>> {
    decide(
        context,
        resources,
        validate_only,
        |r| (r.resource_type, r.resource_name.as_str()),
        |scope, before, resource| {
            let mut names = BTreeSet::new();
            let mut alterations = Vec::with_capacity(resource.configs.len());
            for config in &resource.configs {
                if !names.insert(config.name.as_str()) {
                    let message = format!("Error due to duplicate config keys : {}", config.name);
                    return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
                }
                let operation = Operation::from_id(config.config_operation).ok_or_else(|| {
                    let message = format!("Unknown operation {} for : {}", config.config_operation, config.name);
                    Refusal::new(ErrorCode::INVALID_REQUEST, message)
                })?;
                alterations.push(Alteration { name: config.name.clone(), operation, value: config.value.clone() });
            }
            Ok(alter::apply(scope, context.config, before, &alterations)?)
        },
    )
}

/// Replaces all settings of each resource.
pub fn replace(
    context: &Context<'_>,
    resources: &[alter_configs::AlterConfigsResource],
    validate_only: bool,
) -> Decision<Vec<AlterationResult>> {
    decide(
        context,
        resources,
        validate_only,
        |r| (r.resource_type, r.resource_name.as_str()),
        |_, _, resource| {
            let mut after = ConfigMap::new();
            for config in &resource.configs {
                let Some(value) = &config.value else {
                    let message = format!("Null value not supported for : {}", config.name);
                    return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
                };
                after.insert(config.name.clone(), value.clone());
            }
            Ok(after)
        },
    )
}

/// Checks each resource by itself: its type, its new settings, and whether they are allowed.
fn decide<R>(
    context: &Context<'_>,
    resources: &[R],
    validate_only: bool,
    identity: impl Fn(&R) -> (i8, &str),
    after: impl Fn(Scope, &ConfigMap, &R) -> Result<ConfigMap, Refusal>,
) -> Decision<Vec<AlterationResult>> {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<_> = resources.iter().map(&identity).filter(|id| !seen.insert(*id)).collect();
    let mut records = Vec::new();
    let mut answer = Vec::with_capacity(resources.len());
    let mut groups = Groups::default();
    for resource in resources {
        let (kind, name) = identity(resource);
        let outcome = if repeated.contains(&(kind, name)) {
            Err(Refusal::new(ErrorCode::INVALID_REQUEST, "Each resource must appear at most once."))
        } else {
            one(context, kind, name, |scope, before| after(scope, before, resource))
        };
        answer.push(outcome.and_then(|mut changed| {
            groups.check(context, kind, name, &changed)?;
            if records.len() + changed.len() > RECORDS_MAX {
                return Err(Refusal::too_large());
            }
            records.append(&mut changed);
            Ok(())
        }));
    }
    if validate_only {
        records.clear();
    }
    Decision { records, answer }
}

/// How many groups have settings of their own.
#[derive(Default)]
struct Groups(Option<usize>);

impl Groups {
    /// Whether a group may get its first settings.
    fn check(
        &mut self,
        context: &Context<'_>,
        kind: i8,
        name: &str,
        changed: &[MetadataRecord],
    ) -> Result<(), Refusal> {
        let is_group = ResourceKind::from_id(kind) == Some(ResourceKind::Group);
        if !is_group || changed.is_empty() || !context.image.config(&ConfigResource::group(name)).is_empty() {
            return Ok(());
        }
        let count_all = || context.image.configs().filter(|(known, _)| known.kind == ResourceKind::Group).count();
        let count = self.0.get_or_insert_with(count_all);
        if *count >= GROUPS_MAX {
            let message = format!(
                "{GROUPS_MAX} groups have settings of their own, and more cannot have any. Delete the settings of groups \
                 that are gone."
            );
            return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
        }
        *count += 1;
        Ok(())
    }
}

fn one(
    context: &Context<'_>,
    kind: i8,
    name: &str,
    after: impl FnOnce(Scope, &ConfigMap) -> Result<ConfigMap, Refusal>,
) -> Result<Vec<MetadataRecord>, Refusal> {
    let bad = |message: String| Refusal::new(ErrorCode::INVALID_REQUEST, message);
    let known = ResourceKind::from_id(kind).ok_or_else(|| bad(format!("Unknown resource type {kind}")))?;
    let resource = ConfigResource { kind: known, name: name.to_owned() };
    let scope = match known {
        ResourceKind::Topic if name.is_empty() => {
            return Err(bad("Default topic resources are not allowed.".to_owned()));
        }
        ResourceKind::Topic => {
            TopicName::new(name)
                .map_err(|error| Refusal::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.to_string()))?;
            Scope::Topic
        }
        ResourceKind::Broker => {
            check_broker(context, name)?;
            Scope::Broker
        }
        ResourceKind::Group if name.is_empty() => {
            return Err(bad("Default group resources are not allowed.".to_owned()));
        }
        ResourceKind::Group if name.len() > GROUP_ID_BYTES_MAX => {
            return Err(bad(format!(
                "A group with settings of its own has an id of at most {GROUP_ID_BYTES_MAX} bytes."
            )));
        }
        ResourceKind::Group => Scope::Group,
        // Each broker handles its own, and AlterConfigs does not know them (KIP-412).
        ResourceKind::BrokerLogger => return Err(bad(format!("Unknown resource type {kind}"))),
        ResourceKind::ClientMetrics => {
            return Err(bad(format!("Settings of resource type {kind} cannot be altered")));
        }
    };
    let before = context.image.config(&resource);
    let after = after(scope, before)?;
    match scope {
        Scope::Topic => {
            alter::check_topic(context.config, &after)?;
            if context.image.topic(name).is_none() {
                let message = format!("The topic '{name}' does not exist.");
                return Err(Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message));
            }
        }
        Scope::Broker => alter::check_broker(name.is_empty(), before, &after)?,
        Scope::Group => alter::check_group(context.config, &after)?,
    }
    let removed = before.keys().filter(|name| !after.contains_key(*name)).map(|name| resource.to_record(name, None));
    let set = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let set = set.map(|(name, value)| resource.to_record(name, Some(value)));
    let mut records: Vec<MetadataRecord> = removed.chain(set).map(MetadataRecord::from).collect();
    if before.get(MIN_INSYNC_REPLICAS) != after.get(MIN_INSYNC_REPLICAS) {
        // With a lower minimum, acknowledged records may be missing on eligible leader replicas (KIP-966).
        let topic_name = if scope == Scope::Topic { name.to_owned() } else { String::new() };
        records.push(ClearElrRecord { topic_name }.into());
    }
    Ok(records)
}

/// Empty is all brokers.
fn check_broker(context: &Context<'_>, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Ok(());
    }
    let bad = |message: &str| Refusal::new(ErrorCode::INVALID_REQUEST, message);
    let id: i32 = name.parse().map_err(|_| bad("Unable to parse broker name as a base 10 number."))?;
    match context.image.broker(id) {
        _ if id < 0 => Err(bad("Invalid negative broker ID.")),
        None => Err(Refusal::new(ErrorCode::BROKER_ID_NOT_REGISTERED, format!("No broker with id {id} found."))),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::create_topics::CreatableTopic;
    use wire::api::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};

    use super::super::tests::{Counter, applied, brokers};
    use super::super::topics;
    use super::*;
    use crate::image::MetadataImage;

    const TOPIC: i8 = 2;
    const BROKER: i8 = 4;
    const GROUP: i8 = 32;
    const SET: i8 = 0;
    const APPEND: i8 = 2;

    fn with_topic() -> MetadataImage {
        let image = brokers(&[1]);
        let topic = CreatableTopic { name: "t".into(), num_partitions: 1, replication_factor: 1, ..Default::default() };
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let context = Context { image: &image, config: &config, random: &random };
        applied(&image, &topics::create(&context, &[topic], false).records)
    }

    fn resource(kind: i8, name: &str, configs: &[(&str, i8, Option<&str>)]) -> AlterConfigsResource {
        let configs = configs.iter().map(|(name, operation, value)| AlterableConfig {
            name: (*name).to_owned(),
            config_operation: *operation,
            value: value.map(str::to_owned),
        });
        AlterConfigsResource { resource_type: kind, resource_name: name.to_owned(), configs: configs.collect() }
    }

    fn ask(image: &MetadataImage, resources: &[AlterConfigsResource]) -> Decision<Vec<(i16, String)>> {
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let decision = alter_incrementally(&Context { image, config: &config, random: &random }, resources, false);
        let answer = decision.answer.into_iter().map(|outcome| match outcome {
            Ok(()) => (0, String::new()),
            Err(refusal) => (refusal.code.0, refusal.message.unwrap_or_default()),
        });
        Decision { records: decision.records, answer: answer.collect() }
    }

    #[test]
    fn settings_are_set_and_unset_and_what_is_the_same_is_not_written() {
        let image = with_topic();
        let all = [
            resource(TOPIC, "t", &[("retention.ms", SET, Some("5")), ("cleanup.policy", APPEND, Some("compact"))]),
            resource(BROKER, "", &[("min.insync.replicas", SET, Some("1"))]),
            resource(BROKER, "1", &[("log.retention.ms", SET, Some("7"))]),
            resource(GROUP, "g", &[("consumer.session.timeout.ms", SET, Some("50000"))]),
        ];
        let decision = ask(&image, &all);
        assert_eq!(decision.answer, vec![(0, String::new()); 4]);
        let after = applied(&image, &decision.records);
        assert_eq!(after.topic_config("t").get("cleanup.policy").map(String::as_str), Some("delete,compact"));
        assert_eq!(after.config(&ConfigResource::all_brokers()).len(), 1);
        assert_eq!(after.config(&ConfigResource::broker(1)).len(), 1);
        assert_eq!(ask(&after, &all).records, []);

        let (config, random) = (BrokerConfig::default(), Counter::default());
        let context = Context { image: &after, config: &config, random: &random };
        let only = alter_configs::AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: "t".into(),
            configs: vec![alter_configs::AlterableConfig { name: "segment.ms".into(), value: Some("9".into()) }],
        };
        let replaced = applied(&after, &replace(&context, std::slice::from_ref(&only), false).records);
        assert_eq!(replaced.topic_config("t").keys().collect::<Vec<_>>(), ["segment.ms"]);
        assert_eq!(replace(&context, &[only], true), Decision { records: vec![], answer: vec![Ok(())] });
    }

    #[test]
    fn refusals_by_table() {
        let image = with_topic();
        for (kind, name, setting, operation, value, code, message) in [
            (TOPIC, "t", "foo", SET, Some("3"), 40, "Unknown topic config name: foo"),
            (
                TOPIC,
                "t",
                "retention.ms",
                SET,
                Some("x"),
                40,
                "Invalid value x for configuration retention.ms: Not a number of type LONG",
            ),
            (TOPIC, "t", "retention.ms", SET, None, 42, "Null value not supported for : retention.ms"),
            (
                TOPIC,
                "t",
                "retention.ms",
                APPEND,
                Some("1"),
                40,
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
            (TOPIC, "t", "retention.ms", 9, Some("1"), 42, "Unknown operation 9 for : retention.ms"),
            (TOPIC, "u", "retention.ms", SET, Some("1"), 3, "The topic 'u' does not exist."),
            (TOPIC, "", "retention.ms", SET, Some("1"), 42, "Default topic resources are not allowed."),
            (TOPIC, "..", "retention.ms", SET, Some("1"), 17, "Topic name is invalid: '..' is not allowed"),
            (
                BROKER,
                "1",
                "num.partitions",
                SET,
                Some("3"),
                42,
                "Cannot update these configs dynamically: [num.partitions]",
            ),
            (BROKER, "7", "log.retention.ms", SET, Some("3"), 102, "No broker with id 7 found."),
            (BROKER, "-7", "log.retention.ms", SET, Some("3"), 42, "Invalid negative broker ID."),
            (BROKER, "x", "log.retention.ms", SET, Some("3"), 42, "Unable to parse broker name as a base 10 number."),
            (GROUP, "", "consumer.session.timeout.ms", SET, Some("3"), 42, "Default group resources are not allowed."),
            (8, "1", "root", SET, Some("INFO"), 42, "Unknown resource type 8"),
            (77, "1", "a", SET, Some("b"), 42, "Unknown resource type 77"),
        ] {
            let decision = ask(&image, &[resource(kind, name, &[(setting, operation, value)])]);
            assert_eq!(decision, Decision { records: vec![], answer: vec![(code, message.to_owned())] });
        }
    }

    #[test]
    fn a_bad_resource_does_not_touch_the_others_and_a_bad_setting_spoils_its_resource() {
        let image = with_topic();
        let decision = ask(
            &image,
            &[
                resource(TOPIC, "t", &[("retention.ms", SET, Some("5")), ("segment.ms", SET, Some("0"))]),
                resource(BROKER, "1", &[("log.retention.ms", SET, Some("7"))]),
            ],
        );
        assert_eq!((decision.answer[0].0, decision.answer[1].0, decision.records.len()), (40, 0, 1));
        let twice = resource(TOPIC, "t", &[("retention.ms", SET, Some("5"))]);
        let decision = ask(&image, &[twice.clone(), twice]);
        assert_eq!(decision.answer, vec![(42, "Each resource must appear at most once.".to_owned()); 2]);
        let keys = resource(TOPIC, "t", &[("retention.ms", SET, Some("5")), ("retention.ms", SET, Some("6"))]);
        assert_eq!(ask(&image, &[keys]).answer[0].1, "Error due to duplicate config keys : retention.ms");
    }

    #[test]
    fn groups_with_settings_are_bounded() {
        let set = |n: usize| resource(GROUP, &format!("g{n}"), &[("consumer.session.timeout.ms", SET, Some("50000"))]);
        let unset = |n: usize| resource(GROUP, &format!("g{n}"), &[("consumer.session.timeout.ms", 1, None)]);
        let refused = |answer: &[(i16, String)]| answer.iter().filter(|(code, _)| *code == 44).count();
        let some: Vec<_> = (0..GROUPS_MAX - 1).map(set).collect();
        let image = applied(&with_topic(), &ask(&with_topic(), &some).records);
        let decision = ask(&image, &[set(0), set(1_000_000), set(1_000_001), set(1_000_002)]);
        assert_eq!((refused(&decision.answer), decision.records.len()), (2, 1));
        let full = applied(&image, &decision.records);
        assert_eq!(refused(&ask(&full, &[set(1_000_001)]).answer), 1);
        let one_less = applied(&full, &ask(&full, &[unset(7)]).records);
        assert_eq!(refused(&ask(&one_less, &[set(1_000_001)]).answer), 0, "a place is free again");
        let long = resource(GROUP, &"x".repeat(1_025), &[("consumer.session.timeout.ms", SET, Some("50000"))]);
        assert_eq!(ask(&image, &[long]).answer[0].0, 42);
    }

    #[test]
    fn another_minimum_makes_nobody_eligible() {
        let image = with_topic();
        let clears = |name: &str| MetadataRecord::from(ClearElrRecord { topic_name: name.to_owned() });
        for (kind, name, cleared) in [(TOPIC, "t", "t"), (BROKER, "", ""), (BROKER, "1", "")] {
            let set = resource(kind, name, &[("min.insync.replicas", SET, Some("3"))]);
            let records = ask(&image, std::slice::from_ref(&set)).records;
            assert_eq!(records.last(), Some(&clears(cleared)));
            assert_eq!(ask(&applied(&image, &records), &[set]).records, []);
        }
    }
}
