//! One case on one target: topics, what consumers will find there, the load, and the results.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, ClientError, ConnectionConfig, ResetOffset};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::idle::IdleConnections;
use super::topics::Topics;
use super::watch::{Moment, Watch, Watched};
use super::{CaseError, Extent, account, open_files};
use crate::consume::{Clock, ConsumeLoad, ConsumeStats, consume};
use crate::delay_proxy::DelayProxy;
use crate::engine::EngineError;
use crate::payload::Payload;
use crate::proc_probe::HostFacts;
use crate::produce::ProduceLoad;
use crate::rate::{Pace, Schedule, share};
use crate::raw::produce_raw;
use crate::result::{BrokerLimits, Measured, Preflight, Second};
use crate::scenario::{Case, Load, Loop};
use crate::settings::ProducerSettings;
use crate::stats::Stats;
use crate::target::{Limited, Target};

/// What consumers find where the case is as long as a time: they read it again and again.
const BACKLOG_BYTES: u64 = 512 * 1024 * 1024;
/// How long consumers may take to find what to read, and to read what is left when producers have ended.
const ASSIGN_MAX: Duration = Duration::from_secs(60);
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// How long consumers of a backlog wait for a record before they end.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How long producers may take to end on request.
const STOP_MAX: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
const SECOND: Duration = Duration::from_secs(1);

/// The surroundings of a case.
pub(super) struct Surroundings<'a> {
    pub(super) target: &'a Target,
    pub(super) extent: Extent,
    pub(super) preflight: &'a Preflight,
    /// The machine that puts the load.
    pub(super) host: &'a HostFacts,
    /// Part of the names of topics and groups, so that runs do not meet.
    pub(super) unique: &'a str,
    pub(super) wall_ms: fn() -> i64,
    pub(super) stop: &'a Arc<AtomicBool>,
}

/// Runs a case; `show` is called each second.
pub(super) async fn run_case(
    around: &Surroundings<'_>,
    case: &Case,
    mut show: impl FnMut(&Second),
) -> Result<Measured, CaseError> {
    let load = &case.load;
    let admin = client(around.target, "parshall-lab", Arc::default());
    let mut brokers: Vec<_> = admin.cluster().await?.brokers.keys().copied().collect();
    brokers.sort_unstable();
    let needed = load.brokers_min() as usize;
    if needed > brokers.len() {
        return Err(CaseError::TooFewBrokers { needed, brokers: brokers.len() });
    }
    let limited = limit(around, load)?;
    if load.brokers_used > 0 {
        brokers.truncate(load.brokers_used as usize);
    }
    open_files::allow(load, brokers.len())?;
    if load.producers > 0 {
        load.engine.check_security(&around.target.security)?;
    }
    let proxies = Proxies::start(&admin, around.target, load).await?;
    let topics = Topics::make(&admin, load, &brokers, around.unique).await?;
    let idle = match open_idle(&admin, &proxies, around, load, &brokers).await {
        Ok(idle) => idle,
        Err(error) => {
            topics.delete(&admin).await;
            return Err(error);
        }
    };
    let mut running = Running {
        around,
        load,
        detours: proxies.detours(),
        topics: &topics.names,
        payload: Payload::random(load.record_size_bytes.sizes.clone(), load.repeated_part, 0)
            .with_keys(load.keys, load.key_range),
        brokers: brokers.len(),
        clock: Clock::at((around.wall_ms)()),
        limits: limited.as_ref().map(|limited| &limited.limits),
    };
    let result = running.run(&mut show).await;
    topics.delete(&admin).await;
    result.map(|mut measured| {
        measured.verdict.warnings.extend(limited.map(|limited| limited.warnings).unwrap_or_default());
        let closed = idle.closed();
        measured.verdict.warnings.extend((closed > 0).then(|| format!("brokers closed {closed} idle connections")));
        measured
    })
}

