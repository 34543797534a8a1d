//! Whether brokers answer: each is asked on a connection of its own, so that one which hangs delays nothing else.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};
use wire::api::metadata::MetadataRequest;

use crate::{Connection, ConnectionConfig, ConnectionError};

pub struct Liveness {
    config: ConnectionConfig,
    connect_max: Duration,
    answer_max: Duration,
    /// By address.
    peers: Mutex<HashMap<String, Peer>>,
}

#[derive(Default)]
struct Peer {
    connection: Option<Connection>,
    /// Goes on from one question to the next: to a broker far away it takes longer than an answer.
    connecting: Option<(Instant, JoinHandle<Result<Connection, ConnectionError>>)>,
    has_answered: bool,
}

impl Liveness {
    /// Connects to nothing yet. A connection may take `connect_max` with TLS and SASL, an answer on it `answer_max`.
    pub fn new(config: &ConnectionConfig, connect_max: Duration, answer_max: Duration) -> Self {
        let config = ConnectionConfig { connect_timeout: connect_max, request_timeout: connect_max, ..config.clone() };
        Self { config, connect_max, answer_max, peers: Mutex::default() }
    }

    /// Asks brokers by their ids and addresses, all at the same time, and returns those that did not answer. One that
    /// is being connected to for the first time is none of them until that has taken too long.
    pub async fn find_silent(&self, brokers: impl IntoIterator<Item = (i32, String)>) -> BTreeSet<i32> {
        let mut questions = JoinSet::new();
        let mut peers = std::mem::take(&mut *self.peers.lock());
        for (id, address) in brokers {
            let peer = peers.remove(&address).unwrap_or_default();
            let (config, connect_max, answer_max) = (self.config.clone(), self.connect_max, self.answer_max);
            questions.spawn(async move {
                let (is_silent, peer) = peer.ask(&address, &config, connect_max, answer_max).await;
                (id, is_silent, address, peer)
            });
        }
        let mut silent = BTreeSet::new();
        for (id, is_silent, address, peer) in questions.join_all().await {
            if is_silent {
                silent.insert(id);
            }
            self.peers.lock().insert(address, peer);
        }
        silent
    }
}

impl Peer {
    /// Whether it is silent.
    async fn ask(
        mut self,
        address: &str,
        config: &ConnectionConfig,
        connect_max: Duration,
        answer_max: Duration,
    ) -> (bool, Self) {
        if let Some(connection) = self.connection.take().filter(Connection::is_open) {
            match timeout(answer_max, question(&connection)).await {
                Ok(Ok(())) => {
                    self.connection = Some(connection);
                    return (false, self);
                }
                // It may have been closed for idleness, or the broker has ended and begun again.
                Ok(Err(_)) => {}
                Err(_) => return (true, self),
            }
        }
        let (since, mut connecting) = self.connecting.take().unwrap_or_else(|| {
            let (address, config) = (address.to_owned(), config.clone());
            let connecting = async move {
                let connection = Connection::connect(&address, &config).await?;
                question(&connection).await?;
                Ok(connection)
            };
            (Instant::now(), tokio::spawn(connecting))
        });
        match timeout(answer_max, &mut connecting).await {
            Ok(Ok(Ok(connection))) => {
                (self.connection, self.has_answered) = (Some(connection), true);
                (false, self)
            }
            Ok(_) => (true, self),
            Err(_) if since.elapsed() >= connect_max => {
                connecting.abort();
                (true, self)
            }
            Err(_) => {
                self.connecting = Some((since, connecting));
                (self.has_answered, self)
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some((_, connecting)) = &self.connecting {
            connecting.abort();
        }
    }
}

/// Of the brokers, not of any topic.
async fn question(connection: &Connection) -> Result<(), ConnectionError> {
    let question = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    connection.send(&question).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use wire::api::api_versions::ApiVersionsRequest;

    use super::*;
    use crate::fake_cluster::FakeCluster;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn who_hangs_or_is_gone_is_silent_and_who_answers_is_asked_on_one_connection() {
        let cluster = FakeCluster::start(1, Vec::new(), &[], |_| None).await;
        let answering = (0, cluster.config().bootstrap_servers[0].clone());
        let config = ConnectionConfig::default();
        let liveness = Liveness::new(&config, LONG, LONG);
        for _ in 0..3 {
            assert_eq!(liveness.find_silent([answering.clone()]).await, [].into());
        }
        assert_eq!(cluster.asked::<MetadataRequest>().len(), 3);
        assert_eq!(cluster.asked::<ApiVersionsRequest>().len(), 1);

        // It accepts connections and reads nothing, as a process that is stopped.
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let others = [(1, hung.local_addr().unwrap().to_string()), (2, gone.to_string())];
        assert_eq!(Liveness::new(&config, SHORT, SHORT).find_silent(others.clone()).await, [1, 2].into());
        // With more time to connect it is not silent yet, and is not asked anew.
        let patient = Liveness::new(&config, LONG, SHORT);
        for _ in 0..2 {
            assert_eq!(patient.find_silent(others.clone()).await, [2].into());
        }
        assert!(hung.accept().await.is_ok() && hung.accept().await.is_ok(), "one for each of the two");
        assert!(timeout(SHORT, hung.accept()).await.is_err());
    }
}
