//! Single behaviours, and long random runs compared with a model that computes everything anew at each step.

use std::collections::{BTreeMap, BTreeSet};

use storage::simdisk::Rng;

use super::*;

const LAG_MAX_MS: i64 = 100;

fn active(epoch: i64) -> Option<Registration> {
    Some(Registration { epoch, is_active: true })
}

fn assignment(partition_epoch: i32, isr: &[i32]) -> Assignment {
    Assignment { leader_epoch: 5, partition_epoch, replicas: vec![1, 2, 3], isr: isr.to_vec() }
}

fn local(log_end_offset: i64) -> LocalOffsets {
    LocalOffsets { log_end_offset, synced_offset: log_end_offset }
}

fn lead(isr: &[i32], min_insync_replicas: usize, log_end_offset: i64) -> Leadership {
    let limits = Limits { min_insync_replicas, lag_max_ms: LAG_MAX_MS, withholds: false };
    Leadership::begin(1, assignment(0, isr), limits, local(log_end_offset), Promised::default(), |_| active(7), 0)
}

fn fetch(fetch_offset: i64, now_ms: i64) -> FollowerFetch {
    FollowerFetch {
        fetch_offset,
        synced_offset: fetch_offset,
        log_start_offset: 0,
        is_damaged: false,
        broker_epoch: 7,
        now_ms,
    }
}

fn offsets(leadership: &Leadership) -> (i64, i64) {
    (leadership.high_watermark(), leadership.durable_offset())
}

fn accept(leadership: &mut Leadership, now_ms: i64) {
    let proposal = leadership.proposal().expect("something is proposed");
    let isr = proposal.isr.iter().map(|(id, _)| *id).collect();
    let altered = Altered { leader_epoch: 5, partition_epoch: proposal.partition_epoch + 1, isr };
    assert!(leadership.altered(&proposal, altered, now_ms));
}

#[test]
fn the_only_replica_in_sync_goes_by_itself() {
    let mut leadership = lead(&[1], 1, 10);
    assert_eq!(offsets(&leadership), (10, 10));
    leadership.update_local(LocalOffsets { log_end_offset: 15, synced_offset: 12 }, 1);
    assert_eq!(offsets(&leadership), (15, 12));
}

#[test]
fn the_low_watermark_is_the_least_start_of_those_that_live() {
    let mut leadership = lead(&[1, 2], 1, 10);
    assert_eq!(leadership.low_watermark(7), -1, "nothing is known of the others");
    leadership.update_fetch_state(2, FollowerFetch { log_start_offset: 5, ..fetch(10, 1) }).unwrap();
    leadership.update_fetch_state(3, FollowerFetch { log_start_offset: 4, ..fetch(8, 1) }).unwrap();
    assert_eq!(leadership.low_watermark(7), 4, "it need not be in sync");
    leadership.update_brokers(|id| active(7).filter(|_| id != 3), 2);
    assert_eq!(leadership.low_watermark(7), 5);
    assert_eq!(leadership.low_watermark(3), 3);
    leadership.update_brokers(|_| Some(Registration { epoch: 7, is_active: false }), 3);
    assert_eq!(leadership.low_watermark(7), 7);
}

#[test]
fn the_offsets_are_those_of_the_slowest_in_sync() {
    let mut leadership = lead(&[1, 2, 3], 1, 10);
    assert_eq!(offsets(&leadership), (0, 0), "nothing is known of the others");
    leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
    assert_eq!(offsets(&leadership), (0, 0));
    leadership.update_fetch_state(3, FollowerFetch { synced_offset: 4, ..fetch(8, 1) }).unwrap();
    assert_eq!(offsets(&leadership), (8, 4));
    leadership.update_fetch_state(3, fetch(3, 2)).unwrap();
    assert_eq!(offsets(&leadership), (8, 4), "what was promised stays promised");
}

