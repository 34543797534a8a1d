//! What members subscribe to, by name and by pattern, and what becomes of it when topics change.

use std::collections::BTreeSet;

use wire::api::consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, TopicPartitions};
use wire::{ErrorCode, Uuid};

use super::fake::{FakeTopics, World, assigned, joining, silent, topic_id};
use crate::group::consumer::{Answer, ConsumerGroup, Record, ResolvedRegex, State, hash};
use crate::group::regex::Pattern;

/// A heartbeat that changes the pattern; of a member that joins, if its epoch is 0.
fn with_pattern(member_id: &str, epoch: i32, pattern: &str) -> ConsumerGroupHeartbeatRequest {
    let request = if epoch == 0 { joining(member_id, &[]) } else { silent(member_id, epoch) };
    ConsumerGroupHeartbeatRequest { subscribed_topic_regex: Some(pattern.into()), ..request }
}

/// Resolves the patterns that an answer asks for.
fn resolve(world: &mut World, answer: &Answer) -> bool {
    let Some(resolution) = &answer.resolve else { return false };
    let names: Vec<String> = world.topics.topics.keys().cloned().collect();
    let resolved = resolution.patterns.iter().map(|pattern| {
        let topics = Pattern::new(pattern).unwrap().matching(&names);
        (pattern.clone(), ResolvedRegex { topics, version: 7, timestamp_ms: 3 })
    });
    let resolved = resolved.collect();
    world.change(|group, context| ((), group.resolved(context, Some(resolved))));
    true
}

#[test]
fn the_hash_of_topics_is_kafkas() {
    let mut topics = FakeTopics::default();
    topics.set("orders", 0, 2);
    topics.set("payments", 0, 300);
    let id = |most: u64, least: u64| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&most.to_be_bytes());
        id[8..].copy_from_slice(&least.to_be_bytes());
        Uuid(id)
    };
    topics.topics.get_mut("orders").unwrap().id = id(0x0102_0304_0506_0708, 0x1112_1314_1516_1718);
    topics.topics.get_mut("payments").unwrap().id = id(1, 2);
    let racks = [vec!["b".to_owned(), "a".to_owned()], vec!["b".to_owned(), "cé".to_owned()]];
    topics.racks.insert("orders".into(), racks.into());
    // Computed with Kafka's library, hash4j, as `Utils.computeTopicHash` and `computeGroupHash` use it.
    assert_eq!(hash::of_topics(["orders", "missing"], &topics), -8_442_903_722_441_044_783);
    assert_eq!(hash::of_topics(["payments", "orders", "orders"], &topics), -8_649_660_613_458_007_121);
    assert_eq!(hash::of_topics(["missing"], &topics), 0);
}

#[test]
fn partitions_that_are_added_are_shared_out() {
    let mut world = World::new();
    world.join("a");
    world.topics.set("t", 1, 5);
    assert_eq!(assigned(&world.send(silent("a", 2)).unwrap()), None);
    world.group.topics_changed(7, false);
    let told = world.send(silent("a", 2)).unwrap();
    assert_eq!((told.member_epoch, assigned(&told)), (3, Some(vec![0, 1, 2, 3, 4])));
    // What a snapshot does not show yet is looked at again.
    world.group.topics_changed(8, false);
    world.send(silent("a", 3)).unwrap();
    world.topics.set("t", 1, 6);
    assert_eq!(world.send(silent("a", 3)).unwrap().member_epoch, 4);
    world.group.topics_changed(7, false);
    // A change that does not concern the group changes nothing.
    world.topics.set("u", 2, 5);
    world.group.topics_changed(7, true);
    assert_eq!(world.send(silent("a", 4)).unwrap().member_epoch, 4);
}

#[test]
fn a_topic_that_is_made_anew_is_another() {
    let mut world = World::new();
    world.join("a");
    world.topics.set("t", 9, 2);
    world.group.topics_changed(7, true);
    let told = world.report("a", 2, &[0, 1, 2, 3]).unwrap();
    assert_eq!((told.member_epoch, assigned(&told)), (2, Some(vec![])));
    let told = world.report("a", 2, &[]).unwrap();
    let assignment = told.assignment.unwrap().topic_partitions;
    assert_eq!((told.member_epoch, assignment[0].topic_id), (3, topic_id(9)));
    assert_eq!(assignment[0].partitions, [0, 1]);
}

