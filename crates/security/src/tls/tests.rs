//! Stores that Java and OpenSSL have written (`tests/stores`), and handshakes in memory between both sides.

use std::io::{Read, Write};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConnection};

use super::*;
use crate::{PrincipalMapping, Secret};

/// The password of all stores and keys in `tests/stores`.
const PASSWORD: &str = "a password";

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text.to_owned()))
}

fn stored(path: &str) -> Result<Vec<u8>, String> {
    Ok(match path {
        "java.p12" => include_bytes!("../../tests/stores/java.p12").to_vec(),
        "java-trust.p12" => include_bytes!("../../tests/stores/java-trust.p12").to_vec(),
        "openssl.p12" => include_bytes!("../../tests/stores/openssl.p12").to_vec(),
        "openssl-trust.p12" => include_bytes!("../../tests/stores/openssl-trust.p12").to_vec(),
        "openssl-legacy.p12" => include_bytes!("../../tests/stores/openssl-legacy.p12").to_vec(),
        "plain.p12" => include_bytes!("../../tests/stores/plain.p12").to_vec(),
        "encrypted.pem" => include_bytes!("../../tests/stores/encrypted.pem").to_vec(),
        "version1.pem" => include_bytes!("../../tests/stores/version1.pem").to_vec(),
        "store.jks" => vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2],
        "noise" => b"nothing that is known".to_vec(),
        "large" => vec![0x30; STORE_BYTES_MAX + 1],
        _ => return Err("No such file or directory".to_owned()),
    })
}

fn keystore(path: &str, password: Option<&str>) -> StoreConfig {
    let keystore_password = password.and_then(secret);
    StoreConfig { keystore_location: Some(path.to_owned()), keystore_password, ..StoreConfig::default() }
}

fn truststore(path: &str, password: Option<&str>) -> StoreConfig {
    let truststore_password = password.and_then(secret);
    StoreConfig { truststore_location: Some(path.to_owned()), truststore_password, ..StoreConfig::default() }
}

fn failure<T>(result: Result<T, TlsError>) -> String {
    result.err().expect("it fails").to_string()
}

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, as settings.
    fn sign(&self, name: &str) -> StoreConfig {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        StoreConfig {
            keystore_certificate_chain: Some(certificate.pem()),
            keystore_key: secret(&key.serialize_pem()),
            ..StoreConfig::default()
        }
    }
}

fn server(ours: &Authority, clients: Option<&Authority>, client_auth: ClientAuth) -> ServerTlsConfig {
    let stores = StoreConfig { truststore_certificates: clients.map(|clients| clients.0.pem()), ..ours.sign("broker") };
    ServerTlsConfig { stores, client_auth, versions: Versions::default() }
}

fn client(trusted: &Authority, own: Option<&StoreConfig>, versions: &str) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.0.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&Versions::parse(versions).unwrap().supported())
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own.map(|own| own.identity(&stored).unwrap().unwrap()) {
        Some(Identity { chain, key, .. }) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

/// Both sides after their handshake, and a byte from the client.
fn connect(
    server: &ServerTls,
    client: &Arc<ClientConfig>,
) -> Result<(ServerConnection, ClientConnection), rustls::Error> {
    let mut server = ServerConnection::new(Arc::clone(&server.config))?;
    let mut client = ClientConnection::new(Arc::clone(client), ServerName::try_from("localhost").unwrap())?;
    client.writer().write_all(b"x").unwrap();
    loop {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut back = Vec::new();
        let mut left = bytes.as_slice();
        while !left.is_empty() {
            server.read_tls(&mut left).unwrap();
            server.process_new_packets()?;
        }
        while server.wants_write() {
            server.write_tls(&mut back).unwrap();
        }
        if bytes.is_empty() && back.is_empty() {
            break;
        }
        let mut left = back.as_slice();
        while !left.is_empty() {
            client.read_tls(&mut left).unwrap();
            client.process_new_packets()?;
        }
    }
    let mut byte = [0];
    server.reader().read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"x");
    Ok((server, client))
}

#[test]
fn both_versions_are_spoken_and_nothing_is_resumed() {
    let ours = Authority::new("ours");
    let server = server(&ours, None, ClientAuth::None).load(&stored).unwrap();
    assert_eq!(server.subject, "CN=broker");
    for (versions, spoken) in [
        ("TLSv1.2", ProtocolVersion::TLSv1_2),
        ("TLSv1.3", ProtocolVersion::TLSv1_3),
        ("TLSv1.2, TLSv1.3", ProtocolVersion::TLSv1_3),
    ] {
        let client = client(&ours, None, versions);
        for _ in 0..2 {
            let (server, client) = connect(&server, &client).unwrap();
            assert_eq!(server.protocol_version(), Some(spoken));
            assert_eq!(server.handshake_kind(), Some(rustls::HandshakeKind::Full));
            assert_eq!(client.tls13_tickets_received(), 0);
        }
    }
}