#[test]
fn what_a_producer_waits_for_is_not_read_before_it_is_on_all_disks() {
    let mut leadership = lead(&[1, 2], 1, 10);
    leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
    leadership.begin_append(10);
    leadership.update_local(LocalOffsets { log_end_offset: 20, synced_offset: 10 }, 2);
    leadership.update_fetch_state(2, FollowerFetch { synced_offset: 10, ..fetch(20, 2) }).unwrap();
    assert_eq!(offsets(&leadership), (10, 10), "nobody has told yet what was appended");
    leadership.end_append(15, 20);
    leadership.update_local(LocalOffsets { log_end_offset: 20, synced_offset: 10 }, 3);
    assert_eq!(offsets(&leadership), (15, 10));
    leadership.update_local(local(20), 4);
    assert_eq!(offsets(&leadership), (15, 10), "one of two disks");
    leadership.update_local(local(22), 5);
    leadership.update_fetch_state(2, FollowerFetch { synced_offset: 20, ..fetch(22, 5) }).unwrap();
    assert_eq!(offsets(&leadership), (22, 20));
    assert!(!leadership.withholds());
}

#[test]
fn a_leader_shows_nothing_that_its_predecessor_may_not_have_shown() {
    let limits = Limits { min_insync_replicas: 1, lag_max_ms: LAG_MAX_MS, withholds: true };
    let begin = |isr: &[i32], synced_offset| {
        let local = LocalOffsets { log_end_offset: 10, synced_offset };
        let promised = Promised { high_watermark: 4, durable_offset: 4 };
        Leadership::begin(1, assignment(0, isr), limits, local, promised, |_| None, 0)
    };
    assert_eq!(offsets(&begin(&[1], 7)), (7, 7));
    assert_eq!(offsets(&begin(&[1], 10)), (10, 10));
    let mut leadership = begin(&[1, 2], 10);
    leadership.update_fetch_state(2, FollowerFetch { synced_offset: 6, ..fetch(10, 1) }).unwrap();
    assert_eq!(offsets(&leadership), (6, 6));
}

#[test]
fn one_that_lags_leaves_and_holds_nothing_back() {
    let mut leadership = lead(&[1, 2, 3], 1, 10);
    leadership.update_fetch_state(2, fetch(10, 90)).unwrap();
    leadership.update_fetch_state(3, fetch(6, 90)).unwrap();
    assert!(!leadership.propose_to_shrink(LAG_MAX_MS));
    assert!(leadership.propose_to_shrink(LAG_MAX_MS + 1));
    assert_eq!(leadership.proposal().unwrap().isr, [(1, -1), (2, 7)]);
    leadership.update_local(local(20), 102);
    leadership.update_fetch_state(2, fetch(20, 102)).unwrap();
    assert_eq!(leadership.high_watermark(), 6, "the controller may not agree");
    accept(&mut leadership, 103);
    assert_eq!(offsets(&leadership), (20, 20));
}

#[test]
fn one_that_has_lost_or_damaged_something_leaves_at_once_and_comes_back_whole() {
    let damaged = FollowerFetch { is_damaged: true, ..fetch(10, 2) };
    for (lost, whole_again) in [(fetch(4, 2), fetch(10, 4)), (damaged, fetch(10, 4))] {
        let mut leadership = lead(&[1, 2, 3], 1, 10);
        leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
        leadership.update_fetch_state(3, fetch(10, 1)).unwrap();
        assert_eq!(leadership.high_watermark(), 10);
        assert!(!leadership.is_unfit(3));
        leadership.update_fetch_state(3, lost).unwrap();
        assert!(leadership.is_unfit(3));
        assert!(leadership.propose_to_shrink(2));
        assert_eq!(leadership.proposal().unwrap().isr, [(1, -1), (2, 7)]);
        accept(&mut leadership, 3);
        leadership.update_fetch_state(3, lost).unwrap();
        assert!(!leadership.propose_to_add(3, 3));
        leadership.update_fetch_state(3, whole_again).unwrap();
        assert!(leadership.propose_to_add(3, 4));
    }
}

