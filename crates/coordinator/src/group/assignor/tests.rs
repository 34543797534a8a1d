//! Assignments of random groups, against those that Kafka's own assignors made for them, and against what an assignment
//! has to be.

use super::*;

/// Random groups and what Apache Kafka 4.3.1 assigned them, printed by `tests/Assignments.java`.
const KAFKA: &str = include_str!("tests/assignments.txt");

#[derive(Clone, Debug, Default)]
struct Member {
    id: String,
    instance_id: Option<String>,
    topics: Arc<BTreeSet<Uuid>>,
    assigned: Partitions,
}

fn topic(number: u8) -> Uuid {
    let mut id = [0; 16];
    id[15] = number;
    Uuid(id)
}

fn assign(assignor: Assignor, members: &[Member], partition_counts: &BTreeMap<Uuid, i32>) -> Vec<Partitions> {
    let members = members.iter().map(|member| Subscriber {
        member_id: &member.id,
        instance_id: member.instance_id.as_deref(),
        topics: Arc::clone(&member.topics),
        assigned: &member.assigned,
    });
    assignor.assign(&Subscriptions { members: members.collect(), partition_counts: partition_counts.clone() })
}

/// What is separated by commas, without what is empty.
fn list<T>(text: &str, parse: impl Fn(&str) -> T) -> Vec<T> {
    text.split(',').filter(|item| !item.is_empty()).map(parse).collect()
}

fn numbered(item: &str) -> (Uuid, &str) {
    let (number, rest) = item.split_once(':').unwrap();
    (topic(number.parse().unwrap()), rest)
}

fn partitions(text: &str) -> Partitions {
    let of_topic = |item: &str| {
        let (topic, partitions) = numbered(item);
        (topic, partitions.split('+').map(|partition| partition.parse().unwrap()).collect())
    };
    list(text, of_topic).into_iter().collect()
}

/// A line of the table: the assignor, the members, how many partitions topics have, and Kafka's assignment.
fn case(line: &str) -> (Assignor, Vec<Member>, BTreeMap<Uuid, i32>, Vec<Partitions>) {
    let mut words = line.split(' ');
    let assignor = Assignor::from_name(words.next().unwrap()).unwrap();
    let counts = list(words.next().unwrap(), |item| {
        let (topic, count) = numbered(item);
        (topic, count.parse().unwrap())
    });
    let (mut members, mut expected) = (Vec::new(), Vec::new());
    for word in words {
        let fields: Vec<_> = word.split('/').collect();
        let topics = list(fields[2], |number| topic(number.parse().unwrap()));
        members.push(Member {
            id: fields[0].to_owned(),
            instance_id: Some(fields[1].to_owned()).filter(|id| !id.is_empty()),
            topics: Arc::new(topics.into_iter().collect()),
            assigned: partitions(fields[3]),
        });
        expected.push(partitions(fields[4]));
    }
    (assignor, members, counts.into_iter().collect(), expected)
}

