//! ListTransactions (key 66), versions 0-2: the transactional ids of which this broker is the coordinator (KIP-664,
//! KIP-994, KIP-1152).
//!
//! Behaviour:
//! - Needs: DESCRIBE on each transactional id: others are left out.
//! - By state, producer, age and a regular expression that the whole id has to match. States that are unknown are named
//!   in the answer; an expression that is none is INVALID_REGULAR_EXPRESSION.

use std::sync::Arc;

use metadata::acl::{AclOperation, ResourceType};
use wire::api::list_transactions::{ListTransactionsRequest, ListTransactionsResponse};

use super::RequestContext;
use crate::Broker;
use crate::memory::LargeAnswer;

pub(super) async fn handle(
    broker: &Arc<Broker>,
    context: &RequestContext,
    request: ListTransactionsRequest,
) -> ListTransactionsResponse {
    let _permit = context.large_answer(broker, LargeAnswer::Described).await;
    let mut response = broker.transactions.list(&request);
    let access = context.access(broker);
    if access.is_restricted() {
        let shows = |id: &str| access.shows(AclOperation::Describe, ResourceType::TransactionalId, id);
        response.transaction_states.retain(|state| shows(&state.transactional_id));
    }
    response
}

#[cfg(test)]
mod tests {
    use wire::ErrorCode;

    use super::*;
    use crate::api::test_producer::{TestProducer, V1, start, wait_for_marker};
    use crate::api::test_support::{TestBroker, context};

    /// Of three transactional ids `open` has a transaction, `done` has had one and `new` has not.
    async fn begin(broker: &TestBroker) -> [i64; 3] {
        let open = TestProducer::init(broker, "open", V1).await;
        let mut done = TestProducer::init(broker, "done", V1).await;
        let new = TestProducer::init(broker, "new", V1).await;
        assert_eq!((open.add(&[0]).await, done.add(&[0]).await), (ErrorCode::NONE, ErrorCode::NONE));
        assert_eq!((done.produce(0).await, done.end(true).await), (ErrorCode::NONE, ErrorCode::NONE));
        // Only then it is complete, and not before the next one may begin.
        wait_for_marker(broker, 0, 1).await;
        while list(broker, states(&["CompleteCommit"])).await.1.is_empty() {
            tokio::task::yield_now().await;
        }
        [open.producer_id, done.producer_id, new.producer_id]
    }

    fn states(names: &[&str]) -> ListTransactionsRequest {
        let state_filters = names.iter().map(|name| (*name).to_owned()).collect();
        ListTransactionsRequest { state_filters, ..Default::default() }
    }

    /// The states that are unknown, and the ids that are found.
    async fn list(broker: &TestBroker, request: ListTransactionsRequest) -> (Vec<String>, Vec<String>) {
        let answer = handle(broker, &context(2), request).await;
        assert_eq!(answer.error_code, ErrorCode::NONE);
        let mut ids: Vec<_> = answer.transaction_states.into_iter().map(|found| found.transactional_id).collect();
        ids.sort();
        (answer.unknown_state_filters, ids)
    }

    #[tokio::test]
    async fn each_filter_lets_through_what_it_names() {
        let broker = start(0).await;
        let [open, done, _] = begin(&broker).await;
        let of_producers = |ids: &[i64]| ListTransactionsRequest { producer_id_filters: ids.to_vec(), ..states(&[]) };
        let older_than = |duration_filter| ListTransactionsRequest { duration_filter, ..states(&[]) };
        let like = |pattern: &str| ListTransactionsRequest {
            transactional_id_pattern: Some(pattern.to_owned()),
            ..states(&[])
        };
        for (request, unknown, found) in [
            (states(&[]), &[][..], &["done", "new", "open"][..]),
            (states(&["Ongoing", "Empty"]), &[], &["new", "open"]),
            (states(&["Ongoing", "ongoing", "Gone"]), &["ongoing", "Gone"], &["open"]),
            (states(&["Gone"]), &["Gone"], &[]),
            (states(&["Dead", "PrepareEpochFence", "PrepareAbort"]), &[], &[]),
            (of_producers(&[done, open, done, -1]), &[], &["done", "open"]),
            (of_producers(&[-1]), &[], &[]),
            // One that has never begun is older than anything, as in Kafka.
            (older_than(3_600_000), &[], &["new"]),
            (older_than(i64::MAX), &[], &[]),
            (older_than(i64::MIN), &[], &["done", "new", "open"]),
            (like(""), &[], &["done", "new", "open"]),
            (like("ope"), &[], &[]),
            (like("o.*|.e."), &[], &["new", "open"]),
            (ListTransactionsRequest { producer_id_filters: vec![open], ..like("new") }, &[], &[]),
        ] {
            let asked = format!("{request:?}");
            let (told, ids) = list(&broker, request).await;
            assert_eq!((told, ids), (unknown.iter().map(ToString::to_string).collect(), owned(found)), "{asked}");
        }
    }

    fn owned(ids: &[&str]) -> Vec<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[tokio::test]
    async fn a_pattern_that_is_none_or_takes_too_much_is_refused() {
        let broker = start(0).await;
        for pattern in ["(", "a)(b", "((((((((((a{100}){100}){100}){100}){100}){100}){100}){100}){100}){100})"] {
            let request = ListTransactionsRequest { transactional_id_pattern: Some(pattern.to_owned()), ..states(&[]) };
            let answer = handle(&broker, &context(2), request).await;
            assert_eq!(answer.error_code, ErrorCode::INVALID_REGULAR_EXPRESSION, "{pattern}");
            assert!(answer.transaction_states.is_empty());
        }
    }
}
