//! What the nodes of a cluster tell of themselves, and to whom.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Sender, channel};

use broker::{NodeError, NodeReport, Server};
use configuration::load::{Sources, load};
use platform::Env;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use wire::ErrorCode;
use wire::api::describe_node::DescribeNodeRequest;
use wire::api::find_coordinator::FindCoordinatorRequest;
use wire::api::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};

use crate::common::{TestBroker, TestClient};

/// Threads that a node serves its clients with.
const THREADS: usize = 2;

/// Three nodes in this process.
pub(crate) struct Nodes {
    /// Where each serves its clients, from node 1 on.
    runtimes: Vec<Runtime>,
    pub(crate) running: Vec<(i32, Server)>,
    /// Where each is reached by the others, from node 1 on.
    pub(crate) inter_broker: Vec<SocketAddr>,
    /// Their data.
    pub(crate) dirs: Vec<TempDir>,
}

impl Nodes {
    pub(crate) fn start() -> Self {
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtimes: Vec<_> = (0..3).map(|_| runtime().expect("a runtime starts")).collect();
        let free = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("there is a free port"));
        let inter_broker = free.map(|listener| listener.local_addr().expect("it listens")).to_vec();
        let voters: Vec<_> = (1..).zip(&inter_broker).map(|(id, address)| format!("{id}@{address}")).collect();
        let dirs: Vec<_> = (0..3).map(|_| TempDir::new().expect("there is a temporary directory")).collect();
        let mut starting = JoinSet::new();
        for (id, (dir, runtime)) in (1..).zip(dirs.iter().zip(&runtimes)) {
            let flags = [
                ("listeners", "PLAINTEXT://127.0.0.1:0".to_owned()),
                ("node.id", i32::to_string(&id)),
                ("controller.quorum.voters", voters.join(",")),
                ("group.initial.rebalance.delay.ms", "0".to_owned()),
                ("offsets.topic.num.partitions", "4".to_owned()),
                ("log.dirs", dir.path().to_str().expect("the path is UTF-8").to_owned()),
            ];
            let flags = flags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let config = load(Sources { flags, ..Sources::default() }).expect("the settings are good").config;
            let start = async move { (id, Server::start(config, Env::real()).await.expect("the node starts")) };
            starting.spawn_on(start, runtime.handle());
        }
        let mut running = runtimes[0].block_on(starting.join_all());
        running.sort_by_key(|(id, _)| *id);
        Self { runtimes, running, inter_broker, dirs }
    }

    /// What a node tells of all, as soon as it has heard of all.
    fn reports(&self, of: &Server) -> Vec<NodeReport> {
        loop {
            let reports = self.runtimes[0].block_on(of.metrics().nodes());
            if reports.len() == 3 {
                return reports;
            }
        }
    }

    pub(crate) fn node(&self, id: i32) -> TestClient {
        let running = self.running.iter().find(|(of, _)| *of == id);
        TestClient::connect(running.expect("it runs").1.addresses()[0])
    }

    /// Stops a node cleanly.
    pub(crate) fn stop(&mut self, id: i32) {
        let place = self.running.iter().position(|(of, _)| *of == id).expect("it runs");
        let (_, server) = self.running.remove(place);
        self.runtimes[id as usize - 1].block_on(server.stop());
    }

    /// Keeps all threads busy that a node serves its clients with, until what is returned is dropped.
    pub(crate) fn occupy(&self, id: i32) -> Vec<Sender<()>> {
        let (begins, begun) = channel();
        let occupy = |_| {
            let (ends, end) = channel();
            let begins = begins.clone();
            self.runtimes[id as usize - 1].spawn(async move {
                begins.send(()).expect("somebody waits for it");
                // Not asynchronously.
                end.recv().ok();
            });
            ends
        };
        let occupied = (0..THREADS).map(occupy).collect();
        begun.iter().take(THREADS).for_each(drop);
        occupied
    }

    /// The node that coordinates a group.
    fn coordinator(&self, group_id: &str) -> i32 {
        let request = FindCoordinatorRequest { coordinator_keys: vec![group_id.to_owned()], ..Default::default() };
        let mut client = self.node(1);
        loop {
            let found = client.ask(&request).coordinators.remove(0);
            if found.error_code.is_none() {
                return found.node_id;
            }
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // All at once: the last of them could not leave a cluster that is there no more.
        let mut stopping = JoinSet::new();
        for (id, server) in self.running.drain(..) {
            stopping.spawn_on(server.stop(), self.runtimes[id as usize - 1].handle());
        }
        self.runtimes[0].block_on(stopping.join_all());
    }
}

