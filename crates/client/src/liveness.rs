//! Whether brokers answer: each is asked on a connection of its own, so that one which hangs delays nothing else.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use wire::api::metadata::MetadataRequest;

use crate::{Connection, ConnectionConfig, ConnectionError};

pub struct Liveness {
    config: ConnectionConfig,
    /// How long a broker may take to answer, connecting to it included.
    patience: Duration,
    /// By address.
    connections: Mutex<HashMap<String, Connection>>,
}

impl Liveness {
    /// Connects to nothing yet.
    pub fn new(config: &ConnectionConfig, patience: Duration) -> Self {
        let config = ConnectionConfig { connect_timeout: patience, request_timeout: patience, ..config.clone() };
        Self { config, patience, connections: Mutex::default() }
    }

    /// Asks brokers by their ids and addresses, all at the same time, and returns those that did not answer.
    pub async fn find_silent(&self, brokers: impl IntoIterator<Item = (i32, String)>) -> BTreeSet<i32> {
        let mut questions = JoinSet::new();
        let mut asked = HashMap::new();
        for (id, address) in brokers {
            let known = self.connections.lock().remove(&address).filter(Connection::is_open);
            let (config, patience) = (self.config.clone(), self.patience);
            asked.insert(id, address.clone());
            questions.spawn(async move {
                let answer = timeout(patience, ask(known, &address, &config)).await;
                (id, answer.ok().and_then(Result::ok))
            });
        }
        let mut silent = BTreeSet::new();
        for (id, answer) in questions.join_all().await {
            match (answer, asked.remove(&id)) {
                (Some(connection), Some(address)) => drop(self.connections.lock().insert(address, connection)),
                _ => drop(silent.insert(id)),
            }
        }
        silent
    }
}

async fn ask(
    known: Option<Connection>,
    address: &str,
    config: &ConnectionConfig,
) -> Result<Connection, ConnectionError> {
    // Of the brokers, not of any topic.
    let question = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    if let Some(connection) = known {
        // It may be closed for idleness, or the broker may have ended and begun again.
        match connection.send(&question).await {
            Ok(_) => return Ok(connection),
            Err(error @ ConnectionError::Timeout { .. }) => return Err(error),
            Err(_) => {}
        }
    }
    let connection = Connection::connect(address, config).await?;
    connection.send(&question).await?;
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::fake_cluster::FakeCluster;

    #[tokio::test]
    async fn who_hangs_or_is_gone_is_silent_and_who_answers_is_asked_on_one_connection() {
        let cluster = FakeCluster::start(1, Vec::new(), &[], |_| None).await;
        let answering = (0, cluster.config().bootstrap_servers[0].clone());
        let config = ConnectionConfig::default();
        let liveness = Liveness::new(&config, Duration::from_secs(60));
        for _ in 0..3 {
            assert_eq!(liveness.find_silent([answering.clone()]).await, [].into());
        }
        assert_eq!(cluster.asked::<MetadataRequest>().len(), 3);
        assert_eq!(cluster.asked::<wire::api::api_versions::ApiVersionsRequest>().len(), 1);

        // It accepts connections and reads nothing, as a process that is stopped.
        let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let others = [(1, hung.local_addr().unwrap().to_string()), (2, gone.to_string())];
        let impatient = Liveness::new(&config, Duration::from_millis(20));
        assert_eq!(impatient.find_silent(others).await, [1, 2].into());
    }
}
