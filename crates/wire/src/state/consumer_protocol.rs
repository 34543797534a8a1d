//! What consumers put into the opaque fields of JoinGroup and SyncGroup. The coordinator only shows it; the client
//! writes and reads it. A newer version is read as the newest that is known, since fields are only ever added at the
//! end (`org.apache.kafka.clients.consumer.internals.ConsumerProtocol`).

use bytes::Bytes;

use super::{Stored, split_number, stored};
use crate::codec::{Result, WireError};

crate::message! {
    /// What a member sends to the leader: the topics it wants, and what it owns.
    pub struct ConsumerProtocolSubscription {
        topics: Vec<String>, 0..;
        user_data: Option<Bytes>, 0..;
        owned_partitions: Vec<TopicPartition>, 1..;
        generation_id: i32 = -1, 2..;
        rack_id: Option<String>, 3..;
    }

    pub struct TopicPartition {
        topic: String, 0..;
        partitions: Vec<i32>, 0..;
    }

    /// What the leader gives a member.
    pub struct ConsumerProtocolAssignment {
        assigned_partitions: Vec<TopicPartition>, 0..;
        user_data: Option<Bytes>, 0..;
    }
}

stored! {
    ConsumerProtocolSubscription 0..=3, i16::MAX;
    ConsumerProtocolAssignment 0..=3, i16::MAX;
}

fn read<T: Stored>(bytes: &Bytes) -> Result<T> {
    let (version, body) = split_number(bytes)?;
    if version < *T::VERSIONS.start() {
        return Err(WireError::UnknownStoredVersion(version));
    }
    T::read_body(&body, version.min(*T::VERSIONS.end()))
}

impl ConsumerProtocolSubscription {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        read(bytes)
    }

    /// The version that a member writes, which is the one it is answered in.
    pub fn version(bytes: &Bytes) -> Result<i16> {
        split_number(bytes).map(|(version, _)| version)
    }

    pub fn to_bytes(&self) -> Bytes {
        self.write_versioned(*Self::VERSIONS.end())
    }
}

impl ConsumerProtocolAssignment {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        read(bytes)
    }

    pub fn to_bytes(&self) -> Bytes {
        self.write_versioned(*Self::VERSIONS.end())
    }

    /// In the version of the member that it is for, or the nearest that is known.
    pub fn to_bytes_in(&self, version: i16) -> Bytes {
        self.write_versioned(version.clamp(*Self::VERSIONS.start(), *Self::VERSIONS.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_are_read_as_the_newest() {
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: vec![TopicPartition { topic: "t".into(), partitions: vec![0, 2] }],
            user_data: None,
        };
        let mut bytes = assignment.to_bytes().to_vec();
        assert_eq!(ConsumerProtocolAssignment::from_bytes(&bytes.clone().into()), Ok(assignment.clone()));
        bytes[1] = 77;
        bytes.push(1);
        assert_eq!(ConsumerProtocolAssignment::from_bytes(&bytes.into()), Ok(assignment.clone()));
        for (version, written) in [(1, 1), (77, 3), (-1, 0)] {
            let bytes = assignment.to_bytes_in(version);
            assert_eq!(ConsumerProtocolSubscription::version(&bytes), Ok(written));
            assert_eq!(ConsumerProtocolAssignment::from_bytes(&bytes), Ok(assignment.clone()));
        }
        let negative = Bytes::from_static(&[0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(ConsumerProtocolSubscription::from_bytes(&negative), Err(WireError::UnknownStoredVersion(-1)));
    }
}
