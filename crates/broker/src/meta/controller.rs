//! The only way to change metadata.
//!
//! One task takes requests in turn, as many as have arrived. Each is decided on the image that the ones before it will
//! lead to; the records of all go to the quorum as one entry, with one write to disk, and all are answered when it is
//! applied. Nothing else writes metadata while this node is the active controller, so the image that was decided on is
//! the one that comes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, oneshot};
use wire::ErrorCode;
use wire::api::alter_configs::{self, AlterConfigsRequest};
use wire::api::create_partitions::{CreatePartitionsTopic, CreatePartitionsTopicResult};
use wire::api::create_topics::{CreatableTopic, CreatableTopicResult};
use wire::api::delete_topics::{DeletableTopicResult, DeleteTopicState};
use wire::api::incremental_alter_configs::{self, IncrementalAlterConfigsRequest};
use wire::state::metadata::MetadataRecord;

use super::changes::{self, Context, Decision, RECORDS_MAX};
use super::image::{MetadataImage, ResourceKind};
use super::publish::{MetadataCache, with_dynamic};
use super::{BrokerRegistration, ProducerIdBlock};
use crate::config::BrokerConfig;
use crate::env::Random;
use crate::quorum::{Quorum, QuorumError};

/// Requests that may wait. One more waits to wait.
const QUEUE_MAX: usize = 1024;

/// Requests that go to the quorum together.
const ROUND_MAX: usize = 256;

/// Why a request as a whole has no answer. What is wrong with a part of it is in the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllerError {
    #[error("this node is not the active controller")]
    NotController,
    /// The metadata log cannot be written, now or any more. What was asked may still come about.
    #[error("the metadata log cannot be written: {0}")]
    Storage(Arc<str>),
    #[error("the controller has stopped")]
    Stopped,
    #[error("{0}")]
    Internal(Arc<str>),
}

impl ControllerError {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotController | Self::Stopped => ErrorCode::NOT_CONTROLLER,
            Self::Storage(_) => ErrorCode::KAFKA_STORAGE_ERROR,
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

type Outcome = Result<(), ControllerError>;
type Finish = Box<dyn FnOnce(Outcome) + Send>;
type Job = Box<dyn FnOnce(&Context<'_>) -> (Vec<MetadataRecord>, Finish) + Send>;

/// Cheap to clone. The task ends when the last clone is gone.
#[derive(Clone)]
pub struct Controller {
    jobs: mpsc::Sender<Job>,
}

impl Controller {
    /// Starts the task. `config` is what the [`Publisher`](super::Publisher) keeps up to date.
    pub fn start(
        quorum: Quorum,
        cache: Arc<MetadataCache>,
        config: Arc<ArcSwap<BrokerConfig>>,
        random: Arc<dyn Random>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(Task { quorum, cache, config, random, is_settled: true }.run(queue));
        Self { jobs }
    }

    async fn submit<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&Context<'_>) -> Decision<T> + Send + 'static,
    ) -> Result<T, ControllerError> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |context| {
            let decision = decide(context);
            // Who asked may be gone by then.
            let finish: Finish = Box::new(move |outcome| _ = reply.send(outcome.map(|()| decision.answer)));
            (decision.records, finish)
        });
        self.jobs.send(job).await.map_err(|_| ControllerError::Stopped)?;
        answer.await.map_err(|_| ControllerError::Stopped)?
    }

    /// Creates topics. They can be used when this returns.
    pub async fn create_topics(
        &self,
        topics: Vec<CreatableTopic>,
        validate_only: bool,
    ) -> Result<Vec<CreatableTopicResult>, ControllerError> {
        self.submit(move |context| changes::topics::create(context, &topics, validate_only)).await
    }

    /// Deletes topics by name or id.
    pub async fn delete_topics(
        &self,
        topics: Vec<DeleteTopicState>,
    ) -> Result<Vec<DeletableTopicResult>, ControllerError> {
        self.submit(move |context| changes::topics::delete(context, &topics)).await
    }

    /// Adds partitions to topics.
    pub async fn create_partitions(
        &self,
        topics: Vec<CreatePartitionsTopic>,
        validate_only: bool,
    ) -> Result<Vec<CreatePartitionsTopicResult>, ControllerError> {
        self.submit(move |context| changes::partitions::create(context, &topics, validate_only)).await
    }

    /// Alters single settings of resources.
    pub async fn incremental_alter_configs(
        &self,
        request: IncrementalAlterConfigsRequest,
    ) -> Result<Vec<incremental_alter_configs::AlterConfigsResourceResponse>, ControllerError> {
        self.submit(move |context| {
            let IncrementalAlterConfigsRequest { resources, validate_only } = request;
            let Decision { records, answer } =
                changes::configs::alter_incrementally(context, &resources, validate_only);
            let answer = resources.into_iter().zip(answer).map(|(resource, outcome)| {
                let (error_code, error_message) = code_and_message(outcome);
                incremental_alter_configs::AlterConfigsResourceResponse {
                    error_code,
                    error_message,
                    resource_type: resource.resource_type,
                    resource_name: resource.resource_name,
                }
            });
            Decision { records, answer: answer.collect() }
        })
        .await
    }

    /// Replaces all settings of resources.
    pub async fn alter_configs(
        &self,
        request: AlterConfigsRequest,
    ) -> Result<Vec<alter_configs::AlterConfigsResourceResponse>, ControllerError> {
        self.submit(move |context| {
            let AlterConfigsRequest { resources, validate_only } = request;
            let Decision { records, answer } = changes::configs::replace(context, &resources, validate_only);
            let answer = resources.into_iter().zip(answer).map(|(resource, outcome)| {
                let (error_code, error_message) = code_and_message(outcome);
                alter_configs::AlterConfigsResourceResponse {
                    error_code,
                    error_message,
                    resource_type: resource.resource_type,
                    resource_name: resource.resource_name,
                }
            });
            Decision { records, answer: answer.collect() }
        })
        .await
    }

    /// Producer ids that nobody else gets.
    pub async fn allocate_producer_ids(&self, broker_id: i32) -> Result<ProducerIdBlock, ControllerError> {
        let block = self.submit(move |context| changes::brokers::allocate_producer_ids(context, broker_id)).await?;
        block.map_err(|refusal| ControllerError::Internal(refusal.message.unwrap_or_default().into()))
    }

    /// Makes a broker known and active, and gives it the partitions that it can lead.
    pub async fn register_broker(&self, registration: BrokerRegistration) -> Result<(), ControllerError> {
        self.submit(move |context| Decision {
            records: changes::brokers::register(context.image, &registration),
            answer: (),
        })
        .await
    }
}

