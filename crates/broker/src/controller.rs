//! The only way to change metadata, from any node of the cluster.
//!
//! The active controller is the node that leads the metadata quorum; other nodes forward requests to it. There one task
//! takes requests in turn, as many as have arrived. Each is decided on the image that the requests before it will lead
//! to; the records of all go to the quorum as one entry, with one write to disk, and all are answered when it is
//! applied. Nothing else writes metadata while this node is the active controller, so the decision was made on the
//! image that is committed.

mod publish;
mod round;
#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::BytesMut;
use configuration::BrokerConfig;
use coordinator::topic_log::BoxFuture;
use metadata::acl::Authorizer;
use metadata::{Decided, MetadataCache, with_decided_requests};
use platform::Random;
use quorum::{Quorum, QuorumError, QuorumStatus, StatusWatch};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use wire::api::Request;
use wire::api::alter_partition::{AlterPartitionRequest, AlterPartitionResponse};
use wire::api::broker_heartbeat::BrokerHeartbeatRequest;
use wire::api::broker_registration::BrokerRegistrationRequest;
use wire::api::forward::{ForwardRequest, ForwardResponse, ForwardedClient};
use wire::{ErrorCode, Reader, Wire, Writer, frame};

#[cfg(test)]
pub use self::publish::Backlog;
pub use self::publish::Publisher;
pub use self::round::Round;
pub use self::upkeep::watch_brokers;
use crate::cluster::{Lane, Liveness, Peers};
use crate::replication::isr::AlterPartition;
use crate::security::{Client, Principal};

/// How long the controller is not tried again after it could not be reached, unless another node becomes it.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// How long this node may take to follow what another one decided, before it is answered all the same.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(1);

/// The first version of Forward that names the client.
const CLIENT_SINCE: i16 = 1;

/// How many requests of brokers may wait, and of clients. Callers of further ones wait to enqueue them.
const QUEUE_MAX: usize = 1024;

/// Requests that go to the quorum together.
const ROUND_MAX: usize = 256;

/// Why a request as a whole has no answer. Errors of its parts are in the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllerError {
    #[error("this node is not the active controller")]
    NotController,
    /// The metadata log cannot be written, now or any more. The change may still be applied.
    #[error("the metadata log cannot be written: {0}")]
    Storage(Arc<str>),
    #[error("the controller has stopped")]
    Stopped,
    /// The controller's ACLs are newer than those of the broker that was asked.
    #[error("an ACL has come that denies it")]
    Denied,
    #[error("{0}")]
    Internal(Arc<str>),
}

impl ControllerError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotController | Self::Stopped => ErrorCode::NOT_CONTROLLER,
            Self::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
            Self::Denied => ErrorCode::CLUSTER_AUTHORIZATION_FAILED,
            Self::Internal(_) => ErrorCode::UNKNOWN_SERVER_ERROR,
        }
    }
}

impl From<QuorumError> for ControllerError {
    fn from(error: QuorumError) -> Self {
        match error {
            QuorumError::NotLeader | QuorumError::Superseded => Self::NotController,
            QuorumError::Stopped => Self::Stopped,
            error => Self::Storage(error.to_string().into()),
        }
    }
}

type CommitResult = Result<(), ControllerError>;
type Finish = Box<dyn FnOnce(CommitResult) + Send>;
/// Decides a request in a round. The returned closure answers it, unless it was refused already.
type Job = Box<dyn FnOnce(Result<&mut Round, ControllerError>) -> Option<Answer> + Send>;

/// The answer to a request, ready to be sent.
struct Answer {
    finish: Finish,
    sent: Sent,
}

/// When a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// As soon as the decision is committed: the sender follows the metadata itself.
    Committed,
    /// When the image is published on the deciding node too, so that clients that read there see the change.
    Published,
}

/// Sends requests to the active controller, wherever it is. Cheap to clone. The task ends when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Controller {
    node_id: i32,
    of_brokers: mpsc::Sender<Job>,
    of_clients: mpsc::Sender<Job>,
    quorum: Quorum,
    peers: Arc<Peers>,
    liveness: Arc<Liveness>,
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
    authorizer: Option<Arc<Authorizer>>,
}

