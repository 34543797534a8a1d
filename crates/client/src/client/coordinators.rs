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
/// `FindCoordinatorRequest.CoordinatorType.GROUP`.
const COORDINATOR_OF_GROUP: i8 = 0;
/// `FindCoordinatorRequest.CoordinatorType.TRANSACTION`.
pub(crate) const COORDINATOR_OF_TRANSACTION: i8 = 1;

/// What was found out about each group.
pub(crate) type ByGroup<T> = BTreeMap<String, Result<T, ClientError>>;

/// A broker that coordinates groups, and a connection to it.
#[derive(Clone)]
pub(crate) struct Coordinator {
    pub(crate) broker: Broker,
    pub(crate) connection: Connection,
}

impl Client {
    /// Makes the next look for the group's coordinator a fresh one.
    pub fn forget_coordinator(&self, group: &str) {
        self.state().coordinators.remove(group);
    }

    /// A connection to the broker that coordinates a group.
    pub async fn coordinator(&self, group: &str) -> Result<Connection, ClientError> {
        let known = self.state().coordinators.get(group).map(Broker::address);
        if let Some(address) = known {
            match self.connection(&address).await {
                Ok(connection) => return Ok(connection),
                Err(_) => self.forget_coordinator(group),
            }
        }
        let broker = self.find_coordinator(group).await?;
        let address = broker.address();
        self.state().coordinators.insert(group.to_owned(), broker);
        Ok(self.connection(&address).await?)
    }

    /// Asks who coordinates a group, once.
    pub async fn find_coordinator(&self, group: &str) -> Result<Broker, ClientError> {
        self.find_coordinator_of(group, COORDINATOR_OF_GROUP).await
    }

    /// Asks who coordinates a group or the transactions of a producer, once.
    pub(crate) async fn find_coordinator_of(&self, key: &str, key_type: i8) -> Result<Broker, ClientError> {
        let mut found = self.find_coordinators_of(&[key.to_owned()], key_type).await?;
        let missing = || ClientError::Missing { address: "a broker".to_owned(), subject: subject(key, key_type) };
        found.remove(key).unwrap_or_else(|| Err(missing()))
    }

