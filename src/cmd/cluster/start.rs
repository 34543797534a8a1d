//! `parshall cluster start`: brokers as child processes, watched until SIGTERM or Ctrl-C.
//!
//! A broker that ends while the cluster starts ends the command. One that ends later is told of and not started again:
//! somebody may want to see what the others do meanwhile.

use std::ffi::OsString;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use lab::{LocalBroker, LocalCluster, LocalSpec};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::layout::{Layout, Wanted};
use super::secure::{self, Secured};
use crate::cmd::failure::Usage;
use crate::cmd::{args, output};

/// There may be much to check after a kill.
const READY_MAX: Duration = Duration::from_secs(120);
/// How long a broker may take to stop before it is killed.
const STOP_MAX: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Of the first broker's console, as of a single broker's.
const CONSOLE_PORT: u16 = 9644;
/// What this command decides for each broker.
const OWN_SETTINGS: [&str; 8] = [
    "node.id",
    "broker.id",
    "listeners",
    "advertised.listeners",
    "log.dirs",
    "log.dir",
    "controller.quorum.voters",
    "controller.listener.names",
];

/// Start a cluster on this machine, to try things out.
///
/// Its brokers are child processes. They listen on 127.0.0.1: for clients at --port and the ports behind it, for each
/// other behind those. One line says when all are ready. SIGTERM and Ctrl-C stop them one after the other, a second one
/// at once. Data and ports stay in the directory; the same command starts the same cluster again.
///
/// A broker that is killed is not started again: a line says how to do it.
///
/// With --secure the brokers speak TLS with clients and with each other, users log in, and nobody may do anything but
/// the user admin, before ACLs say so. It has a password in admin.properties in the directory, for --command-config.
/// The consoles are off: they would let in whoever uses this machine.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall cluster start
  parshall cluster start --secure
  parshall cluster start --nodes 5 --port 19092 --data-dir /tmp/five --set min.insync.replicas=2
  parshall cluster status")]
pub(super) struct Args {
    /// How many brokers [default: 3]
    #[arg(long, alias = "brokers", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    nodes: Option<u16>,
    /// Port of the first broker; 0: any ports that are free [default: 9092]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Port of the first broker's console on 127.0.0.1; those of the others are behind it [default: 9644, without
    /// --port and if these are free]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    console_port: Option<u16>,
    /// Where each broker has a directory for its data, and beside it a file for what it prints
    #[arg(long, value_name = "DIR", default_value = "./parshall-cluster")]
    data_dir: PathBuf,
    /// With TLS, users and ACLs; a cluster that was begun so stays so
    #[arg(long, conflicts_with = "console_port")]
    secure: bool,
    /// A setting of each broker by Kafka's name, as often as needed
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Print one JSON object in place of the line that says when all are ready
    #[arg(long)]
    json: bool,
}

/// Whether a broker could listen there.
fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = args::pair(text)?;
    match OWN_SETTINGS.contains(&name.as_str()) {
        true => Err(format!("{name} is another one for each broker, and this command's to decide")),
        false => Ok((name, value)),
    }
}

