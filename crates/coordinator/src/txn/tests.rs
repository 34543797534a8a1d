//! The coordinator against a log and partitions in memory: what is stored, what is durable when, what is answered in
//! which version, which markers are sent, and what comes back.

mod api;
mod bounds;
mod failover;
mod fake;
mod markers;
mod producer;
mod random;
mod timers;
