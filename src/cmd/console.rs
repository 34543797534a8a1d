//! `parshall console`: the console of clusters that run already, of any Kafka.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ::console::{HttpUrl, HttpUrlError, MetricsUrl, SavedClusters, Sources, client_config};
use anyhow::{Result, bail};
use clap::builder::BoolishValueParser;
use client::{Client, ConnectionConfig, bootstrap_server};
use tokio::signal::unix::{SignalKind, signal};

use super::console_listener::{ConsoleAccess, ConsoleListener};
use super::failure::Usage;
use super::user_file::user_file;
use super::{args, output, properties};

/// Show clusters in the browser: any Kafka, several at once.
///
/// It shows what their protocol can tell; brokers of ours, which show more, have a console of their own in `parshall
/// serve`. Clusters that are added in the page are all that is stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall console
  parshall console --bootstrap-server kafka:9092
  parshall console --bootstrap-server orders=10.0.0.1:9092,10.0.0.2:9092 --bootstrap-server logs=10.1.0.1:9092
  parshall console --bootstrap-server kafka:9092 --connect http://connect:8083
  parshall console --bootstrap-server kafka:9092 --schema-registry http://registry:8081
  parshall console --bootstrap-server kafka:9092 --metrics 1@http://kafka:7071/metrics
  parshall console --bootstrap-server kafka:9093 --command-config client.properties --console-read-only
  parshall console --console-clusters-file clusters.json
  parshall console --console 0.0.0.0:9645 --console-password-file password.txt --console-tls-keystore console.pem")]
pub(crate) struct Args {
    /// Brokers to ask first, separated by commas, as often as there are clusters; with a name to show them by [default:
    /// 127.0.0.1:9092, if no cluster was added in the page]
    #[arg(long, value_name = "[NAME=]HOST:PORT,...", env = "PARSHALL_BOOTSTRAP_SERVER", hide_env_values = true)]
    #[arg(value_parser = cluster)]
    bootstrap_server: Vec<Cluster>,
    /// A properties file of Kafka's clients, for all clusters or for the one of this name
    #[arg(long, value_name = "[NAME=]FILE", env = "PARSHALL_COMMAND_CONFIG", hide_env_values = true)]
    command_config: Vec<String>,
    /// A worker of a Kafka Connect cluster (http://[USER:PASSWORD@]HOST:PORT), as often as there are such clusters;
    /// with the name of its Kafka cluster where there are several
    #[arg(long, value_name = "[NAME=]URL", value_parser = named_url::<HttpUrl>)]
    connect: Vec<NamedUrl<HttpUrl>>,
    /// The schema registry of a cluster (http://[USER:PASSWORD@]HOST:PORT), by whose schemas records are decoded; with
    /// the name of the cluster where there are several
    #[arg(long, value_name = "[NAME=]URL", value_parser = named_url::<HttpUrl>)]
    schema_registry: Vec<NamedUrl<HttpUrl>>,
    /// The metrics of a broker of Apache Kafka, as Prometheus' JMX exporter has them, as often as there are brokers: by
    /// its ID, or without one by its host; with the name of the cluster where there are several
    #[arg(long, value_name = "[NAME=][ID@]URL", value_parser = named_url::<MetricsUrl>)]
    metrics: Vec<NamedUrl<MetricsUrl>>,
    /// Where it listens
    #[arg(long, value_name = "HOST:PORT", env = "PARSHALL_CONSOLE", default_value = "127.0.0.1:9645")]
    console: ::console::Address,
    /// Where clusters are kept that are added in the page, with their credentials; nobody else may read it [default:
    /// parshall/console-clusters.json in $XDG_STATE_HOME]
    #[arg(long, value_name = "FILE")]
    console_clusters_file: Option<PathBuf>,
    #[command(flatten)]
    access: ConsoleAccess,
    /// Let a console that others than this machine can reach do without a password
    #[arg(long, env = "PARSHALL_INSECURE", value_parser = BoolishValueParser::new())]
    insecure: bool,
}

/// A cluster by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cluster {
    name: String,
    servers: Vec<String>,
}

fn cluster(text: &str) -> Result<Cluster, String> {
    let (name, servers) = text.split_once('=').unwrap_or((text, text));
    let servers = servers.split(',').map(|server| bootstrap_server(server.trim())).collect::<Result<_, _>>()?;
    Ok(Cluster { name: args::name(name.trim())?, servers })
}

