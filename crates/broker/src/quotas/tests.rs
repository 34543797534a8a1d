//! Quotas on a clock of the test.

use metadata::{EntityName, QuotaEntity};
use wire::state::metadata::{ClientQuotaRecord, EntityData, MetadataRecord};

use super::*;
use QuotaKey::{ConsumerByteRate, ControllerMutationRate, ProducerByteRate, ProducerIdsRate, RequestPercentage};

const ALICE: ClientName<'_> = ClientName { user: "alice", client_id: "a" };

/// The quotas of a test, and the image that has them.
struct Ground {
    quotas: Quotas,
    image: MetadataImage,
}

impl Ground {
    fn new() -> Self {
        let config = BrokerConfig::new([].into()).expect("the defaults are good");
        Self { quotas: Quotas::new(&config), image: MetadataImage::default() }
    }

    /// Sets a quota, or removes it.
    fn set(&mut self, entity: &QuotaEntity, key: QuotaKey, value: Option<f64>) {
        let part = |(kind, name): (&str, Option<&str>)| EntityData {
            entity_type: kind.to_owned(),
            entity_name: name.map(str::to_owned),
        };
        let record = ClientQuotaRecord {
            entity: entity.parts().map(part).collect(),
            key: key.name().to_owned(),
            value: value.unwrap_or(0.0),
            remove: value.is_none(),
        };
        self.image = self.image.apply(&[MetadataRecord::from(record)], self.image.offset() + 1, 1).unwrap().0;
    }

    fn record(&self, key: QuotaKey, client: ClientName<'_>, amount: f64, now_ms: i64) -> Option<i32> {
        self.quotas.of_client(&self.image, key, client, now_ms).map(|limit| limit.record(amount, now_ms))
    }

    fn try_record(&self, key: QuotaKey, amount: f64, now_ms: i64) -> Result<i32, i32> {
        let limit = self.quotas.of_client(&self.image, key, ALICE, now_ms).expect("there is a quota");
        limit.try_record(amount, now_ms)
    }
}

fn named(name: &str) -> EntityName {
    EntityName::new(Some(name))
}

fn user() -> QuotaEntity {
    QuotaEntity::User(named("alice"))
}

/// What connections get through in a minute that send requests of one size at so many times the quota, and wait as they
/// are told.
fn used_in_a_minute(quota: f64, size: f64, overload: f64, connections: usize) -> f64 {
    let mut ground = Ground::new();
    ground.set(&user(), ProducerByteRate, Some(quota));
    let period_ms = size * connections as f64 / (quota * overload) * 1000.0;
    let mut next_ms: Vec<f64> = (0..connections).map(|i| i as f64 * period_ms / connections as f64).collect();
    let mut used = 0.0;
    loop {
        let next = next_ms.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there are connections");
        if *next >= 60_000.0 {
            return used;
        }
        used += size;
        let throttle_time_ms = ground.record(ProducerByteRate, ALICE, size, *next as i64).expect("there is a quota");
        *next += period_ms.max(throttle_time_ms.into());
    }
}

#[test]
fn a_client_that_sends_too_much_gets_its_quota_and_no_more() {
    for (size, overload, connections) in
        [(1e4, 1.2, 1), (1e4, 2.0, 3), (1e4, 5.0, 1), (1e5, 1.2, 3), (1e5, 2.0, 1), (1e5, 5.0, 3)]
    {
        let used = used_in_a_minute(1e6, size, overload, connections);
        assert!((used / 60e6 - 1.0).abs() < 0.05, "{size} {overload} {connections}: {used}");
    }
    let used = used_in_a_minute(1e6, 1e4, 0.5, 1);
    assert!((used / 30e6 - 1.0).abs() < 0.01, "who sends less is not throttled: {used}");
}

