//! The first start of a node: which cluster it belongs to, and who its quorum is.
//!
//! Nodes that are to begin a cluster together say hello to each other until all of them have answered that they are
//! blank. Then each of them knows the same: every voter's id and directory. A node that comes late finds one that has
//! begun, and begins with the same voters if it is one of them. In a cluster that has metadata already it waits for the
//! leader's messages, and has to join first if the voters do not know its directory. So a node that has lost its disk
//! can neither begin a second cluster nor vote as its old directory.
//!
//! While it waits, the node answers the hellos of others, and nothing else.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use client::ConnectionError;
use configuration::{Membership, VoterAddress};
use metadata::MetadataImage;
use platform::Env;
use quorum::{Voter, VoterSet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::api::Request;
use wire::api::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::api::quorum_hello::{QuorumHelloRequest, QuorumHelloResponse};
use wire::api::quorum_join::VoterNode;
use wire::api::sasl_authenticate::SaslAuthenticateRequest;
use wire::api::sasl_handshake::SaslHandshakeRequest;
use wire::frame::{self, RequestHeader};
use wire::{Reader, Uuid};

use crate::frame::Chunk;
use crate::security::{Exchange, Ground, ListenerSecurity, Step};
use crate::stream::{Dialer, Socket, Stream};

/// How long other nodes may take to answer a hello, and the interval between hellos.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
const HELLO_INTERVAL: Duration = Duration::from_millis(50);
/// How often missing nodes are logged.
const NOTICE_INTERVAL: Duration = Duration::from_secs(5);
/// The longest QuorumHello request.
const REQUEST_BYTES_MAX: usize = 4096;

/// What a node begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstStart {
    /// With a cluster of these voters, all of them blank.
    Voter { cluster_id: String, voters: VoterSet },
    /// With nothing, in an existing cluster, which sends its metadata.
    Join { cluster_id: String },
}

/// Why a node cannot begin. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FirstStartError {
    #[error(
        "no cluster is formed: {missing} did not answer in time; start them, or see whether their addresses are right"
    )]
    Missing { missing: String },
    #[error(
        "{address} is node {found} and not node {expected}: controller.quorum.voters must be the same on every node"
    )]
    OtherNode { address: String, expected: i32, found: i32 },
    #[error("{address} belongs to cluster {found}, and cluster.id is {expected}")]
    OtherCluster { address: String, expected: String, found: String },
    #[error(
        "the metadata of this node is gone, partitions are there, and no node that has it answers at {asked}, so nothing \
         begins anew; start the other nodes, or put back what 'parshall recover' has set aside"
    )]
    LostMetadata { asked: String },
}

/// What a node may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// It has never had anything.
    Blank,
    /// It has partitions of a cluster whose metadata it lacks. It joins the others, and begins nothing.
    LostMetadata,
}

/// How this node and the others reach each other.
#[derive(Clone, Copy)]
pub struct Contact<'a> {
    /// The socket that others find this node at.
    pub listener: Option<&'a Socket>,
    /// What that listener demands of them.
    pub security: &'a Arc<ListenerSecurity>,
    pub dialer: &'a Dialer,
}

/// Finds out what this node, `own`, begins with.
pub async fn first_start(
    membership: &Membership,
    own: &Voter,
    past: Past,
    cluster_id: Option<&str>,
    contact: Contact<'_>,
    env: &Env,
    max_wait: Duration,
) -> Result<FirstStart, FirstStartError> {
    let begin_alone = || FirstStart::Voter {
        cluster_id: cluster_id.map_or_else(|| env.new_id().to_string(), str::to_owned),
        voters: VoterSet::new(vec![own.clone()]),
    };
    let starter = FirstStarter { own, past, cluster_id, dialer: contact.dialer, max_wait };
    let found = match membership {
        Membership::Alone => return Ok(begin_alone()),
        Membership::Voters(voters) if past == Past::LostMetadata => {
            let others = voters.iter().filter(|voter| voter.node_id != own.node_id);
            let addresses: Vec<String> = others.map(VoterAddress::address).collect();
            with_greeting(contact, own, env, starter.find(&addresses)).await?
        }
        Membership::Voters(voters) => with_greeting(contact, own, env, starter.form(voters)).await?,
        Membership::Join(addresses) => with_greeting(contact, own, env, starter.find(addresses)).await?,
    };
    Ok(found.unwrap_or_else(begin_alone))
}

