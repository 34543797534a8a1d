//! The runs of a suite in the order of time: for each case and target its figures, how they have changed, and whether
//! that is more than noise.
//!
//! Runs are given and condensed one at a time, so that a long history needs little memory. All that is in it can be
//! compared with the newest run; the others are listed with the reason.

mod change;
mod comparable;
mod noise;

use std::collections::{BTreeMap, BTreeSet};

pub use change::{Finding, Trend};

use crate::compare::{ComparedSide, Figures, Ratio, Spread, draw};
use crate::result::{CaseResult, RunFacts, TargetFacts};
use noise::BuildNoise;

/// A run as it was left behind, and what its directory is called.
#[derive(Clone, Debug)]
pub struct PastRun {
    pub directory: String,
    pub facts: RunFacts,
    pub cases: Vec<CaseResult>,
}

#[derive(Clone, Debug)]
pub struct History {
    /// The suite's, or the scenario's.
    pub name: String,
    pub title: String,
    /// The oldest first.
    pub runs: Vec<HistoryRun>,
    pub left_out: Vec<LeftOut>,
    /// In the order of the newest run's scenario and of its targets.
    pub cases: Vec<CaseHistory>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HistoryRun {
    pub directory: String,
    /// RFC 3339 in UTC.
    pub started: String,
    /// Of Parshall, with its commit.
    pub version: String,
    /// Targets of other versions than this, and what differs from the newest run's system.
    pub remarks: String,
}

/// A run that is left out, or one of its targets.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    pub directory: String,
    pub reason: String,
}

/// A case on a target.
#[derive(Clone, Debug)]
pub struct CaseHistory {
    pub id: String,
    pub title: String,
    pub target: String,
    /// Of the runs that have measured it, the oldest first.
    pub points: Vec<HistoryPoint>,
    /// What the newest run has come to, against the run before it and against the first.
    pub before: Finding,
    pub first: Finding,
}

/// A case in one run.
#[derive(Clone, Debug)]
pub struct HistoryPoint {
    /// Its place in [`History::runs`].
    pub run: usize,
    /// Of the target, empty where it is not known.
    pub version: String,
    pub figures: [Option<Spread>; 3],
    pub side: ComparedSide,
    /// Against the run before that has measured it, and against the first.
    pub before: Option<Step>,
    pub first: Option<Step>,
}

/// What a history shows of a case, in the order of [`HistoryPoint::figures`] and [`Step::ratios`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HistoryFigure {
    RecordsPerS,
    /// In milliseconds; there is none where a repetition is saturated.
    LatencyP99,
    /// Seconds per million records.
    BrokerCpu,
}

impl HistoryFigure {
    pub const ALL: [Self; 3] = [Self::RecordsPerS, Self::LatencyP99, Self::BrokerCpu];

    /// In a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RecordsPerS => "records/s",
            Self::LatencyP99 => "p99",
            Self::BrokerCpu => "broker CPU",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::RecordsPerS => "Throughput",
            Self::LatencyP99 => "Latency p99",
            Self::BrokerCpu => "Broker CPU per million records",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Self::RecordsPerS => "records/s",
            Self::LatencyP99 => "ms",
            Self::BrokerCpu => "s per million records",
        }
    }

    fn values(self, figures: &Figures) -> &[f64] {
        match self {
            Self::RecordsPerS => &figures.throughput,
            Self::LatencyP99 => &figures.latency_p99,
            Self::BrokerCpu => &figures.broker_cpu,
        }
    }
}

/// From an earlier run to a later one.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The later over the earlier.
    pub ratios: [Option<Ratio>; 3],
    pub finding: Finding,
}

/// A case in one run, before it is compared.
struct Sample {
    /// The newest run is 0.
    age: usize,
    version: String,
    /// What tells builds apart, of the target and of the program that put the load; `None` if that is not known.
    build: Option<String>,
    figures: Figures,
}

struct Samples {
    title: String,
    /// By the case's number, and the target's place in its run.
    place: (u32, usize),
    /// The newest first.
    samples: Vec<Sample>,
}

impl History {
    /// Of runs of one scenario, the newest first. `None` if none of them has measured anything.
    pub fn of(runs: impl IntoIterator<Item = PastRun>) -> Option<Self> {
        let mut collected = Collected::default();
        runs.into_iter().for_each(|run| collected.add(run));
        collected.finish()
    }