/// The URL of a server that belongs to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedUrl<U> {
    cluster: Option<String>,
    url: U,
}

fn named_url<U: FromStr<Err = HttpUrlError>>(text: &str) -> Result<NamedUrl<U>, String> {
    // A URL may have an equals sign, too.
    let (cluster, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains("://") => (Some(args::name(name.trim())?), url),
        _ => (None, text),
    };
    let url = url.parse().map_err(|error: HttpUrlError| error.to_string())?;
    Ok(NamedUrl { cluster, url })
}

/// Of a cluster, what a flag names for it.
fn urls_of<U: Clone + Display + PartialEq>(
    flag: &str,
    urls: &[NamedUrl<U>],
    cluster: &str,
    names: &[&str],
) -> Result<Vec<U>, Usage> {
    let mut found = Vec::new();
    for NamedUrl { cluster: wanted, url } in urls {
        match wanted.as_deref() {
            Some(wanted) if !names.contains(&wanted) => {
                return Err(Usage(format!(
                    "{flag} {wanted}={url}: there is no cluster {wanted}; there are {}",
                    names.join(", ")
                )));
            }
            None if names.len() > 1 => {
                return Err(Usage(format!("{flag} {url}: say which cluster it belongs to, NAME={url}")));
            }
            Some(wanted) if wanted != cluster => {}
            _ if found.contains(url) => return Err(Usage(format!("{flag} {url} is named twice"))),
            _ => found.push(url.clone()),
        }
    }
    Ok(found)
}

/// The same of a flag that names one server for a cluster.
fn only_url_of(
    flag: &str,
    urls: &[NamedUrl<HttpUrl>],
    cluster: &str,
    names: &[&str],
) -> Result<Option<HttpUrl>, Usage> {
    match &urls_of(flag, urls, cluster, names)?[..] {
        [] => Ok(None),
        [url] => Ok(Some(url.clone())),
        [first, second, ..] => Err(Usage(format!("{flag}: {cluster} has one, and not both {first} and {second}"))),
    }
}

