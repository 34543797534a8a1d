//! A cluster whose nodes know each other by certificates, and strangers that have none, or another's.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use broker::Server;
use client::{Connection, ConnectionConfig, SecurityConfig};
use configuration::load::{Sources, load};
use platform::Env;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use wire::api::create_topics::{CreatableTopic, CreateTopicsRequest};
use wire::api::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::api::quorum_hello::QuorumHelloRequest;
use wire::batch::BatchBuilder;
use wire::{ErrorCode, Records, Uuid};

use super::tls::{Authority, Signed, connect_to, wait};
use super::*;

const NODES: i32 = 2;

struct Nodes {
    runtime: Runtime,
    running: Vec<(i32, Server)>,
    inter_broker: Vec<SocketAddr>,
    keystores: Vec<PathBuf>,
    _dirs: Vec<TempDir>,
}

impl Nodes {
    /// Nodes that `authority` has signed the certificates of, and that take those of it alone.
    fn start(authority: &Authority) -> Self {
        Self::start_trusting(authority, &authority.pem())
    }

    fn start_trusting(authority: &Authority, trusted: &str) -> Self {
        Self::start_with(|id, keystore| {
            write_keystore(keystore, &of_node(authority, id));
            vec![
                ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL".to_owned()),
                ("listener.name.controller.ssl.keystore.location", keystore.to_str().unwrap().to_owned()),
                ("listener.name.controller.ssl.truststore.certificates", trusted.to_owned()),
                ("listener.name.controller.ssl.client.auth", "required".to_owned()),
            ]
        })
    }

    /// Nodes that log in to each other with a password.
    fn with_password(mechanism: &str, jaas: &str) -> Self {
        let of_mechanism =
            format!("listener.name.controller.{}.sasl.jaas.config", mechanism.to_ascii_lowercase()).leak();
        Self::start_with(|_, _| {
            vec![
                ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT".to_owned()),
                ("listener.name.controller.sasl.enabled.mechanisms", mechanism.to_owned()),
                ("sasl.mechanism.controller.protocol", mechanism.to_owned()),
                (&*of_mechanism, jaas.to_owned()),
            ]
        })
    }

    fn start_with(security: impl Fn(i32, &Path) -> Vec<(&'static str, String)>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let free: Vec<_> = (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let inter_broker: Vec<_> = free.iter().map(|listener| listener.local_addr().unwrap()).collect();
        drop(free);
        let voters: Vec<_> = (1..).zip(&inter_broker).map(|(id, address)| format!("{id}@{address}")).collect();
        let dirs: Vec<_> = (0..NODES).map(|_| TempDir::new().unwrap()).collect();
        let keystores: Vec<_> = dirs.iter().map(|dir| dir.path().join("node.pem")).collect();
        let mut starting = JoinSet::new();
        for (id, (dir, keystore)) in (1..).zip(dirs.iter().zip(&keystores)) {
            let flags = [
                ("listeners", "PLAINTEXT://127.0.0.1:0".to_owned()),
                ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned()),
                ("super.users", "User:ANONYMOUS".to_owned()),
                ("node.id", i32::to_string(&id)),
                ("controller.quorum.voters", voters.join(",")),
                ("log.dirs", dir.path().join("data").to_str().unwrap().to_owned()),
            ];
            let flags = flags.into_iter().chain(security(id, keystore));
            let flags = flags.map(|(name, value)| (name.to_owned(), value)).collect();
            let config = load(Sources { flags, ..Sources::default() }).expect("the settings are good").config;
            let start = async move { (id, Server::start(config, Env::real()).await.expect("the node starts")) };
            starting.spawn_on(start, runtime.handle());
        }
        let mut running = runtime.block_on(starting.join_all());
        running.sort_by_key(|(id, _)| *id);
        Self { runtime, running, inter_broker, keystores, _dirs: dirs }
    }

    /// Has a node read its certificate anew.
    fn renew(&self, index: usize, signed: &Signed) {
        write_keystore(&self.keystores[index], signed);
        self.runtime.block_on(self.running[index].1.renew_certificates());
    }

    fn client(&self) -> TestClient {
        TestClient::connect(self.running[0].1.addresses()[0])
    }

    /// Has records replicated.
    fn replicate(&self) {
        let mut client = self.client();
        let topic = CreatableTopic {
            name: "t".to_owned(),
            num_partitions: 2,
            replication_factor: NODES as i16,
            ..Default::default()
        };
        let created =
            client.ask(&CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() });
        assert_eq!(created.topics[0].error_code, ErrorCode::NONE, "{:?}", created.topics[0].error_message);
        // All replicas have it: the follower has fetched.
        let mut builder = BatchBuilder::new();
        builder.push(1_700_000_000_000, None, Some(b"v"), &[]);
        let batch = builder.build().bytes;
        let mut served = 0;
        for (index, (_, server)) in (0..).zip(&self.running).chain((0..).zip(self.running.iter().rev())) {
            let data = PartitionProduceData { index, records: Some(Records::Inline(batch.clone())) };
            let data = TopicProduceData { name: "t".to_owned(), partition_data: vec![data], ..Default::default() };
            let request = ProduceRequest { acks: -1, timeout_ms: 20_000, topic_data: vec![data], ..Default::default() };
            let answer = TestClient::connect(server.addresses()[0]).call(12, &request);
            served += usize::from(answer.responses[0].partition_responses[0].error_code.is_none());
        }
        assert_eq!(served, 2, "each partition has a leader, which has a follower");
    }
}

fn of_node(authority: &Authority, id: i32) -> Signed {
    authority.sign_for(&format!("node-{id}"), &["127.0.0.1"])
}

