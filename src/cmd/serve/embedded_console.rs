//! The console of the broker in the same process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use ::console::{Console, HttpUrl, NodeReport, PartitionChange, PartitionState, Sources, client_config};
use anyhow::{Result, bail};
use broker::Server;
use client::{Client, ClientConfig, ConnectionConfig, Security};
use configuration::{BrokerConfig, Endpoint};

use crate::cmd::console_certificate::ConsoleCertificate;
use crate::cmd::console_listener::{ConsoleAccess, ConsoleListener};
use crate::cmd::failure::Usage;
use crate::cmd::properties;

/// Of the cluster, in the console.
const NAME: &str = "local";

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
    /// A properties file of Kafka's clients with which the console connects to the broker, to the listener that it is
    /// for. Where it logs in, the console asks for users of the cluster, and acts as them
    #[arg(long, value_name = "FILE", env = "PARSHALL_CONSOLE_COMMAND_CONFIG")]
    console_command_config: Option<PathBuf>,
    /// Let the console speak HTTPS, with the certificate of the first listener that has one
    #[arg(long, conflicts_with = "console_tls_keystore")]
    console_https: bool,
    #[command(flatten)]
    access: ConsoleAccess,
}

pub(super) struct EmbeddedConsole {
    /// `None` with `--console off`, or if the default port is taken.
    running: Option<(String, Arc<Console>)>,
    node: Arc<Node>,
    sources: Sources,
    security: Security,
    /// Of each listener, in their order, how it is connected to.
    listeners: Vec<(Endpoint, &'static str)>,
}

impl EmbeddedConsole {
    /// Answers from now on, also while the broker starts.
    pub(super) async fn start(args: &ConsoleArgs, config: &BrokerConfig, is_insecure: bool) -> Result<Self> {
        let node = Arc::new(Node::default());
        let security = properties::security_of(args.console_command_config.as_deref())?;
        let listening = config.client_endpoints()?.into_iter().map(|endpoint| endpoint.security_protocol.name());
        let listeners: Vec<_> = config.advertised_endpoints()?.into_iter().zip(listening).collect();
        let is_listener = |(_, protocol): &(Endpoint, &str)| *protocol == security.protocol();
        if args.console_command_config.is_some() && !listeners.iter().any(is_listener) {
            let protocol = security.protocol();
            bail!(Usage(format!("--console-command-config is for {protocol}, and no listener of this broker is")));
        }
        let certificate = match args.console_https {
            true => {
                let none = || Usage("--console-https takes a listener with TLS, and this broker has none".to_owned());
                let (tls, allowed) = broker::tls_of_console(config)?.ok_or_else(none)?;
                let loaded = ConsoleCertificate::load(tls, allowed);
                Some(loaded.map_err(|error| Usage(format!("--console-https: {error}")))?)
            }
            false => None,
        };
        let has_users = security.mechanism().is_some();
        let place = args.console.as_ref();
        let listener = ConsoleListener::bind(place, &args.access, is_insecure, certificate, has_users, None).await?;
        let command_config = args.console_command_config.iter().map(|file| (NAME.to_owned(), file.clone()));
        let local: Arc<dyn ::console::Local> = Arc::clone(&node) as _;
        let start = |listener: ConsoleListener| (listener.url(), listener.start(Some(local), command_config.collect()));
        let running = listener.map(start);
        let (connects, schema_registry) = (args.connect.clone(), args.schema_registry.clone());
        let sources = Sources { connects, schema_registry, ..Sources::default() };
        Ok(Self { running, node, sources, security, listeners })
    }

    pub(super) fn url(&self) -> Option<&str> {
        self.running.as_ref().map(|(url, _)| url.as_str())
    }

    /// The broker has started.
    pub(super) fn show(&self, server: &Server) {
        self.node.begin(server.metrics());
        if let Some((_, console)) = &self.running {
            console.add_cluster(NAME, Client::new(self.client_of(server)), true, self.sources.clone());
        }
    }

    /// The console is a client like others, of the broker that it is part of.
    fn client_of(&self, server: &Server) -> ClientConfig {
        let of_protocol = self.listeners.iter().zip(server.addresses());
        let of_protocol = of_protocol.filter(|((_, protocol), _)| *protocol == self.security.protocol());
        let mut servers: Vec<_> =
            of_protocol.map(|((advertised, _), address)| bootstrap(advertised, *address)).collect();
        if servers.is_empty() {
            tracing::warn!(
                "the console cannot look at the cluster: no listener is PLAINTEXT; --console-command-config says how \
                 it is to connect"
            );
            servers = server.addresses().iter().map(|address| reachable(*address).to_string()).collect();
        }
        let config = client_config(servers);
        let connection = ConnectionConfig { security: self.security.clone(), ..config.connection };
        ClientConfig { connection, ..config }
    }
}

/// Where a listener is found: with TLS, under the name that its certificate is for.
fn bootstrap(advertised: &Endpoint, address: SocketAddr) -> String {
    match advertised.security_protocol.has_tls() && advertised.port != 0 {
        true if advertised.host.contains(':') => format!("[{}]:{}", advertised.host, advertised.port),
        true => format!("{}:{}", advertised.host, advertised.port),
        false => reachable(address).to_string(),
    }
}

/// An address that stands for all of this machine's is reached by loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        ip if !ip.is_unspecified() => address,
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST, address.port()).into(),
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