/// Answers hellos while `work` is under way.
async fn with_greeting<T>(contact: Contact<'_>, own: &Voter, env: &Env, work: impl Future<Output = T>) -> T {
    match contact.listener {
        Some(listener) => tokio::select! {
            biased;
            done = work => done,
            never = greet(listener, contact.security, own, env) => match never {},
        },
        None => work.await,
    }
}

struct FirstStarter<'a> {
    own: &'a Voter,
    past: Past,
    cluster_id: Option<&'a str>,
    dialer: &'a Dialer,
    max_wait: Duration,
}

impl FirstStarter<'_> {
    fn request(&self) -> QuorumHelloRequest {
        let Voter { node_id, directory_id, .. } = *self.own;
        QuorumHelloRequest { node_id, directory_id, ..QuorumHelloRequest::default() }
    }

    /// Begins a cluster with the others, or finds that it has begun. `None` is a cluster of this node alone.
    async fn form(&self, voters: &[VoterAddress]) -> Result<Option<FirstStart>, FirstStartError> {
        let others: Vec<&VoterAddress> = voters.iter().filter(|voter| voter.node_id != self.own.node_id).collect();
        // All nodes must have the same list, so this node must have the address that the others have for it.
        let at_its_address = |voter: &VoterAddress, directory_id| {
            let (node_id, host, port) = (voter.node_id, voter.host.clone(), voter.port);
            Voter { node_id, directory_id, host, port }
        };
        let own = voters.iter().filter(|voter| voter.node_id == self.own.node_id);
        let own = own.map(|voter| (voter.node_id, at_its_address(voter, self.own.directory_id)));
        let mut blank: BTreeMap<i32, Voter> = own.collect();
        let mut waiting = Waiting::new(self.max_wait);
        while blank.len() < voters.len() {
            let answers = hello_all(self.dialer, others.iter().map(|voter| voter.address()), &self.request()).await;
            blank.retain(|id, _| *id == self.own.node_id);
            let mut missing = Vec::new();
            for (voter, answer) in others.iter().zip(answers) {
                let Ok(answer) = answer else {
                    missing.push(format!("node {} at {}", voter.node_id, voter.address()));
                    continue;
                };
                if answer.node_id != voter.node_id {
                    let (address, expected) = (voter.address(), voter.node_id);
                    return Err(FirstStartError::OtherNode { address, expected, found: answer.node_id });
                }
                if let Some(found) = self.begun(&voter.address(), &answer)? {
                    return Ok(Some(found));
                }
                blank.insert(voter.node_id, at_its_address(voter, answer.directory_id));
            }
            if blank.len() < voters.len() {
                waiting.pause(&missing).await?;
            }
        }
        let voters: Vec<Voter> = blank.into_values().collect();
        if voters.len() == 1 {
            return Ok(None);
        }
        let cluster_id = self.cluster_id.map_or_else(|| common_id(&voters).to_string(), str::to_owned);
        Ok(Some(FirstStart::Voter { cluster_id, voters: VoterSet::new(voters) }))
    }

    /// Finds a cluster to join. `None` when every address is this node's own.
    async fn find(&self, addresses: &[String]) -> Result<Option<FirstStart>, FirstStartError> {
        let mut waiting = Waiting::new(self.max_wait);
        loop {
            let answers = hello_all(self.dialer, addresses.iter().cloned(), &self.request()).await;
            let mut own = 0;
            for (address, answer) in addresses.iter().zip(answers.iter().flatten()) {
                if answer.directory_id == self.own.directory_id {
                    own += 1;
                } else if let Some(found) = self.begun(address, answer)? {
                    return Ok(Some(found));
                }
            }
            let is_bereft = self.past == Past::LostMetadata;
            let bereft = || FirstStartError::LostMetadata { asked: addresses.join(", ") };
            if own == addresses.len() {
                return if is_bereft { Err(bereft()) } else { Ok(None) };
            }
            waiting.pause(addresses).await.map_err(|missing| if is_bereft { bereft() } else { missing })?;
        }
    }

    /// How this node begins in an existing cluster.
    fn begun(&self, address: &str, answer: &QuorumHelloResponse) -> Result<Option<FirstStart>, FirstStartError> {
        let Some(cluster_id) = answer.cluster_id.clone() else { return Ok(None) };
        if let Some(expected) = self.cluster_id.filter(|expected| *expected != cluster_id) {
            let (address, expected) = (address.to_owned(), expected.to_owned());
            return Err(FirstStartError::OtherCluster { address, expected, found: cluster_id });
        }
        let voters: Vec<Voter> = answer.voters.iter().map(member).collect();
        let is_own = |voter: &Voter| (voter.node_id, voter.directory_id) == (self.own.node_id, self.own.directory_id);
        // As long as nothing is committed, the voters are those of the beginning, and without them there is no quorum.
        // Later there is one, which sends the rest.
        if self.past == Past::Blank && answer.high_watermark <= 0 && voters.iter().any(is_own) {
            return Ok(Some(FirstStart::Voter { cluster_id, voters: VoterSet::new(voters) }));
        }
        Ok(Some(FirstStart::Join { cluster_id }))
    }
}

