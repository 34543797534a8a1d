//! Records of `__transaction_state`: what a transaction coordinator knows of a transactional id. A key and a value are
//! their version and a body; a null value is a tombstone.

use bytes::Bytes;

use super::{Stored, stored};
use crate::codec::Result;

crate::message! {
    pub struct TransactionLogKey {
        transactional_id: String, 0..;
    }

    pub struct TransactionLogValue {
        producer_id: i64, 0..;
        previous_producer_id: i64 = -1, 1.., tag 0;
        next_producer_id: i64 = -1, 1.., tag 1;
        producer_epoch: i16, 0..;
        transaction_timeout_ms: i32, 0..;
        transaction_status: i8, 0..;
        transaction_partitions: Option<Vec<TransactionPartitions>>, 0..;
        transaction_last_update_timestamp_ms: i64, 0..;
        transaction_start_timestamp_ms: i64, 0..;
        client_transaction_version: i16, 1.., tag 2;
        next_producer_epoch: i16 = -1, 1.., tag 3;
    }

    pub struct TransactionPartitions {
        topic: String, 0..;
        partition_ids: Vec<i32>, 0..;
    }
}

stored! {
    TransactionLogKey 0..=0, i16::MAX;
    TransactionLogValue 0..=1, 1;
}

impl TransactionLogKey {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        Self::read_versioned(bytes)
    }

    pub fn to_bytes(&self) -> Bytes {
        self.write_versioned(0)
    }
}

impl TransactionLogValue {
    pub fn from_bytes(bytes: &Bytes) -> Result<Self> {
        Self::read_versioned(bytes)
    }

    /// The version that goes with the finalized level of `transaction.version`: 1 from level 1 on, which is what that
    /// level is for. Version 0 has none of the tagged fields.
    pub fn to_bytes(&self, transaction_version: i16) -> Bytes {
        self.write_versioned(i16::from(transaction_version >= 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::WireError;

    fn value() -> TransactionLogValue {
        let partitions = TransactionPartitions { topic: "t".into(), partition_ids: vec![0, 7] };
        TransactionLogValue {
            producer_id: 5,
            previous_producer_id: 4,
            producer_epoch: 3,
            transaction_timeout_ms: 60_000,
            transaction_status: 1,
            transaction_partitions: Some(vec![partitions]),
            client_transaction_version: 2,
            ..Default::default()
        }
    }

    #[test]
    fn the_level_of_the_feature_decides_what_is_kept() {
        let bytes = value().to_bytes(2);
        assert_eq!((&bytes[..2], TransactionLogValue::from_bytes(&bytes)), (&[0, 1][..], Ok(value())));
        assert_eq!(value().to_bytes(1), bytes);
        let bytes = value().to_bytes(0);
        let kept = TransactionLogValue { previous_producer_id: -1, client_transaction_version: 0, ..value() };
        assert_eq!((&bytes[..2], TransactionLogValue::from_bytes(&bytes)), (&[0, 0][..], Ok(kept)));
    }

    #[test]
    fn keys_are_read_back() {
        let key = TransactionLogKey { transactional_id: "id".into() };
        assert_eq!(key.to_bytes()[..], [0, 0, 0, 2, b'i', b'd']);
        assert_eq!(TransactionLogKey::from_bytes(&key.to_bytes()), Ok(key));
    }

    #[test]
    fn versions_that_are_not_known_are_errors() {
        let key = TransactionLogKey::from_bytes(&Bytes::from_static(&[0, 1, 0, 1, b'i']));
        assert_eq!(key, Err(WireError::UnknownStoredVersion(1)));
        let mut bytes = value().to_bytes(1).to_vec();
        bytes[1] = 2;
        assert_eq!(TransactionLogValue::from_bytes(&bytes.into()), Err(WireError::UnknownStoredVersion(2)));
        assert_eq!(TransactionLogValue::from_bytes(&Bytes::new()), Err(WireError::Truncated));
    }
}
