//! DescribeLogDirs (key 35), versions 1-5: the data directory, and the sizes of the logs in it.
//!
//! Behaviour:
//! - Null is all partitions. Of those that are named, the ones that are not here are left out.
//! - A leader lags behind nobody: `offset_lag` is 0. A follower lags by what it lacks of the high watermark that its
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