#[test]
fn a_leader_resigns_in_favour_of_one_that_is_whole() {
    let mut leadership = lead(&[1, 2, 3], 1, 10);
    assert!(!leadership.propose_hand_over(), "nobody has said what it has");
    leadership.update_fetch_state(2, FollowerFetch { is_damaged: true, ..fetch(10, 1) }).unwrap();
    assert!(!leadership.propose_hand_over());
    leadership.update_fetch_state(3, fetch(10, 1)).unwrap();
    assert!(leadership.propose_hand_over());
    assert_eq!(leadership.proposal().unwrap().isr, [(3, 7)]);
    assert!(!leadership.propose_hand_over(), "once");
}

#[test]
fn one_that_keeps_up_with_what_there_was_at_its_last_fetch_stays() {
    let mut leadership = lead(&[1, 2], 1, 10);
    for step in 1..10 {
        // Never at the end, but always with what was there a fetch ago.
        leadership.update_fetch_state(2, fetch(10 * (step - 1), 80 * step)).unwrap();
        leadership.update_local(local(10 * step + 10), 80 * step);
        assert!(!leadership.propose_to_shrink(80 * step), "at {step}");
    }
}

#[test]
fn one_enters_with_all_that_is_promised_and_counts_from_the_proposal_on() {
    let mut leadership = lead(&[1, 2], 1, 10);
    leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
    leadership.update_fetch_state(3, fetch(9, 1)).unwrap();
    assert!(!leadership.propose_to_add(3, 1));
    leadership.update_fetch_state(3, FollowerFetch { synced_offset: 5, ..fetch(10, 2) }).unwrap();
    assert!(!leadership.propose_to_add(3, 2), "its disk lacks what is promised to be there");
    assert_eq!(leadership.must_sync_to_enter(3), Some(10));
    leadership.update_fetch_state(3, fetch(10, 3)).unwrap();
    assert!(leadership.propose_to_add(3, 3));
    leadership.update_local(local(20), 4);
    leadership.update_fetch_state(2, fetch(20, 4)).unwrap();
    // Much later, when it would not count as caught up any more.
    leadership.update_brokers(|_| active(7), 1000);
    assert_eq!(leadership.high_watermark(), 10);
    accept(&mut leadership, 1001);
    assert_eq!(leadership.isr(), [1, 2, 3]);
}

#[test]
fn one_enters_with_all_that_a_leader_before_may_have_promised() {
    let limits = Limits { min_insync_replicas: 1, lag_max_ms: LAG_MAX_MS, withholds: false };
    // Its process was killed: all is there, and nothing is known to be synced.
    let restarted = LocalOffsets { log_end_offset: 10, synced_offset: 0 };
    let promised = Promised::default();
    let mut leadership = Leadership::begin(1, assignment(0, &[1, 2]), limits, restarted, promised, |_| active(7), 0);
    assert_eq!(leadership.durable_offset(), 0);
    leadership.update_fetch_state(3, FollowerFetch { synced_offset: 9, ..fetch(10, 1) }).unwrap();
    assert!(!leadership.propose_to_add(3, 1));
    assert_eq!(leadership.must_sync_to_enter(3), Some(10));
    leadership.update_fetch_state(3, fetch(10, 2)).unwrap();
    assert!(leadership.propose_to_add(3, 2));
}

#[test]
fn one_that_is_about_to_enter_holds_the_offsets_back_and_one_that_is_not_does_not() {
    let mut leadership = lead(&[1], 1, 10);
    leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
    leadership.update_local(local(20), 2);
    assert_eq!(leadership.high_watermark(), 10);
    leadership.update_brokers(|_| Some(Registration { epoch: 7, is_active: false }), 3);
    assert_eq!(leadership.high_watermark(), 20, "a fenced broker will not enter");
    leadership.update_brokers(|_| active(7), 4);
    leadership.update_local(local(30), 5 + LAG_MAX_MS);
    assert_eq!(leadership.high_watermark(), 30, "it has not caught up for long");
}