fn write_keystore(path: &Path, Signed { certificate, key }: &Signed) {
    std::fs::write(path, format!("{key}{certificate}")).unwrap();
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for (_, server) in self.running.drain(..) {
            self.runtime.block_on(server.stop());
        }
    }
}

#[test]
fn nodes_with_certificates_are_a_cluster_and_strangers_are_kept_out() {
    let authority = Authority::new("cluster");
    let nodes = Nodes::start(&authority);
    nodes.replicate();

    let at = nodes.inter_broker[0];
    wait(async {
        // One of the cluster may ask, and is told no more than that.
        let own = authority.sign_for("node-2", &["127.0.0.1"]);
        let connection = connect_to(at, &authority, Some(&own)).await.unwrap();
        assert!(connection.send(&QuorumHelloRequest::default()).await.is_ok());
        // Whoever has no certificate, or one of another authority, is not heard at all.
        assert!(connect_to(at, &authority, None).await.is_err());
        let stranger = Authority::new("cluster").sign_for("node-2", &["127.0.0.1"]);
        assert!(connect_to(at, &authority, Some(&stranger)).await.is_err());
    });
    // And nobody without TLS.
    assert!(!is_served(&mut TestClient::connect(at)));
}

#[test]
fn nodes_with_a_password_are_a_cluster_and_strangers_are_kept_out() {
    const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"nodes\" \
                         password=\"cluster-secret\";";
    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"nodes\" \
                         password=\"cluster-secret\" user_nodes=\"cluster-secret\";";
    for (mechanism, jaas) in [("SCRAM-SHA-512", SCRAM), ("PLAIN", PLAIN)] {
        let nodes = Nodes::with_password(mechanism, jaas);
        nodes.replicate();
        let at = nodes.inter_broker[0];
        let mut stranger = TestClient::connect(at);
        assert!(!is_served(&mut stranger), "{mechanism}");
        wait(async {
            for (password, is_let_in) in [("cluster-secret", true), ("wrong", false)] {
                let mut security = SecurityConfig::default();
                security.set("security.protocol", "SASL_PLAINTEXT").unwrap();
                security.set("sasl.mechanism", mechanism).unwrap();
                security.set("sasl.jaas.config", &jaas.replace("cluster-secret", password)).unwrap();
                let config = ConnectionConfig { security: security.load().unwrap(), ..ConnectionConfig::default() };
                let connected = Connection::connect(&at.to_string(), &config).await;
                assert_eq!(connected.is_ok(), is_let_in, "{mechanism} {password}");
            }
        });
    }
}

#[test]
fn a_certificate_of_the_cluster_speaks_for_its_own_node_alone() {
    use wire::api::confirm_sender::NodeIdentity;
    use wire::api::describe_node::DescribeNodeRequest;

    let authority = Authority::new("cluster");
    let nodes = Nodes::start(&authority);
    let cluster_id = nodes.client().ask(&MetadataRequest::default()).cluster_id.expect("it has one");
    wait(async {
        for name in ["node-2", "elsewhere"] {
            let signed = authority.sign_for(name, &[]);
            let connection = connect_to(nodes.inter_broker[0], &authority, Some(&signed)).await.unwrap();
            for node_id in [1, 2] {
                let sender = NodeIdentity { node_id, directory_id: Uuid([7; 16]), incarnation_id: Uuid([7; 16]) };
                let request = DescribeNodeRequest { cluster_id: cluster_id.clone(), sender };
                let answer = connection.send(&request).await.unwrap();
                assert_eq!(answer.error_code, ErrorCode::CLUSTER_AUTHORIZATION_FAILED, "{name} as {node_id}");
            }
        }
    });
}

#[test]
fn a_client_that_the_authority_of_nodes_has_signed_has_no_more_rights_at_their_port() {
    let authority = Authority::new("cluster");
    let nodes = Nodes::start(&authority);
    nodes.replicate();
    let create = |name: &str| {
        let topic =
            CreatableTopic { name: name.to_owned(), num_partitions: 1, replication_factor: 1, ..Default::default() };
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() }
    };
    wait(async {
        for (name, expected) in [("node-2", ErrorCode::NONE), ("alice", ErrorCode::TOPIC_AUTHORIZATION_FAILED)] {
            let signed = authority.sign_for(name, &[]);
            let connection = connect_to(nodes.inter_broker[0], &authority, Some(&signed)).await.unwrap();
            let answer = connection.send(&create(&format!("of-{name}"))).await.unwrap();
            assert_eq!(answer.topics[0].error_code, expected, "{name}");
        }
    });
}

#[test]
fn nodes_go_on_when_their_certificates_are_renewed_one_after_the_other() {
    let (old, new, stranger) = (Authority::new("old"), Authority::new("new"), Authority::new("stranger"));
    let nodes = Nodes::start_trusting(&old, &(old.pem() + &new.pem()));
    let own = of_node(&new, 2);
    let shows_one_of = |index: usize, authority: &Authority| {
        wait(async { connect_to(nodes.inter_broker[index], authority, Some(&own)).await.is_ok() })
    };
    // The other nodes would not take it.
    nodes.renew(0, &of_node(&stranger, 1));
    assert!(shows_one_of(0, &old) && !shows_one_of(0, &stranger));

    let mut client = nodes.client();
    let mut create = |name: &str| {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: 1,
            replication_factor: NODES as i16,
            ..Default::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() };
        assert_eq!(client.ask(&request).topics[0].error_code, ErrorCode::NONE, "{name}");
    };
    for (index, id) in [(0, 1), (1, 2)] {
        nodes.renew(index, &of_node(&new, id));
        assert!(shows_one_of(index, &new) && !shows_one_of(index, &old));
        create(&format!("after-{id}"));
    }
}
