//! DescribeTransactions (key 65), version 0: transactions of which this broker is the coordinator (KIP-664).
//!
//! Behaviour:
//! - Needs: DESCRIBE on each transactional id (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). Topics that the client may not
//!   DESCRIBE are left out.
//! - With the partitions that the transaction has written to so far. An id that is named twice is described once.
//! - An id that nobody has used is TRANSACTIONAL_ID_NOT_FOUND.

use std::collections::BTreeSet;
use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::ErrorCode;
use wire::api::describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse, TransactionState};

use super::RequestContext;
use super::access::denied;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    mut request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    let access = context.access(broker);
    let ids = &mut request.transactional_ids;
    let denied = denied(ids, |id| access.transactional_id(AclOperation::Describe, id));
    let mut response = broker.transactions.describe(request);
    if access.is_restricted() {
        for state in &mut response.transaction_states {
            state.topics.retain(|topic| access.shows(AclOperation::Describe, ResourceType::Topic, &topic.topic));
        }
    }
    let denied = denied.into_iter().collect::<BTreeSet<_>>().into_iter();
    response.transaction_states.extend(denied.map(|transactional_id| TransactionState {
        error_code: ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        transactional_id,
        ..Default::default()
    }));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::test_producer::{TOPIC, TestProducer, V1, start};
    use crate::api::test_support::context;

    async fn describe(broker: &Arc<Broker>, ids: &[&str]) -> Vec<TransactionState> {
        let transactional_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        handle(broker, &context(0), DescribeTransactionsRequest { transactional_ids }).await.transaction_states
    }

    #[tokio::test]
    async fn an_open_transaction_is_described_with_its_partitions() {
        let broker = start(0).await;
        let producer = TestProducer::init(&broker, "id", V1).await;
        assert_eq!(producer.add(&[1, 0, 1]).await, ErrorCode::NONE);
        let described = describe(&broker, &["id", "id"]).await;
        let [state] = &described[..] else { panic!("{described:?}") };
        assert_eq!((state.error_code, &*state.transaction_state), (ErrorCode::NONE, "Ongoing"));
        assert_eq!((state.producer_id, state.producer_epoch), (producer.producer_id, producer.producer_epoch));
        assert_eq!(state.transaction_timeout_ms, 60_000);
        assert!(state.transaction_start_time_ms > 0);
        let topics: Vec<_> = state.topics.iter().map(|topic| (&*topic.topic, &*topic.partitions)).collect();
        assert_eq!(topics, [(TOPIC, &[0, 1][..])]);
    }

    #[tokio::test]
    async fn ids_that_nobody_has_are_answered_one_by_one() {
        let broker = start(0).await;
        TestProducer::init(&broker, "id", V1).await;
        let long = "x".repeat(5_000);
        let errors: Vec<_> = describe(&broker, &["nobody", "", "id", &long])
            .await
            .into_iter()
            .map(|state| (state.transactional_id, state.error_code))
            .collect();
        let expected = [
            ("", ErrorCode::INVALID_REQUEST),
            ("id", ErrorCode::NONE),
            ("nobody", ErrorCode::TRANSACTIONAL_ID_NOT_FOUND),
            (&long, ErrorCode::INVALID_REQUEST),
        ];
        assert_eq!(errors, expected.map(|(id, error)| (id.to_owned(), error)));
        let many: Vec<_> = (0..20_000).map(|number| format!("id-{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let described = describe(&broker, &many).await;
        assert_eq!(described.len(), many.len());
        assert!(described.iter().all(|state| state.error_code == ErrorCode::TRANSACTIONAL_ID_NOT_FOUND));
    }
}