#[test]
fn a_fetch_from_before_a_restart_is_refused() {
    let mut leadership = lead(&[1, 2], 1, 10);
    leadership.update_brokers(|_| active(8), 0);
    assert_eq!(leadership.update_fetch_state(2, fetch(10, 1)), Err(ErrorCode::NOT_LEADER_OR_FOLLOWER));
    assert_eq!(leadership.update_fetch_state(4, fetch(10, 1)), Err(ErrorCode::UNKNOWN_LEADER_EPOCH));
    assert_eq!(offsets(&leadership), (0, 0));
}

#[test]
fn an_epoch_begins_behind_what_followers_need_to_enter() {
    let mut leadership = lead(&[1, 2], 1, 10);
    leadership.update_fetch_state(3, fetch(5, 1)).unwrap();
    assert!(!leadership.propose_to_add(3, 1), "above the high watermark of before, but below the epoch's start");
}

#[test]
fn too_few_in_sync_promise_nothing() {
    let mut leadership = lead(&[1], 2, 10);
    assert_eq!((offsets(&leadership), leadership.reached()), ((0, 0), local(10)));
    assert!(leadership.update(assignment(1, &[1, 2]), |_| active(7), 1));
    leadership.update_fetch_state(2, fetch(10, 2)).unwrap();
    assert_eq!(offsets(&leadership), (10, 10));
    // No more is wanted than there are.
    let alone = Assignment { replicas: vec![1], isr: vec![1], partition_epoch: 2, ..Assignment::default() };
    assert!(leadership.update(Assignment { leader_epoch: 5, ..alone }, |_| active(7), 3));
    assert!(!leadership.is_under_min_isr());
}

#[test]
fn refusals_are_taken_as_kafka_takes_them() {
    for (code, after) in [
        (ErrorCode::INELIGIBLE_REPLICA, AfterRefusal::Dropped),
        (ErrorCode::OPERATION_NOT_ATTEMPTED, AfterRefusal::Dropped),
        (ErrorCode::INVALID_UPDATE_VERSION, AfterRefusal::WaitForMetadata),
        (ErrorCode::FENCED_LEADER_EPOCH, AfterRefusal::WaitForMetadata),
        (ErrorCode::NEW_LEADER_ELECTED, AfterRefusal::WaitForMetadata),
        (ErrorCode::NOT_CONTROLLER, AfterRefusal::Retry),
        (ErrorCode::REQUEST_TIMED_OUT, AfterRefusal::Retry),
    ] {
        let mut leadership = lead(&[1], 1, 10);
        leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
        assert!(leadership.propose_to_add(2, 1));
        let proposal = leadership.proposal().unwrap();
        assert_eq!(leadership.alteration_refused(&proposal, code, 2), after, "{code}");
        assert_eq!(leadership.proposal().is_none(), after == AfterRefusal::Dropped, "{code}");
        // The metadata overrides whatever is pending.
        assert!(leadership.update(assignment(1, &[1]), |_| active(7), 3));
        assert_eq!(leadership.proposal(), None);
        assert!(!leadership.altered(&proposal, Altered { leader_epoch: 5, partition_epoch: 1, isr: vec![1, 2] }, 4));
        assert_eq!(leadership.isr(), [1]);
    }
}

#[test]
fn the_same_state_from_the_metadata_leaves_what_is_pending() {
    let mut leadership = lead(&[1], 1, 10);
    leadership.update_fetch_state(2, fetch(10, 1)).unwrap();
    assert!(leadership.propose_to_add(2, 1));
    assert!(leadership.update(assignment(0, &[1]), |_| active(7), 2));
    assert!(leadership.proposal().is_some());
    accept(&mut leadership, 3);
    assert!(!leadership.update(assignment(0, &[1]), |_| active(7), 4), "older than the controller's answer");
    assert_eq!(leadership.isr(), [1, 2]);
}

