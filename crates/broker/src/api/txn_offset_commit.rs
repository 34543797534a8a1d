//! TxnOffsetCommit (key 28), versions 0-5: a group's positions, as part of a transaction (KIP-447, KIP-890).
//!
//! Behaviour:
//! - Needs: WRITE on the transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, of all partitions), READ on the group
//!   (GROUP_AUTHORIZATION_FAILED, likewise) and READ on each topic (TOPIC_AUTHORIZATION_FAILED). The other topics are
//!   committed.
//! - The offsets are pending until the transaction ends, and visible when it commits.
//! - The transaction's coordinator is asked whether the group's partition belongs to it; from version 5 on it is added.
//! - Otherwise as OffsetCommit.

use std::sync::Arc;

use coordinator::group::OFFSETS_TOPIC;
use metadata::acl::AclOperation;
use storage::{Verification, VerificationGuard};
use wire::ErrorCode;
use wire::api::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic, TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
};

use super::RequestContext;
use super::access::denied;
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
    let access = context.access(broker);
    let granted = access.check_transactional_id(AclOperation::Write, &request.transactional_id);
    let granted = granted.and_then(|()| access.check_group(AclOperation::Read, &request.group_id));
    if let Err(error_code) = granted {
        let topics = request.topics.into_iter().map(|topic| refuse(topic, error_code)).collect();
        return TxnOffsetCommitResponse { topics, ..Default::default() };
    }
    let denied = denied(&mut request.topics, |topic| access.topic(AclOperation::Read, &topic.name));
    let support = TransactionSupport::of_version(context.api_version, ABORTABLE_SINCE, ADDS_PARTITIONS_SINCE);
    let partition = broker.groups.partition_for(&request.group_id);
    let producer = TransactionalProducer {
        transactional_id: std::mem::take(&mut request.transactional_id),
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
    };
    let verification = verify(broker, partition, producer, support);
    let (version, host) = (context.api_version, context.client_address.ip());
    let mut response = broker.groups.txn_offset_commit(version, host, request, verification).await;
    let denied = denied.into_iter().map(|topic| refuse(topic, ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    response.topics.extend(denied);
    response
}

fn refuse(topic: TxnOffsetCommitRequestTopic, error_code: ErrorCode) -> TxnOffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| TxnOffsetCommitResponsePartition { partition_index: partition.partition_index, error_code });
    let partitions = partitions.collect();
    TxnOffsetCommitResponseTopic { name: topic.name, partitions }
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
