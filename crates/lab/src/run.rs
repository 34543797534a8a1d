//! A run: every case of a scenario on every target, in an order that is fair to all of them, with its results kept.
//!
//! With several targets each case runs on all of them in turn before it is repeated, so that what changes on the
//! machine meanwhile meets them alike. What is measured is on disk after each case: an interrupted run goes on where it
//! was.

mod account;
mod case;
mod extent;
mod files;
mod idle;
mod open_files;
mod topics;
mod watch;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, ClientError, ConnectionError, Resource};
use tokio::time::sleep;

use crate::disk_probe::DiskProbe;
use crate::engine::EngineError;
use crate::net_download::probe_download;
use crate::net_probe::{NetProbe, probe_net};
use crate::proc_probe::{host_facts, program_checksum};
use crate::report::report_html;
use crate::result::{
    CaseResult, DiskFacts, Durability, NetworkFacts, Outcome, Preflight, RunFacts, SCHEMA_VERSION, Second, TargetFacts,
};
use crate::scenario::{Case, Load, Scenario, Stop};
use crate::settings::SettingError;
use crate::target::{Sizing, Target, TargetError, TargetSpec};
pub use extent::Extent;
use files::write_report;
pub use files::{FilesError, Results};

const DISK_PROBE: DiskProbe = DiskProbe { bytes: 256 * 1024 * 1024, syncs: 200, part_max: Duration::from_secs(2) };
/// What the disk probe writes at once.
const DISK_BLOCK_BYTES: u64 = 1024 * 1024;
const NET_PROBE: NetProbe = NetProbe { round_trips: 500, upload: Duration::from_millis(500) };
const DOWNLOAD: Duration = Duration::from_millis(500);
/// How often a blocking wait checks whether to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// What a Java virtual machine gets to warm up before the first case, in two loads: full batches, and lone records.
const JVM_WARM_UP_S: f64 = 10.0;
const JVM_WARM_UP_BATCH_BYTES: [&str; 2] = ["16384", "1"];

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub scenario: Scenario,
    pub extent: Extent,
    /// Instead of what cases say.
    pub repeat: Option<u32>,
    pub targets: Vec<TargetSpec>,
    /// Of each target that is started.
    pub brokers: u16,
    /// The directory for data of started brokers; the system's directory for temporary files otherwise.
    pub data_parent: Option<PathBuf>,
    /// Where results go.
    pub directory: PathBuf,
    /// The command line.
    pub command: String,
    /// What `--case ID` can be added to, to run a case alone. `None` where only all of them can be run.
    pub command_for_case: Option<String>,
    pub program_version: String,
    pub wall_ms: fn() -> i64,
    /// Wall time for people: RFC 3339 of milliseconds since 1970.
    pub format_time: fn(i64) -> String,
}

