//! Who runs suites against a cluster: the binary, which knows the laboratory.

/// Runs suites, one at a time, and keeps what came of them.
pub trait Laboratory: Send + Sync + 'static {
    /// Those that are built in, and scenarios that were kept.
    fn suites(&self) -> Vec<Suite>;

    /// The newest first.
    fn runs(&self) -> Vec<Run>;

    /// The id of the run that has begun, or why none has.
    fn start(&self, order: &Order) -> Result<String, String>;

    /// Ends a run that goes on; what it has measured is kept.
    fn stop(&self, id: &str) -> Result<(), String>;

    /// How far a run is that goes on.
    fn progress(&self, id: &str) -> Option<Progress>;

    /// What a search for the capacity has found.
    fn capacity(&self, id: &str) -> Option<Capacity>;

    /// The report of a run, an HTML page.
    fn report(&self, id: &str) -> Option<String>;

    /// The cases that two runs have in common, the first over the second.
    fn compare(&self, first: &str, second: &str) -> Result<Vec<Compared>, String>;

    /// All runs of a suite, or why there is nothing to show.
    fn history(&self, suite: &str) -> Result<SuiteHistory, String>;

    /// The TOML of a suite.
    fn scenario(&self, name: &str) -> Option<String>;

    /// Keeps a scenario by the name that it has, which it returns. Only one called `replaced` makes way for it.
    fn keep_scenario(&self, toml: &str, replaced: Option<&str>) -> Result<String, ScenarioMistake>;

    /// Forgets a scenario that was kept, and not what came of its runs.
    fn delete_scenario(&self, name: &str) -> Result<(), String>;
}

/// What can be run.
#[derive(Clone, Debug)]
pub struct Suite {
    pub name: String,
    pub title: String,
    pub description: String,
    pub cases: usize,
    /// About how long it takes.
    pub seconds: f64,
    /// Brokers that it needs.
    pub brokers: u32,
    /// Whether it was kept here, and is not built in.
    pub is_own: bool,
    /// Why it cannot be run.
    pub mistake: Option<String>,
}

/// What is wrong with a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioMistake {
    /// From 1 on.
    pub line: Option<usize>,
    pub reason: String,
}

/// What is to be run, where.
#[derive(Clone, Debug)]
pub struct Order {
    pub work: Work,
    /// Of the cluster.
    pub name: String,
    pub bootstrap_servers: Vec<String>,
}

#[derive(Clone, Debug)]
pub enum Work {
    Suite {
        name: String,
        /// How often each case is run.
        repeat: u32,
    },
    Capacity(CapacityOrder),
}

/// A search for the highest rate that meets a goal.
#[derive(Clone, Debug)]
pub struct CapacityOrder {
    /// `p99 <= 20ms`.
    pub goal: String,
    /// `1024`, or `100-2000`.
    pub record_size: String,
    pub partitions: u32,
    pub replicas: u32,
    pub acks: String,
    /// How long each rate is tried.
    pub step_seconds: u32,
}

#[derive(Clone, Debug)]
pub struct Run {
    pub id: String,
    pub suite: String,
    pub state: RunState,
    /// A line for each case that has ended.
    pub lines: Vec<String>,
    pub has_report: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Running,
    Finished,
    /// It ended before its time, with these words.
    Ended(String),
}

/// A run that goes on, as it was a moment ago.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Before its first case.
    Preparing {
        what: String,
        run_left_seconds: f64,
    },
    Running(RunningCase),
}

#[derive(Clone, Debug)]
pub struct RunningCase {
    pub case: String,
    pub title: String,
    /// Of all that is run, from 1 on.
    pub number: usize,
    pub of: usize,
    /// Whether there may be fewer.
    pub is_at_most: bool,
    /// From 0 to 1.
    pub part: f64,
    pub case_left_seconds: f64,
    pub run_left_seconds: f64,
    pub points: Vec<CasePoint>,
}

/// A second of a case, or a few.
#[derive(Clone, Copy, Debug)]
pub struct CasePoint {
    /// When it ended.
    pub at_ms: i64,
    /// Since the load began.
    pub at_seconds: f64,
    pub is_warm_up: bool,
    pub produced_records_per_second: f64,
    pub produced_bytes_per_second: f64,
    pub consumed_records_per_second: f64,
    pub consumed_bytes_per_second: f64,
    /// Of producers, in seconds.
    pub latency_p50: f64,
    pub latency_p99: f64,
}

#[derive(Clone, Debug)]
pub struct Capacity {
    pub goal: String,
    /// The highest rate that met the goal.
    pub highest_records_per_second: Option<f64>,
    pub lowest_missed_records_per_second: Option<f64>,
    /// Where latency begins to grow faster than the rate.
    pub knee_records_per_second: Option<f64>,
    /// As fast as possible, whatever the latency.
    pub unlimited_records_per_second: f64,
    pub steps: Vec<CapacityStep>,
}

/// A rate that was tried.
#[derive(Clone, Copy, Debug)]
pub struct CapacityStep {
    pub records_per_second: f64,
    pub reached_records_per_second: f64,
    pub latency_p50: f64,
    pub latency_p99: f64,
    pub meets_goal: bool,
}

/// A case in two runs: ratios of the first over the second.
#[derive(Clone, Debug)]
pub struct Compared {
    pub case: String,
    pub throughput: String,
    pub broker_cpu_per_record: String,
    pub latency_p99: String,
}

/// The runs of a suite in the order of time.
#[derive(Clone, Debug)]
pub struct SuiteHistory {
    pub title: String,
    /// What the newest run has come to in all, against the run before and against the first.
    pub summary: [String; 2],
    pub cases: Vec<HistoryCase>,
    /// The oldest first.
    pub runs: Vec<HistoryRun>,
    /// Runs that are left out, each with the reason.
    pub left_out: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct HistoryCase {
    pub id: String,
    pub title: String,
    /// One for each target.
    pub findings: Vec<HistoryFinding>,
    /// `<figure>` elements with SVG in them, escaped already.
    pub charts: String,
}

#[derive(Clone, Debug)]
pub struct HistoryFinding {
    pub target: String,
    /// Of the newest run against the one before, and against the first.
    pub changes: [HistoryChange; 2],
}

#[derive(Clone, Debug)]
pub struct HistoryChange {
    pub text: String,
    /// `None` where there is no difference, or none that is known.
    pub is_better: Option<bool>,
}

#[derive(Clone, Debug)]
pub struct HistoryRun {
    pub id: String,
    pub started: String,
    pub version: String,
    pub remarks: String,
}