#[test]
fn a_version_may_be_left_out() {
    let ours = Authority::new("ours");
    let config =
        ServerTlsConfig { versions: Versions::parse("TLSv1.3").unwrap(), ..server(&ours, None, ClientAuth::None) };
    let server = config.load(&stored).unwrap();
    assert!(connect(&server, &client(&ours, None, "TLSv1.2")).is_err());
    assert!(connect(&server, &client(&ours, None, "TLSv1.3")).is_ok());
    assert_eq!(
        failure(Versions::parse("SSLv3,TLSv1.1")),
        "ssl.enabled.protocols is \"SSLv3,TLSv1.1\"; it takes TLSv1.2, TLSv1.3 or both"
    );
}

#[test]
fn clients_show_a_certificate_that_is_trusted() {
    let (ours, clients, others) = (Authority::new("ours"), Authority::new("clients"), Authority::new("others"));
    let (alice, stranger) = (clients.sign("alice"), others.sign("alice"));
    for versions in ["TLSv1.2", "TLSv1.3"] {
        for auth in [ClientAuth::Requested, ClientAuth::Required] {
            let server = server(&ours, Some(&clients), auth).load(&stored).unwrap();
            let (connection, _) = connect(&server, &client(&ours, Some(&alice), versions)).unwrap();
            let peer = connection.peer_certificates().unwrap();
            let name = PrincipalMapping::default().name_of_peer(peer).unwrap();
            assert_eq!(name.as_deref(), Some("CN=alice"));
            assert!(connect(&server, &client(&ours, Some(&stranger), versions)).is_err());

            let without = connect(&server, &client(&ours, None, versions));
            match auth {
                ClientAuth::Requested => assert!(without.unwrap().0.peer_certificates().is_none()),
                _ => assert!(without.is_err()),
            }
        }
        let server = server(&ours, None, ClientAuth::None).load(&stored).unwrap();
        let (connection, _) = connect(&server, &client(&ours, Some(&alice), versions)).unwrap();
        assert!(connection.peer_certificates().is_none());
    }
}

#[test]
fn nobody_is_trusted_by_default() {
    let ours = Authority::new("ours");
    for auth in [ClientAuth::Requested, ClientAuth::Required] {
        assert_eq!(
            failure(server(&ours, None, auth).load(&stored)),
            "ssl.truststore.location is missing; ssl.client.auth, which says whose certificates are taken, needs it"
        );
    }
    assert_eq!(ClientAuth::parse("REQUIRED"), Ok(ClientAuth::Required));
    assert_eq!(failure(ClientAuth::parse("want")), "ssl.client.auth is \"want\"; it takes none, requested or required");
}

#[test]
fn a_server_has_a_key_and_its_certificate() {
    assert_eq!(
        failure(ServerTlsConfig::default().load(&stored)),
        "ssl.keystore.location is missing; a listener with TLS needs it"
    );
    let ours = Authority::new("ours");
    let stores = StoreConfig { keystore_key: ours.sign("a").keystore_key, ..ours.sign("b") };
    let error = failure(ServerTlsConfig { stores, ..ServerTlsConfig::default() }.load(&stored));
    assert_eq!(error, "ssl.keystore.key: the key is not that of the certificate");
}

#[test]
fn stores_of_java_and_of_openssl_are_read() {
    for path in ["java.p12", "openssl.p12"] {
        let stores = keystore(path, Some(PASSWORD));
        let identity = stores.identity(&stored).unwrap().unwrap();
        assert_eq!(identity.chain.len(), 2, "{path}");
        let server = ServerTlsConfig { stores, ..ServerTlsConfig::default() }.load(&stored).unwrap();
        assert_eq!(server.subject, "CN=broker,OU=Tests,O=Parshall,C=US", "{path}");
        assert!(server.not_after_ms > 4_000_000_000_000, "{path}");
        // As a truststore it trusts its own certificate, and not those that have signed it.
        let own = truststore(path, Some(PASSWORD)).trusted(&stored).unwrap().unwrap();
        assert_eq!(own.certificates, identity.chain[..1], "{path}");
    }
    for path in ["java-trust.p12", "openssl-trust.p12"] {
        let trusted = truststore(path, Some(PASSWORD)).trusted(&stored).unwrap().unwrap();
        let subject = distinguished_name(Certificate::read(&trusted.certificates[0]).unwrap().subject);
        assert_eq!((trusted.certificates.len(), subject.as_deref()), (1, Ok("CN=Authority,O=Parshall")), "{path}");
        assert_eq!(
            failure(keystore(path, Some(PASSWORD)).identity(&stored)),
            format!("ssl.keystore.location: {path} has no private key")
        );
    }
    assert!(keystore("plain.p12", None).identity(&stored).unwrap().is_some());
}

