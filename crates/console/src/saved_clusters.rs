//! Clusters that were added in the page. They are kept in a file of the console's own that only its user may read, for
//! their credentials are in it, and no page shows those again.
//!
//! The file is read anew before each change, under its lock: another console may have written it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use client::system_error::reason;
use client::{Client, ClientConfig, ConnectionConfig, SecurityConfig, SecurityError, private_file};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::http_source::HttpUrlError;
use crate::{HttpUrl, Sources};

/// More are not shown: each is asked for all that it has, again and again.
pub(crate) const CLUSTERS_MAX: usize = 100;
/// A page is not waited for longer than this.
const DEADLINE: Duration = Duration::from_secs(15);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The file with the clusters.
#[derive(Debug)]
pub struct SavedClusters {
    path: PathBuf,
    /// Held while something is changed.
    pub(crate) changing: Mutex<()>,
}

/// How to reach a cluster.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCluster {
    pub name: String,
    pub bootstrap_servers: Vec<String>,
    /// By the names of Kafka's clients: `security.protocol`, `sasl.jaas.config`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// Other servers that know something of it, as the flags have them: with a login in the URL where they need one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connect: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_registry: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    clusters: Vec<SavedCluster>,
}

#[derive(Debug, thiserror::Error)]
pub enum SavedClustersError {
    #[error("cannot read {}: {}", path.display(), reason(error))]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is not a file of clusters ({reason}): repair it, or remove it and add the clusters again", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot write {}: {}", path.display(), reason(error))]
    Write { path: PathBuf, error: io::Error },
}

/// Why a cluster cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SavedClusterError {
    #[error("another cluster has its name")]
    TakenName,
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// What is wrong with the URL of another server. A login in it is not quoted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{of}: {error}")]
    Url { of: &'static str, error: HttpUrlError },
    #[error("{of}: {url} is named twice")]
    Twice { of: &'static str, url: String },
}

impl SavedClusters {
    pub fn new(path: PathBuf) -> Self {
        Self { path, changing: Mutex::default() }
    }

    /// None where there is no file yet.
    pub fn read(&self) -> Result<Vec<SavedCluster>, SavedClustersError> {
        let path = || self.path.clone();
        let Some(text) =
            private_file::read(&self.path).map_err(|error| SavedClustersError::Read { path: path(), error })?
        else {
            return Ok(Vec::new());
        };
        // What serde says of a value may have some of it, and it may be a secret.
        let place = |error: serde_json::Error| format!("line {}, column {}", error.line(), error.column());
        let contents = serde_json::from_str::<Contents>(&text).map_err(place);
        contents
            .map(|contents| contents.clusters)
            .map_err(|reason| SavedClustersError::Malformed { path: path(), reason })
    }

    /// Changes the file as a whole: it has either what it had or what it shall have.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<SavedCluster>)) -> Result<(), SavedClustersError> {
        let failed = |error| SavedClustersError::Write { path: self.path.clone(), error };
        let _lock = private_file::lock(&self.path).map_err(failed)?;
        let mut clusters = self.read()?;
        change(&mut clusters);
        let contents = Contents { clusters };
        let text = serde_json::to_vec_pretty(&contents).map_err(io::Error::from);
        text.and_then(|text| private_file::write(&self.path, &text)).map_err(failed)
    }
}

impl SavedCluster {
    pub(crate) fn client(&self) -> Result<Client, SecurityError> {
        let mut security = SecurityConfig::default();
        for (name, value) in &self.properties {
            match security.set(name, value) {
                Err(error) if !error.is_harmless() => return Err(error),
                _ => {}
            }
        }
        let config = client_config(self.bootstrap_servers.clone());
        let connection = ConnectionConfig {
            client_id: "parshall-console".to_owned(),
            security: security.load()?,
            ..config.connection
        };
        Ok(Client::new(ClientConfig { connection, ..config }))
    }

    pub(crate) fn sources(&self) -> Result<Sources, SourceError> {
        Ok(Sources {
            connects: urls("Kafka Connect", &self.connect)?,
            schema_registry: urls::<HttpUrl>("schema registry", self.schema_registry.as_slice())?.pop(),
            metrics: urls("broker metrics", &self.metrics)?,
        })
    }
}