/// Progress events of a run.
#[derive(Debug)]
pub enum Event<'a> {
    Preparing(&'a str),
    Begun {
        case: &'a Case,
        target: &'a str,
        turn: Turn,
    },
    Second(&'a Second),
    Ended {
        result: &'a CaseResult,
        turn: Turn,
    },
    /// A case that an earlier run of the same plan has measured.
    Kept(&'a CaseResult),
}

/// The position of a case in a run.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Of the case in its scenario, from 1 on.
    pub case: usize,
    pub repetition: u32,
    /// Of all that is measured, from 1 on; `of` is how much that will be.
    pub number: usize,
    pub of: usize,
    /// It may be less: a search ends when it has its answer.
    pub is_at_most: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot measure the disk under {}: {error}", path.display())]
    Disk { path: PathBuf, error: io::Error },
    #[error("{} holds another run ({name}); name another directory with --out", path.display())]
    OtherRun { path: PathBuf, name: String },
    #[error("two targets are called {0:?}")]
    SameTarget(String),
    #[error("interrupted before the first case")]
    Interrupted,
}

/// Why a case has no figures.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("it needs {needed} brokers, and there are {brokers}")]
    TooFewBrokers { needed: usize, brokers: usize },
    #[error(
        "it limits the brokers' machines (broker_cpus, broker_memory), which can only be done with brokers that the lab \
         starts: take both out of the scenario to run it here"
    )]
    NotStarted,
    #[error("{reason}")]
    TooLarge { reason: String },
    #[error(
        "it needs {needed} open files, and this process may have {allowed}: raise its limit (ulimit -n, LimitNOFILE)"
    )]
    OpenFiles { needed: u64, allowed: u64 },
    #[error("the brokers' machines cannot be limited: {0}")]
    Limits(io::Error),
    #[error(
        "topic {topic} is there with {partitions} partitions and {replicas} replicas; the case says \
         {wanted_partitions} and {wanted_replicas}"
    )]
    OtherTopic { topic: String, partitions: usize, replicas: usize, wanted_partitions: u32, wanted_replicas: u32 },
    #[error("topic {topic} is there, and also on broker {broker}; the case uses the first {wanted} brokers")]
    ElsewhereToo { topic: String, broker: i32, wanted: usize },
    #[error("{ready} of {of} partitions had a leader, and no other got one within {limit_s} s: {error}")]
    NoLeaders { ready: usize, of: usize, limit_s: u64, error: ClientError },
    #[error("consumers had not found what to read within {limit_s} s")]
    Unassigned { limit_s: u64 },
    #[error("what consumers are to read could not be put there: {reason}")]
    Backlog { reason: String },
    #[error("idle_connections cannot be opened: {0}")]
    Idle(ConnectionError),
    #[error("the delaying proxy cannot be started: {0}")]
    Proxy(io::Error),
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("a task of the load has failed; this is a mistake in the program")]
    Panicked,
}

impl CaseError {
    /// Whether the cluster or this machine is too small for the case, which is nobody's mistake.
    fn is_of_machine(&self) -> bool {
        matches!(self, Self::TooFewBrokers { .. } | Self::NotStarted | Self::TooLarge { .. } | Self::OpenFiles { .. })
    }
}

