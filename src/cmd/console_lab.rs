//! The console's laboratory: runs of `parshall lab`, each a process of its own, so that the load is not the broker's.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirEntry, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ::console::{
    Capacity, CapacityOrder, CapacityStep, CasePoint, Compared, Laboratory, Order, Progress, Run, RunState,
    RunningCase, ScenarioMistake, Suite, SuiteHistory, Work,
};
use lab::Results;
use parking_lot::{Mutex, MutexGuard};

use super::lab::capacity::CapacityLoad;
use super::lab::progress_file::{self, Point};
use super::lab::{compare, source};
use super::time;
use scenarios::Scenarios;

mod history;
mod scenarios;

/// What runs of a search are called, in place of a suite.
const CAPACITY: &str = "capacity";
const REPORT: &str = "report.html";
/// Of each run, the lines that are shown.
const LINES_MAX: usize = 500;
/// Runs that are shown.
const RUNS_MAX: usize = 100;

pub(crate) struct Runs {
    /// Each run has a directory in it, and beside that a file for what it prints.
    directory: PathBuf,
    /// Kafka's client properties, by cluster.
    command_configs: BTreeMap<String, PathBuf>,
    scenarios: Scenarios,
    running: Mutex<Option<Running>>,
}

struct Running {
    id: String,
    process: Child,
}

impl Runs {
    pub(crate) fn new(directory: PathBuf, command_configs: BTreeMap<String, PathBuf>) -> Self {
        let scenarios = Scenarios::new(directory.clone());
        Self { directory, command_configs, scenarios, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        let mut running = self.running.lock();
        if running.as_mut().is_some_and(|run| !matches!(run.process.try_wait(), Ok(None))) {
            *running = None;
        }
        running
    }

    /// The directory of a run that there is. Only names that runs have are looked for.
    fn find(&self, id: &str) -> Option<PathBuf> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let path = self.directory.join(id);
        (!id.is_empty() && id.chars().all(is_name) && path.is_dir()).then_some(path)
    }

    /// The words of `parshall lab` that run a suite.
    fn suite_command(&self, name: &str, repeat: u32) -> Result<Vec<OsString>, String> {
        let scenario = match lab::suite(name) {
            Some(suite) => suite.name.into(),
            None => self.scenarios.find(name).ok_or_else(|| format!("there is no suite {name:?}"))?.into_os_string(),
        };
        Ok(vec!["run".into(), scenario, "--repeat".into(), repeat.to_string().into()])
    }

    fn log(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.log"))
    }

    fn describe(&self, id: String, directory: &Path, running: Option<&str>) -> Run {
        let text = std::fs::read_to_string(self.log(&id)).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let cases = lines.iter().filter(|line| line.starts_with('['));
        let has_report = directory.join(REPORT).is_file();
        let state = match lines.last() {
            _ if running == Some(&id) => RunState::Running,
            Some(last) if last.starts_with("report:") => RunState::Finished,
            // It was run by hand, and its words are not known.
            None if has_report => RunState::Finished,
            last => RunState::Ended(last.map_or("it did not end by itself", |line| line).to_owned()),
        };
        Run {
            suite: suite_of(&id).to_owned(),
            lines: cases.take(LINES_MAX).map(|line| (*line).to_owned()).collect(),
            has_report,
            state,
            id,
        }
    }
}

/// A run is named by its suite, the day and the time.
fn suite_of(id: &str) -> &str {
    id.rsplitn(3, '-').nth(2).unwrap_or(id)
}

impl Drop for Runs {
    fn drop(&mut self) {
        if let Some(run) = &mut *self.running() {
            end(&run.process);
        }
    }
}

