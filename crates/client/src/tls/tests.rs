//! TLS with a broker on loopback whose certificates are made here.

#![expect(clippy::disallowed_methods, reason = "files that the test itself has made")]

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use security::Secret;
use security::tls::{ClientAuth, KEY, KEY_CHAIN, KEY_LOCATION, ServerTlsConfig, TRUST_CERTIFICATES, TRUST_LOCATION};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};

use super::*;
use crate::fake_broker::FakeBroker;
use crate::{Connection, ConnectionConfig, ConnectionError, SecurityConfig};

struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
struct Signed {
    certificate: String,
    key: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, host: &str) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// Returns the port of a broker that shows this certificate, and wants one of its clients that `clients` has signed.
async fn broker(signed: &Signed, clients: Option<&Authority>) -> u16 {
    let stores = StoreConfig {
        keystore_certificate_chain: Some(signed.certificate.clone()),
        keystore_key: Some(Secret::new(signed.key.clone())),
        truststore_certificates: clients.map(Authority::pem),
        ..StoreConfig::default()
    };
    let client_auth = if clients.is_some() { ClientAuth::Required } else { ClientAuth::None };
    let config = ServerTlsConfig { stores, client_auth, ..ServerTlsConfig::default() };
    let config = config.load(&|_| unreachable!("all of it is in the settings")).unwrap().config;
    let acceptor = TlsAcceptor::from(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    FakeBroker::default().serve(stream).await;
                }
            });
        }
    });
    port
}

async fn connect(host: &str, port: u16, settings: &[(&str, &str)]) -> Result<Connection, ConnectionError> {
    let mut config = SecurityConfig::default();
    for (name, value) in [("security.protocol", "SSL")].iter().chain(settings) {
        config.set(name, value).unwrap();
    }
    let config = ConnectionConfig { security: config.load().unwrap(), ..ConnectionConfig::default() };
    Connection::connect(&format!("{host}:{port}"), &config).await
}

fn reason(connected: Result<Connection, ConnectionError>) -> String {
    let error = connected.err().unwrap();
    assert!(matches!(error, ConnectionError::Tls { .. }) && !error.is_retriable(), "{error}");
    error.to_string()
}

#[tokio::test]
async fn a_broker_whose_authority_is_trusted() {
    let authority = Authority::new("ours");
    let port = broker(&authority.sign("localhost"), None).await;
    for version in ["TLSv1.2", "TLSv1.3", "TLSv1.2,TLSv1.3"] {
        let settings =
            [(TRUST_CERTIFICATES, authority.pem().replace('\n', " ")), ("ssl.enabled.protocols", version.to_owned())];
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let connection = connect("localhost", port, &settings).await.unwrap();
        // More than a socket takes at once.
        let topic = MetadataRequestTopic { name: Some("x".repeat(30_000)), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic; 300]), ..Default::default() };
        let pending: Vec<_> = (0..5).map(|_| connection.start(&request).unwrap()).collect();
        for pending in pending {
            assert!(pending.await.is_ok());
        }
    }
}

#[tokio::test]
async fn an_address_is_a_name_too() {
    let authority = Authority::new("ours");
    let port = broker(&authority.sign("127.0.0.1"), None).await;
    assert!(connect("127.0.0.1", port, &[(TRUST_CERTIFICATES, &authority.pem())]).await.is_ok());
}

#[tokio::test]
async fn a_wrong_host_name_is_found_unless_nobody_looks() {
    let authority = Authority::new("ours");
    let port = broker(&authority.sign("elsewhere.example"), None).await;
    let trusted = authority.pem();
    let error = reason(connect("localhost", port, &[(TRUST_CERTIFICATES, &trusted)]).await);
    assert!(error.contains("ssl.endpoint.identification.algorithm") && error.contains("elsewhere.example"), "{error}");
    let settings = [(TRUST_CERTIFICATES, trusted.as_str()), ("ssl.endpoint.identification.algorithm", "")];
    assert!(connect("localhost", port, &settings).await.is_ok());
    // Who signed it is looked at all the same.
    let other = Authority::new("other").pem();
    let settings = [(TRUST_CERTIFICATES, other.as_str()), ("ssl.endpoint.identification.algorithm", "")];
    reason(connect("localhost", port, &settings).await);
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let port = broker(&Authority::new("ours").sign("localhost"), None).await;
    let error = reason(connect("localhost", port, &[(TRUST_CERTIFICATES, &Authority::new("other").pem())]).await);
    assert!(error.contains("signed by an unknown authority"), "{error}");
}