/// What the model knows of a follower: everything it has said.
#[derive(Clone, Default)]
struct Fetched {
    fetches: Vec<FollowerFetch>,
    /// The leader's log end at each of them.
    leader_ends: Vec<i64>,
}

/// Everything that has happened, and formulas that look at all of it.
struct Model {
    leadership: Leadership,
    now_ms: i64,
    local: LocalOffsets,
    isr: BTreeSet<i32>,
    initial_isr: BTreeSet<i32>,
    partition_epoch: i32,
    pending: Option<(Proposal, BTreeSet<i32>)>,
    registrations: BTreeMap<i32, Registration>,
    fetched: BTreeMap<i32, Fetched>,
    high_watermark: i64,
    durable_offset: i64,
    epoch_start_offset: i64,
    min_insync_replicas: usize,
    /// Appends whose producers wait for the disk.
    withheld: Vec<(i64, i64)>,
    trace: Vec<(i64, i64, usize)>,
}

impl Model {
    fn caught_up_ms(&self, id: i32) -> i64 {
        let fetched = &self.fetched[&id];
        let mut caught_up_ms = if self.initial_isr.contains(&id) { 0 } else { NEVER_MS };
        for (index, fetch) in fetched.fetches.iter().enumerate() {
            if fetch.fetch_offset >= fetched.leader_ends[index] {
                caught_up_ms = caught_up_ms.max(fetch.now_ms);
            } else if index > 0 && fetch.fetch_offset >= *fetched.leader_ends[..index].iter().max().unwrap() {
                caught_up_ms = caught_up_ms.max(fetched.fetches[index - 1].now_ms);
            }
        }
        caught_up_ms
    }

    fn is_caught_up(&self, id: i32) -> bool {
        let end = self.fetched[&id].fetches.last().map_or(-1, |fetch| fetch.fetch_offset);
        end == self.local.log_end_offset || self.now_ms - self.caught_up_ms(id) <= LAG_MAX_MS
    }

    fn may_join(&self, id: i32) -> bool {
        let last = self.fetched[&id].fetches.last();
        let fetched_epoch = last.map_or(-1, |fetch| fetch.broker_epoch);
        let registration = self.registrations[&id];
        let is_damaged = last.is_some_and(|fetch| fetch.is_damaged);
        registration.is_active && (fetched_epoch == -1 || fetched_epoch == registration.epoch) && !is_damaged
    }

    fn has_lost(&self, id: i32) -> bool {
        let last = self.fetched[&id].fetches.last();
        last.is_some_and(|fetch| fetch.is_damaged || fetch.fetch_offset < self.high_watermark)
    }

    fn counting(&self) -> BTreeSet<i32> {
        let mut counting = self.isr.clone();
        if let Some((_, proposed)) = &self.pending {
            counting.extend(proposed);
        }
        counting.extend([2, 3].into_iter().filter(|&id| self.may_join(id) && self.is_caught_up(id)));
        counting.remove(&1);
        counting
    }

    /// The formulas, and what must hold whatever they are.
    fn check(&mut self) {
        let last = |id: &i32| self.fetched[id].fetches.last().copied();
        let ends = self.counting().iter().map(|id| last(id).map_or(-1, |f| f.fetch_offset)).min();
        let synced = self.counting().iter().map(|id| last(id).map_or(-1, |f| f.synced_offset)).min();
        let reached = LocalOffsets {
            log_end_offset: ends.unwrap_or(i64::MAX).min(self.local.log_end_offset),
            synced_offset: synced.unwrap_or(i64::MAX).min(self.local.synced_offset),
        };
        if self.isr.len() >= self.min_insync_replicas {
            self.durable_offset = self.durable_offset.max(reached.synced_offset);
            let waiting = self.withheld.iter().find(|(start, end)| start < end && *end > self.durable_offset);
            let limit = waiting.map_or(i64::MAX, |(start, _)| self.durable_offset.max(*start));
            self.high_watermark = self.high_watermark.max(reached.log_end_offset.min(limit));
        }
        let isr: BTreeSet<i32> = self.leadership.isr().iter().copied().collect();
        assert_eq!(isr, self.isr);
        assert_eq!(offsets(&self.leadership), (self.high_watermark, self.durable_offset));
        assert!(self.high_watermark <= self.local.log_end_offset && self.durable_offset <= self.local.synced_offset);
        assert!(isr.contains(&1) && isr.is_subset(&[1, 2, 3].into()));
        self.trace.push((self.high_watermark, self.durable_offset, isr.len()));
    }

