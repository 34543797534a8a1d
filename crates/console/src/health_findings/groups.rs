//! What is wrong with consumer groups.

use std::collections::HashSet;

use super::{Finding, Severity};
use crate::format::{count, counted, duration, group_part, name_shown};
use crate::history::{Growth, History};
use crate::rebalances::{advice, cause_text, unrest};
use crate::snapshot::{Age, Group, Snapshot};

/// What is younger may be read in a moment.
const OLD_SECONDS: f64 = 60.0;
/// Of several groups with the same trouble so many are named.
const NAMED: usize = 3;

pub(super) fn find(snapshot: &Snapshot, history: &History, findings: &mut Vec<Finding>) {
    findings.extend(without_members(snapshot));
    let unread = snapshot.groups.iter().filter_map(|(id, group)| Some((id, unread_partitions(group)?)));
    let unread = unread.map(|(id, partitions)| Finding {
        severity: Severity::Warn,
        what: format!("Group {} has members, and yet no consumer reads {partitions} of its topics.", name_shown(id)),
        advice: "A member asks for new partitions within metadata.max.age.ms. If this stays, look at its assignor."
            .to_owned(),
        href: href(id),
    });
    extend(findings, unread, "have partitions that no member reads");
    let restless = unrest(snapshot).into_iter().map(|unrest| Finding {
        severity: Severity::Warn,
        what: format!(
            "Group {} has rebalanced {} times in the last 10 minutes. The most frequent cause: {}.",
            name_shown(unrest.group),
            unrest.times,
            cause_text(unrest.cause)
        ),
        advice: format!("Meanwhile its members read little. {}", advice(unrest.cause)),
        href: href(unrest.group),
    });
    extend(findings, restless, "rebalance all the time");
    let behind = snapshot.groups.iter().filter_map(|(id, group)| Some((id, falls_behind(history, id, group)?)));
    extend(findings, behind.map(|(id, growth)| falling(id, growth)), "fall behind");
}

/// The first of them, and how many more groups there are that do the same.
fn extend(findings: &mut Vec<Finding>, found: impl Iterator<Item = Finding>, what: &str) {
    let mut found = found.fuse();
    findings.extend(found.by_ref().take(NAMED));
    let more = found.count();
    if more > 0 {
        findings.push(Finding {
            severity: Severity::Warn,
            what: format!("{} {what}.", counted(more, "more group")),
            advice: "Look first at those with the greatest lag.".to_owned(),
            href: "/groups?sort=lag".into(),
        });
    }
}

fn href(group: &str) -> std::borrow::Cow<'static, str> {
    format!("/groups/{}", group_part(group)).into()
}

fn is_old(age: Option<Age>) -> bool {
    age.is_some_and(|age| age.seconds > OLD_SECONDS)
}

/// Whether a group had members and has none.
pub(crate) fn is_left_alone(group: &Group) -> bool {
    // Without a type it never had members: its consumers only keep their offsets in it.
    group.is_unused() && !group.protocol_type.is_empty()
}

fn without_members(snapshot: &Snapshot) -> Option<Finding> {
    let is_waited_for = |group: &Group| group.lag_records() > Some(0) && is_old(group.lag_age());
    let alone = snapshot.groups.iter().filter(|(_, group)| is_left_alone(group) && is_waited_for(group));
    let alone: Vec<_> = alone.collect();
    let records: i64 = alone.iter().filter_map(|(_, group)| group.lag_records()).sum();
    let (id, _) = alone.first()?;
    let names: Vec<_> = alone.iter().take(NAMED).map(|(id, _)| name_shown(id)).collect();
    let what = match alone.len() {
        1 => format!(
            "Group {} has no members, and {} to read.",
            names[0],
            counted(records.unsigned_abs() as usize, "record")
        ),
        groups => format!(
            "{groups} groups have no members, and {} to read: {}{}.",
            counted(records.unsigned_abs() as usize, "record"),
            names.join(", "),
            if groups > NAMED { " and others" } else { "" }
        ),
    };
    Some(Finding {
        severity: Severity::Warn,
        what,
        advice: "Start the consumers, or delete what nobody needs any more.".to_owned(),
        href: if alone.len() == 1 { href(id) } else { "/groups?sort=lag".into() },
    })
}

/// Partitions with old records that no member reads, though members read others of the same topic.
fn unread_partitions(group: &Group) -> Option<String> {
    if group.state != "Stable" {
        return None;
    }
    let readers = group.readers();
    let topics: HashSet<_> = readers.keys().map(|of| of.topic.as_str()).collect();
    let unread = group.positions.iter().filter(|(of, position)| {
        position.lag_records > Some(0)
            && is_old(position.lag_age)
            && topics.contains(of.topic.as_str())
            && !readers.contains_key(of)
    });
    Some(unread.count()).filter(|unread| *unread > 0).map(|unread| counted(unread, "partition"))
}

