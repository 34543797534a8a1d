//! What `parshall cluster start --secure` adds: certificates of the nodes, a file of settings for each, and an
//! administrator with a password that nobody has seen. All of it is in the cluster's directory, made once and kept.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use configuration::STANDARD_AUTHORIZER;
use lab::{LocalSecurity, Ports};
use platform::Env;

use crate::cmd::properties;
use crate::cmd::tls::{self, DAYS_DEFAULT, Node, Settings};

const CERTIFICATES: &str = "tls";
/// How the administrator connects. Where it is, the cluster is a secured one.
const ADMIN: &str = "admin.properties";
const ADMIN_USER: &str = "admin";
/// The administrator, for brokers that begin a cluster.
const FIRST_USERS: &str = "first-users";
const MECHANISM: &str = "SCRAM-SHA-512";
const SECRET_MODE: u32 = 0o600;

pub(super) struct Secured {
    pub(super) brokers: LocalSecurity,
    /// For `--command-config`.
    pub(super) admin: PathBuf,
}

/// Whether the cluster in a directory has been made a secured one.
pub(super) fn is_secured(dir: &Path) -> bool {
    dir.join(ADMIN).exists()
}

/// Makes what is missing in a directory that is there.
pub(super) fn secure(dir: &Path, ports: &[Ports]) -> Result<Secured> {
    let certificates = dir.join(CERTIFICATES);
    let hosts = || ["127.0.0.1", "localhost"].map(str::to_owned).into();
    let nodes: Vec<_> = (1..).zip(ports).map(|(id, _)| Node { id, hosts: hosts() }).collect();
    tls::init(&certificates, &nodes, &[], DAYS_DEFAULT)?;
    let admin = dir.join(ADMIN);
    if !is_secured(dir) {
        let password = Env::real().new_id();
        // First, so that nobody can log in as an administrator whom no broker has been told of.
        let first_users = format!("{MECHANISM}=[name={ADMIN_USER},password={password}]\n");
        replace(&dir.join(FIRST_USERS), &first_users)?;
        tls::write_new(&admin, &of_admin(&certificates, &password.to_string()), SECRET_MODE)?;
    }
    let mut flags = Vec::new();
    for (node, ports) in nodes.iter().zip(ports) {
        let path = dir.join(format!("broker-{}.properties", node.id));
        replace(&path, &of_broker(&certificates, node.id, ports.clients, nodes.len() > 1))?;
        let mut first_users = OsString::from("@");
        first_users.push(dir.join(FIRST_USERS));
        flags.push(vec!["--config".into(), path.into_os_string(), "--add-scram".into(), first_users]);
    }
    let client = properties::security_of(Some(&admin))?;
    Ok(Secured { brokers: LocalSecurity { flags, client }, admin })
}

fn replace(path: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| crate::cmd::failure::of_file("write", path, &error);
    client::private_file::write(path, text.as_bytes()).map_err(failed)
}

fn of_admin(certificates: &Path, password: &str) -> String {
    let module = "org.apache.kafka.common.security.scram.ScramLoginModule";
    Settings(&[
        ("security.protocol", "SASL_SSL".to_owned()),
        ("sasl.mechanism", MECHANISM.to_owned()),
        ("sasl.jaas.config", format!("{module} required username=\"{ADMIN_USER}\" password=\"{password}\";")),
        ("ssl.truststore.type", "PEM".to_owned()),
        ("ssl.truststore.location", tls::nodes_authority(certificates).display().to_string()),
    ])
    .to_string()
}

fn of_broker(certificates: &Path, id: i32, port: u16, is_cluster: bool) -> String {
    let keystore = certificates.join(format!("node-{id}.pem")).display().to_string();
    let mut settings = vec![
        ("listeners", format!("SASL_SSL://127.0.0.1:{port}")),
        ("ssl.keystore.location", keystore),
        ("sasl.enabled.mechanisms", MECHANISM.to_owned()),
        ("authorizer.class.name", STANDARD_AUTHORIZER.to_owned()),
        ("super.users", format!("User:{ADMIN_USER}")),
    ];
    if is_cluster {
        settings.push(("listener.security.protocol.map", "CONTROLLER:SSL,SASL_SSL:SASL_SSL".to_owned()));
        settings.extend(tls::inter_broker_settings(certificates, id));
    }
    Settings(&settings).to_string()
}