    /// Asks who coordinates each of these, once.
    async fn find_coordinators_of(&self, keys: &[String], key_type: i8) -> Result<ByGroup<Broker>, ClientError> {
        let connection = self.any_broker().await?;
        if connection.version::<FindCoordinatorRequest>()? < FIND_COORDINATOR_BATCHED {
            return find_one_by_one(&connection, keys, key_type).await;
        }
        let request = FindCoordinatorRequest { key_type, coordinator_keys: keys.to_vec(), ..Default::default() };
        let found = connection.send(&request).await?.coordinators;
        let mut coordinators: BTreeMap<_, _> = keys
            .iter()
            .map(|key| {
                let (address, subject) = (connection.address().to_owned(), subject(key, key_type));
                (key.clone(), Err(ClientError::Missing { address, subject }))
            })
            .collect();
        for found in found {
            let subject = || subject(&found.key, key_type);
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
                            let subject = subject(group, COORDINATOR_OF_GROUP);
                            ClientError::Refused { subject, code, message: None }
                        }
                        _ => return Ok(response),
                    },
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            self.forget_unless_loading(group, &error);
            retry.wait(error).await?;
        }
    }

    fn forget_unless_loading(&self, group: &str, error: &ClientError) {
        if error.code() != Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) {
            self.forget_coordinator(group);
        }
    }

    /// Calls `ask` for every coordinator of these groups with all groups that it coordinates, at the same time, and
    /// again for those groups whose trouble passes. Says something of every group.
    pub(crate) async fn ask_coordinators<T, F>(
        &self,
        groups: &[String],
        ask: fn(Coordinator, Vec<String>) -> F,
    ) -> ByGroup<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<ByGroup<T>, ClientError>> + Send + 'static,
    {
        let mut answers = BTreeMap::new();
        let mut left: BTreeSet<_> = groups.iter().cloned().collect();
        let mut retry = self.retry();
        while !left.is_empty() {
            let mut passing = None;
            for (group, answer) in self.try_coordinators(std::mem::take(&mut left), ask).await {
                if let Err(error) = &answer
                    && error.is_retriable()
                {
                    self.forget_unless_loading(&group, error);
                    passing = Some(error.clone());
                    left.insert(group.clone());
                }
                answers.insert(group, answer);
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
        groups: BTreeSet<String>,
        ask: fn(Coordinator, Vec<String>) -> F,
    ) -> ByGroup<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<ByGroup<T>, ClientError>> + Send + 'static,
    {
        let mut answers = BTreeMap::new();
        let mut by_address = BTreeMap::<String, (Broker, Vec<String>)>::new();
        for (group, broker) in self.coordinators(groups).await {
            match broker {
                Ok(broker) => by_address.entry(broker.address()).or_insert((broker, Vec::new())).1.push(group),
                Err(error) => {
                    answers.insert(group, Err(error));
                }
            }
        }
        let mut tasks = JoinSet::new();
        for (address, (broker, groups)) in by_address {
            let client = self.clone();
            tasks.spawn(async move {
                let answered = match client.connection(&address).await {
                    Ok(connection) => ask(Coordinator { broker, connection }, groups.clone()).await,
                    Err(error) => Err(error.into()),
                };
                (address, groups, answered)
            });
        }
        for (address, groups, answered) in tasks.join_all().await {
            match answered {
                Ok(mut answered) => answers.extend(groups.into_iter().map(|group| {
                    let subject = || format!("group {group}");
                    let missing = || ClientError::Missing { address: address.clone(), subject: subject() };
                    let answer = answered.remove(&group).unwrap_or_else(|| Err(missing()));
                    (group, answer)
                })),
                Err(error) => answers.extend(groups.into_iter().map(|group| (group, Err(error.clone())))),
            }
        }
        answers
    }

    /// Who coordinates each of these groups: from memory, the others asked for together.
    async fn coordinators(&self, groups: BTreeSet<String>) -> ByGroup<Broker> {
        let mut coordinators = BTreeMap::new();
        let mut unknown = Vec::new();
        {
            let state = self.state();
            for group in groups {
                if let Some(broker) = state.coordinators.get(&group) {
                    coordinators.insert(group, Ok(broker.clone()));
                } else {
                    unknown.push(group);
                }
            }
        }
        if unknown.is_empty() {
            return coordinators;
        }
        match self.find_coordinators_of(&unknown, COORDINATOR_OF_GROUP).await {
            Ok(found) => {
                let known = found.iter().filter_map(|(group, found)| Some((group.clone(), found.clone().ok()?)));
                self.state().coordinators.extend(known);
                coordinators.extend(found);
            }
            Err(error) => coordinators.extend(unknown.into_iter().map(|group| (group, Err(error.clone())))),
        }
        coordinators
    }
}

/// For brokers that take one key per request: without waiting in between.
async fn find_one_by_one(
    connection: &Connection,
    keys: &[String],
    key_type: i8,
) -> Result<ByGroup<Broker>, ClientError> {
    let mut pending = Vec::new();
    for key in keys {
        let request = FindCoordinatorRequest { key_type, key: key.clone(), ..Default::default() };
        pending.push((key, connection.start(&request)?));
    }
    let mut coordinators = BTreeMap::new();
    for (key, response) in pending {
        let FindCoordinatorResponse { error_code, error_message, node_id: id, host, port, .. } = response.await?;
        let checked = ClientError::check(|| subject(key, key_type), error_code, error_message.as_deref());
        coordinators.insert(key.clone(), checked.map(|()| Broker { id, host, port, rack: None }));
    }
    Ok(coordinators)
}

fn subject(key: &str, key_type: i8) -> String {
    match key_type {
        COORDINATOR_OF_TRANSACTION => format!("the coordinator of transactional id {key}"),
        _ => format!("the coordinator of group {key}"),
    }
}
