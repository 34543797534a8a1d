//! Client quotas are set, removed and described (`ClientQuotaControlManager`, `ClientQuotasImage.describe`; KIP-546,
//! KIP-612).

use std::collections::{BTreeMap, BTreeSet};

use wire::ErrorCode;
use wire::api::alter_client_quotas::{AlterationEntry, AlterationResult, OpData};
use wire::api::describe_client_quotas::{ComponentData, DescribeClientQuotasRequest, EntityData, EntryData, ValueData};
use wire::state::metadata::MetadataRecord;

use super::{Context, Decision, RECORDS_MAX, Refusal};
use crate::image::MetadataImage;
use crate::quota::{CLIENT_ID, EntityName, IP, InvalidQuota, QuotaEntity, QuotaKey, USER};

/// Entities that may have quotas. All of them fit into one answer. Kafka has no such bound.
const ENTITIES_MAX: usize = 25_000;
/// The longest name of an entity. Kafka has no such bound.
const NAME_BYTES_MAX: usize = 1_024;

/// How a component of a filter says what it wants (`DescribeClientQuotasRequest`).
const MATCH_EXACT: i8 = 0;
const MATCH_DEFAULT: i8 = 1;
const MATCH_ANY: i8 = 2;

/// Sets and removes quotas. An entity is altered as a whole or refused by itself, and each is answered once.
pub fn alter(
    context: &Context<'_>,
    entries: &[AlterationEntry],
    validate_only: bool,
) -> Decision<Vec<AlterationResult>> {
    let entities: Vec<_> = entries.iter().map(entity_of).collect();
    let mut mentions: BTreeMap<&QuotaEntity, usize> = BTreeMap::new();
    entities.iter().flatten().for_each(|entity| *mentions.entry(entity).or_default() += 1);
    let mut entity_count = context.image.quotas().entity_count();
    let mut records = Vec::new();
    let mut answer = Vec::with_capacity(entries.len());
    for (entry, entity) in entries.iter().zip(&entities) {
        let outcome = match entity {
            Err(refusal) => Err(refusal.clone()),
            Ok(entity) => match mentions.remove(entity) {
                // It is answered already.
                None => continue,
                Some(1) => one(context.image, entity, &entry.ops, &mut entity_count, records.len()),
                Some(_) => Err(invalid(format!("Ignoring duplicate entity {entity}"))),
            },
        };
        let outcome = outcome.map(|mut changed| records.append(&mut changed));
        let (error_code, error_message) = super::code_and_message(outcome);
        answer.push(AlterationResult { error_code, error_message, entity: entry.entity.clone() });
    }
    if validate_only {
        records.clear();
    }
    Decision { records, answer }
}

fn entity_of(entry: &AlterationEntry) -> Result<QuotaEntity, Refusal> {
    let parts = entry.entity.iter().map(|part| (part.entity_type.as_str(), part.entity_name.as_deref()));
    let entity = QuotaEntity::new(parts).map_err(|error| invalid(error.to_string()))?;
    let mut names = entry.entity.iter().filter_map(|part| part.entity_name.as_ref());
    if names.any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(invalid(format!("The name of an entity has at most {NAME_BYTES_MAX} bytes")));
    }
    Ok(entity)
}

