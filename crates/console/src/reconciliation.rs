//! Groups of the consumer protocol (KIP-848) on their way to an assignment: how far each member is, and who holds the
//! others up. A member is given a partition only when nobody has it any more, so what one does not release others wait
//! for. It is told from what the coordinator says at a moment, and knows nothing of before.

use std::collections::{BTreeMap, BTreeSet};

use client::{GroupEpochs, TopicPartition};

use crate::format::{count, counted, name_shown};
use crate::snapshot::{Group, Member};

/// Of a static member that has left, and whose place is kept for it (`LEAVE_GROUP_STATIC_MEMBER_EPOCH`).
const STATIC_LEAVE_EPOCH: i32 = -2;
/// Of members that wait so many are named.
const NAMED: usize = 3;
/// Of partitions, in a sentence.
pub(crate) const PARTITIONS_NAMED: usize = 10;

/// What a member has still to do to have its assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing: it has what it is to have.
    Stable,
    /// It is a static member that has left; its partitions are kept for it.
    Left,
    /// It has partitions that it is not to have.
    Releasing,
    /// It has not reached the epoch of the assignment.
    Behind,
    /// Others have what it is to have, or had it a moment ago.
    Waiting,
}

/// Where a member is on its way.
#[derive(Debug)]
pub(crate) struct Standing<'a> {
    pub step: Step,
    /// What it has and is not to have.
    pub to_release: Vec<&'a TopicPartition>,
    /// What it is to have and does not have.
    pub awaited: Vec<&'a TopicPartition>,
}

/// A member without which the group does not get to its assignment.
#[derive(Debug)]
pub(crate) struct Holder<'a> {
    pub member: &'a Member,
    pub step: Step,
    pub epoch: i32,
    pub assignment_epoch: i32,
    /// What it has to release.
    pub partitions: Vec<&'a TopicPartition>,
    /// Whether it is not told that it has them: nobody else can.
    pub is_presumed: bool,
    /// The members that are to have them.
    pub waiting: Vec<&'a Member>,
}

impl Step {
    /// Its name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Left => "left",
            Self::Releasing => "releasing",
            Self::Behind => "behind",
            Self::Waiting => "waiting",
        }
    }
}

impl<'a> Standing<'a> {
    /// `None` in a group of another protocol.
    pub(crate) fn of(member: &'a Member, epochs: GroupEpochs) -> Option<Self> {
        let progress = member.progress.as_ref()?;
        let assigned: BTreeSet<_> = member.assigned.iter().collect();
        let target: BTreeSet<_> = progress.target.iter().collect();
        let to_release: Vec<_> = assigned.difference(&target).copied().collect();
        let awaited: Vec<_> = target.difference(&assigned).copied().collect();
        let step = if progress.epoch == STATIC_LEAVE_EPOCH {
            Step::Left
        } else if !to_release.is_empty() {
            Step::Releasing
        } else if progress.epoch != epochs.assignment {
            Step::Behind
        } else if !awaited.is_empty() {
            Step::Waiting
        } else {
            Step::Stable
        };
        Some(Self { step, to_release, awaited })
    }
}