/// The page is whole, and that of the node.
fn check_page(report: &NodeReport) {
    let page = report.metrics.as_ref().expect("it is told");
    assert!(page.contains(&format!("node_id=\"{}\"", report.node_id)) && page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn each_node_tells_of_all_of_them() {
    let mut nodes = Nodes::start();
    for (_, server) in &nodes.running {
        let reports = nodes.reports(server);
        assert_eq!(reports.iter().map(|report| report.node_id).collect::<Vec<_>>(), [1, 2, 3]);
        reports.iter().for_each(check_page);
    }

    let of_gone = nodes.running[2].1.metrics();
    nodes.stop(3);
    assert!(nodes.runtimes[0].block_on(of_gone.nodes()).is_empty());
    let reports = nodes.reports(&nodes.running[0].1);
    reports[..2].iter().for_each(check_page);
    let error = reports[2].metrics.as_ref().expect_err("nobody is there");
    assert!(matches!(error, NodeError::Unreachable(_)), "{error}");

    // One that takes connections and says nothing is waited for, and holds up nobody else's answer.
    let _silent = TcpListener::bind(nodes.inter_broker[2]).expect("the port is free");
    let reports = nodes.reports(&nodes.running[0].1);
    reports[..2].iter().for_each(check_page);
    assert_eq!(reports[2].metrics, Err(NodeError::TimedOut));
}

#[test]
fn rebalances_are_told_of_by_the_coordinator() {
    let nodes = Nodes::start();
    let coordinator = nodes.coordinator("g");
    // In a version that admits a member at once.
    let protocols = vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }];
    let request = JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols,
        ..Default::default()
    };
    let mut client = nodes.node(coordinator);
    let joined = loop {
        let joined = client.call(3, &request);
        if joined.error_code.is_none() {
            break joined;
        }
    };
    for (_, server) in &nodes.running {
        for report in nodes.reports(server) {
            if report.node_id != coordinator {
                assert_eq!(report.rebalances, []);
                continue;
            }
            let [rebalance] = &report.rebalances[..] else { panic!("{:?}", report.rebalances) };
            assert_eq!((rebalance.group_id.as_str(), rebalance.cause.as_str()), ("g", "member_joined"));
            assert_eq!((&rebalance.member_id, rebalance.client_id.as_str()), (&joined.member_id, "test"));
            assert_eq!((rebalance.members, rebalance.duration_ms), (1, -1), "nobody has asked for an assignment yet");
        }
    }
}

#[test]
fn only_nodes_of_the_cluster_are_told() {
    let nodes = Nodes::start();
    let of_another = DescribeNodeRequest { cluster_id: "another".to_owned(), ..Default::default() };
    let told = TestClient::connect(nodes.inter_broker[0]).ask(&of_another);
    assert_eq!((told.error_code, told.metrics.len()), (ErrorCode::INCONSISTENT_CLUSTER_ID, 0));

    let mut client = TestClient::connect(nodes.running[0].1.addresses()[0]);
    client.send(0, &of_another);
    assert!(client.is_closed());
}

#[test]
fn a_node_alone_tells_of_itself() {
    let broker = TestBroker::start();
    let reports = broker.nodes();
    assert_eq!(reports.iter().map(|report| report.node_id).collect::<Vec<_>>(), [1]);
    reports.iter().for_each(check_page);
}
