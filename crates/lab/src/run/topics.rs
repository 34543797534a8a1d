//! The topics of a case: created before it and deleted after it, unless the scenario names one to keep.

use std::collections::BTreeMap;
use std::time::Duration;

use client::{Client, ClientError, LATEST, TopicPartition};
use tokio::time::{Instant, sleep};
use wire::ErrorCode;
use wire::api::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig};

use super::CaseError;
use crate::scenario::Load;

/// How long creating a topic is tried while the cluster is too busy to answer in time.
const CREATE_MAX: Duration = Duration::from_secs(120);
/// How long no further partition may get a leader before the case is given up.
const STILL_MAX: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct Topics {
    pub(super) names: Vec<String>,
    is_kept: bool,
}

impl Topics {
    /// Creates missing topics, on these brokers if the case does not use all. A topic that is there already has to be
    /// what the case wants.
    pub(super) async fn make(client: &Client, load: &Load, brokers: &[i32], unique: &str) -> Result<Self, CaseError> {
        let is_kept = !load.topic.is_empty();
        let name = |number: u32| match (is_kept, load.topics) {
            (true, 1) => load.topic.clone(),
            (true, _) => format!("{}-{number}", load.topic),
            (false, _) => format!("parshall-lab-{unique}-{number}"),
        };
        let names: Vec<_> = (1..=load.topics).map(name).collect();
        let configs = load.topic_settings.iter();
        let configs =
            configs.map(|(name, value)| CreatableTopicConfig { name: name.clone(), value: Some(value.clone()) });
        let configs: Vec<_> = configs.collect();
        let mut topics = Self { names: Vec::new(), is_kept };
        for (number, name) in names.into_iter().enumerate() {
            let topic = CreatableTopic { name: name.clone(), configs: configs.clone(), ..shape(load, brokers, number) };
            let made = match create(client, &topic).await {
                Err(error) if error.code() == Some(ErrorCode::TOPIC_ALREADY_EXISTS) => match is_kept {
                    true => agrees(client, &name, load, brokers).await,
                    // Nobody else has that name: an earlier try had more success than its answer said.
                    false => Ok(()),
                },
                made => made.map_err(CaseError::from),
            };
            topics.names.push(name);
            if let Err(error) = made {
                topics.delete(client).await;
                return Err(error);
            }
        }
        if let Err(error) = topics.wait_for_leaders(client, load.partitions).await {
            topics.delete(client).await;
            return Err(error);
        }
        Ok(topics)
    }

