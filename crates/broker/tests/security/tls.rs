//! TLS: large requests and answers go through it, and so does who the client is.

use std::net::SocketAddr;
use std::sync::Arc;

use client::{Connection, ConnectionConfig, ConnectionError, SecurityConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::Records;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::api::metadata::MetadataRequestTopic;
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::batch::BatchBuilder;

use super::*;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn sign(&self, name: &str) -> Signed {
        self.sign_for(name, &["127.0.0.1"])
    }

    /// For these hosts, and for the name, if it can be one of a host.
    pub(crate) fn sign_for(&self, name: &str, hosts: &[&str]) -> Signed {
        let key = KeyPair::generate().unwrap();
        let hosts = hosts.iter().chain([&name]).map(|host| (*host).to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, "Parshall");
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A broker whose only listener speaks TLS.
fn tls_broker(authority: &Authority, settings: &[(&str, &str)]) -> TestBroker {
    let Signed { certificate, key } = authority.sign("broker");
    let tls = [
        ("listeners", "SSL://127.0.0.1:0"),
        ("ssl.keystore.certificate.chain", certificate.as_str()),
        ("ssl.keystore.key", key.as_str()),
    ];
    TestBroker::start_with(&[&tls[..], settings].concat())
}

async fn connect(
    broker: &TestBroker,
    authority: &Authority,
    settings: &[(&str, &str)],
) -> Result<Connection, ConnectionError> {
    connect_with(broker.address(), authority, settings).await
}

/// Connects to a listener that may want to see a certificate.
pub(crate) async fn connect_to(
    address: SocketAddr,
    authority: &Authority,
    own: Option<&Signed>,
) -> Result<Connection, ConnectionError> {
    let shown = own.map(|own| {
        [("ssl.keystore.certificate.chain", own.certificate.as_str()), ("ssl.keystore.key", own.key.as_str())]
    });
    connect_with(address, authority, shown.as_ref().map_or(&[], |shown| &shown[..])).await
}

async fn connect_with(
    address: SocketAddr,
    authority: &Authority,
    settings: &[(&str, &str)],
) -> Result<Connection, ConnectionError> {
    let mut config = SecurityConfig::default();
    let trusted = authority.pem();
    let tls = [("security.protocol", "SSL"), ("ssl.truststore.certificates", trusted.as_str())];
    tls.iter().chain(settings).for_each(|(name, value)| config.set(name, value).unwrap());
    let config = ConnectionConfig { security: config.load().unwrap(), ..ConnectionConfig::default() };
    Connection::connect(&address.to_string(), &config).await
}

/// Has a future run where no broker does.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn records_go_in_and_come_out_in_both_versions() {
    let authority = Authority::new("ours");
    let broker = tls_broker(&authority, &[]);
    wait(async {
        for (round, version) in ["TLSv1.2", "TLSv1.3"].into_iter().enumerate() {
            let connection = connect(&broker, &authority, &[("ssl.enabled.protocols", version)]).await.unwrap();
            let topic =
                CreatableTopic { name: "t".to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
            let create = CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
            connection.send(&create).await.unwrap();
            // Larger than what a session or a socket takes at once, and small ones between them.
            let mut sent = Vec::new();
            for size in [10, 900_000, 70_000, 1, 16_384] {
                let value: Vec<u8> = (0..size).map(|byte: usize| (byte * 7 % 251) as u8).collect();
                let mut builder = BatchBuilder::new();
                builder.push(1_700_000_000_000, None, Some(&value), &[]);
                sent.push(builder.build().bytes);
            }
            for batch in &sent {
                let data = PartitionProduceData { index: 0, records: Some(Records::Inline(batch.clone())) };
                let data = TopicProduceData { name: "t".to_owned(), partition_data: vec![data], ..Default::default() };
                let request =
                    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![data], ..Default::default() };
                let answer = connection.start_as(&request, 12, connection.request_timeout()).unwrap().await.unwrap();
                assert_eq!(answer.responses[0].partition_responses[0].error_code, ErrorCode::NONE);
            }
            let partition = FetchPartition {
                fetch_offset: 5 * round as i64,
                partition_max_bytes: 1 << 24,
                current_leader_epoch: -1,
                ..Default::default()
            };
            let topic = FetchTopic { topic: "t".to_owned(), partitions: vec![partition], ..Default::default() };
            let fetch = FetchRequest { max_bytes: 1 << 24, topics: vec![topic], ..Default::default() };
            let answer = connection.start_as(&fetch, 12, connection.request_timeout()).unwrap().await.unwrap();
            let Some(Records::Inline(records)) = &answer.responses[0].partitions[0].records else { panic!("records") };
            let total: usize = sent.iter().map(bytes::Bytes::len).sum();
            assert_eq!(records.len(), total);
            let mut rest = &records[..];
            for batch in &sent {
                let (stored, next) = rest.split_at(batch.len());
                // Behind what the broker stamps.
                assert_eq!(stored[61..], batch[61..], "{version}");
                rest = next;
            }
        }
    });
}

#[test]
fn many_requests_of_one_client_are_answered_in_order() {
    let authority = Authority::new("ours");
    let broker = tls_broker(&authority, &[]);
    wait(async {
        let connection = connect(&broker, &authority, &[]).await.unwrap();
        let topic = MetadataRequestTopic { name: Some("x".repeat(249)), ..Default::default() };
        let large = MetadataRequest { topics: Some(vec![topic; 3000]), ..Default::default() };
        let small = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
        let pending: Vec<_> =
            (0..40).map(|n| connection.start(if n % 2 == 0 { &large } else { &small }).unwrap()).collect();
        for (n, pending) in pending.into_iter().enumerate() {
            let answered = pending.await.unwrap().topics.len();
            assert_eq!(answered > 0, n % 2 == 0);
        }
    });
}

#[test]
fn a_client_without_tls_is_told_apart_and_costs_nothing() {
    let authority = Authority::new("ours");
    let broker = tls_broker(&authority, &[]);
    let mut client = broker.connect();
    client.send(12, &MetadataRequest::default());
    // An alert in place of an answer.
    let mut alert = [0; 7];
    std::io::Read::read_exact(&mut client.stream, &mut alert).unwrap();
    assert_eq!((alert[0], alert[5]), (21, 2), "a fatal alert");
    assert!(client.is_closed());
    wait_for_closed(&broker, "tls", 1.0);
}

#[test]
fn a_certificate_is_asked_for_where_it_is_required() {
    let (authority, clients) = (Authority::new("ours"), Authority::new("theirs"));
    let trusted = clients.0.pem();
    let settings = [("ssl.client.auth", "required"), ("ssl.truststore.certificates", trusted.as_str())];
    let broker = tls_broker(&authority, &settings);
    wait(async {
        let alice = clients.sign("alice");
        let shown = |signed: &Signed| {
            [("ssl.keystore.certificate.chain", signed.certificate.clone()), ("ssl.keystore.key", signed.key.clone())]
        };
        let own = shown(&alice);
        let own = own.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert!(connect(&broker, &authority, &own).await.is_ok());
        assert!(matches!(connect(&broker, &authority, &[]).await, Err(ConnectionError::Tls { .. })));
        let stranger = shown(&authority.sign("alice"));
        let stranger = stranger.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert!(matches!(connect(&broker, &authority, &stranger).await, Err(ConnectionError::Tls { .. })));
    });
}

#[test]
fn a_name_that_no_rule_maps_is_not_served() {
    let authority = Authority::new("ours");
    let trusted = authority.0.pem();
    let broker = tls_broker(
        &authority,
        &[
            ("ssl.client.auth", "requested"),
            ("ssl.truststore.certificates", &trusted),
            ("ssl.principal.mapping.rules", "RULE:^O=Parshall,CN=(a.*)$/$1/"),
        ],
    );
    wait(async {
        for (name, is_served) in [("alice", true), ("bob", false)] {
            let Signed { certificate, key } = authority.sign(name);
            let own = [("ssl.keystore.certificate.chain", certificate.as_str()), ("ssl.keystore.key", key.as_str())];
            assert_eq!(connect(&broker, &authority, &own).await.is_ok(), is_served, "{name}");
        }
        // Who shows none is nobody, which needs no rule.
        assert!(connect(&broker, &authority, &[]).await.is_ok());
    });
}

#[test]
fn a_login_goes_over_tls_too() {
    let authority = Authority::new("ours");
    let users = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"alice-secret\";";
    let broker = tls_broker(
        &authority,
        &[
            ("listeners", "SASL_SSL://127.0.0.1:0"),
            ("sasl.enabled.mechanisms", "PLAIN"),
            ("listener.name.sasl_ssl.plain.sasl.jaas.config", users),
        ],
    );
    wait(async {
        for (password, is_let_in) in [("alice-secret", true), ("wrong", false)] {
            let login = format!("PlainLoginModule required username=\"alice\" password=\"{password}\";");
            let settings =
                [("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN"), ("sasl.jaas.config", login.as_str())];
            match connect(&broker, &authority, &settings).await {
                Ok(_) => assert!(is_let_in),
                Err(error) => {
                    assert!(!is_let_in && matches!(error, ConnectionError::Authentication { .. }), "{error}");
                }
            }
        }
    });
}

#[test]
fn a_client_that_hangs_up_in_the_middle_is_forgotten() {
    let authority = Authority::new("ours");
    let broker = tls_broker(&authority, &[]);
    for bytes in [&b""[..], &[22], &[22, 3, 1, 2, 0], &[22, 3, 1, 0x40, 1, 0]] {
        let mut client = broker.connect();
        client.send_bytes(bytes);
    }
    wait(async {
        let connection = Arc::new(connect(&broker, &authority, &[]).await.unwrap());
        assert!(connection.send(&MetadataRequest::default()).await.is_ok());
        // A record that says it is longer than records are.
        let mut socket = tokio::net::TcpStream::connect(broker.address()).await.unwrap();
        socket.write_all(&[23, 3, 3, 0xff, 0xff]).await.unwrap();
        let mut rest = Vec::new();
        _ = socket.read_to_end(&mut rest).await;
    });
}