impl Controller {
    /// Starts the task, on `control`. `config` is what the [`Publisher`] keeps up to date.
    pub fn start(
        quorum: Quorum,
        cache: Arc<MetadataCache>,
        config: Arc<ArcSwap<BrokerConfig>>,
        random: Arc<dyn Random>,
        peers: Arc<Peers>,
        liveness: Arc<Liveness>,
        control: &Handle,
    ) -> Self {
        let ((of_brokers, from_brokers), (of_clients, from_clients)) =
            (mpsc::channel(QUEUE_MAX), mpsc::channel(QUEUE_MAX));
        let (task_cache, task_config) = (Arc::clone(&cache), Arc::clone(&config));
        let task = Task { quorum: quorum.clone(), cache: task_cache, config: task_config, random, is_settled: true };
        control.spawn(task.run(Queues { from_brokers, from_clients }));
        let (node_id, authorizer) = (config.load().node_id, Authorizer::new(&config.load()).map(Arc::new));
        Self { node_id, of_brokers, of_clients, quorum, peers, liveness, cache, config, authorizer }
    }

    /// [`Self::ask_for`] this node itself.
    pub async fn ask<R: Decided>(&self, request: R) -> Result<R::Response, ControllerError> {
        self.ask_for(None, request).await
    }

    /// Has a request decided by the active controller, if the client may have that by its ACLs, which are the newest. A
    /// decision for a client is published on this node when this returns, and on others soon; brokers get it with the
    /// metadata. While there is no controller it retries.
    pub async fn ask_for<R: Decided>(
        &self,
        client: Option<Client>,
        request: R,
    ) -> Result<R::Response, ControllerError> {
        let max_wait = Duration::from_millis(u64::from(self.config.load().request_timeout_ms.unsigned_abs()));
        let give_up = Instant::now() + max_wait;
        let mut status = self.quorum.watch_status();
        let mut attempts = 0;
        loop {
            let known = status.see();
            // With a stalled or full disk this node is the last to learn which node is the controller.
            let is_stalled = self.quorum.is_disk_stalled();
            let leader = known.leader.filter(|_| !is_stalled).or_else(|| known.other_voter(self.node_id, attempts));
            attempts += 1;
            let outcome = match leader {
                Some(leader) if leader == self.node_id => {
                    let decided = self.decide(client.clone(), request.clone(), true).await;
                    if decided.as_ref().is_ok_and(R::counts_as_heartbeat) {
                        self.liveness.touch(self.node_id);
                    }
                    decided
                }
                Some(leader) => {
                    let mut status = status.clone();
                    let is_replaced = |now: &QuorumStatus| now.leader.is_some_and(|other| other != leader);
                    tokio::select! {
                        biased;
                        outcome = self.forward(leader, client.as_ref(), &request) => outcome,
                        // A controller without contact may take long to answer. Brokers may send a request twice.
                        Ok(_) = status.wait_for(is_replaced), if R::IS_OF_BROKERS && !is_stalled => {
                            Err(ControllerError::NotController)
                        }
                    }
                }
                None => Err(ControllerError::NotController),
            };
            match outcome {
                Err(ControllerError::NotController) if Instant::now() < give_up && !self.is_alone(&status) => {
                    // The next one may be found at once, or be about to find itself.
                    _ = timeout(RETRY_INTERVAL, status.changed()).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether no other node could be the controller.
    fn is_alone(&self, status: &StatusWatch) -> bool {
        status.status().voters.voters.len() <= 1
    }

    /// Decides a request here.
    async fn decide<R: Decided>(
        &self,
        client: Option<Client>,
        request: R,
        is_own: bool,
    ) -> Result<R::Response, ControllerError> {
        let liveness = Arc::clone(&self.liveness);
        let guarded = self.authorizer.clone().zip(client);
        let node_id = self.node_id;
        let timeout_ms = i64::from(self.config.load().broker_session_timeout_ms);
        let sent = if R::IS_OF_BROKERS { Sent::Committed } else { Sent::Published };
        self.submit(sent, move |round| {
            if guarded.is_some_and(|(authorizer, client)| !round.allows(&authorizer, &client, &request)) {
                return Err(ControllerError::Denied);
            }
            // This node's own requests come from no other process.
            round.request(request, &|id| !(is_own && id == node_id) && liveness.is_alive(id, timeout_ms))
        })
        .await
    }

    /// Has a request decided by another node.
    async fn forward<R: Decided>(
        &self,
        leader: i32,
        client: Option<&Client>,
        request: &R,
    ) -> Result<R::Response, ControllerError> {
        let version = *R::API.versions.end();
        let is_flexible = R::API.flexible(version);
        let mut body = BytesMut::new();
        request.write(&mut Writer::new(&mut body, version, is_flexible));
        let keeps_alive = [BrokerHeartbeatRequest::API.key, BrokerRegistrationRequest::API.key];
        let lane = if keeps_alive.contains(&R::API.key) {
            Lane::Heartbeats
        } else if R::API.key == AlterPartitionRequest::API.key {
            Lane::InSyncReplicas
        } else {
            Lane::Requests
        };
        let lost = |error: client::ConnectionError| {
            tracing::debug!(leader, %error, "the controller cannot be reached");
            ControllerError::NotController
        };
        let connection = self.peers.connection(leader, lane).await.map_err(lost)?;
        let connection = connection.ok_or(ControllerError::NotController)?;
        let forward = ForwardRequest {
            sender: self.peers.own().clone(),
            api_key: R::API.key,
            api_version: version,
            body: body.freeze(),
            client: client.map(|client| ForwardedClient {
                principal: client.principal.as_str().to_owned(),
                address: client.address.to_string(),
            }),
        };
        let answer = connection.send(&forward).await.map_err(lost)?;
        match answer.error_code {
            ErrorCode::NONE => {
                if lane == Lane::Requests {
                    // A client that reads from this node has to see the change.
                    _ = timeout(FOLLOW_TIMEOUT, self.cache.wait_for(answer.metadata_offset)).await;
                }
                R::Response::read(&mut Reader::new(&answer.body, version, is_flexible))
                    .map_err(|error| ControllerError::Internal(error.to_string().into()))
            }
            ErrorCode::CLUSTER_AUTHORIZATION_FAILED if answer.is_client_denied => Err(ControllerError::Denied),
            // The controller will learn of this process, or another node becomes the controller.
            ErrorCode::NOT_CONTROLLER | ErrorCode::CLUSTER_AUTHORIZATION_FAILED => Err(ControllerError::NotController),
            ErrorCode::KAFKA_STORAGE_ERROR => Err(ControllerError::Storage("at the active controller".into())),
            code => Err(ControllerError::Internal(format!("the active controller answers {code}").into())),
        }
    }

    /// Answers a request that another broker has forwarded in a version of Forward.
    pub async fn answer(&self, forward_version: i16, forward: ForwardRequest) -> ForwardResponse {
        macro_rules! answer_as {
            ($($request:path)*) => {
                $(if forward.api_key == <$request>::API.key {
                    // Without the client nobody knows what it may do.
                    let is_complete = <$request>::IS_OF_BROKERS || forward_version >= CLIENT_SINCE;
                    if self.authorizer.is_none() || is_complete {
                        return self.answer_as::<$request>(&forward).await;
                    }
                })*
            };
        }
        with_decided_requests!(answer_as);
        ForwardResponse { error_code: ErrorCode::UNSUPPORTED_VERSION, ..Default::default() }
    }

    async fn answer_as<R: Decided>(&self, forward: &ForwardRequest) -> ForwardResponse {
        let refuse = |error_code| ForwardResponse { error_code, ..Default::default() };
        let version = forward.api_version;
        if !R::API.versions.contains(&version) {
            return refuse(ErrorCode::UNSUPPORTED_VERSION);
        }
        let is_flexible = R::API.flexible(version);
        let Ok(request) = frame::read_request::<R>(&forward.body, version) else {
            return refuse(ErrorCode::INVALID_REQUEST);
        };
        if !request.is_of(&forward.sender) {
            return refuse(ErrorCode::CLUSTER_AUTHORIZATION_FAILED);
        }
        let client = match forward.client.as_ref().map(client_of) {
            Some(None) => return refuse(ErrorCode::PRINCIPAL_DESERIALIZATION_FAILURE),
            client => client.flatten(),
        };
        match self.decide(client, request, false).await {
            Ok(response) => {
                if R::counts_as_heartbeat(&response) {
                    self.liveness.touch(forward.sender.node_id);
                }
                let mut body = BytesMut::new();
                response.write(&mut Writer::new(&mut body, version, is_flexible));
                let metadata_offset = self.cache.load().offset();
                ForwardResponse { metadata_offset, body: body.freeze(), ..Default::default() }
            }
            Err(error) => {
                ForwardResponse { is_client_denied: error == ControllerError::Denied, ..refuse(error.code()) }
            }
        }
    }

    async fn submit<T: Send + 'static>(
        &self,
        sent: Sent,
        decide: impl FnOnce(&mut Round) -> Result<T, ControllerError> + Send + 'static,
    ) -> Result<T, ControllerError> {
        let (reply, answer) = oneshot::channel();
        // The caller may have given up by the time of the answer.
        let job: Job = Box::new(move |round| match round.and_then(decide) {
            Ok(decided) => {
                let finish: Finish = Box::new(move |outcome| _ = reply.send(outcome.map(|()| decided)));
                Some(Answer { finish, sent })
            }
            Err(error) => {
                _ = reply.send(Err(error));
                None
            }
        });
        let jobs = match sent {
            Sent::Committed => &self.of_brokers,
            Sent::Published => &self.of_clients,
        };
        jobs.send(job).await.map_err(|_| ControllerError::Stopped)?;
        answer.await.map_err(|_| ControllerError::Stopped)?
    }

    /// [`Round::fence`]. Only the active controller does.
    pub async fn fence_brokers(&self, brokers: Vec<(i32, i64)>) -> Result<(), ControllerError> {
        self.submit(Sent::Committed, move |round| round.fence(&brokers)).await
    }

    /// [`Round::balance_leaders`]. Only the active controller does.
    pub async fn balance_leaders(&self, max: usize) -> Result<bool, ControllerError> {
        self.submit(Sent::Published, move |round| round.balance_leaders(max)).await
    }

    /// [`Round::elect_unclean_leaders`]. Only the active controller does.
    pub async fn elect_unclean_leaders(&self, max: usize) -> Result<bool, ControllerError> {
        self.submit(Sent::Published, move |round| round.elect_unclean_leaders(max)).await
    }
}

/// Whom a request is forwarded for. None for what no client can be.
fn client_of(forwarded: &ForwardedClient) -> Option<Client> {
    let principal = Principal::parse(&forwarded.principal)?;
    Some(Client { principal, address: forwarded.address.parse().ok()? })
}

/// Requests that wait to be decided. Brokers come first: heartbeats do not wait behind requests of clients.
struct Queues {
    from_brokers: mpsc::Receiver<Job>,
    from_clients: mpsc::Receiver<Job>,
}

impl Queues {
    /// None when no handle is left.
    async fn next(&mut self) -> Option<Job> {
        tokio::select! {
            biased;
            job = self.from_brokers.recv() => job,
            job = self.from_clients.recv() => job,
        }
    }

    fn try_next(&mut self) -> Option<Job> {
        self.from_brokers.try_recv().or_else(|_| self.from_clients.try_recv()).ok()
    }
}

struct Task {
    quorum: Quorum,
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
    random: Arc<dyn Random>,
    /// Whether no entry is left in flight by an error: the newest image is what the next entry follows.
    is_settled: bool,
}

impl Task {
    async fn run(mut self, mut queues: Queues) {
        while let Some(first) = queues.next().await {
            self.round(first, &mut queues).await;
        }
    }

    /// Decides requests until they make an entry, commits it, and answers them.
    async fn round(&mut self, first: Job, queues: &mut Queues) {
        let epoch = match self.settle().await {
            Ok(epoch) => epoch,
            Err(error) => {
                first(Err(error));
                return;
            }
        };
        let mut round = Round::begin(epoch, &self.cache, &self.config, Arc::clone(&self.random));
        #[cfg(test)]
        crate::simulation::machine::decides(epoch, round.after());
        let mut answers: Vec<Answer> = Vec::new();
        let mut next = Some(first);
        let mut decided = 0;
        while let Some(job) = next {
            answers.extend(job(Ok(&mut round)));
            decided += 1;
            next = if round.is_full() || decided == ROUND_MAX { None } else { queues.try_next() };
        }
        let outcome = self.commit(&round).await;
        #[cfg(test)]
        if let Ok(offset) = outcome
            && !answers.is_empty()
        {
            crate::simulation::machine::answers(epoch, offset);
        }
        for answer in answers.extract_if(.., |answer| answer.sent == Sent::Committed) {
            (answer.finish)(outcome.clone().map(|_| ()));
        }
        if answers.is_empty() {
            return;
        }
        // The next requests need not wait until all nodes have these.
        let cache = Arc::clone(&self.cache);
        tokio::spawn(async move {
            if let Ok(offset) = outcome {
                cache.wait_for(offset).await;
            }
            for answer in answers {
                (answer.finish)(outcome.clone().map(|_| ()));
            }
        });
    }

    /// The epoch to write in.
    async fn settle(&mut self) -> Result<i32, ControllerError> {
        if !self.is_settled && self.quorum.leader_epoch().is_some() {
            self.quorum.settle().await?;
            self.is_settled = true;
        }
        self.quorum.leader_epoch().ok_or(ControllerError::NotController)
    }

    /// Returns the offset of the state that a round leads to, when its entry is committed.
    async fn commit(&mut self, round: &Round) -> Result<i64, ControllerError> {
        if round.is_empty() {
            return Ok(round.after());
        }
        self.is_settled = false;
        let offset = self.quorum.propose(round.epoch(), round.after(), round.values()).await?;
        self.is_settled = true;
        Ok(offset)
    }
}

impl AlterPartition for Controller {
    fn alter(&self, request: AlterPartitionRequest) -> BoxFuture<Result<AlterPartitionResponse, ErrorCode>> {
        let controller = self.clone();
        Box::pin(async move { controller.ask(request).await.map_err(|error| error.code()) })
    }
}