fn urls<U>(of: &'static str, texts: &[String]) -> Result<Vec<U>, SourceError>
where
    U: FromStr<Err = HttpUrlError> + Display + PartialEq,
{
    let mut urls = Vec::new();
    for text in texts {
        let url = text.parse::<U>().map_err(|error| SourceError::Url { of, error })?;
        if urls.contains(&url) {
            return Err(SourceError::Twice { of, url: url.to_string() });
        }
        urls.push(url);
    }
    Ok(urls)
}

/// Of a client whose answers a page waits for.
pub fn client_config(bootstrap_servers: Vec<String>) -> ClientConfig {
    let mut config = ClientConfig::new(bootstrap_servers);
    config.deadline = DEADLINE;
    config.connection.request_timeout = REQUEST_TIMEOUT;
    config
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;

    fn cluster(name: &str) -> SavedCluster {
        let properties = [("security.protocol".to_owned(), "PLAINTEXT".to_owned())];
        SavedCluster {
            name: name.to_owned(),
            bootstrap_servers: vec!["kafka:9092".to_owned()],
            properties: properties.into(),
            ..SavedCluster::default()
        }
    }

    fn names(saved: &SavedClusters) -> Vec<String> {
        saved.read().unwrap().into_iter().map(|cluster| cluster.name).collect()
    }

    #[test]
    fn clusters_are_kept_where_nobody_else_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/clusters.json");
        let saved = SavedClusters::new(path.clone());
        assert_eq!(names(&saved), Vec::<String>::new());
        saved.change(|clusters| clusters.push(cluster("a"))).unwrap();
        saved.change(|clusters| clusters.push(cluster("b"))).unwrap();
        // Another console, later.
        let other = SavedClusters::new(path.clone());
        assert!(other.read().unwrap() == [cluster("a"), cluster("b")]);
        other.change(|clusters| clusters.retain(|cluster| cluster.name != "a")).unwrap();
        assert_eq!(names(&saved), ["b"]);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 2, "only its lock is beside it");
    }

    #[test]
    fn two_consoles_lose_nothing_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clusters.json");
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d", "e", "f"] {
                let console = SavedClusters::new(path.clone());
                scope.spawn(move || console.change(|clusters| clusters.push(cluster(name))).unwrap());
            }
        });
        let mut kept = names(&SavedClusters::new(path));
        kept.sort();
        assert_eq!(kept, ["a", "b", "c", "d", "e", "f"]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test has files")]
    fn a_file_that_is_none_of_clusters_stays_as_it_is_and_is_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clusters.json");
        std::fs::write(&path, "{\"clusters\": [\n\"secret\"]}").unwrap();
        let saved = SavedClusters::new(path.clone());
        let error = saved.change(Vec::clear).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("repair it") && !error.contains("secret"), "{error}");
        assert!(std::fs::read_to_string(&path).unwrap().contains("secret"));
    }

    #[test]
    fn other_servers_are_kept_with_their_logins_and_named_without() {
        let text = r#"{"name":"a","bootstrap_servers":["k:1"],"connect":["http://me:sesame@c:1","http://c:2"],
            "schema_registry":"http://r:1","metrics":["1@http://me:sesame@k:7071/metrics"]}"#;
        let cluster: SavedCluster = serde_json::from_str(text).unwrap();
        assert!(serde_json::from_str::<SavedCluster>(&serde_json::to_string(&cluster).unwrap()).unwrap() == cluster);
        let sources = cluster.sources().unwrap();
        let connects: Vec<_> = sources.connects.iter().map(ToString::to_string).collect();
        let registry = sources.schema_registry.unwrap().to_string();
        assert_eq!((connects.join(" "), registry), ("c:1 c:2".to_owned(), "r:1".to_owned()));
        assert_eq!(sources.metrics[0].to_string(), "1@k:7071/metrics");

        let error = |cluster: SavedCluster| cluster.sources().unwrap_err().to_string();
        let twice = vec!["http://me:sesame@c:1".to_owned(), "http://me:sesame@c:1/".to_owned()];
        assert_eq!(error(SavedCluster { connect: twice, ..cluster.clone() }), "Kafka Connect: c:1 is named twice");
        let tls = Some("https://me:sesame@r:1".to_owned());
        let reason =
            "schema registry: only http:// is spoken here: put a proxy or a tunnel in front of a server with TLS";
        assert_eq!(error(SavedCluster { schema_registry: tls, ..cluster.clone() }), reason);
        let malformed = vec!["x@http://me:sesame@k".to_owned()];
        let reason = "broker metrics: it is a URL, as http://HOST:PORT";
        assert_eq!(error(SavedCluster { metrics: malformed, ..cluster }), reason);
    }

    #[test]
    fn a_client_has_the_security_that_was_saved() {
        assert!(cluster("a").client().is_ok());
        let wrong = [("security.protocol".to_owned(), "SASL_PLAINTEXT".to_owned())];
        let error = SavedCluster { properties: wrong.into(), ..cluster("a") }.client().err().unwrap();
        assert_eq!(error, SecurityError::NoMechanism);
    }
}
