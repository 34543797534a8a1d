//! A broker in this process on a free port, and a client that speaks any request in any version.

#![allow(dead_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use broker::{NodeReport, Server};
use bytes::{Bytes, BytesMut};
use configuration::load::{Sources, load};
use platform::Env;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use wire::api::Request;
use wire::frame;

/// A broker whose data lives as long as this value.
pub struct TestBroker {
    runtime: Runtime,
    server: Option<Server>,
    dir: TempDir,
    settings: Vec<(String, String)>,
    env: Env,
}

impl TestBroker {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_in(Env::real(), settings)
    }

    pub fn start_in(env: Env, settings: &[(&str, &str)]) -> Self {
        let mut all = vec![("listeners".to_owned(), "PLAINTEXT://127.0.0.1:0".to_owned())];
        let quick = [("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "4")];
        all.extend(quick.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let mut broker = Self {
            runtime: runtime.expect("a runtime starts"),
            server: None,
            dir: TempDir::new().expect("there is a temporary directory"),
            settings: all,
            env,
        };
        broker.run();
        broker
    }

    fn run(&mut self) {
        let mut flags = self.settings.clone();
        flags.push(("log.dirs".into(), self.dir.path().to_str().expect("the path is UTF-8").into()));
        let config = load(Sources { flags, ..Sources::default() }).expect("the settings are good").config;
        self.server = Some(self.runtime.block_on(Server::start(config, self.env.clone())).expect("the broker starts"));
    }

    /// Stops cleanly and starts again on the same data. The port may change.
    pub fn restart(&mut self) {
        self.stop();
        self.run();
    }

    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }

    /// Reads the files of certificates, as a signal has the process do.
    pub fn renew_certificates(&self) {
        self.runtime.block_on(self.server.as_ref().expect("the broker runs").renew_certificates());
    }

    /// A value on the page of metrics.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let page = self.server.as_ref().expect("the broker runs").metrics().text();
        let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(value.parse().expect("a metric is a number"))
    }

    pub fn data_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub fn address(&self) -> SocketAddr {
        self.server.as_ref().expect("the broker runs").addresses()[0]
    }

    pub fn connect(&self) -> TestClient {
        self.connect_to(0)
    }

    /// Connects to a listener, by its place in the setting.
    pub fn connect_to(&self, listener: usize) -> TestClient {
        TestClient::connect(self.server.as_ref().expect("the broker runs").addresses()[listener])
    }

    /// What all nodes of its cluster tell of themselves.
    pub fn nodes(&self) -> Vec<NodeReport> {
        self.runtime.block_on(self.server.as_ref().expect("the broker runs").metrics().nodes())
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One connection.
pub struct TestClient {
    pub stream: TcpStream,
    correlation_id: i32,
}

impl TestClient {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the broker is reachable");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("the socket takes its options");
        stream.set_nodelay(true).expect("the socket takes its options");
        Self { stream, correlation_id: 0 }
    }

    /// Sends a request and waits for its answer.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request);
        self.receive::<R>(version)
    }

    /// Calls the newest version.
    pub fn ask<R: Request>(&mut self, request: &R) -> R::Response {
        self.call(*R::API.versions.end(), request)
    }

    pub fn send<R: Request>(&mut self, version: i16, request: &R) {
        self.correlation_id += 1;
        let mut out = BytesMut::new();
        frame::write_request(&mut out, version, self.correlation_id, "test", request);
        self.send_bytes(&out);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker takes the request");
    }

    pub fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let frame = self.receive_frame().expect("the broker answers");
        frame::read_response::<R>(&frame, version).expect("the answer is well-formed").1
    }

    /// The next answer without its length prefix, or `None` when the broker has closed the connection.
    pub fn receive_frame(&mut self) -> Option<Bytes> {
        let mut prefix = [0; 4];
        match self.stream.read_exact(&mut prefix) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer in 30 s"),
            Err(_) => return None,
        }
        let mut frame = vec![0; u32::from_be_bytes(prefix) as usize];
        self.stream.read_exact(&mut frame).ok()?;
        Some(frame.into())
    }

    /// Whether the broker has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.receive_frame().is_none()
    }
}