#[test]
fn topics_that_are_not_wanted_any_more_go_before_there_is_a_new_target() {
    let mut world = World::new();
    world.settings.assignment_interval_ms = 1_000;
    world.topics.set("u", 2, 1);
    world.send(joining("a", &["t", "u"])).unwrap();
    let names = |topics: &[&str]| Some(topics.iter().map(|&topic| topic.to_owned()).collect());
    let change = ConsumerGroupHeartbeatRequest { subscribed_topic_names: names(&["u"]), ..silent("a", 2) };
    let told = world.send(change).unwrap();
    assert_eq!(world.group.state(), State::Assigning);
    let assignment = told.assignment.unwrap().topic_partitions;
    assert_eq!((told.member_epoch, assignment.len(), assignment[0].topic_id), (2, 1, topic_id(2)));
}

#[test]
fn most_votes_choose_the_assignor() {
    let mut world = World::new();
    world.topics.set("t", 1, 4);
    let asking = |member_id: &str, assignor: &str| ConsumerGroupHeartbeatRequest {
        server_assignor: Some(assignor.into()),
        ..joining(member_id, &["t"])
    };
    let name = |world: &mut World| {
        world.change(|group, context| (group.describe(context, "g").assignor_name, Default::default()))
    };
    assert_eq!(name(&mut world), "uniform");
    world.send(asking("a", "range")).unwrap();
    assert_eq!(name(&mut world), "range");
    world.send(asking("b", "uniform")).unwrap();
    assert_eq!(name(&mut world), "uniform");
    world.send(asking("c", "range")).unwrap();
    assert_eq!(name(&mut world), "range");
}

#[test]
fn a_pattern_is_resolved_beside_the_heartbeats_and_then_followed() {
    let mut world = World::new();
    world.topics.set("orders-1", 2, 2);
    let answer = world.answer(with_pattern("a", 0, "orders-.*")).unwrap();
    assert_eq!(assigned(&answer.response), Some(vec![]));
    assert!(resolve(&mut world, &answer));
    let told = world.send(silent("a", answer.response.member_epoch)).unwrap();
    assert_eq!(told.assignment.unwrap().topic_partitions[0].topic_id, topic_id(2));
    assert!(world.group.is_subscribed_to("orders-1") && !world.group.is_subscribed_to("t"));

    // A second member finds it resolved.
    let second = world.answer(with_pattern("b", 0, "orders-.*")).unwrap();
    assert_eq!((second.resolve.is_none(), second.response.member_epoch), (true, 3));
    // A new topic is noticed, but not at once.
    world.topics.set("orders-2", 3, 1);
    world.group.topics_changed(7, true);
    assert!(!resolve(&mut world, &second));
    world.now_ms += 10_001;
    let answer = world.answer(silent("b", 3)).unwrap();
    assert!(resolve(&mut world, &answer));
    assert!(world.group.is_subscribed_to("orders-2"));
    // Without new topics it takes longer.
    world.now_ms += 11_000;
    let epoch = world.answer(silent("b", 3)).unwrap();
    assert_eq!(epoch.resolve, None);
    // The last to have a pattern takes its topics along.
    world.leave("a", None, -1).unwrap();
    world
        .send(ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: Some(vec!["t".into()]),
            ..with_pattern("b", epoch.response.member_epoch, "")
        })
        .unwrap();
    assert!(!world.group.is_subscribed_to("orders-1") && world.group.is_subscribed_to("t"));
    assert!(matches!(world.log.iter().rfind(|record| matches!(record, Record::Regex { .. })),
        Some(Record::Regex { pattern, resolved: None }) if pattern == "orders-.*"));
}

#[test]
fn a_resolution_that_fails_is_repeated() {
    let mut world = World::new();
    assert!(world.answer(with_pattern("a", 0, "t")).unwrap().resolve.is_some());
    world.now_ms += 11_000;
    assert_eq!(world.answer(silent("a", 1)).unwrap().resolve, None, "one at a time");
    world.change(|group, context| ((), group.resolved(context, None)));
    let answer = world.answer(silent("a", 1)).unwrap();
    assert!(resolve(&mut world, &answer));
    assert_eq!(assigned(&world.send(silent("a", 1)).unwrap()), Some(vec![0, 1, 2, 3]));
}

