//! The certificate of a console that speaks HTTPS, and the one that takes its place while the console answers.
//!
//! Its files are read anew each minute and upon SIGHUP. What is there counts if it is good and may take the place of
//! the one before, as with a listener's; otherwise all stays as it was, which is logged once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::console::TlsConfig;
use security::tls::{AllowedChanges, ServerTls, ServerTlsConfig, TlsError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::{properties, time};

const RENEWAL_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct ConsoleCertificate {
    config: ServerTlsConfig,
    allowed: AllowedChanges,
    loaded: ServerTls,
    current: watch::Sender<Arc<TlsConfig>>,
    /// What was last said against one that did not get its place.
    refused: Option<String>,
}

impl ConsoleCertificate {
    pub(crate) fn load(config: ServerTlsConfig, allowed: AllowedChanges) -> Result<Self, TlsError> {
        let loaded = config.load(&read)?;
        let current = watch::Sender::new(Arc::clone(&loaded.config));
        Ok(Self { config, allowed, loaded, current, refused: None })
    }

    /// With what new connections are made.
    pub(crate) fn current(&self) -> watch::Receiver<Arc<TlsConfig>> {
        self.current.subscribe()
    }

    /// Renews it, for ever.
    pub(crate) async fn renew(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => Some(hangup),
            Err(error) => {
                tracing::warn!(%error, "the console cannot listen to SIGHUP: it looks for another certificate each minute");
                None
            }
        };
        loop {
            tokio::select! {
                () = tokio::time::sleep(RENEWAL_INTERVAL) => {}
                () = received(&mut hangup) => {}
            }
            let renewed = tokio::task::spawn_blocking(move || {
                self.read_again(time::now_ms());
                self
            });
            match renewed.await {
                Ok(renewed) => self = renewed,
                // A panic, which is logged.
                Err(_) => return,
            }
        }
    }

    /// It waits for the disk.
    fn read_again(&mut self, now_ms: i64) {
        let refused = match self.config.load(&read) {
            Ok(next) if next.is_of_same_files(&self.loaded) => None,
            Ok(next) => match self.loaded.check_successor(&next, self.allowed, now_ms) {
                Ok(()) => {
                    tracing::info!(subject = next.subject, "the console has another certificate");
                    self.current.send_replace(Arc::clone(&next.config));
                    self.loaded = next;
                    None
                }
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = refused.as_ref().filter(|_| refused != self.refused) {
            tracing::warn!(%error, "the console keeps the certificate it has");
        }
        self.refused = refused;
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    properties::read_bytes(Path::new(path)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use security::tls::StoreConfig;

    use super::*;

    /// A key and its certificate, of a subject and until a year.
    fn pem(subject: &str, until: i32) -> String {
        let mut params = CertificateParams::new(vec![format!("{subject}.example")]).unwrap();
        params.distinguished_name.push(DnType::CommonName, subject);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        key.serialize_pem() + &params.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn a_good_certificate_takes_the_place_of_the_one_before_and_others_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("console.pem");
        #[expect(clippy::disallowed_methods, reason = "a test has files")]
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write(&pem("one", 2100));
        let stores =
            StoreConfig { keystore_location: Some(file.to_str().unwrap().to_owned()), ..StoreConfig::default() };
        let config = ServerTlsConfig { stores, ..ServerTlsConfig::default() };
        let load = |allowed| ConsoleCertificate::load(config.clone(), allowed).unwrap();
        let mut of_anybody = load(AllowedChanges { subject: true, alternative_names: true });
        let mut of_the_same = load(AllowedChanges::default());
        let mut renewed = |text: &str| {
            write(text);
            [&mut of_anybody, &mut of_the_same].map(|certificate| {
                let mut current = certificate.current();
                current.mark_unchanged();
                certificate.read_again(time::now_ms());
                (current.has_changed().unwrap(), certificate.refused.clone())
            })
        };
        let (taken, kept) = ((true, None), (false, None));
        let again = pem("one", 2101);
        assert_eq!(renewed(&again), [taken.clone(), taken.clone()]);
        assert_eq!(renewed(&again), [kept.clone(), kept.clone()]);
        let is_over = (false, Some("the certificate is over".to_owned()));
        assert_eq!(renewed(&pem("one", 2020)), [is_over.clone(), is_over]);
        for broken in ["", "no certificate", &again[..again.len() / 2]] {
            assert!(renewed(broken).iter().all(|(is_taken, refused)| !is_taken && refused.is_some()), "{broken}");
        }
        assert_eq!(renewed(&again), [kept.clone(), kept]);
        let [of_anybody, of_the_same] = renewed(&pem("two", 2100));
        assert_eq!(of_anybody, taken);
        assert!(of_the_same.1.is_some_and(|refused| refused.contains("ssl.allow.dn.changes")));
    }
}
