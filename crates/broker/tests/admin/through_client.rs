//! Administration through our own client, whole ways as a console goes them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use bytes::Bytes;
use client::{
    Client, ClientConfig, ClientError, ConfigSource, ConfigType, ElectionKind, GroupConfig, LATEST, Membership,
    OffsetMove, Producer, ProducerConfig, ProducerRecord, ResetTarget, Resource, TopicPartition,
};
use wire::ErrorCode;

use crate::common::TestBroker;
use crate::topic;

const RECORDS: i64 = 10;

/// Does this with a broker of its own.
fn with_client<F: Future<Output = ()>>(test: impl FnOnce(Client) -> F) {
    let broker = TestBroker::start();
    let client = Client::new(ClientConfig::new(vec![broker.address().to_string()]));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime starts").block_on(test(client));
}

fn partition(topic: &str, index: i32) -> TopicPartition {
    TopicPartition::new(topic, index)
}

fn code<T>(result: &Result<T, ClientError>) -> Option<ErrorCode> {
    result.as_ref().err().and_then(ClientError::code)
}

/// A topic of two partitions, with records in the first.
async fn filled(client: &Client, name: &str) {
    client.create_topic(topic(name, 2)).await.unwrap();
    let producer = Producer::start(client.clone(), name, ProducerConfig::default()).await.unwrap();
    for timestamp in 0..RECORDS {
        let value = Some(Bytes::from_static(b"v"));
        let record = ProducerRecord { partition: Some(0), timestamp, key: None, value, headers: Vec::new() };
        producer.send(record).await.unwrap().await.unwrap();
    }
    producer.close().await;
}

#[test]
fn settings_are_changed_and_put_back() {
    with_client(|client| async move {
        client.create_topic(topic("s", 1)).await.unwrap();
        let resource = Resource::topic("s");
        let entry = async || {
            let described = client.describe_configs(std::slice::from_ref(&resource), true).await;
            let entries = described.into_values().next().unwrap().unwrap();
            entries.into_iter().find(|entry| entry.name == "retention.ms").unwrap()
        };
        let retention = [("retention.ms".to_owned(), "3600000".to_owned())];
        assert_eq!(entry().await.source, ConfigSource::Default);
        client.alter_configs(&resource, &retention, &[], true).await.unwrap();
        assert_eq!(entry().await.source, ConfigSource::Default, "it was only to be checked");
        client.alter_configs(&resource, &retention, &[], false).await.unwrap();
        let changed = entry().await;
        assert_eq!((changed.value.as_deref(), changed.source), (Some("3600000"), resource.own_source()));
        assert_eq!((changed.config_type, changed.is_read_only, changed.is_sensitive), (ConfigType::Long, false, false));
        assert_eq!(changed.synonyms[0].source, ConfigSource::DynamicTopic);
        client.alter_configs(&resource, &[], &["retention.ms".to_owned()], false).await.unwrap();
        assert_eq!(entry().await.source, ConfigSource::Default);
        let wrong = [("retention.ms".to_owned(), "soon".to_owned())];
        assert_eq!(code(&client.alter_configs(&resource, &wrong, &[], true).await), Some(ErrorCode::INVALID_CONFIG));
    });
}

#[test]
fn one_resource_that_is_not_there_does_not_hide_the_others() {
    with_client(|client| async move {
        client.create_topic(topic("here", 1)).await.unwrap();
        let [here, gone, stranger] = [Resource::topic("here"), Resource::topic("gone"), Resource::broker(77)];
        let broker = Resource::broker(client.describe_cluster().await.unwrap().brokers[0].broker.id);
        let all = [here.clone(), gone.clone(), stranger.clone(), broker.clone(), Resource::all_brokers()];
        let described = client.describe_configs(&all, false).await;
        assert_eq!(described.len(), all.len());
        assert!(described[&here].as_ref().unwrap().iter().any(|entry| entry.name == "cleanup.policy"));
        assert!(described[&broker].as_ref().unwrap().iter().any(|entry| entry.name == "log.dirs"));
        assert_eq!(described[&gone], Err(ClientError::UnknownTopic { topic: "gone".to_owned() }));
        assert_eq!(described[&stranger], Err(ClientError::UnknownBroker { broker: 77 }));
        assert!(described[&Resource::all_brokers()].is_ok());
        let min_in_sync = client.min_in_sync_replicas(&["here", "gone"]).await.unwrap();
        assert_eq!(min_in_sync, [("here".to_owned(), 1)].into());
    });
}

