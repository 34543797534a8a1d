//! What each record makes of an image.

use wire::state::metadata::{
    ClearElrRecord, NoOpRecord, RemoveAccessControlEntryRecord, RemoveTopicRecord, UnregisterBrokerRecord,
};

use super::*;
use crate::acl::{AclOperation, PatternType, PermissionType, ResourceType, tests::record as acl_record};

const A: Uuid = Uuid([1; 16]);
const B: Uuid = Uuid([2; 16]);

fn topic(name: &str, id: Uuid) -> MetadataRecord {
    TopicRecord { name: name.to_owned(), topic_id: id }.into()
}

fn partition(id: Uuid, index: i32) -> MetadataRecord {
    PartitionRecord {
        partition_id: index,
        topic_id: id,
        replicas: vec![1],
        isr: vec![1],
        leader: 1,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: vec![Uuid([9; 16])],
        ..PartitionRecord::default()
    }
    .into()
}

fn setting(resource: &ConfigResource, name: &str, value: Option<&str>) -> MetadataRecord {
    resource.to_record(name, value.map(str::to_owned).as_ref()).into()
}

fn image(records: &[MetadataRecord]) -> MetadataImage {
    MetadataImage::default().apply(records, 10, 1).unwrap().0
}

#[test]
fn topics_come_grow_and_go() {
    let first = image(&[topic("a.b", A), partition(A, 0), partition(A, 1)]);
    assert_eq!((first.generation(), first.offset(), first.epoch(), first.partition_count()), (1, 10, 1, 2));
    assert_eq!(first.topic("a.b").unwrap().partitions.len(), 2);
    assert_eq!(first.colliding(&TopicName::new("a_b").unwrap()).map(|name| &**name), Some("a.b"));

    let (second, delta) = first.apply(&[partition(A, 2)], 11, 1).unwrap();
    assert_eq!((delta.changed.len(), delta.created.len(), delta.changed[0].added()), (1, 0, 2..3));
    assert_eq!((first.partition_count(), second.partition_count()), (2, 3));

    let records = [RemoveTopicRecord { topic_id: A }.into(), topic("a.b", B), partition(B, 0)];
    let (third, delta) = second.apply(&records, 14, 2).unwrap();
    assert_eq!((delta.deleted[0].id, delta.created[0].id, delta.changed.len()), (A, B, 0));
    assert_eq!((third.topic("a.b").unwrap().id, third.topic_by_id(A), third.partition_count()), (B, None, 1));
    assert_eq!(second.topic("a.b").unwrap().id, A, "an image does not change");

    let records = [topic("c", A), partition(A, 0), RemoveTopicRecord { topic_id: A }.into()];
    let (fourth, delta) = third.apply(&records, 17, 2).unwrap();
    assert!(delta.is_empty());
    assert_eq!((fourth.partition_count(), fourth.topic_count()), (1, 1));

    let (fifth, _) = fourth.apply(&[RemoveTopicRecord { topic_id: B }.into()], 18, 2).unwrap();
    assert_eq!(fifth.colliding(&TopicName::new("a_b").unwrap()), None);

    let again = [RemoveTopicRecord { topic_id: A }.into(), topic("a.b", A), partition(A, 0)];
    let (same_id, _) = second.apply(&again, 14, 2).unwrap();
    let replicas = |image: &MetadataImage| image.replica_counts.by_broker().get(&1).copied();
    let counts = [&first, &second, &third, &fourth, &fifth, &same_id].map(replicas);
    assert_eq!(counts, [Some(2), Some(3), Some(1), Some(1), None, Some(1)]);
}

#[test]
fn a_word_on_the_leader_is_a_new_epoch() {
    let before = image(&[topic("a", A), partition(A, 0)]);
    let change = |record: PartitionChangeRecord| {
        let record = PartitionChangeRecord { partition_id: 0, topic_id: A, ..record };
        let (after, delta) = before.apply(&[record.into()], 11, 1).unwrap();
        assert_eq!(delta.changed.len(), 1);
        let partition = after.partition("a", 0).unwrap();
        (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr.clone())
    };
    let default = PartitionChangeRecord::default;
    assert_eq!(change(PartitionChangeRecord { leader: 1, ..default() }), (1, 1, 1, vec![1]));
    assert_eq!(change(PartitionChangeRecord { leader: -1, ..default() }), (-1, 1, 1, vec![1]));
    assert_eq!(change(PartitionChangeRecord { isr: Some(vec![1, 2]), ..default() }), (1, 0, 1, vec![1, 2]));
}

