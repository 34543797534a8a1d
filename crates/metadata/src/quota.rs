//! Client quotas by entity (`ClientQuotasImage`), and which of them counts for a client or an address (KIP-13, KIP-257,
//! KIP-612). Pure: what is used of a quota is counted elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use wire::state::metadata::{ClientQuotaRecord, EntityData, MetadataRecord};

use super::ordered_map::OrderedMap;

/// Kafka's names of the types of entities.
pub const USER: &str = "user";
pub const CLIENT_ID: &str = "client-id";
pub const IP: &str = "ip";

/// What is limited (`QuotaConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaKey {
    ProducerByteRate,
    ConsumerByteRate,
    /// Of the time of one thread.
    RequestPercentage,
    ControllerMutationRate,
    /// Ours, as KIP-936 has it.
    ProducerIdsRate,
    ConnectionCreationRate,
}

impl QuotaKey {
    pub const ALL: [Self; 6] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
        Self::ControllerMutationRate,
        Self::ProducerIdsRate,
        Self::ConnectionCreationRate,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
            Self::ControllerMutationRate => "controller_mutation_rate",
            Self::ProducerIdsRate => "producer_ids_rate",
            Self::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether an entity can have such a quota: connections are those of an address, all else is a client's.
    pub fn is_of(self, entity: &QuotaEntity) -> bool {
        (self == Self::ConnectionCreationRate) == matches!(entity, QuotaEntity::Ip(_))
    }
}

/// One user, client id or address, or all that have no quota of their own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityName {
    Default,
    Named(Arc<str>),
}

impl EntityName {
    /// Null stands for the default.
    pub fn new(name: Option<&str>) -> Self {
        name.map_or(Self::Default, |name| Self::Named(name.into()))
    }

    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Default => None,
            Self::Named(name) => Some(name),
        }
    }

    /// An address has one spelling.
    pub fn of_ip(name: Option<&str>) -> Result<Self, InvalidQuota> {
        let Some(name) = name else { return Ok(Self::Default) };
        let ip: IpAddr = name.parse().map_err(|_| InvalidQuota::NotAnIp(name.to_owned()))?;
        Ok(Self::from(ip))
    }
}

impl From<IpAddr> for EntityName {
    fn from(ip: IpAddr) -> Self {
        Self::Named(ip.to_canonical().to_string().into())
    }
}

/// Whose quota it is (`ClientQuotaEntity`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaEntity {
    /// A user, with whatever client id.
    User(EntityName),
    /// A client id, of whatever user.
    Client(EntityName),
    /// A client id of a user.
    UserAndClient(EntityName, EntityName),
    Ip(EntityName),
}

