//! `parshall tls`: authorities and certificates of a cluster and of its clients, as files in one directory.
//!
//! Nodes have an authority of their own: whoever shows a certificate of it at an inter-broker listener is a node, and
//! may do everything there. So no certificate of a client is signed by it. A file that is there is never written again.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use security::Certificate;
use serde_json::json;
use time::{Duration, OffsetDateTime};

use super::failure;
use super::output;

const DIR_MODE: u32 = 0o700;
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;
const AUTHORITY_DAYS: i64 = 3650;
pub(crate) const DAYS_DEFAULT: u32 = 825;
/// Clocks of other machines may be behind.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::HOUR;
const CLIENT_NAME_CHARS_MAX: usize = 64;
/// The authority that signs certificates of nodes.
const NODES: AuthorityName = AuthorityName { file: "ca", common_name: "Parshall nodes" };
/// The one that signs those of clients.
const CLIENTS: AuthorityName = AuthorityName { file: "clients-ca", common_name: "Parshall clients" };

/// Make certificates for brokers and clients.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(Init),
}

/// Make an authority, and certificates for the nodes of a cluster and for clients.
///
/// Each file node-ID.pem and client-NAME.pem has a key and its certificate (ECDSA P-256). Nodes are trusted by ca.pem,
/// clients by clients-ca.pem. What is there stays as it is: the same command with more nodes or clients makes those
/// that are missing. Whoever has ca-key.pem can make nodes, and with clients-ca-key.pem clients: keep both elsewhere.
///
/// Printed are the settings of each node and client.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  parshall tls init --dir tls --node 1=kafka.example.com
  parshall tls init --dir tls --node 1=kafka-1.example.com,10.0.0.1 --node 2=kafka-2.example.com
  parshall tls init --dir tls --client alice --client bob --days 90")]
struct Init {
    /// Where the files are, or are to be
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// A node, and the hosts (names or addresses) that clients and other nodes reach it at, as often as needed
    #[arg(long, value_name = "ID=HOST,...", required_unless_present = "client")]
    node: Vec<Node>,
    /// A client, which is User:CN=NAME without mapping rules, as often as needed
    #[arg(long, value_name = "NAME", value_parser = client_name)]
    client: Vec<String>,
    /// How many days certificates are good for. Authorities are for ten years
    #[arg(long, value_name = "N", default_value_t = DAYS_DEFAULT)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A node of a cluster, and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: i32,
    pub(crate) hosts: Vec<String>,
}

impl FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "a node is its number and its hosts, for example 1=kafka-1.example.com,10.0.0.1".to_owned();
        let (id, hosts) = text.split_once('=').ok_or_else(form)?;
        let id = id.trim().parse().ok().filter(|id| *id >= 0).ok_or_else(form)?;
        let hosts: Vec<_> = hosts.split(',').map(|host| host.trim().to_owned()).collect();
        let is_host = |host: &String| {
            let is_part = |letter: char| letter.is_ascii_alphanumeric() || ".-_:*".contains(letter);
            !host.is_empty() && host.chars().all(is_part)
        };
        if hosts.iter().all(is_host) { Ok(Self { id, hosts }) } else { Err(form()) }
    }
}

/// It is part of the name of a file.
fn client_name(text: &str) -> Result<String, String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
    if (1..=CLIENT_NAME_CHARS_MAX).contains(&text.len()) && text.chars().all(is_part) {
        Ok(text.to_owned())
    } else {
        Err(format!("a name of a client has up to {CLIENT_NAME_CHARS_MAX} letters, digits and ._-@"))
    }
}

