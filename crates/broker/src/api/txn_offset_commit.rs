//! TxnOffsetCommit (key 28), versions 0-5: a group's positions, as part of a transaction (KIP-447, KIP-890).
//!
//! Behaviour:
//! - The offsets are pending until the transaction ends, and visible when it commits.
//! - The transaction's coordinator is asked whether the group's partition belongs to it; from version 5 on it is added.
//! - Otherwise as OffsetCommit.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use storage::{Verification, VerificationGuard};
use wire::ErrorCode;
use wire::api::txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::RequestContext;
use crate::Broker;
use crate::coordination::{TransactionSupport, TransactionalProducer};
use crate::threads::spawn_blocking;

/// The versions of [`TransactionSupport::of_version`].
const ABORTABLE_SINCE: i16 = 4;
const ADDS_PARTITIONS_SINCE: i16 = 5;
/// Records of offsets have no sequence.
const NO_SEQUENCE: i32 = -1;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let support = TransactionSupport::of_version(context.api_version, ABORTABLE_SINCE, ADDS_PARTITIONS_SINCE);
    let partition = broker.groups.partition_for(&request.group_id);
    let producer = TransactionalProducer {
        transactional_id: std::mem::take(&mut request.transactional_id),
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
    };
    let verification = verify(broker, partition, producer, support);
    broker.groups.txn_offset_commit(context.api_version, context.client_address.ip(), request, verification).await
}

async fn verify(
    broker: &Arc<Broker>,
    index: i32,
    producer: TransactionalProducer,
    support: TransactionSupport,
) -> Result<Option<VerificationGuard>, ErrorCode> {
    let partition = broker.partitions.find_by_name(OFFSETS_TOPIC, index)?;
    let topic = Arc::clone(&partition.topic);
    let (id, epoch, version) = (producer.producer_id, producer.producer_epoch, support.transaction_version());
    let start = move || partition.start_verification(id, epoch, NO_SEQUENCE, version);
    let started = spawn_blocking(start).await.map_err(|_| ErrorCode::UNKNOWN_SERVER_ERROR)?;
    let Verification::Needed(guard) = started.map_err(|refusal| refusal.code)? else { return Ok(None) };
    let errors = broker.verifier.verify(&producer, &[(topic, index)], support).await;
    errors.into_values().next().map_or(Ok(Some(guard)), Err)
}