/// Why there is no such entity or quota, mostly in Kafka's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuota {
    #[error("Invalid empty client quota entity")]
    Empty,
    #[error("Unhandled client quota entity type: {0}")]
    UnknownType(String),
    #[error("Invalid client quota entity, duplicate entity entry {0}")]
    DuplicateType(&'static str),
    #[error("Empty {0} not supported")]
    EmptyName(&'static str),
    #[error("Invalid quota entity combination, IP entity should not be combined with User or ClientId")]
    Combination,
    /// Kafka's broker would ask a name server.
    #[error("{0} is not a valid IP or resolvable host.")]
    NotAnIp(String),
    #[error("Invalid configuration key {0}")]
    UnknownKey(String),
}

impl QuotaEntity {
    /// The entity of these types and names.
    pub fn new<'a>(parts: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<Self, InvalidQuota> {
        let (mut user, mut client, mut ip) = (None, None, None);
        for (kind, name) in parts {
            let (kind, part) = match kind {
                USER => (USER, &mut user),
                CLIENT_ID => (CLIENT_ID, &mut client),
                IP => (IP, &mut ip),
                _ => return Err(InvalidQuota::UnknownType(kind.to_owned())),
            };
            if part.replace(name).is_some() {
                return Err(InvalidQuota::DuplicateType(kind));
            }
            if name == Some("") {
                return Err(InvalidQuota::EmptyName(kind));
            }
        }
        match (user, client, ip) {
            (Some(user), None, None) => Ok(Self::User(EntityName::new(user))),
            (None, Some(client), None) => Ok(Self::Client(EntityName::new(client))),
            (Some(user), Some(client), None) => Ok(Self::UserAndClient(EntityName::new(user), EntityName::new(client))),
            (None, None, Some(ip)) => EntityName::of_ip(ip).map(Self::Ip),
            (None, None, None) => Err(InvalidQuota::Empty),
            (_, _, Some(_)) => Err(InvalidQuota::Combination),
        }
    }

    pub fn user(&self) -> Option<&EntityName> {
        match self {
            Self::User(user) | Self::UserAndClient(user, _) => Some(user),
            Self::Client(_) | Self::Ip(_) => None,
        }
    }

    pub fn client_id(&self) -> Option<&EntityName> {
        match self {
            Self::Client(client) | Self::UserAndClient(_, client) => Some(client),
            Self::User(_) | Self::Ip(_) => None,
        }
    }

    pub fn ip(&self) -> Option<&EntityName> {
        match self {
            Self::Ip(ip) => Some(ip),
            Self::User(_) | Self::Client(_) | Self::UserAndClient(..) => None,
        }
    }

    /// The types and names that [`QuotaEntity::new`] makes it of.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, Option<&str>)> {
        let parts = [(USER, self.user()), (CLIENT_ID, self.client_id()), (IP, self.ip())];
        parts.into_iter().filter_map(|(kind, name)| Some((kind, name?.name())))
    }

    /// A record that sets a quota, or removes one.
    pub(super) fn to_record(&self, key: QuotaKey, value: Option<f64>) -> ClientQuotaRecord {
        let part = |(kind, name): (&'static str, Option<&str>)| EntityData {
            entity_type: kind.to_owned(),
            entity_name: name.map(str::to_owned),
        };
        ClientQuotaRecord {
            entity: self.parts().map(part).collect(),
            key: key.name().to_owned(),
            value: value.unwrap_or(0.0),
            remove: value.is_none(),
        }
    }
}

/// As Kafka shows it.
impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().map(|(kind, name)| format!("{kind}={}", name.unwrap_or("null")));
        write!(f, "ClientQuotaEntity(entries={{{}}})", parts.collect::<Vec<_>>().join(", "))
    }
}

/// Who uses up a quota together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaShare {
    /// The connections of a user that have the same client id.
    UserAndClient,
    /// All connections of a user.
    User,
    /// All connections with a client id.
    Client,
}

/// The quota that counts for a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientQuota {
    pub value: f64,
    /// A default, too, is used up by each user or client id for itself.
    pub share: QuotaShare,
}

/// At least one.
type OfEntity = Arc<BTreeMap<QuotaKey, f64>>;

/// The quotas of all entities. Copies share what is the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientQuotas {
    by_entity: OrderedMap<QuotaEntity, OfEntity>,
}

impl ClientQuotas {
    /// What an entity has, which has at least one.
    pub fn get(&self, entity: &QuotaEntity) -> Option<&BTreeMap<QuotaKey, f64>> {
        self.by_entity.get(entity).map(|quotas| &**quotas)
    }

