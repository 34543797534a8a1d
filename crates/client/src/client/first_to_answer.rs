//! Connecting to any of several brokers without waiting for one that hangs.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Client;
use crate::{ClientError, Connection, ConnectionError};

/// A broker that has not answered for so long is not waited for alone: the next one is tried beside it. Long enough for
/// most to answer, so that as a rule one connection is made and one password shown.
const HEAD_START: Duration = Duration::from_millis(250);

impl Client {
    /// A connection to one of these: to the first that answers, in whose favor the others are given up.
    pub(super) async fn first_to_answer(&self, addresses: Vec<String>) -> Result<Connection, ClientError> {
        let mut attempts = JoinSet::new();
        let mut addresses = addresses.into_iter();
        let mut reason =
            ConnectionError::Connect { address: "no address".to_owned(), reason: "none is given".to_owned() };
        loop {
            if let Some(address) = addresses.next() {
                let client = self.clone();
                attempts.spawn(async move { client.connection(&address).await });
            }
            let ended = match addresses.len() {
                0 => attempts.join_next().await,
                _ => match timeout(HEAD_START, attempts.join_next()).await {
                    Ok(ended) => ended,
                    Err(_) => continue,
                },
            };
            match ended {
                Some(Ok(Ok(connection))) => return Ok(connection),
                // Wrong passwords add up: a user who is refused everywhere may be locked out.
                Some(Ok(Err(error @ ConnectionError::Authentication { .. }))) => return Err(error.into()),
                Some(Ok(Err(error))) => reason = error,
                Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
                None => return Err(ClientError::Unreachable { reason }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::fake_cluster::FakeCluster;

    /// Much longer than anything takes: who waits for a server that hangs fails the test.
    const LONG: Duration = Duration::from_secs(3600);
    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn servers_that_hang_hold_nobody_up() {
        let cluster = FakeCluster::start(1, Vec::new(), &[], |_| None).await;
        // They accept connections and read nothing, as processes that are stopped.
        let hung = [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let mut config = cluster.config();
        let answering = config.bootstrap_servers.remove(0);
        let hanging = hung.iter().map(|hung| hung.local_addr().unwrap().to_string());
        config.bootstrap_servers = hanging.chain([gone.to_string(), answering.clone()]).collect();
        config.connection.connect_timeout = LONG;
        let connection =
            timeout(PATIENCE, Client::new(config).any_broker()).await.expect("it waits for those that hang");
        assert_eq!(connection.unwrap().address(), answering);
    }
}
