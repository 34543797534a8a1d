//! Results for people: a line for each case while a run goes on.

use std::io::{IsTerminal, Write, stderr};

use lab::{CaseResult, Event, Measured, Outcome, Second, Turn, number};

use super::outlook::span;
use super::progress::{Done, Position};
use crate::cmd::output;

/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;
/// An id that is longer is shown in part.
const ID_CHARS_MAX: usize = 30;

/// Shows a run: lines of what has ended on stdout, and what goes on now on stderr where that is a terminal.
pub(super) struct Display {
    is_terminal: bool,
    is_quiet: bool,
    /// The case that runs.
    now: String,
    is_search: bool,
}

impl Display {
    /// A quiet one has no lines; what goes on is shown all the same.
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_terminal: stderr().is_terminal(), is_quiet, now: String::new(), is_search: false }
    }

    /// `left_s` is what the whole run will take yet, as far as that is not known by the position.
    pub(super) fn show(&mut self, event: &Event<'_>, position: Option<&Position>, left_s: f64) {
        match event {
            Event::Preparing(what) => self.status(&format!("{what} ..., about {} left", span(left_s))),
            Event::Begun { case, target, turn } => {
                let again = if turn.repetition > 1 { format!(" (again, {})", turn.repetition) } else { String::new() };
                self.now = format!("{} {} on {target}{again}", of_turn(turn), short(&case.id));
                self.is_search = turn.is_at_most;
                if let Some(position) = position {
                    self.status(&format!("{}: starting, {}", self.now, left(position, self.is_search)));
                }
            }
            Event::Second(second) => {
                if let Some(position) = position {
                    let room = columns().saturating_sub(self.now.chars().count() + 2);
                    self.status(&format!("{}: {}", self.now, of_second(second, position, self.is_search, room)));
                }
            }
            Event::Ended { result, turn } => self.line(&format!("{} {}\n", of_turn(turn), of_case(result))),
            Event::Kept(result) => self.line(&format!("[kept] {}\n", of_case(result))),
        }
    }

    fn status(&self, text: &str) {
        if self.is_terminal {
            // Cut, so that one line stays one line on a narrow screen.
            let text: String = text.chars().take(columns()).collect();
            eprint!("\r\x1b[K{text}");
            let _ = stderr().flush();
        }
    }

    pub(super) fn line(&self, text: &str) {
        self.clear();
        if !self.is_quiet {
            // A reader that has gone does not end the run: its results are in files.
            let _ = output::print(text);
        }
    }

    pub(super) fn clear(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// That a line on stderr may have.
fn columns() -> usize {
    let columns = rustix::termios::tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    if columns > 0 { columns - 1 } else { COLUMNS }
}

/// `[3/12]`; a search does not know how many there will be.
fn of_turn(turn: &Turn) -> String {
    match turn.is_at_most {
        true => format!("[{}]", turn.number),
        false => format!("[{}/{}]", turn.number, turn.of),
    }
}

/// Of a case of a matrix, its values: `rates/1000,all` for `rates/rate_records_per_s=1000,producer.acks=all`.
fn short(id: &str) -> String {
    let value = |point: &str| point.rsplit('=').next().unwrap_or_default().to_owned();
    let values = |points: &str| points.split(',').map(value).collect::<Vec<_>>().join(",");
    let id = id.split_once('/').map_or_else(|| id.to_owned(), |(group, points)| format!("{group}/{}", values(points)));
    match id.char_indices().nth(ID_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &id[..at]),
        None => id,
    }
}

fn left(position: &Position, is_search: bool) -> String {
    format!("{} {} left", if is_search { "at most" } else { "about" }, span(position.run_left_s))
}

