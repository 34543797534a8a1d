//! Who runs suites against a cluster: the binary, which knows the laboratory.

/// Runs suites, one at a time, and keeps what came of them.
pub trait Laboratory: Send + Sync + 'static {
    fn suites(&self) -> Vec<Suite>;

    /// The newest first.
    fn runs(&self) -> Vec<Run>;

    /// The id of the run that has begun, or why none has.
    fn start(&self, order: &Order) -> Result<String, String>;

    /// Ends a run that goes on; what it has measured is kept.
    fn stop(&self, id: &str) -> Result<(), String>;

    /// The report of a run, an HTML page.
    fn report(&self, id: &str) -> Option<String>;

    /// The cases that two runs have in common, the first over the second.
    fn compare(&self, first: &str, second: &str) -> Result<Vec<Compared>, String>;

    /// All runs of a suite, or why there is nothing to show.
    fn history(&self, suite: &str) -> Result<SuiteHistory, String>;
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
}

/// What is to be run, where.
#[derive(Clone, Debug)]
pub struct Order {
    pub suite: String,
    /// Of the cluster.
    pub name: String,
    pub bootstrap_servers: Vec<String>,
    /// How often each case is run.
    pub repeat: u32,
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