fn member(node: &VoterNode) -> Voter {
    let VoterNode { node_id, directory_id, host, port } = node.clone();
    Voter { node_id, directory_id, host, port }
}

/// How long to wait for others, and when to say so.
struct Waiting {
    give_up: Instant,
    notice: Instant,
}

impl Waiting {
    fn new(max_wait: Duration) -> Self {
        let now = Instant::now();
        Self { give_up: now + max_wait, notice: now + NOTICE_INTERVAL }
    }

    async fn pause(&mut self, missing: &[String]) -> Result<(), FirstStartError> {
        let now = Instant::now();
        if now >= self.give_up {
            return Err(FirstStartError::Missing { missing: missing.join(", ") });
        }
        if now >= self.notice && !missing.is_empty() {
            tracing::info!("waiting for {}", missing.join(", "));
            self.notice = now + NOTICE_INTERVAL;
        }
        sleep(HELLO_INTERVAL).await;
        Ok(())
    }
}

/// The id of the cluster that these voters begin: the same on each of them, and another one after any disk is replaced.
fn common_id(voters: &[Voter]) -> Uuid {
    let mut bytes = [0; 16];
    for voter in voters {
        for (byte, other) in bytes.iter_mut().zip(voter.directory_id.0) {
            *byte ^= other;
        }
    }
    Uuid::from_random(bytes)
}

