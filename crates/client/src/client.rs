//! The cluster as one thing: bootstrap, a cache of metadata and connections, routing, and trying again.
//!
//! A [`Client`] is cheap to clone and may be used from many tasks. All waiting is bounded: every operation here ends
//! with an answer, with an error that another try cannot mend, or at the overall deadline of its [`Retry`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};
use wire::ErrorCode;
use wire::api::Request;
use wire::api::init_producer_id::InitProducerIdRequest;
use wire::api::metadata::{MetadataRequest, MetadataRequestTopic};

mod coordinators;
mod first_to_answer;

pub(crate) use coordinators::{ByKey, Coordinated, Coordinator};

use crate::{Broker, ClientError, Connection, ConnectionConfig, ConnectionError, Metadata};

#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `host:port` each; any of them will do.
    pub bootstrap_servers: Vec<String>,
    pub connection: ConnectionConfig,
    /// How long an operation is tried, all tries together.
    pub deadline: Duration,
    /// How long one broker of many is waited for where the answers of the others are worth something without it.
    pub patience: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    /// Older metadata is asked for again.
    pub metadata_max_age: Duration,
}

impl ClientConfig {
    pub fn new(bootstrap_servers: Vec<String>) -> Self {
        Self {
            bootstrap_servers,
            connection: ConnectionConfig::default(),
            deadline: Duration::from_secs(60),
            patience: Duration::from_secs(5),
            retry_backoff: Duration::from_millis(50),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
        }
    }
}

/// Decides whether to try again, and waits before it.
pub struct Retry {
    deadline: Instant,
    backoff: Duration,
    backoff_max: Duration,
}

impl Retry {
    /// Returns after a pause when another try may help, and gives the error back when it cannot or the time is up.
    pub async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !error.is_retriable() {
            return Err(error);
        }
        self.again(error).await
    }

    /// Like [`Retry::wait`] for an error that another try may mend although its code does not say so in general.
    pub async fn again(&mut self, error: ClientError) -> Result<(), ClientError> {
        if Instant::now() + self.backoff >= self.deadline {
            return Err(error);
        }
        tracing::debug!(%error, "trying again");
        sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).min(self.backoff_max);
        Ok(())
    }
}

#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Shared with those who look at it; replaced, not changed, while they do.
    metadata: Arc<Metadata>,
    /// When each topic was last asked for.
    refreshed: HashMap<String, Instant>,
    /// By address, so that a broker which moves is found again.
    connections: HashMap<String, Connection>,
    /// By group or transactional id.
    coordinators: HashMap<(Coordinated, String), Broker>,
}

impl Client {
    /// Connects to nothing yet.
    pub fn new(config: ClientConfig) -> Self {
        Self { inner: Arc::new(Inner { config, state: Mutex::default() }) }
    }

    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    /// A new overall deadline, and the shortest pause.
    pub fn retry(&self) -> Retry {
        let config = &self.inner.config;
        Retry {
            deadline: Instant::now() + config.deadline,
            backoff: config.retry_backoff,
            backoff_max: config.retry_backoff_max,
        }
    }