    fn step(&mut self, rng: &mut Rng) {
        self.now_ms += rng.below(30) as i64;
        let id = 2 + rng.below(2) as i32;
        match rng.below(12) {
            0..3 => {
                let start = self.local.log_end_offset;
                self.local.log_end_offset += rng.below(5) as i64;
                if rng.percent(50) {
                    let first = start + rng.below((self.local.log_end_offset - start) as u64 + 1) as i64;
                    self.leadership.begin_append(start);
                    self.leadership.end_append(first, self.local.log_end_offset);
                    self.withheld.push((first, self.local.log_end_offset));
                }
                self.leadership.update_local(self.local, self.now_ms);
            }
            3 => {
                let behind = self.local.log_end_offset - self.local.synced_offset;
                self.local.synced_offset += rng.below(behind as u64 + 1) as i64;
                self.leadership.update_local(self.local, self.now_ms);
            }
            4..8 => self.fetch(id, rng),
            8 => {
                let registration = self.registrations.get_mut(&id).unwrap();
                registration.is_active = rng.percent(70);
                registration.epoch += i64::from(rng.percent(20));
                let known = self.registrations.clone();
                self.leadership.update_brokers(|id| known.get(&id).copied(), self.now_ms);
            }
            9 => self.propose(id, rng),
            _ => self.answer(rng),
        }
        // Time passes for the one as for the other.
        let known = self.registrations.clone();
        self.leadership.update_brokers(|id| known.get(&id).copied(), self.now_ms);
        self.check();
    }

    fn fetch(&mut self, id: i32, rng: &mut Rng) {
        let before = self.fetched[&id].fetches.last().copied();
        let from = before.map_or(0, |fetch| fetch.fetch_offset);
        // Mostly on, often to the end, seldom back: a replica that lost its disk.
        let fetch_offset = match rng.below(10) {
            0 => rng.below(from as u64 + 1) as i64,
            1..5 => self.local.log_end_offset,
            _ => from + rng.below((self.local.log_end_offset - from).max(0) as u64 + 1) as i64,
        };
        let synced_offset = fetch_offset - rng.below(fetch_offset.clamp(0, 4) as u64 + 1) as i64;
        let epoch = self.registrations[&id].epoch;
        let broker_epoch = if rng.percent(90) { epoch } else { epoch - 1 };
        let is_damaged = rng.percent(5);
        let fetch = FollowerFetch { synced_offset, broker_epoch, is_damaged, ..fetch(fetch_offset, self.now_ms) };
        let result = self.leadership.update_fetch_state(id, fetch);
        assert_eq!(result.is_ok(), broker_epoch == epoch);
        if result.is_ok() {
            let fetched = self.fetched.get_mut(&id).unwrap();
            fetched.fetches.push(fetch);
            fetched.leader_ends.push(self.local.log_end_offset);
        }
    }

