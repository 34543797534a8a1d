//! Creating and deleting topics.

use std::collections::{BTreeMap, BTreeSet};

use configuration::{ConfigMap, alter, describe};
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfigs, CreatableTopicResult};
use wire::api::delete_topics::{DeletableTopicResult, DeleteTopicState};
use wire::state::metadata::{MetadataRecord, RemoveTopicRecord, TopicRecord};
use wire::{ErrorCode, Uuid};

use super::bound::Bound;
use super::{Context, Decision, RECORDS_MAX, Refusal, all_inactive, check_assignment, new_partition, place};
use crate::image::{ConfigResource, Partition};
use crate::name::{CLUSTER_METADATA, TopicName};

/// Creates topics; each is refused by itself, but what is too large as a whole is refused as a whole.
pub fn create(
    context: &Context<'_>,
    topics: &[CreatableTopic],
    validate_only: bool,
) -> Decision<Vec<CreatableTopicResult>> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for topic in topics {
        *times.entry(&topic.name).or_default() += 1;
    }
    if total_partitions(context, topics) > RECORDS_MAX as u64 {
        let refusal = Refusal::new(ErrorCode::POLICY_VIOLATION, "Excessively large number of partitions per request.");
        return refuse_all(&times, &refusal);
    }
    let mut records = Vec::new();
    let mut answer = Vec::with_capacity(times.len());
    // Names that this request takes, as they would collide with each other.
    let mut taken: BTreeMap<String, TopicName> = BTreeMap::new();
    let mut bound = Bound::new(context);
    for topic in topics {
        // A name that is there several times is answered once.
        match times.get_mut(topic.name.as_str()) {
            Some(1) => {}
            Some(left @ 2..) => {
                *left = 0;
                let refusal = Refusal::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name.");
                answer.push(refused(&topic.name, &refusal));
                continue;
            }
            _ => continue,
        }
        match create_one(context, topic, &mut taken, &mut bound) {
            Ok((mut created, result)) => {
                records.append(&mut created);
                answer.push(result);
            }
            Err(refusal) => answer.push(refused(&topic.name, &refusal)),
        }
        if records.len() > RECORDS_MAX {
            return refuse_all(&topics.iter().map(|topic| (topic.name.as_str(), 1)).collect(), &Refusal::too_large());
        }
    }
    if validate_only {
        records.clear();
    }
    Decision { records, answer }
}

fn refused(name: &str, refusal: &Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.to_owned(),
        error_code: refusal.code,
        error_message: refusal.message.clone(),
        configs: Some(Vec::new()),
        ..CreatableTopicResult::default()
    }
}

fn refuse_all(names: &BTreeMap<&str, usize>, refusal: &Refusal) -> Decision<Vec<CreatableTopicResult>> {
    Decision { records: Vec::new(), answer: names.keys().map(|name| refused(name, refusal)).collect() }
}

/// Partitions that a request asks for, before anything else is looked at: the answer to 2^31 - 1 of them must be cheap.
fn total_partitions(context: &Context<'_>, topics: &[CreatableTopic]) -> u64 {
    let count = |topic: &CreatableTopic| match topic.num_partitions {
        _ if !topic.assignments.is_empty() => topic.assignments.len() as u64,
        -1 => u64::from(context.config.num_partitions.unsigned_abs()),
        count => u64::try_from(count).unwrap_or(0),
    };
    topics.iter().map(count).sum()
}