/// Runs what the plan says, until it is done or `stop` is set. Returns all results, those of an earlier run included.
pub async fn run(plan: &Plan, stop: &Arc<AtomicBool>, mut show: impl FnMut(Event<'_>)) -> Result<Results, RunError> {
    let (session, earlier) = Session::start(plan, stop, &mut show).await?;
    let cases = session.cases(earlier, &mut show).await?;
    session.finish(cases).await
}

/// How long a target is given load before the first case.
pub fn warm_up_s(target: &TargetSpec) -> f64 {
    match target {
        TargetSpec::Kafka { .. } => JVM_WARM_UP_S * JVM_WARM_UP_BATCH_BYTES.len() as f64,
        TargetSpec::Embedded { .. } | TargetSpec::Servers { .. } => 0.0,
    }
}

/// What is given up halfway is dropped, which stops what it has started.
async fn unless_stopped<T>(stop: &AtomicBool, work: impl Future<Output = T>) -> Result<T, RunError> {
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::select! {
        done = work => Ok(done),
        () = stopped => Err(RunError::Interrupted),
    }
}

/// What is in the plan's directory already.
fn earlier(plan: &Plan) -> Result<Option<Results>, RunError> {
    if !Results::are_in(&plan.directory) {
        return Ok(None);
    }
    let results = Results::read(&plan.directory)?;
    let of_run = (&results.run.scenario, results.run.scale, results.run.duration_s);
    let is_same = of_run == (&plan.scenario.text, plan.extent.scale(), plan.scenario.duration_s);
    if !is_same {
        return Err(RunError::OtherRun { path: plan.directory.clone(), name: results.run.name });
    }
    Ok(Some(results))
}

async fn facts(plan: &Plan, targets: &[Target]) -> Result<RunFacts, RunError> {
    let mut described = Vec::new();
    let mut network = Vec::new();
    for (spec, target) in plan.targets.iter().zip(targets) {
        let client = Client::new(target.client_config());
        let cluster = client.cluster().await?;
        let mut brokers: Vec<_> = cluster.brokers.values().collect();
        brokers.sort_by_key(|broker| broker.id);
        for broker in &brokers {
            let result = probe_net(broker, &client.config().connection, NET_PROBE).await?;
            network.push(NetworkFacts {
                target: target.label.clone(),
                broker: broker.id,
                round_trip_p50_us: result.round_trip.quantile_us(0.5),
                round_trip_p99_us: result.round_trip.quantile_us(0.99),
                upload_mib_per_s: result.upload_bytes_per_s / 1_048_576.0,
                download_mib_per_s: None,
            });
        }
        described.push(TargetFacts {
            label: target.label.clone(),
            // A broker itself does not tell its commit.
            version: match target.is_this_program() {
                true => format!("parshall {}", plan.program_version),
                false => target.version.clone(),
            },
            brokers: brokers.len() as u32,
            is_local: target.is_local(),
            durability: durability(&client, brokers.first().map(|broker| broker.id)).await,
            settings: spec.settings().iter().cloned().collect(),
        });
    }
    let disk = match targets.iter().any(Target::is_local) {
        true => Some(disk_facts(plan.data_parent.clone().unwrap_or_else(std::env::temp_dir)).await?),
        false => None,
    };
    let checksum = tokio::task::spawn_blocking(program_checksum).await.expect("reading a file does not panic");
    let Scenario { name, title, description, charts, text, .. } = plan.scenario.clone();
    Ok(RunFacts {
        schema: SCHEMA_VERSION,
        name,
        title,
        description,
        scenario: text,
        scale: plan.extent.scale(),
        duration_s: plan.scenario.duration_s,
        started: (plan.format_time)((plan.wall_ms)()),
        command: plan.command.clone(),
        program_version: plan.program_version.clone(),
        program_checksum: checksum,
        targets: described,
        host: host_facts(),
        preflight: Preflight { disk, network },
        charts,
        search: None,
    })
}

/// A stop does not drop it: it leaves no topic behind.
async fn measure_downloads(plan: &Plan, targets: &[Target], network: &mut [NetworkFacts], stop: &AtomicBool) {
    for target in targets {
        let client = Client::new(target.client_config());
        match probe_download(&client, DOWNLOAD, (plan.wall_ms)(), stop).await {
            Ok(rates) => {
                for facts in network.iter_mut().filter(|facts| facts.target == target.label) {
                    facts.download_mib_per_s = rates.get(&facts.broker).map(|rate| rate / 1_048_576.0);
                }
            }
            Err(error) => tracing::warn!(%error, target = target.label, "how fast brokers send is not measured"),
        }
    }
}

/// Our brokers have a setting for it, Kafka's sync after so many records, if any.
async fn durability(client: &Client, broker: Option<i32>) -> Option<Durability> {
    const OURS: &str = "log.ack.durability";
    const KAFKAS: &str = "log.flush.interval.messages";
    let broker = Resource::broker(broker?);
    let described =
        client.describe_configs_named(std::slice::from_ref(&broker), &[OURS, KAFKAS].map(str::to_owned)).await;
    let entries = described.get(&broker)?.as_ref().ok()?;
    let value = |name: &str| entries.iter().find(|entry| entry.name == name)?.value.clone();
    let (name, value, synced) = match value(OURS) {
        Some(value) => (OURS, value, "disk"),
        None => (KAFKAS, value(KAFKAS)?, "1"),
    };
    let value = if value == i64::MAX.to_string() { "never".to_owned() } else { value };
    Some(Durability { is_synced: value == synced, setting: format!("{name}={value}") })
}

async fn disk_facts(path: PathBuf) -> Result<DiskFacts, RunError> {
    let dir = path.clone();
    let probe = move || Ok((DISK_PROBE.write_rates(&dir, DISK_BLOCK_BYTES)?, DISK_PROBE.sync_latency(&dir)?));
    let probed = tokio::task::spawn_blocking(probe).await.expect("a probe does not panic");
    let (rates, sync_latency) = probed.map_err(|error| RunError::Disk { path, error })?;
    Ok(DiskFacts {
        write_mib_per_s: rates.cached_bytes_per_s / 1_048_576.0,
        synced_mib_per_s: rates.synced_bytes_per_s / 1_048_576.0,
        sync_p50_us: sync_latency.quantile_us(0.5),
        sync_p99_us: sync_latency.quantile_us(0.99),
    })
}

/// Targets that run, and what is known of them.
pub(crate) struct Session<'a> {
    plan: &'a Plan,
    pub(crate) facts: RunFacts,
    stop: &'a Arc<AtomicBool>,
    pub(crate) targets: Vec<Target>,
}