fn code_and_message(outcome: changes::configs::Outcome) -> (ErrorCode, Option<String>) {
    match outcome {
        Ok(()) => (ErrorCode::NONE, None),
        Err(refusal) => (refusal.code, refusal.message),
    }
}

struct Task {
    quorum: Quorum,
    cache: Arc<MetadataCache>,
    config: Arc<ArcSwap<BrokerConfig>>,
    random: Arc<dyn Random>,
    /// Whether nothing is left under way by an error: the newest image is what the next entry follows.
    is_settled: bool,
}

impl Task {
    async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(ROUND_MAX);
        while queue.recv_many(&mut jobs, ROUND_MAX).await > 0 {
            let mut left = jobs.drain(..);
            while let Some(first) = left.next() {
                self.round(first, &mut left).await;
            }
        }
    }

    /// Decides requests until they make an entry, commits it, and answers them.
    async fn round(&mut self, first: Job, jobs: &mut impl Iterator<Item = Job>) {
        let epoch = match self.settle().await {
            Ok(epoch) => epoch,
            // What it would come to does not matter.
            Err(error) => return first(&self.context(&self.cache.load(), &self.config.load())).1(Err(error)),
        };
        let mut image = MetadataImage::clone(&self.cache.load());
        let after = image.offset();
        let mut config = self.config.load_full();
        let mut records = Vec::new();
        let mut finishes = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            let (decided, finish) = job(&self.context(&image, &config));
            match self.foresee(&image, &decided, epoch) {
                Ok(after) => image = after,
                Err(error) => {
                    finish(Err(error));
                    next = jobs.next();
                    continue;
                }
            }
            if decided.iter().any(is_broker_setting) {
                config = Arc::new(with_dynamic(&config, &image).0);
            }
            records.extend(decided);
            finishes.push(finish);
            // An entry takes what one operation may have, and the rest of the operation that goes beyond.
            next = if records.len() < RECORDS_MAX { jobs.next() } else { None };
        }
        let outcome = self.commit(epoch, after, &records).await;
        for finish in finishes {
            finish(outcome.clone());
        }
    }

    fn context<'a>(&'a self, image: &'a MetadataImage, config: &'a BrokerConfig) -> Context<'a> {
        Context { image, config, random: &*self.random }
    }

    /// The image that records will lead to.
    fn foresee(
        &self,
        image: &MetadataImage,
        records: &[MetadataRecord],
        epoch: i32,
    ) -> Result<MetadataImage, ControllerError> {
        if records.is_empty() {
            return Ok(image.clone());
        }
        let offset = image.offset() + records.len() as i64;
        match image.apply(records, offset, epoch) {
            Ok((image, _)) => Ok(image),
            Err(error) => {
                tracing::error!(%error, "a decision does not fit the metadata");
                Err(ControllerError::Internal(error.to_string().into()))
            }
        }
    }

    /// The epoch to write in.
    async fn settle(&mut self) -> Result<i32, ControllerError> {
        if !self.is_settled && self.quorum.leader_epoch().is_some() {
            self.quorum.settle().await?;
            self.is_settled = true;
        }
        self.quorum.leader_epoch().ok_or(ControllerError::NotController)
    }

    async fn commit(&mut self, epoch: i32, after: i64, records: &[MetadataRecord]) -> Outcome {
        if records.is_empty() {
            return Ok(());
        }
        let values = records.iter().map(MetadataRecord::write).collect();
        self.is_settled = false;
        self.quorum.propose(epoch, after, values).await?;
        self.is_settled = true;
        Ok(())
    }
}

fn is_broker_setting(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::Config(record) if record.resource_type == ResourceKind::Broker as i8)
}
