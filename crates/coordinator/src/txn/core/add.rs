//! AddPartitionsToTxn and AddOffsetsToTxn: what a transaction writes to, which begins it. Verification asks whether a
//! partition was added (KIP-890).

use wire::ErrorCode;

use super::{Metadata, Partitions, ProducerIdAndEpoch, State, Step, Transaction, TransactionVersion};
use crate::txn::Now;

impl Transaction {
    /// Adds partitions. `version` says who adds them: the producer, or the broker that it writes to.
    pub fn add_partitions(
        &mut self,
        now: Now,
        producer: ProducerIdAndEpoch,
        partitions: &Partitions,
        version: TransactionVersion,
    ) -> Result<Step, ErrorCode> {
        self.check_settled()?;
        self.check_producer(producer)?;
        let is_open = self.current.state == State::Ongoing;
        if is_open && self.current.partitions.contains_all(partitions) {
            return Ok(Step::Answer(producer));
        }
        let mut next = Metadata {
            state: State::Ongoing,
            last_update_ms: now.wall_ms,
            start_ms: if is_open { self.current.start_ms } else { now.wall_ms },
            client_version: version,
            ..self.current.clone()
        };
        next.partitions.extend(partitions);
        self.begin(next);
        Ok(Step::Write(Ok(producer)))
    }

    /// Whether partitions may be verified. A pending state does not matter: the partition's leader checks once more
    /// when it appends.
    pub fn check_verifiable(&self, producer: ProducerIdAndEpoch) -> Result<&Partitions, ErrorCode> {
        self.check_producer(producer)?;
        if self.current.state.is_prepared() { Err(self.busy_error()) } else { Ok(&self.current.partitions) }
    }

    /// Whether the sender is the producer that has the id.
    pub(super) fn check_producer(&self, producer: ProducerIdAndEpoch) -> Result<(), ErrorCode> {
        if producer.producer_id != self.current.producer_id {
            return Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
        }
        if producer.epoch != self.current.producer_epoch {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        Ok(())
    }
}
