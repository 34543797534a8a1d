//! DescribeLogDirs (key 35), versions 1-5: the data directory, and the sizes of the logs in it.
//!
//! Behaviour:
//! - Needs: DESCRIBE on the cluster (CLUSTER_AUTHORIZATION_FAILED).
//! - Null is all partitions. Of those that are named, the ones that are not here are left out.
//! - The `offset_lag` of a leader is 0. A follower lags by what it lacks of the high watermark that its
//!   leader has told. No log moves between directories: `is_future_key` is never set.
//! - Version 4 has the size of the disk and what is free of it (KIP-827), version 5 whether the directory takes no new
//!   partitions (KIP-1066): it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wire::ErrorCode;
use wire::api::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};

use super::{Pace, RequestContext};
use crate::Broker;
use crate::partition::Partition;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    _context: &RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let partitions = match request.topics {
        None => broker.partitions.all(),
        Some(topics) => named(broker, topics).await,
    };
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in &partitions {
        topics.entry(&partition.topic).or_default().push(describe(partition));
    }
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_unstable_by_key(|partition| partition.partition_index);
        DescribeLogDirsTopic { name: name.to_owned(), partitions }
    });
    let dir = broker.partitions.data_dir();
    let space = |bytes: std::io::Result<u64>| bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    let result = DescribeLogDirsResult {
        error_code: ErrorCode::NONE,
        log_dir: dir.to_string_lossy().into_owned(),
        topics: topics.collect(),
        total_bytes: space(broker.env.disk.total_bytes(dir)),
        usable_bytes: space(broker.env.disk.free_bytes(dir)),
        is_cordoned: false,
    };
    DescribeLogDirsResponse { results: vec![result], ..Default::default() }
}

/// Each partition that is named and is here, once.
async fn named(broker: &Broker, topics: Vec<DescribableLogDirTopic>) -> Vec<Arc<Partition>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut pace = Pace::default();
    for topic in topics {
        for index in topic.partitions {
            pace.step(1).await;
            if let Ok(partition) = broker.partitions.find_by_name(&topic.topic, index)
                && seen.insert((partition.topic_id, index))
            {
                found.push(partition);
            }
        }
    }
    found
}

fn describe(partition: &Partition) -> DescribeLogDirsPartition {
    DescribeLogDirsPartition {
        partition_index: partition.index,
        partition_size: i64::try_from(partition.view().size_bytes()).unwrap_or(i64::MAX),
        offset_lag: partition.offset_lag(),
        is_future_key: false,
    }
}

/// The answer to who may not.
pub(super) fn refused(_: &DescribeLogDirsRequest, error_code: ErrorCode) -> DescribeLogDirsResponse {
    DescribeLogDirsResponse { error_code, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use wire::Uuid;

    use super::*;
    use crate::api::test_support::{TestBroker, batch, context, led_by, registration};

    #[tokio::test]
    async fn a_follower_lags_by_what_its_leader_has_more() {
        let broker = TestBroker::start().await;
        broker.commit([registration(2).into()]).await;
        let partitions = [led_by(1, &[1, 2]), led_by(2, &[1, 2]), led_by(2, &[2])];
        broker.create("t", Uuid([7; 16]), &partitions).await;
        broker.append("t", 0);
        broker.follow("t", 1, 5);
        let size = batch().bytes.len() as i64;
        for topics in [None, Some(vec![DescribableLogDirTopic { topic: "t".to_owned(), partitions: vec![2, 1, 0] }])] {
            let response = handle(&broker, &context(5), DescribeLogDirsRequest { topics }).await;
            let [topic] = &response.results[0].topics[..] else { panic!("{response:?}") };
            let told: Vec<_> =
                topic.partitions.iter().map(|p| (p.partition_index, p.partition_size, p.offset_lag)).collect();
            assert_eq!(told, [(0, size, 0), (1, size, 4)], "the third is on another broker");
        }
    }

    #[tokio::test]
    async fn topics_are_told_in_the_order_of_their_names() {
        let broker = TestBroker::start().await;
        for (name, id) in [("b", 1), ("c", 2), ("a", 3)] {
            broker.create(name, Uuid([id; 16]), &[led_by(1, &[1])]).await;
        }
        let response = handle(&broker, &context(5), DescribeLogDirsRequest { topics: None }).await;
        let names: Vec<_> = response.results[0].topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
