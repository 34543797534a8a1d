//! How partitions are, by the definitions of Kafka's tools (`TopicCommand.PartitionDescription`), and what the cluster
//! has to be asked to know it.

use std::collections::HashMap;

use client::{Client, ClientError};
use wire::ErrorCode;
use wire::api::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::api::list_partition_reassignments::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics};

use super::config::TOPIC;

const MIN_IN_SYNC_REPLICAS: &str = "min.insync.replicas";
/// Topics whose settings are asked for in one request.
const TOPICS_AT_ONCE: usize = 500;

/// What is known of one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement<'a> {
    pub(crate) leader: Option<i32>,
    pub(crate) replicas: &'a [i32],
    pub(crate) isr: &'a [i32],
    /// Replicas that a reassignment adds: they are expected to be behind.
    pub(crate) adding: &'a [i32],
    /// `min.insync.replicas` of its topic.
    pub(crate) min_in_sync: usize,
}

impl Placement<'_> {
    pub(crate) fn is_under_replicated(&self) -> bool {
        self.isr.len() + self.adding.len() < self.replicas.len()
    }

    pub(crate) fn is_under_min_isr(&self) -> bool {
        self.leader.is_none() || self.isr.len() < self.min_in_sync
    }

    pub(crate) fn is_at_min_isr(&self) -> bool {
        self.isr.len() == self.min_in_sync
    }

    /// Nobody leads it, or a broker that is not there.
    pub(crate) fn is_unavailable(&self, is_live: impl Fn(i32) -> bool) -> bool {
        !self.leader.is_some_and(is_live)
    }

    /// Whether another one leads it than the first of its replicas.
    pub(crate) fn is_led_by_another(&self) -> bool {
        self.leader.is_some() && self.leader != self.replicas.first().copied()
    }
}

/// By topic. One that is deleted meanwhile is left out.
pub(crate) async fn min_in_sync_replicas(
    client: &Client,
    topics: &[&str],
) -> Result<HashMap<String, usize>, ClientError> {
    let mut found = HashMap::new();
    for topics in topics.chunks(TOPICS_AT_ONCE) {
        let resource = |topic: &&str| DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: (*topic).to_owned(),
            configuration_keys: Some(vec![MIN_IN_SYNC_REPLICAS.to_owned()]),
        };
        let request = DescribeConfigsRequest { resources: topics.iter().map(resource).collect(), ..Default::default() };
        for result in client.send(&request).await?.results {
            if result.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
                continue;
            }
            let subject = || format!("the settings of topic {}", result.resource_name);
            ClientError::check(subject, result.error_code, result.error_message.as_deref())?;
            let entry = result.configs.iter().find(|config| config.name == MIN_IN_SYNC_REPLICAS);
            let value = entry.and_then(|config| config.value.as_deref()?.parse().ok());
            found.extend(value.map(|value| (result.resource_name, value)));
        }
    }
    Ok(found)
}

/// Adding and removing replicas, by topic and partition.
pub(crate) type Reassignments = HashMap<(String, i32), (Vec<i32>, Vec<i32>)>;

/// Replicas that are being added and removed, of these partitions or all. A broker that does not tell has none under
/// way as far as we can know, as for Kafka's tool.
pub(crate) async fn reassignments(
    client: &Client,
    topics: Option<Vec<ListPartitionReassignmentsTopics>>,
) -> Reassignments {
    let request = ListPartitionReassignmentsRequest { topics, ..Default::default() };
    let Ok(response) = client.send(&request).await else { return HashMap::new() };
    let mut found = HashMap::new();
    for topic in response.topics {
        for partition in topic.partitions {
            let key = (topic.name.clone(), partition.partition_index);
            found.insert(key, (partition.adding_replicas, partition.removing_replicas));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_kafkas() {
        let well = Placement { leader: Some(1), replicas: &[1, 2, 3], isr: &[3, 1, 2], adding: &[], min_in_sync: 2 };
        assert!(!well.is_under_replicated() && !well.is_under_min_isr() && !well.is_at_min_isr());
        assert!(!well.is_unavailable(|id| id == 1) && well.is_unavailable(|id| id == 2));
        assert!(!well.is_led_by_another());

        let behind = Placement { leader: Some(2), isr: &[1, 2], ..well };
        assert!(behind.is_under_replicated() && !behind.is_under_min_isr() && behind.is_at_min_isr());
        assert!(behind.is_led_by_another());
        assert!(!Placement { adding: &[3], ..behind }.is_under_replicated());

        let alone = Placement { isr: &[2], ..behind };
        assert!(alone.is_under_min_isr() && !alone.is_at_min_isr());
        // Without a leader none of the ISR takes anything, however many there are.
        let offline = Placement { leader: None, ..well };
        assert!(offline.is_under_min_isr() && offline.is_unavailable(|_| true) && !offline.is_led_by_another());
    }
}