/// The members that hold a group up, first those for which most others wait.
pub(crate) fn holders(group: &Group) -> Vec<Holder<'_>> {
    let Some(epochs) = group.epochs else { return Vec::new() };
    let standings = group.members.iter().filter_map(|member| Some((member, Standing::of(member, epochs)?)));
    let standings: Vec<_> = standings.collect();
    let wanted: BTreeMap<_, _> =
        standings.iter().flat_map(|(member, of)| of.awaited.iter().map(move |wanted| (*wanted, *member))).collect();
    let owned: BTreeSet<_> = group.members.iter().flat_map(|member| &member.assigned).collect();
    // Some brokers leave out what a member has been told to release (Kafka 4.0): who is not at the epoch may have
    // what nobody else has.
    let unclaimed: Vec<_> = wanted.keys().copied().filter(|of| !owned.contains(of)).collect();
    let holders = standings.into_iter().filter_map(|(member, standing)| {
        let is_presumed = standing.to_release.is_empty() && standing.step == Step::Behind;
        let partitions = match is_presumed {
            true => {
                let is_its_own =
                    |of: &&TopicPartition| wanted.get(of).is_some_and(|wants| std::ptr::eq(*wants, member));
                unclaimed.iter().copied().filter(|of| !is_its_own(of)).collect()
            }
            false => standing.to_release,
        };
        let mut waiting: Vec<&Member> = partitions.iter().filter_map(|of| wanted.get(of).copied()).collect();
        waiting.sort_by_key(|member| &member.id);
        waiting.dedup_by_key(|member| &member.id);
        let holds = matches!(standing.step, Step::Left | Step::Releasing | Step::Behind);
        holds.then(|| Holder {
            member,
            step: standing.step,
            epoch: member.progress.as_ref().map_or(-1, |progress| progress.epoch),
            assignment_epoch: epochs.assignment,
            is_presumed,
            partitions,
            waiting,
        })
    });
    let mut holders: Vec<_> = holders.collect();
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.waiting.len()));
    holders
}

impl Holder<'_> {
    /// That it holds the others up, and by what.
    pub(crate) fn text(&self) -> String {
        let Self { epoch, assignment_epoch, .. } = self;
        let member = member_text(self.member);
        let partitions = partitions_text(self.partitions.iter().copied(), PARTITIONS_NAMED);
        let waiting = waiting_text(&self.waiting);
        let epochs = format!("at epoch {epoch}, and the assignment at {assignment_epoch}");
        match (self.step, self.partitions.is_empty(), self.waiting.is_empty()) {
            (Step::Left, _, true) => format!("Static member {member} has left, and keeps its partitions."),
            (Step::Left, _, false) => {
                format!("Static member {member} has left, and keeps {partitions}, for which {waiting}.")
            }
            (_, false, false) if self.is_presumed => {
                format!(
                    "Member {member} holds up the rebalance: it is {epochs}. It may still have {partitions}, for which {waiting}."
                )
            }
            (_, false, false) => {
                format!(
                    "Member {member} holds up the rebalance: it has not released {partitions}, for which {waiting}. It is {epochs}."
                )
            }
            (Step::Releasing, ..) => format!(
                "Member {member} has not released {partitions}, which it is not to read any more. Nobody waits for \
                 that. It is {epochs}."
            ),
            _ => format!("Member {member} is {epochs}. Nobody waits for it."),
        }
    }

    /// What to do where it stays so.
    pub(crate) fn advice(&self) -> &'static str {
        match self.step {
            Step::Left => "They go to others when its session timeout is over, or to itself when it comes back before.",
            Step::Releasing => {
                "It releases them in its next poll, when its callback for revoked partitions has returned. A member \
                 that does not within its max.poll.interval.ms is put out of the group: look what it works on so long, \
                 or whether it hangs."
            }
            _ => {
                "It gets there with its next heartbeat. A member that sends none is put out of the group after its \
                 session timeout."
            }
        }
    }
}

/// What the group as a whole waits for, where no member is to blame.
pub(crate) fn note(group: &Group) -> Option<String> {
    let epochs = group.epochs.filter(|_| !group.is_unused())?;
    if epochs.group > epochs.assignment {
        return Some(format!(
            "The group is at epoch {}, and its assignment at {}: its members or topics have changed, and the next \
             assignment is made with the next heartbeat of a member, but not sooner than \
             consumer.assignment.interval.ms after the one before.",
            epochs.group, epochs.assignment
        ));
    }
    let mut standings = group.members.iter().filter_map(|member| Standing::of(member, epochs));
    let waits = standings.any(|standing| standing.step == Step::Waiting) && holders(group).is_empty();
    waits.then(|| {
        "No member holds up the rebalance: what is free is given to its members with their next heartbeats.".to_owned()
    })
}