pub(super) async fn run(args: Args) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let wanted = Wanted { brokers: args.nodes, port: args.port };
    if args.data_dir.to_str().is_none() {
        bail!(Usage("--data-dir is not UTF-8".to_owned()));
    }
    // What starts a broker again may be typed elsewhere.
    let dir = std::path::absolute(&args.data_dir).context("cannot find the directory of the data")?;
    let layout = Layout::of(&dir, wanted)?;
    let mut ports = layout.ports.iter().flat_map(|ports| [ports.clients, ports.brokers]);
    if let Some(taken) = ports.find(|port| !is_free(*port)) {
        let advice = match layout.is_new {
            true => "choose others with --port, for example --port 19092",
            false => "is this cluster running already?",
        };
        bail!("port {taken} is in use, perhaps by 'parshall serve': {advice}");
    }
    if args.console_port.is_some_and(|first| usize::from(first) + layout.ports.len() > usize::from(u16::MAX) + 1) {
        bail!(Usage(format!("--console-port needs {} ports", layout.ports.len())));
    }
    let taken_console = |first: u16| (first..=u16::MAX).take(layout.ports.len()).find(|port| !is_free(*port));
    if let Some(taken) = args.console_port.and_then(taken_console) {
        bail!("port {taken} is in use: choose others with --console-port, for example --console-port 19644");
    }
    let is_secured = secure::is_secured(&dir);
    if args.secure && !is_secured && !layout.is_new {
        bail!(Usage(format!("the cluster in {} was begun without --secure; name another directory", dir.display())));
    }
    let is_secured = is_secured || args.secure;
    let default_console =
        || (!is_secured && args.port.is_none() && taken_console(CONSOLE_PORT).is_none()).then_some(CONSOLE_PORT);
    let console_port = args.console_port.or_else(default_console);
    layout.keep()?;
    let (secured, admin) = match is_secured {
        true => {
            let Secured { brokers, admin } = secure::secure(&dir, &layout.ports)?;
            (Some(brokers), Some(admin))
        }
        false => (None, None),
    };
    let spec = LocalSpec {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        ports: layout.ports.clone(),
        console_port,
        dir: dir.clone(),
        settings: args.settings,
        secured,
        hidden_variables: Vec::new(),
        log_level: None,
    };
    let mut cluster = spec.spawn()?;
    for LocalBroker { id, process, data_dir, log, .. } in cluster.brokers() {
        eprintln!("broker {id} starts: process {process}, data in {}, log in {}", data_dir.display(), log.display());
    }
    let console = |id: usize| console_port.map(|first| format!("http://127.0.0.1:{}", usize::from(first) + id - 1));
    let show = |broker: &LocalBroker| {
        let console = console(broker.id).map_or_else(String::new, |url| format!(", console on {url}"));
        eprintln!("broker {} is ready on {}{console}", broker.id, broker.address);
    };
    let is_ready = tokio::select! {
        started = cluster.until_ready(READY_MAX, show) => {
            if started.is_err() {
                layout.give_up();
            }
            started?;
            true
        }
        () = signals.next() => false,
    };
    if is_ready && args.json {
        let node = |broker: &LocalBroker| {
            json!({
                "node_id": broker.id, "address": broker.address, "console": console(broker.id),
                "process_id": broker.process, "data_dir": broker.data_dir, "log": broker.log,
            })
        };
        output::print_json(&json!({
            "bootstrap_servers": cluster.bootstrap_servers(), "data_dir": dir, "command_config": admin,
            "nodes": cluster.brokers().iter().map(node).collect::<Vec<_>>(),
        }))?;
    } else if is_ready {
        output::print(&format!(
            "parshall {} cluster of {} is ready on {}, data in {}\n",
            env!("CARGO_PKG_VERSION"),
            cluster.brokers().len(),
            cluster.bootstrap_servers().join(","),
            dir.display()
        ))?;
    }
    if let Some(admin) = admin.filter(|_| is_ready) {
        let (servers, admin) = (cluster.bootstrap_servers().join(","), args::quoted(&admin.to_string_lossy()));
        eprintln!("the user admin may do everything; for what follows in a shell:");
        eprintln!("export PARSHALL_BOOTSTRAP_SERVER={servers} PARSHALL_COMMAND_CONFIG={admin}");
        eprintln!("parshall topic list");
    }
    if is_ready {
        watch(&mut cluster, &mut signals).await?;
    }
    tokio::select! {
        () = cluster.stop_in_turn(STOP_MAX, |broker| eprintln!("broker {} stops", broker.id)) => {}
        () = signals.next() => eprintln!("stopping at once"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns when somebody wants the brokers to stop.
async fn watch(cluster: &mut LocalCluster, signals: &mut Signals) -> Result<()> {
    loop {
        for (broker, reason) in cluster.take_ended() {
            eprintln!("warning: broker {} has ended ({reason}); start it again with: {}", broker.id, again(&broker));
        }
        if cluster.brokers().is_empty() {
            bail!("all brokers have ended; their data is still there");
        }
        tokio::select! {
            () = signals.next() => return Ok(()),
            () = sleep(LOOK_INTERVAL) => {}
        }
    }
}

/// The command for a shell.
fn again(broker: &LocalBroker) -> String {
    let word = |word: &OsString| args::quoted(&word.to_string_lossy());
    broker.command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