#[tokio::test]
async fn a_certificate_in_the_truststore_may_be_the_brokers_own() {
    // One that openssl makes by default: signed by itself, and an authority.
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let signed = Signed { certificate: certificate.clone(), key: key.serialize_pem() };
    let port = broker(&signed, None).await;
    assert!(connect("localhost", port, &[(TRUST_CERTIFICATES, &certificate)]).await.is_ok());
    assert!(connect("127.0.0.1", port, &[(TRUST_CERTIFICATES, &certificate)]).await.is_err());
}

#[tokio::test]
async fn a_broker_may_want_to_see_a_certificate() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("theirs"));
    let port = broker(&authority.sign("localhost"), Some(&clients)).await;
    let trusted = authority.pem();
    let client = clients.sign("client");
    let settings = [(TRUST_CERTIFICATES, trusted.as_str()), (KEY_CHAIN, &client.certificate), (KEY, &client.key)];
    assert!(connect("localhost", port, &settings).await.is_ok());

    let dir = tempfile::tempdir().unwrap();
    let (trust, keys) = (dir.path().join("trust.pem"), dir.path().join("keys.pem"));
    fs::write(&trust, &trusted).unwrap();
    fs::write(&keys, format!("{}{}", client.key, client.certificate)).unwrap();
    let settings = [
        ("ssl.truststore.type", "PEM"),
        (TRUST_LOCATION, trust.to_str().unwrap()),
        ("ssl.keystore.type", "PEM"),
        (KEY_LOCATION, keys.to_str().unwrap()),
    ];
    assert!(connect("localhost", port, &settings).await.is_ok());

    let error = reason(connect("localhost", port, &[(TRUST_CERTIFICATES, &trusted)]).await);
    assert!(error.contains("ssl.keystore.location"), "{error}");
    let stranger = authority.sign("client");
    let settings = [(TRUST_CERTIFICATES, trusted.as_str()), (KEY_CHAIN, &stranger.certificate), (KEY, &stranger.key)];
    assert!(reason(connect("localhost", port, &settings).await).contains("does not take our certificate"));
}

#[tokio::test]
async fn a_listener_of_the_other_kind_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let authority = Authority::new("ours");
    let error = reason(connect("localhost", port, &[(TRUST_CERTIFICATES, &authority.pem())]).await);
    assert!(error.contains("not TLS"), "{error}");

    let port = broker(&authority.sign("localhost"), None).await;
    let error = Connection::connect(&format!("localhost:{port}"), &ConnectionConfig::default()).await.err().unwrap();
    assert!(matches!(error, ConnectionError::SpeaksTls { .. }), "{error}");
}

#[test]
fn jks_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.jks");
    fs::write(&path, [0xfe, 0xed, 0xfe, 0xed]).unwrap();
    let load = |name: &str| {
        let mut config = TlsConfig::default();
        config.set(TRUST_CERTIFICATES, &Authority::new("other").pem()).unwrap();
        if name == TRUST_LOCATION {
            config = TlsConfig::default();
        }
        config.set(name, path.to_str().unwrap()).unwrap();
        config.load().unwrap_err().to_string()
    };
    let error = load(TRUST_LOCATION);
    assert!(error.contains(TRUST_LOCATION) && error.contains("keytool -importkeystore"), "{error}");
    let error = load(KEY_LOCATION);
    assert!(error.contains(KEY_LOCATION) && error.contains("keytool -importkeystore"), "{error}");
}

#[test]
fn a_key_needs_its_certificate() {
    let signed = Authority::new("ours").sign("client");
    let other = Authority::new("ours").sign("client");
    let load = |pairs: &[(&str, &str)]| {
        let mut config = TlsConfig::default();
        pairs.iter().for_each(|(name, value)| config.set(name, value).unwrap());
        config.set(TRUST_CERTIFICATES, &signed.certificate).unwrap();
        config.load().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(load(&[(KEY_CHAIN, &signed.certificate), (KEY, &signed.key)]), Ok(()));
    let missing = Err(format!("{KEY} is missing; {KEY_CHAIN} needs it"));
    assert_eq!(load(&[(KEY_CHAIN, &signed.certificate)]), missing);
    let error = load(&[(KEY_CHAIN, &signed.certificate), (KEY, &other.key)]).unwrap_err();
    assert!(error.starts_with(KEY), "{error}");
    assert!(load(&[(KEY_CHAIN, "x"), (KEY, &signed.key)]).unwrap_err().ends_with("has no certificate"));
}
