//! Records of the cluster's metadata log, `__cluster_metadata`, as `org.apache.kafka.server.common.serialization`
//! frames them: the frame's version, the record's type and its version, each as a variable-length number, then the
//! body.

use bytes::{Bytes, BytesMut};

use super::{Stored, stored};
use crate::codec::{Reader, Result, WireError, Writer};
use crate::{Secret, Uuid};

crate::message! {
    /// A broker has registered, or its registration is repeated in a snapshot.
    pub struct RegisterBrokerRecord {
        broker_id: i32, 0..;
        is_migrating_zk_broker: bool, 2..;
        incarnation_id: Uuid, 0..;
        broker_epoch: i64, 0..;
        end_points: Vec<BrokerEndpoint>, 0..;
        features: Vec<BrokerFeature>, 0..;
        rack: Option<String>, 0..;
        fenced: bool = true, 0..;
        in_controlled_shutdown: bool, 1..;
        log_dirs: Vec<Uuid>, 3.., tag 0;
        cordoned_log_dirs: Option<Vec<Uuid>>, 4.., tag 1;
    }

    pub struct BrokerEndpoint {
        name: String, 0..;
        host: String, 0..;
        port: u16, 0..;
        security_protocol: i16, 0..;
    }

    pub struct BrokerFeature {
        name: String, 0..;
        min_supported_version: i16, 0..;
        max_supported_version: i16, 0..;
    }

    pub struct UnregisterBrokerRecord {
        broker_id: i32, 0..;
        broker_epoch: i64, 0..;
    }

    pub struct TopicRecord {
        name: String, 0..;
        topic_id: Uuid, 0..;
    }

    pub struct PartitionRecord {
        partition_id: i32 = -1, 0..;
        topic_id: Uuid, 0..;
        replicas: Vec<i32>, 0..;
        isr: Vec<i32>, 0..;
        removing_replicas: Vec<i32>, 0..;
        adding_replicas: Vec<i32>, 0..;
        leader: i32 = -1, 0..;
        leader_recovery_state: i8, 0.., tag 0;
        leader_epoch: i32 = -1, 0..;
        partition_epoch: i32 = -1, 0..;
        directories: Vec<Uuid>, 1..;
        eligible_leader_replicas: Option<Vec<i32>>, 2.., tag 1;
        last_known_elr: Option<Vec<i32>>, 2.., tag 2;
    }

    /// One setting of a topic (resource type 2) or a broker (4); a null value removes it.
    pub struct ConfigRecord {
        resource_type: i8, 0..;
        resource_name: String, 0..;
        name: String, 0..;
        value: Option<String>, 0..;
    }

    /// What changes of a partition; what is absent stays as it is. A leader of -2 is no change.
    pub struct PartitionChangeRecord {
        partition_id: i32 = -1, 0..;
        topic_id: Uuid, 0..;
        isr: Option<Vec<i32>>, 0.., tag 0;
        leader: i32 = -2, 0.., tag 1;
        replicas: Option<Vec<i32>>, 0.., tag 2;
        removing_replicas: Option<Vec<i32>>, 0.., tag 3;
        adding_replicas: Option<Vec<i32>>, 0.., tag 4;
        leader_recovery_state: i8 = -1, 0.., tag 5;
        eligible_leader_replicas: Option<Vec<i32>>, 2.., tag 6;
        last_known_elr: Option<Vec<i32>>, 2.., tag 7;
        directories: Option<Vec<Uuid>>, 1.., tag 8;
    }

    pub struct RemoveTopicRecord {
        topic_id: Uuid, 0..;
    }

    pub struct UserScramCredentialRecord {
        name: String, 0..;
        mechanism: i8, 0..;
        salt: Bytes, 0..;
        stored_key: Secret, 0..;
        server_key: Secret, 0..;
        iterations: i32, 0..;
    }

    pub struct FeatureLevelRecord {
        name: String, 0..;
        feature_level: i16, 0..;
    }

    pub struct ClientQuotaRecord {
        entity: Vec<EntityData>, 0..;
        key: String, 0..;
        value: f64, 0..;
        remove: bool, 0..;
    }

    pub struct EntityData {
        entity_type: String, 0..;
        entity_name: Option<String>, 0..;
    }

    /// A block of producer ids has been given to a broker; `next_producer_id` is the first that has not.
    pub struct ProducerIdsRecord {
        broker_id: i32, 0..;
        broker_epoch: i64 = -1, 0..;
        next_producer_id: i64, 0..;
    }

    /// What changes of a registered broker: 1 is to, -1 is from, 0 is no change.
    pub struct BrokerRegistrationChangeRecord {
        broker_id: i32, 0..;
        broker_epoch: i64, 0..;
        fenced: i8, 0.., tag 0;
        in_controlled_shutdown: i8, 1.., tag 1;
        log_dirs: Vec<Uuid>, 2.., tag 2;
        cordoned_log_dirs: Option<Vec<Uuid>>, 3.., tag 3;
    }

    pub struct AccessControlEntryRecord {
        id: Uuid, 0..;
        resource_type: i8, 0..;
        resource_name: String, 0..;
        pattern_type: i8, 0..;
        principal: String, 0..;
        host: String, 0..;
        operation: i8, 0..;
        permission_type: i8, 0..;
    }

    pub struct RemoveAccessControlEntryRecord {
        id: Uuid, 0..;
    }

    pub struct NoOpRecord {}

    pub struct RemoveUserScramCredentialRecord {
        name: String, 0..;
        mechanism: i8, 0..;
    }

    pub struct BeginTransactionRecord {
        name: Option<String>, 0.., tag 0;
    }

    pub struct EndTransactionRecord {}

    pub struct AbortTransactionRecord {
        reason: Option<String>, 0.., tag 0;
    }

    pub struct RegisterControllerRecord {
        controller_id: i32, 0..;
        incarnation_id: Uuid, 0..;
        zk_migration_ready: bool, 0..;
        end_points: Vec<ControllerEndpoint>, 0..;
        features: Vec<ControllerFeature>, 0..;
    }

    pub struct ControllerEndpoint {
        name: String, 0..;
        host: String, 0..;
        port: u16, 0..;
        security_protocol: i16, 0..;
    }

    pub struct ControllerFeature {
        name: String, 0..;
        min_supported_version: i16, 0..;
        max_supported_version: i16, 0..;
    }

    pub struct ClearElrRecord {
        topic_name: String, 0..;
    }
}

