//! Who coordinates which group, or the transactions of which producer: found in as few requests as the brokers allow,
//! remembered, and asked for many groups at once.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::JoinSet;
use wire::ErrorCode;
use wire::api::Request;
use wire::api::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::Client;
use crate::{Broker, ClientError, Connection};

/// Since this version FindCoordinator takes many keys (KIP-699).
const FIND_COORDINATOR_BATCHED: i16 = 4;

/// What is coordinated (`FindCoordinatorRequest.CoordinatorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Coordinated {
    Group = 0,
    Transaction = 1,
}

impl Coordinated {
    /// One of them, by its group id or transactional id.
    fn named(self, key: &str) -> String {
        match self {
            Self::Group => format!("group {key}"),
            Self::Transaction => format!("transactional id {key}"),
        }
    }
}

/// What was found out about each group, or each transactional id.
pub(crate) type ByKey<T> = BTreeMap<String, Result<T, ClientError>>;

/// A broker that coordinates, and a connection to it.
#[derive(Clone)]
pub(crate) struct Coordinator {
    pub(crate) broker: Broker,
    pub(crate) connection: Connection,
}

impl Client {
    /// Makes the next look for the group's coordinator a fresh one.
    pub fn forget_coordinator(&self, group: &str) {
        self.forget_coordinator_of(Coordinated::Group, group);
    }

    fn forget_coordinator_of(&self, kind: Coordinated, key: &str) {
        self.state().coordinators.remove(&(kind, key.to_owned()));
    }

    /// A connection to the broker that coordinates a group.
    pub async fn coordinator(&self, group: &str) -> Result<Connection, ClientError> {
        let key = (Coordinated::Group, group.to_owned());
        let known = self.state().coordinators.get(&key).map(Broker::address);
        if let Some(address) = known {
            match self.connection(&address).await {
                Ok(connection) => return Ok(connection),
                Err(_) => self.forget_coordinator(group),
            }
        }
        let broker = self.find_coordinator(group).await?;
        let address = broker.address();
        self.state().coordinators.insert(key, broker);
        Ok(self.connection(&address).await?)
    }

    /// Asks who coordinates a group, once.
    pub async fn find_coordinator(&self, group: &str) -> Result<Broker, ClientError> {
        self.find_coordinator_of(Coordinated::Group, group).await
    }

    /// Asks who coordinates a group or the transactions of a producer, once.
    pub(crate) async fn find_coordinator_of(&self, kind: Coordinated, key: &str) -> Result<Broker, ClientError> {
        let mut found = self.find_coordinators_of(kind, &[key.to_owned()]).await?;
        let missing = || ClientError::Missing { address: "a broker".to_owned(), subject: subject(kind, key) };
        found.remove(key).unwrap_or_else(|| Err(missing()))
    }

    /// Asks who coordinates each of these, once.
    async fn find_coordinators_of(&self, kind: Coordinated, keys: &[String]) -> Result<ByKey<Broker>, ClientError> {
        let connection = self.any_broker().await?;
        if connection.version::<FindCoordinatorRequest>()? < FIND_COORDINATOR_BATCHED {
            return find_one_by_one(&connection, kind, keys).await;
        }
        let request =
            FindCoordinatorRequest { key_type: kind as i8, coordinator_keys: keys.to_vec(), ..Default::default() };
        let found = connection.send(&request).await?.coordinators;
        let mut coordinators: BTreeMap<_, _> = keys
            .iter()
            .map(|key| {
                let (address, subject) = (connection.address().to_owned(), subject(kind, key));
                (key.clone(), Err(ClientError::Missing { address, subject }))
            })
            .collect();
        for found in found {
            let subject = || subject(kind, &found.key);
            let checked = ClientError::check(subject, found.error_code, found.error_message.as_deref());
            let broker = Broker { id: found.node_id, host: found.host, port: found.port, rack: None };
            coordinators.insert(found.key, checked.map(|()| broker));
        }
        Ok(coordinators)
    }