/// The records for one entity, behind so many others. Counts it if it had no quota before.
fn one(
    image: &MetadataImage,
    entity: &QuotaEntity,
    ops: &[OpData],
    entity_count: &mut usize,
    records_before: usize,
) -> Result<Vec<MetadataRecord>, Refusal> {
    let current = image.quotas().get(entity);
    let mut names = BTreeSet::new();
    let mut records: Vec<MetadataRecord> = Vec::new();
    for op in ops {
        if !names.insert(op.key.as_str()) {
            let message = format!("Duplicate quota key {} not updating quota for this entity {entity}", op.key);
            return Err(invalid(message));
        }
        let key = QuotaKey::from_name(&op.key).filter(|key| key.is_of(entity));
        let before = key.and_then(|key| current?.get(&key).copied());
        match key {
            Some(key) if op.remove => records.extend(before.map(|_| entity.to_record(key, None).into())),
            // There is no such quota to remove.
            None if op.remove => {}
            None => return Err(invalid(InvalidQuota::UnknownKey(op.key.clone()).to_string())),
            Some(key) => {
                check_value(key, op.value)?;
                if before != Some(op.value) {
                    records.push(entity.to_record(key, Some(op.value)).into());
                }
            }
        }
    }
    if records_before + records.len() > RECORDS_MAX {
        return Err(Refusal::too_large());
    }
    if current.is_none() && !records.is_empty() {
        if *entity_count >= ENTITIES_MAX {
            let message = format!("{ENTITIES_MAX} entities have quotas, and more cannot have any.");
            return Err(Refusal::new(ErrorCode::POLICY_VIOLATION, message));
        }
        *entity_count += 1;
    }
    Ok(records)
}

/// `ClientQuotaControlManager.validateQuotaKeyValue`. Infinite percentages and what is no number are refused too, which
/// Kafka takes.
fn check_value(key: QuotaKey, value: f64) -> Result<(), Refusal> {
    let name = key.name();
    if value <= 0.0 || value.is_nan() {
        return Err(invalid(format!("Quota {name} must be greater than 0")));
    }
    let (max, type_name) = match key {
        QuotaKey::ProducerByteRate | QuotaKey::ConsumerByteRate => (i64::MAX as f64, "a LONG"),
        QuotaKey::ConnectionCreationRate => (f64::from(i32::MAX), "an INT"),
        QuotaKey::RequestPercentage | QuotaKey::ControllerMutationRate | QuotaKey::ProducerIdsRate => {
            match value.is_finite() {
                true => return Ok(()),
                false => (f64::MAX, "a DOUBLE"),
            }
        }
    };
    if value > max {
        return Err(invalid(format!("Proposed value for {name} is too large for {type_name}.")));
    }
    if value % 1.0 > 1e-6 {
        return Err(invalid(format!("{name} cannot be a fractional value.")));
    }
    Ok(())
}

/// What a component of a filter wants of a part of an entity.
enum Wanted {
    Exactly(EntityName),
    /// A part of the type, whatever its name.
    Any,
}

/// What is wanted of entities. A part that no component names may be there, unless the filter is strict.
#[derive(Default)]
struct Filter {
    user: Option<Wanted>,
    client_id: Option<Wanted>,
    ip: Option<Wanted>,
    is_strict: bool,
}

impl Filter {
    fn new(request: &DescribeClientQuotasRequest) -> Result<Self, Refusal> {
        let mut filter = Self { is_strict: request.strict, ..Self::default() };
        for component in &request.components {
            let kind = component.entity_type.as_str();
            let part = match kind {
                USER => &mut filter.user,
                CLIENT_ID => &mut filter.client_id,
                IP => &mut filter.ip,
                "" => return Err(invalid("Invalid empty entity type.")),
                _ => {
                    let message = format!("Unsupported entity type {kind}");
                    return Err(Refusal::new(ErrorCode::UNSUPPORTED_VERSION, message));
                }
            };
            if part.replace(wanted(component)?).is_some() {
                return Err(invalid(format!("Entity type {kind} cannot appear more than once in the filter.")));
            }
        }
        if filter.ip.is_some() && (filter.user.is_some() || filter.client_id.is_some()) {
            return Err(invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or \
                 clientId filter component.",
            ));
        }
        Ok(filter)
    }

    fn lets_through(&self, entity: &QuotaEntity) -> bool {
        let parts = [(&self.user, entity.user()), (&self.client_id, entity.client_id()), (&self.ip, entity.ip())];
        parts.into_iter().all(|(wanted, name)| match (wanted, name) {
            (None, Some(_)) => !self.is_strict,
            (Some(Wanted::Exactly(wanted)), name) => name == Some(wanted),
            (Some(Wanted::Any), name) => name.is_some(),
            (None, None) => true,
        })
    }
}