    /// Entities that have quotas, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<QuotaKey, f64>)> {
        self.by_entity.iter().map(|(entity, quotas)| (entity, &**quotas))
    }

    pub fn entity_count(&self) -> usize {
        self.by_entity.len()
    }

    /// The quota of a client: that of the first entity that has one of this key, in the order of
    /// `ClientQuotaManager.DefaultQuotaCallback`. The user is the name of a principal; a client without an id has an
    /// empty one.
    pub fn of_client(&self, key: QuotaKey, user: &str, client_id: &str) -> Option<ClientQuota> {
        use EntityName::Default;
        if self.by_entity.len() == 0 {
            return None;
        }
        let (user, client_id) = (EntityName::new(Some(user)), EntityName::new(Some(client_id)));
        let order = [
            QuotaEntity::UserAndClient(user.clone(), client_id.clone()),
            QuotaEntity::UserAndClient(user.clone(), Default),
            QuotaEntity::User(user),
            QuotaEntity::UserAndClient(Default, client_id.clone()),
            QuotaEntity::UserAndClient(Default, Default),
            QuotaEntity::User(Default),
            QuotaEntity::Client(client_id),
            QuotaEntity::Client(Default),
        ];
        order.iter().find_map(|entity| {
            let value = *self.get(entity)?.get(&key)?;
            let share = match entity {
                QuotaEntity::UserAndClient(..) => QuotaShare::UserAndClient,
                QuotaEntity::User(_) => QuotaShare::User,
                QuotaEntity::Client(_) | QuotaEntity::Ip(_) => QuotaShare::Client,
            };
            Some(ClientQuota { value, share })
        })
    }

    /// How many connections in a second an address may make.
    pub fn connection_creation_rate(&self, ip: IpAddr) -> Option<f64> {
        let order = [QuotaEntity::Ip(ip.into()), QuotaEntity::Ip(EntityName::Default)];
        order.iter().find_map(|entity| self.get(entity)?.get(&QuotaKey::ConnectionCreationRate).copied())
    }

    pub(super) fn apply(&mut self, record: &ClientQuotaRecord) -> Result<(), InvalidQuota> {
        let parts = record.entity.iter().map(|part| (part.entity_type.as_str(), part.entity_name.as_deref()));
        let entity = QuotaEntity::new(parts)?;
        let unknown = || InvalidQuota::UnknownKey(record.key.clone());
        let key = QuotaKey::from_name(&record.key).ok_or_else(unknown)?;
        let mut quotas = self.get(&entity).cloned().unwrap_or_default();
        if record.remove {
            quotas.remove(&key);
        } else {
            quotas.insert(key, record.value);
        }
        if quotas.is_empty() {
            self.by_entity.remove(&entity);
        } else {
            self.by_entity.insert(entity, Arc::new(quotas));
        }
        Ok(())
    }

    /// Records that make these quotas out of none.
    pub(super) fn to_records(&self) -> impl Iterator<Item = MetadataRecord> {
        self.iter()
            .flat_map(|(entity, quotas)| quotas.iter().map(|(key, value)| entity.to_record(*key, Some(*value)).into()))
    }
}

#[cfg(test)]
mod tests {
    use QuotaKey::{ConnectionCreationRate, ConsumerByteRate, ProducerByteRate};
    use QuotaShare::{Client, User, UserAndClient};
    use wire::state::metadata::NoOpRecord;

    use super::*;
    use crate::{ApplyError, MetadataImage};

    fn entity(parts: &[(&'static str, Option<&'static str>)]) -> Result<QuotaEntity, InvalidQuota> {
        QuotaEntity::new(parts.iter().copied())
    }

    fn set(quotas: &mut ClientQuotas, parts: &[(&'static str, Option<&'static str>)], key: QuotaKey, value: f64) {
        quotas.apply(&entity(parts).unwrap().to_record(key, Some(value))).unwrap();
    }