/// The connections that the case has beside its load, to the brokers that it uses.
async fn open_idle(
    admin: &Client,
    proxies: &Proxies,
    around: &Surroundings<'_>,
    load: &Load,
    brokers: &[i32],
) -> Result<IdleConnections, CaseError> {
    let known = admin.brokers().await?;
    let addresses: Vec<_> = brokers.iter().filter_map(|id| known.get(id).map(client::Broker::address)).collect();
    let config = client(around.target, "parshall-lab-idle", proxies.detours()).config().connection.clone();
    let open = IdleConnections::open(&addresses, &config, load.idle_connections as usize, around.stop);
    open.await.map_err(CaseError::Idle)
}

/// Gives the brokers machines of the size that the case wants, or the whole machine again.
fn limit(around: &Surroundings<'_>, load: &Load) -> Result<Option<Limited>, CaseError> {
    let size = load.broker_size();
    let is_limited = size.is_limited();
    if is_limited && !around.target.is_started() {
        return Err(CaseError::NotStarted);
    }
    if let Some(reason) = size.exceeds(around.host) {
        return Err(CaseError::TooLarge { reason });
    }
    let limited = around.target.limit(size).map_err(CaseError::Limits)?;
    Ok(limited.filter(|_| is_limited).map(|limited| limited.for_host(around.host, around.target.processes.len())))
}

fn client(target: &Target, client_id: &str, detours: Arc<BTreeMap<String, SocketAddr>>) -> Client {
    let mut config = target.client_config();
    config.connection = ConnectionConfig { client_id: client_id.to_owned(), detours, ..config.connection };
    Client::new(config)
}

/// The delay on the way to the brokers; ends when dropped.
struct Proxies(BTreeMap<String, DelayProxy>);

impl Proxies {
    async fn start(admin: &Client, target: &Target, load: &Load) -> Result<Self, CaseError> {
        let mut proxies = BTreeMap::new();
        if load.network_delay_ms > 0.0 {
            let one_way = Duration::from_secs_f64(load.network_delay_ms / 2000.0);
            let cluster = admin.cluster().await?;
            let brokers = cluster.brokers.values().map(client::Broker::address);
            for address in brokers.chain(target.bootstrap_servers.iter().cloned()) {
                let proxy = DelayProxy::start(&address, one_way).await.map_err(CaseError::Proxy)?;
                proxies.insert(address, proxy);
            }
        }
        Ok(Self(proxies))
    }

    fn detours(&self) -> Arc<BTreeMap<String, SocketAddr>> {
        Arc::new(self.0.iter().map(|(address, proxy)| (address.clone(), proxy.address)).collect())
    }
}

struct Running<'a> {
    around: &'a Surroundings<'a>,
    load: &'a Load,
    detours: Arc<BTreeMap<String, SocketAddr>>,
    topics: &'a [String],
    /// Of all producers: each has another seed, and they share the bytes.
    payload: Payload,
    brokers: usize,
    clock: Clock,
    limits: Option<&'a BrokerLimits>,
}