/// How a group has fallen behind for minutes, if it has.
pub(crate) fn falls_behind(history: &History, id: &str, group: &Group) -> Option<Growth> {
    match is_old(group.lag_age()) && !is_left_alone(group) {
        true => history.falls_behind(id),
        false => None,
    }
}

fn falling(id: &str, growth: Growth) -> Finding {
    let Growth { seconds, from_records, to_records, has_committed } = growth;
    let advice = match has_committed {
        true => {
            "Its members read less than comes in: add members, as far as there are partitions, or make them faster."
        }
        false => "It has committed nothing in that time: look whether its members hang, or fail again and again.",
    };
    Finding {
        severity: Severity::Warn,
        what: format!(
            "Group {} is falling behind: in the last {} its lag has grown from {} to {} records.",
            name_shown(id),
            duration(seconds),
            count(from_records),
            count(to_records)
        ),
        advice: advice.to_owned(),
        href: href(id),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use tokio::time::Instant;

    use client::TopicPartition;

    use super::*;
    use crate::snapshot::{Member, Position};

    fn group(state: &str, protocol_type: &str, lag: i64, age_seconds: f64) -> Group {
        let position =
            Position { lag_records: Some(lag), lag_age: Some(Age::exactly(age_seconds)), ..Position::default() };
        Group {
            state: state.to_owned(),
            protocol_type: protocol_type.to_owned(),
            positions: [(TopicPartition::new("a", 0), position)].into(),
            ..Group::default()
        }
    }

    fn found(groups: impl IntoIterator<Item = (&'static str, Group)>) -> Vec<(String, String)> {
        let mut snapshot = Snapshot::empty();
        snapshot.groups = groups.into_iter().map(|(id, group)| (id.to_owned(), group)).collect();
        let mut findings = Vec::new();
        find(&snapshot, &History::default(), &mut findings);
        findings.into_iter().map(|finding| (finding.what, finding.href.into_owned())).collect()
    }

    #[test]
    fn groups_without_members_and_with_old_records_are_told_together() {
        let calm = [
            ("read", group("Empty", "consumer", 0, 0.0)),
            ("young", group("Empty", "consumer", 5, 10.0)),
            ("busy", group("Stable", "consumer", 5, 100.0)),
            ("offsets-only", group("Empty", "", 5, 100.0)),
        ];
        assert_eq!(found(calm), []);
        let one = found([("a b", group("Empty", "consumer", 1, 100.0))]);
        assert_eq!(one, [("Group a b has no members, and 1 record to read.".to_owned(), "/groups/a%20b".to_owned())]);
        let many = found(["a", "b", "c", "d"].map(|id| (id, group("Empty", "consumer", 1000, 100.0))));
        let what = "4 groups have no members, and 4,000 records to read: a, b, c and others.";
        assert_eq!(many, [(what.to_owned(), "/groups?sort=lag".to_owned())]);
    }

    #[test]
    fn a_partition_that_no_member_reads_is_told_where_members_read_the_topic() {
        let with_member = |topic, partition| {
            let assigned = vec![TopicPartition::new(topic, partition)];
            let members = vec![Member { assigned, ..Member::default() }];
            [("g", Group { members, ..group("Stable", "consumer", 5, 100.0) })]
        };
        assert_eq!(found(with_member("a", 0)), []);
        // It may have stopped to read that topic.
        assert_eq!(found(with_member("b", 0)), []);
        let what = "Group g has members, and yet no consumer reads 1 partition of its topics.";
        assert_eq!(found(with_member("a", 1)), [(what.to_owned(), "/groups/g".to_owned())]);
    }

    #[test]
    fn a_group_that_falls_behind_is_told_once_its_lag_is_old() {
        let looks = |age_seconds| {
            let (mut history, began) = (History::default(), Instant::now());
            let mut snapshot = Snapshot::empty();
            for at in 0..25 {
                let grown = group("Stable", "consumer", 100 + at * 10, age_seconds);
                snapshot.at = began + Duration::from_secs(at as u64 * 10);
                snapshot.groups = [("g".to_owned(), grown)].into();
                history.note(&mut snapshot);
            }
            let mut findings = Vec::new();
            find(&snapshot, &history, &mut findings);
            findings
        };
        assert_eq!(looks(30.0), []);
        let [finding] = <[_; 1]>::try_from(looks(90.0)).unwrap();
        assert_eq!(
            finding.what,
            "Group g is falling behind: in the last 4 min its lag has grown from 100 to 340 records."
        );
        assert!(finding.advice.starts_with("It has committed nothing"), "{}", finding.advice);
    }
}
