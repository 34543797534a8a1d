//! The topics of simulated clusters, and what each is there for.

use coordinator::group::OFFSETS_TOPIC;
use coordinator::txn::TRANSACTION_STATE_TOPIC;

/// A topic: its name, how many partitions it has, and its settings.
pub(super) type Topic = (&'static str, i32, &'static [(&'static str, &'static str)]);

/// What copiers copy, and where to.
pub(super) const SOURCES: &[&str] = &["orders", "payments"];
pub(super) const COPIES: &str = "copies";
/// What has keys, and is compacted.
pub(super) const BALANCES: &str = "balances";

pub(super) const TOPICS: &[Topic] = &[
    ("strict", 2, &[("min.insync.replicas", "2")]),
    ("lenient", 2, &[("min.insync.replicas", "1")]),
    ("aging", 1, &[("min.insync.replicas", "2"), ("retention.ms", "10000")]),
    OFFSETS,
];

const ORDERS: Topic = ("orders", 2, &[("min.insync.replicas", "2")]);
const PAYMENTS: Topic = ("payments", 1, &[("min.insync.replicas", "2")]);
const OFFSETS: Topic = (OFFSETS_TOPIC, 1, &[("min.insync.replicas", "2"), ("cleanup.policy", "compact")]);
const STATES: Topic = (TRANSACTION_STATE_TOPIC, 1, &[("min.insync.replicas", "2"), ("cleanup.policy", "compact")]);

/// Those of a cluster with transactions and consumers that copy.
pub(super) const COPYING_TOPICS: &[Topic] =
    &[ORDERS, PAYMENTS, (COPIES, 1, &[("min.insync.replicas", "2")]), OFFSETS, STATES];

/// Those of a cluster with transactions that write to a compacted topic, too. Its tombstones and markers stay longer
/// than clocks are wrong: a replica that was away when they went would bring back what they have ended.
pub(super) const COMPACTING_TOPICS: &[Topic] = &[
    ORDERS,
    PAYMENTS,
    (
        BALANCES,
        1,
        &[
            ("min.insync.replicas", "2"),
            ("cleanup.policy", "compact"),
            ("segment.ms", "300"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("delete.retention.ms", "2592000000"),
        ],
    ),
    OFFSETS,
    STATES,
];

/// Whether a topic's records are those of a coordinator.
pub(super) fn is_internal(topic: &str) -> bool {
    topic == OFFSETS_TOPIC || topic == TRANSACTION_STATE_TOPIC
}

/// Whether a topic's records have keys, and go when they are not the last of theirs.
pub(super) fn is_compacted(topic: &str) -> bool {
    topic == BALANCES
}

/// Whether everybody writes to a topic.
pub(super) fn is_open(topic: &str) -> bool {
    !is_internal(topic) && !is_compacted(topic) && topic != COPIES
}