fn create_one(
    context: &Context<'_>,
    topic: &CreatableTopic,
    taken: &mut BTreeMap<String, TopicName>,
    bound: &mut Bound,
) -> Result<(Vec<MetadataRecord>, CreatableTopicResult), Refusal> {
    let name = TopicName::new(&topic.name)
        .map_err(|error| Refusal::new(ErrorCode::INVALID_TOPIC_EXCEPTION, error.to_string()))?;
    if &*name == CLUSTER_METADATA {
        let message = format!("Creation of internal topic {CLUSTER_METADATA} is prohibited.");
        return Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    }
    if context.image.topic(&name).is_some() {
        let message = format!("Topic '{name}' already exists.");
        return Err(Refusal::new(ErrorCode::TOPIC_ALREADY_EXISTS, message));
    }
    let colliding = context.image.colliding(&name).or_else(|| taken.get(&name.unified()));
    if let Some(other) = colliding {
        let message = format!("Topic '{name}' collides with existing topic: {other}");
        return Err(Refusal::new(ErrorCode::INVALID_TOPIC_EXCEPTION, message));
    }
    let settings = settings(topic)?;
    alter::check_topic(context.config, &settings)?;
    let partitions = partitions(context, topic)?;
    bound.add(&name, &partitions)?;

    let id = context.new_id();
    let replication_factor = partitions.first().map_or(0, |partition| partition.replicas.len());
    let result = CreatableTopicResult {
        name: topic.name.clone(),
        topic_id: id,
        num_partitions: partitions.len() as i32,
        replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
        configs: Some(effective(context, &settings)),
        ..CreatableTopicResult::default()
    };
    // Settings stand between the topic and its partitions, so that a partition never comes without them.
    let mut records: Vec<MetadataRecord> = vec![TopicRecord { name: name.to_string(), topic_id: id }.into()];
    let resource = ConfigResource::topic(&name);
    records.extend(settings.iter().map(|(name, value)| resource.to_record(name, Some(value)).into()));
    records
        .extend(partitions.iter().enumerate().map(|(index, partition)| partition.to_record(id, index as i32).into()));
    if name.has_collision_chars() {
        taken.insert(name.unified(), name);
    }
    Ok((records, result))
}

fn settings(topic: &CreatableTopic) -> Result<ConfigMap, Refusal> {
    let nulls: Vec<&str> =
        topic.configs.iter().filter(|config| config.value.is_none()).map(|config| config.name.as_str()).collect();
    if !nulls.is_empty() {
        let message = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err(Refusal::new(ErrorCode::INVALID_CONFIG, message));
    }
    Ok(topic.configs.iter().filter_map(|config| Some((config.name.clone(), config.value.clone()?))).collect())
}

fn effective(context: &Context<'_>, settings: &ConfigMap) -> Vec<CreatableTopicConfigs> {
    describe::topic(context.config, settings, None, describe::Include::default())
        .into_iter()
        .map(|setting| CreatableTopicConfigs {
            name: setting.name,
            value: setting.value,
            read_only: setting.read_only,
            config_source: setting.config_source,
            is_sensitive: setting.is_sensitive,
        })
        .collect()
}

fn partitions(context: &Context<'_>, topic: &CreatableTopic) -> Result<Vec<Partition>, Refusal> {
    let refuse = |code: ErrorCode, message: &str| Err(Refusal::new(code, message));
    if !topic.assignments.is_empty() {
        if topic.replication_factor != -1 {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            );
        }
        if topic.num_partitions != -1 {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            );
        }
        return assigned(context, topic);
    }
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        return refuse(
            ErrorCode::INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        );
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        return refuse(ErrorCode::INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.");
    }
    let or_default = |given: i32, default: i32| if given == -1 { default } else { given };
    let count = or_default(topic.num_partitions, context.config.num_partitions);
    let factor = or_default(i32::from(topic.replication_factor), context.config.default_replication_factor);
    let factor = i16::try_from(factor).unwrap_or(i16::MAX);
    let placed = place(context, count.unsigned_abs() as usize, factor).map_err(|error| {
        let message = format!("Unable to replicate the partition {factor} time(s): {error}");
        Refusal::new(ErrorCode::INVALID_REPLICATION_FACTOR, message)
    })?;
    placed.iter().map(|replicas| new_partition(context.image, replicas, || all_inactive(replicas.len()))).collect()
}

/// Partitions where the creator wants them.
fn assigned(context: &Context<'_>, topic: &CreatableTopic) -> Result<Vec<Partition>, Refusal> {
    let mut partitions: BTreeMap<i32, Partition> = BTreeMap::new();
    let mut replication_factor = None;
    for assignment in &topic.assignments {
        let index = assignment.partition_index;
        let bad = |message: String| Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message);
        if partitions.contains_key(&index) {
            return Err(bad(format!("Found multiple manual partition assignments for partition {index}")));
        }
        check_assignment(context.image, &assignment.broker_ids, replication_factor)?;
        replication_factor = Some(assignment.broker_ids.len());
        let partition = new_partition(context.image, &assignment.broker_ids, || {
            bad(format!(
                "All brokers specified in the manual partition assignment for partition {index} are fenced or in \
                 controlled shutdown."
            ))
        })?;
        partitions.insert(index, partition);
    }
    if !partitions.keys().copied().eq(0..partitions.len() as i32) {
        let message = "partitions should be a consecutive 0-based integer sequence";
        return Err(Refusal::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, message));
    }
    Ok(partitions.into_values().collect())
}