/// As Ctrl-C does: topics are deleted, and what was measured is kept.
fn end(process: &Child) {
    if let Some(pid) = i32::try_from(process.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

impl Laboratory for Runs {
    fn suites(&self) -> Vec<Suite> {
        let built_in = lab::suites().iter().filter_map(|suite| source::scenario(suite.name, &[]).ok());
        built_in.map(scenarios::suite_of).chain(self.scenarios.suites()).collect()
    }

    fn runs(&self) -> Vec<Run> {
        let running = self.running().as_ref().map(|run| run.id.clone());
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let is_run = |entry: &DirEntry| entry.path().is_dir();
        let mut found: Vec<_> = entries
            .filter(is_run)
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
            .collect();
        // The time stands at the end of a name.
        found.sort_by(|(a, _), (b, _)| b[suite_of(b).len()..].cmp(&a[suite_of(a).len()..]));
        found.truncate(RUNS_MAX);
        found.into_iter().map(|(id, path)| self.describe(id, &path, running.as_deref())).collect()
    }

    fn start(&self, order: &Order) -> Result<String, String> {
        let (name, command) = match &order.work {
            Work::Suite { name, repeat } => (name.as_str(), self.suite_command(name, *repeat)?),
            Work::Capacity(wanted) => (CAPACITY, capacity_command(wanted)?),
        };
        let mut running = self.running();
        if let Some(run) = &*running {
            return Err(format!("{} goes on: two runs at a time would measure each other", run.id));
        }
        let digits: String = time::format_time(time::now_ms()).chars().filter(char::is_ascii_digit).take(14).collect();
        let (day, clock) = digits.split_at(8.min(digits.len()));
        let id = format!("{name}-{day}-{clock}");
        let directory = self.directory.join(&id);
        let place = self.directory.display();
        let begin = || {
            std::fs::DirBuilder::new().recursive(true).create(&directory)?;
            let out = OpenOptions::new().create(true).append(true).open(self.log(&id))?;
            let err = out.try_clone()?;
            let mut process = Command::new(std::env::current_exe()?);
            process.arg("lab").args(command);
            process.args(["--bootstrap-server", &order.bootstrap_servers.join(","), "--out"]).arg(&directory);
            if let Some(path) = self.command_configs.get(&order.name) {
                process.arg("--command-config").arg(path);
            }
            process.stdin(Stdio::null()).stdout(out).stderr(err).spawn()
        };
        let process = begin().map_err(|error| format!("cannot run it, with results in {place}: {error}"))?;
        *running = Some(Running { id: id.clone(), process });
        Ok(id)
    }

    fn stop(&self, id: &str) -> Result<(), String> {
        match &*self.running() {
            Some(run) if run.id == id => {
                end(&run.process);
                Ok(())
            }
            _ => Err(format!("{id} does not run")),
        }
    }

    fn progress(&self, id: &str) -> Option<Progress> {
        let is_running = self.running().as_ref().is_some_and(|run| run.id == id);
        progress_file::read(&self.find(id).filter(|_| is_running)?).and_then(progress)
    }

    fn capacity(&self, id: &str) -> Option<Capacity> {
        let directory = self.find(id).filter(|_| suite_of(id) == CAPACITY)?;
        let search = Results::read(&directory).ok()?.run.search?;
        let found = search.capacities.into_iter().next()?;
        let step = |step: &lab::CapacityStep| CapacityStep {
            records_per_second: step.records_per_s,
            reached_records_per_second: step.reached_records_per_s,
            latency_p50: step.p50_us as f64 / 1e6,
            latency_p99: step.p99_us as f64 / 1e6,
            meets_goal: step.meets_goal,
        };
        Some(Capacity {
            highest_records_per_second: found.highest_records_per_s,
            lowest_missed_records_per_second: found.lowest_missed_records_per_s,
            knee_records_per_second: found.knee_records_per_s,
            unlimited_records_per_second: found.unlimited_records_per_s,
            steps: found.steps.iter().map(step).collect(),
            goal: search.goal,
        })
    }

    fn report(&self, id: &str) -> Option<String> {
        std::fs::read_to_string(self.find(id)?.join(REPORT)).ok()
    }

    fn compare(&self, first: &str, second: &str) -> Result<Vec<Compared>, String> {
        let results = |id: &str| {
            let directory = self.find(id).ok_or_else(|| format!("there is no run {id:?}"))?;
            Results::read(&directory).map_err(|error| error.to_string())
        };
        let (a, b) = (results(first)?, results(second)?);
        let compared = lab::compare(a.cases.iter(), b.cases.iter());
        if compared.is_empty() {
            return Err("the two runs have measured no case in common".to_owned());
        }
        let row = |case: lab::ComparedCase| Compared {
            throughput: compare::of_ratio(case.throughput.ratio),
            broker_cpu_per_record: compare::of_ratio(case.broker_cpu_per_record.ratio),
            latency_p99: compare::of_ratio(case.latency_p99.ratio),
            case: case.id,
        };
        Ok(compared.into_iter().map(row).collect())
    }

    fn history(&self, suite: &str) -> Result<SuiteHistory, String> {
        history::of_suite(&self.directory, suite)
    }

    fn scenario(&self, name: &str) -> Option<String> {
        lab::suite(name).map(|suite| suite.text.to_owned()).or_else(|| self.scenarios.text(name))
    }

    fn keep_scenario(&self, toml: &str, replaced: Option<&str>) -> Result<String, ScenarioMistake> {
        self.scenarios.keep(toml, replaced)
    }

    fn delete_scenario(&self, name: &str) -> Result<(), String> {
        self.scenarios.delete(name)
    }
}

/// What a run tells in its file.
fn progress(contents: progress_file::Contents) -> Option<Progress> {
    let Some(begun) = contents.begun else {
        let preparing = contents.preparing?;
        return Some(Progress::Preparing { what: preparing.what, run_left_seconds: preparing.run_left_s });
    };
    let last = contents.points.last();
    Some(Progress::Running(RunningCase {
        number: begun.number,
        of: begun.of,
        is_at_most: begun.is_at_most,
        part: last.map_or(0.0, |point| point.part),
        case_left_seconds: last.map_or(begun.case_left_s, |point| point.case_left_s),
        run_left_seconds: last.map_or(begun.run_left_s, |point| point.run_left_s),
        points: contents.points.iter().map(case_point).collect(),
        case: begun.case,
        title: begun.title,
    }))
}

fn case_point(point: &Point) -> CasePoint {
    const MIB: f64 = 1_048_576.0;
    CasePoint {
        at_ms: point.at_ms,
        at_seconds: point.at_s,
        is_warm_up: point.is_warm_up,
        produced_records_per_second: point.produced_records_per_s,
        produced_bytes_per_second: point.produced_mib_per_s * MIB,
        consumed_records_per_second: point.consumed_records_per_s,
        consumed_bytes_per_second: point.consumed_mib_per_s * MIB,
        latency_p50: point.latency_p50_us as f64 / 1e6,
        latency_p99: point.latency_p99_us as f64 / 1e6,
    }
}

/// The words of `parshall lab` that search as wanted, if that can be done.
fn capacity_command(wanted: &CapacityOrder) -> Result<Vec<OsString>, String> {
    let load = CapacityLoad {
        goal: wanted.goal.parse().map_err(|error: lab::CriterionError| error.to_string())?,
        step: Duration::from_secs(u64::from(wanted.step_seconds)),
        record_size: wanted.record_size.clone(),
        partitions: wanted.partitions,
        replicas: wanted.replicas,
        producers: 1,
        consumers: 0,
        producer_props: vec![("acks".to_owned(), wanted.acks.clone())],
    };
    load.scenario().map_err(|error| error.to_string())?;
    // What was typed cannot be taken for a flag.
    let words = [
        CAPACITY.to_owned(),
        format!("--goal={}", wanted.goal),
        format!("--step={}s", wanted.step_seconds),
        format!("--record-size={}", wanted.record_size),
        format!("--partitions={}", wanted.partitions),
        format!("--replicas={}", wanted.replicas),
        format!("--producer-props=acks={}", wanted.acks),
    ];
    Ok(words.map(OsString::from).to_vec())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn runs_are_told_by_what_they_left() {
        let home = tempfile::tempdir().unwrap();
        let runs = Runs::new(home.path().to_owned(), BTreeMap::new());
        assert!(runs.runs().is_empty());
        let make = |id: &str, log: Option<&str>, has_report: bool| {
            let directory = home.path().join(id);
            std::fs::DirBuilder::new().create(&directory).unwrap();
            let write = |path: PathBuf, text: &str| {
                std::io::Write::write_all(
                    &mut OpenOptions::new().create(true).append(true).open(path).unwrap(),
                    text.as_bytes(),
                )
                .unwrap();
            };
            if has_report {
                write(directory.join(REPORT), "<html>");
            }
            if let Some(log) = log {
                write(home.path().join(format!("{id}.log")), log);
            }
        };
        make("quick-20260101-000000", Some("[1/1] Q1 fast\n\nreport: x\n"), true);
        make("huawei-dms-20260102-000000", Some("[1/5] H1\nerror: no route\n"), false);
        make("single-node-20250101-000000", None, true);
        let told: Vec<_> = runs.runs().into_iter().map(|run| (run.suite, run.state, run.lines.len())).collect();
        let expected = [
            ("huawei-dms", RunState::Ended("error: no route".to_owned()), 1),
            ("quick", RunState::Finished, 1),
            ("single-node", RunState::Finished, 0),
        ];
        assert_eq!(told, expected.map(|(suite, state, lines)| (suite.to_owned(), state, lines)));
        assert_eq!(runs.report("quick-20260101-000000").as_deref(), Some("<html>"));
        for elsewhere in ["", ".", "..", "../etc", "quick-20260101-000000/", "none"] {
            assert_eq!(runs.report(elsewhere), None, "{elsewhere}");
        }
        assert!(runs.stop("quick-20260101-000000").is_err());
    }

    #[test]
    fn a_search_is_checked_before_it_is_started() {
        let wanted = CapacityOrder {
            goal: "p99 <= 5ms".to_owned(),
            record_size: "100-200".to_owned(),
            partitions: 6,
            replicas: 3,
            acks: "all".to_owned(),
            step_seconds: 10,
        };
        let words = capacity_command(&wanted).unwrap();
        let expected = "capacity --goal=p99 <= 5ms --step=10s --record-size=100-200 --partitions=6 --replicas=3 \
                        --producer-props=acks=all";
        assert_eq!(words.join(OsStr::new(" ")), expected);
        let error = |wanted: CapacityOrder| capacity_command(&wanted).unwrap_err();
        let goal = error(CapacityOrder { goal: "p98 < 1".to_owned(), ..wanted.clone() });
        assert!(goal.starts_with("\"p98\" is no figure"), "{goal}");
        let size = error(CapacityOrder { record_size: "--big".to_owned(), ..wanted });
        assert!(size.contains("is no record size") && !size.contains("line"), "{size}");
    }

    #[test]
    fn only_suites_and_scenarios_are_run() {
        let home = tempfile::tempdir().unwrap();
        let runs = Runs::new(home.path().to_owned(), BTreeMap::new());
        let own = home.path().join("mine.toml");
        assert!(runs.suite_command("mine", 1).is_err());
        runs.keep_scenario("name = \"mine\"\ntitle = \"t\"\n[[case]]\n", None).unwrap();
        let words = |name: &str| runs.suite_command(name, 2).unwrap().join(OsStr::new(" ")).into_string().unwrap();
        assert_eq!(words("quick"), "run quick --repeat 2");
        assert_eq!(words("mine"), format!("run {} --repeat 2", own.display()));
        for name in ["../mine", "/etc/passwd", "", "--help"] {
            assert!(runs.suite_command(name, 1).is_err(), "{name}");
        }
        assert!(runs.runs().is_empty(), "a scenario is no run");
        let suites = runs.suites();
        let last = suites.last().map(|suite| (suite.name.as_str(), suite.is_own));
        assert_eq!((last, suites[0].is_own), (Some(("mine", true)), false));
    }

    #[test]
    fn progress_is_of_the_last_second() {
        let begun = progress_file::Begun {
            number: 2,
            of: 5,
            is_at_most: false,
            case: "a".to_owned(),
            title: "t".to_owned(),
            target: "kafka".to_owned(),
            began_ms: 0,
            case_left_s: 20.0,
            run_left_s: 80.0,
        };
        let point = Point { at_ms: 1000, produced_mib_per_s: 2.0, latency_p99_us: 1500, ..Point::default() };
        let points = vec![point, Point { part: 0.5, case_left_s: 10.0, run_left_s: 70.0, ..point }];
        let of = |contents| match progress(contents) {
            Some(Progress::Running(case)) => (case.part, case.case_left_seconds, case.run_left_seconds, case.points),
            other => panic!("{other:?}"),
        };
        let contents = progress_file::Contents { preparing: None, begun: Some(begun), points };
        let (part, case_left, run_left, points) = of(contents.clone());
        assert_eq!((part, case_left, run_left), (0.5, 10.0, 70.0));
        assert_eq!((points[0].produced_bytes_per_second, points[0].latency_p99), (2_097_152.0, 0.0015));
        let (part, case_left, ..) = of(progress_file::Contents { points: Vec::new(), ..contents });
        assert_eq!((part, case_left), (0.0, 20.0));
        assert!(progress(progress_file::Contents::default()).is_none());
    }
}