fn wanted(component: &ComponentData) -> Result<Wanted, Refusal> {
    let name = component.match_name.as_deref();
    let with_name = |kind: &str| Err(invalid(format!("Request specified {kind}, but also specified a match string.")));
    match (component.match_type, name) {
        (MATCH_EXACT, None) => Err(invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")),
        // No entity has an address that is none.
        (MATCH_EXACT, name) if component.entity_type == IP => {
            Ok(Wanted::Exactly(EntityName::of_ip(name).unwrap_or_else(|_| EntityName::new(name))))
        }
        (MATCH_EXACT, name) => Ok(Wanted::Exactly(EntityName::new(name))),
        (MATCH_DEFAULT, None) => Ok(Wanted::Exactly(EntityName::Default)),
        (MATCH_DEFAULT, Some(_)) => with_name("MATCH_TYPE_DEFAULT"),
        (MATCH_ANY, None) => Ok(Wanted::Any),
        (MATCH_ANY, Some(_)) => with_name("MATCH_TYPE_SPECIFIED"),
        (unknown, _) => Err(invalid(format!("Unknown match type {unknown}"))),
    }
}

/// The entities that a filter lets through, with all of their quotas.
pub fn describe(image: &MetadataImage, request: &DescribeClientQuotasRequest) -> Result<Vec<EntryData>, Refusal> {
    let filter = Filter::new(request)?;
    let part = |(kind, name): (&'static str, Option<&str>)| EntityData {
        entity_type: kind.to_owned(),
        entity_name: name.map(str::to_owned),
    };
    let found = image.quotas().iter().filter(|(entity, _)| filter.lets_through(entity));
    let described = found.map(|(entity, quotas)| EntryData {
        entity: entity.parts().map(part).collect(),
        values: quotas.iter().map(|(key, value)| ValueData { key: key.name().to_owned(), value: *value }).collect(),
    });
    Ok(described.collect())
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::INVALID_REQUEST, message)
}

#[cfg(test)]
mod tests {
    use wire::api::alter_client_quotas;

    use super::super::tests::{applied, on};
    use super::*;

    type Parts<'a> = &'a [(&'a str, Option<&'a str>)];

    fn entry(parts: Parts<'_>, quotas: &[(&str, Option<f64>)]) -> AlterationEntry {
        let part = |(kind, name): &(&str, Option<&str>)| alter_client_quotas::EntityData {
            entity_type: (*kind).to_owned(),
            entity_name: name.map(str::to_owned),
        };
        let op = |(key, value): &(&str, Option<f64>)| OpData {
            key: (*key).to_owned(),
            value: value.unwrap_or_default(),
            remove: value.is_none(),
        };
        AlterationEntry { entity: parts.iter().map(part).collect(), ops: quotas.iter().map(op).collect() }
    }

    /// Alters, and says the code and the message of each entity.
    fn ask(image: &mut MetadataImage, entries: &[AlterationEntry]) -> Vec<(i16, String)> {
        let decision = on(image, |context| alter(context, entries, false));
        *image = applied(image, &decision.records);
        let told = decision.answer.into_iter();
        told.map(|told| (told.error_code.0, told.error_message.unwrap_or_default())).collect()
    }

    const OK: (i16, String) = (0, String::new());