impl Running<'_> {
    async fn run(&mut self, show: &mut impl FnMut(&Second)) -> Result<Measured, CaseError> {
        let load = self.load;
        let stop_consumers = Arc::new(AtomicBool::new(false));
        if load.producers == 0 {
            self.fill().await?;
        }
        self.settle().await;
        let consumed = Arc::new(ConsumeStats::start());
        let is_along = load.producers > 0 && load.consumers > 0;
        // A group forms in seconds, which are none of the time that a load is measured for.
        let is_timed_backlog = load.producers == 0 && self.duration().is_some();
        let mut consumers = JoinSet::new();
        if (is_along && load.consumers_start_s == 0.0) || is_timed_backlog {
            self.start_consumers(&mut consumers, &consumed, &stop_consumers);
            self.wait_for_assignments(&mut consumers, &consumed).await?;
        }
        // Consumers have waited for each other; the clock of the load starts now.
        let produced = Arc::new(Stats::start());
        let watch = Watch {
            produced: &produced,
            consumed: &consumed,
            target: self.around.target,
            readers: self.load.readers(),
            has_producers: load.producers > 0,
            has_consumers: load.consumers > 0,
        };
        let mut late = load.consumers_start_s > 0.0 && is_along;
        let started = Instant::now();
        let mut watching = Watching::start(&watch, self.warm_up());
        let mut producers = JoinSet::new();
        self.start_producers(&mut producers, &produced)?;
        if load.producers == 0 && !is_timed_backlog {
            self.start_consumers(&mut consumers, &consumed, &stop_consumers);
        }
        let mut ticks = interval_at(started + SECOND, SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                done = producers.join_next(), if !producers.is_empty() => joined(done)?,
                done = consumers.join_next(), if !consumers.is_empty() => joined(done)?,
                () = sleep(LOOK_INTERVAL), if load.producers == 0 => {}
                _ = ticks.tick() => {
                    show(watching.tick(&watch));
                    if watching.just_warmed_up() {
                        _ = consumed.take_end_to_end();
                    }
                }
            }
            if late && started.elapsed().as_secs_f64() >= load.consumers_start_s {
                late = false;
                self.start_consumers(&mut consumers, &consumed, &stop_consumers);
            }
            let is_over = if load.producers > 0 {
                producers.is_empty()
            } else {
                self.has_read_enough(started.elapsed(), &consumed, &consumers)
            };
            if is_over || self.is_stopped() {
                break;
            }
        }
        // On Ctrl-C producers end by themselves, with all that they had sent answered; not if brokers do not answer.
        let ended = timeout(STOP_MAX, async {
            while let Some(done) = producers.join_next().await {
                joined(Some(done))?;
            }
            Ok::<_, CaseError>(())
        });
        if let Ok(result) = ended.await {
            result?;
        }
        producers.abort_all();
        // All records may have been given to the producers before the warm-up was over.
        let has_steady_records = load.producers == 0 || produced.steady().0.records > 0;
        let watched = watching.end(&watch, has_steady_records);
        let end_to_end = consumed.take_end_to_end();
        if is_along && !self.is_stopped() {
            self.drain(&mut consumers, &produced, &consumed).await?;
        }
        stop_consumers.store(true, Ordering::Relaxed);
        while let Some(done) = consumers.join_next().await {
            joined(Some(done))?;
        }
        Ok(account::measured(&account::Facts {
            load,
            watched: &watched,
            produced: &produced,
            consumed: &consumed,
            end_to_end: &end_to_end,
            brokers: self.brokers,
            broker_ids: &self.around.target.broker_ids(),
            is_local: self.around.target.is_local(),
            limits: self.limits,
            cores: self.around.host.cores,
            preflight: self.around.preflight,
            label: &self.around.target.label,
            is_interrupted: self.is_stopped(),
        }))
    }

    fn is_stopped(&self) -> bool {
        self.around.stop.load(Ordering::Relaxed)
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.load.warm_up_s)
    }

    fn records(&self) -> Option<u64> {
        self.around.extent.records(self.load)
    }

    fn duration(&self) -> Option<Duration> {
        self.around.extent.duration(self.load)
    }

    fn produce_load(&self, topic: usize, records: Option<u64>) -> Result<ProduceLoad, CaseError> {
        Ok(ProduceLoad {
            topic: self.topics[topic % self.topics.len()].clone(),
            records,
            duration: None,
            pace: Pace::Unlimited,
            warm_up_records: 0,
            warm_up: Duration::ZERO,
            settings: self.load.producer_settings()?,
            transaction_duration: Duration::ZERO,
            transactions: None,
            payload: self.payload.clone(),
            seed: topic as u64,
            started_wall_ms: self.clock.now_ms(),
        })
    }

    /// Fills topics with what consumers are to read, in batches as the producer's settings make them, and fast.
    async fn fill(&self) -> Result<(), CaseError> {
        let sizes = self.load.record_size_bytes.sizes.mean_bytes().max(1.0);
        let enough = (BACKLOG_BYTES as f64 / sizes) as u64;
        let records = match self.around.extent {
            Extent::Scale(_) => self.records().unwrap_or(enough),
            Extent::Time => enough,
        };
        let stats = Arc::new(Stats::start());
        let mut tasks = JoinSet::new();
        let topics = self.topics.len() as u64;
        for topic in 0..self.topics.len() {
            let mut load = self.produce_load(topic, Some(share(records, topics, topic as u64)))?;
            load.settings = ProducerSettings { acks: client::Acks::Leader, ..load.settings };
            let client = client(self.around.target, "parshall-lab-backlog", Arc::default());
            tasks.spawn(produce_raw(client, load, Arc::clone(&stats), Arc::clone(self.around.stop)));
        }
        while let Some(done) = tasks.join_next().await {
            joined(Some(done))?;
        }
        match stats.failures().into_iter().next() {
            Some((reason, _)) => Err(CaseError::Backlog { reason }),
            None => Ok(()),
        }
    }

    /// What was written before is on disk, so that it does not slow this run.
    async fn settle(&self) {
        if self.around.target.is_local() {
            let synced = tokio::task::spawn_blocking(rustix::fs::sync).await;
            synced.expect("syncing does not panic");
        }
    }

    fn start_producers(&self, tasks: &mut Tasks<EngineError>, stats: &Arc<Stats>) -> Result<(), CaseError> {
        let count = u64::from(self.load.producers);
        let pace = match self.load.rate() {
            None => Pace::Unlimited,
            Some(records_per_s) => {
                let schedule = Schedule::new(records_per_s, Duration::from_secs_f64(self.load.ramp_s));
                match self.load.rate_loop {
                    Loop::Open => Pace::OpenLoop(schedule),
                    Loop::Closed => Pace::ClosedLoop(schedule),
                }
            }
        };
        for n in 0..count {
            let mut load = self.produce_load(n as usize, self.records().map(|records| share(records, count, n)))?;
            load.duration = self.duration();
            load.pace = pace.turn(n, count);
            load.warm_up = self.warm_up();
            load.seed = n;
            load.transaction_duration = Duration::from_millis(self.load.transaction_ms);
            if self.load.transaction_ms > 0 {
                load.settings.transactional_id = Some(format!("parshall-lab-{}-{n}", self.around.unique));
            }
            let client = client(self.around.target, "parshall-lab-producer", Arc::clone(&self.detours));
            let (stats, stop) = (Arc::clone(stats), Arc::clone(self.around.stop));
            tasks.spawn(self.load.engine.produce(client, load, stats, stop));
        }
        Ok(())
    }

    fn start_consumers(&self, tasks: &mut Tasks, stats: &Arc<ConsumeStats>, stop: &Arc<AtomicBool>) {
        let is_backlog = self.load.producers == 0;
        for group in 0..self.load.consumer_groups.max(1) {
            for _ in 0..self.load.consumers {
                let mut settings = self.load.consumer_settings().unwrap_or_default();
                settings.fetch.reset = ResetOffset::Earliest;
                let rewinds = is_backlog && self.duration().is_some();
                if rewinds {
                    // A fetch that waits at the end would delay consumers that begin anew.
                    settings.fetch.fetch_max_wait = Duration::ZERO;
                }
                let is_in_group = self.load.consumer_groups > 0;
                let load = ConsumeLoad {
                    topics: self.topics.to_vec(),
                    group_id: is_in_group.then(|| format!("parshall-lab-{}-{group}", self.around.unique)),
                    records: None,
                    duration: None,
                    idle_max: if is_backlog { IDLE_MAX } else { Duration::MAX },
                    starts: BTreeMap::new(),
                    rewinds,
                    clock: (!is_backlog).then_some(self.clock),
                    settings,
                };
                let own = || client(self.around.target, "parshall-lab-consumer", Arc::clone(&self.detours));
                let (reader, heart, stats, stop) = (own(), own(), Arc::clone(stats), Arc::clone(stop));
                tasks.spawn(async move { consume(reader, heart, load, &stats, &stop).await });
            }
        }
    }

    async fn wait_for_assignments(&self, tasks: &mut Tasks, stats: &ConsumeStats) -> Result<(), CaseError> {
        let expected = u64::from(self.load.consumers) * u64::from(self.load.consumer_groups.max(1));
        let all = async {
            while stats.assigned() < expected && !self.is_stopped() {
                if let Some(done) = tasks.try_join_next() {
                    joined(Some(done))?;
                }
                sleep(LOOK_INTERVAL).await;
            }
            Ok(())
        };
        timeout(ASSIGN_MAX, all).await.map_err(|_| CaseError::Unassigned { limit_s: ASSIGN_MAX.as_secs() })?
    }

    /// Whether consumers of a backlog have come to their end.
    fn has_read_enough(&self, elapsed: Duration, consumed: &ConsumeStats, consumers: &Tasks) -> bool {
        match self.duration() {
            Some(duration) => elapsed >= duration,
            None => {
                let wanted = self.records().map(|records| records * self.load.readers());
                consumers.is_empty() || wanted.is_some_and(|wanted| consumed.consumed().records >= wanted)
            }
        }
    }

    /// Lets consumers read what producers have left.
    async fn drain(&self, tasks: &mut Tasks, produced: &Stats, consumed: &ConsumeStats) -> Result<(), CaseError> {
        let wanted = produced.total().0.records * self.load.readers();
        let deadline = Instant::now() + DRAIN_MAX;
        while consumed.consumed().records < wanted && Instant::now() < deadline && !self.is_stopped() {
            if let Some(done) = tasks.try_join_next() {
                joined(Some(done))?;
            }
            sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }
}

