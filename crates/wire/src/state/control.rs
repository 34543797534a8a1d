//! Control records: those of batches whose control flag is set. The key is a version and a type.

use bytes::Bytes;

use super::stored;
use crate::Uuid;
use crate::codec::{Reader, Result, Wire, WireError, Writer};

crate::message! {
    /// What a new leader of the metadata log writes first.
    pub struct LeaderChangeMessage {
        version: i16, 0..;
        leader_id: i32, 0..;
        voters: Vec<Voter>, 0..;
        granting_voters: Vec<Voter>, 0..;
    }

    pub struct Voter {
        voter_id: i32, 0..;
        voter_directory_id: Uuid, 1..;
    }

    /// The value of a transaction's commit or abort marker.
    pub struct EndTxnMarker {
        coordinator_epoch: i32, 0..;
    }

    pub struct SnapshotHeaderRecord {
        version: i16, 0..;
        last_contained_log_timestamp: i64, 0..;
    }

    pub struct SnapshotFooterRecord {
        version: i16, 0..;
    }

    pub struct KRaftVersionRecord {
        version: i16, 0..;
        kraft_version: i16, 0..;
    }

    pub struct VotersRecord {
        version: i16, 0..;
        voters: Vec<RegisteredVoter>, 0..;
        /// Ours: who follows the metadata log without a vote. Kafka's readers skip it.
        observers: Vec<RegisteredVoter>, 0.., tag 10000;
    }

    pub struct RegisteredVoter {
        voter_id: i32, 0..;
        voter_directory_id: Uuid, 0..;
        endpoints: Vec<Endpoint>, 0..;
        kraft_version_feature: KRaftVersionFeature, 0..;
    }

    pub struct Endpoint {
        name: String, 0..;
        host: String, 0..;
        port: u16, 0..;
    }

    pub struct KRaftVersionFeature {
        min_supported_version: i16, 0..;
        max_supported_version: i16, 0..;
    }
}

stored! {
    LeaderChangeMessage 0..=1, 0;
    EndTxnMarker 0..=0, i16::MAX;
    SnapshotHeaderRecord 0..=0, 0;
    SnapshotFooterRecord 0..=0, 0;
    KRaftVersionRecord 0..=0, 0;
    VotersRecord 0..=0, 0;
}

/// What a control record says, from its key (`org.apache.kafka.common.record.ControlRecordType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    Abort,
    Commit,
    LeaderChange,
    SnapshotHeader,
    SnapshotFooter,
    KRaftVersion,
    KRaftVoters,
    /// One of a later version of Kafka.
    Unknown(i16),
}

impl ControlType {
    const KEY_VERSION: i16 = 0;

    fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KRaftVersion => 5,
            Self::KRaftVoters => 6,
            Self::Unknown(id) => id,
        }
    }

    /// Reads the key of a control record. Newer versions of the key may only add to it.
    pub fn read(key: &Bytes) -> Result<Self> {
        let mut r = Reader::new(key, 0, false);
        let version = i16::read(&mut r)?;
        if version < Self::KEY_VERSION {
            return Err(WireError::UnknownStoredVersion(version));
        }
        Ok(match i16::read(&mut r)? {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KRaftVersion,
            6 => Self::KRaftVoters,
            id => Self::Unknown(id),
        })
    }

    /// The key of such a record.
    pub fn write(self) -> Bytes {
        let mut out = bytes::BytesMut::new();
        let mut w = Writer::new(&mut out, 0, false);
        Self::KEY_VERSION.write(&mut w);
        self.id().write(&mut w);
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_back() {
        for id in 0..9 {
            let bytes = Bytes::copy_from_slice(&[0, 0, 0, id]);
            let control = ControlType::read(&bytes).unwrap();
            assert_eq!(matches!(control, ControlType::Unknown(_)), id > 6);
            assert_eq!(control.write(), bytes);
        }
        assert_eq!(
            ControlType::read(&Bytes::from_static(&[0xff, 0xff, 0, 0])),
            Err(WireError::UnknownStoredVersion(-1))
        );
        assert_eq!(ControlType::read(&Bytes::from_static(&[0, 0, 0])), Err(WireError::Truncated));
    }
}
