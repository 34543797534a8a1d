//! How much of a scenario is run, and what that will take: runs, time and disk.

use std::time::Duration;

use anyhow::{Result, bail};
use lab::{Case, Extent, HostFacts, Scenario, TargetSpec};

use super::target::Targets;
use crate::cmd::args;
use crate::cmd::failure::Usage;

/// What starting, settling and cleaning up take, for each case.
const OVERHEAD_S: f64 = 1.5;
/// Taken where nobody knows how fast a case will be.
const ASSUMED_MIB_PER_S: f64 = 300.0;
const MIB: f64 = 1_048_576.0;
/// Less says little of a broker.
const DURATION_MIN_S: f64 = 1.0;

/// In place of each case's own time.
#[derive(Debug, Default, clap::Args)]
#[group(multiple = false)]
pub(super) struct Length {
    /// The part of each case's records that is sent; 1 is the report's own size
    #[arg(long, value_parser = scale)]
    scale: Option<f64>,
    /// How long each case is measured, after its warm-up
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    duration: Option<Duration>,
    /// How long all of it may take: the time is shared out among the runs
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    budget: Option<Duration>,
}

/// A part, or a multiple.
fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse::<f64>().ok().filter(|scale| *scale > 0.0 && *scale <= 1000.0);
    scale.ok_or_else(|| "a scale is a number above 0, for example 0.1".to_owned())
}

impl Length {
    pub(super) fn is_own(&self) -> bool {
        self.scale.is_none() && self.duration.is_none() && self.budget.is_none()
    }

    /// The flag again, for a command that somebody copies.
    pub(super) fn flag(&self, scenario: &Scenario) -> String {
        match (self.scale, scenario.duration_s) {
            (Some(scale), _) => format!(" --scale {scale}"),
            (None, Some(duration_s)) => format!(" --duration {duration_s}s"),
            (None, None) => String::new(),
        }
    }
}

/// A scenario as it will be run.
pub(super) struct Outlook {
    pub(super) scenario: Scenario,
    pub(super) extent: Extent,
    repeat: Option<u32>,
    brokers: u16,
    host: HostFacts,
    specs: Vec<TargetSpec>,
}

pub(super) struct Estimate {
    pub(super) seconds: f64,
    /// At most, at a time.
    pub(super) disk_mib: f64,
}

impl Outlook {
    pub(super) fn new(scenario: Scenario, length: &Length, repeat: Option<u32>, targets: &Targets) -> Result<Self> {
        let extent = length.scale.map_or(Extent::Time, Extent::Scale);
        let (brokers, specs) = (targets.brokers(), targets.specs()?);
        let mut outlook = Self { scenario, extent, repeat, brokers, host: lab::host_facts(), specs };
        let seconds_each = match (length.duration, length.budget) {
            (Some(each), _) => each.as_secs_f64(),
            (None, Some(budget)) => outlook.share_of(budget)?,
            (None, None) => return Ok(outlook),
        };
        if seconds_each < DURATION_MIN_S {
            bail!(Usage(format!("--duration is {DURATION_MIN_S} s at least")));
        }
        outlook.scenario = outlook.scenario.lasting(seconds_each);
        Ok(outlook)
    }

    /// What targets are warmed up for before the first case. How long they take to start nobody knows before.
    fn before_s(&self) -> f64 {
        self.specs.iter().map(lab::warm_up_s).sum()
    }

    /// What each run may take of a time for all of them, to a tenth of a second.
    fn share_of(&self, budget: Duration) -> Result<f64> {
        let runs: usize = self.scenario.cases.iter().map(|case| self.runs(case)).sum();
        let around = |case: &Case| self.runs(case) as f64 * (OVERHEAD_S + case.load.warm_up_s);
        let around = self.before_s() + self.scenario.cases.iter().map(around).sum::<f64>();
        let each = (budget.as_secs_f64() - around) / runs.max(1) as f64;
        if each < DURATION_MIN_S {
            let least = (around + runs as f64 * DURATION_MIN_S).ceil();
            bail!(Usage(format!(
                "--budget is too small for {runs} runs with their warm-up: give them {least:.0}s, or name some cases \
                 with --case"
            )));
        }
        Ok((each * 10.0).floor() / 10.0)
    }

