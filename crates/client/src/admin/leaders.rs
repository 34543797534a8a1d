//! Asking the leaders of partitions, all at the same time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::timeout;

use super::{ByPartition, at_once};
use crate::{Broker, Client, ClientError, Connection, ConnectionError, Metadata, TopicPartition};

impl Client {
    /// Calls `ask` for every leader of these partitions with all that it leads, at the same time, and once more, with
    /// new metadata, for those whose trouble may pass. Waits no longer than `patience` for a leader, and says something
    /// of every partition.
    pub(crate) async fn ask_leaders<V, T, F>(
        &self,
        wanted: &BTreeMap<TopicPartition, V>,
        patience: Duration,
        ask: fn(Connection, BTreeMap<TopicPartition, V>) -> F,
    ) -> ByPartition<T>
    where
        V: Clone + Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<ByPartition<T>, ClientError>> + Send + 'static,
    {
        let mut answers = self.try_leaders(wanted, patience, ask).await;
        let mut again = BTreeMap::new();
        for (partition, value) in wanted {
            let Some(Err(error)) = answers.get(partition) else { continue };
            if !error.is_retriable() {
                continue;
            }
            // Who leads now is asked, soon or the next time: one that does not answer may not lead any more.
            self.forget(&partition.topic);
            if !matches!(error, ClientError::Connection(ConnectionError::Timeout { .. })) {
                again.insert(partition.clone(), value.clone());
            }
        }
        if !again.is_empty() {
            answers.extend(self.try_leaders(&again, patience, ask).await);
        }
        answers
    }

    async fn try_leaders<V, T, F>(
        &self,
        wanted: &BTreeMap<TopicPartition, V>,
        patience: Duration,
        ask: fn(Connection, BTreeMap<TopicPartition, V>) -> F,
    ) -> ByPartition<T>
    where
        V: Clone + Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<ByPartition<T>, ClientError>> + Send + 'static,
    {
        let mut topics: Vec<_> = wanted.keys().map(|partition| partition.topic.as_str()).collect();
        topics.dedup();
        let metadata = match self.describe(&topics).await {
            Ok(metadata) => metadata,
            Err(error) => return wanted.keys().map(|partition| (partition.clone(), Err(error.clone()))).collect(),
        };
        let mut answers = BTreeMap::new();
        let leaders = by_leader(wanted, &metadata, &mut answers);
        let asked = leaders.into_iter().map(|(leader, of_it)| {
            let client = self.clone();
            let address = metadata.brokers.get(&leader).map_or_else(|| format!("broker {leader}"), Broker::address);
            let partitions: Vec<_> = of_it.keys().cloned().collect();
            let asked = async move {
                let late = || Err(ConnectionError::Timeout { address: address.clone() }.into());
                let asked = async { ask(client.broker(leader).await?, of_it).await };
                let answered = timeout(patience, asked).await.unwrap_or_else(|_| late());
                (address, partitions, answered)
            };
            (leader, asked)
        });
        for (address, partitions, answered) in at_once(asked).await.into_values() {
            match answered {
                Ok(mut answered) => answers.extend(partitions.into_iter().map(|partition| {
                    let missing = || ClientError::Missing { address: address.clone(), subject: partition.to_string() };
                    let answer = answered.remove(&partition).unwrap_or_else(|| Err(missing()));
                    (partition, answer)
                })),
                Err(error) => answers.extend(partitions.into_iter().map(|partition| (partition, Err(error.clone())))),
            }
        }
        answers
    }
}

/// What to ask of each leader. Those of which nobody can be asked are put into `answers`.
fn by_leader<V: Clone, T>(
    wanted: &BTreeMap<TopicPartition, V>,
    metadata: &Metadata,
    answers: &mut ByPartition<T>,
) -> HashMap<i32, BTreeMap<TopicPartition, V>> {
    let mut leaders = HashMap::<_, BTreeMap<_, _>>::new();
    for (partition, value) in wanted {
        match metadata.leader(partition) {
            Ok(leader) => {
                leaders.entry(leader).or_default().insert(partition.clone(), value.clone());
            }
            Err(error) => {
                answers.insert(partition.clone(), Err(error));
            }
        }
    }
    leaders
}