/// Deletes topics that are named or given by id (`ControllerApis.deleteTopics`).
pub fn delete(context: &Context<'_>, topics: &[DeleteTopicState]) -> Decision<Vec<DeletableTopicResult>> {
    let mut records = Vec::new();
    let mut answer: Vec<DeletableTopicResult> = Vec::with_capacity(topics.len());
    // A topic that is given by its name and by its id stays, and is answered once.
    let by_id: BTreeSet<Uuid> = topics.iter().filter(|t| t.name.is_none()).map(|t| t.topic_id).collect();
    let named = topics.iter().filter_map(|t| context.image.topic(t.name.as_deref()?)).map(|found| found.id);
    let by_both: BTreeSet<Uuid> = named.filter(|id| by_id.contains(id)).collect();
    let mut answered: BTreeSet<(Option<&str>, Uuid)> = BTreeSet::new();
    let mut counts: BTreeMap<(Option<&str>, Uuid), usize> = BTreeMap::new();
    for topic in topics {
        *counts.entry((topic.name.as_deref(), topic.topic_id)).or_default() += 1;
    }
    for topic in topics {
        let key = (topic.name.as_deref(), topic.topic_id);
        if !answered.insert(key) || (topic.name.is_none() && by_both.contains(&topic.topic_id)) {
            continue;
        }
        let repeated = counts.get(&key).is_some_and(|count| *count > 1);
        match delete_one(context, topic, repeated, &by_both) {
            Ok((name, id)) => {
                records.push(RemoveTopicRecord { topic_id: id }.into());
                answer.push(DeletableTopicResult { name: Some(name), topic_id: id, ..Default::default() });
            }
            Err(refusal) => answer.push(DeletableTopicResult {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                error_code: refusal.code,
                error_message: refusal.message,
            }),
        }
    }
    if records.len() > RECORDS_MAX {
        for result in answer.iter_mut().filter(|result| result.error_code.is_none()) {
            let refusal = Refusal::too_large();
            (result.error_code, result.error_message) = (refusal.code, refusal.message);
        }
        records.clear();
    }
    Decision { records, answer }
}

fn delete_one(
    context: &Context<'_>,
    topic: &DeleteTopicState,
    repeated: bool,
    by_both: &BTreeSet<Uuid>,
) -> Result<(String, Uuid), Refusal> {
    let bad = |message: &str| Err(Refusal::new(ErrorCode::INVALID_REQUEST, message));
    if !context.config.delete_topic_enable {
        return Err(Refusal::plain(ErrorCode::TOPIC_DELETION_DISABLED));
    }
    let found = match (&topic.name, topic.topic_id) {
        (None, Uuid::ZERO) => return bad("Neither topic name nor id were specified."),
        (Some(_), id) if !id.is_zero() => return bad("You may not specify both topic name and topic id."),
        (Some(_), _) if repeated => return bad("Duplicate topic name."),
        (None, _) if repeated => return bad("Duplicate topic id."),
        (Some(name), _) => context.image.topic(name).ok_or_else(|| {
            let message = "This server does not host this topic-partition.";
            Refusal::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, message)
        })?,
        (None, id) => context
            .image
            .topic_by_id(id)
            .ok_or_else(|| Refusal::new(ErrorCode::UNKNOWN_TOPIC_ID, "This server does not host this topic ID."))?,
    };
    if by_both.contains(&found.id) {
        return bad("The provided topic name maps to an ID that was already supplied.");
    }
    Ok((found.name.to_string(), found.id))
}