#[test]
fn nobody_is_eligible_any_more() {
    let eligible = |id: Uuid| PartitionRecord {
        topic_id: id,
        partition_id: 0,
        eligible_leader_replicas: Some(vec![2]),
        last_known_elr: Some(vec![3]),
        ..PartitionRecord::default()
    };
    let before = image(&[topic("a", A), eligible(A).into(), topic("b", B), eligible(B).into(), partition(B, 1)]);
    let clear = |name: &str| ClearElrRecord { topic_name: name.to_owned() }.into();
    for (name, changed) in [("a", &["a"][..]), ("", &["a", "b"])] {
        let (after, delta) = before.apply(&[clear(name)], 11, 1).unwrap();
        assert_eq!(delta.changed.iter().map(|change| &*change.after.name).collect::<Vec<_>>(), changed);
        let partition = after.partition("a", 0).unwrap();
        assert_eq!((partition.eligible_leader_replicas.len(), partition.last_known_elr.len()), (0, 0));
        let [was, other] = [&before, &after].map(|image| image.partition("b", 1).unwrap().partition_epoch);
        assert_eq!(was, other);
    }
    let (after, _) = before.apply(&[clear("")], 11, 1).unwrap();
    assert!(after.apply(&[clear("")], 12, 1).unwrap().1.is_empty());
    let unknown = ApplyError::UnknownTopicName("u".into());
    assert_eq!(before.apply(&[clear("u")], 11, 1).unwrap_err(), unknown);
}

#[test]
fn settings_follow_their_topic() {
    let resource = ConfigResource::topic("a");
    let (first, delta) = MetadataImage::default()
        .apply(&[topic("a", A), setting(&resource, "retention.ms", Some("1")), partition(A, 0)], 2, 1)
        .unwrap();
    assert!(delta.configs.is_empty());
    assert_eq!(first.topic_config("a").get("retention.ms").map(String::as_str), Some("1"));
    let (second, delta) = first.apply(&[setting(&resource, "retention.ms", Some("2"))], 3, 1).unwrap();
    assert_eq!(delta.configs.into_iter().collect::<Vec<_>>(), std::slice::from_ref(&resource));
    let (third, _) = second.apply(&[setting(&resource, "retention.ms", None)], 4, 1).unwrap();
    assert_eq!((third.topic_config("a").len(), third.configs().count()), (0, 0));
    let (fourth, delta) = second.apply(&[RemoveTopicRecord { topic_id: A }.into()], 4, 1).unwrap();
    assert_eq!((fourth.configs().count(), delta.configs.len(), delta.deleted.len()), (0, 0, 1));
}

#[test]
fn brokers_features_and_producer_ids() {
    let register = RegisterBrokerRecord { broker_id: 1, broker_epoch: 5, ..RegisterBrokerRecord::default() };
    let first = image(&[
        register.into(),
        FeatureLevelRecord { name: "metadata.version".into(), feature_level: 30 }.into(),
        ProducerIdsRecord { next_producer_id: 1000, ..ProducerIdsRecord::default() }.into(),
        NoOpRecord {}.into(),
    ]);
    assert!(!first.broker(1).unwrap().is_active());
    assert_eq!((first.features()["metadata.version"], first.next_producer_id()), (30, 1000));
    let unfence = BrokerRegistrationChangeRecord { broker_id: 1, fenced: -1, ..Default::default() };
    let (second, delta) = first.apply(&[unfence.into()], 11, 1).unwrap();
    assert!(second.broker(1).unwrap().is_active() && delta.brokers_changed);
    let unregister = UnregisterBrokerRecord { broker_id: 1, broker_epoch: 5 };
    let off = FeatureLevelRecord { name: "metadata.version".into(), feature_level: 0 };
    let (third, delta) = second.apply(&[unregister.into(), off.into()], 12, 1).unwrap();
    assert_eq!((third.brokers().count(), third.features().len(), delta.features_changed), (0, 0, true));
}

fn acl(id: Uuid, name: &str) -> AccessControlEntryRecord {
    let (of, literal) = (ResourceType::Topic, PatternType::Literal);
    let record = acl_record(of, literal, name, "User:a", AclOperation::Read, PermissionType::Allow);
    AccessControlEntryRecord { id, ..record }
}