    /// A broker may not know yet that it leads partitions that others say it leads. With many partitions on a busy
    /// machine that takes its time, which it gets as long as it comes forward.
    async fn wait_for_leaders(&self, client: &Client, partitions: u32) -> Result<(), CaseError> {
        let of_topic = |name| (0..partitions as i32).map(move |partition| TopicPartition::new(name, partition));
        let mut missing: BTreeMap<_, _> = self.names.iter().flat_map(of_topic).map(|one| (one, LATEST)).collect();
        let of = missing.len();
        let mut progress = Progress { left: of, since: Instant::now() };
        loop {
            let listed = client.list_offsets_each(&missing).await;
            let mut reason = None;
            for (partition, listed) in listed {
                match listed {
                    Ok(_) => _ = missing.remove(&partition),
                    Err(error) if error.is_retriable() => reason = Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
            let Some(error) = reason else { return Ok(()) };
            if progress.is_over(missing.len(), Instant::now()) {
                let ready = of - missing.len();
                return Err(CaseError::NoLeaders { ready, of, limit_s: STILL_MAX.as_secs(), error });
            }
            self.names.iter().for_each(|name| client.forget(name));
            sleep(LOOK_INTERVAL).await;
        }
    }

    pub(super) async fn delete(&self, client: &Client) {
        for name in self.names.iter().filter(|_| !self.is_kept) {
            match client.delete_topic(name).await {
                Ok(()) | Err(ClientError::UnknownTopic { .. }) => {}
                Err(error) => tracing::warn!(%error, topic = name, "the topic is left behind"),
            }
        }
    }
}

/// Partitions that have no leader yet, and since when there are so many.
struct Progress {
    left: usize,
    since: Instant,
}

impl Progress {
    /// Whether it has stood still for too long.
    fn is_over(&mut self, left: usize, now: Instant) -> bool {
        if left < self.left {
            (self.left, self.since) = (left, now);
        }
        now - self.since >= STILL_MAX
    }
}

/// What did not get ready in time is asked for again.
async fn create(client: &Client, topic: &CreatableTopic) -> Result<(), ClientError> {
    let give_up = Instant::now() + CREATE_MAX;
    loop {
        match client.create_topic(topic.clone()).await {
            Err(error) if error.code() == Some(ErrorCode::REQUEST_TIMED_OUT) && Instant::now() < give_up => {
                tracing::debug!(%error, "creating the topic again");
                sleep(LOOK_INTERVAL).await;
            }
            created => return created,
        }
    }
}

/// Partitions and replicas of the topic of this number, from 0 on. Where a case does not use all brokers, they are
/// dealt out here: each partition's on brokers that follow each other, the first by turns, also from topic to topic.
fn shape(load: &Load, brokers: &[i32], number: usize) -> CreatableTopic {
    if load.brokers_used == 0 {
        return CreatableTopic {
            num_partitions: load.partitions as i32,
            replication_factor: load.replicas.min(i16::MAX as u32) as i16,
            ..Default::default()
        };
    }
    let first = number * load.partitions as usize;
    let replicas = |partition: usize| {
        let turn = brokers.iter().cycle().skip((first + partition) % brokers.len());
        turn.take(load.replicas as usize).copied().collect()
    };
    let assignment = |partition: u32| CreatableReplicaAssignment {
        partition_index: partition as i32,
        broker_ids: replicas(partition as usize),
    };
    CreatableTopic {
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..load.partitions).map(assignment).collect(),
        ..Default::default()
    }
}

async fn agrees(client: &Client, name: &str, load: &Load, brokers: &[i32]) -> Result<(), CaseError> {
    let metadata = client.existing(&[name]).await?;
    let partitions = &metadata.topic(name)?.partitions;
    let mut elsewhere = partitions.iter().flat_map(|partition| &partition.replicas).filter(|id| !brokers.contains(id));
    if let Some(&broker) = elsewhere.next().filter(|_| load.brokers_used > 0) {
        return Err(CaseError::ElsewhereToo { topic: name.to_owned(), broker, wanted: brokers.len() });
    }
    let (found, replicas) = (partitions.len(), partitions.first().map_or(0, |partition| partition.replicas.len()));
    if found == load.partitions as usize && replicas == load.replicas as usize {
        return Ok(());
    }
    Err(CaseError::OtherTopic {
        topic: name.to_owned(),
        partitions: found,
        replicas,
        wanted_partitions: load.partitions,
        wanted_replicas: load.replicas,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(topic: CreatableTopic) -> Vec<Vec<i32>> {
        topic.assignments.into_iter().map(|assignment| assignment.broker_ids).collect()
    }

    #[test]
    fn a_case_that_uses_some_brokers_leaves_the_others_alone() {
        let load = Load { partitions: 3, replicas: 2, brokers_used: 2, ..Load::default() };
        let topic = shape(&load, &[4, 7], 0);
        assert_eq!((topic.num_partitions, topic.replication_factor), (-1, -1));
        assert_eq!(replicas(topic), [[4, 7], [7, 4], [4, 7]]);
        assert_eq!(replicas(shape(&load, &[4, 7], 1)), [[7, 4], [4, 7], [7, 4]]);
        let one = Load { brokers_used: 1, ..Load::default() };
        assert_eq!(replicas(shape(&one, &[4], 5)), [[4]]);
    }

    #[test]
    fn leaders_are_waited_for_while_there_are_more_of_them() {
        let start = Instant::now();
        let mut progress = Progress { left: 1000, since: start };
        let mut is_over = |left, seconds| progress.is_over(left, start + Duration::from_secs(seconds));
        assert_eq!([is_over(1000, 29), is_over(999, 29), is_over(999, 58)], [false; 3]);
        assert_eq!([is_over(10, 59), is_over(10, 88), is_over(11, 89)], [false, false, true]);
    }

    #[test]
    fn a_case_that_uses_all_leaves_it_to_the_cluster() {
        let topic = shape(&Load { partitions: 3, replicas: 2, ..Load::default() }, &[1, 2, 3], 0);
        assert_eq!((topic.num_partitions, topic.replication_factor, topic.assignments.len()), (3, 2, 0));
    }
}
