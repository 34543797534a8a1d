//! When the records of a load are due: at once, or by a schedule.

use std::time::Duration;

/// When records are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as they are taken.
    Unlimited,
    /// By a schedule that nothing delays.
    OpenLoop(Schedule),
    /// Not faster than that, and each record counts from when it is really sent, as Kafka's tool has it.
    ClosedLoop(Schedule),
}

/// So many records per second, which the rate reaches in a straight line from 0 within `ramp`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    records_per_s: f64,
    ramp: Duration,
    /// By how much of the time between two records all of them are later.
    phase: f64,
}

impl Schedule {
    pub fn new(records_per_s: f64, ramp: Duration) -> Self {
        Self { records_per_s, ramp, phase: 0.0 }
    }

    /// When a record is due, in microseconds since the start.
    fn due_us(&self, record: u64) -> u64 {
        let (record, ramp_s) = (record as f64 + self.phase, self.ramp.as_secs_f64());
        let in_ramp = self.records_per_s * ramp_s / 2.0;
        let due_s = match record < in_ramp {
            true => (2.0 * record * ramp_s / self.records_per_s).sqrt(),
            false => ramp_s / 2.0 + record / self.records_per_s,
        };
        (due_s * 1e6) as u64
    }
}

impl Pace {
    /// When a record is due, in microseconds since the start; `None` if at once.
    pub(crate) fn due_us(&self, record: u64) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::OpenLoop(schedule) | Self::ClosedLoop(schedule) => Some(schedule.due_us(record)),
        }
    }

    /// Whether the next record is beyond a run of that length. By a schedule that nothing delays, all that is due
    /// within it is sent, however late.
    pub(crate) fn is_past(&self, duration: Duration, due_us: Option<u64>, elapsed: Duration) -> bool {
        match (self, due_us) {
            (Self::OpenLoop(_), Some(due_us)) => Duration::from_micros(due_us) >= duration,
            _ => elapsed >= duration,
        }
    }

    /// The pace of one of several that do this part of the work.
    pub fn share(self, part: f64) -> Self {
        let share = |schedule: Schedule| Schedule { records_per_s: schedule.records_per_s * part, ..schedule };
        match self {
            Self::Unlimited => Self::Unlimited,
            Self::OpenLoop(schedule) => Self::OpenLoop(share(schedule)),
            Self::ClosedLoop(schedule) => Self::ClosedLoop(share(schedule)),
        }
    }

    /// The pace of the nth of several that take turns: together they keep the schedule. With equal ones all would send
    /// at the same moment, and wait for each other.
    pub fn turn(self, n: u64, among: u64) -> Self {
        let turn = |schedule: Schedule| Schedule { phase: n as f64 / among as f64, ..schedule };
        match self.share(1.0 / among as f64) {
            Self::Unlimited => Self::Unlimited,
            Self::OpenLoop(schedule) => Self::OpenLoop(turn(schedule)),
            Self::ClosedLoop(schedule) => Self::ClosedLoop(turn(schedule)),
        }
    }
}

/// What the nth of so many has to do of work that cannot be cut into equal parts.
pub fn share(sum: u64, among: u64, n: u64) -> u64 {
    sum / among + u64::from(n < sum % among)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_has_its_rate_from_the_start_or_behind_its_ramp() {
        let even = Schedule::new(1000.0, Duration::ZERO);
        assert_eq!([0, 1, 1000].map(|n| even.due_us(n)), [0, 1000, 1_000_000]);
        let ramped = Schedule::new(1000.0, Duration::from_secs(2));
        // A quarter of the ramp's 1,000 records in its first half.
        assert_eq!([0, 250, 1000, 2000].map(|n| ramped.due_us(n)), [0, 1_000_000, 2_000_000, 3_000_000]);
        assert_eq!(Pace::OpenLoop(even).share(0.5).due_us(1), Some(2000));
        assert_eq!(Pace::Unlimited.share(0.5).due_us(1), None);
        let (run, late) = (Duration::from_secs(5), Duration::from_secs(9));
        let is_past = |pace: Pace, record| pace.is_past(run, pace.due_us(record), late);
        assert!(!is_past(Pace::OpenLoop(even), 4999) && is_past(Pace::OpenLoop(even), 5000));
        assert!(is_past(Pace::ClosedLoop(even), 0) && is_past(Pace::Unlimited, 0));
    }

    #[test]
    fn producers_take_turns() {
        for ramp in [Duration::ZERO, Duration::from_secs(2)] {
            let whole = Pace::OpenLoop(Schedule::new(1000.0, ramp));
            let of_all = |n: u64| whole.turn(n % 4, 4).due_us(n / 4);
            assert!((0..3000).all(|n| of_all(n).unwrap().abs_diff(whole.due_us(n).unwrap()) <= 1), "{ramp:?}");
        }
        assert_eq!(Pace::Unlimited.turn(1, 2).due_us(1), None);
    }
}