/// What has become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) path: PathBuf,
    is_new: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let Command::Init(args) = args.command;
    // The settings may be read elsewhere.
    let dir = std::path::absolute(&args.dir).context("cannot find the directory of the files")?;
    let made = init(&dir, &args.node, &args.client, args.days)?;
    if args.json {
        let row = |made: &Made| json!({ "path": made.path, "is_new": made.is_new });
        let rows = made.iter().map(row).collect::<Vec<_>>();
        return Ok(output::print_json(&json!({ "dir": dir, "files": rows }))?);
    }
    for Made { path, is_new } in &made {
        eprintln!("{} {}", if *is_new { "made" } else { "kept" }, path.display());
    }
    // Of one alone there is nobody to be known by.
    let is_cluster = args.node.len() > 1 || made.iter().any(|made| made.path == NODES.path(&dir) && !made.is_new);
    let mut text = String::new();
    for node in &args.node {
        text.push_str(&settings_of_node(&dir, node.id, is_cluster));
    }
    for client in &args.client {
        text.push_str(&settings_of_client(&dir, client));
    }
    Ok(output::print(&text)?)
}

/// Makes what is missing, and says of each file whether it is new.
pub(crate) fn init(dir: &Path, nodes: &[Node], clients: &[String], days: u32) -> Result<Vec<Made>> {
    let failed = |error: io::Error| failure::of_file("make", dir, &error);
    std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir).map_err(failed)?;
    let mut made = Vec::new();
    if !nodes.is_empty() {
        let authority = Authority::of(dir, NODES, &mut made)?;
        for Node { id, hosts } in nodes {
            let name = format!("node-{id}");
            let names = [std::slice::from_ref(&name), &hosts[..]].concat();
            let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
            made.push(authority.sign(dir.join(format!("{name}.pem")), &name, names, usages, days)?);
        }
    }
    if !clients.is_empty() {
        let authority = Authority::of(dir, CLIENTS, &mut made)?;
        for client in clients {
            let path = dir.join(format!("client-{client}.pem"));
            made.push(authority.sign(path, client, Vec::new(), vec![ExtendedKeyUsagePurpose::ClientAuth], days)?);
        }
    }
    Ok(made)
}

/// Where the certificate of the authority of nodes is.
pub(crate) fn nodes_authority(dir: &Path) -> PathBuf {
    NODES.path(dir)
}

#[derive(Clone, Copy)]
struct AuthorityName {
    file: &'static str,
    common_name: &'static str,
}

impl AuthorityName {
    fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{}.pem", self.file))
    }

    fn key_path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{}-key.pem", self.file))
    }

    fn params(self) -> Result<CertificateParams> {
        let mut params = params(self.common_name, Vec::new(), AUTHORITY_DAYS)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(params)
    }
}

/// What certificates are signed with.
struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// The one in a directory, or a new one.
    fn of(dir: &Path, name: AuthorityName, made: &mut Vec<Made>) -> Result<Self> {
        let (path, key_path) = (name.path(dir), name.key_path(dir));
        let (certificate, key) = (read(&path)?, read(&key_path)?);
        let params = name.params()?;
        let is_new = certificate.is_none();
        let key = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let key = KeyPair::from_pem(&key).map_err(|error| anyhow!("{}: {error}", key_path.display()))?;
                if !is_of(&certificate, &params, &key)? {
                    bail!("{} is not made by 'parshall tls init' with {}", path.display(), key_path.display());
                }
                key
            }
            (None, None) => {
                let key = KeyPair::generate()?;
                write_new(&key_path, &key.serialize_pem(), KEY_MODE)?;
                write_new(&path, &params.self_signed(&key)?.pem(), CERTIFICATE_MODE)?;
                key
            }
            (Some(_), None) => bail!("{} is missing, without which nothing can be signed", key_path.display()),
            (None, Some(_)) => {
                bail!("{} is missing: put it back, or remove {} to begin anew", path.display(), key_path.display())
            }
        };
        made.extend([path, key_path].map(|path| Made { path, is_new }));
        Ok(Self(Issuer::new(params, key)))
    }

    /// Makes a key and its certificate, in one file, unless there is that file.
    fn sign(
        &self,
        path: PathBuf,
        common_name: &str,
        names: Vec<String>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        days: u32,
    ) -> Result<Made> {
        let key = KeyPair::generate()?;
        let mut params = params(common_name, names, days.into())?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.0)?;
        let is_new = write_new(&path, &(key.serialize_pem() + &certificate.pem()), KEY_MODE)?;
        Ok(Made { path, is_new })
    }
}