    /// The cases, each with all of its targets.
    pub fn by_case(&self) -> impl Iterator<Item = &[CaseHistory]> {
        self.cases.chunk_by(|a, b| a.id == b.id)
    }

    /// How many cases of the newest run are better or worse, and which: against the run before, and against the first.
    pub fn summary(&self) -> [String; 2] {
        let of = |finding: fn(&CaseHistory) -> &Finding| {
            let of_trend = |trend: Trend| {
                let cases: Vec<_> = self.cases.iter().filter(|case| finding(case).trend == trend).collect();
                let names = cases.iter().map(|case| self.name_of(case)).collect::<Vec<_>>().join(", ");
                match trend {
                    _ if cases.is_empty() => None,
                    Trend::Better | Trend::Worse => Some(format!("{} {trend} ({names})", cases.len())),
                    Trend::NoDifference => Some(format!("{} without a difference", cases.len())),
                    Trend::Unknown => Some(format!("{} unknown", cases.len())),
                }
            };
            Trend::ALL.into_iter().filter_map(of_trend).collect::<Vec<_>>().join(", ")
        };
        [of(|case| &case.before), of(|case| &case.first)]
    }

    /// Its id, and the target where there are several.
    pub fn name_of(&self, case: &CaseHistory) -> String {
        let is_alone = self.cases.iter().all(|other| other.target == case.target);
        if is_alone { case.id.clone() } else { format!("{} on {}", case.id, case.target) }
    }
}

#[derive(Default)]
struct Collected {
    newest: Option<RunFacts>,
    /// As the newest run has them that has them, with its age.
    targets: BTreeMap<String, (usize, TargetFacts)>,
    /// The newest first.
    runs: Vec<HistoryRun>,
    left_out: Vec<LeftOut>,
    seen: BTreeSet<[String; 3]>,
    cases: BTreeMap<(String, String), Samples>,
}

impl Collected {
    fn add(&mut self, run: PastRun) {
        let PastRun { directory, facts, mut cases } = run;
        cases.retain(|case| case.measured().is_some() && !case.is_interrupted());
        let reason = match &self.newest {
            _ if cases.is_empty() => Some("it has measured nothing".to_owned()),
            _ if !self.seen.insert([&facts.name, &facts.started, &facts.command].map(Clone::clone)) => {
                Some("it is a copy of another run".to_owned())
            }
            Some(newest) => comparable::why_not(newest, &facts),
            None => None,
        };
        if let Some(reason) = reason {
            return self.left_out.push(LeftOut { directory, reason });
        }
        let newest = self.newest.get_or_insert_with(|| facts.clone());
        let age = self.runs.len();
        self.runs.push(HistoryRun::of(&facts, newest, directory.clone()));
        for (place, target) in facts.targets.iter().enumerate() {
            let (_, as_newest) = self.targets.entry(target.label.clone()).or_insert((age, target.clone()));
            match comparable::why_not_target(as_newest, target) {
                Some(reason) => self.left_out.push(LeftOut { directory: directory.clone(), reason }),
                None => self.add_cases(&facts, target, (age, place), &cases),
            }
        }
    }

    fn add_cases(
        &mut self,
        facts: &RunFacts,
        target: &TargetFacts,
        (age, place): (usize, usize),
        cases: &[CaseResult],
    ) {
        let mut by_id = BTreeMap::<&str, Vec<&CaseResult>>::new();
        for case in cases.iter().filter(|case| case.target == target.label) {
            by_id.entry(case.id.as_str()).or_default().push(case);
        }
        for (id, repetitions) in by_id {
            let (title, number) = (&repetitions[0].title, repetitions[0].number);
            let samples = self.cases.entry((id.to_owned(), target.label.clone())).or_insert_with(|| Samples {
                title: title.clone(),
                place: (number, place),
                samples: Vec::new(),
            });
            samples.samples.push(Sample {
                age,
                version: target.version.clone(),
                build: comparable::build(facts, target),
                figures: Figures::of(&repetitions),
            });
        }
    }

