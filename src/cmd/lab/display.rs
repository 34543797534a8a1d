//! Results for people: a line for each case while a run goes on.

use std::io::{IsTerminal, Write};

use lab::{CaseResult, Event, Measured, Outcome, Second, Turn};

use crate::cmd::output;

/// Shows a run: lines of what has ended on stdout, and what goes on now on stderr where that is a terminal.
pub(super) struct Display {
    is_terminal: bool,
    is_quiet: bool,
    now: String,
}

impl Display {
    /// A quiet one has no lines; what goes on is shown all the same.
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_terminal: std::io::stderr().is_terminal(), is_quiet, now: String::new() }
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Preparing(what) => self.status(&format!("{what} ...")),
            Event::Begun { case, target, turn } => {
                let Turn { number, of, repetition, .. } = turn;
                let again = if *repetition > 1 { format!(" (again, {repetition})") } else { String::new() };
                let of = if *of > 0 { format!("/{of}") } else { String::new() };
                self.now = format!("[{number}{of}] {} on {target}{again}", case.id);
                let now = self.now.clone();
                self.status(&now);
            }
            Event::Second(second) => {
                let text = format!("{}: {}", self.now, of_second(second));
                self.status(&text);
            }
            Event::Ended { result, turn } => {
                let of = if turn.of > 0 { format!("/{}", turn.of) } else { String::new() };
                self.line(&format!("[{}{of}] {}\n", turn.number, of_case(result)));
            }
            Event::Kept(result) => self.line(&format!("[kept] {}\n", of_case(result))),
        }
    }

    fn status(&self, text: &str) {
        if self.is_terminal {
            // Cut, so that one line stays one line on a narrow screen.
            let text: String = text.chars().take(118).collect();
            eprint!("\r\x1b[K{text}");
            let _ = std::io::stderr().flush();
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

fn of_second(second: &Second) -> String {
    let mut parts = vec![format!("{:.0} s", second.at_s)];
    if second.is_warm_up {
        parts.push("warming up".to_owned());
    }
    if second.produced_records_per_s > 0.0 {
        parts.push(format!("{:.0} records/s {:.1} MiB/s", second.produced_records_per_s, second.produced_mib_per_s));
        parts.push(format!("p99 {:.1} ms", second.latency_p99_us as f64 / 1000.0));
    }
    if second.consumed_records_per_s > 0.0 {
        parts.push(format!("read {:.0} records/s", second.consumed_records_per_s));
    }
    if !second.broker_cpu.is_empty() {
        parts.push(format!("brokers {:.2} cores", second.broker_cpu.iter().sum::<f64>()));
    }
    parts.push(format!("client {:.2} cores", second.client_cpu));
    parts.join(", ")
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
    if let Some(cpu) = measured.cost.broker_cpu_s_per_million {
        text.push_str(&format!("  broker {cpu:.2} s/M"));
    }
    text.push_str(&format!("  limit: {}", measured.verdict.limit));
    for warning in &measured.verdict.warnings {
        text.push_str(&format!("; {warning}"));
    }
    text
}