#[test]
fn another_password_opens_nothing() {
    for path in ["java.p12", "openssl.p12"] {
        let error = failure(keystore(path, Some("another")).identity(&stored));
        assert_eq!(error, format!("ssl.keystore.location: {path} is not opened by this password"));
        let error = failure(keystore(path, None).identity(&stored));
        assert_eq!(
            error,
            format!("ssl.keystore.location: {path} needs a password, and ssl.keystore.password is not set")
        );
        let stores = StoreConfig { key_password: secret("another"), ..keystore(path, Some(PASSWORD)) };
        assert_eq!(
            failure(stores.identity(&stored)),
            format!("ssl.keystore.location: {path} is not opened by this password")
        );
    }
}

#[test]
fn an_encrypted_key_in_pem_has_a_password() {
    let stores = StoreConfig { key_password: secret(PASSWORD), ..keystore("encrypted.pem", None) };
    let server = ServerTlsConfig { stores, ..ServerTlsConfig::default() }.load(&stored).unwrap();
    assert_eq!(server.subject, "CN=broker,OU=Tests,O=Parshall,C=US");
    assert_eq!(
        failure(keystore("encrypted.pem", None).identity(&stored)),
        "the key in ssl.keystore.location is encrypted, and ssl.key.password is not set"
    );
    let stores = StoreConfig { key_password: secret("another"), ..keystore("encrypted.pem", None) };
    assert_eq!(failure(stores.identity(&stored)), "the key in ssl.keystore.location is not opened by this password");
}

#[test]
fn what_is_not_read_is_refused_with_the_way_out() {
    let error = failure(keystore("store.jks", Some(PASSWORD)).identity(&stored));
    assert!(error.contains("keytool -importkeystore -srckeystore store.jks"), "{error}");
    let error = failure(keystore("openssl-legacy.p12", Some(PASSWORD)).identity(&stored));
    assert!(error.contains("1.2.840.113549.1.12.1.") && error.contains("openssl 3"), "{error}");
    let file = |path| failure(keystore(path, None).identity(&stored));
    assert_eq!(file("none"), "cannot read ssl.keystore.location: none: No such file or directory");
    assert_eq!(
        file("version1.pem"),
        "ssl.keystore.location: its certificate is of X.509 version 1, which is not taken; give it a subjectAltName"
    );
    assert_eq!(file("noise"), "ssl.keystore.location: noise is neither PKCS12 nor PEM");
    assert_eq!(file("large"), "cannot read ssl.keystore.location: large: it is larger than 16777216 bytes");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let ours = Authority::new("ours").sign("a");
    let with = |stores: StoreConfig, settings: &[(&str, &str)]| {
        let mut stores = stores;
        settings.iter().for_each(|(name, value)| assert!(stores.set(name, value), "{name}"));
        stores
    };
    let identity = |settings: &[(&str, &str)]| failure(with(ours.clone(), settings).identity(&stored));
    assert_eq!(
        identity(&[(KEY_LOCATION, "java.p12")]),
        "ssl.keystore.certificate.chain and ssl.keystore.location exclude each other"
    );
    assert!(identity(&[(KEY_TYPE, "pkcs12")]).starts_with("ssl.keystore.type is \"PKCS12\"; it takes PEM"));
    assert!(identity(&[(KEY_TYPE, "BKS")]).starts_with("ssl.keystore.type is \"BKS\"; it takes PKCS12, PEM or JKS"));
    assert!(identity(&[(KEY_STORE_PASSWORD, "x")]).contains("PEM has no such password"));
    assert_eq!(identity(&[(KEY, "")]), "ssl.keystore.key is missing; ssl.keystore.certificate.chain needs it");
    let of_file = |path, kind| failure(with(keystore(path, None), &[(KEY_TYPE, kind)]).identity(&stored));
    assert!(of_file("java.p12", "PEM").contains("java.p12 is PKCS12, and its type is set to PEM"));
    assert!(of_file("encrypted.pem", "JKS").contains("encrypted.pem is PEM, and its type is set to JKS"));
    // As Java reads it.
    assert!(with(keystore("java.p12", Some(PASSWORD)), &[(KEY_TYPE, "jks")]).identity(&stored).is_ok());
    let trusted = |settings: &[(&str, &str)]| failure(with(StoreConfig::default(), settings).trusted(&stored));
    assert!(trusted(&[(TRUST_CERTIFICATES, "x"), (TRUST_LOCATION, "y")]).contains("exclude each other"));
    assert!(trusted(&[(TRUST_PASSWORD, "x")]).starts_with("ssl.truststore.location is missing"));
    assert_eq!(trusted(&[(TRUST_CERTIFICATES, "x")]), "ssl.truststore.certificates has no certificate");
    assert!(with(StoreConfig::default(), &[]).trusted(&stored).unwrap().is_none());
}