type Tasks<E = ClientError> = JoinSet<Result<(), E>>;

fn joined<E: Into<CaseError>>(done: Option<Result<Result<(), E>, tokio::task::JoinError>>) -> Result<(), CaseError> {
    match done {
        None => Ok(()),
        Some(Ok(result)) => result.map_err(Into::into),
        Some(Err(_)) => Err(CaseError::Panicked),
    }
}

/// The seconds so far.
struct Watching {
    warm_up: Duration,
    start: Moment,
    last: Moment,
    warmed_up: Option<Moment>,
    seconds: Vec<Second>,
    produced: u64,
    failed: u64,
}

impl Watching {
    fn start(watch: &Watch<'_>, warm_up: Duration) -> Self {
        let start = watch.now();
        let last = start.clone();
        Self { warm_up, start, last, warmed_up: None, seconds: Vec::new(), produced: 0, failed: 0 }
    }

    fn just_warmed_up(&self) -> bool {
        self.warmed_up.as_ref().is_some_and(|moment| moment.at == self.last.at)
    }

    fn tick(&mut self, watch: &Watch<'_>) -> &Second {
        let now = watch.now();
        let window = watch.produced.take_window();
        self.produced += window.records;
        let failed: u64 = watch.produced.failures().values().sum();
        let mut second = watch.second(&self.last, &now, &window, self.produced, failed - self.failed);
        self.failed = failed;
        let elapsed = now.at - self.start.at;
        second.at_s = elapsed.as_secs_f64();
        // Ticks come a little late, and a warm-up is whole seconds.
        second.is_warm_up = self.warmed_up.is_none() && !self.warm_up.is_zero();
        if self.warmed_up.is_none() && elapsed + Duration::from_millis(1) >= self.warm_up {
            self.warmed_up = Some(now.clone());
        }
        self.last = now;
        self.seconds.push(second);
        self.seconds.last().expect("it was just put there")
    }

    fn end(mut self, watch: &Watch<'_>, has_steady_records: bool) -> Watched {
        // The rest of a second is no sample of a second.
        let to = watch.now();
        if self.seconds.is_empty() {
            _ = self.tick(watch);
        }
        let is_behind = |moment: &Moment| moment.at < to.at && has_steady_records;
        let has_warmed_up = self.warm_up.is_zero() || self.warmed_up.as_ref().is_some_and(is_behind);
        let from = if has_warmed_up && !self.warm_up.is_zero() { self.warmed_up } else { None };
        Watched { seconds: self.seconds, from: from.unwrap_or(self.start), to, has_warmed_up }
    }
}
