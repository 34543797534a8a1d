//! How far a run is, and how long the rest will take: by what was planned, corrected by what the runs took that have
//! ended.

use lab::{Case, Event, Extent, Scenario, Second, Turn};
use tokio::time::Instant;

use super::outlook::{Outlook, seconds};

/// Follows the events of a run.
pub(super) struct Progress {
    extent: Extent,
    /// By case of the scenario.
    cases: Vec<Planned>,
    /// Of all runs that have ended and were measured.
    ended_took_s: f64,
    ended_planned_s: f64,
    running: Option<Running>,
}

/// What is known of the runs of a case.
#[derive(Clone, Default)]
struct Planned {
    /// What one of them takes, by the plan.
    each_s: f64,
    /// Those that have not begun.
    left: usize,
    ended: usize,
    took_s: f64,
}

struct Running {
    /// In the order of the scenario.
    index: usize,
    began: Instant,
    end: End,
    /// Whether records are only read.
    is_reading: bool,
    /// Since the load began.
    at_s: f64,
    records: f64,
}

/// What ends a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Seconds(f64),
    Records(f64),
    /// When there is nothing left to read.
    Open,
}

/// How far the case is that runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Done {
    Seconds { at: f64, of: f64 },
    Records { at: f64, of: f64 },
    Open { at_s: f64 },
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) done: Done,
    pub(super) case_left_s: f64,
    /// Of all of it.
    pub(super) run_left_s: f64,
}

impl Progress {
    /// Of `lab run`.
    pub(super) fn of_run(outlook: &Outlook) -> Self {
        let plan = |case: &Case| {
            let left = outlook.runs_with_skipped(case);
            Planned { each_s: outlook.estimate(case).seconds / left.max(1) as f64, left, ..Planned::default() }
        };
        Self::new(outlook.extent, outlook.scenario.cases.iter().map(plan).collect())
    }

    /// Of a search, whose runs are all alike; each says how many there will be at most.
    pub(super) fn of_search(scenario: &Scenario, runs_max: usize) -> Self {
        let each_s = seconds(scenario);
        Self::new(Extent::Time, vec![Planned { each_s, left: runs_max, ..Planned::default() }])
    }

    fn new(extent: Extent, cases: Vec<Planned>) -> Self {
        Self { extent, cases, ended_took_s: 0.0, ended_planned_s: 0.0, running: None }
    }

    pub(super) fn take(&mut self, event: &Event<'_>, now: Instant) {
        match event {
            Event::Preparing(_) => {}
            Event::Begun { case, turn, .. } => self.begin(case, *turn, now),
            Event::Second(second) => self.advance(second),
            Event::Ended { result, .. } => self.end(result.measured().is_some(), now),
            Event::Kept(result) => {
                if let Some(planned) = self.cases.get_mut((result.number as usize).saturating_sub(1)) {
                    planned.left = planned.left.saturating_sub(1);
                }
            }
        }
    }

    fn begin(&mut self, case: &Case, turn: Turn, now: Instant) {
        let index = (turn.case - 1).min(self.cases.len().saturating_sub(1));
        if let Some(planned) = self.cases.get_mut(index) {
            planned.left = if turn.is_at_most { turn.of - turn.number } else { planned.left.saturating_sub(1) };
        }
        let load = &case.load;
        let is_reading = load.producers == 0;
        let copies = if is_reading { load.readers() } else { 1 };
        let end = match (self.extent.duration(load), self.extent.records(load)) {
            (Some(duration), _) => End::Seconds(duration.as_secs_f64()),
            (None, Some(records)) => End::Records(records as f64 * copies as f64),
            (None, None) => End::Open,
        };
        self.running = Some(Running { index, began: now, end, is_reading, at_s: 0.0, records: 0.0 });
    }

    fn advance(&mut self, second: &Second) {
        let Some(running) = &mut self.running else { return };
        let seconds = second.at_s - running.at_s;
        running.at_s = second.at_s;
        running.records += seconds
            * match running.is_reading {
                true => second.consumed_records_per_s,
                false => second.produced_records_per_s,
            };
    }

    fn end(&mut self, is_measured: bool, now: Instant) {
        let Some(running) = self.running.take() else { return };
        let Some(planned) = self.cases.get_mut(running.index) else { return };
        let took_s = now.duration_since(running.began).as_secs_f64();
        planned.ended += 1;
        planned.took_s += took_s;
        // What was skipped says nothing of how long others take.
        if is_measured {
            self.ended_took_s += took_s;
            self.ended_planned_s += planned.each_s;
        }
    }

    /// What one run of a case takes: as long as those before it, or else as longer than planned as all others.
    fn each_s(&self, planned: &Planned) -> f64 {
        match planned.ended {
            0 if self.ended_planned_s > 0.0 => planned.each_s * self.ended_took_s / self.ended_planned_s,
            0 => planned.each_s,
            ended => planned.took_s / ended as f64,
        }
    }

    /// About how long all will take that has not begun.
    pub(super) fn left_s(&self) -> f64 {
        self.cases.iter().map(|planned| planned.left as f64 * self.each_s(planned)).sum()
    }

    /// `None` before the first case.
    pub(super) fn position(&self, now: Instant) -> Option<Position> {
        let running = self.running.as_ref()?;
        let each_s = self.cases.get(running.index).map_or(0.0, |planned| self.each_s(planned));
        let expected_left_s = (each_s - now.duration_since(running.began).as_secs_f64()).max(0.0);
        let at_s = running.at_s;
        let (done, case_left_s) = match running.end {
            // The load begins when there is something to read, and all is settled.
            End::Seconds(of) if at_s == 0.0 => (Done::Seconds { at: 0.0, of }, expected_left_s.max(of)),
            End::Seconds(of) => (Done::Seconds { at: at_s.min(of), of }, (of - at_s).max(0.0)),
            End::Records(of) => {
                let at = running.records.min(of);
                (Done::Records { at, of }, if at > 0.0 { (of - at) / (at / at_s) } else { expected_left_s })
            }
            End::Open => (Done::Open { at_s }, expected_left_s),
        };
        Some(Position { done, case_left_s, run_left_s: case_left_s + self.left_s() })
    }
}

