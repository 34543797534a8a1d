//! The console of the broker in the same process.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use ::console::{Console, HttpUrl, NodeReport, PartitionChange, PartitionState, Sources, client_config};
use anyhow::Result;
use broker::Server;
use client::{Client, ClientConfig};

use crate::cmd::console_listener::{ConsoleAccess, ConsoleListener};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConsoleArgs {
    /// Where the console is, with metrics and health, or off [default: 127.0.0.1:9644, if the port is free]
    #[arg(long, value_name = "HOST:PORT|off", env = "PARSHALL_CONSOLE")]
    console: Option<::console::Address>,
    /// A worker of a Kafka Connect cluster that the console shows (http://[USER:PASSWORD@]HOST:PORT), as often as there
    /// are such clusters
    #[arg(long, value_name = "URL")]
    connect: Vec<HttpUrl>,
    /// The schema registry of the cluster (http://[USER:PASSWORD@]HOST:PORT), whose schemas the console shows and
    /// decodes records by
    #[arg(long, value_name = "URL")]
    schema_registry: Option<HttpUrl>,
    #[command(flatten)]
    access: ConsoleAccess,
}

pub(super) struct EmbeddedConsole {
    /// `None` with `--console off`, or if the default port is taken.
    running: Option<(SocketAddr, Arc<Console>)>,
    node: Arc<Node>,
    sources: Sources,
}

impl EmbeddedConsole {
    /// Answers from now on, also while the broker starts.
    pub(super) async fn start(args: &ConsoleArgs, is_insecure: bool) -> Result<Self> {
        let node = Arc::new(Node::default());
        let listener = ConsoleListener::bind(args.console.as_ref(), &args.access, is_insecure, None).await?;
        let running =
            listener.map(|listener| (listener.address, listener.start(Some(Arc::clone(&node) as _), BTreeMap::new())));
        let (connects, schema_registry) = (args.connect.clone(), args.schema_registry.clone());
        let sources = Sources { connects, schema_registry, ..Sources::default() };
        Ok(Self { running, node, sources })
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.running.as_ref().map(|(address, _)| *address)
    }

    /// The broker has started.
    pub(super) fn show(&self, server: &Server) {
        self.node.begin(server.metrics());
        if let Some((_, console)) = &self.running {
            console.add_cluster("local", Client::new(client_of(server)), true, self.sources.clone());
        }
    }
}

/// What the console is told, which is nothing before the broker has started.
#[derive(Default)]
struct Node(OnceLock<broker::Metrics>);

impl Node {
    fn begin(&self, metrics: broker::Metrics) {
        self.0.set(metrics).ok();
    }
}

impl ::console::Local for Node {
    fn metrics(&self) -> String {
        self.0.get().map_or_else(|| "# EOF\n".to_owned(), broker::Metrics::text)
    }

    fn check_ready(&self) -> Result<(), String> {
        let metrics = self.0.get().ok_or("the broker is starting")?;
        metrics.check_ready().map_err(|reason| reason.to_string())
    }

    fn partition_changes(&self, topic: &str, partition: i32) -> Vec<PartitionChange> {
        let changes = self.0.get().map(|metrics| metrics.partition_changes(topic, partition));
        changes.into_iter().flatten().map(change).collect()
    }

    fn nodes(&self) -> Pin<Box<dyn Future<Output = Vec<NodeReport>> + Send + '_>> {
        Box::pin(async {
            let Some(metrics) = self.0.get() else { return Vec::new() };
            metrics.nodes().await.into_iter().map(report).collect()
        })
    }
}

fn change(of: broker::PartitionChange) -> PartitionChange {
    let state = |of: &broker::Partition| PartitionState {
        leader: Some(of.leader).filter(|leader| *leader >= 0),
        leader_epoch: of.leader_epoch,
        isr: of.isr.clone(),
        replicas: of.replicas.clone(),
    };
    PartitionChange {
        at_ms: of.at_ms,
        after_ms: None,
        cause: of.cause.to_string(),
        before: state(&of.before),
        after: state(&of.after),
    }
}

fn report(of: broker::NodeReport) -> NodeReport {
    let broker::NodeReport { node_id, metrics, rebalances } = of;
    let rebalances = rebalances.into_iter().map(|of| ::console::Rebalance {
        group: of.group_id,
        began_ms: of.began_ms,
        generation: of.generation,
        members: of.members,
        cause: of.cause,
        member_id: Some(of.member_id).filter(|id| !id.is_empty()),
        client_id: Some(of.client_id).filter(|id| !id.is_empty()),
        took_ms: u64::try_from(of.duration_ms).ok(),
    });
    NodeReport { node_id, metrics: metrics.map_err(|error| error.to_string()), rebalances: rebalances.collect() }
}

/// The console is a client like others, of the broker that it is part of.
fn client_of(server: &Server) -> ClientConfig {
    // An address that stands for all of this machine's is reached by loopback.
    let reachable = |address: &SocketAddr| match address.ip() {
        ip if !ip.is_unspecified() => *address,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, address.port()).into(),
    };
    client_config(server.addresses().iter().map(|address| reachable(address).to_string()).collect())
}