/// What there is room for, the most important at any rate.
fn of_second(second: &Second, position: &Position, is_search: bool, columns: usize) -> String {
    let done = match position.done {
        Done::Seconds { at, of } => format!("{at:.0} of {of:.0} s"),
        Done::Records { at, of } => {
            let [at, of] = [at, of].map(|records| number(records.round()));
            format!("{at} of {of} records, {} to go", span(position.case_left_s))
        }
        Done::Open { at_s } => format!("{at_s:.0} s"),
    };
    let records = |per_s: f64| format!("{} records/s", number(per_s.round()));
    let mib = |per_s: f64| format!("{} MiB/s", number(per_s));
    // In their order, with what has to give way first in the end.
    let mut parts = vec![(0, done)];
    if second.is_warm_up {
        parts.push((4, "warming up".to_owned()));
    }
    let is_producing = second.produced_records_per_s > 0.0;
    if is_producing {
        parts.push((2, records(second.produced_records_per_s)));
        parts.push((5, mib(second.produced_mib_per_s)));
        parts.push((3, format!("p99 {} ms", number(second.latency_p99_us as f64 / 1000.0))));
    }
    if second.consumed_records_per_s > 0.0 {
        parts.push((if is_producing { 6 } else { 2 }, format!("read {}", records(second.consumed_records_per_s))));
        parts.push((if is_producing { 7 } else { 5 }, mib(second.consumed_mib_per_s)));
    }
    if !second.broker_cpu.is_empty() {
        parts.push((8, format!("brokers {:.2} cores", second.broker_cpu.iter().sum::<f64>())));
    }
    parts.push((9, format!("client {:.2} cores", second.client_cpu)));
    parts.push((1, left(position, is_search)));
    let width = |parts: &[(u8, String)]| parts.iter().map(|(_, text)| text.chars().count() + 2).sum::<usize>();
    while width(&parts) > columns + 2 && parts.len() > 2 {
        let least = parts.iter().map(|(rank, _)| *rank).max();
        parts.retain(|(rank, _)| Some(*rank) != least);
    }
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

/// One case in one line.
pub(super) fn of_case(case: &CaseResult) -> String {
    let what = format!("{:<34} {:<9}", case.id, case.target);
    match &case.outcome {
        Outcome::Measured(measured) => format!("{what} {}", of_measured(measured)),
        Outcome::Skipped { reason } => format!("{what} skipped: {reason}"),
        Outcome::Failed { reason } => format!("{what} FAILED: {reason}"),
    }
}

fn of_measured(measured: &Measured) -> String {
    let mut text = String::new();
    if let Some(flow) = measured.produced {
        text.push_str(&format!("{:>11.0} records/s {:>8.1} MiB/s", flow.records_per_s, flow.mib_per_s));
    }
    if let Some(flow) = measured.consumed {
        text.push_str(&format!(" read {:>10.0} records/s {:>8.1} MiB/s", flow.records_per_s, flow.mib_per_s));
    }
    match &measured.latency {
        _ if measured.verdict.is_saturated => text.push_str("  saturated"),
        Some(latency) => {
            let ms = |us: u64| us as f64 / 1000.0;
            text.push_str(&format!("  p50 {:.2} p99 {:.2} ms", ms(latency.p50_us), ms(latency.p99_us)));
        }
        None => {}
    }
    if let Some(flow) = &measured.transactions {
        let ms = |us: u64| us as f64 / 1000.0;
        let (per_s, commit) = (flow.committed_per_s, &flow.commit);
        text.push_str(&format!(
            "  {per_s:.1} transactions/s commit p50 {:.2} p99 {:.2} ms",
            ms(commit.p50_us),
            ms(commit.p99_us)
        ));
        if let Some(cpu_ms) = flow.broker_cpu_ms_each {
            text.push_str(&format!(" broker {cpu_ms:.2} ms each"));
        }
    }
    if let Some(cpu) = measured.cost.broker_cpu_s_per_million {
        text.push_str(&format!("  broker {cpu:.2} s/M"));
    }
    text.push_str(&format!("  limit: {}", measured.verdict.limit));
    if let Some(limits) = &measured.broker_limits {
        text.push_str(&format!("; brokers: {}", limits.means));
    }
    for warning in &measured.verdict.warnings {
        text.push_str(&format!("; {warning}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_screen_shows_what_matters_most() {
        let second = Second {
            produced_records_per_s: 48_120.4,
            produced_mib_per_s: 46.93,
            latency_p99_us: 12_100,
            client_cpu: 0.5,
            broker_cpu: vec![0.25, 0.25],
            ..Second::default()
        };
        let done = Done::Seconds { at: 14.0, of: 25.0 };
        let position = Position { done, case_left_s: 11.0, run_left_s: 360.0 };
        let text = |columns| of_second(&second, &position, false, columns);
        let whole = "14 of 25 s, 48,120 records/s, 46.9 MiB/s, p99 12.1 ms, brokers 0.50 cores, client 0.50 cores, \
                     about 6 min left";
        assert_eq!(text(whole.chars().count()), whole);
        assert_eq!(text(80), "14 of 25 s, 48,120 records/s, 46.9 MiB/s, p99 12.1 ms, about 6 min left");
        assert_eq!(text(60), "14 of 25 s, 48,120 records/s, p99 12.1 ms, about 6 min left");
        assert_eq!(text(50), "14 of 25 s, 48,120 records/s, about 6 min left");
        assert_eq!(text(10), "14 of 25 s, about 6 min left");
        let done = Done::Records { at: 1_200_000.0, of: 5_000_000.0 };
        let position = Position { done, case_left_s: 31.4, run_left_s: 3.0 };
        let text = of_second(&second, &position, true, 60);
        assert_eq!(text, "1,200,000 of 5,000,000 records, 31 s to go, at most 3 s left");
    }

    #[test]
    fn a_case_of_a_matrix_is_called_by_its_values() {
        let id = "rates/rate_records_per_s=1000,producer.acks=all";
        assert_eq!([short("Q1"), short(id)], ["Q1", "rates/1000,all"]);
        assert_eq!(short(&"x".repeat(40)), format!("{}…", "x".repeat(30)));
    }
}