impl Position {
    /// The part of the case that is done.
    pub(super) fn part(&self) -> f64 {
        let part = match self.done {
            Done::Seconds { at, of } | Done::Records { at, of } => at / of.max(f64::MIN_POSITIVE),
            Done::Open { at_s } => at_s / (at_s + self.case_left_s).max(f64::MIN_POSITIVE),
        };
        part.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lab::Load;

    use super::*;

    fn planned(each_s: f64, left: usize) -> Planned {
        Planned { each_s, left, ..Planned::default() }
    }

    fn timed(id: &str, duration_s: f64) -> Case {
        Case::plain(id, Load { duration_s, warm_up_s: 2.0, ..Load::default() })
    }

    fn turn(case: usize, number: usize, of: usize) -> Turn {
        Turn { case, repetition: 1, number, of, is_at_most: false }
    }

    fn second(at_s: f64, rate: f64) -> Second {
        Second { at_s, produced_records_per_s: rate, ..Second::default() }
    }

    /// A run with its own clock.
    struct Run {
        progress: Progress,
        began: Instant,
    }

    impl Run {
        fn new(extent: Extent, cases: &[Planned]) -> Self {
            Self { progress: Progress::new(extent, cases.to_vec()), began: Instant::now() }
        }

        fn at(&self, seconds: f64) -> Instant {
            self.began + Duration::from_secs_f64(seconds)
        }

        fn begin(&mut self, at_s: f64, case: &Case, turn: Turn) {
            let now = self.at(at_s);
            self.progress.take(&Event::Begun { case, target: "parshall", turn }, now);
        }

        fn end(&mut self, at_s: f64, is_measured: bool) {
            let now = self.at(at_s);
            self.progress.end(is_measured, now);
        }

        fn position(&self, at_s: f64) -> Position {
            self.progress.position(self.at(at_s)).unwrap()
        }
    }

    #[test]
    fn the_rest_takes_as_long_as_it_was_planned_until_runs_have_ended() {
        let mut run = Run::new(Extent::Time, &[planned(12.0, 2), planned(30.0, 1), planned(0.0, 1)]);
        assert_eq!(run.progress.left_s(), 54.0);
        let case = timed("a", 8.0);
        run.begin(1.0, &case, turn(1, 1, 4));
        // It settles first.
        assert_eq!(run.position(1.0).case_left_s, 12.0);
        assert_eq!(run.position(4.0), Position { case_left_s: 10.0, run_left_s: 52.0, ..run.position(4.0) });
        run.progress.advance(&second(4.0, 100.0));
        let position = run.position(7.0);
        assert_eq!(position.done, Done::Seconds { at: 4.0, of: 10.0 });
        assert_eq!((position.part(), position.case_left_s, position.run_left_s), (0.4, 6.0, 48.0));
        // It took half as long again as it was planned: so will the second, and the other case by that.
        run.end(19.0, true);
        assert_eq!(run.progress.left_s(), 18.0 + 45.0);
        // What is skipped takes no time, and says nothing of others.
        run.begin(20.0, &case, turn(1, 2, 4));
        run.end(20.0, false);
        assert_eq!(run.progress.left_s(), 45.0);
    }

    #[test]
    fn a_case_by_records_goes_on_as_it_has_begun() {
        let case = Case::plain("a", Load { records: 10_000, ..Load::default() });
        let mut run = Run::new(Extent::Scale(0.5), &[planned(100.0, 1)]);
        run.begin(0.0, &case, turn(1, 1, 1));
        assert_eq!(run.position(0.0).case_left_s, 100.0);
        run.progress.advance(&second(1.0, 400.0));
        run.progress.advance(&second(2.0, 600.0));
        let position = run.position(2.5);
        assert_eq!(position.done, Done::Records { at: 1000.0, of: 5000.0 });
        assert_eq!((position.case_left_s, position.part()), (8.0, 0.2));
    }

    #[test]
    fn records_that_are_only_read_count_once_for_each_group() {
        let load = Load { records: 1000, producers: 0, consumers: 3, consumer_groups: 2, ..Load::default() };
        let mut run = Run::new(Extent::Scale(1.0), &[planned(100.0, 1)]);
        run.begin(0.0, &Case::plain("a", load), turn(1, 1, 1));
        run.progress.advance(&Second { at_s: 1.0, consumed_records_per_s: 500.0, ..Second::default() });
        assert_eq!(run.position(1.0).done, Done::Records { at: 500.0, of: 2000.0 });
    }

    #[test]
    fn a_search_takes_as_many_runs_as_it_says_at_most() {
        let mut run = Run::new(Extent::Time, &[planned(10.0, 14)]);
        let case = timed("capacity", 8.0);
        let turn = |number, of| Turn { case: number, repetition: 1, number, of, is_at_most: true };
        run.begin(0.0, &case, turn(1, 14));
        assert_eq!(run.position(0.0).run_left_s, 10.0 + 13.0 * 10.0);
        run.end(20.0, true);
        run.begin(20.0, &case, turn(2, 6));
        assert_eq!(run.position(20.0).run_left_s, 20.0 + 4.0 * 20.0);
    }
}
