//! Making other replicas leaders (KIP-183, KIP-460).

use std::collections::{BTreeMap, BTreeSet};

use wire::api::elect_leaders::{ElectLeadersRequest, ElectLeadersResponse, TopicPartitions};

use super::{ByPartition, TIMEOUT_MS, by_topic};
use crate::{Client, ClientError, ConnectionError, TopicPartition};

/// Since this version ElectLeaders can be told what kind of election is meant.
const ELECT_LEADERS_WITH_KIND: i16 = 1;

/// `ElectionType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionKind {
    /// The first replica leads where it is in the ISR.
    Preferred = 0,
    /// Any replica leads where none of the ISR is there: what it does not have is lost.
    Unclean = 1,
}

impl Client {
    /// Elects leaders of these partitions, or of all that need it. That one is led as it should be already is an error
    /// of its own ([`wire::ErrorCode::ELECTION_NOT_NEEDED`]), where it was asked for by name.
    pub async fn elect_leaders(
        &self,
        kind: ElectionKind,
        partitions: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<ByPartition<()>, ClientError> {
        if kind != ElectionKind::Preferred {
            let connection = self.any_broker().await?;
            // Without a kind it would be an election of another kind.
            if connection.version::<ElectLeadersRequest>()? < ELECT_LEADERS_WITH_KIND {
                let address = connection.address().to_owned();
                return Err(ConnectionError::Unsupported { address, api: "an unclean ElectLeaders" }.into());
            }
        }
        let topic_partitions = partitions.map(|partitions| {
            let topics = by_topic(partitions.iter().map(|partition| (partition, ())));
            let topics = topics.into_iter().map(|(topic, partitions)| TopicPartitions {
                topic: topic.to_owned(),
                partitions: partitions.into_iter().map(|(index, ())| index).collect(),
            });
            topics.collect()
        });
        let request = ElectLeadersRequest { election_type: kind as i8, topic_partitions, timeout_ms: TIMEOUT_MS };
        let code = |response: &ElectLeadersResponse| response.error_code;
        let response = self.send_to_controller(&request, code).await?;
        ClientError::check(|| "cannot elect leaders".to_owned(), response.error_code, None)?;
        let mut elected = BTreeMap::new();
        for topic in response.replica_election_results {
            elected.extend(topic.partition_result.into_iter().map(|answer| {
                let partition = TopicPartition::new(topic.topic.clone(), answer.partition_id);
                let subject = || format!("cannot elect a leader of {partition}");
                let result = ClientError::check(subject, answer.error_code, answer.error_message.as_deref());
                (partition, result)
            }));
        }
        Ok(elected)
    }
}
