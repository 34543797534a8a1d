//! InitProducerId: a producer takes over its transactional id (KIP-98), or goes on after an error (KIP-360).

use wire::ErrorCode;

use super::{
    LAST_CLIENT_EPOCH, Metadata, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Partitions, ProducerIdAndEpoch, State, Step,
    Transaction, TransactionVersion,
};
use crate::txn::Now;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    pub timeout_ms: i32,
    /// What the producer believes to be, if it goes on after an error.
    pub expected: Option<ProducerIdAndEpoch>,
}

impl Transaction {
    /// A transaction that is open is aborted first: the client is told to try again, and asks meanwhile until the abort
    /// is complete. `server_version` says how the coordinator aborts.
    pub fn init_producer_id(
        &mut self,
        now: Now,
        init: InitProducerId,
        server_version: TransactionVersion,
        new_producer_id: Option<i64>,
    ) -> Result<Step, ErrorCode> {
        self.check_settled()?;
        if init.expected.is_some_and(|expected| !self.may_be(expected)) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        if self.current.state == State::Ongoing {
            return Ok(match self.abort(now, server_version, new_producer_id) {
                Some(_) => Step::Write(Err(ErrorCode::CONCURRENT_TRANSACTIONS)),
                None => Step::NeedsProducerId,
            });
        }
        let expected_epoch = init.expected.map(|expected| expected.epoch);
        let is_current = expected_epoch.is_none_or(|epoch| epoch == self.current.producer_epoch);
        let identity = if self.current.is_epoch_exhausted() && is_current {
            let Some(producer_id) = new_producer_id else { return Ok(Step::NeedsProducerId) };
            let last_epoch = expected_epoch.map_or(NO_PRODUCER_EPOCH, |_| self.current.producer_epoch);
            (ProducerIdAndEpoch { producer_id, epoch: 0 }, last_epoch)
        } else {
            self.next_epoch(expected_epoch)?
        };
        Ok(self.begin_empty(now, init.timeout_ms, identity))
    }

    /// Whether a producer may be the one that has the id: any may as long as there is none, and one whose epochs are
    /// exhausted may not have heard of its new producer id.
    fn may_be(&self, expected: ProducerIdAndEpoch) -> bool {
        let Metadata { producer_id, previous_producer_id, producer_epoch, .. } = self.current;
        producer_epoch == NO_PRODUCER_EPOCH
            || expected.producer_id == producer_id
            || (expected.producer_id == previous_producer_id && expected.epoch >= LAST_CLIENT_EPOCH)
    }

    /// The producer's epoch after InitProducerId, and the one that it came from.
    fn next_epoch(&self, expected_epoch: Option<i16>) -> Result<(ProducerIdAndEpoch, i16), ErrorCode> {
        let Metadata { producer_epoch, last_producer_epoch, .. } = self.current;
        let bumped = ProducerIdAndEpoch { epoch: producer_epoch.saturating_add(1), ..self.current.identity() };
        match expected_epoch {
            None => Ok((bumped, NO_PRODUCER_EPOCH)),
            Some(epoch) if epoch == producer_epoch || producer_epoch == NO_PRODUCER_EPOCH => {
                Ok((bumped, producer_epoch))
            }
            // It has not heard of its bump. Another producer would have set the last epoch to none.
            Some(epoch) if epoch == last_producer_epoch => Ok((self.current.identity(), last_producer_epoch)),
            Some(_) => Err(ErrorCode::PRODUCER_FENCED),
        }
    }

    fn begin_empty(
        &mut self,
        now: Now,
        timeout_ms: i32,
        (identity, last_producer_epoch): (ProducerIdAndEpoch, i16),
    ) -> Step {
        self.begin(Metadata {
            producer_id: identity.producer_id,
            previous_producer_id: self.current.producer_id,
            next_producer_id: NO_PRODUCER_ID,
            producer_epoch: identity.epoch,
            last_producer_epoch,
            timeout_ms,
            state: State::Empty,
            partitions: Partitions::default(),
            last_update_ms: now.wall_ms,
            start_ms: -1,
            client_version: self.current.client_version,
        });
        Step::Write(Ok(identity))
    }
}
