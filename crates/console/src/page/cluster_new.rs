//! Adding a cluster in the page, when it has answered, and taking one away that was added so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use client::{Client, ClientError, bootstrap_server};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::topic_changes::{ConfirmPage, Confirmation};
use crate::failure::{Failure, render};
use crate::format::{counted, escape};
use crate::layout::Layout;
use crate::request_context::{Change, confirmed};
use crate::saved_clusters::{CLUSTERS_MAX, SavedCluster, SavedClusters, SavedClustersError};
use crate::{Console, Sources};

const NAME_CHARS_MAX: usize = 100;
const SERVERS_MAX: usize = 50;
/// Connect clusters, and pages of metrics.
const URLS_MAX: usize = 50;
/// A cluster that is added has to answer within this time.
const PATIENCE: Duration = Duration::from_secs(8);

const PROTOCOLS: [(&str, &str); 4] = [
    ("PLAINTEXT", "PLAINTEXT: neither TLS nor a login"),
    ("SSL", "SSL: TLS"),
    ("SASL_PLAINTEXT", "SASL_PLAINTEXT: a login"),
    ("SASL_SSL", "SASL_SSL: TLS and a login"),
];
const MECHANISMS: [&str; 3] = ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"];

#[derive(Template)]
#[template(path = "cluster_new.html")]
struct Page {
    layout: Layout,
    form: NewCluster,
    protocols: [(&'static str, &'static str); 4],
    mechanisms: [&'static str; 3],
    error: Option<String>,
    /// Something was typed that is not sent back.
    is_secret_lost: bool,
}

#[derive(Template)]
#[template(path = "cluster_saved.html")]
struct SavedPage {
    layout: Layout,
    name: String,
    href: String,
    facts: String,
}

/// What the form has. Secrets are never sent back.
#[derive(Deserialize)]
#[serde(default)]
pub(crate) struct NewCluster {
    name: String,
    servers: String,
    protocol: String,
    mechanism: String,
    user: String,
    password: String,
    trusted: String,
    certificate: String,
    key: String,
    connect: String,
    schema_registry: String,
    metrics: String,
}

impl Default for NewCluster {
    fn default() -> Self {
        Self {
            name: String::new(),
            servers: String::new(),
            protocol: PROTOCOLS[0].0.to_owned(),
            mechanism: MECHANISMS[0].to_owned(),
            user: String::new(),
            password: String::new(),
            trusted: String::new(),
            certificate: String::new(),
            key: String::new(),
            connect: String::new(),
            schema_registry: String::new(),
            metrics: String::new(),
        }
    }
}

impl NewCluster {
    fn cluster(&self) -> Result<SavedCluster, String> {
        let name = self.name.trim();
        let is_path = name == "." || name == "..";
        if name.is_empty() || is_path || name.contains(char::is_control) || name.chars().count() > NAME_CHARS_MAX {
            return Err(format!("a cluster needs a name of at most {NAME_CHARS_MAX} characters"));
        }
        let servers = self.servers.split([',', ' ', '\n', '\r']).filter(|server| !server.is_empty());
        let bootstrap_servers = servers.map(bootstrap_server).collect::<Result<Vec<_>, _>>()?;
        if !(1..=SERVERS_MAX).contains(&bootstrap_servers.len()) {
            return Err(format!("name from 1 to {SERVERS_MAX} servers, HOST:PORT each"));
        }
        let schema_registry = self.schema_registry.trim();
        Ok(SavedCluster {
            name: name.to_owned(),
            bootstrap_servers,
            properties: self.properties()?,
            connect: urls(&self.connect)?,
            schema_registry: (!schema_registry.is_empty()).then(|| schema_registry.to_owned()),
            metrics: urls(&self.metrics)?,
        })
    }

    /// Takes out what is never sent back, and returns whether there was anything.
    fn hide_secrets(&mut self) -> bool {
        let mut secrets = vec![&mut self.password, &mut self.key];
        let urls = [&mut self.connect, &mut self.schema_registry, &mut self.metrics];
        secrets.extend(urls.into_iter().filter(|urls| has_login(urls)));
        let mut is_secret_lost = false;
        for secret in secrets {
            is_secret_lost |= !std::mem::take(secret).is_empty();
        }
        is_secret_lost
    }