pub(crate) async fn run(mut args: Args) -> Result<()> {
    let default_file = || user_file("XDG_STATE_HOME", ".local/state", "console-clusters.json");
    let file = args.console_clusters_file.take().or_else(default_file);
    let saved_clusters = file.map(|path| Arc::new(SavedClusters::new(path)));
    let saved = saved_clusters.as_ref().map_or_else(|| Ok(Vec::new()), |saved| saved.read())?;
    if args.bootstrap_server.is_empty() && saved.is_empty() {
        args.bootstrap_server = vec![cluster("127.0.0.1:9092").map_err(Usage)?];
    }
    let names: Vec<_> = args.bootstrap_server.iter().map(|cluster| cluster.name.as_str()).collect();
    if let Some(twice) = names.iter().enumerate().find_map(|(at, name)| names[..at].contains(name).then_some(name)) {
        bail!(Usage(format!("there are two clusters {twice}: give them names, NAME=HOST:PORT")));
    }
    let sources = names.iter().map(|name| {
        let connects = urls_of("--connect", &args.connect, name, &names)?;
        let schema_registry = only_url_of("--schema-registry", &args.schema_registry, name, &names)?;
        let metrics = urls_of("--metrics", &args.metrics, name, &names)?;
        Ok(((*name).to_owned(), Sources { connects, schema_registry, metrics }))
    });
    let mut sources = sources.collect::<Result<BTreeMap<_, _>, Usage>>()?;
    let configs: Vec<_> = args.command_config.iter().map(|text| config_of(text, &names)).collect();
    let of_name = |name: &str| configs.iter().rev().find(|(wanted, _)| wanted.is_none_or(|wanted| wanted == name));
    let named = names.iter().filter_map(|name| Some(((*name).to_owned(), of_name(name)?.1.clone())));
    let command_configs: BTreeMap<_, _> = named.collect();
    let mut clusters = Vec::new();
    for Cluster { name, servers } in &args.bootstrap_server {
        let security = properties::security_of(command_configs.get(name).map(PathBuf::as_path))?;
        clusters.push((name.clone(), servers.clone(), security));
    }
    let all_have_users = !clusters.is_empty() && clusters.iter().all(|(.., security)| security.mechanism().is_some());
    let (place, access) = (Some(&args.console), &args.access);
    let listener = ConsoleListener::bind(place, access, args.insecure, None, all_have_users, saved_clusters);
    let Some(listener) = listener.await? else {
        bail!(Usage("--console is off, and there is nothing else to do".to_owned()));
    };
    let url = listener.url();
    let console = listener.start(None, command_configs.clone());
    for (name, servers, security) in clusters {
        let config = client_config(servers);
        let connection = ConnectionConfig { client_id: "parshall-console".to_owned(), security, ..config.connection };
        let client = Client::new(client::ClientConfig { connection, ..config });
        let sources = sources.remove(&name).unwrap_or_default();
        console.add_cluster(name, client, false, sources);
    }
    for cluster in saved {
        if let Err(error) = console.add_saved_cluster(&cluster) {
            tracing::warn!("the cluster {} that was added in the page is not shown: {error}", cluster.name);
        }
    }
    output::print(&format!("the console is on {url}\n"))?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// A file, and the cluster that it is for. A file may have an equals sign in its name, a cluster's name comes before.
fn config_of<'a>(text: &'a str, names: &[&str]) -> (Option<&'a str>, PathBuf) {
    match text.split_once('=') {
        Some((name, file)) if names.contains(&name) => (Some(name), Path::new(file).to_owned()),
        _ => (None, Path::new(text).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_servers_belong_to_a_cluster() {
        let url = |text: &str| text.parse::<HttpUrl>().unwrap();
        let named = |text| named_url::<HttpUrl>(text).unwrap();
        let urls = [named("a=http://c:1"), named("b=http://c:1"), named("a=http://c:2/x=y")];
        let of = |cluster, names: &[&str]| urls_of("--connect", &urls, cluster, names).map_err(|error| error.0);
        assert_eq!(of("a", &["a", "b"]), Ok(vec![url("http://c:1"), url("http://c:2/x=y")]));
        assert_eq!(of("a", &["a"]), Err("--connect b=c:1: there is no cluster b; there are a".to_owned()));
        let unnamed = [named("http://me:secret@c:1/x=y"), named("http://me:secret@c:1/x=y")];
        let of = |names: &[&str]| urls_of("--connect", &unnamed, "a", names).map_err(|error| error.0).unwrap_err();
        assert_eq!(of(&["a", "b"]), "--connect c:1/x=y: say which cluster it belongs to, NAME=c:1/x=y");
        assert_eq!(of(&["a"]), "--connect c:1/x=y is named twice");
        for wrong in ["c:1", "=http://c:1", "a=https://c:1"] {
            assert!(named_url::<HttpUrl>(wrong).is_err(), "{wrong}");
        }
        let of_broker = named_url::<MetricsUrl>("a=1@http://c:1/m?x=y").unwrap();
        assert_eq!((of_broker.cluster.as_deref(), of_broker.url.to_string()), (Some("a"), "1@c:1/m".to_owned()));
    }

    #[test]
    fn a_cluster_has_one_schema_registry() {
        let urls = ["a=http://r:1", "b=http://r:1", "b=http://r:2"].map(|text| named_url(text).unwrap());
        let of = |cluster| only_url_of("--schema-registry", &urls, cluster, &["a", "b", "c"]).map_err(|error| error.0);
        assert_eq!((of("a"), of("c")), (Ok("http://r:1".parse().ok()), Ok(None)));
        assert_eq!(of("b"), Err("--schema-registry: b has one, and not both r:1 and r:2".to_owned()));
    }

    #[test]
    fn clusters_have_names() {
        let named = |name: &str, servers: &[&str]| Cluster {
            name: name.to_owned(),
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        };
        assert_eq!(cluster("orders=a:1, b"), Ok(named("orders", &["a:1", "b:9092"])));
        assert_eq!(cluster("a:1"), Ok(named("a:1", &["a:1"])));
        assert!(cluster("x=").is_err() && cluster("=a:1").is_err());
        assert_eq!(config_of("orders=f=1", &["orders"]), (Some("orders"), PathBuf::from("f=1")));
        assert_eq!(config_of("a=b", &["orders"]), (None, PathBuf::from("a=b")));
    }
}