fn size(partitions: &Partitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

/// How many partitions members have kept.
fn kept(members: &[Member], assignment: &[Partitions]) -> usize {
    let kept = |(member, now): (&Member, &Partitions)| -> usize {
        let of_topic =
            |(topic, was): (&Uuid, &BTreeSet<i32>)| now.get(topic).map_or(0, |now| now.intersection(was).count());
        member.assigned.iter().map(of_topic).sum()
    };
    members.iter().zip(assignment).map(kept).sum()
}

/// Every partition of a subscribed topic has one owner, who is subscribed to it, and there are no others.
fn check_complete(members: &[Member], counts: &BTreeMap<Uuid, i32>, assignment: &[Partitions]) {
    let mut owned = BTreeSet::new();
    for (member, partitions) in members.iter().zip(assignment) {
        for (topic, partitions) in partitions {
            assert!(member.topics.contains(topic), "{} has a topic that it does not want", member.id);
            assert!(!partitions.is_empty());
            partitions.iter().for_each(|partition| assert!(owned.insert((*topic, *partition)), "two have {partition}"));
        }
    }
    let wanted: BTreeSet<Uuid> = members.iter().flat_map(|member| member.topics.iter().copied()).collect();
    let all = wanted.iter().flat_map(|topic| (0..counts[topic]).map(|partition| (*topic, partition)));
    assert_eq!(owned, all.collect());
}

#[test]
fn groups_get_what_kafka_gives_them() {
    let mut compared = [0; 3];
    for line in KAFKA.lines() {
        let (assignor, members, counts, expected) = case(line);
        let assignment = assign(assignor, &members, &counts);
        check_complete(&members, &counts, &assignment);
        let is_equal = members.windows(2).all(|pair| pair[0].topics == pair[1].topics);
        if assignor == Assignor::Uniform && is_equal {
            // Which partition fills up whom depends on the order of a hash table there.
            let sizes = |assignment: &[Partitions]| assignment.iter().map(size).collect::<Vec<_>>();
            assert_eq!(sizes(&assignment), sizes(&expected), "{line}");
            assert_eq!(kept(&members, &assignment), kept(&members, &expected), "{line}");
            compared[0] += 1;
        } else {
            assert_eq!(assignment, expected, "{line}");
            compared[if assignor == Assignor::Uniform { 1 } else { 2 }] += 1;
        }
    }
    assert!(compared.iter().all(|&cases| cases > 100), "{compared:?}");
}

#[test]
fn a_member_that_joins_takes_only_its_share() {
    let counts = BTreeMap::from([(topic(1), 10), (topic(2), 8)]);
    let topics: Arc<BTreeSet<Uuid>> = Arc::new(counts.keys().copied().collect());
    let member = |id: usize| Member { id: format!("m{id}"), topics: Arc::clone(&topics), ..Member::default() };
    let mut members: Vec<Member> = (0..2).map(member).collect();
    for id in 2..18 {
        let assignment = assign(Assignor::Uniform, &members, &counts);
        check_complete(&members, &counts, &assignment);
        let sizes: BTreeSet<usize> = assignment.iter().map(size).collect();
        assert!(sizes.last().unwrap() - sizes.first().unwrap() <= 1, "{sizes:?}");
        for (member, now) in members.iter().zip(&assignment).filter(|(member, _)| !member.assigned.is_empty()) {
            let had = |topic: &Uuid, partition| member.assigned.get(topic).is_some_and(|had| had.contains(&partition));
            let mut all = now.iter().flat_map(|(topic, now)| now.iter().map(move |partition| (topic, *partition)));
            assert!(all.all(|(topic, partition)| had(topic, partition)), "{} got what another had", member.id);
        }
        members.iter_mut().zip(assignment).for_each(|(member, assigned)| member.assigned = assigned);
        members.push(member(id));
    }
}

#[test]
fn what_the_log_says_twice_or_of_partitions_that_are_gone_is_put_right() {
    let counts = BTreeMap::from([(topic(1), 4), (topic(2), 2)]);
    let odd = Partitions::from([(topic(1), BTreeSet::from([-1, 0, 1, 9])), (topic(7), BTreeSet::from([0]))]);
    for second in [BTreeSet::from([topic(1)]), BTreeSet::from([topic(1), topic(2)])] {
        let member = |id: &str, topics: &BTreeSet<Uuid>| Member {
            id: id.to_owned(),
            topics: Arc::new(topics.clone()),
            assigned: odd.clone(),
            ..Member::default()
        };
        let members = [member("a", &BTreeSet::from([topic(1)])), member("b", &second)];
        for assignor in Assignor::ALL {
            check_complete(&members, &counts, &assign(assignor, &members, &counts));
        }
    }
}

#[test]
fn nobody_gets_anything_where_there_is_nothing() {
    for assignor in Assignor::ALL {
        assert_eq!(assign(assignor, &[], &BTreeMap::new()), Vec::<Partitions>::new());
        assert_eq!(assign(assignor, &[Member::default()], &BTreeMap::new()), [Partitions::new()]);
    }
}