fn params(common_name: &str, names: Vec<String>, days: i64) -> Result<CertificateParams> {
    let now = OffsetDateTime::from_unix_timestamp(super::time::now_ms() / 1000)?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = now - CLOCK_DIFFERENCE_MAX;
    params.not_after = now + Duration::days(days);
    Ok(params)
}

/// Whether a certificate is what an authority of these has. Another name would not be found as that of the issuer.
fn is_of(certificate: &str, params: &CertificateParams, key: &KeyPair) -> Result<bool> {
    let own = params.self_signed(key)?;
    let (found, own) = (der(certificate), own.der());
    let subject = |bytes| Certificate::read(bytes).ok().map(|certificate| certificate.subject.to_vec());
    let public = key.public_key_raw();
    Ok(subject(&found) == subject(own) && found.windows(public.len()).any(|part| part == public))
}

/// The bytes of a certificate; none where it is no PEM.
fn der(pem: &str) -> Vec<u8> {
    let inside = pem.split_once("-----BEGIN CERTIFICATE-----").and_then(|(_, rest)| rest.split_once("-----END"));
    let text: String = inside.map(|(text, _)| text.split_whitespace().collect()).unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure::of_file("read", path, &error)),
    }
}

/// Whether there was no such file: one that is there stays.
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<bool> {
    let failed = |error: io::Error| failure::of_file("write", path, &error);
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(failed(error)),
    };
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = remove(path);
    }
    written.map(|()| true).map_err(failed)
}

#[expect(clippy::disallowed_methods, reason = "a file of the command line's own, not of a broker")]
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Settings, as a file for `--config` has them.
pub(crate) struct Settings<'a>(pub(crate) &'a [(&'a str, String)]);

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, value)| writeln!(f, "{name}={}", value.replace('\\', "\\\\")))
    }
}

