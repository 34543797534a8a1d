//! A machine of the cluster, and the server that runs on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use configuration::BrokerConfig;
use metadata::MetadataImage;
use parking_lot::Mutex;
use platform::Env;
use platform::simulation::SeededRandom;
use storage::SimDisk;
use tokio::sync::Notify;

use super::ledger::TopicPartition;
use super::machine::{Machine, MachineClock, Process};
use super::sockets::{Sockets, address_of};
use super::{CLIENT_PORT, DATA_DIR, NODE_PORT, VOTERS};
use crate::security::ListenerSecurity;
use crate::server::Ground;
use crate::stream::Socket;
use crate::threads::ControlPlane;
use crate::{Broker, Server, StartError, net};

/// Why a process has ended.
pub(super) enum Ended {
    /// By its own will: it has closed everything.
    Left,
    DiskFailed,
    Refused(StartError),
}

#[derive(Default)]
struct Control {
    state: Mutex<(bool, Option<Ended>)>,
    stops: Notify,
}

/// A server, in its process.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) machine: Arc<Machine>,
    control: Arc<Control>,
    /// Different for each start of each node.
    pub(super) start: u64,
    /// The metadata that was committed when it started.
    pub(super) committed_before: Arc<MetadataImage>,
}

impl Running {
    /// Whether it serves clients.
    pub(super) fn serves(&self) -> bool {
        self.control.state.lock().0
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        self.control.state.lock().1.take()
    }

    /// Is asked to stop.
    pub(super) fn leave(&self) {
        self.control.stops.notify_one();
    }

    pub(super) fn broker(&self) -> Option<Arc<Broker>> {
        self.machine.broker()
    }
}

/// What a process does that runs a server.
async fn serve(ground: Ground, config: BrokerConfig, env: Env, control: Arc<Control>) {
    let control_plane = ControlPlane::start().expect("there is one already");
    let ended = match Server::start_on(ground, control_plane, config, env, Vec::new()).await {
        Ok(server) => {
            control.state.lock().0 = true;
            let stops = tokio::select! {
                biased;
                () = control.stops.notified() => true,
                () = server.disk_failed() => false,
            };
            if !stops {
                control.state.lock().1 = Some(Ended::DiskFailed);
                // What it has in memory is looked at before it goes.
                std::future::pending::<()>().await;
            }
            server.stop().await;
            Ended::Left
        }
        Err(error) => Ended::Refused(error),
    };
    control.state.lock().1 = Some(ended);
}

pub(super) struct Node {
    pub(super) id: i32,
    pub(super) clock: MachineClock,
    pub(super) disk: SimDisk,
    pub(super) disks: u64,
    pub(super) running: Option<Running>,
    pub(super) is_stopped: bool,
    pub(super) slow_until_ms: i64,
    pub(super) hangs_until_ms: i64,
    /// When it is started again, if it is.
    pub(super) starts_at_ms: Option<i64>,
    pub(super) is_full: bool,
    /// Up to where each log was on disk, and its end, when the process ended.
    pub(super) left: BTreeMap<TopicPartition, (i64, i64)>,
    /// Whether its process has an operation ahead that fails.
    pub(super) is_failing: bool,
    /// The file of its metadata that has a wrong bit.
    pub(super) flipped: Option<String>,
}

impl Node {
    pub(super) fn new(id: i32, disk: SimDisk) -> Self {
        Self {
            id,
            clock: MachineClock::default(),
            disk,
            disks: 0,
            running: None,
            is_stopped: false,
            slow_until_ms: 0,
            hangs_until_ms: 0,
            starts_at_ms: None,
            is_full: false,
            left: BTreeMap::new(),
            is_failing: false,
            flipped: None,
        }
    }

