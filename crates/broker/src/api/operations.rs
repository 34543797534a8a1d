//! What a client may do, as the sets of bits in which Kafka answers it (KIP-430): bit n is `AclOperation` n.
//!
//! Without an authorizer every client may do everything that the resource supports.

/// Not asked for, or not known.
pub(super) const NOT_ASKED: i32 = i32::MIN;
/// Read, write, create, delete, alter, describe, describe and alter configs.
pub(super) const TOPIC: i32 = 0b1101_1111_1000;
/// Create, alter, describe, cluster action, describe and alter configs, idempotent write.
pub(super) const CLUSTER: i32 = 0b1_1111_1010_0000;

pub(super) fn cluster(asked: bool) -> i32 {
    if asked { CLUSTER } else { NOT_ASKED }
}

#[cfg(test)]
mod tests {
    /// The numbers that Kafka 4.3.1 answers.
    #[test]
    fn all_operations_are_kafkas() {
        assert_eq!((super::TOPIC, super::CLUSTER), (3576, 8096));
    }
}
