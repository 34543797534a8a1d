//! An internal topic as the log of a coordinator: its partitions on this node, and its creation.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use configuration::BrokerConfig;
use coordinator::group::OffsetsLog;
use coordinator::topic_log::{BoxFuture, TopicLog};
use metadata::MetadataCache;
use parking_lot::Mutex;
use storage::{Origin, ReadError, VerificationGuard};
use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::batch::Batch;

use crate::controller::Controller;
use crate::partition::{
    Acks, Partition, PartitionTable, PendingCommits, ProduceCompletion, ProduceOutcome, Refusal, Terms,
};
use crate::session::Session;
use crate::threads::spawn_blocking;

/// How often it is looked whether something is committed that could not be at once.
const COMMIT_INTERVAL: Duration = Duration::from_millis(50);

/// How often damaged records are read again while they are being repaired.
const MENDING_INTERVAL: Duration = Duration::from_millis(50);

/// The leader epochs in which partitions of the topic were loaded, by partition. What a coordinator knows is what the
/// log had then, so that it writes in no other epoch.
pub(crate) type LoadedEpochs = Arc<Mutex<BTreeMap<i32, i32>>>;

/// The topic of one coordinator.
pub(crate) struct InternalTopic {
    pub(super) name: &'static str,
    pub(super) partitions: Arc<PartitionTable>,
    pub(super) loaded: LoadedEpochs,
    pub(super) metadata: Arc<MetadataCache>,
    pub(super) controller: Controller,
    pub(super) config: Arc<ArcSwap<BrokerConfig>>,
    pub(super) session: Arc<Session>,
}

impl InternalTopic {
    /// How many partitions it has, if it exists.
    pub(super) fn partition_count(&self) -> Option<i32> {
        self.metadata.load().topic(self.name).map(|topic| topic.partitions.len() as i32)
    }

    /// Creates it. Resolves when that is published, also if another request has created it meanwhile.
    pub(super) fn create(&self, topic: CreatableTopic) -> BoxFuture<Result<(), ErrorCode>> {
        let controller = self.controller.clone();
        Box::pin(async move {
            let request = CreateTopicsRequest { topics: vec![topic], ..Default::default() };
            let answer = controller.ask(request).await.map_err(|error| error.code())?;
            match answer.topics.first().map(|result| result.error_code) {
                Some(ErrorCode::NONE | ErrorCode::TOPIC_ALREADY_EXISTS) => Ok(()),
                Some(code) => Err(code),
                None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
            }
        })
    }

    /// Appends a batch in the epoch in which its partition was loaded. It is queued when this returns.
    fn append_as(
        &self,
        origin: Origin,
        guard: Option<VerificationGuard>,
        partition: i32,
        batch: Batch,
    ) -> BoxFuture<Result<i64, ErrorCode>> {
        let enqueued = self.enqueue(origin, guard, partition, batch);
        Box::pin(async move {
            let (partition, commits, completion) = enqueued?;
            commits.commit();
            let outcomes = poll_fn(|cx| completion.poll(cx)).await;
            if let [ProduceOutcome::Refused(Refusal { is_appended: true, .. })] = &outcomes[..] {
                // As long as this node leads it stays there. A coordinator that took it back would not know what its
                // log says, and one that counted on it not what the next leader has.
                committed(&partition, partition.view().log_end_offset()).await?;
                return Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND);
            }
            appended(outcomes)
        })
    }

    fn enqueue(
        &self,
        origin: Origin,
        guard: Option<VerificationGuard>,
        partition: i32,
        batch: Batch,
    ) -> Result<(Arc<Partition>, PendingCommits, Arc<ProduceCompletion>), ErrorCode> {
        let leader_epoch = self.loaded.lock().get(&partition).copied();
        let partition = self.partitions.find_by_name(self.name, partition)?;
        let leader_epoch = Some(leader_epoch.ok_or(ErrorCode::NOT_LEADER_OR_FOLLOWER)?);
        let completion = Arc::new(ProduceCompletion::new(1));
        let mut commits = PendingCommits::default();
        let terms = Terms { origin, leader_epoch, guard };
        partition.enqueue_on(terms, batch, Acks::All, &completion, 0, &mut commits);
        Ok((partition, commits, completion))
    }
}

