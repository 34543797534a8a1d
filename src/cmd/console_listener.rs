//! Where a console listens and whom it lets in: of `parshall serve` and of `parshall console`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ::console::{Console, Hosts, Local, Options, Password, SavedClusters};
use anyhow::{Context, Result, bail};
use security::tls::{AllowedChanges, ServerTlsConfig, StoreConfig};
use tokio::net::TcpListener;

use super::console_certificate::ConsoleCertificate;
use super::console_lab::Runs;
use super::failure::Usage;

/// Whom a console lets in, and what they may do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConsoleAccess {
    /// File with the console's password. Browsers log in with it, programs send it by HTTP Basic with any name
    #[arg(long, value_name = "FILE", env = "PARSHALL_CONSOLE_PASSWORD_FILE")]
    console_password_file: Option<PathBuf>,
    /// PEM file with a private key and its certificates, the console's own first: it speaks HTTPS with them
    #[arg(long, value_name = "FILE", env = "PARSHALL_CONSOLE_TLS_KEYSTORE")]
    console_tls_keystore: Option<PathBuf>,
    /// Where results of suites that the console runs go
    #[arg(long, value_name = "DIR", default_value = "parshall-results")]
    console_lab_dir: PathBuf,
    /// Let the console show and not change anything
    #[arg(long)]
    console_read_only: bool,
}

/// A console that listens, and does not answer yet.
pub(crate) struct ConsoleListener {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    certificate: Option<ConsoleCertificate>,
    options: Options,
    lab_dir: PathBuf,
}

impl ConsoleListener {
    /// `None` if there is to be no console, or nobody asked for one and its port is taken. Others than this machine
    /// reach one without a password only if it is to be insecure, or all clusters have users: then it is closed for all
    /// else. `certificate` takes the place of that of a flag.
    pub(crate) async fn bind(
        asked: Option<&::console::Address>,
        access: &ConsoleAccess,
        is_insecure: bool,
        certificate: Option<ConsoleCertificate>,
        all_have_users: bool,
        saved_clusters: Option<Arc<SavedClusters>>,
    ) -> Result<Option<Self>> {
        let place = asked.cloned().unwrap_or_default();
        let Some(address) = place.resolve().map_err(|error| Usage(format!("--console {place}: {error}")))? else {
            return Ok(None);
        };
        let password = access.password()?;
        let certificate = if certificate.is_some() { certificate } else { access.certificate()? };
        let is_reachable = !address.ip().is_loopback();
        let is_closed = is_reachable && password.is_none() && all_have_users && !is_insecure;
        let is_open = is_reachable && password.is_none() && !is_closed;
        if is_reachable && !is_open && certificate.is_none() {
            tracing::warn!(
                "the console on {address} speaks HTTP: passwords are sent to it in clear, unless a proxy with TLS is \
                 in front of it; --console-tls-keystore gives it a certificate"
            );
        }
        if is_open {
            if !is_insecure {
                bail!(Usage(format!(
                    "--console {place}: others than this machine can reach it; give it a --console-password-file, or \
                     with --insecure everybody who reaches it may use it"
                )));
            }
            tracing::warn!(
                "the console on {address} has no password (--insecure): everybody who reaches it may use it"
            );
        }
        let options = Options {
            hosts: Hosts::new(place.name().map(str::to_owned)),
            password,
            is_insecure: is_open,
            is_closed,
            has_tls: certificate.is_some(),
            is_read_only: access.console_read_only,
            saved_clusters,
        };
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr()?;
                let lab_dir = access.console_lab_dir.clone();
                Ok(Some(Self { listener, address, certificate, options, lab_dir }))
            }
            Err(error) if asked.is_none() => {
                tracing::info!("there is no console: cannot listen on {address} ({error}); --console chooses another");
                Ok(None)
            }
            Err(error) => bail!("cannot listen on {address} for the console: {error}; --console chooses another"),
        }
    }

    /// Where a browser finds it.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.certificate.is_some() { "https" } else { "http" }, self.address)
    }

    /// Answers from now on. Clusters may need client properties for suites that are run against them.
    pub(crate) fn start(
        self,
        local: Option<Arc<dyn Local>>,
        command_configs: BTreeMap<String, PathBuf>,
    ) -> Arc<Console> {
        let laboratory = Arc::new(Runs::new(self.lab_dir, command_configs));
        let console = Console::new(self.options, local, Some(laboratory));
        let tls = self.certificate.as_ref().map(ConsoleCertificate::current);
        tokio::spawn(::console::serve(self.listener, tls, Arc::clone(&console)));
        if let Some(certificate) = self.certificate {
            tokio::spawn(certificate.renew());
        }
        console
    }
}

impl ConsoleAccess {
    fn certificate(&self) -> Result<Option<ConsoleCertificate>> {
        let Some(path) = &self.console_tls_keystore else { return Ok(None) };
        let name = path.to_str().ok_or_else(|| Usage("--console-tls-keystore is no UTF-8".to_owned()))?;
        let stores = StoreConfig { keystore_location: Some(name.to_owned()), ..StoreConfig::default() };
        let config = ServerTlsConfig { stores, ..ServerTlsConfig::default() };
        // Whoever replaces the file decides whose it is.
        let loaded = ConsoleCertificate::load(config, AllowedChanges { subject: true, alternative_names: true });
        Ok(Some(loaded.map_err(|error| Usage(format!("--console-tls-keystore {name}: {error}")))?))
    }

    fn password(&self) -> Result<Option<Password>> {
        let Some(path) = &self.console_password_file else { return Ok(None) };
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the password in {name}"))?;
        match text.trim_end_matches(['\n', '\r']) {
            "" => bail!(Usage(format!("--console-password-file {name}: there is no password in it"))),
            password => Ok(Some(Password::new(password))),
        }
    }
}