    pub(super) fn start(
        &mut self,
        sockets: &Sockets,
        seed: u64,
        start: u64,
        lag_max_ms: i64,
        committed_before: Arc<MetadataImage>,
    ) {
        // A machine sets its clock before it starts anything else: a clock that was always wrong cannot be noticed.
        self.clock.set_wall_shift_ms(0);
        let process_seed = seed << 24 | (self.id as u64) << 16 | start;
        let machine = Machine::new(self.id, self.disk.clone(), sockets.clone(), process_seed);
        let process = Process::start(Arc::clone(&machine));
        sockets.have_power(self.id);
        let env = Env {
            clock: Arc::new(self.clock.clone()),
            disk: Arc::new(self.disk.clone()),
            random: Arc::new(SeededRandom::new(process_seed)),
            loggers: Arc::default(),
        };
        let config = config(self.id, lag_max_ms, seed);
        let control = Arc::<Control>::default();
        let for_process = Arc::clone(&control);
        let ground = ground(&config, sockets, self.id);
        process.enter(|| tokio::spawn(serve(ground, config, env, for_process)));
        self.running = Some(Running { process, machine, control, start, committed_before });
    }

    pub(super) fn broker(&self) -> Option<Arc<Broker>> {
        self.running.as_ref()?.broker()
    }

    pub(super) fn serves(&self) -> bool {
        self.running.as_ref().is_some_and(Running::serves)
    }
}

fn config(id: i32, lag_max_ms: i64, seed: u64) -> BrokerConfig {
    let address = |id: i32, port: u16| address_of(id, port).to_string();
    let voters: Vec<String> = (0..VOTERS).map(|voter| format!("{voter}@{}", address(voter, NODE_PORT))).collect();
    let settings: HashMap<&str, String> = [
        ("node.id", id.to_string()),
        ("log.dirs", DATA_DIR.to_owned()),
        ("listeners", format!("PLAINTEXT://{},CONTROLLER://{}", address(id, CLIENT_PORT), address(id, NODE_PORT))),
        ("controller.listener.names", "CONTROLLER".to_owned()),
        ("controller.quorum.voters", voters.join(",")),
        ("metadata.log.max.record.bytes.between.snapshots", "20000".to_owned()),
        ("replica.lag.time.max.ms", lag_max_ms.to_string()),
        ("offsets.topic.num.partitions", "1".to_owned()),
        ("log.cleaner.backoff.ms", "400".to_owned()),
        ("group.consumer.min.session.timeout.ms", "1".to_owned()),
        ("group.consumer.session.timeout.ms", "2500".to_owned()),
        ("group.consumer.min.heartbeat.interval.ms", "1".to_owned()),
        ("group.consumer.heartbeat.interval.ms", "300".to_owned()),
        ("group.consumer.assignment.interval.ms", "300".to_owned()),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500".to_owned()),
        ("leader.imbalance.check.interval.seconds", "3".to_owned()),
        ("log.retention.check.interval.ms", "2000".to_owned()),
        ("log.background.flush.interval.ms", "250".to_owned()),
        // Small, so that a follower needs several fetches.
        ("replica.fetch.max.bytes", "300".to_owned()),
        ("replica.fetch.response.max.bytes", "1000".to_owned()),
        ("request.timeout.ms", "5000".to_owned()),
        ("log.journal.enable", (!seed.is_multiple_of(3)).to_string()),
        // So small that files are written anew, and for some seeds so that much goes past it.
        ("log.journal.bytes", "131072".to_owned()),
        ("log.journal.bypass.bytes", if seed % 3 == 1 { "500" } else { "131072" }.to_owned()),
    ]
    .into();
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    BrokerConfig::new(settings).expect("the settings are valid")
}

fn ground(config: &BrokerConfig, sockets: &Sockets, id: i32) -> Ground {
    let listener = |name: &str, port: u16, is_inter_broker: bool| net::Listener {
        socket: Socket::Simulated(sockets.listen(address_of(id, port))),
        name: name.into(),
        is_inter_broker,
        security: ListenerSecurity::none().into(),
        admission: Arc::default(),
    };
    let mut endpoints = config.advertised_endpoints().expect("the settings are valid");
    endpoints.extend(config.advertised_inter_broker_endpoint().expect("the settings are valid"));
    Ground {
        descriptors: u64::MAX,
        lock: None,
        listeners: vec![listener("PLAINTEXT", CLIENT_PORT, false), listener("CONTROLLER", NODE_PORT, true)],
        endpoints,
    }
}
