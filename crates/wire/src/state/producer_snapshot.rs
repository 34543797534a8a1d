//! The producer snapshot of a log, a `.snapshot` file (`org.apache.kafka.storage.internals.log.ProducerStateManager`):
//! its version, a CRC-32C of what follows, and the producers.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Stored, stored};
use crate::codec::{Result, WireError};

crate::message! {
    pub struct ProducerSnapshot {
        crc: u32, 1..;
        producer_entries: Vec<ProducerEntry>, 1..;
    }

    pub struct ProducerEntry {
        producer_id: i64, 1..;
        epoch: i16, 1..;
        last_sequence: i32, 1..;
        last_offset: i64, 1..;
        offset_delta: i32, 1..;
        timestamp: i64, 1..;
        coordinator_epoch: i32, 1..;
        current_txn_first_offset: i64, 1..;
    }
}

stored! { ProducerSnapshot 1..=1, i16::MAX; }

impl ProducerSnapshot {
    /// The CRC covers what follows it.
    const CRC_COVERS_FROM: usize = 6;

    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        let snapshot = Self::read_versioned(bytes)?;
        if snapshot.crc != crc32c::crc32c(&bytes[Self::CRC_COVERS_FROM..]) {
            return Err(WireError::WrongCrc);
        }
        Ok(snapshot)
    }

    /// The file's bytes. Sets the CRC.
    pub fn to_bytes(producer_entries: Vec<ProducerEntry>) -> Bytes {
        let snapshot = Self { crc: 0, producer_entries };
        let mut bytes = BytesMut::from(&snapshot.write_versioned(*Self::VERSIONS.end())[..]);
        let crc = crc32c::crc32c(&bytes[Self::CRC_COVERS_FROM..]);
        (&mut bytes[Self::CRC_COVERS_FROM - 4..]).put_u32(crc);
        bytes.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_snapshot_is_an_error() {
        let entries = vec![ProducerEntry { producer_id: 5, last_offset: 99, ..Default::default() }];
        let bytes = ProducerSnapshot::to_bytes(entries.clone());
        assert_eq!(ProducerSnapshot::from_bytes(&bytes).map(|snapshot| snapshot.producer_entries), Ok(entries));
        for i in 0..bytes.len() {
            let mut bad = bytes.to_vec();
            bad[i] ^= 1;
            assert!(ProducerSnapshot::from_bytes(&bad.into()).is_err(), "{i}");
            assert!(ProducerSnapshot::from_bytes(&bytes.slice(..i)).is_err(), "{i}");
        }
    }
}