    #[test]
    fn the_first_entity_with_a_quota_of_the_key_counts() {
        let (user, client) = ((USER, Some("u")), (CLIENT_ID, Some("c")));
        let (any_user, any_client) = ((USER, None), (CLIENT_ID, None));
        let order: [(&[_], _); 8] = [
            (&[any_client], Client),
            (&[client], Client),
            (&[any_user], User),
            (&[any_user, any_client], UserAndClient),
            (&[any_user, client], UserAndClient),
            (&[user], User),
            (&[user, any_client], UserAndClient),
            (&[user, client], UserAndClient),
        ];
        let mut quotas = ClientQuotas::default();
        let found = |quotas: &ClientQuotas, user: &str, client: &str| {
            quotas.of_client(ProducerByteRate, user, client).map(|quota| (quota.value, quota.share))
        };
        assert_eq!(found(&quotas, "u", "c"), None);
        let mut of_others = Vec::new();
        for (value, (parts, share)) in (1u8..).zip(order) {
            set(&mut quotas, parts, ProducerByteRate, f64::from(value));
            assert_eq!(found(&quotas, "u", "c"), Some((f64::from(value), share)), "{parts:?}");
            of_others.push(
                [("v", "d"), ("v", ""), ("v", "c"), ("u", "d")]
                    .map(|(user, client)| found(&quotas, user, client).unwrap().0),
            );
        }
        assert_eq!(
            of_others,
            [
                [1.0, 1.0, 1.0, 1.0],
                [1.0, 1.0, 2.0, 1.0],
                [3.0, 3.0, 3.0, 3.0],
                [4.0, 4.0, 4.0, 4.0],
                [4.0, 4.0, 5.0, 4.0],
                [4.0, 4.0, 5.0, 6.0],
                [4.0, 4.0, 5.0, 7.0],
                [4.0, 4.0, 5.0, 7.0],
            ]
        );
        // What is limited in another way does not count.
        set(&mut quotas, &[any_client], ConsumerByteRate, 9.0);
        assert_eq!(quotas.of_client(ConsumerByteRate, "u", "c"), Some(ClientQuota { value: 9.0, share: Client }));
        assert_eq!(quotas.of_client(QuotaKey::RequestPercentage, "u", "c"), None);
    }

    #[test]
    fn an_address_has_its_own_rate_or_that_of_all() {
        let mut quotas = ClientQuotas::default();
        let rate = |quotas: &ClientQuotas, ip: &str| quotas.connection_creation_rate(ip.parse().unwrap());
        assert_eq!(rate(&quotas, "1.2.3.4"), None);
        set(&mut quotas, &[(IP, Some("1.2.3.4"))], ConnectionCreationRate, 5.0);
        set(&mut quotas, &[(IP, Some("2001:DB8:0::1"))], ConnectionCreationRate, 6.0);
        assert_eq!((rate(&quotas, "1.2.3.4"), rate(&quotas, "1.2.3.5")), (Some(5.0), None));
        set(&mut quotas, &[(IP, None)], ConnectionCreationRate, 7.0);
        assert_eq!((rate(&quotas, "1.2.3.5"), rate(&quotas, "::ffff:1.2.3.4")), (Some(7.0), Some(5.0)));
        assert_eq!(rate(&quotas, "2001:db8::1"), Some(6.0));
        assert_eq!(quotas.of_client(ProducerByteRate, "u", "1.2.3.4"), None);
    }

    #[test]
    fn an_entity_without_quotas_is_gone() {
        let mut quotas = ClientQuotas::default();
        let user = entity(&[(USER, Some("u"))]).unwrap();
        for (key, value) in [(ProducerByteRate, 1.0), (ConsumerByteRate, 2.0), (ProducerByteRate, 3.0)] {
            quotas.apply(&user.to_record(key, Some(value))).unwrap();
        }
        let before = quotas.clone();
        assert_eq!(quotas.get(&user), Some(&[(ProducerByteRate, 3.0), (ConsumerByteRate, 2.0)].into()));
        for (key, left) in [(ProducerByteRate, 1), (ConsumerByteRate, 0), (ConsumerByteRate, 0)] {
            quotas.apply(&user.to_record(key, None)).unwrap();
            assert_eq!(quotas.entity_count(), left);
        }
        assert_eq!(before.entity_count(), 1, "a copy does not change");
    }