#[test]
fn a_bad_pattern_changes_nothing() {
    let mut world = World::new();
    world.join("a");
    let before = world.log.len();
    assert_eq!(world.send(with_pattern("a", 2, "(")), Err(ErrorCode::INVALID_REGULAR_EXPRESSION));
    assert_eq!(world.log.len(), before);
    assert_eq!(world.group.members["a"].pattern(), None);
    assert_eq!(world.group.members["a"].topics, BTreeSet::from(["t".to_owned()]));
}

/// The topics that an answer assigns.
fn topics(answer: &Answer) -> Vec<Uuid> {
    let assigned = answer.response.assignment.iter().flat_map(|assignment| &assignment.topic_partitions);
    assigned.map(|topic| topic.topic_id).collect()
}

/// Two members with the same pattern, the second of which may not know of the topics.
fn with_hidden(hidden: &[&str]) -> World {
    let mut world = World::new();
    world.topics.set("orders-1", 2, 2);
    world.topics.set("orders-2", 3, 2);
    let hidden = hidden.iter().map(|&topic| topic.to_owned()).collect();
    world.hidden = [("a".to_owned(), BTreeSet::new()), ("b".to_owned(), hidden)].into();
    let answer = world.answer(with_pattern("a", 0, "orders-.*")).unwrap();
    resolve(&mut world, &answer);
    world.answer(with_pattern("b", 0, "orders-.*")).unwrap();
    world
}

/// Lets members give up and get what they are to have, and returns the topics of `a` and of `b`.
fn settle(world: &mut World) -> [Vec<Uuid>; 2] {
    let mut has = [Vec::new(), Vec::new()];
    for _ in 0..4 {
        for (at, member_id) in ["a", "b"].into_iter().enumerate() {
            let current = world.group.current[member_id].clone();
            let owned = current.assigned.iter().map(|(topic_id, partitions)| TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.keys().copied().collect(),
            });
            let owned = Some(owned.collect());
            let full = with_pattern(member_id, 0, "orders-.*");
            let request =
                ConsumerGroupHeartbeatRequest { member_epoch: current.epoch, topic_partitions: owned, ..full };
            has[at] = topics(&world.answer(request).unwrap());
        }
    }
    has
}

#[test]
fn a_member_gets_nothing_that_it_may_not_know_of_and_others_do() {
    let (one, two) = (topic_id(2), topic_id(3));
    let mut world = with_hidden(&["orders-2"]);
    assert_eq!(settle(&mut world), [vec![two], vec![one]]);
    let epoch = world.group.epoch();
    settle(&mut world);
    assert_eq!(world.group.epoch(), epoch, "nothing has changed");

    world.hidden.get_mut("b").unwrap().insert("orders-1".to_owned());
    assert_eq!(settle(&mut world), [vec![one, two], vec![]]);
    world.hidden.insert("b".to_owned(), BTreeSet::new());
    let [of_first, of_second] = settle(&mut world);
    assert!(!of_second.is_empty(), "it has its share again");
    assert_eq!([of_first, of_second].concat().into_iter().collect::<BTreeSet<_>>(), BTreeSet::from([one, two]));
}

#[test]
fn rights_are_known_again_after_a_failover() {
    let mut world = with_hidden(&["orders-1", "orders-2"]);
    world.hidden.insert("a".to_owned(), BTreeSet::from(["orders-2".to_owned()]));
    assert_eq!(settle(&mut world), [vec![topic_id(2)], vec![]]);
    let mut group = ConsumerGroup::default();
    world.log.iter().cloned().for_each(|record| _ = group.apply(record));
    world.group = group;
    world.change(|group, context| (group.resume(context), Default::default()));
    let epoch = world.group.epoch();
    assert_eq!(settle(&mut world), [vec![topic_id(2)], vec![]]);
    assert_eq!(world.group.epoch(), epoch, "as before");

    // What nobody was allowed before is somebody's again, though its new coordinator has not heard of that.
    let mut group = ConsumerGroup::default();
    world.log.iter().cloned().for_each(|record| _ = group.apply(record));
    world.group = group;
    world.hidden.insert("b".to_owned(), BTreeSet::new());
    let [of_first, of_second] = settle(&mut world);
    assert_eq!(of_first.into_iter().filter(|topic| *topic == topic_id(3)).count(), 0);
    assert!(of_second.contains(&topic_id(3)));
}