#[test]
fn acls_come_and_go_and_images_share_them_as_long_as_they_stay() {
    let remove = |id: Uuid| MetadataRecord::from(RemoveAccessControlEntryRecord { id });
    let first = image(&[acl(A, "a").into(), acl(B, "b").into()]);
    let (second, delta) = first.apply(&[remove(A)], 11, 1).unwrap();
    assert!(delta.acls_changed && !delta.brokers_changed);
    assert_eq!((first.acls().len(), second.acls().len()), (2, 1));
    let (third, delta) = second.apply(&[topic("a", A)], 12, 1).unwrap();
    assert!(!delta.acls_changed && Arc::ptr_eq(second.acls(), third.acls()));

    for before in [&first, &second] {
        let (mut again, mut delta) = MetadataImage::default().apply(&third.to_records(), 12, 1).unwrap();
        assert!(delta.acls_changed && again.acls() == third.acls());
        again.continue_after(before, &mut delta);
        assert_eq!(delta.acls_changed, before.acls() == first.acls());
        assert_eq!(Arc::ptr_eq(again.acls(), before.acls()), !delta.acls_changed);
    }

    for (records, error) in [
        (vec![remove(A)], ApplyError::UnknownAcl(A)),
        (vec![acl(B, "c").into()], ApplyError::AclExists(B)),
        (vec![acl(A, "b").into()], ApplyError::AclExists(A)),
        (vec![acl(A, "").into()], ApplyError::InvalidAcl(InvalidAcl::EmptyName)),
    ] {
        assert_eq!(second.apply(&records, 13, 1).unwrap_err(), error);
    }
}

#[test]
fn records_that_do_not_fit_are_errors() {
    let before = image(&[topic("a", A), partition(A, 0)]);
    let change = PartitionChangeRecord { partition_id: 1, topic_id: A, ..PartitionChangeRecord::default() };
    let odd_resource = ConfigRecord { resource_type: 3, ..ConfigRecord::default() };
    for (record, error) in [
        (partition(B, 0), ApplyError::UnknownTopic(B)),
        (topic("a", B), ApplyError::TopicExists("a".into())),
        (topic("b", A), ApplyError::TopicExists("b".into())),
        (topic("a/b", B), ApplyError::TopicName(TopicName::new("a/b").unwrap_err())),
        (partition(A, 2), ApplyError::PartitionOutOfOrder { topic: "a".into(), index: 2 }),
        (partition(A, -1), ApplyError::PartitionOutOfOrder { topic: "a".into(), index: -1 }),
        (change.into(), ApplyError::PartitionOutOfOrder { topic: "a".into(), index: 1 }),
        (RemoveTopicRecord { topic_id: B }.into(), ApplyError::UnknownTopic(B)),
        (odd_resource.into(), ApplyError::UnknownResource(3)),
        (BrokerRegistrationChangeRecord { broker_id: 7, ..Default::default() }.into(), ApplyError::UnknownBroker(7)),
    ] {
        assert_eq!(before.apply(&[record], 11, 1).unwrap_err(), error);
    }
}

#[test]
fn an_image_is_made_again_by_its_records() {
    let register = RegisterBrokerRecord {
        broker_id: 1,
        broker_epoch: 5,
        end_points: vec![EndpointRecord {
            name: "PLAINTEXT".into(),
            host: "h".into(),
            port: 9092,
            security_protocol: 0,
        }],
        features: vec![BrokerFeature { name: "f".into(), min_supported_version: 0, max_supported_version: 2 }],
        rack: Some("r".into()),
        fenced: false,
        log_dirs: vec![Uuid([9; 16])],
        ..RegisterBrokerRecord::default()
    };
    let mut records = vec![register.into(), FeatureLevelRecord { name: "f".into(), feature_level: 2 }.into()];
    for n in 0..1000u16 {
        let id = Uuid::from_random([(n >> 8) as u8, n as u8, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        records.extend([topic(&format!("t.{n}"), id), partition(id, 0), partition(id, 1)]);
        records.push(setting(&ConfigResource::topic(&format!("t.{n}")), "retention.ms", Some("1")));
    }
    records.push(setting(&ConfigResource::all_brokers(), "min.insync.replicas", Some("1")));
    records.push(setting(&ConfigResource::broker(1), "log.retention.ms", Some("1")));
    records.push(setting(&ConfigResource::group("g"), "consumer.session.timeout.ms", Some("50000")));
    records.push(ProducerIdsRecord { next_producer_id: 5000, broker_id: -1, broker_epoch: -1 }.into());
    records.extend((0..300).map(|n| acl(crate::acl::tests::id(n), &format!("t.{n}")).into()));
    let image = image(&records);
    let (again, delta) = MetadataImage::default().apply(&image.to_records(), 10, 1).unwrap();
    assert!(again == image);
    assert_eq!(delta.created.len(), 1000);
}
