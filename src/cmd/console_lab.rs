//! The console's laboratory: runs of `parshall lab`, each a process of its own, so that the load is not the broker's.

use std::collections::BTreeMap;
use std::fs::{DirEntry, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ::console::{
    Compared, HistoryCase, HistoryChange, HistoryFinding, HistoryRun, Laboratory, Order, Run, RunState, Suite,
    SuiteHistory,
};
use lab::{Finding, Results, Trend};
use parking_lot::{Mutex, MutexGuard};

use super::lab::past_runs::PastRuns;
use super::lab::{compare, outlook, source};
use super::time;

const REPORT: &str = "report.html";
/// Of each run, the lines that are shown.
const LINES_MAX: usize = 500;
/// Runs that are shown.
const RUNS_MAX: usize = 100;
/// Runs of a suite that its history shows, the newest.
const HISTORY_MAX: usize = 20;

pub(crate) struct Runs {
    /// Each run has a directory in it, and beside that a file for what it prints.
    directory: PathBuf,
    /// Kafka's client properties, by cluster.
    command_configs: BTreeMap<String, PathBuf>,
    running: Mutex<Option<Running>>,
}

struct Running {
    id: String,
    process: Child,
}

impl Runs {
    pub(crate) fn new(directory: PathBuf, command_configs: BTreeMap<String, PathBuf>) -> Self {
        Self { directory, command_configs, running: Mutex::default() }
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
        let suites = lab::suites().iter().filter_map(|suite| source::scenario(suite.name, &[]).ok());
        suites
            .map(|scenario| Suite {
                seconds: outlook::seconds(&scenario),
                cases: scenario.cases.len(),
                brokers: scenario.cases.iter().map(|case| case.load.brokers_min()).max().unwrap_or(1),
                name: scenario.name,
                title: scenario.title,
                description: scenario.description,
            })
            .collect()
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
        lab::suite(&order.suite).ok_or_else(|| format!("there is no suite {:?}", order.suite))?;
        let mut running = self.running();
        if let Some(run) = &*running {
            return Err(format!("{} goes on: two runs at a time would measure each other", run.id));
        }
        let digits: String = time::format_time(time::now_ms()).chars().filter(char::is_ascii_digit).take(14).collect();
        let (day, clock) = digits.split_at(8.min(digits.len()));
        let id = format!("{}-{day}-{clock}", order.suite);
        let directory = self.directory.join(&id);
        let place = self.directory.display();
        let command_config = self.command_configs.get(&order.name);
        let begin = || {
            std::fs::DirBuilder::new().recursive(true).create(&directory)?;
            let out = OpenOptions::new().create(true).append(true).open(self.log(&id))?;
            let err = out.try_clone()?;
            Command::new(std::env::current_exe()?)
                .args(["lab", "run", &order.suite, "--bootstrap-server", &order.bootstrap_servers.join(",")])
                .args(["--repeat", &order.repeat.to_string(), "--out"])
                .arg(&directory)
                .args(
                    command_config
                        .map(|path| ["--command-config".into(), path.clone().into_os_string()])
                        .into_iter()
                        .flatten(),
                )
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(err)
                .spawn()
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
        let runs = PastRuns::in_directory(&self.directory).map_err(|error| format!("cannot look for runs: {error}"))?;
        let history = runs.of_suite(suite).history(HISTORY_MAX);
        let history = history.ok_or_else(|| format!("no run of {suite:?} has measured anything"))?;
        let finding = |case: &lab::CaseHistory| HistoryFinding {
            target: case.target.clone(),
            changes: [&case.before, &case.first].map(history_change),
        };
        let cases = history.by_case().map(|on_targets| HistoryCase {
            id: on_targets[0].id.clone(),
            title: on_targets[0].title.clone(),
            findings: on_targets.iter().map(finding).collect(),
            charts: lab::history_charts(&history, on_targets),
        });
        let run = |run: &lab::HistoryRun| HistoryRun {
            id: run.directory.clone(),
            started: run.minute(),
            version: run.version.clone(),
            remarks: run.remarks.clone(),
        };
        Ok(SuiteHistory {
            cases: cases.collect(),
            runs: history.runs.iter().map(run).collect(),
            summary: history.summary(),
            left_out: history.left_out.into_iter().map(|run| (run.directory, run.reason)).collect(),
            title: history.title,
        })
    }
}

fn history_change(finding: &Finding) -> HistoryChange {
    let is_better = match finding.trend {
        Trend::Better => Some(true),
        Trend::Worse => Some(false),
        Trend::NoDifference | Trend::Unknown => None,
    };
    HistoryChange { text: finding.to_string(), is_better }
}

#[cfg(test)]
mod tests {
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
}
