//! Listeners that let in everybody who reaches them. On loopback that is whoever uses this machine, and beyond it a
//! broker has to be told that this is meant.

use std::net::ToSocketAddrs;

use anyhow::{Result, bail};
use configuration::{BrokerConfig, ClientAuth, ConfigError, Endpoint, SecurityProtocol};

use crate::cmd::failure::Usage;

/// Refuses open listeners, and shows the settings that close the first of them.
pub(super) fn check(config: &BrokerConfig, is_insecure: bool) -> Result<()> {
    let open = open_listeners(config)?;
    let Some(first) = open.first() else { return Ok(()) };
    let names = open.iter().map(|endpoint| endpoint.name.as_str()).collect::<Vec<_>>().join(", ");
    if is_insecure {
        tracing::warn!("{names}: everybody who reaches it may do everything (--insecure)");
        return Ok(());
    }
    for line in secure_settings(first, config.node_id) {
        eprintln!("{line}");
    }
    bail!(Usage(format!(
        "{names}: other machines reach this listener, and it does not ask clients who they are; the three lines above \
         ask for users and passwords over TLS ('parshall tls init' makes the file, --add-scram the first user, \
         docs/security.md has all of it), and with --insecure everybody who reaches it may do everything"
    )))
}

/// Those of clients that others than this machine reach and that let in whoever does not say who they are.
fn open_listeners(config: &BrokerConfig) -> Result<Vec<Endpoint>, ConfigError> {
    let mut open = Vec::new();
    for endpoint in config.client_endpoints()? {
        let asks = match endpoint.security_protocol {
            SecurityProtocol::Plaintext => false,
            SecurityProtocol::Ssl => config.listener(&endpoint)?.ssl_client_auth == ClientAuth::Required,
            SecurityProtocol::SaslPlaintext | SecurityProtocol::SaslSsl => true,
        };
        if !asks && !is_on_loopback(&endpoint) {
            open.push(endpoint);
        }
    }
    Ok(open)
}

/// A name that cannot be looked up may become any address.
fn is_on_loopback(endpoint: &Endpoint) -> bool {
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    let addresses: Vec<_> = addresses.into_iter().flatten().collect();
    !addresses.is_empty() && addresses.iter().all(|address| address.ip().to_canonical().is_loopback())
}

fn secure_settings(endpoint: &Endpoint, node_id: i32) -> [String; 3] {
    let Endpoint { host, port, .. } = endpoint;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    [
        format!("listeners=SASL_SSL://{host}:{port}"),
        format!("ssl.keystore.location=tls/node-{node_id}.pem"),
        "sasl.enabled.mechanisms=SCRAM-SHA-512".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    type Settings<'a> = &'a [(&'a str, &'a str)];

    fn config(settings: Settings<'_>) -> BrokerConfig {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        BrokerConfig::new(settings.collect()).unwrap()
    }

    #[test]
    fn a_listener_is_open_beyond_loopback_if_it_does_not_ask_who_clients_are() {
        let tls = [("ssl.keystore.location", "a.pem"), ("ssl.truststore.location", "b.pem")];
        let sasl = [("sasl.enabled.mechanisms", "SCRAM-SHA-512")];
        let required = [("ssl.client.auth", "required")];
        let requested = [("ssl.client.auth", "requested")];
        let cases: [(&str, &[Settings<'_>], bool); 14] = [
            ("PLAINTEXT://:9092", &[], true),
            ("PLAINTEXT://10.0.0.1:9092", &[], true),
            ("PLAINTEXT://[fe80::1]:9092", &[], true),
            ("PLAINTEXT://no-such-host.invalid:9092", &[], true),
            ("PLAINTEXT://127.0.0.1:9092", &[], false),
            ("PLAINTEXT://127.9.9.9:9092", &[], false),
            ("PLAINTEXT://[::1]:9092", &[], false),
            ("PLAINTEXT://localhost:9092", &[], false),
            ("SSL://10.0.0.1:9092", &[&tls], true),
            ("SSL://10.0.0.1:9092", &[&tls, &requested], true),
            ("SSL://10.0.0.1:9092", &[&tls, &required], false),
            ("SSL://127.0.0.1:9092", &[&tls], false),
            ("SASL_SSL://10.0.0.1:9092", &[&tls, &sasl], false),
            ("SASL_PLAINTEXT://10.0.0.1:9092", &[&sasl], false),
        ];
        for (listeners, settings, is_open) in cases {
            let config = config(&[&[("listeners", listeners)], &settings.concat()[..]].concat());
            assert_eq!(open_listeners(&config).unwrap().len(), usize::from(is_open), "{listeners} {settings:?}");
            assert_eq!(check(&config, false).is_err(), is_open, "{listeners}");
            assert!(check(&config, true).is_ok(), "{listeners}");
        }
    }

    #[test]
    fn the_listener_of_brokers_among_themselves_is_not_one_of_clients() {
        let listeners = ("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093");
        let config = config(&[listeners, ("controller.listener.names", "CONTROLLER"), ("node.id", "1")]);
        assert_eq!(open_listeners(&config), Ok(Vec::new()));
    }

    #[test]
    fn the_settings_that_are_shown_close_the_listener() {
        for open in ["PLAINTEXT://:9092", "PLAINTEXT://10.0.0.1:9092", "PLAINTEXT://[fe80::1]:9092"] {
            let open = open_listeners(&config(&[("listeners", open)])).unwrap();
            let lines = secure_settings(&open[0], 1);
            let shown: Vec<_> = lines.iter().map(|line| line.split_once('=').unwrap()).collect();
            assert_eq!(open_listeners(&config(&shown)), Ok(Vec::new()), "{lines:?}");
        }
    }
}