#[test]
fn a_certificate_follows_one_of_the_same_names() {
    let ours = Authority::new("ours");
    let load = |name: &str, hosts: &[&str], until: i32| {
        let key = KeyPair::generate().unwrap();
        let mut params =
            CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let stores = StoreConfig {
            keystore_certificate_chain: Some(params.signed_by(&key, &ours.0).unwrap().pem()),
            keystore_key: secret(&key.serialize_pem()),
            ..StoreConfig::default()
        };
        ServerTlsConfig { stores, ..ServerTlsConfig::default() }.load(&stored).unwrap()
    };
    // 2025-01-01.
    const NOW_MS: i64 = 1_735_689_600_000;
    let old = load("a", &["x", "y"], 2030);
    let check = |next: &ServerTls, subject, alternative_names| {
        old.check_successor(next, AllowedChanges { subject, alternative_names }, NOW_MS)
    };
    assert_eq!(check(&load("a", &["z", "y", "x"], 2031), false, false), Ok(()));
    let renamed = load("b", &["x", "y"], 2031);
    let (of_a, of_b) = (old.subject.clone(), renamed.subject.clone());
    assert_eq!(check(&renamed, false, true), Err(SuccessorError::Subject { old: of_a, new: of_b }));
    assert_eq!(check(&renamed, true, false), Ok(()));
    let elsewhere = load("a", &["x", "z"], 2031);
    assert_eq!(check(&elsewhere, true, false), Err(SuccessorError::AlternativeNames));
    assert_eq!(check(&elsewhere, false, true), Ok(()));
    assert_eq!(check(&load("a", &["x", "y"], 2024), true, true), Err(SuccessorError::Expired));
}

#[test]
fn nodes_with_the_old_and_the_new_certificate_take_each_other() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let load = |signer: &Authority, trusted: &[&Authority]| {
        let trusted = trusted.iter().map(|authority| authority.0.pem()).collect::<String>();
        let stores = StoreConfig { truststore_certificates: Some(trusted), ..signer.sign("node") };
        let config = ServerTlsConfig { stores, client_auth: ClientAuth::Required, versions: Versions::default() };
        config.load(&stored).unwrap()
    };
    const NOW_MS: i64 = 1_735_689_600_000;
    let check = |old: &ServerTls, next: &ServerTls| old.check_successor_among_nodes(next, NOW_MS);
    let old = load(&ours, &[&ours]);
    assert_eq!(check(&old, &load(&ours, &[&ours])), Ok(()));
    let unknown_to_old = load(&theirs, &[&ours, &theirs]);
    let unknown_to_new = load(&ours, &[&theirs]);
    for next in [&unknown_to_old, &unknown_to_new] {
        assert!(matches!(check(&old, next), Err(SuccessorError::Untrusted(_))));
    }
    assert_eq!(check(&load(&ours, &[&ours, &theirs]), &unknown_to_old), Ok(()));
}

#[test]
fn files_that_are_the_same_are_known_to_be() {
    let stores = StoreConfig { key_password: secret(PASSWORD), ..keystore("encrypted.pem", None) };
    let config = ServerTlsConfig { stores, ..ServerTlsConfig::default() };
    let longer = |path: &str| stored(path).map(|bytes| [&bytes[..], b"\n"].concat());
    let first = config.load(&stored).unwrap();
    assert!(first.is_of_same_files(&config.load(&stored).unwrap()));
    assert!(!first.is_of_same_files(&config.load(&longer).unwrap()));
}

#[test]
fn secrets_are_not_shown() {
    let stores = StoreConfig { key_password: secret("a secret"), ..keystore("a", Some("a secret")) };
    assert!(!format!("{stores:?}").contains("a secret"));
    assert!(!StoreConfig::default().set("ssl.protocol", "x"));
}
