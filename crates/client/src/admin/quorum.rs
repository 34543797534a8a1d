//! The quorum that keeps the metadata of the cluster (KIP-595, KIP-836).

use wire::Uuid;
use wire::api::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, PartitionData, PartitionRequest, ReplicaState, TopicRequest,
};
use wire::api::remove_raft_voter::RemoveRaftVoterRequest;

use crate::{Client, ClientError, ConnectionError};

const CLUSTER_METADATA: &str = "__cluster_metadata";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    pub leader_id: Option<i32>,
    pub leader_epoch: i32,
    pub high_watermark: i64,
    pub voters: Vec<QuorumReplica>,
    pub observers: Vec<QuorumReplica>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuorumReplica {
    pub replica_id: i32,
    /// Tells the disks of one node apart (KIP-853). Zero where nobody tells.
    pub directory_id: Uuid,
    /// -1 where the leader does not know it.
    pub log_end_offset: i64,
    /// Records behind the leader.
    pub lag: i64,
    /// When the leader last heard of it, by the leader's clock. `None` where it never did, or does not tell (KIP-836).
    pub last_fetch_timestamp_ms: Option<i64>,
    /// When it last had all that the leader had.
    pub last_caught_up_timestamp_ms: Option<i64>,
}

impl Client {
    /// What the leader of the quorum tells of it. Where there is no leader there may be no answer for as long as the
    /// connection waits, and none to what is asked behind it: have connections of your own for it.
    pub async fn describe_quorum(&self) -> Result<Quorum, ClientError> {
        let mut retry = self.retry();
        loop {
            match self.try_quorum().await {
                Ok(quorum) => return Ok(quorum),
                Err(error) => retry.wait(error).await?,
            }
        }
    }

    /// Takes the vote of a member of the quorum, by its node id and the id of its data directory (KIP-853).
    pub async fn remove_voter(&self, voter_id: i32, voter_directory_id: Uuid) -> Result<(), ClientError> {
        let request = RemoveRaftVoterRequest { cluster_id: None, voter_id, voter_directory_id };
        let response = self.send_to_controller(&request, |response| response.error_code).await?;
        ClientError::check(|| format!("voter {voter_id}"), response.error_code, response.error_message.as_deref())
    }

    async fn try_quorum(&self) -> Result<Quorum, ClientError> {
        let connection = self.any_broker().await?;
        let address = || connection.address().to_owned();
        let partitions = vec![PartitionRequest { partition_index: 0 }];
        let topics = vec![TopicRequest { topic_name: CLUSTER_METADATA.to_owned(), partitions }];
        let DescribeQuorumResponse { error_code, error_message, topics, .. } =
            connection.send(&DescribeQuorumRequest { topics }).await.map_err(|error| match error {
                ConnectionError::Unsupported { address, .. } => ClientError::NoQuorum { address },
                error => error.into(),
            })?;
        let subject = || "the metadata quorum".to_owned();
        ClientError::check(subject, error_code, error_message.as_deref())?;
        let missing = || ClientError::Missing { address: address(), subject: subject() };
        let partition = topics.into_iter().flat_map(|topic| topic.partitions).next().ok_or_else(missing)?;
        ClientError::check(subject, partition.error_code, partition.error_message.as_deref())?;
        Ok(Quorum::from_partition(&partition))
    }
}

impl Quorum {
    fn from_partition(partition: &PartitionData) -> Self {
        let leader = partition.current_voters.iter().find(|voter| voter.replica_id == partition.leader_id);
        let end = leader.map_or(partition.high_watermark, |leader| leader.log_end_offset);
        let replica = |state: &ReplicaState| QuorumReplica {
            replica_id: state.replica_id,
            directory_id: state.replica_directory_id,
            log_end_offset: state.log_end_offset,
            lag: (end - state.log_end_offset).max(0),
            last_fetch_timestamp_ms: known(state.last_fetch_timestamp),
            last_caught_up_timestamp_ms: known(state.last_caught_up_timestamp),
        };
        Self {
            leader_id: (partition.leader_id >= 0).then_some(partition.leader_id),
            leader_epoch: partition.leader_epoch,
            high_watermark: partition.high_watermark,
            voters: partition.current_voters.iter().map(replica).collect(),
            observers: partition.observers.iter().map(replica).collect(),
        }
    }
}

fn known(timestamp_ms: i64) -> Option<i64> {
    (timestamp_ms >= 0).then_some(timestamp_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_counted_from_the_leader_or_from_what_is_committed() {
        let state = |replica_id, log_end_offset| ReplicaState { replica_id, log_end_offset, ..Default::default() };
        let led = PartitionData {
            leader_id: 2,
            high_watermark: 90,
            current_voters: vec![state(1, 98), state(2, 100)],
            observers: vec![state(4, 40)],
            ..Default::default()
        };
        let lags = |quorum: &Quorum| quorum.voters.iter().chain(&quorum.observers).map(|r| r.lag).collect::<Vec<_>>();
        let quorum = Quorum::from_partition(&led);
        assert_eq!((quorum.leader_id, lags(&quorum)), (Some(2), vec![2, 0, 60]));
        assert_eq!(quorum.voters[0].last_fetch_timestamp_ms, None);
        let quorum = Quorum::from_partition(&PartitionData { leader_id: -1, ..led });
        assert_eq!((quorum.leader_id, lags(&quorum)), (None, vec![0, 0, 50]));
    }
}
