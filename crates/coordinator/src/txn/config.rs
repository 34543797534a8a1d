//! Settings of the transaction coordinator under Kafka's names, with Kafka's defaults.

use configuration::BrokerConfig;

/// What the coordinator is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`
    pub max_timeout_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    pub abort_timed_out_interval_ms: i64,
    /// `transactional.id.expiration.ms`
    pub id_expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`
    pub remove_expired_interval_ms: i64,
    /// `transaction.state.log.num.partitions`: how ids are spread as long as the topic does not exist.
    pub state_topic_num_partitions: i32,
    /// `transaction.state.log.load.buffer.size`
    pub load_buffer_bytes: u32,
    /// For how long a request waits for its record. Kafka waits for as long as the transaction may last.
    pub append_timeout_ms: i64,
    /// Bound on the estimated memory of all ids. Kafka has none. No address may take all of it.
    pub max_memory_bytes: usize,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        Self {
            max_timeout_ms: 900_000,
            abort_timed_out_interval_ms: 10_000,
            id_expiration_ms: 7 * 24 * 60 * 60 * 1000,
            remove_expired_interval_ms: 60 * 60 * 1000,
            state_topic_num_partitions: 50,
            load_buffer_bytes: 5 * 1024 * 1024,
            append_timeout_ms: 5_000,
            max_memory_bytes: 256 * 1024 * 1024,
        }
    }
}

impl From<&BrokerConfig> for TransactionConfig {
    fn from(config: &BrokerConfig) -> Self {
        Self {
            max_timeout_ms: config.transaction_max_timeout_ms,
            abort_timed_out_interval_ms: config.transaction_abort_timed_out_transaction_cleanup_interval_ms.into(),
            id_expiration_ms: config.transactional_id_expiration_ms.into(),
            remove_expired_interval_ms: config.transaction_remove_expired_transaction_cleanup_interval_ms.into(),
            state_topic_num_partitions: config.transaction_state_log_num_partitions,
            load_buffer_bytes: config.transaction_state_log_load_buffer_size.unsigned_abs(),
            ..Self::default()
        }
    }
}