/// Says hello to all addresses at the same time.
pub(crate) async fn hello_all(
    dialer: &Dialer,
    addresses: impl Iterator<Item = String>,
    request: &QuorumHelloRequest,
) -> Vec<Result<QuorumHelloResponse, ConnectionError>> {
    let mut requests = JoinSet::new();
    for (index, address) in addresses.enumerate() {
        let (dialer, request) = (dialer.clone(), request.clone());
        requests.spawn(async move { (index, dialer.ask(&address, HELLO_TIMEOUT, &request).await) });
    }
    let mut answers = requests.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Answers each QuorumHello that this node is blank.
async fn greet(
    listener: &Socket,
    security: &Arc<ListenerSecurity>,
    own: &Voter,
    env: &Env,
) -> std::convert::Infallible {
    let answer = QuorumHelloResponse { node_id: own.node_id, directory_id: own.directory_id, ..Default::default() };
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let (answer, security, env) = (answer.clone(), Arc::clone(security), env.clone());
                connections.spawn(timeout(HELLO_TIMEOUT * 2, async move {
                    let stream = match security.tls() {
                        Some(tls) => stream.secured(tls)?,
                        None => stream,
                    };
                    answer_hello(stream, &answer, &security, &env).await
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections for now");
                sleep(HELLO_INTERVAL).await;
            }
        }
    }
}

async fn answer_hello(
    mut stream: Stream,
    answer: &QuorumHelloResponse,
    security: &ListenerSecurity,
    env: &Env,
) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut login = security.protocol().has_sasl().then(Exchange::new);
    loop {
        let size = usize::try_from(stream.read_i32().await?).ok().filter(|size| *size <= REQUEST_BYTES_MAX);
        let mut body = vec![0; size.ok_or_else(invalid)?];
        stream.read_exact(&mut body).await?;
        let body = Bytes::from(body);
        let mut reader = Reader::new(&body, 0, false);
        let header = RequestHeader::read(&mut reader).map_err(|_| invalid())?;
        if let Some(exchange) = login.as_mut().filter(|_| header.api_key != ApiVersionsRequest::API.key) {
            // Users of the metadata, which is not there, are none here.
            let (image, random, now_ms) = (&MetadataImage::default(), &*env.random, env.clock.now_ms());
            let ground = Ground { listener: security, image, random, now_ms };
            let frame = match exchange.request(&ground, &header, &mut reader) {
                Ok(Step::Answer(frame)) => frame,
                Ok(Step::Authenticated(frame, _)) => {
                    login = None;
                    frame
                }
                _ => {
                    sleep(security.failure_delay()).await;
                    return Err(invalid());
                }
            };
            for chunk in frame.into_chunks() {
                let Chunk::Bytes(bytes) = chunk else { return Err(invalid()) };
                stream.write_all(&bytes).await?;
            }
            continue;
        }
        let (version, id) = (header.api_version, header.correlation_id);
        let mut out = BytesMut::new();
        if header.api_key == ApiVersionsRequest::API.key {
            let version = version.min(*ApiVersionsRequest::API.versions.end());
            let served = [
                SaslHandshakeRequest::API,
                ApiVersionsRequest::API,
                SaslAuthenticateRequest::API,
                QuorumHelloRequest::API,
            ];
            let api_keys = served.map(|api| ApiVersion {
                api_key: api.key,
                min_version: *api.versions.start(),
                max_version: *api.versions.end(),
            });
            let response = ApiVersionsResponse { api_keys: api_keys.into(), ..Default::default() };
            frame::write_response(&mut out, &ApiVersionsRequest::API, version, id, &response)
                .map_err(io::Error::other)?;
        } else if header.api_key == QuorumHelloRequest::API.key {
            frame::write_response(&mut out, &QuorumHelloRequest::API, version, id, answer).map_err(io::Error::other)?;
        } else {
            return Err(invalid());
        }
        stream.write_all(&out).await?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn node(node_id: i32, directory: u8) -> Voter {
        Voter { node_id, directory_id: Uuid([directory; 16]), host: "127.0.0.1".to_owned(), port: 0 }
    }

    async fn listeners(count: usize) -> (Vec<Socket>, Vec<VoterAddress>) {
        let mut listeners = Vec::new();
        for _ in 0..count {
            listeners.push(Socket::Tcp(TcpListener::bind("127.0.0.1:0").await.unwrap()));
        }
        let addresses = listeners.iter().zip(1..).map(|(listener, node_id)| {
            let port = listener.local_addr().unwrap().port();
            VoterAddress { node_id, host: "127.0.0.1".to_owned(), port }
        });
        let addresses = addresses.collect();
        (listeners, addresses)
    }

    /// How nodes reach each other without TLS.
    fn contact<'a>(listener: &'a Socket, ways: &'a (Arc<ListenerSecurity>, Dialer)) -> Contact<'a> {
        Contact { listener: Some(listener), security: &ways.0, dialer: &ways.1 }
    }

    fn ways() -> (Arc<ListenerSecurity>, Dialer) {
        (ListenerSecurity::none().into(), Dialer::new(1, client::Security::default()))
    }

    async fn start(
        membership: Membership,
        own: Voter,
        cluster_id: Option<&'static str>,
        listener: Socket,
        max_wait_ms: u64,
    ) -> Result<FirstStart, FirstStartError> {
        let max_wait = Duration::from_millis(max_wait_ms);
        let ways = ways();
        first_start(&membership, &own, Past::Blank, cluster_id, contact(&listener, &ways), &Env::real(), max_wait).await
    }

    #[tokio::test]
    async fn nodes_that_are_all_blank_begin_the_same_cluster() {
        let (listeners, addresses) = listeners(3).await;
        let mut nodes = JoinSet::new();
        for (listener, id) in listeners.into_iter().zip(1..) {
            let membership = Membership::Voters(addresses.clone());
            nodes.spawn(async move {
                // One node comes late, and none may begin without it.
                sleep(Duration::from_millis(if id == 2 { 300 } else { 0 })).await;
                let (own, env, max_wait) = (node(id, id as u8), Env::real(), Duration::from_secs(20));
                let ways = ways();
                let done = first_start(&membership, &own, Past::Blank, None, contact(&listener, &ways), &env, max_wait);
                let done = done.await.unwrap();
                // The first node goes on answering, as a started node does.
                tokio::spawn(async move {
                    greet(&listener, &ListenerSecurity::none().into(), &node(id, id as u8), &Env::real()).await
                });
                done
            });
        }
        let found = nodes.join_all().await;
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
        let FirstStart::Voter { voters, .. } = &found[0] else { panic!("it begins") };
        assert_eq!(voters.voters.iter().map(|voter| voter.directory_id.0[0]).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn who_comes_late_begins_with_the_same_voters_while_nothing_is_committed() {
        let own = node(1, 1);
        let (_, dialer) = ways();
        let dialer = &dialer;
        let starter = FirstStarter { own: &own, past: Past::Blank, cluster_id: None, dialer, max_wait: Duration::ZERO };
        let known = |node: Voter| VoterNode {
            node_id: node.node_id,
            directory_id: node.directory_id,
            host: node.host,
            port: node.port,
        };
        let answer = |directory, high_watermark| QuorumHelloResponse {
            cluster_id: Some("c".to_owned()),
            voters: vec![known(node(1, directory)), known(node(2, 2))],
            high_watermark,
            ..Default::default()
        };
        let begun =
            |directory, high_watermark| starter.begun("a", &answer(directory, high_watermark)).unwrap().unwrap();
        let voters = VoterSet::new(vec![node(1, 1), node(2, 2)]);
        assert_eq!(begun(1, 0), FirstStart::Voter { cluster_id: "c".to_owned(), voters });
        assert_eq!(begun(1, 1), FirstStart::Join { cluster_id: "c".to_owned() }, "its quorum tells the rest");
        assert_eq!(begun(9, 0), FirstStart::Join { cluster_id: "c".to_owned() }, "the disk is another one");
        assert_eq!(starter.begun("a", &QuorumHelloResponse::default()).unwrap(), None);
    }

    #[tokio::test]
    async fn without_the_others_nothing_begins() {
        let (mut listeners, addresses) = listeners(2).await;
        drop(listeners.pop());
        let found = start(Membership::Voters(addresses), node(1, 1), None, listeners.remove(0), 200).await;
        let error = found.unwrap_err().to_string();
        assert!(error.contains("node 2 at 127.0.0.1"), "{error}");
    }

    /// Neither with other blank nodes nor alone: another node must have the lost metadata.
    #[tokio::test]
    async fn who_has_lost_the_metadata_begins_nothing() {
        let (mut listeners, addresses) = listeners(2).await;
        let other = listeners.pop().unwrap();
        tokio::spawn(async move { greet(&other, &ListenerSecurity::none().into(), &node(2, 2), &Env::real()).await });
        let (own, env, max_wait) = (node(1, 1), Env::real(), Duration::from_millis(200));
        let ways = ways();
        for membership in [
            Membership::Voters(addresses.clone()),
            Membership::Join(vec![addresses[1].address()]),
            Membership::Join(vec![addresses[0].address()]),
        ] {
            let found =
                first_start(&membership, &own, Past::LostMetadata, None, contact(&listeners[0], &ways), &env, max_wait)
                    .await;
            assert!(matches!(found, Err(FirstStartError::LostMetadata { .. })), "{membership:?}: {found:?}");
        }
    }

    #[tokio::test]
    async fn a_wrong_node_at_an_address_is_an_error() {
        let (mut listeners, addresses) = listeners(2).await;
        let other = listeners.pop().unwrap();
        tokio::spawn(async move { greet(&other, &ListenerSecurity::none().into(), &node(7, 7), &Env::real()).await });
        let found = start(Membership::Voters(addresses), node(1, 1), None, listeners.remove(0), 5000).await;
        assert!(matches!(found, Err(FirstStartError::OtherNode { expected: 2, found: 7, .. })));
    }

    #[tokio::test]
    async fn a_node_that_is_told_to_join_itself_is_alone() {
        let (mut listeners, addresses) = listeners(1).await;
        let membership = Membership::Join(vec![addresses[0].address()]);
        let found = start(membership, node(1, 1), Some("given"), listeners.remove(0), 5000).await.unwrap();
        let FirstStart::Voter { cluster_id, voters } = found else { panic!("it begins") };
        assert_eq!((cluster_id.as_str(), voters.voters.len()), ("given", 1));
    }
}