#[test]
fn each_user_and_client_has_a_bucket_of_its_own_as_far_as_the_quota_says() {
    let [a, b] = ["a", "b"].map(|client_id| ClientName { client_id, ..ALICE });
    let bob = ClientName { user: "bob", ..a };
    let default = EntityName::Default;
    let (both, client, any_client) = (
        QuotaEntity::UserAndClient(default.clone(), default.clone()),
        QuotaEntity::Client(named("a")),
        QuotaEntity::Client(default.clone()),
    );
    // Who is throttled beside alice with client id a when they use up a quota of that entity: alice with b, bob with a.
    for (entity, expected) in [
        (user(), [true, false]),
        (QuotaEntity::User(default), [true, false]),
        (both, [false, false]),
        (client, [false, true]),
        (any_client, [false, true]),
    ] {
        let mut ground = Ground::new();
        ground.set(&entity, ProducerByteRate, Some(1000.0));
        assert_eq!(ground.record(ProducerByteRate, a, 20_000.0, 0), Some(10_000), "{entity}");
        let throttled = [b, bob].map(|other| ground.record(ProducerByteRate, other, 1.0, 0).unwrap_or(0) > 0);
        assert_eq!(throttled, expected, "{entity}");
    }
}

#[test]
fn the_first_entity_in_order_counts_and_its_bucket() {
    let mut ground = Ground::new();
    ground.set(&user(), ProducerByteRate, Some(1000.0));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 20_000.0, 0), Some(10_000));
    ground.set(&QuotaEntity::UserAndClient(named("alice"), named("a")), ProducerByteRate, Some(1e6));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 20_000.0, 0), Some(0));
    let other = ClientName { client_id: "b", ..ALICE };
    assert_eq!(ground.record(ProducerByteRate, other, 0.0, 0), Some(10_000));
}

#[test]
fn a_quota_that_changes_counts_at_once() {
    let mut ground = Ground::new();
    assert!(!Quotas::are_any(&ground.image));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 1e9, 0), None);
    ground.set(&user(), ProducerByteRate, Some(1000.0));
    assert!(Quotas::are_any(&ground.image));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 20_000.0, 0), Some(10_000));
    ground.set(&user(), ProducerByteRate, Some(10_000.0));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 0.0, 0), Some(0));
    ground.set(&user(), ProducerByteRate, None);
    assert_eq!(ground.record(ProducerByteRate, ALICE, 1e9, 0), None);
    assert!(!Quotas::are_any(&ground.image));
}

#[test]
fn a_throttle_has_an_end() {
    let mut ground = Ground::new();
    for (key, max_ms) in [
        (ProducerByteRate, 30_000),
        (RequestPercentage, 1000),
        (ControllerMutationRate, 30_000),
        (ProducerIdsRate, 30_000),
    ] {
        ground.set(&user(), key, Some(1.0));
        assert_eq!(ground.record(key, ALICE, 1e18, 0), Some(max_ms), "{}", key.name());
    }
    let told: Vec<_> = ground.quotas.throttled().map(|(_, told)| (told.requests.get(), told.ms.get())).collect();
    assert_eq!(told, [(1, 30_000), (0, 0), (1, 1000), (1, 30_000), (1, 30_000), (0, 0)]);
}