    /// Why a case cannot be run on a target, as far as that is known before it is asked.
    fn skipped_on(&self, case: &Case, target: &TargetSpec) -> Option<String> {
        let (size, needed) = (case.load.broker_size(), case.load.brokers_min());
        match target {
            // How many brokers it has is not known.
            TargetSpec::Servers { .. } => {
                size.is_limited().then(|| "only brokers that are started can be made smaller".to_owned())
            }
            _ if needed > u32::from(self.brokers) => Some(format!("needs --brokers {needed}")),
            _ => size.exceeds(&self.host),
        }
    }

    /// On how many targets a case can be run.
    fn targets_of(&self, case: &Case) -> usize {
        self.specs.iter().filter(|target| self.skipped_on(case, target).is_none()).count()
    }

    /// Why a case is skipped on one target or several.
    pub(super) fn skipped(&self, case: &Case) -> Option<String> {
        self.specs.iter().find_map(|target| self.skipped_on(case, target))
    }

    pub(super) fn labels(&self) -> Vec<String> {
        self.specs.iter().map(TargetSpec::label).collect()
    }

    pub(super) fn runs(&self, case: &Case) -> usize {
        self.repeat.unwrap_or(case.repeat) as usize * self.targets_of(case)
    }

    /// With those that will be skipped, which take no time and are numbered too.
    pub(super) fn runs_with_skipped(&self, case: &Case) -> usize {
        self.repeat.unwrap_or(case.repeat).max(1) as usize * self.specs.len()
    }

    pub(super) fn estimate(&self, case: &Case) -> Estimate {
        estimate(case, self.extent, self.runs(case))
    }

    pub(super) fn total(&self) -> Estimate {
        let estimates = || self.scenario.cases.iter().map(|case| self.estimate(case));
        Estimate {
            seconds: self.before_s() + estimates().map(|estimate| estimate.seconds).sum::<f64>(),
            disk_mib: estimates().map(|estimate| estimate.disk_mib).fold(0.0, f64::max),
        }
    }

    /// All of it in a line.
    pub(super) fn summary(&self) -> String {
        let Estimate { seconds, disk_mib } = self.total();
        let cases = &self.scenario.cases;
        let runs: usize = cases.iter().map(|case| self.runs_with_skipped(case)).sum();
        let skipped = runs - cases.iter().map(|case| self.runs(case)).sum::<usize>();
        let skipped = if skipped > 0 { format!(" ({skipped} skipped)") } else { String::new() };
        format!(
            "{} on {}: {runs} run{}{skipped}, about {}, at most about {disk_mib:.0} MiB of disk at a time (topics are deleted behind \
             each case)",
            self.scenario.title,
            self.labels().join(" and "),
            if runs == 1 { "" } else { "s" },
            span(seconds),
        )
    }
}

/// About how long a scenario takes when each case runs for its own time.
pub(in crate::cmd) fn seconds(scenario: &Scenario) -> f64 {
    scenario.cases.iter().map(|case| estimate(case, Extent::Time, case.repeat as usize).seconds).sum()
}

fn estimate(case: &Case, extent: Extent, runs: usize) -> Estimate {
    let load = &case.load;
    let bytes = load.record_size_bytes.sizes.mean_bytes().max(1.0);
    let published =
        case.published.as_ref().and_then(|published| published.records_per_s.or(published.consumed_records_per_s));
    let rate = load.rate().or(published).unwrap_or(ASSUMED_MIB_PER_S * MIB / bytes);
    let (seconds, records) = match extent.records(load) {
        Some(records) => (records as f64 / rate, records as f64),
        None => {
            let seconds = load.warm_up_s + load.duration_s;
            // How fast it will be here nobody knows, only how fast it was there.
            let rate = load.rate().unwrap_or_else(|| rate.max(ASSUMED_MIB_PER_S * MIB / bytes));
            let records = if load.records > 0 { (load.records as f64).min(rate * seconds) } else { rate * seconds };
            (seconds, records)
        }
    };
    let disk_mib = if runs > 0 { records * bytes * f64::from(load.replicas) / MIB } else { 0.0 };
    Estimate { seconds: (seconds + OVERHEAD_S) * runs as f64, disk_mib }
}

pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{s:.0} s"),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use lab::Load;

    use super::*;

    #[test]
    fn spans_are_short() {
        assert_eq!([30.0, 600.0, 7200.0].map(span), ["30 s", "10 min", "2.0 h"]);
    }

    #[test]
    fn an_estimate_is_bounded_by_what_the_report_sent() {
        let mut case = Case::plain("a", Load { records: 1000, ..Load::default() });
        case.load.rate_records_per_s = 100.0;
        let timed = estimate(&case, Extent::Time, 1);
        assert_eq!((timed.seconds, timed.disk_mib), (19.5, 1000.0 * 1024.0 / MIB));
        let whole = estimate(&case, Extent::Scale(0.5), 2);
        assert_eq!((whole.seconds, whole.disk_mib), (13.0, 500.0 * 1024.0 / MIB));
    }

    fn outlook(text: &str, repeat: u32) -> Outlook {
        let scenario = Scenario::parse(text).unwrap();
        let specs = vec![TargetSpec::Embedded { program: "parshall".into(), settings: Vec::new() }];
        let host = HostFacts { cores: 2, memory_bytes: 8 << 30, ..HostFacts::default() };
        Outlook { scenario, extent: Extent::Time, repeat: Some(repeat), brokers: 1, host, specs }
    }

    #[test]
    fn what_is_skipped_takes_no_time() {
        let text = "name = 'n'\ntitle = 't'\n[[case]]\nid = 'a'\nbroker_cpus = [1, 4]\n";
        let mut outlook = outlook(text, 1);
        let runs = |outlook: &Outlook| outlook.scenario.cases.iter().map(|case| outlook.runs(case)).collect::<Vec<_>>();
        assert_eq!(runs(&outlook), [1, 0]);
        let summary = outlook.summary();
        assert!(summary.starts_with("t on parshall: 2 runs (1 skipped), about 20 s,"), "{summary}");
        let bootstrap = vec!["kafka:9092".to_owned()];
        outlook.specs = vec![TargetSpec::Servers { bootstrap, security: Default::default(), metrics: Vec::new() }];
        assert_eq!(runs(&outlook), [0, 0]);
    }

    #[test]
    fn a_budget_is_shared_out_among_the_runs() {
        let text = "name = 'n'\ntitle = 't'\n[[case]]\nid = 'a'\nwarm_up_s = 2\n[[case]]\nid = 'b'\nwarm_up_s = 1\n\
                    [[case]]\nid = 'skipped'\nreplicas = 3\n";
        let two = outlook(text, 2);
        // Four runs, of which two take 3.5 s and two 2.5 s beside what is measured.
        assert_eq!(two.share_of(Duration::from_secs(32)).unwrap(), 5.0);
        let lasting = two.scenario.clone().lasting(5.0);
        let seconds = Outlook { scenario: lasting, ..outlook(text, 2) }.total().seconds;
        assert_eq!(seconds, 32.0);
        // Apache Kafka is warmed up for 20 s beside them.
        let mut kafka = outlook(text, 2);
        kafka.specs = vec![TargetSpec::Kafka { home: "kafka".into(), settings: Vec::new() }];
        assert_eq!(kafka.share_of(Duration::from_secs(52)).unwrap(), 5.0);
        kafka.scenario = kafka.scenario.lasting(5.0);
        assert_eq!(kafka.total().seconds, 52.0);
        let reason = two.skipped(&two.scenario.cases[2]);
        assert_eq!((two.skipped(&two.scenario.cases[0]), reason), (None, Some("needs --brokers 3".to_owned())));
        let error = outlook(text, 2).share_of(Duration::from_secs(15)).unwrap_err().to_string();
        assert_eq!(
            error,
            "--budget is too small for 4 runs with their warm-up: give them 16s, or name some cases with --case"
        );
    }
}