    /// An open connection to an address, in `connect_timeout` with all that comes before the first request.
    async fn connection(&self, address: &str) -> Result<Connection, ConnectionError> {
        if let Some(connection) = self.state().connections.get(address)
            && connection.is_open()
        {
            return Ok(connection.clone());
        }
        let config = &self.inner.config.connection;
        // A process that is stopped lets the system accept connections, and says nothing.
        let connecting = timeout(config.connect_timeout, Connection::connect(address, config));
        let connection = connecting.await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", config.connect_timeout.as_secs_f32());
            Err(ConnectionError::Connect { address: address.to_owned(), reason })
        })?;
        self.state().connections.insert(address.to_owned(), connection.clone());
        Ok(connection)
    }

    /// Ends the connection to a broker that is known to be silent, by its address. What waits there fails at once, and
    /// is tried with other brokers where they will do.
    pub fn abandon(&self, address: &str) {
        if let Some(connection) = self.state().connections.remove(address) {
            connection.abandon();
        }
    }

    /// A connection to any broker: one that is open, else a bootstrap server, else a broker that was known once.
    pub async fn any_broker(&self) -> Result<Connection, ClientError> {
        let open = self.state().connections.values().find(|connection| connection.is_open()).cloned();
        if let Some(connection) = open {
            return Ok(connection);
        }
        let mut addresses = self.inner.config.bootstrap_servers.clone();
        let known: Vec<_> = self.state().metadata.brokers.values().map(Broker::address).collect();
        addresses.extend(known.into_iter().filter(|known| !self.inner.config.bootstrap_servers.contains(known)));
        self.first_to_answer(addresses).await
    }

    /// A connection to a broker by its id.
    pub async fn broker(&self, id: i32) -> Result<Connection, ClientError> {
        let known = self.state().metadata.brokers.get(&id).map(Broker::address);
        let address = match known {
            Some(address) => address,
            None => {
                let metadata = self.fetch_metadata(Some(&[]), false).await?;
                let broker = metadata.brokers.get(&id).ok_or(ClientError::UnknownBroker { broker: id })?;
                broker.address()
            }
        };
        Ok(self.connection(&address).await?)
    }

    /// Asks for metadata, once, and remembers it. `None` is all topics.
    async fn fetch_metadata(&self, topics: Option<&[&str]>, create: bool) -> Result<Arc<Metadata>, ClientError> {
        let connection = self.any_broker().await?;
        let version = connection.version::<MetadataRequest>()?;
        let names = topics.map(|names| {
            let topic = |name: &&str| MetadataRequestTopic { name: Some((*name).to_owned()), ..Default::default() };
            names.iter().map(topic).collect::<Vec<_>>()
        });
        let request = MetadataRequest { topics: names, allow_auto_topic_creation: create, ..Default::default() };
        let timeout = self.inner.config.connection.request_timeout;
        let response = connection.start_as(&request, version, timeout)?.await?;
        ClientError::check(|| "metadata".to_owned(), response.error_code, None)?;
        let metadata = Arc::new(Metadata::from_response(response));
        if topics.is_none() {
            self.adopt(&metadata);
        } else {
            let now = Instant::now();
            let mut state = self.state();
            state.refreshed.extend(metadata.topics.keys().map(|name| (name.clone(), now)));
            Arc::make_mut(&mut state.metadata).merge(&metadata);
        }
        Ok(metadata)
    }

    /// Remembers metadata of the whole cluster, which another client may have asked for a moment ago.
    pub fn adopt(&self, metadata: &Arc<Metadata>) {
        let now = Instant::now();
        let mut state = self.state();
        state.refreshed = metadata.topics.keys().map(|name| (name.clone(), now)).collect();
        state.metadata = Arc::clone(metadata);
    }

    /// The cluster with all of its topics, asked for anew.
    pub async fn cluster(&self) -> Result<Arc<Metadata>, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.fetch_metadata(None, false).await {
                Ok(metadata) => return Ok(metadata),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// The cluster without its topics, asked for anew.
    pub(crate) async fn without_topics(&self) -> Result<Arc<Metadata>, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.fetch_metadata(Some(&[]), false).await {
                Ok(metadata) => return Ok(metadata),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// The brokers of the cluster by their ids, asked for anew.
    pub async fn brokers(&self) -> Result<HashMap<i32, Broker>, ClientError> {
        Ok(self.without_topics().await?.brokers.clone())
    }

    /// Metadata that says something of every one of these topics, from the cache or anew; whether they exist is for
    /// the caller to see.
    pub async fn describe(&self, topics: &[&str]) -> Result<Arc<Metadata>, ClientError> {
        let fresh = |state: &State, name: &str| {
            let age = state.refreshed.get(name).map(Instant::elapsed);
            let is_known = state.metadata.topics.get(name).is_some_and(|topic| topic.error_code.is_none());
            is_known && age.is_some_and(|age| age < self.inner.config.metadata_max_age)
        };
        {
            let state = self.state();
            if topics.iter().all(|name| fresh(&state, name)) {
                return Ok(state.metadata.clone());
            }
        }
        let mut retry = self.retry();
        loop {
            match self.fetch_metadata(Some(topics), false).await {
                Ok(metadata) => return Ok(metadata),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Metadata of topics that must exist. A topic that was just created may take a moment to show; a topic that is not
    /// there is an error after a second, since it is more often a typing mistake.
    pub async fn existing(&self, topics: &[&str]) -> Result<Arc<Metadata>, ClientError> {
        self.find(topics, false).await
    }

    /// Like [`Client::existing`], but the broker may create the topics (`auto.create.topics.enable`).
    pub async fn existing_or_created(&self, topics: &[&str]) -> Result<Arc<Metadata>, ClientError> {
        self.find(topics, true).await
    }

    async fn find(&self, topics: &[&str], create: bool) -> Result<Arc<Metadata>, ClientError> {
        const PATIENCE: Duration = Duration::from_secs(1);
        const PATIENCE_TO_CREATE: Duration = Duration::from_secs(5);
        let mut retry = self.retry();
        let give_up = Instant::now() + if create { PATIENCE_TO_CREATE } else { PATIENCE };
        loop {
            let found = match create {
                true => self.fetch_metadata(Some(topics), true).await,
                false => self.describe(topics).await,
            };
            let missing = match found {
                Ok(metadata) => match topics.iter().find_map(|name| metadata.topic(name).err()) {
                    None => return Ok(metadata),
                    Some(error) => error,
                },
                Err(error) => error,
            };
            if matches!(missing, ClientError::UnknownTopic { .. }) && Instant::now() >= give_up {
                return Err(missing);
            }
            retry.wait(missing).await?;
        }
    }

    /// Makes the next look at these topics, and at the brokers, a fresh one.
    pub fn forget(&self, topic: &str) {
        self.state().refreshed.remove(topic);
    }

    /// A producer id and epoch that no other producer has.
    pub async fn new_producer_id(&self) -> Result<(i64, i16), ClientError> {
        // The timeout is checked although there is no transaction.
        let request = InitProducerIdRequest { transaction_timeout_ms: i32::MAX, ..Default::default() };
        let mut retry = self.retry();
        loop {
            let response = self.send(&request).await?;
            match ClientError::check(|| "getting a producer id".to_owned(), response.error_code, None) {
                Ok(()) => return Ok((response.producer_id, response.producer_epoch)),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Sends to any broker, until one has answered.
    pub async fn send<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let mut retry = self.retry();
        loop {
            let error = match self.any_broker().await {
                Ok(connection) => match connection.send(request).await {
                    Ok(response) => return Ok(response),
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            retry.wait(error).await?;
        }
    }

    /// Sends to one broker, until it has answered.
    pub async fn send_to<R: Request>(&self, broker: i32, request: &R) -> Result<R::Response, ClientError> {
        let mut retry = self.retry();
        loop {
            let error = match self.broker(broker).await {
                Ok(connection) => match connection.send(request).await {
                    Ok(response) => return Ok(response),
                    Err(error) => error.into(),
                },
                Err(error) => error,
            };
            retry.wait(error).await?;
        }
    }

    /// Sends to the controller, or to the broker that forwards to it, and tries again while `code` of the answer is one
    /// that passes. Nothing but the connection and these codes is looked at: the caller reads the answer.
    pub async fn send_to_controller<R: Request>(
        &self,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, ClientError> {
        let mut retry = self.retry();
        loop {
            let error = match self.try_controller(request).await {
                Ok(response) => match code(&response) {
                    // A topic that exists no more than a moment is not this function's business.
                    code @ (ErrorCode::NOT_CONTROLLER | ErrorCode::COORDINATOR_NOT_AVAILABLE) => {
                        ClientError::Refused { subject: "the controller".to_owned(), code, message: None }
                    }
                    _ => return Ok(response),
                },
                Err(error) => error,
            };
            retry.wait(error).await?;
        }
    }

    async fn try_controller<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let controller = self.fetch_metadata(Some(&[]), false).await?.controller_id;
        let connection = match controller {
            ..0 => self.any_broker().await?,
            id => self.broker(id).await?,
        };
        Ok(connection.send(request).await?)
    }
}