/// Waits until consumers may read what is below an offset, as long as this node leads: enough replicas are in sync, and
/// all of them have it. Fewer may have it, and be gone when another one leads that does not.
async fn committed(partition: &Arc<Partition>, end_offset: i64) -> Result<(), ErrorCode> {
    loop {
        partition.check_leader()?;
        partition.check_online()?;
        if partition.high_watermark() >= end_offset {
            return Ok(());
        }
        let Some(completion) = partition.make_durable(end_offset) else {
            sleep(COMMIT_INTERVAL).await;
            continue;
        };
        match appended(poll_fn(|cx| completion.poll(cx)).await) {
            Ok(_) => return Ok(()),
            // Too few are in sync. Or this node hears of no controller and no followers, or its disk does not answer,
            // and it may go on to lead with what is in its log.
            Err(_) => sleep(COMMIT_INTERVAL).await,
        }
    }
}

/// What became of a batch.
pub(super) fn appended(outcomes: Vec<ProduceOutcome>) -> Result<i64, ErrorCode> {
    match outcomes.into_iter().next() {
        Some(ProduceOutcome::Appended { base_offset, .. }) => Ok(base_offset),
        Some(ProduceOutcome::Refused(refusal)) => Err(refusal.code),
        None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}

/// An internal topic as it comes into being.
pub(super) fn creatable<const N: usize>(
    name: &str,
    num_partitions: i32,
    replication_factor: i16,
    configs: [(&str, String); N],
) -> CreatableTopic {
    let configs = configs.map(|(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value) });
    CreatableTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        configs: configs.into(),
        ..Default::default()
    }
}

impl TopicLog for InternalTopic {
    fn may_have_moved(&self) -> bool {
        let is_alone = || self.metadata.load().brokers().count() <= 1;
        self.session.is_over() && !is_alone()
    }

    fn append(&self, partition: i32, batch: Batch) -> BoxFuture<Result<i64, ErrorCode>> {
        self.append_as(Origin::Client, None, partition, batch)
    }

    fn offsets(&self, partition: i32) -> Result<(i64, i64), ErrorCode> {
        let partition = self.partitions.find_by_name(self.name, partition)?;
        partition.check_leader()?;
        // What is not replicated yet is not taken back as long as this node leads.
        Ok((partition.log_start_offset(), partition.view().log_end_offset()))
    }

    fn committed(&self, partition: i32, end_offset: i64) -> BoxFuture<Result<(), ErrorCode>> {
        let partition = self.partitions.find_by_name(self.name, partition);
        Box::pin(async move { committed(&partition?, end_offset).await })
    }

    fn read(&self, partition: i32, from_offset: i64, max_bytes: u32) -> BoxFuture<Result<Bytes, ErrorCode>> {
        let partition = self.partitions.find_by_name(self.name, partition);
        Box::pin(async move {
            let partition = partition?;
            let topic = &partition.topic;
            let mut from = from_offset;
            loop {
                let reading = Arc::clone(&partition);
                match spawn_blocking(move || reading.read(from, max_bytes)).await {
                    Ok(Ok(bytes)) => return Ok(bytes),
                    Ok(Err(ReadError::Corrupt { first_offset, next_offset })) => {
                        partition.report_damage();
                        if partition.is_being_repaired() {
                            sleep(MENDING_INTERVAL).await;
                            continue;
                        }
                        // What is damaged is lost; what the rest says is not.
                        tracing::error!(
                            %topic,
                            partition = partition.index,
                            first_offset,
                            next_offset,
                            "damaged records of a coordinator are left out"
                        );
                        from = next_offset;
                    }
                    Ok(Err(error)) => {
                        tracing::error!(%topic, %error, "the records of a coordinator cannot be read");
                        return Err(ErrorCode::KAFKA_STORAGE_ERROR);
                    }
                    Err(_) => return Err(ErrorCode::UNKNOWN_SERVER_ERROR),
                }
            }
        })
    }