/// How nodes know each other.
pub(crate) fn inter_broker_settings(dir: &Path, id: i32) -> [(&'static str, String); 3] {
    let path = |path: PathBuf| path.display().to_string();
    [
        ("listener.name.controller.ssl.keystore.location", path(dir.join(format!("node-{id}.pem")))),
        ("listener.name.controller.ssl.truststore.location", path(NODES.path(dir))),
        ("listener.name.controller.ssl.client.auth", "required".to_owned()),
    ]
}

fn settings_of_node(dir: &Path, id: i32, is_cluster: bool) -> String {
    let keystore = dir.join(format!("node-{id}.pem")).display().to_string();
    let mut text = format!("# node {id}\n{}", Settings(&[("ssl.keystore.location", keystore)]));
    if is_cluster {
        let map = "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL";
        text.push_str(&Settings(&inter_broker_settings(dir, id)).to_string());
        text.push_str(&Settings(&[("listener.security.protocol.map", map.to_owned())]).to_string());
    }
    text
}

fn settings_of_client(dir: &Path, client: &str) -> String {
    let path = |path: PathBuf| path.display().to_string();
    let settings = [
        ("security.protocol", "SSL".to_owned()),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.location", path(nodes_authority(dir))),
        ("ssl.keystore.type", "PEM".to_owned()),
        ("ssl.keystore.location", path(dir.join(format!("client-{client}.pem")))),
    ];
    format!("# client {client}\n{}", Settings(&settings))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(made: &[Made]) -> Vec<(String, bool)> {
        made.iter().map(|made| (made.path.file_name().unwrap().to_str().unwrap().to_owned(), made.is_new)).collect()
    }

    fn node(text: &str) -> Node {
        text.parse().unwrap()
    }

    #[test]
    fn nodes_have_numbers_and_hosts() {
        assert_eq!(
            node("1=a.b, 10.0.0.1,::1"),
            Node { id: 1, hosts: ["a.b", "10.0.0.1", "::1"].map(str::to_owned).into() }
        );
        for wrong in ["", "1", "1=", "x=a", "-1=a", "1=a,,b", "1=a b", "1=a/b"] {
            assert!(wrong.parse::<Node>().is_err(), "{wrong}");
        }
        assert!(client_name("a.b-c_d@e").is_ok());
        for wrong in ["", "a/b", "../a", "a b", "ä", &"a".repeat(65)] {
            assert!(client_name(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_there_is_kept_and_the_rest_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/tls");
        let made = init(&dir, &[node("1=localhost")], &[], 1).unwrap();
        let file = |name: &str, is_new| (name.to_owned(), is_new);
        assert_eq!(names(&made), [file("ca.pem", true), file("ca-key.pem", true), file("node-1.pem", true)]);
        let mode = |name: &str| std::fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(["ca.pem", "ca-key.pem", "node-1.pem"].map(mode), [0o644, 0o600, 0o600]);
        let before = std::fs::read_to_string(dir.join("node-1.pem")).unwrap();
        let made = init(&dir, &[node("1=localhost"), node("2=localhost")], &["alice".to_owned()], 1).unwrap();
        let expected = [
            file("ca.pem", false),
            file("ca-key.pem", false),
            file("node-1.pem", false),
            file("node-2.pem", true),
            file("clients-ca.pem", true),
            file("clients-ca-key.pem", true),
            file("client-alice.pem", true),
        ];
        assert_eq!(names(&made), expected);
        assert_eq!(std::fs::read_to_string(dir.join("node-1.pem")).unwrap(), before);
    }

    #[test]
    fn each_is_signed_by_its_authority_and_by_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        init(dir, &[node("1=localhost")], &["alice".to_owned()], 1).unwrap();
        // By an authority that was read again.
        init(dir, &[node("2=localhost")], &["bob".to_owned()], 1).unwrap();
        let subject = |name: &str| {
            let der = der(&std::fs::read_to_string(dir.join(name)).unwrap());
            let certificate = Certificate::read(&der).unwrap();
            (certificate.subject.to_vec(), certificate.issuer.to_vec())
        };
        let ([nodes, clients], [own_nodes, own_clients]) = (
            ["ca.pem", "clients-ca.pem"].map(|name| subject(name).0),
            ["ca.pem", "clients-ca.pem"].map(|name| subject(name).1),
        );
        assert!(nodes == own_nodes && clients == own_clients && nodes != clients);
        assert_eq!(["node-1.pem", "node-2.pem"].map(|name| subject(name).1), [nodes.clone(), nodes]);
        assert_eq!(["client-alice.pem", "client-bob.pem"].map(|name| subject(name).1), [clients.clone(), clients]);
    }

    #[test]
    fn half_an_authority_or_somebody_elses_signs_nothing() {
        let [dir, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let nodes = [node("1=localhost")];
        for dir in [&dir, &other] {
            init(dir.path(), &nodes, &[], 1).unwrap();
        }
        let [ca, key] = ["ca.pem", "ca-key.pem"].map(|name| dir.path().join(name));
        std::fs::copy(other.path().join("ca.pem"), &ca).unwrap();
        assert!(init(dir.path(), &nodes, &[], 1).unwrap_err().to_string().contains("is not made by"));
        remove(&ca).unwrap();
        assert!(init(dir.path(), &nodes, &[], 1).unwrap_err().to_string().contains("ca.pem is missing"));
        remove(&key).unwrap();
        assert!(init(dir.path(), &nodes, &[], 1).is_ok());
        remove(&key).unwrap();
        assert!(init(dir.path(), &nodes, &[], 1).unwrap_err().to_string().contains("ca-key.pem is missing"));
    }
}
