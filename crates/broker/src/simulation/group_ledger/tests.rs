//! Histories of groups that break what must hold are found.

use coordinator::group::consumer::{Assigned, Current, GroupEpoch, MemberState, Record, TargetEpoch};
use wire::Uuid;

use super::{Answered, Attempt, Group};

const TOPIC: Uuid = Uuid([7; 16]);

fn current(epoch: i32, partitions: &[i32], pending: &[i32]) -> Current {
    let assigned = |partitions: &[i32]| -> Assigned {
        let partitions = partitions.iter().map(|index| (*index, epoch)).collect();
        [(TOPIC, partitions)].into()
    };
    Current {
        epoch,
        previous_epoch: epoch - 1,
        state: MemberState::Stable,
        assigned: assigned(partitions),
        pending_revocation: assigned(pending),
    }
}

fn has(group: &mut Group, member: &str, current: Current) {
    let metadata = Some(Default::default());
    group.take(Record::Member { member_id: member.to_owned(), metadata });
    group.take(Record::Current { member_id: member.to_owned(), current: Some(current) });
}

/// A group in epoch 5 with a member that has one of two partitions.
fn group() -> Group {
    let mut group = Group::default();
    group.take(Record::Epoch(Some(GroupEpoch { epoch: 5, metadata_hash: 0 })));
    group.take(Record::TargetEpoch(Some(TargetEpoch { epoch: 5, timestamp_ms: 0 })));
    has(&mut group, "a", current(4, &[0], &[]));
    group.check("g");
    group
}

fn attempt(member: &str, epoch: i32, index: i32) -> Attempt {
    Attempt { group: "g".to_owned(), member: member.to_owned(), epoch, partition: (TOPIC, index) }
}

#[test]
fn what_is_right_passes() {
    let mut group = group();
    has(&mut group, "b", current(5, &[1], &[]));
    group.check("g");
    group.check_commit(&attempt("b", 5, 1));
    // It has the partition since epoch 4.
    has(&mut group, "a", Current { epoch: 5, ..current(4, &[0], &[]) });
    group.check_commit(&attempt("a", 4, 0));
    let assigned = Some([(TOPIC, 1)].into());
    group.check_answered(&Answered { group: "g".to_owned(), member: "b".to_owned(), epoch: 5, assigned });
}

#[test]
#[should_panic = "b and a have"]
fn a_partition_of_two_members_is_found() {
    let mut group = group();
    has(&mut group, "b", current(5, &[0], &[]));
    group.check("g");
}

#[test]
#[should_panic = "b and a have"]
fn a_partition_that_is_still_to_be_given_up_is_found() {
    let mut group = group();
    has(&mut group, "a", current(4, &[], &[0]));
    has(&mut group, "b", current(5, &[0], &[]));
    group.check("g");
}

#[test]
#[should_panic = "a is Current { epoch: 3"]
fn an_epoch_that_decreases_is_found() {
    has(&mut group(), "a", current(3, &[0], &[]));
}

#[test]
#[should_panic = "its member is fenced"]
fn a_commit_of_an_older_epoch_is_found() {
    let mut group = group();
    has(&mut group, "a", current(5, &[], &[]));
    group.check_commit(&attempt("a", 4, 0));
}

#[test]
#[should_panic = "its member is fenced"]
fn a_commit_of_who_is_gone_is_found() {
    let mut group = group();
    group.take(Record::Current { member_id: "a".to_owned(), current: None });
    group.check_commit(&attempt("a", 4, 0));
}

#[test]
#[should_panic = "in the log there is None"]
fn an_answer_that_was_not_written_is_found() {
    let answered = Answered { group: "g".to_owned(), member: "a".to_owned(), epoch: 5, assigned: None };
    group().check_answered(&answered);
}