#[cfg(test)]
mod tests {
    use configuration::BrokerConfig;
    use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopicConfig};
    use wire::state::metadata::BrokerRegistrationChangeRecord;

    use super::super::tests::{Counter, applied, brokers};
    use super::*;
    use crate::image::MetadataImage;

    fn topic(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
        CreatableTopic { name: name.to_owned(), num_partitions, replication_factor, ..CreatableTopic::default() }
    }

    fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
        let assignments = assignments
            .iter()
            .map(|(index, ids)| CreatableReplicaAssignment { partition_index: *index, broker_ids: ids.to_vec() });
        CreatableTopic { assignments: assignments.collect(), ..topic(name, -1, -1) }
    }

    fn configured(name: &str, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
        let configs = configs
            .iter()
            .map(|(name, value)| CreatableTopicConfig { name: (*name).to_owned(), value: value.map(str::to_owned) });
        CreatableTopic { configs: configs.collect(), ..topic(name, 1, 1) }
    }

    fn ask(image: &MetadataImage, topics: &[CreatableTopic]) -> Decision<Vec<CreatableTopicResult>> {
        let (config, random) = (BrokerConfig::default(), Counter::default());
        create(&Context { image, config: &config, random: &random }, topics, false)
    }

    fn refusal(result: &CreatableTopicResult) -> (i16, &str) {
        (result.error_code.0, result.error_message.as_deref().unwrap_or_default())
    }

    #[test]
    fn topics_are_created_with_defaults_settings_and_replicas() {
        let image = brokers(&[1, 2, 3]);
        let decision = ask(
            &image,
            &[
                topic("defaults", -1, -1),
                topic("sized", 6, 3),
                assigned("placed", &[(1, &[2, 3]), (0, &[3, 1])]),
                configured("configured", &[("retention.ms", Some("5"))]),
            ],
        );
        let after = applied(&image, &decision.records);
        let shape: Vec<_> =
            decision.answer.iter().map(|r| (r.error_code.0, r.num_partitions, r.replication_factor)).collect();
        assert_eq!(shape, [(0, 1, 1), (0, 6, 3), (0, 2, 2), (0, 1, 1)]);
        assert_eq!(after.topic("sized").unwrap().id, decision.answer[1].topic_id);
        let placed = after.topic("placed").unwrap();
        assert_eq!((placed.partitions[0].leader, &placed.partitions[1].replicas[..]), (3, &[2, 3][..]));
        assert_eq!((placed.partitions[0].leader_epoch, placed.partitions[0].isr.len()), (0, 2));
        let configs = decision.answer[3].configs.as_ref().unwrap();
        let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
        assert_eq!((retention.value.as_deref(), retention.config_source), (Some("5"), 1));
        assert_eq!(after.topic_config("configured").len(), 1);
    }

    #[test]
    fn validation_alone_writes_nothing() {
        let image = brokers(&[1]);
        let (config, random) = (BrokerConfig::default(), Counter::default());
        let context = Context { image: &image, config: &config, random: &random };
        let decision = create(&context, &[topic("a", 1, 1), topic("..", 1, 1)], true);
        assert_eq!(decision.records, []);
        assert_eq!((decision.answer[0].error_code.0, decision.answer[1].error_code.0), (0, 17));
    }

    #[test]
    fn refusals_by_table() {
        let image = brokers(&[1]);
        let image = applied(&image, &ask(&image, &[topic("there", 1, 1), topic("a.b", 1, 1)]).records);
        for (requested, code, message) in [
            (
                topic("a/b", 1, 1),
                17,
                "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, \
                 '.', '_' and '-'",
            ),
            (topic("a_b", 1, 1), 17, "Topic 'a_b' collides with existing topic: a.b"),
            (topic("there", 1, 1), 36, "Topic 'there' already exists."),
            (topic("__cluster_metadata", 1, 1), 42, "Creation of internal topic __cluster_metadata is prohibited."),
            (topic("t", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."),
            (topic("t", -5, 1), 37, "Number of partitions was set to an invalid non-positive value."),
            (topic("t", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
            (
                topic("t", 1, 30000),
                38,
                "Unable to replicate the partition 30000 time(s): The target replication factor of 30000 cannot be \
                 reached because only 1 broker(s) are registered.",
            ),
            (topic("t", 10_000, 1), 44, "Unable to perform excessively large batch operation."),
            (topic("t", 10_001, 1), 44, "Excessively large number of partitions per request."),
            (topic("t", i32::MAX, 1), 44, "Excessively large number of partitions per request."),
            (
                CreatableTopic { num_partitions: 1, ..assigned("t", &[(0, &[1])]) },
                42,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
            (
                CreatableTopic { replication_factor: 1, ..assigned("t", &[(0, &[1])]) },
                42,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            ),
            (assigned("t", &[(0, &[1]), (0, &[1])]), 39, "Found multiple manual partition assignments for partition 0"),
            (assigned("t", &[(0, &[])]), 39, "The manual partition assignment includes an empty replica list."),
            (
                assigned("t", &[(0, &[1, 1])]),
                39,
                "The manual partition assignment includes the broker 1 more than once.",
            ),
            (
                assigned("t", &[(0, &[4])]),
                39,
                "The manual partition assignment includes broker 4, but no such broker is registered.",
            ),
            (assigned("t", &[(1, &[1])]), 39, "partitions should be a consecutive 0-based integer sequence"),
            (
                assigned("t", &[(0, &[1]), (-1, &[1])]),
                39,
                "partitions should be a consecutive 0-based integer sequence",
            ),
            (configured("t", &[("foo", Some("1"))]), 40, "Unknown topic config name: foo"),
            (configured("t", &[("foo", None)]), 40, "Null value not supported for topic configs: foo"),
            (
                configured("t", &[("retention.ms", Some("-2"))]),
                40,
                "Invalid value -2 for configuration retention.ms: Value must be at least -1",
            ),
        ] {
            let decision = ask(&image, std::slice::from_ref(&requested));
            assert_eq!(
                (decision.records.len(), refusal(&decision.answer[0])),
                (0, (code, message)),
                "{}",
                requested.name
            );
        }
    }

    #[test]
    fn topics_of_one_request_stand_for_themselves() {
        let image = brokers(&[1]);
        let decision = ask(
            &image,
            &[
                topic("a", 1, 1),
                topic("b", 0, 1),
                topic("c.d", 1, 1),
                topic("c_d", 1, 1),
                topic("e", 1, 1),
                topic("e", 2, 1),
            ],
        );
        let codes: Vec<_> = decision.answer.iter().map(|r| (r.name.as_str(), r.error_code.0)).collect();
        assert_eq!(codes, [("a", 0), ("b", 37), ("c.d", 0), ("c_d", 17), ("e", 42)]);
        assert_eq!(applied(&image, &decision.records).topic_count(), 2);
    }

    #[test]
    fn a_fenced_broker_does_not_lead() {
        let fence = BrokerRegistrationChangeRecord { broker_id: 1, fenced: 1, ..Default::default() };
        let image = applied(&brokers(&[1]), &[fence.into()]);
        let decision = ask(&image, &[topic("a", 1, 1), assigned("b", &[(0, &[1])])]);
        assert_eq!(
            decision.answer.iter().map(refusal).collect::<Vec<_>>(),
            [
                (38, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."),
                (
                    39,
                    "All brokers specified in the manual partition assignment for partition 0 are fenced or in \
                     controlled shutdown."
                ),
            ]
        );
    }

    #[test]
    fn deletions_by_table() {
        let image = brokers(&[1]);
        let image = applied(&image, &ask(&image, &[topic("a", 1, 1), topic("b", 1, 1)]).records);
        let id = |name: &str| image.topic(name).map_or(Uuid([77; 16]), |topic| topic.id);
        let by_name = |name: &str| DeleteTopicState { name: Some(name.to_owned()), topic_id: Uuid::ZERO };
        let by_id = |id: Uuid| DeleteTopicState { name: None, topic_id: id };
        for (requested, expected) in [
            (vec![by_name("a"), by_id(id("b"))], &[("a", 0), ("b", 0)][..]),
            (vec![by_name("c")], &[("c", 3)]),
            (vec![by_id(id("c"))], &[("", 100)]),
            (vec![by_id(Uuid::ZERO)], &[("", 42)]),
            (vec![DeleteTopicState { name: Some("a".into()), topic_id: id("a") }], &[("a", 42)]),
            (vec![by_name("a"), by_name("a"), by_name("b")], &[("a", 42), ("b", 0)]),
            (vec![by_id(id("a")), by_id(id("a"))], &[("", 42)]),
            (vec![by_id(id("a")), by_name("a")], &[("a", 42)]),
        ] {
            let (config, random) = (BrokerConfig::default(), Counter::default());
            let decision = delete(&Context { image: &image, config: &config, random: &random }, &requested);
            let answer: Vec<_> =
                decision.answer.iter().map(|r| (r.name.as_deref().unwrap_or_default(), r.error_code.0)).collect();
            assert_eq!(answer, expected);
            let deleted = expected.iter().filter(|(_, code)| *code == 0).count();
            assert_eq!(applied(&image, &decision.records).topic_count(), 2 - deleted);
        }
        let config = BrokerConfig::new(ConfigMap::from([("delete.topic.enable".into(), "false".into())])).unwrap();
        let context = Context { image: &image, config: &config, random: &Counter::default() };
        assert_eq!(delete(&context, &[by_name("a")]).answer[0].error_code, ErrorCode::TOPIC_DELETION_DISABLED);
    }
}