#[test]
fn who_was_throttled_is_told_who_last_was_first() {
    let mut ground = Ground::new();
    let told = |ground: &Ground, now_ms| {
        let clients = ground.quotas.throttled_clients(now_ms).into_iter().map(|(of, throttles)| {
            let Throttles { requests, ms, last_ms } = throttles;
            (of.key, of.user.as_deref() == Some("alice"), of.client_id, (requests, ms, last_ms))
        });
        clients.collect::<Vec<_>>()
    };
    let both = QuotaEntity::UserAndClient(EntityName::Default, EntityName::Default);
    ground.set(&both, ProducerByteRate, Some(1000.0));
    ground.set(&user(), RequestPercentage, Some(1.0));
    ground.set(&QuotaEntity::Ip(EntityName::Default), QuotaKey::ConnectionCreationRate, Some(1.0));
    assert_eq!(ground.record(ProducerByteRate, ClientName { client_id: "b", ..ALICE }, 1.0, 0), Some(0));
    assert_eq!(told(&ground, 0), [], "who is not throttled is not told");
    assert_eq!(ground.record(ProducerByteRate, ALICE, 20_000.0, 0), Some(10_000));
    assert_eq!(ground.record(RequestPercentage, ALICE, 1e9, 5), Some(1000));
    assert_eq!(ground.record(ProducerByteRate, ALICE, 0.0, 10), Some(9_990));
    let address = ground.quotas.of_address(&ground.image, [1, 2, 3, 4].into(), 7).unwrap();
    assert_eq!(address.record(1e9, 7), 1000);
    let expected = [
        (ProducerByteRate, true, Some("a".into()), (2, 19_990, 10)),
        (QuotaKey::ConnectionCreationRate, false, Some("1.2.3.4".into()), (1, 1000, 7)),
        (RequestPercentage, true, None, (1, 1000, 5)),
    ];
    assert_eq!(told(&ground, 10), expected);
    assert_eq!(told(&ground, 3_700_000), [], "who has sent nothing for an hour is not told");
    for client in 0..=THROTTLED_CLIENTS_MAX {
        let client_id = client.to_string();
        ground.record(ProducerByteRate, ClientName { client_id: &client_id, ..ALICE }, 20_000.0, client as i64);
    }
    let told = told(&ground, 1000);
    assert_eq!((told.len(), told[0].2.as_deref()), (THROTTLED_CLIENTS_MAX, Some("100")));
    assert!(told.iter().all(|(.., client_id, _)| client_id.as_deref() != Some("0")), "it was throttled first");
}

#[test]
fn a_percentage_is_of_the_time_of_one_thread() {
    let mut ground = Ground::new();
    ground.set(&user(), RequestPercentage, Some(50.0));
    // Less than half a second of each second, and more.
    let throttled: Vec<_> =
        (0..30).map(|second| ground.record(RequestPercentage, ALICE, 45.0, second * 1000).unwrap()).collect();
    assert!(throttled.iter().all(|ms| *ms == 0), "{throttled:?}");
    let wait_ms = (30..60).map(|second| ground.record(RequestPercentage, ALICE, 60.0, second * 1000).unwrap()).max();
    assert_eq!(wait_ms, Some(1000), "a window at most");
}

#[test]
fn what_would_be_too_much_is_not_counted() {
    let mut ground = Ground::new();
    ground.set(&user(), ConsumerByteRate, Some(1000.0));
    let limit = ground.quotas.of_client(&ground.image, ConsumerByteRate, ALICE, 0).unwrap();
    assert_eq!(limit.amount_max(), 10_000.0);
    assert_eq!(ground.try_record(ConsumerByteRate, 10_000.0, 0), Ok(0));
    assert_eq!(ground.try_record(ConsumerByteRate, 5000.0, 0), Err(5000));
    assert_eq!(ground.try_record(ConsumerByteRate, 5000.0, 12_000), Ok(0));
}

#[test]
fn an_address_connects_at_its_rate() {
    let mut ground = Ground::new();
    let ip: IpAddr = "::ffff:1.2.3.4".parse().unwrap();
    assert!(ground.quotas.of_address(&ground.image, ip, 0).is_none());
    let entity = QuotaEntity::Ip(EntityName::from(ip));
    ground.set(&entity, QuotaKey::ConnectionCreationRate, Some(2.0));
    let connect = |ip: &str, now_ms| {
        let limit = ground.quotas.of_address(&ground.image, ip.parse().unwrap(), now_ms);
        limit.map(|limit| limit.try_record(1.0, now_ms))
    };
    for _ in 0..20 {
        assert_eq!(connect("1.2.3.4", 0), Some(Ok(0)));
    }
    assert_eq!(connect("1.2.3.4", 0), Some(Err(500)));
    assert_eq!(connect("::ffff:1.2.3.4", 0), Some(Err(500)));
    assert_eq!(connect("1.2.3.5", 0), None);
}