    #[test]
    fn quotas_are_set_and_removed_and_what_is_the_same_is_not_written() {
        let mut image = MetadataImage::default();
        let user: Parts<'_> = &[("user", Some("u"))];
        let of_user = |image: &MetadataImage| {
            let quotas = image.quotas().get(&QuotaEntity::new(user.iter().copied()).unwrap());
            quotas.map(|quotas| quotas.iter().map(|(key, value)| (key.name(), *value)).collect::<Vec<_>>())
        };
        let both = entry(user, &[("producer_byte_rate", Some(10_001.0)), ("consumer_byte_rate", Some(20_000.0))]);
        for (entry, records, after) in [
            (entry(user, &[("producer_byte_rate", Some(10_000.0))]), 1, Some(vec![("producer_byte_rate", 10_000.0)])),
            (both.clone(), 2, Some(vec![("producer_byte_rate", 10_001.0), ("consumer_byte_rate", 20_000.0)])),
            (both, 0, Some(vec![("producer_byte_rate", 10_001.0), ("consumer_byte_rate", 20_000.0)])),
            (entry(user, &[("producer_byte_rate", None)]), 1, Some(vec![("consumer_byte_rate", 20_000.0)])),
            (entry(user, &[("request_percentage", None)]), 0, Some(vec![("consumer_byte_rate", 20_000.0)])),
            (entry(user, &[("no.such.key", None)]), 0, Some(vec![("consumer_byte_rate", 20_000.0)])),
            (entry(user, &[("consumer_byte_rate", None)]), 1, None),
            (entry(user, &[("consumer_byte_rate", None)]), 0, None),
            (entry(user, &[]), 0, None),
        ] {
            let decision = on(&image, |context| alter(context, std::slice::from_ref(&entry), true));
            assert_eq!(decision.records, [], "validated only");
            let decision = on(&image, |context| alter(context, std::slice::from_ref(&entry), false));
            assert_eq!((decision.records.len(), decision.answer[0].error_code), (records, ErrorCode::NONE));
            assert_eq!(decision.answer[0].entity, entry.entity);
            image = applied(&image, &decision.records);
            assert_eq!(of_user(&image), after);
        }
    }

    #[test]
    fn entities_have_the_quotas_of_their_type() {
        let clients = [
            "producer_byte_rate",
            "consumer_byte_rate",
            "request_percentage",
            "controller_mutation_rate",
            "producer_ids_rate",
        ]
        .as_slice();
        let addresses = ["connection_creation_rate"].as_slice();
        for (parts, keys) in [
            (&[("user", Some("a"))][..], clients),
            (&[("client-id", None)], clients),
            (&[("client-id", Some("a")), ("user", None)], clients),
            (&[("ip", Some("127.0.0.1"))], addresses),
            (&[("ip", None)], addresses),
        ] {
            for key in clients.iter().chain(addresses) {
                let told = ask(&mut MetadataImage::default(), &[entry(parts, &[(*key, Some(5.0))])]).remove(0);
                let unknown = (42, format!("Invalid configuration key {key}"));
                assert_eq!(told, if keys.contains(key) { OK } else { unknown }, "{parts:?}");
            }
        }
    }