#[test]
fn a_topic_grows_and_loses_its_oldest_records() {
    with_client(|client| async move {
        filled(&client, "r").await;
        client.create_partitions("r", 3, None).await.unwrap();
        let fewer = client.create_partitions("r", 2, None).await;
        assert_eq!(code(&fewer), Some(ErrorCode::INVALID_PARTITIONS));
        let offsets = [(partition("r", 0), 4), (partition("r", 2), -1), (partition("r", 9), 0)].into();
        let deleted = client.delete_records(&offsets).await;
        assert_eq!((&deleted[&partition("r", 0)], &deleted[&partition("r", 2)]), (&Ok(4), &Ok(0)));
        assert_eq!(deleted[&partition("r", 9)], Err(ClientError::UnknownPartition(partition("r", 9))));
        let beyond = client.delete_records(&[(partition("r", 0), RECORDS + 1)].into()).await;
        assert_eq!(code(&beyond[&partition("r", 0)]), Some(ErrorCode::OFFSET_OUT_OF_RANGE));
        let ends = [(partition("r", 0), LATEST), (partition("gone", 0), LATEST)].into();
        let ends = client.list_offsets_each(&ends).await;
        assert_eq!(ends[&partition("r", 0)].as_ref().map(|end| end.offset), Ok(RECORDS));
        assert_eq!(ends[&partition("gone", 0)], Err(ClientError::UnknownTopic { topic: "gone".to_owned() }));
    });
}

#[test]
fn a_group_without_members_is_moved_and_deleted() {
    with_client(|client| async move {
        filled(&client, "g").await;
        let [first, second] = [0, 1].map(|index| partition("g", index));
        for (group, offset) in [("one", 3), ("two", 5)] {
            client.alter_committed_offsets(group, &[(first.clone(), offset)].into()).await.unwrap();
        }
        let names = ["one", "two", "gone"].map(str::to_owned);
        let listed = client.list_groups().await.unwrap();
        assert!(listed.errors.is_empty(), "{:?}", listed.errors);
        assert_eq!(listed.groups["two"].state, "Empty");
        let described = client.describe_groups(&names).await;
        assert_eq!(described["one"].as_ref().map(|group| group.state.as_str()), Ok("Empty"));
        assert_eq!(code(&described["gone"]), Some(ErrorCode::GROUP_ID_NOT_FOUND));
        let committed = client.committed_offsets(&names).await;
        let offsets =
            |group: &str| committed[group].clone().unwrap().into_values().map(|c| c.offset).collect::<Vec<_>>();
        assert_eq!((offsets("one"), offsets("two"), offsets("gone")), (vec![3], vec![5], vec![]));

        let plan = client.plan_offset_reset("one", ResetTarget::Shift(4), None).await.unwrap();
        assert_eq!(plan, [(first.clone(), OffsetMove { from: Some(3), to: 7 })].into());
        let both = [first.clone(), second.clone()].into();
        let nothing = client.plan_offset_reset("one", ResetTarget::Shift(4), Some(&both)).await;
        assert_eq!(nothing, Err(ClientError::NothingToShift(second.clone())));
        let plan = client.plan_offset_reset("one", ResetTarget::Time(6), Some(&both)).await.unwrap();
        assert_eq!(plan[&first], OffsetMove { from: Some(3), to: 6 });
        assert_eq!(plan[&second], OffsetMove { from: None, to: 0 });
        client.reset_offsets("one", &plan).await.unwrap();

        let deleted = client.delete_offsets("one", &BTreeSet::from([second.clone()])).await.unwrap();
        assert_eq!(deleted, BTreeMap::from([(second, Ok(()))]));
        let left = client.committed_offsets(&names).await["one"].clone().unwrap();
        assert_eq!(left.into_iter().map(|(p, c)| (p, c.offset)).collect::<Vec<_>>(), [(first, 6)]);
        client.delete_group("one").await.unwrap();
        assert_eq!(code(&client.delete_group("one").await), Some(ErrorCode::GROUP_ID_NOT_FOUND));
        assert!(!client.list_groups().await.unwrap().groups.contains_key("one"));
    });
}

