//! The coordinator against a log and partitions in memory.