    #[test]
    fn refusals_by_table() {
        let user: Parts<'_> = &[("user", Some("u"))];
        let ip: Parts<'_> = &[("ip", Some("1.2.3.4"))];
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let rate = |value: f64| [("producer_byte_rate", Some(value))];
        let twice = [("producer_byte_rate", Some(1.0)), ("producer_byte_rate", None)];
        let mut image = MetadataImage::default();
        for (parts, quotas, message) in [
            (&[][..], &rate(1.0)[..], "Invalid empty client quota entity"),
            (&[("user", Some(""))], &rate(1.0), "Empty user not supported"),
            (&[("user", None), ("foo", Some("a"))], &rate(1.0), "Unhandled client quota entity type: foo"),
            (&[("user", Some(long.as_str()))], &rate(1.0), "The name of an entity has at most 1024 bytes"),
            (&[("ip", Some("example.invalid"))], &[], "example.invalid is not a valid IP or resolvable host."),
            (user, &[("not.a.key", Some(0.0))], "Invalid configuration key not.a.key"),
            (user, &[("request_percentage", Some(99.9)), ("", Some(1.0))], "Invalid configuration key "),
            (user, &rate(0.0), "Quota producer_byte_rate must be greater than 0"),
            (user, &rate(-1.0), "Quota producer_byte_rate must be greater than 0"),
            (user, &rate(f64::NAN), "Quota producer_byte_rate must be greater than 0"),
            (user, &rate(1.5), "producer_byte_rate cannot be a fractional value."),
            (user, &rate(1e19), "Proposed value for producer_byte_rate is too large for a LONG."),
            (user, &rate(f64::INFINITY), "Proposed value for producer_byte_rate is too large for a LONG."),
            (
                user,
                &[("request_percentage", Some(f64::INFINITY))],
                "Proposed value for request_percentage is too large for a DOUBLE.",
            ),
            (ip, &[("connection_creation_rate", Some(0.5))], "connection_creation_rate cannot be a fractional value."),
            (
                ip,
                &[("connection_creation_rate", Some(2_147_483_648.0))],
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
            (
                user,
                &twice,
                "Duplicate quota key producer_byte_rate not updating quota for this entity \
                 ClientQuotaEntity(entries={user=u})",
            ),
        ] {
            assert_eq!(ask(&mut image, &[entry(parts, quotas)]), [(42, message.to_owned())]);
        }
        assert_eq!(image.quotas().entity_count(), 0);
        let most = [("request_percentage", Some(0.01)), ("producer_byte_rate", Some(9e18))];
        assert_eq!(ask(&mut image, &[entry(user, &most)]), [OK]);
    }

    #[test]
    fn an_entity_that_is_there_twice_is_refused_and_touches_no_other() {
        let mut image = MetadataImage::default();
        let quotas = [("connection_creation_rate", Some(5.0))];
        let rate = [("producer_byte_rate", Some(5.0))];
        let entries = [
            entry(&[("ip", Some("::1"))], &quotas),
            entry(&[("user", Some("u"))], &rate),
            entry(&[("ip", Some("0:0:0:0:0:0:0:1"))], &quotas),
            entry(&[("user", Some("v"))], &[("foo", Some(5.0))]),
        ];
        let told = ask(&mut image, &entries);
        assert_eq!(told.iter().map(|(code, _)| *code).collect::<Vec<_>>(), [42, 0, 42]);
        assert_eq!(told[0].1, "Ignoring duplicate entity ClientQuotaEntity(entries={ip=::1})");
        let entities: Vec<_> = image.quotas().iter().map(|(entity, _)| entity.to_string()).collect();
        assert_eq!(entities, ["ClientQuotaEntity(entries={user=u})"]);
    }

    #[test]
    fn entities_and_changes_at_once_are_bounded() {
        let mut image = MetadataImage::default();
        let one = |n: usize| entry(&[("user", Some(&format!("u{n}")))], &[("request_percentage", Some(5.0))]);
        let refused = |told: &[(i16, String)]| told.iter().filter(|(code, _)| *code == 44).count();
        let many = |first: usize, count: usize| (first..first + count).map(one).collect::<Vec<_>>();
        assert_eq!(refused(&ask(&mut image, &many(0, RECORDS_MAX + 3))), 3);
        assert_eq!(refused(&ask(&mut image, &many(RECORDS_MAX, RECORDS_MAX))), 0);
        let left = ENTITIES_MAX - 2 * RECORDS_MAX;
        let more = [
            many(2 * RECORDS_MAX, left + 2),
            vec![entry(&[("user", Some("u7"))], &[("producer_byte_rate", Some(1.0))])],
        ];
        let told = ask(&mut image, &more.concat());
        assert_eq!((refused(&told), told.last()), (2, Some(&OK)), "what there is may have more quotas");
        ask(&mut image, &[entry(&[("user", Some("u8"))], &[("request_percentage", None)])]);
        assert_eq!(ask(&mut image, &[one(ENTITIES_MAX)]), [OK], "a place is free again");
    }

    fn described(
        image: &MetadataImage,
        components: &[(&str, i8, Option<&str>)],
        strict: bool,
    ) -> Result<Vec<String>, (i16, String)> {
        let component = |(kind, match_type, name): &(&str, i8, Option<&str>)| ComponentData {
            entity_type: (*kind).to_owned(),
            match_type: *match_type,
            match_name: name.map(str::to_owned),
        };
        let request = DescribeClientQuotasRequest { components: components.iter().map(component).collect(), strict };
        let shown = |entry: EntryData| {
            let parts = entry.entity.iter().map(|part| (part.entity_type.as_str(), part.entity_name.as_deref()));
            let entity = QuotaEntity::new(parts).unwrap().to_string();
            let values = entry.values.iter().map(|value| format!(" {}={}", value.key, value.value));
            let entity = entity.trim_start_matches("ClientQuotaEntity(entries={").trim_end_matches("})");
            format!("{entity}:{}", values.collect::<String>())
        };
        match describe(image, &request) {
            Ok(entries) => Ok(entries.into_iter().map(shown).collect()),
            Err(refusal) => Err((refusal.code.0, refusal.message.unwrap_or_default())),
        }
    }

    #[test]
    fn filters_let_through_what_they_name() {
        let mut image = MetadataImage::default();
        let quotas = [("producer_byte_rate", Some(5.0))];
        let entities: [Parts<'_>; 7] = [
            &[("user", Some("u"))],
            &[("user", None)],
            &[("user", Some("u")), ("client-id", Some("c"))],
            &[("user", Some("u")), ("client-id", None)],
            &[("user", None), ("client-id", Some("c"))],
            &[("client-id", Some("c"))],
            &[("client-id", None)],
        ];
        ask(&mut image, &entities.map(|parts| entry(parts, &quotas)));
        ask(&mut image, &[entry(&[("ip", Some("2001:DB8::1"))], &[("connection_creation_rate", Some(7.0))])]);
        let found = |components: &[(&str, i8, Option<&str>)], strict: bool| {
            let all = described(&image, components, strict).unwrap();
            all.iter().map(|one| one.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(found(&[], false).len(), 8);
        for (components, strict, expected) in [
            (&[][..], true, &[][..]),
            (&[("user", 0, Some("u"))], true, &["user=u"]),
            (&[("user", 0, Some("u"))], false, &["user=u", "user=u, client-id=null", "user=u, client-id=c"]),
            (&[("user", 1, None)], false, &["user=null", "user=null, client-id=c"]),
            (&[("user", 2, None)], true, &["user=null", "user=u"]),
            (
                &[("user", 2, None), ("client-id", 0, Some("c"))],
                true,
                &["user=null, client-id=c", "user=u, client-id=c"],
            ),
            (&[("client-id", 1, None), ("user", 0, Some("u"))], true, &["user=u, client-id=null"]),
            (&[("client-id", 2, None)], true, &["client-id=null", "client-id=c"]),
            (&[("user", 0, Some("v"))], false, &[]),
            (&[("user", 0, Some(""))], false, &[]),
            (&[("ip", 1, None)], false, &[]),
            (&[("ip", 0, Some("nowhere"))], false, &[]),
        ] {
            assert_eq!(found(components, strict), expected, "{components:?} {strict}");
        }
        let address = described(&image, &[("ip", 0, Some("2001:db8:0::1"))], true);
        assert_eq!(address, Ok(vec!["ip=2001:db8::1: connection_creation_rate=7".to_owned()]));
    }

    #[test]
    fn filters_that_are_none() {
        let combination = "Invalid entity filter component combination. IP filter component should not be used with user \
                           or clientId filter component.";
        for (components, code, message) in [
            (&[("", 0, Some("a"))][..], 42, "Invalid empty entity type."),
            (&[("foo", 0, Some("a"))], 35, "Unsupported entity type foo"),
            (
                &[("user", 2, None), ("user", 1, None)],
                42,
                "Entity type user cannot appear more than once in the filter.",
            ),
            (&[("user", 0, None)], 42, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
            (&[("ip", 1, Some(""))], 42, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
            (
                &[("user", 2, Some("a"))],
                42,
                "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
            ),
            (&[("user", 3, None)], 42, "Unknown match type 3"),
            (&[("ip", 2, None), ("user", 2, None)], 42, combination),
            (&[("client-id", 1, None), ("ip", 1, None)], 42, combination),
        ] {
            let told = described(&MetadataImage::default(), components, false);
            assert_eq!(told, Err((code, message.to_owned())));
        }
    }
}