    fn propose(&mut self, id: i32, rng: &mut Rng) {
        let (proposed, expected) = if rng.percent(50) {
            let last = self.fetched[&id].fetches.last().copied();
            let may_enter = self.pending.is_none()
                && !self.isr.contains(&id)
                && self.may_join(id)
                && last.is_some_and(|fetch| {
                    fetch.fetch_offset >= self.high_watermark.max(self.epoch_start_offset)
                        && fetch.synced_offset >= self.durable_offset.max(self.epoch_start_offset)
                });
            let mut isr = self.isr.clone();
            isr.insert(id);
            (self.leadership.propose_to_add(id, self.now_ms), may_enter.then_some(isr))
        } else {
            let stays = |&id: &i32| id == 1 || self.is_caught_up(id) && !self.has_lost(id);
            let isr: BTreeSet<i32> = self.isr.iter().copied().filter(stays).collect();
            let may_shrink = self.pending.is_none() && isr != self.isr;
            (self.leadership.propose_to_shrink(self.now_ms), may_shrink.then_some(isr))
        };
        assert_eq!(proposed, expected.is_some());
        if let Some(isr) = expected {
            let proposal = self.leadership.proposal().unwrap();
            assert_eq!(proposal.isr.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>(), isr);
            self.pending = Some((proposal, isr));
        }
    }

    fn answer(&mut self, rng: &mut Rng) {
        let Some((proposal, isr)) = self.pending.take() else { return };
        match rng.below(4) {
            0 => {
                let after = self.leadership.alteration_refused(&proposal, ErrorCode::INELIGIBLE_REPLICA, self.now_ms);
                assert_eq!(after, AfterRefusal::Dropped);
            }
            1 => {
                let after = self.leadership.alteration_refused(&proposal, ErrorCode::NOT_CONTROLLER, self.now_ms);
                assert_eq!(after, AfterRefusal::Retry);
                self.pending = Some((proposal, isr));
            }
            kind => {
                self.partition_epoch += 1;
                self.isr = isr;
                let isr: Vec<i32> = self.isr.iter().copied().collect();
                let partition_epoch = self.partition_epoch;
                if kind == 2 {
                    let altered = Altered { leader_epoch: 5, partition_epoch, isr };
                    assert!(self.leadership.altered(&proposal, altered, self.now_ms));
                } else {
                    let known = self.registrations.clone();
                    let assignment = assignment(partition_epoch, &isr);
                    assert!(self.leadership.update(assignment, |id| known.get(&id).copied(), self.now_ms));
                }
            }
        }
    }
}

/// Runs one seed, and returns the offsets and the in-sync replicas at each step.
fn live(seed: u64) -> Vec<(i64, i64, usize)> {
    let mut rng = Rng::new(seed);
    let isr: BTreeSet<i32> = [1, 2, 3].into_iter().filter(|&id| id == 1 || rng.percent(60)).collect();
    let local = LocalOffsets { log_end_offset: rng.below(20) as i64, synced_offset: 0 };
    let withholds = rng.percent(50);
    let min_insync_replicas = 1 + rng.below(3) as usize;
    let limits = Limits { min_insync_replicas, lag_max_ms: LAG_MAX_MS, withholds };
    let listed: Vec<i32> = isr.iter().copied().collect();
    let mut model = Model {
        leadership: Leadership::begin(1, assignment(0, &listed), limits, local, Promised::default(), |_| active(7), 0),
        now_ms: 0,
        local,
        isr: isr.clone(),
        initial_isr: isr,
        partition_epoch: 0,
        pending: None,
        registrations: [2, 3].map(|id| (id, Registration { epoch: 7, is_active: true })).into(),
        fetched: [2, 3].map(|id| (id, Fetched::default())).into(),
        high_watermark: 0,
        durable_offset: 0,
        epoch_start_offset: local.log_end_offset,
        min_insync_replicas,
        withheld: withholds.then_some((0, local.log_end_offset)).into_iter().collect(),
        trace: Vec::new(),
    };
    model.check();
    for _ in 0..300 {
        model.step(&mut rng);
    }
    model.trace
}

#[test]
fn random_lives_agree_with_the_model() {
    let mut sizes = BTreeSet::new();
    for seed in 0..400 {
        let trace = live(seed);
        assert_eq!(trace, live(seed), "the same seed is the same life");
        sizes.extend(trace.iter().map(|(_, _, size)| *size));
    }
    assert_eq!(sizes, [1, 2, 3].into(), "lives in which replicas come and go");
}