fn waiting_text(waiting: &[&Member]) -> String {
    let named: Vec<_> = waiting.iter().take(NAMED).map(|member| member_text(member)).collect();
    let verb = if waiting.len() == 1 { "waits" } else { "wait" };
    match waiting.len().saturating_sub(NAMED) {
        0 => format!("{} {verb}", named.join(" and ")),
        more => format!("{} and {} {verb}", named.join(", "), counted(more, "other")),
    }
}

/// Client ids may be the same, and ids of members say nothing to people.
fn member_text(member: &Member) -> String {
    let client_id = name_shown(&member.client_id);
    match &member.instance_id {
        Some(instance_id) => format!("{} ({client_id})", name_shown(instance_id)),
        None => format!("{client_id} ({})", name_shown(&member.id)),
    }
}

/// The numbers of partitions by topic, at most so many: `orders 0, 1, 2; payments 3`.
pub(crate) fn partitions_text<'a>(partitions: impl ExactSizeIterator<Item = &'a TopicPartition>, max: usize) -> String {
    let more = partitions.len().saturating_sub(max);
    let mut text = String::new();
    let mut topic = None;
    for of in partitions.take(max) {
        match topic.replace(&of.topic) {
            Some(before) if *before == of.topic => text.push_str(", "),
            Some(_) => text.push_str(&format!("; {} ", of.topic)),
            None => text.push_str(&format!("{} ", of.topic)),
        }
        text.push_str(&of.partition.to_string());
    }
    if more > 0 {
        text.push_str(&format!(" and {} more", count(more as u64)));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use client::MemberProgress;

    use super::*;

    fn of_t(partitions: &[i32]) -> Vec<TopicPartition> {
        partitions.iter().map(|partition| TopicPartition::new("t", *partition)).collect()
    }

    pub(crate) fn member(id: &str, epoch: i32, assigned: &[i32], target: &[i32]) -> Member {
        Member {
            id: id.to_owned(),
            client_id: format!("client-{id}"),
            assigned: of_t(assigned),
            progress: Some(MemberProgress { epoch, target: of_t(target), ..MemberProgress::default() }),
            ..Member::default()
        }
    }

    pub(crate) fn group(epochs: (i32, i32), members: Vec<Member>) -> Group {
        let epochs = Some(GroupEpochs { group: epochs.0, assignment: epochs.1 });
        Group { state: "Reconciling".to_owned(), epochs, members, ..Group::default() }
    }

    fn texts(group: &Group) -> Vec<String> {
        holders(group).iter().map(Holder::text).collect()
    }

    #[test]
    fn a_member_is_somewhere_on_its_way() {
        let epochs = GroupEpochs { group: 4, assignment: 4 };
        let step = |epoch, assigned: &[i32], target: &[i32]| {
            Standing::of(&member("m", epoch, assigned, target), epochs).unwrap().step
        };
        assert_eq!([step(4, &[0, 1], &[0, 1]), step(3, &[0], &[0])], [Step::Stable, Step::Behind]);
        assert_eq!([step(3, &[0, 1], &[0]), step(4, &[0, 1], &[0])], [Step::Releasing; 2]);
        assert_eq!([step(4, &[0], &[0, 1]), step(3, &[0], &[0, 1])], [Step::Waiting, Step::Behind]);
        assert_eq!(step(-2, &[0], &[0]), Step::Left);
        assert!(Standing::of(&Member::default(), epochs).is_none());
        let (had, wanted) = (member("m", 3, &[0, 1], &[1, 2]), of_t(&[0, 2]));
        let standing = Standing::of(&had, epochs).unwrap();
        assert_eq!((standing.to_release, standing.awaited), (vec![&wanted[0]], vec![&wanted[1]]));
    }

    #[test]
    fn who_does_not_release_what_others_wait_for_is_named_first() {
        let of_group = |members| group((4, 4), members);
        let told = texts(&of_group(vec![
            member("late", 3, &[5], &[5]),
            member("slow", 3, &[0, 1, 2], &[0]),
            member("b", 4, &[], &[1]),
            member("c", 4, &[3], &[2, 3]),
        ]));
        assert_eq!(
            told,
            [
                "Member client-slow (slow) holds up the rebalance: it has not released t 1, 2, for which client-b (b) \
                 and client-c (c) wait. It is at epoch 3, and the assignment at 4.",
                "Member client-late (late) is at epoch 3, and the assignment at 4. Nobody waits for it.",
            ]
        );
        let told = texts(&of_group(vec![member("a", 4, &[0, 1], &[0])]));
        let what = "Member client-a (a) has not released t 1, which it is not to read any more. Nobody waits for that. \
                    It is at epoch 4, and the assignment at 4.";
        assert_eq!(told, [what]);
        assert_eq!(texts(&of_group(vec![member("a", 4, &[0], &[0]), member("b", 4, &[1], &[1])])), [""; 0]);
    }

    #[test]
    fn many_that_wait_are_not_all_named() {
        let waiting = (0..5).map(|at| member(&at.to_string(), 4, &[], &[at]));
        let slow = member("slow", 3, &[0, 1, 2, 3, 4], &[]);
        let told = texts(&group((4, 4), waiting.chain([slow]).collect()));
        assert!(told[0].contains("for which client-0 (0), client-1 (1), client-2 (2) and 2 others wait."), "{told:?}");
    }

    #[test]
    fn a_member_behind_may_have_what_nobody_tells_of() {
        let told = texts(&group((4, 4), vec![member("a", 3, &[0], &[0]), member("b", 4, &[], &[1])]));
        let what = "Member client-a (a) holds up the rebalance: it is at epoch 3, and the assignment at 4. It may still \
                    have t 1, for which client-b (b) waits.";
        assert_eq!(told, [what]);
        // What it waits for itself it does not hold.
        let told = texts(&group((4, 4), vec![member("a", 3, &[0], &[0, 1])]));
        assert_eq!(told, ["Member client-a (a) is at epoch 3, and the assignment at 4. Nobody waits for it."]);
    }

    #[test]
    fn a_static_member_that_has_left_keeps_its_partitions() {
        let left = Member { instance_id: Some("i-1".to_owned()), ..member("a", -2, &[0, 1], &[0]) };
        let told = texts(&group((4, 4), vec![left.clone(), member("b", 4, &[], &[1])]));
        let what = "Static member i-1 (client-a) has left, and keeps t 1, for which client-b (b) waits.";
        assert_eq!(told, [what]);
        let told = texts(&group((4, 4), vec![left]));
        assert_eq!(told, ["Static member i-1 (client-a) has left, and keeps its partitions."]);
    }

    #[test]
    fn what_no_member_is_to_blame_for_is_told_of_the_group() {
        let assigning = group((5, 4), vec![member("a", 4, &[0], &[0])]);
        assert!(
            note(&assigning).is_some_and(|note| note.starts_with("The group is at epoch 5, and its assignment at 4"))
        );
        let free = group((4, 4), vec![member("a", 4, &[0], &[0, 1])]);
        assert!(note(&free).is_some_and(|note| note.starts_with("No member holds up the rebalance")));
        assert_eq!(note(&group((4, 4), vec![member("a", 4, &[0], &[0])])), None);
        assert_eq!(note(&group((4, 4), vec![member("a", 3, &[0], &[0]), member("b", 4, &[], &[1])])), None);
        assert_eq!(note(&Group { state: "Empty".to_owned(), ..group((5, 4), Vec::new()) }), None);
        assert_eq!((note(&Group::default()), holders(&Group::default()).len()), (None, 0));
    }

    #[test]
    fn partitions_are_told_by_topic() {
        let of = |topic: &str, partition| TopicPartition::new(topic, partition);
        assert_eq!(partitions_text([].iter(), 3), "");
        assert_eq!(partitions_text([of("a", 0), of("a", 2), of("b", 1)].iter(), 3), "a 0, 2; b 1");
        assert_eq!(partitions_text([of("a", 0), of("a", 2), of("b", 1)].iter(), 2), "a 0, 2 and 1 more");
    }
}
