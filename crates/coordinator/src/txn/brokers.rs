//! AddPartitionsToTxn of brokers, from version 4 on: the leader of a partition has it added when a producer first
//! writes to it, or asks whether it was added (KIP-890). One request speaks for many producers.

use std::sync::Arc;

use wire::ErrorCode;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
};

use super::coordinator::{Begun, TransactionCoordinator, all_results, check_transactional_id, results};
use super::core::{ProducerIdAndEpoch, TransactionVersion};

/// What became of one transaction so far.
enum Asked {
    Answered(Vec<AddPartitionsToTxnTopicResult>),
    Adding(Begun),
}

impl TransactionCoordinator {
    pub async fn add_partitions_batch(
        self: &Arc<Self>,
        request: AddPartitionsToTxnRequest,
    ) -> AddPartitionsToTxnResponse {
        // All are enqueued before the first is waited for.
        let asked: Vec<_> = request.transactions.into_iter().map(|asked| (self.ask(&asked), asked)).collect();
        let mut results_by_transaction = Vec::with_capacity(asked.len());
        for (state, transaction) in asked {
            let topic_results = match state {
                Asked::Answered(results) => results,
                Asked::Adding(begun) => {
                    let error = begun.answer().await.err().unwrap_or(ErrorCode::NONE);
                    all_results(&transaction.topics, error)
                }
            };
            let transactional_id = transaction.transactional_id;
            results_by_transaction.push(AddPartitionsToTxnResult { transactional_id, topic_results });
        }
        AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() }
    }

    fn ask(self: &Arc<Self>, asked: &AddPartitionsToTxnTransaction) -> Asked {
        let producer = ProducerIdAndEpoch { producer_id: asked.producer_id, epoch: asked.producer_epoch };
        let partitions = match self.existing(&asked.topics) {
            Ok(partitions) => partitions,
            Err(results) => return Asked::Answered(results),
        };
        let begun = if asked.verify_only {
            self.verify(asked, producer).map(Asked::Answered)
        } else {
            self.begin_add(&asked.transactional_id, producer, &partitions, TransactionVersion::V2).map(Asked::Adding)
        };
        begun.unwrap_or_else(|error| Asked::Answered(all_results(&asked.topics, error)))
    }

    /// Whether the partitions were added.
    fn verify(
        &self,
        asked: &AddPartitionsToTxnTransaction,
        producer: ProducerIdAndEpoch,
    ) -> Result<Vec<AddPartitionsToTxnTopicResult>, ErrorCode> {
        check_transactional_id(&asked.transactional_id)?;
        let shard = self.shard(&asked.transactional_id)?;
        let state = shard.state.lock();
        state.phase.check()?;
        let transaction = state.get(&asked.transactional_id).ok_or(ErrorCode::INVALID_PRODUCER_ID_MAPPING)?;
        let added = transaction.check_verifiable(producer)?;
        Ok(results(&asked.topics, |topic, partition| {
            if added.contains(topic, partition) { ErrorCode::NONE } else { ErrorCode::TRANSACTION_ABORTABLE }
        }))
    }
}