    fn finish(self) -> Option<History> {
        let Self { newest, targets, mut runs, left_out, cases, .. } = self;
        let newest = newest?;
        let mut cases: Vec<_> = cases.into_iter().collect();
        cases.sort_by(|((a, _), of_a), ((b, _), of_b)| {
            (of_a.place.0, a, of_a.place.1).cmp(&(of_b.place.0, b, of_b.place.1))
        });
        let cases = cases.into_iter().map(|((id, target), samples)| {
            let newest_age = targets.get(&target).map_or(0, |(age, _)| *age);
            case_history(id, target, samples, newest_age, runs.len())
        });
        let cases = cases.collect();
        runs.reverse();
        Some(History { name: newest.name, title: newest.title, runs, left_out, cases })
    }
}

impl HistoryRun {
    fn of(facts: &RunFacts, newest: &RunFacts, directory: String) -> Self {
        let program = format!("parshall {}", facts.program_version);
        let others = facts.targets.iter().filter(|target| target.version != program);
        let others = others.map(|target| format!("{}: {}", target.label, known_version(&target.version)));
        Self {
            remarks: others.chain(comparable::notes(newest, facts)).collect::<Vec<_>>().join("; "),
            directory,
            started: facts.started.clone(),
            version: facts.program_version.clone(),
        }
    }

    /// `2026-11-22`.
    pub fn day(&self) -> &str {
        self.started.split('T').next().unwrap_or_default()
    }

    /// `2026-11-22 04:37`.
    pub fn minute(&self) -> String {
        self.started.chars().take(16).map(|letter| if letter == 'T' { ' ' } else { letter }).collect()
    }
}

/// For people.
pub(crate) fn known_version(version: &str) -> &str {
    if version.is_empty() { "version unknown" } else { version }
}

fn case_history(id: String, target: String, samples: Samples, newest_age: usize, runs: usize) -> CaseHistory {
    let Samples { title, mut samples, .. } = samples;
    samples.reverse();
    let noises = HistoryFigure::ALL.map(|figure| BuildNoise::of(&samples, figure));
    let step = |earlier: &Sample, later: &Sample| step(earlier, later, &noises);
    let points = samples.iter().enumerate().map(|(at, sample)| HistoryPoint {
        run: runs - 1 - sample.age,
        version: sample.version.clone(),
        figures: HistoryFigure::ALL.map(|figure| Spread::of(figure.values(&sample.figures))),
        side: sample.figures.side.clone(),
        before: at.checked_sub(1).map(|before| step(&samples[before], sample)),
        first: (at > 0).then(|| step(&samples[0], sample)),
    });
    let points: Vec<_> = points.collect();
    let newest = points.last().filter(|point| point.run == runs - 1 - newest_age);
    let finding = |step: fn(&HistoryPoint) -> &Option<Step>| match newest {
        None => Finding::unknown("the newest run has not measured it"),
        Some(point) => step(point)
            .as_ref()
            .map_or_else(|| Finding::unknown("measured in one run only"), |step| step.finding.clone()),
    };
    let (before, first) = (finding(|point| &point.before), finding(|point| &point.first));
    CaseHistory { id, title, target, before, first, points }
}

fn step(earlier: &Sample, later: &Sample, noises: &[Option<BuildNoise>; 3]) -> Step {
    let is_disturbed = [earlier, later].iter().any(|sample| sample.figures.side.is_disturbed());
    let is_same_build = earlier.build.is_some() && earlier.build == later.build;
    let ratio = |figure: HistoryFigure| {
        let ratio = Ratio::of(figure.values(&later.figures), figure.values(&earlier.figures))?;
        let ratio = noises[figure as usize].map_or(ratio, |noise| noise.applied_to(ratio));
        Some(Ratio {
            // What other processes have taken is not in the spread of repetitions.
            interval: ratio.interval.filter(|_| !is_disturbed),
            // Whatever differs, no change of the program has made it.
            is_within_spread: ratio.is_within_spread || is_same_build,
            ..ratio
        })
    };
    let [records_per_s, p99, broker_cpu] = HistoryFigure::ALL.map(ratio);
    let conclusion = draw((&later.figures.side, &earlier.figures.side), records_per_s, p99, broker_cpu);
    let ratios = [records_per_s, p99, broker_cpu];
    Step { finding: Finding::of(conclusion).with_contrary(&ratios), ratios }
}

#[cfg(test)]
mod tests;