impl<'a> Session<'a> {
    /// Also returns the cases that an earlier run of the same plan has left in its directory.
    pub(crate) async fn start(
        plan: &'a Plan,
        stop: &'a Arc<AtomicBool>,
        show: &mut impl FnMut(Event<'_>),
    ) -> Result<(Self, Vec<CaseResult>), RunError> {
        let earlier = earlier(plan)?;
        let sizing = Sizing::of(&plan.scenario.cases);
        let mut targets: Vec<Target> = Vec::new();
        for spec in &plan.targets {
            show(Event::Preparing(&format!("starting {}", spec.label())));
            let starting = Target::start(spec, plan.brokers, plan.data_parent.as_deref(), sizing.as_ref());
            let target = unless_stopped(stop, starting).await??;
            if targets.iter().any(|other| other.label == target.label) {
                return Err(RunError::SameTarget(target.label));
            }
            targets.push(target);
        }
        let (facts, earlier) = match earlier {
            Some(results) => (results.run, results.cases),
            None => {
                show(Event::Preparing("measuring the disk and the network"));
                let mut facts = unless_stopped(stop, facts(plan, &targets)).await??;
                measure_downloads(plan, &targets, &mut facts.preflight.network, stop).await;
                if stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                files::write_run(&plan.directory, &facts)?;
                (facts, Vec::new())
            }
        };
        let session = Self { plan, facts, stop, targets };
        for (spec, target) in plan.targets.iter().zip(&session.targets) {
            if matches!(spec, TargetSpec::Kafka { .. }) && !session.is_stopped() {
                show(Event::Preparing("warming up the Java virtual machines"));
                session.warm_up(target).await;
            }
        }
        Ok((session, earlier))
    }

    /// Writes what is known of the run anew.
    pub(crate) fn write_facts(&self) -> Result<(), FilesError> {
        files::write_run(&self.plan.directory, &self.facts)
    }

    /// Writes the report and stops what was started.
    pub(crate) async fn finish(self, cases: Vec<CaseResult>) -> Result<Results, RunError> {
        for target in self.targets {
            target.stop().await;
        }
        // An earlier run may have left cases there that this one was not asked for.
        report(&self.plan.directory)?;
        Ok(Results { run: self.facts, cases })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn cases(
        &self,
        mut kept: Vec<CaseResult>,
        show: &mut impl FnMut(Event<'_>),
    ) -> Result<Vec<CaseResult>, RunError> {
        kept.retain(|result| !matches!(result.outcome, Outcome::Failed { .. }) && !result.is_interrupted());
        let cases = &self.plan.scenario.cases;
        let repetitions = |case: &Case| self.plan.repeat.unwrap_or(case.repeat).max(1);
        let of = cases.iter().map(|case| repetitions(case) as usize * self.targets.len()).sum();
        let mut results = Vec::new();
        let mut given_up = BTreeSet::new();
        for (index, case) in cases.iter().enumerate() {
            for repetition in 1..=repetitions(case) {
                for target in &self.targets {
                    if self.is_stopped() {
                        return Ok(results);
                    }
                    let is_this = |result: &CaseResult| {
                        result.id == case.id && result.target == target.label && result.repetition == repetition
                    };
                    let lower_rates = (case.stop != Stop::Never).then(|| (target.label.clone(), but_rate(case)));
                    let result = if let Some(at) = kept.iter().position(is_this) {
                        let result = kept.swap_remove(at);
                        show(Event::Kept(&result));
                        result
                    } else {
                        let number = results.len() + 1;
                        let turn = Turn { case: index + 1, repetition, number, of, is_at_most: false };
                        match lower_rates.as_ref().is_some_and(|key| given_up.contains(key)) {
                            true => {
                                let reason = "a lower rate was too much already".to_owned();
                                self.keep(case, target, turn, Outcome::Skipped { reason }, show)?
                            }
                            false => self.measure(case, target, turn, show).await?,
                        }
                    };
                    if result.measured().is_some_and(|measured| measured.verdict.is_saturated) {
                        given_up.extend(lower_rates);
                    }
                    results.push(result);
                }
            }
        }
        Ok(results)
    }

    /// Runs a case and keeps its results.
    pub(crate) async fn measure(
        &self,
        case: &Case,
        target: &Target,
        turn: Turn,
        show: &mut impl FnMut(Event<'_>),
    ) -> Result<CaseResult, RunError> {
        show(Event::Begun { case, target: &target.label, turn });
        let unique = format!("{}-{}-{}", std::process::id(), (self.plan.wall_ms)() / 1000, turn.number);
        let measured = case::run_case(&self.around(target, &unique), case, |second| show(Event::Second(second))).await;
        let outcome = match measured {
            Ok(measured) => Outcome::Measured(Box::new(measured)),
            Err(error) if error.is_of_machine() => Outcome::Skipped { reason: error.to_string() },
            Err(error) => Outcome::Failed { reason: error.to_string() },
        };
        self.keep(case, target, turn, outcome, show)
    }

    fn keep(
        &self,
        case: &Case,
        target: &Target,
        turn: Turn,
        outcome: Outcome,
        show: &mut impl FnMut(Event<'_>),
    ) -> Result<CaseResult, RunError> {
        let result = CaseResult {
            schema: SCHEMA_VERSION,
            number: turn.case as u32,
            id: case.id.clone(),
            group: case.group.clone(),
            title: case.title.clone(),
            axes: case.axes.clone(),
            parameters: case.load.parameters(),
            target: target.label.clone(),
            repetition: turn.repetition,
            started: (self.plan.format_time)((self.plan.wall_ms)()),
            reproduce: match &self.plan.command_for_case {
                Some(command) => format!("{command} --case '{}'", case.id),
                None => self.plan.command.clone(),
            },
            host: self.facts.host.clone(),
            preflight: self.facts.preflight.clone(),
            published: case.published.clone(),
            outcome,
        };
        files::write_case(&self.plan.directory, &result)?;
        show(Event::Ended { result: &result, turn });
        Ok(result)
    }

    fn around<'b>(&'b self, target: &'b Target, unique: &'b str) -> case::Surroundings<'b> {
        case::Surroundings {
            target,
            extent: self.plan.extent,
            preflight: &self.facts.preflight,
            host: &self.facts.host,
            unique,
            wall_ms: self.plan.wall_ms,
            stop: self.stop,
        }
    }

    /// What is compiled only when it has run for a while must not count for the first case.
    async fn warm_up(&self, target: &Target) {
        for batch_bytes in JVM_WARM_UP_BATCH_BYTES {
            let producer = [("acks", "1"), ("batch.size", batch_bytes)];
            let load = Load {
                partitions: 6,
                consumers: 1,
                duration_s: JVM_WARM_UP_S,
                warm_up_s: 0.0,
                producer: producer.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                ..Load::default()
            };
            let unique = format!("{}-warm-up-{batch_bytes}", std::process::id());
            let around = case::Surroundings { extent: Extent::Time, ..self.around(target, &unique) };
            if let Err(error) = case::run_case(&around, &Case::plain("warm-up", load), |_| {}).await {
                tracing::warn!(%error, "warming up");
            }
        }
    }
}

/// What cases have in common that ask for different rates.
fn but_rate(case: &Case) -> String {
    let mut load = case.load.clone();
    load.rate_records_per_s = 0.0;
    format!("{}{:?}", case.group, load.parameters())
}

impl CaseResult {
    /// Whether it was ended before it was done.
    pub fn is_interrupted(&self) -> bool {
        self.measured().is_some_and(|measured| measured.verdict.warnings.iter().any(|warning| warning == "interrupted"))
    }
}

/// Makes the report of a run anew.
pub fn report(directory: &Path) -> Result<PathBuf, FilesError> {
    let results = Results::read(directory)?;
    write_report(directory, &report_html(&results.run, &results.cases))
}
