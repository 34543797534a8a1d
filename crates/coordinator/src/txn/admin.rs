//! DescribeTransactions and ListTransactions: what administrators see (KIP-664, KIP-994, KIP-1152).

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};
use wire::ErrorCode;
use wire::api::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};
use wire::api::list_transactions::{self, ListTransactionsRequest, ListTransactionsResponse};

use super::coordinator::{TransactionCoordinator, check_transactional_id};
use super::core::{State, Transaction};

/// Bound on the memory of a pattern, which a client chooses.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

impl TransactionCoordinator {
    pub fn describe(&self, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse {
        let describe = |transactional_id: String| match self.try_describe(&transactional_id) {
            Ok(described) => described,
            Err(error_code) => TransactionState { error_code, transactional_id, ..Default::default() },
        };
        // An id that is named twice is described once.
        let ids: BTreeSet<_> = request.transactional_ids.into_iter().collect();
        let transaction_states = ids.into_iter().map(describe).collect();
        DescribeTransactionsResponse { transaction_states, ..Default::default() }
    }

    fn try_describe(&self, transactional_id: &str) -> Result<TransactionState, ErrorCode> {
        check_transactional_id(transactional_id)?;
        let shard = self.shard(transactional_id)?;
        let state = shard.state.lock();
        state.phase.check()?;
        let visible = state.get(transactional_id).filter(|transaction| is_visible(transaction));
        let current = visible.ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)?.current();
        let topics = current.partitions.topics().map(|(topic, partitions)| TopicData {
            topic: topic.to_owned(),
            partitions: partitions.iter().copied().collect(),
        });
        Ok(TransactionState {
            error_code: ErrorCode::NONE,
            transactional_id: transactional_id.to_owned(),
            transaction_state: current.state.name().to_owned(),
            transaction_timeout_ms: current.timeout_ms,
            transaction_start_time_ms: current.start_ms,
            producer_id: current.producer_id,
            producer_epoch: current.producer_epoch,
            topics: topics.collect(),
        })
    }

    /// The ids that this broker coordinates, as far as they pass all filters. Fails while a part of them is being
    /// loaded.
    pub fn list(&self, request: &ListTransactionsRequest) -> ListTransactionsResponse {
        match self.try_list(request) {
            Ok(response) => response,
            Err(error_code) => ListTransactionsResponse { error_code, ..Default::default() },
        }
    }

    fn try_list(&self, request: &ListTransactionsRequest) -> Result<ListTransactionsResponse, ErrorCode> {
        let pattern = request.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
        let pattern = pattern.map(full_match).transpose()?;
        let (known, unknown): (Vec<_>, Vec<_>) = request.state_filters.iter().partition(|name| is_state(name));
        let producer_ids: BTreeSet<_> = request.producer_id_filters.iter().collect();
        let now_ms = self.now().wall_ms;
        let passes = |transactional_id: &str, transaction: &Transaction| {
            let current = transaction.current();
            is_visible(transaction)
                && (producer_ids.is_empty() || producer_ids.contains(&current.producer_id))
                && (request.state_filters.is_empty() || known.iter().any(|name| *name == current.state.name()))
                && (request.duration_filter < 0 || now_ms.saturating_sub(current.start_ms) > request.duration_filter)
                && pattern.as_ref().is_none_or(|pattern| pattern.is_match(transactional_id))
        };
        let mut transaction_states = Vec::new();
        for shard in self.shards() {
            let state = shard.state.lock();
            match state.phase.check() {
                Err(ErrorCode::NOT_COORDINATOR) => continue,
                active => active?,
            }
            for (transactional_id, transaction) in state.iter().filter(|(id, transaction)| passes(id, transaction)) {
                transaction_states.push(list_transactions::TransactionState {
                    transactional_id: transactional_id.to_owned(),
                    producer_id: transaction.current().producer_id,
                    transaction_state: transaction.current().state.name().to_owned(),
                });
            }
        }
        let unknown_state_filters = unknown.into_iter().cloned().collect();
        Ok(ListTransactionsResponse { unknown_state_filters, transaction_states, ..Default::default() })
    }
}

/// Whether an id is stored and not about to be forgotten.
fn is_visible(transaction: &Transaction) -> bool {
    !transaction.is_expiring()
}

fn is_state(name: &str) -> bool {
    State::ALL.iter().any(|state| state.name() == name) || State::TRANSIENT_NAMES.contains(&name)
}

/// A pattern that has to match the whole id. It has to be valid without what is put around it.
fn full_match(pattern: &str) -> Result<Regex, ErrorCode> {
    let compile = |pattern: &str| {
        let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        compiled.map_err(|_| ErrorCode::INVALID_REGULAR_EXPRESSION)
    };
    compile(pattern)?;
    compile(&format!(r"\A(?:{pattern})\z"))
}