    #[test]
    fn entities_by_table() {
        let (user, client, ip) = ((USER, Some("a")), (CLIENT_ID, Some("b")), (IP, Some("::1")));
        for (parts, expected) in [
            (&[][..], "Invalid empty client quota entity"),
            (&[("foo", None)], "Unhandled client quota entity type: foo"),
            (&[user, ("foo", None)], "Unhandled client quota entity type: foo"),
            (&[("", Some("a"))], "Unhandled client quota entity type: "),
            (&[user, (USER, None)], "Invalid client quota entity, duplicate entity entry user"),
            (&[client, client], "Invalid client quota entity, duplicate entity entry client-id"),
            (&[user, (CLIENT_ID, Some(""))], "Empty client-id not supported"),
            (&[ip, user], "Invalid quota entity combination, IP entity should not be combined with User or ClientId"),
            (&[client, ip], "Invalid quota entity combination, IP entity should not be combined with User or ClientId"),
            (&[(IP, Some("example.invalid"))], "example.invalid is not a valid IP or resolvable host."),
            (&[(IP, Some("1.2.3"))], "1.2.3 is not a valid IP or resolvable host."),
        ] {
            assert_eq!(entity(parts).map_err(|error| error.to_string()), Err(expected.to_owned()), "{parts:?}");
        }
        for parts in [&[user][..], &[client], &[user, client], &[(USER, None), (CLIENT_ID, None)], &[ip], &[(IP, None)]]
        {
            let entity = entity(parts).unwrap();
            assert!(entity.parts().eq(parts.iter().copied()), "{entity}");
        }
        assert_eq!(entity(&[client, user]), entity(&[user, client]));
        let shown = entity(&[(USER, None), client]).unwrap().to_string();
        assert_eq!(shown, "ClientQuotaEntity(entries={user=null, client-id=b})");
    }

    #[test]
    fn they_are_in_the_image_the_delta_and_the_snapshot() {
        let apply = |image: &MetadataImage, records: &[MetadataRecord]| image.apply(records, image.offset() + 1, 1);
        let (user, any) = (entity(&[(USER, Some("u"))]).unwrap(), entity(&[(USER, None), (CLIENT_ID, None)]).unwrap());
        let records = [
            user.to_record(ProducerByteRate, Some(5.0)).into(),
            user.to_record(ConsumerByteRate, Some(6.0)).into(),
            any.to_record(QuotaKey::RequestPercentage, Some(50.5)).into(),
        ];
        let (image, delta) = apply(&MetadataImage::default(), &records).unwrap();
        assert!(delta.quotas_changed && !delta.scram_changed);
        let (less, delta) = apply(&image, &[user.to_record(ConsumerByteRate, None).into()]).unwrap();
        assert!(delta.quotas_changed);
        assert!(!apply(&less, &[NoOpRecord {}.into()]).unwrap().1.quotas_changed);
        for (before, quotas_changed) in [(&image, false), (&less, true)] {
            let (mut again, mut delta) = apply(&MetadataImage::default(), &image.to_records()).unwrap();
            assert_eq!(again.quotas(), image.quotas());
            again.continue_after(before, &mut delta);
            assert_eq!(delta.quotas_changed, quotas_changed);
        }
    }

    #[test]
    fn records_that_do_not_fit_are_errors() {
        let record = entity(&[(USER, None)]).unwrap().to_record(ProducerByteRate, Some(1.0));
        let unknown_key = ClientQuotaRecord { key: "foo".to_owned(), ..record.clone() };
        for (record, error) in [
            (unknown_key, InvalidQuota::UnknownKey("foo".to_owned())),
            (ClientQuotaRecord { entity: Vec::new(), ..record }, InvalidQuota::Empty),
        ] {
            let applied = MetadataImage::default().apply(&[record.into()], 0, 1);
            assert_eq!(applied, Err(ApplyError::Quota(error)));
        }
    }
}