    fn max_batch_bytes(&self) -> usize {
        match self.partitions.any_of(self.name) {
            Some(partition) => partition.settings().rules.max_message_bytes,
            None => self.config.load().message_max_bytes.unsigned_abs() as usize,
        }
    }
}

impl OffsetsLog for InternalTopic {
    fn append_transactional(
        &self,
        partition: i32,
        batch: Batch,
        guard: Option<VerificationGuard>,
    ) -> BoxFuture<Result<i64, ErrorCode>> {
        self.append_as(Origin::Coordinator, guard, partition, batch)
    }

    fn append_marker(
        &self,
        partition: i32,
        batch: Batch,
        transaction_version: i8,
    ) -> BoxFuture<Result<i64, ErrorCode>> {
        self.append_as(Origin::Marker { transaction_version }, None, partition, batch)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use coordinator::group::OFFSETS_TOPIC;
    use wire::Uuid;
    use wire::state::metadata::PartitionChangeRecord;

    use super::*;
    use crate::api::test_support::{NODE_ID, TestBroker, batch, led_by, registration};

    const TOPIC_ID: Uuid = Uuid([7; 16]);

    impl InternalTopic {
        /// That of a broker under test, with nothing loaded.
        pub(in crate::coordination) fn of(broker: &crate::Broker, name: &'static str) -> Self {
            Self {
                name,
                partitions: Arc::clone(&broker.partitions),
                loaded: Arc::default(),
                metadata: Arc::clone(&broker.metadata),
                controller: broker.controller.clone(),
                config: Arc::clone(&broker.config),
                session: Arc::clone(&broker.session),
            }
        }
    }

    #[tokio::test]
    async fn what_is_refused_while_it_waits_stays_in_the_log_and_counts_when_others_have_it() {
        let broker = TestBroker::start().await;
        broker.commit([registration(NODE_ID + 1).into()]).await;
        broker.create(OFFSETS_TOPIC, TOPIC_ID, &[led_by(NODE_ID, &[NODE_ID, NODE_ID + 1])]).await;
        let topic = InternalTopic::of(&broker, OFFSETS_TOPIC);
        topic.loaded.lock().insert(0, 0);
        let partition = broker.partitions.find_by_name(OFFSETS_TOPIC, 0).expect("it leads");
        let mut waits = topic.append(0, batch());
        assert!(poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx).is_pending())).await, "the follower does not have it");
        partition.with_log(|_| ());
        assert_eq!(partition.view().log_end_offset(), 1, "what was queued is appended");
        // The follower has never been heard of.
        partition.refuse_if_stalled(-1);
        assert_eq!(topic.append(0, batch()).await, Err(ErrorCode::NOT_LEADER_OR_FOLLOWER), "this one is not appended");
        assert_eq!(partition.view().log_end_offset(), 1);
        let (waits, loads) = (tokio::spawn(waits), tokio::spawn(topic.committed(0, 1)));
        for round in 0..4 {
            sleep(COMMIT_INTERVAL).await;
            match round % 2 {
                0 => partition.refuse_for_stall(),
                _ => partition.refuse_if_stalled(-1),
            }
            assert!(!waits.is_finished() && !loads.is_finished(), "nobody else has it");
        }
        // Without the other it leads on.
        let change = PartitionChangeRecord {
            partition_id: 0,
            topic_id: TOPIC_ID,
            isr: Some(vec![NODE_ID]),
            leader: NODE_ID,
            ..Default::default()
        };
        broker.commit([change.into()]).await;
        assert_eq!(waits.await.expect("it ends"), Err(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND));
        assert_eq!(loads.await.expect("it ends"), Ok(()));
    }
}