const FRAME_VERSION: u32 = 1;

macro_rules! records {
    ($($key:literal $name:ident $record:ident $versions:expr;)*) => {
        stored! { $($record $versions, 0;)* }

        /// One record of the metadata log.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord {
            $($name($record),)*
        }

        $(impl From<$record> for MetadataRecord {
            fn from(record: $record) -> Self {
                Self::$name(record)
            }
        })*

        impl MetadataRecord {
            /// Reads the value of a record of the metadata log.
            pub fn read(bytes: &Bytes) -> Result<Self> {
                let mut r = Reader::new(bytes, 0, true);
                let frame_version = r.unsigned_varint()?;
                let key = r.unsigned_varint()?;
                let version = r.unsigned_varint()?;
                let unknown = WireError::UnknownRecord { key, version };
                let version = i16::try_from(version).map_err(|_| unknown)?;
                if frame_version != FRAME_VERSION {
                    return Err(unknown);
                }
                let body = r.slice(r.remaining())?;
                match key {
                    $($key if ($versions).contains(&version) => $record::read_body(&body, version).map(Self::$name),)*
                    _ => Err(unknown),
                }
            }

            /// The value of a record of the metadata log, in the newest version, which is what Kafka 4.3 writes.
            pub fn write(&self) -> Bytes {
                let mut out = BytesMut::new();
                let mut w = Writer::new(&mut out, 0, true);
                w.unsigned_varint(FRAME_VERSION);
                match self {
                    $(Self::$name(record) => {
                        w.unsigned_varint($key);
                        w.unsigned_varint(*($versions).end() as u32);
                        record.write_body(&mut out, *($versions).end());
                    })*
                }
                out.freeze()
            }
        }
    };
}

records! {
    0 RegisterBroker RegisterBrokerRecord 0..=4;
    1 UnregisterBroker UnregisterBrokerRecord 0..=0;
    2 Topic TopicRecord 0..=0;
    3 Partition PartitionRecord 0..=2;
    4 Config ConfigRecord 0..=0;
    5 PartitionChange PartitionChangeRecord 0..=2;
    9 RemoveTopic RemoveTopicRecord 0..=0;
    11 UserScramCredential UserScramCredentialRecord 0..=0;
    12 FeatureLevel FeatureLevelRecord 0..=0;
    14 ClientQuota ClientQuotaRecord 0..=0;
    15 ProducerIds ProducerIdsRecord 0..=0;
    17 BrokerRegistrationChange BrokerRegistrationChangeRecord 0..=3;
    18 AccessControlEntry AccessControlEntryRecord 0..=0;
    19 RemoveAccessControlEntry RemoveAccessControlEntryRecord 0..=0;
    20 NoOp NoOpRecord 0..=0;
    22 RemoveUserScramCredential RemoveUserScramCredentialRecord 0..=0;
    23 BeginTransaction BeginTransactionRecord 0..=0;
    24 EndTransaction EndTransactionRecord 0..=0;
    25 AbortTransaction AbortTransactionRecord 0..=0;
    27 RegisterController RegisterControllerRecord 0..=0;
    28 ClearElr ClearElrRecord 0..=0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_framed_as_in_kafka() {
        let record = MetadataRecord::from(FeatureLevelRecord { name: "a".into(), feature_level: 30 });
        let bytes = record.write();
        assert_eq!(bytes[..], [1, 12, 0, 2, b'a', 0, 30, 0]);
        assert_eq!(MetadataRecord::read(&bytes), Ok(record));
    }

    #[test]
    fn records_that_are_not_known_are_errors() {
        let read = |bytes: &'static [u8]| MetadataRecord::read(&Bytes::from_static(bytes));
        assert_eq!(read(&[1, 99, 0]), Err(WireError::UnknownRecord { key: 99, version: 0 }));
        assert_eq!(read(&[1, 2, 9]), Err(WireError::UnknownRecord { key: 2, version: 9 }));
        assert_eq!(read(&[2, 20, 0, 0]), Err(WireError::UnknownRecord { key: 20, version: 0 }));
        assert_eq!(
            read(&[1, 20, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            Err(WireError::UnknownRecord { key: 20, version: u32::MAX })
        );
        assert_eq!(read(&[1]), Err(WireError::Truncated));
    }
}
