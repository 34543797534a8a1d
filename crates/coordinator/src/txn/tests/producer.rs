//! A producer, as short as tests want to speak of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use wire::ErrorCode;
use wire::api::add_offsets_to_txn::AddOffsetsToTxnRequest;
use wire::api::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use wire::api::end_txn::EndTxnRequest;
use wire::api::init_producer_id::InitProducerIdRequest;

use super::fake::CLIENT;
use crate::txn::TransactionCoordinator;

/// The newest versions that a client of transaction version 1 and 2 speaks.
pub(super) const END_V1: i16 = 4;
pub(super) const END_V2: i16 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) transactional_id: String,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
}

pub(super) fn init_request(transactional_id: &str, expected: Option<(i64, i16)>) -> InitProducerIdRequest {
    let (producer_id, producer_epoch) = expected.unwrap_or((-1, -1));
    InitProducerIdRequest {
        transactional_id: Some(transactional_id.to_owned()),
        transaction_timeout_ms: 60_000,
        producer_id,
        producer_epoch,
    }
}

pub(super) async fn init(
    txn: &Arc<TransactionCoordinator>,
    transactional_id: &str,
    expected: Option<(i64, i16)>,
) -> Result<Producer, ErrorCode> {
    let answer = txn.init_producer_id(5, CLIENT, init_request(transactional_id, expected)).await;
    let (producer_id, epoch) = (answer.producer_id, answer.producer_epoch);
    match answer.error_code {
        ErrorCode::NONE => Ok(Producer { transactional_id: transactional_id.to_owned(), producer_id, epoch }),
        error => Err(error),
    }
}

/// A producer that has its epoch, also if another one's transaction has to be aborted first.
pub(super) async fn ready(txn: &Arc<TransactionCoordinator>, transactional_id: &str) -> Producer {
    loop {
        match init(txn, transactional_id, None).await {
            Ok(producer) => return producer,
            Err(error) => assert_eq!(error, ErrorCode::CONCURRENT_TRANSACTIONS),
        }
        sleep(Duration::from_millis(10)).await;
    }
}

pub(super) fn topics(partitions: &[(&str, i32)]) -> Vec<AddPartitionsToTxnTopic> {
    let topic = |(name, partition): &(&str, i32)| AddPartitionsToTxnTopic {
        name: (*name).to_owned(),
        partitions: vec![*partition],
    };
    partitions.iter().map(topic).collect()
}

impl Producer {
    pub(super) fn add_request(&self, partitions: &[(&str, i32)]) -> AddPartitionsToTxnRequest {
        AddPartitionsToTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            topics: topics(partitions),
            ..Default::default()
        }
    }

    /// Adds partitions as a client does. Returns the first error.
    pub(super) async fn add(
        &self,
        txn: &Arc<TransactionCoordinator>,
        partitions: &[(&str, i32)],
    ) -> Result<(), ErrorCode> {
        let answer = txn.add_partitions(3, self.add_request(partitions)).await;
        let errors = answer.results_by_topic.iter().flat_map(|topic| &topic.results_by_partition);
        let mut errors = errors.map(|result| result.partition_error_code);
        errors.find(|error| *error != ErrorCode::NONE).map_or(Ok(()), Err)
    }

    pub(super) fn asked(&self, verify_only: bool, partitions: &[(&str, i32)]) -> AddPartitionsToTxnTransaction {
        AddPartitionsToTxnTransaction {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            verify_only,
            topics: topics(partitions),
        }
    }

    /// Has the leader of a partition add it, or verify that it was added.
    pub(super) async fn ask(
        &self,
        txn: &Arc<TransactionCoordinator>,
        verify_only: bool,
        partition: (&str, i32),
    ) -> ErrorCode {
        let transactions = vec![self.asked(verify_only, &[partition])];
        let request = AddPartitionsToTxnRequest { transactions, ..Default::default() };
        let mut answer = txn.add_partitions_batch(request).await;
        let result = answer.results_by_transaction.remove(0);
        assert_eq!((answer.error_code, &result.transactional_id), (ErrorCode::NONE, &self.transactional_id));
        result.topic_results[0].results_by_partition[0].partition_error_code
    }

    pub(super) async fn add_offsets(&self, txn: &Arc<TransactionCoordinator>, version: i16, group: &str) -> ErrorCode {
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            group_id: group.to_owned(),
        };
        txn.add_offsets(version, request).await.error_code
    }

    /// Ends the transaction. The producer goes on with what it is told.
    pub(super) async fn end(
        &mut self,
        txn: &Arc<TransactionCoordinator>,
        version: i16,
        committed: bool,
    ) -> Result<(), ErrorCode> {
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            committed,
        };
        let answer = txn.end_txn(version, request).await;
        if answer.error_code != ErrorCode::NONE {
            assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1));
            return Err(answer.error_code);
        }
        if version >= END_V2 {
            (self.producer_id, self.epoch) = (answer.producer_id, answer.producer_epoch);
        }
        Ok(())
    }
}

/// Lets everything happen that does not wait for time.
pub(super) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}