    /// As Kafka's clients call them. What the protocol does not need is left out; files of the console's machine are
    /// not for who sees its pages.
    fn properties(&self) -> Result<BTreeMap<String, String>, String> {
        let mut properties = BTreeMap::new();
        let mut set = |name: &str, value: String| drop(properties.insert(name.to_owned(), value));
        let has_login = self.protocol.starts_with("SASL");
        let has_tls = self.protocol.ends_with("SSL");
        if has_login {
            if self.user.is_empty() || self.password.is_empty() {
                return Err("a login needs a user and a password".to_owned());
            }
            set("sasl.mechanism", self.mechanism.clone());
            set("sasl.jaas.config", jaas_config(&self.mechanism, &self.user, &self.password)?);
        }
        if has_tls && !self.trusted.trim().is_empty() {
            set("ssl.truststore.type", "PEM".to_owned());
            set("ssl.truststore.certificates", self.trusted.trim().to_owned());
        }
        if has_tls && !self.certificate.trim().is_empty() {
            set("ssl.keystore.type", "PEM".to_owned());
            set("ssl.keystore.certificate.chain", self.certificate.trim().to_owned());
            set("ssl.keystore.key", self.key.trim().to_owned());
        }
        set("security.protocol", self.protocol.clone());
        Ok(properties)
    }
}

/// One on each line.
fn urls(text: &str) -> Result<Vec<String>, String> {
    let urls: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    match urls.len() {
        0..=URLS_MAX => Ok(urls),
        _ => Err(format!("name at most {URLS_MAX} URLs of a kind")),
    }
}

/// Whether some URL has, or may be meant to have, a login before its host.
fn has_login(urls: &str) -> bool {
    urls.split_whitespace().any(|url| url.split_once("://").map_or(url, |(_, rest)| rest).contains('@'))
}

fn jaas_config(mechanism: &str, user: &str, password: &str) -> Result<String, String> {
    let module = match mechanism {
        "PLAIN" => "plain.PlainLoginModule",
        _ => "scram.ScramLoginModule",
    };
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    if [user, password].iter().any(|text| text.contains(char::is_control)) {
        return Err("a user and a password have no line breaks in them".to_owned());
    }
    let (user, password) = (quoted(user), quoted(password));
    Ok(format!("org.apache.kafka.common.security.{module} required username=\"{user}\" password=\"{password}\";"))
}

/// The file, where clusters may be added.
fn saved(console: &Console) -> Result<&Arc<SavedClusters>, Failure> {
    if console.options.is_read_only {
        return Err(Failure::forbidden("this console was started read-only"));
    }
    let none = || Failure::not_found("this console keeps no clusters: start “parshall console” to add some");
    console.options.saved_clusters.as_ref().ok_or_else(none)
}

fn page(console: &Console, status: StatusCode, mut form: NewCluster, error: Option<String>) -> Response {
    let (layout, is_secret_lost) = (Layout::outside(console), form.hide_secrets());
    render(status, &Page { layout, form, protocols: PROTOCOLS, mechanisms: MECHANISMS, error, is_secret_lost })
}

pub(crate) async fn form(State(console): State<Arc<Console>>) -> Result<Response, Failure> {
    saved(&console)?;
    Ok(page(&console, StatusCode::OK, NewCluster::default(), None))
}

pub(crate) async fn add(
    State(console): State<Arc<Console>>,
    Form(form): Form<NewCluster>,
) -> Result<Response, Failure> {
    let saved = Arc::clone(saved(&console)?);
    // One after the other: a name is not given twice.
    let _changing = saved.changing.lock().await;
    match tested(&console, &form).await {
        Ok((cluster, client, sources, facts)) => {
            let name = cluster.name.clone();
            changed(&saved, move |clusters| {
                clusters.retain(|known| known.name != cluster.name);
                clusters.push(cluster);
            })
            .await?;
            console.show_saved(&name, client, sources);
            tracing::info!(cluster = name, "a cluster was added in the console");
            let href = format!("/clusters/{}", escape(&name));
            let layout = Layout::outside(&console);
            Ok(render(StatusCode::OK, &SavedPage { layout, name, href, facts }))
        }
        Err(error) => Ok(page(&console, StatusCode::UNPROCESSABLE_ENTITY, form, Some(error))),
    }
}

/// A cluster that has answered, and what it said of itself.
async fn tested(console: &Console, form: &NewCluster) -> Result<(SavedCluster, Client, Sources, String), String> {
    let cluster = form.cluster()?;
    let known = console.clusters();
    if console.has_cluster(&cluster.name) {
        return Err(format!("there is a cluster {} already", cluster.name));
    }
    if known.iter().filter(|known| known.is_saved).count() >= CLUSTERS_MAX {
        return Err(format!("{CLUSTERS_MAX} clusters have been added: remove one first"));
    }
    let client = cluster.client().map_err(|error| error.to_string())?;
    let sources = cluster.sources().map_err(|error| error.to_string())?;
    // A connection that cannot be made is not tried again: what is wrong with it is told at once.
    let asked = async {
        client.any_broker().await?;
        client.cluster().await
    };
    let metadata = match timeout(PATIENCE, asked).await {
        Ok(metadata) => metadata.map_err(|error: ClientError| format!("it was not saved: {error}"))?,
        Err(_) => return Err(format!("it was not saved: it has not answered within {} s", PATIENCE.as_secs())),
    };
    let id = metadata.cluster_id.as_ref().map_or_else(String::new, |id| format!(", cluster id {id}"));
    let facts = format!("reachable: {}{id}", counted(metadata.brokers.len(), "broker"));
    Ok((cluster, client, sources, facts))
}

async fn changed(
    saved: &Arc<SavedClusters>,
    change: impl FnOnce(&mut Vec<SavedCluster>) + Send + 'static,
) -> Result<(), Failure> {
    let saved = Arc::clone(saved);
    let changed = spawn_blocking(move || saved.change(change)).await;
    let failed = |reason: String| Failure::unavailable(format!("nothing was changed: {reason}"));
    match changed {
        Ok(changed) => changed.map_err(|error: SavedClustersError| failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn is_removable(context: &crate::request_context::RequestContext) -> Result<(), Failure> {
    match context.cluster.is_saved {
        true => Ok(()),
        false => Err(Failure::wrong("this cluster was named when the console was started: leave it out there")),
    }
}

pub(crate) async fn remove_form(Change(context): Change) -> Result<Response, Failure> {
    is_removable(&context)?;
    let name = context.cluster.name.clone();
    let page = ConfirmPage {
        layout: context.layout(None),
        title: format!("Remove {name} from this console"),
        losses: vec![
            "how to reach it, with its credentials, which this console has kept".to_owned(),
            "its history here; the cluster itself stays as it is".to_owned(),
        ],
        name,
        action: "Remove it from the console",
        back: "/clusters".to_owned(),
    };
    Ok(render(StatusCode::OK, &page))
}

pub(crate) async fn remove(Change(context): Change, Form(form): Form<Confirmation>) -> Result<Response, Failure> {
    is_removable(&context)?;
    let name = context.cluster.name.clone();
    confirmed(&form.confirm, &name)?;
    let saved = Arc::clone(saved(&context.console)?);
    let _changing = saved.changing.lock().await;
    let removed = name.clone();
    changed(&saved, move |clusters| clusters.retain(|known| known.name != removed)).await?;
    context.console.hide_saved(&name);
    tracing::info!(cluster = name, "a cluster was removed from the console");
    Ok(Redirect::to("/clusters").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> NewCluster {
        NewCluster { name: " prod ".to_owned(), servers: "a:1, b\nc:3".to_owned(), ..NewCluster::default() }
    }

    #[test]
    fn a_form_becomes_properties_of_kafkas_clients() {
        let plain = form().cluster().unwrap();
        assert_eq!((plain.name.as_str(), plain.bootstrap_servers.join(" ").as_str()), ("prod", "a:1 b:9092 c:3"));
        assert_eq!(plain.properties.into_keys().collect::<Vec<_>>(), ["security.protocol"]);
        let secured = NewCluster {
            protocol: "SASL_SSL".to_owned(),
            mechanism: "PLAIN".to_owned(),
            user: "me".to_owned(),
            password: "a\"b\\c;".to_owned(),
            trusted: " PEM ".to_owned(),
            ..form()
        };
        let properties = secured.cluster().unwrap().properties;
        assert_eq!(
            properties["sasl.jaas.config"],
            "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"me\" \
             password=\"a\\\"b\\\\c;\";"
        );
        assert_eq!((&*properties["ssl.truststore.certificates"], &*properties["ssl.truststore.type"]), ("PEM", "PEM"));
        // As it is read again.
        let login = NewCluster { protocol: "SASL_PLAINTEXT".to_owned(), ..secured };
        assert!(login.cluster().unwrap().client().is_ok());
        // What the protocol does not need is not kept.
        let without = NewCluster { protocol: "PLAINTEXT".to_owned(), ..login };
        assert_eq!(without.cluster().unwrap().properties.len(), 1);
    }

    #[test]
    fn other_servers_are_taken_as_they_were_typed_and_logins_are_not_sent_back() {
        let mut form = NewCluster {
            connect: " http://c:1\r\nhttp://me:sesame@c:2\r\n".to_owned(),
            schema_registry: " http://r:1 ".to_owned(),
            metrics: "1@http://k:7071/metrics\nhttp://k-2:7071/metrics".to_owned(),
            key: "sesame".to_owned(),
            ..form()
        };
        let cluster = form.cluster().unwrap();
        assert_eq!(cluster.connect, ["http://c:1", "http://me:sesame@c:2"]);
        assert_eq!((cluster.schema_registry.as_deref(), cluster.metrics.len()), (Some("http://r:1"), 2));
        assert!(form.hide_secrets());
        assert_eq!((&*form.connect, &*form.key, &*form.schema_registry), ("", "", " http://r:1 "));
        assert!(form.metrics.contains("1@http://k:7071"));
        assert!(!form.hide_secrets());
        // Also where the scheme was forgotten or mistyped.
        for typed in ["me:sesame@c:1", "htp://me:sesame@c:1"] {
            let mut mistyped = NewCluster { schema_registry: typed.to_owned(), ..NewCluster::default() };
            assert!(mistyped.hide_secrets() && mistyped.schema_registry.is_empty(), "{typed}");
        }
        let none = NewCluster { connect: " \n".to_owned(), schema_registry: " ".to_owned(), ..self::form() };
        let none = none.cluster().unwrap();
        assert_eq!((none.connect.len(), none.schema_registry), (0, None));
        assert!(NewCluster { metrics: "a ".repeat(URLS_MAX + 1), ..self::form() }.cluster().is_err());
    }

    #[test]
    fn a_cluster_needs_a_name_servers_and_a_whole_login() {
        let wrong = [
            NewCluster { name: " ".to_owned(), ..form() },
            NewCluster { name: "..".to_owned(), ..form() },
            NewCluster { name: "a\nb".to_owned(), ..form() },
            NewCluster { servers: " , ".to_owned(), ..form() },
            NewCluster { servers: "http://a".to_owned(), ..form() },
            NewCluster { servers: "a ".repeat(SERVERS_MAX + 1), ..form() },
            NewCluster { protocol: "SASL_SSL".to_owned(), user: "me".to_owned(), ..form() },
        ];
        assert!(wrong.iter().all(|form| form.cluster().is_err()));
        let broken = NewCluster {
            protocol: "SASL_SSL".to_owned(),
            user: "me".to_owned(),
            password: "a\nb".to_owned(),
            ..form()
        };
        assert!(broken.cluster().err().unwrap().contains("no line breaks"));
    }
}