#[test]
fn a_group_with_members_tells_what_they_read_and_stays() {
    with_client(|client| async move {
        filled(&client, "m").await;
        let mut member = Membership::new(client.clone(), "busy", vec!["m".to_owned()], GroupConfig::default());
        member.join().await.unwrap();
        member.commit(&[(partition("m", 0), 1)].into()).await.unwrap();
        let described = client.describe_groups(&["busy".to_owned()]).await["busy"].clone().unwrap();
        assert_eq!((described.state.as_str(), described.protocol.as_str()), ("Stable", "range"));
        let both: Vec<_> = [0, 1].map(|index| partition("m", index)).into();
        assert_eq!(described.members[0].assigned, Some(both));
        let planned = client.plan_offset_reset("busy", ResetTarget::Earliest, None).await;
        let (group, state) = ("busy".to_owned(), "Stable".to_owned());
        assert_eq!(planned, Err(ClientError::GroupInUse { group, state }));
        let committed = client.alter_committed_offsets("busy", &[(partition("m", 0), 0)].into()).await;
        assert_eq!(code(&committed), Some(ErrorCode::UNKNOWN_MEMBER_ID));
        let deleted = client.delete_offsets("busy", &BTreeSet::from([partition("m", 0)])).await.unwrap();
        assert_eq!(code(&deleted[&partition("m", 0)]), Some(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC));
        assert_eq!(code(&client.delete_group("busy").await), Some(ErrorCode::NON_EMPTY_GROUP));
        member.leave().await.unwrap();
        client.delete_group("busy").await.unwrap();
    });
}

#[test]
fn the_cluster_tells_of_its_brokers_quorum_and_disks() {
    with_client(|client| async move {
        filled(&client, "d").await;
        let cluster = client.describe_cluster().await.unwrap();
        let [broker] = &cluster.brokers[..] else { panic!("{cluster:?}") };
        assert_eq!(broker.is_fenced, Some(false));
        let id = broker.broker.id;
        let quorum = client.describe_quorum().await.unwrap();
        assert_eq!((quorum.leader_id, quorum.voters.len(), quorum.voters[0].lag), (Some(id), 1, 0));
        assert!(quorum.high_watermark > 0 && quorum.voters[0].last_fetch_timestamp_ms.is_some(), "{quorum:?}");
        let dirs = client.describe_log_dirs().await.unwrap().remove(&id).unwrap().unwrap();
        let [dir] = &dirs[..] else { panic!("{dirs:?}") };
        assert_eq!(dir.error, None);
        assert!(dir.usable_bytes.is_some_and(|usable| Some(usable) <= dir.total_bytes), "{dir:?}");
        let replica = dir.replicas[&partition("d", 0)];
        assert!(replica.size_bytes > 0 && replica.offset_lag == 0 && !replica.is_future, "{replica:?}");
    });
}

#[test]
fn leaders_and_replicas_that_are_as_they_should_be_stay() {
    with_client(|client| async move {
        client.create_topic(topic("e", 1)).await.unwrap();
        let id = client.describe_cluster().await.unwrap().brokers[0].broker.id;
        let [here, gone] = [partition("e", 0), partition("gone", 0)];
        let named = BTreeSet::from([here.clone(), gone.clone()]);
        let elected = client.elect_leaders(ElectionKind::Preferred, Some(&named)).await.unwrap();
        assert_eq!(code(&elected[&here]), Some(ErrorCode::ELECTION_NOT_NEEDED));
        assert_eq!(code(&elected[&gone]), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        assert_eq!(client.elect_leaders(ElectionKind::Unclean, None).await, Ok(BTreeMap::new()));

        assert_eq!(client.list_reassignments(Some(&[here.clone()].into())).await, Ok(BTreeMap::new()));
        let replicas = [(here.clone(), None), (gone.clone(), Some(vec![id]))].into();
        let altered = client.alter_reassignments(&replicas).await.unwrap();
        assert_eq!(code(&altered[&here]), Some(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS));
        assert_eq!(code(&altered[&gone]), Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
        let altered = client.alter_reassignments(&[(here.clone(), Some(vec![id]))].into()).await.unwrap();
        assert_eq!(altered[&here], Ok(()));
        assert_eq!(client.list_reassignments(None).await, Ok(BTreeMap::new()));
    });
}
