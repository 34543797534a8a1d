"""Kafka's Java producer, consumer and admin client, one scenario of compat/java each."""

from harness.case import case

SCENARIOS = {
    "java-administration": "Administration",
    "java-commits": "Commits",
    "java-compaction": "Compaction",
    "java-compression": "Compression",
    "java-consumer-commits": "ConsumerCommits",
    "java-fetching": "Fetching",
    "java-idempotence": "Idempotence",
    "java-interleaved-transactions": "InterleavedTransactions",
    "java-live-configs": "LiveConfigs",
    "java-many-partitions": "ManyPartitions",
    "java-migration": "Migration",
    "java-offsets-in-transactions": "OffsetsInTransactions",
    "java-patterns": "Patterns",
    "java-rebalances": "Rebalances",
    "java-records": "Records",
    "java-remote-assignors": "RemoteAssignors",
    "java-static-consumers": "StaticConsumers",
    "java-static-membership": "StaticMembership",
    "java-static-migration": "StaticMigration",
    "java-timestamps": "Timestamps",
    "java-transaction-fencing": "TransactionFencing",
    "java-transactions": "Transactions",
}

for name, scenario in SCENARIOS.items():
    case(name)(lambda c, scenario=scenario: c.java(scenario))