    /// Sends to a group's coordinator, and tries again, at a new coordinator where that is the trouble, while `code` of
    /// the answer is one that passes. Any other answer is returned, whatever its code.
    pub async fn send_to_coordinator<R: Request>(
        &self,
        group: &str,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, ClientError> {
        let mut retry = self.retry();
        loop {
            let error = match self.coordinator(group).await {
                Ok(connection) => match connection.send(request).await {
                    Ok(response) => match code(&response) {
                        code @ (ErrorCode::NOT_COORDINATOR
                        | ErrorCode::COORDINATOR_NOT_AVAILABLE
                        | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => {
                            let subject = subject(Coordinated::Group, group);
                            ClientError::Refused { subject, code, message: None }
                        }
                        _ => return Ok(response),
                    },
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            self.forget_unless_loading(Coordinated::Group, group, &error);
            retry.wait(error).await?;
        }
    }

    fn forget_unless_loading(&self, kind: Coordinated, key: &str, error: &ClientError) {
        if error.code() != Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            self.forget_coordinator_of(kind, key);
        }
    }

    /// Calls `ask` for every coordinator of these groups or transactional ids with all that it coordinates of them, at
    /// the same time, and again for those whose trouble passes. Says something of every one.
    pub(crate) async fn ask_coordinators<T, F>(
        &self,
        kind: Coordinated,
        keys: &[String],
        ask: fn(Coordinator, Vec<String>) -> F,
    ) -> ByKey<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<ByKey<T>, ClientError>> + Send + 'static,
    {
        let mut answers = BTreeMap::new();
        let mut left: BTreeSet<_> = keys.iter().cloned().collect();
        let mut retry = self.retry();
        while !left.is_empty() {
            let mut passing = None;
            for (key, answer) in self.try_coordinators(kind, std::mem::take(&mut left), ask).await {
                if let Err(error) = &answer
                    && error.is_retriable()
                {
                    self.forget_unless_loading(kind, &key, error);
                    passing = Some(error.clone());
                    left.insert(key.clone());
                }
                answers.insert(key, answer);
            }
            if let Some(error) = passing
                && retry.wait(error).await.is_err()
            {
                break;
            }
        }
        answers
    }

    async fn try_coordinators<T, F>(
        &self,
        kind: Coordinated,
        keys: BTreeSet<String>,
        ask: fn(Coordinator, Vec<String>) -> F,
    ) -> ByKey<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<ByKey<T>, ClientError>> + Send + 'static,
    {
        let mut answers = BTreeMap::new();
        let mut by_address = BTreeMap::<String, (Broker, Vec<String>)>::new();
        for (key, broker) in self.coordinators(kind, keys).await {
            match broker {
                Ok(broker) => by_address.entry(broker.address()).or_insert((broker, Vec::new())).1.push(key),
                Err(error) => {
                    answers.insert(key, Err(error));
                }
            }
        }
        let mut tasks = JoinSet::new();
        for (address, (broker, keys)) in by_address {
            let client = self.clone();
            tasks.spawn(async move {
                let answered = match client.connection(&address).await {
                    Ok(connection) => ask(Coordinator { broker, connection }, keys.clone()).await,
                    Err(error) => Err(error.into()),
                };
                (address, keys, answered)
            });
        }
        for (address, keys, answered) in tasks.join_all().await {
            match answered {
                Ok(mut answered) => answers.extend(keys.into_iter().map(|key| {
                    let missing = || ClientError::Missing { address: address.clone(), subject: kind.named(&key) };
                    let answer = answered.remove(&key).unwrap_or_else(|| Err(missing()));
                    (key, answer)
                })),
                Err(error) => answers.extend(keys.into_iter().map(|key| (key, Err(error.clone())))),
            }
        }
        answers
    }

    /// Who coordinates each of these: from memory, the others asked for together.
    async fn coordinators(&self, kind: Coordinated, keys: BTreeSet<String>) -> ByKey<Broker> {
        let mut coordinators = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let state = self.state();
            for key in keys {
                if let Some(broker) = state.coordinators.get(&(kind, key.clone())) {
                    coordinators.insert(key, Ok(broker.clone()));
                } else {
                    unknown.push(key);
                }
            }
        }
        if unknown.is_empty() {
            return coordinators;
        }
        match self.find_coordinators_of(kind, &unknown).await {
            Ok(found) => {
                let known = found.iter().filter_map(|(key, found)| Some(((kind, key.clone()), found.clone().ok()?)));
                self.state().coordinators.extend(known);
                coordinators.extend(found);
            }
            Err(error) => coordinators.extend(unknown.into_iter().map(|key| (key, Err(error.clone())))),
        }
        coordinators
    }
}

/// For brokers that take one key per request: without waiting in between.
async fn find_one_by_one(
    connection: &Connection,
    kind: Coordinated,
    keys: &[String],
) -> Result<ByKey<Broker>, ClientError> {
    let mut pending = Vec::new();
    for key in keys {
        let request = FindCoordinatorRequest { key_type: kind as i8, key: key.clone(), ..Default::default() };
        pending.push((key, connection.start(&request)?));
    }
    let mut coordinators = BTreeMap::new();
    for (key, response) in pending {
        let FindCoordinatorResponse { error_code, error_message, node_id: id, host, port, .. } = response.await?;
        let checked = ClientError::check(|| subject(kind, key), error_code, error_message.as_deref());
        coordinators.insert(key.clone(), checked.map(|()| Broker { id, host, port, rack: None }));
    }
    Ok(coordinators)
}

fn subject(kind: Coordinated, key: &str) -> String {
    format!("the coordinator of {}", kind.named(key))
}
